//! The plan of an evaluation: lengths, generators and settings of layers.

use super::names::read_name;
use super::{Failure, read_length, read_positive};
use aleatron::eval::Plan;
use aleatron::fault::{FaultKind, FaultRate, FaultSites};
use aleatron::generator::{GeneratorName, Sharing, WidthChoice};
use aleatron::network::{Arithmetic, LayerOverride, ValueRange, read_layers};
use aleatron::{Device, EngineError};
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Streams")]
pub(crate) struct PlanOptions {
    /// Let features that the first layer cannot encode saturate, and count them.
    #[arg(long)]
    clip: bool,
    /// Lengths of streams in bits.
    #[arg(long, value_delimiter = ',', value_name = "BITS,...", value_parser = read_length, allow_hyphen_values = true,
        default_values_t = Plan::default().lengths)]
    lengths: Vec<usize>,
    /// bernoulli, sobol, lfsr, halton, vdc, ramp, or one for inputs and one for weights, as in
    /// sobol:1+lfsr:77 or bernoulli+sobol:2; or int8, int4 and the like, a binary circuit that
    /// multiplies integers of so many bits, to compare with.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", value_parser = read_name::<GeneratorName>,
        default_values_t = Plan::default().generators)]
    pub(crate) generators: Vec<GeneratorName>,
    /// Seeds for generators that have one.
    #[arg(long, value_name = "N", value_parser = read_positive, allow_hyphen_values = true,
        default_value_t = Plan::default().seeds)]
    seeds: usize,
    /// Bits of the sequences that streams share, 1 to 32, or auto: as many as the length covers if
    /// a generator needs its whole period, otherwise eight.
    #[arg(long, value_name = "BITS", default_value = "auto", allow_hyphen_values = true,
        value_parser = read_name::<WidthChoice>)]
    width: WidthChoice,
    /// How many independent sequences streams share: all (one for inputs, one for weights), input
    /// (a pair for each) or stream.
    #[arg(long, value_name = "HOW", default_value_t = Sharing::OneForAll, value_parser = read_name::<Sharing>)]
    sharing: Sharing,
    /// Settings of one layer: NAME:length=64,generator=sobol,width=6,sharing=input, any of them.
    /// May be given several times.
    #[arg(long = "layer", value_name = "NAME:SETTINGS", value_parser = read_layer)]
    layers: Vec<(String, LayerOverride)>,
    /// Settings of layers from a JSON file: {"NAME": {"length": 64, "generator": "sobol"}, ...},
    /// the same settings as those of --layer.
    #[arg(long = "layers", value_name = "FILE")]
    pub(crate) layers_file: Option<PathBuf>,
    /// The inter-layer arithmetic: float, or integer as in a circuit.
    #[arg(long, value_name = "KIND", default_value_t = Arithmetic::Float, value_parser = read_name::<Arithmetic>)]
    arithmetic: Arithmetic,
    /// Fault rates, such as 0,1e-4,1e-3: the probability that a bit of a site flips, 0 or from
    /// 1e-9 to 0.5. 0 is the network without faults.
    #[arg(long, value_delimiter = ',', value_name = "RATE,...", value_parser = read_name::<FaultRate>, allow_hyphen_values = true, help_heading = "Faults")]
    pub(crate) faults: Vec<FaultRate>,
    /// Sites of faults, evaluated one after the other: inputs, weights, streams (both), products,
    /// counters, accumulators, memory, stuck-at-0, stuck-at-1, generators or activations.
    /// Sites joined by + have faults at the same time.
    #[arg(long, value_delimiter = ',', value_name = "SITE,...", value_parser = read_name::<FaultSites>, requires = "faults",
        default_values_t = Plan::default().fault_sites, help_heading = "Faults")]
    fault_site: Vec<FaultSites>,
    /// The kind of faults: transient, permanent or burst=CYCLES. Without it, memory and stuck
    /// generators have permanent faults and all others transient ones.
    #[arg(long, value_name = "KIND", value_parser = read_name::<FaultKind>, requires = "faults", help_heading = "Faults")]
    fault_kind: Option<FaultKind>,
    /// The layers that have the faults; all without it.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAME,...",
        requires = "faults",
        help_heading = "Faults"
    )]
    fault_layer: Vec<String>,
    /// Where to run: auto (wherever it is faster), cpu, gpu, gpu:1, or several as in gpu:0,gpu:1.
    /// It changes times and nothing else.
    #[arg(long, default_value_t, value_parser = read_name::<Device>, help_heading = "Execution")]
    pub(crate) device: Device,
}

/// Reads NAME:SETTINGS. A name may have colons; settings begin after the last one before an equals
/// sign.
pub(crate) fn read_layer(text: &str) -> Result<(String, LayerOverride), String> {
    let fault =
        || "use NAME:length=64,generator=sobol,width=6,sharing=input, any of them".to_owned();
    let settings = text.find('=').and_then(|equals| text[..equals].rfind(':')).ok_or_else(fault)?;
    let (name, rest) = (&text[..settings], text[settings + 1..].to_ascii_lowercase());
    Ok((name.to_owned(), rest.parse().map_err(|error: EngineError| error.to_string())?))
}

/// Adds settings of layers to others; each layer may be given once.
pub(crate) fn layer_map(
    mut map: BTreeMap<String, LayerOverride>,
    layers: &[(String, LayerOverride)],
) -> Result<BTreeMap<String, LayerOverride>, Failure> {
    for (name, layer) in layers {
        if map.insert(name.clone(), *layer).is_some() {
            return Err(Failure::Usage(format!("--layer: \"{name}\" is given twice")));
        }
    }
    Ok(map)
}

impl PlanOptions {
    pub(crate) fn plan(&self) -> Result<Plan, Failure> {
        let mut plan = Plan {
            lengths: self.lengths.clone(),
            generators: self.generators.clone(),
            seeds: self.seeds,
            width: self.width,
            sharing: self.sharing,
            arithmetic: self.arithmetic,
            range: if self.clip { ValueRange::Saturate } else { ValueRange::Check },
            device: self.device.clone(),
            faults: self.faults.clone(),
            fault_sites: self.fault_site.clone(),
            fault_kind: self.fault_kind,
            fault_layers: self.fault_layer.clone(),
            ..Plan::default()
        };
        if let Some(path) = &self.layers_file {
            plan.layers = read_layers(path)?;
        }
        plan.layers = layer_map(plan.layers, &self.layers)?;
        Ok(plan)
    }
}

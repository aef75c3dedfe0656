//! `aleatron rtl`: the circuit of a network in Verilog, checked against the engine.

use super::data::DataOptions;
use super::names::read_name;
use super::plan::{layer_map, read_layer};
use super::source::{Calibrated, NetworkOptions, check_samples};
use super::{Failure, Outcome, read_length, read_positive};
use crate::{Verdict, output};
use aleatron::SampleSeed;
use aleatron::data::{Dataset, LabelKind};
use aleatron::generator::{GeneratorName, Sharing, WidthChoice};
use aleatron::hardware::cost::PartValues;
use aleatron::hardware::simulate::{self, Simulator};
use aleatron::hardware::synthesis::{Boundaries, Synthesized};
use aleatron::hardware::{
    Bench, Circuit, ClockGating, Design, EarlyTrace, InputInterval, Margin, Options, Output,
    Pipeline, Trace,
};
use aleatron::network::{Arithmetic, LayerOverride, StreamConfig, ValueRange};
use serde_json::json;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    aleatron rtl noise_aware --length 64 --generator lfsr --out circuit --check\n  \
    aleatron rtl model.onnx --data test.npz --length 64 --generator sobol \\\n      --out circuit --synth --energy")]
pub(crate) struct Arguments {
    #[command(flatten)]
    network: NetworkOptions,
    #[command(flatten)]
    data: DataOptions,
    /// Bits of a stream.
    #[arg(long, value_name = "BITS", value_parser = read_length, default_value_t = 64, help_heading = "Streams")]
    length: usize,
    /// The generator of the streams: lfsr, sobol, halton, vdc, ramp, or a pair of them; or int8
    /// and the like for a binary circuit that multiplies integers. Bernoulli streams have no
    /// hardware.
    #[arg(long, value_name = "NAME", value_parser = read_name::<GeneratorName>, default_value = "lfsr", help_heading = "Streams")]
    generator: GeneratorName,
    /// The width of the sequences and comparators in bits, or auto.
    #[arg(long, value_name = "BITS", default_value = "auto", value_parser = read_name::<WidthChoice>, help_heading = "Streams")]
    width: WidthChoice,
    /// The sequences that streams share: all, input or stream.
    #[arg(long, value_name = "HOW", default_value_t = Sharing::OneForAll, value_parser = read_name::<Sharing>, help_heading = "Streams")]
    sharing: Sharing,
    /// Settings of one layer: NAME:length=64,width=6, any of those of `aleatron eval --layer`. May
    /// be given several times.
    #[arg(long = "layer", value_name = "NAME:SETTINGS", value_parser = read_layer, help_heading = "Streams")]
    layers: Vec<(String, LayerOverride)>,
    /// The seed of generators that have one.
    #[arg(long, default_value_t = SampleSeed::DEFAULT, help_heading = "Streams")]
    seed: u64,
    /// The neurons that a layer computes at a time; all of them if not given.
    #[arg(long, value_name = "N", value_parser = read_positive, help_heading = "Circuit")]
    lanes: Option<usize>,
    /// Put registers between comparators and counters.
    #[arg(long, help_heading = "Circuit")]
    pipeline: bool,
    /// Let the index of the greatest score leave the circuit instead of the scores.
    #[arg(long, help_heading = "Circuit")]
    class: bool,
    /// Stop the last layer as soon as the best score leads by this many standard deviations of the
    /// counting noise; 3 is a usual margin.
    #[arg(long, value_name = "DEVIATIONS", value_parser = read_margin, requires = "class", help_heading = "Circuit")]
    early_margin: Option<Margin>,
    /// Declare that features never become negative inputs, which saves area in layers of signed
    /// streams.
    #[arg(long, help_heading = "Circuit")]
    non_negative: bool,
    /// Gate the clocks of registers with cells; without it, registers have enables, which suits
    /// FPGAs.
    #[arg(long, help_heading = "Circuit")]
    clock_gating: bool,
    /// The folder for the files of the circuit.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    out: PathBuf,
    /// Simulate the circuit and compare every threshold, count, value and score with the engine.
    #[arg(long, help_heading = "Simulation")]
    check: bool,
    /// With --check, simulate the netlist of gates that Yosys makes of the circuit as well.
    #[arg(long, requires = "check", help_heading = "Simulation")]
    netlist: bool,
    /// The simulator of --check: icarus or verilator; the first one that is installed if not
    /// given.
    #[arg(long, value_name = "NAME", value_parser = read_name::<Simulator>, requires = "check", help_heading = "Simulation")]
    simulator: Option<Simulator>,
    /// Synthesize the circuit with Yosys and show its area by part in gate equivalents and the
    /// depth of its logic.
    #[arg(long, help_heading = "Synthesis")]
    synth: bool,
    /// Let --synth and --energy optimize the whole design at once, which is smaller, instead of
    /// part by part.
    #[arg(long, help_heading = "Synthesis")]
    flatten: bool,
    /// Simulate the gates of the synthesized circuit and show the energy of a sample by part.
    #[arg(long, help_heading = "Synthesis")]
    energy: bool,
    /// The Liberty file of the cells of --synth and --energy; a table of generic gates if not
    /// given.
    #[arg(long, value_name = "FILE", help_heading = "Synthesis")]
    liberty: Option<PathBuf>,
    /// The samples in the vectors of the test bench.
    #[arg(long, value_name = "N", value_parser = read_positive, default_value_t = 2, help_heading = "Simulation")]
    samples: usize,
}

impl Arguments {
    fn options(&self) -> Options {
        Options {
            lanes: self.lanes,
            pipeline: if self.pipeline { Pipeline::Registers } else { Pipeline::None },
            output: if self.class { Output::Class } else { Output::Scores },
            inputs: if self.non_negative {
                InputInterval::NonNegative
            } else {
                InputInterval::Signed
            },
            clock_gating: if self.clock_gating { ClockGating::Cells } else { ClockGating::Enables },
            early_termination: self.early_margin,
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let kind = LabelKind::Classes;
    arguments.data.check(kind, arguments.network.calibrate.as_deref())?;
    let simulator = match (arguments.check, arguments.simulator) {
        (false, _) => None,
        (true, Some(simulator)) => Some(simulator),
        (true, None) => Some(Simulator::installed()?),
    };
    if !arguments.synth && !arguments.energy {
        for (option, is_given) in
            [("--liberty FILE", arguments.liberty.is_some()), ("--flatten", arguments.flatten)]
        {
            if is_given {
                return Err(Failure::Usage(format!("{option} needs --synth or --energy")));
            }
        }
    }
    let network = arguments.network.load()?;
    let data = arguments.data.read(kind)?;
    check_samples(&network, &data)?;
    let Calibrated { network, is_calibrated, warnings, .. } =
        arguments.network.calibrate(network, &data, &arguments.data, kind)?;
    warnings.iter().for_each(|warning| output::message(format!("warning: {warning}")));
    let range = if is_calibrated { ValueRange::Saturate } else { ValueRange::Check };
    let mut config = StreamConfig::new(arguments.length)
        .generator(arguments.generator)
        .width(arguments.width)
        .sharing(arguments.sharing)
        .seed(arguments.seed)
        .range(range)
        .arithmetic(Arithmetic::Integer);
    config.layers = layer_map(std::mem::take(&mut config.layers), &arguments.layers)?;
    let options = arguments.options();
    let circuit = Circuit::new(&network, &config, &options)?;
    let design = Design::new(&circuit, &options)?;
    let trace = circuit.trace(&samples(&data, arguments.samples)?)?;
    let bench = Bench::new(&circuit, &options, &trace)?;
    design.write(&arguments.out)?;
    bench.write(&arguments.out)?;
    output::line(format!(
        "{}: {} stages, top module {}, at least {} cycles between samples, in {}",
        circuit.name,
        circuit.stages.len(),
        design.top(),
        design.interval(),
        arguments.out.display()
    ))?;
    if let Some(early) = &trace.early {
        show_early(&circuit, &trace, early)?;
    }
    if let Some(simulator) = simulator {
        let mut passed = simulate::check(&arguments.out, &design, simulator)?;
        if arguments.netlist {
            passed.extend(simulate::check_netlist(&arguments.out, &design)?);
        }
        for passed in passed {
            let seconds = passed.elapsed.as_secs_f64();
            output::line(format!(
                "{simulator} {}: {} ({seconds:.2} s)",
                passed.run, passed.summary
            ))?;
        }
        output::line("equal to the engine in every threshold, count, value and score")?;
    }
    if arguments.synth || arguments.energy {
        synthesize(arguments, &circuit, &design, &trace)?;
    }
    Ok(Verdict::Good)
}

/// Synthesizes the circuit, shows its area, its depth and the energy of a sample, and writes them
/// to `synthesis.json`.
fn synthesize(
    arguments: &Arguments,
    circuit: &Circuit,
    design: &Design,
    trace: &Trace,
) -> Result<(), Failure> {
    let boundaries = if arguments.flatten { Boundaries::Flattened } else { Boundaries::Parts };
    let liberty = arguments.liberty.as_deref();
    let synthesized = match arguments.clock_gating {
        false => Synthesized::new(&arguments.out, design, liberty, boundaries)?,
        true => {
            // Synthesis gates the clocks of registers with enables by itself.
            let options = Options { clock_gating: ClockGating::Enables, ..arguments.options() };
            let (design, folder) =
                (Design::new(circuit, &options)?, arguments.out.join("build/enables"));
            design.write(&folder)?;
            Synthesized::new(&folder, &design, liberty, boundaries)?
        }
    };
    let mut report = serde_json::Map::new();
    if arguments.synth {
        let area = synthesized.area()?;
        report.insert("area".to_owned(), json!(area));
        let (size, flip_flops, depth) = (area.gate_equivalents, area.flip_flops, area.depth);
        output::line(format!(
            "area {size:.0} gate equivalents, {flip_flops} flip-flops; depth {depth} cells between registers"
        ))?;
        show_parts(&area.parts, boundaries, 0)?;
    }
    if arguments.energy {
        let energy = synthesized.energy(circuit, &arguments.options(), trace)?;
        report.insert("energy".to_owned(), json!(energy));
        output::line(format!(
            "energy {:.3} nJ per sample, {:.0} % of it in the clock, over {} samples and {} cycles; {:.0} % of flip-flops behind clock gates",
            energy.nanojoules,
            100.0 * energy.clock / energy.nanojoules,
            energy.samples,
            energy.cycles,
            100.0 * energy.gated
        ))?;
        show_parts(&energy.parts, boundaries, 3)?;
    }
    let path = arguments.out.join("synthesis.json");
    let written = std::fs::write(&path, format!("{:#}\n", serde_json::Value::from(report)));
    Ok(written.map_err(|source| aleatron::hardware::Error::File { path, source })?)
}

fn show_parts(parts: &PartValues, boundaries: Boundaries, digits: usize) -> Result<(), Failure> {
    if boundaries == Boundaries::Flattened {
        return Ok(());
    }
    let total = parts.total();
    for (part, value) in parts.iter().filter(|(_, value)| *value > 0.0) {
        let share = 100.0 * value / total;
        output::line(format!("  {:<44} {value:>10.digits$} {share:>5.1} %", part.name()))?;
    }
    Ok(())
}

/// Prints the cycles that early termination saves, and the changed results.
fn show_early(circuit: &Circuit, trace: &Trace, early: &EarlyTrace) -> Result<(), Failure> {
    let n = trace.n_samples;
    let length = circuit.layers().last().map_or(0, |(_, layer)| layer.length);
    let stopped = early.cycles.iter().filter(|cycles| **cycles < length).count();
    let mean = early.cycles.iter().sum::<usize>() as f64 / n.max(1) as f64;
    let full = trace.full_classes(circuit);
    let changed = full.iter().zip(&early.classes).filter(|(full, own)| full != own);
    output::line(format!(
        "early termination: {stopped} of {n} samples, {mean:.1} of {length} cycles of the last layer on average, another class in {}",
        changed.count()
    ))?;
    Ok(())
}

fn read_margin(text: &str) -> Result<Margin, String> {
    let deviations: f64 = text.parse().map_err(|error| format!("{error}"))?;
    Margin::new(deviations).map_err(|error| error.to_string())
}

fn samples(data: &Dataset, n: usize) -> Result<Vec<f64>, Failure> {
    Ok(data.samples(0..n.min(data.len()))?.into_owned())
}

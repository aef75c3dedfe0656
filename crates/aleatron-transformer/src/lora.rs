//! LoRA adapters in PEFT's files: low-rank corrections of projections, which can be switched
//! without changing the weights.

mod create;

pub use create::{AdapterOptions, AlphaScaling, targets};

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

use crate::config::Config;
use crate::error::{Error, Result};
use crate::options::{Options, read_object};
use crate::weights::files::TensorFiles;
use crate::weights::{Rows, Slot, TensorSource, module_name, projections};

/// A linear map of a layer, by its name in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Projection {
    /// The map to queries.
    Query,
    /// The map to keys.
    Key,
    /// The map to values.
    Value,
    /// The joint map to queries, keys and values.
    QueryKeyValue,
    /// The output of attention.
    Output,
    /// The map to gates.
    Gate,
    /// The map to the inner width.
    Up,
    /// The map from the inner width.
    Down,
}

impl Projection {
    /// Returns the outputs and inputs of this projection.
    #[must_use]
    pub fn shape(self, config: &Config) -> [usize; 2] {
        let rows = Rows::of(config, self);
        [rows.count, rows.slot.shape(config)[1]]
    }
}

/// The correction of one projection: `scale * b * a`.
#[derive(Debug, Clone)]
pub struct LowRank {
    /// The rank.
    pub rank: usize,
    /// A row of inputs per rank.
    pub a: Vec<f32>,
    /// A row of ranks per output.
    pub b: Vec<f32>,
    /// The factor of the product.
    pub scale: f32,
}

impl LowRank {
    /// Adds row `row` of the correction to a row of weights.
    pub(crate) fn add_row(&self, row: usize, weights: &mut [f32]) {
        for (rank, b) in self.b[row * self.rank..][..self.rank].iter().enumerate() {
            let a = &self.a[rank * weights.len()..][..weights.len()];
            weights.iter_mut().zip(a).for_each(|(w, a)| *w += self.scale * b * a);
        }
    }
}

/// The corrections of one matrix of a pass, whose projections may each have one: `b * (a * x)`, the
/// scale included in `b`.
#[derive(Debug, Clone)]
pub struct QkvLoRA {
    /// The sum of the ranks.
    pub rank: usize,
    /// A row of inputs per rank.
    pub a: Vec<f32>,
    /// A row of ranks per output of the matrix; zeros if a rank belongs to another projection.
    pub b: Vec<f32>,
}

/// An adapter: corrections of some projections of some layers.
#[derive(Debug, Clone, Default)]
pub struct Adapter {
    parts: BTreeMap<(usize, Projection), LowRank>,
    /// The options of `adapter_config.json`.
    description: Map<String, Value>,
}

/// Options of `adapter_config.json` that do not affect results.
const IRRELEVANT: &[&str] = &[
    "peft_type",
    "auto_mapping",
    "base_model_name_or_path",
    "revision",
    "task_type",
    "inference_mode",
    "lora_dropout",
    "target_modules",
    "exclude_modules",
    "init_lora_weights",
    "layers_to_transform",
    "layers_pattern",
    "peft_version",
    "megatron_core",
    "loftq_config",
    "eva_config",
    "corda_config",
    "runtime_config",
    "fan_in_fan_out",
    "qalora_group_size",
    "lora_ga_config",
    "velora_config",
    "monteclora_config",
];

impl Adapter {
    /// Reads `adapter_config.json` and `adapter_model.safetensors` of a folder.
    ///
    /// # Errors
    /// An error with the file, the option or the tensor at fault.
    pub fn read(folder: &Path, config: &Config) -> Result<Self> {
        let map = read_object(&folder.join("adapter_config.json"))?;
        let options = Options::new(&map, "");
        options.ignore(IRRELEVANT);
        options.only("peft_type", |value| value.as_str() == Some("LORA"))?;
        options.only("bias", |value| value.as_str() == Some("none"))?;
        for empty in [
            "modules_to_save",
            "trainable_token_indices",
            "target_parameters",
            "layer_replication",
            "alora_invocation_tokens",
        ] {
            options.only(empty, |value| value.as_array().is_some_and(Vec::is_empty))?;
        }
        options.only("megatron_config", Value::is_null)?;
        let (rank, alpha) = (options.required_size("r")?, options.required_number("lora_alpha")?);
        let scaling = match options.flag("use_rslora")? {
            Some(true) => AlphaScaling::RankStabilized,
            _ => AlphaScaling::Standard,
        };
        let ranks = patterns(&options, "rank_pattern")?;
        let alphas = patterns(&options, "alpha_pattern")?;
        options.finish()?;

        let files = TensorFiles::open(&[folder.join("adapter_model.safetensors")])?;
        let mut parts = BTreeMap::new();
        let mut used = std::collections::BTreeSet::new();
        for layer in 0..config.layers {
            for slot in Slot::ALL {
                for &projection in projections(config, slot) {
                    let module = module_name(config, layer, projection);
                    let names = tensor_names(&module);
                    if names.iter().all(|name| files.shape(name).is_none()) {
                        continue;
                    }
                    let rank = matching(&ranks, &module).map_or(rank, |rank| rank as usize);
                    let alpha = matching(&alphas, &module).unwrap_or(alpha);
                    check_rank(rank)?;
                    let [rows, columns] = projection.shape(config);
                    let a = files.tensor(&names[0], &[rank, columns])?;
                    let b = files.tensor(&names[1], &[rows, rank])?;
                    let scale = scaling.scale(alpha, rank);
                    parts.insert((layer, projection), LowRank { rank, a, b, scale });
                    used.extend(names);
                }
            }
        }
        match files.names().find(|name| !used.contains(*name)) {
            Some(name) => Err(Error::ExtraTensor { name: name.to_owned() }),
            None => Ok(Self { parts, description: map }),
        }
    }

    /// Returns the correction of a projection.
    #[must_use]
    pub fn part(&self, layer: usize, projection: Projection) -> Option<&LowRank> {
        self.parts.get(&(layer, projection))
    }

    /// Returns the combined corrections of a matrix.
    #[must_use]
    pub fn stacked(&self, config: &Config, layer: usize, slot: Slot) -> Option<QkvLoRA> {
        let found: Vec<(Rows, &LowRank)> = projections(config, slot)
            .iter()
            .filter_map(|&projection| {
                Some((Rows::of(config, projection), self.part(layer, projection)?))
            })
            .collect();
        let rank: usize = found.iter().map(|(_, part)| part.rank).sum();
        if rank == 0 {
            return None;
        }
        let (mut a, mut b) = (Vec::new(), vec![0.0; slot.shape(config)[0] * rank]);
        let mut first = 0;
        for (rows, part) in found {
            a.extend_from_slice(&part.a);
            for (i, row) in part.b.chunks_exact(part.rank).enumerate() {
                let target = &mut b[rows.at(i) * rank + first..][..part.rank];
                target.iter_mut().zip(row).for_each(|(t, x)| *t = part.scale * x);
            }
            first += part.rank;
        }
        Some(QkvLoRA { rank, a, b })
    }
}

/// Returns the names of both tensors of a module's correction.
fn tensor_names(module: &str) -> [String; 2] {
    ["lora_A", "lora_B"].map(|part| format!("base_model.model.{module}.{part}.weight"))
}

fn check_rank(rank: usize) -> Result<()> {
    match rank {
        1..=4096 => Ok(()),
        _ => Err(Error::BadOption {
            option: "r".to_owned(),
            value: rank.to_string(),
            reason: "is not from 1 to 4096".to_owned(),
        }),
    }
}

/// Reads values for modules whose names match.
fn patterns(options: &Options<'_>, name: &str) -> Result<Vec<(String, f64)>> {
    let Some(map) = options.object(name)? else { return Ok(Vec::new()) };
    map.iter()
        .map(|(pattern, value)| {
            // PEFT reads these as regular expressions; plain names of modules are what is in use.
            let plain = pattern.trim_start_matches('^');
            match value.as_f64() {
                Some(x) if plain.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.') => {
                    Ok((plain.to_owned(), x))
                }
                _ => Err(options.fault(name, &Value::from(pattern.clone()))),
            }
        })
        .collect()
}

fn matching(patterns: &[(String, f64)], module: &str) -> Option<f64> {
    let is_end = |pattern: &str| module == pattern || module.ends_with(&format!(".{pattern}"));
    patterns.iter().find(|(pattern, _)| is_end(pattern)).map(|(_, value)| *value)
}

//! New adapters, and the files that PEFT reads.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use super::{Adapter, LowRank, Projection, check_rank, tensor_names};
use crate::config::{Architecture, Config};
use crate::error::{Error, Result};
use crate::weights::random::RandomTensors;
use crate::weights::save::{self, NamedTensor};
use crate::weights::{Slot, TensorSource, module_name, projections};

/// The dependence of a correction's factor on alpha and the rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum AlphaScaling {
    /// Alpha divided by the rank.
    #[default]
    Standard,
    /// Alpha divided by the root of the rank (rank-stabilized LoRA, Kalajdzievski, 2023).
    RankStabilized,
}

impl AlphaScaling {
    pub(super) fn scale(self, alpha: f64, rank: usize) -> f32 {
        let divisor = match self {
            Self::Standard => rank as f64,
            Self::RankStabilized => (rank as f64).sqrt(),
        };
        (alpha / divisor) as f32
    }
}

/// The description of a new adapter. The defaults are those of PEFT for models of the Llama family.
#[derive(Debug, Clone, PartialEq)]
pub struct AdapterOptions {
    /// The rank of each correction, 1 to 4096.
    pub rank: usize,
    /// The numerator of the factor of corrections.
    pub alpha: f64,
    /// The dependence of the factor on alpha and the rank.
    pub scaling: AlphaScaling,
    /// The share of a correction's inputs that training drops, in [0, 1).
    pub dropout: f64,
    /// The projections that get a correction, in every layer; [`targets`] finds them by name.
    pub targets: Vec<Projection>,
    /// The name or folder of the model, which PEFT loads if an adapter is loaded without one.
    pub base_model: String,
}

impl Default for AdapterOptions {
    fn default() -> Self {
        Self {
            rank: 8,
            alpha: 8.0,
            scaling: AlphaScaling::Standard,
            dropout: 0.0,
            targets: vec![Projection::Query, Projection::Value],
            base_model: String::new(),
        }
    }
}

/// Returns the projections of a model by the names of their modules, such as `q_proj`; `all` for
/// all of them.
///
/// # Errors
/// [`Error::UnknownTarget`] with the names of the model's projections.
pub fn targets<S: AsRef<str>>(config: &Config, names: &[S]) -> Result<Vec<Projection>> {
    let all: Vec<Projection> =
        Slot::ALL.iter().flat_map(|&slot| projections(config, slot)).copied().collect();
    let name_of = |projection: Projection| short_name(config, projection);
    let mut found = BTreeSet::new();
    for name in names.iter().map(AsRef::as_ref) {
        if name == "all" {
            found.extend(&all);
            continue;
        }
        let same: Vec<Projection> =
            all.iter().copied().filter(|&own| name_of(own) == name).collect();
        if same.is_empty() {
            let known: Vec<String> = all.iter().map(|&own| name_of(own)).collect();
            return Err(Error::UnknownTarget { name: name.to_owned(), known: known.join(", ") });
        }
        found.extend(same);
    }
    Ok(found.into_iter().collect())
}

/// Returns the last part of a module's name, by which PEFT finds it in every layer.
fn short_name(config: &Config, projection: Projection) -> String {
    let module = module_name(config, 0, projection);
    module.rsplit('.').next().unwrap_or(&module).to_owned()
}

impl Adapter {
    /// Creates an adapter as PEFT initialises one: `a` is uniform in ±1/sqrt(inputs), `b` is zero,
    /// so that the outputs of the model do not change.
    ///
    /// # Errors
    /// [`Error::BadOption`] with the option out of range, or that memory is exhausted.
    pub fn create(config: &Config, options: &AdapterOptions, seed: u64) -> Result<Self> {
        let bad = |option: &str, value: String, reason: &str| {
            Err(Error::BadOption { option: option.to_owned(), value, reason: reason.to_owned() })
        };
        check_rank(options.rank)?;
        if !(options.alpha.is_finite() && options.alpha > 0.0) {
            return bad("lora_alpha", options.alpha.to_string(), "is not a positive number");
        }
        if !(0.0..1.0).contains(&options.dropout) {
            return bad(
                "lora_dropout",
                options.dropout.to_string(),
                "is not at least 0 and less than 1",
            );
        }
        if options.targets.is_empty() {
            return bad("target_modules", "[]".to_owned(), "names no projection");
        }
        let (source, rank) = (RandomTensors { seed }, options.rank);
        let mut parts = BTreeMap::new();
        for layer in 0..config.layers {
            for &projection in &options.targets {
                let [rows, columns] = projection.shape(config);
                let [name, _] = tensor_names(&module_name(config, layer, projection));
                let mut a = source.tensor(&name, &[rank, columns])?;
                // The random tensors are uniform in ±sqrt(3 / inputs).
                a.iter_mut().for_each(|x| *x *= (1.0_f32 / 3.0).sqrt());
                let len = rows as u128 * rank as u128;
                let b = aleatron_core::memory::zeros(len, aleatron_core::Quantity::Weights)?;
                let scale = options.scaling.scale(options.alpha, rank);
                parts.insert((layer, projection), LowRank { rank, a, b, scale });
            }
        }
        let names: BTreeSet<String> =
            options.targets.iter().map(|&own| short_name(config, own)).collect();
        let description = json!({
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "base_model_name_or_path": options.base_model,
            "r": rank,
            "lora_alpha": options.alpha,
            "lora_dropout": options.dropout,
            "use_rslora": options.scaling == AlphaScaling::RankStabilized,
            "target_modules": names,
            "bias": "none",
            "fan_in_fan_out": config.architecture == Architecture::Gpt2,
            "inference_mode": true,
            "init_lora_weights": true,
        });
        let Value::Object(description) = description else {
            return Err(Error::Internal { place: "lora/create.rs, create" });
        };
        Ok(Self { parts, description })
    }

    /// Returns all corrections with their layers and projections, in a fixed order.
    pub fn parts(&self) -> impl Iterator<Item = (usize, Projection, &LowRank)> {
        self.parts.iter().map(|(&(layer, projection), part)| (layer, projection, part))
    }

    /// Returns the share of a correction's inputs that training drops, 0 if the adapter does not
    /// define it.
    #[must_use]
    pub fn dropout(&self) -> f64 {
        self.description.get("lora_dropout").and_then(Value::as_f64).unwrap_or(0.0)
    }

    /// Replaces the matrices of a correction.
    ///
    /// # Errors
    /// [`Error::CorrectionSize`] for matrices of other sizes, with sizes of 0 if there is no such
    /// correction.
    pub fn set(
        &mut self,
        config: &Config,
        layer: usize,
        projection: Projection,
        a: Vec<f32>,
        b: Vec<f32>,
    ) -> Result<()> {
        let part = self.parts.get_mut(&(layer, projection));
        let [own_a, own_b] = part.as_ref().map_or([0, 0], |part| [part.a.len(), part.b.len()]);
        for (matrix, expected, actual) in [("lora_A", own_a, a.len()), ("lora_B", own_b, b.len())] {
            if expected != actual || expected == 0 {
                let module = module_name(config, layer, projection);
                return Err(Error::CorrectionSize { module, matrix, expected, actual });
            }
        }
        if let Some(part) = part {
            (part.a, part.b) = (a, b);
        }
        Ok(())
    }

    /// Writes `adapter_config.json` and `adapter_model.safetensors` into a folder, which is created
    /// if it does not exist. [`Adapter::read`] and PEFT read them.
    ///
    /// # Errors
    /// [`Error::File`] if a file cannot be written.
    pub fn save(&self, folder: &Path, config: &Config) -> Result<()> {
        let mut tensors = Vec::new();
        for (&(layer, projection), part) in &self.parts {
            let [rows, columns] = projection.shape(config);
            let [name_a, name_b] = tensor_names(&module_name(config, layer, projection));
            let tensor =
                |name, shape, values: &[f32]| NamedTensor { name, shape, values: values.to_vec() };
            tensors.push(tensor(name_a, vec![part.rank, columns], &part.a));
            tensors.push(tensor(name_b, vec![rows, part.rank], &part.b));
        }
        let mut text = serde_json::to_string_pretty(&self.description)
            .map_err(|error| Error::format(&folder.join("adapter_config.json"), error))?;
        text.push('\n');
        let name = "adapter_model.safetensors";
        let data = save::encode(&folder.join(name), &tensors)?;
        save::write_all(folder, &[("adapter_config.json", text.into_bytes()), (name, data)])
    }
}

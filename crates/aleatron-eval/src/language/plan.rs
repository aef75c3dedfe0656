//! The settings of an evaluation of a language model.

use super::calibrate::DEFAULT_SHARE;
use super::products::check_config;
use crate::early::sorted;
use crate::{Error, Plan, Result};
use aleatron_core::generator::{GeneratorName, Sharing, WidthChoice};
use aleatron_engine::Device;
use aleatron_engine::network::{LayerOverride, StreamConfig};
use aleatron_transformer::{Config, LinearId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The most positions of a sequence if no number is given.
const CONTEXT: usize = 512;

/// Controls whether the loss with one linear product as streams at a time is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sensitivity {
    /// It is not measured.
    #[default]
    Disabled,
    /// It is measured for each generator at the shortest length, with the first seed.
    Enabled,
}

/// Lengths, generators and seeds to evaluate a language model with, and how its text is read.
#[derive(Debug, Clone, PartialEq)]
pub struct LanguagePlan {
    /// The lengths of streams, in bits.
    pub lengths: Vec<usize>,
    /// The generators.
    pub generators: Vec<GeneratorName>,
    /// The number of seeds to run for generators that have one.
    pub seeds: usize,
    /// The width of shared sequences.
    pub width: WidthChoice,
    /// The number of sequences that streams share.
    pub sharing: Sharing,
    /// Linear products with settings of their own, by name.
    pub layers: BTreeMap<String, LayerOverride>,
    /// The positions of a sequence; those of the model and at most 512 if not given.
    pub context: Option<usize>,
    /// The tokens for calibration; a tenth of the text and at most 4096 if not given.
    pub calibration: Option<usize>,
    /// The most tokens to predict; all if not given.
    pub predicted: Option<usize>,
    /// The share of inputs that the scale of a product covers.
    pub share: f64,
    /// Positions that run at once. It changes times and nothing else.
    pub chunk: usize,
    /// Decision margins of early termination of the head, in standard deviations; it is not
    /// measured without any.
    pub margins: Vec<f64>,
    /// Whether the loss with one product as streams is measured.
    pub sensitivity: Sensitivity,
    /// The device of linear products, which changes times and nothing else.
    pub device: Device,
}

impl Default for LanguagePlan {
    /// 64, 256 and 1024 bits, Bernoulli and Sobol streams, three seeds.
    fn default() -> Self {
        Self {
            lengths: vec![64, 256, 1024],
            generators: vec![GeneratorName::Bernoulli, GeneratorName::SOBOL],
            seeds: 3,
            width: WidthChoice::Auto,
            sharing: Sharing::OneForAll,
            layers: BTreeMap::new(),
            context: None,
            calibration: None,
            predicted: None,
            share: DEFAULT_SHARE,
            chunk: 64,
            margins: Vec::new(),
            sensitivity: Sensitivity::Disabled,
            device: Device::Auto,
        }
    }
}

impl LanguagePlan {
    /// Checks everything that can be known before a model runs.
    ///
    /// # Errors
    /// [`Error::Nothing`] for an empty list, [`Error::LanguageOption`] for an option out of range,
    /// and as [`check_config`].
    pub fn check(&self, model: &Config) -> Result<()> {
        if self.lengths.is_empty() {
            return Err(Error::Nothing("lengths"));
        }
        if self.generators.is_empty() {
            return Err(Error::Nothing("generators"));
        }
        if self.seeds == 0 {
            return Err(Error::Nothing("seeds"));
        }
        if self.chunk == 0 {
            return Err(Error::Nothing("positions of a chunk"));
        }
        check_context(self.context_of(model), model)?;
        if !(self.share > 0.0 && self.share <= 1.0) {
            let remedy = "give a share of the inputs above 0 and at most 1".to_owned();
            return Err(Error::LanguageOption {
                option: "quantile",
                value: self.share.to_string(),
                remedy,
            });
        }
        let plan = self.resolved(model);
        plan.check_numbers()?;
        let of_products = self.layers.values().filter_map(|own| own.generator.as_ref());
        for generator in plan.generators.iter().chain(of_products) {
            generator.check_streams()?;
        }
        for generator in &plan.generators {
            for &length in &plan.lengths {
                check_config(model, &plan.config(generator, length, 0))?;
            }
        }
        Ok(())
    }

    /// Returns the positions of a sequence.
    #[must_use]
    pub fn context_of(&self, model: &Config) -> usize {
        self.context.unwrap_or_else(|| model.max_positions.min(CONTEXT))
    }

    /// Returns the configuration of streams in one cell.
    #[must_use]
    pub fn config(&self, generator: &GeneratorName, length: usize, seed: u64) -> StreamConfig {
        self.streams().config(generator, length, seed)
    }

    pub(super) fn streams(&self) -> Plan {
        Plan {
            lengths: self.lengths.clone(),
            generators: self.generators.clone(),
            seeds: self.seeds,
            width: self.width,
            sharing: self.sharing,
            layers: self.layers.clone(),
            margins: sorted(&self.margins),
            device: self.device.clone(),
            ..Plan::default()
        }
    }

    /// Returns each generator and each length once, lengths in ascending order. If every product
    /// has a length of its own, the longest of these is the only length: others would run the
    /// same streams again.
    pub(super) fn resolved(&self, model: &Config) -> Plan {
        let streams = self.streams();
        let own =
            |linear: &LinearId| self.layers.get(&linear.to_string()).and_then(|layer| layer.length);
        let own: Option<Vec<usize>> = LinearId::all(model).iter().map(own).collect();
        let lengths = own
            .and_then(|own| own.into_iter().max())
            .map_or(streams.lengths.clone(), |one| vec![one]);
        let mut plan = Plan { lengths: Vec::new(), generators: Vec::new(), ..streams.clone() };
        plan.add(&Plan { lengths, ..streams });
        plan
    }
}

/// Checks the positions of a sequence.
pub(super) fn check_context(context: usize, model: &Config) -> Result<()> {
    if (1..=model.max_positions).contains(&context) {
        return Ok(());
    }
    let remedy = format!("give 1 to {} positions, the limit of the model", model.max_positions);
    Err(Error::LanguageOption { option: "context", value: context.to_string(), remedy })
}

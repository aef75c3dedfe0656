//! What to evaluate.

use super::subject::{StreamedLayer, Subject};
use crate::{Error, Result};
use aleatron_core::Quantity;
use aleatron_core::arithmetic::Arithmetic;
use aleatron_core::generator::{GeneratorName, Sharing, WidthChoice};
use aleatron_engine::Device;
use aleatron_engine::network::{LayerOverride, Network, StreamConfig, ValueRange};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Lengths, generators and seeds to evaluate a network with.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The lengths of streams, in bits.
    pub lengths: Vec<usize>,
    /// The generators.
    pub generators: Vec<GeneratorName>,
    /// How many seeds to run for generators that have one.
    pub seeds: usize,
    /// The width of shared sequences.
    pub width: WidthChoice,
    /// How many sequences streams share.
    pub sharing: Sharing,
    /// Layers with settings of their own, by name.
    pub layers: BTreeMap<String, LayerOverride>,
    /// How numbers are kept between layers.
    pub arithmetic: Arithmetic,
    /// What happens to features that the first layer cannot encode.
    pub range: ValueRange,
    /// Leads at which samples stop early, in standard deviations of counting noise; see [`super::EarlyStop`].
    pub margins: Vec<f64>,
    /// Where to run. It changes times and nothing else.
    pub device: Device,
}

impl Default for Plan {
    /// Eight lengths from 8 to 1024, Bernoulli, Sobol and LFSR streams, three seeds.
    fn default() -> Self {
        Self {
            lengths: (3..=10).map(|k| 1 << k).collect(),
            generators: vec![GeneratorName::Bernoulli, GeneratorName::SOBOL, GeneratorName::Lfsr],
            seeds: 3,
            width: WidthChoice::Auto,
            sharing: Sharing::OneForAll,
            layers: BTreeMap::new(),
            arithmetic: Arithmetic::Float,
            range: ValueRange::Check,
            margins: vec![0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0],
            device: Device::Auto,
        }
    }
}

/// The most seeds of a plan: far more than any statistics need, and few enough to be listed.
const MAX_SEEDS: usize = 1 << 20;

impl Plan {
    /// Checks everything that can be known before a network runs: that there is something to do, that every length is one, and that
    /// every generator has the sequences that every layer needs. [`super::evaluate`] begins with it.
    ///
    /// # Errors
    /// [`Error::Nothing`] for an empty list, [`Error::Margin`], and as
    /// [`Network::check_config`](aleatron_engine::network::Network::check_config).
    pub fn check(&self, network: &Network) -> Result<()> {
        let subject = Subject::new(Arc::new(network.clone()))?;
        subject.check(&self.resolved(&subject))
    }

    /// Checks the number of seeds and the margins.
    pub(super) fn check_numbers(&self) -> Result<()> {
        if let Some(&margin) = self.margins.iter().find(|margin| !(0.0..f64::INFINITY).contains(*margin)) {
            return Err(Error::Margin(margin));
        }
        if self.seeds > MAX_SEEDS {
            let (actual, limit) = (self.seeds as u128, MAX_SEEDS as u128);
            return Err(aleatron_core::Error::TooLarge { what: Quantity::Seeds, actual, limit }.into());
        }
        Ok(())
    }

    /// Returns the plan with each length once, in ascending order. If every layer has a length of its own, the longest of these is the
    /// only length: others would run the same streams again.
    pub(super) fn resolved(&self, subject: &Subject) -> Self {
        let own = |layer: &StreamedLayer| self.layers.get(&layer.name).and_then(|layer| layer.length);
        let own: Option<Vec<usize>> = subject.layers().iter().map(own).collect();
        let mut lengths = match own.iter().flatten().max() {
            Some(&longest) if !self.lengths.is_empty() => vec![longest],
            _ => self.lengths.clone(),
        };
        lengths.sort_unstable();
        lengths.dedup();
        Self { lengths, ..self.clone() }
    }

    /// The seeds to run for a generator: several only where they make a difference.
    pub(super) fn seeds_of(&self, generator: &GeneratorName) -> std::ops::Range<usize> {
        let of_layers = self.layers.values().filter_map(|layer| layer.generator);
        let is_seeded = generator.is_seeded() || of_layers.into_iter().any(|generator| generator.is_seeded());
        if is_seeded { 0..self.seeds } else { 0..1 }
    }

    /// How the network runs in one cell.
    pub(super) fn config(&self, generator: &GeneratorName, length: usize, seed: u64) -> StreamConfig {
        let mut config = StreamConfig::new(length)
            .generator(*generator)
            .width(self.width)
            .sharing(self.sharing)
            .seed(seed)
            .arithmetic(self.arithmetic)
            .range(self.range)
            .device(self.device.clone());
        config.layers.clone_from(&self.layers);
        config
    }
}

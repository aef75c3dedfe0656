//! The settings of an evaluation.

use super::faults::FaultPoint;
use super::serial;
use super::subject::{StreamedLayer, Subject};
use crate::{Error, Result};
use aleatron_core::Quantity;
use aleatron_core::arithmetic::Arithmetic;
use aleatron_core::fault::{FaultKind, FaultRate, FaultSites};
use aleatron_core::generator::{GeneratorName, Sharing, WidthChoice};
use aleatron_engine::Device;
use aleatron_engine::network::{LayerOverride, Network, StreamConfig, ValueRange};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Lengths, generators and seeds to evaluate a network with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The lengths of streams, in bits.
    pub lengths: Vec<usize>,
    /// The generators.
    #[serde(with = "serial::list")]
    pub generators: Vec<GeneratorName>,
    /// The number of seeds to run for generators that have one.
    pub seeds: usize,
    /// The width of shared sequences.
    #[serde(with = "serial::text")]
    pub width: WidthChoice,
    /// The number of sequences that streams share.
    #[serde(with = "serial::text")]
    pub sharing: Sharing,
    /// Layers with settings of their own, by name.
    #[serde(with = "serial::map")]
    pub layers: BTreeMap<String, LayerOverride>,
    /// The inter-layer arithmetic.
    #[serde(with = "serial::text")]
    pub arithmetic: Arithmetic,
    /// The treatment of features that the first layer cannot encode.
    #[serde(with = "RangeText")]
    pub range: ValueRange,
    /// Decision margins at which samples stop early, in standard deviations of counting noise; see
    /// [`super::EarlyStop`]. Networks without a layer that computes the scores of classes as
    /// streams have no margins.
    pub margins: Vec<f64>,
    /// The device, which changes times and nothing else.
    #[serde(with = "serial::text")]
    pub device: Device,
    /// Fault rates; without any, nothing flips. A rate of 0 is the network without faults.
    #[serde(with = "super::faults::rates", default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultRate>,
    /// The sites of faults, one after the other; those of one entry have faults at the same time.
    #[serde(with = "serial::list", default = "streams", skip_serializing_if = "is_streams")]
    pub fault_sites: Vec<FaultSites>,
    /// The kind of faults; if `None`, the default kind of each site.
    #[serde(with = "serial::optional", default, skip_serializing_if = "Option::is_none")]
    pub fault_kind: Option<FaultKind>,
    /// The layers that have the faults, by name; all if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fault_layers: Vec<String>,
}

fn streams() -> Vec<FaultSites> {
    vec![FaultSites::STREAMS]
}

fn is_streams(sites: &[FaultSites]) -> bool {
    sites == [FaultSites::STREAMS]
}

/// A [`ValueRange`] in JSON.
#[derive(Serialize, Deserialize)]
#[serde(remote = "ValueRange", rename_all = "snake_case")]
enum RangeText {
    Check,
    Saturate,
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
            faults: Vec::new(),
            fault_sites: streams(),
            fault_kind: None,
            fault_layers: Vec::new(),
        }
    }
}

/// The most seeds of a plan: far more than any statistics need, and few enough to be listed.
const MAX_SEEDS: usize = 1 << 20;

impl Plan {
    /// Checks everything that can be known before a network runs: that there is something to do,
    /// that every length is one, and that every generator has the sequences that every layer
    /// needs. [`super::evaluate`] begins with it.
    ///
    /// # Errors
    /// [`Error::Nothing`] for an empty list, [`Error::Margin`], and as
    /// [`Network::check_config`](aleatron_engine::network::Network::check_config).
    pub fn check(&self, network: &Network) -> Result<()> {
        self.check_faults()?;
        let subject = Subject::new(Arc::new(network.clone()))?;
        subject.check(&self.resolved(&subject))
    }

    /// Returns the lengths of the cells of a generator: those of the plan, or for integers the one
    /// that they have.
    #[must_use]
    pub fn lengths_of(&self, generator: &GeneratorName) -> Vec<usize> {
        match generator.integer_bits().and_then(|bits| bits.length().ok()) {
            Some(length) => vec![length.bits()],
            None => self.lengths.clone(),
        }
    }

    /// Checks the number of seeds and the margins.
    pub(super) fn check_numbers(&self) -> Result<()> {
        if let Some(&margin) =
            self.margins.iter().find(|margin| !(0.0..f64::INFINITY).contains(*margin))
        {
            return Err(Error::Margin(margin));
        }
        if self.seeds > MAX_SEEDS {
            let (actual, limit) = (self.seeds as u128, MAX_SEEDS as u128);
            return Err(
                aleatron_core::Error::TooLarge { what: Quantity::Seeds, actual, limit }.into()
            );
        }
        Ok(())
    }

    /// Returns the plan with each generator once and each length once, in ascending order. If every
    /// layer has a length of its own, the longest of these is the only length: others would run
    /// the same streams again.
    pub(super) fn resolved(&self, subject: &Subject) -> Self {
        let own =
            |layer: &StreamedLayer| self.layers.get(&layer.name).and_then(|layer| layer.length);
        let own: Option<Vec<usize>> = subject.layers().iter().map(own).collect();
        let lengths = match own.iter().flatten().max() {
            Some(&longest) if !self.lengths.is_empty() => vec![longest],
            _ => self.lengths.clone(),
        };
        let mut plan = Self { lengths: Vec::new(), generators: Vec::new(), ..self.clone() };
        plan.add(&Self { lengths, ..self.clone() });
        plan
    }

    /// Adds the lengths, generators and seeds of another plan.
    pub(super) fn add(&mut self, other: &Self) {
        for generator in &other.generators {
            if !self.generators.contains(generator) {
                self.generators.push(*generator);
            }
        }
        self.lengths.extend(&other.lengths);
        self.lengths.sort_unstable();
        self.lengths.dedup();
        self.seeds = self.seeds.max(other.seeds);
        self.add_faults(other);
    }

    /// Checks a plan that was read: lengths must ascend and generators must be unique.
    pub(super) fn validate(&self) -> Result<(), String> {
        if !self.lengths.is_sorted_by(|a, b| a < b) {
            return Err("the lengths of its plan do not ascend".to_owned());
        }
        let generators = &self.generators;
        match (1..generators.len()).find(|&k| generators[..k].contains(&generators[k])) {
            Some(twice) => {
                Err(format!("generator {} of its plan is there twice", generators[twice]))
            }
            None => {
                let faults = self.check_faults();
                faults.and_then(|()| self.check_numbers()).map_err(|error| error.to_string())
            }
        }
    }

    /// Returns the settings that every cell has in common: the plan without lengths, generators,
    /// seeds, rates and sites of faults, and the device.
    pub(super) fn settings(&self) -> Self {
        let (lengths, generators) = (Vec::new(), Vec::new());
        let (faults, fault_sites) = (Vec::new(), streams());
        Self {
            lengths,
            generators,
            seeds: 0,
            device: Device::Auto,
            faults,
            fault_sites,
            ..self.clone()
        }
    }

    /// Returns the seeds to run for a generator and faults: several only if a generator has random
    /// bits or there are faults.
    pub(super) fn seeds_of(
        &self,
        generator: &GeneratorName,
        faults: Option<FaultPoint>,
    ) -> std::ops::Range<u64> {
        let of_layers = self.layers.values().filter_map(|layer| layer.generator);
        let is_seeded =
            generator.is_seeded() || of_layers.into_iter().any(|generator| generator.is_seeded());
        if is_seeded || faults.is_some() { 0..self.seeds as u64 } else { 0..1 }
    }

    /// Returns the configuration of the network in one cell without faults.
    pub(super) fn config(
        &self,
        generator: &GeneratorName,
        length: usize,
        seed: u64,
    ) -> StreamConfig {
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

//! What to evaluate.

use crate::{Error, Result};
use aleatron_core::arithmetic::Arithmetic;
use aleatron_core::generator::{GeneratorName, Sharing, WidthChoice};
use aleatron_core::{Encoding, LayerSpec, Length, Polarity, Quantity, Topology, memory};
use aleatron_engine::network::{FeatureRange, LayerOverride, Network, StreamConfig};
use aleatron_engine::{Device, Error as EngineError};
use std::collections::BTreeMap;

/// A layer as streams.
pub(super) struct StreamedProduct<'a> {
    /// Which of the layers it is.
    pub(super) place: usize,
    pub(super) name: &'a str,
    pub(super) topology: Topology,
    pub(super) polarity: Polarity,
}

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
    pub range: FeatureRange,
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
            range: FeatureRange::Check,
            margins: vec![0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0],
            device: Device::Auto,
        }
    }
}

/// The most seeds of a plan: far more than any statistics need, and few enough to be listed.
const MAX_SEEDS: usize = 1 << 20;

impl Plan {
    /// Checks all that can be known before anything is run: that there is something to do, that every length is one, and that every
    /// generator has the sequences that every layer needs. [`super::evaluate`] begins with it.
    ///
    /// # Errors
    /// What is wrong with the plan.
    pub fn check(&self, network: &Network) -> Result<()> {
        for (what, is_empty) in [
            ("lengths", self.lengths.is_empty()),
            ("generators", self.generators.is_empty()),
            ("seeds", self.seeds == 0),
            ("margins", self.margins.is_empty()),
        ] {
            if is_empty {
                return Err(Error::Nothing(what));
            }
        }
        self.check_seeds()?;
        self.check_margins()?;
        let known = || network.layers().iter().map(|layer| layer.name().to_owned());
        if let Some(name) = self.layers.keys().find(|name| !known().any(|known| known == **name)) {
            return Err(EngineError::UnknownLayer { name: name.clone(), known: known().collect() }.into());
        }
        let layers: Vec<_> = network
            .layers()
            .iter()
            .enumerate()
            .map(|(place, layer)| StreamedProduct {
                place,
                name: layer.name(),
                topology: layer.topology(),
                polarity: layer.polarity(),
            })
            .collect();
        self.check_cells(&layers)
    }

    /// Checks that leads can reach the margins.
    pub(super) fn check_margins(&self) -> Result<()> {
        match self.margins.iter().find(|margin| !(0.0..f64::INFINITY).contains(*margin)) {
            Some(&margin) => Err(Error::Margin(margin)),
            None => Ok(()),
        }
    }

    /// Checks that the seeds can be listed.
    pub(super) fn check_seeds(&self) -> Result<()> {
        if self.seeds <= MAX_SEEDS {
            return Ok(());
        }
        let (actual, limit) = (self.seeds as u128, MAX_SEEDS as u128);
        Err(aleatron_core::Error::TooLarge { what: Quantity::Seeds, actual, limit }.into())
    }

    /// Checks that every generator has what the layers need at every length.
    pub(super) fn check_cells(&self, layers: &[StreamedProduct<'_>]) -> Result<()> {
        for &length in &self.lengths {
            for generator in &self.generators {
                let config = self.config(generator, length, 0);
                layers.iter().try_for_each(|layer| self.check_layer(layer, &config))?;
            }
        }
        Ok(())
    }

    fn check_layer(&self, layer: &StreamedProduct<'_>, config: &StreamConfig) -> Result<()> {
        let settings = config.settings_of(layer.name);
        let check = || -> Result<(), aleatron_core::Error> {
            let length = Length::new(settings.length)?;
            let width = settings.width.resolve(&settings.generator, length);
            let encoding = settings.generator.encoding(0, width, settings.sharing)?;
            // The sequences it needs are there, or it is an error.
            let spec = LayerSpec::new(layer.topology.clone(), length, layer.polarity, encoding)?;
            let on_host = matches!(self.device, Device::Auto | Device::Cpu);
            // Where both operands have sequences, tables may take the place of streams.
            if on_host && !matches!(encoding, Encoding::Sequences(_)) {
                memory::check(8 * spec.weight_words() as u128, Quantity::Streams)?;
            }
            Ok(())
        };
        check().map_err(|error| match error {
            // A length or a width is at fault everywhere alike.
            error if self.layers.is_empty() && layer.place == 0 => error.into(),
            error => {
                let (layer, name) = (layer.place, layer.name.to_owned());
                EngineError::Layer { layer, name, source: Box::new(error.into()) }.into()
            }
        })
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

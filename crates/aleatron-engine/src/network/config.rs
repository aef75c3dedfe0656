//! The configuration of a network as streams: settings for all layers, with overrides for some of
//! them.

use crate::{Device, Error, Result};
use aleatron_core::arithmetic::Arithmetic;
use aleatron_core::fault::Fault;
use aleatron_core::generator::{GeneratorName, Sharing, WidthChoice};
use aleatron_core::program::ValueRange;
use aleatron_core::{LayerIndex, LayerSpec, Length, Polarity, SampleSeed, Topology};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The generator and length of a layer's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LayerSettings {
    /// The stream length in bits.
    pub length: usize,
    /// The generator.
    pub generator: GeneratorName,
    /// The width of shared sequences.
    pub width: WidthChoice,
    /// The sharing of sequences among streams.
    pub sharing: Sharing,
}

impl LayerSettings {
    /// Returns everything except the weights that determines the counts of a layer with these
    /// settings; `seed` is that of Bernoulli weight streams and of seeded generators. Integers are
    /// signed, whatever the polarity of the streams.
    ///
    /// # Errors
    /// Returns [`aleatron_core::Error`] for a length, width or generator that the layer does not
    /// support.
    pub fn spec(
        &self,
        seed: u64,
        topology: Topology,
        polarity: Polarity,
        index: LayerIndex,
    ) -> aleatron_core::Result<LayerSpec> {
        let length = self.resolved_length()?;
        let polarity =
            if self.generator.integer_bits().is_some() { Polarity::Signed } else { polarity };
        let width = self.width.resolve(&self.generator, length);
        let encoding = self.generator.encoding(seed, width, self.sharing)?;
        Ok(LayerSpec::new(topology, length, polarity, encoding)?.at(index))
    }

    /// Returns the stream length: the given one, or that of the streams whose counts are the
    /// products of integers.
    ///
    /// # Errors
    /// Returns [`aleatron_core::Error`] for a length that streams cannot have.
    pub fn resolved_length(&self) -> aleatron_core::Result<Length> {
        match self.generator.integer_bits() {
            Some(bits) => bits.length(),
            None => Length::new(self.length),
        }
    }
}

/// Settings of one layer that override those of all layers.
///
/// As text: `length=64,generator=sobol,width=6,sharing=input`, any of them.
///
/// ```
/// use aleatron_engine::network::LayerOverride;
/// let layer: LayerOverride = "length=64,generator=sobol:1+lfsr:7".parse()?;
/// assert_eq!(layer.length, Some(64));
/// assert_eq!(layer.to_string(), "length=64,generator=sobol:1+lfsr:7");
/// # Ok::<(), aleatron_engine::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct LayerOverride {
    /// The stream length in bits.
    pub length: Option<usize>,
    /// The generator.
    pub generator: Option<GeneratorName>,
    /// The width of shared sequences.
    pub width: Option<WidthChoice>,
    /// The sharing of sequences among streams.
    pub sharing: Option<Sharing>,
}

impl LayerOverride {
    /// Applies these settings over others.
    #[must_use]
    pub fn apply(&self, settings: LayerSettings) -> LayerSettings {
        LayerSettings {
            length: self.length.unwrap_or(settings.length),
            generator: self.generator.unwrap_or(settings.generator),
            width: self.width.unwrap_or(settings.width),
            sharing: self.sharing.unwrap_or(settings.sharing),
        }
    }
}

impl LayerOverride {
    /// Sets the field of a key.
    pub(super) fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let fault = |reason: String| Error::Setting { text: format!("{key}={value}"), reason };
        match key {
            "length" => {
                self.length = Some(
                    value
                        .parse()
                        .map_err(|_| fault(format!("\"{value}\" is not a number of bits")))?,
                );
            }
            "generator" => self.generator = Some(value.parse()?),
            "width" => self.width = Some(value.parse()?),
            "sharing" => self.sharing = Some(value.parse()?),
            _ => return Err(fault("use length=, generator=, width= or sharing=".to_owned())),
        }
        Ok(())
    }
}

impl FromStr for LayerOverride {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut layer = Self::default();
        let mut keys: Vec<&str> = Vec::new();
        for part in text.split(',') {
            let Some((key, value)) = part.split_once('=') else {
                let reason = "use length=, generator=, width= or sharing=".to_owned();
                return Err(Error::Setting { text: part.to_owned(), reason });
            };
            let key = key.trim();
            layer.set(key, value.trim())?;
            if keys.contains(&key) {
                let reason = format!("{key} is given twice");
                return Err(Error::Setting { text: text.to_owned(), reason });
            }
            keys.push(key);
        }
        Ok(layer)
    }
}

impl fmt::Display for LayerOverride {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        parts.extend(self.length.map(|length| format!("length={length}")));
        parts.extend(self.generator.map(|generator| format!("generator={generator}")));
        parts.extend(self.width.map(|width| format!("width={width}")));
        parts.extend(self.sharing.map(|sharing| format!("sharing={sharing}")));
        f.write_str(&parts.join(","))
    }
}

/// The configuration of a network as streams.
///
/// ```
/// use aleatron_engine::network::{Network, StreamConfig};
/// let network = Network::digits_noise_aware()?;
/// let config = StreamConfig::new(64).generator("sobol".parse()?).layer("output", "length=128".parse()?);
/// assert_eq!(network.to_streams(&config)?.lengths(), [64, 128]);
/// # Ok::<(), aleatron_engine::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StreamConfig {
    /// The settings of all layers without overrides.
    pub settings: LayerSettings,
    /// Overrides for layers, by name.
    pub layers: BTreeMap<String, LayerOverride>,
    /// The seed of seeded generators, for weights and inputs.
    pub seed: u64,
    /// The inter-layer arithmetic.
    pub arithmetic: Arithmetic,
    /// The treatment of features outside the interval of a layer.
    pub range: ValueRange,
    /// The device. It affects times only.
    pub device: Device,
    /// Faults, under the seed of the configuration.
    pub faults: Vec<Fault>,
    /// The faulty layers, by name; all if empty.
    pub fault_layers: Vec<String>,
}

impl StreamConfig {
    /// Creates a configuration of Bernoulli streams of `length` bits on the CPU, with
    /// floating-point inter-layer arithmetic.
    #[must_use]
    pub fn new(length: usize) -> Self {
        Self {
            settings: LayerSettings {
                length,
                generator: GeneratorName::Bernoulli,
                width: WidthChoice::Auto,
                sharing: Sharing::OneForAll,
            },
            layers: BTreeMap::new(),
            seed: SampleSeed::DEFAULT,
            arithmetic: Arithmetic::Float,
            range: ValueRange::Check,
            device: Device::Cpu,
            faults: Vec::new(),
            fault_layers: Vec::new(),
        }
    }

    /// Sets the generator.
    #[must_use]
    pub fn generator(mut self, generator: GeneratorName) -> Self {
        self.settings.generator = generator;
        self
    }

    /// Sets the width of sequences.
    #[must_use]
    pub fn width(mut self, width: impl Into<WidthChoice>) -> Self {
        self.settings.width = width.into();
        self
    }

    /// Sets the sharing of sequences.
    #[must_use]
    pub fn sharing(mut self, sharing: Sharing) -> Self {
        self.settings.sharing = sharing;
        self
    }

    /// Overrides the settings of one layer.
    #[must_use]
    pub fn layer(mut self, name: impl Into<String>, settings: LayerOverride) -> Self {
        self.layers.insert(name.into(), settings);
        self
    }

    /// Sets the seed.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Sets the inter-layer arithmetic.
    #[must_use]
    pub fn arithmetic(self, arithmetic: Arithmetic) -> Self {
        Self { arithmetic, ..self }
    }

    /// Sets the treatment of features outside the interval.
    #[must_use]
    pub fn range(self, range: ValueRange) -> Self {
        Self { range, ..self }
    }

    /// Sets the device.
    #[must_use]
    pub fn device(self, device: Device) -> Self {
        Self { device, ..self }
    }

    /// Sets the faults.
    ///
    /// ```
    /// use aleatron_engine::network::{Network, StreamConfig};
    /// let network = Network::digits_noise_aware()?;
    /// let config = StreamConfig::new(64).generator("sobol".parse()?).faults(vec!["inputs:1e-2".parse()?]);
    /// let scores = network.to_streams(&config)?.forward(&[0.5; 64], 0)?;
    /// assert_eq!(scores.len(), 10);
    /// # Ok::<(), aleatron_engine::Error>(())
    /// ```
    #[must_use]
    pub fn faults(self, faults: Vec<Fault>) -> Self {
        Self { faults, ..self }
    }

    /// Adds one faulty layer; without any, all layers are faulty.
    #[must_use]
    pub fn fault_layer(mut self, name: impl Into<String>) -> Self {
        self.fault_layers.push(name.into());
        self
    }

    /// Returns the settings of a layer.
    #[must_use]
    pub fn settings_of(&self, name: &str) -> LayerSettings {
        self.layers.get(name).map_or(self.settings, |layer| layer.apply(self.settings))
    }
}

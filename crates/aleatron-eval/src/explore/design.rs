//! A design: streams, the architecture of their circuit, and its cost.

use crate::serial;
use aleatron_core::generator::{GeneratorName, Sharing, WidthChoice};
use aleatron_hardware::Margin;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The neurons that a layer of a circuit computes at a time. As text: `all` or a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lanes {
    /// All of them, in parallel.
    All,
    /// At most so many; the layer is time-multiplexed.
    Limited(usize),
}

impl Lanes {
    /// Returns the number for `aleatron_hardware::Options`.
    pub(super) fn limit(self) -> Option<usize> {
        match self {
            Self::All => None,
            Self::Limited(limit) => Some(limit),
        }
    }
}

impl fmt::Display for Lanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Limited(limit) => limit.fmt(f),
        }
    }
}

impl FromStr for Lanes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text.trim(), text.trim().parse()) {
            ("all", _) => Ok(Self::All),
            (_, Ok(limit)) if limit > 0 => Ok(Self::Limited(limit)),
            _ => Err(format!("lanes are \"all\" or a whole number from 1 on, not \"{text}\"")),
        }
    }
}

/// Whether the last layer of a circuit stops before its streams end. As text: `none` or a decision
/// margin in standard deviations of the counting noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum EarlyTermination {
    /// All cycles run.
    #[default]
    Disabled,
    /// The last layer stops as soon as the best score leads by this margin.
    Margin(Margin),
}

impl EarlyTermination {
    /// Returns the margin for `aleatron_hardware::Options`.
    pub(super) fn margin(self) -> Option<Margin> {
        match self {
            Self::Disabled => None,
            Self::Margin(margin) => Some(margin),
        }
    }

    pub(super) fn is_disabled(&self) -> bool {
        *self == Self::Disabled
    }
}

impl fmt::Display for EarlyTermination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled => f.write_str("none"),
            Self::Margin(margin) => margin.fmt(f),
        }
    }
}

impl FromStr for EarlyTermination {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "none" => Ok(Self::Disabled),
            number => number
                .parse()
                .map(Self::Margin)
                .map_err(|error| format!("a margin is \"none\" or a number: {error}")),
        }
    }
}

/// The streams of a design: everything that its score depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamDesign {
    /// The index of the network.
    pub network: usize,
    /// The generator.
    #[serde(with = "serial::text")]
    pub generator: GeneratorName,
    /// How many sequences streams share.
    #[serde(with = "serial::text")]
    pub sharing: Sharing,
    /// The width of sequences.
    #[serde(with = "serial::text")]
    pub width: WidthChoice,
    /// The stream length of each layer that runs as streams.
    pub lengths: Vec<usize>,
    /// Early termination in the last layer.
    #[serde(with = "serial::text", default, skip_serializing_if = "EarlyTermination::is_disabled")]
    pub early: EarlyTermination,
}

impl StreamDesign {
    /// Returns the longest streams.
    pub(super) fn longest(&self) -> usize {
        self.lengths.iter().copied().max().unwrap_or(1)
    }

    /// Returns the stream lengths as text: one number, or those of all layers if they differ; a
    /// dash for integers.
    #[must_use]
    pub fn bits(&self) -> String {
        if self.generator.integer_bits().is_some() {
            return "-".to_owned();
        }
        let is_uniform = self.lengths.windows(2).all(|pair| pair[0] == pair[1]);
        let shown =
            if is_uniform { &self.lengths[..self.lengths.len().min(1)] } else { &self.lengths[..] };
        shown.iter().map(ToString::to_string).collect::<Vec<_>>().join("/")
    }
}

/// The cost of a design, by a model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DesignCost {
    /// The cycles from one sample to the next.
    pub cycles: u64,
    /// The cycles from the first word of a sample to its last result.
    pub latency: u64,
    /// The area in gate equivalents, that is, NAND gates of two inputs.
    pub area: f64,
    /// The energy of a sample in nanojoules.
    pub energy: f64,
}

/// A design with its score and its cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Design {
    /// The streams.
    pub streams: StreamDesign,
    /// The neurons that a layer computes at a time.
    #[serde(with = "serial::text")]
    pub lanes: Lanes,
    /// The mean score of the seeds.
    pub score: f64,
    /// The least score of a seed.
    pub worst_score: f64,
    /// The cost.
    pub cost: DesignCost,
    /// Whether no other design is at least as good in every respect and better in one.
    pub is_optimal: bool,
}

/// Streams without a circuit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Missing {
    /// The streams.
    pub streams: StreamDesign,
    /// The reason.
    pub reason: String,
}

impl Design {
    /// Returns the options of `aleatron rtl` that generate the circuit, besides those of the
    /// network and the data. Layers are named as in `layers`.
    #[must_use]
    pub fn rtl_options(&self, layers: &[String]) -> Vec<String> {
        let StreamDesign { generator, sharing, width, lengths, .. } = &self.streams;
        let longest = self.streams.longest();
        let mut options: Vec<String> = Vec::new();
        if generator.integer_bits().is_some() {
            options.extend(["--generator".to_owned(), generator.to_string()]);
            options.extend(self.lane_options());
            return options;
        }
        for (name, value) in [
            ("--length", longest.to_string()),
            ("--generator", generator.to_string()),
            ("--sharing", sharing.to_string()),
            ("--width", width.to_string()),
        ] {
            options.extend([name.to_owned(), value]);
        }
        for (layer, &length) in layers.iter().zip(lengths).filter(|(_, length)| **length != longest)
        {
            options.extend(["--layer".to_owned(), format!("{layer}:length={length}")]);
        }
        if let EarlyTermination::Margin(margin) = self.streams.early {
            options.extend(["--class".to_owned(), "--early-margin".to_owned(), margin.to_string()]);
        }
        options.extend(self.lane_options());
        options
    }

    fn lane_options(&self) -> Vec<String> {
        match self.lanes {
            Lanes::All => Vec::new(),
            Lanes::Limited(limit) => vec!["--lanes".to_owned(), limit.to_string()],
        }
    }
}

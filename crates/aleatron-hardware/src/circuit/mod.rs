//! The description of a circuit: a network in integers, stage by stage.
//!
//! A [`Circuit`] is created from the [`Program`] that backends run. Its stages exchange elements
//! one by one; a [`Link`] defines their order and words. All its numbers are integers: weight
//! thresholds and signs, the sequences of the comparators, biases, multipliers, shifts and bounds.

mod build;
mod early;
mod interval;
mod layer;
mod order;
mod sequence;
mod steps;

pub use early::{Check, Margin};
pub use layer::{InputInterval, LayerCircuit, Products, WeightRow, Window};

pub(crate) use build::identifier;
pub(crate) use early::FIRST_CHECK;
pub(crate) use layer::bits;
pub use sequence::{SequenceCircuit, SequenceForm};

pub(crate) use interval::signed_bits;

use aleatron_core::Polarity;
use aleatron_core::program::{Program, SlotId};
use serde::{Serialize, Serializer};
use std::sync::Arc;

/// A network as a circuit, in integers.
#[derive(Debug, Clone, Serialize)]
pub struct Circuit {
    /// The name of the network.
    pub name: String,
    /// The FNV-1a hash, of 128 bits, of the network's ONNX file.
    pub network_hash: String,
    /// The settings of the streams.
    pub settings: String,
    /// The thresholds that enter the circuit, in their order.
    pub input: Link,
    /// The stages, each after those it reads.
    pub stages: Vec<Stage>,
    /// The stage whose output holds the scores.
    pub output: Source,
    /// The value of 1 in each score.
    pub units: Vec<f64>,
    /// The factors of the scores, in units of 2^-15, that give them one unit before they are
    /// compared; empty if they have one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub score_multipliers: Vec<u32>,
    #[serde(skip)]
    pub(crate) program: Arc<Program>,
    #[serde(skip)]
    pub(crate) n_features: usize,
}

/// The fraction bits of the factors that give scores one unit.
pub(crate) const SCORE_SHIFT: u32 = 15;

/// Returns the factors that give scores the greatest of their units; none if they have one unit.
fn score_multipliers(units: &[f64]) -> Vec<u32> {
    let greatest = units.iter().copied().fold(0.0, f64::max);
    if units.iter().all(|&unit| unit == greatest) {
        return Vec::new();
    }
    let one = f64::from(1_u32 << SCORE_SHIFT);
    units.iter().map(|unit| (unit / greatest * one).round() as u32).collect()
}

/// The origin of the elements that a stage reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The input of the circuit.
    Input,
    /// The stage with this index.
    Stage(usize),
}

/// The elements that one stage passes to others, one by one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Link {
    /// The elements of a sample.
    pub elements: usize,
    /// The form of an element.
    pub word: Word,
    /// The element that arrives at each position; absent if elements arrive in their own order.
    #[serde(skip_serializing_if = "is_identity")]
    pub order: Vec<u32>,
    /// The slot of the program whose elements these are.
    #[serde(skip)]
    pub(crate) slot: SlotId,
}

fn is_identity(order: &[u32]) -> bool {
    order::is_identity(order)
}

/// The form of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// The threshold of a comparator, from 0 to 2^width, with a sign above it if it may be
    /// negative.
    Threshold {
        /// The width of the comparator in bits.
        width: u32,
        /// Whether elements may be negative.
        sign: InputInterval,
    },
    /// A signed integer in two's complement.
    Integer {
        /// The least value.
        low: i64,
        /// The greatest value.
        high: i64,
    },
}

impl Word {
    /// Returns the number of bits of an element.
    #[must_use]
    pub fn bits(&self) -> u32 {
        match *self {
            Self::Threshold { width, sign: InputInterval::NonNegative } => width + 1,
            Self::Threshold { width, sign: InputInterval::Signed } => width + 2,
            Self::Integer { low, high } => signed_bits(low.into(), high.into()),
        }
    }
}

/// One stage of a circuit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stage {
    /// Its name, which is unique in the circuit and an identifier of Verilog.
    pub name: String,
    /// The stages it reads.
    pub inputs: Vec<Source>,
    /// Its output.
    pub output: Link,
    /// Its operation.
    pub operation: Operation,
}

/// The operation of a stage.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Thresholds to accumulator values: streams, products, counters, bias and activation.
    Layer(Box<LayerCircuit>),
    /// Integers to thresholds.
    Requantize {
        /// The multipliers, one for each class.
        multipliers: Vec<u128>,
        /// The right shift.
        shift: u32,
        /// The width of the comparator.
        comparator: u32,
        /// The encoding of the streams.
        #[serde(serialize_with = "as_text")]
        polarity: Polarity,
        /// The class of each arriving element, one period.
        classes: Vec<u32>,
    },
    /// `sign * value + term`.
    Offset {
        /// Whether the value is negated.
        negated: bool,
        /// The terms, one for each class.
        terms: Vec<i64>,
        /// The class of each arriving element, one period.
        classes: Vec<u32>,
    },
    /// Limits values to an interval.
    Clip {
        /// The least and greatest values, one pair for each class.
        bounds: Vec<[i64; 2]>,
        /// The class of each arriving element, one period.
        classes: Vec<u32>,
    },
    /// Reduces windows.
    Pool {
        /// The windows.
        window: Window,
        /// The number of values that a mean is divided by; absent for a maximum.
        divisor: Option<usize>,
    },
    /// Adds two streams of elements, or subtracts the second one.
    Add {
        /// Whether the second operand is subtracted.
        subtracts: bool,
        /// The multipliers of both operands, one pair for each class.
        multipliers: Vec<[u128; 2]>,
        /// The right shifts of both operands.
        shifts: [u32; 2],
        /// The class of each arriving element, one period.
        classes: Vec<u32>,
    },
    /// Stores a sample and reads it in another order.
    Reorder {
        /// The position of arrival of each element that leaves.
        addresses: Vec<u32>,
    },
}

impl Operation {
    /// Returns the name of the operation.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Layer(_) => "layer",
            Self::Requantize { .. } => "requantize",
            Self::Offset { .. } => "offset",
            Self::Clip { .. } => "clip",
            Self::Pool { .. } => "pool",
            Self::Add { .. } => "add",
            Self::Reorder { .. } => "reorder",
        }
    }
}

impl Circuit {
    /// Returns the link of a source.
    #[must_use]
    pub fn link(&self, source: Source) -> &Link {
        match source {
            Source::Input => &self.input,
            // Stages are built after those they read.
            Source::Stage(index) => {
                self.stages.get(index).map_or(&self.input, |stage| &stage.output)
            }
        }
    }

    /// Returns the layers, with the indices of their stages.
    pub fn layers(&self) -> impl Iterator<Item = (usize, &LayerCircuit)> {
        self.stages.iter().enumerate().filter_map(|(k, stage)| match &stage.operation {
            Operation::Layer(layer) => Some((k, &**layer)),
            _ => None,
        })
    }

    /// Returns scores in one unit, so that they can be compared.
    pub(crate) fn comparable(&self, scores: &[i64]) -> Vec<i64> {
        let half = (1_i128 << SCORE_SHIFT) >> 1;
        let scaled = |(&score, &factor): (&i64, &u32)| {
            ((i128::from(score) * i128::from(factor) + half) >> SCORE_SHIFT) as i64
        };
        match &self.score_multipliers[..] {
            [] => scores.to_vec(),
            factors => scores.iter().zip(factors).map(scaled).collect(),
        }
    }

    /// Returns the description as JSON.
    ///
    /// # Errors
    /// Never fails for a valid circuit.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }
}

pub(crate) fn as_text<S: Serializer>(
    value: &impl ToString,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&value.to_string())
}

//! The steps of a program.

use super::{Pattern, SlotId};
use crate::arithmetic::{Accumulator, FloatStage, PoolShape, Requantizer, Rescaler};
use crate::generator::Width;

/// One step of a program: an operation, the slots it reads and the slot it computes.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub(super) kind: StepKind,
    pub(super) inputs: Vec<SlotId>,
    pub(super) output: SlotId,
}

impl Step {
    /// Returns the operation.
    #[must_use]
    pub const fn kind(&self) -> &StepKind {
        &self.kind
    }

    /// Returns the slots that the step reads.
    #[must_use]
    pub fn inputs(&self) -> &[SlotId] {
        &self.inputs
    }

    /// Returns the first slot that the step reads; every step has one.
    #[must_use]
    pub fn input(&self) -> SlotId {
        self.inputs[0]
    }

    /// Returns the slot that the step computes.
    #[must_use]
    pub const fn output(&self) -> SlotId {
        self.output
    }
}

/// The operation of a step.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum StepKind {
    /// Thresholds to counts: encodes the input streams of a layer and counts their products with
    /// the weight streams.
    Product {
        /// The layer.
        layer: usize,
    },
    /// Counts to floats: `s / L * scale + bias`, then the activation.
    Decode {
        /// The layer of the counts.
        layer: usize,
        /// Scales, biases and activation.
        stage: FloatStage,
    },
    /// Counts to integers: adds the bias, saturates and applies the activation.
    Accumulate {
        /// The layer of the counts.
        layer: usize,
        /// The accumulator.
        accumulator: Accumulator,
    },
    /// Floats to floats: one operation with a constant for each element.
    Constant {
        /// The operation.
        op: ConstantOp,
        /// The other operand of each element.
        constants: Pattern<f64>,
    },
    /// Integers to integers: `sign * value + term`.
    Offset {
        /// The sign of the value.
        sign: Sign,
        /// The integer added to each element.
        terms: Pattern<i64>,
    },
    /// Limits floats or integers to an interval.
    Clip(Bounds),
    /// Reduces the windows of images of floats or integers.
    Pool(PoolShape),
    /// Selects elements of floats or integers: output element `k` is element `map[k].element` of
    /// input `map[k].input`.
    Gather {
        /// One entry for each output element.
        map: Vec<GatherIndex>,
    },
    /// Adds two slots of floats or integers, or subtracts the second from the first. Integers are
    /// first rescaled to one unit.
    Combine {
        /// The sign of the second slot.
        sign: Sign,
        /// For integers in different units: the rescalers of each operand of an element to the
        /// finer unit.
        rescale: Option<Pattern<[Option<Rescaler>; 2]>>,
    },
    /// Floats to thresholds: divides by a scale, limits to the interval of the polarity and rounds
    /// to a comparator.
    Quantize {
        /// The layer that the thresholds are for.
        layer: usize,
        /// The value that becomes 1.
        scale: f64,
        /// The width of the comparator; the bits of the generator beyond it are zeros in
        /// thresholds.
        comparator: Width,
        /// The treatment of values outside the interval.
        range: ValueRange,
    },
    /// Integers to thresholds: multiplies, shifts right and saturates.
    Requantize {
        /// The layer that the thresholds are for.
        layer: usize,
        /// One requantizer for each element.
        requantizers: Pattern<Requantizer>,
    },
    /// Integers to floats: multiplies each element by its unit.
    Restore {
        /// The value of 1.
        units: Pattern<f64>,
    },
}

impl StepKind {
    /// Returns the name of the operation.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Product { .. } => "product",
            Self::Decode { .. } => "decode",
            Self::Accumulate { .. } => "accumulate",
            Self::Constant { .. } => "constant",
            Self::Offset { .. } => "offset",
            Self::Clip(_) => "clip",
            Self::Pool(_) => "pool",
            Self::Gather { .. } => "gather",
            Self::Combine { .. } => "combine",
            Self::Quantize { .. } => "quantize",
            Self::Requantize { .. } => "requantize",
            Self::Restore { .. } => "restore",
        }
    }
}

/// An operation of floats with a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConstantOp {
    /// `value + constant`.
    Add,
    /// `value - constant`.
    Subtract,
    /// `constant - value`.
    SubtractFrom,
    /// `value * constant`.
    Multiply,
    /// `value / constant`.
    Divide,
}

impl ConstantOp {
    /// Applies the operation in f64.
    #[inline]
    #[must_use]
    pub fn apply(self, value: f64, constant: f64) -> f64 {
        match self {
            Self::Add => value + constant,
            Self::Subtract => value - constant,
            Self::SubtractFrom => constant - value,
            Self::Multiply => value * constant,
            Self::Divide => value / constant,
        }
    }
}

/// The sign of an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sign {
    /// The operand is added.
    Plus,
    /// The operand is subtracted.
    Minus,
}

/// Lower and upper bounds of elements.
#[derive(Debug, Clone, PartialEq)]
pub enum Bounds {
    /// Bounds of floats; an infinity bounds nothing.
    Float(Pattern<[f64; 2]>),
    /// Bounds of integers; the ends of i64 bound nothing.
    Integer(Pattern<[i64; 2]>),
}

/// The source of one element of a gathered slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GatherIndex {
    /// The index among the inputs of the step.
    pub input: u32,
    /// The index of the element within a sample of that input.
    pub element: u32,
}

/// The treatment of values outside the interval that streams can encode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ValueRange {
    /// Values outside are an error, except for a rounding error of 1e-5 of the interval.
    #[default]
    Check,
    /// Values outside saturate and are counted.
    Saturate,
}

impl ValueRange {
    /// The rounding error that [`Self::Check`] permits, as a fraction of the interval: the error of
    /// values written with six digits.
    pub const ROUNDING: f64 = 1e-5;
}

//! Compiled networks: layers, and the inter-layer arithmetic between them, as a list of steps.
//!
//! A [`Program`] defines the computation of one sample; samples are independent. Its [slots](Slot)
//! are arrays with a fixed number of elements per sample, and every [`Step`] computes one slot from
//! others: the counts of a layer, or one operation of the inter-layer arithmetic in f64 or in
//! integers. A [backend](crate::Backend::prepare_program) that supports all slots on its device
//! runs a program from inputs to outputs without crossing the bus. [`plain`] runs steps one element
//! at a time and is their reference; `docs/streams.md` defines each step.
//!
//! ```
//! use aleatron_core::arithmetic::{Activation, FloatStage};
//! use aleatron_core::program::{ProgramBuilder, ValueRange};
//! use aleatron_core::{Encoding, LayerSpec, Length, Polarity, Weights};
//!
//! let encoding = Encoding::Bernoulli { seed: 1 };
//! let spec = LayerSpec::dense(3, 2, Length::new(64)?, Polarity::Bipolar, encoding)?;
//! let weights = Weights::random(&spec, 7)?;
//! let mut program = ProgramBuilder::default();
//! let layer = program.layer(spec, weights, 1)?;
//! let features = program.input(3)?;
//! let thresholds = program.quantize(layer, features, 1.0, None, ValueRange::Check)?;
//! let counts = program.product(layer, thresholds)?;
//! let stage = FloatStage { scales: vec![1.0], bias: vec![0.5, -0.5], activation: Activation::Relu };
//! let scores = program.decode(layer, counts, stage)?;
//! let program = program.finish(vec![scores])?;
//! assert_eq!(program.steps().len(), 3);
//! # Ok::<(), aleatron_core::Error>(())
//! ```

mod build;
mod pattern;
pub mod plain;
mod range;
mod run;
mod step;

pub use build::ProgramBuilder;
pub use pattern::Pattern;
pub use run::{KernelTime, PreparedProgram, ProgramBatch, ProgramOutput, SlotData};
pub use step::{Bounds, ConstantOp, GatherIndex, Sign, Step, StepKind, ValueRange};

use crate::error::{Error, Result};
use crate::layer::{LayerSpec, Weights};

/// Identifies a slot of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotId(usize);

impl SlotId {
    /// Returns the index among the slots of the program.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0
    }
}

/// The type of the elements of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SlotKind {
    /// Values in f64.
    Float,
    /// Signed integers of at most 63 bits, in units that the network's constants define.
    Integer,
    /// Thresholds of a layer's input streams, as wide as
    /// [`Encoding::input_width`](crate::Encoding::input_width).
    Threshold,
    /// Counts of a layer.
    Count,
}

/// An array with a fixed number of elements per sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Slot {
    /// The type of its elements.
    pub kind: SlotKind,
    /// The elements of one sample.
    pub len: usize,
}

/// A layer of a program.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramLayer {
    /// Everything except the weights that determines its counts.
    pub spec: LayerSpec,
    /// Its weights.
    pub weights: Weights,
    /// The number of rows of inputs that one sample sends through the layer: row `r` of sample `s`
    /// has the streams of sample `s rows + r`.
    pub rows: usize,
    /// Whether its inputs may be negative. Affects no count, but saves half of the work of signed
    /// streams.
    pub input_sign: InputSign,
}

/// Whether the inputs of a layer may be negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum InputSign {
    /// They may be negative.
    #[default]
    Any,
    /// They are never negative, such as outputs of a rectifier.
    NonNegative,
}

/// A compiled network, checked when it was built: every slot is computed once and before it is
/// used, and all sizes agree.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    layers: Vec<ProgramLayer>,
    slots: Vec<Slot>,
    steps: Vec<Step>,
    inputs: Vec<SlotId>,
    outputs: Vec<SlotId>,
}

impl Program {
    /// Returns the layers.
    #[must_use]
    pub fn layers(&self) -> &[ProgramLayer] {
        &self.layers
    }

    /// Returns the program with the weights that `change` returns for the weights of each layer.
    ///
    /// # Errors
    /// Those of `change`, and [`Error::Mismatch`] for another number of weights.
    pub fn with_weights(
        &self,
        mut change: impl FnMut(&LayerSpec, &Weights) -> Result<Weights>,
    ) -> Result<Self> {
        let mut program = self.clone();
        for (layer, own) in program.layers.iter_mut().enumerate() {
            let inside = |error| Error::InLayer { layer, source: Box::new(error) };
            let weights = change(&own.spec, &own.weights).map_err(inside)?;
            own.weights = Weights::new(&own.spec, weights.values().to_vec()).map_err(inside)?;
        }
        Ok(program)
    }

    /// Prepares the layers, one by one.
    ///
    /// # Errors
    /// Returns [`Error::InLayer`] with the first layer that cannot be prepared, and
    /// [`Error::Cancelled`].
    pub fn prepare_layers<T>(
        &self,
        mut prepare: impl FnMut(&ProgramLayer) -> Result<T>,
    ) -> Result<Vec<T>> {
        let prepare = |(layer, own): (usize, &ProgramLayer)| {
            prepare(own).map_err(|error| match error {
                Error::Cancelled => error,
                error => Error::InLayer { layer, source: Box::new(error) },
            })
        };
        self.layers.iter().enumerate().map(prepare).collect()
    }

    /// Returns the slots.
    #[must_use]
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Returns one slot of this program.
    #[must_use]
    pub fn slot(&self, id: SlotId) -> Slot {
        // Identifiers come from the builder of a program; one of another program may be out of
        // range.
        self.slots.get(id.0).copied().unwrap_or(Slot { kind: SlotKind::Float, len: 0 })
    }

    /// Returns the steps in the order in which they run.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the input slots, all of them [`SlotKind::Float`].
    #[must_use]
    pub fn inputs(&self) -> &[SlotId] {
        &self.inputs
    }

    /// Returns the slots that a run usually returns. Every other slot can be requested as well.
    #[must_use]
    pub fn outputs(&self) -> &[SlotId] {
        &self.outputs
    }

    /// Shifts the indices of an error in samples that begin with sample `first` of a batch to those
    /// of the whole batch.
    #[must_use]
    pub fn shifted(&self, error: Error, first: usize) -> Error {
        // Values are checked when floats become thresholds, which have as many elements as the
        // floats.
        let step = self.steps.iter().find(|step| matches!(step.kind(), StepKind::Quantize { .. }));
        let len = step.map_or(0, |step| self.slot(step.input()).len);
        error.shifted(first.saturating_mul(len))
    }

    /// Returns, for each slot, the index of the last step that uses it; `None` if no step does.
    #[must_use]
    pub fn last_uses(&self) -> Vec<Option<usize>> {
        let mut last = vec![None; self.slots.len()];
        for (k, step) in self.steps.iter().enumerate() {
            step.inputs().iter().for_each(|input| last[input.0] = Some(k));
        }
        last
    }
}

//! Cases of whole networks: layers on a backend, and the inter-layer arithmetic in floating point
//! or integers.

use super::case::Operation;
use crate::arithmetic::{Accumulator, Arithmetic, FloatStage, PoolShape, Requantizer};
use crate::backend::Backend;
use crate::error::{Error, Quantity, Result};
use crate::layer::{Encoding, LayerSpec, SampleSeed, Topology, Weights};
use crate::polarity::Polarity;
use crate::program::{Pattern, Program, ProgramBuilder, SlotId, ValueRange};
use std::sync::Arc;

/// A layer of a network case, with the inter-layer arithmetic after it in both forms.
#[derive(Debug, Clone)]
pub struct NetworkLayer {
    /// The layer, with its index in the network.
    pub spec: LayerSpec,
    /// Its weights.
    pub weights: Weights,
    /// The divisor of the inputs before they are encoded.
    pub input_scale: f64,
    /// Inter-layer arithmetic in f64.
    pub stage: FloatStage,
    /// The accumulator of the integer arithmetic.
    pub accumulator: Accumulator,
    /// The pool after the activation, if any.
    pub pool: Option<PoolShape>,
    /// Converts the accumulator or the pool to the next layer's thresholds; not used for the last
    /// layer.
    pub requantizer: Requantizer,
}

/// A network and a batch. The answer is the counts of every layer, and then the last layer's
/// outputs as words: f64 as bits, integers in two's complement.
#[derive(Debug, Clone)]
pub struct NetworkCase {
    /// The layers.
    pub layers: Vec<NetworkLayer>,
    /// The first layer's inputs as values, samples by inputs.
    pub inputs: Vec<f64>,
    /// The seed of Bernoulli inputs, and the first sample.
    pub seed: SampleSeed,
    /// The inter-layer arithmetic.
    pub arithmetic: Arithmetic,
}

impl NetworkCase {
    /// Returns the kind of the case.
    #[must_use]
    pub fn operation(&self) -> Operation {
        let has = |f: fn(&LayerSpec) -> bool| self.layers.iter().any(|layer| f(&layer.spec));
        if has(|spec| {
            matches!(
                spec.encoding(),
                Encoding::BernoulliInputs { .. } | Encoding::BernoulliWeights { .. }
            )
        }) {
            Operation::Mixed
        } else if has(|spec| matches!(spec.topology(), Topology::Conv(_))) {
            Operation::Conv
        } else if has(|spec| spec.polarity() == Polarity::Signed) {
            Operation::Signed
        } else {
            Operation::Network
        }
    }

    /// Returns the network as a program, with the slots of an answer: the counts of every layer,
    /// then the last outputs.
    ///
    /// # Errors
    /// Never fails for a valid case.
    pub fn program(&self) -> Result<(Arc<Program>, Vec<SlotId>)> {
        let mut program = ProgramBuilder::default();
        let Some(first) = self.layers.first() else { return Err(Error::Zero(Quantity::Layer)) };
        let mut value = program.input(first.spec.n_inputs())?;
        let mut slots = Vec::new();
        for (k, layer) in self.layers.iter().enumerate() {
            let index = program.layer(layer.spec.clone(), layer.weights.clone(), 1)?;
            let before = k.checked_sub(1).map(|before| &self.layers[before]);
            let thresholds = match (before, self.arithmetic) {
                (None, _) => program.quantize(index, value, 1.0, None, ValueRange::Check)?,
                (Some(_), Arithmetic::Float) => {
                    program.quantize(index, value, layer.input_scale, None, ValueRange::Saturate)?
                }
                (Some(before), Arithmetic::Integer) => {
                    program.requantize(index, value, Pattern::uniform(before.requantizer))?
                }
            };
            let counts = program.product(index, thresholds)?;
            slots.push(counts);
            value = match self.arithmetic {
                Arithmetic::Float => program.decode(index, counts, layer.stage.clone())?,
                Arithmetic::Integer => {
                    program.accumulate(index, counts, layer.accumulator.clone())?
                }
            };
            if let Some(pool) = layer.pool {
                value = program.pool(value, pool)?;
            }
        }
        slots.push(value);
        Ok((Arc::new(program.finish(vec![value])?), slots))
    }

    /// Answers the case with a backend.
    pub(super) fn run(&self, backend: &dyn Backend) -> Result<Vec<u64>> {
        let (program, slots) = self.program()?;
        super::program::answer(backend, &program, &[&self.inputs], self.seed, &slots)
    }

    /// Answers the case with the reference.
    pub(super) fn answer(&self) -> Vec<u64> {
        // A valid case has no errors; an empty answer equals no other.
        let answer = || {
            let (program, slots) = self.program()?;
            super::program::plain_answer(&program, &[&self.inputs], self.seed, &slots)
        };
        answer().unwrap_or_default()
    }
}

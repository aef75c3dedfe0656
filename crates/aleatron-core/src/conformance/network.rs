//! Cases of whole networks: layers on a backend, and the binary side between them in either arithmetic.

use super::Reference;
use super::case::{Case, LayerCase, Operation};
use crate::arithmetic::{Accumulator, Arithmetic, FloatStage, PoolShape, Requantizer, saturate};
use crate::backend::{Backend, Batch, CountMethod, PrepareOptions};
use crate::cancel::Cancel;
use crate::error::Result;
use crate::generator::Width;
use crate::layer::{Encoding, LayerSpec, SampleSeed, Topology, Weights};
use crate::polarity::Polarity;
use crate::reference;
use crate::threshold::{NEGATIVE, magnitude};

/// A layer of a network case, with the binary side behind it in both arithmetics.
#[derive(Debug, Clone)]
pub struct NetworkLayer {
    /// The layer, with its index in the network.
    pub spec: LayerSpec,
    /// Its weights.
    pub weights: Weights,
    /// What inputs are divided by before they are encoded.
    pub input_scale: f64,
    /// The binary side in f64.
    pub stage: FloatStage,
    /// The accumulator of the integer side.
    pub accumulator: Accumulator,
    /// The pool behind the activation, if there is one.
    pub pool: Option<PoolShape>,
    /// From the accumulator or the pool to the next layer; not used for the last one.
    pub requantizer: Requantizer,
}

/// A network and a batch. The answer is the counts of every layer, and then the last layer's outputs as words: f64 as bits,
/// integers in two's complement.
#[derive(Debug, Clone)]
pub struct NetworkCase {
    /// The layers.
    pub layers: Vec<NetworkLayer>,
    /// The first layer's inputs as values, samples by inputs.
    pub inputs: Vec<f64>,
    /// The seed of Bernoulli inputs, and the first sample.
    pub seed: SampleSeed,
    /// How numbers are kept between layers.
    pub arithmetic: Arithmetic,
}

/// What one layer hands to the next.
enum Carried {
    Values(Vec<f64>),
    Thresholds(Vec<u64>),
}

/// The binary side of a network, which is written twice: for use, and plainly.
struct BinarySide {
    pool_floats: fn(&PoolShape, &[f64]) -> Result<Vec<f64>>,
    pool_integers: fn(&PoolShape, &[i64]) -> Result<Vec<i64>>,
    accumulate: fn(&NetworkLayer, &[u64]) -> Result<Vec<i64>>,
    requantize: fn(&NetworkLayer, &[i64], Width) -> Result<Vec<u64>>,
}

const IN_USE: BinarySide = BinarySide {
    pool_floats: PoolShape::floats,
    pool_integers: PoolShape::integers,
    accumulate: |layer, counts| layer.accumulator.values(&layer.spec, counts),
    requantize: |layer, held, width| Ok(layer.requantizer.thresholds(held, width)?.thresholds),
};

const PLAIN: BinarySide = BinarySide {
    pool_floats: |pool, values| Ok(reference::pool_floats(pool, values)),
    pool_integers: |pool, values| Ok(reference::pool_integers(pool, values)),
    accumulate: |layer, counts| {
        let neurons = counts.iter().zip((0..layer.spec.n_neurons()).cycle());
        Ok(neurons.map(|(&c, j)| reference::accumulate(&layer.accumulator, &layer.spec, j, c)).collect())
    },
    requantize: |layer, held, width| {
        let unused = width.bits() - layer.requantizer.comparator().bits();
        let thresholds = held.iter().map(|&value| reference::requantize(&layer.requantizer, value));
        Ok(thresholds.map(|t| magnitude(t) << unused | t & NEGATIVE).collect())
    },
};

impl BinarySide {
    /// A layer's outputs in f64.
    fn floats(&self, layer: &NetworkLayer, counts: &[u64]) -> Result<Vec<f64>> {
        let outputs = layer.stage.outputs(&layer.spec, counts);
        layer.pool.as_ref().map_or(Ok(outputs.clone()), |pool| (self.pool_floats)(pool, &outputs))
    }

    /// A layer's outputs in integers.
    fn integers(&self, layer: &NetworkLayer, counts: &[u64]) -> Result<Vec<i64>> {
        let outputs = (self.accumulate)(layer, counts)?;
        layer.pool.as_ref().map_or(Ok(outputs.clone()), |pool| (self.pool_integers)(pool, &outputs))
    }
}

impl NetworkCase {
    /// What kind of case this is.
    #[must_use]
    pub fn operation(&self) -> Operation {
        let has = |f: fn(&LayerSpec) -> bool| self.layers.iter().any(|layer| f(&layer.spec));
        if has(|spec| {
            matches!(spec.encoding(), Encoding::BernoulliInputs { .. } | Encoding::BernoulliWeights { .. })
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

    /// The answer of a backend.
    pub(super) fn run(&self, backend: &dyn Backend) -> Result<Vec<u64>> {
        let mut prepared = Vec::new();
        for layer in &self.layers {
            prepared.push(backend.prepare(&layer.spec, &layer.weights, &PrepareOptions::default())?);
        }
        let counts = |k: usize, carried: &Carried| {
            let batch = match carried {
                Carried::Values(values) => Batch::values(values, self.seed),
                Carried::Thresholds(thresholds) => Batch::thresholds(thresholds, self.seed),
            };
            prepared[k].counts(&batch, Cancel::NEVER)
        };
        self.walk(counts, &IN_USE)
    }

    /// The plain answer.
    pub(super) fn answer(&self) -> Vec<u64> {
        let counts = |k: usize, carried: &Carried| {
            let NetworkLayer { spec, weights, .. } = &self.layers[k];
            let thresholds = match carried {
                Carried::Values(values) => spec.input_thresholds(values)?,
                Carried::Thresholds(thresholds) => thresholds.clone(),
            };
            let (weights, inputs, seed) = (spec.weight_thresholds(weights)?, thresholds, self.seed);
            let (spec, method) = (spec.clone(), CountMethod::Best);
            Ok(Reference.answer(&Case::Layer(LayerCase { spec, weights, inputs, seed, method })))
        };
        // A valid case has no errors; an empty answer equals no other.
        self.walk(counts, &PLAIN).unwrap_or_default()
    }

    fn walk(
        &self,
        mut counts_of: impl FnMut(usize, &Carried) -> Result<Vec<u64>>,
        side: &BinarySide,
    ) -> Result<Vec<u64>> {
        let mut answer = Vec::new();
        let mut carried = Carried::Values(self.inputs.clone());
        for (k, layer) in self.layers.iter().enumerate() {
            let counts = counts_of(k, &carried)?;
            answer.extend(&counts);
            let next = self.layers.get(k + 1);
            match (self.arithmetic, next) {
                (Arithmetic::Float, Some(next)) => {
                    let mut values = side.floats(layer, &counts)?;
                    saturate(&mut values, next.input_scale, next.spec.polarity());
                    carried = Carried::Values(values);
                }
                (Arithmetic::Float, None) => {
                    answer.extend(side.floats(layer, &counts)?.iter().map(|value| value.to_bits()));
                }
                (Arithmetic::Integer, Some(next)) => {
                    let held = side.integers(layer, &counts)?;
                    let width = next.spec.encoding().input_width();
                    carried = Carried::Thresholds((side.requantize)(layer, &held, width)?);
                }
                (Arithmetic::Integer, None) => {
                    answer.extend(side.integers(layer, &counts)?.iter().map(|&value| value as u64));
                }
            }
        }
        Ok(answer)
    }
}

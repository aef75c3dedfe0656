//! Cases of whole networks: layers on a backend, and the binary side between them in either arithmetic.

use crate::arithmetic::{Accumulator, Arithmetic, FloatStage, Requantizer, saturate};
use crate::backend::{Backend, Batch, PrepareOptions};
use crate::cancel::Cancel;
use crate::error::Result;
use crate::generator::Width;
use crate::layer::{LayerSpec, SampleSeed, Weights};
use crate::reference;

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
    /// From the accumulator to the next layer; not used for the last one.
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

/// The integer side of a network, which is written twice: for use, and plainly.
struct IntegerSide {
    accumulate: fn(&NetworkLayer, &[u64]) -> Result<Vec<i64>>,
    requantize: fn(&NetworkLayer, &[i64], Width) -> Result<Vec<u64>>,
}

const IN_USE: IntegerSide = IntegerSide {
    accumulate: |layer, counts| layer.accumulator.values(&layer.spec, counts),
    requantize: |layer, held, width| Ok(layer.requantizer.thresholds(held, width)?.thresholds),
};

const PLAIN: IntegerSide = IntegerSide {
    accumulate: |layer, counts| {
        let neurons = counts.iter().zip((0..layer.spec.n_neurons()).cycle());
        Ok(neurons.map(|(&c, j)| reference::accumulate(&layer.accumulator, &layer.spec, j, c)).collect())
    },
    requantize: |layer, held, width| {
        let unused = width.bits() - layer.requantizer.comparator().bits();
        Ok(held.iter().map(|&value| reference::requantize(&layer.requantizer, value) << unused).collect())
    },
};

impl NetworkCase {
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
            let weights = reference::weight_streams(spec, &spec.weight_thresholds(weights)?);
            let inputs = reference::input_streams(spec, &thresholds, self.seed);
            Ok(reference::counts(spec, &weights, &inputs))
        };
        // A valid case has no errors; an empty answer equals no other.
        self.walk(counts, &PLAIN).unwrap_or_default()
    }

    fn walk(
        &self,
        mut counts_of: impl FnMut(usize, &Carried) -> Result<Vec<u64>>,
        side: &IntegerSide,
    ) -> Result<Vec<u64>> {
        let mut answer = Vec::new();
        let mut carried = Carried::Values(self.inputs.clone());
        for (k, layer) in self.layers.iter().enumerate() {
            let counts = counts_of(k, &carried)?;
            answer.extend(&counts);
            let next = self.layers.get(k + 1);
            match (self.arithmetic, next) {
                (Arithmetic::Float, Some(next)) => {
                    let mut values = layer.stage.outputs(&layer.spec, &counts);
                    saturate(&mut values, next.input_scale, next.spec.polarity());
                    carried = Carried::Values(values);
                }
                (Arithmetic::Float, None) => {
                    answer.extend(
                        layer.stage.outputs(&layer.spec, &counts).iter().map(|value| value.to_bits()),
                    );
                }
                (Arithmetic::Integer, Some(next)) => {
                    let held = (side.accumulate)(layer, &counts)?;
                    let width = next.spec.encoding().input_width();
                    carried = Carried::Thresholds((side.requantize)(layer, &held, width)?);
                }
                (Arithmetic::Integer, None) => {
                    answer.extend((side.accumulate)(layer, &counts)?.iter().map(|&value| value as u64));
                }
            }
        }
        Ok(answer)
    }
}

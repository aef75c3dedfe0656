//! Programs of the fixed suite: every step of the inter-layer arithmetic, floating-point and
//! integer.

use super::super::case::Case;
use super::super::program::ProgramCase;
use super::random::Random;
use crate::address::LayerIndex;
use crate::arithmetic::{
    Accumulator, Activation, Arithmetic, Border, FloatStage, Pool, PoolKind, PoolShape,
    Requantizer, Rescaler,
};
use crate::convolution::{ConvShape, Convolution};
use crate::error::Result;
use crate::generator::{Sharing, Width};
use crate::layer::{Encoding, LayerSpec, SampleSeed, Topology, Weights};
use crate::polarity::Polarity;
use crate::program::{
    Bounds, ConstantOp, GatherIndex, Pattern, ProgramBuilder, Sign, SlotId, ValueRange,
};
use crate::stream::Length;
use std::sync::Arc;

/// The input image: channels, rows and columns.
const IMAGE: [usize; 3] = [2, 4, 5];

/// Fraction bits of accumulators.
const FRACTION: u32 = 8;

/// A program during generation.
struct ProgramDraft<'a> {
    draw: &'a mut Random,
    program: ProgramBuilder,
    arithmetic: Arithmetic,
    /// The number of the case.
    n: usize,
    slots: Vec<SlotId>,
}

/// A value of a program, with the unit of each of its elements in integer arithmetic.
#[derive(Clone)]
struct Value {
    slot: SlotId,
    units: Vec<f64>,
}

/// Returns residual networks with every step between their layers, in both arithmetics.
pub(super) fn programs(draw: &mut Random) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for n in 0..9 {
        for arithmetic in Arithmetic::ALL {
            let draft = ProgramDraft {
                draw,
                program: ProgramBuilder::default(),
                arithmetic,
                n,
                slots: Vec::new(),
            };
            cases.push(Case::Program(draft.residual()?));
        }
    }
    Ok(cases)
}

impl ProgramDraft<'_> {
    /// Generates two convolutions whose outputs are combined, clipped, pooled and reordered, and a
    /// dense layer over the rows of the result.
    fn residual(mut self) -> Result<ProgramCase> {
        let n_features = IMAGE.iter().product();
        let features = self.program.input(n_features)?;
        let features = self.preprocessed(features)?;
        let padded = Convolution::conv2d(IMAGE, 2, [3, 3]).with_padding([1, 1]);
        let first = self.layer(Topology::Conv(ConvShape::new(padded)?), 1)?;
        let range = [ValueRange::Check, ValueRange::Saturate][self.n % 2];
        let scale = if range == ValueRange::Check { 4.0 } else { 1.5 };
        let comparator = match self.arithmetic {
            Arithmetic::Float => None,
            Arithmetic::Integer => Some(Width::new(3)?),
        };
        let thresholds = self.program.quantize(first, features, scale, comparator, range)?;
        let left = self.counted(first, thresholds, Activation::Relu)?;
        let second = self.layer(Topology::Conv(ConvShape::new(padded)?), 1)?;
        // After a rectifier.
        self.program.set_non_negative(second)?;
        let thresholds = self.thresholds(second, &left)?;
        let right = self.counted(second, thresholds, Activation::Identity)?;
        let sum = self.combined(&left, &right)?;
        let shifted = self.shifted(&sum)?;
        let clipped = self.clipped(&shifted)?;
        let pooled = self.pooled(&clipped)?;
        // The transposed image, and some of it twice.
        let len = pooled.units.len();
        let order: Vec<usize> = (0..len).rev().chain((0..6 - len % 6).map(|k| k % len)).collect();
        let moved = self.gathered(&[&pooled, &pooled], &order)?;
        let n_inputs = moved.units.len() / 2;
        let dense = self.layer(Topology::Dense { n_inputs, n_neurons: 3 }, 2)?;
        let thresholds = self.thresholds(dense, &moved)?;
        let activation =
            [Activation::Identity, Activation::Clamp { low: -0.25, high: 0.75 }][self.n / 3 % 2];
        let mut scores = self.counted(dense, thresholds, activation)?;
        if self.arithmetic == Arithmetic::Integer {
            let units = Pattern::from_elements(&scores.units)?;
            scores.slot = self.program.restore(scores.slot, units)?;
            self.slots.push(scores.slot);
        }
        let n_samples = 1 + self.n % 3;
        let inputs =
            (0..n_samples * n_features).map(|_| 8.0 * self.draw.value(Polarity::Bipolar)).collect();
        let seed = SampleSeed::new(self.draw.word().into()).starting_at(self.draw.word() % 100);
        let program = Arc::new(self.program.finish(vec![scores.slot])?);
        Ok(ProgramCase { program, inputs: vec![inputs], seed, slots: self.slots })
    }

    /// Applies every operation with constants to features.
    fn preprocessed(&mut self, features: SlotId) -> Result<SlotId> {
        let per_channel = |values: [f64; 2]| Pattern::per_row(&values, IMAGE[1] * IMAGE[2]);
        let mut value = features;
        for (op, constants) in [
            (ConstantOp::Subtract, per_channel([0.5, -0.125])?),
            (ConstantOp::Divide, per_channel([3.0, 2.5])?),
            (ConstantOp::Multiply, Pattern::uniform(1.1)),
            (ConstantOp::Add, Pattern::uniform(0.3)),
            (ConstantOp::SubtractFrom, Pattern::uniform(0.25)),
        ] {
            value = self.program.constant(value, op, constants)?;
            self.slots.push(value);
        }
        Ok(value)
    }

    /// Generates a layer of random weights. Features may be negative, so unipolar layers would need
    /// a clip in front: none is generated.
    fn layer(&mut self, topology: Topology, rows: usize) -> Result<usize> {
        let polarity = [Polarity::Signed, Polarity::Bipolar][self.n % 2];
        let length = Length::new([32, 100, 65][self.n % 3])?;
        let encoding = match self.n % 3 {
            0 => Encoding::Bernoulli { seed: self.draw.word().into() },
            1 => Encoding::Sequences(self.draw.pairing(Sharing::OneForAll, self.n)?),
            _ => self.draw.mixed(Sharing::OneForAll, self.n)?,
        };
        let index = LayerIndex::new(self.slots.len() % 7)?;
        let spec = LayerSpec::new(topology, length, polarity, encoding)?.at(index);
        let weights = (0..spec.n_weights()).map(|_| self.draw.value(polarity)).collect();
        let weights = Weights::new(&spec, weights)?;
        self.program.layer(spec, weights, rows)
    }

    /// Generates the outputs of a layer, whose rows of weights have separate scales except before a
    /// clamp.
    fn counted(
        &mut self,
        layer: usize,
        thresholds: SlotId,
        activation: Activation,
    ) -> Result<Value> {
        let counts = self.program.product(layer, thresholds)?;
        self.slots.extend([thresholds, counts]);
        let Some((spec, rows)) =
            self.program.layer_at(layer).map(|layer| (layer.spec.clone(), layer.rows))
        else {
            return Err(crate::Error::Internal { place: "conformance::suite::program" });
        };
        let is_clamped = matches!(activation, Activation::Clamp { .. });
        let mut quarter = || f64::from(self.draw.word() % 16) / 8.0;
        let scales = match is_clamped {
            true => vec![0.25 + quarter()],
            false => (0..spec.n_rows()).map(|_| 0.25 + quarter()).collect(),
        };
        let bias = (0..spec.n_rows()).map(|_| quarter() - 1.0).collect();
        let stage = FloatStage { scales, bias, activation };
        let (accumulator, per_row) =
            (Accumulator::calibrated(&spec, &stage, FRACTION)?, spec.neurons_per_row());
        let unit = |k: usize| {
            let row = k % spec.n_neurons() / per_row;
            let scale = stage.scales.get(row).copied().unwrap_or(stage.scales[0]);
            accumulator.unit(spec.length(), scale)
        };
        let units = (0..spec.n_neurons() * rows).map(unit).collect();
        let slot = match self.arithmetic {
            Arithmetic::Float => self.program.decode(layer, counts, stage.clone())?,
            Arithmetic::Integer => self.program.accumulate(layer, counts, accumulator.clone())?,
        };
        self.slots.push(slot);
        Ok(Value { slot, units })
    }

    /// Generates the thresholds of a layer's inputs, some of which saturate.
    fn thresholds(&mut self, layer: usize, value: &Value) -> Result<SlotId> {
        let scale = 1.0 + f64::from(self.draw.word() % 8);
        match self.arithmetic {
            Arithmetic::Float => {
                self.program.quantize(layer, value.slot, scale, None, ValueRange::Saturate)
            }
            Arithmetic::Integer => {
                let polarity = [Polarity::Signed, Polarity::Bipolar][self.n % 2];
                let comparator = Width::new(3)?;
                let units = Pattern::from_elements(&value.units)?;
                let requantizers = units
                    .try_map(|&unit| Requantizer::of_unit(unit, scale, 12, comparator, polarity))?;
                self.program.requantize(layer, value.slot, requantizers)
            }
        }
    }

    fn combined(&mut self, left: &Value, right: &Value) -> Result<Value> {
        let sign = [Sign::Plus, Sign::Minus][self.n / 2 % 2];
        let finer: Vec<f64> = left.units.iter().zip(&right.units).map(|(a, b)| a.min(*b)).collect();
        let rescale = match self.arithmetic {
            Arithmetic::Float => None,
            Arithmetic::Integer => {
                let rescaler = |unit: f64, finer: f64| match unit > finer {
                    true => Rescaler::calibrated(unit, finer, 16).map(Some),
                    false => Ok(None),
                };
                let pairs = left.units.iter().zip(&right.units).zip(&finer);
                let pairs =
                    pairs.map(|((&a, &b), &finer)| Ok([rescaler(a, finer)?, rescaler(b, finer)?]));
                Some(Pattern::from_elements(&pairs.collect::<Result<Vec<_>>>()?)?)
            }
        };
        let slot = self.program.combine([left.slot, right.slot], sign, rescale)?;
        self.slots.push(slot);
        Ok(Value { slot, units: finer })
    }

    /// Adds a constant, or subtracts the value from a constant.
    fn shifted(&mut self, value: &Value) -> Result<Value> {
        let sign = [Sign::Plus, Sign::Minus][self.n % 2];
        let slot = match self.arithmetic {
            Arithmetic::Float => {
                let op = [ConstantOp::Add, ConstantOp::SubtractFrom][self.n % 2];
                self.program.constant(value.slot, op, Pattern::per_row(&[0.5, -0.75], 20)?)?
            }
            Arithmetic::Integer => {
                let terms: Vec<i64> =
                    (0..value.units.len()).map(|k| 100 * (k as i64 % 5) - 200).collect();
                self.program.offset(value.slot, sign, Pattern::from_elements(&terms)?)?
            }
        };
        self.slots.push(slot);
        Ok(Value { slot, ..value.clone() })
    }

    fn clipped(&mut self, value: &Value) -> Result<Value> {
        let bounds = match self.arithmetic {
            Arithmetic::Float => {
                Bounds::Float(Pattern::per_row(&[[0.0, f64::INFINITY], [-1.0, 1.5]], 20)?)
            }
            Arithmetic::Integer => {
                let bound =
                    |&unit: &f64| [(-1.0 / unit) as i64, if unit > 0.01 { i64::MAX } else { 4000 }];
                Bounds::Integer(Pattern::from_elements(
                    &value.units.iter().map(bound).collect::<Vec<_>>(),
                )?)
            }
        };
        let slot = self.program.clip(value.slot, bounds)?;
        self.slots.push(slot);
        Ok(Value { slot, ..value.clone() })
    }

    /// Pools windows with padding on one side. All elements of an image have one unit.
    fn pooled(&mut self, value: &Value) -> Result<Value> {
        let kind = [PoolKind::Max, PoolKind::Average][self.n / 2 % 2];
        let border = [Border::Excluded, Border::Zeros][self.n % 2];
        let pool =
            Pool::new(kind, [2, 3]).with_stride([2, 2]).with_paddings([[0, 0], [1, 0]], border);
        let shape = PoolShape::new(pool, IMAGE)?;
        let slot = self.program.pool(value.slot, shape)?;
        self.slots.push(slot);
        let [channels, rows, columns] = shape.output();
        let positions = IMAGE[1] * IMAGE[2];
        let units =
            (0..channels * rows * columns).map(|k| value.units[k / (rows * columns) * positions]);
        Ok(Value { slot, units: units.collect() })
    }

    /// Gathers elements in an order, taking them from each of several slots in turn.
    fn gathered(&mut self, values: &[&Value], order: &[usize]) -> Result<Value> {
        let input = |k: usize| (k % values.len()) as u32;
        let map = order.iter().enumerate();
        let map = map
            .map(|(k, &element)| GatherIndex { input: input(k), element: element as u32 })
            .collect();
        let slot = self.program.gather(values.iter().map(|value| value.slot).collect(), map)?;
        self.slots.push(slot);
        let units =
            order.iter().enumerate().map(|(k, &element)| values[k % values.len()].units[element]);
        Ok(Value { slot, units: units.collect() })
    }
}

//! The steps of a program as loops over f64.

use super::pool::PoolStage;
use crate::Tier;
use crate::dispatch::{
    self, DecodeLanes, DecodeRows, Division, LevelLanes, MIDDLE, QuantizeLanes, SHIFT, Saturation,
    Signs, SumLanes,
};
use aleatron_core::arithmetic::{
    Accumulator, Activation, FloatStage, IntegerActivation, PoolShape, Requantizer, Rescaler,
};
use aleatron_core::program::{
    Bounds, ConstantOp, GatherIndex, Pattern, Program, Sign, SlotKind, Step, StepKind, ValueRange,
};
use aleatron_core::{Error, LayerSpec, Polarity, Quantity, Result, Width, memory};

/// Integers below this, and sums of a few of them, are exact in f64.
pub(super) const EXACT: u128 = 1 << 50;

/// The length to which constants of neurons are repeated, so that loops are long enough for vector
/// registers.
const ROW: usize = 256;

/// The least number of consecutive elements with one requantizer that are converted together.
const RUN: usize = 16;

/// An operation on chunks of samples.
#[derive(Debug)]
pub(super) enum Op {
    Decode { lanes: DecodeLanes, rows: DecodeRows },
    Accumulate(AccumulateOp),
    Constant { op: ConstantOp, constants: Pattern<f64> },
    Offset { sign: Sign, terms: Pattern<f64> },
    Clip(Pattern<[f64; 2]>),
    PoolFloats(PoolShape),
    PoolIntegers(PoolStage),
    Gather { map: Vec<GatherIndex>, lens: Vec<usize> },
    Combine { sign: Sign, rescale: Option<Pattern<[Option<RescaleLanes>; 2]>> },
    Quantize { layer: usize, lanes: QuantizeLanes, range: ValueRange },
    Requantize(RequantizeOp),
    Restore(Pattern<f64>),
}

/// Accumulators, with the constants of all neurons, which may be repeated.
#[derive(Debug)]
pub(super) struct AccumulateOp {
    pub(super) lanes: SumLanes,
    pub(super) offsets: Vec<f64>,
}

/// Requantizers of the elements of a sample.
#[derive(Debug)]
pub(super) struct RequantizeOp {
    pub(super) layer: usize,
    pub(super) levels: Levels,
}

#[derive(Debug)]
pub(super) enum Levels {
    /// One requantizer for all elements.
    Uniform(LevelLanes),
    /// Long runs of elements with one requantizer each.
    Runs(Pattern<LevelLanes>),
    /// One requantizer for each element: multipliers and ties; all other parameters are equal.
    Each { lanes: LevelLanes, multipliers: Vec<f64>, ties: Vec<f64> },
}

/// A rescaler in f64.
#[derive(Debug, Clone, Copy)]
pub(super) struct RescaleLanes {
    multiplier: f64,
    half: f64,
    step: f64,
}

impl RescaleLanes {
    fn new(rescaler: &Rescaler) -> Self {
        let shift = rescaler.shift();
        let half = if shift == 0 { 0.0 } else { 2f64.powi(shift as i32 - 1) };
        Self { multiplier: rescaler.multiplier() as f64, half, step: 2f64.powi(-(shift as i32)) }
    }

    #[inline]
    fn apply(self, value: f64) -> f64 {
        dispatch::floor((value * self.multiplier + self.half) * self.step)
    }
}

/// The elements of a slot that an operation reads.
#[derive(Debug, Clone, Copy)]
pub(super) enum In<'a> {
    Numbers(&'a [f64]),
    Words(&'a [u64]),
}

/// The elements of a slot that an operation writes.
#[derive(Debug)]
pub(super) enum Out<'a> {
    Numbers(&'a mut [f64]),
    Words(&'a mut [u64]),
}

/// Prepares the operations of a program; `None` if its integers are not exact in f64.
pub(super) fn prepare(program: &Program) -> Result<Option<Vec<Option<Op>>>> {
    let Some(magnitudes) = program.magnitudes(EXACT) else { return Ok(None) };
    let mut ops = Vec::with_capacity(program.steps().len());
    for step in program.steps() {
        let largest = step.inputs().iter().map(|id| magnitudes[id.index()]).max().unwrap_or(0);
        match op(program, step, largest)? {
            Prepared::Op(op) => ops.push(Some(*op)),
            Prepared::Product => ops.push(None),
            Prepared::Inexact => return Ok(None),
        }
    }
    Ok(Some(ops))
}

enum Prepared {
    Op(Box<Op>),
    Product,
    Inexact,
}

/// Returns the operation of a step whose integer inputs have magnitudes up to `largest`.
fn op(program: &Program, step: &Step, largest: u128) -> Result<Prepared> {
    let spec = |layer: usize| match program.layers().get(layer) {
        Some(layer) => Ok(&layer.spec),
        None => Err(Error::Internal { place: "cpu::program::op" }),
    };
    Ok(Prepared::Op(Box::new(match step.kind() {
        StepKind::Product { .. } => return Ok(Prepared::Product),
        StepKind::Decode { layer, stage } => match decode(spec(*layer)?, stage)? {
            Some((lanes, rows)) => Op::Decode { lanes, rows },
            None => return Ok(Prepared::Inexact),
        },
        StepKind::Accumulate { layer, accumulator } => {
            Op::Accumulate(accumulate(spec(*layer)?, accumulator)?)
        }
        StepKind::Constant { op, constants } => {
            Op::Constant { op: *op, constants: constants.clone() }
        }
        StepKind::Offset { sign, terms } => {
            Op::Offset { sign: *sign, terms: terms.try_map(|&term| Ok(term as f64))? }
        }
        StepKind::Clip(Bounds::Float(bounds)) => Op::Clip(bounds.clone()),
        StepKind::Clip(Bounds::Integer(bounds)) => {
            Op::Clip(bounds.try_map(|ends| Ok(ends.map(|end| end as f64)))?)
        }
        StepKind::Pool(shape) => match program.slot(step.output()).kind {
            SlotKind::Integer => Op::PoolIntegers(PoolStage::new(shape)?),
            _ => Op::PoolFloats(*shape),
        },
        StepKind::Gather { map } => {
            let lens = step.inputs().iter().map(|&id| program.slot(id).len).collect();
            Op::Gather { map: map.clone(), lens }
        }
        StepKind::Combine { sign, rescale } => {
            let lanes =
                |pair: &[Option<Rescaler>; 2]| Ok(pair.map(|r| r.as_ref().map(RescaleLanes::new)));
            let rescale = rescale.as_ref().map(|rescale| rescale.try_map(lanes)).transpose()?;
            Op::Combine { sign: *sign, rescale }
        }
        StepKind::Quantize { layer, scale, comparator, range } => {
            let spec = spec(*layer)?;
            let width = spec.encoding().input_width();
            let lanes = quantize(spec.polarity(), *scale, *comparator, width, *range);
            Op::Quantize { layer: *layer, lanes, range: *range }
        }
        StepKind::Requantize { layer, requantizers } => {
            let width = spec(*layer)?.encoding().input_width();
            match levels(requantizers, largest, width, program.slot(step.output()).len) {
                Some(levels) => Op::Requantize(RequantizeOp { layer: *layer, levels }),
                None => return Ok(Prepared::Inexact),
            }
        }
        StepKind::Restore { units } => Op::Restore(units.clone()),
        _ => return Err(Error::Internal { place: "cpu::program::op" }),
    })))
}

fn division(divisor: f64) -> Division {
    // Powers of two have exact reciprocals: multiplying by them rounds to the same numbers.
    let is_power = divisor.is_normal() && divisor.to_bits() & ((1 << 52) - 1) == 0;
    if is_power { Division::Reciprocal } else { Division::Exact }
}

/// Returns the factor of a count and the factor of `n L` in the sum of a count.
const fn count_factors(polarity: Polarity) -> [f64; 2] {
    match polarity {
        Polarity::Unipolar => [1.0, 0.0],
        Polarity::Bipolar => [2.0, 1.0],
        Polarity::Signed => [1.0, 1.0],
    }
}

fn decode(spec: &LayerSpec, stage: &FloatStage) -> Result<Option<(DecodeLanes, DecodeRows)>> {
    if spec.max_count() >= EXACT {
        return Ok(None);
    }
    let [count, product] = count_factors(spec.polarity());
    let bits = spec.length().bits() as f64;
    let [low, high] = match stage.activation {
        Activation::Relu => [0.0, f64::INFINITY],
        Activation::Clamp { low, high } => [low, high],
        _ => [f64::NEG_INFINITY, f64::INFINITY],
    };
    let lanes =
        DecodeLanes { shift: SHIFT * count, divisor: bits, division: division(bits), low, high };
    let fan_ins = spec.topology().fan_ins();
    let scales = stage.scales.iter().copied().cycle().take(spec.n_rows());
    let per_row = spec.neurons_per_row();
    let offset = |n: &usize| bits * product * *n as f64;
    let rows = match per_row {
        1 => {
            let times = (ROW / spec.n_rows()).max(1);
            memory::check(24 * (spec.n_rows() * times) as u128, Quantity::Bias)?;
            let offsets = fan_ins.iter().map(offset).cycle().take(spec.n_rows());
            let (offsets, scales): (Vec<f64>, Vec<f64>) = (offsets.collect(), scales.collect());
            DecodeRows::Neurons {
                offsets: offsets.repeat(times),
                scales: scales.repeat(times),
                bias: stage.bias.repeat(times),
            }
        }
        _ => {
            let offsets = fan_ins.iter().map(offset).cycle().take(per_row).collect();
            DecodeRows::Channels { offsets, rows: scales.zip(stage.bias.iter().copied()).collect() }
        }
    };
    Ok(Some((lanes, rows)))
}

/// Returns the accumulators of a layer in f64. [`Program::magnitudes`] has proved that their values
/// and the increments of counts are exact. A sum that is not exact is outside their range, and
/// saturates as it should.
fn accumulate(spec: &LayerSpec, accumulator: &Accumulator) -> Result<AccumulateOp> {
    let (one, [low, high]) = (2f64.powi(accumulator.fraction() as i32), accumulator.interval());
    let [count, product] = count_factors(spec.polarity()).map(|factor| factor * one);
    let bits = product * spec.length().bits() as f64;
    let (n, per_row, fan_ins) =
        (spec.n_neurons(), spec.neurons_per_row(), spec.topology().fan_ins());
    let times = (ROW / n.max(1)).max(1);
    let mut offsets = memory::with_capacity(n as u128 * times as u128, Quantity::Bias)?;
    for _ in 0..times {
        let biases =
            accumulator.bias().iter().flat_map(|&bias| std::iter::repeat_n(bias as f64, per_row));
        offsets.extend(biases.zip(fan_ins.iter().cycle()).map(|(bias, &n)| bias - bits * n as f64));
    }
    // The bounds of an activation lie inside those of the accumulator.
    let [low, high] = match accumulator.activation() {
        IntegerActivation::Relu => [0, high],
        IntegerActivation::Clamp { low, high } => [low, high],
        _ => [low, high],
    };
    let lanes = SumLanes { shift: SHIFT * count, low: low as f64, high: high as f64 };
    Ok(AccumulateOp { lanes, offsets })
}

fn signs(polarity: Polarity) -> Signs {
    match polarity {
        Polarity::Unipolar | Polarity::Bipolar => Signs::None,
        Polarity::Signed => Signs::HighestBit,
    }
}

fn quantize(
    polarity: Polarity,
    scale: f64,
    comparator: Width,
    width: Width,
    range: ValueRange,
) -> QuantizeLanes {
    let one = comparator.one() as f64;
    let (addend, levels) = match polarity {
        Polarity::Unipolar | Polarity::Signed => (0.0, one),
        Polarity::Bipolar => (1.0, one / 2.0),
    };
    let interval @ [low, high] = polarity.interval();
    let slack = ValueRange::ROUNDING * (high - low);
    let allowed = match range {
        ValueRange::Check => [low - slack, high + slack],
        ValueRange::Saturate => [f64::NEG_INFINITY, f64::INFINITY],
    };
    let unused = width.bits() - comparator.bits();
    let (division, signs) = (division(scale), signs(polarity));
    QuantizeLanes { allowed, divisor: scale, division, interval, addend, levels, unused, signs }
}

fn levels(
    requantizers: &Pattern<Requantizer>,
    largest: u128,
    width: Width,
    len: usize,
) -> Option<Levels> {
    let lanes = |requantizer: &Requantizer| {
        let lanes = level(largest, requantizer, width.bits() - requantizer.comparator().bits());
        lanes.ok_or(Error::Internal { place: "cpu::program::levels" })
    };
    let pattern = requantizers.try_map(lanes).ok()?;
    let first = *pattern.get(0);
    if pattern.as_uniform().is_some() {
        return Some(Levels::Uniform(first));
    }
    let n_runs = pattern.runs().count();
    // The kernel for single elements takes one comparator for all.
    let is_equal = |lanes: &LevelLanes| {
        (lanes.zero, lanes.one, lanes.unused, lanes.signs)
            == (first.zero, first.one, first.unused, first.signs)
    };
    if pattern.period() / n_runs >= RUN || !pattern.table().iter().all(is_equal) {
        return Some(Levels::Runs(pattern));
    }
    let table = pattern.table();
    let each = |f: fn(&LevelLanes) -> f64| -> Vec<f64> {
        let one: Vec<f64> = pattern.keys().map(|key| f(&table[key as usize])).collect();
        one.repeat((ROW / one.len()).clamp(1, (len / one.len()).max(1)))
    };
    Some(Levels::Each {
        lanes: first,
        multipliers: each(|lanes| lanes.multiplier),
        ties: each(|lanes| lanes.tie),
    })
}

/// Returns a requantizer in f64, if it is exact for all values that do not saturate. Rounding
/// preserves the order of products, so the others saturate as well.
fn level(largest: u128, requantizer: &Requantizer, unused: u32) -> Option<LevelLanes> {
    let (multiplier, shift) = (requantizer.multiplier(), requantizer.shift());
    let one = requantizer.comparator().one();
    requantizer.reach(largest, EXACT)?;
    let zero = match requantizer.polarity() {
        Polarity::Unipolar | Polarity::Signed => 0,
        Polarity::Bipolar => one / 2,
    };
    let step = 2f64.powi(-(shift as i32));
    Some(LevelLanes {
        multiplier: multiplier as f64 * step,
        tie: if shift == 0 { 0.0 } else { step / 2.0 },
        zero: MIDDLE + zero as f64,
        one: one as f64,
        unused,
        signs: signs(requantizer.polarity()),
    })
}

impl Op {
    /// Computes the output of whole samples.
    ///
    /// # Errors
    /// Returns [`Error::Internal`] for slots that are not those of the operation.
    pub(super) fn apply(&self, tier: Tier, inputs: &[In<'_>], out: Out<'_>) -> Result<Saturation> {
        let mut saturation = Saturation::default();
        match (self, inputs, out) {
            (Self::Decode { lanes, rows }, [In::Words(counts)], Out::Numbers(out)) => {
                dispatch::decode(tier, *lanes, rows, counts, out);
            }
            (Self::Accumulate(op), [In::Words(counts)], Out::Numbers(out)) => {
                dispatch::accumulate(tier, op.lanes, &op.offsets, counts, out);
            }
            (Self::Constant { op, constants }, [In::Numbers(values)], Out::Numbers(out)) => {
                out.copy_from_slice(values);
                constants.for_each_run(out, |&constant, run| {
                    run.iter_mut().for_each(|value| *value = op.apply(*value, constant));
                });
            }
            (Self::Offset { sign, terms }, [In::Numbers(values)], Out::Numbers(out)) => {
                out.copy_from_slice(values);
                let sign = if *sign == Sign::Plus { 1.0 } else { -1.0 };
                terms.for_each_run(out, |&term, run| {
                    run.iter_mut().for_each(|value| *value = sign * *value + term);
                });
            }
            (Self::Clip(bounds), [In::Numbers(values)], Out::Numbers(out)) => {
                out.copy_from_slice(values);
                bounds.for_each_run(out, |&[low, high], run| {
                    run.iter_mut().for_each(|value| *value = value.max(low).min(high));
                });
            }
            (Self::PoolFloats(shape), [In::Numbers(values)], Out::Numbers(out)) => {
                out.copy_from_slice(&shape.floats(values)?);
            }
            (Self::PoolIntegers(stage), [In::Numbers(values)], Out::Numbers(out)) => {
                stage.apply(tier, values, out);
            }
            (Self::Gather { map, lens }, inputs, Out::Numbers(out)) => {
                gather(map, lens, inputs, out)?
            }
            (
                Self::Combine { sign, rescale },
                [In::Numbers(left), In::Numbers(right)],
                Out::Numbers(out),
            ) => {
                combine(*sign, rescale.as_ref(), left, right, out);
            }
            (Self::Quantize { lanes, range, .. }, [In::Numbers(values)], Out::Words(out)) => {
                saturation = dispatch::quantize(tier, *lanes, values, out);
                if *range == ValueRange::Check {
                    // Values outside that are not rejected are rounding errors.
                    saturation.saturated = 0;
                }
            }
            (Self::Requantize(op), [In::Numbers(values)], Out::Words(out)) => {
                saturation.saturated = op.levels.apply(tier, values, out);
            }
            (Self::Restore(units), [In::Numbers(values)], Out::Numbers(out)) => {
                out.copy_from_slice(values);
                units.for_each_run(out, |&unit, run| {
                    run.iter_mut().for_each(|value| *value *= unit)
                });
            }
            _ => return Err(Error::Internal { place: "cpu::program::Op::apply" }),
        }
        Ok(saturation)
    }

    /// Returns the layer whose inputs the operation converts to thresholds.
    pub(super) const fn layer(&self) -> Option<usize> {
        match self {
            Self::Quantize { layer, .. } | Self::Requantize(RequantizeOp { layer, .. }) => {
                Some(*layer)
            }
            _ => None,
        }
    }
}

impl Levels {
    fn apply(&self, tier: Tier, values: &[f64], out: &mut [u64]) -> u64 {
        match self {
            Self::Uniform(lanes) => dispatch::thresholds(tier, *lanes, values, out),
            Self::Runs(pattern) => {
                let (mut saturated, mut done) = (0, 0);
                pattern.for_each_run(out, |lanes, run| {
                    saturated +=
                        dispatch::thresholds(tier, *lanes, &values[done..done + run.len()], run);
                    done += run.len();
                });
                saturated
            }
            Self::Each { lanes, multipliers, ties } => {
                dispatch::thresholds_each(tier, *lanes, [multipliers, ties], values, out)
            }
        }
    }
}

fn combine(
    sign: Sign,
    rescale: Option<&Pattern<[Option<RescaleLanes>; 2]>>,
    left: &[f64],
    right: &[f64],
    out: &mut [f64],
) {
    let sign = if sign == Sign::Plus { 1.0 } else { -1.0 };
    let Some(rescale) = rescale else {
        // A product with -1 is exact, so one loop serves sums and differences.
        for ((out, left), right) in out.iter_mut().zip(left).zip(right) {
            *out = left + sign * right;
        }
        return;
    };
    let mut done = 0;
    rescale.for_each_run(out, |rescalers, run| {
        let (left, right) = (&left[done..done + run.len()], &right[done..done + run.len()]);
        done += run.len();
        for ((out, &left), &right) in run.iter_mut().zip(left).zip(right) {
            let left = rescalers[0].map_or(left, |rescaler| rescaler.apply(left));
            let right = rescalers[1].map_or(right, |rescaler| rescaler.apply(right));
            *out = left + sign * right;
        }
    });
}

fn gather(map: &[GatherIndex], lens: &[usize], inputs: &[In<'_>], out: &mut [f64]) -> Result<()> {
    let wrong = Error::Internal { place: "cpu::program::gather" };
    let mut sources = Vec::with_capacity(inputs.len());
    for (input, &len) in inputs.iter().zip(lens) {
        match input {
            In::Numbers(values) => sources.push((*values, len)),
            In::Words(_) => return Err(wrong),
        }
    }
    for (sample, out) in out.chunks_mut(map.len()).enumerate() {
        for (out, index) in out.iter_mut().zip(map) {
            // The builder of the program has checked both indices.
            let (values, len) = sources[index.input as usize];
            *out = values[sample * len + index.element as usize];
        }
    }
    Ok(())
}

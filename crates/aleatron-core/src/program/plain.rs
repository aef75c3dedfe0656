//! Reference implementation of steps: one element at a time, never optimized.

use super::{
    Bounds, Program, ProgramBatch, ProgramOutput, Sign, SlotData, SlotId, Step, StepKind,
    ValueRange,
};
use crate::error::{Error, Quantity, Result};
use crate::layer::LayerSpec;
use crate::polarity::Polarity;
use crate::reference;
use crate::threshold::NEGATIVE;

/// Runs a program whose layers are counted by `counts_of`, which receives the index of the layer,
/// the thresholds of its inputs and the index of the first row.
///
/// # Errors
/// As for [`super::PreparedProgram::run`].
pub fn run(
    program: &Program,
    batch: &ProgramBatch<'_>,
    slots: &[SlotId],
    mut counts_of: impl FnMut(usize, &[u64], crate::SampleSeed) -> Result<Vec<u64>>,
) -> Result<ProgramOutput> {
    batch.check(program)?;
    let mut data: Vec<Option<SlotData>> = vec![None; program.slots().len()];
    for (id, input) in program.inputs().iter().zip(batch.inputs) {
        data[id.index()] = Some(SlotData::Float(input.to_vec()));
    }
    let mut saturated = vec![0; program.layers().len()];
    for step in program.steps() {
        let inputs = step.inputs().iter().map(|id| data[id.index()].as_ref());
        let inputs: Vec<&SlotData> = inputs.collect::<Option<_>>().ok_or(MISSING)?;
        let computed = match (step.kind(), &inputs[..]) {
            (StepKind::Product { layer }, [SlotData::Words(thresholds)]) => {
                let seed = batch.row_seed(program.layers()[*layer].rows, 0)?;
                SlotData::Words(counts_of(*layer, thresholds, seed)?)
            }
            _ => run_step(program, step, &inputs, batch.n_samples, &mut saturated)?,
        };
        data[step.output().index()] = Some(computed);
    }
    let slots = slots.iter().map(|id| data.get(id.index()).cloned().flatten().ok_or(MISSING));
    Ok(ProgramOutput { slots: slots.collect::<Result<_>>()?, saturated })
}

const MISSING: Error = Error::Internal { place: "program::plain::run" };

/// Runs one step of the inter-layer arithmetic on the samples of its input slots and adds the
/// saturated inputs to the sums of their layers.
///
/// # Errors
/// Returns [`Error::OutOfRange`] with the flat index of the first value outside its interval if the
/// step checks it, [`Error::Internal`] for inputs that are not those of the step.
pub fn run_step(
    program: &Program,
    step: &Step,
    inputs: &[&SlotData],
    n_samples: usize,
    saturated: &mut [u64],
) -> Result<SlotData> {
    let len = program.slot(step.output()).len;
    let spec = |layer: usize| program.layers().get(layer).map(|layer| &layer.spec).ok_or(WRONG);
    Ok(match (step.kind(), inputs) {
        (StepKind::Decode { layer, stage }, [SlotData::Words(counts)]) => {
            let spec = spec(*layer)?;
            let value = |(k, &count): (usize, &u64)| {
                let (neuron, row) = neuron_and_row(spec, k);
                let scale = stage.scales.get(row).or(stage.scales.first()).copied().unwrap_or(1.0);
                let bias = stage.bias.get(row).copied().unwrap_or(0.0);
                stage.activation.apply(spec.decode(neuron, count) * scale + bias)
            };
            SlotData::Float(counts.iter().enumerate().map(value).collect())
        }
        (StepKind::Accumulate { layer, accumulator }, [SlotData::Words(counts)]) => {
            let spec = spec(*layer)?;
            let accumulated = |(k, &count): (usize, &u64)| {
                reference::accumulate(accumulator, spec, neuron_and_row(spec, k).0, count)
            };
            SlotData::Integer(counts.iter().enumerate().map(accumulated).collect())
        }
        (StepKind::Constant { op, constants }, [SlotData::Float(values)]) => {
            let computed = values
                .iter()
                .enumerate()
                .map(|(k, &value)| op.apply(value, *constants.get(k % len)));
            SlotData::Float(computed.collect())
        }
        (StepKind::Offset { sign, terms }, [SlotData::Integer(values)]) => {
            let computed = values
                .iter()
                .enumerate()
                .map(|(k, &v)| signed(*sign, v).wrapping_add(*terms.get(k % len)));
            SlotData::Integer(computed.collect())
        }
        (StepKind::Clip(Bounds::Float(bounds)), [SlotData::Float(values)]) => {
            let limit = |(k, &value): (usize, &f64)| {
                let [low, high] = *bounds.get(k % len);
                value.max(low).min(high)
            };
            SlotData::Float(values.iter().enumerate().map(limit).collect())
        }
        (StepKind::Clip(Bounds::Integer(bounds)), [SlotData::Integer(values)]) => {
            let limit = |(k, &value): (usize, &i64)| {
                let [low, high] = *bounds.get(k % len);
                value.max(low).min(high)
            };
            SlotData::Integer(values.iter().enumerate().map(limit).collect())
        }
        (StepKind::Pool(shape), [SlotData::Float(values)]) => {
            SlotData::Float(reference::pool_floats(shape, values))
        }
        (StepKind::Pool(shape), [SlotData::Integer(values)]) => {
            SlotData::Integer(reference::pool_integers(shape, values))
        }
        (StepKind::Gather { map }, inputs) => gather(program, step, map, inputs, n_samples)?,
        (
            StepKind::Combine { sign, rescale },
            [SlotData::Integer(left), SlotData::Integer(right)],
        ) => {
            let sum = |(k, (&left, &right)): (usize, (&i64, &i64))| {
                let rescalers = rescale.as_ref().map_or([None; 2], |rescale| *rescale.get(k % len));
                let scaled = |k: usize, value: i64| {
                    rescalers[k].map_or(value, |rescaler| reference::rescale(&rescaler, value))
                };
                scaled(0, left).wrapping_add(signed(*sign, scaled(1, right)))
            };
            SlotData::Integer(left.iter().zip(right).enumerate().map(sum).collect())
        }
        (StepKind::Combine { sign, .. }, [SlotData::Float(left), SlotData::Float(right)]) => {
            let sum = |(&left, &right): (&f64, &f64)| match sign {
                Sign::Plus => left + right,
                Sign::Minus => left - right,
            };
            SlotData::Float(left.iter().zip(right).map(sum).collect())
        }
        (StepKind::Quantize { layer, scale, comparator, range }, [SlotData::Float(values)]) => {
            let spec = spec(*layer)?;
            let unused = spec.encoding().input_width().bits() - comparator.bits();
            let mut thresholds = Vec::with_capacity(values.len());
            for (index, &value) in values.iter().enumerate() {
                let (value, is_outside) = limited(index, value / scale, spec.polarity(), *range)?;
                *saturated.get_mut(*layer).ok_or(WRONG)? += u64::from(is_outside);
                let p = spec.polarity().probability(value);
                let threshold = ((p * comparator.one() as f64 + 0.5).floor() as u64) << unused;
                let is_negative = spec.polarity().is_negative(value);
                thresholds.push(threshold | if is_negative { NEGATIVE } else { 0 });
            }
            SlotData::Words(thresholds)
        }
        (StepKind::Requantize { layer, requantizers }, [SlotData::Integer(values)]) => {
            let width = spec(*layer)?.encoding().input_width();
            let mut thresholds = Vec::with_capacity(values.len());
            for (k, &value) in values.iter().enumerate() {
                let requantizer = requantizers.get(k % len);
                let unused = width.bits() - requantizer.comparator().bits();
                let threshold = reference::requantize(requantizer, value);
                *saturated.get_mut(*layer).ok_or(WRONG)? += u64::from(requantizer.saturates(value));
                thresholds.push((threshold & !NEGATIVE) << unused | threshold & NEGATIVE);
            }
            SlotData::Words(thresholds)
        }
        (StepKind::Restore { units }, [SlotData::Integer(values)]) => {
            let computed =
                values.iter().enumerate().map(|(k, &value)| value as f64 * units.get(k % len));
            SlotData::Float(computed.collect())
        }
        _ => return Err(WRONG),
    })
}

const WRONG: Error = Error::Internal { place: "program::plain::run_step" };

/// Returns the neuron of count `k` of some rows, and the row of its weights.
fn neuron_and_row(spec: &LayerSpec, k: usize) -> (usize, usize) {
    let neuron = k % spec.n_neurons();
    (neuron, neuron / spec.neurons_per_row())
}

const fn signed(sign: Sign, value: i64) -> i64 {
    match sign {
        Sign::Plus => value,
        Sign::Minus => value.wrapping_neg(),
    }
}

/// Limits a scaled value to the interval of a polarity. Returns the value and whether it was
/// outside. NaN is always an error.
fn limited(index: usize, value: f64, polarity: Polarity, range: ValueRange) -> Result<(f64, bool)> {
    let [low, high] = polarity.interval();
    let slack = ValueRange::ROUNDING * (high - low);
    let is_refused = range == ValueRange::Check && !(low - slack <= value && value <= high + slack);
    if value.is_nan() || is_refused {
        return Err(Error::OutOfRange { what: Quantity::Value, index, value, low, high });
    }
    let is_outside = range == ValueRange::Saturate && !(low <= value && value <= high);
    Ok((value.clamp(low, high), is_outside))
}

fn gather(
    program: &Program,
    step: &Step,
    map: &[super::GatherIndex],
    inputs: &[&SlotData],
    n_samples: usize,
) -> Result<SlotData> {
    fn select<T: Copy>(
        inputs: &[(&[T], usize)],
        map: &[super::GatherIndex],
        n_samples: usize,
    ) -> Option<Vec<T>> {
        let mut computed = Vec::with_capacity(map.len() * n_samples);
        for sample in 0..n_samples {
            for index in map {
                let (values, len) = inputs.get(index.input as usize)?;
                computed.push(*values.get(sample * len + index.element as usize)?);
            }
        }
        Some(computed)
    }
    let lens = step.inputs().iter().map(|&id| program.slot(id).len);
    let floats: Option<Vec<(&[f64], usize)>> = inputs
        .iter()
        .zip(lens.clone())
        .map(|(data, len)| match data {
            SlotData::Float(values) => Some((values.as_slice(), len)),
            _ => None,
        })
        .collect();
    if let Some(floats) = floats {
        return select(&floats, map, n_samples).map(SlotData::Float).ok_or(WRONG);
    }
    let integers: Option<Vec<(&[i64], usize)>> = inputs
        .iter()
        .zip(lens)
        .map(|(data, len)| match data {
            SlotData::Integer(values) => Some((values.as_slice(), len)),
            _ => None,
        })
        .collect();
    integers
        .and_then(|integers| select(&integers, map, n_samples))
        .map(SlotData::Integer)
        .ok_or(WRONG)
}

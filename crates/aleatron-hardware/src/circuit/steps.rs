//! The inter-layer arithmetic as stages.

use super::build::{Builder, Value, View};
use super::interval::Interval;
use super::layer::stride;
use super::order::{self, one_period};
use super::{InputInterval, Link, Operation, Stage, Window, Word};
use crate::error::internal;
use crate::{Error, Result};
use aleatron_core::Polarity;
use aleatron_core::arithmetic::{Border, PoolKind, PoolShape, Requantizer, Rescaler};
use aleatron_core::program::{
    Bounds, GatherIndex, InputSign, Pattern, Sign, SlotId, Step, StepKind,
};

impl Builder<'_> {
    /// Adds the stage of a step between layers.
    pub(super) fn arithmetic(
        &mut self,
        index: usize,
        step: &Step,
        inputs: &[Value],
    ) -> Result<View> {
        let part = format!("step {index} ({})", step.kind().name());
        let mut views = Vec::new();
        for value in inputs {
            match value {
                Value::Stage(view) => views.push(view.clone()),
                _ => {
                    return Err(Error::Unsupported {
                        part,
                        what: "an operand that is not computed from streams".to_owned(),
                        remedy: "use operands that are outputs of layers, or constants",
                    });
                }
            }
        }
        let Some(view) = views.first() else {
            return Err(internal("hardware::Builder::arithmetic"));
        };
        let slot = step.output();
        match step.kind() {
            StepKind::Requantize { layer, requantizers } => {
                self.requantize(view, slot, *layer, requantizers)
            }
            StepKind::Offset { sign, terms } => {
                let (terms, classes) = self.classes(view, terms)?;
                let negated = *sign == Sign::Minus;
                let interval = |value: Interval| {
                    let value =
                        if negated { Interval::new(-value.high, -value.low) } else { value };
                    let sum = |term: &i64| value.map(|value| value + i128::from(*term));
                    union(terms.iter().map(sum))
                };
                let output = self.integers(&part, view, slot, interval)?;
                self.elementwise(
                    "offset",
                    view,
                    output,
                    Operation::Offset { negated, terms, classes },
                )
            }
            StepKind::Clip(Bounds::Integer(bounds)) => {
                let (bounds, classes) = self.classes(view, bounds)?;
                let interval = |value: Interval| {
                    let clip =
                        |&[low, high]: &[i64; 2]| value.map(|v| v.max(low.into()).min(high.into()));
                    union(bounds.iter().map(clip))
                };
                let output = self.integers(&part, view, slot, interval)?;
                self.elementwise("clip", view, output, Operation::Clip { bounds, classes })
            }
            StepKind::Pool(shape) => self.pool(&part, view, slot, shape),
            StepKind::Gather { map } => self.gather(&part, view, slot, map, views.len()),
            StepKind::Combine { sign, rescale } => {
                let [first, second] = &views[..] else {
                    return Err(internal("hardware::Builder::arithmetic"));
                };
                self.add(&part, first, second, slot, *sign, rescale.as_ref())
            }
            _ => Err(Error::FloatArithmetic),
        }
    }

    fn elementwise(
        &mut self,
        name: &str,
        view: &View,
        output: Link,
        operation: Operation,
    ) -> Result<View> {
        let name = self.unique(name);
        Ok(self.push(Stage { name, inputs: vec![view.source], output, operation }))
    }

    /// Returns the different constants of arriving elements, and the class of each.
    fn classes<T: Clone + PartialEq>(
        &self,
        view: &View,
        pattern: &Pattern<T>,
    ) -> Result<(Vec<T>, Vec<u32>)> {
        let (keys, mut table): (Vec<u32>, Vec<T>) = (pattern.keys().collect(), Vec::new());
        // Constants of several keys may be equal.
        let mut class_of_key = Vec::new();
        for constant in pattern.table() {
            class_of_key.push(table.iter().position(|known| known == constant).unwrap_or_else(
                || {
                    table.push(constant.clone());
                    table.len() - 1
                },
            ) as u32);
        }
        let class = |&element: &u32| class_of_key[keys[element as usize % keys.len()] as usize];
        Ok((table, one_period(&view.order.iter().map(class).collect::<Vec<_>>())))
    }

    /// Returns the link of integers that are computed from those of a source.
    fn integers(
        &self,
        part: &str,
        view: &View,
        slot: SlotId,
        interval: impl Fn(Interval) -> Option<Interval>,
    ) -> Result<Link> {
        let interval = interval(interval_of(self.link(view.source)?)?)
            .ok_or_else(|| internal("hardware::Builder::integers"))?;
        let [low, high] = interval.ends(part)?;
        Ok(view.link(Word::Integer { low, high }, slot))
    }

    fn requantize(
        &mut self,
        view: &View,
        slot: SlotId,
        layer: usize,
        requantizers: &Pattern<Requantizer>,
    ) -> Result<View> {
        let name = self.layer_name(layer);
        let found = self
            .program
            .layers()
            .get(layer)
            .ok_or_else(|| internal("hardware::Builder::requantize"))?;
        let (table, classes) = self.classes(view, requantizers)?;
        let shift = table.iter().map(Requantizer::shift).max().unwrap_or(0);
        let multipliers = table.iter().map(|r| scaled(r.multiplier(), shift - r.shift(), &name));
        let multipliers = multipliers.collect::<Result<Vec<_>>>()?;
        let (width, polarity) = (found.spec.encoding().input_width().bits(), found.spec.polarity());
        if table.iter().any(|r| r.comparator().bits() != width || r.polarity() != polarity) {
            return Err(internal("hardware::Builder::requantize"));
        }
        let sign = match (polarity, found.input_sign) {
            (Polarity::Signed, InputSign::Any) => InputInterval::Signed,
            _ => InputInterval::NonNegative,
        };
        let output = view.link(Word::Threshold { width, sign }, slot);
        let operation =
            Operation::Requantize { multipliers, shift, comparator: width, polarity, classes };
        self.elementwise(&format!("{name}_thresholds"), view, output, operation)
    }

    fn pool(&mut self, part: &str, view: &View, slot: SlotId, shape: &PoolShape) -> Result<View> {
        let pool = *shape.pool();
        let [image_channels, ..] = shape.output();
        let images = view.order.len() / shape.n_inputs();
        let channels = images * image_channels;
        let size = shape.windows().map(|windows| windows.axis().size);
        let window = Window {
            channels,
            size,
            padding: pool.padding,
            kernel: pool.window,
            stride: shape.windows().map(|windows| stride(&windows)),
            dilation: [1, 1],
            positions: shape.n_outputs() / image_channels,
        };
        let divisor = match pool.kind {
            PoolKind::Max => None,
            PoolKind::Average if window.is_padded() && pool.border == Border::Excluded => {
                return Err(Error::Unsupported {
                    part: part.to_owned(),
                    what: "an average that leaves out the padding".to_owned(),
                    remedy: "count the padding (count_include_pad=1), pool without padding, or use a maximum",
                });
            }
            PoolKind::Average => Some(pool.window[0] * pool.window[1]),
        };
        let view = self.in_order(view, &order::by_pixel(channels, size[0] * size[1]))?;
        let zero = Interval::new(0, 0);
        let interval = |value: Interval| match (divisor, window.is_padded()) {
            (Some(_), true) => Some(value.union(zero)),
            _ => Some(value),
        };
        let link = self.integers(part, &view, slot, interval)?;
        let order = order::by_pixel(channels, window.positions);
        let output = Link { elements: channels * window.positions, order, ..link };
        self.elementwise("pool", &view, output, Operation::Pool { window, divisor })
    }

    /// Adds a movement of elements. Permutations change the numbers of elements, not their arrival;
    /// other movements need a memory.
    fn gather(
        &mut self,
        part: &str,
        view: &View,
        slot: SlotId,
        map: &[GatherIndex],
        n_inputs: usize,
    ) -> Result<View> {
        if n_inputs != 1 {
            return Err(Error::Unsupported {
                part: part.to_owned(),
                what: "joining several values (Concat)".to_owned(),
                remedy: "use networks whose branches meet in additions",
            });
        }
        let positions = order::positions(&view.order);
        let addresses: Vec<u32> =
            map.iter().map(|index| positions[index.element as usize]).collect();
        let mut seen = vec![false; positions.len()];
        addresses.iter().for_each(|&k| seen[k as usize] = true);
        if addresses.len() == seen.len() && seen.iter().all(|seen| *seen) {
            return Ok(View { source: view.source, order: order::positions(&addresses) });
        }
        let word = self.link(view.source)?.word;
        let output = Link { elements: map.len(), order: order::identity(map.len()), word, slot };
        self.elementwise("reorder", view, output, Operation::Reorder { addresses })
    }

    fn add(
        &mut self,
        part: &str,
        first: &View,
        second: &View,
        slot: SlotId,
        sign: Sign,
        rescale: Option<&Pattern<[Option<Rescaler>; 2]>>,
    ) -> Result<View> {
        let second = self.in_order(second, &first.order)?;
        let none = Pattern::uniform([None; 2]);
        let (table, classes) = self.classes(first, rescale.unwrap_or(&none))?;
        let shift_of = |k: usize| {
            table.iter().filter_map(|pair| pair[k]).map(|r| r.shift()).max().unwrap_or(0)
        };
        let shifts = [shift_of(0), shift_of(1)];
        let mut multipliers = Vec::new();
        for pair in &table {
            let multiplier = |k: usize| match pair[k] {
                Some(rescaler) => scaled(rescaler.multiplier(), shifts[k] - rescaler.shift(), part),
                None => scaled(1, shifts[k], part),
            };
            multipliers.push([multiplier(0)?, multiplier(1)?]);
        }
        let subtracts = sign == Sign::Minus;
        let intervals =
            [interval_of(self.link(first.source)?)?, interval_of(self.link(second.source)?)?];
        let sum = |pair: &[u128; 2]| {
            let scaled = |k: usize| intervals[k].map(|value| rescaled(value, pair[k], shifts[k]));
            let (a, b) = (scaled(0), scaled(1));
            let b = if subtracts { Interval::new(-b.high, -b.low) } else { b };
            Interval::new(a.low + b.low, a.high + b.high)
        };
        let interval =
            union(multipliers.iter().map(sum)).ok_or_else(|| internal("hardware::Builder::add"))?;
        let [low, high] = interval.ends(part)?;
        let output = first.link(Word::Integer { low, high }, slot);
        let name = self.unique("add");
        let operation = Operation::Add { subtracts, multipliers, shifts, classes };
        Ok(self.push(Stage { name, inputs: vec![first.source, second.source], output, operation }))
    }
}

/// Returns a value that is multiplied, shifted right and rounded half up.
fn rescaled(value: i128, multiplier: u128, shift: u32) -> i128 {
    (value * multiplier as i128 + ((1_i128 << shift) >> 1)) >> shift
}

/// Returns a multiplier for a larger shift. The products stay below 2^127 only if the multiplier is
/// below 2^63.
fn scaled(multiplier: u64, more: u32, part: &str) -> Result<u128> {
    let bits = 64 - multiplier.leading_zeros() + more;
    match bits <= 62 {
        true => Ok(u128::from(multiplier) << more),
        false => Err(Error::Unsupported {
            part: part.to_owned(),
            what: format!("a multiplier of {bits} bits"),
            remedy: "use weights of one scale for all rows (--weight-scale tensor)",
        }),
    }
}

fn interval_of(link: &Link) -> Result<Interval> {
    match link.word {
        Word::Integer { low, high } => Ok(Interval::new(low.into(), high.into())),
        Word::Threshold { .. } => Err(internal("hardware::interval_of")),
    }
}

fn union(mut intervals: impl Iterator<Item = Interval>) -> Option<Interval> {
    let first = intervals.next()?;
    Some(intervals.fold(first, Interval::union))
}

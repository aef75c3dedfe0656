//! The largest magnitude of each integer of a program.

use super::{Bounds, Pattern, Program, SlotKind, Step, StepKind};
use crate::arithmetic::{Accumulator, PoolKind, Requantizer, Rescaler};

impl Program {
    /// Returns the largest magnitude of each slot of integers, 0 for other slots; `None` if an
    /// intermediate integer may reach `limit`, which is at most 2^62. A backend whose numbers are
    /// exact below the limit can then compute every step with them.
    #[must_use]
    pub fn magnitudes(&self, limit: u128) -> Option<Vec<u128>> {
        let mut found = vec![0; self.slots.len()];
        for step in &self.steps {
            if self.slot(step.output()).kind == SlotKind::Integer {
                let magnitude = magnitude(self, step, &found, limit)?;
                if magnitude >= limit {
                    return None;
                }
                found[step.output().index()] = magnitude;
            }
        }
        Some(found)
    }
}

impl Requantizer {
    /// Returns the magnitude to which values can be limited before they are multiplied without
    /// changing a threshold: the lesser of `largest` and the least magnitude from which on every
    /// value saturates. `None` if its product with the multiplier may reach `limit`.
    #[must_use]
    pub fn reach(&self, largest: u128, limit: u128) -> Option<u128> {
        let multiplier = u128::from(self.multiplier());
        let past = match (u128::from(self.comparator().one()) + 2).checked_mul(1 << self.shift()) {
            Some(product) if multiplier > 0 => product / multiplier + 1,
            _ => limit,
        };
        let reach = largest.clamp(1, past);
        let half = 1_u128 << self.shift() >> 1;
        let product = reach.saturating_mul(multiplier);
        (product < limit && half < limit).then_some(reach)
    }
}

fn magnitude(program: &Program, step: &Step, found: &[u128], limit: u128) -> Option<u128> {
    let input = |k: usize| step.inputs().get(k).map_or(0, |id| found[id.index()]);
    Some(match step.kind() {
        StepKind::Accumulate { layer, accumulator } => {
            let spec = &program.layers().get(*layer)?.spec;
            let most = (spec.max_fan_in() as u128 * spec.length().bits() as u128)
                << accumulator.fraction();
            if 2 * most >= limit || accumulator.interval()[1] as u128 >= limit {
                return None;
            }
            accumulated(accumulator)
        }
        StepKind::Offset { terms, .. } => input(0) + largest(terms, |term| term.unsigned_abs()),
        StepKind::Clip(Bounds::Integer(bounds)) => {
            let exact = i64::try_from(limit).ok()?;
            // Bounds beyond all values limit nothing, unless they are on the wrong side.
            if bounds.table().iter().any(|&[low, high]| low >= exact || high <= -exact) {
                return None;
            }
            let bound = |&bound: &i64| if bound.abs() < exact { bound.unsigned_abs() } else { 0 };
            input(0).max(largest(bounds, |ends| {
                ends.iter().filter(|end| **end != i64::MIN).map(bound).max().unwrap_or(0)
            }))
        }
        StepKind::Pool(shape) => {
            let [rows, columns] = shape.pool().window;
            let sum = input(0).saturating_add(1).saturating_mul(rows as u128 * columns as u128);
            if shape.pool().kind == PoolKind::Average && 2 * sum >= limit {
                return None;
            }
            input(0)
        }
        StepKind::Gather { .. } => (0..step.inputs().len()).map(input).max().unwrap_or(0),
        StepKind::Combine { rescale, .. } => {
            let mut sides = [input(0), input(1)];
            for pair in rescale.iter().flat_map(Pattern::table) {
                for (k, rescaler) in
                    pair.iter().enumerate().filter_map(|(k, r)| Some((k, r.as_ref()?)))
                {
                    sides[k] = sides[k].max(rescaled(rescaler, input(k), limit)?);
                }
            }
            sides[0] + sides[1]
        }
        _ => return None,
    })
}

/// Returns the largest magnitude after rescaling; `None` if the product is not exact.
fn rescaled(rescaler: &Rescaler, magnitude: u128, limit: u128) -> Option<u128> {
    let half = 1_u128 << rescaler.shift() >> 1;
    let product = magnitude.saturating_mul(rescaler.multiplier().into()).saturating_add(half);
    (product < limit).then(|| (product >> rescaler.shift()) + 1)
}

fn accumulated(accumulator: &Accumulator) -> u128 {
    accumulator.bounds().iter().map(|end| u128::from(end.unsigned_abs())).max().unwrap_or(0)
}

fn largest<T>(pattern: &Pattern<T>, magnitude: impl Fn(&T) -> u64) -> u128 {
    pattern.table().iter().map(magnitude).max().unwrap_or(0).into()
}

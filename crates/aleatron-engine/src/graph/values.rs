//! What a product encodes and what its counts become, on all threads: beside a device that counts, this is most of the work.

use super::GraphLayer;
use crate::Result;
use aleatron_core::arithmetic::saturate;
use aleatron_core::{LayerSpec, Quantity, memory};
use aleatron_cpu::threads;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Values that a thread takes at a time.
const PIECE: usize = 1 << 14;

/// About the time of a value on one thread.
const NANOSECONDS: u64 = 2;

fn cost(n_values: usize) -> Duration {
    Duration::from_nanos(n_values as u64 * NANOSECONDS)
}

/// The inputs of a product as they are encoded, and how many of them saturated. What is not a number stays so: encoding it is an error
/// with its index.
///
/// # Errors
/// [`aleatron_core::Error::Memory`] where they do not fit.
pub(super) fn encoded(inputs: &[f32], layer: &GraphLayer) -> Result<(Vec<f64>, u64)> {
    memory::check(8 * inputs.len() as u128, Quantity::Inputs)?;
    // Zeros that no one has touched yet: each thread is the first to write its own.
    let mut values = vec![0.0; inputs.len()];
    let saturated = AtomicU64::new(0);
    let pieces = values.chunks_mut(PIECE).zip(inputs.chunks(PIECE));
    threads::current()?.for_each(pieces, cost(inputs.len()), |(values, inputs)| {
        values.iter_mut().zip(inputs).for_each(|(value, &input)| *value = input.into());
        saturated.fetch_add(saturate(values, layer.input_scale, layer.polarity), Ordering::Relaxed);
    });
    Ok((values, saturated.into_inner()))
}

/// The outputs of a product of `spec` for its counts, each output channel at `positions` places.
pub(super) fn outputs(
    counts: &[u64],
    spec: &LayerSpec,
    layer: &GraphLayer,
    positions: usize,
) -> Result<Vec<f32>> {
    let (fan_ins, n_neurons) = (spec.topology().fan_ins(), spec.n_neurons().max(1));
    let n_rows = layer.product.n_rows();
    memory::check(4 * counts.len() as u128, Quantity::Counts)?;
    let mut outputs = vec![0.0; counts.len()];
    // Whole samples: dense layers have few values each.
    let piece = PIECE.div_ceil(n_neurons) * n_neurons;
    let pieces = outputs.chunks_mut(piece).zip(counts.chunks(piece));
    threads::current()?.for_each(pieces, cost(counts.len()), |(outputs, counts)| {
        let sums = spec.polarity().decode_rows(counts, &fan_ins, spec.length());
        let channels = outputs.chunks_mut(positions).zip(sums.chunks(positions));
        for (channel, (outputs, sums)) in channels.enumerate() {
            let rescale = layer.rescale(channel % n_rows);
            outputs.iter_mut().zip(sums).for_each(|(output, &sum)| *output = rescale(sum));
        }
    });
    Ok(outputs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_grow_with_the_number_of_values() {
        assert!(cost(1) > Duration::ZERO);
        assert_eq!((cost(20), cost(3)), (20 * cost(1), 3 * cost(1)));
    }
}

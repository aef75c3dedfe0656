//! What a product encodes and what its counts become, on all threads: beside a device that counts, this is most of the work.

use super::GraphLayer;
use crate::Result;
use aleatron_core::arithmetic::saturate;
use aleatron_core::{Error as CoreError, LayerSpec, Quantity, memory};
use aleatron_cpu::threads;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Values that a thread takes at a time.
const PIECE: usize = 1 << 14;

/// About the time of a value on one thread.
const NANOSECONDS: u64 = 2;

fn cost(n_values: usize) -> Duration {
    Duration::from_nanos(n_values as u64 * NANOSECONDS)
}

/// The inputs of a product as they are encoded, and how many of them saturated.
///
/// # Errors
/// [`CoreError::OutOfRange`] with the first that is not a number, [`CoreError::Memory`] where they do not fit.
pub(super) fn encoded(inputs: &[f32], layer: &GraphLayer) -> Result<(Vec<f64>, u64)> {
    memory::check(8 * inputs.len() as u128, Quantity::Inputs)?;
    // Zeros that no one has touched yet: each thread is the first to write its own.
    let mut values = vec![0.0; inputs.len()];
    let (saturated, not_a_number) = (AtomicU64::new(0), AtomicUsize::new(usize::MAX));
    let pieces = values.chunks_mut(PIECE).zip(inputs.chunks(PIECE)).enumerate();
    threads::current()?.for_each(pieces, cost(inputs.len()), |(piece, (values, inputs))| {
        let mut all_numbers = true;
        for (value, &input) in values.iter_mut().zip(inputs) {
            *value = input.into();
            all_numbers &= !input.is_nan();
        }
        if !all_numbers && let Some(index) = inputs.iter().position(|input| input.is_nan()) {
            not_a_number.fetch_min(piece * PIECE + index, Ordering::Relaxed);
        }
        saturated.fetch_add(saturate(values, layer.input_scale, layer.polarity), Ordering::Relaxed);
    });
    match not_a_number.into_inner() {
        usize::MAX => Ok((values, saturated.into_inner())),
        index => {
            let ([low, high], what) = (layer.polarity.interval(), Quantity::Value);
            Err(CoreError::OutOfRange { what, index, value: f64::NAN, low, high }.into())
        }
    }
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

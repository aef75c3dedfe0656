//! Comparison of the integers of a sequence with a threshold.

/// Sets bit k of a word if `values[k] < threshold`, 64 values to a word; `out` holds
/// `values.len().div_ceil(64)` words.
#[inline]
pub(crate) fn compare(values: &[u32], threshold: u32, out: &mut [u64]) {
    for (word, values) in out.iter_mut().zip(values.chunks(64)) {
        *word =
            values.iter().rev().fold(0, |word, &value| word << 1 | u64::from(value < threshold));
    }
}

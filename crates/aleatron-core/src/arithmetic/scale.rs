//! Scales of weights.

/// The magnitude, relative to the largest weight of the layer, below which the weights of a row
/// hold no signal: at that scale, even a comparator of 32 bits would see zeros.
const RELATIVE_LIMIT: f64 = 1.0 / (1u64 << 32) as f64;

/// The magnitude up to which weights and inputs hold no signal in any layer: 2^-96. Weights decay
/// to such values when a neuron dies in training, and outputs of such neurons are as small.
pub const SIGNAL_LIMIT: f64 = RELATIVE_LIMIT * RELATIVE_LIMIT * RELATIVE_LIMIT;

/// Returns the scale of a row of weights: the divisor that maps them to [-1, 1].
///
/// `largest_in_row` and `largest_in_layer` are the largest magnitudes of the row and of its whole
/// layer; they are the same number if all rows share one scale. The scale is the largest magnitude
/// of the row, so that streams use their whole interval. A row without signal, all zeros or below
/// 2^-32 of the layer, has scale 1: a divisor as small as its weights would enlarge its bias beyond
/// every integer.
///
/// ```
/// use aleatron_core::arithmetic::weight_scale_of_row;
/// assert_eq!(weight_scale_of_row(0.25, 0.5), 0.25);
/// assert_eq!(weight_scale_of_row(0.0, 0.5), 1.0);
/// assert_eq!(weight_scale_of_row(1e-32, 0.5), 1.0);
/// ```
#[must_use]
pub fn weight_scale_of_row(largest_in_row: f64, largest_in_layer: f64) -> f64 {
    if largest_in_row > SIGNAL_LIMIT && largest_in_row > largest_in_layer * RELATIVE_LIMIT {
        largest_in_row
    } else {
        // In a layer of enormous weights, a row without signal may still have weights above 1.
        largest_in_row.max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::weight_scale_of_row;

    #[test]
    fn scale_of_row_with_signal_is_its_largest_weight() {
        for (row, layer) in [(1.0, 1.0), (3.5, 100.0), (1e-9, 1.0), (1e-25, 1e-20), (1e20, 1e29)] {
            assert_eq!(weight_scale_of_row(row, layer), row, "{row} {layer}");
        }
    }

    #[test]
    fn signal_limit_is_a_power_of_two() {
        assert_eq!(super::SIGNAL_LIMIT, 2f64.powi(-96));
    }

    #[test]
    fn scale_of_row_without_signal_is_one() {
        let limit = 2f64.powi(-32);
        for (row, layer) in
            [(0.0, 0.0), (0.0, 2.0), (1e-32, 0.3), (1e-38, 1e-38), (limit * 5.0, 5.0)]
        {
            assert_eq!(weight_scale_of_row(row, layer), 1.0, "{row} {layer}");
        }
        // Just above either limit there is a signal.
        for (row, layer) in [(limit.next_up() * 5.0, 5.0), (2f64.powi(-96).next_up(), 1e-20)] {
            assert_eq!(weight_scale_of_row(row, layer), row, "{row} {layer}");
        }
    }

    #[test]
    fn scale_is_at_least_the_largest_weight_of_its_row() {
        for exponent in -300..300 {
            let row = 1.5 * 10f64.powi(exponent);
            for layer in [row, row * 1e5, row * 1e15, f64::MAX] {
                let scale = weight_scale_of_row(row, layer);
                assert!(scale.is_finite() && scale >= row && scale > 0.0, "{row} {layer} {scale}");
            }
        }
    }
}

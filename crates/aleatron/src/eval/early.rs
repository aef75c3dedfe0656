//! Stopping a sample before its streams end.
//!
//! At 8 cycles, and each time the cycles have doubled, a circuit looks at the scores so far. If the best leads the second by
//! `margin` standard deviations of the counting noise, the sample is done. The first layer's streams just run on from one
//! look to the next; a later layer's inputs have changed by then, so its streams start over. Both are counted.

use crate::network::{Layer, Network};
use aleatron_core::Polarity;

/// What stopping early saves, and what it costs.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct EarlyStop {
    /// The lead at which a sample stops, in standard deviations.
    pub margin: f64,
    /// The mean cycles of a sample and layer, restarts included; the full run takes the length.
    pub mean_cycles: f64,
    /// The accuracy.
    pub accuracy: f64,
    /// The accuracy of the full run less this one.
    pub accuracy_lost: f64,
    /// The share of samples that stopped before the end.
    pub stopped: f64,
}

/// The fewest cycles after which a circuit looks at its scores.
const FIRST_LOOK: usize = 8;

/// One look at one sample: the class in the lead, and by how many standard deviations.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) class: usize,
    pub(super) lead: f64,
}

/// The cycles at which a run of `length` looks: powers of two from 8 on, and the end.
pub(super) fn looks(length: usize) -> impl Iterator<Item = usize> {
    let doubling = std::iter::successors(Some(FIRST_LOOK), |cycles| cycles.checked_mul(2));
    doubling.take_while(move |&cycles| cycles < length).chain([length])
}

/// The standard deviation of the difference of two scores after one cycle, at most: n products of independent streams
/// have a variance of at most 1 each (1/4 if unipolar).
pub(super) fn noise_of_one_cycle(network: &Network) -> f64 {
    network.layers().last().map_or(0.0, |layer: &Layer| {
        let variance = match layer.polarity() {
            Polarity::Unipolar => 0.25,
            Polarity::Bipolar => 1.0,
        };
        (2.0 * layer.n_inputs() as f64 * variance).sqrt() * layer.input_scale() * layer.weight_scale()
    })
}

/// Sums up a run from its looks, each with its cycles and one entry per sample.
pub(super) fn early_stop(
    looks: &[(usize, &[Look])],
    labels: &[usize],
    n_layers: usize,
    margin: f64,
) -> EarlyStop {
    let (mut cycles, mut right, mut stopped, mut right_at_end) = (0.0, 0_usize, 0_usize, 0_usize);
    for (sample, &label) in labels.iter().enumerate() {
        let (mut spent, mut class) = (0.0, 0);
        for (k, (at, look)) in looks.iter().enumerate() {
            let before = k.checked_sub(1).map_or(0, |before| looks[before].0);
            spent += (at - before) as f64 + (n_layers.saturating_sub(1) * at) as f64;
            class = look[sample].class;
            if look[sample].lead >= margin && k + 1 < looks.len() {
                stopped += 1;
                break;
            }
        }
        cycles += spent / n_layers as f64;
        right += usize::from(class == label);
        right_at_end += usize::from(looks.last().is_some_and(|(_, look)| look[sample].class == label));
    }
    let n = labels.len().max(1) as f64;
    EarlyStop {
        margin,
        mean_cycles: cycles / n,
        accuracy: right as f64 / n,
        accuracy_lost: (right_at_end as f64 - right as f64) / n,
        stopped: stopped as f64 / n,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_double() {
        assert_eq!(looks(8).collect::<Vec<_>>(), [8]);
        assert_eq!(looks(5).collect::<Vec<_>>(), [5]);
        assert_eq!(looks(40).collect::<Vec<_>>(), [8, 16, 32, 40]);
    }

    #[test]
    fn cycles_count_restarts() {
        let look = |class, lead| Look { class, lead };
        // The first sample stops at once, rightly; the second runs to the end and ends up right.
        let (at_8, at_16) = ([look(1, 3.0), look(0, 0.1)], [look(1, 5.0), look(2, 0.2)]);
        let stop = early_stop(&[(8, &at_8), (16, &at_16)], &[1, 2], 2, 1.0);
        // First sample: 8 cycles in both layers. Second: 16 in the first, 8 + 16 in the second.
        assert_eq!(stop.mean_cycles, (8.0 + 20.0) / 2.0);
        assert_eq!((stop.accuracy, stop.accuracy_lost, stop.stopped), (1.0, 0.0, 0.5));
        let hasty = early_stop(&[(8, &at_8), (16, &at_16)], &[1, 2], 2, 0.0);
        assert_eq!((hasty.mean_cycles, hasty.accuracy, hasty.accuracy_lost), (8.0, 0.5, 0.5));
    }
}

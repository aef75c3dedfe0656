//! Early termination: stopping a sample before its streams end.
//!
//! Two rules. By **margin**: after 8 cycles, and each time the cycles have doubled, a circuit
//! compares the scores so far. If the decision margin of the best over the second is some standard
//! deviations of the counting noise, the sample is done. The first layer's streams continue from
//! one step to the next; a later layer's inputs have changed by then, so its streams start over.
//! Both are counted. This loses a little accuracy.
//!
//! By **certainty**: all layers but the last run to the end, and the last one stops as soon as no
//! remaining cycle can change which score is best. This never loses any.

use aleatron_core::{LayerSpec, Polarity};
use aleatron_engine::stream::each_product;

/// The savings of early termination by a margin, and their cost.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct EarlyStop {
    /// The decision margin at which a sample stops, in standard deviations.
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

/// The savings of termination as soon as the outcome is certain, which costs no accuracy.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct CertainStop {
    /// The mean cycles of a sample in the last layer; the full run takes its length.
    pub mean_cycles: f64,
    /// The share of samples that stopped before the end.
    pub stopped: f64,
}

/// The fewest cycles after which a circuit compares its scores.
const FIRST_STEP: usize = 8;

/// The fractions of a run after which a circuit checks whether the outcome is certain.
const FRACTIONS: usize = 16;

/// The class of a sample after some cycles, and the number of margins that it reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) class: usize,
    pub(super) reached: usize,
}

/// Returns the cycles after which a run of `length` may stop: powers of two from 8 on, and the end.
pub(super) fn steps(length: usize) -> impl Iterator<Item = usize> {
    let doubling = std::iter::successors(Some(FIRST_STEP), |cycles| cycles.checked_mul(2));
    doubling.take_while(move |&cycles| cycles < length).chain([length])
}

/// Returns the cycles after which a run of `length` checks whether it is certain: sixteenths of it,
/// except for the end.
pub(super) fn fractions(length: usize) -> Vec<usize> {
    let mut fractions: Vec<usize> =
        (1..FRACTIONS).map(|k| (length * k).div_ceil(FRACTIONS)).collect();
    fractions.retain(|&cycles| cycles < length);
    fractions.dedup();
    fractions
}

/// Returns margins in ascending order.
pub(super) fn sorted(margins: &[f64]) -> Vec<f64> {
    let mut sorted = margins.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Returns the standard deviation of the difference of two scores after one cycle, at most, for a
/// layer of `n_outputs` whose scales are 1: n products of independent streams have a variance of at
/// most 1 each (1/4 if unipolar or signed). A single score is compared with 0, which
/// has no variance.
pub(super) fn noise_of_products(polarity: Polarity, n_outputs: usize, fan_in: usize) -> f64 {
    (n_outputs.min(2) as f64 * fan_in as f64 * polarity.product_variance()).sqrt()
}

/// Returns the best class and how many of the ascending `margins` its margin over the second, or
/// over 0, reaches in units of `noise`.
pub(super) fn decide(scores: &[f64], noise: f64, margins: &[f64]) -> Decision {
    let class = aleatron_engine::network::top_class(scores);
    let gap = match scores {
        [score] => score.abs(),
        scores => {
            let others = scores.iter().enumerate().filter(|(k, _)| *k != class);
            let second = others.map(|(_, &score)| score).fold(f64::NEG_INFINITY, f64::max);
            scores.get(class).map_or(0.0, |best| best - second)
        }
    };
    let deviations = if noise > 0.0 { gap / noise } else { f64::INFINITY };
    Decision { class, reached: margins.partition_point(|&margin| deviations >= margin) }
}

/// Returns the least and the greatest final sum of each neuron, in product bits: a remaining cycle
/// changes it by one of `moves`.
pub(super) fn ends(
    part: &LayerSpec,
    full: &LayerSpec,
    counts: &[u64],
    moves: &[[f64; 2]],
) -> Vec<[f64; 2]> {
    let remaining = (full.length().bits() - part.length().bits()) as f64;
    let ends = |(neuron, &count): (usize, &u64)| {
        let now = part.polarity().sum(count, part.fan_in(neuron), part.length()) as f64;
        moves[neuron].map(|step| now + step * remaining)
    };
    counts.iter().enumerate().map(ends).collect()
}

/// Returns whether one score is certain to be best: its least value is above the greatest of every
/// other score, or above or below 0 if there is no other.
pub(super) fn is_decided(ends: &[[f64; 2]]) -> bool {
    match ends {
        &[[low, high]] => low > 0.0 || high < 0.0,
        ends => {
            let best = (0..ends.len())
                .fold(0, |best, j| if ends[j][0] > ends[best][0] { j } else { best });
            ends.iter().enumerate().all(|(j, [_, high])| j == best || ends[best][0] > *high)
        }
    }
}

/// Returns the least and the greatest change of each sum in one cycle, given the last layer's
/// inputs and weights as values: each product of a unipolar neuron adds 0 or 1, of a bipolar one -1
/// or 1. A product of a signed one has its sign from the start, and is always 0 where an
/// operand is.
pub(super) fn moves(spec: &LayerSpec, weights: &[f64], inputs: &[f64]) -> Vec<[f64; 2]> {
    let all = |low: f64| {
        (0..spec.n_neurons()).map(move |j| [low, 1.0].map(|step| step * spec.fan_in(j) as f64))
    };
    match spec.polarity() {
        Polarity::Unipolar => all(0.0).collect(),
        Polarity::Bipolar => all(-1.0).collect(),
        Polarity::Signed => {
            let mut moves = vec![[0.0; 2]; spec.n_neurons()];
            each_product(spec.topology(), |neuron, weight, input| {
                let (w, x) = (weights[weight], inputs[input]);
                if w != 0.0 && x != 0.0 {
                    match w.is_sign_negative() == x.is_sign_negative() {
                        true => moves[neuron][1] += 1.0,
                        false => moves[neuron][0] -= 1.0,
                    }
                }
            });
            moves
        }
    }
}

/// Sums up early termination from the steps of a run, each with the cycles of every layer and the
/// decisions of all samples; `rank` is the index of the margin among all.
pub(super) fn early_stop(
    steps: &[(&[usize], Vec<Decision>)],
    labels: &[usize],
    margin: f64,
    rank: usize,
) -> EarlyStop {
    let (mut cycles, mut right, mut stopped, mut right_at_end) =
        (0_u128, 0_usize, 0_usize, 0_usize);
    let n_layers = steps.first().map_or(1, |(lengths, _)| lengths.len().max(1));
    // The streams of the first layer continue from one step to the next, those of the others start
    // over.
    let first = |k: usize| steps[k].0.first().copied().unwrap_or(0) as u128;
    let costs: Vec<u128> = (0..steps.len())
        .map(|k| {
            let before = k.checked_sub(1).map_or(0, first);
            let all: u128 = steps[k].0.iter().map(|&length| length as u128).sum();
            all - before.min(all)
        })
        .collect();
    for (sample, &label) in labels.iter().enumerate() {
        let mut class = 0;
        for (k, (_, decisions)) in steps.iter().enumerate() {
            cycles += costs[k];
            class = decisions[sample].class;
            if decisions[sample].reached > rank && k + 1 < steps.len() {
                stopped += 1;
                break;
            }
        }
        right += usize::from(class == label);
        right_at_end +=
            usize::from(steps.last().is_some_and(|(_, end)| end[sample].class == label));
    }
    let n = labels.len().max(1) as f64;
    EarlyStop {
        margin,
        mean_cycles: cycles as f64 / n_layers as f64 / n,
        accuracy: right as f64 / n,
        accuracy_lost: (right_at_end as f64 - right as f64) / n,
        stopped: stopped as f64 / n,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use aleatron_core::{Encoding, Length};

    #[test]
    fn steps_double_and_fractions_are_equal() {
        assert_eq!(steps(8).collect::<Vec<_>>(), [8]);
        assert_eq!(steps(5).collect::<Vec<_>>(), [5]);
        assert_eq!(steps(40).collect::<Vec<_>>(), [8, 16, 32, 40]);
        assert!(fractions(1).is_empty());
        assert_eq!(fractions(4), [1, 2, 3]);
        assert_eq!(fractions(64), (1..16).map(|k| 4 * k).collect::<Vec<_>>());
    }

    #[test]
    fn cycles_count_restarts() {
        let at = |class, reached| Decision { class, reached };
        // The first sample stops at once, rightly; the second runs to the end and ends up right.
        let steps =
            [(&[8, 8][..], vec![at(1, 2), at(0, 1)]), (&[16, 16], vec![at(1, 2), at(2, 1)])];
        let stop = early_stop(&steps, &[1, 2], 1.0, 1);
        // First sample: 8 cycles in both layers. Second: 16 in the first, 8 + 16 in the second.
        assert_eq!(stop.mean_cycles, (8.0 + 20.0) / 2.0);
        assert_eq!((stop.accuracy, stop.accuracy_lost, stop.stopped), (1.0, 0.0, 0.5));
        let hasty = early_stop(&steps, &[1, 2], 0.0, 0);
        assert_eq!((hasty.mean_cycles, hasty.accuracy, hasty.accuracy_lost), (8.0, 0.5, 0.5));
        // Layers with lengths of their own take as many cycles as these have.
        let steps = [(&[2, 32][..], vec![at(0, 0)]), (&[4, 64], vec![at(0, 0)])];
        assert_eq!(early_stop(&steps, &[0], 1.0, 0).mean_cycles, (34.0 + 2.0 + 64.0) / 2.0);
    }

    #[test]
    fn decision_margins_are_over_the_second_score_or_over_zero() {
        let margins = [1.0, 2.0, 2.0, 2.5];
        assert_eq!(decide(&[1.0, 4.0, 3.0], 0.5, &margins), Decision { class: 1, reached: 3 });
        assert_eq!(decide(&[-3.0], 1.5, &margins), Decision { class: 0, reached: 3 });
        assert_eq!(decide(&[-3.0], 0.0, &margins), Decision { class: 0, reached: 4 });
        // Without noise, every margin is reached.
        assert_eq!(decide(&[1.0, 1.0], 0.0, &margins), Decision { class: 0, reached: 4 });
    }

    fn is_certain(
        part: &LayerSpec,
        full: &LayerSpec,
        counts: &[u64],
        bias: &[f64],
        moves: &[[f64; 2]],
    ) -> bool {
        let ends = ends(part, full, counts, moves).into_iter().zip(bias);
        is_decided(&ends.map(|(ends, bias)| ends.map(|end| end + bias)).collect::<Vec<_>>())
    }

    #[test]
    fn certainty_needs_more_lead_than_cycles_can_make_up() {
        let spec = |bits, polarity| {
            let length = Length::new(bits).unwrap();
            LayerSpec::dense(3, 2, length, polarity, Encoding::Bernoulli { seed: 0 }).unwrap()
        };
        let all = |spec: &LayerSpec| moves(spec, &[0.5; 6], &[0.5; 3]);
        // After 12 of 16 cycles, 3 products can add 12 to the second of two unipolar scores.
        let (part, full) = (spec(12, Polarity::Unipolar), spec(16, Polarity::Unipolar));
        assert!(is_certain(&part, &full, &[30, 17], &[0.0, 0.0], &all(&part)));
        assert!(!is_certain(&part, &full, &[30, 18], &[0.0, 0.0], &all(&part)));
        assert!(!is_certain(&part, &full, &[30, 17], &[0.0, 1.0], &all(&part)));
        // Bipolar ones can move against each other: 24.
        let (part, full) = (spec(12, Polarity::Bipolar), spec(16, Polarity::Bipolar));
        assert!(is_certain(&part, &full, &[30, 17], &[0.0, 0.0], &all(&part)));
        assert!(!is_certain(&part, &full, &[30, 18], &[0.0, 0.0], &all(&part)));
        // Products of signed operands cannot change their sign, and one of them is always 0: the
        // second score can gain 2 in each of 4 cycles.
        let (part, full) = (spec(12, Polarity::Signed), spec(16, Polarity::Signed));
        let moves = moves(&part, &[0.5, -0.5, 0.3, 0.1, -0.1, 0.2], &[0.5, -0.5, -0.0]);
        assert_eq!(moves, [[0.0, 2.0], [0.0, 2.0]]);
        assert!(is_certain(&part, &full, &[36 + 9, 36], &[0.0, 0.0], &moves));
        assert!(!is_certain(&part, &full, &[36 + 8, 36], &[0.0, 0.0], &moves));
    }
    #[test]
    fn one_score_is_decided_away_from_zero_and_several_apart() {
        for (ends, decided) in [
            (&[[0.5, 1.0]][..], true),
            (&[[0.0, 1.0]], false),
            (&[[-1.0, 1.0]], false),
            (&[[-1.0, 0.0]], false),
            (&[[-1.0, -0.5]], true),
            (&[[0.0, 1.0], [1.5, 2.0]], true),
            // The most of the other is the least of the best.
            (&[[0.0, 1.5], [1.5, 2.0]], false),
            (&[[3.0, 4.0], [1.5, 2.0], [2.5, 9.0]], false),
        ] {
            assert_eq!(is_decided(ends), decided, "{ends:?}");
        }
    }

    /// Variances of independent products add up: 16 of 1/4 are 4, and the difference of two such
    /// scores has twice that.
    #[test]
    fn noise_grows_with_the_root_of_products() {
        assert_eq!(noise_of_products(Polarity::Unipolar, 1, 16), 2.0);
        assert_eq!(noise_of_products(Polarity::Signed, 2, 32), 4.0);
        assert_eq!(noise_of_products(Polarity::Bipolar, 10, 18), 6.0);
    }

    /// Products of equal signs can only add, the others only take away.
    #[test]
    fn signed_products_move_in_one_direction() {
        let length = Length::new(8).unwrap();
        let spec =
            LayerSpec::dense(4, 1, length, Polarity::Signed, Encoding::Bernoulli { seed: 0 })
                .unwrap();
        let found = moves(&spec, &[0.5, -0.5, 0.5, -0.5], &[0.5, 0.5, -0.5, -0.5]);
        assert_eq!(found, [[-2.0, 2.0]]);
        assert_eq!(moves(&spec, &[0.5, -0.5, 0.5, 0.0], &[0.5, 0.5, -0.5, 0.5]), [[-2.0, 1.0]]);
    }
}

//! Intervals of differences: over the choice of samples, and over seeds.

use crate::statistics::{mean, t_quantile};
use serde::Serialize;
use std::collections::BTreeMap;

/// The 97.5 % quantile of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// Two scores and their difference.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ScoreDifference {
    /// The score of the first evaluation.
    pub a: f64,
    /// The score of the second.
    pub b: f64,
    /// The second less the first.
    pub difference: f64,
    /// The 95 % interval of the difference; `None` if no noise can be estimated.
    pub interval: Option<[f64; 2]>,
    /// Whether the interval contains 0.
    pub verdict: Verdict,
    /// The treatment of seeds.
    pub method: Method,
}

/// Whether a difference is within its interval of noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The interval contains 0: the difference can be noise.
    Within,
    /// The interval does not contain 0.
    Outside,
    /// There is no interval, or it does not contain 0 and lacks the noise of seeds.
    Unknown,
}

/// The treatment of seeds in an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Nothing depends on a seed.
    Exact,
    /// The differences of runs with the same seed.
    PairedSeeds,
    /// Runs with other seeds.
    IndependentSeeds,
    /// The noise of seeds is unknown, since one of both has a single seed.
    OneSeed,
}

/// The noise of seeds in a difference of means.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Noise {
    Exact,
    /// The half width of the interval.
    Paired(f64),
    Independent(f64),
    Unknown,
}

impl Noise {
    /// Estimates the noise from the runs of both evaluations by seed, and whether they depend on
    /// it.
    pub(super) fn new(runs: [&BTreeMap<u64, f64>; 2], is_seeded: [bool; 2]) -> Self {
        let [a, b] = runs;
        if is_seeded == [false, false] {
            return Self::Exact;
        }
        if is_seeded.iter().zip(runs).any(|(is_seeded, runs)| *is_seeded && runs.len() < 2) {
            return Self::Unknown;
        }
        if a.keys().eq(b.keys()) && a.len() > 1 {
            let differences: Vec<f64> = a.values().zip(b.values()).map(|(a, b)| b - a).collect();
            let n = differences.len();
            return Self::Paired(t_quantile(n - 1) * squared_error(&differences).sqrt());
        }
        // Welch's t, with the degrees of freedom of Welch and Satterthwaite rounded down; a run
        // without a seed has no noise.
        let [first, second] = runs.map(|runs| runs.values().copied().collect::<Vec<f64>>());
        let errors = [&first, &second].map(|values| squared_error(values));
        let share = |values: &[f64], error: f64| match values.len() {
            0 | 1 => 0.0,
            n => error * error / (n - 1) as f64,
        };
        let sum: f64 = errors.iter().sum();
        let below = share(&first, errors[0]) + share(&second, errors[1]);
        let least = [&first, &second].map(|v| v.len().max(2) - 1).into_iter().min().unwrap_or(1);
        // Whole numbers of degrees remain so in spite of the rounding of f64.
        let whole = |degrees: f64| (degrees * (1.0 + 1e-12)) as usize;
        let degrees = if below > 0.0 { whole(sum * sum / below) } else { least };
        Self::Independent(t_quantile(degrees.max(1)) * sum.sqrt())
    }

    fn half(self) -> Option<f64> {
        match self {
            Self::Exact | Self::Unknown => None,
            Self::Paired(half) | Self::Independent(half) => Some(half),
        }
    }

    fn method(self) -> Method {
        match self {
            Self::Exact => Method::Exact,
            Self::Paired(_) => Method::PairedSeeds,
            Self::Independent(_) => Method::IndependentSeeds,
            Self::Unknown => Method::OneSeed,
        }
    }
}

/// Returns the square of the standard error of a mean; 0 of a single value.
fn squared_error(values: &[f64]) -> f64 {
    let n = values.len();
    if n < 2 {
        return 0.0;
    }
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1) as f64 / n as f64
}

/// Compares two means whose only known noise is that of seeds.
pub(super) fn seeds(scores: [f64; 2], noise: Noise) -> ScoreDifference {
    let difference = scores[1] - scores[0];
    let interval = noise.half().map(|half| [difference - half, difference + half]);
    compared(scores, interval, noise)
}

/// Compares two shares of samples: Newcombe's hybrid score interval, widened by the noise of seeds.
pub(super) fn proportions(scores: [f64; 2], samples: [usize; 2], noise: Noise) -> ScoreDifference {
    let [a, b] = scores;
    let [[low_a, high_a], [low_b, high_b]] = [wilson(a, samples[0]), wilson(b, samples[1])];
    let half = noise.half().unwrap_or(0.0);
    let below = ((b - low_b).powi(2) + (high_a - a).powi(2) + half * half).sqrt();
    let above = ((high_b - b).powi(2) + (a - low_a).powi(2) + half * half).sqrt();
    let difference = b - a;
    compared(scores, Some([(difference - below).max(-1.0), (difference + above).min(1.0)]), noise)
}

/// Returns Wilson's 95 % score interval of a share of `n` samples.
fn wilson(share: f64, n: usize) -> [f64; 2] {
    let n = n.max(1) as f64;
    let z2 = Z * Z;
    let middle = share + z2 / (2.0 * n);
    let half = Z * (share * (1.0 - share) / n + z2 / (4.0 * n * n)).max(0.0).sqrt();
    // Rounding must not take the ends past the share itself.
    let end = |value: f64| value / (1.0 + z2 / n);
    [end(middle - half).clamp(0.0, share), end(middle + half).clamp(share, 1.0)]
}

fn compared(scores: [f64; 2], interval: Option<[f64; 2]>, noise: Noise) -> ScoreDifference {
    let [a, b] = scores;
    let verdict = match interval {
        None => Verdict::Unknown,
        Some([low, high]) if low <= 0.0 && 0.0 <= high => Verdict::Within,
        // The noise of seeds could widen the interval to 0.
        Some(_) if noise == Noise::Unknown => Verdict::Unknown,
        Some(_) => Verdict::Outside,
    };
    ScoreDifference { a, b, difference: b - a, interval, verdict, method: noise.method() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(actual: f64, expected: f64, digits: i32) -> bool {
        (actual - expected).abs() < 0.6 * 10f64.powi(-digits)
    }

    /// The cases (a), (b), (e) and (g) of table II of Newcombe, Statistics in Medicine 17 (1998),
    /// 873-890, method 10.
    #[test]
    fn intervals_of_proportions_are_newcombes() {
        for (first, second, low, high) in [
            ([56, 70], [48, 80], 0.0524, 0.3339),
            ([9, 10], [3, 10], 0.1705, 0.8090),
            ([5, 56], [0, 29], -0.0381, 0.1926),
            ([10, 10], [0, 10], 0.6075, 1.0),
        ] {
            let share = |[n, all]: [usize; 2]| n as f64 / all as f64;
            let found =
                proportions([share(second), share(first)], [second[1], first[1]], Noise::Exact);
            let interval = found.interval.unwrap();
            assert!(near(interval[0], low, 4) && near(interval[1], high, 4), "{interval:?}");
        }
    }

    #[test]
    fn equal_seeds_are_paired() {
        let runs =
            |values: &[f64]| -> BTreeMap<u64, f64> { (0..).zip(values.iter().copied()).collect() };
        let (a, b) = (runs(&[0.5, 0.75, 0.625]), runs(&[0.625, 0.875, 0.75]));
        // All seeds differ by the same.
        assert_eq!(Noise::new([&a, &b], [true, true]), Noise::Paired(0.0));
        // Differences of 1, 2 and 6: the deviation of the mean is sqrt(7 / 3), Student's t of two
        // degrees of freedom 4.303.
        let (a, b) = (runs(&[0.0, 0.0, 0.0]), runs(&[1.0, 2.0, 6.0]));
        let Noise::Paired(half) = Noise::new([&a, &b], [true, true]) else { panic!() };
        assert!((half - 4.303 * (7.0_f64 / 3.0).sqrt()).abs() < 1e-9);
        let found = seeds([0.0, 3.0], Noise::Paired(half));
        assert_eq!((found.verdict, found.method), (Verdict::Within, Method::PairedSeeds));
        assert_eq!(seeds([0.0, 3.0], Noise::Paired(2.0)).verdict, Verdict::Outside);
    }

    /// scipy.stats.ttest_ind(b, a, equal_var=False).confidence_interval(), with the quantile of the
    /// degrees of freedom rounded down.
    #[test]
    fn other_seeds_are_independent() {
        let a: BTreeMap<u64, f64> = [(0, 1.0), (1, 2.0), (2, 3.0), (3, 4.0)].into();
        let b: BTreeMap<u64, f64> = [(0, 10.0), (1, 14.0)].into();
        let Noise::Independent(half) = Noise::new([&a, &b], [true, true]) else { panic!() };
        // Squared errors 5/12 and 4, degrees of freedom 1.21.
        assert!((half - 12.706 * (5.0_f64 / 12.0 + 4.0).sqrt()).abs() < 1e-9, "{half}");
        // Equal variances of three values each have 4 degrees of freedom, 3.999... in f64.
        let (first, second): (BTreeMap<u64, f64>, BTreeMap<u64, f64>) =
            ([(0, 0.1), (1, 0.8), (2, 0.4)].into(), [(3, 0.4), (4, 0.8), (5, 0.1)].into());
        let Noise::Independent(half) = Noise::new([&first, &second], [true, true]) else {
            panic!()
        };
        let mean: f64 = 1.3 / 3.0;
        let squares: f64 = [0.1, 0.8, 0.4].iter().map(|value: &f64| (value - mean).powi(2)).sum();
        assert!((half - 2.776 * (squares / 3.0).sqrt()).abs() < 1e-9, "{half}");
        // A run that depends on no seed has no noise: that of the other one alone.
        let one: BTreeMap<u64, f64> = [(0, 5.0)].into();
        let Noise::Independent(half) = Noise::new([&one, &a], [false, true]) else { panic!() };
        assert!((half - 3.182 * (5.0_f64 / 12.0).sqrt()).abs() < 1e-9, "{half}");
        // A single seed of a seeded run says nothing about noise.
        assert_eq!(Noise::new([&one, &a], [true, true]), Noise::Unknown);
        assert_eq!(Noise::new([&one, &one], [false, false]), Noise::Exact);
        let found = seeds([5.0, 2.5], Noise::Unknown);
        assert_eq!((found.verdict, found.interval), (Verdict::Unknown, None));
    }

    #[test]
    fn noise_of_seeds_widens_the_interval_of_samples() {
        let alone = proportions([0.5, 0.5], [100, 100], Noise::Exact).interval.unwrap();
        let both = proportions([0.5, 0.5], [100, 100], Noise::Paired(0.25)).interval.unwrap();
        for k in 0..2 {
            assert!((both[k].abs() - (alone[k] * alone[k] + 0.0625).sqrt()).abs() < 1e-12);
        }
        // A perfect score still has an interval: it is not certain to be perfect on other samples.
        let found = proportions([1.0, 0.99], [100, 100], Noise::Exact);
        assert_eq!(found.verdict, Verdict::Within);
        assert_eq!(proportions([0.9, 0.5], [100, 100], Noise::Exact).verdict, Verdict::Outside);
        // Without the noise of seeds, only a difference within the interval is known to be noise.
        for (scores, verdict) in [([0.9, 0.5], Verdict::Unknown), ([0.9, 0.9], Verdict::Within)] {
            let found = proportions(scores, [100, 100], Noise::Unknown);
            assert_eq!((found.verdict, found.method), (verdict, Method::OneSeed));
            assert!(found.interval.is_some());
        }
        let equal = proportions([1.0, 1.0], [360, 360], Noise::Exact);
        assert_eq!((equal.difference, equal.verdict), (0.0, Verdict::Within));
    }
}

//! Means and their confidence.

/// A mean over seeds with its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// The lower end of the interval; the mean itself for a single value.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The number of values.
    pub n: usize,
}

/// The 97.5 % quantile of Student's t for 1 to 30 degrees of freedom.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// Returns the 97.5 % quantile of Student's t: from the table, and past it by the expansion in 1 /
/// degrees around the normal quantile (Abramowitz and Stegun 26.7.5), which is right to four digits
/// from 30 on.
pub(super) fn t_quantile(degrees: usize) -> f64 {
    if let Some(t) = degrees.checked_sub(1).and_then(|k| T.get(k)) {
        return *t;
    }
    let (z, n) = (1.959_963_984_540_054_f64, degrees as f64);
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    z + first / n + second / (n * n)
}

impl Estimate {
    /// Returns the estimate from some values, assumed normal, of a quantity between `bounds`.
    #[must_use]
    pub fn new(values: &[f64], bounds: [f64; 2]) -> Self {
        let n = values.len();
        let mean = mean(values);
        let half = match n {
            0 | 1 => 0.0,
            _ => {
                let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
                t_quantile(n - 1) * (squares / (n - 1) as f64 / n as f64).sqrt()
            }
        };
        Self { mean, low: (mean - half).max(bounds[0]), high: (mean + half).min(bounds[1]), n }
    }
}

/// Returns the mean; 0 of nothing.
pub(super) fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        // scipy.stats.t.interval(0.95, 2, loc=0.92, scale=scipy.stats.sem([0.9, 0.92, 0.94]))
        let estimate = Estimate::new(&[0.9, 0.92, 0.94], [0.0, 1.0]);
        assert!((estimate.mean - 0.92).abs() < 1e-12);
        assert!(
            (estimate.low - 0.870_317).abs() < 1e-5 && (estimate.high - 0.969_683).abs() < 1e-5
        );
        assert_eq!(
            Estimate::new(&[0.5], [0.0, 1.0]),
            Estimate { mean: 0.5, low: 0.5, high: 0.5, n: 1 }
        );
        assert_eq!(Estimate::new(&[1.0, 0.0], [0.0, 1.0]).high, 1.0);
    }

    #[test]
    fn quantiles_past_the_table_are_approximated() {
        // scipy.stats.t.ppf(0.975, n)
        for (n, t) in [
            (1, 12.706),
            (30, 2.042),
            (31, 2.039_51),
            (40, 2.021_08),
            (100, 1.983_97),
            (1000, 1.962_34),
        ] {
            assert!((t_quantile(n) - t).abs() < 1e-4, "{n}: {}", t_quantile(n));
        }
        // The first omitted term is 2.6 / n^3.
        assert!((t_quantile(1000) - 1.962_339_080_826_4).abs() < 2.7e-9, "{}", t_quantile(1000));
    }
}

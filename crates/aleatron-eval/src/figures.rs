//! The figures of an evaluation: how good outputs are, for class labels and for targets.

use super::early::{CertainStop, EarlyStop};
use super::statistics::{Estimate, mean};
use serde::{Deserialize, Serialize};

/// Figures of a classification or of a regression, by the labels of the samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "these are neither the figures of a classification nor those of a regression"
)]
pub enum Figures<C, R> {
    /// The samples have class labels.
    Classification(C),
    /// The samples have targets.
    Regression(R),
}

impl<C, R> Figures<C, R> {
    /// Returns the figures of a classification; `None` for a regression.
    #[must_use]
    pub fn classification(&self) -> Option<&C> {
        match self {
            Self::Classification(figures) => Some(figures),
            Self::Regression(_) => None,
        }
    }

    /// Returns the figures of a regression; `None` for a classification.
    #[must_use]
    pub fn regression(&self) -> Option<&R> {
        match self {
            Self::Classification(_) => None,
            Self::Regression(figures) => Some(figures),
        }
    }
}

/// The figures of floating point.
pub type FloatFigures = Figures<FloatAccuracy, Errors>;

/// The accuracy in floating point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FloatAccuracy {
    /// The share of samples whose top class is their label.
    pub accuracy: f64,
}

/// The figures of a cell.
pub type CellFigures = Figures<Classification, Regression>;

/// The figures of one generator and length over its seeds.
pub type RowFigures = Figures<ClassificationRow, RegressionRow>;

/// The figures of a classification with one generator, length and seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Classification {
    /// The share of samples whose top class is their label.
    pub accuracy: f64,
    /// The share of samples whose top class is that of floating point.
    pub agreement: f64,
    /// Samples by label, then by class.
    pub confusion: Vec<Vec<u32>>,
    /// Early termination, by margin.
    pub early: Vec<EarlyStop>,
    /// Termination of the last layer as soon as the outcome is certain; `None` if an activation
    /// follows it.
    pub certain: Option<CertainStop>,
}

/// The figures of a regression with one generator, length and seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Regression {
    /// The errors of the streams' outputs against the targets.
    pub to_targets: Errors,
    /// The errors of the streams' outputs against those of floating point.
    pub to_float: Errors,
}

/// The figures of a classification over seeds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassificationRow {
    /// The accuracy.
    pub accuracy: Estimate,
    /// The accuracy of each seed.
    pub accuracies: Vec<f64>,
    /// The agreement with floating point.
    pub agreement: f64,
    /// Samples by label, then by class, of all seeds.
    pub confusion: Vec<Vec<u64>>,
    /// Early termination, by margin.
    pub early: Vec<EarlyStop>,
    /// Termination of the last layer as soon as the outcome is certain.
    pub certain: Option<CertainStop>,
}

/// The figures of a regression over seeds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RegressionRow {
    /// The errors against the targets.
    pub to_targets: ErrorEstimate,
    /// The errors against floating point.
    pub to_float: ErrorEstimate,
}

/// The differences between outputs and reference values, over all samples and outputs.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Errors {
    /// The mean of the absolute differences.
    pub mean_absolute: f64,
    /// The root of the mean of their squares.
    pub root_mean_square: f64,
    /// The coefficient of determination R²: 1 less the squares of the differences over those of
    /// the reference values around the mean of each output. References that do not vary have 1
    /// if all outputs are equal to them, and 0 otherwise.
    pub r_squared: f64,
}

/// Errors over several seeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ErrorEstimate {
    /// The mean of the absolute differences.
    pub mean_absolute: Estimate,
    /// The root of the mean of their squares.
    pub root_mean_square: Estimate,
    /// The coefficient of determination.
    pub r_squared: Estimate,
}

impl Errors {
    /// Compares outputs, `n_outputs` of each sample, with references.
    pub(super) fn new(outputs: &[f64], references: &[f64], n_outputs: usize) -> Self {
        let n = outputs.len().max(1) as f64;
        let (mut absolute, mut squares) = (0.0, 0.0);
        for (output, reference) in outputs.iter().zip(references) {
            let difference = output - reference;
            absolute += difference.abs();
            squares += difference * difference;
        }
        let spread: f64 = (0..n_outputs)
            .map(|k| {
                let column: Vec<f64> =
                    references.iter().skip(k).step_by(n_outputs).copied().collect();
                let mean = mean(&column);
                column.iter().map(|value| (value - mean).powi(2)).sum::<f64>()
            })
            .sum();
        let r_squared = match (squares == 0.0, spread == 0.0) {
            (true, _) => 1.0,
            (false, true) => 0.0,
            // Finite, so that it survives a file.
            (false, false) => (1.0 - squares / spread).max(f64::MIN),
        };
        Self { mean_absolute: absolute / n, root_mean_square: (squares / n).sqrt(), r_squared }
    }

    /// Returns whether the numbers can be errors.
    pub(super) fn is_consistent(&self) -> bool {
        let sizes = [self.mean_absolute, self.root_mean_square];
        sizes.iter().all(|size| (0.0..f64::INFINITY).contains(size))
            && (f64::MIN..=1.0).contains(&self.r_squared)
    }
}

impl ErrorEstimate {
    fn new(errors: &[Errors]) -> Self {
        let of = |value: fn(&Errors) -> f64, bounds| {
            Estimate::new(&errors.iter().map(value).collect::<Vec<_>>(), bounds)
        };
        Self {
            mean_absolute: of(|errors| errors.mean_absolute, [0.0, f64::INFINITY]),
            root_mean_square: of(|errors| errors.root_mean_square, [0.0, f64::INFINITY]),
            r_squared: of(|errors| errors.r_squared, [f64::MIN, 1.0]),
        }
    }
}

impl FloatFigures {
    /// Returns the accuracy, or the coefficient of determination of a regression: 1 is best.
    #[must_use]
    pub fn score(&self) -> f64 {
        match self {
            Self::Classification(figures) => figures.accuracy,
            Self::Regression(errors) => errors.r_squared,
        }
    }
}

impl CellFigures {
    /// Returns the accuracy, or the coefficient of determination of a regression: 1 is best.
    #[must_use]
    pub fn score(&self) -> f64 {
        match self {
            Self::Classification(figures) => figures.accuracy,
            Self::Regression(figures) => figures.to_targets.r_squared,
        }
    }
}

impl RowFigures {
    /// Sums up the figures of the cells of one generator and length.
    pub(super) fn new(cells: &[&CellFigures]) -> Self {
        let classes: Vec<&Classification> =
            cells.iter().filter_map(|cell| cell.classification()).collect();
        if !classes.is_empty() {
            return Self::Classification(ClassificationRow::new(&classes));
        }
        let errors = |of: fn(&Regression) -> Errors| {
            let errors = cells.iter().filter_map(|cell| cell.regression()).map(of);
            ErrorEstimate::new(&errors.collect::<Vec<_>>())
        };
        let (to_targets, to_float) = (errors(|cell| cell.to_targets), errors(|cell| cell.to_float));
        Self::Regression(RegressionRow { to_targets, to_float })
    }
}

impl ClassificationRow {
    fn new(cells: &[&Classification]) -> Self {
        let average = |value: fn(&Classification) -> f64| {
            mean(&cells.iter().map(|c| value(c)).collect::<Vec<_>>())
        };
        let accuracies: Vec<f64> = cells.iter().map(|cell| cell.accuracy).collect();
        let margins = cells.first().map_or(&[][..], |cell| &cell.early);
        let early = margins.iter().enumerate().map(|(k, first)| {
            let stops: Vec<&EarlyStop> =
                cells.iter().filter_map(|cell| cell.early.get(k)).collect();
            let average = |value: fn(&EarlyStop) -> f64| {
                mean(&stops.iter().map(|s| value(s)).collect::<Vec<_>>())
            };
            EarlyStop {
                margin: first.margin,
                mean_cycles: average(|stop| stop.mean_cycles),
                accuracy: average(|stop| stop.accuracy),
                accuracy_lost: average(|stop| stop.accuracy_lost),
                stopped: average(|stop| stop.stopped),
            }
        });
        let certain: Vec<CertainStop> = cells.iter().filter_map(|cell| cell.certain).collect();
        let certain = (!certain.is_empty()).then(|| CertainStop {
            mean_cycles: mean(&certain.iter().map(|stop| stop.mean_cycles).collect::<Vec<_>>()),
            stopped: mean(&certain.iter().map(|stop| stop.stopped).collect::<Vec<_>>()),
        });
        let matrix = cells.first().map_or(&[][..], |cell| &cell.confusion);
        let mut confusion: Vec<Vec<u64>> =
            matrix.iter().map(|counts| vec![0; counts.len()]).collect();
        for cell in cells {
            let entries = confusion.iter_mut().flatten().zip(cell.confusion.iter().flatten());
            entries.for_each(|(sum, &n)| *sum += u64::from(n));
        }
        Self {
            accuracy: Estimate::new(&accuracies, [0.0, 1.0]),
            accuracies,
            agreement: average(|cell| cell.agreement),
            confusion,
            early: early.collect(),
            certain,
        }
    }
}

/// Returns the share of equal entries.
pub(super) fn share_of(classes: &[usize], others: &[usize]) -> f64 {
    let equal = classes.iter().zip(others).filter(|(a, b)| a == b).count();
    equal as f64 / others.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_means_and_r_squared_compares_with_the_spread() {
        // Two outputs of two samples; the references of the first output vary by 2 around 4, those
        // of the second do not.
        let errors = Errors::new(&[1.0, 5.0, 5.0, 6.0], &[2.0, 5.0, 6.0, 5.0], 2);
        assert_eq!(errors.mean_absolute, 3.0 / 4.0);
        assert_eq!(errors.root_mean_square, 0.75_f64.sqrt());
        assert_eq!(errors.r_squared, 1.0 - 3.0 / 8.0);
        let r_squared =
            |outputs: &[f64], references: &[f64]| Errors::new(outputs, references, 1).r_squared;
        assert_eq!(r_squared(&[3.0, 3.0], &[3.0, 3.0]), 1.0);
        assert_eq!(r_squared(&[3.0, 4.0], &[3.0, 3.0]), 0.0);
        // The mean of the references has 0, and the exact references 1.
        assert_eq!(r_squared(&[2.0, 2.0], &[1.0, 3.0]), 0.0);
        assert_eq!(r_squared(&[1.0, 3.0], &[1.0, 3.0]), 1.0);
        assert_eq!(r_squared(&[1e100, 0.0], &[0.0, 1e-150]), f64::MIN);
    }
}

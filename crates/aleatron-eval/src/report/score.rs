//! The score of an evaluation on the axis of a chart: accuracy in percent, or R².

use super::chart::Axis;
use crate::{Evaluation, Figures, Measure};

/// The R² below that of floating point that charts show; curves leave the frame below it.
const SHOWN_R_SQUARED: f64 = 2.0;

/// The scores of an evaluation, as charts show them.
pub(super) struct Scores {
    measure: Measure,
    float: f64,
}

impl Scores {
    /// Returns the scores of an evaluation.
    pub(super) fn of(evaluation: &Evaluation) -> Self {
        let measure = match evaluation.float {
            Figures::Classification(_) => Measure::Accuracy,
            Figures::Regression(_) => Measure::RSquared,
        };
        Self { measure, float: evaluation.float.score() }
    }

    /// Returns the name of the score at the beginning of a heading.
    pub(super) fn title(&self) -> &'static str {
        match self.measure {
            Measure::Accuracy => "Accuracy",
            _ => "R²",
        }
    }

    /// Returns the coordinate of a score.
    pub(super) fn value(&self, score: f64) -> f64 {
        match self.measure {
            Measure::Accuracy => 100.0 * score,
            _ => score,
        }
    }

    /// Returns a score with its unit.
    pub(super) fn text(&self, score: f64) -> String {
        self.measure.show(score)
    }

    /// Returns the coordinate of floating point.
    pub(super) fn float(&self) -> f64 {
        self.value(self.float)
    }

    /// Returns the entry of floating point in a legend.
    pub(super) fn legend(&self) -> String {
        format!("floating point, {}", self.text(self.float))
    }

    /// Returns a linear axis for coordinates; those of accuracies begin at a multiple of `step`.
    pub(super) fn axis(&self, values: impl Iterator<Item = f64>, step: f64) -> Axis {
        let least = values.fold(self.float(), f64::min);
        match self.measure {
            Measure::Accuracy => {
                Axis::percent("score", [((least - 2.0) / step).floor().max(0.0) * step, 100.0])
            }
            _ => {
                // A network that is worse than the mean of the targets has a negative R².
                let low = least.max(self.float().min(1.0) - SHOWN_R_SQUARED);
                Axis::linear("R²", [low - 0.05 * (1.0 - low).max(0.02), 1.0])
            }
        }
    }
}

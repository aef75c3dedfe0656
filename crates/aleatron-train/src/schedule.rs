//! Schedules: the learning rate as a function of the step.

/// The schedule of the learning rate over the steps of a training.
///
/// ```
/// use aleatron_train::Schedule;
/// let schedule = Schedule::Cosine { warmup: 10, floor: 0.0 };
/// assert_eq!(schedule.factor(4, 100), 0.5);
/// assert_eq!(schedule.factor(10, 100), 1.0);
/// assert!(schedule.factor(99, 100) < 0.001);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Schedule {
    /// The rate stays.
    Constant,
    /// The rate is multiplied by a factor after every `every` steps.
    Step {
        /// Steps between two changes; at least 1.
        every: usize,
        /// The factor.
        factor: f64,
    },
    /// The rate falls linearly from 1 to a share of itself, after rising over the first steps.
    Linear {
        /// Steps in which the rate rises.
        warmup: usize,
        /// The share at the end.
        floor: f64,
    },
    /// The rate falls along half a cosine from 1 to a share of itself, after rising over the first
    /// steps.
    Cosine {
        /// Steps in which the rate rises.
        warmup: usize,
        /// The share at the end.
        floor: f64,
    },
}

impl Default for Schedule {
    fn default() -> Self {
        Self::Cosine { warmup: 0, floor: 0.0 }
    }
}

impl Schedule {
    /// Returns the factor of the learning rate in a step, counted from 0, of `total` steps.
    #[must_use]
    pub fn factor(self, step: usize, total: usize) -> f64 {
        let (warmup, floor) = match self {
            Self::Constant => return 1.0,
            Self::Step { every, factor } => return factor.powf((step / every.max(1)) as f64),
            Self::Linear { warmup, floor } | Self::Cosine { warmup, floor } => (warmup, floor),
        };
        if step < warmup {
            return (step + 1) as f64 / warmup as f64;
        }
        let share = (step - warmup) as f64 / total.saturating_sub(warmup).max(1) as f64;
        let share = share.min(1.0);
        match self {
            Self::Cosine { .. } => {
                floor + (1.0 - floor) * 0.5 * (1.0 + (std::f64::consts::PI * share).cos())
            }
            _ => floor + (1.0 - floor) * (1.0 - share),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Schedule;

    #[test]
    fn step_schedule_multiplies_the_rate() {
        let schedule = Schedule::Step { every: 3, factor: 0.5 };
        let factors: Vec<f64> = (0..7).map(|step| schedule.factor(step, 7)).collect();
        assert_eq!(factors, [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.25]);
    }

    #[test]
    fn linear_schedule_rises_and_falls_to_its_floor() {
        let schedule = Schedule::Linear { warmup: 2, floor: 0.5 };
        let factors: Vec<f64> = (0..7).map(|step| schedule.factor(step, 6)).collect();
        assert_eq!(factors, [0.5, 1.0, 1.0, 0.875, 0.75, 0.625, 0.5]);
    }
}

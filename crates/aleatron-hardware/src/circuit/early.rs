//! Early termination: the last layer of a circuit stops as soon as its scores are far enough apart.
//!
//! After 8 cycles, and each time the cycles have doubled, the streams of the last layer pause and
//! the circuit reads its scores, each with the share of its bias for the cycles so far. If the best
//! score leads the second by the decision margin, its class is the output; otherwise the streams
//! continue.

use super::interval::Interval;
use super::{Circuit, InputInterval, LayerCircuit, Operation, Products, Source, Word};
use crate::error::internal;
use crate::{Error, Options, Output, Result};
use aleatron_core::Polarity;
use aleatron_core::arithmetic::Accumulator;
use aleatron_core::program::StepKind;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// The cycles before the first check. Later ones follow each time the cycles have doubled.
pub(crate) const FIRST_CHECK: usize = 8;

/// A decision margin: the margin of the best score over the second, in standard deviations of the
/// counting noise.
///
/// ```
/// use aleatron_hardware::Margin;
/// assert_eq!(Margin::new(2.5)?.deviations(), 2.5);
/// assert_eq!("2.5".parse(), Ok(Margin::new(2.5)?));
/// assert!(Margin::new(0.0).is_err() && "NaN".parse::<Margin>().is_err());
/// # Ok::<(), aleatron_hardware::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Margin {
    thousandths: u32,
}

impl Margin {
    /// Creates a margin, which is rounded to thousandths.
    ///
    /// # Errors
    /// Returns [`Error::Margin`] unless it is at least 0.001 and at most 1000.
    pub fn new(deviations: f64) -> Result<Self> {
        let thousandths = (deviations * 1000.0).round();
        match (1.0..=1e6).contains(&thousandths) {
            true => Ok(Self { thousandths: thousandths as u32 }),
            false => Err(Error::Margin { deviations }),
        }
    }

    /// Returns the standard deviations.
    #[must_use]
    pub fn deviations(self) -> f64 {
        f64::from(self.thousandths) / 1000.0
    }
}

impl fmt::Display for Margin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.deviations().fmt(f)
    }
}

impl FromStr for Margin {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let number = text.trim().parse();
        let number = number.map_err(|_| format!("\"{text}\" is not a number of deviations"))?;
        Self::new(number).map_err(|error| error.to_string())
    }
}

/// A check of the scores before the streams end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The number of cycles before the check.
    pub cycles: usize,
    /// The bias of each row after these cycles.
    pub biases: Vec<i64>,
    /// The difference of the best and the second score that ends the sample.
    pub margin: u64,
}

impl Circuit {
    /// Adds the checks of early termination to the last layer.
    pub(super) fn with_checks(mut self, options: &Options) -> Result<Self> {
        let Some(margin) = options.early_termination else { return Ok(self) };
        let fault = |what: &str, remedy| Error::Unsupported {
            part: "early termination".to_owned(),
            what: what.to_owned(),
            remedy,
        };
        if options.output != Output::Class {
            return Err(fault(
                "an output of scores",
                "let the class leave the circuit (--class), since scores are not complete",
            ));
        }
        let (Source::Stage(index), [_, _, ..]) = (self.output, &self.units[..]) else {
            return Err(fault(
                "a network with one score",
                "run all cycles: a single score has no second",
            ));
        };
        let n_readers =
            self.stages.iter().filter(|stage| stage.inputs.contains(&self.output)).count();
        let program = std::sync::Arc::clone(&self.program);
        let stage = self.stages.get_mut(index).ok_or_else(|| internal("hardware::with_checks"))?;
        let Operation::Layer(layer) = &mut stage.operation else {
            return Err(fault(
                &format!("the operation \"{}\" behind the last layer", stage.operation.name()),
                "end the network with its last layer",
            ));
        };
        if n_readers > 0 || layer.window.positions > 1 || layer.has_marks() {
            return Err(fault(
                "a last layer whose values are not the scores alone",
                "end the network with a dense layer",
            ));
        }
        if layer.inputs == InputInterval::Signed {
            return Err(fault(
                "a last layer with inputs that may be negative",
                "use an activation before it whose values are not negative, such as ReLU",
            ));
        }
        if options.lanes.is_some_and(|lanes| lanes < layer.rows.len()) {
            return Err(fault(
                "a last layer that does not compute all neurons at a time",
                "leave out the number of lanes, or give at least the neurons of the last layer",
            ));
        }
        if layer.products == Products::Integers {
            return Err(fault(
                "a last layer of integers",
                "use streams in the last layer: products of integers have no early scores",
            ));
        }
        if layer.length <= FIRST_CHECK {
            return Err(fault(
                &format!("a last layer of {} cycles", layer.length),
                "use streams of more than 8 bits: the first check follows the eighth cycle",
            ));
        }
        let step = program.steps().iter().find(|step| step.output() == stage.output.slot);
        let Some(StepKind::Accumulate { accumulator, .. }) =
            step.map(aleatron_core::program::Step::kind)
        else {
            return Err(internal("hardware::with_checks"));
        };
        let Word::Integer { low, high } = stage.output.word else {
            return Err(internal("hardware::with_checks"));
        };
        let mut values = Interval::new(low.into(), high.into());
        let doubled = std::iter::successors(Some(FIRST_CHECK), |cycles| cycles.checked_mul(2));
        for cycles in doubled.take_while(|&cycles| cycles < layer.length) {
            let check = layer.check(accumulator, cycles, margin);
            for row in 0..layer.rows.len() {
                values = values.union(
                    layer
                        .reachable(row, cycles)
                        .map(|sum| check.value(accumulator, row, sum).map_or(0, i128::from)),
                );
            }
            layer.checks.push(check);
        }
        let [low, high] = values.ends(&stage.name)?;
        stage.output.word = Word::Integer { low, high };
        Ok(self)
    }
}

impl Check {
    /// Returns the score of a row for the sum of its products, limited as by the accumulator.
    pub(crate) fn value(&self, accumulator: &Accumulator, row: usize, sum: i128) -> Option<i64> {
        let [low, high] = accumulator.interval().map(i128::from);
        let biased = (sum << accumulator.fraction()) + i128::from(*self.biases.get(row)?);
        Some(accumulator.activation().apply(biased.clamp(low, high) as i64))
    }
}

impl LayerCircuit {
    fn check(&self, accumulator: &Accumulator, cycles: usize, margin: Margin) -> Check {
        let (now, all) = (cycles as i128, self.length as i128);
        // Rounded to the nearest, halves up.
        let part = |bias: i64| ((2 * i128::from(bias) * now + all).div_euclid(2 * all)) as i64;
        // Two scores of independent products, as in `aleatron eval`.
        let noise = (2.0 * self.fan_in() as f64 * self.polarity.product_variance()).sqrt();
        let lead = margin.deviations() * noise * (cycles as f64).sqrt();
        Check {
            cycles,
            biases: self.rows.iter().map(|row| part(row.bias)).collect(),
            margin: (lead * f64::from(accumulator.fraction()).exp2()).ceil() as u64,
        }
    }

    /// Returns the least and the greatest sum of the products of a row after some cycles, for
    /// non-negative inputs.
    fn reachable(&self, row: usize, cycles: usize) -> Interval {
        let (n, cycles) = (self.fan_in() as i128, cycles as i128);
        let negative = self.negative(row) as i128;
        match self.polarity {
            Polarity::Unipolar => Interval::new(0, n * cycles),
            Polarity::Bipolar => Interval::new(-n * cycles, n * cycles),
            Polarity::Signed => Interval::new(-negative * cycles, (n - negative) * cycles),
        }
    }

    /// Returns the term added to the shifted count of a row at a check.
    pub(crate) fn check_offset(&self, check: &Check, row: usize) -> i128 {
        let cycles = check.cycles as i128;
        let excess = match self.polarity {
            Polarity::Unipolar => 0,
            Polarity::Bipolar => self.fan_in() as i128 * cycles,
            Polarity::Signed => self.negative(row) as i128 * cycles,
        };
        // A count of bipolar streams is shifted by one bit more than its excess.
        let fraction = self.count_shift - u32::from(self.polarity == Polarity::Bipolar);
        check.biases.get(row).map_or(0, |&bias| i128::from(bias)) - (excess << fraction)
    }
}

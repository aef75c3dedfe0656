//! The scales of inputs of linear products, measured on a text in floating point.

use crate::{Error, Result};
use aleatron_core::arithmetic::SIGNAL_LIMIT;
use aleatron_core::{Cancel, Quantity, memory};
use aleatron_engine::network::percentile_rank;
use aleatron_transformer::{
    Config, Error as TransformerError, ForwardPass, LinearId, LinearProduct, LinearProducts,
    Logits, ProductOutcome, Segment,
};
use std::sync::{Arc, Mutex, PoisonError};

/// The share of inputs that a scale covers if none is given; the others saturate.
pub const DEFAULT_SHARE: f64 = 0.9995;

/// Tokens that are read at once.
const CHUNK: usize = 64;

/// The scales of the inputs of all linear products of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct InputScales {
    /// The input that becomes 1, for each product in the order of [`LinearId::all`].
    pub scales: Vec<f64>,
    /// The tokens they were measured on.
    pub tokens: usize,
    /// The share of inputs that they cover.
    pub share: f64,
}

impl InputScales {
    /// Measures the scales on a text: for each product, the magnitude that `share` of its inputs
    /// does not exceed in floating point. A text longer than `context` is read in sequences of
    /// this length.
    ///
    /// Products without signal have scale 1. The products of the pass run in floating point
    /// afterwards.
    ///
    /// # Errors
    /// [`Error::LanguageOption`] for a share outside (0, 1], an empty text or a context out of
    /// range, [`Error::Language`] for an input that is not finite,
    /// [`Error::Transformer`] if the pass fails, [`aleatron_core::Error::Cancelled`].
    pub fn measure(
        pass: &mut dyn ForwardPass,
        tokens: &[u32],
        context: usize,
        share: f64,
        cancel: Cancel<'_>,
    ) -> Result<Self> {
        if !(share > 0.0 && share <= 1.0) {
            let remedy = "give a share of the inputs above 0 and at most 1".to_owned();
            return Err(Error::LanguageOption {
                option: "quantile",
                value: share.to_string(),
                remedy,
            });
        }
        if tokens.is_empty() {
            let remedy = "give a calibration text of at least one token".to_owned();
            return Err(Error::LanguageOption {
                option: "calibration",
                value: "no tokens".to_owned(),
                remedy,
            });
        }
        super::plan::check_context(context, pass.config())?;
        let observer = Arc::new(Magnitudes::new(pass.config(), tokens.len(), share)?);
        pass.set_linear_products(Some(Arc::clone(&observer) as Arc<dyn LinearProducts>))?;
        let read =
            tokens.chunks(context).try_for_each(|sequence| read_sequence(pass, sequence, cancel));
        pass.set_linear_products(None)?;
        read?;
        Ok(Self { scales: observer.scales()?, tokens: tokens.len(), share })
    }
}

/// Sends a sequence through a pass.
fn read_sequence(pass: &mut dyn ForwardPass, tokens: &[u32], cancel: Cancel<'_>) -> Result<()> {
    let sequence = pass.open()?;
    let read = tokens.chunks(CHUNK).try_for_each(|tokens| -> Result<()> {
        cancel.check()?;
        pass.forward(&[Segment { sequence, tokens }], Logits::All)?;
        Ok(())
    });
    pass.close(sequence);
    read
}

/// Observes the largest magnitudes of the inputs of each product.
#[derive(Debug)]
struct Magnitudes {
    config: Config,
    products: Vec<Mutex<Largest>>,
}

/// The largest of many values.
#[derive(Debug)]
struct Largest {
    linear: LinearId,
    /// The values that are retained, at least as many as there are when all have been seen.
    keep: usize,
    values: Vec<f32>,
    /// Whether an input was infinite or NaN.
    is_finite: bool,
}

impl Magnitudes {
    fn new(config: &Config, tokens: usize, share: f64) -> Result<Self> {
        let products = LinearId::all(config).into_iter().map(|linear| {
            let n = tokens.saturating_mul(linear.shape(config)[1]);
            // The magnitude of the rank, and those above it.
            let keep = percentile_rank(n, share).map_or(0, |rank| n - rank);
            let values = memory::with_capacity(room(keep) as u128, Quantity::Inputs)?;
            Ok(Mutex::new(Largest { linear, keep, values, is_finite: true }))
        });
        Ok(Self { config: config.clone(), products: products.collect::<Result<_>>()? })
    }

    fn scales(&self) -> Result<Vec<f64>> {
        let scale = |product: &Mutex<Largest>| {
            let mut largest = product.lock().unwrap_or_else(PoisonError::into_inner);
            if !largest.is_finite {
                let (what, value) = (
                    format!("calibration of \"{}\"", largest.linear),
                    "an input is infinite or NaN",
                );
                let remedy = "check the weights of the model".to_owned();
                return Err(Error::Language { what, value: value.to_owned(), remedy });
            }
            largest.truncate();
            let scale = f64::from(largest.values.iter().copied().fold(f32::INFINITY, f32::min));
            Ok(if scale > SIGNAL_LIMIT && scale.is_finite() { scale } else { 1.0 })
        };
        self.products.iter().map(scale).collect()
    }
}

/// Returns the number of values that are collected before the smallest are dropped.
fn room(keep: usize) -> usize {
    keep.saturating_mul(2).max(4096)
}

impl Largest {
    fn add(&mut self, values: &[f32]) {
        for value in values.iter().map(|value| value.abs()) {
            self.is_finite &= value.is_finite();
            if self.values.len() == room(self.keep) {
                self.truncate();
            }
            self.values.push(value);
        }
    }

    /// Drops all but the largest.
    fn truncate(&mut self) {
        if self.keep > 0 && self.values.len() > self.keep {
            self.values.select_nth_unstable_by(self.keep - 1, |a, b| b.total_cmp(a));
        }
        self.values.truncate(self.keep);
    }
}

impl LinearProducts for Magnitudes {
    fn product(
        &self,
        product: &LinearProduct<'_>,
        _: &mut [f32],
    ) -> aleatron_transformer::Result<ProductOutcome> {
        let slot = self.products.get(product.linear.index(&self.config));
        let slot = slot.ok_or(TransformerError::Internal { place: "calibration" })?;
        slot.lock().unwrap_or_else(PoisonError::into_inner).add(product.inputs);
        Ok(ProductOutcome::Declined)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bounded selection returns the value of a full sort, for any order and number of values.
    #[test]
    fn largest_values_have_the_percentile_as_minimum() {
        let value =
            |k: usize| (k as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_shr(40) as f32;
        for n in [1, 2, 9_000, 20_001] {
            for share in [0.25, 0.5, 0.9995, 1.0] {
                let values: Vec<f32> = (0..n).map(value).collect();
                let rank = percentile_rank(n, share).unwrap_or(0);
                let mut largest = Largest {
                    linear: LinearId::Head,
                    keep: n - rank,
                    values: Vec::new(),
                    is_finite: true,
                };
                values.chunks(77).for_each(|chunk| largest.add(chunk));
                largest.truncate();
                let mut sorted = values;
                sorted.sort_unstable_by(f32::total_cmp);
                let found = largest.values.iter().copied().fold(f32::INFINITY, f32::min);
                assert_eq!(found, sorted[rank], "{n} values, share {share}");
            }
        }
    }
}

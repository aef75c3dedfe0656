//! Searching for the shortest streams of linear products that add a permitted loss.

use super::job::LanguageJob;
use super::plan::LanguagePlan;
use super::schedule::fingerprint;
use super::text::LanguageText;
use crate::find::{Fixed, Found, Measure, Search};
use crate::{Error, Result};
use aleatron_core::Cancel;
use aleatron_transformer::Transformer;

/// Searches for the shortest streams of each linear product with one generator, by the method of
/// [`crate::find()`]: the loss may be `search.loss` nats per token above that of floating point.
/// `known` is the result of an earlier search of the same; `progress` is called with the state of
/// the search before and after each trial.
///
/// # Errors
/// As [`LanguageJob::new`], [`Error::LanguageOption`] for a permitted loss that is negative or not
/// finite, [`Error::Nothing`] for lengths of 0 or no budget, [`Error::SearchedLength`],
/// [`Error::Checkpoint`] if `known` is of another search, and [`Error::UnfinishedSearch`], with the
/// trials that are done, if a later trial fails.
pub fn find_product_lengths(
    model: &mut Transformer,
    text: &LanguageText,
    plan: &LanguagePlan,
    search: &Search,
    known: Option<Found>,
    cancel: Cancel<'_>,
    mut progress: impl FnMut(&Found),
) -> Result<Found> {
    search.check(&plan.layers)?;
    if !(0.0..f64::INFINITY).contains(&search.loss) {
        let remedy = "give a number of nats per token from 0 on".to_owned();
        return Err(Error::LanguageOption {
            option: "permitted loss",
            value: search.loss.to_string(),
            remedy,
        });
    }
    let plan = LanguagePlan {
        lengths: vec![search.shortest, search.longest],
        generators: vec![search.generator],
        ..plan.clone()
    };
    let mut job = LanguageJob::new("search", model, text, &plan, cancel)?;
    let (streams, header) = (plan.streams(), &job.schedule().header);
    // The device, the lengths and the generator are not part of the identity.
    let identity = format!(
        "{:?} {} {} {:?} {}",
        streams.settings(),
        streams.seeds,
        header.context,
        header.input_scales,
        header.fingerprint
    );
    let identity = fingerprint(identity.bytes().map(u64::from));
    let products = header.products.clone();
    let float = job.loss(None, cancel)?;
    let found = Found {
        identity,
        layers: products.iter().map(|product| product.name.clone()).collect(),
        products: products.iter().map(|product| product.weights).collect(),
        measure: Measure::NegativeLoss,
        ..Found::new(search, -float, search.loss)
    };
    let names = found.layers.clone();
    let score = |lengths: &[usize]| {
        let seeds = streams.seeds_of(&search.generator, None);
        let (mut sum, n) = (0.0, seeds.clone().count().max(1));
        for seed in seeds {
            sum += job.loss(Some(&search.config(&streams, &names, lengths, seed)), cancel)?;
        }
        Ok(-sum / n as f64)
    };
    found.search(known, search, &mut Fixed { score, progress: &mut progress })
}

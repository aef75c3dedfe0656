//! Comparing two evaluations of language models.

use super::interval::{Noise, seeds};
use super::{
    Compared, ComparedScore, Comparison, RowDifference, RowKey, SettingDifference, Subject,
    newest_source, newest_tier, origins, refusal, seed_statistics, shown,
};
use crate::Result;
use crate::language::LanguageCheckpoint;
use crate::provenance::Source;
use crate::statistics::mean;
use aleatron_core::generator::GeneratorName;
use aleatron_engine::network::LayerOverride;
use std::collections::BTreeMap;

/// Compares two evaluations of the same model on the same text; `across` has the subjects that may
/// differ. Names are for messages.
///
/// # Errors
/// [`crate::Error::Incomparable`] if a subject differs that is not in `across`.
pub fn compare_language(
    names: [&str; 2],
    found: [&LanguageCheckpoint; 2],
    across: &[Subject],
) -> Result<Comparison> {
    let [a, b] = found;
    let is_allowed = |subject| across.contains(&subject);
    if has_other_model(found) && !is_allowed(Subject::Network) {
        return Err(refusal(
            names,
            Subject::Network,
            found.map(LanguageCheckpoint::described_model),
        ));
    }
    if has_other_text(found) && !is_allowed(Subject::Data) {
        return Err(refusal(names, Subject::Data, found.map(LanguageCheckpoint::described_text)));
    }
    let keys = |found: &LanguageCheckpoint| -> Vec<RowKey> {
        let key = |generator: &String, length| RowKey {
            generator: generator.clone(),
            length,
            faults: None,
        };
        found.rows.iter().map(|row| key(&row.generator, row.length)).collect()
    };
    let [keys_a, keys_b] = found.map(keys);
    let mut rows = Vec::new();
    for (row, key) in a.rows.iter().zip(&keys_a) {
        let other = b.rows.iter().zip(&keys_b).find(|(_, other)| *other == key);
        let Some((other, _)) = other else { continue };
        let losses = [row, other].map(|row| -> BTreeMap<u64, f64> {
            row.seeds.iter().map(|run| (run.seed, run.loss)).collect()
        });
        let is_seeded = [0, 1].map(|k| losses[k].len() > 1 || found[k].is_seeded(&row.generator));
        let noise = Noise::new([&losses[0], &losses[1]], is_seeded);
        let means = [0, 1].map(|k| mean(&losses[k].values().copied().collect::<Vec<_>>()));
        rows.push(RowDifference {
            key: key.clone(),
            bits: [row, other].map(|row| row.length.to_string()),
            score: seeds(means, noise),
            r_squared: None,
            early_cycles: [None, None],
            cost: [None, None],
        });
    }
    let only = |own: &[RowKey], others: &[RowKey]| -> Vec<RowKey> {
        own.iter().filter(|key| !others.contains(key)).cloned().collect()
    };
    let side = |k: usize| {
        let [model, text] = found[k].names();
        Compared {
            name: names[k].to_owned(),
            network: model.to_owned(),
            data: text.to_owned(),
            samples: found[k].predicted_tokens,
            version: found[k].version.clone(),
            unfinished: found[k].unfinished,
            provenance: found[k].provenance.clone(),
        }
    };
    let mut statistics = vec![
        "tokens: the result files have no loss of each token, so that no interval covers the choice of text; differences hold \
         for this text"
            .to_owned(),
    ];
    statistics.extend(seed_statistics(&rows, ComparedScore::NatsPerToken));
    Ok(Comparison {
        a: side(0),
        b: side(1),
        score: ComparedScore::NatsPerToken,
        settings: settings(found),
        float: seeds([a.float.loss, b.float.loss], Noise::Exact),
        only_a: only(&keys_a, &keys_b),
        only_b: only(&keys_b, &keys_a),
        rows,
        statistics,
    })
}

/// Returns whether both have the same model and the same text for certain: with equal settings, the
/// loss in floating point and the scales depend on all weights and on the text, and on nothing
/// else. `None` if the settings differ, or the SIMD tier, which rounds in its own way, so that
/// these numbers cannot be compared.
fn has_equal_numbers(found: [&LanguageCheckpoint; 2]) -> Option<bool> {
    let [a, b] = found;
    let is_comparable = a.precision == b.precision
        && a.quantile == b.quantile
        && newest_tier(&a.provenance) == newest_tier(&b.provenance)
        && [a.context, a.calibration_tokens, a.predicted_tokens]
            == [b.context, b.calibration_tokens, b.predicted_tokens];
    let is_equal = a.float.loss == b.float.loss && a.input_scales == b.input_scales;
    is_comparable.then_some(is_equal)
}

/// Returns the newest file with a role of each result.
fn files<'a>(found: [&'a LanguageCheckpoint; 2], role: &str) -> [Option<&'a Source>; 2] {
    found.map(|found| newest_source(&found.provenance, role))
}

/// Returns whether the files with a role have other contents; unknown contents are the same.
fn has_other_files(found: [&LanguageCheckpoint; 2], role: &str) -> bool {
    let hashes = files(found, role).map(|file| file.and_then(|file| file.sha256.as_ref()));
    matches!(hashes, [Some(a), Some(b)] if a != b)
}

/// Returns whether one result has an adapter that the other lacks, or another one.
fn has_other_adapter(found: [&LanguageCheckpoint; 2]) -> bool {
    let is_known = found.iter().all(|found| newest_source(&found.provenance, "model").is_some());
    let has_one = files(found, "adapter").map(|adapter| adapter.is_some());
    is_known && (has_one[0] != has_one[1] || has_other_files(found, "adapter"))
}

fn has_other_text(found: [&LanguageCheckpoint; 2]) -> bool {
    let [a, b] = found.map(LanguageCheckpoint::described_text);
    a != b || has_equal_numbers(found) != Some(true) && has_other_files(found, "text")
}

fn has_other_model(found: [&LanguageCheckpoint; 2]) -> bool {
    let [a, b] = found.map(|found| found.names()[0]);
    let has_other_files = has_other_files(found, "model") || has_other_adapter(found);
    a != b
        || match has_equal_numbers(found) {
            Some(true) => false,
            Some(false) => has_other_files || !has_other_text(found),
            None => has_other_files,
        }
}

impl LanguageCheckpoint {
    /// Returns the model with its adapter and its loss.
    fn described_model(&self) -> String {
        let adapter = newest_source(&self.provenance, "adapter");
        let adapter = adapter.map_or_else(String::new, |file| format!(" with {}", shown(file)));
        let loss = self.float.loss;
        format!("{}{adapter} ({loss} nats per token in floating point)", self.names()[0])
    }

    /// Returns the text with the number of its tokens.
    fn described_text(&self) -> String {
        format!("{} ({} tokens predicted)", self.names()[1], self.predicted_tokens)
    }

    /// Returns whether rows of a generator depend on seeds: by it, or by that of a product with
    /// settings of its own.
    fn is_seeded(&self, generator: &str) -> bool {
        let own = self.layers.values().map(|own| own.parse::<LayerOverride>());
        let own = own.filter_map(|own| own.map_or(None, |own| own.generator));
        generator.parse::<GeneratorName>().map_or(true, |generator| generator.is_seeded())
            || own.into_iter().any(|generator| generator.is_seeded())
    }
}

/// Returns the settings that differ.
fn settings(found: [&LanguageCheckpoint; 2]) -> Vec<SettingDifference> {
    let mut out = Vec::new();
    let mut add = |setting: &str, value: &dyn Fn(&LanguageCheckpoint) -> String| {
        let [a, b] = found.map(value);
        if a != b {
            out.push(SettingDifference { setting: setting.to_owned(), a, b });
        }
    };
    add("model", &|found| found.names()[0].to_owned());
    add("text", &|found| found.names()[1].to_owned());
    add("version", &|found| found.version.clone());
    add("precision", &|found| found.precision.clone());
    add("width", &|found| found.width.clone());
    add("sharing", &|found| found.sharing.clone());
    add("margins", &|found| format!("{:?}", found.margins));
    add("products", &|found| format!("{:?}", found.layers));
    add("context", &|found| found.context.to_string());
    add("calibration tokens", &|found| found.calibration_tokens.to_string());
    add("predicted tokens", &|found| found.predicted_tokens.to_string());
    add("quantile", &|found| found.quantile.to_string());
    let differ = [
        ("model files", "model", has_other_files(found, "model")),
        ("adapter", "adapter", has_other_adapter(found)),
        ("text file", "text", has_other_files(found, "text")),
    ];
    for (setting, role, _) in differ.into_iter().filter(|(_, _, differs)| *differs) {
        let [a, b] = files(found, role).map(|file| file.map_or_else(|| "-".to_owned(), shown));
        out.push(SettingDifference { setting: setting.to_owned(), a, b });
    }
    out.extend(origins([&found[0].provenance, &found[1].provenance]));
    out
}

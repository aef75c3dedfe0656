//! Models and adapters against what Hugging Face transformers and peft give for them, within the bounds of `common/reference.rs`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use aleatron_transformer::weights::Loader;
use aleatron_transformer::{Adapter, LoadOptions, Logits, Precision, Segment, Transformer};
use common::reference::{Reference, Trace};
use common::rounding::Rounding;
use common::{ADAPTERS, Golden, MODELS, devices, files, folder, greedy, load, rounding};
use std::collections::BTreeMap;

const PRECISIONS: [Precision; 3] = [Precision::F32, Precision::F16, Precision::Int8];

/// A model in f64, with an adapter or without.
fn reference(name: &str, precision: Precision, adapter: Option<&str>) -> Reference {
    let (config, files) = files(name);
    let adapter = adapter.map(|adapter| Adapter::read(&folder(adapter), &config).unwrap());
    let loader = Loader { config: &config, source: &files, precision, merged: None };
    Reference::new(&loader, adapter.as_ref())
}

/// Logits of every row, some of each: every one takes a pass backwards.
#[track_caller]
fn assert_logits(trace: &Trace<'_>, logits: &[f32], rows: usize, what: &str) {
    for (row, logits) in logits.chunks_exact(logits.len() / rows).enumerate() {
        trace.assert_row(row, logits, (row..logits.len()).step_by(11), what);
    }
}

#[test]
fn logits_are_those_of_hugging_face() {
    for name in MODELS {
        let golden = Golden::read(name);
        let rows = golden.tokens.len();
        for precision in PRECISIONS {
            let reference = reference(name, precision, None);
            for device in devices() {
                let trace = reference.read(&golden.tokens, rounding(device, precision, rows));
                let logits = load(name, device, precision).forward(&golden.tokens, None).unwrap();
                assert_logits(&trace, &logits, rows, &format!("{name} in {precision} on {device}"));
                if precision == Precision::F32 {
                    assert_logits(&trace, &golden.logits, rows, &format!("{name} by Hugging Face"));
                }
            }
        }
    }
}

#[test]
fn greedy_tokens_are_those_of_hugging_face() {
    for device in devices() {
        for name in MODELS {
            let golden = Golden::read(name);
            let mut model = load(name, device, Precision::F32);
            let text = greedy(model.pass(), &golden.tokens, golden.greedy.len());
            assert_eq!(text, golden.greedy, "{name} on {device}");
        }
    }
}

#[test]
fn adapters_give_what_peft_does_merged_or_not() {
    for (name, base) in ADAPTERS {
        let (golden, plain) = (Golden::read(name), Golden::read(base));
        let [adapted, original] = [Some(name), None].map(|adapter| reference(base, Precision::F32, adapter));
        for device in devices() {
            let rows = golden.tokens.len();
            let rounding = rounding(device, Precision::F32, rows);
            let trace = adapted.read(&golden.tokens, rounding);
            assert_logits(&trace, &golden.logits, rows, &format!("{name} by PEFT"));
            let mut model = load(base, device, Precision::F32);
            let adapter = model.load_adapter(&folder(name)).unwrap();
            let logits = model.forward(&golden.tokens, Some(adapter)).unwrap();
            assert_logits(&trace, &logits, rows, &format!("{name} on {device}"));
            let options = LoadOptions { device, precision: Precision::F32, merge: Some(folder(name)) };
            let mut merged = Transformer::from_pretrained(&folder(base), &options).unwrap();
            let logits = merged.forward(&golden.tokens, None).unwrap();
            assert_logits(&trace, &logits, rows, &format!("{name}, merged, on {device}"));
            let text = greedy(merged.pass(), &golden.tokens, golden.greedy.len());
            assert_eq!(text, golden.greedy, "{name} on {device}");
            // The model itself is as it was.
            let logits = model.forward(&plain.tokens, None).unwrap();
            assert_logits(&original.read(&plain.tokens, rounding), &logits, plain.tokens.len(), base);
        }
    }
}

#[test]
fn sequences_of_one_batch_use_different_adapters() {
    let names = [None, Some("llama-lora"), Some("llama-lora-qkv")];
    let references = names.map(|adapter| reference("llama", Precision::F32, adapter));
    let goldens = names.map(|name| Golden::read(name.unwrap_or("llama")));
    for device in devices() {
        let mut model = load("llama", device, Precision::F32);
        let adapters = names.map(|name| name.map(|name| model.load_adapter(&folder(name)).unwrap()));
        let pass = model.pass();
        let sequences = adapters.map(|adapter| {
            let sequence = pass.open().unwrap();
            pass.use_adapter(sequence, adapter).unwrap();
            sequence
        });
        let segments: Vec<_> = sequences
            .iter()
            .zip(&goldens)
            .map(|(&sequence, golden)| Segment { sequence, tokens: &golden.tokens })
            .collect();
        let logits = pass.forward(&segments, Logits::All).unwrap();
        let mut rest = &logits[..];
        for ((golden, reference), name) in goldens.iter().zip(&references).zip(names) {
            let (own, others) = rest.split_at(golden.logits.len());
            let trace = reference.read(&golden.tokens, rounding(device, Precision::F32, 33));
            assert_logits(&trace, own, golden.tokens.len(), name.unwrap_or("none"));
            rest = others;
        }
        assert!(rest.is_empty());
    }
}

/// `bounds.json` has the bounds of the last row on the CPU, for tests in other languages.
#[test]
fn bounds_of_other_languages_are_these() {
    let mut all = BTreeMap::new();
    for (name, base, adapter) in MODELS
        .map(|name| (name, name, None))
        .into_iter()
        .chain(ADAPTERS.map(|(name, base)| (name, base, Some(name))))
    {
        let golden = Golden::read(name);
        let row = golden.tokens.len() - 1;
        let mut of = BTreeMap::new();
        for precision in PRECISIONS {
            let reference = reference(base, precision, adapter);
            let trace = reference.read(&golden.tokens, Rounding::CPU);
            let logits = &golden.logits[row * 131..];
            // From Hugging Face's logits, which have the weights as they are in the files.
            let bounds = (0..131).map(|token| {
                trace.bound(row, token) + (trace.logit(row, token) - f64::from(logits[token])).abs()
            });
            of.insert(precision.to_string(), bounds.fold(0.0, f64::max));
        }
        all.insert(name, of);
    }
    let path = folder("bounds.json");
    let known: BTreeMap<String, BTreeMap<String, f64>> =
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let text = serde_json::to_string_pretty(&all).unwrap();
    assert_eq!(known.len(), all.len(), "{} should be\n{text}", path.display());
    for (name, of) in &all {
        for (precision, bound) in of {
            let known = known[*name][precision];
            assert!((known - bound).abs() <= 1e-6 * bound, "{} should be\n{text}", path.display());
        }
    }
}

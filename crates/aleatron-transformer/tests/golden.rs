//! Models and adapters compared with Hugging Face transformers and peft, within the bounds of
//! `common/reference.rs`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use aleatron_transformer::lora::{Projection, targets};
use aleatron_transformer::weights::Loader;
use aleatron_transformer::{
    Adapter, AdapterOptions, AlphaScaling, Error, LoadOptions, Logits, Precision, Segment,
    Transformer,
};
use common::reference::{Reference, Trace};
use common::rounding::Rounding;
use common::{ADAPTERS, Golden, MODELS, devices, files, folder, greedy, load, rounding};
use std::collections::BTreeMap;

const PRECISIONS: [Precision; 3] = [Precision::F32, Precision::F16, Precision::Int8];

/// Returns a model in f64, with an adapter or without.
fn reference(name: &str, precision: Precision, adapter: Option<&str>) -> Reference {
    let (config, files) = files(name);
    let adapter = adapter.map(|adapter| Adapter::read(&folder(adapter), &config).unwrap());
    let loader = Loader { config: &config, source: &files, precision, merged: None };
    Reference::new(&loader, adapter.as_ref())
}

/// Checks some logits of every row: each one needs a backward pass.
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
fn adapters_match_peft_merged_or_not() {
    for (name, base) in ADAPTERS {
        let (golden, plain) = (Golden::read(name), Golden::read(base));
        let [adapted, original] =
            [Some(name), None].map(|adapter| reference(base, Precision::F32, adapter));
        for device in devices() {
            let rows = golden.tokens.len();
            let rounding = rounding(device, Precision::F32, rows);
            let trace = adapted.read(&golden.tokens, rounding);
            assert_logits(&trace, &golden.logits, rows, &format!("{name} by PEFT"));
            let mut model = load(base, device, Precision::F32);
            let adapter = model.load_adapter(&folder(name)).unwrap();
            let logits = model.forward(&golden.tokens, Some(adapter)).unwrap();
            assert_logits(&trace, &logits, rows, &format!("{name} on {device}"));
            let options =
                LoadOptions { device, precision: Precision::F32, merge: Some(folder(name)) };
            let mut merged = Transformer::from_pretrained(&folder(base), &options).unwrap();
            let logits = merged.forward(&golden.tokens, None).unwrap();
            assert_logits(&trace, &logits, rows, &format!("{name}, merged, on {device}"));
            let text = greedy(merged.pass(), &golden.tokens, golden.greedy.len());
            assert_eq!(text, golden.greedy, "{name} on {device}");
            // The model itself is as it was.
            let logits = model.forward(&plain.tokens, None).unwrap();
            assert_logits(
                &original.read(&plain.tokens, rounding),
                &logits,
                plain.tokens.len(),
                base,
            );
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
        let adapters =
            names.map(|name| name.map(|name| model.load_adapter(&folder(name)).unwrap()));
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
fn bounds_in_other_languages_are_equal() {
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

/// The files of an adapter that was read and written are equal to the first in everything that
/// changes a result.
#[test]
fn adapters_survive_writing_and_reading() {
    for (name, base) in ADAPTERS {
        let (config, _) = files(base);
        let read = Adapter::read(&folder(name), &config).unwrap();
        let path =
            std::env::temp_dir().join(format!("aleatron-{}-written-{name}", std::process::id()));
        read.save(&path, &config).unwrap();
        let again = Adapter::read(&path, &config).unwrap();
        let parts = |adapter: &Adapter| {
            let parts = adapter.parts().map(|(layer, projection, part)| {
                (layer, projection, part.rank, part.scale, part.a.clone(), part.b.clone())
            });
            parts.collect::<Vec<_>>()
        };
        assert!(!parts(&read).is_empty());
        assert_eq!(parts(&read), parts(&again), "{name}");
        let described = |folder: &std::path::Path| -> serde_json::Value {
            serde_json::from_slice(&std::fs::read(folder.join("adapter_config.json")).unwrap())
                .unwrap()
        };
        assert_eq!(described(&folder(name)), described(&path));
        // No other files are left in the folder.
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 2);
        std::fs::remove_dir_all(&path).unwrap();
    }
}

#[test]
fn new_adapters_have_the_described_corrections() {
    let (config, _) = files("llama");
    let names = ["v_proj", "down_proj"];
    let options = AdapterOptions {
        rank: 4,
        alpha: 6.0,
        dropout: 0.25,
        scaling: AlphaScaling::RankStabilized,
        targets: targets(&config, &names).unwrap(),
        base_model: "base".to_owned(),
    };
    let new = Adapter::create(&config, &options, 1).unwrap();
    let found: Vec<_> = new.parts().map(|(layer, projection, _)| (layer, projection)).collect();
    let expected = (0..config.layers)
        .flat_map(|layer| [(layer, Projection::Value), (layer, Projection::Down)]);
    assert_eq!(found, expected.collect::<Vec<_>>());
    for (_, projection, part) in new.parts() {
        let [rows, columns] = projection.shape(&config);
        assert_eq!((part.rank, part.scale), (4, 3.0));
        assert_eq!((part.a.len(), part.b.len()), (4 * columns, 4 * rows));
    }
    let path = std::env::temp_dir().join(format!("aleatron-{}-new-adapter", std::process::id()));
    new.save(&path, &config).unwrap();
    let again = Adapter::read(&path, &config).unwrap();
    std::fs::remove_dir_all(&path).unwrap();
    assert_eq!(again.dropout(), 0.25);
    assert!(again.parts().all(|(_, _, part)| (part.rank, part.scale) == (4, 3.0)));
    let standard = AdapterOptions { scaling: AlphaScaling::Standard, ..options.clone() };
    assert!(
        Adapter::create(&config, &standard, 1)
            .unwrap()
            .parts()
            .all(|(_, _, part)| part.scale == 1.5)
    );

    assert_eq!(targets(&config, &["all"]).unwrap().len(), 7);
    let (gpt2, _) = files("gpt2");
    // Two modules of a layer have this name.
    assert_eq!(targets(&gpt2, &["c_proj"]).unwrap(), [Projection::Output, Projection::Down]);
    let unknown = targets(&config, &["q_proj", "c_attn"]).unwrap_err().to_string();
    assert!(unknown.contains("\"c_attn\"") && unknown.contains("gate_proj"), "{unknown}");
    for bad in [
        AdapterOptions { rank: 0, ..options.clone() },
        AdapterOptions { rank: 4097, ..options.clone() },
        AdapterOptions { alpha: f64::NAN, ..options.clone() },
        AdapterOptions { alpha: 0.0, ..options.clone() },
        AdapterOptions { dropout: 1.0, ..options.clone() },
        AdapterOptions { targets: Vec::new(), ..options.clone() },
    ] {
        assert!(
            matches!(Adapter::create(&config, &bad, 1), Err(Error::BadOption { .. })),
            "{bad:?}"
        );
    }
    let mut changed = new.clone();
    let part = new.part(0, Projection::Value).unwrap();
    let (a, b) = (part.a.clone(), part.b.clone());
    assert!(changed.set(&config, 0, Projection::Value, b.clone(), b.clone()).is_err());
    assert!(changed.set(&config, 0, Projection::Value, a.clone(), a.clone()).is_err());
    assert!(changed.set(&config, 0, Projection::Query, a.clone(), b.clone()).is_err());
    let ones = vec![1.0; b.len()];
    changed.set(&config, 0, Projection::Value, a, ones.clone()).unwrap();
    assert_eq!(changed.part(0, Projection::Value).unwrap().b, ones);
}

//! Models and adapters against what Hugging Face transformers and peft give for them.

mod common;

use aleatron_transformer::{LoadOptions, Logits, Precision, Segment, Transformer};
use common::{ADAPTERS, Golden, MODELS, assert_within, devices, folder, greedy, load};

#[test]
fn logits_are_those_of_hugging_face() {
    for device in devices() {
        for name in MODELS {
            let golden = Golden::read(name);
            for precision in [Precision::F32, Precision::F16, Precision::Int8] {
                let logits = load(name, device, precision).forward(&golden.tokens, None).unwrap();
                let what = format!("{name} in {precision} on {device}");
                assert_within(&logits, &golden.logits, golden.bound(precision), &what);
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
    for device in devices() {
        for (name, base) in ADAPTERS {
            let golden = Golden::read(name);
            let mut model = load(base, device, Precision::F32);
            let adapter = model.load_adapter(&folder(name)).unwrap();
            let bound = golden.bound(Precision::F32);
            let logits = model.forward(&golden.tokens, Some(adapter)).unwrap();
            assert_within(&logits, &golden.logits, bound, &format!("{name} on {device}"));
            let options = LoadOptions { device, precision: Precision::F32, merge: Some(folder(name)) };
            let mut merged = Transformer::from_pretrained(&folder(base), &options).unwrap();
            let logits = merged.forward(&golden.tokens, None).unwrap();
            assert_within(&logits, &golden.logits, bound, &format!("{name}, merged, on {device}"));
            let text = greedy(merged.pass(), &golden.tokens, golden.greedy.len());
            assert_eq!(text, golden.greedy, "{name} on {device}");
            // The model itself is as it was.
            let plain = Golden::read(base);
            let logits = model.forward(&plain.tokens, None).unwrap();
            assert_within(&logits, &plain.logits, plain.bound(Precision::F32), base);
        }
    }
}

#[test]
fn sequences_of_one_batch_use_different_adapters() {
    for device in devices() {
        let mut model = load("llama", device, Precision::F32);
        let ids = ["llama-lora", "llama-lora-qkv"].map(|name| model.load_adapter(&folder(name)).unwrap());
        let goldens = ["llama", "llama-lora", "llama-lora-qkv"].map(Golden::read);
        let pass = model.pass();
        let sequences = [None, Some(ids[0]), Some(ids[1])].map(|adapter| {
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
        for (golden, name) in goldens.iter().zip(["none", "all", "qkv"]) {
            let (own, others) = rest.split_at(golden.logits.len());
            assert_within(own, &golden.logits, golden.bound(Precision::F32), name);
            rest = others;
        }
        assert!(rest.is_empty());
    }
}

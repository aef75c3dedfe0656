//! Defaults of generation: `generation_config.json` decides, as it does for Hugging Face.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use aleatron_transformer::{DeviceChoice, Error, GenerateOptions, Precision, Sampling, Transformer};
use common::{Copy, greedy, load};
use serde_json::{Value, json};

/// Loads a golden model with a `generation_config.json` beside it.
fn with(file: &Value, test: &str) -> Result<Transformer, Error> {
    let copy = Copy::of("llama", test);
    std::fs::write(copy.0.join("generation_config.json"), file.to_string()).unwrap();
    copy.load()
}

fn generated(model: &mut Transformer, max_tokens: usize) -> Vec<u32> {
    let options = GenerateOptions { max_tokens, ..GenerateOptions::default() };
    model.generate(&[3, 4, 5], &options).unwrap().map(|token| token.unwrap()).collect()
}

#[test]
fn generation_ends_at_the_end_tokens_of_the_generation_config() {
    // Without ends, the tokens that the model chooses.
    let mut plain = load("llama", DeviceChoice::Cpu, Precision::F32);
    let tokens = greedy(plain.pass(), &[3, 4, 5], 12);
    let end = tokens[3];
    let before = tokens.iter().position(|token| *token == end).unwrap();
    for ends in [json!(end), json!([end]), json!([130, end])] {
        let mut model = with(&json!({"eos_token_id": ends}), "ends").unwrap();
        assert_eq!(generated(&mut model, 12), tokens[..=before], "{ends}");
    }
    let mut model = with(&json!({"eos_token_id": [end, tokens[0]]}), "two-ends").unwrap();
    assert_eq!(generated(&mut model, 12), tokens[..1]);
}

#[test]
fn generation_config_replaces_the_end_tokens_of_the_model_config() {
    let copy = Copy::of("llama", "replaced");
    copy.config(|config| config["eos_token_id"] = json!(7));
    let ends = |copy: &Copy| copy.load().unwrap().config().end_tokens.clone();
    assert_eq!(ends(&copy), [7]);
    let path = copy.0.join("generation_config.json");
    for (file, expected) in [
        (json!({"eos_token_id": 9}), vec![9]),
        (json!({"eos_token_id": [9, 8]}), vec![9, 8]),
        // Without the option, texts have no end, whatever the other file says.
        (json!({}), vec![]),
        (json!({"eos_token_id": null}), vec![]),
    ] {
        std::fs::write(&path, file.to_string()).unwrap();
        assert_eq!(ends(&copy), expected, "{file}");
        assert_eq!(copy.load().unwrap().generation().end_tokens, expected, "{file}");
    }
}

#[test]
fn sampling_defaults_are_those_of_hugging_face() {
    let sampling = |file: Value| with(&file, "sampling").unwrap().generation().sampling;
    let of = |temperature, top_k, top_p| Sampling { temperature, top_k, top_p, seed: 0 };
    assert_eq!(sampling(json!({})), Sampling::GREEDY);
    // Without do_sample, the other options have no effect.
    assert_eq!(sampling(json!({"temperature": 0.5, "top_k": 3, "top_p": 0.5})), Sampling::GREEDY);
    assert_eq!(sampling(json!({"do_sample": false, "temperature": 0.5})), Sampling::GREEDY);
    assert_eq!(sampling(json!({"do_sample": true})), of(1.0, 50, 1.0));
    assert_eq!(sampling(json!({"do_sample": true, "top_k": null})), of(1.0, 0, 1.0));
    let all = json!({"do_sample": true, "temperature": 0.5, "top_k": 20, "top_p": 0.75});
    assert_eq!(sampling(all), of(0.5, 20, 0.75));
    assert_eq!(load("llama", DeviceChoice::Cpu, Precision::F32).generation().sampling, Sampling::GREEDY);
}

#[test]
fn unsupported_generation_options_are_listed() {
    let file = json!({
        "_from_model_config": true, "bos_token_id": 1, "pad_token_id": 0, "max_length": 4096, "transformers_version": "4.40.0",
        "repetition_penalty": 1.05, "num_beams": 1, "no_repeat_ngram_size": 0, "early_stopping": false, "min_p": null,
        "suppress_tokens": [1, 2],
    });
    let model = with(&file, "unsupported").unwrap();
    assert_eq!(model.generation().unsupported, ["repetition_penalty: 1.05", "suppress_tokens: [1,2]"]);
    assert!(
        with(&json!({"repetition_penalty": 1.0}), "neutral").unwrap().generation().unsupported.is_empty()
    );
}

#[test]
fn invalid_generation_options_are_named() {
    for (file, named) in [
        (json!({"eos_token_id": "</s>"}), "eos_token_id"),
        (json!({"eos_token_id": [2, -1]}), "eos_token_id"),
        (json!({"eos_token_id": 4_294_967_296_u64}), "eos_token_id"),
        (json!({"do_sample": 1}), "do_sample"),
        (json!({"do_sample": true, "top_k": 4_294_967_296_u64}), "top_k"),
        (json!({"do_sample": true, "temperature": 0.0}), "temperature"),
        (json!({"do_sample": true, "top_p": 1.5}), "top_p"),
    ] {
        let error = with(&file, "invalid").unwrap_err();
        assert!(error.to_string().contains(named), "{file}: {error}");
    }
    let copy = Copy::of("llama", "broken-generation");
    std::fs::write(copy.0.join("generation_config.json"), "{").unwrap();
    assert!(
        matches!(copy.load(), Err(Error::Format { path, .. }) if path.ends_with("generation_config.json"))
    );
}

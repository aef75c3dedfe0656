//! Defaults of generation: `generation_config.json` decides, as it does for Hugging Face.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use aleatron_transformer::{
    DeviceChoice, Error, GenerateOptions, GenerationOverrides, GenerationState, Precision,
    Sampling, Transformer,
};
use common::{Copy, devices, greedy, load};
use serde_json::{Value, json};

/// Loads a golden model with a `generation_config.json`.
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
        // Without the option, texts have no end, even if the other file defines one.
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
    assert_eq!(sampling(json!({})), of(0.0, 50, 1.0));
    // Without do_sample, the temperature has no effect; the others apply to callers that choose
    // one.
    assert_eq!(sampling(json!({"temperature": 0.5, "top_k": 3, "top_p": 0.5})), of(0.0, 3, 0.5));
    assert_eq!(sampling(json!({"do_sample": false, "temperature": 0.0})), of(0.0, 50, 1.0));
    assert_eq!(sampling(json!({"do_sample": true})), of(1.0, 50, 1.0));
    assert_eq!(sampling(json!({"do_sample": true, "top_k": null})), of(1.0, 0, 1.0));
    let all = json!({"do_sample": true, "temperature": 0.5, "top_k": 20, "top_p": 0.75});
    assert_eq!(sampling(all), of(0.5, 20, 0.75));
    assert_eq!(
        load("llama", DeviceChoice::Cpu, Precision::F32).generation().sampling,
        of(0.0, 50, 1.0)
    );
}

#[test]
fn options_of_a_call_are_the_models_unless_given() {
    let file = json!({
        "do_sample": true, "temperature": 0.5, "top_k": 20, "top_p": 0.75, "repetition_penalty": 1.25
    });
    let model = with(&file, "options").unwrap();
    let sampling = Sampling { temperature: 0.5, top_k: 20, top_p: 0.75, seed: 9 };
    let defaults =
        GenerateOptions { sampling, repetition_penalty: 1.25, ..GenerateOptions::default() };
    let options = |given| model.generation().options(&given, 9);
    let none = GenerationOverrides::default();
    assert_eq!(options(none), defaults);
    let given = |sampling| GenerateOptions { sampling, ..defaults };
    let temperature = GenerationOverrides { temperature: Some(2.0), ..none };
    assert_eq!(options(temperature), given(Sampling { temperature: 2.0, ..sampling }));
    let top_k = GenerationOverrides { top_k: Some(0), ..none };
    assert_eq!(options(top_k), given(Sampling { top_k: 0, ..sampling }));
    let top_p = GenerationOverrides { top_p: Some(1.0), ..none };
    assert_eq!(options(top_p), given(Sampling { top_p: 1.0, ..sampling }));
    let penalty = GenerationOverrides { repetition_penalty: Some(1.0), ..none };
    assert_eq!(options(penalty), GenerateOptions { repetition_penalty: 1.0, ..defaults });
}

/// Chooses the largest logit after dividing positive logits of earlier tokens by the penalty and
/// multiplying negative ones.
fn penalized(model: &mut Transformer, prompt: &[u32], penalty: f32, n: usize) -> Vec<u32> {
    let mut text = prompt.to_vec();
    for _ in 0..n {
        let logits = model.forward(&text, None).unwrap();
        let mut last = logits[(text.len() - 1) * 131..].to_vec();
        let mut earlier = text.clone();
        earlier.sort_unstable();
        earlier.dedup();
        for token in earlier {
            let logit = &mut last[token as usize];
            *logit = if *logit > 0.0 { *logit / penalty } else { *logit * penalty };
        }
        let largest = last.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        text.push(last.iter().position(|logit| *logit == largest).unwrap() as u32);
    }
    text.split_off(prompt.len())
}

#[test]
fn repetition_penalty_matches_its_definition_on_every_device() {
    for device in devices() {
        let mut model = load("llama", device, Precision::F32);
        let mut texts = Vec::new();
        for penalty in [1.0, 1.3, 0.7] {
            let expected = penalized(&mut model, &[3, 4, 5], penalty, 8);
            let end = expected.iter().position(|token| *token == 2).map_or(8, |end| end + 1);
            let options = GenerateOptions {
                max_tokens: 8,
                repetition_penalty: penalty,
                ..GenerateOptions::default()
            };
            let tokens: Vec<u32> =
                model.generate(&[3, 4, 5], &options).unwrap().map(|token| token.unwrap()).collect();
            assert_eq!(tokens, expected[..end], "{device} {penalty}");
            texts.push(tokens);
        }
        // The plain text repeats no token, so that only a penalty that favours repetition changes
        // it.
        assert_ne!(texts[0], texts[2], "{device}");
    }
}

#[test]
fn repetition_penalty_counts_each_text_of_a_batch_for_itself() {
    let mut model = load("llama", DeviceChoice::Cpu, Precision::F32);
    let options =
        GenerateOptions { max_tokens: 12, repetition_penalty: 1.5, ..GenerateOptions::default() };
    let prompts: [&[u32]; 2] = [&[3, 4, 5], &[9, 8, 7, 6, 100]];
    let mut alone = prompts.map(|prompt| {
        model.generate(prompt, &options).unwrap().map(|token| token.unwrap()).collect::<Vec<_>>()
    });
    let mut state = GenerationState::start(&mut model, &prompts, &options).unwrap();
    let mut together = [Vec::new(), Vec::new()];
    while let Some(tokens) = state.next(&mut model).unwrap() {
        for (text, token) in together.iter_mut().zip(tokens) {
            text.extend(token);
        }
    }
    assert_eq!(together, alone);
    alone.swap(0, 1);
    assert_ne!(together, alone);
}

#[test]
fn unsupported_generation_options_are_listed() {
    let file = json!({
        "_from_model_config": true, "bos_token_id": 1, "pad_token_id": 0, "max_length": 4096, "transformers_version": "4.40.0",
        "min_length": 5, "num_beams": 1, "repetition_penalty": 1.05, "no_repeat_ngram_size": 0, "early_stopping": false, "min_p": null,
        "suppress_tokens": [1, 2],
    });
    let model = with(&file, "unsupported").unwrap();
    assert_eq!(model.generation().unsupported, ["min_length: 5", "suppress_tokens: [1,2]"]);
    assert_eq!(model.generation().repetition_penalty, 1.05);
    assert!(
        with(&json!({"min_length": 0}), "neutral").unwrap().generation().unsupported.is_empty()
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
        (json!({"top_p": 0.0}), "top_p"),
        (json!({"repetition_penalty": 0.0}), "repetition_penalty"),
        (json!({"repetition_penalty": 1e300}), "repetition_penalty"),
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

//! Sliding windows of attention: against full attention, against f64 within a derived bound, and as
//! files describe them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use aleatron_transformer::config::SlidingWindow;
use aleatron_transformer::weights::Loader;
use aleatron_transformer::weights::random::{RandomTensors, sized};
use aleatron_transformer::{
    Config, DeviceChoice, Error, LoadOptions, Logits, Precision, Sampling, Segment, Transformer,
};
use common::reference::Reference;
use common::{Copy, devices, rounding};
use serde_json::{Value, json};

const SEED: u64 = 9;
const VOCABULARY: usize = 24;

/// Returns a small model of two layers with a window in those from `first_layer` on.
fn config(positions: usize, first_layer: usize) -> Config {
    Config {
        layers: 2,
        heads: 8,
        kv_heads: 2,
        head_dim: 8,
        hidden: 32,
        inner: 40,
        vocabulary: VOCABULARY,
        max_positions: 600,
        sliding_window: Some(SlidingWindow { positions, first_layer }),
        ..sized("tiny").unwrap()
    }
}

fn model(config: &Config, device: DeviceChoice, precision: Precision) -> Transformer {
    let options = LoadOptions { device, precision, ..LoadOptions::default() };
    Transformer::random(config, SEED, &options).unwrap()
}

fn text(len: usize) -> Vec<u32> {
    (0..len).map(|i| ((i * i * 7 + i * 3 + 1) % VOCABULARY) as u32).collect()
}

/// Windows of one position, of less than a block, around a block, and of several parts.
const WINDOWS: [usize; 6] = [1, 5, 127, 128, 129, 200];

#[test]
fn window_matches_masked_reference_on_every_device() {
    for device in devices() {
        for positions in WINDOWS {
            for first_layer in [0, 1] {
                let config = config(positions, first_layer);
                let precision = Precision::F32;
                let loader = Loader {
                    config: &config,
                    source: &RandomTensors { seed: SEED },
                    precision,
                    merged: None,
                };
                let reference = Reference::new(&loader, None);
                let tokens = text(300);
                let trace = reference.read(&tokens, rounding(device, precision, 300));
                let mut model = model(&config, device, precision);
                let logits = model.forward(&tokens, None).unwrap();
                for row in [0, positions - 1, positions, positions + 1, 299] {
                    let what =
                        format!("{device}, window {positions} from layer {first_layer}, prompt");
                    let logits = &logits[row * VOCABULARY..][..VOCABULARY];
                    trace.assert_row(row, logits, (row % 7..VOCABULARY).step_by(7), &what);
                }
                // One token after a context that is longer than the window.
                let pass = model.pass();
                let sequence = pass.open().unwrap();
                pass.forward(&[Segment { sequence, tokens: &tokens[..299] }], Logits::Last)
                    .unwrap();
                let logits = pass
                    .forward(&[Segment { sequence, tokens: &tokens[299..] }], Logits::Last)
                    .unwrap();
                let what = format!("{device}, window {positions} from layer {first_layer}, step");
                trace.assert_row(299, &logits, (0..VOCABULARY).step_by(5), &what);
            }
        }
    }
}

#[test]
fn positions_inside_the_window_equal_full_attention_and_later_ones_differ() {
    for positions in WINDOWS {
        let windowed = config(positions, 0);
        let full = Config { sliding_window: None, ..windowed.clone() };
        let tokens = text(300);
        let logits = [&windowed, &full].map(|config| {
            model(config, DeviceChoice::Cpu, Precision::F32).forward(&tokens, None).unwrap()
        });
        for (row, [windowed, full]) in logits[0]
            .chunks_exact(VOCABULARY)
            .zip(logits[1].chunks_exact(VOCABULARY))
            .map(<[&[f32]; 2]>::from)
            .enumerate()
        {
            assert_eq!(windowed == full, row < positions, "row {row}, window {positions}");
        }
    }
}

#[test]
fn window_of_later_layers_leaves_earlier_layers_full() {
    let tokens = text(40);
    let logits = [0, 1, 2].map(|first_layer| {
        model(&config(5, first_layer), DeviceChoice::Cpu, Precision::F32)
            .forward(&tokens, None)
            .unwrap()
    });
    let full = Config { sliding_window: None, ..config(5, 0) };
    let full = model(&full, DeviceChoice::Cpu, Precision::F32).forward(&tokens, None).unwrap();
    assert!(logits[0] != logits[1] && logits[1] != full);
    assert_eq!(logits[2], full);
}

/// Steps record their kernels once; those of a window must serve all later positions.
#[test]
fn steps_past_the_window_match_a_prompt_of_the_same_tokens() {
    for device in devices() {
        let config = config(20, 0);
        let mut model = model(&config, device, Precision::F32);
        let loader = Loader {
            config: &config,
            source: &RandomTensors { seed: SEED },
            precision: Precision::F32,
            merged: None,
        };
        let pass = model.pass();
        let mut tokens = text(10);
        let sequence = pass.open().unwrap();
        tokens.extend(
            pass.prefill(&[Segment { sequence, tokens: &tokens }], &Sampling::GREEDY).unwrap(),
        );
        while tokens.len() < 160 {
            pass.submit_step().unwrap();
            tokens.extend(pass.take_step().unwrap());
        }
        let reference = Reference::new(&loader, None);
        let trace = reference.read(&tokens, rounding(device, Precision::F32, 512));
        for row in [9, 19, 20, 21, 100, 158] {
            let logit = |token: usize| trace.logit(row, token);
            let best = (0..VOCABULARY).max_by(|&a, &b| logit(a).total_cmp(&logit(b))).unwrap();
            let token = tokens[row + 1] as usize;
            // Another token only if the two are too close to call.
            let apart = logit(best) - logit(token);
            assert!(
                token == best || apart <= trace.bound(row, best) + trace.bound(row, token),
                "{device}: token {token} after row {row}, {apart} below {best}"
            );
        }
    }
}

/// Reads the configuration of a golden model as another family, with options changed; null removes
/// none of them.
fn read(model_type: &str, changes: &[(&str, Option<Value>)], test: &str) -> Result<Config, Error> {
    let golden = if model_type == "qwen2" { "qwen2" } else { "llama" };
    let copy = Copy::of(golden, test);
    copy.config(|config| {
        let map = config.as_object_mut().unwrap();
        map.insert("model_type".to_owned(), json!(model_type));
        for (option, value) in changes {
            match value {
                Some(value) => drop(map.insert((*option).to_owned(), value.clone())),
                None => drop(map.remove(*option)),
            }
        }
    });
    Config::read(&copy.0.join("config.json"))
}

#[test]
fn mistral_window_follows_the_defaults_of_hugging_face() {
    let window = |positions| Some(SlidingWindow { positions, first_layer: 0 });
    for (given, expected) in
        [(None, window(4096)), (Some(json!(null)), None), (Some(json!(7)), window(7))]
    {
        let config =
            read("mistral", &[("sliding_window", given.clone())], "mistral-window").unwrap();
        assert_eq!(config.sliding_window, expected, "{given:?}");
        assert_eq!([config.window(0), config.window(1)], [expected.map(|w| w.positions); 2]);
    }
    let zero = read("mistral", &[("sliding_window", Some(json!(0)))], "mistral-zero");
    assert!(
        matches!(&zero, Err(Error::BadOption { option, .. }) if option == "sliding window"),
        "{zero:?}"
    );
    let full = Some(json!(["full_attention", "full_attention"]));
    let changes = [("layer_types", full), ("sliding_window", Some(json!(7)))];
    let listed = read("mistral", &changes, "mistral-types");
    assert!(
        matches!(&listed, Err(Error::BadOption { option, .. }) if option == "layer_types"),
        "{listed:?}"
    );
    let biased = read("mistral", &[("attention_bias", Some(json!(true)))], "mistral-bias");
    assert!(
        matches!(&biased, Err(Error::UnknownOption { option, .. }) if option == "attention_bias")
    );
}

#[test]
fn qwen2_window_is_used_only_if_the_file_says_so() {
    let types = |kinds: [&str; 2]| Some(json!(kinds));
    let cases = [
        // Without use_sliding_window, a size has no effect.
        (vec![("sliding_window", Some(json!(7))), ("use_sliding_window", None)], None),
        (vec![("sliding_window", Some(json!(7)))], None),
        (vec![("use_sliding_window", Some(json!(true)))], None),
        (
            vec![("use_sliding_window", Some(json!(true))), ("sliding_window", None)],
            Some(SlidingWindow { positions: 4096, first_layer: 28 }),
        ),
        (
            vec![
                ("use_sliding_window", Some(json!(true))),
                ("sliding_window", Some(json!(7))),
                ("max_window_layers", Some(json!(1))),
            ],
            Some(SlidingWindow { positions: 7, first_layer: 1 }),
        ),
        (
            vec![
                ("use_sliding_window", Some(json!(true))),
                ("sliding_window", Some(json!(7))),
                ("layer_types", types(["full_attention", "sliding_attention"])),
            ],
            Some(SlidingWindow { positions: 7, first_layer: 1 }),
        ),
    ];
    for (changes, expected) in cases {
        let mut all = vec![("layer_types", None), ("max_window_layers", None)];
        all.extend(changes.clone());
        let config = read("qwen2", &all, "qwen2-window").unwrap();
        assert_eq!(config.sliding_window, expected, "{changes:?}");
    }
    // A list that contradicts the other options, or that is not understood.
    for kinds in [["full_attention", "sliding_attention"], ["chunked_attention", "full_attention"]]
    {
        let error = read("qwen2", &[("layer_types", types(kinds))], "qwen2-types").unwrap_err();
        assert!(error.to_string().contains("layer_types"), "{error}");
    }
    let error = read("qwen2", &[("layer_types", Some(json!(["full_attention"])))], "qwen2-short");
    assert!(matches!(&error, Err(Error::UnknownOption { option, .. }) if option == "layer_types"));
}

#[test]
fn missing_options_have_the_defaults_of_their_family() {
    let removed =
        [("num_key_value_heads", None), ("max_position_embeddings", None), ("eos_token_id", None)];
    let of = |family: &str, heads: usize| {
        let mut changes = removed.to_vec();
        changes.push(("num_attention_heads", Some(json!(heads))));
        changes.push(("hidden_size", Some(json!(heads * 4))));
        let config = read(family, &changes, &format!("defaults-{family}")).unwrap();
        (config.kv_heads, config.max_positions, config.end_tokens)
    };
    assert_eq!(of("llama", 16), (16, 2048, vec![2]));
    assert_eq!(of("mistral", 16), (8, 131_072, vec![2]));
    assert_eq!(of("qwen2", 32), (32, 32_768, vec![]));
    // Null means as many as heads of queries, and no end.
    let null = [("num_key_value_heads", Some(json!(null))), ("eos_token_id", Some(json!(null)))];
    let config = read("mistral", &null, "defaults-null").unwrap();
    assert_eq!((config.kv_heads, config.end_tokens), (config.heads, vec![]));
}

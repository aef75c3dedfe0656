//! Prompts, steps, caches and batches: however a text is read, its logits are the same.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use aleatron_transformer::weights::Loader;
use aleatron_transformer::{
    DeviceChoice, Error, GenerateOptions, LinearId, LinearProduct, LinearProducts, Logits,
    Precision, ProductOutcome, Sampling, Segment, TokenPosition,
};
use common::reference::Reference;
use common::{Golden, MODELS, devices, files, greedy, load, rounding};
use std::sync::{Arc, Mutex};

/// Compares two computations of one model on one device: equal bits on the CPU, which sums in one
/// order, otherwise each within its bound of f64.
#[track_caller]
fn assert_same(name: &str, device: DeviceChoice, tokens: &[u32], ways: [&[f32]; 2]) {
    if device == DeviceChoice::Cpu {
        assert_eq!(ways[0], ways[1], "{name}");
    }
    assert_within(name, device, tokens, ways);
}

/// Compares two computations of one model on one device, each within its bound of f64.
#[track_caller]
fn assert_within(name: &str, device: DeviceChoice, tokens: &[u32], ways: [&[f32]; 2]) {
    let (config, files) = files(name);
    let loader =
        Loader { config: &config, source: &files, precision: Precision::F32, merged: None };
    let reference = Reference::new(&loader, None);
    let trace = reference.read(tokens, rounding(device, Precision::F32, tokens.len()));
    for logits in ways {
        assert_eq!(logits.len(), tokens.len() * config.vocabulary);
        for row in [0, 1, tokens.len() / 2, tokens.len() - 2, tokens.len() - 1] {
            let logits = &logits[row * config.vocabulary..][..config.vocabulary];
            trace.assert_row(
                row,
                logits,
                (row % 40..logits.len()).step_by(40),
                &format!("{name} on {device}"),
            );
        }
    }
}

#[test]
fn a_prompt_equals_its_tokens_one_by_one() {
    for device in devices() {
        for name in MODELS {
            let golden = Golden::read(name);
            let mut model = load(name, device, Precision::F32);
            let whole = model.forward(&golden.tokens, None).unwrap();
            let pass = model.pass();
            let sequence = pass.open().unwrap();
            let mut single = Vec::new();
            for token in &golden.tokens {
                let tokens = std::slice::from_ref(token);
                single.extend(pass.forward(&[Segment { sequence, tokens }], Logits::Last).unwrap());
            }
            assert_eq!(pass.len(sequence).unwrap(), golden.tokens.len());
            assert_same(name, device, &golden.tokens, [&single, &whole]);
        }
    }
}

#[test]
fn truncated_cache_continues_like_a_fresh_one() {
    for device in devices() {
        let golden = Golden::read("llama");
        let mut model = load("llama", device, Precision::F32);
        let pass = model.pass();
        let sequence = pass.open().unwrap();
        let other: Vec<u32> = golden.tokens.iter().map(|token| (token + 40) % 131).collect();
        pass.forward(&[Segment { sequence, tokens: &golden.tokens }], Logits::Last).unwrap();
        pass.forward(&[Segment { sequence, tokens: &other }], Logits::Last).unwrap();
        assert!(matches!(
            pass.truncate(sequence, 23),
            Err(Error::Truncation { len: 22, keep: 23, .. })
        ));
        pass.truncate(sequence, 4).unwrap();
        let copy = pass.fork(sequence).unwrap();
        let again = pass
            .forward(&[Segment { sequence, tokens: &golden.tokens[4..] }], Logits::All)
            .unwrap();
        // The copy is unharmed by what its original went on to.
        let copied = pass
            .forward(&[Segment { sequence: copy, tokens: &golden.tokens[4..] }], Logits::All)
            .unwrap();
        assert_eq!(copied, again);
        pass.truncate(sequence, 0).unwrap();
        let fresh =
            pass.forward(&[Segment { sequence, tokens: &golden.tokens }], Logits::All).unwrap();
        // The rows that were kept are those of the fresh text.
        let kept = [&fresh[..4 * 131], &again].concat();
        assert_same("llama", device, &golden.tokens, [&fresh, &kept]);
        pass.close(copy);
        assert!(matches!(pass.len(copy), Err(Error::NoSequence { .. })));
    }
}

#[test]
fn a_cache_grows_without_losing_what_it_holds() {
    for device in devices() {
        let mut model = load("llama", device, Precision::F32);
        let tokens: Vec<u32> = (0..256).map(|i| 3 + i * 7 % 120).collect();
        // Past the first step of growth in one, and in two.
        let whole = model.forward(&tokens, None).unwrap();
        let pass = model.pass();
        let (first, sequence) = (pass.open().unwrap(), pass.open().unwrap());
        let mut parts =
            pass.forward(&[Segment { sequence, tokens: &tokens[..100] }], Logits::All).unwrap();
        let more: Vec<_> = (0..20).map(|_| pass.open().unwrap()).collect();
        parts.extend(
            pass.forward(&[Segment { sequence, tokens: &tokens[100..] }], Logits::All).unwrap(),
        );
        assert_same("llama", device, &tokens, [&parts, &whole]);
        let late = Segment { sequence, tokens: &[3] };
        assert!(matches!(
            pass.forward(&[late], Logits::Last),
            Err(Error::TooLong { positions: 257, limit: 256 })
        ));
        more.into_iter().chain([first]).for_each(|sequence| pass.close(sequence));
    }
}

#[test]
fn a_batch_of_different_lengths_equals_its_sequences_alone() {
    for device in devices() {
        for name in ["llama", "gpt2", "llama-yarn"] {
            let golden = Golden::read(name);
            let mut model = load(name, device, Precision::F32);
            let prompts: Vec<&[u32]> = (1..=11).map(|len| &golden.tokens[..len]).collect();
            let alone: Vec<Vec<u32>> =
                prompts.iter().map(|prompt| greedy(model.pass(), prompt, 12)).collect();
            let pass = model.pass();
            let segments: Vec<_> = prompts
                .iter()
                .map(|&tokens| Segment { sequence: pass.open().unwrap(), tokens })
                .collect();
            let mut steps = vec![pass.prefill(&segments, &Sampling::GREEDY).unwrap()];
            for _ in 1..12 {
                pass.submit_step().unwrap();
                steps.push(pass.take_step().unwrap());
            }
            for (i, alone) in alone.iter().enumerate() {
                let own: Vec<u32> = steps.iter().map(|step| step[i]).collect();
                assert_eq!(&own, alone, "prompt {i} of {name} on {device}");
            }
        }
    }
}

#[test]
fn sampling_repeats_with_its_seed_and_keeps_to_its_options() {
    for device in devices() {
        let golden = Golden::read("llama");
        let mut model = load("llama", device, Precision::F32);
        let mut sample = |sampling: Sampling| -> Vec<u32> {
            let options =
                GenerateOptions { max_tokens: 24, sampling, ..GenerateOptions::default() };
            model.generate(&golden.tokens, &options).unwrap().map(|token| token.unwrap()).collect()
        };
        let free = Sampling { temperature: 3.0, top_k: 0, top_p: 1.0, seed: 7 };
        let text = sample(free);
        assert_eq!(sample(free), text, "{device}");
        assert_ne!(sample(Sampling { seed: 8, ..free }), text, "{device}");
        let greedy = sample(Sampling::GREEDY);
        assert_eq!(sample(Sampling { top_k: 1, ..free }), greedy, "{device}");
        assert_eq!(sample(Sampling { top_p: 1e-6, ..free }), greedy, "{device}");
    }
}

#[test]
fn alternating_generations_equal_separate_ones() {
    for device in devices() {
        let golden = Golden::read("qwen2");
        let mut model = load("qwen2", device, Precision::F32);
        let options = GenerateOptions { max_tokens: 10, ..GenerateOptions::default() };
        let alone: Vec<Vec<u32>> = [7, 11]
            .map(|len| {
                model
                    .generate(&golden.tokens[..len], &options)
                    .unwrap()
                    .map(|t| t.unwrap())
                    .collect()
            })
            .into();
        let mut states = [7, 11].map(|len| {
            aleatron_transformer::GenerationState::start(
                &mut model,
                &[&golden.tokens[..len]],
                &options,
            )
            .unwrap()
        });
        let mut texts = [Vec::new(), Vec::new()];
        for _ in 0..11 {
            for (state, text) in states.iter_mut().zip(&mut texts) {
                if let Some(step) = state.next(&mut model).unwrap() {
                    text.extend(step[0]);
                }
            }
        }
        assert_eq!(texts.to_vec(), alone, "{device}");
    }
}

/// Computes every product in f64, declines those of one layer, and records the positions.
#[derive(Debug)]
struct Executor {
    weights: Vec<(LinearId, Vec<f32>)>,
    seen: Mutex<Vec<(LinearId, Vec<TokenPosition>)>>,
}

impl LinearProducts for Executor {
    fn product(
        &self,
        product: &LinearProduct<'_>,
        outputs: &mut [f32],
    ) -> aleatron_transformer::Result<ProductOutcome> {
        self.seen.lock().unwrap().push((product.linear, product.positions.to_vec()));
        if let LinearId::Layer { layer: 1, .. } = product.linear {
            outputs.fill(f32::NAN);
            return Ok(ProductOutcome::Declined);
        }
        let (_, weights) =
            self.weights.iter().find(|(linear, _)| *linear == product.linear).unwrap();
        let n = product.inputs.len() / product.positions.len();
        let m = outputs.len() / product.positions.len();
        for (k, out) in outputs.iter_mut().enumerate() {
            let (x, w) = (&product.inputs[k / m * n..][..n], &weights[k % m * n..][..n]);
            *out = x.iter().zip(w).map(|(x, w)| f64::from(*x) * f64::from(*w)).sum::<f64>() as f32;
        }
        Ok(ProductOutcome::Computed)
    }
}

#[test]
fn linear_products_outside_of_the_pass_give_its_logits() {
    for name in MODELS {
        let golden = Golden::read(name);
        let mut model = load(name, DeviceChoice::Cpu, Precision::F32);
        let float = model.forward(&golden.tokens, None).unwrap();
        let all = LinearId::all(model.config());
        let pass = model.pass();
        let weights =
            all.iter().map(|&linear| (linear, pass.linear_weights(linear).unwrap())).collect();
        let executor = Arc::new(Executor { weights, seen: Mutex::default() });
        pass.set_linear_products(Some(Arc::clone(&executor) as _)).unwrap();
        let sequence = pass.open().unwrap();
        pass.set_sequence_number(sequence, 9).unwrap();
        let (head, tail) = golden.tokens.split_at(4);
        let mut logits = pass.forward(&[Segment { sequence, tokens: head }], Logits::All).unwrap();
        logits.extend(pass.forward(&[Segment { sequence, tokens: tail }], Logits::All).unwrap());
        assert_within(name, DeviceChoice::Cpu, &golden.tokens, [&logits, &float]);
        let seen = executor.seen.lock().unwrap().clone();
        let at = |position| TokenPosition { sequence: 9, position };
        for (k, (linear, positions)) in seen.iter().enumerate() {
            assert_eq!(*linear, all[k % all.len()], "{name}");
            let expected = if k < all.len() { 0..4 } else { 4..golden.tokens.len() };
            assert_eq!(*positions, expected.map(at).collect::<Vec<_>>(), "{name}");
        }
        assert_eq!(seen.len(), 2 * all.len());
        pass.set_linear_products(None).unwrap();
        assert_eq!(model.forward(&golden.tokens, None).unwrap(), float);
    }
}

#[test]
fn linear_products_have_names_shapes_and_errors() {
    let mut model = load("gpt2", DeviceChoice::Cpu, Precision::Int8);
    let config = model.config().clone();
    let names: Vec<String> = LinearId::all(&config).iter().map(ToString::to_string).collect();
    assert_eq!(
        names[..5],
        ["layers.0.qkv", "layers.0.output", "layers.0.up", "layers.0.down", "layers.1.qkv"]
    );
    assert_eq!((names.len(), names[8].as_str()), (9, "head"));
    for (index, linear) in LinearId::all(&config).into_iter().enumerate() {
        assert_eq!(linear.index(&config), index);
        let weights = model.pass().linear_weights(linear).unwrap();
        assert_eq!(weights.len(), linear.shape(&config).iter().product::<usize>());
    }
    let unknown = LinearId::Layer { layer: 2, slot: aleatron_transformer::weights::Slot::Up };
    let error = model.pass().linear_weights(unknown).unwrap_err().to_string();
    assert!(error.contains("layers.2.up") && error.contains("2 layers"), "{error}");
    #[cfg(feature = "gpu")]
    {
        let mut model = load("gpt2", common::gpu(), Precision::F32);
        let error = model.pass().set_linear_products(None).unwrap_err();
        assert!(matches!(error, Error::NoLinearProducts { .. }), "{error}");
        assert!(error.to_string().contains("device cpu"), "{error}");
    }
}

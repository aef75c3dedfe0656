//! Attention over long contexts, which GPUs cut into parts: against f64, within the bound that
//! `common/reference.rs` derives.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use aleatron_transformer::weights::Loader;
use aleatron_transformer::weights::random::{RandomTensors, sized};
use aleatron_transformer::{
    Config, DeviceChoice, LoadOptions, Logits, Precision, Sampling, Segment, Transformer,
};
use common::reference::Reference;
use common::{devices, rounding};

const SEED: u64 = 5;
const VOCABULARY: usize = 24;

/// Contexts around the limit of a single workgroup, the limits at which parts double, and the
/// initial capacity of a cache.
const CONTEXTS: [usize; 7] = [128, 129, 255, 256, 257, 300, 513];

/// Returns a small model: layers, heads, heads of keys, the width of a head.
fn config([layers, heads, kv_heads, head_dim]: [usize; 4]) -> Config {
    Config {
        layers,
        heads,
        kv_heads,
        head_dim,
        hidden: 32,
        inner: 40,
        vocabulary: VOCABULARY,
        max_positions: 600,
        ..sized("tiny").unwrap()
    }
}

/// Heads that share keys or not, in one workgroup or two, and widths that are not multiples of four.
const SHAPES: [[usize; 4]; 4] = [[1, 4, 4, 8], [1, 8, 2, 8], [1, 6, 1, 10], [1, 16, 1, 4]];

fn text(len: usize, start: usize) -> Vec<u32> {
    (0..len).map(|i| ((start + i * i * 7 + i * 3) % VOCABULARY) as u32).collect()
}

struct Pair {
    model: Transformer,
    reference: Reference,
    device: DeviceChoice,
    precision: Precision,
}

impl Pair {
    fn new(config: &Config, device: DeviceChoice, precision: Precision) -> Self {
        let options = LoadOptions { device, precision, ..LoadOptions::default() };
        let model = Transformer::random(config, SEED, &options).unwrap();
        let loader =
            Loader { config, source: &RandomTensors { seed: SEED }, precision, merged: None };
        Self { model, reference: Reference::new(&loader, None), device, precision }
    }
}

fn pairs(shapes: &[[usize; 4]]) -> Vec<Pair> {
    let mut all = Vec::new();
    for &shape in shapes {
        for device in devices() {
            // The CPU's cache is the same for all precisions.
            let precisions: &[Precision] = match device {
                DeviceChoice::Cpu => &[Precision::F32],
                _ => &[Precision::F32, Precision::F16],
            };
            all.extend(
                precisions.iter().map(|&precision| Pair::new(&config(shape), device, precision)),
            );
        }
    }
    all
}

#[test]
fn one_token_after_a_long_context_matches_reference() {
    for Pair { mut model, reference, device, precision } in pairs(&SHAPES) {
        let tokens = text(513, 1);
        let trace = reference.read(&tokens, rounding(device, precision, 512));
        let pass = model.pass();
        let sequence = pass.open().unwrap();
        let mut done = 0;
        for context in CONTEXTS {
            let (before, last) = (&tokens[done..context - 1], &tokens[context - 1..context]);
            if !before.is_empty() {
                pass.forward(&[Segment { sequence, tokens: before }], Logits::Last).unwrap();
            }
            let logits = pass.forward(&[Segment { sequence, tokens: last }], Logits::Last).unwrap();
            let what = format!("{precision} on {device}, context {context}");
            trace.assert_row(context - 1, &logits, 0..VOCABULARY, &what);
            done = context;
        }
    }
}

#[test]
fn prompts_of_long_contexts_match_reference() {
    for Pair { mut model, reference, device, precision } in pairs(&SHAPES[1..3]) {
        for context in CONTEXTS {
            let tokens = text(context, 2);
            let trace = reference.read(&tokens, rounding(device, precision, context));
            let pass = model.pass();
            let sequence = pass.open().unwrap();
            // The whole prompt, then its last rows, few enough that several workgroups share their
            // positions.
            for first in [0, context - 20, context - 3] {
                pass.truncate(sequence, first).unwrap();
                let rest = Segment { sequence, tokens: &tokens[first..] };
                let logits = pass.forward(&[rest], Logits::All).unwrap();
                let what = format!("{precision} on {device}, {context} tokens from {first} on");
                for row in [first, first + 1, 127, 128, context - 1] {
                    if (first..context).contains(&row) {
                        let logits = &logits[(row - first) * VOCABULARY..][..VOCABULARY];
                        trace.assert_row(row, logits, (row % 7..VOCABULARY).step_by(7), &what);
                    }
                }
            }
            pass.close(sequence);
        }
    }
}

#[test]
fn batches_of_different_contexts_match_reference() {
    for Pair { mut model, reference, device, precision } in pairs(&SHAPES[1..3]) {
        let lengths = [513, 3, 257, 128, 300, 1, 256];
        let texts: Vec<Vec<u32>> = lengths.iter().map(|&len| text(len + 1, len)).collect();
        let pass = model.pass();
        let sequences: Vec<_> = lengths.iter().map(|_| pass.open().unwrap()).collect();
        let segments = |range: fn(usize) -> std::ops::Range<usize>| -> Vec<Segment<'_>> {
            let texts = sequences.iter().zip(&texts);
            texts
                .map(|(&sequence, text)| Segment { sequence, tokens: &text[range(text.len())] })
                .collect()
        };
        pass.forward(&segments(|len| 0..len - 1), Logits::Last).unwrap();
        let logits = pass.forward(&segments(|len| len - 1..len), Logits::Last).unwrap();
        for (tokens, logits) in texts.iter().zip(logits.chunks_exact(VOCABULARY)) {
            let trace = reference.read(tokens, rounding(device, precision, 512));
            let what = format!("{precision} on {device}, context {}", tokens.len());
            trace.assert_row(tokens.len() - 1, logits, (0..VOCABULARY).step_by(3), &what);
        }
    }
}

/// Steps keep their commands from one to the next; a context that outgrows them must not be cut.
#[test]
fn steps_past_the_capacity_of_the_cache_match_reference() {
    for Pair { mut model, reference, device, precision } in pairs(&[[2, 8, 2, 8]]) {
        let (prompts, steps) = ([text(252, 3), text(9, 4)], 10);
        let pass = model.pass();
        let segments =
            prompts.each_ref().map(|tokens| Segment { sequence: pass.open().unwrap(), tokens });
        let mut chosen = vec![pass.prefill(&segments, &Sampling::GREEDY).unwrap()];
        while chosen.len() < steps {
            pass.submit_step().unwrap();
            chosen.push(pass.take_step().unwrap());
        }
        for (i, prompt) in prompts.iter().enumerate() {
            let own = chosen.iter().map(|step| step[i]);
            let tokens: Vec<u32> = prompt.iter().copied().chain(own).collect();
            let trace = reference.read(&tokens, rounding(device, precision, 512));
            for row in [prompt.len() - 1, prompt.len() + 3, tokens.len() - 2] {
                let logit = |token: &usize| trace.logit(row, *token);
                let best = (0..VOCABULARY).max_by(|a, b| logit(a).total_cmp(&logit(b))).unwrap();
                let token = tokens[row + 1] as usize;
                // Another token is allowed only if both logits are within their bounds.
                let apart = logit(&best) - logit(&token);
                assert!(
                    token == best || apart <= trace.bound(row, best) + trace.bound(row, token),
                    "{precision} on {device}: token {token} after {row}, {apart} below {best}"
                );
            }
        }
    }
}

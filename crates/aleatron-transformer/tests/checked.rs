//! Kernels are compiled without run-time checks where their indices are known to be inside. With
//! the checks they must give the same bits: a check that changes a result has caught an index out
//! of bounds.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg(feature = "gpu")]

mod common;

use aleatron_device::{Checks, ContextOptions, GpuContext};
use aleatron_transformer::config::Config;
use aleatron_transformer::weights::random::{RandomTensors, sized};
use aleatron_transformer::weights::{Loader, TensorSource};
use aleatron_transformer::{
    Adapter, ForwardPass, Logits, Precision, Sampling, Segment, SequenceId, WgslForwardPass,
};
use common::{adapter, files, folder};
use std::sync::{Arc, OnceLock};

const PRECISIONS: [Precision; 3] = [Precision::F32, Precision::F16, Precision::Int8];

/// Returns a device with kernels as declared, and one with all of them checked.
fn contexts() -> &'static [Arc<GpuContext>; 2] {
    static CONTEXTS: OnceLock<[Arc<GpuContext>; 2]> = OnceLock::new();
    CONTEXTS.get_or_init(|| {
        [Checks::AsDeclared, Checks::Always].map(|checks| {
            let options = ContextOptions { checks, ..ContextOptions::default() };
            let context = GpuContext::open(&adapter(), &options).unwrap();
            assert_eq!(context.checks(), checks);
            context
        })
    })
}

/// Returns a model on each of them.
fn both(config: &Config, source: &dyn TensorSource, precision: Precision) -> [WgslForwardPass; 2] {
    let loader = Loader { config, source, precision, merged: None };
    contexts().each_ref().map(|context| WgslForwardPass::new(context, &loader).unwrap())
}

/// Logits as bits.
fn logits(pass: &mut dyn ForwardPass, sequence: SequenceId, tokens: &[u32]) -> Vec<u32> {
    let all = pass.forward(&[Segment { sequence, tokens }], Logits::All).unwrap();
    all.into_iter().map(f32::to_bits).collect()
}

#[test]
fn products_of_any_number_of_rows_and_long_contexts() {
    let config = Config {
        layers: 1,
        hidden: 34,
        heads: 6,
        kv_heads: 2,
        head_dim: 10,
        inner: 21,
        vocabulary: 29,
        ..sized("tiny").unwrap()
    };
    for precision in PRECISIONS {
        let results = both(&config, &RandomTensors { seed: 3 }, precision).map(|mut pass| {
            let sequence = pass.open().unwrap();
            // Kernels for 1, 2, 4, 8, 16 and more rows, before and after positions are shared out.
            let mut all = Vec::new();
            for rows in [1, 2, 3, 7, 12, 40, 90, 1, 9, 120, 1, 3] {
                let tokens: Vec<u32> = (0..rows).map(|i| (i * 5 + rows) % 29).collect();
                all.extend(logits(&mut pass, sequence, &tokens));
            }
            all
        });
        assert!(results[0] == results[1], "{precision}");
    }
}

#[test]
fn every_family_with_adapters_and_sampling() {
    let tokens = [5, 6, 7, 40, 100];
    for (name, adapters) in
        [("llama", &["llama-lora"][..]), ("gpt2", &["gpt2-lora"]), ("qwen2", &[])]
    {
        let (config, files) = files(name);
        for precision in [Precision::F32, Precision::F16] {
            let results = both(&config, &files, precision).map(|mut pass| {
                let plain = pass.open().unwrap();
                let mut all = logits(&mut pass, plain, &tokens);
                for adapter in adapters {
                    let adapter = Adapter::read(&folder(adapter), &config).unwrap();
                    let (id, adapted) =
                        (pass.load_adapter(&adapter).unwrap(), pass.open().unwrap());
                    pass.use_adapter(adapted, Some(id)).unwrap();
                    all.extend(logits(&mut pass, adapted, &tokens));
                }
                let sampling = Sampling { temperature: 1.5, top_k: 40, top_p: 0.9, seed: 9 };
                all.extend(
                    pass.prefill(&[Segment { sequence: plain, tokens: &tokens }], &sampling)
                        .unwrap(),
                );
                for _ in 0..5 {
                    pass.submit_step().unwrap();
                    all.extend(pass.take_step().unwrap());
                }
                all
            });
            assert!(results[0] == results[1], "{name} in {precision}");
        }
    }
}

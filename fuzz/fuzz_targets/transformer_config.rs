//! Bytes as the `config.json` and the `generation_config.json` of a language model: a model whose sizes are consistent, or an error,
//! never a panic.
//!
//! The bytes are the file and edits of valid files of each architecture.
#![no_main]

use aleatron_fuzz::{CONFIGS, Scratch, edited};
use aleatron_transformer::weights::tensors;
use aleatron_transformer::{Config, GenerationConfig};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

/// The largest number of layers of a model whose tensors are listed.
const MAX_LAYERS: usize = 64;

static SCRATCH: LazyLock<Scratch> = LazyLock::new(|| Scratch::new("transformer-config"));

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    for config in CONFIGS {
        check(&edited(config.into(), bytes));
    }
});

fn check(bytes: &[u8]) {
    SCRATCH.write("config.json", bytes);
    if let Ok(generation) = GenerationConfig::read(&SCRATCH.path("config.json")) {
        generation.sampling.check().unwrap();
    }
    let Ok(config) = Config::read(&SCRATCH.path("config.json")) else { return };
    config.check().unwrap();
    assert!(config.query_width() <= config.qkv_rows());
    assert!(config.matrix_weights() > 0);
    assert!(config.window(0).is_none_or(|window| window > 0));
    if config.layers <= MAX_LAYERS {
        assert!(tensors(&config).iter().all(|(_, shape)| shape.iter().all(|&size| size > 0)));
    }
}

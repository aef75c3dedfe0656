//! Random weights, for benchmarks: the speed of a model does not depend on its weights.

use aleatron_core::philox::{key, philox4x32};
use aleatron_core::{Quantity, memory};

use super::TensorSource;
use crate::config::{Activation, Architecture, Biases, Config, NormKind};
use crate::error::{Error, Result};
use crate::rope::{Rope, RopeScaling};

/// Uniform random weights, the same for the same seed and name.
#[derive(Debug, Clone, Copy)]
pub struct RandomTensors {
    /// The seed.
    pub seed: u64,
}

impl TensorSource for RandomTensors {
    fn tensor(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let len: usize = shape.iter().product();
        let mut out: Vec<f32> = memory::zeros(len as u128, Quantity::Weights)?;
        if let [_] = shape {
            out.fill(if name.ends_with("bias") { 0.0 } else { 1.0 });
            return Ok(out);
        }
        // FNV-1a of the name, so that tensors have different numbers.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| {
            (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
        });
        let key = key(self.seed ^ hash);
        // Keeps the size of activations from layer to layer.
        let width = (3.0 / shape[shape.len() - 1] as f32).sqrt();
        for (i, four) in out.chunks_mut(4).enumerate() {
            let words = philox4x32([i as u32, (i as u64 >> 32) as u32, 0, 0], key);
            for (x, word) in four.iter_mut().zip(words) {
                *x = (word as i32 as f32) * (width / 2_147_483_648.0);
            }
        }
        Ok(out)
    }
}

/// Models of a named size.
const SIZES: &[(&str, [usize; 7])] = &[
    // layers, hidden, heads, key-value heads, inner, vocabulary, positions
    ("tiny", [2, 64, 4, 2, 176, 256, 512]),
    ("small", [12, 768, 12, 4, 2048, 32_000, 2048]),
    ("tinyllama", [22, 2048, 32, 4, 5632, 32_000, 4096]),
    ("llama-3b", [28, 3072, 24, 8, 8192, 128_256, 8192]),
    ("llama-8b", [32, 4096, 32, 8, 14_336, 128_256, 8192]),
];

/// Returns the names of sizes.
#[must_use]
pub fn sizes() -> Vec<&'static str> {
    SIZES.iter().map(|(name, _)| *name).collect()
}

/// Returns the configuration of a Llama of a named size.
///
/// # Errors
/// [`Error::UnknownSize`] with the names there are.
pub fn sized(name: &str) -> Result<Config> {
    let Some((_, size)) = SIZES.iter().find(|(known, _)| *known == name) else {
        return Err(Error::UnknownSize { name: name.to_owned(), known: sizes().join(", ") });
    };
    let &[layers, hidden, heads, kv_heads, inner, vocabulary, max_positions] = size;
    Ok(Config {
        architecture: Architecture::Llama,
        vocabulary,
        hidden,
        layers,
        heads,
        kv_heads,
        head_dim: hidden / heads,
        inner,
        max_positions,
        norm: NormKind::Rms,
        sliding_window: None,
        norm_epsilon: 1e-5,
        rope: Some(Rope { theta: 10_000.0, scaling: RopeScaling::None }),
        activation: Activation::GatedSilu,
        biases: Biases::default(),
        tied_head: false,
        end_tokens: Vec::new(),
    })
}

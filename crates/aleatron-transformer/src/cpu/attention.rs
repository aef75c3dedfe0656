//! Keys and values of sequences, and attention over them.

use std::time::Duration;

use super::linear::Activations;
use super::{CpuForwardPass, Row};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::pass::grown;

/// The keys and values of one sequence, layer by layer.
#[derive(Debug, Default)]
pub(super) struct SequenceCache {
    /// The capacity in positions.
    positions: usize,
    layers: Vec<[Vec<f32>; 2]>,
}

impl SequenceCache {
    /// Reserves capacity for positions, in steps.
    pub(super) fn reserve(&mut self, config: &Config, positions: usize) -> Result<()> {
        if positions <= self.positions {
            return Ok(());
        }
        let wanted = grown(positions, config);
        let bytes = config.layers as u128 * 2 * wanted as u128 * config.kv_width() as u128 * 4;
        let refused =
            |reason: String| Error::Cache { bytes, sequences: 1, positions: wanted, reason };
        aleatron_core::memory::check(bytes, aleatron_core::Quantity::Weights)
            .map_err(|error| refused(error.to_string()))?;
        self.layers.resize_with(config.layers, Default::default);
        for values in self.layers.iter_mut().flatten() {
            let len = wanted * config.kv_width();
            values
                .try_reserve_exact(len - values.len())
                .map_err(|error| refused(error.to_string()))?;
            values.resize(len, 0.0);
        }
        self.positions = wanted;
        Ok(())
    }

    pub(super) fn copy_from(&mut self, other: &Self, config: &Config, positions: usize) {
        let len = positions * config.kv_width();
        for (own, other) in self.layers.iter_mut().zip(&other.layers) {
            for (own, other) in own.iter_mut().zip(other) {
                own[..len].copy_from_slice(&other[..len]);
            }
        }
    }
}

impl CpuForwardPass {
    /// Rotates queries and keys, and puts keys and values into the caches.
    pub(super) fn store(&mut self, layer: usize, rows: &[Row], qkv: &mut Activations) {
        let (query, width, head) =
            (self.config.query_width(), self.config.kv_width(), self.config.head_dim);
        for (i, row) in rows.iter().enumerate() {
            let values = qkv.row_mut(i);
            if self.config.rope.is_some() {
                let angles = &self.rotations[row.position * head..][..head];
                for head in values[..query + width].chunks_exact_mut(head) {
                    rotate(head, angles);
                }
            }
            let [k, v] = &mut self.caches[row.sequence.0].layers[layer];
            k[row.position * width..][..width].copy_from_slice(&values[query..query + width]);
            v[row.position * width..][..width]
                .copy_from_slice(&values[query + width..query + 2 * width]);
        }
    }

    /// Computes the weighted values of every head.
    pub(super) fn attend(&self, layer: usize, rows: &[Row], qkv: &Activations) -> Activations {
        let config = &self.config;
        let (width, head, group) =
            (config.kv_width(), config.head_dim, config.heads / config.kv_heads);
        let scale = 1.0 / (head as f32).sqrt();
        let mut heads = vec![0.0; rows.len() * config.query_width()];
        let window = config.window(layer).unwrap_or(usize::MAX);
        let terms: usize =
            rows.iter().map(|row| (row.position + 1).min(window) * config.query_width()).sum();
        let items = heads.chunks_mut(group * head).enumerate();
        self.pool.for_each(items, Duration::from_nanos(terms as u64), |(item, out)| {
            let (i, kv_head) = (item / config.kv_heads, item % config.kv_heads);
            let row = rows[i];
            let [k, v] = &self.caches[row.sequence.0].layers[layer];
            let first = (row.position + 1).saturating_sub(window);
            let (k, v) =
                (&k[first * width + kv_head * head..], &v[first * width + kv_head * head..]);
            let mut scores = vec![0.0; row.position + 1 - first];
            for (g, out) in out.chunks_exact_mut(head).enumerate() {
                let query = &qkv.row(i)[(kv_head * group + g) * head..][..head];
                let mut largest = f32::NEG_INFINITY;
                for (position, score) in scores.iter_mut().enumerate() {
                    let key = &k[position * width..][..head];
                    *score = query.iter().zip(key).map(|(q, k)| q * k).sum::<f32>() * scale;
                    largest = largest.max(*score);
                }
                let mut total = 0.0;
                for (position, score) in scores.iter().enumerate() {
                    let weight = (score - largest).exp();
                    total += weight;
                    let value = &v[position * width..][..head];
                    out.iter_mut().zip(value).for_each(|(out, v)| *out += weight * v);
                }
                out.iter_mut().for_each(|out| *out /= total);
            }
        });
        let mut padded = Activations::new(rows.len(), config.query_width());
        for (i, row) in heads.chunks_exact(config.query_width()).enumerate() {
            padded.row_mut(i).copy_from_slice(row);
        }
        padded
    }
}

/// Rotates the pairs (i, i + half) of a head.
fn rotate(head: &mut [f32], angles: &[f32]) {
    let (low, high) = head.split_at_mut(head.len() / 2);
    for ((a, b), angle) in low.iter_mut().zip(high).zip(angles.as_chunks::<2>().0) {
        let [cosine, sine] = *angle;
        (*a, *b) = (*a * cosine - *b * sine, *b * cosine + *a * sine);
    }
}

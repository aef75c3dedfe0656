//! Small layers of compiled networks in one launch: streams of inputs in shared memory, counts and
//! results.

use aleatron_core::{LayerSpec, Length};

use super::{ConvRun, Product, Store, THREADS, rows_per_channel};
use crate::buffers::{BufferSet, ProgramCall};
use crate::driver::{Grid, View, kernels};
use crate::encode::Encoder;
use crate::error::{Error, Result};
use crate::inputs::Source;
use crate::kernels::{DirectParams, Finish};
use crate::plan::few::MAX_SAMPLES;
use crate::plan::rows::StreamWords;
use crate::results::Output;
use crate::size::size_u32;

/// The largest number of words of a sample's input streams: every block encodes all of them.
const MAX_INPUT_WORDS: u32 = 4096;

/// The largest number of words multiplied for a sample: above it, tensor cores outweigh the
/// launches that they need.
const MAX_PRODUCT_WORDS: u128 = 1 << 22;

/// The same limit of dense layers, whose batches need a quarter of the work with
/// [complemented streams](crate::signed).
const MAX_DENSE_WORDS: u128 = MAX_PRODUCT_WORDS / 4;

/// Returns whether a dense layer is small enough to run in one launch in programs.
pub(crate) fn runs_in_one_launch(spec: &LayerSpec) -> bool {
    let words = u128::from(stream_words(spec.length()));
    spec.n_inputs() as u128 * words <= u128::from(MAX_INPUT_WORDS)
        && spec.n_weights() as u128 * words <= MAX_DENSE_WORDS
}

/// Number of threads that fill a GPU: fewer wait for memory, more encode the inputs again for
/// little gain.
const WANTED_THREADS: u64 = 1 << 15;

/// Number of threads of a launch below which a whole block shares the taps of a neuron.
const BLOCK_THREADS: u64 = 1 << 13;

/// Returns the number of threads that share the taps of a neuron: a power of two up to 32, or a
/// block.
fn lanes(n_outputs: u64, n_taps: usize) -> u32 {
    let of_warp = (0..=5).map(|k| 1_u32 << k);
    let enough = |lanes: &u32| n_outputs.saturating_mul((*lanes).into()) >= WANTED_THREADS;
    let wanted =
        of_warp.clone().find(|lanes| enough(lanes) || *lanes as usize >= n_taps).unwrap_or(32);
    let is_narrow = n_outputs.saturating_mul(32) < BLOCK_THREADS && n_taps > 64;
    if is_narrow { BLOCK_LANES } else { wanted }
}

/// Number of threads of a block.
const BLOCK_LANES: u32 = 256;

/// The product of the kernel, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum DirectProduct {
    And = 0,
    Xnor = 1,
    Signed = 2,
    Split = 3,
}

impl From<Product> for DirectProduct {
    fn from(product: Product) -> Self {
        match product {
            Product::And => Self::And,
            Product::Xnor => Self::Xnor,
            Product::SignedAnd => Self::Signed,
            Product::SplitAnd => Self::Split,
        }
    }
}

/// The memory of a layer that runs in one launch.
struct Direct<'a> {
    thresholds: View<'a>,
    weights: View<'a>,
    call: ProgramCall<'a>,
}

impl ConvRun<'_, '_> {
    /// Enqueues a chunk as one launch; returns false if the layer is too large for it.
    pub(super) fn enqueue_direct(&self, set: &BufferSet, n_samples: usize) -> Result<bool> {
        match self.direct(n_samples) {
            Some(direct) => self.enqueue_direct_launch(set, n_samples, &direct).map(|()| true),
            None => Ok(false),
        }
    }

    /// Returns the memory of a chunk that fits one launch.
    fn direct(&self, n_samples: usize) -> Option<Direct<'_>> {
        let (layer, call) = (self.layer, self.options.program?);
        let Source::CardValues(thresholds, kind) = self.source else { return None };
        let (Store::Resident(parts), 1) = (&layer.store, layer.shape.groups().count()) else {
            return None;
        };
        let [weights] = &parts[..] else { return None };
        let words = u128::from(stream_words(layer.length));
        let products =
            layer.shape.n_outputs() as u128 * layer.shape.kernel_weights() as u128 * words;
        let is_small = n_samples <= MAX_SAMPLES
            && layer.plan.inputs.words <= MAX_INPUT_WORDS
            && products <= MAX_PRODUCT_WORDS;
        let direct = Direct { thresholds, weights: weights.view(), call };
        (is_small && kind == layer.product.threshold_kind()).then_some(direct)
    }

    fn enqueue_direct_launch(
        &self,
        set: &BufferSet,
        n_samples: usize,
        direct: &Direct<'_>,
    ) -> Result<()> {
        let ConvRun { layer, options, .. } = self;
        let (shape, plan, encoder) = (&layer.shape, &layer.plan, &layer.stage.encoder);
        let location = "conv::direct, layer without rows or results on the card";
        let ([part], Output::Card(results)) = (&plan.parts[..], &self.output) else {
            return Err(Error::Internal { place: location });
        };
        let stream = StreamWords::of(layer.length);
        let (n_taps, n_outputs) = (shape.kernel_weights(), shape.n_outputs());
        let n_rows = rows_per_channel(layer.product) * shape.n_channels();
        let (integers, unit_step) = match encoder {
            Encoder::Bernoulli { .. } => (0, 0),
            Encoder::Sequences(sequences) => sequences.of_units(shape.n_inputs(), stream.stored)?,
        };
        let lanes = lanes((n_samples * n_outputs) as u64, n_taps);
        let params = DirectParams {
            inputs: plan.inputs.of_rows(shape.n_inputs(), stream)?,
            conv: layer.geometry,
            finish: Finish { report: 0, row_ones: 0, ..self.finish(set, n_samples, results)? },
            thresholds: direct
                .thresholds
                .check(8 * n_samples as u128 * shape.n_inputs() as u128)?,
            integers,
            unit_step,
            seed: direct.call.seed.check(16)?,
            weights: direct.weights.check(n_rows as u128 * u128::from(part.bytes()))?,
            weight_stride: part.stride,
            tag: if let Encoder::Bernoulli { tag } = encoder { *tag } else { 0 },
            n_taps: size_u32(n_taps, "taps of a kernel")?,
            n_channels: size_u32(shape.n_channels(), "number of channels")?,
            product: DirectProduct::from(layer.product) as u32,
            adds_totals: (layer.product != Product::And).into(),
            lanes,
            padding: 0,
        };
        let threads = n_outputs as u64 * u64::from(lanes);
        size_u32(threads.next_multiple_of(THREADS), "threads")?;
        let grid =
            Grid { x: size_u32(threads.div_ceil(THREADS), "blocks")?, y: params.finish.n_samples };
        // The count of saturated values and sums precede the streams.
        let shared_bytes = 16 + 4 * plan.inputs.words;
        let bytes = n_rows as u64 * part.bytes() + 8 * (n_samples * n_outputs) as u64;
        set.queue(options).launch(&kernels::DIRECT, grid, shared_bytes, &params, bytes)
    }
}

fn stream_words(length: Length) -> u32 {
    StreamWords::of(length).stored
}

#[cfg(test)]
mod tests {
    use super::lanes;

    #[test]
    fn lanes_fill_a_gpu_without_idle_threads() {
        // The layers of LeNet-5: many neurons of few taps, then few neurons of many.
        assert_eq!(
            [(4704, 25), (1600, 150), (120, 400), (84, 120), (10, 84)].map(|(n, t)| lanes(n, t)),
            [8, 32, 256, 256, 256]
        );
        assert_eq!(
            [(1, 1), (10, 3), (1 << 20, 500), (100, 64)].map(|(n, t)| lanes(n, t)),
            [1, 4, 1, 32]
        );
    }
}

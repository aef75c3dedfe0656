//! Dense layers on a device: weights stay there, thresholds go in, integer counts come out.
//!
//! A call is one submission: thresholds written where the kernel reads them, `encode`, then `accumulate` (few
//! samples) or `tile` (many), counts read back. Which kernel and how many workgroups is in `plan.rs`, the buffers
//! of a call in `call.rs`, the cutting of what no binding can hold in `partition.rs`.

mod plan;

use std::ops::Range;
use std::sync::Arc;

use aleatron_core::stream::check_words;
use aleatron_core::{DenseShape, Polarity, Quantity, StreamAddress, Threshold};

pub use plan::{Counting, RowGroup, TileShape};

use crate::buffer::{GpuBuffer, Memory};
use crate::call::{self, Call, CallSizes, Calls, Inputs, Run, piece_of};
use crate::context::GpuContext;
use crate::encode::{self, Part, check_address, encode_block, threshold_words};
use crate::error::{Error, Limit, Result};
use crate::partition::{Block, Cut, StreamWords, blocks, cuts, gather};
use crate::profile::Profiler;
use crate::record::Recorder;
use plan::Target;

/// A dense layer on a device.
///
/// ```no_run
/// use std::sync::Arc;
/// use aleatron_core::{DenseShape, Length, Polarity, StreamAddress, Threshold};
/// use aleatron_gpu::{AdapterChoice, GpuContext, GpuDense};
///
/// let context = GpuContext::get(&AdapterChoice::from_env())?;
/// let shape = DenseShape::new(3, 2, Length::new(1024)?, Polarity::Unipolar)?;
/// let half = Threshold::from_probability(0.5)?;
/// let layer = GpuDense::from_thresholds(&context, shape, 16, &[half; 6], StreamAddress::weight(1, 0, 0))?;
/// let counts = layer.counts(&[Threshold::ONE; 3], StreamAddress::input(2, 0, 0))?;
/// assert_eq!(counts.len(), 2);
/// # Ok::<(), aleatron_gpu::Error>(())
/// ```
#[derive(Debug)]
pub struct GpuDense {
    context: Arc<GpuContext>,
    shape: DenseShape,
    counting: Counting,
    max_batch: usize,
    /// Samples per submission.
    piece: usize,
    cuts: Vec<Cut>,
    weights: Vec<(Block, GpuBuffer<u32>)>,
    calls: Calls,
}

impl GpuDense {
    /// A layer of packed weight streams, `[neuron][input][word]`.
    ///
    /// # Errors
    /// [`aleatron_core::Error`] for words that are not those of the shape, [`Error::TooLarge`] for what no device
    /// can take, or what the device reports.
    pub fn from_words(
        context: &Arc<GpuContext>,
        shape: DenseShape,
        max_batch: usize,
        words: &[u64],
    ) -> Result<Self> {
        let mut layer = Self::empty(context, shape, max_batch)?;
        layer.set_words(words)?;
        Ok(layer)
    }

    /// A layer whose weight streams the device draws: weight (j, i) at row `first.row + j`, unit `first.unit + i`.
    ///
    /// # Errors
    /// As [`Self::from_words`].
    pub fn from_thresholds(
        context: &Arc<GpuContext>,
        shape: DenseShape,
        max_batch: usize,
        weights: &[Threshold],
        first: StreamAddress,
    ) -> Result<Self> {
        let mut layer = Self::empty(context, shape, max_batch)?;
        layer.set_thresholds(weights, first)?;
        Ok(layer)
    }

    fn empty(context: &Arc<GpuContext>, shape: DenseShape, max_batch: usize) -> Result<Self> {
        if max_batch == 0 {
            return Err(aleatron_core::Error::Zero(Quantity::Samples).into());
        }
        let row_words = 2 * shape.row_words();
        let limit = context.max_binding_bytes();
        let cuts = cuts(row_words, limit)?;
        let piece = piece(&shape, &cuts, limit)?.min(piece_of(max_batch));
        let mut weights = Vec::new();
        for block in blocks(shape.n_neurons(), row_words, context)? {
            weights.push((block, context.buffer(block.words(), Memory::Device)?));
        }
        let context = Arc::clone(context);
        let calls = Calls::default();
        let layer = Self { context, shape, counting: Counting::Auto, max_batch, piece, cuts, weights, calls };
        layer.calls.keep(layer.new_call()?);
        Ok(layer)
    }

    fn new_call(&self) -> Result<Call> {
        let stride = self.cuts.iter().map(|cut| cut.stride).max().unwrap_or(0);
        Call::new(
            &self.context,
            CallSizes {
                thresholds: threshold_words(self.piece * self.shape.n_inputs()),
                streams: self.piece * stride,
                counts: self.count_words(self.piece),
            },
        )
    }

    /// The same layer with another choice of kernel. Counts do not depend on it.
    #[must_use]
    pub fn with_counting(mut self, counting: Counting) -> Self {
        self.counting = counting;
        self
    }

    /// The shape.
    #[must_use]
    pub fn shape(&self) -> &DenseShape {
        &self.shape
    }

    /// The device.
    #[must_use]
    pub fn context(&self) -> &Arc<GpuContext> {
        &self.context
    }

    /// The largest batch buffers are kept for; larger ones run in more pieces, with the same counts.
    #[must_use]
    pub fn max_batch(&self) -> usize {
        self.max_batch
    }

    /// The samples of one submission.
    #[must_use]
    pub fn piece(&self) -> usize {
        self.piece
    }

    /// The buffers the weights lie in.
    #[must_use]
    pub fn n_blocks(&self) -> usize {
        self.weights.len()
    }

    /// Replaces the weights by packed streams, `[neuron][input][word]`.
    ///
    /// # Errors
    /// As [`Self::from_words`]; the weights are then as they were, or unknown where the device failed midway.
    pub fn set_words(&mut self, words: &[u64]) -> Result<()> {
        check_words(words, self.shape.n_weights(), self.shape.length())?;
        let words: &[u32] = bytemuck::cast_slice(words);
        let row_words = 2 * self.shape.row_words();
        let mut packed = Vec::new();
        for (block, buffer) in &self.weights {
            if block.cut.stride == row_words {
                let begin = block.first_row * row_words;
                buffer.write(0, &words[begin..begin + block.words()])?;
            } else {
                gather(words, row_words, block, &mut packed);
                buffer.write(0, &packed)?;
            }
        }
        Ok(())
    }

    /// Replaces the weights by streams the device draws: weight (j, i) at row `first.row + j`, unit `first.unit + i`.
    ///
    /// # Errors
    /// As [`Self::set_words`].
    pub fn set_thresholds(&mut self, weights: &[Threshold], first: StreamAddress) -> Result<()> {
        let (n_inputs, n_neurons) = (self.shape.n_inputs(), self.shape.n_neurons());
        let (expected, actual) = (self.shape.n_weights(), weights.len());
        if expected != actual {
            return Err(aleatron_core::Error::Mismatch { what: Quantity::Weights, expected, actual }.into());
        }
        check_address(first, n_neurons, n_inputs)?;
        for (block, buffer) in &self.weights {
            encode_block(&self.context, weights, n_inputs, block, self.shape.length(), first, buffer)?;
        }
        Ok(())
    }

    /// The packed weight streams, `[neuron][input][word]`, read back.
    ///
    /// # Errors
    /// What the device reports.
    pub fn words(&self) -> Result<Vec<u64>> {
        let mut words = vec![0u64; self.shape.weight_words()];
        let row_words = 2 * self.shape.row_words();
        let all: &mut [u32] = bytemuck::cast_slice_mut(&mut words);
        for (block, buffer) in &self.weights {
            let Cut { begin, words, stride } = block.cut;
            let made = buffer.read()?;
            let rows = all.chunks_exact_mut(row_words).skip(block.first_row);
            for (row, made) in rows.zip(made.chunks_exact(stride)) {
                row[begin..begin + words].copy_from_slice(&made[..words]);
            }
        }
        Ok(words)
    }

    /// The counts of a batch, `[sample][neuron]`. `inputs` holds a threshold per sample and input; the stream of
    /// input i of sample s is drawn at row `first.row + s`, unit `first.unit + i`.
    ///
    /// # Errors
    /// [`aleatron_core::Error::Ragged`] where the inputs are not whole samples, [`Error::TooLarge`] where a counter
    /// cannot name a row, or what the device reports.
    pub fn counts(&self, inputs: &[Threshold], first: StreamAddress) -> Result<Vec<u64>> {
        self.counts_profiled(inputs, first, None)
    }

    /// As [`Self::counts`], with its kernels timed.
    ///
    /// # Errors
    /// As [`Self::counts`].
    pub fn counts_profiled(
        &self,
        inputs: &[Threshold],
        first: StreamAddress,
        profiler: Option<&mut Profiler>,
    ) -> Result<Vec<u64>> {
        let n_samples = self.shape.samples_in(inputs.len())?;
        check_address(first, n_samples, self.shape.n_inputs())?;
        self.run(Inputs::Thresholds(inputs, first), n_samples, profiler)
    }

    /// The counts of `n_samples` samples whose thresholds `fill` appends when they are wanted, some samples at a time
    /// and in order, while the device counts those before.
    ///
    /// # Errors
    /// As [`Self::counts`], and what `fill` reports.
    pub fn counts_filled(
        &self,
        n_samples: usize,
        first: StreamAddress,
        mut fill: impl FnMut(Range<usize>, &mut Vec<Threshold>) -> Result<()>,
    ) -> Result<Vec<u64>> {
        check_address(first, n_samples, self.shape.n_inputs())?;
        self.run(Inputs::Filled(&mut fill, first), n_samples, None)
    }

    /// The counts of a batch of packed input streams, `[sample][input][word]`.
    ///
    /// # Errors
    /// [`aleatron_core::Error`] where the words are not whole samples or have ones past the length, or what the
    /// device reports.
    pub fn counts_of_streams(&self, words: &[u64]) -> Result<Vec<u64>> {
        let row_words = self.shape.row_words();
        if !words.len().is_multiple_of(row_words) {
            let (what, actual) = (Quantity::Words, words.len());
            return Err(aleatron_core::Error::Ragged { what, actual, divisor: row_words }.into());
        }
        let n_samples = words.len() / row_words;
        check_words(words, n_samples * self.shape.n_inputs(), self.shape.length())?;
        self.run(Inputs::Streams(words), n_samples, None)
    }

    /// Whether counts pass 32 bits.
    fn is_wide(&self) -> bool {
        call::is_wide(self.shape.n_inputs(), self.shape.length())
    }

    fn count_words(&self, n_samples: usize) -> usize {
        n_samples * self.shape.n_neurons() * if self.is_wide() { 2 } else { 1 }
    }

    fn run<'a>(
        &'a self,
        inputs: Inputs<'a>,
        n_samples: usize,
        profiler: Option<&'a mut Profiler>,
    ) -> Result<Vec<u64>> {
        // Times are collected piece by piece.
        let ahead = if profiler.is_some() { 0 } else { 1 };
        let counts = Vec::with_capacity(n_samples.saturating_mul(self.shape.n_neurons()));
        let mut run = DenseRun { layer: self, inputs, profiler, counts };
        self.calls.run(n_samples, self.piece, ahead, || self.new_call(), &mut run)?;
        Ok(run.counts)
    }

    /// Adds what the device counted to the layer's counts: ones of AND as they are, of XOR taken from all bits.
    fn decode(&self, words: &[u32], counts: &mut Vec<u64>) {
        let whole = call::widen(words, self.is_wide());
        match self.shape.polarity() {
            Polarity::Unipolar => counts.extend(whole),
            Polarity::Bipolar => {
                let all = self.shape.n_inputs() as u64 * self.shape.length().bits() as u64;
                counts.extend(whole.map(|differing| all - differing));
            }
        }
    }

    fn record_counts(
        &self,
        recorder: &mut Recorder<'_>,
        counting: Counting,
        cut: Cut,
        call: &Call,
        target: &Target<'_>,
    ) -> Result<()> {
        for (block, weights) in self.weights.iter().filter(|(block, _)| block.cut == cut) {
            let streams = call.streams.view()?;
            plan::record(recorder, &self.context, counting, block, weights.view()?, streams, target)?;
        }
        Ok(())
    }
}

/// A call under way.
struct DenseRun<'a> {
    layer: &'a GpuDense,
    inputs: Inputs<'a>,
    profiler: Option<&'a mut Profiler>,
    counts: Vec<u64>,
}

impl Run for DenseRun<'_> {
    fn submit(&mut self, call: &mut Call, samples: Range<usize>) -> Result<wgpu::SubmissionIndex> {
        let GpuDense { context, shape, cuts, .. } = self.layer;
        let n = samples.len();
        let counting = self.layer.counting.resolve(shape.n_neurons(), n);
        let add = counting.adds(cuts.len());
        self.inputs.send(call, samples.clone(), shape.n_inputs())?;
        let mut recorder = context.recorder(self.profiler.as_deref_mut())?;
        let n_words = self.layer.count_words(n);
        let target = Target {
            counts: call.counts(&mut recorder, n_words, add)?,
            n_neurons: shape.n_neurons(),
            n_samples: n,
            polarity: shape.polarity(),
            wide: self.layer.is_wide(),
            add,
        };
        let (n_rows, n_units, stream) = (n, shape.n_inputs(), StreamWords::of(shape.length()));
        let first = self.inputs.first(samples.start);
        let thresholds = first.map(|_| call.thresholds(&mut recorder)).transpose()?;
        for &cut in cuts {
            if let (Some(first), Some(thresholds)) = (first, thresholds) {
                let part = Part { first, n_rows, n_units, cut, stream, out_base: 0 };
                encode::record(&mut recorder, context, &part, thresholds, call.streams.view()?, None)?;
            }
            if let Inputs::Streams(words) = self.inputs {
                // A write to a buffer comes before all commands of the next submission: one submission per cut.
                recorder.submit()?;
                let block = Block { cut, first_row: samples.start, n_rows };
                let mut packed = Vec::new();
                gather(bytemuck::cast_slice(words), 2 * shape.row_words(), &block, &mut packed);
                call.streams.write(0, &packed)?;
                recorder = context.recorder(None)?;
            }
            self.layer.record_counts(&mut recorder, counting, cut, call, &target)?;
        }
        call.fetch(&mut recorder, n_words, add)?;
        recorder.submit()
    }

    fn receive(&mut self, call: &mut Call, n_samples: usize) -> Result<()> {
        let (layer, counts) = (self.layer, &mut self.counts);
        call.receive(layer.count_words(n_samples), |words| layer.decode(words, counts))?;
        self.profiler.as_deref_mut().map_or(Ok(()), Profiler::collect)
    }
}

/// The samples whose thresholds, streams and counts each fit a binding.
fn piece(shape: &DenseShape, cuts: &[Cut], limit: u64) -> Result<usize> {
    let threshold_bytes = 4 * threshold_words(shape.n_inputs()) as u64;
    if threshold_bytes > limit {
        return Err(Error::TooLarge { what: Limit::ThresholdBytes, actual: threshold_bytes.into(), limit });
    }
    let count_bytes = 8 * shape.n_neurons() as u64;
    if count_bytes > limit {
        return Err(Error::TooLarge { what: Limit::BindingBytes, actual: count_bytes.into(), limit });
    }
    let stream_bytes = cuts.iter().map(|cut| 4 * cut.stride as u64).max().unwrap_or(1);
    Ok((limit / stream_bytes.max(threshold_bytes).max(count_bytes)) as usize)
}

//! Dense layers on a device: weights stay there, thresholds go in, integer counts come out.
//!
//! A call is one submission: thresholds written where the kernel reads them, `encode`, then `accumulate` (few
//! samples) or `tile` (many), counts read back. Which kernel and how many workgroups is in `plan.rs`, the buffers
//! of a call in `call.rs`, the cutting of what no binding can hold in `partition.rs`.

mod plan;

use std::sync::{Arc, Mutex};

use aleatron_core::stream::check_words;
use aleatron_core::{DenseShape, Polarity, Quantity, StreamAddress, Threshold};

pub use plan::{Counting, TileShape};

use crate::buffer::{GpuBuffer, Memory};
use crate::call::{self, Call, CallSizes};
use crate::context::{GpuContext, lock};
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
    /// Samples per submission.
    piece: usize,
    cuts: Vec<Cut>,
    weights: Vec<(Block, GpuBuffer<u32>)>,
    /// Buffers of calls not under way; as many as have ever been under way at a time.
    calls: Mutex<Vec<Call>>,
}

/// What a call counts over.
#[derive(Clone, Copy)]
enum Inputs<'a> {
    Thresholds(&'a [Threshold], StreamAddress),
    Streams(&'a [u64]),
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
        let piece = piece(&shape, &cuts, limit)?.min(max_batch);
        let mut weights = Vec::new();
        for block in blocks(shape.n_neurons(), row_words, context)? {
            weights.push((block, context.buffer(block.words(), Memory::Device)?));
        }
        let context = Arc::clone(context);
        let calls = Mutex::default();
        let layer = Self { context, shape, counting: Counting::Auto, piece, cuts, weights, calls };
        let call = layer.new_call()?;
        lock(&layer.calls).push(call);
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

    /// The samples of one submission; larger batches run in pieces of this size, with the same counts.
    #[must_use]
    pub fn max_batch(&self) -> usize {
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

    fn run(
        &self,
        inputs: Inputs<'_>,
        n_samples: usize,
        mut profiler: Option<&mut Profiler>,
    ) -> Result<Vec<u64>> {
        let mut counts = Vec::with_capacity(n_samples * self.shape.n_neurons());
        let idle = lock(&self.calls).pop();
        let mut call = idle.map_or_else(|| self.new_call(), Ok)?;
        for start in (0..n_samples).step_by(self.piece) {
            let n = self.piece.min(n_samples - start);
            self.submit(&mut call, inputs, start, n, profiler.as_deref_mut())?;
            call.begin_receive();
            call.receive(self.count_words(n), |words| self.decode(words, &mut counts))?;
            if let Some(profiler) = profiler.as_deref_mut() {
                profiler.collect()?;
            }
        }
        // A call that failed is not kept: its buffers may still be on their way.
        lock(&self.calls).push(call);
        Ok(counts)
    }

    /// Submits `n` samples from `start` on.
    fn submit(
        &self,
        call: &mut Call,
        inputs: Inputs<'_>,
        start: usize,
        n: usize,
        profiler: Option<&mut Profiler>,
    ) -> Result<()> {
        let counting = self.counting.resolve(self.shape.n_neurons(), n);
        let add = counting.adds(self.cuts.len());
        let n_inputs = self.shape.n_inputs();
        if let Inputs::Thresholds(thresholds, _) = inputs {
            encode::pack(&thresholds[start * n_inputs..(start + n) * n_inputs], &mut call.scratch);
            call.send()?;
        }
        let mut packed = Vec::new();
        let mut recorder = self.context.recorder(profiler)?;
        let thresholds = match inputs {
            Inputs::Thresholds(..) => Some(call.thresholds(&mut recorder)?),
            Inputs::Streams(_) => None,
        };
        let target = Target {
            counts: call.counts(&mut recorder, self.count_words(n), add)?,
            n_neurons: self.shape.n_neurons(),
            n_samples: n,
            polarity: self.shape.polarity(),
            wide: self.is_wide(),
            add,
        };
        for &cut in &self.cuts {
            match (inputs, thresholds) {
                (Inputs::Thresholds(_, first), Some(thresholds)) => {
                    let part = Part {
                        first: first.at_row(first.row + start as u32),
                        n_rows: n,
                        n_units: n_inputs,
                        cut,
                        stream: StreamWords::of(self.shape.length()),
                        out_base: 0,
                    };
                    encode::record(
                        &mut recorder,
                        &self.context,
                        &part,
                        thresholds,
                        call.streams.view()?,
                        None,
                    )?;
                }
                (Inputs::Streams(words), _) => {
                    let words: &[u32] = bytemuck::cast_slice(words);
                    let block = Block { cut, first_row: start, n_rows: n };
                    gather(words, 2 * self.shape.row_words(), &block, &mut packed);
                    // A write to a buffer comes before all commands of the next submission: one per cut.
                    recorder = self.resubmit(recorder)?;
                    call.streams.write(0, &packed)?;
                }
                (Inputs::Thresholds(..), None) => {}
            }
            self.record_counts(&mut recorder, counting, cut, call, &target)?;
        }
        call.fetch(&mut recorder, self.count_words(n), add)?;
        recorder.submit()
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

    fn resubmit<'a>(&'a self, recorder: Recorder<'a>) -> Result<Recorder<'a>> {
        recorder.submit()?;
        self.context.recorder(None)
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

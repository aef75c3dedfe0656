//! Dense layers on a device: weights are resident, thresholds are uploaded, integer counts are
//! returned.
//!
//! A chunk of a call is one submission: thresholds written where the kernel reads them, `encode`,
//! then `accumulate` (few samples) or `tile` (many), counts read back. `launch.rs` chooses the
//! kernel and the number of workgroups, `buffers.rs` has the buffers of a call, `partition.rs`
//! splits matrices that exceed a binding.

mod launch;

use std::ops::Range;
use std::sync::Arc;

use aleatron_core::stream::check_words;
use aleatron_core::{Cancel, DenseShape, Polarity, Quantity, StreamAddress, Threshold, memory};
use aleatron_device::{BufferView, GpuBuffer, GpuContext, Profiler, Recorder, Submission};

pub use launch::{KernelChoice, RowGroup, TileShape};

use crate::buffers::{self, BufferSet, BufferSets, ChunkRun, CountMode, SetSizes, chunk_of};
use crate::encode::{self, Part, check_address, encode_block, threshold_words};
use crate::error::{Error, Limit, Result, host_size};
use crate::inputs::{CountOptions, Inputs, ThresholdSource};
use crate::partition::{Block, Cut, StreamWords, blocks, cuts, gather, scatter};
use launch::Target;

/// A dense layer on a device.
///
/// ```no_run
/// use std::sync::Arc;
/// use aleatron_core::{Cancel, DenseShape, Length, Polarity, StreamAddress, Threshold};
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
    choice: KernelChoice,
    max_batch: usize,
    /// Number of samples per submission.
    chunk: usize,
    cuts: Vec<Cut>,
    weights: Vec<(Block, GpuBuffer<u32>)>,
    sets: BufferSets,
}

impl GpuDense {
    /// Creates a layer of packed weight streams, `[neuron][input][word]`.
    ///
    /// # Errors
    /// Returns [`aleatron_core::Error`] for words that do not match the shape, [`Error::TooLarge`]
    /// for sizes above the limits of the device, and errors of the device.
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

    /// Creates a layer whose weight streams the device draws: weight (j, i) at row `first.row + j`,
    /// unit `first.unit + i`.
    ///
    /// # Errors
    /// As for [`Self::from_words`].
    pub fn from_thresholds(
        context: &Arc<GpuContext>,
        shape: DenseShape,
        max_batch: usize,
        weights: &[Threshold],
        first: StreamAddress,
    ) -> Result<Self> {
        Self::drawn(context, shape, max_batch, weights, first, Cancel::NEVER)
    }

    /// Creates a layer as [`Self::from_thresholds`], with cancellation.
    pub(crate) fn drawn(
        context: &Arc<GpuContext>,
        shape: DenseShape,
        max_batch: usize,
        weights: &[Threshold],
        first: StreamAddress,
        cancel: Cancel<'_>,
    ) -> Result<Self> {
        let mut layer = Self::empty(context, shape, max_batch)?;
        layer.draw(weights, first, cancel)?;
        Ok(layer)
    }

    fn empty(context: &Arc<GpuContext>, shape: DenseShape, max_batch: usize) -> Result<Self> {
        if max_batch == 0 {
            return Err(aleatron_core::Error::Zero(Quantity::Samples).into());
        }
        let row_words = 2 * shape.row_words();
        let limit = context.max_binding_bytes();
        let cuts = cuts(row_words, limit)?;
        let chunk = largest_chunk(&shape, &cuts, limit)?.min(chunk_of(max_batch));
        let mut weights = Vec::new();
        for block in blocks(shape.n_neurons(), row_words, context)? {
            weights.push((block, context.buffer(block.words())?));
        }
        let context = Arc::clone(context);
        let (choice, sets) = (KernelChoice::Auto, BufferSets::default());
        let layer = Self { context, shape, choice, max_batch, chunk, cuts, weights, sets };
        layer.sets.keep(layer.new_set()?);
        Ok(layer)
    }

    fn new_set(&self) -> Result<BufferSet> {
        let location = "dense::GpuDense::new_set, rows without words";
        let stride = self
            .cuts
            .iter()
            .map(|cut| cut.stride)
            .max()
            .ok_or(Error::Internal { place: location })?;
        BufferSet::new(
            &self.context,
            SetSizes {
                thresholds: threshold_words(self.chunk * self.shape.n_inputs()),
                work: self.chunk * stride,
                counts: self.count_words(self.chunk),
            },
        )
    }

    /// Returns the same layer with another choice of kernel. Counts do not depend on it.
    #[must_use]
    pub fn with_kernel(mut self, choice: KernelChoice) -> Self {
        self.choice = choice;
        self
    }

    /// Returns the shape.
    #[must_use]
    pub fn shape(&self) -> &DenseShape {
        &self.shape
    }

    /// Returns the device.
    #[must_use]
    pub fn context(&self) -> &Arc<GpuContext> {
        &self.context
    }

    /// Returns whether the device is lost: the layer must then be created again on a new one.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.context.is_lost()
    }

    /// Returns the largest batch that buffers are allocated for; larger ones run in more chunks,
    /// with the same counts.
    #[must_use]
    pub fn max_batch(&self) -> usize {
        self.max_batch
    }

    /// Returns the number of samples of one submission.
    #[must_use]
    pub fn chunk(&self) -> usize {
        self.chunk
    }

    /// Returns whether one cut holds the streams of a sample.
    pub(crate) fn has_one_cut(&self) -> bool {
        self.cuts.len() == 1
    }

    /// Returns the number of buffers of the weights.
    #[must_use]
    pub fn n_blocks(&self) -> usize {
        self.weights.len()
    }

    /// Replaces the weights by packed streams, `[neuron][input][word]`.
    ///
    /// # Errors
    /// As for [`Self::from_words`]; the weights are then unchanged, or unspecified if the device
    /// failed midway.
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

    /// Replaces the weights by streams that the device draws: weight (j, i) at row `first.row + j`,
    /// unit `first.unit + i`.
    ///
    /// # Errors
    /// As for [`Self::set_words`].
    pub fn set_thresholds(&mut self, weights: &[Threshold], first: StreamAddress) -> Result<()> {
        self.draw(weights, first, Cancel::NEVER)
    }

    fn draw(
        &mut self,
        weights: &[Threshold],
        first: StreamAddress,
        cancel: Cancel<'_>,
    ) -> Result<()> {
        let (n_inputs, n_neurons) = (self.shape.n_inputs(), self.shape.n_neurons());
        let (expected, actual) = (self.shape.n_weights(), weights.len());
        if expected != actual {
            return Err(aleatron_core::Error::Mismatch {
                what: Quantity::Weights,
                expected,
                actual,
            }
            .into());
        }
        check_address(first, n_neurons, n_inputs)?;
        for (block, buffer) in &self.weights {
            let length = self.shape.length();
            encode_block(&self.context, weights, n_inputs, block, length, first, buffer, cancel)?;
        }
        Ok(())
    }

    /// Returns the packed weight streams, `[neuron][input][word]`, read back.
    ///
    /// # Errors
    /// Returns errors of the device.
    pub fn words(&self) -> Result<Vec<u64>> {
        let mut words: Vec<u64> =
            memory::zeros(self.shape.weight_words() as u128, Quantity::Weights)?;
        let row_words = 2 * self.shape.row_words();
        for (block, buffer) in &self.weights {
            scatter(&buffer.read()?, row_words, block, bytemuck::cast_slice_mut(&mut words));
        }
        Ok(words)
    }

    /// Counts a batch, `[sample][neuron]`. `inputs` holds a threshold per sample and input; the
    /// stream of input i of sample s is drawn at row `first.row + s`, unit `first.unit + i`.
    ///
    /// # Errors
    /// Returns [`aleatron_core::Error::Ragged`] unless the inputs are whole samples,
    /// [`Error::TooLarge`] if a counter cannot address a row, and errors of the device.
    pub fn counts(&self, inputs: &[Threshold], first: StreamAddress) -> Result<Vec<u64>> {
        let source = ThresholdSource::Slice(inputs);
        self.counts_with(Inputs::Thresholds { source, first }, CountOptions::default())
    }

    /// Counts `n_samples` samples whose thresholds `fill` appends on demand, some samples at a time
    /// and in order, while the device counts the previous ones.
    ///
    /// # Errors
    /// As for [`Self::counts`], and errors of `fill`.
    pub fn counts_filled(
        &self,
        n_samples: usize,
        first: StreamAddress,
        mut fill: impl FnMut(Range<usize>, &mut Vec<Threshold>) -> Result<()>,
    ) -> Result<Vec<u64>> {
        let source = ThresholdSource::Filled { n_samples, fill: &mut fill };
        self.counts_with(Inputs::Thresholds { source, first }, CountOptions::default())
    }

    /// Counts a batch of packed input streams, `[sample][input][word]`.
    ///
    /// # Errors
    /// Returns [`aleatron_core::Error`] if the words are not whole samples or have ones beyond the
    /// length, and errors of the device.
    pub fn counts_of_streams(&self, words: &[u64]) -> Result<Vec<u64>> {
        self.counts_with(Inputs::Streams(words), CountOptions::default())
    }

    /// Counts a batch, `[sample][neuron]`, optionally with timed kernels or cancellation between
    /// chunks.
    ///
    /// # Errors
    /// As for [`Self::counts`], [`Self::counts_filled`] and [`Self::counts_of_streams`], and
    /// [`aleatron_core::Error::Cancelled`].
    pub fn counts_with(&self, inputs: Inputs<'_>, options: CountOptions<'_>) -> Result<Vec<u64>> {
        let shape = &self.shape;
        let n_samples = inputs.n_samples(shape.n_inputs(), shape.length())?;
        let n_counts = n_samples as u128 * shape.n_neurons() as u128;
        let counts = memory::with_capacity(n_counts, Quantity::Counts)?;
        let mut run = DenseRun { layer: self, inputs, filled: Vec::new(), counts };
        self.sets.run(n_samples, self.chunk, options, || self.new_set(), &mut run)?;
        Ok(run.counts)
    }

    /// Returns whether counts exceed 32 bits.
    pub(crate) fn is_wide(&self) -> bool {
        buffers::is_wide(self.shape.n_inputs(), self.shape.length())
    }

    pub(crate) fn count_words(&self, n_samples: usize) -> usize {
        n_samples * self.shape.n_neurons() * if self.is_wide() { 2 } else { 1 }
    }

    /// Adds the device's counts to the layer's counts: ones of AND as they are, ones of XOR
    /// subtracted from all bits.
    fn decode(&self, words: &[u32], counts: &mut Vec<u64>) {
        let whole = buffers::widen(words, self.is_wide());
        match self.shape.polarity() {
            Polarity::Unipolar | Polarity::Signed => counts.extend(whole),
            Polarity::Bipolar => {
                let all = self.shape.n_inputs() as u64 * self.shape.length().bits() as u64;
                counts.extend(whole.map(|differing| all - differing));
            }
        }
    }

    fn record_counts(
        &self,
        recorder: &mut Recorder<'_>,
        choice: KernelChoice,
        cut: Cut,
        streams: BufferView<'_>,
        target: &Target<'_>,
    ) -> Result<()> {
        for (block, weights) in self.weights.iter().filter(|(block, _)| block.cut == cut) {
            launch::record(recorder, choice, block, weights.view(), streams, target)?;
        }
        Ok(())
    }

    /// Returns the memory of idle calls to the pool of the device.
    pub(crate) fn release(&self) {
        self.sets.clear();
    }

    /// Returns the number of words of the streams of `n_samples` samples, a cut at a time.
    pub(crate) fn stream_words(&self, n_samples: usize) -> usize {
        n_samples * self.cuts.iter().map(|cut| cut.stride).max().unwrap_or(0)
    }

    /// Records the counts of `n_samples` samples. `encode` records the streams of a cut of all
    /// samples.
    pub(crate) fn record_resident(
        &self,
        recorder: &mut Recorder<'_>,
        streams: BufferView<'_>,
        counts: BufferView<'_>,
        n_samples: usize,
        encode: &dyn Fn(&mut Recorder<'_>, Cut) -> Result<()>,
    ) -> Result<()> {
        let choice = self.choice.resolve(self.shape.n_neurons(), n_samples);
        let mode = choice.count_mode(self.cuts.len());
        let counts = counts.part(0, self.count_words(n_samples))?;
        if mode == CountMode::Add {
            recorder.clear(counts)?;
        }
        let (n_neurons, polarity) = (self.shape.n_neurons(), self.shape.polarity());
        let target = Target { counts, n_neurons, n_samples, polarity, wide: self.is_wide(), mode };
        for &cut in &self.cuts {
            encode(recorder, cut)?;
            self.record_counts(recorder, choice, cut, streams, &target)?;
        }
        Ok(())
    }
}

/// State of one in-flight call.
struct DenseRun<'l, 'i> {
    layer: &'l GpuDense,
    inputs: Inputs<'i>,
    filled: Vec<Threshold>,
    counts: Vec<u64>,
}

impl ChunkRun for DenseRun<'_, '_> {
    fn submit(
        &mut self,
        buffers: &mut BufferSet,
        samples: Range<usize>,
        mut profiler: Option<&mut Profiler>,
    ) -> Result<Submission> {
        let GpuDense { context, shape, cuts, .. } = self.layer;
        let n = samples.len();
        let choice = self.layer.choice.resolve(shape.n_neurons(), n);
        let mode = choice.count_mode(cuts.len());
        if let Inputs::Thresholds { source, .. } = &mut self.inputs {
            let thresholds = source.of(samples.clone(), shape.n_inputs(), &mut self.filled)?;
            encode::pack(thresholds, &mut buffers.packed);
            buffers.send()?;
        }
        let mut recorder = context.recorder(profiler.as_deref_mut())?;
        let n_words = self.layer.count_words(n);
        let target = Target {
            counts: buffers.counts(&mut recorder, n_words, mode)?,
            n_neurons: shape.n_neurons(),
            n_samples: n,
            polarity: shape.polarity(),
            wide: self.layer.is_wide(),
            mode,
        };
        let (n_rows, n_units, stream) = (n, shape.n_inputs(), StreamWords::of(shape.length()));
        let first = self.inputs.first(samples.start)?;
        let thresholds = first.map(|_| buffers.thresholds(&mut recorder)).transpose()?;
        for &cut in cuts {
            if let (Some(first), Some(thresholds)) = (first, thresholds) {
                let part = Part { first, n_rows, n_units, cut, stream, out_base: 0 };
                encode::record(&mut recorder, &part, thresholds, buffers.work.view(), None)?;
            }
            if let Inputs::Streams(words) = self.inputs {
                // A write to a buffer precedes all commands of the next submission: one submission
                // per cut.
                recorder.submit()?;
                let block = Block { cut, first_row: samples.start, n_rows };
                let mut packed = Vec::new();
                gather(bytemuck::cast_slice(words), 2 * shape.row_words(), &block, &mut packed);
                buffers.work.write(0, &packed)?;
                recorder = context.recorder(profiler.as_deref_mut())?;
            }
            self.layer.record_counts(&mut recorder, choice, cut, buffers.work.view(), &target)?;
        }
        buffers.fetch(&mut recorder, n_words, mode)?;
        Ok(recorder.submit()?)
    }

    fn receive(&mut self, buffers: &mut BufferSet, n_samples: usize) -> Result<()> {
        let (layer, counts) = (self.layer, &mut self.counts);
        buffers.receive(layer.count_words(n_samples), |words| layer.decode(words, counts))
    }
}

/// Returns the largest number of samples whose thresholds, streams and counts each fit a binding.
fn largest_chunk(shape: &DenseShape, cuts: &[Cut], limit: u64) -> Result<usize> {
    let threshold_bytes = 4 * threshold_words(shape.n_inputs()) as u64;
    if threshold_bytes > limit {
        return Err(Error::TooLarge {
            what: Limit::ThresholdBytes,
            actual: threshold_bytes.into(),
            limit,
        });
    }
    let count_bytes = 8 * shape.n_neurons() as u64;
    if count_bytes > limit {
        return Err(Error::TooLarge { what: Limit::CountBytes, actual: count_bytes.into(), limit });
    }
    let location = "dense::largest_chunk, rows without words";
    let stream_bytes = cuts
        .iter()
        .map(|cut| 4 * cut.stride as u64)
        .max()
        .ok_or(Error::Internal { place: location })?;
    Ok(host_size(limit / stream_bytes.max(threshold_bytes).max(count_bytes)))
}

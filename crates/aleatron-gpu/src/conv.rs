//! Convolutions on a device, and signed dense layers, which are convolutions of one position: weights stay there, thresholds go in,
//! integer counts come out.
//!
//! The streams of a chunk of samples are encoded once. `conv.wgsl` gathers what lies under a kernel a tile at a time, in shared memory; no
//! other copy is made.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use aleatron_core::stream::check_words;
use aleatron_core::{ConvShape, Error as CoreError, Length, Polarity, Quantity, Threshold, memory};
use aleatron_device::{BufferView, GpuBuffer, GpuContext, Profiler, Recorder, Submission, grid};

use crate::buffers::{self, BufferSet, BufferSets, ChunkRun, CountMode, SetSizes, check_words_of, chunk_of};
use crate::encode::{self, Part, threshold_words};
use crate::error::{Error, Limit, Result, number};
use crate::inputs::{CountOptions, Inputs};
use crate::kernels::{ConvParams, StreamKernel};
use crate::partition::{Block, Cut, StreamWords, cuts, gather};

/// Channels and columns of one workgroup of `conv.wgsl`.
const TILE: usize = 64;

/// Words of a kernel that one dispatch counts, a multiple of two: all loops together take about one turn for each, and some software
/// devices silently stop at 65,535.
const DISPATCH_WORDS: usize = 1 << 15;

/// A convolution on a device.
#[derive(Debug)]
pub struct GpuConv {
    context: Arc<GpuContext>,
    shape: ConvShape,
    length: Length,
    polarity: Polarity,
    /// Streams by output channel and tap, and which are negative; one word where there are no signs.
    weights: GpuBuffer<u32>,
    signs: GpuBuffer<u32>,
    taps: GpuBuffer<[i32; 4]>,
    cut: Cut,
    /// Samples per submission.
    chunk: usize,
    sets: BufferSets,
}

impl GpuConv {
    /// A convolution of packed weight streams, `[channel][tap][word]`; of a signed one those of the magnitudes, and which of them are
    /// negative.
    ///
    /// # Errors
    /// [`CoreError`] for words or signs that are not those of the shape, [`Error::TooLarge`] for what no binding can hold, or what the
    /// device reports.
    pub fn from_words(
        context: &Arc<GpuContext>,
        shape: ConvShape,
        length: Length,
        polarity: Polarity,
        max_batch: usize,
        words: &[u64],
        negative: &[bool],
    ) -> Result<Self> {
        if max_batch == 0 {
            return Err(CoreError::Zero(Quantity::Samples).into());
        }
        check_words(words, shape.n_weights(), length)?;
        let expected = if polarity == Polarity::Signed { shape.n_weights() } else { 0 };
        check_signs(expected, negative)?;
        let limit = context.max_binding_bytes();
        check_binding(Limit::StreamBytes, words.len() as u128 * 8, limit)?;
        let stored = 2 * length.words();
        let sample_words = shape.n_inputs() as u128 * stored as u128;
        check_binding(Limit::StreamBytes, sample_words * 4, limit)?;
        let cut = match cuts(sample_words as usize, limit)?.as_slice() {
            &[cut] => cut,
            _ => {
                let actual = sample_words * 4;
                return Err(Error::TooLarge { what: Limit::StreamBytes, actual, limit });
            }
        };
        let weights = context.upload(bytemuck::cast_slice::<u64, u32>(words))?;
        let signs = context.upload(&packed_signs(negative))?;
        let taps = context.upload(&tap_offsets(&shape))?;
        let (context, sets) = (Arc::clone(context), BufferSets::default());
        let mut layer = Self { context, shape, length, polarity, weights, signs, taps, cut, chunk: 1, sets };
        // What a sample takes of each binding, in words.
        let widest =
            [cut.stride as u128, threshold_words(shape.n_inputs()) as u128, layer.count_words(1) as u128];
        let most = u128::from(limit) / 4 / widest.into_iter().max().unwrap_or(1);
        if most == 0 {
            let actual = 4 * layer.count_words(1) as u128;
            return Err(Error::TooLarge { what: Limit::CountBytes, actual, limit });
        }
        layer.chunk = usize::try_from(most).unwrap_or(usize::MAX).min(chunk_of(max_batch));
        layer.sets.keep(layer.new_set()?);
        Ok(layer)
    }

    fn new_set(&self) -> Result<BufferSet> {
        BufferSet::new(
            &self.context,
            SetSizes {
                thresholds: threshold_words(self.chunk * self.shape.n_inputs()),
                work: self.chunk * self.cut.stride,
                counts: self.count_words(self.chunk),
            },
        )
    }

    /// The shape.
    #[must_use]
    pub fn shape(&self) -> &ConvShape {
        &self.shape
    }

    /// The device.
    #[must_use]
    pub fn context(&self) -> &Arc<GpuContext> {
        &self.context
    }

    /// The samples of one submission.
    #[must_use]
    pub fn chunk(&self) -> usize {
        self.chunk
    }

    /// The words of a kernel.
    fn row_words(&self) -> usize {
        self.shape.kernel_weights() * 2 * self.length.words()
    }

    /// Whether what the device counts passes 32 bits: twice the bits of a kernel, where products have signs.
    fn is_wide(&self) -> bool {
        64 * self.row_words() as u128 > u128::from(u32::MAX)
    }

    fn count_words(&self, n_samples: usize) -> usize {
        n_samples * self.shape.n_outputs() * if self.is_wide() { 2 } else { 1 }
    }

    /// The counts of a batch, `[sample][channel][position]`; of a signed layer, for the streams of magnitudes and which of them are
    /// negative.
    ///
    /// # Errors
    /// [`CoreError::Ragged`] where the inputs are not whole samples, [`CoreError::Mismatch`] where there is not one sign for each,
    /// [`Error::TooLarge`] where a counter cannot name a row, [`CoreError::Cancelled`], or what the device reports.
    pub fn counts_with(
        &self,
        inputs: Inputs<'_>,
        negative: &[bool],
        options: CountOptions<'_>,
    ) -> Result<Vec<u64>> {
        let n_inputs = self.shape.n_inputs();
        let n_samples = inputs.n_samples(n_inputs, self.length)?;
        check_signs(if self.polarity == Polarity::Signed { n_samples * n_inputs } else { 0 }, negative)?;
        let n_counts = n_samples as u128 * self.shape.n_outputs() as u128;
        let counts = memory::with_capacity(n_counts, Quantity::Counts)?;
        let mut run = ConvRun { layer: self, inputs, negative, filled: Vec::new(), counts };
        self.sets.run(n_samples, self.chunk, options, || self.new_set(), &mut run)?;
        Ok(run.counts)
    }

    /// The time in which the kernel counts a chunk, for benchmarks: the mean of `repeats` dispatches that follow each other, after as many
    /// that are not timed. Devices lower their clock while they wait for the host, so that the dispatches of a call may be timed at a
    /// quarter of their speed.
    ///
    /// # Errors
    /// [`Error::Device`] where the device cannot time kernels, or what it reports.
    pub fn time_kernel(&self, repeats: u32) -> Result<Duration> {
        let buffers = self.new_set()?;
        let words: Vec<u32> =
            (0..self.chunk * self.cut.stride).map(|k| (k as u32).wrapping_mul(0x9E37_79B9)).collect();
        buffers.work.write(0, &words)?;
        let n_signs = if self.polarity == Polarity::Signed { self.chunk * self.shape.n_inputs() } else { 0 };
        let signs: Vec<bool> = words.iter().take(n_signs).map(|word| word >> 31 == 1).collect();
        let signs = self.context.upload(&packed_signs(&signs))?;
        let (n_words, mode) = (self.count_words(self.chunk), self.count_mode());
        let mut profiler = Profiler::new(&self.context)?;
        for _ in 0..2 {
            profiler.reset();
            let mut recorder = self.context.recorder(Some(&mut profiler))?;
            let counts = buffers.counts(&mut recorder, n_words, mode)?;
            for _ in 0..repeats {
                self.record_counts(&mut recorder, buffers.work.view(), signs.view(), counts, self.chunk)?;
            }
            recorder.submit()?;
            profiler.collect()?;
        }
        Ok(profiler.time_of("conv") / repeats.max(1))
    }

    /// Whether several dispatches make one count.
    fn count_mode(&self) -> CountMode {
        if self.row_words() > DISPATCH_WORDS || self.is_wide() { CountMode::Add } else { CountMode::Write }
    }

    fn record_counts(
        &self,
        recorder: &mut Recorder<'_>,
        streams: BufferView<'_>,
        signs: BufferView<'_>,
        counts: BufferView<'_>,
        n_samples: usize,
    ) -> Result<()> {
        let (shape, row_words, stored) = (&self.shape, self.row_words(), 2 * self.length.words());
        let is_signed = self.polarity == Polarity::Signed;
        // What the kernel indexes; it does not check itself.
        check_words_of(&self.weights.view(), shape.n_channels() as u64 * row_words as u64)?;
        check_words_of(&self.taps.view(), 4 * shape.kernel_weights() as u64)?;
        check_words_of(&streams, n_samples as u64 * self.cut.stride as u64)?;
        check_words_of(&counts, self.count_words(n_samples) as u64)?;
        if is_signed {
            check_words_of(&self.signs.view(), shape.n_weights() as u64)?;
            check_words_of(&signs, n_samples as u64 * shape.n_inputs() as u64)?;
        }
        let constants = [
            ("XOR", (self.polarity == Polarity::Bipolar).into()),
            ("SIGNED", is_signed.into()),
            ("ADD", (self.count_mode() == CountMode::Add).into()),
            ("WIDE", self.is_wide().into()),
        ];
        let pipeline = self.context.pipeline(&StreamKernel::Conv, &constants)?;
        let views = [self.weights.view(), streams, self.taps.view(), self.signs.view(), signs, counts];
        let bound = self.context.bind(&pipeline, &views)?;
        let n_columns = n_samples * shape.n_positions();
        let image = ImageParams::of(shape)?;
        for (first_channel, channels) in shape.groups() {
            let row_tiles = channels.len().div_ceil(TILE);
            let workgroups =
                grid(row_tiles as u64 * n_columns.div_ceil(TILE) as u64, self.context.info().max_workgroups)?;
            for begin in (0..row_words).step_by(DISPATCH_WORDS) {
                let end = (begin + DISPATCH_WORDS).min(row_words);
                let params = ConvParams {
                    n_rows: number(channels.len())?,
                    first_row: number(channels.start)?,
                    row_tiles: number(row_tiles)?,
                    n_columns: number(n_columns)?,
                    row_words: number(row_words)?,
                    stream_words: number(stored)?,
                    sample_words: number(self.cut.stride)?,
                    begin: number(begin)?,
                    end: number(end)?,
                    n_positions: image.n_positions,
                    row_positions: image.row_positions,
                    row_step: image.row_step,
                    column_step: image.column_step,
                    height: image.height,
                    width: image.width,
                    n_inputs: image.n_inputs,
                    first_input: number(first_channel)? * image.height * image.width,
                    stride: number(shape.n_outputs())?,
                    high: number(n_samples * shape.n_outputs())?,
                };
                let tiles = (row_tiles * n_columns.div_ceil(TILE)) as u64;
                let bytes = tiles * 8 * TILE as u64 * (end - begin) as u64;
                recorder.dispatch(&bound, &params, workgroups, bytes)?;
            }
        }
        Ok(())
    }

    /// Adds what the device counted to the layer's counts; see `conv.wgsl`.
    fn decode(&self, words: &[u32], counts: &mut Vec<u64>) {
        let whole = buffers::widen(words, self.is_wide());
        let bits = self.length.bits() as u64;
        let all: Vec<u64> = self.shape.fan_ins().iter().map(|&n| n as u64 * bits).collect();
        let all = all.iter().cycle();
        match self.polarity {
            Polarity::Unipolar => counts.extend(whole),
            Polarity::Bipolar => counts.extend(whole.zip(all).map(|(differing, all)| all - differing)),
            Polarity::Signed => {
                let complements = 32 * self.row_words() as u64;
                counts.extend(whole.zip(all).map(|(count, all)| (all + count).wrapping_sub(complements)));
            }
        }
    }
}

/// A call under way.
struct ConvRun<'l, 'i, 'n> {
    layer: &'l GpuConv,
    inputs: Inputs<'i>,
    negative: &'n [bool],
    filled: Vec<Threshold>,
    counts: Vec<u64>,
}

impl ChunkRun for ConvRun<'_, '_, '_> {
    fn submit(
        &mut self,
        buffers: &mut BufferSet,
        samples: Range<usize>,
        profiler: Option<&mut Profiler>,
    ) -> Result<Submission> {
        let GpuConv { context, shape, cut, length, .. } = self.layer;
        let (n, n_inputs, stream) = (samples.len(), shape.n_inputs(), StreamWords::of(*length));
        match &mut self.inputs {
            Inputs::Thresholds { source, .. } => {
                let thresholds = source.of(samples.clone(), n_inputs, &mut self.filled)?;
                encode::pack(thresholds, &mut buffers.packed);
                buffers.send()?;
            }
            Inputs::Streams(words) => {
                let block = Block { cut: *cut, first_row: samples.start, n_rows: n };
                let mut packed = Vec::new();
                gather(bytemuck::cast_slice(words), cut.words, &block, &mut packed);
                buffers.work.write(0, &packed)?;
            }
        }
        let signs = self.negative.get(samples.start * n_inputs..samples.end * n_inputs).unwrap_or_default();
        let signs = context.upload(&packed_signs(signs))?;
        let (n_words, mode) = (self.layer.count_words(n), self.layer.count_mode());
        let mut recorder = context.recorder(profiler)?;
        let counts = buffers.counts(&mut recorder, n_words, mode)?;
        if let Some(first) = self.inputs.first(samples.start) {
            let thresholds = buffers.thresholds(&mut recorder)?;
            let part = Part { first, n_rows: n, n_units: n_inputs, cut: *cut, stream, out_base: 0 };
            encode::record(&mut recorder, &part, thresholds, buffers.work.view(), None)?;
        }
        self.layer.record_counts(&mut recorder, buffers.work.view(), signs.view(), counts, n)?;
        buffers.fetch(&mut recorder, n_words, mode)?;
        Ok(recorder.submit()?)
    }

    fn receive(&mut self, buffers: &mut BufferSet, n_samples: usize) -> Result<()> {
        let (layer, counts) = (self.layer, &mut self.counts);
        buffers.receive(layer.count_words(n_samples), |words| layer.decode(words, counts))
    }
}

/// What kernels know of images and positions.
pub(crate) struct ImageParams {
    pub(crate) n_positions: u32,
    pub(crate) row_positions: u32,
    pub(crate) row_step: u32,
    pub(crate) column_step: u32,
    pub(crate) height: u32,
    pub(crate) width: u32,
    pub(crate) n_inputs: u32,
}

impl ImageParams {
    pub(crate) fn of(shape: &ConvShape) -> Result<Self> {
        let ([_, height, width], [_, _, row_positions]) = (shape.convolution().input, shape.output());
        let [row_step, column_step] = shape.windows().each_ref().map(|windows| windows.axis().stride);
        Ok(Self {
            n_positions: number(shape.n_positions())?,
            row_positions: number(row_positions)?,
            row_step: number(row_step)?,
            column_step: number(column_step)?,
            height: number(height)?,
            width: number(width)?,
            n_inputs: number(shape.n_inputs())?,
        })
    }
}

/// Of each tap: where the plane of its channel begins in its group, and its row and column from that of the position. All are below
/// 2^31: a padded axis is.
pub(crate) fn tap_offsets(shape: &ConvShape) -> Vec<[i32; 4]> {
    let ([_, rows, columns], [height, width]) = (shape.convolution().input, shape.convolution().kernel);
    let [top, left] = shape.convolution().padding.map(|[before, _]| before);
    let dilation = shape.windows().each_ref().map(|windows| windows.axis().dilation);
    let place = |at: usize, padding: usize| (at as i64 - padding as i64) as i32;
    (0..shape.kernel_weights())
        .map(|tap| {
            let (channel, row, column) = (tap / (height * width), tap / width % height, tap % width);
            let plane = (channel * rows * columns) as i32;
            [plane, place(row * dilation[0], top), place(column * dilation[1], left), 0]
        })
        .collect()
}

/// A word for each sign, and one at least: a binding is never empty.
fn packed_signs(negative: &[bool]) -> Vec<u32> {
    match negative {
        [] => vec![0; 4],
        negative => negative.iter().map(|&is_negative| is_negative.into()).collect(),
    }
}

fn check_signs(expected: usize, negative: &[bool]) -> Result<()> {
    let actual = negative.len();
    match expected == actual {
        true => Ok(()),
        false => Err(CoreError::Mismatch { what: Quantity::Signs, expected, actual }.into()),
    }
}

/// Checks that so many bytes fit a binding.
pub(crate) fn check_binding(what: Limit, actual: u128, limit: u64) -> Result<()> {
    match actual > limit.into() {
        false => Ok(()),
        true => Err(Error::TooLarge { what, actual, limit }),
    }
}

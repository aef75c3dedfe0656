//! Convolutions on a device, and signed dense layers, which are convolutions of one position:
//! weights are resident, thresholds are uploaded, integer counts are returned.
//!
//! The streams of a chunk of samples are encoded once. `conv.wgsl` gathers the inputs under a
//! kernel a tile at a time, in shared memory, without another copy.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use aleatron_core::program::InputSign;
use aleatron_core::stream::check_words;
use aleatron_core::{ConvShape, Error as CoreError, Length, Polarity, Quantity, Threshold, memory};
use aleatron_device::{
    BufferView, GpuBuffer, GpuContext, Profiler, Recorder, Submission, grid, size_u32,
};

use crate::buffers::{
    self, BufferSet, BufferSets, ChunkRun, CountMode, SetSizes, check_words_of, chunk_of,
};
use crate::encode::{self, Part, threshold_words};
use crate::error::{Error, Limit, Result, host_size};
use crate::inputs::{CountOptions, Inputs};
use crate::kernels::{ConvParams, StreamKernel};
use crate::partition::{Block, Cut, StreamWords, cuts, gather};

/// Number of threads of a workgroup of `conv.wgsl`.
const THREADS: u32 = 256;

/// Number of workgroups that fill a device: kernels are split to have about as many.
const WORKGROUPS: u64 = 1024;

/// The least number of turns of the loop of one workgroup: fewer are not worth their atomic
/// additions.
const LEAST_TURNS: usize = 16;

/// The largest number of turns of the loop of one workgroup: each has several turns of inner loops,
/// and some software devices silently stop at 65,535 in total.
const MOST_TURNS: usize = 1 << 12;

/// The shape of a workgroup of `conv.wgsl`: threads along channels and columns, each for four of
/// them, and the groups of four words that are in shared memory at a time. Only shapes that the
/// kernel supports exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ConvTile {
    side_y: u32,
    side_x: u32,
    depth: u32,
}

impl ConvTile {
    /// 64 channels by 64 columns.
    const SQUARE: Self = Self { side_y: 16, side_x: 16, depth: 4 };
    /// 32 channels by 128 columns.
    const WIDE: Self = Self { side_y: 8, side_x: 32, depth: 4 };
    /// 16 channels by 256 columns.
    const WIDEST: Self = Self { side_y: 4, side_x: 64, depth: 2 };
    /// 128 channels by 32 columns.
    const TALL: Self = Self { side_y: 32, side_x: 8, depth: 4 };
    /// 256 channels by 16 columns.
    const TALLEST: Self = Self { side_y: 64, side_x: 4, depth: 2 };

    /// Returns the shape that wastes the fewest counts.
    fn of(n_channels: usize, n_columns: usize) -> Self {
        match (n_channels, n_columns) {
            (..=16, 65..) => Self::WIDEST,
            (17..=32, 65..) => Self::WIDE,
            (65.., ..=16) => Self::TALLEST,
            (65.., 17..=32) => Self::TALL,
            _ => Self::SQUARE,
        }
    }

    const fn rows(self) -> u32 {
        4 * self.side_y
    }

    const fn columns(self) -> u32 {
        4 * self.side_x
    }

    /// Returns the number of four-word groups of one channel or column that a thread loads at a
    /// time, if `n` are in a tile.
    fn loads(self, n: u32) -> u32 {
        (n * self.depth / THREADS).max(1)
    }

    /// Returns the number of words of a kernel that one turn of the loop counts.
    const fn turn_words(self) -> usize {
        4 * self.depth as usize
    }

    /// Returns the shared memory of its workgroup in bytes.
    #[cfg(test)]
    const fn workgroup_bytes(self) -> u32 {
        24 * self.depth * (self.rows() + 1 + self.columns() + 1)
    }
}

/// The division of a batch into workgroups.
#[derive(Debug, Clone, Copy)]
struct ConvPlan {
    tile: ConvTile,
    row_tiles: usize,
    column_tiles: usize,
    /// Number of words of a kernel that one workgroup counts.
    split_words: usize,
    n_splits: usize,
}

impl ConvPlan {
    /// Returns the plan for one group of channels and the columns of a batch.
    fn new(n_channels: usize, n_columns: usize, row_words: usize) -> Self {
        let tile = ConvTile::of(n_channels, n_columns);
        let row_tiles = n_channels.div_ceil(tile.rows() as usize);
        let column_tiles = n_columns.div_ceil(tile.columns() as usize);
        let turns = row_words.div_ceil(tile.turn_words());
        let wanted = host_size(WORKGROUPS / (row_tiles as u64 * column_tiles as u64).max(1));
        let splits = wanted.min(turns / LEAST_TURNS).max(turns.div_ceil(MOST_TURNS)).max(1);
        let split_words = turns.div_ceil(splits) * tile.turn_words();
        Self {
            tile,
            row_tiles,
            column_tiles,
            split_words,
            n_splits: row_words.div_ceil(split_words),
        }
    }
}

/// A convolution on a device.
#[derive(Debug)]
pub struct GpuConv {
    context: Arc<GpuContext>,
    shape: ConvShape,
    length: Length,
    polarity: Polarity,
    /// Streams by output channel and tap, and their signs; one word if there are no signs.
    weights: GpuBuffer<u32>,
    signs: GpuBuffer<u32>,
    taps: GpuBuffer<[i32; 4]>,
    /// The number of negative weights of each output channel.
    n_negative: Vec<u64>,
    input_sign: InputSign,
    cut: Cut,
    /// Number of samples per submission.
    chunk: usize,
    sets: BufferSets,
}

impl GpuConv {
    /// Creates a convolution of packed weight streams, `[channel][tap][word]`; for a signed layer
    /// those of the magnitudes, with their signs.
    ///
    /// # Errors
    /// Returns [`CoreError`] for words or signs that do not match the shape, [`Error::TooLarge`]
    /// for sizes above that of a binding, and errors of the device.
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
        let cut = match cuts(host_size(sample_words), limit)?.as_slice() {
            &[cut] => cut,
            _ => {
                let actual = sample_words * 4;
                return Err(Error::TooLarge { what: Limit::StreamBytes, actual, limit });
            }
        };
        let weights = context.upload(bytemuck::cast_slice::<u64, u32>(words))?;
        let signs = context.upload(&packed_signs(negative))?;
        let taps = context.upload(&tap_offsets(&shape)?)?;
        let (context, sets) = (Arc::clone(context), BufferSets::default());
        let per_channel = negative.chunks(shape.kernel_weights());
        let n_negative =
            per_channel.map(|signs| signs.iter().filter(|sign| **sign).count() as u64).collect();
        let mut layer = Self {
            context,
            shape,
            length,
            polarity,
            weights,
            signs,
            taps,
            n_negative,
            input_sign: InputSign::Any,
            cut,
            chunk: 1,
            sets,
        };
        // The size of a sample in each binding, in words.
        let thresholds = threshold_words(shape.n_inputs()) as u128 + layer.sign_words(1) as u128;
        let widest = [cut.stride as u128, thresholds, layer.count_words(1) as u128];
        let [streams, thresholds, counts] = widest;
        // Signs share a buffer with the streams, and begin at an aligned offset.
        let room = u128::from(layer.context.info().max_buffer_bytes / 4).saturating_sub(128);
        let most = (u128::from(limit) / 4 / streams.max(thresholds).max(counts))
            .min(room / (streams + layer.sign_words(1) as u128));
        if most == 0 {
            let actual = 4 * layer.count_words(1) as u128;
            return Err(Error::TooLarge { what: Limit::CountBytes, actual, limit });
        }
        layer.chunk = host_size(most).min(chunk_of(max_batch));
        layer.sets.keep(layer.new_set()?);
        Ok(layer)
    }

    /// Returns the same convolution for inputs of this sign. Signs of non-negative inputs are not
    /// read.
    pub(crate) fn with_input_sign(mut self, input_sign: InputSign) -> Self {
        self.input_sign = input_sign;
        self
    }

    /// Returns whether signs of inputs are read.
    pub(crate) fn has_input_signs(&self) -> bool {
        self.polarity == Polarity::Signed && self.input_sign == InputSign::Any
    }

    /// Returns the memory of idle calls to the pool of the device.
    pub(crate) fn release(&self) {
        self.sets.clear();
    }

    /// Returns the words of the streams of a sample.
    pub(crate) fn stream_cut(&self) -> Cut {
        self.cut
    }

    /// Returns the number of words of the signs of inputs.
    fn sign_words(&self, n_samples: usize) -> usize {
        if self.has_input_signs() { n_samples * self.shape.n_inputs() } else { 0 }
    }

    /// Returns the first word after the streams of a chunk at which signs can begin.
    fn first_sign(&self) -> usize {
        let alignment = host_size(self.context.binding_alignment() / 4).max(1);
        (self.chunk * self.cut.stride).next_multiple_of(alignment)
    }

    fn new_set(&self) -> Result<BufferSet> {
        BufferSet::new(
            &self.context,
            SetSizes {
                // Signs are sent with the thresholds and stored after the streams.
                thresholds: threshold_words(self.chunk * self.shape.n_inputs())
                    + self.sign_words(self.chunk),
                work: self.first_sign() + self.sign_words(self.chunk).max(4),
                counts: self.count_words(self.chunk),
            },
        )
    }

    /// Returns the shape.
    #[must_use]
    pub fn shape(&self) -> &ConvShape {
        &self.shape
    }

    /// Returns the device.
    #[must_use]
    pub fn context(&self) -> &Arc<GpuContext> {
        &self.context
    }

    /// Returns the number of samples of one submission.
    #[must_use]
    pub fn chunk(&self) -> usize {
        self.chunk
    }

    /// Returns the number of words of a kernel.
    pub(crate) fn row_words(&self) -> usize {
        self.shape.kernel_weights() * 2 * self.length.words()
    }

    /// Returns whether the device's counts exceed 32 bits: twice the bits of a kernel, if products
    /// have signs.
    pub(crate) fn is_wide(&self) -> bool {
        64 * self.row_words() as u128 > u128::from(u32::MAX)
    }

    pub(crate) fn count_words(&self, n_samples: usize) -> usize {
        n_samples * self.shape.n_outputs() * if self.is_wide() { 2 } else { 1 }
    }

    /// Counts a batch, `[sample][channel][position]`; for a signed layer, from the streams of
    /// magnitudes and their signs.
    ///
    /// # Errors
    /// Returns [`CoreError::Ragged`] unless the inputs are whole samples, [`CoreError::Mismatch`]
    /// unless there is one sign for each, [`Error::TooLarge`] if a counter cannot address a row,
    /// [`CoreError::Cancelled`], and errors of the device.
    pub fn counts_with(
        &self,
        inputs: Inputs<'_>,
        negative: &[bool],
        options: CountOptions<'_>,
    ) -> Result<Vec<u64>> {
        let n_inputs = self.shape.n_inputs();
        let n_samples = inputs.n_samples(n_inputs, self.length)?;
        check_signs(if self.has_input_signs() { n_samples * n_inputs } else { 0 }, negative)?;
        let n_counts = n_samples as u128 * self.shape.n_outputs() as u128;
        let counts = memory::with_capacity(n_counts, Quantity::Counts)?;
        let mut run = ConvRun { layer: self, inputs, negative, filled: Vec::new(), counts };
        self.sets.run(n_samples, self.chunk, options, || self.new_set(), &mut run)?;
        Ok(run.counts)
    }

    /// Measures the time of the kernel for a chunk, for benchmarks: the mean of `repeats`
    /// consecutive dispatches, after as many untimed ones. Devices lower their clock while they
    /// wait for the host, so that the dispatches of a call may be timed at a quarter of their
    /// speed.
    ///
    /// # Errors
    /// Returns [`Error::Device`] if the device cannot time kernels, and its errors.
    pub fn time_kernel(&self, repeats: u32) -> Result<Duration> {
        let buffers = self.new_set()?;
        let mixed = (0..).map(|k: u32| k.wrapping_mul(0x9E37_79B9));
        let words: Vec<u32> = mixed.take(self.chunk * self.cut.stride).collect();
        buffers.work.write(0, &words)?;
        let n_signs = if self.has_input_signs() { self.chunk * self.shape.n_inputs() } else { 0 };
        let signs: Vec<bool> = words.iter().take(n_signs).map(|word| word >> 31 == 1).collect();
        let signs = self.context.upload(&packed_signs(&signs))?;
        let (n_words, mode) = (self.count_words(self.chunk), self.count_mode(self.chunk));
        let mut profiler = Profiler::new(&self.context)?;
        for _ in 0..2 {
            profiler.reset();
            let mut recorder = self.context.recorder(Some(&mut profiler))?;
            let counts = buffers.counts(&mut recorder, n_words, mode)?;
            let streams = buffers.work.view_of(0, self.chunk * self.cut.stride)?;
            for _ in 0..repeats {
                self.record_counts(&mut recorder, streams, signs.view(), counts, self.chunk)?;
            }
            recorder.submit()?;
            profiler.collect()?;
        }
        Ok(profiler.time_of("conv") / repeats.max(1))
    }

    fn plan(&self, n_samples: usize) -> ConvPlan {
        let n_channels = self.shape.groups().next().map_or(1, |(_, channels)| channels.len());
        ConvPlan::new(n_channels, n_samples * self.shape.n_positions(), self.row_words())
    }

    /// Returns whether several workgroups add to one count of a batch.
    pub(crate) fn count_mode(&self, n_samples: usize) -> CountMode {
        if self.plan(n_samples).n_splits > 1 || self.is_wide() {
            CountMode::Add
        } else {
            CountMode::Write
        }
    }

    pub(crate) fn record_counts(
        &self,
        recorder: &mut Recorder<'_>,
        streams: BufferView<'_>,
        signs: BufferView<'_>,
        counts: BufferView<'_>,
        n_samples: usize,
    ) -> Result<()> {
        let (shape, row_words, stored) = (&self.shape, self.row_words(), 2 * self.length.words());
        if n_samples == 0 {
            return Ok(());
        }
        // Sizes that the kernel indexes; it does not check itself.
        check_words_of(&self.weights.view(), shape.n_channels() as u64 * row_words as u64)?;
        check_words_of(&self.taps.view(), 4 * shape.kernel_weights() as u64)?;
        check_words_of(&streams, n_samples as u64 * self.cut.stride as u64)?;
        check_words_of(&counts, self.count_words(n_samples) as u64)?;
        let (is_signed, has_input_signs) =
            (self.polarity == Polarity::Signed, self.has_input_signs());
        if is_signed {
            check_words_of(&self.signs.view(), shape.n_weights() as u64)?;
        }
        if has_input_signs {
            check_words_of(&signs, n_samples as u64 * shape.n_inputs() as u64)?;
        }
        let ConvPlan { tile, row_tiles, column_tiles, split_words, n_splits } =
            self.plan(n_samples);
        let constants = [
            ("XOR", (self.polarity == Polarity::Bipolar).into()),
            ("SIGNED", is_signed.into()),
            ("INPUT_SIGNS", has_input_signs.into()),
            ("FOURS", stored.is_multiple_of(4).into()),
            ("ADD", (self.count_mode(n_samples) == CountMode::Add).into()),
            ("WIDE", self.is_wide().into()),
            ("SIDE_Y", tile.side_y.into()),
            ("SIDE_X", tile.side_x.into()),
            ("DEPTH", tile.depth.into()),
            ("ROW_LOADS", tile.loads(tile.rows()).into()),
            ("COLUMN_LOADS", tile.loads(tile.columns()).into()),
        ];
        let pipeline = self.context.pipeline(&StreamKernel::Conv, &constants)?;
        let views =
            [self.weights.view(), streams, self.taps.view(), self.signs.view(), signs, counts];
        let bound = self.context.bind(&pipeline, &views)?;
        let n_columns = n_samples * shape.n_positions();
        let image = ImageParams::of(shape)?;
        for (first_channel, channels) in shape.groups() {
            let n_workgroups = row_tiles as u64 * column_tiles as u64 * n_splits as u64;
            let params = ConvParams {
                n_rows: size_u32(channels.len(), "number of rows")?,
                first_row: size_u32(channels.start, "first row")?,
                row_tiles: size_u32(row_tiles, "row tiles")?,
                n_columns: size_u32(n_columns, "number of columns")?,
                column_tiles: size_u32(column_tiles, "column tiles")?,
                row_words: size_u32(row_words, "row words")?,
                stream_words: size_u32(stored, "stream words")?,
                sample_words: size_u32(self.cut.stride, "sample words")?,
                split_words: size_u32(split_words, "words of a part of a kernel")?,
                n_splits: size_u32(n_splits, "parts of a kernel")?,
                n_positions: image.n_positions,
                row_positions: image.row_positions,
                row_step: image.row_step,
                column_step: image.column_step,
                height: image.height,
                width: image.width,
                n_inputs: image.n_inputs,
                first_input: image.first_input(first_channel)?,
                stride: size_u32(shape.n_outputs(), "stride")?,
                high: size_u32(n_samples as u128 * shape.n_outputs() as u128, "number of counts")?,
            };
            let lines = u64::from(tile.rows() + tile.columns());
            let bytes = row_tiles as u64 * column_tiles as u64 * 4 * lines * row_words as u64;
            let workgroups = grid(n_workgroups, self.context.info().max_workgroups)?;
            recorder.dispatch(&bound, &params, workgroups, bytes)?;
        }
        Ok(())
    }

    /// Returns the terms added to the device's counts of a signed layer, modulo 2^64, by channel
    /// and position; see `conv.wgsl`.
    pub(crate) fn bases(&self) -> Vec<u64> {
        let bits = self.length.bits() as u64;
        let fan_ins = self.shape.fan_ins();
        let all = fan_ins.iter().map(|&n| n as u64 * bits);
        if self.has_input_signs() {
            let complements = 32 * self.row_words() as u64;
            return all.map(|all| all.wrapping_sub(complements)).collect();
        }
        // A negative weight complements every stored bit of its stream.
        let stream_bits = 64 * self.length.words() as u64;
        let channels =
            self.n_negative.iter().flat_map(|n| std::iter::repeat_n(n, self.shape.n_positions()));
        all.cycle().zip(channels).map(|(all, n)| all.wrapping_sub(n * stream_bits)).collect()
    }

    /// Adds the device's counts to the layer's counts; see `conv.wgsl`.
    fn decode(&self, words: &[u32], counts: &mut Vec<u64>) {
        let whole = buffers::widen(words, self.is_wide());
        let bits = self.length.bits() as u64;
        let all: Vec<u64> = self.shape.fan_ins().iter().map(|&n| n as u64 * bits).collect();
        let all = all.iter().cycle();
        match self.polarity {
            Polarity::Unipolar => counts.extend(whole),
            Polarity::Bipolar => {
                counts.extend(whole.zip(all).map(|(differing, all)| all - differing))
            }
            Polarity::Signed => {
                let bases = self.bases();
                counts.extend(
                    whole.zip(bases.iter().cycle()).map(|(count, base)| base.wrapping_add(count)),
                );
            }
        }
    }
}

/// State of one in-flight call.
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
        buffers.packed.clear();
        match &mut self.inputs {
            Inputs::Thresholds { source, .. } => {
                let thresholds = source.of(samples.clone(), n_inputs, &mut self.filled)?;
                encode::pack(thresholds, &mut buffers.packed);
            }
            Inputs::Streams(words) => {
                let block = Block { cut: *cut, first_row: samples.start, n_rows: n };
                let mut packed = Vec::new();
                gather(bytemuck::cast_slice(words), cut.words, &block, &mut packed);
                buffers.work.write(0, &packed)?;
            }
        }
        let n_thresholds = buffers.packed.len();
        if self.layer.has_input_signs() {
            let signs = &self.negative[samples.start * n_inputs..samples.end * n_inputs];
            buffers.packed.extend(signs.iter().map(|&is_negative| u32::from(is_negative)));
        }
        if !buffers.packed.is_empty() {
            buffers.send()?;
        }
        let (n_words, mode) = (self.layer.count_words(n), self.layer.count_mode(n));
        let mut recorder = context.recorder(profiler)?;
        let counts = buffers.counts(&mut recorder, n_words, mode)?;
        let streams = buffers.work.view_of(0, self.layer.chunk * cut.stride)?;
        let signs =
            buffers.work.view_of(self.layer.first_sign(), self.layer.sign_words(n).max(4))?;
        if self.layer.has_input_signs() {
            buffers.copy_sent(&mut recorder, n_thresholds, signs)?;
        }
        if let Some(first) = self.inputs.first(samples.start)? {
            let thresholds = buffers.thresholds(&mut recorder)?;
            let part = Part { first, n_rows: n, n_units: n_inputs, cut: *cut, stream, out_base: 0 };
            encode::record(&mut recorder, &part, thresholds, streams, None)?;
        }
        self.layer.record_counts(&mut recorder, streams, signs, counts, n)?;
        buffers.fetch(&mut recorder, n_words, mode)?;
        Ok(recorder.submit()?)
    }

    fn receive(&mut self, buffers: &mut BufferSet, n_samples: usize) -> Result<()> {
        let (layer, counts) = (self.layer, &mut self.counts);
        buffers.receive(layer.count_words(n_samples), |words| layer.decode(words, counts))
    }
}

/// The geometry of images and positions for kernels.
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
    /// Returns the first input of the planes from a channel on.
    pub(crate) fn first_input(&self, channel: usize) -> Result<u32> {
        let first = channel as u128 * u128::from(self.height) * u128::from(self.width);
        Ok(size_u32(first, "first input of a group")?)
    }

    pub(crate) fn of(shape: &ConvShape) -> Result<Self> {
        let ([_, height, width], [_, _, row_positions]) =
            (shape.convolution().input, shape.output());
        let [row_step, column_step] =
            shape.windows().each_ref().map(|windows| windows.axis().stride);
        Ok(Self {
            n_positions: size_u32(shape.n_positions(), "number of positions")?,
            row_positions: size_u32(row_positions, "row positions")?,
            row_step: size_u32(row_step, "row step")?,
            column_step: size_u32(column_step, "column step")?,
            height: size_u32(height, "height")?,
            width: size_u32(width, "width")?,
            n_inputs: size_u32(shape.n_inputs(), "number of inputs")?,
        })
    }
}

/// Returns, for each tap, the offset of the plane of its channel in its group, and its row and
/// column relative to the position. All are below 2^31, since a padded axis is.
///
/// # Errors
/// Returns [`Error::TooLarge`] for planes of a group that begin above 2^31 inputs.
pub(crate) fn tap_offsets(shape: &ConvShape) -> Result<Vec<[i32; 4]>> {
    let ([_, rows, columns], [height, width]) =
        (shape.convolution().input, shape.convolution().kernel);
    let [top, left] = shape.convolution().padding.map(|[before, _]| before);
    let dilation = shape.windows().each_ref().map(|windows| windows.axis().dilation);
    let offset = |at: usize, padding: usize| {
        i32::try_from(at as i128 - padding as i128).map_err(|_| Error::TooLarge {
            what: Limit::Number,
            actual: at as u128,
            limit: u64::from(i32::MAX.unsigned_abs()),
        })
    };
    (0..shape.kernel_weights())
        .map(|tap| {
            let (channel, row, column) =
                (tap / (height * width), tap / width % height, tap % width);
            let plane = offset(channel * rows * columns, 0)?;
            Ok([plane, offset(row * dilation[0], top)?, offset(column * dilation[1], left)?, 0])
        })
        .collect()
}

/// Returns one word for each sign, and at least one: a binding is never empty.
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

/// Checks that a size in bytes fits a binding.
pub(crate) fn check_binding(what: Limit, actual: u128, limit: u64) -> Result<()> {
    match actual > limit.into() {
        false => Ok(()),
        true => Err(Error::TooLarge { what, actual, limit }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TILES: [ConvTile; 5] =
        [ConvTile::SQUARE, ConvTile::WIDE, ConvTile::WIDEST, ConvTile::TALL, ConvTile::TALLEST];

    #[test]
    fn tiles_fit_the_least_shared_memory_and_load_every_word() {
        for tile in TILES {
            assert!(tile.workgroup_bytes() <= 16_384, "{tile:?}: {}", tile.workgroup_bytes());
            assert_eq!(tile.side_x * tile.side_y, THREADS, "{tile:?}");
            for n in [tile.rows(), tile.columns()] {
                let loads = tile.loads(n);
                assert!(tile.depth.is_multiple_of(loads), "{tile:?}");
                assert!(
                    n * (tile.depth / loads) <= THREADS,
                    "{tile:?}: more lines than threads load"
                );
            }
        }
    }

    #[test]
    fn splits_cover_a_kernel_within_loop_bounds() {
        for (n_channels, n_columns) in
            [(500, 1), (500, 64), (16, 1 << 16), (1, 1), (64, 4096), (4096, 4096)]
        {
            for row_words in [2_usize, 108, 1152, 32_000, 1 << 25] {
                let plan = ConvPlan::new(n_channels, n_columns, row_words);
                let turns = plan.split_words / plan.tile.turn_words();
                assert!(
                    plan.split_words.is_multiple_of(plan.tile.turn_words()) && turns <= MOST_TURNS
                );
                assert!(plan.n_splits * plan.split_words >= row_words);
                assert!((plan.n_splits - 1) * plan.split_words < row_words, "{plan:?}");
            }
        }
        // A few samples of a large layer still fill a device.
        let plan = ConvPlan::new(500, 64, 32_000);
        assert!(plan.row_tiles * plan.column_tiles * plan.n_splits >= 500, "{plan:?}");
    }
}

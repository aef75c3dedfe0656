//! Layers whose streams share sequences, counted from tables instead of bits; see
//! [`aleatron_core::generator`].
//!
//! With one pair of sequences for all, the table of all products is on the device and a count is
//! one look-up per weight. With one pair per input, the device first computes a row of that table
//! for each sample and input. If bits are needed, [`GpuDense`](crate::GpuDense) counts the streams.

use std::ops::Range;
use std::sync::Arc;

use aleatron_core::generator::{CountTable, Pairing, PrefixCounts, Sequence, Sharing, Width};
use aleatron_core::{DenseShape, Error as CoreError, Polarity, Quantity, memory};
use aleatron_device::{
    BufferView, GpuBuffer, GpuContext, Profiler, Recorder, Submission, grid, size_u32,
};

use crate::buffers::{
    BufferSet, BufferSets, ChunkRun, CountMode, SetSizes, check_words_of, chunk_of,
};
use crate::conv_table::SignedTable;
use crate::error::{Error, Limit, Result, host_size};
use crate::inputs::{CountOptions, ThresholdSource};
use crate::kernels::{StreamKernel, TableCountParams, TableRowsParams};

/// Number of neurons of one workgroup of `table_count.wgsl`.
const NEURONS: u32 = 32;

/// Number of inputs of one dispatch of `table_count.wgsl`: eight threads share them, and some
/// software devices silently stop at 65,535 turns of all loops.
const DISPATCH_INPUTS: usize = 1 << 18;

/// Number of positions of one dispatch of `table_rows.wgsl`: 64 threads share them.
const DISPATCH_POSITIONS: usize = 1 << 21;

/// A dense layer with shared sequences on a device.
#[derive(Debug)]
pub struct GpuTabled {
    context: Arc<GpuContext>,
    shape: DenseShape,
    input_width: Width,
    row_len: usize,
    rows: Rows,
    /// Thresholds by input and neuron, for as many neurons as a binding holds.
    blocks: Vec<(Range<usize>, GpuBuffer<u32>)>,
    max_batch: usize,
    /// Number of samples per submission.
    chunk: usize,
    sets: BufferSets,
}

#[derive(Debug)]
enum Rows {
    OneForAll(GpuBuffer<u32>),
    OnePerInput { inputs: GpuBuffer<u32>, weights: GpuBuffer<u32>, weight_ones: GpuBuffer<u32> },
}

impl GpuTabled {
    /// Creates the layer of `shape` with weights of the given thresholds, row-major by neuron.
    /// Buffers are allocated for batches of up to `max_batch`.
    ///
    /// # Errors
    /// Returns [`CoreError::Mismatch`] for the number of weights, [`CoreError::OutOfRange`] with
    /// the index of a threshold above `2^W`, [`CoreError::TooLarge`] for a sequence too wide for a
    /// table or a missing sequence, and for [`Sharing::OnePerStream`], which only bit-by-bit
    /// counting supports; [`Error::TooLarge`] if a part exceeds a binding, and errors of the
    /// device.
    pub fn new(
        context: &Arc<GpuContext>,
        shape: DenseShape,
        max_batch: usize,
        pairing: &Pairing,
        thresholds: &[u64],
    ) -> Result<Self> {
        let (n, m) = (shape.n_inputs(), shape.n_neurons());
        if max_batch == 0 {
            return Err(CoreError::Zero(Quantity::Samples).into());
        }
        if thresholds.len() != shape.n_weights() {
            let (expected, actual) = (shape.n_weights(), thresholds.len());
            return Err(CoreError::Mismatch { what: Quantity::Weights, expected, actual }.into());
        }
        let is_signed = shape.polarity() == Polarity::Signed;
        pairing.weights.width().check_thresholds(thresholds, shape.polarity(), Quantity::Weight)?;
        let weight_len = host_size(pairing.weights.width().one()) + 1;
        let row_len = if is_signed { 2 * weight_len } else { weight_len };
        let rows = match pairing.sharing {
            Sharing::OneForAll => {
                let (x, w) = (&pairing.inputs, &pairing.weights);
                let table = CountTable::new(x, w, shape.length(), shape.polarity())?;
                let signs = if is_signed { 2 } else { 1 };
                let entries = signs * (u128::from(x.width().one()) + 1) * row_len as u128;
                check_binding(context, Limit::TableBytes, entries)?;
                let widths = [x.width(), w.width()];
                let table = SignedTable::new(&table, widths, shape.length(), shape.polarity())?;
                Rows::OneForAll(context.upload(&table.entries)?)
            }
            // Rows that the device computes for each sample and input have no signs.
            _ if is_signed => {
                let (actual, limit) = (shape.n_inputs() as u128, 1);
                return Err(CoreError::TooLarge { what: Quantity::Sequence, actual, limit }.into());
            }
            Sharing::OnePerInput => Self::sequences(context, &shape, pairing, row_len)?,
            Sharing::OnePerStream => {
                let (actual, limit) = (shape.n_weights() as u128, n as u128);
                return Err(CoreError::TooLarge { what: Quantity::Sequence, actual, limit }.into());
            }
        };
        check_binding(context, Limit::ThresholdBytes, n as u128)?;
        check_binding(context, Limit::CountBytes, 2 * m as u128)?;
        let per_block = (host_size(context.max_binding_bytes()) / (4 * n)).clamp(1, m);
        let mut blocks = Vec::new();
        for start in (0..m).step_by(per_block) {
            let neurons = start..(start + per_block).min(m);
            let index_of =
                |threshold: u64| SignedTable::index_of(threshold, pairing.weights.width());
            let mut block =
                memory::with_capacity(n as u128 * neurons.len() as u128, Quantity::Weights)?;
            for (i, j) in (0..n).flat_map(|i| neurons.clone().map(move |j| (i, j))) {
                block.push(index_of(thresholds[j * n + i])?);
            }
            blocks.push((neurons, context.upload(&block)?));
        }
        let (context, input_width) = (Arc::clone(context), pairing.inputs.width());
        let sets = BufferSets::default();
        let mut layer =
            Self { context, shape, input_width, row_len, rows, blocks, max_batch, chunk: 1, sets };
        layer.chunk = layer.largest_chunk()?.min(chunk_of(max_batch));
        layer.sets.keep(layer.new_set()?);
        Ok(layer)
    }

    /// Returns the integers of one pair per input.
    fn sequences(
        context: &Arc<GpuContext>,
        shape: &DenseShape,
        pairing: &Pairing,
        row_len: usize,
    ) -> Result<Rows> {
        let (n, length) = (shape.n_inputs(), shape.length());
        let (n_values, n_ones) = (n as u128 * length.bits() as u128, n as u128 * row_len as u128);
        check_binding(context, Limit::TableBytes, n_values.max(n_ones))?;
        let mut inputs: Vec<u32> = memory::with_capacity(n_values, Quantity::Sequence)?;
        let mut weights: Vec<u32> = memory::with_capacity(n_values, Quantity::Sequence)?;
        let mut weight_ones = memory::with_capacity(n_ones, Quantity::CountTable)?;
        for input in 0..n {
            let (x, w) = (pairing.input(input)?, pairing.weight(0, input, n)?);
            // The row of the stream of ones is the ones of the weight streams.
            let prefixes = PrefixCounts::new(&x, &w, length, Polarity::Unipolar)?;
            prefixes.append_row(x.width().one(), &mut weight_ones);
            let values = |sequence: &Sequence| sequence.values().take(length.bits());
            inputs.extend(values(&x));
            weights.extend(values(&w));
        }
        Ok(Rows::OnePerInput {
            inputs: context.upload(&inputs)?,
            weights: context.upload(&weights)?,
            weight_ones: context.upload(&weight_ones)?,
        })
    }

    /// Returns the number of words of a sample's own rows.
    fn own_row_words(&self) -> u128 {
        match self.rows {
            Rows::OneForAll(_) => 0,
            Rows::OnePerInput { .. } => self.shape.n_inputs() as u128 * self.row_len as u128,
        }
    }

    /// Returns the largest number of samples whose thresholds, rows and counts each fit a binding.
    fn largest_chunk(&self) -> Result<usize> {
        let (n, m) = (self.shape.n_inputs() as u128, self.shape.n_neurons() as u128);
        check_binding(&self.context, Limit::TableBytes, self.own_row_words())?;
        let words = n.max(self.own_row_words()).max(2 * m);
        Ok(host_size(u128::from(self.context.max_binding_bytes()) / (4 * words)))
    }

    fn new_set(&self) -> Result<BufferSet> {
        BufferSet::new(
            &self.context,
            SetSizes {
                thresholds: self.chunk * self.shape.n_inputs(),
                // A few words if rows are by threshold: there are no intermediate results.
                work: self.row_words(self.chunk),
                counts: self.count_words(self.chunk),
            },
        )
    }

    /// Returns the memory of idle calls to the pool of the device.
    pub(crate) fn release(&self) {
        self.sets.clear();
    }

    /// Returns the number of words of `n_samples` samples' own rows, at least a few.
    pub(crate) fn row_words(&self, n_samples: usize) -> usize {
        // Fits a binding for a chunk.
        n_samples.saturating_mul(host_size(self.own_row_words())).max(4)
    }

    pub(crate) fn count_words(&self, n_samples: usize) -> usize {
        2 * n_samples * self.shape.n_neurons()
    }

    /// Returns the shape of the layer.
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

    /// Counts inputs of the given thresholds, `[sample][neuron]`: the counts equal those of the
    /// streams that the layer's pairing encodes.
    ///
    /// # Errors
    /// Returns [`CoreError::Ragged`] unless the inputs are whole samples, [`CoreError::OutOfRange`]
    /// with the index of a threshold above `2^W`, and errors of the device.
    pub fn counts(&self, inputs: &[u64]) -> Result<Vec<u64>> {
        self.counts_with(ThresholdSource::Slice(inputs), CountOptions::default())
    }

    /// Counts `n_samples` samples whose thresholds `fill` appends on demand, some samples at a time
    /// and in order, while the device counts the previous ones.
    ///
    /// # Errors
    /// As for [`Self::counts`], and errors of `fill`.
    pub fn counts_filled(
        &self,
        n_samples: usize,
        mut fill: impl FnMut(Range<usize>, &mut Vec<u64>) -> Result<()>,
    ) -> Result<Vec<u64>> {
        self.counts_with(
            ThresholdSource::Filled { n_samples, fill: &mut fill },
            CountOptions::default(),
        )
    }

    /// Counts a batch, `[sample][neuron]`, optionally with timed kernels or cancellation between
    /// chunks.
    ///
    /// # Errors
    /// As for [`Self::counts`] and [`Self::counts_filled`], and
    /// [`aleatron_core::Error::Cancelled`].
    pub fn counts_with(
        &self,
        inputs: ThresholdSource<'_, u64>,
        options: CountOptions<'_>,
    ) -> Result<Vec<u64>> {
        let n_samples = inputs.n_samples(self.shape.n_inputs())?;
        if let ThresholdSource::Slice(all) = inputs {
            // Before anything is counted.
            self.input_width.check_thresholds(all, self.shape.polarity(), Quantity::Value)?;
        }
        let n_counts = n_samples as u128 * self.shape.n_neurons() as u128;
        let counts = memory::with_capacity(n_counts, Quantity::Counts)?;
        let mut run = TabledRun { layer: self, inputs, filled: Vec::new(), counts };
        self.sets.run(n_samples, self.chunk, options, || self.new_set(), &mut run)?;
        Ok(run.counts)
    }

    /// Computes the rows of a chunk if samples have their own.
    pub(crate) fn record_rows(
        &self,
        recorder: &mut Recorder<'_>,
        inputs: BufferView<'_>,
        own_rows: BufferView<'_>,
        n_samples: usize,
    ) -> Result<()> {
        let Rows::OnePerInput { inputs: x, weights: w, weight_ones } = &self.rows else {
            return Ok(());
        };
        let (shape, row_len) = (&self.shape, self.row_len);
        let (n, length, n_rows) =
            (shape.n_inputs(), shape.length().bits(), n_samples * shape.n_inputs());
        // Sizes that the kernel indexes; it does not check itself.
        check_words_of(&inputs, n_rows as u64)?;
        check_words_of(&own_rows, n_rows as u64 * row_len as u64)?;
        for (buffer, words) in [(x, length), (w, length), (weight_ones, row_len)] {
            check_words_of(&buffer.view(), n as u64 * words as u64)?;
        }
        recorder.clear(own_rows)?;
        let xnor = shape.polarity() == Polarity::Bipolar;
        let workgroups = grid(n_rows as u64, self.context.info().max_workgroups)?;
        for begin in (0..length).step_by(DISPATCH_POSITIONS) {
            let end = (begin + DISPATCH_POSITIONS).min(length);
            let constants = [("XNOR", xnor.into()), ("FINISH", (end == length).into())];
            let pipeline = self.context.pipeline(&StreamKernel::TableRows, &constants)?;
            let views = [x.view(), w.view(), weight_ones.view(), inputs, own_rows];
            let params = TableRowsParams {
                n_inputs: size_u32(n, "number of inputs")?,
                n_rows: size_u32(n_rows, "number of rows")?,
                length: size_u32(length, "length")?,
                row_len: size_u32(row_len, "row len")?,
                begin: size_u32(begin, "begin")?,
                end: size_u32(end, "end")?,
            };
            let bytes = 8 * n_rows as u64 * (end - begin + row_len) as u64;
            recorder.dispatch(
                &self.context.bind(&pipeline, &views)?,
                &params,
                workgroups,
                bytes,
            )?;
        }
        Ok(())
    }

    /// Sums the entries of a chunk.
    pub(crate) fn record_counts(
        &self,
        recorder: &mut Recorder<'_>,
        inputs: BufferView<'_>,
        own_rows: BufferView<'_>,
        counts: BufferView<'_>,
        n_samples: usize,
    ) -> Result<()> {
        let (n, m) = (self.shape.n_inputs(), self.shape.n_neurons());
        let (rows, own_rows, n_rows) = match &self.rows {
            Rows::OneForAll(table) => {
                let n_rows = host_size(self.input_width.one()) + 1;
                let is_signed = self.shape.polarity() == Polarity::Signed;
                (table.view(), false, if is_signed { 2 * n_rows } else { n_rows })
            }
            Rows::OnePerInput { .. } => (own_rows, true, n_samples * n),
        };
        // Sizes that the kernel indexes; it does not check itself.
        check_words_of(&rows, n_rows as u64 * self.row_len as u64)?;
        check_words_of(&inputs, n_samples as u64 * n as u64)?;
        check_words_of(&counts, self.count_words(n_samples) as u64)?;
        let adds = self.count_mode() == CountMode::Add;
        let constants = [("OWN_ROWS", own_rows.into()), ("ADD", adds.into())];
        let pipeline = self.context.pipeline(&StreamKernel::TableCount, &constants)?;
        for (neurons, weights) in &self.blocks {
            check_words_of(&weights.view(), n as u64 * neurons.len() as u64)?;
            let bound = self.context.bind(&pipeline, &[rows, inputs, weights.view(), counts])?;
            let n_groups = size_u32(neurons.len(), "number of neurons")?.div_ceil(NEURONS);
            let workgroups =
                grid(u64::from(n_groups) * n_samples as u64, self.context.info().max_workgroups)?;
            for begin in (0..n).step_by(DISPATCH_INPUTS) {
                let end = (begin + DISPATCH_INPUTS).min(n);
                let params = TableCountParams {
                    n_inputs: size_u32(n, "number of inputs")?,
                    begin: size_u32(begin, "begin")?,
                    end: size_u32(end, "end")?,
                    n_neurons: size_u32(neurons.len(), "number of neurons")?,
                    n_groups,
                    n_samples: size_u32(n_samples, "number of samples")?,
                    row_len: size_u32(self.row_len, "row len")?,
                    first: size_u32(neurons.start, "first")?,
                    stride: size_u32(m, "stride")?,
                };
                let bytes = 8 * n_samples as u64 * (end - begin) as u64 * neurons.len() as u64;
                recorder.dispatch(&bound, &params, workgroups, bytes)?;
            }
        }
        Ok(())
    }

    /// Returns whether several dispatches add to one count.
    pub(crate) fn count_mode(&self) -> CountMode {
        if self.shape.n_inputs() > DISPATCH_INPUTS { CountMode::Add } else { CountMode::Write }
    }
}

/// State of one in-flight call.
struct TabledRun<'l, 'i> {
    layer: &'l GpuTabled,
    inputs: ThresholdSource<'i, u64>,
    filled: Vec<u64>,
    counts: Vec<u64>,
}

impl ChunkRun for TabledRun<'_, '_> {
    fn submit(
        &mut self,
        buffers: &mut BufferSet,
        samples: Range<usize>,
        profiler: Option<&mut Profiler>,
    ) -> Result<Submission> {
        let (layer, n, n_samples) = (self.layer, self.layer.shape.n_inputs(), samples.len());
        let first = samples.start * n;
        let thresholds = self.inputs.of(samples, n, &mut self.filled)?;
        let (width, polarity) = (layer.input_width, layer.shape.polarity());
        let checked = width.check_thresholds(thresholds, polarity, Quantity::Value);
        checked.map_err(|error| error.shifted(first))?;
        buffers.packed.clear();
        for &threshold in thresholds {
            buffers.packed.push(SignedTable::index_of(threshold, width)?);
        }
        buffers.send()?;
        let (n_words, mode) = (layer.count_words(n_samples), layer.count_mode());
        let mut recorder = layer.context.recorder(profiler)?;
        let inputs = buffers.thresholds(&mut recorder)?;
        let counts = buffers.counts(&mut recorder, n_words, mode)?;
        let own_rows = buffers.work.view();
        layer.record_rows(&mut recorder, inputs, own_rows, n_samples)?;
        layer.record_counts(&mut recorder, inputs, own_rows, counts, n_samples)?;
        buffers.fetch(&mut recorder, n_words, mode)?;
        Ok(recorder.submit()?)
    }

    fn receive(&mut self, buffers: &mut BufferSet, n_samples: usize) -> Result<()> {
        let counts = &mut self.counts;
        buffers.receive(self.layer.count_words(n_samples), |words| {
            counts.extend(words.chunks_exact(2).map(|w| u64::from(w[0]) | u64::from(w[1]) << 32));
        })
    }
}

/// Checks that a number of 32-bit words fits a binding.
fn check_binding(context: &GpuContext, what: Limit, words: u128) -> Result<()> {
    let (actual, limit) = (words * 4, context.max_binding_bytes());
    if actual > limit.into() {
        return Err(Error::TooLarge { what, actual, limit });
    }
    Ok(())
}

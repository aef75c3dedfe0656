//! Convolutions whose streams share one pair of sequences, counted from a table instead of bits.
//!
//! A table holds the contribution of each pair of operands to a count. With signs it has additional
//! rows and columns of negative operands, and a product contributes the length plus its ones, or
//! the length minus its ones.

use std::ops::Range;
use std::sync::Arc;

use aleatron_core::generator::{CountTable, Pairing, Width};
use aleatron_core::threshold::{is_negative, magnitude};
use aleatron_core::{ConvShape, Error as CoreError, Length, Polarity, Quantity, memory};
use aleatron_device::{
    BufferView, GpuBuffer, GpuContext, Profiler, Recorder, Submission, grid, size_u32,
};

use crate::buffers::{
    BufferSet, BufferSets, ChunkRun, CountMode, SetSizes, check_words_of, chunk_of,
};
use crate::conv::{ImageParams, check_binding, tap_offsets};
use crate::error::{Error, Limit, Result, host_size};
use crate::inputs::{CountOptions, ThresholdSource};
use crate::kernels::{ConvTableParams, StreamKernel};

/// The largest number of taps: each is a turn of a loop, and some software devices silently stop at
/// 65,535.
const MAX_TAPS: usize = 60_000;

/// The contributions of products of operands, with or without signs, to counts: a row for each
/// first operand, a column for each second one.
pub(crate) struct SignedTable {
    pub(crate) row_len: usize,
    pub(crate) entries: Vec<u32>,
}

impl SignedTable {
    /// Creates the table of first operands of one width and second ones of another.
    pub(crate) fn new(
        table: &CountTable,
        widths: [Width; 2],
        length: Length,
        polarity: Polarity,
    ) -> Result<Self> {
        let [rows, columns] = widths.map(|width| width.one());
        let signs = if polarity == Polarity::Signed { 2 } else { 1 };
        let row_len = signs * (host_size(columns) + 1);
        let len = signs as u128 * (u128::from(rows) + 1) * row_len as u128;
        let mut entries: Vec<u32> = memory::with_capacity(len, Quantity::CountTable)?;
        let bits = size_u32(length.bits(), "bits of a stream of a table")?;
        for sign in 0..signs {
            for row in (0..=rows).map(|row| table.row(row)) {
                match polarity {
                    Polarity::Unipolar | Polarity::Bipolar => entries.extend(row),
                    Polarity::Signed => {
                        let (up, down) = (
                            row.iter().map(|ones| bits + ones),
                            row.iter().map(|ones| bits - ones),
                        );
                        match sign {
                            0 => entries.extend(up.chain(down)),
                            _ => entries.extend(down.chain(up)),
                        }
                    }
                }
            }
        }
        Ok(Self { row_len, entries })
    }

    /// Returns the row or column of a threshold with its sign.
    pub(crate) fn index_of(threshold: u64, width: Width) -> Result<u32> {
        let sign = if is_negative(threshold) { width.one() + 1 } else { 0 };
        Ok(size_u32(magnitude(threshold) + sign, "row of a table")?)
    }
}

/// A convolution with shared sequences on a device.
#[derive(Debug)]
pub struct GpuTabledConv {
    context: Arc<GpuContext>,
    shape: ConvShape,
    polarity: Polarity,
    input_width: Width,
    row_len: usize,
    n_rows: usize,
    entries: GpuBuffer<u32>,
    weights: GpuBuffer<u32>,
    taps: GpuBuffer<[i32; 4]>,
    /// Number of samples per submission.
    chunk: usize,
    sets: BufferSets,
}

impl GpuTabledConv {
    /// Creates the convolution from the thresholds of its weights, by output channel and tap, with
    /// signs for a signed layer.
    ///
    /// # Errors
    /// Returns [`CoreError`] for thresholds that do not match the shape, [`Error::TooLarge`] for
    /// sizes above that of a binding or counts above 32 bits, and errors of the device.
    pub fn new(
        context: &Arc<GpuContext>,
        shape: ConvShape,
        length: Length,
        polarity: Polarity,
        max_batch: usize,
        pairing: &Pairing,
        thresholds: &[u64],
    ) -> Result<Self> {
        if max_batch == 0 {
            return Err(CoreError::Zero(Quantity::Samples).into());
        }
        let (expected, actual) = (shape.n_weights(), thresholds.len());
        if expected != actual {
            return Err(CoreError::Mismatch { what: Quantity::Weights, expected, actual }.into());
        }
        let widths = [pairing.weights.width(), pairing.inputs.width()];
        widths[0].check_thresholds(thresholds, polarity, Quantity::Weight)?;
        let most = 2 * shape.kernel_weights() as u128 * length.bits() as u128;
        if most > u32::MAX.into() || shape.kernel_weights() > MAX_TAPS {
            return Err(Error::TooLarge {
                what: Limit::Number,
                actual: most,
                limit: u32::MAX.into(),
            });
        }
        let limit = context.max_binding_bytes();
        let table = CountTable::new(&pairing.weights, &pairing.inputs, length, polarity)?;
        let SignedTable { row_len, entries } = SignedTable::new(&table, widths, length, polarity)?;
        for (what, words) in [
            (Limit::TableBytes, entries.len()),
            (Limit::ThresholdBytes, shape.n_weights()),
            (Limit::ThresholdBytes, shape.n_inputs()),
            (Limit::CountBytes, shape.n_outputs()),
        ] {
            check_binding(what, 4 * words as u128, limit)?;
        }
        let weights =
            thresholds.iter().map(|&threshold| SignedTable::index_of(threshold, widths[0]));
        let weights = weights.collect::<Result<Vec<u32>>>()?;
        let n_rows = entries.len() / row_len;
        let per_sample = shape.n_inputs().max(shape.n_outputs()) as u64;
        let chunk = host_size(limit / 4 / per_sample).min(chunk_of(max_batch));
        let layer = Self {
            context: Arc::clone(context),
            shape,
            polarity,
            input_width: widths[1],
            row_len,
            n_rows,
            entries: context.upload(&entries)?,
            weights: context.upload(&weights)?,
            taps: context.upload(&tap_offsets(&shape)?)?,
            chunk,
            sets: BufferSets::default(),
        };
        layer.sets.keep(layer.new_set()?);
        Ok(layer)
    }

    /// Returns the number of samples of one submission.
    #[must_use]
    pub fn chunk(&self) -> usize {
        self.chunk
    }

    /// Returns the memory of idle calls to the pool of the device.
    pub(crate) fn release(&self) {
        self.sets.clear();
    }

    fn new_set(&self) -> Result<BufferSet> {
        let (thresholds, counts) =
            (self.chunk * self.shape.n_inputs(), self.chunk * self.shape.n_outputs());
        BufferSet::new(&self.context, SetSizes { thresholds, work: 4, counts })
    }

    /// Returns the device.
    #[must_use]
    pub fn context(&self) -> &Arc<GpuContext> {
        &self.context
    }

    /// Counts inputs of the given thresholds, `[sample][channel][position]`.
    ///
    /// # Errors
    /// Returns [`CoreError::Ragged`] unless the inputs are whole samples, [`CoreError::OutOfRange`]
    /// with the index of a threshold above `2^W`, [`CoreError::Cancelled`], and errors of the
    /// device.
    pub fn counts_with(&self, inputs: &[u64], options: CountOptions<'_>) -> Result<Vec<u64>> {
        let n_samples = ThresholdSource::Slice(inputs).n_samples(self.shape.n_inputs())?;
        self.input_width.check_thresholds(inputs, self.polarity, Quantity::Value)?;
        let n_counts = n_samples as u128 * self.shape.n_outputs() as u128;
        let counts = memory::with_capacity(n_counts, Quantity::Counts)?;
        let mut run = TabledConvRun { layer: self, inputs, counts };
        self.sets.run(n_samples, self.chunk, options, || self.new_set(), &mut run)?;
        Ok(run.counts)
    }

    pub(crate) fn record_counts(
        &self,
        recorder: &mut Recorder<'_>,
        inputs: BufferView<'_>,
        counts: BufferView<'_>,
        n_samples: usize,
    ) -> Result<()> {
        let shape = &self.shape;
        // Sizes that the kernel indexes; it does not check itself.
        check_words_of(&self.entries.view(), self.n_rows as u64 * self.row_len as u64)?;
        check_words_of(&self.weights.view(), shape.n_weights() as u64)?;
        check_words_of(&self.taps.view(), 4 * shape.kernel_weights() as u64)?;
        check_words_of(&inputs, n_samples as u64 * shape.n_inputs() as u64)?;
        check_words_of(&counts, n_samples as u64 * shape.n_outputs() as u64)?;
        let pipeline = self.context.pipeline(&StreamKernel::ConvTable, &[])?;
        let views = [self.entries.view(), self.weights.view(), inputs, self.taps.view(), counts];
        let bound = self.context.bind(&pipeline, &views)?;
        let (image, n_columns) = (ImageParams::of(shape)?, n_samples * shape.n_positions());
        for (first_channel, channels) in shape.groups() {
            let params = ConvTableParams {
                n_rows: size_u32(channels.len(), "number of rows")?,
                first_row: size_u32(channels.start, "first row")?,
                n_columns: size_u32(n_columns, "number of columns")?,
                n_taps: size_u32(shape.kernel_weights(), "number of taps")?,
                n_positions: image.n_positions,
                row_positions: image.row_positions,
                row_step: image.row_step,
                column_step: image.column_step,
                height: image.height,
                width: image.width,
                n_inputs: image.n_inputs,
                first_input: image.first_input(first_channel)?,
                row_len: size_u32(self.row_len, "row len")?,
                stride: size_u32(shape.n_outputs(), "stride")?,
            };
            let n_outputs = channels.len() as u64 * n_columns as u64;
            let workgroups = grid(n_outputs.div_ceil(256), self.context.info().max_workgroups)?;
            recorder.dispatch(
                &bound,
                &params,
                workgroups,
                12 * n_outputs * shape.kernel_weights() as u64,
            )?;
        }
        Ok(())
    }
}

/// State of one in-flight call.
struct TabledConvRun<'l, 'i> {
    layer: &'l GpuTabledConv,
    inputs: &'i [u64],
    counts: Vec<u64>,
}

impl ChunkRun for TabledConvRun<'_, '_> {
    fn submit(
        &mut self,
        buffers: &mut BufferSet,
        samples: Range<usize>,
        profiler: Option<&mut Profiler>,
    ) -> Result<Submission> {
        let (layer, n_inputs, n) = (self.layer, self.layer.shape.n_inputs(), samples.len());
        let thresholds = &self.inputs[samples.start * n_inputs..samples.end * n_inputs];
        buffers.packed.clear();
        for &threshold in thresholds {
            buffers.packed.push(SignedTable::index_of(threshold, layer.input_width)?);
        }
        buffers.send()?;
        let n_words = n * layer.shape.n_outputs();
        let mut recorder = layer.context.recorder(profiler)?;
        let inputs = buffers.thresholds(&mut recorder)?;
        let counts = buffers.counts(&mut recorder, n_words, CountMode::Write)?;
        layer.record_counts(&mut recorder, inputs, counts, n)?;
        buffers.fetch(&mut recorder, n_words, CountMode::Write)?;
        Ok(recorder.submit()?)
    }

    fn receive(&mut self, buffers: &mut BufferSet, n_samples: usize) -> Result<()> {
        let counts = &mut self.counts;
        buffers.receive(n_samples * self.layer.shape.n_outputs(), |words| {
            counts.extend(words.iter().map(|&word| u64::from(word)));
        })
    }
}

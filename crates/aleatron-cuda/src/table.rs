//! Layers whose streams share sequences, counted from tables instead of bits; see [`aleatron_core::generator`].
//!
//! With one pair of sequences for all, the table of all products lies on the card and a count is one lookup per weight. With one
//! pair per input, the card first makes a row of that table for each sample and input.

use std::ops::Range;
use std::sync::Arc;

use aleatron_core::generator::{CountTable, Pairing, PrefixCounts, Sequence, Sharing};
use aleatron_core::{DenseShape, Error as CoreError, Length, Polarity, Quantity, memory};

use crate::buffers::{BufferSet, BufferSets, ChunkRun, CountOptions, SetSizes};
use crate::driver::{CudaContext, DeviceBuffer, Grid, Stream, kernels};
use crate::encode::Encoder;
use crate::error::{Error, Result, number};
use crate::inputs::{InputStage, Source};
use crate::kernels::{CallSeed, ResultKind, TableCountsParams, TableRowsParams};
use crate::plan::memory::bounded_chunk;
use crate::product::Product;
use crate::results::{CountWidth, Output, Recipe, Turn};

/// Neurons of one block of `table_counts`.
const BLOCK_NEURONS: u32 = 32;

/// A dense layer with shared sequences on a card.
#[derive(Debug)]
pub(crate) struct CudaTabled {
    context: Arc<CudaContext>,
    shape: DenseShape,
    product: Product,
    input_one: u64,
    row_len: usize,
    rows: Rows,
    /// Thresholds by input and neuron.
    weights: DeviceBuffer<u32>,
    chunk: usize,
    stage: InputStage,
    recipe: Recipe,
    sets: BufferSets,
}

#[derive(Debug)]
enum Rows {
    OneForAll(DeviceBuffer<u32>),
    OnePerInput { inputs: DeviceBuffer<u32>, weights: DeviceBuffer<u32>, weight_ones: DeviceBuffer<u32> },
}

impl CudaTabled {
    /// The layer of `shape` with weights of the given thresholds, row-major by neuron.
    pub(crate) fn new(
        context: &Arc<CudaContext>,
        shape: DenseShape,
        max_batch: usize,
        pairing: &Pairing,
        thresholds: &[u64],
        encoder: Encoder,
    ) -> Result<Self> {
        let (n, m) = (shape.n_inputs(), shape.n_neurons());
        if max_batch == 0 {
            return Err(CoreError::Zero(Quantity::Samples).into());
        }
        if thresholds.len() != shape.n_weights() {
            let (expected, actual) = (shape.n_weights(), thresholds.len());
            return Err(CoreError::Mismatch { what: Quantity::Weights, expected, actual }.into());
        }
        // What the kernel looks up is inside a row.
        pairing.weights.width().check_thresholds(thresholds, shape.polarity(), Quantity::Weight)?;
        let product = Product::of(shape.polarity())?;
        let row_len = pairing.weights.width().one() as usize + 1;
        let stream = Stream::new(context)?;
        let rows = match pairing.sharing {
            Sharing::OneForAll => {
                let (x, w) = (&pairing.inputs, &pairing.weights);
                let table = CountTable::new(x, w, shape.length(), shape.polarity())?;
                let entries = (x.width().one() as u128 + 1) * row_len as u128;
                let mut all: Vec<u32> = memory::with_capacity(entries, Quantity::CountTable)?;
                (0..=x.width().one()).for_each(|input| all.extend(table.row(input)));
                Rows::OneForAll(DeviceBuffer::with(context, &all, &stream)?)
            }
            Sharing::OnePerInput => sequences(context, &stream, &shape, pairing, row_len)?,
            Sharing::OnePerStream => {
                let (actual, limit) = (shape.n_weights() as u128, n as u128);
                return Err(CoreError::TooLarge { what: Quantity::Sequence, actual, limit }.into());
            }
        };
        let mut by_input: Vec<u32> = memory::with_capacity(n as u128 * m as u128, Quantity::Weights)?;
        by_input.extend((0..n).flat_map(|i| (0..m).map(move |j| thresholds[j * n + i] as u32)));
        let weights = DeviceBuffer::with(context, &by_input, &stream)?;
        // Values, rows of their own, and counts.
        let own_row_words = match rows {
            Rows::OneForAll(_) => 0,
            Rows::OnePerInput { .. } => n as u128 * row_len as u128,
        };
        let sample_bytes = 8 * n as u128 + 4 * own_row_words + (8 + 8) * m as u128;
        let free = context.free_bytes()?;
        let left = u128::from(free) / (2 * sample_bytes);
        if left == 0 {
            return Err(Error::OutOfMemory { bytes: 2 * sample_bytes, free });
        }
        let length = shape.length();
        let layer = Self {
            context: Arc::clone(context),
            shape,
            product,
            input_one: pairing.inputs.width().one(),
            row_len,
            rows,
            weights,
            chunk: bounded_chunk(max_batch, sample_bytes, left),
            stage: InputStage { context: Arc::clone(context), n_units: n, length, product, encoder },
            recipe: recipe(n, m, length),
            sets: BufferSets::default(),
        };
        layer.sets.keep(layer.new_set()?);
        Ok(layer)
    }

    pub(crate) fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    pub(crate) fn chunk(&self) -> usize {
        self.chunk
    }

    fn new_set(&self) -> Result<BufferSet> {
        let (n, m) = (self.shape.n_inputs(), self.shape.n_neurons());
        let work = match self.rows {
            Rows::OneForAll(_) => 0,
            Rows::OnePerInput { .. } => self.chunk * n * self.row_len,
        };
        let (values, counts, results) = (self.chunk * n, 2 * self.chunk * m, self.chunk * m);
        BufferSet::new(&self.context, SetSizes { values, work, counts, results, samples: self.chunk })
    }

    /// The counts of a batch.
    pub(crate) fn counts(
        &self,
        source: Source<'_>,
        n_samples: usize,
        output: Output<'_>,
        options: &CountOptions<'_>,
    ) -> Result<Vec<u64>> {
        if let Output::Card { kind, .. } = &output
            && *kind != ResultKind::Counts
        {
            self.recipe.check_values(self.shape.n_inputs())?;
        }
        let mut run = TabledRun { layer: self, source, output, options };
        self.sets.run(n_samples, self.chunk, options, || self.new_set(), &mut run)?;
        Ok(run.output.into_counts())
    }

    /// Gives the making of the rows of a chunk to its queue, where samples have their own.
    fn give_rows(&self, set: &BufferSet, options: &CountOptions<'_>, n_samples: usize) -> Result<()> {
        let Rows::OnePerInput { inputs, weights, weight_ones } = &self.rows else { return Ok(()) };
        let (n, length, row_len) = (self.shape.n_inputs(), self.shape.length().bits(), self.row_len);
        let n_rows = n_samples * n;
        let params = TableRowsParams {
            input_integers: inputs.view().check(4 * n as u128 * length as u128)?,
            weight_integers: weights.view().check(4 * n as u128 * length as u128)?,
            weight_ones: weight_ones.view().check(4 * n as u128 * row_len as u128)?,
            inputs: set.values()?.check(8 * n_rows as u128)?,
            rows: set.work.view().check(4 * n_rows as u128 * row_len as u128)?,
            n_rows: n_rows as u64,
            length: length as u64,
            n_inputs: number(n)?,
            row_len: number(row_len)?,
            counts_matches: (self.product == Product::Xnor).into(),
            padding: 0,
        };
        set.work.fill(0, &set.stream)?;
        let bytes = 8 * n_rows as u64 * (length + row_len) as u64;
        // A word for the sum of each of its threads.
        set.queue(options).launch(&kernels::TABLE_ROWS, Grid::row(n_rows as u64)?, 4 * 128, &params, bytes)
    }

    /// Gives the adding up of a chunk to its queue.
    fn give_counts(&self, set: &BufferSet, options: &CountOptions<'_>, n_samples: usize) -> Result<()> {
        let (n, m) = (self.shape.n_inputs(), self.shape.n_neurons());
        let (rows, own_rows, n_rows) = match &self.rows {
            Rows::OneForAll(table) => (table.view(), 0, self.input_one as u128 + 1),
            Rows::OnePerInput { .. } => (set.work.view(), 1, n_samples as u128 * n as u128),
        };
        let n_groups = number(m)?.div_ceil(BLOCK_NEURONS);
        let params = TableCountsParams {
            rows: rows.check(4 * n_rows * self.row_len as u128)?,
            inputs: set.values()?.check(8 * n_samples as u128 * n as u128)?,
            weights: self.weights.view().check(4 * n as u128 * m as u128)?,
            counts: set.counts.view().check(8 * n_samples as u128 * m as u128)?,
            n_inputs: number(n)?,
            n_neurons: number(m)?,
            row_len: number(self.row_len)?,
            n_groups,
            own_rows,
            padding: 0,
        };
        let grid = Grid::row(u64::from(n_groups) * n_samples as u64)?;
        let bytes = 8 * n_samples as u64 * n as u64 * m as u64;
        // A sum for each of its threads.
        set.queue(options).launch(&kernels::TABLE_COUNTS, grid, 8 * 256, &params, bytes)
    }
}

/// The integers of one pair per input.
fn sequences(
    context: &Arc<CudaContext>,
    stream: &Stream,
    shape: &DenseShape,
    pairing: &Pairing,
    row_len: usize,
) -> Result<Rows> {
    let (n, length) = (shape.n_inputs(), shape.length());
    let (n_values, n_ones) = (n as u128 * length.bits() as u128, n as u128 * row_len as u128);
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
        inputs: DeviceBuffer::with(context, &inputs, stream)?,
        weights: DeviceBuffer::with(context, &weights, stream)?,
        weight_ones: DeviceBuffer::with(context, &weight_ones, stream)?,
    })
}

/// Tables hold the counts themselves.
fn recipe(n_inputs: usize, n_neurons: usize, length: Length) -> Recipe {
    Recipe::dense(n_neurons, n_inputs, length, Product::And, None)
}

/// A call under way.
struct TabledRun<'l, 'i> {
    layer: &'l CudaTabled,
    source: Source<'i>,
    output: Output<'i>,
    options: &'l CountOptions<'l>,
}

impl ChunkRun for TabledRun<'_, '_> {
    fn submit(&mut self, set: &mut BufferSet, samples: Range<usize>) -> Result<()> {
        let TabledRun { layer, source, options, .. } = self;
        let (seed, n_samples) = (CallSeed::default(), samples.len());
        layer.stage.send(set, options, source, &samples, seed, None)?;
        layer.give_rows(set, options, n_samples)?;
        layer.give_counts(set, options, n_samples)?;
        let card = match &self.output {
            Output::Counts(_) => None,
            Output::Card { view, kind } => {
                let first = samples.start * layer.shape.n_neurons();
                Some((view.from(8 * first as u64)?, *kind))
            }
        };
        layer.recipe.give(set, options, n_samples, card, CountWidth::Bits64, Turn::ONLY)
    }

    fn receive(&mut self, set: &mut BufferSet, samples: Range<usize>) -> Result<()> {
        let layer = self.layer;
        if let Some(index) = set.bad_value() {
            let first = samples.start * layer.shape.n_inputs();
            return Err(self.source.bad_value(set, first, index, layer.shape.polarity())?.into());
        }
        match &mut self.output {
            Output::Counts(counts) => set.take_results(samples.len() * layer.shape.n_neurons(), counts),
            Output::Card { .. } => Ok(()),
        }
    }
}

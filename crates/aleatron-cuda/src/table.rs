//! Layers whose streams share sequences, counted from tables instead of bits; see
//! [`aleatron_core::generator`].
//!
//! With one pair of sequences for all, the table of all products is on the GPU and a count is one
//! look-up per product, in dense layers and convolutions alike. With one pair per input, in dense
//! layers only, the GPU first computes a row of that table for each sample and input.

use std::ops::Range;
use std::sync::Arc;

use aleatron_core::generator::{CountTable, Pairing, PrefixCounts, Sequence, Sharing};
use aleatron_core::program::InputSign;
use aleatron_core::threshold::{is_negative, magnitude};
use aleatron_core::{
    ConvShape, Error as CoreError, LayerSpec, Length, Polarity, Quantity, Topology, Weights, memory,
};

use crate::buffers::{BufferSet, BufferSets, ChunkRun, CountOptions, SetSizes};
use crate::conv::geometry;
use crate::driver::{CudaContext, DeviceBuffer, Grid, Stream, kernels};
use crate::encode::Encoder;
use crate::error::{Error, Result};
use crate::inputs::{InputStage, Source};
use crate::kernels::{CallSeed, ConvTableParams, ResultKind, TableCountsParams, TableRowsParams};
use crate::plan::memory::bounded_chunk;
use crate::product::Product;
use crate::results::{CountWidth, Output, Recipe, Turn, check_values};
use crate::size::{host_size, size_u32};

/// Number of neurons of one block of `table_counts`.
const BLOCK_NEURONS: u32 = 32;

/// Number of threads of a block of `conv_table`.
const CONV_THREADS: u64 = 256;

/// A layer with shared sequences on a card.
#[derive(Debug)]
pub(crate) struct CudaTabled {
    context: Arc<CudaContext>,
    n_inputs: usize,
    n_neurons: usize,
    /// The largest number of products of a neuron.
    most: usize,
    length: Length,
    polarity: Polarity,
    /// The shape of a convolution.
    conv: Option<ConvShape>,
    product: Product,
    input_one: u64,
    row_len: usize,
    rows: Rows,
    /// Thresholds by input and neuron, or by output channel and tap, with the highest bit for
    /// negative weights.
    weights: DeviceBuffer<u32>,
    chunk: usize,
    stage: InputStage,
    recipe: Recipe,
    sets: BufferSets,
}

#[derive(Debug)]
enum Rows {
    OneForAll(DeviceBuffer<u32>),
    OnePerInput {
        inputs: DeviceBuffer<u32>,
        weights: DeviceBuffer<u32>,
        weight_ones: DeviceBuffer<u32>,
    },
}

impl CudaTabled {
    /// Creates a layer of the sequences of `pairing`, with `encoder` for its inputs.
    pub(crate) fn new(
        context: &Arc<CudaContext>,
        spec: &LayerSpec,
        weights: &Weights,
        pairing: &Pairing,
        encoder: Encoder,
        max_batch: usize,
    ) -> Result<Self> {
        let (n, m, length, polarity) =
            (spec.n_inputs(), spec.n_neurons(), spec.length(), spec.polarity());
        if max_batch == 0 {
            return Err(CoreError::Zero(Quantity::Samples).into());
        }
        let thresholds = spec.weight_thresholds(weights)?;
        if thresholds.len() != spec.n_weights() {
            let (expected, actual) = (spec.n_weights(), thresholds.len());
            return Err(CoreError::Mismatch { what: Quantity::Weights, expected, actual }.into());
        }
        // Indices of look-ups are inside a row.
        pairing.weights.width().check_thresholds(&thresholds, polarity, Quantity::Weight)?;
        let conv = if let Topology::Conv(shape) = spec.topology() { Some(*shape) } else { None };
        let product = Product::of(polarity, InputSign::Any);
        let row_len = host_size(pairing.weights.width().one()) + 1;
        let stream = Stream::new(context)?;
        let rows = match pairing.sharing {
            Sharing::OneForAll => {
                let (x, w) = (&pairing.inputs, &pairing.weights);
                let table = CountTable::new(x, w, length, polarity)?;
                let entries = (u128::from(x.width().one()) + 1) * row_len as u128;
                let mut all: Vec<u32> = memory::with_capacity(entries, Quantity::CountTable)?;
                (0..=x.width().one()).for_each(|input| all.extend(table.row(input)));
                Rows::OneForAll(DeviceBuffer::with(context, &all, &stream)?)
            }
            Sharing::OnePerInput if conv.is_none() => {
                sequences(context, &stream, n, length, pairing, row_len)?
            }
            Sharing::OnePerInput | Sharing::OnePerStream => {
                let (actual, limit) = (spec.n_weights() as u128, n as u128);
                return Err(CoreError::TooLarge { what: Quantity::Sequence, actual, limit }.into());
            }
        };
        let mut all: Vec<u32> = memory::with_capacity(thresholds.len() as u128, Quantity::Weights)?;
        // Thresholds have at most 13 bits.
        let with_sign = |t: u64| -> Result<u32> {
            Ok(size_u32(magnitude(t), "threshold of a weight")? | u32::from(is_negative(t)) << 31)
        };
        match conv {
            Some(_) => {
                for &threshold in &thresholds {
                    all.push(with_sign(threshold)?);
                }
            }
            None => {
                for index in (0..n).flat_map(|i| (0..m).map(move |j| j * n + i)) {
                    all.push(with_sign(thresholds[index])?);
                }
            }
        }
        let weights = DeviceBuffer::with(context, &all, &stream)?;
        let recipe = recipe(context, &stream, spec)?;
        // Values, separate rows, and counts.
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
        let layer = Self {
            context: Arc::clone(context),
            n_inputs: n,
            n_neurons: m,
            most: spec.max_fan_in(),
            length,
            polarity,
            conv,
            product,
            input_one: pairing.inputs.width().one(),
            row_len,
            rows,
            weights,
            chunk: bounded_chunk(max_batch, sample_bytes, left),
            stage: InputStage {
                context: Arc::clone(context),
                n_units: n,
                length,
                product,
                encoder,
            },
            recipe,
            sets: BufferSets::default(),
        };
        Ok(layer)
    }

    pub(crate) fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    pub(crate) fn chunk(&self) -> usize {
        self.chunk
    }

    pub(crate) fn sizes(&self) -> SetSizes {
        let (n, m) = (self.n_inputs, self.n_neurons);
        let work = match self.rows {
            Rows::OneForAll(_) => 0,
            Rows::OnePerInput { .. } => self.chunk * n * self.row_len,
        };
        let (values, counts, results) = (self.chunk * n, 2 * self.chunk * m, self.chunk * m);
        SetSizes { values, work, counts, results, samples: self.chunk }
    }

    pub(crate) fn sets(&self) -> &BufferSets {
        &self.sets
    }

    fn new_set(&self) -> Result<BufferSet> {
        BufferSet::new(&self.context, self.sizes())
    }

    /// Enqueues the counting of a chunk on the stream of a set, without waiting for it.
    pub(crate) fn enqueue(
        &self,
        set: &mut BufferSet,
        source: Source<'_>,
        n_samples: usize,
        output: Output<'_>,
        options: &CountOptions<'_>,
    ) -> Result<()> {
        TabledRun { layer: self, source, output, options }.submit(set, 0..n_samples)
    }

    /// Counts a batch.
    pub(crate) fn counts(
        &self,
        source: Source<'_>,
        n_samples: usize,
        output: Output<'_>,
        options: &CountOptions<'_>,
    ) -> Result<Vec<u64>> {
        if let Output::Card(results) = &output
            && results.kind != ResultKind::Counts
        {
            check_values(self.most, self.length)?;
        }
        let mut run = TabledRun { layer: self, source, output, options };
        self.sets.run(n_samples, self.chunk, options, || self.new_set(), &mut run)?;
        Ok(run.output.into_counts())
    }

    /// Enqueues the computation of the rows of a chunk, if samples have their own.
    fn enqueue_rows(
        &self,
        set: &BufferSet,
        options: &CountOptions<'_>,
        n_samples: usize,
    ) -> Result<()> {
        let Rows::OnePerInput { inputs, weights, weight_ones } = &self.rows else { return Ok(()) };
        let (n, length, row_len) = (self.n_inputs, self.length.bits(), self.row_len);
        let n_rows = n_samples * n;
        let params = TableRowsParams {
            input_integers: inputs.view().check(4 * n as u128 * length as u128)?,
            weight_integers: weights.view().check(4 * n as u128 * length as u128)?,
            weight_ones: weight_ones.view().check(4 * n as u128 * row_len as u128)?,
            inputs: set.values()?.check(8 * n_rows as u128)?,
            rows: set.work.view().check(4 * n_rows as u128 * row_len as u128)?,
            n_rows: n_rows as u64,
            length: length as u64,
            n_inputs: size_u32(n, "number of inputs")?,
            row_len: size_u32(row_len, "row len")?,
            counts_matches: (self.product == Product::Xnor).into(),
            padding: 0,
        };
        set.work.fill(0, &set.stream)?;
        let bytes = 8 * n_rows as u64 * (length + row_len) as u64;
        // A word for the sum of each of its threads.
        set.queue(options).launch(
            &kernels::TABLE_ROWS,
            Grid::row(n_rows as u64)?,
            4 * 128,
            &params,
            bytes,
        )
    }

    /// Enqueues the summation of a chunk.
    fn enqueue_counts(
        &self,
        set: &BufferSet,
        options: &CountOptions<'_>,
        n_samples: usize,
    ) -> Result<()> {
        if let (Some(shape), Rows::OneForAll(table)) = (&self.conv, &self.rows) {
            return self.enqueue_conv_counts(set, options, n_samples, shape, table);
        }
        let (n, m) = (self.n_inputs, self.n_neurons);
        let (rows, own_rows, n_rows) = match &self.rows {
            Rows::OneForAll(table) => (table.view(), 0, u128::from(self.input_one) + 1),
            Rows::OnePerInput { .. } => (set.work.view(), 1, n_samples as u128 * n as u128),
        };
        let n_groups = size_u32(m, "number of neurons")?.div_ceil(BLOCK_NEURONS);
        let params = TableCountsParams {
            rows: rows.check(4 * n_rows * self.row_len as u128)?,
            inputs: set.values()?.check(8 * n_samples as u128 * n as u128)?,
            weights: self.weights.view().check(4 * n as u128 * m as u128)?,
            counts: set.counts.view().check(8 * n_samples as u128 * m as u128)?,
            n_inputs: size_u32(n, "number of inputs")?,
            n_neurons: size_u32(m, "number of neurons")?,
            row_len: size_u32(self.row_len, "row len")?,
            n_groups,
            own_rows,
            padding: 0,
        };
        let grid = Grid::row(u64::from(n_groups) * n_samples as u64)?;
        let bytes = 8 * n_samples as u64 * n as u64 * m as u64;
        // A sum for each of its threads.
        set.queue(options).launch(&kernels::TABLE_COUNTS, grid, 8 * 256, &params, bytes)
    }

    /// Enqueues the summation of a chunk of a convolution.
    fn enqueue_conv_counts(
        &self,
        set: &BufferSet,
        options: &CountOptions<'_>,
        n_samples: usize,
        shape: &ConvShape,
        table: &DeviceBuffer<u32>,
    ) -> Result<()> {
        let (n, m, taps) = (self.n_inputs, self.n_neurons, shape.kernel_weights());
        let convolution = shape.convolution();
        let n_counts = n_samples as u64 * m as u64;
        let params = ConvTableParams {
            conv: geometry(shape)?,
            rows: table
                .view()
                .check(4 * (u128::from(self.input_one) + 1) * self.row_len as u128)?,
            inputs: set.values()?.check(8 * n_samples as u128 * n as u128)?,
            weights: self.weights.view().check(4 * shape.n_weights() as u128)?,
            counts: set.counts.view().check(8 * u128::from(n_counts))?,
            n_counts,
            n_inputs: size_u32(n, "number of inputs")?,
            n_neurons: size_u32(m, "number of neurons")?,
            n_taps: size_u32(taps, "number of taps")?,
            row_len: size_u32(self.row_len, "row len")?,
            first_channel: size_u32(shape.first_channel(), "first channel")?,
            group_outputs: size_u32(
                convolution.out_channels / convolution.groups,
                "group outputs",
            )?,
            group_inputs: size_u32(shape.group_inputs(), "group inputs")?,
            padding: 0,
        };
        let grid = Grid::row(n_counts.div_ceil(CONV_THREADS))?;
        set.queue(options).launch(
            &kernels::CONV_TABLE,
            grid,
            0,
            &params,
            16 * n_counts * taps as u64,
        )
    }
}

/// Returns the integers of one pair per input.
fn sequences(
    context: &Arc<CudaContext>,
    stream: &Stream,
    n: usize,
    length: Length,
    pairing: &Pairing,
    row_len: usize,
) -> Result<Rows> {
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

/// Returns the recipe of a layer. Tables hold the counts themselves; signed products begin with the
/// bits of all.
fn recipe(context: &Arc<CudaContext>, stream: &Stream, spec: &LayerSpec) -> Result<Recipe> {
    let (m, bits) = (spec.n_neurons(), spec.length().bits() as u64);
    let mut recipe = Recipe::dense(m, spec.max_fan_in(), spec.length(), Product::And, None);
    if spec.polarity() == Polarity::Unipolar {
        return Ok(recipe);
    }
    let fan_ins = spec.topology().fan_ins();
    let mut totals: Vec<u64> = memory::with_capacity(m as u128, Quantity::Counts)?;
    totals.extend(fan_ins.iter().cycle().take(m).map(|&n| (n as u64).wrapping_mul(bits)));
    if spec.polarity() == Polarity::Signed {
        recipe.base = Some(DeviceBuffer::with(context, &totals, stream)?);
    }
    if fan_ins.len() > 1 {
        recipe.totals = Some(DeviceBuffer::with(context, &totals, stream)?);
    }
    Ok(recipe)
}

/// State of one in-flight call.
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
        layer.enqueue_rows(set, options, n_samples)?;
        layer.enqueue_counts(set, options, n_samples)?;
        let card = match &self.output {
            Output::Counts(_) => None,
            Output::Card(results) => {
                Some(results.from(8 * (samples.start * layer.n_neurons) as u64)?)
            }
        };
        layer.recipe.give(set, options, n_samples, card, CountWidth::Bits64, Turn::ONLY)
    }

    fn receive(&mut self, set: &mut BufferSet, samples: Range<usize>) -> Result<()> {
        let layer = self.layer;
        if let Some(index) = set.bad_value() {
            let first = samples.start * layer.n_inputs;
            return Err(self.source.bad_value(set, first, index, layer.polarity)?.into());
        }
        match &mut self.output {
            Output::Counts(counts) => set.take_results(samples.len() * layer.n_neurons, counts),
            Output::Card(_) => Ok(()),
        }
    }
}

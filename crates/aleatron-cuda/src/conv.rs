//! Convolutions on a GPU, and small signed dense layers of programs, which are convolutions of one
//! position.
//!
//! A chunk of a call is: upload of values and encoding of all inputs; then, for some positions at a
//! time, gathering of the streams under the kernel as rows of a dense layer, tiles of products with
//! the weights of each group of channels, and results. Taps in the padding are zeros, which AND
//! counts as nothing. With signs, rows hold the streams of positive and of negative operands
//! separately, and every patch is gathered twice: as it is, for products of equal signs, and with
//! the signs swapped, for the others.

mod direct;

pub(crate) use direct::runs_in_one_launch;

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use aleatron_core::program::InputSign;
use aleatron_core::{
    Cancel, ConvShape, Convolution, Error as CoreError, LayerSpec, Length, Polarity, Quantity,
    StreamAddress, Topology, Weights, memory,
};

use crate::buffers::{BufferSet, BufferSets, ChunkRun, CountOptions, GraphKey, HEAD, SetSizes};
use crate::dense::{KernelChoice, RECORDED_VALUE_BYTES, unsupported};
use crate::driver::{CudaContext, DeviceBuffer, Grid, Stream, View, kernels};
use crate::encode::{Encoder, OnesWidth, RowStreams, call_seed, count_row_ones, row_of};
use crate::error::{Error, Result};
use crate::inputs::{InputStage, Source};
use crate::kernels::{
    CallSeed, ConvGeometry, Finish, FinishPatchesParams, GatherParams, ResultKind, ValueKind,
};
use crate::launch::{self, FewInputs, Target};
use crate::plan::few::MAX_SAMPLES;
use crate::plan::memory::Residency;
use crate::plan::patches::{PatchPlan, PatchShape};
use crate::plan::rows::{Part, StreamWords};
use crate::product::Product;
use crate::results::{CardResults, Output, check_values};
use crate::size::{host_size, size_u32};
use crate::weights::{SignFilter, WeightEncoder};

/// Number of threads of a block of all kernels here.
const THREADS: u64 = 256;

/// Number of patches and channels of a block of the finishing kernel.
const FINISH_TILE: u32 = 32;

/// Returns the convolution that a layer is: a dense one has an image of as many channels as inputs,
/// at one position.
fn shape_of(spec: &LayerSpec) -> Result<ConvShape> {
    match *spec.topology() {
        Topology::Conv(shape) => Ok(shape),
        Topology::Dense { n_inputs, n_neurons } => {
            Ok(ConvShape::new(Convolution::conv2d([n_inputs, 1, 1], n_neurons, [1, 1]))?)
        }
        _ => Err(unsupported("layers of this kind")),
    }
}

/// Returns a convolution in the form of kernels.
pub(crate) fn geometry(shape: &ConvShape) -> Result<ConvGeometry> {
    let axes = shape.windows().each_ref().map(|windows| *windows.axis());
    let pair = |what, of: &dyn Fn(usize) -> usize| -> Result<[u32; 2]> {
        Ok([size_u32(of(0), what)?, size_u32(of(1), what)?])
    };
    Ok(ConvGeometry {
        size: pair("size of an image", &|k| axes[k].size)?,
        kernel: pair("size of a kernel", &|k| axes[k].kernel)?,
        stride: pair("stride", &|k| axes[k].stride)?,
        padding: pair("padding", &|k| axes[k].padding[0])?,
        dilation: pair("dilation", &|k| axes[k].dilation)?,
        columns: size_u32(shape.windows()[1].len(), "columns")?,
        n_positions: size_u32(shape.n_positions(), "number of positions")?,
    })
}

/// Returns the largest number of output channels of one group of inputs.
fn group_channels(shape: &ConvShape) -> Result<usize> {
    let location = "conv::group_channels, convolution without groups";
    shape
        .groups()
        .map(|(_, channels)| channels.len())
        .max()
        .ok_or(Error::Internal { place: location })
}

/// Returns a grid with a thread for each of `n` items, which kernels here count with 32 bits.
fn grid_of(n: u64) -> Result<Grid> {
    size_u32(n.next_multiple_of(THREADS), "threads")?;
    Grid::row(n.div_ceil(THREADS))
}

#[derive(Debug)]
enum Store {
    /// All weights, the rows of each part.
    Resident(Vec<DeviceBuffer<u32>>),
    /// Room for some output channels, and the encoder of their weights.
    Regenerated(Box<Mutex<(WeightEncoder, DeviceBuffer<u32>)>>, usize),
}

/// A convolution on a card.
#[derive(Debug)]
pub(crate) struct CudaConv {
    context: Arc<CudaContext>,
    shape: ConvShape,
    geometry: ConvGeometry,
    length: Length,
    polarity: Polarity,
    product: Product,
    plan: PatchPlan,
    store: Store,
    /// The bits of all products, by position.
    totals: DeviceBuffer<u64>,
    /// The constant of each neuron, if they differ.
    base: Option<DeviceBuffer<u64>>,
    stage: InputStage,
    sets: BufferSets,
}

impl CudaConv {
    /// Creates a layer, with `encoder` for its inputs.
    pub(crate) fn new(
        context: &Arc<CudaContext>,
        spec: &LayerSpec,
        weights: &Weights,
        encoder: Encoder,
        inputs: InputSign,
        max_batch: usize,
        cancel: Cancel<'_>,
    ) -> Result<Self> {
        if max_batch == 0 {
            return Err(CoreError::Zero(Quantity::Samples).into());
        }
        let (shape, length, polarity) = (shape_of(spec)?, spec.length(), spec.polarity());
        let product = Product::of(polarity, inputs);
        let rows_per_channel = rows_per_channel(product);
        let sizes = PatchShape {
            n_inputs: shape.n_inputs(),
            n_taps: shape.kernel_weights(),
            n_positions: shape.n_positions(),
            n_rows: rows_per_channel * shape.n_channels(),
            n_channels: shape.n_channels(),
            group_rows: rows_per_channel * group_channels(&shape)?,
            row_streams: product.row_streams(),
            stream: StreamWords::of(length),
        };
        let base_len = if product == Product::Xnor { shape.n_outputs() } else { 0 };
        let fixed = 8 * (shape.n_positions() as u128 + base_len as u128);
        let mut maker = WeightEncoder::new(context, spec, weights, product, product.row_streams())?;
        let plan = PatchPlan::new(&sizes, max_batch, fixed, context.free_bytes()?)?;
        let stream = Stream::new(context)?;
        let totals: Vec<u64> = shape
            .fan_ins()
            .into_iter()
            .map(|n| (n as u64).wrapping_mul(length.bits() as u64))
            .collect();
        let totals = DeviceBuffer::with(context, &totals, &stream)?;
        let store = match plan.residency {
            Residency::Resident => {
                let mut all = Vec::new();
                for part in &plan.parts {
                    let n_rows = rows_per_channel * shape.n_channels();
                    let rows = DeviceBuffer::new(context, n_rows * part.stride as usize)?;
                    for (_, channels) in shape.groups() {
                        let first = (rows_per_channel * channels.start) as u64 * part.bytes();
                        encode_channels(
                            &mut maker,
                            product,
                            channels,
                            part,
                            rows.view().from(first)?,
                            cancel,
                        )?;
                    }
                    all.push(rows);
                }
                Store::Resident(all)
            }
            Residency::Regenerated { rows } => {
                let rows = rows.next_multiple_of(rows_per_channel);
                let buffer = DeviceBuffer::new(context, host_size(plan.widest()) / 4 * rows)?;
                Store::Regenerated(Box::new(Mutex::new((maker, buffer))), rows / rows_per_channel)
            }
        };
        let mut layer = Self {
            context: Arc::clone(context),
            shape,
            geometry: geometry(&shape)?,
            length,
            polarity,
            product,
            plan,
            store,
            totals,
            base: None,
            stage: InputStage {
                context: Arc::clone(context),
                n_units: shape.n_inputs(),
                length,
                product,
                encoder,
            },
            sets: BufferSets::default(),
        };
        if product == Product::Xnor {
            layer.base = Some(layer.negated_ones(&stream, cancel)?);
        }
        Ok(layer)
    }

    /// Returns for each neuron the negated number of ones of the weights under its taps inside the
    /// image: the counts of AND with streams of ones.
    fn negated_ones(&mut self, stream: &Stream, cancel: Cancel<'_>) -> Result<DeviceBuffer<u64>> {
        let n = self.shape.n_inputs();
        let mut all = memory::with_capacity(n as u128, Quantity::Inputs)?;
        all.resize(n, self.stage.encoder.one());
        let options = CountOptions { cancel, profiler: None, after: None, program: None };
        let output = Output::counts(1, self.shape.n_outputs())?;
        self.product = Product::And;
        let ones = self.counts(
            Source::Thresholds(&all),
            1,
            StreamAddress::input(0, 0, 0),
            output,
            &options,
        );
        self.product = Product::Xnor;
        let negated: Vec<u64> = ones?.into_iter().map(u64::wrapping_neg).collect();
        DeviceBuffer::with(&self.context, &negated, stream)
    }

    pub(crate) fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    pub(crate) fn chunk(&self) -> usize {
        self.plan.chunk
    }

    /// Returns whether all weights are resident.
    pub(crate) fn is_kept(&self) -> bool {
        matches!(self.store, Store::Resident(_))
    }

    fn row_streams(&self) -> RowStreams {
        self.product.row_streams()
    }

    pub(crate) fn sizes(&self) -> Result<SetSizes> {
        let (plan, shape) = (&self.plan, &self.shape);
        let rows = self.row_streams().of(plan.patches);
        Ok(SetSizes {
            values: plan.chunk * shape.n_inputs(),
            // Streams of the inputs, then patches.
            work: plan.chunk * plan.inputs.stride as usize + rows * host_size(plan.widest()) / 4,
            counts: rows * rows_per_channel(self.product) * group_channels(shape)?,
            results: plan.chunk * shape.n_outputs(),
            samples: rows,
        })
    }

    pub(crate) fn sets(&self) -> &BufferSets {
        &self.sets
    }

    fn new_set(&self) -> Result<BufferSet> {
        BufferSet::new(&self.context, self.sizes()?)
    }

    /// Enqueues the counting of a chunk on the stream of a set, without waiting for it.
    pub(crate) fn enqueue(
        &self,
        set: &mut BufferSet,
        source: Source<'_>,
        n_samples: usize,
        first: StreamAddress,
        output: Output<'_>,
        options: &CountOptions<'_>,
    ) -> Result<()> {
        ConvRun { layer: self, source, seed: call_seed(first), output, options }
            .submit(set, 0..n_samples)
    }

    /// Counts a batch whose first stream is drawn at `first`.
    pub(crate) fn counts(
        &self,
        source: Source<'_>,
        n_samples: usize,
        first: StreamAddress,
        output: Output<'_>,
        options: &CountOptions<'_>,
    ) -> Result<Vec<u64>> {
        if let Output::Card(results) = &output
            && results.kind != ResultKind::Counts
        {
            check_values(self.shape.max_fan_in(), self.length)?;
        }
        let mut run = ConvRun { layer: self, source, seed: call_seed(first), output, options };
        self.sets.run(n_samples, self.plan.chunk, options, || self.new_set(), &mut run)?;
        Ok(run.output.into_counts())
    }
}

/// Returns the number of rows of weights of an output channel.
const fn rows_per_channel(product: Product) -> usize {
    if matches!(product, Product::SplitAnd) { 2 } else { 1 }
}

/// Encodes the rows of some output channels of one group: with split weights, those of the positive
/// weights of all, then of the negative ones.
fn encode_channels(
    maker: &mut WeightEncoder,
    product: Product,
    channels: Range<usize>,
    part: &Part,
    to: View<'_>,
    cancel: Cancel<'_>,
) -> Result<()> {
    if product != Product::SplitAnd {
        return maker.encode_rows(channels, SignFilter::All, part, to, cancel);
    }
    let bytes = channels.len() as u64 * part.bytes();
    maker.encode_rows(channels.clone(), SignFilter::Positive, part, to, cancel)?;
    maker.encode_rows(channels, SignFilter::Negative, part, to.from(bytes)?, cancel)
}

/// Some positions of the samples of a chunk, and the offset of their rows.
#[derive(Debug, Clone, Copy)]
struct Patches<'a> {
    first_sample: u32,
    first_position: u32,
    n: usize,
    rows: View<'a>,
}

/// Some output channels of one group of inputs.
#[derive(Debug, Clone)]
struct Channels {
    /// The first input channel of the group.
    first_input: usize,
    range: Range<usize>,
}

/// State of one in-flight call.
struct ConvRun<'l, 'i> {
    layer: &'l CudaConv,
    source: Source<'i>,
    seed: CallSeed,
    output: Output<'i>,
    options: &'l CountOptions<'l>,
}

impl ConvRun<'_, '_> {
    /// Enqueues the gathering of a part of some patches.
    fn enqueue_rows(
        &self,
        set: &BufferSet,
        at: &Patches<'_>,
        part: &Part,
        first_channel: usize,
    ) -> Result<()> {
        let ConvRun { layer, options, .. } = self;
        let (shape, plan, streams) = (&layer.shape, &layer.plan, layer.row_streams());
        let stream = StreamWords::of(layer.length);
        // The samples of the patches.
        let positions = u64::from(layer.geometry.n_positions);
        let last = u64::from(at.first_position) + at.n as u64 - 1;
        let samples = u128::from(u64::from(at.first_sample) + last / positions + 1);
        // Streams begin with whole vectors, and so do parts, which begin with whole 128 bytes.
        let is_wide = stream.stored.is_multiple_of(4);
        let (kernel, vector) =
            if is_wide { (&kernels::GATHER_4, 16) } else { (&kernels::GATHER_2, 8) };
        let row_bytes = streams.of(at.n) as u64 * part.bytes();
        let params = GatherParams {
            part: part.of_rows(streams.of(shape.kernel_weights()), stream)?,
            conv: layer.geometry,
            streams: set.work.view().check(samples * u128::from(plan.inputs.bytes()))?,
            thresholds: match streams {
                RowStreams::Magnitudes => 0,
                RowStreams::BothSigns => {
                    set.values()?.check(8 * samples * shape.n_inputs() as u128)?
                }
            },
            rows: at.rows.check(row_bytes.into())?,
            row_words: plan.inputs.stride.into(),
            first_sample: at.first_sample,
            first_position: at.first_position,
            n_patches: size_u32(at.n, "number of patches")?,
            n_inputs: size_u32(shape.n_inputs(), "number of inputs")?,
            first_channel: size_u32(first_channel, "first channel")?,
            both_signs: streams as u32,
        };
        // The kernel counts positions from that of the first sample on with 32 bits.
        size_u32(last, "last position of a chunk")?;
        let grid = grid_of(row_bytes / vector)?;
        set.queue(options).launch(kernel, grid, 0, &params, 2 * row_bytes)
    }

    /// Returns the parameters of the results of a chunk, without reports and ones of rows.
    fn finish(&self, set: &BufferSet, n_samples: usize, out: &CardResults<'_>) -> Result<Finish> {
        let (layer, shape) = (self.layer, &self.layer.shape);
        let neurons = shape.n_outputs() as u128;
        Ok(Finish {
            base: layer.base.as_ref().map_or(Ok(0), |base| base.view().check(8 * neurons))?,
            row_ones: 0,
            totals: layer.totals.view().check(8 * shape.n_positions() as u128)?,
            total: 0,
            factor: if layer.product == Product::Xnor { 2 } else { 1 },
            length: layer.length.bits() as u64,
            out: out.view.check(8 * neurons * n_samples as u128)?,
            report: 0,
            state: set.state.view().check(16)?,
            stage: out.stage()?,
            n_neurons: size_u32(shape.n_outputs(), "number of neurons")?,
            n_samples: size_u32(n_samples, "number of samples")?,
            accumulate: 0,
            kind: out.kind as u32,
        })
    }

    /// Enqueues the computation of results from counts. The last launch of a chunk `reports` the
    /// findings about its values.
    fn enqueue_results(
        &self,
        set: &BufferSet,
        at: &Patches<'_>,
        channels: &Range<usize>,
        samples: &Range<usize>,
        steps: Steps,
    ) -> Result<()> {
        let ConvRun { layer, options, .. } = self;
        let (shape, rows) = (&layer.shape, layer.row_streams().of(at.n));
        let host = set.results.view();
        let out = match &self.output {
            Output::Counts(_) => CardResults::counts(host.from(8 * HEAD as u64)?),
            Output::Card(results) => {
                results.from(8 * (samples.start * shape.n_outputs()) as u64)?
            }
        };
        let takes_ones = layer.product == Product::Xnor;
        let all = self.finish(set, samples.len(), &out)?;
        let finish = Finish {
            base: if steps.first_part { all.base } else { 0 },
            row_ones: if takes_ones { set.row_ones.view().check(4 * rows as u128)? } else { 0 },
            report: if steps.last { host.check(8)? } else { 0 },
            accumulate: (!steps.first_part).into(),
            kind: if steps.last_part { out.kind } else { ResultKind::Counts } as u32,
            ..all
        };
        let n = at.n as u64 * channels.len() as u64;
        let params = FinishPatchesParams {
            finish,
            counted: set
                .counts
                .view()
                .check(4 * (rows * rows_per_channel(layer.product) * channels.len()) as u128)?,
            first_sample: at.first_sample,
            first_position: at.first_position,
            n_patches: size_u32(at.n, "number of patches")?,
            n_positions: layer.geometry.n_positions,
            both_signs: layer.row_streams() as u32,
            n_channels: size_u32(channels.len(), "number of channels")?,
            first_channel: size_u32(channels.start, "first channel")?,
            adds_totals: (layer.product != Product::And && steps.first_part).into(),
            split_weights: (layer.product == Product::SplitAnd).into(),
            padding: 0,
        };
        let blocks = |n: usize| (n as u64).div_ceil(FINISH_TILE.into());
        let grid = Grid::row(blocks(at.n).saturating_mul(blocks(channels.len())))?;
        // One row more than the tile, so that columns use different banks.
        let shared_bytes = 4 * FINISH_TILE * (FINISH_TILE + 1);
        set.queue(options).launch(&kernels::FINISH_PATCHES, grid, shared_bytes, &params, 16 * n)?;
        if takes_ones { set.row_ones.fill(0, &set.stream) } else { Ok(()) }
    }

    /// Enqueues the counting of a few rows, with a kernel that computes no results here.
    fn enqueue_few(
        &self,
        set: &BufferSet,
        part: &Part,
        weights: (View<'_>, usize),
        rows: View<'_>,
        target: &Target<'_>,
    ) -> Result<()> {
        let ConvRun { layer, options, .. } = self;
        let streams = layer.row_streams().of(layer.shape.kernel_weights());
        let from = FewInputs {
            part: part.of_rows(streams, StreamWords::of(layer.length))?,
            kind: ValueKind::PackedStreams,
            inputs: rows,
            one: 0,
            seed: CallSeed::default(),
            tag: 0,
            // The ones of rows are counted separately.
            xnor: false,
            reports: set.download.view(),
        };
        let (finish, queue) = (Finish::none(set.state.view().check(16)?), set.queue(options));
        let plan = launch::few_tiles_plan(&launch::card_of(&queue), part, weights.1)?;
        launch::few(part, weights, &from, target, finish, plan)?.give(&queue)
    }

    /// Enqueues all launches of some output channels and a part of the columns.
    fn enqueue_channels(
        &self,
        set: &BufferSet,
        samples: &Range<usize>,
        part: usize,
        channels: &Channels,
        weights: View<'_>,
    ) -> Result<()> {
        let ConvRun { layer, options, .. } = self;
        let (plan, positions, queue) = (&layer.plan, layer.shape.n_positions(), set.queue(options));
        let (at_part, all) = (&plan.parts[part], samples.len() * positions);
        let rows = set.work.view().from(plan.chunk as u64 * plan.inputs.bytes())?;
        let n_channels = rows_per_channel(layer.product) * channels.range.len();
        for first in (0..all).step_by(plan.patches) {
            let at = Patches {
                first_sample: size_u32(first / positions, "first sample")?,
                first_position: size_u32(first % positions, "first position")?,
                n: plan.patches.min(all - first),
                rows,
            };
            self.enqueue_rows(set, &at, at_part, channels.first_input)?;
            let n_rows = layer.row_streams().of(at.n);
            if layer.product == Product::Xnor {
                let ones = set.row_ones.view();
                count_row_ones(&queue, rows, at_part.stride, n_rows, ones, OnesWidth::Bits32)?;
            }
            let target = Target {
                counts: set.counts.view(),
                n_neurons: n_channels,
                first_neuron: 0,
                n_samples: n_rows,
            };
            if n_rows <= MAX_SAMPLES {
                self.enqueue_few(set, at_part, (weights, n_channels), rows, &target)?;
            } else {
                launch::tiles(
                    &queue,
                    at_part,
                    (weights, n_channels),
                    rows,
                    &target,
                    KernelChoice::Tiles,
                )?;
            }
            let last_part = part + 1 == plan.parts.len();
            let last =
                last_part && channels.range.end == layer.shape.n_channels() && first + at.n == all;
            let steps = Steps { first_part: part == 0, last_part, last };
            self.enqueue_results(set, &at, &channels.range, samples, steps)?;
        }
        Ok(())
    }

    /// Enqueues the counting of a chunk, and the computation of results; the streams of its inputs
    /// are encoded.
    fn enqueue_counts(&self, set: &BufferSet, samples: &Range<usize>) -> Result<()> {
        let ConvRun { layer, options, .. } = self;
        for (k, part) in layer.plan.parts.iter().enumerate() {
            for (first_input, range) in layer.shape.groups() {
                match &layer.store {
                    Store::Resident(all) => {
                        let row = rows_per_channel(layer.product) * range.start;
                        let weights = all[k].view().from(row as u64 * part.bytes())?;
                        self.enqueue_channels(
                            set,
                            samples,
                            k,
                            &Channels { first_input, range },
                            weights,
                        )?;
                    }
                    Store::Regenerated(regenerated, at_once) => {
                        let mut regenerated =
                            regenerated.lock().unwrap_or_else(PoisonError::into_inner);
                        let (maker, buffer) = &mut *regenerated;
                        for start in range.clone().step_by(*at_once) {
                            let some = start..range.end.min(start + at_once);
                            let (product, cancel) = (layer.product, options.cancel);
                            encode_channels(
                                maker,
                                product,
                                some.clone(),
                                part,
                                buffer.view(),
                                cancel,
                            )?;
                            let channels = Channels { first_input, range: some };
                            self.enqueue_channels(set, samples, k, &channels, buffer.view())?;
                            // The next channels reuse the buffer.
                            set.stream.synchronize()?;
                        }
                    }
                }
            }
        }
        if options.program.is_some() {
            return Ok(());
        }
        let n = match self.output {
            Output::Counts(_) => samples.len() * layer.shape.n_outputs(),
            Output::Card(_) => 0,
        };
        set.download.receive(0, HEAD + n, &set.results, 0, &set.stream)
    }

    /// Returns whether a chunk is recorded: if all weights are resident and values are uploaded at
    /// once.
    fn is_recorded(&self, n_samples: usize) -> bool {
        let plain = self.options.profiler.is_none() && matches!(self.output, Output::Counts(_));
        let values = 8 * n_samples * self.layer.shape.n_inputs();
        plain
            && self.source.words().is_some()
            && self.layer.is_kept()
            && values <= RECORDED_VALUE_BYTES
    }
}

/// The position of a launch in a chunk.
#[derive(Debug, Clone, Copy)]
struct Steps {
    first_part: bool,
    last_part: bool,
    /// Whether it is the last launch.
    last: bool,
}

impl ChunkRun for ConvRun<'_, '_> {
    fn submit(&mut self, set: &mut BufferSet, samples: Range<usize>) -> Result<()> {
        let ConvRun { layer, source, options, .. } = &*self;
        let (stage, part, n_samples) = (&layer.stage, &layer.plan.inputs, samples.len());
        if self.enqueue_direct(set, n_samples)? {
            return Ok(());
        }
        let kind = source.kind(layer.product);
        // Rows were checked to fit.
        let first_row = row_of(self.seed, samples.start)?;
        let seed = CallSeed { first_row, ..self.seed };
        if kind == ValueKind::PackedStreams {
            stage.send_streams(set, source, &samples, part)?;
            stage.send_signs(set, source, &samples)?;
            return self.enqueue_counts(set, &samples);
        }
        if let Some(words) = source.words()
            && self.is_recorded(n_samples)
        {
            stage.fill(set, words, &samples, &(0..n_samples))?;
            set.set_seed(seed);
            return set.repeat(GraphKey { n_samples, kind }, |set| {
                set.upload.send(
                    0,
                    HEAD + n_samples * stage.n_units,
                    &set.inputs,
                    0,
                    &set.stream,
                )?;
                stage.take_values(set, options, kind, set.values()?, 0..n_samples, Some(part))?;
                self.enqueue_counts(set, &samples)
            });
        }
        stage.send(set, options, source, &samples, seed, Some(part))?;
        self.enqueue_counts(set, &samples)
    }

    fn receive(&mut self, set: &mut BufferSet, samples: Range<usize>) -> Result<()> {
        let layer = self.layer;
        if let Some(index) = set.bad_value() {
            let first = samples.start * layer.shape.n_inputs();
            return Err(self.source.bad_value(set, first, index, layer.polarity)?.into());
        }
        match &mut self.output {
            Output::Counts(counts) => {
                set.take_results(samples.len() * layer.shape.n_outputs(), counts)
            }
            Output::Card(_) => Ok(()),
        }
    }
}

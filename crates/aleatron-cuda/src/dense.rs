//! Dense layers on a GPU: weights are resident, values are uploaded, integer counts are returned.
//!
//! A chunk of a call is: upload of values, thresholds, streams, tiles of products, results,
//! download. Up to eight samples of a layer with resident weights are one launch instead, which
//! reads values and writes results in host memory. `plan/` chooses the kernel and the number of
//! blocks.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use aleatron_core::program::InputSign;
use aleatron_core::{Cancel, DenseShape, LayerSpec, Quantity, StreamAddress, Weights};

use crate::buffers::{BufferSet, BufferSets, ChunkRun, CountOptions, GraphKey, HEAD, SetSizes};
use crate::driver::{CudaContext, DeviceBuffer, Stream, View};
use crate::encode::{Encoder, OnesWidth, RowStreams, call_seed, count_row_ones, row_of};
use crate::error::{Error, Result};
use crate::inputs::{InputStage, Source};
use crate::kernels::{CallSeed, ResultKind, ValueKind};
use crate::launch::{self, FewInputs, Target};
use crate::plan::few::MAX_SAMPLES;
use crate::plan::memory::{MemoryPlan, Residency};
use crate::plan::rows::{Part, StreamWords};
use crate::plan::tiles::TileShape;
use crate::product::Product;
use crate::results::{CardResults, CountWidth, Output, Recipe, Turn, check_values};
use crate::signed::{SignTerms, complement};
use crate::size::host_size;
use crate::weights::{SignFilter, WeightEncoder};

/// The largest size of values that a kernel reads in host memory: larger ones are copied first.
const IN_PLACE_VALUE_BYTES: usize = 64 << 10;

/// The largest size of results that a kernel writes in host memory.
const IN_PLACE_RESULT_BYTES: usize = 64 << 10;

/// The size of the number of ones of an operand with its sign.
const SIGNED_ONES_BYTES: u128 = 4;

/// The largest size of values of a call that is recorded and repeated, instead of launched step by
/// step.
pub(crate) const RECORDED_VALUE_BYTES: usize = 512 << 10;

/// The counting kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum KernelChoice {
    /// Chosen by the size of the batch.
    #[default]
    Auto,
    /// Tiles chosen by the size of the batch, for few samples too.
    Tiles,
    /// Tiles of this shape.
    Tile(TileShape),
}

/// The weights of some neurons and a part of their columns.
#[derive(Debug)]
struct Block {
    part: usize,
    neurons: Range<usize>,
    rows: DeviceBuffer<u32>,
}

#[derive(Debug)]
enum Store {
    /// All weights.
    Resident(Vec<Block>),
    /// Room for some neurons, and the encoder of their weights.
    Regenerated(Box<Mutex<(WeightEncoder, DeviceBuffer<u32>)>>, usize),
}

/// A dense layer on a card.
#[derive(Debug)]
pub(crate) struct CudaDense {
    context: Arc<CudaContext>,
    shape: DenseShape,
    product: Product,
    choice: KernelChoice,
    parts: Vec<Part>,
    chunk: usize,
    store: Store,
    /// The numbers of ones of the weight streams, with signs; `None` in a layer without signs.
    signed_ones: Option<DeviceBuffer<u32>>,
    stage: InputStage,
    recipe: Recipe,
    sets: BufferSets,
}

impl CudaDense {
    /// Creates a layer, with `encoder` for its inputs; returns the encoder if the streams of a signed
    /// layer do not fit the device memory, or counts do not fit 32 bits.
    pub(crate) fn new(
        context: &Arc<CudaContext>,
        spec: &LayerSpec,
        shape: DenseShape,
        weights: &Weights,
        encoder: Encoder,
        max_batch: usize,
        cancel: Cancel<'_>,
    ) -> Result<std::result::Result<Self, Encoder>> {
        if max_batch == 0 {
            return Err(aleatron_core::Error::Zero(Quantity::Samples).into());
        }
        let (n, m, length) = (shape.n_inputs(), shape.n_neurons(), shape.length());
        let product = Product::of(shape.polarity(), InputSign::Any);
        let streams_are = RowStreams::Magnitudes;
        let mut maker = WeightEncoder::new(context, spec, weights, product, streams_are)?;
        let operand_bytes = if product.is_signed() { SIGNED_ONES_BYTES } else { 0 };
        let (stream, free) = (StreamWords::of(length), context.free_bytes()?);
        let plan = MemoryPlan::dense(n, m, stream, max_batch, operand_bytes, free)?;
        if product.is_signed() {
            if plan.parts.len() != 1 || plan.residency != Residency::Resident {
                return Ok(Err(encoder));
            }
            maker.complement_negative()?;
        }
        let ones = match product {
            Product::And | Product::SignedAnd | Product::SplitAnd => None,
            Product::Xnor => {
                let ones = DeviceBuffer::<u64>::new(context, m)?;
                ones.fill(0, maker.stream())?;
                Some(ones)
            }
        };
        let count_ones = |maker: &WeightEncoder,
                          part: &Part,
                          neurons: &Range<usize>,
                          rows: View<'_>| match &ones {
            None => Ok(()),
            Some(ones) => {
                let (queue, ones) = (crate::queue::Queue::new(maker.stream()), ones.view());
                let ones = ones.from(8 * neurons.start as u64)?;
                count_row_ones(&queue, rows, part.stride, neurons.len(), ones, OnesWidth::Bits64)
            }
        };
        let (store, signed_ones) = match plan.residency {
            Residency::Resident => {
                let mut blocks = Vec::new();
                for (k, part) in plan.parts.iter().enumerate() {
                    let (neurons, words) = (0..m, m * part.stride as usize);
                    let rows = DeviceBuffer::new(context, words)?;
                    maker.encode_rows(
                        neurons.clone(),
                        SignFilter::All,
                        part,
                        rows.view(),
                        cancel,
                    )?;
                    count_ones(&maker, part, &neurons, rows.view())?;
                    blocks.push(Block { part: k, neurons, rows });
                }
                maker.stream().synchronize()?;
                (Store::Resident(blocks), maker.take_signed_ones())
            }
            Residency::Regenerated { rows: at_once } => {
                let rows = DeviceBuffer::new(context, host_size(plan.widest() * at_once as u64))?;
                if ones.is_some() {
                    for part in &plan.parts {
                        for start in (0..m).step_by(at_once) {
                            let neurons = start..m.min(start + at_once);
                            maker.encode_rows(
                                neurons.clone(),
                                SignFilter::All,
                                part,
                                rows.view(),
                                cancel,
                            )?;
                            count_ones(&maker, part, &neurons, rows.view())?;
                        }
                    }
                }
                maker.stream().synchronize()?;
                (Store::Regenerated(Box::new(Mutex::new((maker, rows))), at_once), None)
            }
        };
        let (all, stream) = (n as u64 * length.bits() as u64, Stream::new(context)?);
        let base = match ones {
            None if product.is_signed() => {
                Some(DeviceBuffer::with(context, &vec![all; m], &stream)?)
            }
            None => None,
            Some(ones) => {
                let base: Vec<u64> =
                    ones.read(&stream)?.into_iter().map(|ones| all.wrapping_sub(ones)).collect();
                Some(DeviceBuffer::with(context, &base, &stream)?)
            }
        };
        let layer = Self {
            context: Arc::clone(context),
            shape,
            product,
            choice: KernelChoice::Auto,
            parts: plan.parts,
            chunk: plan.chunk,
            store,
            signed_ones,
            stage: InputStage {
                context: Arc::clone(context),
                n_units: n,
                length,
                product,
                encoder,
            },
            recipe: Recipe::dense(m, n, length, product, base),
            sets: BufferSets::default(),
        };
        Ok(Ok(layer))
    }

    /// Returns the same layer with another choice of kernel. Counts do not depend on it.
    pub(crate) fn with_kernel(mut self, choice: KernelChoice) -> Self {
        self.choice = choice;
        self
    }

    pub(crate) fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// Returns whether all weights are resident.
    pub(crate) fn is_kept(&self) -> bool {
        matches!(self.store, Store::Resident(_))
    }

    pub(crate) fn chunk(&self) -> usize {
        self.chunk
    }

    pub(crate) fn sizes(&self) -> Result<SetSizes> {
        let (n, m) = (self.shape.n_inputs(), self.shape.n_neurons());
        let location = "dense::CudaDense::sizes, rows without words";
        let stride = self.parts.iter().map(|part| part.stride as usize).max();
        let stride = stride.ok_or(Error::Internal { place: location })?;
        Ok(SetSizes {
            values: self.chunk * n,
            // Streams, and then their numbers of ones with signs.
            work: self.chunk * (stride + if self.signed_ones.is_some() { n } else { 0 }),
            // Of one sample, they have twice the width.
            counts: self.chunk.max(2) * m,
            results: self.chunk * m,
            samples: self.chunk,
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
        DenseRun { layer: self, source, seed: call_seed(first), output, options }
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
            check_values(self.shape.n_inputs(), self.shape.length())?;
        }
        let mut run = DenseRun { layer: self, source, seed: call_seed(first), output, options };
        self.sets.run(n_samples, self.chunk, options, || self.new_set(), &mut run)?;
        Ok(run.output.into_counts())
    }

    /// Returns whether a chunk is one launch.
    fn is_few(&self, n_samples: usize) -> bool {
        let one_block = matches!(&self.store, Store::Resident(blocks) if blocks.len() == 1);
        let has_signs = self.signed_ones.is_some();
        self.choice == KernelChoice::Auto && one_block && n_samples <= MAX_SAMPLES && !has_signs
    }
}

/// State of one in-flight call.
struct DenseRun<'l, 'i> {
    layer: &'l CudaDense,
    source: Source<'i>,
    seed: CallSeed,
    output: Output<'i>,
    options: &'l CountOptions<'l>,
}

impl DenseRun<'_, '_> {
    /// Returns the seed of a chunk.
    fn seed(&self, samples: &Range<usize>) -> Result<CallSeed> {
        Ok(CallSeed { first_row: row_of(self.seed, samples.start)?, ..self.seed })
    }

    /// Returns the destination of a chunk's results in device memory, if they are resident.
    fn card_output(&self, samples: &Range<usize>) -> Result<Option<CardResults<'_>>> {
        match &self.output {
            Output::Counts(_) => Ok(None),
            Output::Card(results) => {
                let first = samples.start as u64 * self.layer.shape.n_neurons() as u64;
                Ok(Some(results.from(8 * first)?))
            }
        }
    }

    /// Submits a chunk as one launch.
    fn submit_few(&self, set: &mut BufferSet, samples: &Range<usize>) -> Result<()> {
        let DenseRun { layer, source, options, .. } = self;
        let (n, m, n_samples) = (layer.shape.n_inputs(), layer.shape.n_neurons(), samples.len());
        let location = "dense::DenseRun::submit_few, weights in several blocks";
        let (Store::Resident(blocks), [part]) = (&layer.store, &layer.parts[..]) else {
            return Err(Error::Internal { place: location });
        };
        let [block] = &blocks[..] else { return Err(Error::Internal { place: location }) };
        let (stage, seed) = (&layer.stage, self.seed(samples)?);
        let mut kind = source.kind(layer.product);
        // Rows that the kernel cannot encode itself are encoded before.
        if kind == ValueKind::PackedStreams {
            stage.send_streams(set, source, samples, part)?;
        } else if let Encoder::Sequences(_) = stage.encoder {
            stage.send(set, options, source, samples, seed, Some(part))?;
            kind = ValueKind::PackedStreams;
        } else if let Some(words) = source.words() {
            stage.fill(set, words, samples, &(0..n_samples))?;
            if 8 * n * n_samples > IN_PLACE_VALUE_BYTES {
                set.upload.send(HEAD, n * n_samples, &set.inputs, HEAD, &set.stream)?;
            }
        }
        let in_place = n_samples == 1 || 8 * m * n_samples <= IN_PLACE_RESULT_BYTES;
        if options.program.is_some() {
            // Nothing waits for the reports of a step of a program.
        } else if n_samples == 1 {
            set.expect_neurons(m);
        } else if in_place {
            set.expect_report();
        }
        let inputs = match (kind, source) {
            (ValueKind::PackedStreams, _) => set.work.view(),
            (_, Source::CardValues(values, kind)) => {
                values.from(kind.bytes() * (samples.start * n) as u64)?
            }
            _ if 8 * n * n_samples > IN_PLACE_VALUE_BYTES => set.values()?,
            _ => set.upload.view().from(8 * HEAD as u64)?,
        };
        let host = if in_place { set.download.view() } else { set.results.view() };
        let out = match self.card_output(samples)? {
            Some(card) => card,
            None => CardResults::counts(host.from(8 * HEAD as u64)?),
        };
        let finish = layer.recipe.finish(set, n_samples, out, host, Turn::ONLY)?;
        let few = FewInputs {
            part: part.of_rows(n, StreamWords::of(layer.shape.length()))?,
            kind,
            inputs,
            one: stage.encoder.one(),
            seed,
            tag: if let Encoder::Bernoulli { tag } = stage.encoder { tag } else { 0 },
            xnor: layer.product == Product::Xnor,
            reports: set.download.view().from(8 * HEAD as u64)?,
        };
        let target = Target { counts: set.counts.view(), n_neurons: m, first_neuron: 0, n_samples };
        let rows = (block.rows.view(), block.neurons.len());
        let plan =
            launch::few_plan(&launch::card_of(&set.queue(options)), part, rows.1, n_samples)?;
        let launch = launch::few(part, rows, &few, &target, finish, plan)?;
        match (options.profiler, options.program) {
            (None, None) => set.launch_few(launch)?,
            _ => launch.give(&set.queue(options))?,
        }
        if !in_place && options.program.is_none() {
            let n = if matches!(self.output, Output::Card(_)) { 0 } else { m * n_samples };
            set.download.receive(0, HEAD + n, &set.results, 0, &set.stream)?;
        }
        Ok(())
    }

    /// Enqueues the counting of the streams of a part, and the computation of results.
    fn enqueue_counts(&self, set: &BufferSet, samples: &Range<usize>, part: usize) -> Result<()> {
        let DenseRun { layer, options, .. } = self;
        let (queue, n_samples) = (set.queue(options), samples.len());
        let (last, at) = (layer.parts.len() - 1, &layer.parts[part]);
        if layer.recipe.takes_row_ones {
            let (rows, ones) = (set.work.view(), set.row_ones.view());
            count_row_ones(&queue, rows, at.stride, n_samples, ones, OnesWidth::Bits32)?;
        }
        let (n, m) = (layer.shape.n_inputs(), layer.shape.n_neurons());
        let input_ones = set.work.view().from(n_samples as u64 * at.bytes())?;
        if layer.signed_ones.is_some() {
            let part = at.of_rows(n, StreamWords::of(layer.shape.length()))?;
            complement(&queue, part, n_samples, set.values()?, set.work.view(), input_ones)?;
        }
        let mut target =
            Target { counts: set.counts.view(), n_neurons: m, first_neuron: 0, n_samples };
        match &layer.store {
            Store::Resident(blocks) => {
                for block in blocks.iter().filter(|block| block.part == part) {
                    target.first_neuron = block.neurons.start;
                    let rows = (block.rows.view(), block.neurons.len());
                    launch::tiles(&queue, at, rows, set.work.view(), &target, layer.choice)?;
                }
            }
            Store::Regenerated(regenerated, at_once) => {
                let mut regenerated = regenerated.lock().unwrap_or_else(PoisonError::into_inner);
                let (maker, buffer) = &mut *regenerated;
                for start in (0..layer.shape.n_neurons()).step_by(*at_once) {
                    let neurons = start..layer.shape.n_neurons().min(start + at_once);
                    maker.encode_rows(
                        neurons.clone(),
                        SignFilter::All,
                        at,
                        buffer.view(),
                        options.cancel,
                    )?;
                    target.first_neuron = start;
                    let rows = (buffer.view(), neurons.len());
                    launch::tiles(&queue, at, rows, set.work.view(), &target, layer.choice)?;
                    // The next neurons reuse the buffer.
                    set.stream.synchronize()?;
                }
            }
        }
        let mut width = CountWidth::Bits32;
        if let Some(weight_ones) = &layer.signed_ones {
            let (counts, length) = (set.counts.view(), layer.shape.length().bits());
            let (n_inputs, n_neurons) = (n, m);
            SignTerms { weight_ones, input_ones, counts, n_inputs, n_neurons, n_samples, length }
                .enqueue(&queue)?;
            width = CountWidth::Signed32;
        }
        let turn = Turn { first: part == 0, last: part == last };
        layer.recipe.give(set, options, n_samples, self.card_output(samples)?, width, turn)
    }

    /// Returns whether a chunk is recorded: if all weights are resident in one part and values are
    /// uploaded at once.
    fn is_recorded(&self, n_samples: usize) -> bool {
        let layer = self.layer;
        let values = 8 * n_samples * layer.shape.n_inputs();
        let plain = self.options.profiler.is_none() && matches!(self.output, Output::Counts(_));
        plain
            && self.source.words().is_some()
            && layer.is_kept()
            && layer.parts.len() == 1
            && values <= RECORDED_VALUE_BYTES
    }

    fn submit_recorded(&self, set: &mut BufferSet, samples: &Range<usize>) -> Result<()> {
        let (layer, n_samples) = (self.layer, samples.len());
        let (stage, part) = (&layer.stage, &layer.parts[0]);
        let kind = self.source.kind(layer.product);
        let location = "dense::DenseRun::submit_recorded, inputs that are not values";
        let words = self.source.words().ok_or(Error::Internal { place: location })?;
        stage.fill(set, words, samples, &(0..n_samples))?;
        set.set_seed(self.seed(samples)?);
        set.repeat(GraphKey { n_samples, kind }, |set| {
            let n_words = HEAD + n_samples * stage.n_units;
            set.upload.send(0, n_words, &set.inputs, 0, &set.stream)?;
            stage.take_values(set, self.options, kind, set.values()?, 0..n_samples, Some(part))?;
            self.enqueue_counts(set, samples, 0)
        })
    }
}

impl ChunkRun for DenseRun<'_, '_> {
    fn submit(&mut self, set: &mut BufferSet, samples: Range<usize>) -> Result<()> {
        let DenseRun { layer, source, options, .. } = &*self;
        if layer.is_few(samples.len()) {
            return self.submit_few(set, &samples);
        }
        if self.is_recorded(samples.len()) {
            return self.submit_recorded(set, &samples);
        }
        let (stage, seed) = (&layer.stage, self.seed(&samples)?);
        let is_packed = source.kind(layer.product) == ValueKind::PackedStreams;
        if !is_packed {
            // The streams of the only part are encoded as soon as their values arrive.
            let part = if let [part] = &layer.parts[..] { Some(part) } else { None };
            stage.send(set, options, source, &samples, seed, part)?;
        }
        for (k, part) in layer.parts.iter().enumerate() {
            if is_packed {
                stage.send_streams(set, source, &samples, part)?;
                stage.send_signs(set, source, &samples)?;
            } else if layer.parts.len() > 1 {
                stage.encode(set, options, part, 0..samples.len())?;
            }
            self.enqueue_counts(set, &samples, k)?;
        }
        Ok(())
    }

    fn receive(&mut self, set: &mut BufferSet, samples: Range<usize>) -> Result<()> {
        let (layer, n) = (self.layer, self.layer.shape.n_inputs());
        if let Some(index) = set.bad_value() {
            let polarity = layer.shape.polarity();
            return Err(self.source.bad_value(set, samples.start * n, index, polarity)?.into());
        }
        match &mut self.output {
            Output::Counts(counts) => {
                set.take_results(samples.len() * layer.shape.n_neurons(), counts)
            }
            Output::Card(_) => Ok(()),
        }
    }
}

/// Creates the error of an unsupported operation.
pub(crate) fn unsupported(what: &str) -> Error {
    aleatron_core::Error::unsupported("cuda", what).into()
}

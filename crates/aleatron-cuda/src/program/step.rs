//! The steps of a program on a GPU: resident constants, and launches.

use std::sync::Arc;

use aleatron_core::arithmetic::{Border, PoolKind, PoolShape, Requantizer};
use aleatron_core::generator::Width;
use aleatron_core::program::{
    Bounds, ConstantOp, Pattern, Program, Sign, SlotKind, Step, StepKind, ValueRange,
};
use aleatron_core::{Error as CoreError, LayerSpec, Polarity};
use bytemuck::Zeroable;

use super::params::{
    AccumulateParams, CombineParams, DecodeParams, Elements, FinishKind, FinishStage,
    FloatsToThresholds, GatherElementsParams, IntegersToThresholds, Keys, LayerCounts, MAX_SOURCES,
    MapKind, MapParams, PoolParams, PoolThresholdsParams, QuantizeEntry, QuantizeParams,
    RequantizeEntry, RequantizeParams,
};
use crate::driver::{CudaContext, DeviceBuffer, Grid, Stream, View, kernels};
use crate::error::{Error, Result};
use crate::queue::Queue;
use crate::size::size_u32;

/// The shared memory in which a block counts values outside the interval.
const COUNTER_BYTES: u32 = 4;

/// Integers of all steps are below this.
pub(super) const LIMIT: u128 = 1 << 62;

/// Number of threads of a block of all kernels here.
const THREADS: u64 = 256;

/// A step of the inter-layer arithmetic.
#[derive(Debug)]
pub(super) struct StageStep {
    op: Op,
    /// The number of elements of the output per sample.
    len: usize,
    /// The number of elements of each input per sample.
    input_lens: Vec<usize>,
}

/// Constants of elements, on the card.
#[derive(Debug)]
struct Table {
    /// `None` if all elements have the same entry.
    keys: Option<(DeviceBuffer<u32>, u32)>,
    entries: DeviceBuffer<u64>,
    n_entries: usize,
}

#[derive(Debug)]
struct Counts {
    products: DeviceBuffer<u64>,
    period: u32,
    n_neurons: u32,
    row_neurons: u32,
    polarity: Polarity,
    n_rows: usize,
}

#[derive(Debug)]
enum Op {
    Decode { counts: Counts, rows: DeviceBuffer<u64>, length: f64, low: f64, high: f64 },
    Accumulate { counts: Counts, bias: DeviceBuffer<u64>, low: i64, high: i64, fraction: u32 },
    Map { kind: MapKind, table: Table, entry_words: usize },
    Combine { subtracts: bool, is_float: bool, table: Option<Table> },
    Gather { map: DeviceBuffer<u32> },
    Pool { shape: PoolShape, is_float: bool },
    Quantize(Box<QuantizeOp>),
    Requantize(RequantizeOp),
}

#[derive(Debug)]
struct RequantizeOp {
    layer: usize,
    table: Table,
    has_signs: bool,
}

#[derive(Debug)]
struct QuantizeOp {
    layer: usize,
    /// The index among the steps of this kind.
    index: usize,
    allowed: [f64; 2],
    quantizer: QuantizeEntry,
    counts_saturated: bool,
}

/// The memory that a launch of steps reads and writes.
pub(super) struct StepViews<'a> {
    pub(super) inputs: Vec<View<'a>>,
    pub(super) output: View<'a>,
    /// The first rejected value of each step that quantizes.
    pub(super) found: View<'a>,
    /// The saturated inputs of each layer.
    pub(super) saturated: View<'a>,
}

impl StageStep {
    /// Prepares a step; `None` if kernels here cannot run it. `n_quantized` counts the steps that
    /// quantize.
    pub(super) fn new(
        context: &Arc<CudaContext>,
        stream: &Stream,
        program: &Program,
        step: &Step,
        magnitudes: &[u128],
        n_quantized: &mut usize,
    ) -> Result<Option<Self>> {
        let spec = |layer: usize| -> Result<&LayerSpec> {
            let missing = CoreError::Internal { place: "cuda::program::StageStep::new" };
            Ok(&program.layers().get(layer).ok_or(missing)?.spec)
        };
        let upload = |words: &[u64]| DeviceBuffer::with(context, words, stream);
        let is_float = program.slot(step.output()).kind == SlotKind::Float;
        let op = match step.kind() {
            StepKind::Product { .. } => return Ok(None),
            StepKind::Decode { layer, stage } => {
                let spec = spec(*layer)?;
                if spec.max_count() >= LIMIT / 2 {
                    return Ok(None);
                }
                let [low, high] = stage.activation.bounds();
                let scales = stage.scales.iter().copied().cycle();
                let rows: Vec<u64> = stage
                    .bias
                    .iter()
                    .zip(scales)
                    .flat_map(|(&bias, scale)| [scale, bias])
                    .map(f64::to_bits)
                    .collect();
                let (counts, length) =
                    (Counts::new(context, stream, spec)?, spec.length().bits() as f64);
                Op::Decode { counts, rows: upload(&rows)?, length, low, high }
            }
            StepKind::Accumulate { layer, accumulator } => {
                let [low, high] = accumulator.bounds();
                let bias: Vec<u64> =
                    accumulator.bias().iter().map(|&bias| bias.cast_unsigned()).collect();
                let (counts, fraction) =
                    (Counts::new(context, stream, spec(*layer)?)?, accumulator.fraction());
                Op::Accumulate { counts, bias: upload(&bias)?, low, high, fraction }
            }
            StepKind::Constant { op, constants } => {
                let kind = match op {
                    ConstantOp::Add => MapKind::Add,
                    ConstantOp::Subtract => MapKind::Subtract,
                    ConstantOp::SubtractFrom => MapKind::SubtractFrom,
                    ConstantOp::Multiply => MapKind::Multiply,
                    ConstantOp::Divide => MapKind::Divide,
                };
                let table =
                    Table::new(context, stream, constants, |constant| vec![constant.to_bits()])?;
                Op::Map { kind, table, entry_words: 1 }
            }
            StepKind::Offset { sign, terms } => {
                let kind =
                    if *sign == Sign::Plus { MapKind::Offset } else { MapKind::NegateAndOffset };
                Op::Map {
                    kind,
                    table: Table::new(context, stream, terms, |&term| vec![term.cast_unsigned()])?,
                    entry_words: 1,
                }
            }
            StepKind::Clip(Bounds::Float(bounds)) => {
                let table =
                    Table::new(context, stream, bounds, |ends| ends.map(f64::to_bits).to_vec())?;
                Op::Map { kind: MapKind::ClipFloats, table, entry_words: 2 }
            }
            StepKind::Clip(Bounds::Integer(bounds)) => {
                let table = Table::new(context, stream, bounds, |ends| {
                    ends.map(|end| end.cast_unsigned()).to_vec()
                })?;
                Op::Map { kind: MapKind::ClipIntegers, table, entry_words: 2 }
            }
            StepKind::Restore { units } => {
                let table = Table::new(context, stream, units, |unit| vec![unit.to_bits()])?;
                Op::Map { kind: MapKind::Restore, table, entry_words: 1 }
            }
            StepKind::Combine { sign, rescale } => {
                let words = |pair: &[Option<aleatron_core::arithmetic::Rescaler>; 2]| {
                    let one = |rescaler: &Option<aleatron_core::arithmetic::Rescaler>| {
                        rescaler.map_or([1, 0], |r| [r.multiplier(), r.shift().into()])
                    };
                    pair.iter().flat_map(one).collect()
                };
                let has_long_shift = rescale
                    .iter()
                    .flat_map(Pattern::table)
                    .flatten()
                    .flatten()
                    .any(|r| r.shift() > 61);
                if has_long_shift {
                    return Ok(None);
                }
                let table = rescale
                    .as_ref()
                    .map(|rescale| Table::new(context, stream, rescale, words))
                    .transpose()?;
                Op::Combine { subtracts: *sign == Sign::Minus, is_float, table }
            }
            StepKind::Gather { map } => {
                if step.inputs().len() > MAX_SOURCES {
                    return Ok(None);
                }
                let pairs: Vec<u32> =
                    map.iter().flat_map(|index| [index.input, index.element]).collect();
                Op::Gather { map: DeviceBuffer::with(context, &pairs, stream)? }
            }
            StepKind::Pool(shape) => Op::Pool { shape: *shape, is_float },
            StepKind::Quantize { layer, scale, comparator, range } => {
                let quantizer = quantizer(spec(*layer)?, *scale, *comparator);
                let slack = ValueRange::ROUNDING * (quantizer.high - quantizer.low);
                *n_quantized += 1;
                Op::Quantize(Box::new(QuantizeOp {
                    layer: *layer,
                    index: *n_quantized - 1,
                    allowed: match range {
                        ValueRange::Check => [quantizer.low - slack, quantizer.high + slack],
                        ValueRange::Saturate => [f64::NEG_INFINITY, f64::INFINITY],
                    },
                    quantizer,
                    counts_saturated: *range == ValueRange::Saturate,
                }))
            }
            StepKind::Requantize { layer, requantizers } => {
                let (spec, largest) = (spec(*layer)?, magnitudes[step.input().index()]);
                let Some(table) = requantize_table(context, stream, spec, requantizers, largest)?
                else {
                    return Ok(None);
                };
                let has_signs = spec.polarity() == Polarity::Signed;
                Op::Requantize(RequantizeOp { layer: *layer, table, has_signs })
            }
            _ => return Ok(None),
        };
        let input_lens = step.inputs().iter().map(|&id| program.slot(id).len).collect();
        Ok(Some(Self { op, len: program.slot(step.output()).len, input_lens }))
    }

    /// Returns the index of a step that quantizes, and its layer.
    pub(super) fn quantized(&self) -> Option<usize> {
        match &self.op {
            Op::Quantize(op) => Some(op.index),
            _ => None,
        }
    }

    /// Enqueues the step for `n_samples` samples.
    pub(super) fn give(
        &self,
        queue: &Queue<'_>,
        n_samples: usize,
        views: &StepViews<'_>,
    ) -> Result<()> {
        let n = n_samples as u64 * self.len as u64;
        let elements = Elements { n, len: size_u32(self.len, "elements of a sample")?, padding: 0 };
        let out = views.output.check(8 * u128::from(n))?;
        let input = |k: usize| -> Result<u64> {
            let (Some(view), Some(&len)) = (views.inputs.get(k), self.input_lens.get(k)) else {
                return Err(CoreError::Internal { place: "cuda::program::StageStep::give" }.into());
            };
            view.check(8 * n_samples as u128 * len as u128)
        };
        let grid = Grid::row(n.div_ceil(THREADS))?;
        match &self.op {
            Op::Decode { counts, rows, length, low, high } => {
                let (length, low, high) = (*length, *low, *high);
                let rows = rows.view().check(16 * counts.n_rows as u128)?;
                let counts = counts.params(input(0)?)?;
                let params = DecodeParams { elements, counts, rows, out, length, low, high };
                queue.launch(&kernels::STAGE_DECODE, grid, 0, &params, 16 * n)
            }
            Op::Accumulate { counts, bias, low, high, fraction } => {
                let bias = bias.view().check(8 * counts.n_rows as u128)?;
                let (counts, low, high, fraction) =
                    (counts.params(input(0)?)?, *low, *high, *fraction);
                let params = AccumulateParams {
                    elements,
                    counts,
                    bias,
                    out,
                    low,
                    high,
                    fraction,
                    padding: 0,
                };
                queue.launch(&kernels::STAGE_ACCUMULATE, grid, 0, &params, 16 * n)
            }
            Op::Map { kind, table, entry_words } => {
                let params = MapParams {
                    elements,
                    keys: table.params(self.len)?,
                    input: input(0)?,
                    out,
                    table: table
                        .entries
                        .view()
                        .check(8 * (*entry_words * table.n_entries) as u128)?,
                    kind: *kind as u32,
                    padding: 0,
                };
                queue.launch(&kernels::STAGE_MAP, grid, 0, &params, 16 * n)
            }
            Op::Combine { subtracts, is_float, table } => {
                let none = Keys { keys: 0, period: 1, padding: 0 };
                let (keys, entries) = match table {
                    Some(table) => (
                        table.params(self.len)?,
                        table.entries.view().check(32 * table.n_entries as u128)?,
                    ),
                    None => (none, 0),
                };
                let (left, right, subtracts, is_float) =
                    (input(0)?, input(1)?, (*subtracts).into(), (*is_float).into());
                let params = CombineParams {
                    elements,
                    keys,
                    left,
                    right,
                    out,
                    table: entries,
                    subtracts,
                    is_float,
                };
                queue.launch(&kernels::STAGE_COMBINE, grid, 0, &params, 24 * n)
            }
            Op::Gather { map } => {
                let mut params = GatherElementsParams {
                    elements,
                    map: map.view().check(8 * self.len as u128)?,
                    out,
                    sources: [0; MAX_SOURCES],
                    lens: [0; MAX_SOURCES],
                };
                for (k, &len) in self.input_lens.iter().enumerate() {
                    (params.sources[k], params.lens[k]) =
                        (input(k)?, size_u32(len, "elements of a sample")?);
                }
                queue.launch(&kernels::STAGE_GATHER, grid, 0, &params, 24 * n)
            }
            Op::Pool { shape, is_float } => {
                let params = pool_params(elements, input(0)?, out, shape, *is_float)?;
                queue.launch(&kernels::STAGE_POOL, grid, 0, &params, 16 * n)
            }
            Op::Quantize(op) => {
                let (input, thresholds) = (input(0)?, op.params(views)?);
                let params = QuantizeParams { elements, input, out, thresholds };
                queue.launch(&kernels::STAGE_QUANTIZE, grid, COUNTER_BYTES, &params, 16 * n)
            }
            Op::Requantize(op) => {
                let (input, thresholds) = (input(0)?, op.params(self.len, views)?);
                let params = RequantizeParams { elements, input, out, thresholds };
                queue.launch(&kernels::STAGE_REQUANTIZE, grid, COUNTER_BYTES, &params, 16 * n)
            }
        }
    }

    /// Returns whether one launch can run this step and `next`, the only user of its output: a pool
    /// and the conversion of its results to thresholds.
    pub(super) fn fuses_with(&self, next: &Self) -> bool {
        matches!((&self.op, &next.op), (Op::Pool { .. }, Op::Quantize(_) | Op::Requantize(_)))
            && self.len == next.len
    }

    /// Enqueues this step and the next one, for which [`Self::fuses_with`] is true, as one launch.
    /// `views` has the inputs of this step and the output of `next`.
    pub(super) fn give_with(
        &self,
        next: &Self,
        queue: &Queue<'_>,
        n_samples: usize,
        views: &StepViews<'_>,
    ) -> Result<()> {
        let place = "cuda::program::StageStep::give_with";
        let (Op::Pool { shape, is_float }, [view], [len]) =
            (&self.op, &views.inputs[..], &self.input_lens[..])
        else {
            return Err(CoreError::Internal { place }.into());
        };
        let n = n_samples as u64 * self.len as u64;
        let elements = Elements { n, len: size_u32(self.len, "elements of a sample")?, padding: 0 };
        let (input, out) = (
            view.check(8 * n_samples as u128 * *len as u128)?,
            views.output.check(8 * u128::from(n))?,
        );
        let pool = pool_params(elements, input, out, shape, *is_float)?;
        let (mut floats, mut integers) =
            (FloatsToThresholds::zeroed(), IntegersToThresholds::zeroed());
        match &next.op {
            Op::Quantize(op) if *is_float => floats = op.params(views)?,
            Op::Requantize(op) if !is_float => integers = op.params(self.len, views)?,
            _ => return Err(CoreError::Internal { place }.into()),
        }
        let params = PoolThresholdsParams { pool, floats, integers };
        let (kernel, grid) = (&kernels::STAGE_POOL_THRESHOLDS, Grid::row(n.div_ceil(THREADS))?);
        queue.launch(kernel, grid, COUNTER_BYTES, &params, 16 * n)
    }
}

impl QuantizeOp {
    fn params(&self, views: &StepViews<'_>) -> Result<FloatsToThresholds> {
        let saturated = views.saturated.from(8 * self.layer as u64)?.check(8)?;
        Ok(FloatsToThresholds {
            found: views.found.from(8 * self.index as u64)?.check(8)?,
            saturated: if self.counts_saturated { saturated } else { 0 },
            least: self.allowed[0],
            most: self.allowed[1],
            quantizer: self.quantizer,
        })
    }
}

impl RequantizeOp {
    fn params(&self, len: usize, views: &StepViews<'_>) -> Result<IntegersToThresholds> {
        let entry = size_of::<RequantizeEntry>() as u128;
        Ok(IntegersToThresholds {
            keys: self.table.params(len)?,
            table: self.table.entries.view().check(entry * self.table.n_entries as u128)?,
            saturated: views.saturated.from(8 * self.layer as u64)?.check(8)?,
            has_signs: self.has_signs.into(),
            padding: 0,
        })
    }
}

/// Returns the parameters of a pool; `elements` are those of its output.
fn pool_params(
    elements: Elements,
    input: u64,
    out: u64,
    shape: &PoolShape,
    is_float: bool,
) -> Result<PoolParams> {
    let pair = |of: &dyn Fn(usize) -> usize| -> Result<[u32; 2]> {
        Ok([size_u32(of(0), "size of a pool")?, size_u32(of(1), "size of a pool")?])
    };
    let (pool, windows) = (shape.pool(), shape.windows());
    Ok(PoolParams {
        elements,
        input,
        out,
        size: pair(&|k| windows[k].axis().size)?,
        windows: pair(&|k| windows[k].len())?,
        window: pair(&|k| pool.window[k])?,
        stride: pair(&|k| pool.stride[k])?,
        padding: pair(&|k| pool.padding[k][0])?,
        is_float: is_float.into(),
        averages: (pool.kind == PoolKind::Average).into(),
        counts_padding: (pool.border == Border::Zeros).into(),
        rest: 0,
    })
}

/// Returns the conversion of floats to the thresholds of a layer's inputs.
fn quantizer(spec: &LayerSpec, scale: f64, comparator: Width) -> QuantizeEntry {
    let [low, high] = spec.polarity().interval();
    let one = comparator.one() as f64;
    let (addend, levels) = match spec.polarity() {
        Polarity::Unipolar | Polarity::Signed => (0.0, one),
        Polarity::Bipolar => (1.0, one / 2.0),
    };
    let unused = spec.encoding().input_width().bits() - comparator.bits();
    let has_signs = (spec.polarity() == Polarity::Signed).into();
    QuantizeEntry { scale, low, high, addend, levels, unused, has_signs }
}

/// Returns the requantizers of a layer's inputs; `None` if an intermediate integer may be too
/// large.
fn requantize_table(
    context: &Arc<CudaContext>,
    stream: &Stream,
    spec: &LayerSpec,
    requantizers: &Pattern<Requantizer>,
    largest: u128,
) -> Result<Option<Table>> {
    let width = spec.encoding().input_width().bits();
    let mut entries = Vec::new();
    for requantizer in requantizers.table() {
        let Some(reach) = requantizer.reach(largest, LIMIT).filter(|_| requantizer.shift() <= 61)
        else {
            return Ok(None);
        };
        let one = requantizer.comparator().one();
        let zero = if spec.polarity() == Polarity::Bipolar { one / 2 } else { 0 };
        let place = "cuda::program, reach of a requantizer";
        // Thresholds are below 2^62, and so is the reach.
        entries.push(RequantizeEntry {
            multiplier: requantizer.multiplier() as i64,
            reach: i64::try_from(reach).map_err(|_| Error::Internal { place })?,
            zero: zero as i64,
            one: one as i64,
            shift: requantizer.shift(),
            unused: width - requantizer.comparator().bits(),
        });
    }
    let words: Vec<u64> = bytemuck::cast_slice(&entries).to_vec();
    Ok(Some(Table {
        keys: Table::keys(context, stream, requantizers)?,
        entries: DeviceBuffer::with(context, &words, stream)?,
        n_entries: entries.len(),
    }))
}

/// The steps directly after a layer, computed by the kernel that finishes its counts.
#[derive(Debug)]
pub(super) struct FusedStage {
    /// The constants of the rows of weights.
    rows: DeviceBuffer<u64>,
    table: Option<Table>,
    /// Everything except addresses.
    stage: FinishStage,
    /// The layer whose inputs saturate.
    next: Option<usize>,
    n_rows: usize,
    len: usize,
}

impl FusedStage {
    /// Prepares the step that decodes or accumulates the counts of a layer, and the following one
    /// that computes thresholds, if any; `None` if the kernel cannot run them.
    pub(super) fn new(
        context: &Arc<CudaContext>,
        stream: &Stream,
        program: &Program,
        first: &Step,
        second: Option<&Step>,
        magnitudes: &[u128],
    ) -> Result<Option<Self>> {
        let layer = |layer: usize| program.layers().get(layer);
        let (StepKind::Decode { layer: own, .. } | StepKind::Accumulate { layer: own, .. }) =
            first.kind()
        else {
            return Ok(None);
        };
        let Some(own) = layer(*own) else { return Ok(None) };
        let spec = &own.spec;
        if spec.max_count() >= LIMIT / 2 {
            return Ok(None);
        }
        let mut stage: FinishStage = bytemuck::Zeroable::zeroed();
        stage.row_neurons = size_u32(spec.neurons_per_row(), "neurons of a row")?;
        stage.doubles = (spec.polarity() == Polarity::Bipolar).into();
        stage.subtracts = (spec.polarity() != Polarity::Unipolar).into();
        let (rows, mut kind): (Vec<u64>, FinishKind) = match first.kind() {
            StepKind::Decode { stage: float, .. } => {
                [stage.low, stage.high] = float.activation.bounds();
                stage.length = spec.length().bits() as f64;
                let rows = float.bias.iter().zip(float.scales.iter().cycle());
                (
                    rows.flat_map(|(&bias, &scale)| [scale, bias]).map(f64::to_bits).collect(),
                    FinishKind::Floats,
                )
            }
            StepKind::Accumulate { accumulator, .. } => {
                [stage.least, stage.greatest] = accumulator.bounds();
                stage.fraction = accumulator.fraction();
                (
                    accumulator.bias().iter().map(|&bias| bias.cast_unsigned()).collect(),
                    FinishKind::Integers,
                )
            }
            _ => return Ok(None),
        };
        let (mut table, mut next) = (None, None);
        match second.map(Step::kind) {
            None => {}
            Some(StepKind::Quantize {
                layer: to,
                scale,
                comparator,
                range: ValueRange::Saturate,
            }) => {
                let Some(to_layer) = layer(*to) else { return Ok(None) };
                stage.quantizer = quantizer(&to_layer.spec, *scale, *comparator);
                (kind, next) = (FinishKind::FloatsToThresholds, Some(*to));
            }
            Some(StepKind::Requantize { layer: to, requantizers }) => {
                let Some(to_layer) = layer(*to) else { return Ok(None) };
                // Keys are those of a neuron, so rows of a sample must have the same.
                if !spec.n_neurons().is_multiple_of(requantizers.period()) {
                    return Ok(None);
                }
                let largest = magnitudes[first.output().index()];
                table = requantize_table(context, stream, &to_layer.spec, requantizers, largest)?;
                if table.is_none() {
                    return Ok(None);
                }
                stage.has_signs = (to_layer.spec.polarity() == Polarity::Signed).into();
                (kind, next) = (FinishKind::IntegersToThresholds, Some(*to));
            }
            Some(_) => return Ok(None),
        }
        stage.kind = kind as u32;
        let n_rows = rows.len();
        let len = spec.n_neurons();
        Ok(Some(Self {
            rows: DeviceBuffer::with(context, &rows, stream)?,
            table,
            stage,
            next,
            n_rows,
            len,
        }))
    }

    /// Returns the constants with their addresses; `saturated` counts the saturated inputs of each
    /// layer.
    pub(super) fn words(&self, saturated: View<'_>) -> Result<Vec<u64>> {
        let mut stage = self.stage;
        stage.rows = self.rows.view().check(8 * self.n_rows as u128)?;
        if let Some(table) = &self.table {
            stage.keys = table.params(self.len)?;
            let entry = size_of::<RequantizeEntry>() as u128;
            stage.requantizers = table.entries.view().check(entry * table.n_entries as u128)?;
        }
        if let Some(next) = self.next {
            stage.saturated = saturated.from(8 * next as u64)?.check(8)?;
        }
        Ok(bytemuck::cast_slice(&[stage]).to_vec())
    }
}

impl Table {
    fn new<T>(
        context: &Arc<CudaContext>,
        stream: &Stream,
        pattern: &Pattern<T>,
        words: impl Fn(&T) -> Vec<u64>,
    ) -> Result<Self> {
        let entries: Vec<u64> = pattern.table().iter().flat_map(words).collect();
        Ok(Self {
            keys: Self::keys(context, stream, pattern)?,
            entries: DeviceBuffer::with(context, &entries, stream)?,
            n_entries: pattern.table().len(),
        })
    }

    /// Returns the index of the entry of each element; `None` if all have the first entry.
    fn keys<T>(
        context: &Arc<CudaContext>,
        stream: &Stream,
        pattern: &Pattern<T>,
    ) -> Result<Option<(DeviceBuffer<u32>, u32)>> {
        if pattern.table().len() == 1 {
            return Ok(None);
        }
        let keys: Vec<u32> = pattern.keys().collect();
        Ok(Some((
            DeviceBuffer::with(context, &keys, stream)?,
            size_u32(pattern.period(), "period of constants")?,
        )))
    }

    /// Returns the keys in the form of kernels; the period divides the elements of a sample, so
    /// that keys are those of every sample.
    fn params(&self, len: usize) -> Result<Keys> {
        match &self.keys {
            None => Ok(Keys { keys: 0, period: 1, padding: 0 }),
            Some((_, period)) if !len.is_multiple_of(*period as usize) => {
                Err(CoreError::Internal { place: "cuda::program::Table::params" }.into())
            }
            Some((keys, period)) => {
                let keys = keys.view().check(4 * u128::from(*period))?;
                Ok(Keys { keys, period: *period, padding: 0 })
            }
        }
    }
}

impl Counts {
    fn new(context: &Arc<CudaContext>, stream: &Stream, spec: &LayerSpec) -> Result<Self> {
        let bits = spec.length().bits() as u64;
        let products: Vec<u64> =
            spec.topology().fan_ins().iter().map(|&n| n as u64 * bits).collect();
        Ok(Self {
            products: DeviceBuffer::with(context, &products, stream)?,
            period: size_u32(products.len(), "number of neurons")?,
            n_neurons: size_u32(spec.n_neurons(), "number of neurons")?,
            row_neurons: size_u32(spec.neurons_per_row(), "neurons of a row")?,
            polarity: spec.polarity(),
            n_rows: spec.n_rows(),
        })
    }

    fn params(&self, counts: u64) -> Result<LayerCounts> {
        Ok(LayerCounts {
            counts,
            products: self.products.view().check(8 * u128::from(self.period))?,
            period: self.period,
            n_neurons: self.n_neurons,
            row_neurons: self.row_neurons,
            doubles: (self.polarity == Polarity::Bipolar).into(),
            subtracts: (self.polarity != Polarity::Unipolar).into(),
            padding: 0,
        })
    }
}

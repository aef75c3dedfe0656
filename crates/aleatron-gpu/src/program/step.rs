//! The steps of a program on a device: resident constants, and dispatches.

use std::sync::Arc;

use aleatron_core::arithmetic::Requantizer;
use aleatron_core::arithmetic::{Accumulator, Border, PoolKind, PoolShape, Rescaler};
use aleatron_core::program::{Bounds, Pattern, Program, Sign, Step, StepKind};
use aleatron_core::{LayerSpec, Polarity};
use aleatron_device::{BufferView, ConstantValue, GpuBuffer, GpuContext, Recorder, grid, size_u32};

use crate::buffers::check_words_of;
use crate::error::{Error, Result};
use crate::kernels::{
    StageCountsParams, StageGatherParams, StageMapParams, StagePoolParams, StageRequantizeParams,
    StreamKernel,
};

/// Integers of all steps are below this.
pub(super) const LIMIT: u128 = 1 << 62;

/// The longest right shift: rounding constants are then below [`LIMIT`].
const MAX_SHIFT: u32 = 61;

/// The largest number of positions of a window of a pool: some software devices silently stop loops
/// at 65,535 turns.
const MAX_WINDOW: usize = 1 << 15;

/// Number of threads of a workgroup of all kernels here.
const THREADS: u64 = 256;

/// Returns the two words of an integer for kernels.
pub(super) fn words_of(value: u64) -> [u32; 2] {
    bytemuck::cast(value)
}

/// Constants of elements, on a device.
#[derive(Debug)]
struct Table {
    /// The entry of each element of one period.
    keys: GpuBuffer<u32>,
    period: usize,
    entries: GpuBuffer<u32>,
}

impl Table {
    fn new<T>(
        context: &Arc<GpuContext>,
        pattern: &Pattern<T>,
        words: impl FnMut(&T) -> Vec<u32>,
    ) -> Result<Self> {
        let entries: Vec<u32> = pattern.table().iter().flat_map(words).collect();
        let keys: Vec<u32> = pattern.keys().collect();
        Ok(Self {
            keys: context.upload(&keys)?,
            period: keys.len(),
            entries: context.upload(&entries)?,
        })
    }

    fn bytes(&self) -> u64 {
        self.keys.view().bytes().max(self.entries.view().bytes())
    }
}

/// A step of the inter-layer arithmetic on a device.
#[derive(Debug)]
pub(super) struct StageStep {
    op: Op,
    /// The number of elements of the output per sample.
    len: usize,
    /// The number of elements of each input per sample.
    input_lens: Vec<usize>,
}

#[derive(Debug)]
enum Op {
    Accumulate(CountStage),
    Map { kind: u32, table: Table },
    Combine { sign: Sign, table: Table },
    Gather(Vec<Selection>),
    Pool(PoolShape),
    Requantize { table: Table, polarity: Polarity, counter: usize },
}

/// The elements that are gathered from one slot.
#[derive(Debug)]
struct Selection {
    /// The index among the inputs of the step.
    input: usize,
    /// The element of the result and of the source, for each of them.
    pairs: GpuBuffer<u32>,
}

/// The memory that the dispatches of a step read and write.
pub(super) struct StepViews<'a> {
    pub(super) inputs: Vec<BufferView<'a>>,
    pub(super) output: BufferView<'a>,
    /// The saturated elements of each step that requantizes.
    pub(super) saturated: BufferView<'a>,
}

impl StageStep {
    /// Prepares a step; `None` if kernels here cannot run it. `n_requantized` counts the steps that
    /// requantize.
    pub(super) fn new(
        context: &Arc<GpuContext>,
        program: &Program,
        step: &Step,
        magnitudes: &[u128],
        n_requantized: &mut usize,
    ) -> Result<Option<Self>> {
        let spec = |layer: usize| program.layers().get(layer).map(|layer| &layer.spec);
        let op = match step.kind() {
            StepKind::Accumulate { layer, accumulator } => {
                let Some(spec) = spec(*layer) else { return Ok(None) };
                Op::Accumulate(CountStage::accumulate(context, spec, accumulator, &[0])?)
            }
            StepKind::Offset { sign, terms } => {
                let kind = if *sign == Sign::Plus { 0 } else { 1 };
                let table =
                    Table::new(context, terms, |&term| words_of(term.cast_unsigned()).to_vec())?;
                Op::Map { kind, table }
            }
            StepKind::Clip(Bounds::Integer(bounds)) => {
                let words = |ends: &[i64; 2]| {
                    ends.iter().flat_map(|end| words_of(end.cast_unsigned())).collect()
                };
                Op::Map { kind: 2, table: Table::new(context, bounds, words)? }
            }
            StepKind::Combine { sign, rescale } => {
                let none = Pattern::uniform([None; 2]);
                let rescale = rescale.as_ref().unwrap_or(&none);
                if rescale.table().iter().flatten().flatten().any(|r| r.shift() > MAX_SHIFT) {
                    return Ok(None);
                }
                let one = |rescaler: &Option<Rescaler>| {
                    let (multiplier, shift) =
                        rescaler.map_or((1, 0), |r| (r.multiplier(), r.shift()));
                    let [low, high] = words_of(multiplier);
                    [low, high, shift, 0]
                };
                let table =
                    Table::new(context, rescale, |pair| pair.iter().flat_map(one).collect())?;
                Op::Combine { sign: *sign, table }
            }
            StepKind::Gather { map } => {
                let mut selections = Vec::new();
                for input in 0..step.inputs().len() {
                    let mut pairs = Vec::new();
                    for (k, index) in
                        map.iter().enumerate().filter(|(_, index)| index.input as usize == input)
                    {
                        pairs.extend([size_u32(k, "elements of a sample")?, index.element]);
                    }
                    if !pairs.is_empty() {
                        selections.push(Selection { input, pairs: context.upload(&pairs)? });
                    }
                }
                Op::Gather(selections)
            }
            StepKind::Pool(shape) => {
                let [rows, columns] = shape.pool().window;
                if rows.saturating_mul(columns) > MAX_WINDOW {
                    return Ok(None);
                }
                Op::Pool(*shape)
            }
            StepKind::Requantize { layer, requantizers } => {
                let Some(spec) = spec(*layer) else { return Ok(None) };
                let largest = magnitudes[step.input().index()];
                let Some(table) = requantize_table(context, spec, requantizers, largest)? else {
                    return Ok(None);
                };
                *n_requantized += 1;
                Op::Requantize { table, polarity: spec.polarity(), counter: *n_requantized - 1 }
            }
            _ => return Ok(None),
        };
        let input_lens = step.inputs().iter().map(|&id| program.slot(id).len).collect();
        Ok(Some(Self { op, len: program.slot(step.output()).len, input_lens }))
    }

    /// Returns the size of the largest constant in bytes.
    pub(super) fn constant_bytes(&self) -> u64 {
        match &self.op {
            Op::Accumulate(stage) => stage.constants.view().bytes(),
            Op::Map { table, .. } | Op::Combine { table, .. } | Op::Requantize { table, .. } => {
                table.bytes()
            }
            Op::Gather(selections) => {
                selections.iter().map(|selection| selection.pairs.view().bytes()).max().unwrap_or(0)
            }
            Op::Pool(_) => 0,
        }
    }

    /// Records the step for `n_samples` samples.
    pub(super) fn record(
        &self,
        recorder: &mut Recorder<'_>,
        n_samples: usize,
        views: &StepViews<'_>,
    ) -> Result<()> {
        let context = Arc::clone(recorder.context());
        let n = n_samples as u64 * self.len as u64;
        for (view, len) in views.inputs.iter().zip(&self.input_lens) {
            check_words_of(view, 2 * n_samples as u64 * *len as u64)?;
        }
        check_words_of(&views.output, 2 * n)?;
        let place = "program::StageStep::record, step without inputs";
        let input = *views.inputs.first().ok_or(Error::Internal { place })?;
        let mapped = |table: &Table| -> Result<StageMapParams> {
            Ok(StageMapParams {
                n: size_u32(n, "elements of a chunk")?,
                len: size_u32(self.len, "elements of a sample")?,
                period: size_u32(table.period, "period of constants")?,
            })
        };
        match &self.op {
            Op::Accumulate(stage) => {
                let raw = RawCounts {
                    first: input,
                    second: input,
                    form: RawForm::Pairs,
                    sign: RawSign::Plus,
                };
                stage.record(recorder, &raw, views.output, n)
            }
            Op::Map { kind, table } => {
                let views = [input, table.keys.view(), table.entries.view(), views.output];
                let constants = [("KIND", (*kind).into())];
                launch(
                    recorder,
                    &context,
                    StreamKernel::StageMap,
                    &constants,
                    &views,
                    &mapped(table)?,
                    n,
                    16,
                )
            }
            Op::Combine { sign, table } => {
                let other = *views.inputs.get(1).ok_or(Error::Internal { place })?;
                let views = [input, other, table.keys.view(), table.entries.view(), views.output];
                let constants = [("SUBTRACT", (*sign == Sign::Minus).into())];
                launch(
                    recorder,
                    &context,
                    StreamKernel::StageCombine,
                    &constants,
                    &views,
                    &mapped(table)?,
                    n,
                    24,
                )
            }
            Op::Gather(selections) => {
                for Selection { input, pairs } in selections {
                    let (Some(&source), Some(&len)) =
                        (views.inputs.get(*input), self.input_lens.get(*input))
                    else {
                        return Err(Error::Internal { place });
                    };
                    let n_pairs = pairs.len() / 2;
                    let n = n_samples as u64 * n_pairs as u64;
                    let params = StageGatherParams {
                        n: size_u32(n, "elements of a chunk")?,
                        n_pairs: size_u32(n_pairs, "elements of a sample")?,
                        source_len: size_u32(len, "elements of a sample")?,
                        made_len: size_u32(self.len, "elements of a sample")?,
                    };
                    let views = [source, pairs.view(), views.output];
                    launch(
                        recorder,
                        &context,
                        StreamKernel::StageGather,
                        &[],
                        &views,
                        &params,
                        n,
                        24,
                    )?;
                }
                Ok(())
            }
            Op::Pool(shape) => {
                let pair = |of: &dyn Fn(usize) -> usize| -> Result<[u32; 2]> {
                    Ok([size_u32(of(0), "size of a pool")?, size_u32(of(1), "size of a pool")?])
                };
                let (pool, windows) = (shape.pool(), shape.windows());
                let params = StagePoolParams {
                    image: pair(&|k| windows[k].axis().size)?,
                    windows: pair(&|k| windows[k].len())?,
                    window: pair(&|k| pool.window[k])?,
                    stride: pair(&|k| pool.stride[k])?,
                    padding: pair(&|k| pool.padding[k][0])?,
                    n: size_u32(n, "elements of a chunk")?,
                    rest: 0,
                };
                let constants = [
                    ("AVERAGE", (pool.kind == PoolKind::Average).into()),
                    ("COUNT_PADDING", (pool.border == Border::Zeros).into()),
                ];
                let views = [input, views.output];
                launch(
                    recorder,
                    &context,
                    StreamKernel::StagePool,
                    &constants,
                    &views,
                    &params,
                    n,
                    16,
                )
            }
            Op::Requantize { table, polarity, counter } => {
                check_words_of(&views.saturated, *counter as u64 + 1)?;
                let StageMapParams { n: n_elements, len, period } = mapped(table)?;
                let counter = size_u32(*counter, "number of a step")?;
                let params = StageRequantizeParams { n: n_elements, len, period, counter };
                let constants = [("SIGNED", (*polarity == Polarity::Signed).into())];
                let views =
                    [input, table.keys.view(), table.entries.view(), views.output, views.saturated];
                launch(
                    recorder,
                    &context,
                    StreamKernel::StageRequantize,
                    &constants,
                    &views,
                    &params,
                    n,
                    16,
                )
            }
        }
    }
}

/// Records one thread for each of `n` elements, which move `bytes` bytes each.
#[expect(clippy::too_many_arguments, reason = "a kernel with everything it is launched with")]
pub(super) fn launch<P: bytemuck::Pod>(
    recorder: &mut Recorder<'_>,
    context: &Arc<GpuContext>,
    kernel: StreamKernel,
    constants: &[(&str, ConstantValue)],
    views: &[BufferView<'_>],
    params: &P,
    n: u64,
    bytes: u64,
) -> Result<()> {
    let bound = context.bind(&context.pipeline(&kernel, constants)?, views)?;
    let workgroups = grid(n.div_ceil(THREADS), context.info().max_workgroups)?;
    Ok(recorder.dispatch(&bound, params, workgroups, bytes * n)?)
}

/// Returns the requantizers of a layer's inputs; `None` if an intermediate integer may be too
/// large.
fn requantize_table(
    context: &Arc<GpuContext>,
    spec: &LayerSpec,
    requantizers: &Pattern<Requantizer>,
    largest: u128,
) -> Result<Option<Table>> {
    let width = spec.encoding().input_width().bits();
    let is_possible = |q: &Requantizer| {
        q.shift() <= MAX_SHIFT
            && q.comparator().bits() <= width
            && q.reach(largest, LIMIT).is_some()
    };
    if !requantizers.table().iter().all(is_possible) {
        return Ok(None);
    }
    let words = |requantizer: &Requantizer| {
        let one = requantizer.comparator().one();
        let zero = if spec.polarity() == Polarity::Bipolar { one / 2 } else { 0 };
        // A reach is below 2^62; it exists, as was checked.
        let reach = requantizer
            .reach(largest, LIMIT)
            .and_then(|reach| u64::try_from(reach).ok())
            .unwrap_or(0);
        let numbers = [requantizer.multiplier(), reach, zero, one];
        let mut words: Vec<u32> = numbers.into_iter().flat_map(words_of).collect();
        words.extend([requantizer.shift(), width - requantizer.comparator().bits()]);
        words
    };
    Table::new(context, requantizers, words).map(Some)
}

/// The memory layout of the kernels' counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RawForm {
    /// A word for each count.
    Words,
    /// Low words of all counts, then high words.
    Planes,
    /// Low and high word of each count in turn.
    Pairs,
}

/// How results are derived from counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RawSign {
    /// The counts.
    Plus,
    /// A constant minus the counts.
    Minus,
    /// The first minus the second.
    Difference,
}

/// The counts of kernels.
pub(super) struct RawCounts<'a> {
    pub(super) first: BufferView<'a>,
    /// The same as the first if there is only one.
    pub(super) second: BufferView<'a>,
    pub(super) form: RawForm,
    pub(super) sign: RawSign,
}

/// The conversion of counts: shifted left, plus a constant of the neuron, limited.
#[derive(Debug)]
pub(super) struct CountStage {
    /// By neuron.
    constants: GpuBuffer<u32>,
    shift: u32,
    interval: [i64; 2],
}

impl CountStage {
    /// Returns the stage whose results are counts. `bases` is added to the counts of the neurons,
    /// modulo 2^64; it repeats.
    pub(super) fn counts(
        context: &Arc<GpuContext>,
        n_neurons: usize,
        bases: &[u64],
    ) -> Result<Self> {
        let words: Vec<u32> =
            bases.iter().cycle().take(n_neurons).flat_map(|&base| words_of(base)).collect();
        Ok(Self { constants: context.upload(&words)?, shift: 0, interval: [i64::MIN, i64::MAX] })
    }

    /// Returns the stage whose results are the integers of accumulators. `bases` is as in
    /// [`Self::counts`].
    pub(super) fn accumulate(
        context: &Arc<GpuContext>,
        spec: &LayerSpec,
        accumulator: &Accumulator,
        bases: &[u64],
    ) -> Result<Self> {
        let (bits, per_row) = (spec.length().bits() as u64, spec.neurons_per_row());
        let (doubles, subtracts) = match spec.polarity() {
            Polarity::Unipolar => (0, 0),
            Polarity::Bipolar => (1, 1),
            Polarity::Signed => (0, 1),
        };
        // Modulo 2^64: results are below 2^62, whatever the intermediate values.
        let shift = accumulator.fraction() + doubles;
        let fan_ins = spec.topology().fan_ins();
        let neurons = (0..spec.n_neurons()).zip(fan_ins.iter().cycle()).zip(bases.iter().cycle());
        let constant = |((neuron, &n), &base): ((usize, &usize), &u64)| {
            let products =
                (n as u64).wrapping_mul(bits).wrapping_mul(subtracts) << accumulator.fraction();
            let bias = accumulator.bias().get(neuron / per_row).copied().unwrap_or(0);
            (base << shift).wrapping_sub(products).wrapping_add(bias.cast_unsigned())
        };
        let words: Vec<u32> = neurons.map(constant).flat_map(words_of).collect();
        let interval = accumulator.bounds();
        Ok(Self { constants: context.upload(&words)?, shift, interval })
    }

    /// Records the stage for `n` counts.
    pub(super) fn record(
        &self,
        recorder: &mut Recorder<'_>,
        raw: &RawCounts<'_>,
        output: BufferView<'_>,
        n: u64,
    ) -> Result<()> {
        let context = Arc::clone(recorder.context());
        let words = if raw.form == RawForm::Words { n } else { 2 * n };
        for view in [&raw.first, &raw.second] {
            check_words_of(view, words)?;
        }
        check_words_of(&output, 2 * n)?;
        let form: u32 = match raw.form {
            RawForm::Words => 0,
            RawForm::Planes => 1,
            RawForm::Pairs => 2,
        };
        let sign: u32 = match raw.sign {
            RawSign::Plus => 0,
            RawSign::Minus => 1,
            RawSign::Difference => 2,
        };
        let [least, most] = self.interval.map(|end| words_of(end.cast_unsigned()));
        let params = StageCountsParams {
            least,
            most,
            n: size_u32(n, "number of counts")?,
            n_neurons: size_u32(self.constants.len() / 2, "number of neurons")?,
            shift: self.shift,
            high: size_u32(n, "number of counts")?,
        };
        let constants = [("FORM", form.into()), ("SIGN", sign.into())];
        let views = [raw.first, raw.second, self.constants.view(), output];
        launch(recorder, &context, StreamKernel::StageCounts, &constants, &views, &params, n, 20)
    }
}

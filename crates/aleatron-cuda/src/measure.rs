//! Timing of single kernels on the GPU, for benchmarks.
//!
//! Streams are encoded on the GPU. Results are compared with the host's before they are timed:
//! [`TileTrial::check`] and [`FewTrial::check`].

use std::sync::Arc;
use std::time::Duration;

use aleatron_core::{Length, StreamAddress};

use crate::buffers::CLEAN_STATE;
use crate::driver::{CudaContext, DeviceBuffer, Event, Module, Stream};
use crate::encode::{
    ENCODE_WORDS, ONE, OnesWidth, Operands, RowStreams, Rows, Values, call_seed, convert,
    count_row_ones, encode_bernoulli,
};
use crate::error::{Error, Limit, Result};
use crate::kernels::ValueKind;
use crate::launch::{self, FewInputs, Target, card_of};
use crate::plan::few::{FewKernel, FewPlan};
use crate::plan::rows::{MAX_PART_WORDS, Part, StreamWords, parts};
use crate::plan::tiles::{TilePlan, TileShape};
use crate::product::Product;
use crate::queue::Queue;
use crate::results::{CardResults, Recipe, Turn};
use crate::size::{host_size, size_u32};

/// Returns the time of one of `repeats` runs of `give` on a stream, after a warm-up run.
fn time(
    context: &Arc<CudaContext>,
    stream: &Stream,
    repeats: u32,
    mut give: impl FnMut() -> Result<()>,
) -> Result<Duration> {
    give()?;
    let (start, end) = (Event::timed(context)?, Event::timed(context)?);
    start.record(stream)?;
    for _ in 0..repeats.max(1) {
        give()?;
    }
    end.record(stream)?;
    Ok(end.since(&start)? / repeats.max(1))
}

/// Rows of streams encoded on the GPU.
struct EncodedRows {
    part: Part,
    words: StreamWords,
    n_units: usize,
    n_rows: usize,
    thresholds: DeviceBuffer<u64>,
    seed: DeviceBuffer<u64>,
    tag: u32,
    streams: DeviceBuffer<u32>,
}

impl EncodedRows {
    fn new(
        context: &Arc<CudaContext>,
        stream: &Stream,
        n_rows: usize,
        n_units: usize,
        length: Length,
        first: StreamAddress,
    ) -> Result<Self> {
        let words = StreamWords::of(length);
        let all = parts(n_units, words, MAX_PART_WORDS)?;
        let [part] = all[..] else {
            let actual = n_units as u128 * u128::from(words.stored);
            return Err(Error::TooLarge {
                what: Limit::Units,
                actual,
                limit: MAX_PART_WORDS.into(),
            });
        };
        // Any thresholds will do: those of a linear congruence, from 0 to 2^32.
        let value = |k: usize| (k as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let thresholds: Vec<u64> = (0..n_rows * n_units).map(value).collect();
        let thresholds = DeviceBuffer::with(context, &thresholds, stream)?;
        let seed = DeviceBuffer::with(context, &call_seed(first).words(), stream)?;
        let streams = DeviceBuffer::new(context, n_rows * part.stride as usize)?;
        let encoded =
            Self { part, words, n_units, n_rows, thresholds, seed, tag: first.tag(), streams };
        encoded.encode(stream, ENCODE_WORDS, Operands::thresholds(encoded.thresholds.view()))?;
        stream.synchronize()?;
        Ok(encoded)
    }

    fn encode(&self, stream: &Stream, words: u64, operands: Operands<'_>) -> Result<()> {
        let rows = Rows {
            part: self.part.of_rows(self.n_units, self.words)?,
            streams_are: RowStreams::Magnitudes,
            n_rows: self.n_rows,
            operands,
            streams: self.streams.view(),
            seed: self.seed.view(),
            first_row: 0,
            list: None,
        };
        encode_bernoulli(&Queue::new(stream), &rows, self.tag, words)
    }

    /// Reads some rows.
    fn rows(&self, which: &[usize], stream: &Stream) -> Result<Vec<Vec<u32>>> {
        let stride = self.part.stride as usize;
        which.iter().map(|&row| self.streams.read_range(row * stride, stride, stream)).collect()
    }
}

/// Checks that the sizes of a trial are not zero and that their products can be counted.
fn check_sizes(sizes @ [n_inputs, n_neurons, n_samples]: [usize; 3]) -> Result<()> {
    if sizes.contains(&0) {
        return Err(aleatron_core::Error::Zero(aleatron_core::Quantity::Inputs).into());
    }
    for (a, b) in [(n_inputs, n_neurons), (n_inputs, n_samples), (n_neurons, n_samples)] {
        let (actual, limit) = (a as u128 * b as u128, u32::MAX.into());
        if actual > limit {
            return Err(Error::TooLarge {
                what: Limit::Kernel("operands of a trial"),
                actual,
                limit,
            });
        }
    }
    Ok(())
}

/// Returns the first, some intermediate, and the last index of `n`.
fn some(n: usize) -> Vec<usize> {
    let mut which = vec![0, n / 7, n / 3, n / 2, n * 4 / 5, n.saturating_sub(2), n - 1];
    which.dedup();
    which
}

fn and_ones(a: &[u32], b: &[u32]) -> u64 {
    a.iter().zip(b).map(|(a, b)| u64::from((a & b).count_ones())).sum()
}

/// The parameters of a tile kernel; `None` leaves them to the plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TileVariant {
    /// The shape.
    pub shape: Option<TileShape>,
    /// The number of parts of the columns.
    pub n_parts: Option<u32>,
    /// The number of tiles of neurons that are processed together.
    pub band: Option<u32>,
}

/// A product of weights and a batch, both on the GPU.
pub struct TileTrial {
    context: Arc<CudaContext>,
    stream: Stream,
    weights: EncodedRows,
    inputs: EncodedRows,
    counts: DeviceBuffer<u32>,
}

impl std::fmt::Debug for TileTrial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TileTrial").field("context", &self.context).finish_non_exhaustive()
    }
}

impl TileTrial {
    /// Creates a layer and a batch.
    ///
    /// # Errors
    /// Returns [`Error::OutOfMemory`], [`Error::TooLarge`] for rows above 2^30 bits, and errors of
    /// the driver.
    pub fn new(
        context: &Arc<CudaContext>,
        n_inputs: usize,
        n_neurons: usize,
        n_samples: usize,
        length: Length,
    ) -> Result<Self> {
        check_sizes([n_inputs, n_neurons, n_samples])?;
        let stream = Stream::new(context)?;
        let (weights, inputs) = (StreamAddress::weight(5, 0, 0), StreamAddress::input(7, 0, 0));
        Ok(Self {
            weights: EncodedRows::new(context, &stream, n_neurons, n_inputs, length, weights)?,
            inputs: EncodedRows::new(context, &stream, n_samples, n_inputs, length, inputs)?,
            counts: DeviceBuffer::new(context, n_neurons * n_samples)?,
            context: Arc::clone(context),
            stream,
        })
    }

    fn plan(&self, variant: &TileVariant) -> Result<TilePlan> {
        let card = card_of(&Queue::new(&self.stream));
        let (n_rows, n_samples, blocks) =
            (self.weights.n_rows, self.inputs.n_rows, self.weights.part.stride / 32);
        let mut plan = match variant.shape {
            Some(shape) => TilePlan::of_shape(&card, shape, 1.0, n_rows, n_samples, blocks)?,
            None => TilePlan::best(&card, n_rows, n_samples, blocks)?,
        };
        plan.n_parts = variant.n_parts.unwrap_or(plan.n_parts).clamp(1, blocks.min(65_535));
        // More tiles than 32 bits can count would be none.
        plan.band = variant.band.unwrap_or(plan.band).clamp(1, plan.row_tiles.max(1));
        Ok(plan)
    }

    /// Describes the launch of a variant.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] for sizes that kernels cannot count.
    pub fn describe(&self, variant: &TileVariant) -> Result<String> {
        let plan = self.plan(variant)?;
        Ok(format!(
            "{}, {} blocks x {} parts, band {}",
            plan.shape, plan.blocks, plan.n_parts, plan.band
        ))
    }

    fn give(&self, plan: &TilePlan) -> Result<()> {
        let target = Target {
            counts: self.counts.view(),
            n_neurons: self.weights.n_rows,
            first_neuron: 0,
            n_samples: self.inputs.n_rows,
        };
        let weights = (self.weights.streams.view(), self.weights.n_rows);
        let inputs = self.inputs.streams.view();
        launch::planned_tiles(
            &Queue::new(&self.stream),
            &self.weights.part,
            weights,
            inputs,
            &target,
            plan,
        )
    }

    /// Compares counts with the host's. Returns the first difference as text.
    ///
    /// # Errors
    /// Returns errors of the driver.
    pub fn check(&self, variant: &TileVariant) -> Result<Option<String>> {
        self.counts.fill(0, &self.stream)?;
        self.give(&self.plan(variant)?)?;
        let counts = self.counts.read(&self.stream)?;
        let (neurons, samples) = (some(self.weights.n_rows), some(self.inputs.n_rows));
        let (w, x) =
            (self.weights.rows(&neurons, &self.stream)?, self.inputs.rows(&samples, &self.stream)?);
        for (&sample, x) in samples.iter().zip(&x) {
            for (&neuron, w) in neurons.iter().zip(&w) {
                let (found, expected) =
                    (counts[sample * self.weights.n_rows + neuron], and_ones(w, x));
                if u64::from(found) != expected {
                    return Ok(Some(format!(
                        "neuron {neuron}, sample {sample}: {found}, not {expected}"
                    )));
                }
            }
        }
        Ok(None)
    }

    /// Measures the time of the kernel.
    ///
    /// # Errors
    /// Returns errors of the driver.
    pub fn time(&self, variant: &TileVariant, repeats: u32) -> Result<Duration> {
        let plan = self.plan(variant)?;
        time(&self.context, &self.stream, repeats, || self.give(&plan))
    }

    /// Measures the time of encoding the batch, from values on the GPU, with the given number of
    /// words for each thread.
    ///
    /// # Errors
    /// Returns errors of the driver; other numbers of words require the kernels of a benchmark.
    pub fn time_encode(&self, words: u64, repeats: u32) -> Result<Duration> {
        let state = DeviceBuffer::with(&self.context, &CLEAN_STATE, &self.stream)?;
        let thresholds = self.inputs.thresholds.read(&self.stream)?;
        let values: Vec<u64> = thresholds
            .into_iter()
            .map(|threshold| (threshold as f64 / ONE as f64).to_bits())
            .collect();
        let values = DeviceBuffer::with(&self.context, &values, &self.stream)?;
        let operands = Operands::values(ValueKind::UnipolarF64, values.view(), state.view(), 0);
        time(&self.context, &self.stream, repeats, || {
            self.inputs.encode(&self.stream, words, operands)
        })
    }
}

/// The parameters of the kernels of few samples; `None` leaves them to the plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FewVariant {
    /// Vectors of a lane and rows loaded ahead, for the kernel of one sample; no vectors for that
    /// of several.
    pub rows: Option<(u32, u32)>,
    /// Number of blocks for each processor.
    pub blocks: Option<u32>,
    /// Size of a slice in bytes.
    pub slice_bytes: Option<u32>,
}

/// A few samples, and weights on the GPU.
pub struct FewTrial {
    context: Arc<CudaContext>,
    stream: Stream,
    weights: EncodedRows,
    length: Length,
    values: DeviceBuffer<u64>,
    counts: DeviceBuffer<u32>,
    out: DeviceBuffer<u64>,
    state: DeviceBuffer<u64>,
    reports: DeviceBuffer<u64>,
    recipe: Recipe,
    n_samples: usize,
}

impl std::fmt::Debug for FewTrial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FewTrial").field("context", &self.context).finish_non_exhaustive()
    }
}

/// The address of the inputs of the kernel of few samples.
const FEW_INPUTS: StreamAddress = StreamAddress::input(11, 0, 0);

impl FewTrial {
    /// Creates a layer and up to eight samples.
    ///
    /// # Errors
    /// As for [`TileTrial::new`].
    pub fn new(
        context: &Arc<CudaContext>,
        n_inputs: usize,
        n_neurons: usize,
        n_samples: usize,
        length: Length,
    ) -> Result<Self> {
        let n_samples = n_samples.clamp(1, crate::plan::few::MAX_SAMPLES);
        check_sizes([n_inputs, n_neurons, n_samples])?;
        let stream = Stream::new(context)?;
        let weights = EncodedRows::new(
            context,
            &stream,
            n_neurons,
            n_inputs,
            length,
            StreamAddress::weight(5, 0, 0),
        )?;
        let thresholds =
            DeviceBuffer::with(context, &few_thresholds(n_inputs * n_samples), &stream)?;
        let counts = DeviceBuffer::new(context, n_neurons * n_samples.max(2))?;
        counts.fill(0, &stream)?;
        let state = DeviceBuffer::with(context, &CLEAN_STATE, &stream)?;
        stream.synchronize()?;
        Ok(Self {
            weights,
            length,
            values: thresholds,
            counts,
            out: DeviceBuffer::new(context, n_neurons * n_samples)?,
            state,
            reports: DeviceBuffer::new(context, n_neurons.max(1))?,
            recipe: Recipe::dense(n_neurons, n_inputs, length, Product::And, None),
            n_samples,
            context: Arc::clone(context),
            stream,
        })
    }

    /// Returns the size of the weights in bytes.
    #[must_use]
    pub fn weight_bytes(&self) -> u64 {
        self.weights.part.bytes() * self.weights.n_rows as u64
    }

    fn plan(&self, variant: &FewVariant) -> Result<(FewPlan, FewKernel)> {
        let blocks = self.context.info().processors.saturating_mul(variant.blocks.unwrap_or(2));
        let (part, m) = (&self.weights.part, self.weights.n_rows);
        let plan = match variant.slice_bytes {
            Some(bytes) => FewPlan::with_slice(part, m, blocks, bytes)?,
            None if self.n_samples == 1 && variant.rows.is_none_or(|(vectors, _)| vectors > 0) => {
                FewPlan::one(part, m, blocks)?
            }
            None => FewPlan::new(part, m, blocks)?,
        };
        let kernel = match variant.rows {
            Some((0, ahead)) => FewKernel::Tiles { ahead },
            Some((vectors, ahead)) => FewKernel::Rows { vectors, ahead },
            None => FewKernel::best(self.n_samples, plan.slice_bytes),
        };
        kernel.check(&plan, self.n_samples)?;
        Ok((plan, kernel))
    }

    /// Describes the launch of a variant.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] for sizes that kernels cannot count.
    pub fn describe(&self, variant: &FewVariant) -> Result<String> {
        let (plan, kernel) = self.plan(variant)?;
        let FewPlan { slice_bytes, n_slices, n_groups, .. } = plan;
        Ok(format!(
            "{}, {n_slices} slices of {slice_bytes} bytes x {n_groups} groups",
            kernel.name()
        ))
    }

    fn give(&self, variant: &FewVariant) -> Result<()> {
        let (plan, kernel) = self.plan(variant)?;
        let (part, m) = (&self.weights.part, self.weights.n_rows);
        let (out, reports, state) = (self.out.view(), self.reports.view(), self.state.view());
        let finish = self.recipe.finish_at(
            self.n_samples,
            CardResults::counts(out),
            reports,
            state,
            None,
            Turn::ONLY,
        )?;
        let from = FewInputs {
            part: part.of_rows(self.weights.n_units, self.weights.words)?,
            kind: ValueKind::Thresholds,
            inputs: self.values.view(),
            one: crate::encode::ONE,
            seed: call_seed(FEW_INPUTS),
            tag: FEW_INPUTS.tag(),
            xnor: false,
            reports,
        };
        let target = Target {
            counts: self.counts.view(),
            n_neurons: m,
            first_neuron: 0,
            n_samples: self.n_samples,
        };
        let rows = (self.weights.streams.view(), m);
        launch::few(part, rows, &from, &target, finish, (plan, kernel))?
            .give(&Queue::new(&self.stream))
    }

    /// Compares counts with the host's. Returns the first difference as text.
    ///
    /// # Errors
    /// Returns errors of the driver.
    pub fn check(&self, variant: &FewVariant) -> Result<Option<String>> {
        self.give(variant)?;
        let counts = self.out.read(&self.stream)?;
        let (n, m) = (self.weights.n_units, self.weights.n_rows);
        let thresholds = few_thresholds(n * self.n_samples);
        let neurons = some(m);
        let rows = self.weights.rows(&neurons, &self.stream)?;
        for sample in 0..self.n_samples {
            let words: Vec<u64> = thresholds[sample * n..][..n].to_vec();
            let thresholds: Vec<_> =
                words.into_iter().map(aleatron_core::Threshold::saturating).collect();
            let first = FEW_INPUTS.at_row(size_u32(sample, "row of a counter")?);
            let x = crate::gates::encode(&self.context, &thresholds, self.length, first)?;
            let x: &[u32] = bytemuck::cast_slice(x.words());
            for (&neuron, w) in neurons.iter().zip(&rows) {
                let (found, expected) = (counts[sample * m + neuron], and_ones(w, x));
                if found != expected {
                    return Ok(Some(format!(
                        "neuron {neuron}, sample {sample}: {found}, not {expected}"
                    )));
                }
            }
        }
        Ok(None)
    }

    /// Measures the time of the kernel.
    ///
    /// # Errors
    /// Returns errors of the driver; other variants require the kernels of a benchmark.
    pub fn time(&self, variant: &FewVariant, repeats: u32) -> Result<Duration> {
        time(&self.context, &self.stream, repeats, || self.give(variant))
    }
}

fn few_thresholds(n: usize) -> Vec<u64> {
    (0..n as u64).map(|k| k.wrapping_mul(0xD251_1F53_0123_4567) >> 32).collect()
}

/// Measures the time in which a kernel reads this number of bytes, with little other work.
///
/// # Errors
/// Returns [`Error::OutOfMemory`], and errors of the driver.
pub fn time_read(context: &Arc<CudaContext>, bytes: u64, repeats: u32) -> Result<Duration> {
    let stream = Stream::new(context)?;
    // Rows of 64 KiB.
    let (stride, n_rows) = (1 << 14, host_size((bytes >> 16).max(1)));
    let rows = DeviceBuffer::<u32>::new(context, n_rows * stride as usize)?;
    rows.fill(0x5555_5555, &stream)?;
    let ones = DeviceBuffer::<u64>::new(context, n_rows)?;
    ones.fill(0, &stream)?;
    time(context, &stream, repeats, || {
        count_row_ones(
            &Queue::new(&stream),
            rows.view(),
            stride,
            n_rows,
            ones.view(),
            OnesWidth::Bits64,
        )
    })
}

/// Measures the time of a launch and of waiting for it on the host: the least time of any call.
///
/// # Errors
/// Returns errors of the driver.
pub fn time_launch(context: &Arc<CudaContext>, repeats: u32) -> Result<Duration> {
    let stream = Stream::new(context)?;
    let word = DeviceBuffer::<u64>::with(context, &[1 << 31], &stream)?;
    let state = DeviceBuffer::with(context, &CLEAN_STATE, &stream)?;
    let give = || {
        let from = Values { kind: ValueKind::Thresholds, values: word.view(), n: 1, first: 0 };
        convert(&Queue::new(&stream), &from, 1 << 32, word.view(), state.view())?;
        stream.synchronize()
    };
    give()?;
    let start = std::time::Instant::now();
    for _ in 0..repeats.max(1) {
        give()?;
    }
    Ok(start.elapsed() / repeats.max(1))
}

/// Measures the time in which the driver compiles the kernels of this crate for the GPU, unless it
/// has already done so.
///
/// # Errors
/// Returns errors of the driver, such as PTX that is newer than the driver.
pub fn load_kernels(context: &Arc<CudaContext>) -> Result<Duration> {
    let start = std::time::Instant::now();
    context.load(Module::Sm80)?;
    if context.info().capability.0 == 9 {
        context.load(Module::Sm90a)?;
    }
    Ok(start.elapsed())
}

//! The forward pass on a GPU: weights, activations, cache and sampling stay on the device.
//!
//! One token is one submission and one readback, of the token. A step continues the tokens that the
//! previous step chose, which never leave the device, so that several steps can be in flight.

#![deny(clippy::cast_possible_truncation, clippy::cast_sign_loss)]

mod kernels;
mod matrices;
mod memory;
mod record;
mod reduce;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use aleatron_device::{Bandwidth, GpuBuffer, GpuContext, PendingRead, Profiler, size_u32};

use crate::config::Config;
use crate::cpu::last_rows;
use crate::error::{Error, Result};
use crate::lora::Adapter;
use crate::pass::{AdapterId, ForwardPass, Logits, Segment, Sequence, SequenceId, Sequences};
use crate::sampling::Sampling;
use crate::weights::{Loader, Slot};
use kernels::{Heads, PassKernel};
use memory::{Cache, DeviceLora, DeviceMatrix, DeviceNorm};
use record::{Abilities, Buffers, FEW, Launches, Work, padded};

/// The largest number of rows of one submission, and of sequences of one batch.
const MOST_ROWS: usize = 512;

/// Converts bytes of a device to a size of the host, which counts all memory that it can name.
fn host_size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The entries of a list of rows per binding: bindings begin at multiples of 256 bytes.
const SELECTION: usize = 32;

#[derive(Debug)]
struct DeviceLayer {
    attention_norm: DeviceNorm,
    qkv: DeviceMatrix,
    output: DeviceMatrix,
    feed_forward_norm: DeviceNorm,
    up: DeviceMatrix,
    down: DeviceMatrix,
}

/// A series of steps.
#[derive(Debug)]
struct Decoding {
    sequences: Vec<SequenceId>,
    sampling: Sampling,
    adapters: Vec<usize>,
    /// The index of the buffer of rows that the next step reads.
    current: usize,
    /// The kernels of a step for either buffer, and their keys: the parts of attention, and the
    /// versions of the buffers.
    kept: [Option<([u64; 3], Launches)>; 2],
    on_their_way: VecDeque<PendingRead<u32>>,
}

/// A transformer resident on a GPU.
#[derive(Debug)]
pub struct WgslForwardPass {
    context: Arc<GpuContext>,
    config: Config,
    heads: Heads,
    abilities: Abilities,
    embedding: DeviceMatrix,
    positions: Option<GpuBuffer<f32>>,
    layers: Vec<DeviceLayer>,
    norm: DeviceNorm,
    head: Option<DeviceMatrix>,
    cache: Cache,
    buffers: Buffers,
    logits: GpuBuffer<f32>,
    /// Parts of attention over different positions.
    partial: GpuBuffer<f32>,
    /// The rows of steps, in alternating buffers.
    step_rows: [GpuBuffer<u32>; 2],
    /// Rows whose logits are requested, and the indices of their tokens.
    selection: GpuBuffer<u32>,
    /// The selection of steps: every row.
    every_row: GpuBuffer<u32>,
    chosen: GpuBuffer<u32>,
    sequences: Sequences,
    adapters: Vec<Vec<[Option<DeviceLora>; 4]>>,
    largest_rank: usize,
    decoding: Option<Decoding>,
    epoch: u64,
    /// A counter that changes when the buffers of activations or logits are replaced.
    version: u64,
    profiler: Option<Profiler>,
}

/// A chunk of a call: the rows of one submission.
struct Chunk {
    /// Token, slot, position and adapter of each row.
    rows: Vec<[u32; 4]>,
    /// Rows whose logits are requested, and their index among all requested rows.
    wanted: Vec<[u32; 2]>,
}

impl WgslForwardPass {
    /// Loads a model to a device.
    ///
    /// # Errors
    /// An error with the fault of its weights, or an error of the device.
    pub fn new(context: &Arc<GpuContext>, loader: &Loader<'_>) -> Result<Self> {
        let config = loader.config.clone();
        config.check()?;
        let heads = Heads::of(&config, loader.precision)?;
        let mut layers = Vec::new();
        for index in 0..config.layers {
            let layer = loader.layer(index)?;
            layers.push(DeviceLayer {
                attention_norm: DeviceNorm::new(context, &layer.attention_norm)?,
                qkv: DeviceMatrix::linear(context, &layer.qkv)?,
                output: DeviceMatrix::linear(context, &layer.output)?,
                feed_forward_norm: DeviceNorm::new(context, &layer.feed_forward_norm)?,
                up: DeviceMatrix::linear(context, &layer.up)?,
                down: DeviceMatrix::linear(context, &layer.down)?,
            });
        }
        let ends = loader.ends()?;
        let positions = match &ends.positions {
            None => None,
            Some(rows) => {
                let stride = padded(config.hidden);
                let mut all = vec![0.0; config.max_positions * stride];
                for (to, from) in all.chunks_exact_mut(stride).zip(rows.chunks_exact(config.hidden))
                {
                    to[..config.hidden].copy_from_slice(from);
                }
                Some(context.upload(&all)?)
            }
        };
        // Otherwise a growing context would compile them in the middle of a text.
        for kernel in PassKernel::of_attention(heads) {
            context.pipeline(&kernel, &[])?;
        }
        let every: Vec<u32> = (0..).take(MOST_ROWS).flat_map(|row| [row, row]).collect();
        let step_rows = || context.buffer(MOST_ROWS * 4);
        Ok(Self {
            heads,
            abilities: Abilities::of(context),
            embedding: DeviceMatrix::new(context, &ends.embedding, None)?,
            positions,
            layers,
            norm: DeviceNorm::new(context, &ends.norm)?,
            head: ends.head.map(|head| DeviceMatrix::new(context, &head, None)).transpose()?,
            cache: Cache::new(context, heads),
            buffers: Buffers::new(context, &config, FEW, 0, heads.head4() as usize)?,
            logits: context.buffer(config.vocabulary * FEW)?,
            partial: context.buffer(FEW * config.heads * 32 * (heads.head4() as usize + 1) * 4)?,
            step_rows: [step_rows()?, step_rows()?],
            selection: context.buffer(MOST_ROWS * 2)?,
            every_row: context.upload(&every)?,
            chosen: context.buffer(MOST_ROWS)?,
            sequences: Sequences::default(),
            adapters: Vec::new(),
            largest_rank: 0,
            decoding: None,
            epoch: 0,
            version: 0,
            profiler: None,
            context: Arc::clone(context),
            config,
        })
    }

    /// Returns the device.
    #[must_use]
    pub fn context(&self) -> &Arc<GpuContext> {
        &self.context
    }

    /// Ends a series of steps.
    fn restart(&mut self) {
        self.decoding = None;
        self.epoch += 1;
    }

    fn end_steps_of(&mut self, sequence: SequenceId) {
        if self.decoding.as_ref().is_some_and(|decoding| decoding.sequences.contains(&sequence)) {
            self.restart();
        }
    }

    /// Returns the number of rows whose logits fit their buffer.
    fn most_logits(&self) -> usize {
        let fit = host_size(self.context.max_binding_bytes()) / (self.config.vocabulary * 4);
        (fit / SELECTION * SELECTION).clamp(SELECTION, MOST_ROWS)
    }

    /// Reserves buffers for rows of activations and of logits.
    fn reserve(&mut self, rows: usize, logits: usize) -> Result<()> {
        if rows > self.buffers.rows {
            let rows = rows.next_power_of_two();
            let head4 = self.heads.head4() as usize;
            self.buffers =
                Buffers::new(&self.context, &self.config, rows, self.largest_rank, head4)?;
            self.version += 1;
        }
        let logits = logits.min(self.most_logits()) * self.config.vocabulary;
        if logits > self.logits.len() {
            self.logits = self.context.buffer(logits)?;
            self.version += 1;
        }
        Ok(())
    }

    /// Checks a call, reserves memory for it and divides it into chunks.
    fn prepare(&mut self, segments: &[Segment<'_>], logits: Logits) -> Result<Vec<Chunk>> {
        self.sequences.check(&self.config, segments)?;
        if segments.len() > MOST_ROWS {
            return Err(Error::TooManySequences { sequences: segments.len(), limit: MOST_ROWS });
        }
        let (mut rows, mut slots, mut positions) = (Vec::new(), 0, 0);
        for segment in segments {
            let Sequence { len, adapter, .. } = self.sequences.get(segment.sequence)?;
            let slot = segment.sequence.0;
            (slots, positions) = (slots.max(slot + 1), positions.max(len + segment.tokens.len()));
            let slot = size_u32(slot, "number of a sequence")?;
            let adapter =
                adapter.map_or(Ok(0), |adapter| size_u32(adapter.0 + 1, "number of an adapter"))?;
            // Their number was checked to be one of the model's positions.
            let positions = size_u32(len, "position of a token")?..;
            let placed = segment.tokens.iter().zip(positions);
            rows.extend(placed.map(|(&token, position)| [token, slot, position, adapter]));
        }
        self.cache.reserve(&self.config, slots, positions)?;
        let wanted: Vec<usize> = match logits {
            Logits::All => (0..rows.len()).collect(),
            Logits::Last => last_rows(segments),
        };
        let mut chunks = Vec::new();
        for (i, rows) in rows.chunks(MOST_ROWS).enumerate() {
            let first = i * MOST_ROWS;
            let mut inside = Vec::new();
            for (index, &row) in wanted.iter().enumerate() {
                if (first..first + rows.len()).contains(&row) {
                    inside.push([
                        size_u32(row - first, "row of a call")?,
                        size_u32(index, "row of logits")?,
                    ]);
                }
            }
            chunks.push(Chunk { rows: rows.to_vec(), wanted: inside });
        }
        let most = |len: fn(&Chunk) -> usize| chunks.iter().map(len).max().unwrap_or(0);
        self.reserve(most(|chunk| chunk.rows.len()), most(|chunk| chunk.wanted.len()))?;
        Ok(chunks)
    }

    /// Runs a chunk: its rows through the layers, then the requested ones through the head.
    fn run_chunk(
        &mut self,
        chunk: &Chunk,
        sampling: Option<&Sampling>,
    ) -> Result<Vec<PendingRead<f32>>> {
        let mut profiler = self.profiler.take();
        let result = self.record_chunk(chunk, sampling, profiler.as_mut());
        self.keep(profiler)?;
        result
    }

    /// Collects the measured times.
    fn keep(&mut self, mut profiler: Option<Profiler>) -> Result<()> {
        let collected = profiler.as_mut().map_or(Ok(()), Profiler::collect);
        self.profiler = profiler;
        Ok(collected?)
    }

    fn record_chunk(
        &self,
        chunk: &Chunk,
        sampling: Option<&Sampling>,
        profiler: Option<&mut Profiler>,
    ) -> Result<Vec<PendingRead<f32>>> {
        self.buffers.tokens.write(0, chunk.rows.as_flattened())?;
        self.selection.write(0, chunk.wanted.as_flattened())?;
        let adapters: BTreeSet<u32> =
            chunk.rows.iter().map(|row| row[3]).filter(|&adapter| adapter > 0).collect();
        let work = Work {
            tokens: &self.buffers.tokens,
            rows: chunk.rows.len(),
            positions: chunk.rows.iter().map(|row| row[2] as usize + 1).max().unwrap_or(1),
            adapters: adapters.into_iter().map(|adapter| adapter as usize - 1).collect(),
        };
        let mut recorder = self.context.recorder(profiler)?;
        let mut launches = Launches::default();
        self.record_layers(&mut launches, &work)?;
        let (mut reads, most) = (Vec::new(), self.most_logits());
        for first in (0..chunk.wanted.len()).step_by(most) {
            let count = most.min(chunk.wanted.len() - first);
            let selection = self.selection.view_of(2 * first, 2 * count)?;
            self.record_norm(&mut launches, &self.norm, Some(selection), count)?;
            self.record_head(&mut launches, &self.logits, count)?;
            match sampling {
                Some(sampling) => {
                    let (tokens, next) = (&self.buffers.tokens, &self.step_rows[0]);
                    self.record_sample(&mut launches, tokens, selection, next, count, sampling)?;
                }
                None => {
                    std::mem::take(&mut launches).play(&mut recorder)?;
                    let wanted = self.logits.view_of(0, count * self.config.vocabulary)?;
                    reads.push(recorder.read::<f32>(wanted)?);
                }
            }
        }
        launches.play(&mut recorder)?;
        recorder.submit()?;
        Ok(reads)
    }

    /// Returns the kernels of one step of a series.
    fn step_launches(&self, decoding: &Decoding, positions: usize) -> Result<Launches> {
        let rows = decoding.sequences.len();
        let [tokens, next] = [decoding.current, 1 - decoding.current].map(|i| &self.step_rows[i]);
        let work = Work { tokens, rows, positions, adapters: decoding.adapters.clone() };
        let mut launches = Launches::default();
        self.record_layers(&mut launches, &work)?;
        let most = self.most_logits();
        for first in (0..rows).step_by(most) {
            let count = most.min(rows - first);
            let selection = self.every_row.view_of(2 * first, 2 * count)?;
            self.record_norm(&mut launches, &self.norm, Some(selection), count)?;
            self.record_head(&mut launches, &self.logits, count)?;
            self.record_sample(&mut launches, tokens, selection, next, count, &decoding.sampling)?;
        }
        Ok(launches)
    }

    /// Submits one step of a series.
    fn run_step(
        &self,
        decoding: &mut Decoding,
        positions: usize,
        profiler: Option<&mut Profiler>,
    ) -> Result<()> {
        let rows = decoding.sequences.len();
        let key = [self.splits(rows, positions) as u64, self.cache.version, self.version];
        let kept = &mut decoding.kept[decoding.current];
        if kept.as_ref().is_none_or(|(known, _)| *known != key) {
            *kept = None;
            let launches = self.step_launches(decoding, positions)?;
            decoding.kept[decoding.current] = Some((key, launches));
        }
        let mut recorder = self.context.recorder(profiler)?;
        let place = "gpu::WgslForwardPass::run_step, kernels that were just recorded";
        let (_, launches) =
            decoding.kept[decoding.current].as_ref().ok_or(Error::Internal { place })?;
        launches.play(&mut recorder)?;
        let read = recorder.read(self.chosen.view_of(0, rows)?)?;
        recorder.submit()?;
        decoding.on_their_way.push_back(read);
        decoding.current = 1 - decoding.current;
        Ok(())
    }

    fn advance(&mut self, segments: &[Segment<'_>]) -> Result<()> {
        for segment in segments {
            self.sequences.get_mut(segment.sequence)?.len += segment.tokens.len();
        }
        Ok(())
    }
}

/// Checks sampled tokens; the error names the sequence without one.
fn checked(tokens: Vec<u32>, sequences: &[SequenceId]) -> Result<Vec<u32>> {
    match tokens.iter().position(|&token| token == u32::MAX) {
        Some(i) => Err(Error::NotFinite { sequence: sequences[i].0 }),
        None => Ok(tokens),
    }
}

impl ForwardPass for WgslForwardPass {
    fn config(&self) -> &Config {
        &self.config
    }

    fn device(&self) -> String {
        format!("gpu:{} ({})", self.context.info().index, self.context.name())
    }

    fn open(&mut self) -> Result<SequenceId> {
        Ok(self.sequences.occupy(self.sequences.free_slot(), Sequence::default()))
    }

    fn close(&mut self, sequence: SequenceId) {
        self.end_steps_of(sequence);
        self.sequences.close(sequence);
    }

    fn fork(&mut self, sequence: SequenceId) -> Result<SequenceId> {
        let state = self.sequences.get(sequence)?;
        let slot = self.sequences.free_slot();
        self.cache.reserve(&self.config, slot.max(sequence.0) + 1, state.len)?;
        if state.len > 0 {
            self.cache.copy(&self.config, sequence.0, slot, state.len)?;
        }
        Ok(self.sequences.occupy(slot, state))
    }

    fn truncate(&mut self, sequence: SequenceId, keep: usize) -> Result<()> {
        self.end_steps_of(sequence);
        self.sequences.truncate(sequence, keep)
    }

    fn len(&self, sequence: SequenceId) -> Result<usize> {
        Ok(self.sequences.get(sequence)?.len)
    }

    fn load_adapter(&mut self, adapter: &Adapter) -> Result<AdapterId> {
        let mut layers = Vec::new();
        for layer in 0..self.config.layers {
            let mut slots = [None, None, None, None];
            for slot in Slot::ALL {
                if let Some(lora) = adapter.stacked(&self.config, layer, slot) {
                    self.largest_rank = self.largest_rank.max(lora.rank);
                    slots[slot as usize] = Some(DeviceLora::new(&self.context, &lora)?);
                }
            }
            layers.push(slots);
        }
        self.context.finish()?;
        // Its ranks may need larger buffers.
        let (rows, head4) = (self.buffers.rows, self.heads.head4() as usize);
        self.buffers = Buffers::new(&self.context, &self.config, rows, self.largest_rank, head4)?;
        self.version += 1;
        self.adapters.push(layers);
        Ok(self.sequences.add_adapter())
    }

    fn use_adapter(&mut self, sequence: SequenceId, adapter: Option<AdapterId>) -> Result<()> {
        self.end_steps_of(sequence);
        self.sequences.use_adapter(sequence, adapter)
    }

    fn forward(&mut self, segments: &[Segment<'_>], logits: Logits) -> Result<Vec<f32>> {
        self.restart();
        let chunks = self.prepare(segments, logits)?;
        let wanted: usize = chunks.iter().map(|chunk| chunk.wanted.len()).sum();
        let len = wanted as u128 * self.config.vocabulary as u128;
        let mut all = aleatron_core::memory::with_capacity(len, aleatron_core::Quantity::Counts)?;
        for chunk in &chunks {
            for read in self.run_chunk(chunk, None)? {
                all.extend(read.wait()?);
            }
        }
        self.advance(segments)?;
        Ok(all)
    }

    fn prefill(&mut self, segments: &[Segment<'_>], sampling: &Sampling) -> Result<Vec<u32>> {
        self.restart();
        sampling.check()?;
        let chunks = self.prepare(segments, Logits::Last)?;
        for chunk in &chunks {
            self.run_chunk(chunk, Some(sampling))?;
        }
        self.advance(segments)?;
        let sequences: Vec<SequenceId> = segments.iter().map(|segment| segment.sequence).collect();
        let mut adapters = BTreeSet::new();
        for &sequence in &sequences {
            adapters.extend(self.sequences.get(sequence)?.adapter.map(|adapter| adapter.0));
        }
        let tokens = checked(self.chosen.read_of(0, sequences.len())?, &sequences)?;
        self.decoding = Some(Decoding {
            sequences,
            sampling: *sampling,
            adapters: adapters.into_iter().collect(),
            current: 0,
            kept: [None, None],
            on_their_way: VecDeque::new(),
        });
        Ok(tokens)
    }

    fn submit_step(&mut self) -> Result<()> {
        let Some(mut decoding) = self.decoding.take() else { return Err(Error::NoStep) };
        let submitted = (|| {
            let (mut positions, mut slots) = (0, 0);
            for &sequence in &decoding.sequences {
                positions = positions.max(self.sequences.get(sequence)?.len + 1);
                slots = slots.max(sequence.0 + 1);
            }
            if positions > self.config.max_positions {
                return Err(Error::TooLong { positions, limit: self.config.max_positions });
            }
            self.cache.reserve(&self.config, slots, positions)?;
            self.reserve(decoding.sequences.len(), decoding.sequences.len())?;
            let mut profiler = self.profiler.take();
            let submitted = self.run_step(&mut decoding, positions, profiler.as_mut());
            self.keep(profiler)?;
            submitted?;
            for &sequence in &decoding.sequences {
                self.sequences.get_mut(sequence)?.len += 1;
            }
            Ok(())
        })();
        self.decoding = Some(decoding);
        submitted
    }

    fn take_step(&mut self) -> Result<Vec<u32>> {
        let decoding = self.decoding.as_mut().ok_or(Error::NoStep)?;
        let read = decoding.on_their_way.pop_front().ok_or(Error::NoStep)?;
        checked(read.wait()?, &decoding.sequences)
    }

    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn look_ahead(&self) -> usize {
        2
    }

    fn weight_bytes(&self) -> u64 {
        let layer = |layer: &DeviceLayer| {
            [&layer.qkv, &layer.output, &layer.up, &layer.down]
                .iter()
                .map(|matrix| matrix.bytes())
                .sum::<u64>()
        };
        self.layers.iter().map(layer).sum::<u64>()
            + self.head.as_ref().unwrap_or(&self.embedding).bytes()
    }

    fn start_profile(&mut self) -> Result<()> {
        self.profiler = Some(Profiler::new(&self.context)?);
        Ok(())
    }

    fn finish_profile(&mut self) -> Result<String> {
        let Some(profiler) = self.profiler.take() else { return Ok(String::new()) };
        let bandwidth = Bandwidth::measure(&self.context, 1 << 28)?;
        Ok(profiler.table(bandwidth))
    }
}

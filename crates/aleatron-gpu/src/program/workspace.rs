//! The memory of a chunk of a program's samples on a device, and the recording of its commands.

use std::sync::Arc;

use aleatron_core::program::{ProgramBatch, ProgramOutput, SlotData, SlotId, SlotKind, plain};
use aleatron_device::{BufferView, GpuBuffer, GpuContext, HostBuffer, Profiler, Recorder};

use super::layer::{LayerViews, LayerWords};
use super::placement::{Buffers, Layout, Placement};
use super::step::{RawCounts, RawSign, StepViews};
use super::{DeviceStep, GpuProgram};
use crate::error::{Error, Result};

/// The least number of words of a buffer: a binding is never empty.
const LEAST_WORDS: usize = 4;

/// The memory of a chunk.
#[derive(Debug)]
pub(super) struct Workspace {
    layout: Layout,
    buffers: Buffers,
    slots: Vec<GpuBuffer<u32>>,
    packed: GpuBuffer<u32>,
    signs: GpuBuffer<u32>,
    streams: GpuBuffer<u32>,
    counts: [GpuBuffer<u32>; 2],
    /// The saturated elements of each step that requantizes.
    saturated: GpuBuffer<u32>,
    upload: HostBuffer<u32>,
    /// The saturated elements, and then the slots that the host needs.
    download: HostBuffer<u32>,
}

/// The host's state of a chunk in flight.
#[derive(Debug)]
pub(super) struct Chunk {
    n_samples: usize,
    /// The slots that the host has computed.
    data: Vec<Option<SlotData>>,
    /// The number of saturated inputs of each layer on the host.
    saturated: Vec<u64>,
}

impl Workspace {
    pub(super) fn new(owner: &GpuProgram, layout: Layout) -> Result<Self> {
        let (context, chunk) = (&owner.context, owner.chunk);
        let buffer = |words: usize| -> Result<GpuBuffer<u32>> {
            Ok(context.buffer(words.max(LEAST_WORDS))?)
        };
        let words = owner.layer_words(chunk);
        let buffers = owner.buffers(layout);
        let slots =
            buffers.lens.iter().map(|&len| buffer(2 * len * chunk)).collect::<Result<_>>()?;
        let LayerWords { packed, signs, streams, counts } = words;
        let uploaded: usize =
            owner.uploaded.iter().map(|&id| 2 * chunk * owner.program.slot(id).len).sum();
        Ok(Self {
            layout,
            buffers,
            slots,
            packed: buffer(packed)?,
            signs: buffer(signs)?,
            streams: buffer(streams)?,
            counts: [buffer(counts)?, buffer(if owner.has_differences { counts } else { 0 })?],
            saturated: buffer(owner.requantized.len())?,
            upload: HostBuffer::upload(context, uploaded.max(LEAST_WORDS))?,
            download: HostBuffer::readback(context, LEAST_WORDS)?,
        })
    }

    fn slot(&self, id: SlotId) -> Result<BufferView<'_>> {
        let buffer = self.buffers.of_slot[id.index()].and_then(|buffer| self.slots.get(buffer));
        let place = "program::Workspace::slot, slot without a buffer";
        Ok(buffer.ok_or(Error::Internal { place })?.view())
    }

    /// Computes the first steps on the host, and submits the others. `fetched` are the slots of the
    /// device that are downloaded.
    pub(super) fn submit(
        &mut self,
        owner: &GpuProgram,
        batch: &ProgramBatch<'_>,
        fetched: &[SlotId],
        profiler: Option<&mut Profiler>,
    ) -> Result<Chunk> {
        let (program, n) = (&owner.program, batch.n_samples);
        let mut chunk = Chunk {
            n_samples: n,
            data: vec![None; program.slots().len()],
            saturated: vec![0; program.layers().len()],
        };
        for (id, input) in program.inputs().iter().zip(batch.inputs) {
            chunk.data[id.index()] = Some(SlotData::Float(input.to_vec()));
        }
        owner.run_on_host(Placement::Before, &mut chunk.data, n, &mut chunk.saturated, |_| true)?;
        self.upload.map()?;
        let mut first = 0;
        for &id in &owner.uploaded {
            let Some(SlotData::Words(words)) = &chunk.data[id.index()] else {
                return Err(NO_THRESHOLDS);
            };
            self.upload.write(first, bytemuck::cast_slice(words))?;
            first += 2 * words.len();
        }
        self.upload.unmap();
        let elements: usize = fetched.iter().map(|&id| program.slot(id).len).sum();
        let n_words = owner.requantized.len() + 2 * elements * owner.chunk;
        if self.download.len() < n_words {
            self.download = HostBuffer::readback(&owner.context, n_words)?;
        }
        let mut recorder = owner.context.recorder(profiler)?;
        self.record(&mut recorder, owner, batch, fetched)?;
        let submission = recorder.submit()?;
        self.download.map_after(&submission);
        self.upload.map_after(&submission);
        Ok(chunk)
    }

    fn record(
        &self,
        recorder: &mut Recorder<'_>,
        owner: &GpuProgram,
        batch: &ProgramBatch<'_>,
        fetched: &[SlotId],
    ) -> Result<()> {
        let (program, n) = (&owner.program, batch.n_samples);
        let mut first = 0;
        for &id in &owner.uploaded {
            let len = 2 * n * program.slot(id).len;
            recorder.copy(self.upload.view_of(first, len)?, self.slot(id)?)?;
            first += len;
        }
        recorder.clear(self.saturated.view())?;
        let views = LayerViews {
            packed: self.packed.view(),
            signs: self.signs.view(),
            streams: self.streams.view(),
            counts: [self.counts[0].view(), self.counts[1].view()],
        };
        let mut skipped = None;
        for (k, (step, device)) in program.steps().iter().zip(&owner.steps).enumerate() {
            match device {
                DeviceStep::Host => {}
                _ if skipped == Some(k) => {}
                DeviceStep::Product { layer, counts, fused } => {
                    let (resident, rows) =
                        (&owner.layers[*layer], n * program.layers()[*layer].rows);
                    let seed = batch.row_seed(program.layers()[*layer].rows, 0)?;
                    resident.record(recorder, self.slot(step.input())?, &views, rows, seed)?;
                    let (stage, output) = match fused {
                        Some(fused) if self.layout == Layout::Shared => {
                            skipped = Some(k + 1);
                            (&fused.stage, fused.output)
                        }
                        _ => (counts, step.output()),
                    };
                    let sign = resident.raw_sign();
                    let [first, less] = views.counts;
                    let second = if sign == RawSign::Difference { less } else { first };
                    let raw = RawCounts { first, second, form: resident.raw_form(), sign };
                    let n_counts = n as u64 * program.slot(output).len as u64;
                    stage.record(recorder, &raw, self.slot(output)?, n_counts)?;
                }
                DeviceStep::Stage(stage) => {
                    let views = StepViews {
                        inputs: step
                            .inputs()
                            .iter()
                            .map(|&id| self.slot(id))
                            .collect::<Result<_>>()?,
                        output: self.slot(step.output())?,
                        saturated: self.saturated.view(),
                    };
                    stage.record(recorder, n, &views)?;
                }
            }
        }
        let mut first = owner.requantized.len();
        if first > 0 {
            let counted = self.saturated.view_of(0, first)?;
            recorder.copy(counted, self.download.view_of(0, first)?)?;
        }
        for &id in fetched {
            let len = 2 * n * program.slot(id).len;
            recorder.copy(self.slot(id)?.part(0, len)?, self.download.view_of(first, len)?)?;
            first += len;
        }
        Ok(())
    }

    /// Waits for a chunk, computes the last steps on the host, and appends the requested slots to
    /// the previous ones.
    pub(super) fn receive(
        &mut self,
        owner: &GpuProgram,
        mut chunk: Chunk,
        fetched: &[SlotId],
        slots: &[SlotId],
        output: &mut ProgramOutput,
    ) -> Result<()> {
        let (program, n) = (&owner.program, chunk.n_samples);
        let n_words: usize = fetched.iter().map(|&id| 2 * n * program.slot(id).len).sum();
        self.download.map()?;
        let data = &mut chunk.data;
        let seen = self.download.with(owner.requantized.len() + n_words, |words| {
            let (counted, mut words) = words.split_at(owner.requantized.len());
            let counted = owner.requantized.iter().zip(counted);
            counted.for_each(|(&layer, &more)| output.saturated[layer] += u64::from(more));
            for &id in fetched {
                let (own, rest) = words.split_at(2 * n * program.slot(id).len);
                let numbers =
                    own.chunks_exact(2).map(|pair| u64::from(pair[0]) | u64::from(pair[1]) << 32);
                data[id.index()] = Some(match program.slot(id).kind {
                    SlotKind::Integer => SlotData::Integer(numbers.map(u64::cast_signed).collect()),
                    _ => SlotData::Words(numbers.collect()),
                });
                words = rest;
            }
        });
        self.download.unmap();
        seen?;
        let needed = owner.needed_after(slots);
        owner.run_on_host(Placement::After, data, n, &mut chunk.saturated, |id| {
            needed[id.index()]
        })?;
        output.saturated.iter_mut().zip(&chunk.saturated).for_each(|(sum, more)| *sum += more);
        for (id, all) in slots.iter().zip(&mut output.slots) {
            let place = "program::Workspace::receive, slot that was not computed";
            let made = chunk.data[id.index()].clone().ok_or(Error::Internal { place })?;
            all.append(made)?;
        }
        Ok(())
    }
}

const NO_THRESHOLDS: Error =
    Error::Internal { place: "program::Workspace::submit, slot without thresholds" };

impl GpuProgram {
    /// Runs the steps of the host before or after the device, in their order, if they compute slots
    /// that `is_needed`.
    fn run_on_host(
        &self,
        placement: Placement,
        data: &mut [Option<SlotData>],
        n_samples: usize,
        saturated: &mut [u64],
        is_needed: impl Fn(SlotId) -> bool,
    ) -> Result<()> {
        let own = |id: SlotId| self.placements[id.index()] == placement && is_needed(id);
        for step in self.program.steps().iter().filter(|step| own(step.output())) {
            let inputs = step.inputs().iter().map(|id| data[id.index()].as_ref());
            let place = "program::GpuProgram::run_on_host, slot that was not computed";
            let inputs: Vec<&SlotData> =
                inputs.collect::<Option<_>>().ok_or(Error::Internal { place })?;
            let made = plain::run_step(&self.program, step, &inputs, n_samples, saturated)?;
            data[step.output().index()] = Some(made);
        }
        Ok(())
    }

    /// Returns the context of the device.
    pub(super) fn context(&self) -> &Arc<GpuContext> {
        &self.context
    }
}

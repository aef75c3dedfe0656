//! Assignment of the steps of a program to host and device, and of slots to buffers.

use aleatron_core::program::{Bounds, Program, SlotId, SlotKind, StepKind};

/// The processor that computes a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Placement {
    /// The host, from inputs alone.
    Before,
    /// The device.
    Device,
    /// The host, from slots of the device.
    After,
}

/// Returns where each slot is computed; `None` if floats between two layers would have to pass
/// through the host.
pub(super) fn placements(program: &Program) -> Option<Vec<Placement>> {
    let mut placements = vec![Placement::Before; program.slots().len()];
    for step in program.steps() {
        let of_inputs = || step.inputs().iter().map(|id| placements[id.index()]);
        let is_integer = program.slot(step.output()).kind == SlotKind::Integer;
        let placement = match step.kind() {
            StepKind::Product { .. } | StepKind::Accumulate { .. } | StepKind::Offset { .. } => {
                Placement::Device
            }
            StepKind::Requantize { .. } | StepKind::Clip(Bounds::Integer(_)) => Placement::Device,
            StepKind::Pool(_) | StepKind::Gather { .. } | StepKind::Combine { .. }
                if is_integer =>
            {
                Placement::Device
            }
            _ if of_inputs().all(|placement| placement == Placement::Before) => Placement::Before,
            _ => Placement::After,
        };
        if placement == Placement::Device
            && of_inputs().any(|placement| placement == Placement::After)
        {
            return None;
        }
        placements[step.output().index()] = placement;
    }
    Some(placements)
}

/// Returns the slots that the host computes and the device reads.
pub(super) fn uploaded(program: &Program, placements: &[Placement]) -> Vec<SlotId> {
    let mut slots = Vec::new();
    for step in
        program.steps().iter().filter(|step| placements[step.output().index()] == Placement::Device)
    {
        for &id in step.inputs() {
            if placements[id.index()] == Placement::Before && !slots.contains(&id) {
                slots.push(id);
            }
        }
    }
    slots
}

/// Whether slots share memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// Slots whose uses do not overlap share a buffer.
    Shared,
    /// Every slot has a buffer.
    Separate,
}

/// The buffers of slots.
#[derive(Debug, Clone)]
pub(super) struct Buffers {
    /// The buffer of each slot on the device.
    pub(super) of_slot: Vec<Option<usize>>,
    /// The number of elements of each buffer per sample.
    pub(super) lens: Vec<usize>,
}

impl Buffers {
    /// Assigns buffers to the slots of the device. Those of `skipped` get no buffer.
    pub(super) fn new(
        program: &Program,
        placements: &[Placement],
        layout: Layout,
        skipped: &[SlotId],
    ) -> Self {
        let end = program.steps().len();
        let mut last_uses = program.last_uses();
        for id in program.outputs() {
            last_uses[id.index()] = Some(end);
        }
        // Slots that the host reads are copied at the end.
        for step in program
            .steps()
            .iter()
            .filter(|step| placements[step.output().index()] == Placement::After)
        {
            step.inputs().iter().for_each(|id| last_uses[id.index()] = Some(end));
        }
        let mut made = Self { of_slot: vec![None; program.slots().len()], lens: Vec::new() };
        let mut busy_until: Vec<usize> = Vec::new();
        // Step k runs at time k + 1; uploads are complete before.
        let uploads = uploaded(program, placements).into_iter().map(|id| (id, 0));
        let steps = program.steps().iter().enumerate().map(|(k, step)| (step.output(), k + 1));
        let on_device = steps.filter(|(id, _)| placements[id.index()] == Placement::Device);
        for (id, time) in uploads.chain(on_device).filter(|(id, _)| !skipped.contains(id)) {
            let len = program.slot(id).len;
            // A step reads its inputs while it writes its output, so that a buffer is free after
            // the last step that reads it.
            let is_free = |b: usize| layout == Layout::Shared && busy_until[b] < time;
            let free = (0..made.lens.len()).filter(|&b| is_free(b));
            let fitting =
                free.clone().filter(|&b| made.lens[b] >= len).min_by_key(|&b| made.lens[b]);
            let buffer =
                fitting.or_else(|| free.max_by_key(|&b| made.lens[b])).unwrap_or(made.lens.len());
            if buffer == made.lens.len() {
                made.lens.push(0);
                busy_until.push(0);
            }
            made.lens[buffer] = made.lens[buffer].max(len);
            busy_until[buffer] = last_uses[id.index()].map_or(time, |last| last + 1);
            made.of_slot[id.index()] = Some(buffer);
        }
        made
    }

    /// Returns the number of elements of all buffers per sample.
    pub(super) fn elements(&self) -> u64 {
        self.lens.iter().fold(0, |sum, &len| sum.saturating_add(len as u64))
    }
}

//! Checks of indices on the device.
//!
//! A kernel that takes indices from a tensor clamps them to the axis and records the first index
//! out of range in a word of a shared buffer. Every value computed from its result carries a
//! [`Fault`], and reading such a value checks that word.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use aleatron_device::{GpuBuffer, GpuContext};

use super::data::GpuView;
use super::device::{GpuDevice, lock};
use crate::error::{Error, Result};

/// The number of concurrent checks; beyond it, the oldest are waited for.
const SLOTS: usize = 1024;

/// The words in which kernels record faults: 0 for none, otherwise 2^32 - 1 minus the position of
/// the first index out of range.
#[derive(Default)]
pub(crate) struct FaultSlots {
    buffer: OnceLock<GpuBuffer<u32>>,
    state: Mutex<SlotState>,
}

#[derive(Default)]
struct SlotState {
    next: usize,
    /// Slots that were checked and hold 0.
    free: Vec<usize>,
    /// Slots whose commands may be in flight; they must be checked before they are reused.
    unseen: Vec<usize>,
}

impl FaultSlots {
    pub(crate) fn buffer(&self, context: &Arc<GpuContext>) -> Result<&GpuBuffer<u32>> {
        if let Some(buffer) = self.buffer.get() {
            return Ok(buffer);
        }
        let buffer = context.upload(&[0u32; SLOTS])?;
        Ok(self.buffer.get_or_init(|| buffer))
    }
}

const UNKNOWN: u8 = 0;
const RIGHT: u8 = 1;
const WRONG: u8 = 2;

/// The check of the indices of one operation.
pub(crate) struct Fault {
    slots: Arc<FaultSlots>,
    pub(crate) slot: usize,
    op: &'static str,
    indices: GpuView,
    /// The length of the axis.
    len: usize,
    status: AtomicU8,
}

impl Drop for Fault {
    fn drop(&mut self) {
        let mut state = lock(&self.slots.state);
        match self.status.load(Ordering::Acquire) {
            RIGHT => state.free.push(self.slot),
            // A slot that holds a fault is not reused.
            WRONG => {}
            _ => state.unseen.push(self.slot),
        }
    }
}

impl Fault {
    /// Creates a check of indices into an axis of `len` elements.
    pub(crate) fn new(
        device: &GpuDevice,
        op: &'static str,
        indices: &GpuView,
        len: usize,
    ) -> Result<Arc<Self>> {
        let slots = Arc::clone(device.faults());
        let take = || {
            let mut state = lock(&slots.state);
            let fresh = (state.next < SLOTS).then_some(state.next);
            state.free.pop().or_else(|| {
                state.next += usize::from(fresh.is_some());
                fresh
            })
        };
        let slot = match take() {
            Some(slot) => Some(slot),
            None => {
                let unseen = std::mem::take(&mut lock(&slots.state).unseen);
                let words: Vec<u32> =
                    device.read(slots.buffer(device.context())?.view())?.wait()?;
                lock(&slots.state).free.extend(unseen.into_iter().filter(|&slot| words[slot] == 0));
                take()
            }
        };
        let Some(slot) = slot else {
            let what = crate::error::Limit::Bindings;
            return Err(Error::TooLarge { what, actual: SLOTS as u128 + 1, limit: SLOTS as u128 });
        };
        let (indices, status) = (indices.clone(), AtomicU8::new(UNKNOWN));
        Ok(Arc::new(Self { slots, slot, op, indices, len, status }))
    }

    /// Returns the error for the index at a position, whose value is read.
    fn error(&self, device: &GpuDevice, index: u32) -> Error {
        let Self { op, len, .. } = *self;
        let position = u64::from(index);
        match self.value(device, index as usize) {
            Ok(value) => Error::Index { op, position, value, len },
            Err(error) => error,
        }
    }

    fn value(&self, device: &GpuDevice, index: usize) -> Result<i64> {
        let GpuView { data, layout } = &self.indices;
        let at = layout.nth_offset(index).ok_or(Error::internal("gpu::fault::Fault::value"))?;
        let words = data.dtype.size() / 4;
        let words: Vec<u32> = device.read(data.buffer.view_of(words * at, words)?)?.wait()?;
        Ok(match words[..] {
            [low, high] => bytemuck::cast([low, high]),
            [word] => bytemuck::cast::<u32, i32>(word).into(),
            _ => return Err(Error::internal("gpu::fault::Fault::value, type of the indices")),
        })
    }
}

/// The checks that elements depend on.
#[derive(Clone, Default)]
pub(crate) struct Faults(Vec<Arc<Fault>>);

impl Faults {
    /// Joins the checks of several sources, without those that have passed.
    pub(crate) fn of<'a>(sources: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut all: Vec<Arc<Fault>> = Vec::new();
        for fault in sources.into_iter().flat_map(|faults| &faults.0) {
            let is_open = fault.status.load(Ordering::Acquire) != RIGHT;
            if is_open && !all.iter().any(|known| Arc::ptr_eq(known, fault)) {
                all.push(Arc::clone(fault));
            }
        }
        Self(all)
    }

    pub(crate) fn with(mut self, fault: &Arc<Fault>) -> Self {
        self.0.push(Arc::clone(fault));
        self
    }

    /// Completes pending checks; the commands must have been recorded.
    pub(crate) fn check(&self, device: &GpuDevice) -> Result<()> {
        let is_open = |fault: &&Arc<Fault>| fault.status.load(Ordering::Acquire) != RIGHT;
        if !self.0.iter().any(|fault| is_open(&fault)) {
            return Ok(());
        }
        let buffer = device.faults().buffer(device.context())?;
        let words: Vec<u32> = device.read(buffer.view())?.wait()?;
        let mut wrong = None;
        for fault in self.0.iter().filter(is_open) {
            match words[fault.slot] {
                0 => fault.status.store(RIGHT, Ordering::Release),
                word => {
                    fault.status.store(WRONG, Ordering::Release);
                    wrong.get_or_insert((fault, u32::MAX - word));
                }
            }
        }
        match wrong {
            Some((fault, index)) => Err(fault.error(device, index)),
            None => Ok(()),
        }
    }
}

//! Asynchronous reads.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use bytemuck::Pod;

use super::host::{begin_map, end_map, is_settled, wait_mapped, with_mapped};
use super::host_vec;
use super::pool::RawBuffer;
use crate::error::{Error, Result};
use crate::wait::{PollRequest, Signal};

/// The commands of a read were dropped instead of submitted.
const DROPPED: u8 = 4;

/// The staging buffer of a read, shared by its recording and its [`PendingRead`].
#[derive(Debug)]
pub(crate) struct ReadSlot {
    pub(crate) staging: Arc<RawBuffer>,
    signal: Arc<Signal>,
    submission: OnceLock<wgpu::SubmissionIndex>,
}

impl ReadSlot {
    pub(crate) fn new(staging: Arc<RawBuffer>) -> Self {
        Self { staging, signal: Arc::default(), submission: OnceLock::new() }
    }

    pub(crate) fn submitted(&self, index: wgpu::SubmissionIndex) {
        begin_map(&self.staging, &self.signal);
        // A recording is submitted once, so this is the first value.
        let _ = self.submission.set(index);
        self.signal.wake();
    }

    pub(crate) fn dropped(&self) {
        self.signal.set(DROPPED);
    }
}

impl Drop for ReadSlot {
    fn drop(&mut self) {
        // A mapped buffer must not reach the pool.
        end_map(&self.staging, &self.signal);
    }
}

/// A read that may still be in flight; created by
/// [`GpuBuffer::start_read`](crate::GpuBuffer::start_read),
/// [`Recorder::read`](crate::Recorder::read) or
/// [`GpuCommandBatch::read`](crate::GpuCommandBatch::read).
///
/// It can be waited for, polled, or awaited (see [`wait`](crate::wait)); awaiting gives the result
/// of [`Self::wait`].
///
/// ```no_run
/// # use aleatron_device::{AdapterChoice, GpuContext};
/// # let context = GpuContext::get(&AdapterChoice::from_env())?;
/// let buffer = context.upload(&[1.5f32, 2.5])?;
/// let read = buffer.start_read(0, 2)?;
/// // The host does something else meanwhile.
/// assert_eq!(read.wait()?, [1.5, 2.5]);
/// # Ok::<(), aleatron_device::Error>(())
/// ```
#[must_use = "what is read is lost unless it is waited for"]
pub struct PendingRead<T: Pod> {
    /// `None` for no elements.
    slot: Option<Arc<ReadSlot>>,
    /// The byte offset of the first element in the staging buffer.
    skip: u64,
    len: usize,
    poll_requested: bool,
    element: PhantomData<fn() -> T>,
}

impl<T: Pod> fmt::Debug for PendingRead<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingRead").field("len", &self.len).finish_non_exhaustive()
    }
}

impl<T: Pod> PendingRead<T> {
    pub(crate) fn new(slot: Option<Arc<ReadSlot>>, skip: u64, len: usize) -> Self {
        Self { slot, skip, len, poll_requested: false, element: PhantomData }
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns whether [`Self::wait`] would return immediately, with elements or an error. Polls
    /// the device.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let Some(slot) = &self.slot else { return true };
        if slot.submission.get().is_none() {
            return slot.signal.get() == DROPPED;
        }
        let context = &slot.staging.context;
        // Errors are reported by `wait`.
        is_settled(&slot.signal)
            || context.poll_as(wgpu::PollType::Poll).is_err()
            || is_settled(&slot.signal)
            || context.is_lost()
    }

    /// Waits for the elements.
    ///
    /// # Errors
    /// Returns [`Error::NotSubmitted`] if its commands were not submitted, and errors of the
    /// device.
    pub fn wait(self) -> Result<Vec<T>> {
        self.take()
    }

    fn take(&self) -> Result<Vec<T>> {
        let Some(slot) = &self.slot else { return Ok(Vec::new()) };
        let Some(submission) = slot.submission.get() else { return Err(Error::NotSubmitted) };
        wait_mapped(&slot.staging.context, Some(submission), &slot.signal)?;
        let mut data = host_vec::<T>(self.len)?;
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut data);
        with_mapped(&slot.staging, self.skip, bytes.len() as u64, |seen| {
            bytes.copy_from_slice(seen)
        })?;
        Ok(data)
    }
}

impl<T: Pod> Future for PendingRead<T> {
    type Output = Result<Vec<T>>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(slot) = self.slot.clone() else { return Poll::Ready(Ok(Vec::new())) };
        // Registered before the status is read, so that no change in between is missed.
        slot.signal.register(task.waker());
        let Some(submission) = slot.submission.get() else {
            // Submitting or dropping the recording wakes the task.
            return if slot.signal.get() == DROPPED {
                Poll::Ready(self.take())
            } else {
                Poll::Pending
            };
        };
        let context = &slot.staging.context;
        if is_settled(&slot.signal) || slot.signal.has_failed() || context.is_lost() {
            return Poll::Ready(self.take());
        }
        if !self.poll_requested {
            self.poll_requested = context
                .request_poll(PollRequest::Mapping(submission.clone(), Arc::clone(&slot.signal)));
            if !self.poll_requested {
                // No helper thread: block instead of hanging.
                return Poll::Ready(self.take());
            }
        }
        Poll::Pending
    }
}

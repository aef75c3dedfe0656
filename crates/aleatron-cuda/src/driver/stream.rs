//! The order of work: streams, and events in them.

use super::context::CudaContext;
use super::symbols::{call, open_driver};
use crate::error::{Error, Result};
use crate::size::host_size;
use aleatron_core::backend::DeviceStream;
use cudarc::driver::sys::{CUevent, CUstream};
use std::sync::Arc;
use std::time::Duration;

/// A stream that does not synchronize with the others.
const NON_BLOCKING: u32 = 1;

/// An event without a timestamp.
const WITHOUT_TIME: u32 = 2;

/// A queue of work that runs in order.
#[derive(Debug)]
pub(crate) struct Stream {
    context: Arc<CudaContext>,
    raw: CUstream,
    /// Whether the stream belongs to another library.
    borrowed: bool,
}

// SAFETY: handles are numbers to the driver, whose functions may be called from any thread.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    pub(crate) fn new(context: &Arc<CudaContext>) -> Result<Self> {
        let _current = context.enter()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the pointer is valid for the driver's write, and the context is current.
        context.note(unsafe { call!(context.driver, cuStreamCreate(&mut raw, NON_BLOCKING)) })?;
        Ok(Self { context: Arc::clone(context), raw, borrowed: false })
    }

    /// Wraps a stream that another library created, which must be of the same context.
    pub(crate) fn of_device(context: &Arc<CudaContext>, stream: DeviceStream<'_>) -> Result<Self> {
        let handle = stream.handle();
        let raw = std::ptr::without_provenance_mut(host_size(handle));
        // The default stream and that of the thread are numbers, for the current context.
        if handle > DeviceStream::OF_THREAD.handle() {
            let _current = context.enter()?;
            let mut owner = std::ptr::null_mut();
            // SAFETY: the stream exists, as `DeviceStream::from_raw` requires; the pointer is valid
            // for the driver's write.
            context.note(unsafe { call!(context.driver, cuStreamGetCtx(raw, &mut owner)) })?;
            if !context.is_of(owner) {
                return Err(Error::Array(
                    "the stream is of another device or context than the layer".to_owned(),
                ));
            }
        }
        Ok(Self { context: Arc::clone(context), raw, borrowed: true })
    }

    pub(super) fn raw(&self) -> CUstream {
        self.raw
    }

    pub(crate) fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// Waits until all work enqueued so far is done.
    pub(crate) fn synchronize(&self) -> Result<()> {
        let _current = self.context.enter()?;
        // SAFETY: the stream is alive.
        self.context.note(unsafe { call!(self.context.driver, cuStreamSynchronize(self.raw)) })
    }

    /// Makes later work wait for an event.
    pub(crate) fn wait_for(&self, event: &Event) -> Result<()> {
        let _current = self.context.enter()?;
        // SAFETY: both are alive, and the driver keeps the state of the event.
        self.context
            .note(unsafe { call!(self.context.driver, cuStreamWaitEvent(self.raw, event.raw, 0)) })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let (false, Ok(_current), Some(driver)) =
            (self.borrowed, self.context.enter(), open_driver())
        {
            // All memory that the stream uses is dropped after it: no work may be in flight by
            // then.
            // SAFETY: it was created here, and is not used again.
            unsafe {
                let _ = (driver.cuStreamSynchronize)(self.raw);
                let _ = (driver.cuStreamDestroy_v2)(self.raw);
            }
        }
    }
}

/// A moment in a stream.
#[derive(Debug)]
pub(crate) struct Event {
    context: Arc<CudaContext>,
    raw: CUevent,
}

// SAFETY: handles are numbers to the driver, whose functions may be called from any thread.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// Creates an event that other streams can wait for.
    pub(crate) fn new(context: &Arc<CudaContext>) -> Result<Self> {
        Self::with_flags(context, WITHOUT_TIME)
    }

    /// Creates an event with a timestamp.
    pub(crate) fn timed(context: &Arc<CudaContext>) -> Result<Self> {
        Self::with_flags(context, 0)
    }

    fn with_flags(context: &Arc<CudaContext>, flags: u32) -> Result<Self> {
        let _current = context.enter()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the pointer is valid for the driver's write, and the context is current.
        context.note(unsafe { call!(context.driver, cuEventCreate(&mut raw, flags)) })?;
        Ok(Self { context: Arc::clone(context), raw })
    }

    /// Records the event after the work enqueued on the stream so far.
    pub(crate) fn record(&self, stream: &Stream) -> Result<()> {
        let _current = self.context.enter()?;
        // SAFETY: both are alive.
        self.context
            .note(unsafe { call!(self.context.driver, cuEventRecord(self.raw, stream.raw)) })
    }

    /// Returns the time from an earlier event to this one, which has completed; both have
    /// timestamps.
    pub(crate) fn since(&self, start: &Self) -> Result<Duration> {
        let _current = self.context.enter()?;
        let (driver, mut milliseconds) = (self.context.driver, 0.0f32);
        // SAFETY: both are alive, and the pointer is valid for the driver's write.
        self.context.note(unsafe {
            call!(driver, cuEventSynchronize(self.raw)).and_then(|()| {
                call!(driver, cuEventElapsedTime(&mut milliseconds, start.raw, self.raw))
            })
        })?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let (Ok(_current), Some(driver)) = (self.context.enter(), open_driver()) {
            // SAFETY: it was created here, and is not used again; the driver keeps it for waiting
            // streams.
            let _ = unsafe { (driver.cuEventDestroy_v2)(self.raw) };
        }
    }
}

//! Submissions, and the ways to wait for them.
//!
//! [`Recorder::submit`](crate::Recorder::submit) returns at once with a [`Submission`], and a
//! [`PendingRead`](crate::PendingRead) is on its way back meanwhile. Both can be
//!
//! - **waited for**, which asks again and again for a moment and then sleeps ([`Submission::wait`],
//!   [`GpuContext::finish`] for everything);
//! - **asked** whether they are done, without waiting ([`Submission::is_done`]);
//! - **awaited** in an application's own executor ([`Submission::done`]). wgpu tells nobody that work is done unless somebody
//!   polls it, so the first future that has to wait starts a thread of the context, which waits in place of the futures, one
//!   after the other, and ends with the context. An event loop that calls [`GpuContext::poll`] may find reads ready sooner.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::context::{GpuContext, lock};
use crate::error::{DriverError, Error, Result};
use crate::health::Health;

/// How long a device that has finished may take to say so.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// What asking a device found.
#[derive(Debug, PartialEq)]
enum Polled {
    /// What was asked about is done.
    Done,
    /// It is not.
    NotYet,
    /// The device did not survive.
    Lost,
    /// It cannot be asked.
    Failed(DriverError),
}

fn poll_device(device: &wgpu::Device, health: &Health, poll: wgpu::PollType) -> Polled {
    // A device that fails while it is waited for makes `poll` panic: wgpu has no other way to say so.
    match catch_unwind(AssertUnwindSafe(|| device.poll(poll))) {
        Ok(Ok(status)) if status.is_queue_empty() || status.wait_finished() => Polled::Done,
        Ok(Ok(_) | Err(wgpu::PollError::Timeout)) => Polled::NotYet,
        Ok(Err(error)) => Polled::Failed(DriverError::new(error)),
        Err(_) => {
            health.lose("failed while it was waited for".to_owned());
            Polled::Lost
        }
    }
}

/// A state that a callback of the device changes, and who is to be told.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    status: AtomicU8,
    /// Whether the thread that waited for it could not.
    failed: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Signal {
    pub(crate) fn get(&self) -> u8 {
        self.status.load(Ordering::Acquire)
    }

    pub(crate) fn set(&self, status: u8) {
        self.status.store(status, Ordering::Release);
        self.wake();
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    fn fail(&self) {
        self.failed.store(true, Ordering::Release);
        self.wake();
    }

    pub(crate) fn wake(&self) {
        let waker = lock(&self.waker).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn tell(&self, waker: &Waker) {
        *lock(&self.waker) = Some(waker.clone());
    }
}

/// What the thread of a context is to wait for.
#[derive(Debug)]
pub(crate) enum Watch {
    /// Everything submitted, so that wgpu frees what it has held for it.
    Everything,
    /// A submission; the signal is then [`FINISHED`].
    Submission(wgpu::SubmissionIndex, Arc<Signal>),
    /// A mapping, after a submission where one is known. A callback changes the signal.
    Mapping(Option<wgpu::SubmissionIndex>, Arc<Signal>),
}

/// The thread that polls a device for those who do not.
#[derive(Debug, Default)]
pub(crate) struct Watcher {
    /// `None` inside where no thread could be started.
    sender: OnceLock<Option<Sender<Watch>>>,
}

impl Watcher {
    fn run(device: &wgpu::Device, health: &Health, watches: &Receiver<Watch>) {
        while let Ok(watch) = watches.recv() {
            let submission_index = match &watch {
                Watch::Everything => None,
                Watch::Submission(index, _) => Some(index.clone()),
                Watch::Mapping(index, _) => index.clone(),
            };
            let polled =
                poll_device(device, health, wgpu::PollType::Wait { submission_index, timeout: None });
            let failed = polled != Polled::Done || health.lost().is_some();
            match watch {
                Watch::Submission(_, signal) if !failed => signal.set(FINISHED),
                Watch::Submission(_, signal) | Watch::Mapping(_, signal) if failed => signal.fail(),
                _ => {}
            }
        }
    }
}

impl GpuContext {
    /// Has the thread of this context wait; `false` where there is no thread.
    pub(crate) fn watch(&self, watch: Watch) -> bool {
        let start = || {
            let (sender, watches) = channel();
            let (device, health) = (self.device.clone(), Arc::clone(&self.health));
            let thread = std::thread::Builder::new().name("aleatron-device".to_owned());
            thread.spawn(move || Watcher::run(&device, &health, &watches)).ok().map(|_| sender)
        };
        let sender = self.watcher.sender.get_or_init(start).as_ref();
        sender.is_some_and(|sender| sender.send(watch).is_ok())
    }

    /// Asks the device; `true` where what was asked about is done.
    pub(crate) fn poll_as(&self, poll: wgpu::PollType) -> Result<bool> {
        match poll_device(&self.device, &self.health, poll) {
            Polled::Done => Ok(true),
            Polled::NotYet => Ok(false),
            Polled::Lost => self.check().map(|()| false),
            Polled::Failed(source) => {
                self.check()?;
                Err(Error::Driver { source })
            }
        }
    }

    /// Lets the device report what it has finished, without waiting: reads become ready, futures are woken and freed memory is
    /// given back. `true` where nothing that was submitted is left to do. Nobody has to call this; an event
    /// loop may.
    ///
    /// # Errors
    /// What the device has reported.
    pub fn poll(&self) -> Result<bool> {
        let done = self.poll_as(wgpu::PollType::Poll)?;
        self.check().map(|()| done)
    }

    /// Waits until everything that was written and submitted so far is done.
    ///
    /// # Errors
    /// What the device has reported.
    pub fn finish(&self) -> Result<()> {
        self.flush();
        self.poll_as(wgpu::PollType::wait_indefinitely())?;
        self.check()
    }

    /// Sends what was written and waits for the next submission to carry it.
    pub(crate) fn flush(&self) {
        if self.writes_pending.swap(false, Ordering::AcqRel) {
            self.queue.submit([]);
        }
    }

    /// Waits until `done`, which a callback of the device sets once `submission` is done; without one, everything is waited
    /// for.
    pub(crate) fn wait_until(
        &self,
        submission: Option<&wgpu::SubmissionIndex>,
        done: impl Fn() -> bool,
    ) -> Result<()> {
        let start = Instant::now();
        while !done() && start.elapsed() < self.spin {
            self.poll_as(wgpu::PollType::Poll)?;
            std::hint::spin_loop();
        }
        // All submitted work may be done before `done` is set: the thread whose poll saw it finish runs the callbacks of all
        // threads, and may not have come to ours yet.
        let mut idle_since = None;
        while !done() {
            self.poll_as(wgpu::PollType::Wait { submission_index: submission.cloned(), timeout: None })?;
            self.check()?;
            if idle_since.get_or_insert_with(Instant::now).elapsed() > ANSWER_TIME {
                return Err(Error::Unanswered { adapter: self.name().to_owned() });
            }
            std::thread::yield_now();
        }
        Ok(())
    }
}

/// Commands on their way through a device.
#[derive(Debug, Clone)]
pub struct Submission {
    pub(crate) context: Arc<GpuContext>,
    pub(crate) index: wgpu::SubmissionIndex,
}

impl Submission {
    /// Whether the device has done it, without waiting.
    ///
    /// # Errors
    /// What the device has reported.
    pub fn is_done(&self) -> Result<bool> {
        self.context.check()?;
        let submission_index = Some(self.index.clone());
        self.context.poll_as(wgpu::PollType::Wait { submission_index, timeout: Some(Duration::ZERO) })
    }

    /// Waits until the device has done it.
    ///
    /// # Errors
    /// What the device has reported.
    pub fn wait(&self) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < self.context.spin {
            if self.is_done()? {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        let submission_index = Some(self.index.clone());
        self.context.poll_as(wgpu::PollType::Wait { submission_index, timeout: None })?;
        self.context.check()
    }

    /// A future that is ready when the device has done it.
    #[must_use]
    pub fn done(&self) -> SubmissionDone {
        SubmissionDone { submission: self.clone(), signal: None }
    }
}

/// The status of a signal whose submission is done; at first it is 0.
const FINISHED: u8 = 1;

/// Waits for a [`Submission`] in an executor.
#[derive(Debug)]
pub struct SubmissionDone {
    submission: Submission,
    signal: Option<Arc<Signal>>,
}

impl Future for SubmissionDone {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        let Submission { context, index } = self.submission.clone();
        if let Err(error) = context.check() {
            return Poll::Ready(Err(error));
        }
        if let Some(signal) = &self.signal {
            // Told before it is asked: a change in between wakes the task once too often instead of never.
            signal.tell(task.waker());
            return match signal.get() {
                FINISHED => Poll::Ready(Ok(())),
                // Whatever the thread could not wait for says why here.
                _ if signal.has_failed() => Poll::Ready(self.submission.wait()),
                _ => Poll::Pending,
            };
        }
        let signal = Arc::new(Signal::default());
        signal.tell(task.waker());
        if !context.watch(Watch::Submission(index, Arc::clone(&signal))) {
            // Without a thread there is nobody else to wait.
            return Poll::Ready(self.submission.wait());
        }
        self.signal = Some(signal);
        Poll::Pending
    }
}

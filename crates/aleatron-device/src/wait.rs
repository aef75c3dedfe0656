//! Submissions, and the ways to wait for them.
//!
//! [`Recorder::submit`](crate::Recorder::submit) does not wait; it returns a [`Submission`], and
//! reads return a [`PendingRead`](crate::PendingRead). Both can be
//!
//! - **waited for**: [`Submission::wait`], [`PendingRead::wait`](crate::PendingRead::wait), or
//!   [`GpuContext::finish`] for all submissions. Waiting spins for a moment
//!   ([`ContextOptions::spin`](crate::ContextOptions::spin)) and then sleeps;
//! - **polled**: [`Submission::is_done`], [`PendingRead::is_ready`](crate::PendingRead::is_ready);
//! - **awaited** in an application's own executor: [`Submission::done`], and a `PendingRead` is a
//!   future itself.
//!
//! wgpu runs callbacks only while some thread polls the device. So that a future is woken although
//! no other thread polls, the first pending future starts a helper thread of the context, which
//! blocks on the submissions of pending futures in the order they were first polled. The thread
//! ends with the context. An event loop may call [`GpuContext::poll`] in addition.

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
use crate::fork;
use crate::health::Health;

/// The longest delay of callbacks after a submission is done. Shorter in tests.
const ANSWER_TIME: Duration =
    if cfg!(test) { Duration::from_millis(20) } else { Duration::from_secs(30) };

/// The result of polling a device.
#[derive(Debug, PartialEq)]
enum Polled {
    /// The submission, or all of them, are done.
    Done,
    /// They are pending.
    NotYet,
    /// The device was lost.
    Lost,
    /// The device cannot be polled.
    Failed(DriverError),
}

fn poll_device(device: &wgpu::Device, health: &Health, poll: wgpu::PollType) -> Polled {
    // wgpu panics if the device fails during a poll.
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

/// A status that a callback of the device sets, and the task to wake when it does.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    status: AtomicU8,
    /// Whether the helper thread failed to wait for it.
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

    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::Release);
        self.wake();
    }

    pub(crate) fn wake(&self) {
        let waker = lock(&self.waker).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn register(&self, waker: &Waker) {
        *lock(&self.waker) = Some(waker.clone());
    }
}

/// A request to the helper thread of a context.
#[derive(Debug)]
pub(crate) enum PollRequest {
    /// Poll for all submissions, so that wgpu frees the memory they held.
    Everything,
    /// Poll for a submission; then the signal is set to [`FINISHED`].
    Submission(wgpu::SubmissionIndex, Arc<Signal>),
    /// Poll for a submission; the signal is set by the callback of a mapping that follows it.
    Mapping(wgpu::SubmissionIndex, Arc<Signal>),
}

/// The helper thread of a context: polls the device when no other thread does.
#[derive(Debug, Default)]
pub(crate) struct PollThread {
    /// Empty before the first use; `None` if no thread could be started.
    sender: OnceLock<Option<Sender<PollRequest>>>,
}

impl PollThread {
    fn run(device: &wgpu::Device, health: &Health, requests: &Receiver<PollRequest>) {
        while let Ok(request) = requests.recv() {
            let submission_index = match &request {
                PollRequest::Everything => None,
                PollRequest::Submission(index, _) | PollRequest::Mapping(index, _) => {
                    Some(index.clone())
                }
            };
            let polled = poll_device(
                device,
                health,
                wgpu::PollType::Wait { submission_index, timeout: None },
            );
            let failed = polled != Polled::Done || health.lost().is_some();
            match request {
                PollRequest::Submission(_, signal) if !failed => signal.set(FINISHED),
                PollRequest::Submission(_, signal) | PollRequest::Mapping(_, signal) if failed => {
                    signal.fail()
                }
                _ => {}
            }
        }
    }
}

impl GpuContext {
    /// Hands a request to the helper thread; `false` if there is none.
    pub(crate) fn request_poll(&self, request: PollRequest) -> bool {
        let start = || {
            let (sender, requests) = channel();
            let (device, health) = (self.device.clone(), Arc::clone(&self.health));
            let thread = std::thread::Builder::new().name("aleatron-device".to_owned());
            thread.spawn(move || PollThread::run(&device, &health, &requests)).ok().map(|_| sender)
        };
        let sender = self.poll_thread.sender.get_or_init(start).as_ref();
        sender.is_some_and(|sender| sender.send(request).is_ok())
    }

    /// Polls the device. Returns `true` if the submission, or all of them, are done.
    pub(crate) fn poll_as(&self, poll: wgpu::PollType) -> Result<bool> {
        fork::check()?;
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

    /// Processes finished work of the device, without waiting: reads become ready, futures are
    /// woken and freed memory is released. Returns `true` if all submissions are done. Optional:
    /// waiting and the helper thread poll by themselves.
    ///
    /// # Errors
    /// Returns errors of the device.
    pub fn poll(&self) -> Result<bool> {
        let done = self.poll_as(wgpu::PollType::Poll)?;
        self.check().map(|()| done)
    }

    /// Waits until all writes and submissions so far are done.
    ///
    /// # Errors
    /// Returns errors of the device.
    pub fn finish(&self) -> Result<()> {
        self.flush();
        self.poll_as(wgpu::PollType::wait_indefinitely())?;
        self.check()
    }

    /// Submits pending writes, which wgpu otherwise holds back until the next submission.
    pub(crate) fn flush(&self) {
        if !fork::is_forked() && self.writes_pending.swap(false, Ordering::AcqRel) {
            self.queue.submit([]);
        }
    }

    /// Waits until `done`, which a callback sets once `submission` is done; without one, once all
    /// submissions are.
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
        // The submission may be done before `done` is set: the thread whose poll finished it runs
        // the callbacks of all threads, and may not have run this one yet.
        let mut idle_since = None;
        while !done() {
            self.poll_as(wgpu::PollType::Wait {
                submission_index: submission.cloned(),
                timeout: None,
            })?;
            self.check()?;
            if idle_since.get_or_insert_with(Instant::now).elapsed() > ANSWER_TIME {
                return Err(Error::Unanswered { adapter: self.name().to_owned() });
            }
            std::thread::yield_now();
        }
        Ok(())
    }
}

/// Commands submitted to a device.
#[derive(Debug, Clone)]
pub struct Submission {
    pub(crate) context: Arc<GpuContext>,
    pub(crate) index: wgpu::SubmissionIndex,
}

impl Submission {
    /// Returns whether the device has finished the submission, without waiting.
    ///
    /// # Errors
    /// Returns errors of the device.
    pub fn is_done(&self) -> Result<bool> {
        self.context.check()?;
        let submission_index = Some(self.index.clone());
        self.context
            .poll_as(wgpu::PollType::Wait { submission_index, timeout: Some(Duration::ZERO) })
    }

    /// Waits until the device has finished the submission.
    ///
    /// # Errors
    /// Returns errors of the device.
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

    /// Returns a future that is ready when the device has finished the submission.
    #[must_use]
    pub fn done(&self) -> SubmissionDone {
        SubmissionDone { submission: self.clone(), signal: None }
    }
}

/// The status of a signal whose submission is done. The initial status is 0.
const FINISHED: u8 = 1;

/// The future of a [`Submission`].
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
            // Registered before the status is read, so that no change in between is missed.
            signal.register(task.waker());
            return match signal.get() {
                FINISHED => Poll::Ready(Ok(())),
                // Waiting here returns the error of the helper thread.
                _ if signal.has_failed() => Poll::Ready(self.submission.wait()),
                _ => Poll::Pending,
            };
        }
        let signal = Arc::new(Signal::default());
        signal.register(task.waker());
        if !context.request_poll(PollRequest::Submission(index, Arc::clone(&signal))) {
            // No helper thread: block instead of hanging.
            return Poll::Ready(self.submission.wait());
        }
        self.signal = Some(signal);
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AdapterChoice, ContextOptions};

    fn context() -> Arc<GpuContext> {
        let choice = match AdapterChoice::from_env() {
            AdapterChoice::Strongest => AdapterChoice::named("llvmpipe"),
            named => named,
        };
        GpuContext::open(&choice, &ContextOptions::default()).unwrap()
    }

    /// Runs the helper thread's loop over two requests, and returns their signals.
    fn run_helper(context: &Arc<GpuContext>) -> [Arc<Signal>; 2] {
        let index = context.queue.submit([]);
        let signals = [Arc::new(Signal::default()), Arc::new(Signal::default())];
        let (sender, requests) = channel();
        sender.send(PollRequest::Submission(index.clone(), Arc::clone(&signals[0]))).unwrap();
        sender.send(PollRequest::Mapping(index, Arc::clone(&signals[1]))).unwrap();
        sender.send(PollRequest::Everything).unwrap();
        drop(sender);
        PollThread::run(&context.device, &context.health, &requests);
        signals
    }

    #[test]
    fn helper_thread_reports_finished_submissions() {
        let [submission, mapping] = run_helper(&context());
        assert_eq!((submission.get(), submission.has_failed()), (FINISHED, false));
        // The callback of the mapping sets the other one.
        assert_eq!((mapping.get(), mapping.has_failed()), (0, false));
    }

    #[test]
    fn helper_thread_reports_failure_of_a_lost_device() {
        let context = context();
        context.health.lose("for a test".to_owned());
        for signal in run_helper(&context) {
            assert_eq!((signal.get(), signal.has_failed()), (0, true));
        }
    }

    #[test]
    fn helper_thread_accepts_requests() {
        assert!(context().request_poll(PollRequest::Everything));
    }

    #[test]
    fn future_ends_when_the_helper_thread_failed() {
        let context = context();
        let index = context.queue.submit([]);
        let submission = Submission { context, index };
        let signal = Arc::new(Signal::default());
        let mut done = SubmissionDone { submission, signal: Some(Arc::clone(&signal)) };
        let mut poll = || Pin::new(&mut done).poll(&mut Context::from_waker(Waker::noop()));
        assert!(poll().is_pending());
        signal.fail();
        assert_eq!(poll(), Poll::Ready(Ok(())));
    }

    #[test]
    fn flush_submits_pending_writes() {
        let context = context();
        context.writes_pending.store(true, Ordering::Release);
        context.flush();
        assert!(!context.writes_pending.load(Ordering::Acquire));
    }

    #[test]
    fn missing_callback_is_an_error() {
        let error = context().wait_until(None, || false).unwrap_err();
        assert!(matches!(error, Error::Unanswered { .. }), "{error}");
    }
}

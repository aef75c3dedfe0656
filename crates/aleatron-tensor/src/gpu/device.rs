//! A GPU and the commands recorded for it.
//!
//! Operations record commands; nothing is submitted to the device before a value is read, a batch
//! ends, or enough commands are pending. Only reads wait.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use aleatron_device::{
    AdapterChoice, AdapterInfo, BufferView, ContextOptions, GpuBuffer, GpuContext, PendingRead,
    Pipeline, Recorder, Submission, grid,
};
use bytemuck::Pod;

use super::fault::FaultSlots;
use super::kernel::{Describe, Described};
use super::wgsl::{ParamsIn, ParamsShape};
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Limit, Result};

/// Locks a mutex, even if it is poisoned: it guards plain collections that are consistent between
/// any two statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A GPU that holds tensors. Clones are the same device.
#[derive(Clone)]
pub struct GpuDevice {
    queue: Arc<Queue>,
}

struct Queue {
    context: Arc<GpuContext>,
    recording: Mutex<Recording>,
    /// Parameters that do not fit into a command, by their contents.
    tables: Mutex<HashMap<Vec<u32>, Arc<GpuBuffer<u32>>>>,
    faults: Arc<FaultSlots>,
    submissions: AtomicU64,
    commands: AtomicU64,
    reads: AtomicU64,
}

/// The commands that were not submitted yet.
#[derive(Default)]
struct Recording {
    recorder: Option<Recorder<'static>>,
    /// The number of this recording, from 0 on.
    number: u64,
    commands: usize,
    bytes: u64,
    /// The number of open batches: while there is one, commands are not submitted.
    holds: usize,
    /// Recordings that could not be submitted, with their errors. Their results are unavailable.
    failed: Vec<(u64, aleatron_device::Error)>,
}

/// The number of commands after which a recording is submitted, so that the device starts while the
/// host continues.
const MAX_COMMANDS: usize = 128;

/// The number of bytes touched by commands after which a recording is submitted: memory that is not
/// needed any more returns to the pool then.
const MAX_BYTES: u64 = 1 << 30;

/// The number of cached tables of parameters; a program with more tables clears the cache.
const MAX_TABLES: usize = 256;

/// The bytes of parameters that every command takes.
const IMMEDIATE_BYTES: u32 = 128;

impl fmt::Debug for GpuDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GpuDevice")
            .field("name", &self.name())
            .field("id", &self.queue.context.id())
            .finish()
    }
}

impl fmt::Display for GpuDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gpu:{} ({})", self.queue.context.info().index, self.name())
    }
}

impl PartialEq for GpuDevice {
    fn eq(&self, other: &Self) -> bool {
        self.queue.context.id() == other.queue.context.id()
    }
}

impl Eq for GpuDevice {}

impl Device {
    /// Returns the chosen GPU.
    ///
    /// # Errors
    /// As [`Self::gpu`].
    pub fn gpu_of(choice: &AdapterChoice) -> Result<Self> {
        GpuDevice::get(choice).map(Self::Gpu)
    }
}

impl GpuDevice {
    /// Returns the shared device of the adapter with an index or a part of its name, or of the one
    /// that the environment names.
    pub(crate) fn named(adapter: Option<&str>) -> Result<Self> {
        Self::get(&adapter.map_or_else(AdapterChoice::from_env, AdapterChoice::parse))
    }

    /// Returns whether tensors of a type can be on the device.
    pub(crate) fn supports(&self, dtype: DType) -> bool {
        match dtype {
            DType::F64 => false,
            DType::I64 => self.context().capabilities().int64,
            _ => true,
        }
    }

    /// Returns the shared device of an adapter, or a new one if the last one was lost.
    ///
    /// # Errors
    /// [`Error::Device`] if there is no such adapter or it opens no device.
    pub fn get(choice: &AdapterChoice) -> Result<Self> {
        Ok(Self::of(&GpuContext::get(choice)?))
    }

    /// Opens a separate device; an adapter can have several.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn open(choice: &AdapterChoice, options: &ContextOptions) -> Result<Self> {
        Ok(Self::of(&GpuContext::open(choice, options)?))
    }

    /// Returns the device of a context; each context has one.
    #[must_use]
    pub fn of(context: &Arc<GpuContext>) -> Self {
        static DEVICES: Mutex<Vec<Weak<Queue>>> = Mutex::new(Vec::new());
        let mut devices = lock(&DEVICES);
        devices.retain(|queue| queue.strong_count() > 0);
        let known = devices
            .iter()
            .filter_map(Weak::upgrade)
            .find(|queue| queue.context.id() == context.id());
        let queue = known.unwrap_or_else(|| {
            let queue = Arc::new(Queue {
                context: Arc::clone(context),
                recording: Mutex::default(),
                tables: Mutex::default(),
                faults: Arc::default(),
                submissions: AtomicU64::new(0),
                commands: AtomicU64::new(0),
                reads: AtomicU64::new(0),
            });
            devices.push(Arc::downgrade(&queue));
            queue
        });
        Self { queue }
    }

    /// Returns the context of the device, with its adapter, limits and objects.
    #[must_use]
    pub fn context(&self) -> &Arc<GpuContext> {
        &self.queue.context
    }

    /// Returns a description of the adapter.
    #[must_use]
    pub fn info(&self) -> &AdapterInfo {
        self.queue.context.info()
    }

    /// Returns the name of the adapter.
    #[must_use]
    pub fn name(&self) -> &str {
        self.queue.context.name()
    }

    /// Returns the number of submissions so far.
    #[must_use]
    pub fn submissions(&self) -> u64 {
        self.queue.submissions.load(Ordering::Relaxed)
    }

    /// Returns the number of kernels launched so far, submitted or not.
    #[must_use]
    pub fn launches(&self) -> u64 {
        self.queue.commands.load(Ordering::Relaxed)
    }

    /// Returns the number of copies from the device to the host so far. Each of them waits for all
    /// commands before it.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.queue.reads.load(Ordering::Relaxed)
    }

    pub(crate) fn faults(&self) -> &Arc<FaultSlots> {
        &self.queue.faults
    }

    /// Submits all commands recorded so far, without waiting for them.
    ///
    /// # Errors
    /// [`Error::Device`] with what the device has reported.
    pub fn submit(&self) -> Result<Option<Submission>> {
        self.submit_recording(&mut lock(&self.queue.recording))
    }

    /// Submits all commands recorded so far and waits for them.
    ///
    /// # Errors
    /// [`Error::Device`] with what the device has reported.
    pub fn finish(&self) -> Result<()> {
        self.submit()?;
        Ok(self.queue.context.finish()?)
    }

    /// Delays the submission of commands until [`Self::release`] is called as often, or
    /// [`Self::submit`].
    pub(crate) fn hold(&self) {
        lock(&self.queue.recording).holds += 1;
    }

    pub(crate) fn release(&self) {
        let mut recording = lock(&self.queue.recording);
        recording.holds = recording.holds.saturating_sub(1);
    }

    fn submit_recording(&self, recording: &mut Recording) -> Result<Option<Submission>> {
        let Some(recorder) = recording.recorder.take() else { return Ok(None) };
        (recording.commands, recording.bytes) = (0, 0);
        let number = recording.number;
        recording.number += 1;
        match recorder.submit() {
            Ok(submission) => {
                self.queue.submissions.fetch_add(1, Ordering::Relaxed);
                Ok(Some(submission))
            }
            Err(error) => {
                recording.failed.push((number, error.clone()));
                Err(error.into())
            }
        }
    }

    /// Returns the number of the current recording.
    pub(crate) fn current_recording(&self) -> u64 {
        lock(&self.queue.recording).number
    }

    /// Checks that a recording was submitted, or can still be.
    pub(crate) fn check_recording(&self, number: u64) -> Result<()> {
        let recording = lock(&self.queue.recording);
        match recording.failed.iter().find(|(failed, _)| *failed == number) {
            Some((_, error)) => Err(error.clone().into()),
            None => Ok(()),
        }
    }

    /// Records commands and returns the number of their recording.
    pub(crate) fn record<R>(
        &self,
        bytes: u64,
        commands: impl FnOnce(&mut Recorder<'static>) -> Result<R>,
    ) -> Result<(R, u64)> {
        let mut recording = lock(&self.queue.recording);
        let mut recorder = match recording.recorder.take() {
            Some(recorder) => recorder,
            None => self.queue.context.recorder(None)?,
        };
        let done = commands(&mut recorder);
        recording.recorder = Some(recorder);
        let (done, number) = (done?, recording.number);
        recording.commands += 1;
        recording.bytes = recording.bytes.saturating_add(bytes);
        let is_full = recording.commands >= MAX_COMMANDS || recording.bytes >= MAX_BYTES;
        if is_full && recording.holds == 0 {
            // A failure is reported when a result is read.
            let _ = self.submit_recording(&mut recording);
        }
        Ok((done, number))
    }

    /// Records a read of a view and submits all commands.
    pub(crate) fn read<T: Pod>(&self, view: BufferView<'_>) -> Result<PendingRead<T>> {
        let (read, _) = self.record(0, |recorder| Ok(recorder.read(view)?))?;
        self.queue.reads.fetch_add(1, Ordering::Relaxed);
        self.submit()?;
        Ok(read)
    }

    /// Returns the location of parameters of this many words.
    pub(crate) fn params_in(&self, words: usize) -> ParamsIn {
        let limit = self.info().max_immediate_bytes.min(IMMEDIATE_BYTES) / 4;
        if words <= limit as usize { ParamsIn::Immediate } else { ParamsIn::Buffer }
    }

    /// Launches a kernel over `groups` workgroups, which are numbered `id.x + id.y * count.x`; the
    /// kernel ignores those past the last.
    pub(crate) fn launch<D: Describe>(
        &self,
        description: D,
        views: &[BufferView<'_>],
        params: &[u32],
        groups: u64,
    ) -> Result<u64> {
        let sides = grid(groups, self.info().max_workgroups)?;
        self.launch_grid(description, views, params, sides)
    }

    /// Launches a kernel over a grid of workgroups and returns the number of its recording.
    pub(crate) fn launch_grid<D: Describe>(
        &self,
        description: D,
        views: &[BufferView<'_>],
        params: &[u32],
        grid: [u32; 3],
    ) -> Result<u64> {
        let context = &self.queue.context;
        let limit = context.info().max_bindings as usize;
        let needed = views.len() + usize::from(description.params().location == ParamsIn::Buffer);
        if needed > limit {
            let (actual, limit) = (needed as u128, limit as u128);
            return Err(Error::TooLarge { what: Limit::Bindings, actual, limit });
        }
        let ParamsShape { words, location } = description.params();
        if words != params.len() {
            return Err(Error::internal("gpu::device::launch_grid, number of parameters"));
        }
        let pipeline = context.pipeline(&Described(description), &[])?;
        self.dispatch(&pipeline, views, params, location, grid)
    }

    /// Records a pipeline over a grid of workgroups and returns the number of the recording.
    fn dispatch(
        &self,
        pipeline: &Arc<Pipeline>,
        views: &[BufferView<'_>],
        params: &[u32],
        location: ParamsIn,
        grid: [u32; 3],
    ) -> Result<u64> {
        let context = &self.queue.context;
        let table;
        let (bound, params): (_, &[u8]) = match location {
            ParamsIn::Immediate => (context.bind(pipeline, views)?, bytemuck::cast_slice(params)),
            ParamsIn::Buffer => {
                table = self.table(params)?;
                (context.bind(pipeline, &[views, &[table.view()]].concat())?, &[])
            }
        };
        let bytes = views.iter().map(BufferView::bytes).sum();
        let ((), number) = self
            .record(bytes, |recorder| Ok(recorder.dispatch_bytes(&bound, params, grid, bytes)?))?;
        self.queue.commands.fetch_add(1, Ordering::Relaxed);
        Ok(number)
    }

    /// Returns a buffer of parameters; equal parameters share it.
    fn table(&self, words: &[u32]) -> Result<Arc<GpuBuffer<u32>>> {
        let mut tables = lock(&self.queue.tables);
        if let Some(table) = tables.get(words) {
            return Ok(Arc::clone(table));
        }
        let table = Arc::new(self.queue.context.upload(words)?);
        if tables.len() >= MAX_TABLES {
            tables.clear();
        }
        tables.insert(words.to_vec(), Arc::clone(&table));
        Ok(table)
    }
}

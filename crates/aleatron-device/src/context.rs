//! Devices, opened once per adapter and shared.
//!
//! [`GpuContext::get`] returns the shared context of an adapter and opens a new device if the last
//! one was lost; [`GpuContext::open`] opens another logical device on the same adapter. Driver
//! errors become [`Error`]s here: error scopes surround the creation of objects and the submission
//! of commands, and a handler collects all other errors for [`GpuContext::check`]. Waiting is in
//! [`wait`](crate::wait), memory in [`buffer`](crate::buffer).

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::adapter::{self, AdapterChoice, AdapterInfo, AdapterKind};
use crate::buffer::BufferPool;
use crate::capability::Capabilities;
use crate::error::{DriverError, Error, Result};
use crate::fork;
use crate::health::Health;
use crate::pipeline::{BindGroups, Pipelines};
use crate::trusted;
use crate::wait::PollThread;

/// The kernels that are compiled with run-time checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Checks {
    /// Kernels that do not declare [`BoundsChecks::Removed`](crate::BoundsChecks::Removed).
    #[default]
    AsDeclared,
    /// All kernels, to compare results with those of kernels without checks.
    Always,
}

/// Options for opening a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextOptions {
    /// Capabilities to use if the adapter has them.
    pub capabilities: Capabilities,
    /// The kernels that are compiled with run-time checks.
    pub checks: Checks,
    /// A limit for the size of a binding, below that of the adapter.
    pub max_binding_bytes: Option<u64>,
    /// A limit for the workgroups of a dispatch in one dimension, below that of the adapter.
    pub max_workgroups: Option<u32>,
    /// The bytes of dropped buffers retained for reuse; above this limit they are freed. `None` for
    /// 2 GiB on GPUs with their own memory, where allocating a large buffer takes longer than
    /// filling it, and 256 MiB on others.
    pub pool_bytes: Option<u64>,
    /// How long a wait spins before it sleeps: waking takes longer than a small kernel. `None` for
    /// 200 us, and for no spinning on software adapters.
    pub spin: Option<Duration>,
}

impl Default for ContextOptions {
    fn default() -> Self {
        Self {
            capabilities: Capabilities::ALL,
            checks: Checks::AsDeclared,
            max_binding_bytes: None,
            max_workgroups: None,
            pool_bytes: None,
            spin: None,
        }
    }
}

/// The number of objects that a context has created; a second call of an operation creates none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Created {
    /// Pipelines.
    pub pipelines: u64,
    /// Buffers.
    pub buffers: u64,
    /// Bind groups.
    pub bind_groups: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) pipelines: AtomicU64,
    pub(crate) buffers: AtomicU64,
    pub(crate) bind_groups: AtomicU64,
}

/// Ignores poisoning: locks here guard plain collections that are consistent between any two
/// statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A GPU device with its queue, pipelines and pooled buffers.
pub struct GpuContext {
    id: u64,
    info: AdapterInfo,
    checks: Checks,
    #[cfg_attr(
        not(feature = "raw"),
        expect(dead_code, reason = "only the module `raw` hands it out")
    )]
    pub(crate) adapter: wgpu::Adapter,
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) spin: Duration,
    pub(crate) health: Arc<Health>,
    pub(crate) poll_thread: PollThread,
    pub(crate) pool: Mutex<BufferPool>,
    /// Bytes freed here that wgpu may still hold until it is polled.
    pub(crate) unreleased: AtomicU64,
    /// Whether data were written to the queue since the last submission.
    pub(crate) writes_pending: AtomicBool,
    pub(crate) pipelines: Mutex<Pipelines>,
    pub(crate) bind_groups: Mutex<BindGroups>,
    pub(crate) counters: Counters,
}

impl fmt::Debug for GpuContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GpuContext")
            .field("id", &self.id)
            .field("adapter", &self.info.name)
            .finish_non_exhaustive()
    }
}

impl GpuContext {
    /// Returns the shared context of an adapter, opened on first use, and again after its device
    /// was lost.
    ///
    /// # Errors
    /// Returns [`Error::NoAdapter`] with the available adapters, or [`Error::Open`] if the adapter
    /// opens no device.
    pub fn get(choice: &AdapterChoice) -> Result<Arc<Self>> {
        static SHARED: Mutex<Option<HashMap<usize, Arc<GpuContext>>>> = Mutex::new(None);
        let index = adapter::choose(choice)?.info.index;
        let mut shared = lock(&SHARED);
        let contexts = shared.get_or_insert_default();
        if let Some(context) = contexts.get(&index).filter(|context| !context.is_lost()) {
            return Ok(Arc::clone(context));
        }
        let context = Self::open(&AdapterChoice::Index(index), &ContextOptions::default())?;
        contexts.insert(index, Arc::clone(&context));
        Ok(context)
    }

    /// Opens a new logical device, several of which can exist on one adapter.
    ///
    /// # Errors
    /// As for [`Self::get`], and [`Error::Unsupported`] if the adapter does not support kernel
    /// parameters.
    pub fn open(choice: &AdapterChoice, options: &ContextOptions) -> Result<Arc<Self>> {
        let adapter = adapter::choose(choice)?;
        let name = adapter.info.name.clone();
        if !adapter.raw.features().contains(wgpu::Features::IMMEDIATES) {
            return Err(Error::Unsupported { adapter: name, feature: IMMEDIATES });
        }
        let wanted = adapter.info.capabilities.and(options.capabilities);
        let without = Capabilities { cooperative_matrices: false, ..wanted };
        // An experimental feature must not prevent opening a device.
        let (capabilities, opened) = match request(&adapter.raw, wanted) {
            Err(_) if wanted.cooperative_matrices => (without, request(&adapter.raw, without)),
            opened => (wanted, opened),
        };
        let (device, queue) = opened
            .map_err(|error| Error::Open { adapter: name, source: DriverError::new(error) })?;
        let info = AdapterInfo { capabilities, ..adapter.info.clone() };
        Ok(Self::around(info, adapter.raw.clone(), device, queue, options))
    }

    /// Creates a context from an open device. `info` has the limits of the adapter.
    pub(crate) fn around(
        mut info: AdapterInfo,
        adapter: wgpu::Adapter,
        device: wgpu::Device,
        queue: wgpu::Queue,
        options: &ContextOptions,
    ) -> Arc<Self> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        info.capabilities = info.capabilities.and(options.capabilities);
        if !info.capabilities.cooperative_matrices {
            info.cooperative_matrices.clear();
        }
        if let Some(bytes) = options.max_binding_bytes {
            info.max_binding_bytes = info.max_binding_bytes.min(bytes);
        }
        if let Some(workgroups) = options.max_workgroups {
            info.max_workgroups = info.max_workgroups.min(workgroups.max(1));
        }
        let spin = options.spin.unwrap_or(match info.kind {
            // A software device needs the very cores that would spin.
            AdapterKind::Software => Duration::ZERO,
            _ => Duration::from_micros(200),
        });
        let pool_bytes = options.pool_bytes.unwrap_or(pool_bytes(info.kind));
        Arc::new(Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            info,
            checks: options.checks,
            health: Health::of(&device),
            adapter,
            device,
            queue,
            spin,
            poll_thread: PollThread::default(),
            pool: Mutex::new(BufferPool::new(pool_bytes)),
            unreleased: AtomicU64::new(0),
            writes_pending: AtomicBool::new(false),
            pipelines: Mutex::default(),
            bind_groups: Mutex::default(),
            counters: Counters::default(),
        })
    }

    /// Returns an id that is unique in this process.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the adapter, with the limits and capabilities in force.
    #[must_use]
    pub fn info(&self) -> &AdapterInfo {
        &self.info
    }

    /// Returns the name of the adapter.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.info.name
    }

    /// Returns the optional capabilities in use.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        self.info.capabilities
    }

    /// Returns which kernels are compiled with run-time checks.
    #[must_use]
    pub fn checks(&self) -> Checks {
        self.checks
    }

    /// Returns the largest size of a binding of a kernel: whole 16-byte vectors, and below 4 GiB
    /// whatever the device offers, so that 32-bit integers count its elements and its bytes.
    #[must_use]
    pub fn max_binding_bytes(&self) -> u64 {
        addressable(self.info.max_binding_bytes.min(self.info.max_buffer_bytes))
    }

    /// Returns the alignment of the byte offsets of bound views; see
    /// [`BufferView::aligned`](crate::BufferView::aligned).
    #[must_use]
    pub fn binding_alignment(&self) -> u64 {
        u64::from(self.info.binding_alignment).max(4)
    }

    /// Returns the number of objects created so far.
    #[must_use]
    pub fn created(&self) -> Created {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Created {
            pipelines: count(&self.counters.pipelines),
            buffers: count(&self.counters.buffers),
            bind_groups: count(&self.counters.bind_groups),
        }
    }

    /// Returns whether the device is permanently lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.health.lost().is_some()
    }

    /// Destroys the device. Later uses return [`Error::DeviceLost`].
    pub fn destroy(&self) {
        self.health.lose("destroyed on request".to_owned());
        self.device.destroy();
    }

    /// Checks for errors that the driver has reported since the last check.
    ///
    /// # Errors
    /// Returns [`Error::Forked`] in a forked process, [`Error::DeviceLost`] permanently once the
    /// device is lost, otherwise the first reported error.
    pub fn check(&self) -> Result<()> {
        fork::check()?;
        if let Some(reason) = self.health.lost() {
            let adapter = self.info.name.clone();
            return Err(Error::DeviceLost { adapter, reason: reason.to_owned() });
        }
        self.health.take_error().map_or(Ok(()), Err)
    }

    /// Calls a function that creates or submits, and returns the error that it caused on this
    /// thread, independently of other threads.
    pub(crate) fn scoped<T>(&self, run: impl FnOnce(&wgpu::Device) -> T) -> Result<T> {
        let scopes = self.open_scopes()?;
        let result = run(&self.device);
        self.close_scopes(scopes).map(|()| result)
    }

    fn open_scopes(&self) -> Result<[wgpu::ErrorScopeGuard; 3]> {
        use wgpu::ErrorFilter::{Internal, OutOfMemory, Validation};
        self.check()?;
        Ok([OutOfMemory, Internal, Validation].map(|filter| self.device.push_error_scope(filter)))
    }

    /// Returns the error that was caused since the scopes were opened.
    fn close_scopes(&self, scopes: [wgpu::ErrorScopeGuard; 3]) -> Result<()> {
        let mut errors =
            scopes.into_iter().rev().filter_map(|scope| pollster::block_on(scope.pop()));
        let first = errors.next();
        // Every scope must be popped, also after the first error.
        errors.for_each(drop);
        match first {
            Some(error) => Err(Error::of(error)),
            None => self.check(),
        }
    }

    /// Calls [`Self::scoped`], and again after freeing the pool's memory if memory was exhausted.
    pub(crate) fn scoped_in_memory<T>(&self, run: impl Fn(&wgpu::Device) -> T) -> Result<T> {
        match self.scoped(&run) {
            Err(Error::OutOfMemory { .. }) => {
                self.trim();
                self.scoped(&run)
            }
            done => done,
        }
    }
}

/// Opens a device with these capabilities.
fn request(
    adapter: &wgpu::Adapter,
    capabilities: Capabilities,
) -> Result<(wgpu::Device, wgpu::Queue), wgpu::RequestDeviceError> {
    pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor {
        label: Some("aleatron"),
        required_features: capabilities.features() | wgpu::Features::IMMEDIATES,
        required_limits: adapter.limits(),
        experimental_features: if capabilities.cooperative_matrices {
            trusted::experimental_features()
        } else {
            wgpu::ExperimentalFeatures::disabled()
        },
        ..wgpu::DeviceDescriptor::default()
    }))
}

/// The required feature of adapters, in words.
pub(crate) const IMMEDIATES: &str = "immediates (kernel parameters)";

/// Returns the bytes that the buffer pool of a device retains: discrete cards have their own
/// memory, others that of the host.
const fn pool_bytes(kind: AdapterKind) -> u64 {
    match kind {
        AdapterKind::Discrete => 2 << 30,
        _ => 256 << 20,
    }
}

/// Returns the largest part of a binding of `bytes` whose bytes a 32-bit integer counts, in whole
/// vectors.
fn addressable(bytes: u64) -> u64 {
    bytes.min(u64::from(u32::MAX)) / 16 * 16
}

/// Returns whether there is a hardware adapter, or the adapter selected by the environment.
#[must_use]
pub fn is_gpu_available() -> bool {
    adapter::choose(&AdapterChoice::from_env()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::addressable;

    #[test]
    fn binding_sizes_fit_32_bits() {
        assert_eq!(addressable(1 << 27), 1 << 27);
        assert_eq!(addressable(100), 96);
        assert_eq!(addressable(u64::from(u32::MAX)), (1 << 32) - 16);
        for huge in [1 << 32, 1 << 36, u64::MAX] {
            assert_eq!(addressable(huge), (1 << 32) - 16);
        }
    }
}

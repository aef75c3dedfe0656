//! A device, opened once per adapter and shared.
//!
//! [`GpuContext::get`] hands out the shared context of an adapter and opens a new device where the
//! last one was lost; [`GpuContext::open`] opens another logical device on the same adapter. Driver
//! errors become [`Error`]s here: error scopes surround what creates objects and submits commands,
//! and a handler collects all other errors for [`GpuContext::check`]. Waiting is in
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
use crate::wait::Watcher;

/// Which kernels are compiled with run-time checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Checks {
    /// Those that do not declare [`BoundsChecks::Removed`](crate::BoundsChecks::Removed).
    #[default]
    AsDeclared,
    /// All of them: to compare results with those of kernels without checks.
    Always,
}

/// How to open a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextOptions {
    /// Abilities to use where the adapter has them.
    pub capabilities: Capabilities,
    /// Which kernels are compiled with run-time checks.
    pub checks: Checks,
    /// The bytes of one binding, where fewer than the adapter offers.
    pub max_binding_bytes: Option<u64>,
    /// The workgroups of a dispatch in one dimension, where fewer than the adapter offers.
    pub max_workgroups: Option<u32>,
    /// The bytes of dropped buffers kept for reuse; past this limit they are freed. `None` for 2
    /// GiB on GPUs with memory of their own, where making a large buffer takes longer than
    /// filling it, and 256 MiB on others.
    pub pool_bytes: Option<u64>,
    /// How long a wait spins before it sleeps: waking up takes longer than a small kernel. `None`
    /// for 200 us, and for none on software adapters.
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

/// How many objects a context has made; a second call of an operation makes none.
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

/// A poisoned lock here guards plain collections that are whole between any two statements.
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
    pub(crate) watcher: Watcher,
    pub(crate) pool: Mutex<BufferPool>,
    /// Bytes freed here that wgpu may still hold until it is polled.
    pub(crate) unreleased: AtomicU64,
    /// Whether data were handed to the queue since the last submission.
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
    /// The shared context of an adapter, opened on first use, and anew after its device was lost.
    ///
    /// # Errors
    /// [`Error::NoAdapter`] with the adapters there are, or [`Error::Open`] where the adapter opens
    /// no device.
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

    /// A new logical device of its own, several of which can live on one adapter.
    ///
    /// # Errors
    /// As [`Self::get`], and [`Error::Unsupported`] where the adapter takes no kernel parameters.
    pub fn open(choice: &AdapterChoice, options: &ContextOptions) -> Result<Arc<Self>> {
        let adapter = adapter::choose(choice)?;
        let name = adapter.info.name.clone();
        if !adapter.raw.features().contains(wgpu::Features::IMMEDIATES) {
            return Err(Error::Unsupported { adapter: name, feature: IMMEDIATES });
        }
        let wanted = adapter.info.capabilities.and(options.capabilities);
        let without = Capabilities { cooperative_matrices: false, ..wanted };
        // An experimental feature must not keep a device from being opened.
        let (capabilities, opened) = match request(&adapter.raw, wanted) {
            Err(_) if wanted.cooperative_matrices => (without, request(&adapter.raw, without)),
            opened => (wanted, opened),
        };
        let (device, queue) = opened
            .map_err(|error| Error::Open { adapter: name, source: DriverError::new(error) })?;
        let info = AdapterInfo { capabilities, ..adapter.info.clone() };
        Ok(Self::around(info, adapter.raw.clone(), device, queue, options))
    }

    /// A context around an open device. `info` says what the adapter offers.
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
            watcher: Watcher::default(),
            pool: Mutex::new(BufferPool::new(pool_bytes)),
            unreleased: AtomicU64::new(0),
            writes_pending: AtomicBool::new(false),
            pipelines: Mutex::default(),
            bind_groups: Mutex::default(),
            counters: Counters::default(),
        })
    }

    /// A number no other context of this process has.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The adapter, with the limits and capabilities in force.
    #[must_use]
    pub fn info(&self) -> &AdapterInfo {
        &self.info
    }

    /// The name of the adapter.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.info.name
    }

    /// The optional abilities in use.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        self.info.capabilities
    }

    /// Which kernels are compiled with run-time checks.
    #[must_use]
    pub fn checks(&self) -> Checks {
        self.checks
    }

    /// The largest part of a buffer one binding of a kernel should have: whole 16-byte vectors, and
    /// below 4 GiB whatever the device offers, so that 32-bit integers count its elements and
    /// its bytes.
    #[must_use]
    pub fn max_binding_bytes(&self) -> u64 {
        addressable(self.info.max_binding_bytes.min(self.info.max_buffer_bytes))
    }

    /// What the byte offsets of bound views are multiples of; see
    /// [`BufferView::aligned`](crate::BufferView::aligned).
    #[must_use]
    pub fn binding_alignment(&self) -> u64 {
        u64::from(self.info.binding_alignment).max(4)
    }

    /// The objects made so far.
    #[must_use]
    pub fn created(&self) -> Created {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Created {
            pipelines: count(&self.counters.pipelines),
            buffers: count(&self.counters.buffers),
            bind_groups: count(&self.counters.bind_groups),
        }
    }

    /// Whether the device is gone for good.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.health.lost().is_some()
    }

    /// Gives the device back. Whatever still uses it gets [`Error::DeviceLost`].
    pub fn destroy(&self) {
        self.health.lose("destroyed on request".to_owned());
        self.device.destroy();
    }

    /// The errors the driver has reported since the last check.
    ///
    /// # Errors
    /// [`Error::Forked`] in a forked process, [`Error::DeviceLost`] for good once the device is
    /// gone, else the first error reported.
    pub fn check(&self) -> Result<()> {
        fork::check()?;
        if let Some(reason) = self.health.lost() {
            let adapter = self.info.name.clone();
            return Err(Error::DeviceLost { adapter, reason: reason.to_owned() });
        }
        self.health.take_error().map_or(Ok(()), Err)
    }

    /// Runs what creates or submits and reports the error it caused on this thread, whatever others
    /// do.
    pub(crate) fn scoped<T>(&self, run: impl FnOnce(&wgpu::Device) -> T) -> Result<T> {
        use wgpu::ErrorFilter::{Internal, OutOfMemory, Validation};
        self.check()?;
        let scopes =
            [OutOfMemory, Internal, Validation].map(|filter| self.device.push_error_scope(filter));
        let made = run(&self.device);
        let mut errors =
            scopes.into_iter().rev().filter_map(|scope| pollster::block_on(scope.pop()));
        let first = errors.next();
        // Every scope must be popped, also after the first error.
        errors.for_each(drop);
        match first {
            Some(error) => Err(Error::of(error)),
            None => self.check().map(|()| made),
        }
    }

    /// As [`Self::scoped`], once more after the pool has given back its memory where there was not
    /// enough.
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

/// What an adapter must have, in words.
pub(crate) const IMMEDIATES: &str = "immediates (kernel parameters)";

/// Returns the bytes that the buffer pool of a device retains: cards have memory of their own,
/// others that of the host.
const fn pool_bytes(kind: AdapterKind) -> u64 {
    match kind {
        AdapterKind::Discrete => 2 << 30,
        _ => 256 << 20,
    }
}

/// The most of a binding of `bytes` whose bytes a 32-bit integer counts, in whole vectors.
fn addressable(bytes: u64) -> u64 {
    bytes.min(u64::from(u32::MAX)) / 16 * 16
}

/// Whether there is a hardware adapter, or the one the environment names.
#[must_use]
pub fn is_gpu_available() -> bool {
    adapter::choose(&AdapterChoice::from_env()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::addressable;

    #[test]
    fn bindings_are_counted_by_32_bits() {
        assert_eq!(addressable(1 << 27), 1 << 27);
        assert_eq!(addressable(100), 96);
        assert_eq!(addressable(u64::from(u32::MAX)), (1 << 32) - 16);
        for huge in [1 << 32, 1 << 36, u64::MAX] {
            assert_eq!(addressable(huge), (1 << 32) - 16);
        }
    }
}

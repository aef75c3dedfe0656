//! A device, opened once per adapter and shared.
//!
//! [`GpuContext::get`] hands out the shared context of an adapter and opens a new device where the last one was
//! lost; [`GpuContext::open`] opens another logical device on the same adapter. Driver errors arrive here and
//! leave as [`Error`]s: by error scopes around creation ([`GpuContext::scoped`]), by the device's handler
//! for everything else ([`GpuContext::check`]).

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::adapter::{self, AdapterChoice, AdapterInfo, AdapterKind, Capabilities};
use crate::buffer::BufferPool;
use crate::error::{Error, Result};
use crate::pipeline::{BindGroups, Pipelines};

/// How to open a device, where not as the adapter offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextOptions {
    /// Abilities to use where the adapter has them.
    pub capabilities: Capabilities,
    /// The bytes of one binding, where fewer than the adapter offers.
    pub max_binding_bytes: Option<u64>,
    /// How long to ask the device again and again before sleeping until it is done: waking up costs more than a
    /// small layer takes. `None` is right for the adapter.
    pub spin: Option<Duration>,
}

impl Default for ContextOptions {
    fn default() -> Self {
        Self { capabilities: Capabilities::ALL, max_binding_bytes: None, spin: None }
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

/// What the driver has reported outside of error scopes.
#[derive(Debug, Default)]
struct Health {
    lost: OnceLock<String>,
    any: AtomicBool,
    errors: Mutex<Vec<Error>>,
}

/// How long a device that has finished may take to say so.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// A poisoned lock here guards plain collections that are whole between any two statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A GPU device with its queue, pipelines and pooled buffers.
pub struct GpuContext {
    id: u64,
    info: AdapterInfo,
    device: wgpu::Device,
    queue: wgpu::Queue,
    spin: Duration,
    health: Arc<Health>,
    pub(crate) pool: Mutex<BufferPool>,
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
    /// [`Error::NoAdapter`] with the adapters there are, or [`Error::Device`] where the adapter opens no device.
    pub fn get(choice: &AdapterChoice) -> Result<Arc<Self>> {
        static SHARED: Mutex<Option<HashMap<usize, Arc<GpuContext>>>> = Mutex::new(None);
        let (index, _) = adapter::choose(choice)?;
        let mut shared = lock(&SHARED);
        let contexts = shared.get_or_insert_default();
        if let Some(context) = contexts.get(&index).filter(|context| !context.is_lost()) {
            return Ok(Arc::clone(context));
        }
        let context = Self::open(choice, &ContextOptions::default())?;
        contexts.insert(index, Arc::clone(&context));
        Ok(context)
    }

    /// A new logical device of its own, several of which can live on one adapter.
    ///
    /// # Errors
    /// As [`Self::get`], and [`Error::Unsupported`] where the adapter takes no kernel parameters.
    pub fn open(choice: &AdapterChoice, options: &ContextOptions) -> Result<Arc<Self>> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let (_, adapter) = adapter::choose(choice)?;
        let name = adapter.info.name.clone();
        if !adapter.raw.features().contains(wgpu::Features::IMMEDIATES) {
            return Err(Error::Unsupported { adapter: name, feature: "immediates (kernel parameters)" });
        }
        let mut info = adapter.info.clone();
        info.capabilities = info.capabilities.and(options.capabilities);
        if let Some(bytes) = options.max_binding_bytes {
            info.max_binding_bytes = info.max_binding_bytes.min(bytes);
        }
        let (device, queue) = pollster::block_on(adapter.raw.request_device(&wgpu::DeviceDescriptor {
            label: Some("aleatron"),
            required_features: info.capabilities.features() | wgpu::Features::IMMEDIATES,
            required_limits: adapter.raw.limits(),
            ..wgpu::DeviceDescriptor::default()
        }))
        .map_err(|error| Error::Device { adapter: name, message: error.to_string() })?;

        let health = Arc::new(Health::default());
        let handler = Arc::clone(&health);
        device.on_uncaptured_error(Arc::new(move |error| {
            lock(&handler.errors).push(error.into());
            handler.any.store(true, Ordering::Release);
        }));
        let lost = Arc::clone(&health);
        device.set_device_lost_callback(move |reason, message| {
            // The first reason stays: later ones follow from it.
            let _ = lost.lost.set(format!("{reason:?} {message}").trim().to_owned());
        });
        let spin = options.spin.unwrap_or(match info.kind {
            // A software device needs the very cores that would spin.
            AdapterKind::Software => Duration::ZERO,
            _ => Duration::from_micros(200),
        });
        Ok(Arc::new(Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            info,
            device,
            queue,
            spin,
            health,
            pool: Mutex::default(),
            pipelines: Mutex::default(),
            bind_groups: Mutex::default(),
            counters: Counters::default(),
        }))
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

    /// The device, for what this crate does not wrap.
    #[must_use]
    pub fn device(&self) -> &wgpu::Device {
        &self.device
    }

    /// The queue, for what this crate does not wrap.
    #[must_use]
    pub fn queue(&self) -> &wgpu::Queue {
        &self.queue
    }

    /// The largest piece of a buffer a kernel can see: whole 16-byte vectors.
    #[must_use]
    pub fn max_binding_bytes(&self) -> u64 {
        self.info.max_binding_bytes.min(self.info.max_buffer_bytes) / 16 * 16
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
        self.health.lost.get().is_some()
    }

    /// Gives the device back. Whatever still uses it gets [`Error::DeviceLost`].
    pub fn destroy(&self) {
        let _ = self.health.lost.set("destroyed on request".to_owned());
        self.device.destroy();
    }

    /// The errors the driver has reported since the last check.
    ///
    /// # Errors
    /// [`Error::DeviceLost`] for good once the device is gone, else the first error reported.
    pub fn check(&self) -> Result<()> {
        if let Some(message) = self.health.lost.get() {
            return Err(self.lost(message));
        }
        if self.health.any.swap(false, Ordering::Acquire)
            && let Some(error) = std::mem::take(&mut *lock(&self.health.errors)).into_iter().next()
        {
            return Err(error);
        }
        Ok(())
    }

    fn lost(&self, message: &str) -> Error {
        Error::DeviceLost { adapter: self.info.name.clone(), message: message.to_owned() }
    }

    /// Runs what creates objects and reports the error it caused on this thread, whatever others do.
    ///
    /// # Errors
    /// The error raised inside.
    pub fn scoped<T>(&self, create: impl FnOnce(&wgpu::Device) -> T) -> Result<T> {
        use wgpu::ErrorFilter::{Internal, OutOfMemory, Validation};
        self.check()?;
        let scopes = [OutOfMemory, Internal, Validation].map(|filter| self.device.push_error_scope(filter));
        let made = create(&self.device);
        let mut errors = scopes.into_iter().rev().filter_map(|scope| pollster::block_on(scope.pop()));
        let first = errors.next();
        // Every scope must be popped, also after the first error.
        errors.for_each(drop);
        match first {
            Some(error) => Err(error.into()),
            None => self.check().map(|()| made),
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
            self.poll(wgpu::PollType::Poll)?;
            std::hint::spin_loop();
        }
        // All submitted work may be done before `done` is set: the thread whose poll saw it finish runs the callbacks of all
        // threads, and may not have come to ours yet.
        let mut idle_since = None;
        while !done() {
            self.poll(wgpu::PollType::Wait { submission_index: submission.cloned(), timeout: None })?;
            self.check()?;
            if idle_since.get_or_insert_with(Instant::now).elapsed() > ANSWER_TIME {
                return Err(Error::Internal { message: "the device finished without answering".to_owned() });
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    fn poll(&self, poll: wgpu::PollType) -> Result<()> {
        // A device that fails while it is waited for makes `poll` panic: wgpu has no other way to say so.
        match catch_unwind(AssertUnwindSafe(|| self.device.poll(poll))) {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => {
                self.check()?;
                Err(Error::Internal { message: error.to_string() })
            }
            Err(_) => {
                let _ = self.health.lost.set("failed while it was waited for".to_owned());
                self.check()
            }
        }
    }

    /// Waits until everything submitted so far is done.
    ///
    /// # Errors
    /// What the device has reported.
    pub fn finish(&self) -> Result<()> {
        self.poll(wgpu::PollType::wait_indefinitely())?;
        self.check()
    }
}

/// Whether there is a hardware adapter, or the one `SC_GPU_ADAPTER` names.
#[must_use]
pub fn is_gpu_available() -> bool {
    adapter::choose(&AdapterChoice::from_env()).is_ok()
}

//! An open GPU.

use super::device::{self, DeviceInfo};
use super::launch::Functions;
use super::symbols::{SUCCESS, Symbols, call, driver};
use crate::error::{Error, Result};
use cudarc::driver::sys::CUcontext;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Options of a context. They never change a count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContextOptions {
    /// The limit of device memory in bytes; by default the free memory.
    pub memory_limit: Option<u64>,
}

/// An open GPU: its primary context, which other libraries of the process share, with this crate's
/// kernels.
///
/// ```no_run
/// let context = aleatron_cuda::CudaContext::get(0)?;
/// println!("{} with {} multiprocessors", context.info().name, context.info().processors);
/// # Ok::<(), aleatron_cuda::Error>(())
/// ```
pub struct CudaContext {
    info: DeviceInfo,
    options: ContextOptions,
    pub(super) driver: &'static Symbols,
    device: c_int,
    raw: CUcontext,
    /// Why it is lost, if it is.
    lost: OnceLock<String>,
    pub(super) functions: Functions,
    allocations: AtomicU64,
}

// SAFETY: a context may be current in any number of threads, and the driver's functions may be
// called from all of them.
unsafe impl Send for CudaContext {}
// SAFETY: as above; all other fields are `Sync`.
unsafe impl Sync for CudaContext {}

impl fmt::Debug for CudaContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaContext").field("info", &self.info).finish_non_exhaustive()
    }
}

impl CudaContext {
    /// Returns the shared context of the GPU at an index, opened again after a loss.
    ///
    /// # Errors
    /// Returns [`Error::UnknownDevice`] if there is none, [`Error::OldDevice`] if it is too old,
    /// errors of [`super::devices`], [`Error::Lost`] if it is lost for this process, and errors of
    /// the driver.
    pub fn get(index: usize) -> Result<Arc<Self>> {
        static OPEN: Mutex<BTreeMap<usize, Arc<CudaContext>>> = Mutex::new(BTreeMap::new());
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        match open.get(&index) {
            Some(context) if !context.is_lost() => Ok(Arc::clone(context)),
            _ => {
                open.remove(&index);
                let context = Self::open(index, &ContextOptions::default())?;
                open.insert(index, Arc::clone(&context));
                Ok(context)
            }
        }
    }

    /// Opens the GPU at an index, with separate kernels and buffers.
    ///
    /// # Errors
    /// As for [`Self::get`].
    pub fn open(index: usize, options: &ContextOptions) -> Result<Arc<Self>> {
        Self::with_functions(index, options, Functions::new(None))
    }

    /// Opens the GPU at an index, with other variants of this crate's kernels for measurements: PTX
    /// for `sm_80` and for `sm_90a`.
    ///
    /// # Safety
    /// The kernels must take the same parameters as the kernels of this crate with the same names,
    /// and must read and write no other memory.
    ///
    /// # Errors
    /// As for [`Self::get`].
    pub unsafe fn open_with_kernels(
        index: usize,
        options: &ContextOptions,
        kernels: [String; 2],
    ) -> Result<Arc<Self>> {
        Self::with_functions(index, options, Functions::new(Some(kernels)))
    }

    fn with_functions(
        index: usize,
        options: &ContextOptions,
        functions: Functions,
    ) -> Result<Arc<Self>> {
        let info = device::device(index)?;
        info.check()?;
        let driver = driver()?;
        let (mut number, mut raw) = (0, std::ptr::null_mut());
        let location = "driver::CudaContext::open, number of a card that was found";
        let ordinal = c_int::try_from(index).map_err(|_| Error::Internal { place: location })?;
        // SAFETY: the pointers are valid for the driver's writes.
        unsafe {
            call!(driver, cuDeviceGet(&mut number, ordinal))?;
            call!(driver, cuDevicePrimaryCtxRetain(&mut raw, number))?;
        }
        let context = Arc::new(Self {
            functions,
            info,
            options: options.clone(),
            driver,
            device: number,
            raw,
            lost: OnceLock::new(),
            allocations: AtomicU64::new(0),
        });
        // Damage by another user of the process shows at once.
        context.free_bytes()?;
        Ok(context)
    }

    /// Returns the properties of the GPU.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Returns whether the GPU is lost: all its memory is invalid, and it must be opened again.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.lost.get().is_some()
    }

    /// Returns the number of bytes of memory that are free and may be used.
    ///
    /// # Errors
    /// Returns errors of the driver.
    pub fn free_bytes(&self) -> Result<u64> {
        let _current = self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: the pointers are valid for the driver's writes.
        self.note(unsafe { call!(self.driver, cuMemGetInfo_v2(&mut free, &mut total)) })?;
        Ok((free as u64).min(self.options.memory_limit.unwrap_or(u64::MAX)))
    }

    /// Returns whether a context of the driver is this one.
    pub(super) fn is_of(&self, raw: CUcontext) -> bool {
        self.raw == raw
    }

    /// Waits until all work is done that this process has submitted to the GPU.
    pub(crate) fn synchronize(&self) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the context is current.
        self.note(unsafe { call!(self.driver, cuCtxSynchronize()) })
    }

    /// Returns the number of allocations of device memory and pinned memory: calls with existing
    /// buffers allocate nothing.
    #[must_use]
    pub fn allocations(&self) -> u64 {
        self.allocations.load(Ordering::Relaxed)
    }

    pub(super) fn count_allocation(&self) {
        self.allocations.fetch_add(1, Ordering::Relaxed);
    }

    /// Makes this the current context of the thread, until the guard is dropped.
    pub(crate) fn enter(&self) -> Result<Current<'_>> {
        if let Some(message) = self.lost.get() {
            return Err(Error::Lost { message: message.clone() });
        }
        // SAFETY: the context is retained.
        unsafe { call!(self.driver, cuCtxPushCurrent_v2(self.raw)) }?;
        Ok(Current(self))
    }

    /// Passes a result on; marks this context as lost if the result reports a loss.
    pub(super) fn note<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(Error::Lost { message }) = &result {
            self.lose(message);
        }
        result
    }

    /// Releases the broken context, so that a new one can be created; its handles become invalid.
    fn lose(&self, message: &str) {
        if self.lost.set(message.to_owned()).is_ok() {
            // SAFETY: it was retained once, and is released once: here or when this is dropped.
            let _ = unsafe { (self.driver.cuDevicePrimaryCtxRelease_v2)(self.device) };
        }
    }
}

impl Drop for CudaContext {
    fn drop(&mut self) {
        if self.is_lost() {
            return;
        }
        if let Ok(_current) = self.enter() {
            self.functions.unload(self.driver);
        }
        // SAFETY: it was retained once, and nothing created in it remains: everything holds this
        // context.
        let _ = unsafe { (self.driver.cuDevicePrimaryCtxRelease_v2)(self.device) };
    }
}

/// The current context of the thread; the previous one is restored when this is dropped.
pub(crate) struct Current<'a>(&'a CudaContext);

impl Drop for Current<'_> {
    fn drop(&mut self) {
        let mut popped = std::ptr::null_mut();
        // SAFETY: this thread pushed one, and guards are dropped in the reverse order of their
        // creation.
        let answer = unsafe { (self.0.driver.cuCtxPopCurrent_v2)(&mut popped) };
        debug_assert!(
            answer == SUCCESS || self.0.is_lost(),
            "a context was popped that was not pushed"
        );
    }
}

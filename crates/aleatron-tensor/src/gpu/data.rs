//! Elements on a device: computed ones, and pending expressions.

use std::fmt;
use std::sync::{Arc, Mutex};

use aleatron_device::{BufferView, GpuBuffer};

use super::device::{GpuDevice, lock};
use super::elementwise;
use super::fault::Faults;
use crate::device::MAX_ELEMENTS;
use crate::dtype::DType;
use crate::error::{Error, Limit, Result};
use crate::expr::Expr;
use crate::layout::Layout;

/// Returns the number of words of a buffer for elements of a type: whole vectors of 16 bytes, and
/// of four elements.
pub(super) fn words(dtype: DType, len: usize) -> Result<usize> {
    if len > MAX_ELEMENTS {
        let (actual, limit) = (len as u128, MAX_ELEMENTS as u128);
        return Err(Error::TooLarge { what: Limit::GpuElements, actual, limit });
    }
    let bytes = (len.max(1).next_multiple_of(4) * dtype.size()).next_multiple_of(16);
    Ok(bytes / 4)
}

/// Elements that are on a device, or will be once the commands recorded so far have run.
pub(crate) struct GpuData {
    pub(crate) buffer: GpuBuffer<u32>,
    pub(crate) dtype: DType,
    pub(crate) len: usize,
    /// The recording that computes them.
    pub(crate) recording: u64,
    /// Pending checks of the indices that the elements depend on.
    pub(crate) faults: Faults,
}

impl fmt::Debug for GpuData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GpuData({} x {})", self.len, self.dtype)
    }
}

impl GpuData {
    pub(crate) fn view(&self) -> BufferView<'_> {
        self.buffer.view()
    }
}

/// A view of elements on a device.
#[derive(Debug, Clone)]
pub(crate) struct GpuView {
    pub(crate) data: Arc<GpuData>,
    pub(crate) layout: Layout,
}

impl PartialEq for GpuView {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.data, &other.data) && self.layout == other.layout
    }
}

/// A pending expression.
struct Pending {
    expr: Expr<GpuView>,
    shape: Vec<usize>,
    /// Whether another expression holds a copy of it.
    is_shared: bool,
}

enum State {
    Ready(Arc<GpuData>),
    Pending(Box<Pending>),
}

/// Elements on a device: computed, or pending until they are needed.
pub struct GpuStorage {
    device: GpuDevice,
    dtype: DType,
    len: usize,
    state: Mutex<State>,
}

impl fmt::Debug for GpuStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GpuStorage({} x {} on {})", self.len, self.dtype, self.device)
    }
}

impl GpuStorage {
    /// Creates a storage of computed elements.
    pub(crate) fn ready(device: &GpuDevice, data: GpuData) -> Self {
        let (dtype, len) = (data.dtype, data.len);
        Self { device: device.clone(), dtype, len, state: Mutex::new(State::Ready(Arc::new(data))) }
    }

    /// Creates a storage of a pending expression.
    pub(crate) fn pending(
        device: &GpuDevice,
        expr: Expr<GpuView>,
        shape: &[usize],
    ) -> Result<Self> {
        let (dtype, len) = (expr.dtype(), crate::layout::elements(shape)?);
        // A result that could never be stored is an error now.
        let bytes = 4 * words(dtype, len)? as u128;
        let limit = device.context().info().max_buffer_bytes;
        if bytes > limit.into() {
            let what = aleatron_device::Limit::BufferBytes;
            return Err(aleatron_device::Error::TooLarge { what, actual: bytes, limit }.into());
        }
        let pending = Pending { expr, shape: shape.to_vec(), is_shared: false };
        Ok(Self {
            device: device.clone(),
            dtype,
            len,
            state: Mutex::new(State::Pending(Box::new(pending))),
        })
    }

    /// Returns the device.
    #[must_use]
    pub fn device(&self) -> &GpuDevice {
        &self.device
    }

    /// Returns the type of the elements.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
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

    /// Returns whether commands that compute the elements are recorded, or have run.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        matches!(&*lock(&self.state), State::Ready(_))
    }

    /// Returns the elements; records their computation if they are pending.
    pub(crate) fn data(&self) -> Result<Arc<GpuData>> {
        let mut state = lock(&self.state);
        match &*state {
            State::Ready(data) => {
                self.device.check_recording(data.recording)?;
                Ok(Arc::clone(data))
            }
            State::Pending(pending) => {
                // After a failure the expression stays pending and can be tried again.
                let data =
                    Arc::new(elementwise::launch(&self.device, &pending.expr, &pending.shape)?);
                *state = State::Ready(Arc::clone(&data));
                Ok(data)
            }
        }
    }

    /// Returns the expression of a view of a whole pending storage, to be used in another
    /// expression. An expression is shared once: a second request returns `None`, so the expression
    /// is computed, and nothing is computed more than twice.
    pub(crate) fn share(&self, layout: &Layout) -> Option<Expr<GpuView>> {
        let mut state = lock(&self.state);
        match &mut *state {
            State::Pending(pending)
                if !pending.is_shared
                    && layout.offset() == 0
                    && layout.shape() == pending.shape
                    && layout.is_contiguous() =>
            {
                pending.is_shared = true;
                Some(pending.expr.clone())
            }
            _ => None,
        }
    }
}
/// Returns wgpu's buffer of elements, after the commands that compute it were submitted. If they
/// could not be submitted, the buffer is a new one: the reader of the elements gets the error.
#[cfg(feature = "raw")]
pub(crate) fn raw_buffer(storage: &GpuStorage) -> aleatron_device::raw::wgpu::Buffer {
    use aleatron_device::raw::{self, wgpu};
    let data = storage.data().and_then(|data| storage.device().submit().map(|_| data));
    match data {
        Ok(data) => raw::shared_buffer(&data.buffer),
        Err(_) => raw::device(storage.device().context()).create_buffer(&wgpu::BufferDescriptor {
            label: Some("aleatron"),
            size: 4 * storage.len().max(1) as u64,
            usage: wgpu::BufferUsages::STORAGE
                | wgpu::BufferUsages::COPY_SRC
                | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        }),
    }
}

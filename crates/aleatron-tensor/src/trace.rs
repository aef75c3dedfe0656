//! Traces of operations: the operators that ran, and their devices.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::dtype::DType;
use crate::tensor::Tensor;

/// An operation that was executed or recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The name of the operation.
    pub op: &'static str,
    /// The device of the result.
    pub device: String,
    /// The type of the result.
    pub dtype: DType,
    /// The shape of the result.
    pub shape: Vec<usize>,
}

type Events = Mutex<Vec<Event>>;

static TRACES: Mutex<Vec<Weak<Events>>> = Mutex::new(Vec::new());
static ACTIVE: AtomicUsize = AtomicUsize::new(0);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Collects the operations of all threads until it is dropped.
///
/// ```
/// use aleatron_tensor::{Device, Tensor, trace::Trace};
///
/// let trace = Trace::start();
/// let x = Tensor::ones(&[2, 3], aleatron_tensor::DType::F32, &Device::Cpu)?;
/// x.exp()?;
/// let events = trace.events();
/// assert!(events.iter().any(|event| event.op == "exp" && event.device == "cpu" && event.shape == [2, 3]));
/// # Ok::<(), aleatron_tensor::Error>(())
/// ```
#[derive(Debug)]
pub struct Trace {
    events: Arc<Events>,
}

impl Trace {
    /// Starts a trace.
    #[must_use]
    pub fn start() -> Self {
        let events = Arc::new(Events::default());
        lock(&TRACES).push(Arc::downgrade(&events));
        ACTIVE.fetch_add(1, Ordering::Release);
        Self { events }
    }

    /// Returns the operations collected so far.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        lock(&self.events).clone()
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        ACTIVE.fetch_sub(1, Ordering::Release);
        lock(&TRACES).retain(|events| {
            events.strong_count() > 0 && !std::ptr::eq(events.as_ptr(), Arc::as_ptr(&self.events))
        });
    }
}

/// Reports the result of an operation and returns it.
pub(crate) fn report(op: &'static str, tensor: Tensor) -> Tensor {
    if ACTIVE.load(Ordering::Acquire) > 0 {
        let event = Event {
            op,
            device: tensor.device().to_string(),
            dtype: tensor.dtype(),
            shape: tensor.shape().to_vec(),
        };
        for events in lock(&TRACES).iter().filter_map(Weak::upgrade) {
            lock(&events).push(event.clone());
        }
    }
    tensor
}

//! Arrays in device memory as inputs and outputs of layers.
//!
//! An address is a number that a driver dereferences, so the caller makes a promise:
//! [`DeviceArray::from_raw`], [`DeviceArrayMut::from_raw`] and [`DeviceStream::from_raw`] are
//! unsafe. Everything that takes the arrays is safe. Backends check what their driver can tell
//! them: that the memory is on their device and as large as the array, and that no array overlaps
//! another or memory of the backend itself.

use std::fmt;
use std::marker::PhantomData;

use crate::layer::SampleSeed;

/// The type of the elements of an array in device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeviceElement {
    /// Unsigned integers of 64 bits.
    U64,
    /// Floating point of 64 bits.
    F64,
    /// Floating point of 32 bits.
    F32,
}

impl DeviceElement {
    /// Returns the size of an element in bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::U64 | Self::F64 => 8,
            Self::F32 => 4,
        }
    }
}

impl fmt::Display for DeviceElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::U64 => "uint64",
            Self::F64 => "float64",
            Self::F32 => "float32",
        })
    }
}

/// A read-only array in device memory, row-major without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceArray<'a> {
    address: u64,
    len: usize,
    element: DeviceElement,
    memory: PhantomData<&'a ()>,
}

impl DeviceArray<'_> {
    /// Describes an array by its address.
    ///
    /// # Safety
    /// The memory from `address` on, `len` elements of it, must stay allocated for the lifetime of
    /// the array. Nothing may write to it while a call reads it, except work that the call is
    /// ordered after ([`InputOrder`]).
    #[allow(unsafe_code, reason = "a contract; there is no unsafe operation in this crate")]
    #[must_use]
    pub const unsafe fn from_raw(address: u64, len: usize, element: DeviceElement) -> Self {
        Self { address, len, element, memory: PhantomData }
    }

    /// Returns the address of the first element.
    #[must_use]
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// Returns the number of elements.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no elements.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the type of the elements.
    #[must_use]
    pub const fn element(&self) -> DeviceElement {
        self.element
    }

    /// Returns the size of the array in bytes, saturating.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        (self.len as u64).saturating_mul(self.element.bytes() as u64)
    }
}

/// A writable array in device memory, row-major without gaps.
#[derive(Debug, PartialEq, Eq)]
pub struct DeviceArrayMut<'a>(DeviceArray<'a>);

impl<'a> DeviceArrayMut<'a> {
    /// Describes an array by its address.
    ///
    /// # Safety
    /// The memory from `address` on, `len` elements of it, must stay allocated for the lifetime of
    /// the array, and nothing else may read or write it while a call does.
    #[allow(unsafe_code, reason = "a contract; there is no unsafe operation in this crate")]
    #[must_use]
    pub const unsafe fn from_raw(address: u64, len: usize, element: DeviceElement) -> Self {
        Self(DeviceArray { address, len, element, memory: PhantomData })
    }

    /// Returns the array's address, length and type.
    #[must_use]
    pub const fn array(&self) -> &DeviceArray<'a> {
        &self.0
    }
}

/// A stream of a device: a queue of work that runs in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceStream<'a> {
    handle: u64,
    stream: PhantomData<&'a ()>,
}

impl DeviceStream<'_> {
    /// The default stream of a device.
    pub const DEFAULT: DeviceStream<'static> = DeviceStream { handle: 1, stream: PhantomData };

    /// The default stream of the calling thread.
    pub const OF_THREAD: DeviceStream<'static> = DeviceStream { handle: 2, stream: PhantomData };

    /// Describes a stream by the handle of its driver.
    ///
    /// # Safety
    /// The handle must be that of a stream that exists for the lifetime of this value, of the
    /// driver of the device that it is used with.
    #[allow(unsafe_code, reason = "a contract; there is no unsafe operation in this crate")]
    #[must_use]
    pub const unsafe fn from_raw(handle: u64) -> Self {
        Self { handle, stream: PhantomData }
    }

    /// Returns the handle.
    #[must_use]
    pub const fn handle(&self) -> u64 {
        self.handle
    }
}

/// When the inputs of a call are complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InputOrder<'a> {
    /// Already complete.
    #[default]
    Ready,
    /// When the work submitted to a stream so far is done.
    AfterStream(DeviceStream<'a>),
    /// When all work that this process has submitted to the device so far is done.
    AfterAll,
}

/// Samples in device memory.
#[derive(Debug, PartialEq, Eq)]
pub struct DeviceBatch<'a> {
    /// Values in the interval of the polarity, samples by inputs.
    pub inputs: DeviceArray<'a>,
    /// The results, samples by neurons: counts for integers, otherwise decoded values.
    pub outputs: DeviceArrayMut<'a>,
    /// The seed of Bernoulli streams, and the index of the first sample.
    pub seed: SampleSeed,
    /// When the inputs are complete.
    pub order: InputOrder<'a>,
}

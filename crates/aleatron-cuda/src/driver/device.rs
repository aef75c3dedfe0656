//! The GPUs of this machine.

use super::symbols::{Symbols, call, driver};
use crate::error::{Error, OLDEST_CAPABILITY, Result};
use std::ffi::{CStr, c_char, c_int};

// Numbers of attributes, as documented by the driver.
const PROCESSORS: c_int = 16;
const CAPABILITY_MAJOR: c_int = 75;
const CAPABILITY_MINOR: c_int = 76;
const MAX_SHARED_BYTES: c_int = 97;

/// The properties of a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// The index among the GPUs that the driver lists, which `CUDA_VISIBLE_DEVICES` limits.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// Its compute capability, major and minor.
    pub capability: (u32, u32),
    /// The number of multiprocessors.
    pub processors: u32,
    /// The size of its memory in bytes.
    pub memory_bytes: u64,
    /// The largest shared memory of a block in bytes.
    pub max_shared_bytes: u32,
    /// The driver's version, 1000 times the major number and 10 times the minor.
    pub driver_version: u32,
}

impl DeviceInfo {
    /// Checks that kernels can run on the GPU.
    ///
    /// # Errors
    /// Returns [`Error::OldDevice`] if they cannot.
    pub fn check(&self) -> Result<()> {
        if self.capability >= OLDEST_CAPABILITY {
            return Ok(());
        }
        Err(Error::OldDevice { name: self.name.clone(), capability: self.capability })
    }

    /// Returns the driver's version as text.
    #[must_use]
    pub fn driver(&self) -> String {
        format!("CUDA {}.{}", self.driver_version / 1000, self.driver_version % 1000 / 10)
    }
}

/// Returns all GPUs that the driver lists, including those that are too old.
///
/// ```
/// match aleatron_cuda::devices() {
///     Ok(cards) => cards.iter().for_each(|card| println!("cuda:{}: {}", card.index, card.name)),
///     Err(why) => println!("{why}"),
/// }
/// ```
///
/// # Errors
/// Returns [`Error::NoLibrary`], [`Error::OldDriver`], [`Error::NoSymbol`] and [`Error::NoDevice`],
/// and errors of the driver.
pub fn devices() -> Result<Vec<DeviceInfo>> {
    let driver = driver()?;
    (0..count(driver)?).map(|index| describe(driver, index)).collect()
}

/// Returns the GPU at an index.
pub(super) fn device(index: usize) -> Result<DeviceInfo> {
    let driver = driver()?;
    let count = count(driver)?;
    if index < count { describe(driver, index) } else { Err(Error::UnknownDevice { index, count }) }
}

fn count(driver: &Symbols) -> Result<usize> {
    let mut count = 0;
    // SAFETY: the pointer is valid for the driver's write.
    unsafe { call!(driver, cuDeviceGetCount(&mut count)) }?;
    usize::try_from(count)
        .map_err(|_| Error::Internal { place: "driver::count, negative number of cards" })
}

/// Size of the name of a GPU, including its final zero.
const NAME_BYTES: c_int = 256;

/// Converts a character of C, which is signed on some machines, to a byte.
fn c_char_byte(character: c_char) -> u8 {
    let [byte] = character.to_ne_bytes();
    byte
}

fn describe(driver: &Symbols, index: usize) -> Result<DeviceInfo> {
    let (mut device, mut name, mut bytes, mut version) = (0, [0; NAME_BYTES as usize], 0, 0);
    let location = "driver::describe, number of a card past those that were counted";
    let ordinal = c_int::try_from(index).map_err(|_| Error::Internal { place: location })?;
    // SAFETY: all pointers are valid for the driver's writes; the name's length is passed with it,
    // and the driver ends it with a zero.
    unsafe {
        call!(driver, cuDeviceGet(&mut device, ordinal))?;
        call!(driver, cuDeviceGetName(name.as_mut_ptr(), NAME_BYTES - 1, device))?;
        call!(driver, cuDeviceTotalMem_v2(&mut bytes, device))?;
        call!(driver, cuDriverGetVersion(&mut version))?;
    }
    let attribute = |number: c_int| -> Result<u32> {
        let mut value = 0;
        // SAFETY: as above.
        unsafe { call!(driver, cuDeviceGetAttribute(&mut value, number, device)) }?;
        u32::try_from(value)
            .map_err(|_| Error::Internal { place: "driver::describe, negative attribute" })
    };
    let bytes_of_name = name.map(c_char_byte);
    let location = "driver::describe, name without an end";
    let name = CStr::from_bytes_until_nul(&bytes_of_name)
        .map_err(|_| Error::Internal { place: location })?;
    Ok(DeviceInfo {
        index,
        name: name.to_string_lossy().into_owned(),
        capability: (attribute(CAPABILITY_MAJOR)?, attribute(CAPABILITY_MINOR)?),
        processors: attribute(PROCESSORS)?,
        memory_bytes: bytes as u64,
        max_shared_bytes: attribute(MAX_SHARED_BYTES)?,
        driver_version: u32::try_from(version)
            .map_err(|_| Error::Internal { place: "driver::describe, negative version" })?,
    })
}

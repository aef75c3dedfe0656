//! Settings of the execution, which never change results; and the program.

use crate::argument::{n_bytes, n_threads};
use crate::compute::compute;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::ffi::OsString;

/// The name of the SIMD tier in use: the best of this machine, or the one the environment variable
/// ALEATRON_TIER names.
///
/// Examples
/// --------
/// >>> import aleatron as al
/// >>> x86 = {"avx512-vpopcntdq", "avx512bw", "avx512f", "avx2", "popcnt"}
/// >>> al.simd_tier() in x86 | {"neon", "portable"}
/// True
#[pyfunction]
pub(crate) fn simd_tier(py: Python<'_>) -> PyResult<&'static str> {
    compute(py, &[], aleatron::simd_tier)
}

/// Sets the number of threads; 0 means one per core. There can be eight for each core, and 64 on
/// small machines.
///
/// May be called at any time, from any thread: calls in flight finish on the threads they have.
/// Results do not depend on it.
///
/// Examples
/// --------
/// >>> import aleatron as al
/// >>> al.set_num_threads(2)
/// >>> al.get_num_threads()
/// 2
/// >>> al.set_num_threads(0)
#[pyfunction]
#[pyo3(signature = (n))]
pub(crate) fn set_num_threads(
    py: Python<'_>,
    #[pyo3(from_py_with = n_threads)] n: usize,
) -> PyResult<()> {
    compute(py, &[], || Ok(aleatron::set_num_threads(n)?))
}

/// The number of threads in use, the calling one included.
#[pyfunction]
pub(crate) fn get_num_threads(py: Python<'_>) -> PyResult<usize> {
    compute(py, &[], || Ok(aleatron::get_num_threads()?))
}

/// Sets the size of the cache of random draws in bytes; 0 disables it. The initial size is 64 MiB.
///
/// A call with a seed that an earlier call of the same shape had draws the same random numbers
/// again. From the second such call on they are cached, in 1.5 bytes for each stream bit of the
/// inputs, and encoding takes a third of the time. Results do not depend on it.
///
/// Examples
/// --------
/// >>> import aleatron as al
/// >>> al.set_draw_memory(16 * 2**20)
/// >>> al.get_draw_memory()
/// 16777216
/// >>> al.set_draw_memory(64 * 2**20)
#[pyfunction]
#[pyo3(signature = (n_bytes))]
pub(crate) fn set_draw_memory(
    py: Python<'_>,
    #[pyo3(from_py_with = n_bytes)] n_bytes: usize,
) -> PyResult<()> {
    compute(py, &[], || {
        aleatron::set_draw_memory(n_bytes);
        Ok(())
    })
}

/// Returns the size of the cache of random draws in bytes.
#[pyfunction]
pub(crate) fn get_draw_memory() -> usize {
    aleatron::get_draw_memory()
}

/// A forked child lacks its parent's threads and cannot use its drivers: it starts its
/// own when it needs them.
#[pyfunction]
#[pyo3(name = "_after_fork")]
pub(crate) fn after_fork() {
    crate::interpreter::after_fork();
    aleatron::backend::after_fork();
}

/// Device, name, kind, interface and driver of each GPU that layers can use, the one of
/// `device="gpu"` first.
#[pyfunction]
#[pyo3(name = "_gpus")]
pub(crate) fn gpus(py: Python<'_>) -> PyResult<Vec<[String; 5]>> {
    compute(py, &[], || {
        let mut devices = aleatron::backend::devices();
        // A software adapter is used only when it is named.
        devices.retain(|device| device.is_default || !device.is_software);
        devices.sort_by_key(|device| !device.is_default);
        let facts = |d: aleatron::backend::DeviceInfo| {
            [d.device.to_string(), d.name, d.kind, d.interface, d.driver]
        };
        Ok(devices.into_iter().map(facts).collect())
    })
}

/// Runs the `aleatron` program; `arguments` start with its name, `host` holds the versions it runs
/// with. Returns the exit code.
#[pyfunction]
#[pyo3(name = "_run_program")]
pub(crate) fn run_program(
    py: Python<'_>,
    arguments: Vec<OsString>,
    host: BTreeMap<String, String>,
) -> PyResult<u8> {
    compute(py, &[], || Ok(aleatron_cli::execute_within(&host, arguments)))
}

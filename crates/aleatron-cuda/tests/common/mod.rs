//! Shared test utilities: the GPU under test.
//!
//! The GPU is emulated on the CPU: `tests/driver` is a driver whose devices are emulated, compiled
//! here from the same kernel sources as the PTX. With `ALEATRON_CUDA_TESTS=card` it is the
//! machine's own GPU and driver, which must exist.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]
#![allow(unsafe_code, reason = "the emulated driver is a library that is loaded")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use aleatron_cuda::{ContextOptions, CudaContext};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::ffi::{CString, c_char, c_longlong};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

/// Returns whether the tests run on the machine's own GPU.
pub fn on_card() -> bool {
    std::env::var_os("ALEATRON_CUDA_TESTS").is_some_and(|value| value == "card")
}

/// Compiles the emulated driver, if its sources are newer than the last build.
fn compile() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let files =
        |part: &str| std::fs::read_dir(root.join(part)).unwrap().map(|entry| entry.unwrap().path());
    let sources: Vec<PathBuf> = files("kernels").chain(files("tests/driver")).collect();
    let newest =
        sources.iter().map(|file| file.metadata().unwrap().modified().unwrap()).max().unwrap();
    let library = folder.join("libcuda.so.1");
    if library.metadata().is_ok_and(|library_file| library_file.modified().unwrap() > newest) {
        return library;
    }
    // Under a temporary name first: several tests may compile at a time.
    let unfinished = folder.join(format!("libcuda.{}.so", std::process::id()));
    let status = Command::new("g++")
        .args(["-std=c++17", "-O2", "-shared", "-fPIC", "-pthread", "-Wl,-soname,libcuda.so.1"])
        .args(["-Wno-unknown-pragmas", "-DALL_VARIANTS"])
        .arg(format!("-I{}", root.join("kernels").display()))
        .arg(format!("-I{}", root.join("tests/driver").display()))
        .arg(root.join("tests/driver/driver.cpp"))
        .arg("-o")
        .arg(&unfinished)
        .status()
        .unwrap_or_else(|error| panic!("the emulated driver needs g++: {error}"));
    assert!(status.success(), "the emulated driver does not compile");
    std::fs::rename(&unfinished, &library).unwrap();
    library
}

/// The emulated driver, which replaces `libcuda.so.1`: a loaded library of this name is found
/// before all others.
static EMULATED: LazyLock<Library> = LazyLock::new(|| {
    // SAFETY: the library has no initializers except those of its own constants.
    unsafe { Library::open(Some(compile()), RTLD_NOW | RTLD_GLOBAL) }.unwrap()
});

/// Loads the driver under test.
pub fn driver() {
    if !on_card() {
        LazyLock::force(&EMULATED);
    }
}

/// Changes a setting of the emulated driver.
pub fn set(name: &str, value: i64) {
    let name = CString::new(name).unwrap();
    // SAFETY: the function has this type in `driver.cpp`.
    unsafe {
        let function =
            EMULATED.get::<unsafe extern "C" fn(*const c_char, c_longlong)>(b"on_cpu_set").unwrap();
        function(name.as_ptr(), value);
    }
}

/// Returns how often a function of the emulated driver was called.
pub fn calls(name: &str) -> i64 {
    let name = CString::new(name).unwrap();
    // SAFETY: the function has this type in `driver.cpp`.
    unsafe {
        let function = EMULATED
            .get::<unsafe extern "C" fn(*const c_char) -> c_longlong>(b"on_cpu_calls")
            .unwrap();
        function(name.as_ptr())
    }
}

/// Returns a guard for tests that change settings of the driver, which run one at a time.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    driver();
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens a GPU with separate buffers.
pub fn context() -> Arc<CudaContext> {
    driver();
    CudaContext::open(0, &ContextOptions::default())
        .unwrap_or_else(|error| panic!("no card: {error}"))
}

/// Opens a GPU with a memory limit.
pub fn small_context(bytes: u64) -> Arc<CudaContext> {
    driver();
    let options = ContextOptions { memory_limit: Some(bytes) };
    CudaContext::open(0, &options).unwrap()
}

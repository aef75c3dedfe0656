//! The functions of the driver.
//!
//! They are loaded here instead of called through cudarc's functions: those panic if a driver lacks
//! one, and convert its results to a Rust enum, which a newer driver's may not be.

use crate::error::{Error, OLDEST_DRIVER, Result};
use cudarc::driver::sys::{
    self, CUDA_KERNEL_NODE_PARAMS_v2, CUDA_MEMCPY2D_v2, CUcontext, CUdeviceptr, CUevent,
    CUfunction, CUgraph, CUgraphExec, CUgraphNode, CUmodule, CUstream, CUtensorMap,
};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

/// The result of a successful call.
pub(super) const SUCCESS: c_int = 0;
const OUT_OF_MEMORY: c_int = 2;
const NO_DEVICE: c_int = 100;

/// Results after which a context is lost: the GPU or a kernel on it failed.
const LOST: [c_int; 16] =
    [46, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 999];

macro_rules! symbols {
    ($($name:ident($($argument:ty),* $(,)?);)*) => {
        /// All functions of the driver that are used.
        #[allow(non_snake_case, reason = "the names are the driver's")]
        pub(super) struct Symbols {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl Symbols {
            fn load() -> Result<Self> {
                // SAFETY: the types above are those of the driver's documentation for functions of
                // these names, whose numeric suffixes are the version of their types.
                Ok(Self { $($name: unsafe { symbol(stringify!($name)) }?,)* })
            }
        }
    };
}

symbols! {
    cuCtxPopCurrent_v2(*mut CUcontext);
    cuCtxPushCurrent_v2(CUcontext);
    cuCtxSynchronize();
    cuDeviceGet(*mut c_int, c_int);
    cuDeviceGetAttribute(*mut c_int, c_int, c_int);
    cuDeviceGetCount(*mut c_int);
    cuDeviceGetName(*mut c_char, c_int, c_int);
    cuDevicePrimaryCtxRelease_v2(c_int);
    cuDevicePrimaryCtxRetain(*mut CUcontext, c_int);
    cuDeviceTotalMem_v2(*mut usize, c_int);
    cuDriverGetVersion(*mut c_int);
    cuEventCreate(*mut CUevent, c_uint);
    cuEventDestroy_v2(CUevent);
    cuEventElapsedTime(*mut f32, CUevent, CUevent);
    cuEventRecord(CUevent, CUstream);
    cuEventSynchronize(CUevent);
    cuFuncSetAttribute(CUfunction, c_int, c_int);
    cuGetErrorName(c_int, *mut *const c_char);
    cuGraphAddKernelNode_v2(
        *mut CUgraphNode, CUgraph, *const CUgraphNode, usize, *const CUDA_KERNEL_NODE_PARAMS_v2,
    );
    cuGraphCreate(*mut CUgraph, c_uint);
    cuGraphDestroy(CUgraph);
    cuGraphExecDestroy(CUgraphExec);
    cuGraphExecKernelNodeSetParams_v2(CUgraphExec, CUgraphNode, *const CUDA_KERNEL_NODE_PARAMS_v2);
    cuGraphInstantiateWithFlags(*mut CUgraphExec, CUgraph, u64);
    cuGraphLaunch(CUgraphExec, CUstream);
    cuInit(c_uint);
    cuLaunchKernel(
        CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void, *mut *mut c_void,
    );
    cuMemAlloc_v2(*mut CUdeviceptr, usize);
    cuMemFreeHost(*mut c_void);
    cuMemFree_v2(CUdeviceptr);
    cuMemGetInfo_v2(*mut usize, *mut usize);
    cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
    cuMemcpy2DAsync_v2(*const CUDA_MEMCPY2D_v2, CUstream);
    cuMemcpyDtoHAsync_v2(*mut c_void, CUdeviceptr, usize, CUstream);
    cuMemcpyHtoDAsync_v2(CUdeviceptr, *const c_void, usize, CUstream);
    cuMemsetD32Async(CUdeviceptr, c_uint, usize, CUstream);
    cuModuleGetFunction(*mut CUfunction, CUmodule, *const c_char);
    cuModuleLoadData(*mut CUmodule, *const c_void);
    cuModuleUnload(CUmodule);
    cuPointerGetAttributes(c_uint, *mut c_int, *mut *mut c_void, CUdeviceptr);
    cuStreamBeginCapture_v2(CUstream, c_int);
    cuStreamCreate(*mut CUstream, c_uint);
    cuStreamDestroy_v2(CUstream);
    cuStreamEndCapture(CUstream, *mut CUgraph);
    cuStreamGetCtx(CUstream, *mut CUcontext);
    cuStreamSynchronize(CUstream);
    cuStreamWaitEvent(CUstream, CUevent, c_uint);
    cuTensorMapEncodeTiled(
        *mut CUtensorMap, c_int, c_uint, *mut c_void, *const u64, *const u64, *const c_uint, *const c_uint, c_int, c_int,
        c_int, c_int,
    );
}

/// Loads a function of the library, which must exist.
///
/// # Safety
/// `F` must be the type of a pointer to the function of that name.
unsafe fn symbol<F: Copy>(name: &'static str) -> Result<F> {
    // SAFETY: only called once the library was found; the caller ensures the type.
    match unsafe { sys::culib().get::<F>(name.as_bytes()) } {
        Ok(found) => Ok(*found),
        Err(_) => Err(Error::NoSymbol { symbol: name }),
    }
}

/// Returns the initialized driver.
pub(super) fn driver() -> Result<&'static Symbols> {
    static DRIVER: OnceLock<Result<Symbols>> = OnceLock::new();
    DRIVER.get_or_init(open).as_ref().map_err(Clone::clone)
}

/// Returns the driver if it is already in use: handles of it exist.
pub(super) fn open_driver() -> Option<&'static Symbols> {
    driver().ok()
}

fn open() -> Result<Symbols> {
    // SAFETY: loading the driver's library runs only its initializers. Checked first, since cudarc
    // panics if there is none.
    if !unsafe { sys::is_culib_present() } {
        return Err(Error::NoLibrary);
    }
    // The version is checked first: a driver that is too old also lacks functions, and this error
    // is clearer.
    // SAFETY: the function of this name has this type in every version of the driver.
    let version_of =
        unsafe { symbol::<unsafe extern "C" fn(*mut c_int) -> c_int>("cuDriverGetVersion") }?;
    let mut version = 0;
    // SAFETY: the pointer is valid for the driver's write.
    let answer = unsafe { version_of(&mut version) };
    if let (SUCCESS, Ok(version @ ..OLDEST_DRIVER)) = (answer, u32::try_from(version)) {
        return Err(Error::OldDriver { version });
    }
    let symbols = Symbols::load()?;
    // SAFETY: the only allowed argument is 0.
    match unsafe { (symbols.cuInit)(0) } {
        SUCCESS => Ok(symbols),
        NO_DEVICE => Err(Error::NoDevice),
        code => Err(failure(&symbols, "cuInit", code)),
    }
}

/// Creates the error of a result.
pub(super) fn failure(symbols: &Symbols, call: &'static str, code: c_int) -> Error {
    let mut name = std::ptr::null();
    // SAFETY: the pointer is valid for the driver's write.
    let known = unsafe { (symbols.cuGetErrorName)(code, &mut name) } == SUCCESS && !name.is_null();
    let name = match known {
        // SAFETY: the driver's names are static text.
        true => unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned(),
        false => "an error without a name".to_owned(),
    };
    match code {
        OUT_OF_MEMORY => Error::OutOfMemory { bytes: 0, free: 0 },
        code if LOST.contains(&code) => Error::Lost { message: format!("{call}: {name} ({code})") },
        code => Error::Driver { call, code, name },
    }
}

/// Converts a result to an error.
pub(super) fn check(symbols: &Symbols, call: &'static str, code: c_int) -> Result<()> {
    if code == SUCCESS { Ok(()) } else { Err(failure(symbols, call, code)) }
}

/// Calls a function of the driver by its name, and converts its result to an error.
macro_rules! call {
    ($driver:expr, $name:ident($($argument:expr),* $(,)?)) => {
        $crate::driver::symbols::check($driver, stringify!($name), ($driver.$name)($($argument),*))
    };
}
pub(super) use call;

//! Kernels: compiled once by the driver, looked up by name, launched with their parameters.

use super::context::CudaContext;
use super::stream::Stream;
use super::symbols::{Symbols, call};
use crate::error::{Error, Limit, Result};
use cudarc::driver::sys::{CUfunction, CUmodule, CUtensorMap};
use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::{CString, c_int, c_void};
use std::marker::PhantomData;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The number of the attribute that allows more shared memory than 48 KiB.
const MAX_DYNAMIC_SHARED: c_int = 8;

/// The shared memory of a kernel without that attribute.
const COMMON_SHARED_BYTES: u32 = 48 << 10;

/// The modules of kernels that are compiled together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Module {
    /// For every GPU.
    Sm80,
    /// For Hopper only.
    Sm90a,
}

const PTX: [&str; 2] = [include_str!("../../ptx/sm_80.ptx"), include_str!("../../ptx/sm_90a.ptx")];

/// A kernel by its name in its module, the type of its parameters and the number of threads of a
/// block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kernel<P> {
    name: Cow<'static, str>,
    module: Module,
    threads: u32,
    params: PhantomData<fn(P)>,
}

impl<P: Copy> Kernel<P> {
    /// # Safety
    /// The kernel of that name must take one parameter of the layout of `P`. Tests compare their
    /// sizes.
    const unsafe fn new(name: &'static str, module: Module, threads: u32) -> Self {
        Self { name: Cow::Borrowed(name), module, threads, params: PhantomData }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn threads(&self) -> u32 {
        self.threads
    }
}

/// The number of blocks of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) x: u32,
    pub(crate) y: u32,
}

impl Grid {
    /// Creates a row of blocks.
    pub(crate) fn row(blocks: u64) -> Result<Self> {
        let limit = i32::MAX as u64;
        match u32::try_from(blocks) {
            Ok(x) if blocks <= limit => Ok(Self { x, y: 1 }),
            _ => {
                let actual = u128::from(blocks);
                Err(Error::TooLarge { what: Limit::Blocks, actual, limit: limit.into() })
            }
        }
    }
}

struct LoadedModule(CUmodule);
struct LoadedFunction {
    raw: CUfunction,
    shared_bytes: u32,
}

// SAFETY: handles are numbers to the driver, whose functions may be called from any thread.
unsafe impl Send for LoadedModule {}
// SAFETY: as above.
unsafe impl Sync for LoadedModule {}
// SAFETY: as above.
unsafe impl Send for LoadedFunction {}

/// The modules and functions of a context, loaded on first use.
pub(super) struct Functions {
    sources: Option<[String; 2]>,
    modules: [OnceLock<Result<LoadedModule>>; 2],
    loaded: Mutex<HashMap<String, LoadedFunction>>,
}

impl Functions {
    pub(super) fn new(sources: Option<[String; 2]>) -> Self {
        Self { sources, modules: Default::default(), loaded: Mutex::default() }
    }

    fn module(&self, driver: &Symbols, module: Module) -> Result<CUmodule> {
        let load = || {
            let text =
                self.sources.as_ref().map_or(PTX[module as usize], |texts| &texts[module as usize]);
            let text = CString::new(text).map_err(|_| Error::Driver {
                call: "cuModuleLoadData",
                code: 0,
                name: "the kernels have a zero in their text".to_owned(),
            })?;
            let mut raw = std::ptr::null_mut();
            // SAFETY: the text ends with a zero, and the driver copies it as needed.
            unsafe { call!(driver, cuModuleLoadData(&mut raw, text.as_ptr().cast())) }?;
            Ok(LoadedModule(raw))
        };
        match self.modules[module as usize].get_or_init(load) {
            Ok(module) => Ok(module.0),
            Err(error) => Err(error.clone()),
        }
    }

    /// Returns the function of a kernel, which may use the given shared memory from now on. The
    /// context must be current.
    fn get(
        &self,
        driver: &Symbols,
        name: &str,
        module: Module,
        shared_bytes: u32,
    ) -> Result<CUfunction> {
        let raw_module = self.module(driver, module)?;
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if !loaded.contains_key(name) {
            let location = "driver::Functions::get, zero in the name of a kernel";
            let text = CString::new(name).map_err(|_| Error::Internal { place: location })?;
            let mut raw = std::ptr::null_mut();
            // SAFETY: the module is loaded and the name ends with a zero.
            unsafe { call!(driver, cuModuleGetFunction(&mut raw, raw_module, text.as_ptr())) }?;
            loaded
                .insert(name.to_owned(), LoadedFunction { raw, shared_bytes: COMMON_SHARED_BYTES });
        }
        let location = "driver::Functions::get, kernel that was just loaded";
        let function = loaded.get_mut(name).ok_or(Error::Internal { place: location })?;
        if shared_bytes > function.shared_bytes {
            let shared = c_int::try_from(shared_bytes).map_err(|_| Error::TooLarge {
                what: Limit::Kernel("bytes of shared memory"),
                actual: shared_bytes.into(),
                limit: c_int::MAX.unsigned_abs().into(),
            })?;
            // SAFETY: the function is of a loaded module.
            unsafe { call!(driver, cuFuncSetAttribute(function.raw, MAX_DYNAMIC_SHARED, shared)) }?;
            function.shared_bytes = shared_bytes;
        }
        Ok(function.raw)
    }

    /// Unloads all modules. The context must be current.
    pub(super) fn unload(&self, driver: &Symbols) {
        for module in self.modules.iter().filter_map(|module| module.get()?.as_ref().ok()) {
            // SAFETY: it was loaded once, and no launches of its functions remain.
            let _ = unsafe { (driver.cuModuleUnload)(module.0) };
        }
    }
}

impl CudaContext {
    /// Launches a kernel. Its parameters must refer only to memory that is valid until the stream
    /// has passed the launch.
    pub(crate) fn launch<P: Copy>(
        &self,
        kernel: &Kernel<P>,
        grid: Grid,
        shared_bytes: u32,
        params: &P,
        stream: &Stream,
    ) -> Result<()> {
        if grid.x == 0 || grid.y == 0 {
            return Ok(());
        }
        let _current = self.enter()?;
        let function = self.function(kernel, shared_bytes)?;
        let mut params = [std::ptr::from_ref(params).cast_mut().cast::<c_void>()];
        // SAFETY: the function takes one parameter of this layout, by the contract of
        // `Kernel::new`, and the driver copies it.
        self.note(unsafe {
            call!(
                self.driver,
                cuLaunchKernel(
                    function,
                    grid.x,
                    grid.y,
                    1,
                    kernel.threads,
                    1,
                    1,
                    shared_bytes,
                    stream.raw(),
                    params.as_mut_ptr(),
                    std::ptr::null_mut(),
                )
            )
        })
    }

    /// Returns the function of a kernel, which may use the given shared memory from now on. The
    /// context must be current.
    pub(super) fn function<P>(&self, kernel: &Kernel<P>, shared_bytes: u32) -> Result<CUfunction> {
        self.note(self.functions.get(self.driver, &kernel.name, kernel.module, shared_bytes))
    }

    /// Compiles the kernels of a module, if necessary.
    pub(crate) fn load(&self, module: Module) -> Result<()> {
        let _current = self.enter()?;
        self.note(self.functions.module(self.driver, module)).map(drop)
    }
}

/// Describes rows of bytes to the copy engine: boxes of 128 bytes by some rows, swizzled.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct TensorMap(CUtensorMap);

impl std::fmt::Debug for TensorMap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TensorMap")
    }
}

impl CudaContext {
    /// Creates the map of `rows` rows of `row_bytes` bytes at an address, which must be aligned to
    /// 16 bytes.
    pub(crate) fn tensor_map(
        &self,
        address: u64,
        row_bytes: u64,
        rows: u64,
        box_rows: u32,
    ) -> Result<TensorMap> {
        // Numbers of the driver's enums.
        let (bytes, plain, swizzle_128, promote_256, zeros) = (0, 0, 3, 3, 0);
        let mut map = TensorMap(CUtensorMap { opaque: [0; 16] });
        let (sizes, strides) = ([row_bytes, rows], [row_bytes]);
        let (box_sizes, steps) = ([128, box_rows], [1, 1]);
        let _current = self.enter()?;
        // SAFETY: the map is aligned as required by the driver, and every array has as many numbers
        // as two dimensions need. The address is not dereferenced here; kernels copy no more than
        // the map describes, which `View::check` has compared.
        unsafe {
            call!(
                self.driver,
                cuTensorMapEncodeTiled(
                    &mut map.0,
                    bytes,
                    2,
                    address as *mut c_void,
                    sizes.as_ptr(),
                    strides.as_ptr(),
                    box_sizes.as_ptr(),
                    steps.as_ptr(),
                    plain,
                    swizzle_128,
                    promote_256,
                    zeros,
                )
            )
        }?;
        Ok(map)
    }
}

/// The kernels, each with the type of its parameters.
pub(crate) mod kernels {
    use super::{Cow, Kernel, Module, PhantomData};
    use crate::encode::ENCODE_THREADS;
    use crate::kernels::{
        ComplementParams, ConvTableParams, DirectParams, EncodeParams, FewParams, FinishParams,
        FinishPatchesParams, GateParams, GatherParams, OnesParams, RowOnesParams, SequenceParams,
        SignTermsParams, SparseParams, TableCountsParams, TableRowsParams, ThresholdParams,
        TileParams, WgmmaParams,
    };
    use crate::plan::few::FewKernel;
    use crate::program::params::{
        AccumulateParams, CombineParams, DecodeParams, GatherElementsParams, MapParams, PoolParams,
        PoolThresholdsParams, QuantizeParams, ReportParams, RequantizeParams,
    };

    macro_rules! kernels {
        ($($constant:ident = $name:literal($params:ty), $threads:expr;)*) => {
            $(
                // SAFETY: `kernels/*.cu` declares the kernel with the structure of that name, of
                // which the Rust type is the twin, field by field; a test compares their sizes.
                pub(crate) const $constant: Kernel<$params> = unsafe { Kernel::new($name, Module::Sm80, $threads) };
            )*

            /// Returns name and size of the parameters of each kernel, for tests.
            #[cfg(test)]
            pub(crate) fn sizes() -> Vec<(&'static str, usize)> {
                vec![$(($name, size_of::<$params>())),*]
            }
        };
    }

    kernels! {
        THRESHOLDS = "thresholds"(ThresholdParams), 256;
        ENCODE_BOTH_SIGNS = "encode_both_signs"(EncodeParams), ENCODE_THREADS;
        ENCODE_SEQUENCE = "encode_sequence"(SequenceParams), 256;
        FINISH_32 = "finish_32"(FinishParams), 256;
        FINISH_SIGNED_32 = "finish_signed_32"(FinishParams), 256;
        FINISH_64 = "finish_64"(FinishParams), 256;
        ROW_ONES_32 = "row_ones_32"(RowOnesParams), 256;
        ROW_ONES_64 = "row_ones_64"(RowOnesParams), 256;
        SPARSE = "sparse"(SparseParams), 128;
        TABLE_ROWS = "table_rows"(TableRowsParams), 128;
        TABLE_COUNTS = "table_counts"(TableCountsParams), 256;
        CONV_TABLE = "conv_table"(ConvTableParams), 256;
        GATHER_2 = "gather_2"(GatherParams), 256;
        GATHER_4 = "gather_4"(GatherParams), 256;
        FINISH_PATCHES = "finish_patches"(FinishPatchesParams), 256;
        DIRECT = "direct"(DirectParams), 256;
        COMPLEMENT_1 = "complement_1"(ComplementParams), 256;
        COMPLEMENT_4 = "complement_4"(ComplementParams), 256;
        SIGN_TERMS = "sign_terms"(SignTermsParams), 256;
        GATE = "gate"(GateParams), 256;
        ONES = "ones"(OnesParams), 256;
        STAGE_DECODE = "stage_decode"(DecodeParams), 256;
        STAGE_ACCUMULATE = "stage_accumulate"(AccumulateParams), 256;
        STAGE_MAP = "stage_map"(MapParams), 256;
        STAGE_COMBINE = "stage_combine"(CombineParams), 256;
        STAGE_GATHER = "stage_gather"(GatherElementsParams), 256;
        STAGE_POOL = "stage_pool"(PoolParams), 256;
        STAGE_POOL_THRESHOLDS = "stage_pool_thresholds"(PoolThresholdsParams), 256;
        STAGE_REPORT = "stage_report"(ReportParams), 256;
        STAGE_QUANTIZE = "stage_quantize"(QuantizeParams), 256;
        STAGE_REQUANTIZE = "stage_requantize"(RequantizeParams), 256;
    }

    /// Creates a variant of a kernel by its name.
    const fn variant<P>(name: String, module: Module, threads: u32) -> Kernel<P> {
        Kernel { name: Cow::Owned(name), module, threads, params: PhantomData }
    }

    /// Returns the encoder that computes the given number of words per thread.
    pub(crate) fn encode(words: u64) -> Kernel<EncodeParams> {
        variant(format!("encode_{words}"), Module::Sm80, ENCODE_THREADS)
    }

    /// Returns a kernel of few samples.
    pub(crate) fn few(kernel: FewKernel) -> Kernel<FewParams> {
        variant(kernel.name(), Module::Sm80, 256)
    }

    /// Returns a kernel of tiles for any GPU, by the rest of its name.
    pub(crate) fn tile_mma(shape: &str, threads: u32) -> Kernel<TileParams> {
        variant(format!("tile_mma_{shape}"), Module::Sm80, threads)
    }

    /// Returns a kernel of tiles for Hopper, by the rest of its name.
    pub(crate) fn tile_wgmma(shape: &str, threads: u32) -> Kernel<WgmmaParams> {
        variant(format!("tile_wgmma_{shape}"), Module::Sm90a, threads)
    }
}

#[cfg(test)]
mod tests {
    use super::{PTX, kernels};
    use crate::kernels::{EncodeParams, FewParams, TileParams, WgmmaParams};
    use crate::plan::few::FewKernel;
    use crate::plan::tiles::TileShape;
    use std::collections::BTreeMap;

    /// Returns the size of the parameter of each kernel in the PTX.
    fn compiled() -> BTreeMap<String, usize> {
        let mut sizes = BTreeMap::new();
        for text in PTX {
            for entry in text.split(".visible .entry ").skip(1) {
                let (name, rest) = entry.split_once('(').unwrap();
                let (params, _) = rest.split_once(')').unwrap();
                assert_eq!(params.matches(".param").count(), 1, "{name}");
                let size = params.rsplit_once('[').unwrap().1.split_once(']').unwrap().0;
                sizes.insert(name.to_owned(), size.parse().unwrap());
            }
        }
        sizes
    }

    #[test]
    fn parameter_sizes_match_the_ptx() {
        let mut expected: BTreeMap<String, usize> =
            kernels::sizes().into_iter().map(|(name, size)| (name.to_owned(), size)).collect();
        expected.insert(kernels::encode(8).name().to_owned(), size_of::<EncodeParams>());
        for (n_samples, slice_bytes) in [(1, 1024), (1, 2048), (8, 2048)] {
            expected.insert(FewKernel::best(n_samples, slice_bytes).name(), size_of::<FewParams>());
        }
        for shape in TileShape::in_use() {
            let (name, size) = if shape.needs_hopper() {
                (kernels::tile_wgmma(&shape.name(), 0).name().to_owned(), size_of::<WgmmaParams>())
            } else {
                (kernels::tile_mma(&shape.name(), 0).name().to_owned(), size_of::<TileParams>())
            };
            expected.insert(name, size);
        }
        assert_eq!(compiled(), expected);
    }

    /// A driver rejects PTX that is newer than itself.
    #[test]
    fn ptx_version_is_supported_by_drivers_of_cuda_12() {
        for text in PTX {
            assert!(text.contains("\n.version 8.0\n"), "{}", &text[..300]);
        }
        assert!(PTX[0].contains("\n.target sm_80\n") && PTX[1].contains("\n.target sm_90a\n"));
    }
}

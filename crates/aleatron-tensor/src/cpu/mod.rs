//! Operations on the CPU, one file each; `gpu/` has the same files.
//!
//! Every operation accepts any view and returns a new contiguous storage. Results do not depend on
//! the number of threads, nor on the tier, except for matrix products of tiers that do not fuse
//! multiplications with additions.

pub(crate) mod assemble;
pub(crate) mod attention;
pub(crate) mod cast;
pub(crate) mod conv;
pub(crate) mod conv_gradient;
pub(crate) mod elementwise;
pub(crate) mod gather;
pub(crate) mod gemm;
pub(crate) mod matmul;
pub(crate) mod parallel;
pub(crate) mod pool;
pub(crate) mod pool_gradient;
pub(crate) mod reduce;
pub(crate) mod resize;
pub(crate) mod scan;
pub(crate) mod scatter;
mod scratch;
pub(crate) mod simd;
pub(crate) mod sort;

use std::sync::Arc;

use crate::dtype::DType;
use crate::error::Result;
use crate::layout::Layout;
use crate::storage::{CpuStorage, HostBuffer};

/// A view of a storage of the host.
#[derive(Debug, Clone)]
pub(crate) struct CpuView {
    pub(crate) storage: Arc<CpuStorage>,
    pub(crate) layout: Layout,
}

impl PartialEq for CpuView {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.storage, &other.storage) && self.layout == other.layout
    }
}

/// Returns a new storage, filled by `fill`.
pub(crate) fn filled(
    dtype: DType,
    len: usize,
    fill: impl FnOnce(&mut HostBuffer) -> Result<()>,
) -> Result<CpuStorage> {
    let mut buffer = HostBuffer::for_elements(dtype, len)?;
    if len > 0 {
        fill(&mut buffer)?;
    }
    Ok(CpuStorage::new(dtype, len, buffer))
}

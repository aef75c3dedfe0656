//! Measured peak bandwidth of a device's memory, as the reference for kernels.

use std::borrow::Cow;
use std::sync::Arc;

use crate::capability::Capabilities;
use crate::context::GpuContext;
use crate::error::Result;
use crate::kernel::{Access, Kernel};
use crate::pipeline::grid;
use crate::profile::{ProfileRow, Profiler};
use crate::size::{host_size, size_u32};

/// The kernel that reads memory, or copies it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ProbeKernel;

impl Kernel for ProbeKernel {
    fn name(&self) -> Cow<'static, str> {
        "probe".into()
    }

    fn source(&self, _: Capabilities) -> Cow<'static, str> {
        include_str!("shaders/probe.wgsl").into()
    }

    fn bindings(&self) -> Cow<'static, [Access]> {
        Cow::Borrowed(&[Access::Read, Access::ReadWrite])
    }

    fn immediate_bytes(&self) -> usize {
        4
    }
}

/// Vectors of one workgroup of `probe.wgsl`.
const GROUP_VECTORS: u64 = 2048;

/// The bandwidth of a device's memory, in bytes per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bandwidth {
    /// The bandwidth of reads.
    pub read: f64,
    /// The bandwidth of copies, counting reads and writes.
    pub copy: f64,
}

impl Bandwidth {
    /// Measures both over `bytes` of memory, the best of several runs.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`](crate::Error::Unsupported) without timestamps, and errors of
    /// the device.
    pub fn measure(context: &Arc<GpuContext>, bytes: u64) -> Result<Self> {
        // Whole workgroups, and at least one; below 2^28, since bindings are below 4 GiB.
        let n =
            (bytes.min(context.max_binding_bytes()) / 16 / GROUP_VECTORS).max(1) * GROUP_VECTORS;
        let (len, n_vectors) = (host_size(n), size_u32(n, "vectors of the memory to measure")?);
        let source = context.buffer::<[u32; 4]>(len)?;
        let target = context.buffer::<[u32; 4]>(len)?;
        let mut profiler = Profiler::new(context)?;
        let mut best = |write: bool, moved: u64| -> Result<f64> {
            let pipeline = context.pipeline(&ProbeKernel, &[("WRITE", write.into())])?;
            let bound = context.bind(&pipeline, &[source.view(), target.view()])?;
            let groups = grid(n / GROUP_VECTORS, context.info().max_workgroups)?;
            let mut rate = 0f64;
            for _ in 0..6 {
                profiler.reset();
                let mut recorder = context.recorder(Some(&mut profiler))?;
                recorder.dispatch(&bound, &n_vectors, groups, moved)?;
                recorder.submit()?;
                profiler.collect()?;
                rate = profiler.rows().iter().map(ProfileRow::bandwidth).fold(rate, f64::max);
            }
            Ok(rate)
        };
        Ok(Self { read: best(false, 16 * n)?, copy: best(true, 32 * n)? })
    }
}

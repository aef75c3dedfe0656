//! Work that is recorded once and repeated: launching it again costs one call, however many steps
//! it has.

use super::context::CudaContext;
use super::launch::{Grid, Kernel};
use super::stream::Stream;
use super::symbols::{call, open_driver};
use crate::error::Result;
use cudarc::driver::sys::{CUDA_KERNEL_NODE_PARAMS_v2, CUgraph, CUgraphExec, CUgraphNode};
use std::ffi::c_void;
use std::sync::Arc;

/// Other threads may do what they like while this one records.
const THREAD_LOCAL: i32 = 1;

/// Recorded work.
#[derive(Debug)]
pub(crate) struct Graph {
    context: Arc<CudaContext>,
    raw: CUgraphExec,
    /// What `raw` was made of.
    steps: CUgraph,
}

// SAFETY: handles are numbers to the driver; the graph is launched by one thread at a time, which
// holds the buffers it uses.
unsafe impl Send for Graph {}

impl Graph {
    /// Records the work that `give` gives to a stream; none of it is done yet. What it reaches must
    /// live as long as the graph.
    pub(crate) fn record(stream: &Stream, give: impl FnOnce() -> Result<()>) -> Result<Self> {
        let context = stream.context();
        let _current = context.enter()?;
        let mut graph = Self::empty(context);
        // SAFETY: the stream is alive.
        let begun =
            unsafe { call!(context.driver, cuStreamBeginCapture_v2(stream.raw(), THREAD_LOCAL)) };
        context.note(begun)?;
        let given = give();
        // SAFETY: the stream records; the pointer is that of a handle for the driver to write to.
        let ended =
            unsafe { call!(context.driver, cuStreamEndCapture(stream.raw(), &mut graph.steps)) };
        given.and(context.note(ended))?;
        graph.instantiate()?;
        Ok(graph)
    }

    fn empty(context: &Arc<CudaContext>) -> Self {
        Self {
            context: Arc::clone(context),
            raw: std::ptr::null_mut(),
            steps: std::ptr::null_mut(),
        }
    }

    /// Makes what runs of the steps. The context must be current.
    fn instantiate(&mut self) -> Result<()> {
        let context = &self.context;
        // SAFETY: the steps are there; the pointer is that of a handle for the driver to write to.
        context.note(unsafe {
            call!(context.driver, cuGraphInstantiateWithFlags(&mut self.raw, self.steps, 0))
        })
    }

    /// Gives the recorded work to a stream.
    pub(crate) fn launch(&self, stream: &Stream) -> Result<()> {
        let _current = self.context.enter()?;
        // SAFETY: graph and stream are alive.
        self.context
            .note(unsafe { call!(self.context.driver, cuGraphLaunch(self.raw, stream.raw())) })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if let (Ok(_current), Some(driver)) = (self.context.enter(), open_driver()) {
            // SAFETY: both were made by this, where they are there, and are not used again.
            unsafe {
                if !self.raw.is_null() {
                    let _ = (driver.cuGraphExecDestroy)(self.raw);
                }
                if !self.steps.is_null() {
                    let _ = (driver.cuGraphDestroy)(self.steps);
                }
            }
        }
    }
}

/// A kernel that is launched again and again with as many blocks. As a graph of one step it starts
/// sooner than by a launch of its own, and its parameters are handed over only where they are
/// others than before.
#[derive(Debug)]
pub(crate) struct RepeatedLaunch<P> {
    kernel: Kernel<P>,
    grid: Grid,
    shared_bytes: u32,
    params: P,
    graph: Graph,
    node: CUgraphNode,
}

// SAFETY: as for `Graph`; the node is a part of it.
unsafe impl<P: Send> Send for RepeatedLaunch<P> {}

impl<P: Copy + PartialEq> RepeatedLaunch<P> {
    /// A launch with its first parameters, which is not made yet.
    pub(crate) fn new(
        context: &Arc<CudaContext>,
        kernel: Kernel<P>,
        grid: Grid,
        shared_bytes: u32,
        params: &P,
    ) -> Result<Self> {
        let _current = context.enter()?;
        let (mut graph, mut node) = (Graph::empty(context), std::ptr::null_mut());
        // SAFETY: the pointer is that of a handle for the driver to write to.
        context.note(unsafe { call!(context.driver, cuGraphCreate(&mut graph.steps, 0)) })?;
        with_step(context, &kernel, grid, shared_bytes, params, |step| {
            // SAFETY: the graph is new and has no other steps; the driver copies what describes
            // this one.
            unsafe {
                call!(
                    context.driver,
                    cuGraphAddKernelNode_v2(&mut node, graph.steps, std::ptr::null(), 0, step)
                )
            }
        })?;
        graph.instantiate()?;
        Ok(Self { kernel, grid, shared_bytes, params: *params, graph, node })
    }

    /// Whether it is of this kernel, with as many blocks and as much shared memory.
    pub(crate) fn is_of(&self, kernel: &Kernel<P>, grid: Grid, shared_bytes: u32) -> bool {
        (&self.kernel, self.grid, self.shared_bytes) == (kernel, grid, shared_bytes)
    }

    /// Launches the kernel. Its parameters must reach nothing but memory that is there until the
    /// stream has come past the launch.
    pub(crate) fn launch(&mut self, params: &P, stream: &Stream) -> Result<()> {
        if self.params != *params {
            let context = stream.context();
            let _current = context.enter()?;
            with_step(context, &self.kernel, self.grid, self.shared_bytes, params, |step| {
                // SAFETY: the node is that of the graph, which is alive; the driver copies what
                // describes the step.
                unsafe {
                    call!(
                        context.driver,
                        cuGraphExecKernelNodeSetParams_v2(self.graph.raw, self.node, step)
                    )
                }
            })?;
            self.params = *params;
        }
        self.graph.launch(stream)
    }
}

/// Hands a launch to `take` as the driver has it described. The context must be current.
fn with_step<P: Copy>(
    context: &CudaContext,
    kernel: &Kernel<P>,
    grid: Grid,
    shared_bytes: u32,
    params: &P,
    take: impl FnOnce(*const CUDA_KERNEL_NODE_PARAMS_v2) -> Result<()>,
) -> Result<()> {
    let mut params = [std::ptr::from_ref(params).cast_mut().cast::<c_void>()];
    let step = CUDA_KERNEL_NODE_PARAMS_v2 {
        func: context.function(kernel, shared_bytes)?,
        gridDimX: grid.x,
        gridDimY: grid.y,
        gridDimZ: 1,
        blockDimX: kernel.threads(),
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: shared_bytes,
        kernelParams: params.as_mut_ptr(),
        extra: std::ptr::null_mut(),
        kern: std::ptr::null_mut(),
        ctx: std::ptr::null_mut(),
    };
    context.note(take(&step))
}

//! Graphs of recorded work: launching one costs a single call, however many steps it has.

use super::context::CudaContext;
use super::launch::{Grid, Kernel};
use super::stream::Stream;
use super::symbols::{call, open_driver};
use crate::error::Result;
use cudarc::driver::sys::{CUDA_KERNEL_NODE_PARAMS_v2, CUgraph, CUgraphExec, CUgraphNode};
use std::ffi::c_void;
use std::sync::Arc;

/// Other threads are unaffected while this one records.
const THREAD_LOCAL: i32 = 1;

/// Recorded work.
#[derive(Debug)]
pub(crate) struct Graph {
    context: Arc<CudaContext>,
    raw: CUgraphExec,
    /// The graph that `raw` was instantiated from.
    steps: CUgraph,
}

// SAFETY: handles are numbers to the driver; the graph is launched by one thread at a time, which
// holds the buffers it uses.
unsafe impl Send for Graph {}

impl Graph {
    /// Records the work that `give` enqueues on a stream, without running it. The memory that it
    /// accesses must live as long as the graph.
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

    /// Instantiates the steps. The context must be current.
    fn instantiate(&mut self) -> Result<()> {
        let context = &self.context;
        // SAFETY: the steps are there; the pointer is that of a handle for the driver to write to.
        context.note(unsafe {
            call!(context.driver, cuGraphInstantiateWithFlags(&mut self.raw, self.steps, 0))
        })
    }

    /// Enqueues the recorded work on a stream.
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
            // SAFETY: both were created here, if present, and are not used again.
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

/// A kernel that is launched repeatedly with the same grid. As a graph of one step it starts sooner
/// than by a separate launch, and its parameters are updated only if they have changed.
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
    /// Creates a launch with its first parameters, without launching it.
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
            // SAFETY: the graph is new and has no other steps; the driver copies the description of
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

    /// Returns whether it is of this kernel, with the same grid and shared memory.
    pub(crate) fn is_of(&self, kernel: &Kernel<P>, grid: Grid, shared_bytes: u32) -> bool {
        (&self.kernel, self.grid, self.shared_bytes) == (kernel, grid, shared_bytes)
    }

    /// Launches the kernel. Its parameters must refer only to memory that is valid until the stream
    /// has passed the launch.
    pub(crate) fn launch(&mut self, params: &P, stream: &Stream) -> Result<()> {
        if self.params != *params {
            let context = stream.context();
            let _current = context.enter()?;
            with_step(context, &self.kernel, self.grid, self.shared_bytes, params, |step| {
                // SAFETY: the node is that of the graph, which is alive; the driver copies the
                // description of the step.
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

/// Passes a launch to `take` in the driver's form. The context must be current.
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

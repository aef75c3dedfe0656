//! Work that is recorded once and repeated: launching it again costs one call, however many steps it has.

use super::context::CudaContext;
use super::stream::Stream;
use super::symbols::{call, open_driver};
use crate::error::Result;
use cudarc::driver::sys::{CUgraph, CUgraphExec};
use std::sync::Arc;

/// Other threads may do what they like while this one records.
const THREAD_LOCAL: i32 = 1;

/// Recorded work.
#[derive(Debug)]
pub(crate) struct Graph {
    context: Arc<CudaContext>,
    raw: CUgraphExec,
}

// SAFETY: handles are numbers to the driver; the graph is launched by one thread at a time, which holds the buffers it uses.
unsafe impl Send for Graph {}

impl Graph {
    /// Records the work that `give` gives to a stream; none of it is done yet. What it reaches must live as long as the graph.
    pub(crate) fn record(stream: &Stream, give: impl FnOnce() -> Result<()>) -> Result<Self> {
        let context = stream.context();
        let _current = context.enter()?;
        let driver = context.driver;
        // SAFETY: the stream is alive.
        context.note(unsafe { call!(driver, cuStreamBeginCapture_v2(stream.raw(), THREAD_LOCAL)) })?;
        let given = give();
        let mut graph: CUgraph = std::ptr::null_mut();
        // SAFETY: the stream records; the pointer is that of a handle for the driver to write to.
        let ended = unsafe { call!(driver, cuStreamEndCapture(stream.raw(), &mut graph)) };
        let mut raw = std::ptr::null_mut();
        let made = given.and(context.note(ended)).and_then(|()| {
            // SAFETY: the graph was just made; the pointer is that of a handle for the driver to write to.
            context.note(unsafe { call!(driver, cuGraphInstantiateWithFlags(&mut raw, graph, 0)) })
        });
        if !graph.is_null() {
            // SAFETY: it was made above, and what runs is a copy of it.
            let _ = unsafe { (driver.cuGraphDestroy)(graph) };
        }
        made.map(|()| Self { context: Arc::clone(context), raw })
    }

    /// Gives the recorded work to a stream.
    pub(crate) fn launch(&self, stream: &Stream) -> Result<()> {
        let _current = self.context.enter()?;
        // SAFETY: graph and stream are alive.
        self.context.note(unsafe { call!(self.context.driver, cuGraphLaunch(self.raw, stream.raw())) })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if let (Ok(_current), Some(driver)) = (self.context.enter(), open_driver()) {
            // SAFETY: it was made by this, and is not used again.
            let _ = unsafe { (driver.cuGraphExecDestroy)(self.raw) };
        }
    }
}

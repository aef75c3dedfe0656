//! Waiting for asynchronous work. Everything that can be awaited here works in any executor:
//! [`PendingValues`](crate::PendingValues), and
//! [`GpuCommandBatch::execute`](crate::compat::trueno::GpuCommandBatch::execute).

use std::future::Future;

/// Runs a future on this thread until it is done.
pub fn block_on<F: Future>(future: F) -> F::Output {
    pollster::block_on(future)
}

/// Returns whether a thread can wait: not in a browser.
#[must_use]
pub fn sync_available() -> bool {
    cfg!(not(target_arch = "wasm32"))
}

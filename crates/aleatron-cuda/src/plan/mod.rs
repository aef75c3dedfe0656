//! Plans that divide work to fit a GPU: plain arithmetic, without a device.
//!
//! `rows.rs` divides rows of streams into parts, `patches.rs` the positions of a convolution into
//! chunks, `tiles.rs` chooses a kernel for a batch and its grid, `few.rs` the grid for a few
//! samples, `memory.rs` the residency of weights.

pub(crate) mod few;
pub(crate) mod memory;
pub(crate) mod patches;
pub(crate) mod rows;
pub(crate) mod tiles;

//! How work is cut to fit a card: plain arithmetic, without one.
//!
//! `rows.rs` cuts rows of streams into parts, `patches.rs` the positions of a convolution into
//! pieces, `tiles.rs` chooses a kernel for a batch and its grid, `few.rs` the grid for a few
//! samples, `memory.rs` what stays on the card.

pub(crate) mod few;
pub(crate) mod memory;
pub(crate) mod patches;
pub(crate) mod rows;
pub(crate) mod tiles;

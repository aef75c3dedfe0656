//! Views and tiles: descriptions of memory that kernels use, and reductions of tiles with any
//! operation.
//!
//! A [`TensorView`] describes up to four axes of some memory; [`TensorView::apply`] creates this
//! view of a tensor, which every operation accepts. A [`PartitionView`] cuts it into tiles.
//! [`tiled_reduce_2d`] and similar functions fold matrices tile by tile, on the device of the
//! matrix.

mod partition;
mod reduce;
mod view;

pub use partition::{PartitionView, TileInfo, Tiles};
pub use reduce::{
    MaxOp, MinOp, ReduceOp, SumOp, tiled_max_2d, tiled_min_2d, tiled_reduce_2d,
    tiled_reduce_partial, tiled_sum_2d,
};
pub use view::{MemoryLayout, TensorView};

/// The sides of a tile of a matrix.
pub const TILE_SIZE: usize = 16;

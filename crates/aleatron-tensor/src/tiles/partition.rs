//! Memory cut into tiles.

use super::TensorView;
use crate::dtype::Element;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// A tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TileInfo {
    /// The index of the tile along each axis.
    pub tile_idx: [usize; 4],
    /// The first element of the tile.
    pub start: [usize; 4],
    /// The sizes of the tile, which may be smaller at the end of an axis.
    pub size: [usize; 4],
    /// Whether the tile is smaller than others.
    pub is_edge: bool,
}

/// A [`TensorView`] cut into tiles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionView<T = f32> {
    tensor: TensorView<T>,
    tile: [usize; 4],
}

impl<T: Element> PartitionView<T> {
    /// Cuts a view into tiles of a shape.
    ///
    /// # Errors
    /// [`Error::Argument`] for a tile without elements.
    pub fn new(tensor: TensorView<T>, tile: [usize; 4]) -> Result<Self> {
        if tile.contains(&0) {
            return Err(Error::argument("partition", "tile", tile, "it must have elements"));
        }
        Ok(Self { tensor, tile })
    }

    /// Cuts matrices into tiles.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn new_2d(tensor: TensorView<T>, rows: usize, columns: usize) -> Result<Self> {
        Self::new(tensor, [1, 1, rows, columns])
    }

    /// Returns the partitioned view.
    #[must_use]
    pub fn tensor(&self) -> &TensorView<T> {
        &self.tensor
    }

    /// Returns the shape of a tile.
    #[must_use]
    pub fn tile_shape(&self) -> [usize; 4] {
        self.tile
    }

    /// Returns the number of tiles along each axis.
    #[must_use]
    pub fn tile_count(&self) -> [usize; 4] {
        let shape = self.tensor.shape();
        std::array::from_fn(|axis| shape[axis].div_ceil(self.tile[axis]))
    }

    /// Returns the number of tiles.
    #[must_use]
    pub fn total_tiles(&self) -> usize {
        self.tile_count().iter().product()
    }

    /// Returns the number of elements of a whole tile.
    #[must_use]
    pub fn elements_per_tile(&self) -> usize {
        self.tile.iter().fold(1, |product, &size| product.saturating_mul(size))
    }

    /// Returns whether all sides of tiles are powers of two.
    #[must_use]
    pub fn is_power_of_two_tiles(&self) -> bool {
        self.tile.iter().all(|size| size.is_power_of_two())
    }

    /// Returns a workgroup size for a tile: its last two sides, at most 256 threads together.
    #[must_use]
    pub fn recommended_workgroup_size(&self) -> (u32, u32, u32) {
        let columns = self.tile[3].clamp(1, 256);
        (columns as u32, (self.tile[2].clamp(1, 256)).min(256 / columns).max(1) as u32, 1)
    }

    /// Returns a tile; `None` past the last.
    #[must_use]
    pub fn get_tile(&self, tile_idx: [usize; 4]) -> Option<TileInfo> {
        let (counts, shape) = (self.tile_count(), self.tensor.shape());
        if tile_idx.iter().zip(counts).any(|(&at, count)| at >= count) {
            return None;
        }
        let start: [usize; 4] = std::array::from_fn(|axis| tile_idx[axis] * self.tile[axis]);
        let size: [usize; 4] =
            std::array::from_fn(|axis| self.tile[axis].min(shape[axis] - start[axis]));
        Some(TileInfo { tile_idx, start, size, is_edge: size != self.tile })
    }

    /// Returns the memory of a tile.
    ///
    /// # Errors
    /// [`Error::Argument`] past the last tile, and for tiled memory.
    pub fn get_tile_view(&self, tile_idx: [usize; 4]) -> Result<TensorView<T>> {
        let refused = || Error::argument("partition", "tile", tile_idx, "which is out of range");
        let info = self.get_tile(tile_idx).ok_or_else(refused)?;
        let mut view = self.tensor.clone();
        for axis in 0..4 {
            view = view.slice_dim(axis, info.start[axis]..info.start[axis] + info.size[axis])?;
        }
        Ok(view)
    }

    /// Returns a view of one tile of a tensor.
    ///
    /// # Errors
    /// As [`Self::get_tile_view`] and [`TensorView::apply`].
    pub fn tile_of(&self, tensor: &Tensor, tile_idx: [usize; 4]) -> Result<Tensor> {
        self.get_tile_view(tile_idx)?.apply(tensor)
    }

    /// Iterates over all tiles in row-major order.
    #[must_use]
    pub fn iter_tiles(&self) -> Tiles<'_, T> {
        Tiles { partition: self, next: 0, total: self.total_tiles() }
    }
}

/// An iterator over the tiles of a partition.
#[derive(Debug, Clone)]
pub struct Tiles<'a, T> {
    partition: &'a PartitionView<T>,
    next: usize,
    total: usize,
}

impl<T: Element> Iterator for Tiles<'_, T> {
    type Item = TileInfo;

    fn next(&mut self) -> Option<TileInfo> {
        if self.next >= self.total {
            return None;
        }
        let counts = self.partition.tile_count();
        let (mut left, mut at) = (self.next, [0; 4]);
        for axis in (0..4).rev() {
            at[axis] = left % counts[axis];
            left /= counts[axis];
        }
        self.next += 1;
        self.partition.get_tile(at)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.total - self.next.min(self.total);
        (left, Some(left))
    }
}

impl<T: Element> ExactSizeIterator for Tiles<'_, T> {}

//! Views of up to four axes of some memory.

use std::marker::PhantomData;
use std::ops::Range;

use crate::dtype::Element;
use crate::error::{Error, RankNeeded, Result};
use crate::layout::Layout;
use crate::tensor::Tensor;

/// The order of elements in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum MemoryLayout {
    /// Row by row.
    #[default]
    RowMajor,
    /// Column by column: the first axis varies fastest.
    ColumnMajor,
    /// Tile by tile over the last two axes, row by row within a tile.
    Tiled {
        /// The sides of a tile.
        tile_size: [usize; 2],
    },
}

/// A description of memory: the sizes and strides of four axes and the offset of the first element.
/// Missing leading axes have size 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorView<T = f32> {
    pub(super) layout: Layout,
    memory: MemoryLayout,
    element: PhantomData<T>,
}

fn four(shape: &[usize]) -> [usize; 4] {
    let mut all = [1; 4];
    let missing = 4 - shape.len().min(4);
    all[missing..].copy_from_slice(&shape[..4 - missing]);
    all
}

impl<T: Element> TensorView<T> {
    /// Describes row-major memory of a shape.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if its elements cannot be counted.
    pub fn new(shape: [usize; 4]) -> Result<Self> {
        Ok(Self {
            layout: Layout::contiguous(&shape)?,
            memory: MemoryLayout::RowMajor,
            element: PhantomData,
        })
    }

    /// Describes a row of elements.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn new_1d(n: usize) -> Result<Self> {
        Self::new(four(&[n]))
    }

    /// Describes a matrix.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn new_2d(rows: usize, columns: usize) -> Result<Self> {
        Self::new(four(&[rows, columns]))
    }

    /// Describes memory of `len` elements with given strides.
    ///
    /// # Errors
    /// [`Error::Argument`] if it would reach outside.
    pub fn with_strides(
        shape: [usize; 4],
        strides: [isize; 4],
        offset: usize,
        len: usize,
    ) -> Result<Self> {
        let layout = Layout::strided(&shape, &strides, offset, len)?;
        Ok(Self { layout, memory: MemoryLayout::RowMajor, element: PhantomData })
    }

    /// Describes the layout of a tensor in its storage.
    ///
    /// # Errors
    /// [`Error::Rank`] above rank 4, [`Error::ReadAs`] for elements of another type.
    pub fn of(tensor: &Tensor) -> Result<Self> {
        check_type::<T>(tensor)?;
        let rank = tensor.rank();
        if rank > 4 {
            return Err(Error::Rank {
                op: "view",
                expected: RankNeeded::Exactly(4),
                shape: tensor.shape().to_vec(),
            });
        }
        let mut layout = tensor.layout().clone();
        for _ in rank..4 {
            layout = layout.unsqueeze(0);
        }
        Ok(Self { layout, memory: MemoryLayout::RowMajor, element: PhantomData })
    }

    /// Returns the sizes of the axes.
    #[must_use]
    pub fn shape(&self) -> [usize; 4] {
        four(self.layout.shape())
    }

    /// Returns the strides of the axes, in elements.
    #[must_use]
    pub fn strides(&self) -> [isize; 4] {
        let mut strides = [0; 4];
        strides.iter_mut().zip(self.layout.strides()).for_each(|(to, from)| *to = *from);
        strides
    }

    /// Returns the offset of the first element.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.layout.offset()
    }

    /// Returns the order of the memory.
    #[must_use]
    pub fn layout(&self) -> MemoryLayout {
        self.memory
    }

    /// Returns the number of axes from the first one whose size is not 1 on.
    #[must_use]
    pub fn ndim(&self) -> usize {
        self.layout.shape().iter().position(|&size| size != 1).map_or(0, |first| 4 - first)
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn numel(&self) -> usize {
        self.layout.len()
    }

    /// Returns whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.layout.is_empty()
    }

    /// Returns whether the elements are contiguous in row-major order; axes of size 1 are ignored.
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        matches!(self.memory, MemoryLayout::RowMajor | MemoryLayout::ColumnMajor)
            && self.layout.is_contiguous()
    }

    /// Describes memory of the same shape in another order, from its beginning.
    ///
    /// # Errors
    /// [`Error::Argument`] for tiles that do not divide the last two axes.
    pub fn with_layout(&self, memory: MemoryLayout) -> Result<Self> {
        let shape = self.shape();
        let layout = match memory {
            MemoryLayout::RowMajor => Layout::contiguous(&shape)?,
            MemoryLayout::ColumnMajor => {
                let back = Layout::contiguous(&[shape[3], shape[2], shape[1], shape[0]])?;
                back.permute("layout", &[3, 2, 1, 0])?
            }
            MemoryLayout::Tiled { tile_size: [rows, columns] } => {
                let fits = rows > 0
                    && columns > 0
                    && shape[2].is_multiple_of(rows)
                    && shape[3].is_multiple_of(columns);
                if !fits {
                    return Err(Error::argument(
                        "layout",
                        "tile",
                        [rows, columns],
                        "it must divide the last two axes",
                    ));
                }
                Layout::contiguous(&shape)?
            }
        };
        Ok(Self { layout, memory, element: PhantomData })
    }

    fn changed(&self, op: &'static str, layout: Layout) -> Result<Self> {
        if let MemoryLayout::Tiled { .. } = self.memory {
            return Err(Error::argument(op, "layout", self.memory, "which has no strides"));
        }
        Ok(Self { layout, memory: self.memory, element: PhantomData })
    }

    /// Slices an axis.
    ///
    /// # Errors
    /// [`Error::Axis`] for an axis out of range, [`Error::Range`] for a range that is out of bounds
    /// or reversed.
    pub fn slice_dim(&self, axis: usize, range: Range<usize>) -> Result<Self> {
        let axis = crate::layout::axis("slice", axis as isize, 4)?;
        self.changed("slice", self.layout.slice(axis, range.start, range.end, 1)?)
    }

    /// Exchanges two axes.
    ///
    /// # Errors
    /// [`Error::Axis`] for an axis out of range.
    pub fn transpose(&self, one: usize, other: usize) -> Result<Self> {
        let mut order = [0, 1, 2, 3];
        let [one, other] = [
            crate::layout::axis("transpose", one as isize, 4)?,
            crate::layout::axis("transpose", other as isize, 4)?,
        ];
        order.swap(one, other);
        self.changed("transpose", self.layout.permute("transpose", &order)?)
    }

    /// Returns the same elements in another shape; `None` if that requires a copy.
    ///
    /// # Errors
    /// [`Error::Reshape`] for another number of elements.
    pub fn reshape(&self, shape: [usize; 4]) -> Result<Option<Self>> {
        self.layout.reshape(&shape)?.map(|layout| self.changed("reshape", layout)).transpose()
    }

    /// Returns the offset of an element in memory; `None` outside the shape.
    #[must_use]
    pub fn linear_index(&self, at: [usize; 4]) -> Option<usize> {
        let offset = self.layout.offset_of(&at)?;
        let MemoryLayout::Tiled { tile_size: [rows, columns] } = self.memory else {
            return Some(offset);
        };
        let [_, _, height, width] = self.shape();
        let before = (at[0] * self.layout.shape()[1] + at[1]) * height * width;
        let tile = at[2] / rows * (width / columns) + at[3] / columns;
        Some(before + tile * rows * columns + at[2] % rows * columns + at[3] % columns)
    }

    /// Applies the description to the storage of a tensor. Returns a view, or a copy for tiled
    /// memory.
    ///
    /// # Errors
    /// [`Error::Argument`] if the description reaches outside the storage, [`Error::ReadAs`] for
    /// elements of another type.
    pub fn apply(&self, tensor: &Tensor) -> Result<Tensor> {
        check_type::<T>(tensor)?;
        match self.memory {
            MemoryLayout::Tiled { tile_size: [rows, columns] } => {
                let [a, b, height, width] = self.shape();
                let flat = Tensor::new(tensor.storage().clone(), self.layout.clone())?;
                let tiles = flat.reshape(&[a, b, height / rows, width / columns, rows, columns])?;
                tiles.permute(&[0, 1, 2, 4, 3, 5])?.reshape(&self.shape())
            }
            _ => Tensor::new(tensor.storage().clone(), self.layout.clone()),
        }
    }

    /// Packs the elements of a tensor of this shape into one axis, in the order of this memory.
    ///
    /// # Errors
    /// [`Error::Shapes`] for another shape, [`Error::Memory`] if memory is exhausted.
    pub fn pack(&self, tensor: &Tensor) -> Result<Tensor> {
        check_type::<T>(tensor)?;
        let shape = self.shape();
        let own = tensor.layout().broadcast_to("pack", &shape)?;
        let whole = tensor.with_layout(own);
        match self.memory {
            MemoryLayout::RowMajor => whole.reshape(&[self.numel()]),
            MemoryLayout::ColumnMajor => whole.permute(&[3, 2, 1, 0])?.reshape(&[self.numel()]),
            MemoryLayout::Tiled { tile_size: [rows, columns] } => {
                let [a, b, height, width] = shape;
                let cut = whole.reshape(&[a, b, height / rows, rows, width / columns, columns])?;
                cut.permute(&[0, 1, 2, 4, 3, 5])?.reshape(&[self.numel()])
            }
        }
    }
}

fn check_type<T: Element>(tensor: &Tensor) -> Result<()> {
    if tensor.dtype() == T::DTYPE {
        return Ok(());
    }
    Err(Error::ReadAs { wanted: T::DTYPE, actual: tensor.dtype() })
}

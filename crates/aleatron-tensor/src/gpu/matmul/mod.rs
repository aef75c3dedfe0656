//! Products of matrices on GPUs.

mod cooperative;
mod finish;
mod patches;
mod tile;

use aleatron_device::{Access, BufferView};

pub use cooperative::{CooperativeTile, Shared};
pub use tile::Tile;

pub(crate) use patches::Patches;
pub(crate) use tile::{Along, Load, Right};

use super::data::{GpuData, GpuView};
use super::device::GpuDevice;
use super::elementwise::THREADS;
use super::fault::Faults;
use super::operand::{allocate, operand, views};
use super::size::{self, product, size, step};
use super::wgsl::{Items, ParamsShape};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::{Layout, collapse};
use crate::ops::ConvOptions;
use crate::tensor::Tensor;
use cooperative::Squares;
use finish::Finish;
use tile::{Edges, Product, SLICE, Slices, WORDS, out_items};

/// The number of workgroups that keep a large GPU busy.
const BUSY: usize = 128;

/// The largest number of bytes for slices that are computed separately.
const SLICE_BYTES: u128 = 256 << 20;

/// The largest number of slices that are computed separately.
const MAX_APART: usize = 4096;

/// The number of slices that one launch adds: some drivers end loops after 2^16 iterations.
const SLICES_IN_TURN: usize = 32;

/// A plan of a product. All plans give the same bits, except those of matrix units, which share
/// different bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum MatmulPlan {
    /// Chosen by the shape.
    #[default]
    Automatic,
    /// With this tile; each workgroup iterates over the common axis.
    Sequential(Tile),
    /// With this tile; slices of the common axis are divided among workgroups, too.
    SplitK(Tile),
    /// With the matrix units of the device, which take 16-bit floats.
    Cooperative(CooperativeTile),
}

impl Tensor {
    /// Like [`Self::matmul`], computed by a given plan: for benchmarks and tests. The CPU ignores
    /// the plan.
    ///
    /// # Errors
    /// As [`Self::matmul`], and [`Error::Unsupported`] for a plan that the device or the operands
    /// do not allow.
    pub fn matmul_as(&self, other: &Self, plan: MatmulPlan) -> Result<Self> {
        self.matmul_by(other, plan)
    }

    /// Like [`Self::conv2d`], computed by a given plan: for benchmarks and tests. The CPU ignores
    /// the plan.
    ///
    /// # Errors
    /// As [`Self::conv2d`], and [`Error::Unsupported`] for a plan that the device or the operands
    /// do not allow.
    pub fn conv2d_as(
        &self,
        weight: &Self,
        bias: Option<&Self>,
        options: &ConvOptions<2>,
        plan: MatmulPlan,
    ) -> Result<Self> {
        self.conv2d_by(weight, bias, options, plan)
    }
}

/// An operand of a product, as an argument of kernels.
pub(crate) struct Source<'a, L> {
    pub(crate) data: &'a GpuData,
    pub(crate) load: L,
    /// The offset, the stride along the side and the stride along the depth.
    pub(crate) words: [u32; 3],
}

/// A bias: an element for each row of the result.
pub(crate) struct Bias<'a> {
    pub(crate) data: &'a GpuData,
    pub(crate) offset: u32,
    pub(crate) step: u32,
}

/// An axis of a batch: its length, and its strides in both operands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchAxis {
    pub(crate) count: usize,
    pub(crate) steps: [u32; 2],
}

/// A batch of products.
pub(crate) struct Problem<'a> {
    /// The rows and columns of each result, and the common axis.
    pub(crate) sizes: [usize; 3],
    /// The axes of the batch.
    pub(crate) batch: Vec<BatchAxis>,
    pub(crate) left: Source<'a, Load>,
    pub(crate) right: Source<'a, Right>,
    pub(crate) bias: Option<Bias<'a>>,
    /// Additional words of parameters.
    pub(crate) extra: Vec<u32>,
    /// The type of the result.
    pub(crate) dtype: DType,
}

impl Problem<'_> {
    /// Returns the words of the sizes, of the tiles along columns and rows, and of all tiles.
    fn size_words(&self, tiles: [usize; 2], groups: usize) -> Result<Vec<u32>> {
        let [m, n, k] = self.sizes;
        Ok(vec![
            size("rows", m)?,
            size("columns", n)?,
            size("common axis of a product", k)?,
            size("tiles of a row", tiles[0])?,
            size("tiles of a column", tiles[1])?,
            size("tiles", groups)?,
        ])
    }

    /// Returns the words of the batch: the sizes of its axes, then their steps in each operand.
    fn batch_words(&self) -> Result<Vec<u32>> {
        let mut words = Vec::with_capacity(3 * self.batch.len());
        for axis in &self.batch {
            words.push(size("length of an axis", axis.count)?);
        }
        for side in 0..2 {
            words.extend(self.batch.iter().map(|axis| axis.steps[side]));
        }
        Ok(words)
    }
}

/// Returns the source of a matrix with these strides: how it is loaded, and its words. `batch` has
/// its strides along the batch.
pub(crate) fn source<'a>(
    data: &'a GpuData,
    offset: usize,
    [side, depth]: [(usize, isize); 2],
    batch: &mut [isize],
) -> Result<Source<'a, Load>> {
    // Loaded along the axis with the smallest stride.
    let is_step =
        |(size, step): (usize, isize)| if size > 1 { step.unsigned_abs() } else { usize::MAX };
    let along = if is_step(depth) <= is_step(side) { Along::Depth } else { Along::Side };
    let (own, other) = match along {
        Along::Depth => (depth, side),
        Along::Side => (side, depth),
    };
    let is_vectors = own.1 == 1
        && own.0.is_multiple_of(4)
        && (other.0 == 1 || other.1 % 4 == 0)
        && offset.is_multiple_of(4)
        && batch.iter().all(|step| step % 4 == 0);
    let (items, unit) = if is_vectors { (Items::Vectors, 4) } else { (Items::Singles, 1) };
    batch.iter_mut().for_each(|step| *step /= unit);
    let whole = |(size, stride): (usize, isize)| step(size, stride / unit);
    // A stride that is never taken need not be whole vectors.
    let steps = match (items, along) {
        (Items::Vectors, Along::Depth) => [whole(side)?, 0],
        (Items::Vectors, Along::Side) => [0, whole(depth)?],
        _ => [whole(side)?, whole(depth)?],
    };
    let first = size::offset(if is_vectors { offset / 4 } else { offset })?;
    Ok(Source { data, load: Load { along, items }, words: [first, steps[0], steps[1]] })
}

/// Records the products of two batches of matrices with equal batch axes.
pub(crate) fn launch(
    device: &GpuDevice,
    left: &GpuView,
    right: &GpuView,
    dtype: DType,
    plan: MatmulPlan,
) -> Result<GpuData> {
    let rank = left.layout.rank();
    let axis = |layout: &Layout, axis: usize| (layout.shape()[axis], layout.strides()[axis]);
    let [m, k] = [rank - 2, rank - 1].map(|i| axis(&left.layout, i));
    let n = axis(&right.layout, rank - 1);
    let k_right = axis(&right.layout, rank - 2);
    let outer = |layout: &Layout| layout.keep_axes(0..rank - 2);
    let (mut sizes, [mut left_steps, mut right_steps]) =
        collapse([&outer(&left.layout), &outer(&right.layout)]);
    if sizes == [1] {
        // The strides of a single product are never taken.
        (sizes, left_steps, right_steps) = (Vec::new(), Vec::new(), Vec::new());
    }
    let left_source = source(&left.data, left.layout.offset(), [m, k], &mut left_steps)?;
    let right_source = source(&right.data, right.layout.offset(), [n, k_right], &mut right_steps)?;
    let mut batch = Vec::with_capacity(sizes.len());
    for (&count, (&a, &b)) in sizes.iter().zip(left_steps.iter().zip(&right_steps)) {
        batch.push(BatchAxis { count, steps: [step(count, a)?, step(count, b)?] });
    }
    let problem = Problem {
        sizes: [m.0, n.0, k.0],
        batch,
        left: left_source,
        right: Source {
            data: right_source.data,
            load: Right::Matrix(right_source.load),
            words: right_source.words,
        },
        bias: None,
        extra: Vec::new(),
        dtype,
    };
    run(device, &problem, plan)
}

/// Records a batch of non-empty products.
pub(crate) fn run(device: &GpuDevice, problem: &Problem<'_>, plan: MatmulPlan) -> Result<GpuData> {
    let Problem { sizes: [m, n, k], dtype, .. } = *problem;
    for data in [problem.left.data, problem.right.data]
        .into_iter()
        .chain(problem.bias.as_ref().map(|b| b.data))
    {
        device.check_recording(data.recording)?;
    }
    let batch = product(
        "products of a batch",
        &problem.batch.iter().map(|axis| axis.count).collect::<Vec<_>>(),
    )?;
    if let Some(tile) = cooperative_tile(device, problem, batch, plan)? {
        return launch_squares(device, problem, batch, tile);
    }
    let count = k.div_ceil(SLICE).max(1);
    let (tile, slices) = choose(device, problem, batch, count, plan)?;
    let len = product("elements", &[m, n, batch])?;
    let faults = Faults::of(
        [&problem.left.data.faults, &problem.right.data.faults]
            .into_iter()
            .chain(problem.bias.as_ref().map(|bias| &bias.data.faults)),
    );
    let is_direct = slices == Slices::Sequential && dtype == DType::F32;
    let stored = if slices == Slices::SplitK { count } else { 1 };
    let step = len.next_multiple_of(4);
    let sums_len = if stored > 1 { product("sums of slices", &[step, stored])? } else { len };
    let mut sums = allocate(device, DType::F32, sums_len, faults.clone())?;
    let mut first = 0;
    while first < count {
        let last = if slices == Slices::SplitK { count } else { count.min(first + SLICES_IN_TURN) };
        let bias = problem.bias.as_ref().filter(|_| is_direct && last == count);
        let range = if slices == Slices::SplitK { [0, count] } else { [first, last] };
        let eight = match slices {
            Slices::SplitK => size("elements of a slice", step)?,
            Slices::Sequential => bias.map_or(0, |bias| bias.offset),
        };
        sums.recording =
            launch_tiles(device, problem, &sums, (tile, slices), range, eight, bias, batch)?;
        first = last;
    }
    if is_direct {
        return Ok(sums);
    }
    let mut out = allocate(device, dtype, len, faults)?;
    out.recording = launch_finish(device, problem, &sums, &out, [stored, step])?;
    Ok(out)
}

#[expect(clippy::too_many_arguments, reason = "each is one of the parameters of the kernel")]
fn launch_tiles(
    device: &GpuDevice,
    problem: &Problem<'_>,
    out: &GpuData,
    (tile, slices): (Tile, Slices),
    [first, last]: [usize; 2],
    eight: u32,
    bias: Option<&Bias<'_>>,
    batch: usize,
) -> Result<u64> {
    let Problem { sizes: [m, n, k], .. } = *problem;
    let tiles = [n.div_ceil(tile.columns as usize), m.div_ceil(tile.rows as usize)];
    let apart = if slices == Slices::SplitK { last - first } else { 1 };
    let groups = product("tiles", &[tiles[0], tiles[1], batch, apart])?;
    let mut params = problem.size_words(tiles, groups)?;
    params.extend([size("first slice", first)?, size("last slice", last)?, eight]);
    params.extend(problem.left.words);
    params.extend(problem.right.words);
    params.push(bias.map_or(0, |bias| bias.step));
    params.extend(problem.batch_words()?);
    params.extend(&problem.extra);
    let is_whole = [(m, tile.rows), (n, tile.columns), (k, tile.depth)]
        .into_iter()
        .all(|(size, part)| size.is_multiple_of(part as usize));
    let left_operand = operand(device, problem.left.data, problem.left.load.items, Access::Read);
    let right_items = match problem.right.load {
        Right::Matrix(load) => load.items,
        Right::Patches(_) => Items::Singles,
    };
    let right_operand = operand(device, problem.right.data, right_items, Access::Read);
    let kernel = Product {
        tile,
        left: (left_operand, problem.left.load),
        right: (right_operand, problem.right.load),
        bias: bias.map(|bias| operand(device, bias.data, Items::Singles, Access::Read)),
        out: operand(device, out, out_items(n), Access::ReadWrite),
        edges: if is_whole { Edges::Whole } else { Edges::Ragged },
        slices,
        batch_rank: problem.batch.len(),
        params: ParamsShape::of(device, &params),
    };
    let mut bound: Vec<BufferView<'_>> = Vec::new();
    views(device, problem.left.data, &mut bound)?;
    views(device, problem.right.data, &mut bound)?;
    if let Some(bias) = bias {
        views(device, bias.data, &mut bound)?;
    }
    views(device, out, &mut bound)?;
    debug_assert_eq!(params.len(), WORDS + 3 * problem.batch.len() + problem.extra.len());
    device.launch(kernel, &bound, &params, groups as u64)
}

fn launch_finish(
    device: &GpuDevice,
    problem: &Problem<'_>,
    sums: &GpuData,
    out: &GpuData,
    [count, step]: [usize; 2],
) -> Result<u64> {
    let [m, n, _] = problem.sizes;
    let vectors = out.len.div_ceil(4);
    // The last axis of a batch with a bias is that of groups, each of which has its own rows.
    let groups = problem.batch.last().map_or(1, |axis| axis.count);
    let bias = problem.bias.as_ref();
    let params = [
        size("vectors", vectors)?,
        size("slices", count)?,
        size("vectors of a slice", step / 4)?,
        size("columns", n)?,
        size("rows of all groups", product("rows of all groups", &[m, groups])?)?,
        bias.map_or(0, |bias| bias.offset),
        bias.map_or(0, |bias| bias.step),
    ];
    let description = Finish {
        slices: operand(device, sums, Items::Vectors, Access::Read),
        bias: bias.map(|bias| operand(device, bias.data, Items::Singles, Access::Read)),
        out: operand(device, out, Items::Vectors, Access::ReadWrite),
        params: ParamsShape::of(device, &params),
    };
    let mut bound: Vec<BufferView<'_>> = Vec::new();
    views(device, sums, &mut bound)?;
    if let Some(bias) = bias {
        views(device, bias.data, &mut bound)?;
    }
    views(device, out, &mut bound)?;
    device.launch(description, &bound, &params, (vectors as u64).div_ceil(THREADS.into()))
}

/// Returns the tile of matrix units for a product, if the types and the device allow it, or the
/// plan requests it.
fn cooperative_tile(
    device: &GpuDevice,
    problem: &Problem<'_>,
    batch: usize,
    plan: MatmulPlan,
) -> Result<Option<CooperativeTile>> {
    let Right::Matrix(_) = problem.right.load else { return Ok(None) };
    let is_half = |data: &GpuData| data.dtype == DType::F16;
    let is_bound_whole =
        |data: &GpuData| data.view().bytes() <= device.context().max_binding_bytes();
    let [m, n, _] = problem.sizes;
    // Results are rounded four elements at a time.
    let fits = is_half(problem.left.data)
        && is_half(problem.right.data)
        && problem.dtype == DType::F16
        && n.is_multiple_of(4)
        && is_bound_whole(problem.left.data)
        && is_bound_whole(problem.right.data);
    let can = |tile: CooperativeTile| fits && cooperative::is_supported(device, tile);
    let tiles = |tile: CooperativeTile| {
        m.div_ceil(tile.rows as usize)
            .saturating_mul(n.div_ceil(tile.columns as usize))
            .saturating_mul(batch)
    };
    match plan {
        MatmulPlan::Cooperative(tile) if can(tile) => Ok(Some(tile)),
        MatmulPlan::Cooperative(_) => {
            let what = "matrix units for these operands (16-bit floats, columns a multiple of 4)";
            Err(Error::Unsupported { device: device.to_string(), what })
        }
        MatmulPlan::Automatic => Ok([CooperativeTile::LARGE, CooperativeTile::SMALL]
            .into_iter()
            .find(|&tile| can(tile) && (tiles(tile) >= BUSY || tile == CooperativeTile::SMALL))),
        MatmulPlan::Sequential(_) | MatmulPlan::SplitK(_) => Ok(None),
    }
}

/// Records a product of 16-bit floats by matrix units.
fn launch_squares(
    device: &GpuDevice,
    problem: &Problem<'_>,
    batch: usize,
    tile: CooperativeTile,
) -> Result<GpuData> {
    let Problem { sizes: [m, n, k], dtype, .. } = *problem;
    let Right::Matrix(right_load) = problem.right.load else {
        return Err(Error::Unsupported {
            device: device.to_string(),
            what: "matrix units for patches",
        });
    };
    let faults = Faults::of([&problem.left.data.faults, &problem.right.data.faults]);
    let mut out = allocate(device, dtype, product("elements", &[m, n, batch])?, faults)?;
    let tiles = [n.div_ceil(tile.columns as usize), m.div_ceil(tile.rows as usize)];
    let groups = product("tiles", &[tiles[0], tiles[1], batch])?;
    let mut params = problem.size_words(tiles, groups)?;
    params.extend([0; 3]);
    params.extend(problem.left.words);
    params.extend(problem.right.words);
    params.push(0);
    params.extend(problem.batch_words()?);
    let is_whole = [(m, tile.rows), (n, tile.columns), (k, tile.depth)]
        .into_iter()
        .all(|(size, part)| size.is_multiple_of(part as usize));
    let side = |data: &GpuData, load: Load| {
        let items = if load.items == Items::Vectors { Items::Halves } else { Items::SingleHalves };
        (operand(device, data, items, Access::Read), Load { items, ..load })
    };
    let squares = Squares {
        tile,
        left: side(problem.left.data, problem.left.load),
        right: side(problem.right.data, right_load),
        out: operand(device, &out, Items::Vectors, Access::ReadWrite),
        edges: if is_whole { Edges::Whole } else { Edges::Ragged },
        batch_rank: problem.batch.len(),
        params: ParamsShape::of(device, &params),
    };
    let mut bound: Vec<BufferView<'_>> = Vec::new();
    views(device, problem.left.data, &mut bound)?;
    views(device, problem.right.data, &mut bound)?;
    views(device, &out, &mut bound)?;
    let recording = device.launch(squares, &bound, &params, groups as u64)?;
    drop(bound);
    out.recording = recording;
    Ok(out)
}

/// Returns the tile for a product and the division of its slices.
fn choose(
    device: &GpuDevice,
    problem: &Problem<'_>,
    batch: usize,
    count: usize,
    plan: MatmulPlan,
) -> Result<(Tile, Slices)> {
    let [m, n, _] = problem.sizes;
    let can_split = count > 1
        && count <= MAX_APART
        && [m, n, batch, 4]
            .iter()
            .fold(count as u128, |bytes, &by| bytes.saturating_mul(by as u128))
            <= SLICE_BYTES;
    let fits = |tile: &&Tile| tile.fits(device.info(), problem.right.load);
    if let MatmulPlan::Sequential(tile) | MatmulPlan::SplitK(tile) = plan {
        if !fits(&&tile) {
            let expected = "it must be shared out without a rest and fit the device";
            return Err(Error::argument("matmul", "tile", tile, expected));
        }
        let is_split = can_split && matches!(plan, MatmulPlan::SplitK(_));
        return Ok((tile, if is_split { Slices::SplitK } else { Slices::Sequential }));
    }
    let candidates: &[Tile] = match (m, n, problem.right.load) {
        (..=8, ..) => &[Tile::ROW],
        (_, ..=16, _) => &[Tile::NARROW],
        (..=16, ..) => &[Tile::LOW],
        // Each row of a larger tile reuses a patch once more, and loading patches is expensive.
        (65.., _, Right::Patches(_)) => &[Tile::LARGE, Tile::WIDE, Tile::MEDIUM],
        _ => &[Tile::WIDE, Tile::MEDIUM],
    };
    // The last candidate takes the least memory, which most devices have.
    let candidates: Vec<Tile> =
        candidates.iter().chain(&[Tile::MEDIUM]).filter(fits).copied().collect();
    let Some(&smallest) = candidates.get(candidates.len().saturating_sub(2)) else {
        let what = "room for a tile of a matrix product in a workgroup";
        return Err(Error::Unsupported { device: device.to_string(), what });
    };
    let tiles = |tile: &Tile| {
        m.div_ceil(tile.rows as usize)
            .saturating_mul(n.div_ceil(tile.columns as usize))
            .saturating_mul(batch)
    };
    let own = &candidates[..candidates.len().saturating_sub(1).max(1)];
    if let Some(tile) = own.iter().find(|tile| tiles(tile) >= BUSY) {
        return Ok((*tile, Slices::Sequential));
    }
    let apart = own.iter().find(|tile| tiles(tile).saturating_mul(count) >= BUSY);
    Ok(match apart {
        Some(tile) if can_split => (*tile, Slices::SplitK),
        _ if can_split => (smallest, Slices::SplitK),
        _ => (smallest, Slices::Sequential),
    })
}

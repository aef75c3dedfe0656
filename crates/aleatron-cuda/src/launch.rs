//! Launches of the kernels that multiply, with checks of the memory that they access.

use crate::dense::KernelChoice;
use crate::driver::{Grid, Kernel, View, kernels};
use crate::error::Result;
use crate::kernels::{CallSeed, FewParams, Finish, RowPart, TileParams, ValueKind, WgmmaParams};
use crate::plan::few::{FewKernel, FewPlan};
use crate::plan::rows::Part;
use crate::plan::tiles::{Card, TileEngine, TilePlan};
use crate::queue::Queue;
use crate::size::size_u32;

/// Number of blocks of the kernel of few samples that a processor holds.
const FEW_BLOCKS: u32 = 2;

/// The destination of counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target<'a> {
    /// By sample and neuron, 32 bits each.
    pub(crate) counts: View<'a>,
    /// Number of neurons of the whole layer.
    pub(crate) n_neurons: usize,
    /// The first neuron counted here.
    pub(crate) first_neuron: usize,
    pub(crate) n_samples: usize,
}

impl Target<'_> {
    /// Checks the counts of `bytes` bytes each, which are accessed to the end.
    fn check(&self, n_rows: usize, bytes: u128) -> Result<u64> {
        let last = (self.n_samples.max(1) as u128 - 1) * self.n_neurons as u128;
        self.counts.check(bytes * (last + self.first_neuron as u128 + n_rows as u128))
    }
}

/// Returns the properties of a queue's GPU that plans depend on.
pub(crate) fn card_of(queue: &Queue<'_>) -> Card {
    let info = queue.stream.context().info();
    Card {
        processors: info.processors,
        max_shared_bytes: info.max_shared_bytes,
        hopper: info.capability.0 == 9,
    }
}

/// Enqueues the counting of some neurons, all samples and a part of the columns.
pub(crate) fn tiles(
    queue: &Queue<'_>,
    part: &Part,
    (weights, n_rows): (View<'_>, usize),
    inputs: View<'_>,
    target: &Target<'_>,
    choice: KernelChoice,
) -> Result<()> {
    let (n_samples, row_blocks) = (target.n_samples, part.stride / 32);
    if n_rows == 0 || n_samples == 0 {
        return Ok(());
    }
    let card = card_of(queue);
    let plan = match choice {
        KernelChoice::Tile(shape) => {
            TilePlan::of_shape(&card, shape, 1.0, n_rows, n_samples, row_blocks)?
        }
        _ => TilePlan::best(&card, n_rows, n_samples, row_blocks)?,
    };
    planned_tiles(queue, part, (weights, n_rows), inputs, target, &plan)
}

/// Enqueues [`tiles`] with a given plan.
pub(crate) fn planned_tiles(
    queue: &Queue<'_>,
    part: &Part,
    (weights, n_rows): (View<'_>, usize),
    inputs: View<'_>,
    target: &Target<'_>,
    plan: &TilePlan,
) -> Result<()> {
    let (row_bytes, n_samples) = (part.bytes(), target.n_samples);
    let (weights, inputs) = (
        weights.check(u128::from(row_bytes) * n_rows as u128)?,
        inputs.check(u128::from(row_bytes) * n_samples as u128)?,
    );
    let params = TileParams {
        weights,
        inputs,
        counts: target.check(n_rows, 4)?,
        row_blocks: part.stride / 32,
        n_rows: size_u32(n_rows, "number of rows")?,
        first_neuron: size_u32(target.first_neuron, "first neuron")?,
        n_neurons: size_u32(target.n_neurons, "number of neurons")?,
        n_samples: size_u32(n_samples, "number of samples")?,
        row_tiles: plan.row_tiles,
        sample_tiles: plan.sample_tiles,
        band: plan.band,
        n_parts: plan.n_parts,
        adds: (plan.n_parts > 1).into(),
    };
    let grid = Grid { x: plan.blocks, y: plan.n_parts };
    let (shape, shared) = (plan.shape, plan.shape.shared_bytes());
    let loaded = u64::from(plan.blocks) * u64::from(shape.rows + shape.samples) * row_bytes;
    let bytes = loaded + 4 * u64::from(plan.n_parts) * n_rows as u64 * n_samples as u64;
    match shape.engine {
        TileEngine::Mma { .. } => {
            let kernel = kernels::tile_mma(&shape.name(), shape.threads());
            queue.launch(&kernel, grid, shared, &params, bytes)
        }
        TileEngine::Wgmma { .. } => {
            let (context, [weight_rows, input_rows]) = (queue.stream.context(), shape.box_rows());
            let params = WgmmaParams {
                weights: context.tensor_map(weights, row_bytes, n_rows as u64, weight_rows)?,
                inputs: context.tensor_map(inputs, row_bytes, n_samples as u64, input_rows)?,
                tile: params,
            };
            let kernel = kernels::tile_wgmma(&shape.name(), shape.threads());
            queue.launch(&kernel, grid, shared, &params, bytes)
        }
    }
}

/// The inputs of the kernels of few samples.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FewInputs<'a> {
    pub(crate) part: RowPart,
    pub(crate) kind: ValueKind,
    pub(crate) inputs: View<'a>,
    pub(crate) one: u64,
    pub(crate) seed: CallSeed,
    pub(crate) tag: u32,
    /// Whether equal bits are counted, instead of those of AND.
    pub(crate) xnor: bool,
    /// The destination of the reports of one sample's neurons, one word each; if it is also that of
    /// the results, they are the reports.
    pub(crate) reports: View<'a>,
}

/// A launch of a kernel of few samples, with the approximate number of bytes that it moves.
#[derive(Debug, Clone)]
pub(crate) struct FewLaunch {
    pub(crate) kernel: Kernel<FewParams>,
    pub(crate) grid: Grid,
    pub(crate) shared_bytes: u32,
    pub(crate) params: FewParams,
    pub(crate) bytes: u64,
}

impl FewLaunch {
    pub(crate) fn give(&self, queue: &Queue<'_>) -> Result<()> {
        queue.launch(&self.kernel, self.grid, self.shared_bytes, &self.params, self.bytes)
    }
}

/// Returns the kernel for some neurons and a number of samples, and its grid.
pub(crate) fn few_plan(
    card: &Card,
    part: &Part,
    n_rows: usize,
    n_samples: usize,
) -> Result<(FewPlan, FewKernel)> {
    if n_samples != 1 {
        return few_tiles_plan(card, part, n_rows);
    }
    let plan = FewPlan::one(part, n_rows, card.processors * FEW_BLOCKS)?;
    Ok((plan, FewKernel::best(1, plan.slice_bytes)))
}

/// Returns the kernel for several samples, the only one that can leave counts as they are.
pub(crate) fn few_tiles_plan(
    card: &Card,
    part: &Part,
    n_rows: usize,
) -> Result<(FewPlan, FewKernel)> {
    Ok((FewPlan::new(part, n_rows, card.processors * FEW_BLOCKS)?, FewKernel::TILES))
}

/// Returns the launch that counts some neurons and at most eight samples, at least one of each, and
/// computes results.
pub(crate) fn few(
    part: &Part,
    (weights, n_rows): (View<'_>, usize),
    from: &FewInputs<'_>,
    target: &Target<'_>,
    finish: Finish,
    (plan, kernel): (FewPlan, FewKernel),
) -> Result<FewLaunch> {
    let n_samples = size_u32(target.n_samples, "number of samples")?;
    kernel.check(&plan, target.n_samples)?;
    let values = match from.kind {
        ValueKind::PackedStreams => u128::from(part.bytes()),
        kind => u128::from(kind.bytes()) * u128::from(from.part.n_units),
    };
    let (count_bytes, report) = match kernel {
        FewKernel::Rows { .. } => (8, from.reports.check(8 * target.n_neurons as u128)?),
        FewKernel::Tiles { .. } => (4, finish.report),
    };
    let params = FewParams {
        part: from.part,
        finish: Finish { report, ..finish },
        weights: weights.check(u128::from(part.bytes()) * n_rows as u128)?,
        inputs: from.inputs.check(values * u128::from(n_samples))?,
        counts: target.check(n_rows, count_bytes)?,
        one: from.one,
        first_value: 0,
        seed: from.seed,
        tag: from.tag,
        kind: from.kind as u32,
        n_rows: size_u32(n_rows, "number of rows")?,
        first_neuron: size_u32(target.first_neuron, "first neuron")?,
        n_neurons: size_u32(target.n_neurons, "number of neurons")?,
        n_samples,
        slice_bytes: plan.slice_bytes,
        n_slices: plan.n_slices,
        group_rows: plan.group_rows,
        xnor: from.xnor.into(),
    };
    Ok(FewLaunch {
        kernel: kernels::few(kernel),
        grid: Grid::row(plan.blocks())?,
        shared_bytes: plan.shared_bytes(n_samples),
        params,
        bytes: part.bytes() * (n_rows as u64 + u64::from(n_samples)),
    })
}

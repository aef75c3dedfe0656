//! The choice of the kernel for a batch, and the division of its work into blocks.

use crate::error::Result;
use crate::size::size_u32;
use std::fmt;

/// The instruction that multiplies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TileEngine {
    /// `mma.sync`, which every supported GPU has.
    Mma {
        /// The number of warps of a block.
        warps: u32,
    },
    /// `wgmma` of Hopper, with tiles that the copy engine stages.
    Wgmma {
        /// The number of blocks of a cluster, which share loads.
        cluster: u32,
        /// The shared operand.
        shared: SharedOperand,
    },
}

/// The operand that the blocks of a cluster share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SharedOperand {
    /// The samples: blocks have tiles of different neurons.
    Inputs,
    /// The neurons: blocks have tiles of different samples.
    Weights,
}

/// The shape of a tile kernel. Only compiled shapes exist: a kernel launched with other threads or
/// less memory would access memory out of bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TileShape {
    /// Number of neurons of a tile.
    pub(crate) rows: u32,
    /// Number of samples of a tile.
    pub(crate) samples: u32,
    /// Number of steps of 128 bytes in shared memory.
    stages: u32,
    /// The instruction.
    pub(crate) engine: TileEngine,
}

impl fmt::Display for TileShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let engine = if self.cluster() == 0 { "mma" } else { "wgmma" };
        write!(f, "{engine} {}", self.name())
    }
}

/// A shape, with its speed per bit relative to the best: large tiles load less for each product.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) shape: TileShape,
    pub(crate) speed: f64,
}

const fn mma(rows: u32, samples: u32, stages: u32, warps: u32) -> TileShape {
    TileShape { rows, samples, stages, engine: TileEngine::Mma { warps } }
}

const fn wgmma(
    rows: u32,
    samples: u32,
    stages: u32,
    cluster: u32,
    shared: SharedOperand,
) -> TileShape {
    TileShape { rows, samples, stages, engine: TileEngine::Wgmma { cluster, shared } }
}

/// The shapes in use on every GPU.
pub(crate) const MMA: [Candidate; 4] = [
    Candidate { shape: mma(256, 128, 3, 8), speed: 1.0 },
    Candidate { shape: mma(128, 128, 3, 8), speed: 0.72 },
    Candidate { shape: mma(128, 64, 4, 8), speed: 0.74 },
    Candidate { shape: mma(128, 32, 4, 4), speed: 0.54 },
];

/// The shapes in use on Hopper: narrower tiles of `wgmma` are slower than those of `mma.sync`.
pub(crate) const HOPPER: [Candidate; 5] = [
    Candidate { shape: wgmma(128, 256, 4, 2, SharedOperand::Inputs), speed: 1.0 },
    Candidate { shape: wgmma(128, 256, 4, 2, SharedOperand::Weights), speed: 0.97 },
    Candidate { shape: mma(256, 128, 3, 8), speed: 0.61 },
    Candidate { shape: mma(128, 64, 4, 8), speed: 0.45 },
    Candidate { shape: mma(128, 32, 4, 4), speed: 0.33 },
];

impl TileShape {
    /// Additional shapes that are compiled for measurements.
    pub const VARIANTS: [Self; 7] = [
        wgmma(128, 256, 4, 1, SharedOperand::Inputs),
        wgmma(256, 128, 4, 2, SharedOperand::Weights),
        wgmma(128, 128, 6, 1, SharedOperand::Inputs),
        wgmma(128, 64, 8, 1, SharedOperand::Inputs),
        mma(128, 128, 4, 8),
        mma(256, 128, 4, 8),
        mma(256, 128, 2, 8),
    ];

    /// Returns the shapes in use.
    #[must_use]
    pub fn in_use() -> Vec<Self> {
        HOPPER[..2].iter().chain(&MMA).map(|candidate| candidate.shape).collect()
    }

    /// Returns the number of neurons of a tile.
    #[must_use]
    pub const fn rows(&self) -> u32 {
        self.rows
    }

    /// Returns the number of samples of a tile.
    #[must_use]
    pub const fn samples(&self) -> u32 {
        self.samples
    }

    /// Returns the instruction that multiplies.
    #[must_use]
    pub const fn engine(&self) -> TileEngine {
        self.engine
    }

    /// Returns the number of blocks of a cluster; 0 without clusters.
    const fn cluster(&self) -> u32 {
        match self.engine {
            TileEngine::Mma { .. } => 0,
            TileEngine::Wgmma { cluster, .. } => cluster,
        }
    }

    /// Returns whether it runs only on Hopper.
    #[must_use]
    pub const fn needs_hopper(&self) -> bool {
        self.cluster() != 0
    }

    /// Returns the rest of the name of its kernel.
    pub(crate) fn name(&self) -> String {
        let Self { rows, samples, stages, engine } = *self;
        match engine {
            TileEngine::Mma { .. } => format!("{rows}x{samples}_{stages}"),
            TileEngine::Wgmma { cluster, shared } => {
                let shared = if shared == SharedOperand::Inputs { "INPUTS" } else { "WEIGHTS" };
                format!("{rows}x{samples}_{stages}_{cluster}_{shared}")
            }
        }
    }

    /// Returns the number of threads of a block.
    pub(crate) const fn threads(&self) -> u32 {
        match self.engine {
            TileEngine::Mma { warps } => 32 * warps,
            // Four warps for 64 neurons, and one that issues copies.
            TileEngine::Wgmma { .. } => self.rows * 2 + 32,
        }
    }

    /// Returns the shared memory of a block.
    pub(crate) const fn shared_bytes(&self) -> u32 {
        let stages = self.stages * (self.rows + self.samples) * 128;
        match self.engine {
            TileEngine::Mma { .. } => stages,
            // Two barriers per stage, and the padding of an alignment to 1024 bytes.
            TileEngine::Wgmma { .. } => stages + 16 * self.stages + 1024,
        }
    }

    /// Returns the rows of weights and of inputs of one copy of a block.
    pub(crate) const fn box_rows(&self) -> [u32; 2] {
        match self.engine {
            TileEngine::Mma { .. } => [0, 0],
            TileEngine::Wgmma { cluster, shared: SharedOperand::Inputs } => {
                [self.rows, self.samples / cluster]
            }
            TileEngine::Wgmma { cluster, shared: SharedOperand::Weights } => {
                [self.rows / cluster, self.samples]
            }
        }
    }
}

/// The properties of a GPU that plans depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Card {
    pub(crate) processors: u32,
    pub(crate) max_shared_bytes: u32,
    pub(crate) hopper: bool,
}

/// The largest number of tiles of neurons that are processed together: with those of the samples
/// they fit the second-level cache.
const BAND: u32 = 8;

/// The overhead of a part in steps: the first copies, and the last sums.
const PART_STEPS: f64 = 6.0;

/// The largest number of parts of columns: more would be sums of almost nothing.
const MAX_PARTS: u32 = 512;

/// A kernel with its division of work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TilePlan {
    pub(crate) shape: TileShape,
    pub(crate) row_tiles: u32,
    pub(crate) sample_tiles: u32,
    pub(crate) band: u32,
    pub(crate) n_parts: u32,
    /// Number of blocks along x: tiles, whole clusters of them.
    pub(crate) blocks: u32,
    /// The expected cost, in steps of the largest tile.
    cost: f64,
}

impl TilePlan {
    /// Returns the cheapest plan for rows of `row_blocks` times 128 bytes.
    pub(crate) fn best(
        card: &Card,
        n_rows: usize,
        n_samples: usize,
        row_blocks: u32,
    ) -> Result<Self> {
        let candidates = if card.hopper { &HOPPER[..] } else { &MMA[..] };
        let mut best: Option<Self> = None;
        for candidate in
            candidates.iter().filter(|one| one.shape.shared_bytes() <= card.max_shared_bytes)
        {
            let plan = Self::of_shape(
                card,
                candidate.shape,
                candidate.speed,
                n_rows,
                n_samples,
                row_blocks,
            )?;
            if best.is_none_or(|best| plan.cost < best.cost) {
                best = Some(plan);
            }
        }
        match best {
            Some(best) => Ok(best),
            None => Self::of_shape(card, MMA[1].shape, 1.0, n_rows, n_samples, row_blocks),
        }
    }

    /// Returns the plan for a given shape, with as many parts of columns as make the last blocks
    /// end together.
    pub(crate) fn of_shape(
        card: &Card,
        shape: TileShape,
        speed: f64,
        n_rows: usize,
        n_samples: usize,
        row_blocks: u32,
    ) -> Result<Self> {
        let (n_rows, n_samples) =
            (size_u32(n_rows, "number of rows")?, size_u32(n_samples, "number of samples")?);
        let (row_tiles, sample_tiles) =
            (n_rows.div_ceil(shape.rows), n_samples.div_ceil(shape.samples));
        let blocks = match shape.engine {
            TileEngine::Mma { .. } => u64::from(row_tiles) * u64::from(sample_tiles),
            TileEngine::Wgmma { cluster, shared: SharedOperand::Inputs } => {
                u64::from(row_tiles.next_multiple_of(cluster)) * u64::from(sample_tiles)
            }
            TileEngine::Wgmma { cluster, shared: SharedOperand::Weights } => {
                u64::from(row_tiles) * u64::from(sample_tiles.next_multiple_of(cluster))
            }
        };
        let resident = (card.max_shared_bytes / shape.shared_bytes()).max(1);
        let slots = u64::from(card.processors.max(1)) * u64::from(resident);
        // A tile's step in units of the largest one's.
        let step = f64::from(shape.rows * shape.samples) / 32_768.0 / speed * f64::from(resident);
        let cost_of = |parts: u32| {
            let waves = (blocks * u64::from(parts)).div_ceil(slots);
            waves as f64 * (f64::from(row_blocks.div_ceil(parts)) + PART_STEPS) * step
        };
        let mut n_parts = 1;
        for parts in 2..=row_blocks.min(MAX_PARTS) {
            if cost_of(parts) < cost_of(n_parts) {
                n_parts = parts;
            }
        }
        let band = match shape.engine {
            TileEngine::Wgmma { cluster, shared: SharedOperand::Inputs } => BAND.div_ceil(cluster),
            _ => BAND,
        };
        // Kernels multiply it by the tiles of samples, in 32 bits: with the tiles of neurons, the
        // product is the number of all blocks.
        let band = band.min(row_tiles.max(1));
        Ok(Self {
            shape,
            row_tiles,
            sample_tiles,
            band,
            n_parts,
            blocks: size_u32(blocks, "blocks")?,
            cost: cost_of(n_parts),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200: Card = Card { processors: 132, max_shared_bytes: 227 << 10, hopper: true };
    const A100: Card = Card { processors: 108, max_shared_bytes: 163 << 10, hopper: false };
    const RTX: Card = Card { processors: 46, max_shared_bytes: 99 << 10, hopper: false };

    #[test]
    fn shapes_in_use_fit_their_gpus() {
        for (index, candidate) in MMA.into_iter().enumerate() {
            // The first is for GPUs with more.
            let most = if index == 0 { A100.max_shared_bytes } else { RTX.max_shared_bytes };
            assert!(candidate.shape.shared_bytes() <= most, "{}", candidate.shape);
            assert!(candidate.shape.threads() <= 1024);
        }
        for shape in TileShape::in_use().into_iter().chain(TileShape::VARIANTS) {
            assert!(
                shape.shared_bytes() <= H200.max_shared_bytes,
                "{shape}: {}",
                shape.shared_bytes()
            );
            if shape.needs_hopper() {
                assert!(
                    shape.box_rows().into_iter().all(|rows| (1..=256).contains(&rows)),
                    "{shape}"
                );
                // Boxes begin at whole groups of eight rows.
                assert!(shape.box_rows().into_iter().all(|rows| rows % 8 == 0), "{shape}");
            }
        }
    }

    #[test]
    fn tiles_cover_the_layer_and_parts_have_steps() {
        for card in [H200, A100, RTX] {
            for n_rows in [1usize, 16, 127, 128, 129, 500, 4096, 100_000] {
                for n_samples in [9usize, 31, 32, 33, 64, 100, 256, 257, 1024, 10_000] {
                    for row_blocks in [1, 2, 7, 1000, 1 << 20] {
                        let plan = TilePlan::best(&card, n_rows, n_samples, row_blocks).unwrap();
                        let shape = plan.shape;
                        assert!(plan.row_tiles as usize * shape.rows as usize >= n_rows);
                        assert!(plan.sample_tiles as usize * shape.samples as usize >= n_samples);
                        assert!(plan.n_parts >= 1 && plan.n_parts <= row_blocks.min(65_535));
                        assert!(plan.blocks.is_multiple_of(shape.cluster().max(1)));
                        assert!(card.hopper || !shape.needs_hopper());
                        assert!(shape.shared_bytes() <= card.max_shared_bytes);
                    }
                }
            }
        }
    }

    /// The batches of the benchmarks use nearly all of an H200.
    #[test]
    fn batches_of_the_benchmarks_fill_a_large_gpu() {
        let plan = |n_rows, n_samples, row_blocks| {
            TilePlan::best(&H200, n_rows, n_samples, row_blocks).unwrap()
        };
        let large = plan(4096, 4096, 1024);
        assert_eq!((large.shape, large.n_parts, large.blocks), (HOPPER[0].shape, 1, 512));
        let middle = plan(2048, 1024, 2048);
        assert_eq!((middle.shape, middle.n_parts, middle.blocks), (HOPPER[0].shape, 2, 64));
        let small = plan(500, 256, 1000);
        assert_eq!((small.shape, small.n_parts, small.blocks), (HOPPER[0].shape, 33, 4));
        // Few neurons and many samples: blocks share the neurons.
        assert_eq!(plan(128, 10_000, 784).shape, HOPPER[1].shape);
        // Sixteen samples need no wide tile.
        assert_eq!(plan(500, 16, 1000).shape.samples, 32);
    }
}

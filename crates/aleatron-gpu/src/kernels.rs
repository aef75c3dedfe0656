//! The kernels of stream operations: their source files, their parameters, and the arguments why
//! they stay in bounds.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use aleatron_device::{Access, BoundsChecks, BoundsProof, Capabilities, Kernel};
use bytemuck::{Pod, Zeroable};

/// A kernel of this crate.
///
/// Hot kernels are compiled without run-time checks: [`Self::checks`] has the argument for each,
/// which relies on checks of their host code. The type is therefore private: no other crate can
/// launch them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum StreamKernel {
    /// Philox words of given counters.
    #[cfg(test)]
    PhiloxWords,
    /// Streams of a matrix of thresholds.
    Encode,
    /// Streams of thresholds with an address each.
    EncodeList,
    /// Streams of thresholds over the integers of shared sequences.
    EncodeSequence,
    /// Counts of neurons for one sample at a time.
    Accumulate,
    /// Counts of tiles of neurons by samples.
    Tile,
    /// Counts over lists of connections.
    Sparse,
    /// Rows of tables of counts.
    TableRows,
    /// Counts as sums of table entries.
    TableCount,
    /// Counts of tiles of output channels by positions.
    Conv,
    /// Counts of convolutions as sums of table entries.
    ConvTable,
    /// Gates on each bit.
    Gate,
    /// Ones of streams, of their AND or of their XOR.
    Ones,
    /// The counts of kernels, as counts or as integers.
    StageCounts,
    /// Integers with a constant for each.
    StageMap,
    /// Sums of integers of two slots.
    StageCombine,
    /// Selected elements of a slot.
    StageGather,
    /// Windows of images of integers.
    StagePool,
    /// Integers to thresholds.
    StageRequantize,
    /// Thresholds in the form of other kernels.
    StagePack,
}

macro_rules! shader {
    ($name:literal) => {
        include_str!(concat!("shaders/", $name, ".wgsl"))
    };
}

impl StreamKernel {
    /// All kernels.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 20] = [
        Self::PhiloxWords,
        Self::Encode,
        Self::EncodeList,
        Self::EncodeSequence,
        Self::Accumulate,
        Self::Tile,
        Self::Sparse,
        Self::TableRows,
        Self::TableCount,
        Self::Conv,
        Self::ConvTable,
        Self::Gate,
        Self::Ones,
        Self::StageCounts,
        Self::StageMap,
        Self::StageCombine,
        Self::StageGather,
        Self::StagePool,
        Self::StageRequantize,
        Self::StagePack,
    ];

    fn files(self, capabilities: Capabilities) -> Vec<&'static str> {
        let mulhilo =
            if capabilities.int64 { shader!("mulhilo_int64") } else { shader!("mulhilo_int32") };
        let reduce = if capabilities.subgroups {
            shader!("reduce_subgroup")
        } else {
            shader!("reduce_shared")
        };
        let (philox, int64) = (shader!("philox"), shader!("int64"));
        match self {
            #[cfg(test)]
            Self::PhiloxWords => vec![mulhilo, philox, shader!("philox_words")],
            Self::Encode => vec![mulhilo, philox, shader!("address_grid"), shader!("encode")],
            Self::EncodeList => vec![mulhilo, philox, shader!("address_list"), shader!("encode")],
            Self::EncodeSequence => vec![shader!("encode_sequence")],
            Self::Accumulate => vec![shader!("counts"), shader!("accumulate"), reduce],
            Self::Tile => vec![shader!("counts"), shader!("tile")],
            Self::Sparse => vec![shader!("counts"), shader!("sparse")],
            Self::TableRows => vec![shader!("table_rows")],
            Self::TableCount => vec![shader!("table_count")],
            Self::Conv => vec![shader!("counts"), shader!("conv")],
            Self::ConvTable => vec![shader!("conv_table")],
            Self::Gate => vec![shader!("gates")],
            Self::Ones => vec![shader!("ones")],
            Self::StageCounts => vec![mulhilo, int64, shader!("stage_counts")],
            Self::StageMap => vec![mulhilo, int64, shader!("stage_map")],
            Self::StageCombine => vec![mulhilo, int64, shader!("stage_combine")],
            Self::StageGather => vec![shader!("stage_gather")],
            Self::StagePool => vec![mulhilo, int64, shader!("stage_pool")],
            Self::StageRequantize => vec![mulhilo, int64, shader!("stage_requantize")],
            Self::StagePack => vec![shader!("stage_pack")],
        }
    }
}

impl Kernel for StreamKernel {
    fn name(&self) -> Cow<'static, str> {
        match self {
            #[cfg(test)]
            Self::PhiloxWords => "philox words",
            Self::Encode => "encode",
            Self::EncodeList => "encode list",
            Self::EncodeSequence => "encode sequence",
            Self::Accumulate => "accumulate",
            Self::Tile => "tile",
            Self::Sparse => "sparse",
            Self::TableRows => "table rows",
            Self::TableCount => "table count",
            Self::Conv => "conv",
            Self::ConvTable => "conv table",
            Self::Gate => "gate",
            Self::Ones => "ones",
            Self::StageCounts => "stage counts",
            Self::StageMap => "stage map",
            Self::StageCombine => "stage combine",
            Self::StageGather => "stage gather",
            Self::StagePool => "stage pool",
            Self::StageRequantize => "stage requantize",
            Self::StagePack => "stage pack",
        }
        .into()
    }

    fn source(&self, capabilities: Capabilities) -> Cow<'static, str> {
        self.files(capabilities).concat().into()
    }

    fn bindings(&self) -> Cow<'static, [Access]> {
        use Access::{Read, ReadWrite};
        let bindings: &[Access] = match self {
            #[cfg(test)]
            Self::PhiloxWords => &[Read, ReadWrite],
            Self::Encode => &[Read, ReadWrite],
            Self::EncodeList => &[Read, ReadWrite, Read],
            Self::EncodeSequence | Self::Accumulate | Self::Tile | Self::Ones => {
                &[Read, Read, ReadWrite]
            }
            Self::TableCount | Self::Gate => &[Read, Read, Read, ReadWrite],
            Self::Sparse | Self::TableRows | Self::ConvTable => {
                &[Read, Read, Read, Read, ReadWrite]
            }
            Self::Conv => &[Read, Read, Read, Read, Read, ReadWrite],
            Self::StageCounts | Self::StageMap => &[Read, Read, Read, ReadWrite],
            Self::StageCombine => &[Read, Read, Read, Read, ReadWrite],
            Self::StageGather => &[Read, Read, ReadWrite],
            Self::StagePool => &[Read, ReadWrite],
            Self::StageRequantize => &[Read, Read, Read, ReadWrite, ReadWrite],
            Self::StagePack => &[Read, ReadWrite, ReadWrite],
        };
        Cow::Borrowed(bindings)
    }

    fn immediate_bytes(&self) -> usize {
        match self {
            #[cfg(test)]
            Self::PhiloxWords => size_of::<u32>(),
            Self::Encode | Self::EncodeList => size_of::<EncodeParams>(),
            Self::EncodeSequence => size_of::<SequenceParams>(),
            Self::Accumulate => size_of::<AccumulateParams>(),
            Self::Tile => size_of::<TileParams>(),
            Self::Sparse => size_of::<SparseParams>(),
            Self::TableRows => size_of::<TableRowsParams>(),
            Self::TableCount => size_of::<TableCountParams>(),
            Self::Conv => size_of::<ConvParams>(),
            Self::ConvTable => size_of::<ConvTableParams>(),
            Self::Gate => size_of::<GateParams>(),
            Self::Ones => size_of::<OnesParams>(),
            Self::StageCounts => size_of::<StageCountsParams>(),
            Self::StageMap | Self::StageCombine => size_of::<StageMapParams>(),
            Self::StageGather => size_of::<StageGatherParams>(),
            Self::StagePool => size_of::<StagePoolParams>(),
            Self::StageRequantize => size_of::<StageRequantizeParams>(),
            Self::StagePack => size_of::<StagePackParams>(),
        }
    }

    fn checks(&self) -> BoundsChecks {
        // For all kernels without checks: divisors are sizes of at least 1, since nothing is
        // launched for no rows, samples, segments or inputs. Loops count up in steps of at least 1
        // to a size that is at most 2^30, so they end and do not wrap. Products of sizes are
        // elements of a binding, of which there are fewer than 2^30 words.
        #[allow(unsafe_code, reason = "the only promise for the kernels of this crate")]
        // SAFETY: no other crate can name a kernel, and each is launched by the function that its
        // argument below names.
        let removed = BoundsChecks::Removed(unsafe { BoundsProof::assume() });
        match self {
            // Threads continue only with an index below `n_words`, which is `row_stride` times the
            // rows, so their row is one of the rows and `at`, whose unit is clamped, below
            // `n_thresholds`. `encode::record` checks that the thresholds with their flags, the
            // words from `out_base` on and the addresses are in the buffers, and that no divisor is
            // 0. Each turn of the loop ends a word or takes four bits of a threshold of 32.
            Self::Encode | Self::EncodeList => removed,
            // A workgroup continues only with a sample below `n_samples`, and has a group below
            // `n_groups`, so its first row is one of the `n_rows`; the others are clamped to the
            // last. k stays below `row_vectors`. Counts go to neurons `first` to `first + n_rows`,
            // at most `stride`, of the sample; high words at the same distance. `launch::record`
            // checks the three buffers for these products. Sums over a workgroup have an element
            // for each of its 256 threads.
            Self::Accumulate => removed,
            // As for the one before: rows and samples are clamped where they are loaded and
            // compared where counts are stored, k + d is compared with the end of the
            // part. In shared memory, d is below DEPTH and rows and columns below
            // ROWS and COLUMNS, since a tile has four or eight rows for each of its threads;
            // `TileShape` has no others.
            Self::Tile => removed,
            // A workgroup continues only with a sample below `n_samples`, and has one of the
            // existing segments. Segments are computed from the connections of the block, so their
            // elements are inside the weights and their neurons below `stride`; `Connections` has
            // only units below the number of inputs. `GpuSparse` keeps these buffers private.
            Self::Sparse => removed,
            // A workgroup continues only with a row below `n_rows`. The integers of a sequence of
            // width W are below 2^W, and a row has 2^W + 1 entries; thresholds t run below that.
            // `PrefixCounts` has checked the integers, and `GpuTabled` keeps them private.
            Self::TableRows => removed,
            // Samples, neurons and inputs are compared with their numbers. Thresholds of inputs and
            // weights, which index rows and entries, are checked to be at most 2^W when they are
            // uploaded; those computed by a step of a program saturate there, and have signs in
            // signed layers only.
            Self::TableCount => removed,
            // Channels and columns are clamped to the last where they are loaded and compared where
            // counts are stored; words are compared with the end of the kernel, so taps are below
            // their number, and rows and columns of an image with its size. A group has
            // `first_input` and as many planes after it as its taps, all of them in a sample. In
            // shared memory, fours of words are below DEPTH and rows and columns below ROWS and
            // COLUMNS, with which they are compared where they are loaded; `ConvTile` has the
            // shapes, whose loads divide DEPTH. Signs are read if there are any; `GpuConv` checks
            // all six buffers for these products.
            Self::Conv => removed,
            // Channels are compared with their number, and columns below theirs then; taps, images
            // and counts are as in the previous kernel. Indices into the table are computed from
            // thresholds that are at most 2^W, as for table counts.
            Self::ConvTable => removed,
            // No layer is limited by these.
            #[cfg(test)]
            Self::PhiloxWords => BoundsChecks::Enabled,
            Self::EncodeSequence | Self::Gate | Self::Ones => BoundsChecks::Enabled,
            // These are limited by memory, not by their own instructions.
            Self::StageCounts
            | Self::StageMap
            | Self::StageCombine
            | Self::StageGather
            | Self::StagePool
            | Self::StageRequantize
            | Self::StagePack => BoundsChecks::Enabled,
        }
    }
}

/// Parameters of `encode.wgsl`, which documents each.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(crate) struct EncodeParams {
    pub(crate) key: [u32; 2],
    pub(crate) tag: u32,
    pub(crate) first_row: u32,
    pub(crate) first_unit: u32,
    pub(crate) n_units: u32,
    pub(crate) stream_words: u32,
    pub(crate) full_words: u32,
    pub(crate) tail_mask: u32,
    pub(crate) row_begin: u32,
    pub(crate) row_words: u32,
    pub(crate) row_stride: u32,
    pub(crate) out_base: u32,
    pub(crate) n_words: u32,
    pub(crate) n_thresholds: u32,
    pub(crate) padding: u32,
}

/// Parameters of `encode_sequence.wgsl`, which documents each.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(crate) struct SequenceParams {
    pub(crate) n_words: u32,
    pub(crate) row_stride: u32,
    pub(crate) row_begin: u32,
    pub(crate) full_words: u32,
    pub(crate) tail_mask: u32,
    pub(crate) n_sequences: u32,
    pub(crate) n_thresholds: u32,
    pub(crate) n_units: u32,
    pub(crate) sample_stride: u32,
}

/// Parameters of `accumulate.wgsl`, which documents each.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(crate) struct AccumulateParams {
    pub(crate) n_rows: u32,
    pub(crate) row_vectors: u32,
    pub(crate) n_samples: u32,
    pub(crate) n_groups: u32,
    pub(crate) first: u32,
    pub(crate) stride: u32,
    pub(crate) high: u32,
    pub(crate) padding: u32,
}

/// Parameters of `tile.wgsl`, which documents each.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(crate) struct TileParams {
    pub(crate) n_rows: u32,
    pub(crate) n_samples: u32,
    pub(crate) row_vectors: u32,
    pub(crate) split_vectors: u32,
    pub(crate) row_tiles: u32,
    pub(crate) sample_tiles: u32,
    pub(crate) n_splits: u32,
    pub(crate) first: u32,
    pub(crate) stride: u32,
    pub(crate) high: u32,
}

/// Parameters of `sparse.wgsl`, which documents each.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(crate) struct SparseParams {
    pub(crate) n_segments: u32,
    pub(crate) first_sample: u32,
    pub(crate) n_samples: u32,
    pub(crate) stream_words: u32,
    pub(crate) sample_words: u32,
    pub(crate) stride: u32,
    pub(crate) high: u32,
}

/// Parameters of `table_rows.wgsl`, which documents each.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(crate) struct TableRowsParams {
    pub(crate) n_inputs: u32,
    pub(crate) n_rows: u32,
    pub(crate) length: u32,
    pub(crate) row_len: u32,
    pub(crate) begin: u32,
    pub(crate) end: u32,
}

/// Parameters of `table_count.wgsl`, which documents each.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(crate) struct TableCountParams {
    pub(crate) n_inputs: u32,
    pub(crate) begin: u32,
    pub(crate) end: u32,
    pub(crate) n_neurons: u32,
    pub(crate) n_groups: u32,
    pub(crate) n_samples: u32,
    pub(crate) row_len: u32,
    pub(crate) first: u32,
    pub(crate) stride: u32,
}

/// Parameters of `conv.wgsl`, which documents each.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(crate) struct ConvParams {
    pub(crate) n_rows: u32,
    pub(crate) first_row: u32,
    pub(crate) row_tiles: u32,
    pub(crate) n_columns: u32,
    pub(crate) column_tiles: u32,
    pub(crate) row_words: u32,
    pub(crate) stream_words: u32,
    pub(crate) sample_words: u32,
    pub(crate) split_words: u32,
    pub(crate) n_splits: u32,
    pub(crate) n_positions: u32,
    pub(crate) row_positions: u32,
    pub(crate) row_step: u32,
    pub(crate) column_step: u32,
    pub(crate) height: u32,
    pub(crate) width: u32,
    pub(crate) n_inputs: u32,
    pub(crate) first_input: u32,
    pub(crate) stride: u32,
    pub(crate) high: u32,
}

/// Parameters of `conv_table.wgsl`, which documents each.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(crate) struct ConvTableParams {
    pub(crate) n_rows: u32,
    pub(crate) first_row: u32,
    pub(crate) n_columns: u32,
    pub(crate) n_taps: u32,
    pub(crate) n_positions: u32,
    pub(crate) row_positions: u32,
    pub(crate) row_step: u32,
    pub(crate) column_step: u32,
    pub(crate) height: u32,
    pub(crate) width: u32,
    pub(crate) n_inputs: u32,
    pub(crate) first_input: u32,
    pub(crate) row_len: u32,
    pub(crate) stride: u32,
}

/// Parameters of `gates.wgsl`, which documents each.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(crate) struct GateParams {
    pub(crate) n_words: u32,
    pub(crate) row_stride: u32,
    pub(crate) row_begin: u32,
    pub(crate) full_words: u32,
    pub(crate) tail_mask: u32,
}

/// Parameters of `ones.wgsl`, which documents each.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(crate) struct OnesParams {
    pub(crate) n_rows: u32,
    pub(crate) row_words: u32,
    pub(crate) n_segments: u32,
}

/// Parameters of `stage_counts.wgsl`, which documents each.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(crate) struct StageCountsParams {
    pub(crate) least: [u32; 2],
    pub(crate) most: [u32; 2],
    pub(crate) n: u32,
    pub(crate) n_neurons: u32,
    pub(crate) shift: u32,
    pub(crate) high: u32,
}

/// Parameters of `stage_map.wgsl` and `stage_combine.wgsl`, which documents each.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(crate) struct StageMapParams {
    pub(crate) n: u32,
    pub(crate) len: u32,
    pub(crate) period: u32,
}

/// Parameters of `stage_gather.wgsl`, which documents each.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(crate) struct StageGatherParams {
    pub(crate) n: u32,
    pub(crate) n_pairs: u32,
    pub(crate) source_len: u32,
    pub(crate) made_len: u32,
}

/// Parameters of `stage_pool.wgsl`, which documents each.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(crate) struct StagePoolParams {
    pub(crate) image: [u32; 2],
    pub(crate) windows: [u32; 2],
    pub(crate) window: [u32; 2],
    pub(crate) stride: [u32; 2],
    pub(crate) padding: [u32; 2],
    pub(crate) n: u32,
    pub(crate) rest: u32,
}

/// Parameters of `stage_requantize.wgsl`, which documents each.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(crate) struct StageRequantizeParams {
    pub(crate) n: u32,
    pub(crate) len: u32,
    pub(crate) period: u32,
    pub(crate) counter: u32,
}

/// Parameters of `stage_pack.wgsl`, which documents each.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(crate) struct StagePackParams {
    pub(crate) n: u32,
    pub(crate) first_negative: u32,
}

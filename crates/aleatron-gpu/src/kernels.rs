//! The kernels of stream operations: which files make each, and the parameters it takes.

use std::borrow::Cow;

use bytemuck::{Pod, Zeroable};

use crate::adapter::Capabilities;
use crate::pipeline::{Access, Kernel};

/// A kernel of this crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StreamKernel {
    /// Philox words of given counters.
    PhiloxWords,
    /// Streams of a matrix of thresholds.
    Encode,
    /// Streams of thresholds with an address each.
    EncodeList,
    /// Counts of neurons for one sample at a time.
    Accumulate,
    /// Counts of tiles of neurons by samples.
    Tile,
    /// Counts over lists of connections.
    Sparse,
    /// Reads memory, or copies it.
    Probe,
}

macro_rules! shader {
    ($name:literal) => {
        include_str!(concat!("shaders/", $name, ".wgsl"))
    };
}

impl StreamKernel {
    /// Every kernel.
    pub const ALL: [Self; 7] = [
        Self::PhiloxWords,
        Self::Encode,
        Self::EncodeList,
        Self::Accumulate,
        Self::Tile,
        Self::Sparse,
        Self::Probe,
    ];

    fn files(self, capabilities: Capabilities) -> Vec<&'static str> {
        let mulhilo = if capabilities.int64 { shader!("mulhilo_int64") } else { shader!("mulhilo_int32") };
        let reduce =
            if capabilities.subgroups { shader!("reduce_subgroup") } else { shader!("reduce_shared") };
        let philox = shader!("philox");
        match self {
            Self::PhiloxWords => vec![mulhilo, philox, shader!("philox_words")],
            Self::Encode => vec![mulhilo, philox, shader!("address_grid"), shader!("encode")],
            Self::EncodeList => vec![mulhilo, philox, shader!("address_list"), shader!("encode")],
            Self::Accumulate => vec![shader!("counts"), shader!("accumulate"), reduce],
            Self::Tile => vec![shader!("counts"), shader!("tile")],
            Self::Sparse => vec![shader!("counts"), shader!("sparse")],
            Self::Probe => vec![shader!("probe")],
        }
    }
}

impl Kernel for StreamKernel {
    fn name(self) -> &'static str {
        match self {
            Self::PhiloxWords => "philox words",
            Self::Encode => "encode",
            Self::EncodeList => "encode list",
            Self::Accumulate => "accumulate",
            Self::Tile => "tile",
            Self::Sparse => "sparse",
            Self::Probe => "probe",
        }
    }

    fn source(self, capabilities: Capabilities) -> Cow<'static, str> {
        self.files(capabilities).concat().into()
    }

    fn bindings(self) -> &'static [Access] {
        use Access::{Read, ReadWrite};
        match self {
            Self::PhiloxWords | Self::Encode | Self::Probe => &[Read, ReadWrite],
            Self::EncodeList => &[Read, ReadWrite, Read],
            Self::Accumulate | Self::Tile => &[Read, Read, ReadWrite],
            Self::Sparse => &[Read, Read, Read, Read, ReadWrite],
        }
    }

    fn immediate_bytes(self) -> u32 {
        let bytes = match self {
            Self::PhiloxWords | Self::Probe => size_of::<u32>(),
            Self::Encode | Self::EncodeList => size_of::<EncodeParams>(),
            Self::Accumulate => size_of::<AccumulateParams>(),
            Self::Tile => size_of::<TileParams>(),
            Self::Sparse => size_of::<SparseParams>(),
        };
        bytes as u32
    }
}

/// Parameters of `encode.wgsl`, where each is explained.
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

/// Parameters of `accumulate.wgsl`, where each is explained.
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

/// Parameters of `tile.wgsl`, where each is explained.
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

/// Parameters of `sparse.wgsl`, where each is explained.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(crate) struct SparseParams {
    pub(crate) n_segments: u32,
    pub(crate) n_samples: u32,
    pub(crate) stream_words: u32,
    pub(crate) sample_words: u32,
    pub(crate) stride: u32,
    pub(crate) high: u32,
}

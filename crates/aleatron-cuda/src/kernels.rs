//! The parameters of the kernels: twins of the structures in `kernels/*.cu`, field by field.
//!
//! Addresses are plain numbers; code that fills in a structure takes them from
//! [`View::check`](crate::driver::View::check), with the bytes that the kernel accesses from there.

use crate::driver::TensorMap;

/// A part of every row of a matrix of streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct RowPart {
    pub(crate) stream_words: u32,
    pub(crate) full_words: u32,
    pub(crate) tail_mask: u32,
    pub(crate) n_units: u32,
    pub(crate) first_unit: u32,
    pub(crate) first_word: u32,
    pub(crate) words: u32,
    pub(crate) stride: u32,
}

/// The seed of the streams of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub(crate) struct CallSeed {
    pub(crate) key: [u32; 2],
    pub(crate) first_row: u32,
    pub(crate) first_unit: u32,
}

impl CallSeed {
    /// Returns the memory representation.
    pub(crate) fn words(self) -> [u64; 2] {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        [pair(self.key[0], self.key[1]), pair(self.first_row, self.first_unit)]
    }
}

/// The form of the values of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub(crate) enum ValueKind {
    Thresholds = 0,
    UnipolarF64 = 1,
    BipolarF64 = 2,
    UnipolarF32 = 3,
    BipolarF32 = 4,
    PackedStreams = 5,
    SignedF64 = 6,
    SignedF32 = 7,
    SignedThresholds = 8,
}

impl ValueKind {
    /// Returns the size of a value in bytes.
    pub(crate) const fn bytes(self) -> u64 {
        match self {
            Self::UnipolarF32 | Self::BipolarF32 | Self::SignedF32 => 4,
            _ => 8,
        }
    }
}

#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct ThresholdParams {
    pub(crate) values: u64,
    pub(crate) thresholds: u64,
    pub(crate) state: u64,
    pub(crate) n: u64,
    pub(crate) first: u64,
    pub(crate) one: u64,
    pub(crate) kind: u32,
    pub(crate) padding: u32,
}

#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct EncodeParams {
    pub(crate) part: RowPart,
    pub(crate) values: u64,
    pub(crate) state: u64,
    pub(crate) first_value: u64,
    pub(crate) one: u64,
    pub(crate) streams: u64,
    pub(crate) seed: u64,
    pub(crate) list: u64,
    pub(crate) n_words: u64,
    pub(crate) tag: u32,
    pub(crate) first_row: u32,
    pub(crate) kind: u32,
    pub(crate) padding: u32,
}

#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct SequenceParams {
    pub(crate) part: RowPart,
    pub(crate) thresholds: u64,
    pub(crate) integers: u64,
    pub(crate) streams: u64,
    pub(crate) n_words: u64,
    pub(crate) row_step: u64,
    pub(crate) unit_step: u64,
    pub(crate) streams_are: u32,
    pub(crate) padding: u32,
}

/// The form of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub(crate) enum ResultKind {
    Counts = 0,
    UnipolarValues = 1,
    BipolarValues = 2,
    SignedValues = 3,
    Staged = 4,
}

/// The conversion of the kernels' counts to the counts of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Finish {
    pub(crate) base: u64,
    pub(crate) row_ones: u64,
    pub(crate) totals: u64,
    pub(crate) total: u64,
    pub(crate) factor: u64,
    pub(crate) length: u64,
    pub(crate) out: u64,
    pub(crate) report: u64,
    pub(crate) state: u64,
    pub(crate) stage: u64,
    pub(crate) n_neurons: u32,
    pub(crate) n_samples: u32,
    pub(crate) accumulate: u32,
    pub(crate) kind: u32,
}

impl Finish {
    /// Returns parameters without results: counts are left as they are. `state` is the address of
    /// the state of the call.
    pub(crate) const fn none(state: u64) -> Self {
        Self {
            base: 0,
            row_ones: 0,
            totals: 0,
            total: 0,
            factor: 0,
            length: 0,
            out: 0,
            report: 0,
            state,
            stage: 0,
            n_neurons: 0,
            n_samples: 0,
            accumulate: 0,
            kind: 0,
        }
    }
}

#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct FinishParams {
    pub(crate) finish: Finish,
    pub(crate) counted: u64,
}

#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct RowOnesParams {
    pub(crate) rows: u64,
    pub(crate) ones: u64,
    pub(crate) row_vectors: u64,
    pub(crate) n_rows: u32,
    pub(crate) n_parts: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct ComplementParams {
    pub(crate) part: RowPart,
    pub(crate) thresholds: u64,
    pub(crate) streams: u64,
    pub(crate) ones: u64,
    pub(crate) n_rows: u32,
    pub(crate) lanes: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct SignTermsParams {
    pub(crate) weight_ones: u64,
    pub(crate) input_ones: u64,
    pub(crate) counts: u64,
    pub(crate) n_inputs: u32,
    pub(crate) n_neurons: u32,
    pub(crate) n_samples: u32,
    pub(crate) length: u32,
    pub(crate) neuron_tiles: u32,
    pub(crate) slice: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct FewParams {
    pub(crate) part: RowPart,
    pub(crate) finish: Finish,
    pub(crate) weights: u64,
    pub(crate) inputs: u64,
    pub(crate) counts: u64,
    pub(crate) one: u64,
    pub(crate) first_value: u64,
    pub(crate) seed: CallSeed,
    pub(crate) tag: u32,
    pub(crate) kind: u32,
    pub(crate) n_rows: u32,
    pub(crate) first_neuron: u32,
    pub(crate) n_neurons: u32,
    pub(crate) n_samples: u32,
    pub(crate) slice_bytes: u32,
    pub(crate) n_slices: u32,
    pub(crate) group_rows: u32,
    pub(crate) xnor: u32,
}

#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct TileParams {
    pub(crate) weights: u64,
    pub(crate) inputs: u64,
    pub(crate) counts: u64,
    pub(crate) row_blocks: u32,
    pub(crate) n_rows: u32,
    pub(crate) first_neuron: u32,
    pub(crate) n_neurons: u32,
    pub(crate) n_samples: u32,
    pub(crate) row_tiles: u32,
    pub(crate) sample_tiles: u32,
    pub(crate) band: u32,
    pub(crate) n_parts: u32,
    pub(crate) adds: u32,
}

#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct WgmmaParams {
    pub(crate) weights: TensorMap,
    pub(crate) inputs: TensorMap,
    pub(crate) tile: TileParams,
}

/// A run of 64-bit words of the weights of one neuron.
#[derive(Debug, Clone, Copy, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(crate) struct Segment {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) neuron: u32,
    pub(crate) padding: u32,
}

#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct SparseParams {
    pub(crate) weights: u64,
    pub(crate) inputs: u64,
    pub(crate) units: u64,
    pub(crate) segments: u64,
    pub(crate) counts: u64,
    pub(crate) row_words: u64,
    pub(crate) weight_signs: u64,
    pub(crate) thresholds: u64,
    pub(crate) stream_words: u32,
    pub(crate) n_segments: u32,
    pub(crate) n_samples: u32,
    pub(crate) n_neurons: u32,
    pub(crate) n_inputs: u32,
    pub(crate) product: u32,
}

/// The geometry of the taps of a convolution: rows first, then columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct ConvGeometry {
    pub(crate) size: [u32; 2],
    pub(crate) kernel: [u32; 2],
    pub(crate) stride: [u32; 2],
    pub(crate) padding: [u32; 2],
    pub(crate) dilation: [u32; 2],
    pub(crate) columns: u32,
    pub(crate) n_positions: u32,
}

#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct GatherParams {
    pub(crate) part: RowPart,
    pub(crate) conv: ConvGeometry,
    pub(crate) streams: u64,
    pub(crate) thresholds: u64,
    pub(crate) rows: u64,
    pub(crate) row_words: u64,
    pub(crate) first_sample: u32,
    pub(crate) first_position: u32,
    pub(crate) n_patches: u32,
    pub(crate) n_inputs: u32,
    pub(crate) first_channel: u32,
    pub(crate) both_signs: u32,
}

/// A small layer in one launch.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct DirectParams {
    pub(crate) inputs: RowPart,
    pub(crate) conv: ConvGeometry,
    pub(crate) finish: Finish,
    pub(crate) thresholds: u64,
    pub(crate) integers: u64,
    pub(crate) unit_step: u64,
    pub(crate) seed: u64,
    pub(crate) weights: u64,
    pub(crate) weight_stride: u32,
    pub(crate) tag: u32,
    pub(crate) n_taps: u32,
    pub(crate) n_channels: u32,
    pub(crate) product: u32,
    pub(crate) adds_totals: u32,
    pub(crate) lanes: u32,
    pub(crate) padding: u32,
}

#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct FinishPatchesParams {
    pub(crate) finish: Finish,
    pub(crate) counted: u64,
    pub(crate) first_sample: u32,
    pub(crate) first_position: u32,
    pub(crate) n_patches: u32,
    pub(crate) n_positions: u32,
    pub(crate) both_signs: u32,
    pub(crate) n_channels: u32,
    pub(crate) first_channel: u32,
    pub(crate) adds_totals: u32,
    pub(crate) split_weights: u32,
    pub(crate) padding: u32,
}

#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct ConvTableParams {
    pub(crate) conv: ConvGeometry,
    pub(crate) rows: u64,
    pub(crate) inputs: u64,
    pub(crate) weights: u64,
    pub(crate) counts: u64,
    pub(crate) n_counts: u64,
    pub(crate) n_inputs: u32,
    pub(crate) n_neurons: u32,
    pub(crate) n_taps: u32,
    pub(crate) row_len: u32,
    pub(crate) first_channel: u32,
    pub(crate) group_outputs: u32,
    pub(crate) group_inputs: u32,
    pub(crate) padding: u32,
}

#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct TableRowsParams {
    pub(crate) input_integers: u64,
    pub(crate) weight_integers: u64,
    pub(crate) weight_ones: u64,
    pub(crate) inputs: u64,
    pub(crate) rows: u64,
    pub(crate) n_rows: u64,
    pub(crate) length: u64,
    pub(crate) n_inputs: u32,
    pub(crate) row_len: u32,
    pub(crate) counts_matches: u32,
    pub(crate) padding: u32,
}

#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct TableCountsParams {
    pub(crate) rows: u64,
    pub(crate) inputs: u64,
    pub(crate) weights: u64,
    pub(crate) counts: u64,
    pub(crate) n_inputs: u32,
    pub(crate) n_neurons: u32,
    pub(crate) row_len: u32,
    pub(crate) n_groups: u32,
    pub(crate) own_rows: u32,
    pub(crate) padding: u32,
}

#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct GateParams {
    pub(crate) a: u64,
    pub(crate) b: u64,
    pub(crate) select: u64,
    pub(crate) out: u64,
    pub(crate) n_words: u64,
    pub(crate) stream_words: u64,
    pub(crate) tail_mask: u64,
    pub(crate) kind: u32,
    pub(crate) padding: u32,
}

#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct OnesParams {
    pub(crate) a: u64,
    pub(crate) b: u64,
    pub(crate) ones: u64,
    pub(crate) stream_words: u64,
    pub(crate) n_streams: u32,
    pub(crate) n_parts: u32,
    pub(crate) kind: u32,
    pub(crate) padding: u32,
}

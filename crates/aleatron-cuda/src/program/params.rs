//! The parameters of the kernels of inter-layer arithmetic: twins of the structures in
//! `kernels/stage.cu`, field by field.

/// The constant of an element.
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(crate) struct Keys {
    pub(crate) keys: u64,
    pub(crate) period: u32,
    pub(crate) padding: u32,
}

/// The elements of a launch.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Elements {
    pub(crate) n: u64,
    pub(crate) len: u32,
    pub(crate) padding: u32,
}

/// The counts of a layer.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct LayerCounts {
    pub(crate) counts: u64,
    pub(crate) products: u64,
    pub(crate) period: u32,
    pub(crate) n_neurons: u32,
    pub(crate) row_neurons: u32,
    pub(crate) doubles: u32,
    pub(crate) subtracts: u32,
    pub(crate) padding: u32,
}

#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct DecodeParams {
    pub(crate) elements: Elements,
    pub(crate) counts: LayerCounts,
    pub(crate) rows: u64,
    pub(crate) out: u64,
    pub(crate) length: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct AccumulateParams {
    pub(crate) elements: Elements,
    pub(crate) counts: LayerCounts,
    pub(crate) bias: u64,
    pub(crate) out: u64,
    pub(crate) low: i64,
    pub(crate) high: i64,
    pub(crate) fraction: u32,
    pub(crate) padding: u32,
}

/// The operation of a step with one input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum MapKind {
    Add = 0,
    Subtract = 1,
    SubtractFrom = 2,
    Multiply = 3,
    Divide = 4,
    ClipFloats = 5,
    Offset = 6,
    NegateAndOffset = 7,
    ClipIntegers = 8,
    Restore = 9,
}

#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct MapParams {
    pub(crate) elements: Elements,
    pub(crate) keys: Keys,
    pub(crate) input: u64,
    pub(crate) out: u64,
    pub(crate) table: u64,
    pub(crate) kind: u32,
    pub(crate) padding: u32,
}

#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct CombineParams {
    pub(crate) elements: Elements,
    pub(crate) keys: Keys,
    pub(crate) left: u64,
    pub(crate) right: u64,
    pub(crate) out: u64,
    pub(crate) table: u64,
    pub(crate) subtracts: u32,
    pub(crate) is_float: u32,
}

/// The largest number of slots that elements are gathered from.
pub(crate) const MAX_SOURCES: usize = 8;

#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct GatherElementsParams {
    pub(crate) elements: Elements,
    pub(crate) map: u64,
    pub(crate) out: u64,
    pub(crate) sources: [u64; MAX_SOURCES],
    pub(crate) lens: [u32; MAX_SOURCES],
}

#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct PoolParams {
    pub(crate) elements: Elements,
    pub(crate) input: u64,
    pub(crate) out: u64,
    pub(crate) size: [u32; 2],
    pub(crate) windows: [u32; 2],
    pub(crate) window: [u32; 2],
    pub(crate) stride: [u32; 2],
    pub(crate) padding: [u32; 2],
    pub(crate) is_float: u32,
    pub(crate) averages: u32,
    pub(crate) counts_padding: u32,
    pub(crate) rest: u32,
}

/// The conversion of floats to thresholds.
#[derive(Debug, Clone, Copy, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(crate) struct QuantizeEntry {
    pub(crate) scale: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) addend: f64,
    pub(crate) levels: f64,
    pub(crate) unused: u32,
    pub(crate) has_signs: u32,
}

/// Turns floats into the thresholds of a layer.
#[derive(Debug, Clone, Copy, bytemuck::Zeroable)]
#[repr(C)]
pub(crate) struct FloatsToThresholds {
    pub(crate) found: u64,
    pub(crate) saturated: u64,
    pub(crate) least: f64,
    pub(crate) most: f64,
    pub(crate) quantizer: QuantizeEntry,
}

#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct QuantizeParams {
    pub(crate) elements: Elements,
    pub(crate) input: u64,
    pub(crate) out: u64,
    pub(crate) thresholds: FloatsToThresholds,
}

/// A requantizer.
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(crate) struct RequantizeEntry {
    pub(crate) multiplier: i64,
    pub(crate) reach: i64,
    pub(crate) zero: i64,
    pub(crate) one: i64,
    pub(crate) shift: u32,
    pub(crate) unused: u32,
}

/// The conversion of the counts of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum FinishKind {
    Floats = 0,
    FloatsToThresholds = 1,
    Integers = 2,
    IntegersToThresholds = 3,
}

/// The inter-layer arithmetic directly after a layer, in device memory.
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(crate) struct FinishStage {
    pub(crate) kind: u32,
    pub(crate) row_neurons: u32,
    pub(crate) doubles: u32,
    pub(crate) subtracts: u32,
    pub(crate) rows: u64,
    pub(crate) length: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) least: i64,
    pub(crate) greatest: i64,
    pub(crate) fraction: u32,
    pub(crate) has_signs: u32,
    pub(crate) quantizer: QuantizeEntry,
    pub(crate) keys: Keys,
    pub(crate) requantizers: u64,
    pub(crate) saturated: u64,
}

/// Turns integers into the thresholds of a layer.
#[derive(Debug, Clone, Copy, bytemuck::Zeroable)]
#[repr(C)]
pub(crate) struct IntegersToThresholds {
    pub(crate) keys: Keys,
    pub(crate) table: u64,
    pub(crate) saturated: u64,
    pub(crate) has_signs: u32,
    pub(crate) padding: u32,
}

#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct RequantizeParams {
    pub(crate) elements: Elements,
    pub(crate) input: u64,
    pub(crate) out: u64,
    pub(crate) thresholds: IntegersToThresholds,
}

/// Results and where they go on the host.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct ReportParams {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) n: u64,
}

/// A pool and the step behind it that turns its results into thresholds.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct PoolThresholdsParams {
    pub(crate) pool: PoolParams,
    pub(crate) floats: FloatsToThresholds,
    pub(crate) integers: IntegersToThresholds,
}

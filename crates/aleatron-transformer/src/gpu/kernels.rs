//! The kernels of the pass: their sources, parameters and bindings, and proofs of their bounds.
//!
//! A kernel's source is its file, after constants and bindings that are generated here.

use std::borrow::Cow;
use std::fmt::Write;

use aleatron_device::{Access, BoundsChecks, BoundsProof, Capabilities, Kernel, size_u32};
use bytemuck::{Pod, Zeroable};

use crate::config::{Activation, Config, NormKind, Precision};
use crate::error::Result;

/// The epilogue of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Epilogue {
    /// The product is stored.
    Store,
    /// The product is added to the stored values.
    Add,
    /// Pairs of rows, a gate and its value, are combined.
    GatedSilu,
    /// GELU is applied.
    Gelu,
}

impl Epilogue {
    /// Returns the constant of the shaders.
    fn constant(self) -> u32 {
        match self {
            Self::Store => 0,
            Self::Add => 1,
            Self::GatedSilu => 2,
            Self::Gelu => 3,
        }
    }
}

/// The heads of attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Heads {
    heads: u32,
    kv_heads: u32,
    head: u32,
    /// Whether the cache holds 16-bit floats.
    halves: bool,
}

impl Heads {
    pub(crate) fn of(config: &Config, precision: Precision) -> Result<Self> {
        Ok(Self {
            heads: size_u32(config.heads, "number of heads")?,
            kv_heads: size_u32(config.kv_heads, "number of key-value heads")?,
            head: size_u32(config.head_dim, "width of a head")?,
            halves: precision != Precision::F32,
        })
    }

    /// Returns the number of vectors of four of a head, padding included.
    pub(crate) fn head4(self) -> u32 {
        self.head.div_ceil(4)
    }

    /// Returns the number of heads of queries of one workgroup of attention.
    fn queries(self) -> u32 {
        let group = self.heads / self.kv_heads;
        (1..=8.min(group)).rev().find(|n| group.is_multiple_of(*n)).unwrap_or(1)
    }

    /// Returns the number of workgroups for all queries of one head of keys.
    pub(crate) fn tiles(self) -> u32 {
        self.heads / self.kv_heads / self.queries()
    }

    /// Returns the size of a vector of four in the cache in bytes.
    pub(crate) fn vector_bytes(self) -> usize {
        if self.halves { 8 } else { 16 }
    }

    fn constants(self) -> String {
        let Self { heads, kv_heads, head, .. } = self;
        format!(
            "const HEADS = {heads}u; const KV_HEADS = {kv_heads}u; const HEAD = {head}u; const HEAD4 = {}u;\n",
            self.head4()
        )
    }

    fn packing(self) -> &'static str {
        if self.halves {
            "alias Packed = vec2<u32>;
             fn pack(v: vec4<f32>) -> Packed { return vec2<u32>(pack2x16float(v.xy), pack2x16float(v.zw)); }
             fn unpacked(v: Packed) -> vec4<f32> { return vec4<f32>(unpack2x16float(v.x), unpack2x16float(v.y)); }\n"
        } else {
            "alias Packed = vec4<f32>;
             fn pack(v: vec4<f32>) -> Packed { return v; }
             fn unpacked(v: Packed) -> vec4<f32> { return v; }\n"
        }
    }
}

/// The algorithm of the products of a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ProductKind {
    /// For up to `rows` rows of activations, reading the weights once; 32 lanes may be a subgroup.
    Few { rows: u32, subgroups_of_32: bool },
    /// For more rows; lanes may be a subgroup of this size.
    Rows { rows: u32, subgroup: Option<u32> },
    /// In tiles, by threads.
    Tiles,
    /// In tiles of 64 by `tile` rows of weights, by cooperative matrices of 16-bit floats.
    Matrices { tile: u32 },
}

/// Rows of weights of a group of lanes in `gemv.wgsl`.
const FEW_ROWS_OF_GROUP: u32 = 2;

/// The number of rows of weights of a group of lanes, and of vectors of each in flight, in products
/// of [`ProductKind::Rows`].
const ROWS_OF_GROUP: u32 = 4;
const VECTORS_ON_THEIR_WAY: u32 = 4;

/// A product of a matrix with rows of activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Product {
    pub(crate) kind: ProductKind,
    pub(crate) precision: Precision,
    pub(crate) epilogue: Epilogue,
    pub(crate) has_bias: bool,
    /// Whether the kernel normalises activations by their root mean square; for few rows only.
    pub(crate) normed: bool,
}

/// A kernel of the pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum PassKernel {
    Embed { precision: Precision, learned: bool },
    Norm { kind: NormKind, selected: bool },
    Product(Product),
    Rotate { heads: Heads, rotary: bool },
    Attention { heads: Heads, split: bool },
    Combine { heads: Heads },
    Activate(Activation),
    LoraDown,
    LoraUp,
    Sample { threads: u32 },
}

macro_rules! params {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Debug, Clone, Copy, Pod, Zeroable)]
        pub(crate) struct $name { $(pub(crate) $field: $type),* }
    )*};
}

params! {
    /// Parameters of `embed.wgsl`.
    EmbedParams { first: u32, n_rows: u32, vectors: u32 }
    /// Parameters of `norm.wgsl`.
    NormParams { vectors: u32, width: u32, epsilon: f32 }
    /// Parameters of `gemv.wgsl`, `gemv_rows.wgsl`, `matmul.wgsl` and the kernel of cooperative
    /// matrices.
    ProductParams { n_rows: u32, first: u32, k_vectors: u32, x_stride: u32, out_stride: u32, m: u32, epsilon: f32, width: f32 }
    /// Parameters of `rotate.wgsl`.
    RotateParams { n_rows: u32, qkv_stride: u32, capacity: u32 }
    /// Parameters of `attention.wgsl`.
    AttentionParams { capacity: u32, out_stride: u32, splits: u32, scale: f32, window: u32 }
    /// Parameters of `combine.wgsl`.
    CombineParams { out_stride: u32, splits: u32 }
    /// Parameters of `activate.wgsl`.
    ActivateParams { inner: u32, up_stride: u32, out_stride: u32 }
    /// Parameters of `lora_down.wgsl`.
    LoraDownParams { adapter: u32, width: u32, x_stride: u32, rank: u32 }
    /// Parameters of `lora_up.wgsl`.
    LoraUpParams { adapter: u32, n_rows: u32, out_stride: u32, rank: u32 }
    /// Parameters of `sample.wgsl`.
    SampleParams { vocabulary: u32, scale: f32, top_k: u32, top_p: f32, seed_low: u32, seed_high: u32 }
}

/// Writes bindings in WGSL: names, element types, and access.
fn bindings(list: &[(&str, &str, Access)]) -> String {
    let mut text = String::new();
    for (i, (name, element, access)) in list.iter().enumerate() {
        let mode = match access {
            Access::Read => "read",
            Access::ReadWrite => "read_write",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "@group(0) @binding({i}) var<storage, {mode}> {name}: array<{element}>;"
        );
    }
    text
}

/// Returns the WGSL function that loads four weights.
fn four_weights(precision: Precision) -> &'static str {
    match precision {
        Precision::F32 => "alias Packed = vec4<f32>; fn unpacked(v: Packed) -> vec4<f32> { return v; }\n",
        Precision::F16 => {
            "alias Packed = vec2<u32>;
             fn unpacked(v: Packed) -> vec4<f32> { return vec4<f32>(unpack2x16float(v.x), unpack2x16float(v.y)); }\n"
        }
        Precision::Int8 => {
            "alias Packed = u32; fn unpacked(v: Packed) -> vec4<f32> { return vec4<f32>(unpack4xI8(v)); }\n"
        }
    }
}

/// Returns the WGSL function that loads sixteen bytes of weights, as vectors of four.
fn sixteen_bytes(precision: Precision) -> &'static str {
    match precision {
        Precision::F32 => {
            "alias Packed = vec4<f32>; const XV = 1u; fn unpacked(v: Packed, j: u32) -> vec4<f32> { return v; }\n"
        }
        Precision::F16 => {
            "alias Packed = vec4<u32>; const XV = 2u;
             fn unpacked(v: Packed, j: u32) -> vec4<f32> {
                 let w = select(v.xy, v.zw, j == 1u);
                 return vec4<f32>(unpack2x16float(w.x), unpack2x16float(w.y));
             }\n"
        }
        Precision::Int8 => {
            "alias Packed = vec4<u32>; const XV = 4u;
             fn unpacked(v: Packed, j: u32) -> vec4<f32> { return vec4<f32>(unpack4xI8(v[j])); }\n"
        }
    }
}

impl Product {
    fn has_scales(self) -> bool {
        self.precision == Precision::Int8
    }

    /// Returns the number of rows of weights of one workgroup.
    pub(crate) fn rows_of_workgroup(self) -> u32 {
        match self.kind {
            ProductKind::Few { .. } => 4 * FEW_ROWS_OF_GROUP,
            ProductKind::Rows { .. } => 4 * ROWS_OF_GROUP,
            ProductKind::Tiles => 64,
            ProductKind::Matrices { tile } => tile,
        }
    }

    /// Returns the number of rows of activations of one workgroup.
    pub(crate) fn activations_of_workgroup(self) -> u32 {
        match self.kind {
            ProductKind::Few { rows, .. } | ProductKind::Rows { rows, .. } => rows,
            ProductKind::Tiles | ProductKind::Matrices { .. } => 64,
        }
    }

    /// Returns the number of weights in one vector of parameters.
    pub(crate) fn vector_weights(self) -> u32 {
        match (self.kind, self.precision) {
            (ProductKind::Few { .. }, Precision::F16) => 8,
            (ProductKind::Few { .. }, Precision::Int8) => 16,
            _ => 4,
        }
    }

    fn list(self) -> Vec<(&'static str, &'static str, Access)> {
        let packed = match self.kind {
            ProductKind::Matrices { .. } => "PackedHalves",
            _ => "Packed",
        };
        let mut list = vec![
            ("weights", packed, Access::Read),
            ("x", "vec4<f32>", Access::Read),
            ("result", "f32", Access::ReadWrite),
        ];
        if self.has_bias {
            list.push(("bias", "f32", Access::Read));
        }
        if self.has_scales() {
            list.push(("scales", "f32", Access::Read));
        }
        if self.normed {
            list.push(("gain", "vec4<f32>", Access::Read));
        }
        list
    }

    fn source(self) -> String {
        let mut text = String::new();
        if let ProductKind::Matrices { .. } = self.kind {
            text += "enable f16;\nenable wgpu_cooperative_matrix;\n";
        }
        text += &bindings(&self.list());
        // An unused name must still be defined.
        if !self.has_bias {
            text += "const bias = array<f32, 1>(0.0);\n";
        }
        if !self.has_scales() {
            text += "const scales = array<f32, 1>(1.0);\n";
        }
        if !self.normed {
            text += "const gain = array<vec4<f32>, 1>(vec4<f32>(1.0, 1.0, 1.0, 1.0));\n";
        }
        let _ = writeln!(text, "const NORMED = {};", self.normed);
        let _ = writeln!(
            text,
            "const EPILOGUE = {}u; const HAS_BIAS = {}; const HAS_SCALES = {};",
            self.epilogue.constant(),
            self.has_bias,
            self.has_scales()
        );
        match self.kind {
            ProductKind::Few { rows, subgroups_of_32 } => {
                let unroll = if rows == 1 { 4 } else { 1 };
                let _ = writeln!(
                    text,
                    "const M = {rows}u; const R = {FEW_ROWS_OF_GROUP}u; const U = {unroll}u; const GROUPS = 4u;"
                );
                text += sixteen_bytes(self.precision);
                text += if subgroups_of_32 {
                    include_str!("shaders/group_sum_subgroup.wgsl")
                } else {
                    include_str!("shaders/group_sum_shared.wgsl")
                };
                text += include_str!("shaders/gemv.wgsl");
            }
            ProductKind::Rows { rows, subgroup } => {
                let lanes = subgroup.unwrap_or(32);
                let _ = writeln!(
                    text,
                    "const M = {rows}u; const R = {ROWS_OF_GROUP}u; const U = {VECTORS_ON_THEIR_WAY}u; const LANES = {lanes}u;"
                );
                text += four_weights(self.precision);
                text += include_str!("shaders/gemv_rows.wgsl");
                match subgroup {
                    Some(lanes) => text += &super::reduce::total_sums(ROWS_OF_GROUP * rows, lanes),
                    None => text += include_str!("shaders/total_sums_shared.wgsl"),
                }
            }
            ProductKind::Tiles => {
                text += four_weights(self.precision);
                text += include_str!("shaders/matmul.wgsl");
            }
            ProductKind::Matrices { tile } => {
                text += &super::matrices::source(self.precision, tile)
            }
        }
        text += include_str!("shaders/epilogue.wgsl");
        text
    }
}

impl PassKernel {
    /// Returns the kernels of attention, of short contexts and of long ones.
    pub(crate) fn of_attention(heads: Heads) -> [Self; 3] {
        [
            Self::Attention { heads, split: false },
            Self::Attention { heads, split: true },
            Self::Combine { heads },
        ]
    }

    fn list(self) -> Vec<(&'static str, &'static str, Access)> {
        use Access::{Read, ReadWrite};
        let tokens = ("tokens", "vec4<u32>", Read);
        match self {
            Self::Embed { precision, learned } => {
                let mut list =
                    vec![tokens, ("weights", "Packed", Read), ("result", "vec4<f32>", ReadWrite)];
                if precision == Precision::Int8 {
                    list.push(("scales", "f32", Read));
                }
                if learned {
                    list.push(("positions", "vec4<f32>", Read));
                }
                list
            }
            Self::Norm { kind, selected } => {
                let mut list = vec![
                    ("x", "vec4<f32>", Read),
                    ("gain", "vec4<f32>", Read),
                    ("result", "vec4<f32>", ReadWrite),
                ];
                if kind == NormKind::Layer {
                    list.push(("bias", "vec4<f32>", Read));
                }
                if selected {
                    list.push(("selection", "vec2<u32>", Read));
                }
                list
            }
            Self::Product(product) => product.list(),
            Self::Rotate { rotary, .. } => {
                let mut list = vec![
                    tokens,
                    ("qkv", "f32", Read),
                    ("queries", "vec4<f32>", ReadWrite),
                    ("keys", "Packed", ReadWrite),
                    ("values", "Packed", ReadWrite),
                ];
                if rotary {
                    list.push(("table", "vec2<f32>", Read));
                }
                list
            }
            Self::Attention { split, .. } => {
                let result = if split {
                    ("partial", "vec4<f32>", ReadWrite)
                } else {
                    ("result", "f32", ReadWrite)
                };
                vec![
                    tokens,
                    ("queries", "vec4<f32>", Read),
                    ("keys", "Packed", Read),
                    ("values", "Packed", Read),
                    result,
                ]
            }
            Self::Combine { .. } => {
                vec![("parts", "vec4<f32>", Read), ("result", "f32", ReadWrite)]
            }
            Self::Activate(_) => vec![("up", "f32", Read), ("result", "f32", ReadWrite)],
            Self::LoraDown | Self::LoraUp => {
                vec![tokens, ("", "", Read), ("", "", Read), ("", "", ReadWrite)]
            }
            Self::Sample { .. } => {
                vec![
                    ("", "", Read),
                    ("", "", Read),
                    ("", "", Read),
                    ("", "", ReadWrite),
                    ("", "", ReadWrite),
                ]
            }
        }
    }
}

impl Kernel for PassKernel {
    fn name(&self) -> Cow<'static, str> {
        match self {
            Self::Embed { .. } => "embed".into(),
            Self::Norm { .. } => "norm".into(),
            Self::Product(product) => {
                let what = match product.epilogue {
                    Epilogue::Store => "store",
                    Epilogue::Add => "add",
                    Epilogue::GatedSilu | Epilogue::Gelu => "act",
                };
                match product.kind {
                    ProductKind::Few { rows, .. } => format!("few{rows} {what}").into(),
                    ProductKind::Rows { rows, .. } => format!("rows{rows} {what}").into(),
                    ProductKind::Tiles => format!("tiles {what}").into(),
                    ProductKind::Matrices { tile } => format!("mma{tile} {what}").into(),
                }
            }
            Self::Rotate { .. } => "rotate".into(),
            Self::Attention { .. } => "attention".into(),
            Self::Combine { .. } => "combine".into(),
            Self::Activate(_) => "activate".into(),
            Self::LoraDown => "lora down".into(),
            Self::LoraUp => "lora up".into(),
            Self::Sample { .. } => "sample".into(),
        }
    }

    fn source(&self, _: Capabilities) -> Cow<'static, str> {
        let list = self.list();
        match *self {
            Self::Embed { precision, learned } => {
                let scales = precision == Precision::Int8;
                let mut text = bindings(&list);
                let _ = writeln!(text, "const LEARNED = {learned}; const HAS_SCALES = {scales};");
                if !learned {
                    text += "const positions = array<vec4<f32>, 1>(vec4<f32>(0.0, 0.0, 0.0, 0.0));\n";
                }
                if !scales {
                    text += "const scales = array<f32, 1>(1.0);\n";
                }
                text + four_weights(precision) + include_str!("shaders/embed.wgsl")
            }
            Self::Norm { kind, selected } => {
                let layer = kind == NormKind::Layer;
                let mut text = bindings(&list);
                let _ = writeln!(
                    text,
                    "const LAYER = {layer}; const HAS_BIAS = {layer}; const SELECTED = {selected};"
                );
                if !layer {
                    text += "const bias = array<vec4<f32>, 1>(vec4<f32>(0.0, 0.0, 0.0, 0.0));\n";
                }
                if !selected {
                    text += "const selection = array<vec2<u32>, 1>(vec2<u32>(0u, 0u));\n";
                }
                text + include_str!("shaders/norm.wgsl")
            }
            Self::Product(product) => product.source(),
            Self::Rotate { heads, rotary } => {
                let mut text = bindings(&list) + &heads.constants() + heads.packing();
                let _ = writeln!(text, "const ROTARY = {rotary};");
                if !rotary {
                    text += "const table = array<vec2<f32>, 1>(vec2<f32>(1.0, 0.0));\n";
                }
                text + include_str!("shaders/rotate.wgsl")
            }
            Self::Attention { heads, split } => {
                let mut text = bindings(&list) + &heads.constants() + heads.packing();
                let (queries, tiles) = (heads.queries(), heads.tiles());
                let lanes = 16.min(128 / queries);
                // Parts of positions are small, so that many workgroups share them.
                let block = if split { 32 } else { 128 };
                let _ = writeln!(
                    text,
                    "const QUERIES = {queries}u; const TILES = {tiles}u; const LANES = {lanes}u; const BLOCK = {block}u;"
                );
                // The unused store is removed, since its binding is missing.
                let body = include_str!("shaders/attention.wgsl");
                text + &choose(body, split)
            }
            Self::Combine { heads } => {
                bindings(&list) + &heads.constants() + include_str!("shaders/combine.wgsl")
            }
            Self::Activate(activation) => {
                let gated = activation == Activation::GatedSilu;
                bindings(&list) + &format!("const GATED = {gated};\n") + include_str!("shaders/activate.wgsl")
            }
            Self::LoraDown => include_str!("shaders/lora_down.wgsl").to_owned(),
            Self::LoraUp => include_str!("shaders/lora_up.wgsl").to_owned(),
            Self::Sample { threads } => {
                format!("const THREADS = {threads}u;\n") + include_str!("shaders/sample.wgsl")
            }
        }
        .into()
    }

    fn bindings(&self) -> Cow<'static, [Access]> {
        self.list().iter().map(|(.., access)| *access).collect::<Vec<_>>().into()
    }

    fn immediate_bytes(&self) -> usize {
        match self {
            Self::Embed { .. } => size_of::<EmbedParams>(),
            Self::Norm { .. } => size_of::<NormParams>(),
            Self::Product(_) => size_of::<ProductParams>(),
            Self::Rotate { .. } => size_of::<RotateParams>(),
            Self::Attention { .. } => size_of::<AttentionParams>(),
            Self::Combine { .. } => size_of::<CombineParams>(),
            Self::Activate(_) => size_of::<ActivateParams>(),
            Self::LoraDown => size_of::<LoraDownParams>(),
            Self::LoraUp => size_of::<LoraUpParams>(),
            Self::Sample { .. } => size_of::<SampleParams>(),
        }
    }

    fn checks(&self) -> BoundsChecks {
        #[allow(unsafe_code, reason = "the only proof of bounds of the kernels of this crate")]
        // SAFETY: no other crate can name a kernel, and `record.rs` launches each as stated below.
        let removed = BoundsChecks::Removed(unsafe { BoundsProof::assume() });
        match self {
            // Rows of weights are clamped to `n_rows`, which is at least 1, and vectors to
            // `k_vectors`: together the elements of the part that is bound. Activations
            // have room for 16 rows, and for as many as a launch of tiles has, of `x_stride`
            // vectors each, at least as many as a row of weights needs. Results are stored below
            // `m` and `n_rows` only; `Buffers` has room for as many rows of
            // `out_stride`. Loops count up to those sizes. Indices into local arrays
            // and workgroup memory are bounded by the constants that are also their sizes.
            Self::Product(_) => removed,
            // A row is below the rows launched, its slot and position are those of an open
            // sequence, for which the cache has capacity: the host keeps lengths below the
            // capacity, and the sampler copies slots and counts positions as the host does.
            // Positions of a block stay below `end`, which is at most the row's own position + 1.
            // Splits are at least 1.
            Self::Attention { .. } | Self::Rotate { .. } => removed,
            // Rows of activations are those launched, or those of a list computed by the host.
            Self::Norm { .. } => removed,
            _ => BoundsChecks::Enabled,
        }
    }
}

/// Returns the text with one of the two stores of attention: each names a binding that the other
/// does not have.
fn choose(text: &str, split: bool) -> String {
    let (begin, between, end) = (
        "            if (SPLIT) {\n",
        "            } else {\n",
        "            }\n        }\n    }\n}\n",
    );
    let parts =
        text.split_once(begin).and_then(|(head, rest)| Some((head, rest.split_once(between)?)));
    let Some((head, (first, second))) = parts else { return text.to_owned() };
    let second = second.strip_suffix(end).unwrap_or(second);
    let kept = if split { first } else { second };
    format!("{head}{{\n{kept}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::random::sized;

    fn kernels() -> Vec<PassKernel> {
        use Precision::{F16, F32, Int8};
        let mut all = vec![PassKernel::LoraDown, PassKernel::LoraUp];
        for precision in [F32, F16, Int8] {
            all.extend([false, true].map(|learned| PassKernel::Embed { precision, learned }));
            for epilogue in [Epilogue::Store, Epilogue::Add, Epilogue::GatedSilu, Epilogue::Gelu] {
                let mut kinds = vec![ProductKind::Tiles];
                for rows in [1, 2] {
                    kinds.extend(
                        [false, true]
                            .map(|subgroups_of_32| ProductKind::Few { rows, subgroups_of_32 }),
                    );
                }
                for rows in [8, 16] {
                    let subgroups = [None, Some(8), Some(16), Some(32)];
                    kinds.extend(subgroups.map(|subgroup| ProductKind::Rows { rows, subgroup }));
                }
                if precision != F32 {
                    kinds.extend([64, 128].map(|tile| ProductKind::Matrices { tile }));
                }
                for kind in kinds {
                    for has_bias in [false, true] {
                        all.push(PassKernel::Product(Product {
                            kind,
                            precision,
                            epilogue,
                            has_bias,
                            normed: false,
                        }));
                    }
                    if let ProductKind::Few { .. } = kind {
                        let (has_bias, normed) = (true, true);
                        all.push(PassKernel::Product(Product {
                            kind,
                            precision,
                            epilogue,
                            has_bias,
                            normed,
                        }));
                    }
                }
            }
            for size in ["tiny", "tinyllama", "llama-8b"] {
                let heads = Heads::of(&sized(size).unwrap(), precision).unwrap();
                all.push(PassKernel::Combine { heads });
                for flag in [false, true] {
                    all.push(PassKernel::Rotate { heads, rotary: flag });
                    all.push(PassKernel::Attention { heads, split: flag });
                }
            }
        }
        for kind in [NormKind::Rms, NormKind::Layer] {
            all.extend([false, true].map(|selected| PassKernel::Norm { kind, selected }));
        }
        all.extend([Activation::GatedSilu, Activation::GeluTanh].map(PassKernel::Activate));
        all.extend([256, 1024].map(|threads| PassKernel::Sample { threads }));
        all
    }

    #[test]
    fn shaders_are_valid_and_have_what_their_kernels_declare() {
        use naga::valid::{Capabilities as Allowed, ValidationFlags, Validator};
        for kernel in kernels() {
            let source = kernel.source(Capabilities::ALL);
            let module = naga::front::wgsl::parse_str(&source)
                .unwrap_or_else(|e| panic!("{kernel:?}: {}", e.emit_to_string(&source)));
            let mut validator = Validator::new(ValidationFlags::all(), Allowed::all());
            validator
                .validate(&module)
                .unwrap_or_else(|e| panic!("{kernel:?}: {}", e.emit_to_string(&source)));
            let variables = || module.global_variables.iter().map(|(_, variable)| variable);
            let bound = variables().filter(|variable| variable.binding.is_some()).count();
            assert_eq!(bound, kernel.bindings().len(), "{kernel:?}");
            let immediates = variables().filter(|v| v.space == naga::AddressSpace::Immediate);
            let bytes: u32 =
                immediates.map(|v| module.types[v.ty].inner.size(module.to_ctx())).sum();
            assert_eq!(bytes as usize, kernel.immediate_bytes(), "{kernel:?}");
            let shared = variables().filter(|v| v.space == naga::AddressSpace::WorkGroup);
            let bytes: u32 = shared.map(|v| module.types[v.ty].inner.size(module.to_ctx())).sum();
            let limit = match kernel {
                // Launched only if the device supports it; see `Abilities`.
                PassKernel::Product(Product { kind: ProductKind::Matrices { .. }, .. }) => 48 << 10,
                _ => 16 << 10,
            };
            assert!(bytes <= limit, "{kernel:?}: {bytes} bytes of workgroup memory");
        }
    }
}

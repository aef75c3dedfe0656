//! ONNX models for fuzz targets.

use aleatron_graph::onnx::proto::{
    GraphProto, ModelProto, OperatorSetIdProto, TensorProto, ValueInfoProto,
};
use prost::Message;

/// The kind of an attribute.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// 0 or 1.
    Flag,
    /// An integer.
    Int,
    /// The code of an element type.
    Type,
    /// A float.
    Float,
    /// Integers.
    Ints,
    /// Floats.
    Floats,
    /// A tensor.
    Tensor,
    /// One of these.
    Text(&'static [&'static str]),
    /// Some of these.
    Texts(&'static [&'static str]),
}

/// Returns every supported operator, except those with inner graphs.
pub fn operators() -> Vec<&'static str> {
    // The list is private: it is read as text, with names in quotes.
    let list =
        include_str!("../../crates/aleatron-graph/src/onnx/known.rs").split_once("= &[").unwrap().1;
    let names: Vec<&str> =
        list.split('"').skip(1).step_by(2).filter(|name| !["If", "Loop"].contains(name)).collect();
    assert!(names.len() > 100 && names.contains(&"Conv"));
    names
}

/// Returns a model of a graph in an operator set.
pub fn model(graph: GraphProto, version: i64) -> Vec<u8> {
    let opset_import = vec![OperatorSetIdProto { domain: None, version: Some(version) }];
    ModelProto { ir_version: Some(10), graph: Some(graph), opset_import, ..ModelProto::default() }
        .encode_to_vec()
}

/// Returns a value with only a name.
pub fn value(name: &str) -> ValueInfoProto {
    ValueInfoProto { name: Some(name.to_owned()), r#type: None }
}

/// Returns a constant of floats.
pub fn constant(name: &str, dims: &[i64]) -> TensorProto {
    let n = dims.iter().product::<i64>();
    TensorProto {
        dims: dims.to_vec(),
        data_type: Some(1),
        float_data: (0..n).map(|k| (k % 7) as f32 / 4.0 - 0.75).collect(),
        name: Some(name.to_owned()),
        ..TensorProto::default()
    }
}

/// Returns the attributes of an operator.
pub fn attributes(operator: &str) -> &'static [(&'static str, Kind)] {
    use Kind::{Flag, Float, Floats, Int, Ints, Tensor, Text, Texts, Type};
    const AUTO_PAD: Kind = Text(&["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]);
    const MODES: Kind = Text(&["nearest", "linear", "cubic"]);
    const SCATTER: Kind = Text(&["none", "add", "mul", "max", "min"]);
    const DIRECTION: Kind = Text(&["forward", "reverse", "bidirectional"]);
    const ACTIVATIONS: Kind = Texts(&["Tanh", "Sigmoid", "Relu", "HardSigmoid", "Elu", "Softplus"]);
    match operator {
        "Celu" | "Elu" | "LeakyRelu" | "Swish" | "ThresholdedRelu" | "SwiGLU" => {
            &[("alpha", Float)]
        }
        "HardSigmoid" => &[("alpha", Float), ("beta", Float)],
        "Selu" => &[("alpha", Float), ("gamma", Float)],
        "Shrink" => &[("bias", Float), ("lambd", Float)],
        "Gelu" => &[("approximate", Text(&["none", "tanh"]))],
        "IsInf" => &[("detect_negative", Flag), ("detect_positive", Flag)],
        "BitShift" => &[("direction", Text(&["LEFT", "RIGHT"]))],
        "Mod" => &[("fmod", Flag)],
        "Clip" => &[("min", Float), ("max", Float)],
        "Cast" => &[("to", Type)],
        "Constant" => &[("value", Tensor), ("value_ints", Ints)],
        "ConstantOfShape" => &[("value", Tensor)],
        "Softmax" | "LogSoftmax" | "Hardmax" | "Flatten" | "Concat" | "Gather"
        | "GatherElements" | "Compress" | "OneHot" => &[("axis", Int)],
        "ArgMax" | "ArgMin" => &[("axis", Int), ("keepdims", Flag), ("select_last_index", Flag)],
        "CumSum" | "CumProd" => &[("exclusive", Flag), ("reverse", Flag)],
        "TopK" => &[("axis", Int), ("largest", Flag)],
        "Gemm" => &[("alpha", Float), ("beta", Float), ("transA", Flag), ("transB", Flag)],
        "Conv" => &[
            ("group", Int),
            ("pads", Ints),
            ("auto_pad", AUTO_PAD),
            ("kernel_shape", Ints),
            ("strides", Ints),
            ("dilations", Ints),
        ],
        "ConvTranspose" => &[
            ("group", Int),
            ("pads", Ints),
            ("auto_pad", AUTO_PAD),
            ("kernel_shape", Ints),
            ("strides", Ints),
            ("dilations", Ints),
            ("output_padding", Ints),
            ("output_shape", Ints),
        ],
        "Einsum" => &[(
            "equation",
            Text(&[
                "ij,jk->ik",
                "ij->ji",
                "ii->i",
                "i,i",
                "...ij,...jk->...ik",
                "ij->",
                "bij,bjk",
                "i...->...",
                "ii,i->i",
            ]),
        )],
        "AveragePool" => &[
            ("pads", Ints),
            ("auto_pad", AUTO_PAD),
            ("kernel_shape", Ints),
            ("strides", Ints),
            ("dilations", Ints),
            ("ceil_mode", Flag),
            ("count_include_pad", Flag),
        ],
        "MaxPool" => &[
            ("pads", Ints),
            ("auto_pad", AUTO_PAD),
            ("kernel_shape", Ints),
            ("strides", Ints),
            ("dilations", Ints),
            ("ceil_mode", Flag),
            ("storage_order", Flag),
        ],
        "LpPool" => &[
            ("pads", Ints),
            ("auto_pad", AUTO_PAD),
            ("kernel_shape", Ints),
            ("strides", Ints),
            ("dilations", Ints),
            ("ceil_mode", Flag),
            ("p", Int),
        ],
        "MaxUnpool" | "Col2Im" => {
            &[("pads", Ints), ("kernel_shape", Ints), ("strides", Ints), ("dilations", Ints)]
        }
        "GlobalLpPool" => &[("p", Int)],
        "BatchNormalization" => &[("epsilon", Float), ("momentum", Float), ("training_mode", Flag)],
        "InstanceNormalization" => &[("epsilon", Float)],
        "GroupNormalization" => &[("epsilon", Float), ("num_groups", Int)],
        "LayerNormalization" | "RMSNormalization" => &[("axis", Int), ("epsilon", Float)],
        "LpNormalization" => &[("axis", Int), ("p", Int)],
        "LRN" => &[("alpha", Float), ("beta", Float), ("bias", Float), ("size", Int)],
        "MeanVarianceNormalization" | "Squeeze" | "Unsqueeze" | "CenterCropPad" => {
            &[("axes", Ints)]
        }
        "RNN" => &[
            ("direction", DIRECTION),
            ("activations", ACTIVATIONS),
            ("clip", Float),
            ("hidden_size", Int),
            ("layout", Flag),
            ("activation_alpha", Floats),
        ],
        "GRU" => &[
            ("direction", DIRECTION),
            ("activations", ACTIVATIONS),
            ("clip", Float),
            ("hidden_size", Int),
            ("layout", Flag),
            ("linear_before_reset", Flag),
        ],
        "LSTM" => &[
            ("direction", DIRECTION),
            ("activations", ACTIVATIONS),
            ("clip", Float),
            ("hidden_size", Int),
            ("layout", Flag),
            ("input_forget", Flag),
        ],
        "Attention" => &[
            ("is_causal", Flag),
            ("q_num_heads", Int),
            ("kv_num_heads", Int),
            ("scale", Float),
            ("softcap", Float),
            ("left_window_size", Int),
            ("right_window_size", Int),
            ("qk_matmul_output_mode", Int),
        ],
        "RotaryEmbedding" => {
            &[("interleaved", Flag), ("num_heads", Int), ("rotary_embedding_dim", Int)]
        }
        "Resize" => &[
            ("mode", MODES),
            (
                "coordinate_transformation_mode",
                Text(&[
                    "half_pixel",
                    "half_pixel_symmetric",
                    "pytorch_half_pixel",
                    "align_corners",
                    "asymmetric",
                    "tf_crop_and_resize",
                ]),
            ),
            ("nearest_mode", Text(&["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])),
            ("keep_aspect_ratio_policy", Text(&["stretch", "not_larger", "not_smaller"])),
            ("cubic_coeff_a", Float),
            ("exclude_outside", Flag),
            ("antialias", Flag),
            ("extrapolation_value", Float),
            ("axes", Ints),
        ],
        "Upsample" => &[("mode", MODES)],
        "GridSample" => &[
            ("mode", MODES),
            ("padding_mode", Text(&["zeros", "border", "reflection"])),
            ("align_corners", Flag),
        ],
        "Reshape" => &[("shape", Ints), ("allowzero", Flag)],
        "Transpose" => &[("perm", Ints)],
        "Split" => &[("axis", Int), ("split", Ints), ("num_outputs", Int)],
        "Slice" => &[("starts", Ints), ("ends", Ints), ("axes", Ints)],
        "Pad" => &[
            ("mode", Text(&["constant", "reflect", "edge", "wrap"])),
            ("pads", Ints),
            ("value", Float),
        ],
        "GatherND" => &[("batch_dims", Int)],
        "Scatter" | "ScatterElements" => &[("axis", Int), ("reduction", SCATTER)],
        "ScatterND" => &[("reduction", SCATTER)],
        "Trilu" => &[("upper", Flag)],
        "EyeLike" => &[("k", Int), ("dtype", Type)],
        "DepthToSpace" => &[("mode", Text(&["DCR", "CRD"])), ("blocksize", Int)],
        "SpaceToDepth" => &[("blocksize", Int)],
        "ReverseSequence" => &[("batch_axis", Int), ("time_axis", Int)],
        "Unique" => &[("axis", Int), ("sorted", Flag)],
        "Shape" => &[("start", Int), ("end", Int)],
        _ if operator.starts_with("Reduce") => {
            &[("axes", Ints), ("keepdims", Flag), ("noop_with_empty_axes", Flag)]
        }
        _ => &[],
    }
}

//! Conversion of [`Op`] to operators of ONNX.

use aleatron_tensor::{Device, Tensor};

use super::super::proto::AttributeProto;
use super::{OPSET, code_of, write_tensor};
use crate::error::{Error, Result};
use crate::narrow::Narrow;
use crate::op::{
    Aspect, Attention, Binary, BlockOrder, Border, BoxFormat, Cell, Coordinates, Dims, Direction,
    Equation, Extreme, Filter, Interpolation, Nearest, NoAxes, Op, PadMode, PadModeOfGrid, Padding,
    Pooling, Quantized, Recurrent, Resize, ResizeOptions, Rounding, Scatter, ShownScores,
    SoftmaxAxes, Tie, Triangle, Unary, Window,
};

/// A written operator.
pub(super) struct Written {
    /// The name.
    pub(super) operator: &'static str,
    /// The attributes.
    pub(super) attributes: Vec<AttributeProto>,
    /// Additional constant inputs: their indices, names and elements.
    pub(super) constants: Vec<(usize, &'static str, Tensor)>,
    /// The oldest operator set that supports it.
    pub(super) version: i64,
}

/// Returns an integer attribute.
pub(super) fn integer(name: &str, value: i64) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        i: Some(value),
        r#type: Some(2),
        ..AttributeProto::default()
    }
}

fn flag(name: &str, value: bool) -> AttributeProto {
    integer(name, value.into())
}

fn float(name: &str, value: f32) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        f: Some(value),
        r#type: Some(1),
        ..AttributeProto::default()
    }
}

fn text(name: &str, value: &str) -> AttributeProto {
    let s = Some(value.as_bytes().to_vec());
    AttributeProto { name: Some(name.to_owned()), s, r#type: Some(3), ..AttributeProto::default() }
}

fn integers(name: &str, values: &[i64]) -> AttributeProto {
    let ints = values.to_vec();
    AttributeProto {
        name: Some(name.to_owned()),
        ints,
        r#type: Some(7),
        ..AttributeProto::default()
    }
}

fn floats(name: &str, values: Vec<f32>) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        floats: values,
        r#type: Some(6),
        ..AttributeProto::default()
    }
}

fn tensor(name: &str, value: &Tensor, narrow: Option<Narrow>) -> Result<AttributeProto> {
    let t = Some(write_tensor(value, narrow, "")?);
    Ok(AttributeProto {
        name: Some(name.to_owned()),
        t,
        r#type: Some(4),
        ..AttributeProto::default()
    })
}

fn numbers(values: &[i64]) -> Result<Tensor> {
    Ok(Tensor::from_slice(values, &[values.len()], &Device::Cpu)?)
}

fn scalar(value: f32) -> Result<Tensor> {
    Ok(Tensor::from_slice(&[value], &[], &Device::Cpu)?)
}

/// Returns the first joined axis of a softmax of operator sets before 13.
pub(super) fn flattened_softmax(op: &Op) -> Option<i64> {
    match op {
        Op::Softmax { axes: SoftmaxAxes::From(axis), .. } => Some(*axis),
        _ => None,
    }
}

/// Writes an operation; `made` is the type of its output, if tensors hold it in a wider one, and
/// `is_given` says which inputs are present.
pub(super) fn write(
    op: &Op,
    made: Option<Narrow>,
    is_given: &dyn Fn(usize) -> bool,
) -> Result<Written> {
    let mut constants: Vec<(usize, &'static str, Tensor)> = Vec::new();
    let attributes = match op {
        Op::Unary(function) => unary(*function),
        Op::Binary(function) => binary(*function),
        Op::Clip { low, high } => {
            for (index, what, bound) in [(1, "low", low), (2, "high", high)] {
                if let Some(bound) = bound {
                    constants.push((index, what, scalar(*bound)?));
                }
            }
            vec![]
        }
        Op::Cast(dtype) => vec![integer("to", code_of(*dtype, made)?.into())],
        Op::Constant(value) => vec![tensor("value", &value.0, made)?],
        Op::Reduce { axes, reduced, no_axes, .. } => {
            if let Some(axes) = axes {
                constants.push((1, "axes", numbers(axes)?));
            }
            vec![keepdims(*reduced), flag("noop_with_empty_axes", *no_axes == NoAxes::None)]
        }
        Op::ArgReduce { axis, reduced, tie, .. } => {
            vec![
                integer("axis", *axis),
                keepdims(*reduced),
                flag("select_last_index", *tie == Tie::Last),
            ]
        }
        Op::Softmax { axes: SoftmaxAxes::One(axis), .. } => vec![integer("axis", *axis)],
        Op::Softmax { axes: SoftmaxAxes::From(_), .. } => vec![integer("axis", -1)],
        Op::CumSum { exclusive, reverse } | Op::CumProd { exclusive, reverse } => {
            vec![flag("exclusive", *exclusive), flag("reverse", *reverse)]
        }
        Op::TopK { axis, extreme } => {
            vec![integer("axis", *axis), flag("largest", *extreme == Extreme::Max)]
        }
        Op::Squeeze { axes } | Op::Unsqueeze { axes } => {
            if let Some(axes) = axes {
                constants.push((1, "axes", numbers(axes)?));
            }
            vec![]
        }
        Op::Reshape { shape, allow_zero } => {
            if let Some(shape) = shape {
                constants.push((1, "shape", numbers(shape)?));
            }
            vec![flag("allowzero", *allow_zero)]
        }
        Op::Split { axis, sizes, parts } => {
            let mut attributes = vec![integer("axis", *axis)];
            match (sizes, parts) {
                (Some(sizes), _) => constants.push((1, "sizes", numbers(sizes)?)),
                (None, Some(parts)) if !is_given(1) => {
                    attributes.push(integer("num_outputs", *parts))
                }
                _ => {}
            }
            attributes
        }
        Op::Slice { given } => {
            if let Some(given) = given {
                constants.push((1, "starts", numbers(&given.starts)?));
                constants.push((2, "ends", numbers(&given.ends)?));
                if let Some(axes) = &given.axes {
                    constants.push((3, "axes", numbers(axes)?));
                }
            }
            vec![]
        }
        Op::Pad { mode, given } => {
            if let Some((pads, value)) = given {
                constants.push((1, "pads", numbers(pads)?));
                // The default value is zero of the type of the padded tensor.
                if value.to_bits() != 0 {
                    constants.push((2, "value", scalar(*value)?));
                }
            }
            let mode = match mode {
                PadMode::Constant => "constant",
                PadMode::Reflect => "reflect",
                PadMode::Edge => "edge",
                PadMode::Wrap => "wrap",
            };
            vec![text("mode", mode)]
        }
        Op::ConstantOfShape { value } => vec![tensor("value", &value.0, made)?],
        Op::EyeLike { diagonal, dtype } => {
            let code = dtype.map(|dtype| code_of(dtype, made)).transpose()?;
            let dtype = code.map(|code| integer("dtype", code.into()));
            [integer("k", *diagonal)].into_iter().chain(dtype).collect()
        }
        Op::QuantizeLinear { axis, block_size, to } => {
            let mut attributes = vec![integer("axis", *axis)];
            if *block_size != 0 {
                attributes.push(integer("block_size", *block_size));
            }
            if !is_given(2) && *to != Quantized::UInt8 {
                attributes.push(integer("output_dtype", code_of(to.dtype(), made)?.into()));
            }
            attributes
        }
        Op::SignalWindow { periodic, dtype, .. } => {
            vec![
                integer("output_datatype", code_of(*dtype, None)?.into()),
                flag("periodic", *periodic),
            ]
        }
        Op::Dft { axis, inverse, onesided } => {
            if let Some(axis) = axis {
                constants.push((2, "axis", Tensor::from_slice(&[*axis], &[], &Device::Cpu)?));
            }
            vec![flag("inverse", *inverse), flag("onesided", *onesided)]
        }
        op => match network(op)? {
            Some(attributes) => attributes,
            None => shaping(op),
        },
    };
    Ok(Written { operator: op.name(), attributes, constants, version: version(op) }.renamed(op))
}

impl Written {
    /// Replaces the name of an old operator by its successor.
    fn renamed(self, op: &Op) -> Self {
        match op {
            Op::Upsample { .. } => Self { operator: "Resize", ..self },
            _ => self,
        }
    }
}

/// Returns the oldest operator set that supports a written operation.
fn version(op: &Op) -> i64 {
    match op {
        Op::Unary(Unary::Gelu | Unary::GeluTanh) | Op::GridSample { .. } => 20,
        Op::Unary(Unary::Swish { .. }) => 24,
        Op::GroupNormalization { .. } => 21,
        Op::Pad { mode: PadMode::Wrap, .. } => 19,
        Op::Pool { pooling: Pooling::Average { .. }, .. } | Op::Resize(_) | Op::Upsample { .. } => {
            19
        }
        Op::RmsNormalization { .. } | Op::RotaryEmbedding { .. } => 23,
        Op::Attention(_) => 24,
        Op::Dft { .. } => 20,
        Op::QuantizeLinear { block_size: 0, to: Quantized::Int8 | Quantized::UInt8, .. } => 19,
        Op::QuantizeLinear { .. } | Op::DequantizeLinear { .. } => 21,
        Op::CumProd { .. } => 26,
        Op::SwiGlu { .. } => super::super::NEWEST_OPSET,
        _ => OPSET,
    }
}

fn keepdims(reduced: Dims) -> AttributeProto {
    flag("keepdims", reduced == Dims::Keep)
}

fn unary(function: Unary) -> Vec<AttributeProto> {
    match function {
        Unary::Celu { alpha }
        | Unary::Elu { alpha }
        | Unary::LeakyRelu { alpha }
        | Unary::Swish { alpha }
        | Unary::ThresholdedRelu { alpha } => vec![float("alpha", alpha)],
        Unary::HardSigmoid { alpha, beta } => vec![float("alpha", alpha), float("beta", beta)],
        Unary::IsInf { negative, positive } => {
            vec![flag("detect_negative", negative), flag("detect_positive", positive)]
        }
        Unary::Selu { alpha, gamma } => vec![float("alpha", alpha), float("gamma", gamma)],
        Unary::Shrink { bias, lambda } => vec![float("bias", bias), float("lambd", lambda)],
        Unary::GeluTanh => vec![text("approximate", "tanh")],
        _ => vec![],
    }
}

fn binary(function: Binary) -> Vec<AttributeProto> {
    match function {
        Binary::BitShiftLeft => vec![text("direction", "LEFT")],
        Binary::BitShiftRight => vec![text("direction", "RIGHT")],
        Binary::Fmod => vec![integer("fmod", 1)],
        _ => vec![],
    }
}

fn window(window: &Window) -> Vec<AttributeProto> {
    let mut attributes = Vec::new();
    for (name, values) in [
        ("kernel_shape", &window.kernel),
        ("strides", &window.strides),
        ("dilations", &window.dilations),
    ] {
        if !values.is_empty() {
            attributes.push(integers(name, values));
        }
    }
    match &window.padding {
        Padding::Explicit(pads) if pads.is_empty() => {}
        Padding::Explicit(pads) => attributes.push(integers("pads", pads)),
        Padding::SameUpper => attributes.push(text("auto_pad", "SAME_UPPER")),
        Padding::SameLower => attributes.push(text("auto_pad", "SAME_LOWER")),
        Padding::Valid => attributes.push(text("auto_pad", "VALID")),
    }
    attributes
}

/// Returns the attributes of products, pools, normalisations and similar operators; `None` for
/// other operators.
fn network(op: &Op) -> Result<Option<Vec<AttributeProto>>> {
    Ok(Some(match op {
        Op::Gemm { alpha, beta, transpose_a, transpose_b } => vec![
            float("alpha", *alpha),
            float("beta", *beta),
            flag("transA", *transpose_a),
            flag("transB", *transpose_b),
        ],
        Op::Conv { window: w, groups } => [vec![integer("group", *groups)], window(w)].concat(),
        Op::ConvTranspose { window: w, groups, output_padding, output_shape } => {
            let mut attributes = [vec![integer("group", *groups)], window(w)].concat();
            for (name, values) in
                [("output_padding", output_padding), ("output_shape", output_shape)]
            {
                if !values.is_empty() {
                    attributes.push(integers(name, values));
                }
            }
            attributes
        }
        Op::Einsum { equation } => vec![text("equation", &equation_text(equation))],
        Op::Pool { pooling, window: w, rounding } => {
            let own = match pooling {
                Pooling::Average { count_padding } => flag("count_include_pad", *count_padding),
                Pooling::Max { column_major } => flag("storage_order", *column_major),
                Pooling::Lp { p } => integer("p", *p),
            };
            [vec![own, flag("ceil_mode", *rounding == Rounding::Up)], window(w)].concat()
        }
        Op::GlobalPool(Pooling::Lp { p }) => vec![integer("p", *p)],
        Op::MaxUnpool { window: w } | Op::Col2Im { window: w } => window(w),
        Op::BatchNormalization { epsilon, momentum, training } => {
            vec![
                float("epsilon", *epsilon),
                float("momentum", *momentum),
                flag("training_mode", *training),
            ]
        }
        Op::InstanceNormalization { epsilon } => vec![float("epsilon", *epsilon)],
        Op::GroupNormalization { epsilon, groups } => {
            vec![float("epsilon", *epsilon), integer("num_groups", *groups)]
        }
        Op::LayerNormalization { axis, epsilon } | Op::RmsNormalization { axis, epsilon } => {
            vec![integer("axis", *axis), float("epsilon", *epsilon)]
        }
        Op::LpNormalization { axis, p } => vec![integer("axis", *axis), integer("p", *p)],
        Op::Lrn { alpha, beta, bias, size } => {
            vec![
                float("alpha", *alpha),
                float("beta", *beta),
                float("bias", *bias),
                integer("size", *size),
            ]
        }
        Op::MeanVarianceNormalization { axes } => vec![integers("axes", axes)],
        Op::Resize(resize) => resized(resize),
        // Upsample uses the original coordinates.
        Op::Upsample { interpolation } => resized(&Resize {
            options: ResizeOptions {
                coordinates: Coordinates::Asymmetric,
                ..ResizeOptions::new(*interpolation)
            },
            axes: None,
            aspect: Aspect::Stretch,
        }),
        Op::GridSample { interpolation, edge, align_corners } => {
            let edge = match edge {
                PadModeOfGrid::Zeros => "zeros",
                PadModeOfGrid::Border => "border",
                PadModeOfGrid::Reflection => "reflection",
            };
            vec![
                text("mode", interpolation_name(*interpolation)),
                text("padding_mode", edge),
                flag("align_corners", *align_corners),
            ]
        }
        Op::Recurrent(recurrent) => recurring(recurrent)?,
        Op::Attention(attention) => attending(attention),
        Op::RotaryEmbedding { interleaved, heads, rotated } => vec![
            flag("interleaved", *interleaved),
            integer("num_heads", *heads),
            integer("rotary_embedding_dim", *rotated),
        ],
        Op::SwiGlu { alpha } => vec![float("alpha", *alpha)],
        Op::DequantizeLinear { axis, block_size } => {
            let block = (*block_size != 0).then(|| integer("block_size", *block_size));
            [integer("axis", *axis)].into_iter().chain(block).collect()
        }
        Op::ConvInteger { window: w, groups } | Op::QLinearConv { window: w, groups, .. } => {
            [vec![integer("group", *groups)], window(w)].concat()
        }
        Op::Stft { onesided } => vec![flag("onesided", *onesided)],
        Op::NonMaxSuppression { format } => {
            vec![flag("center_point_box", *format == BoxFormat::Center)]
        }
        _ => return Ok(None),
    }))
}

/// Returns the attributes of operators that move elements; empty for those without attributes.
fn shaping(op: &Op) -> Vec<AttributeProto> {
    match op {
        Op::Flatten { axis }
        | Op::Concat { axis }
        | Op::Gather { axis }
        | Op::GatherElements { axis }
        | Op::OneHot { axis } => vec![integer("axis", *axis)],
        Op::Transpose { order: Some(order) } => vec![integers("perm", order)],
        Op::GatherNd { batch_dims } => vec![integer("batch_dims", *batch_dims)],
        Op::ScatterElements { axis, scatter } => vec![integer("axis", *axis), scattering(*scatter)],
        Op::ScatterNd { scatter } => vec![scattering(*scatter)],
        Op::Compress { axis: Some(axis) } => vec![integer("axis", *axis)],
        Op::Trilu { triangle } => vec![flag("upper", *triangle == Triangle::Upper)],
        Op::DepthToSpace { block, order } => {
            let order = if *order == BlockOrder::DepthColumnRow { "DCR" } else { "CRD" };
            vec![integer("blocksize", *block), text("mode", order)]
        }
        Op::SpaceToDepth { block } => vec![integer("blocksize", *block)],
        Op::ReverseSequence { batch_axis, time_axis } => {
            vec![integer("batch_axis", *batch_axis), integer("time_axis", *time_axis)]
        }
        Op::CenterCropPad { axes: Some(axes) } => vec![integers("axes", axes)],
        Op::Unique { axis, sorted } => axis
            .map(|axis| integer("axis", axis))
            .into_iter()
            .chain([flag("sorted", *sorted)])
            .collect(),
        Op::Shape { start, end } => [integer("start", *start)]
            .into_iter()
            .chain(end.map(|end| integer("end", end)))
            .collect(),
        _ => vec![],
    }
}

fn scattering(scatter: Scatter) -> AttributeProto {
    let name = match scatter {
        Scatter::Replace => "none",
        Scatter::Add => "add",
        Scatter::Mul => "mul",
        Scatter::Max => "max",
        Scatter::Min => "min",
    };
    text("reduction", name)
}

fn interpolation_name(interpolation: Interpolation) -> &'static str {
    match interpolation {
        Interpolation::Nearest(_) => "nearest",
        Interpolation::Linear => "linear",
        Interpolation::Cubic(_) => "cubic",
    }
}

fn nearest_name(nearest: Nearest) -> &'static str {
    match nearest {
        Nearest::PreferFloor => "round_prefer_floor",
        Nearest::PreferCeil => "round_prefer_ceil",
        Nearest::Floor => "floor",
        Nearest::Ceil => "ceil",
    }
}

fn resized(resize: &Resize) -> Vec<AttributeProto> {
    let ResizeOptions { interpolation, coordinates, filter, border } = resize.options;
    let mut attributes = vec![
        text("mode", interpolation_name(interpolation)),
        flag("exclude_outside", border == Border::Ignore),
        flag("antialias", filter == Filter::Antialias),
    ];
    match interpolation {
        Interpolation::Nearest(nearest) => {
            attributes.push(text("nearest_mode", nearest_name(nearest)))
        }
        // The attribute has 32 bits.
        Interpolation::Cubic(a) => attributes.push(float("cubic_coeff_a", a as f32)),
        Interpolation::Linear => {}
    }
    let coordinates = match coordinates {
        Coordinates::HalfPixel => "half_pixel",
        Coordinates::HalfPixelSymmetric => "half_pixel_symmetric",
        Coordinates::PytorchHalfPixel => "pytorch_half_pixel",
        Coordinates::AlignCorners => "align_corners",
        Coordinates::Asymmetric => "asymmetric",
        Coordinates::CropAndResize(outside) => {
            attributes.push(float("extrapolation_value", outside));
            "tf_crop_and_resize"
        }
    };
    attributes.push(text("coordinate_transformation_mode", coordinates));
    let aspect = match resize.aspect {
        Aspect::Stretch => "stretch",
        Aspect::NotLarger => "not_larger",
        Aspect::NotSmaller => "not_smaller",
    };
    attributes.push(text("keep_aspect_ratio_policy", aspect));
    attributes.extend(resize.axes.as_ref().map(|axes| integers("axes", axes)));
    attributes
}

fn recurring(recurrent: &Recurrent) -> Result<Vec<AttributeProto>> {
    let direction = match recurrent.direction {
        Direction::Forward => "forward",
        Direction::Reverse => "reverse",
        Direction::Both => "bidirectional",
    };
    let (mut names, mut alphas, mut betas) = (Vec::new(), Vec::new(), Vec::new());
    for &activation in &recurrent.activations {
        match activation {
            Unary::LeakyRelu { alpha }
            | Unary::ThresholdedRelu { alpha }
            | Unary::Elu { alpha } => {
                alphas.push(alpha);
            }
            Unary::HardSigmoid { alpha, beta } => {
                alphas.push(alpha);
                betas.push(beta);
            }
            Unary::Tanh | Unary::Sigmoid | Unary::Relu | Unary::Softplus | Unary::Softsign => {}
            other => {
                return Err(Error::attribute(
                    "activations",
                    other.name(),
                    "a cell does not have it",
                ));
            }
        }
        names.push(activation.name().as_bytes().to_vec());
    }
    let mut attributes = vec![
        text("direction", direction),
        AttributeProto {
            name: Some("activations".to_owned()),
            strings: names,
            r#type: Some(8),
            ..AttributeProto::default()
        },
        flag("layout", recurrent.batch_first),
    ];
    for (name, values) in [("activation_alpha", alphas), ("activation_beta", betas)] {
        if !values.is_empty() {
            attributes.push(floats(name, values));
        }
    }
    attributes.extend(recurrent.clip.map(|clip| float("clip", clip)));
    attributes.extend(recurrent.hidden.map(|hidden| integer("hidden_size", hidden)));
    match recurrent.cell {
        Cell::Rnn => {}
        Cell::Gru { linear_before_reset } => {
            attributes.push(flag("linear_before_reset", linear_before_reset));
        }
        Cell::Lstm { input_forget } => attributes.push(flag("input_forget", input_forget)),
    }
    Ok(attributes)
}

fn attending(attention: &Attention) -> Vec<AttributeProto> {
    let shown = match attention.shown {
        ShownScores::Product => 0,
        ShownScores::Capped => 1,
        ShownScores::Masked => 2,
        ShownScores::Weights => 3,
    };
    let mut attributes = vec![
        flag("is_causal", attention.causal),
        float("softcap", attention.softcap),
        integer("qk_matmul_output_mode", shown),
    ];
    for (name, value) in [
        ("q_num_heads", attention.query_heads),
        ("kv_num_heads", attention.key_heads),
        ("left_window_size", attention.left_window),
        ("right_window_size", attention.right_window),
    ] {
        attributes.extend(value.map(|value| integer(name, value)));
    }
    attributes.extend(attention.scale.map(|scale| float("scale", scale)));
    attributes
}

fn equation_text(equation: &Equation) -> String {
    let term = |term: &crate::op::EquationTerm| -> String {
        let letters = |axes: &[u8]| axes.iter().map(|&axis| char::from(axis)).collect::<String>();
        let ellipsis = if term.ellipsis { "..." } else { "" };
        format!("{}{ellipsis}{}", letters(&term.before), letters(&term.after))
    };
    let inputs: Vec<String> = equation.inputs.iter().map(term).collect();
    format!("{}->{}", inputs.join(","), term(&equation.output))
}

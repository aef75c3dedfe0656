//! Conversion of operators of ONNX to [`Op`].

use aleatron_tensor::{DType, Device, Tensor};

use super::attribute::Attributes;
use super::proto::NodeProto;
use super::tensor::{ElementType, type_name};
use super::{Importer, quantized, signal, window};
use crate::error::{Error, Result};
use crate::op::{
    Aspect, Attention, Binary, BlockOrder, Border, Cell, ConstantValue, Coordinates, Dims,
    Direction, Equation, EquationTerm, Extreme, Filter, Interpolation, Nearest, NoAxes, Op,
    PadMode, PadModeOfGrid, Pooling, Recurrent, Reduction, Resize, ResizeOptions, Rounding,
    Scatter, ShownScores, SliceGiven, Softmax, SoftmaxAxes, Tie, Triangle, Unary, Variadic,
};

/// Reads the operation of a node. The caller rejects unused attributes.
pub(super) fn read(
    importer: &Importer<'_>,
    name: &str,
    node: &NodeProto,
    a: &Attributes<'_>,
) -> Result<Op> {
    let version = importer.version;
    if let Some(op) = elementwise(name, version, a)? {
        return Ok(op);
    }
    if let Some(op) = reduction(name, version, a)? {
        return Ok(op);
    }
    if let Some(op) = network(name, version, a)? {
        return Ok(op);
    }
    if let Some(op) = shape(name, version, node, a)? {
        return Ok(op);
    }
    if let Some(op) = quantized::read(name, a)? {
        return Ok(op);
    }
    if let Some(op) = signal::read(name, version, a)? {
        return Ok(op);
    }
    Err(Error::model(
        "model",
        format!("internal error: the operator {name} is listed and not read"),
    ))
}

fn elementwise(name: &str, version: i64, a: &Attributes<'_>) -> Result<Option<Op>> {
    let unary = match name {
        "Abs" => Unary::Abs,
        "Acos" => Unary::Acos,
        "Acosh" => Unary::Acosh,
        "Asin" => Unary::Asin,
        "Asinh" => Unary::Asinh,
        "Atan" => Unary::Atan,
        "Atanh" => Unary::Atanh,
        "BitwiseNot" => Unary::BitwiseNot,
        "Ceil" => Unary::Ceil,
        "Celu" => Unary::Celu { alpha: a.float("alpha", 1.0)? },
        "Cos" => Unary::Cos,
        "Cosh" => Unary::Cosh,
        "Elu" => Unary::Elu { alpha: a.float("alpha", 1.0)? },
        "Erf" => Unary::Erf,
        "Exp" => Unary::Exp,
        "Floor" => Unary::Floor,
        "Gelu" => match a.text("approximate", "none")?.as_str() {
            "none" => Unary::Gelu,
            "tanh" => Unary::GeluTanh,
            other => {
                return Err(Error::attribute("approximate", other, "expected none or tanh"));
            }
        },
        "HardSigmoid" => {
            Unary::HardSigmoid { alpha: a.float("alpha", 0.2)?, beta: a.float("beta", 0.5)? }
        }
        "HardSwish" => Unary::HardSwish,
        "IsInf" => Unary::IsInf {
            negative: a.flag("detect_negative", true)?,
            positive: a.flag("detect_positive", true)?,
        },
        "IsNaN" => Unary::IsNan,
        "LeakyRelu" => Unary::LeakyRelu { alpha: a.float("alpha", 0.01)? },
        "Log" => Unary::Log,
        "Mish" => Unary::Mish,
        "Neg" => Unary::Neg,
        "Not" => Unary::Not,
        "Reciprocal" => Unary::Reciprocal,
        "Relu" => Unary::Relu,
        "Round" => Unary::Round,
        "Selu" => Unary::Selu {
            alpha: a.float("alpha", 1.673_263_2)?,
            gamma: a.float("gamma", 1.050_701)?,
        },
        "Shrink" => Unary::Shrink { bias: a.float("bias", 0.0)?, lambda: a.float("lambd", 0.5)? },
        "Sigmoid" => Unary::Sigmoid,
        "Sign" => Unary::Sign,
        "Sin" => Unary::Sin,
        "Sinh" => Unary::Sinh,
        "Softplus" => Unary::Softplus,
        "Softsign" => Unary::Softsign,
        "Sqrt" => Unary::Sqrt,
        "Swish" => Unary::Swish { alpha: a.float("alpha", 1.0)? },
        "Tan" => Unary::Tan,
        "Tanh" => Unary::Tanh,
        "ThresholdedRelu" => Unary::ThresholdedRelu { alpha: a.float("alpha", 1.0)? },
        _ => return binary(name, version, a),
    };
    Ok(Some(Op::Unary(unary)))
}

fn binary(name: &str, version: i64, a: &Attributes<'_>) -> Result<Option<Op>> {
    let binary = match name {
        "Add" => Binary::Add,
        "And" => Binary::And,
        "BitShift" => match a.text("direction", "")?.as_str() {
            "LEFT" => Binary::BitShiftLeft,
            "RIGHT" => Binary::BitShiftRight,
            other => return Err(Error::attribute("direction", other, "LEFT or RIGHT is needed")),
        },
        "BitwiseAnd" => Binary::BitwiseAnd,
        "BitwiseOr" => Binary::BitwiseOr,
        "BitwiseXor" => Binary::BitwiseXor,
        "Div" => Binary::Div,
        "Equal" => Binary::Equal,
        "Greater" => Binary::Greater,
        "GreaterOrEqual" => Binary::GreaterOrEqual,
        "Less" => Binary::Less,
        "LessOrEqual" => Binary::LessOrEqual,
        "Mod" => match a.flag("fmod", false)? {
            true => Binary::Fmod,
            false => Binary::Mod,
        },
        "Mul" => Binary::Mul,
        "Or" => Binary::Or,
        "Pow" => Binary::Pow,
        "PRelu" => Binary::PRelu,
        "Sub" => Binary::Sub,
        "Xor" => Binary::Xor,
        _ => return variadic(name, version, a),
    };
    if version < 7 {
        // Before operator set 7, broadcasting was an option; along the last axes it is equal to the
        // current rule.
        a.ignore(&["broadcast"]);
        if a.has("axis") {
            return Err(Error::attribute(
                "axis",
                "given",
                "broadcasting along other than the last axes is not read",
            ));
        }
    }
    Ok(Some(Op::Binary(binary)))
}

fn variadic(name: &str, version: i64, a: &Attributes<'_>) -> Result<Option<Op>> {
    Ok(Some(match name {
        "Max" => Op::Variadic(Variadic::Max),
        "Mean" => Op::Variadic(Variadic::Mean),
        "Min" => Op::Variadic(Variadic::Min),
        "Sum" => Op::Variadic(Variadic::Sum),
        "Where" => Op::Where,
        "Clip" if version < 11 => {
            Op::Clip { low: a.float_or_none("min")?, high: a.float_or_none("max")? }
        }
        "Clip" => Op::Clip { low: None, high: None },
        "Cast" => {
            a.ignore(&["saturate", "round_mode"]);
            Op::Cast(
                dtype_attribute("to", a)?
                    .ok_or_else(|| Error::attribute("to", "missing", "it is needed"))?,
            )
        }
        "CastLike" => {
            a.ignore(&["saturate", "round_mode"]);
            Op::CastLike
        }
        "Identity" => Op::Identity,
        "Constant" => Op::Constant(constant(a)?),
        "Dropout" => {
            a.ignore(&["seed", "ratio", "is_test"]);
            Op::Dropout { training: version >= 12 }
        }
        _ => return Ok(None),
    }))
}

/// Returns the tensors' type for a type that an attribute names. bfloat16 is unsupported: f32,
/// which holds it, would round differently.
pub(super) fn dtype_attribute(name: &str, a: &Attributes<'_>) -> Result<Option<DType>> {
    let Some(code) = a.int_or_none(name)? else { return Ok(None) };
    let code = i32::try_from(code).unwrap_or(-1);
    match ElementType::from_code(code) {
        Some(element) if element != ElementType::BF16 => Ok(Some(element.dtype())),
        other => {
            let text = other.map_or_else(|| type_name(code), |element| element.name().to_owned());
            Err(Error::attribute(
                name,
                text,
                "float, float16, double (as float), bool and integers of 8 to 64 bits are possible",
            ))
        }
    }
}

fn constant(a: &Attributes<'_>) -> Result<ConstantValue> {
    let cpu = &Device::Cpu;
    if let Some(tensor) = a.tensor_or_none("value")? {
        return Ok(ConstantValue(tensor));
    }
    if let Some(value) = a.float_or_none("value_float")? {
        return Ok(ConstantValue(Tensor::from_slice(&[value], &[], cpu)?));
    }
    if let Some(value) = a.int_or_none("value_int")? {
        return Ok(ConstantValue(Tensor::from_slice(&[value], &[], cpu)?));
    }
    if let Some(values) = a.floats_or_none("value_floats") {
        return Ok(ConstantValue(Tensor::from_slice(&values, &[values.len()], cpu)?));
    }
    if let Some(values) = a.ints_or_none("value_ints") {
        return Ok(ConstantValue(Tensor::from_slice(&values, &[values.len()], cpu)?));
    }
    Err(Error::attribute("value", "missing", "a tensor, floats or integers are needed"))
}

fn reduced(a: &Attributes<'_>) -> Result<Dims> {
    Ok(if a.flag("keepdims", true)? { Dims::Keep } else { Dims::Drop })
}

fn reduction(name: &str, version: i64, a: &Attributes<'_>) -> Result<Option<Op>> {
    let reduction = match name {
        "ReduceL1" => Reduction::L1,
        "ReduceL2" => Reduction::L2,
        "ReduceLogSum" => Reduction::LogSum,
        "ReduceLogSumExp" => Reduction::LogSumExp,
        "ReduceMax" => Reduction::Max,
        "ReduceMean" => Reduction::Mean,
        "ReduceMin" => Reduction::Min,
        "ReduceProd" => Reduction::Prod,
        "ReduceSum" => Reduction::Sum,
        "ReduceSumSquare" => Reduction::SumSquare,
        _ => return along_axis(name, version, a),
    };
    let no_axes = if a.flag("noop_with_empty_axes", false)? { NoAxes::None } else { NoAxes::All };
    Ok(Some(Op::Reduce { reduction, axes: a.ints_or_none("axes"), reduced: reduced(a)?, no_axes }))
}

fn along_axis(name: &str, version: i64, a: &Attributes<'_>) -> Result<Option<Op>> {
    let softmax = |function| -> Result<Option<Op>> {
        let axes = match version < 13 {
            true => SoftmaxAxes::From(a.int("axis", 1)?),
            false => SoftmaxAxes::One(a.int("axis", -1)?),
        };
        Ok(Some(Op::Softmax { function, axes }))
    };
    let arg = |extreme| -> Result<Option<Op>> {
        let tie = if a.flag("select_last_index", false)? { Tie::Last } else { Tie::First };
        Ok(Some(Op::ArgReduce { extreme, axis: a.int("axis", 0)?, reduced: reduced(a)?, tie }))
    };
    Ok(Some(match name {
        "Softmax" => return softmax(Softmax::Softmax),
        "LogSoftmax" => return softmax(Softmax::LogSoftmax),
        "Hardmax" => return softmax(Softmax::Hardmax),
        "ArgMax" => return arg(Extreme::Max),
        "ArgMin" => return arg(Extreme::Min),
        "CumSum" => Op::CumSum {
            exclusive: a.flag("exclusive", false)?,
            reverse: a.flag("reverse", false)?,
        },
        "CumProd" => Op::CumProd {
            exclusive: a.flag("exclusive", false)?,
            reverse: a.flag("reverse", false)?,
        },
        "TopK" => {
            if a.has("k") {
                return Err(Error::attribute("k", "given", "operator sets from 10 on are read"));
            }
            a.ignore(&["sorted"]);
            let extreme = if a.flag("largest", true)? { Extreme::Max } else { Extreme::Min };
            Op::TopK { axis: a.int("axis", -1)?, extreme }
        }
        _ => return Ok(None),
    }))
}

fn network(name: &str, version: i64, a: &Attributes<'_>) -> Result<Option<Op>> {
    let rounding =
        || Ok::<_, Error>(if a.flag("ceil_mode", false)? { Rounding::Up } else { Rounding::Down });
    let epsilon = || a.float("epsilon", 1e-5);
    let stash = || match a.int("stash_type", 1)? {
        1 | 11 => Ok(()),
        other => {
            Err(Error::attribute("stash_type", other, "1 is possible: sums are of 32-bit floats"))
        }
    };
    Ok(Some(match name {
        "MatMul" => Op::MatMul,
        "Gemm" => {
            a.ignore(&["broadcast"]);
            Op::Gemm {
                alpha: a.float("alpha", 1.0)?,
                beta: a.float("beta", 1.0)?,
                transpose_a: a.flag("transA", false)?,
                transpose_b: a.flag("transB", false)?,
            }
        }
        "Conv" => Op::Conv { groups: a.int("group", 1)?, window: window::read(a)? },
        "ConvTranspose" => Op::ConvTranspose {
            groups: a.int("group", 1)?,
            window: window::read(a)?,
            output_padding: a.ints("output_padding"),
            output_shape: a.ints("output_shape"),
        },
        "Einsum" => Op::Einsum { equation: equation(&a.text("equation", "")?)? },
        "AveragePool" => {
            let pooling = Pooling::Average { count_padding: a.flag("count_include_pad", false)? };
            Op::Pool { pooling, window: window::read(a)?, rounding: rounding()? }
        }
        "MaxPool" => {
            let pooling = Pooling::Max { column_major: a.flag("storage_order", false)? };
            Op::Pool { pooling, window: window::read(a)?, rounding: rounding()? }
        }
        "LpPool" => {
            let pooling = Pooling::Lp { p: a.int("p", 2)? };
            Op::Pool { pooling, window: window::read(a)?, rounding: rounding()? }
        }
        "GlobalAveragePool" => Op::GlobalPool(Pooling::Average { count_padding: false }),
        "GlobalMaxPool" => Op::GlobalPool(Pooling::Max { column_major: false }),
        "GlobalLpPool" => Op::GlobalPool(Pooling::Lp { p: a.int("p", 2)? }),
        "MaxUnpool" => Op::MaxUnpool { window: window::read(a)? },
        "BatchNormalization" => {
            if !a.flag("spatial", true)? {
                return Err(Error::attribute("spatial", 0, "1 is possible"));
            }
            // Before operator set 7 an attribute said whether it was training; since 14 one does
            // again.
            let training = match version {
                ..7 => !a.flag("is_test", false)?,
                7..14 => false,
                _ => a.flag("training_mode", false)?,
            };
            a.ignore(&["consumed_inputs"]);
            Op::BatchNormalization {
                epsilon: epsilon()?,
                momentum: a.float("momentum", 0.9)?,
                training,
            }
        }
        "InstanceNormalization" => {
            a.ignore(&["consumed_inputs"]);
            Op::InstanceNormalization { epsilon: epsilon()? }
        }
        "GroupNormalization" => {
            stash()?;
            Op::GroupNormalization { epsilon: epsilon()?, groups: a.int("num_groups", 0)? }
        }
        "LayerNormalization" => {
            stash()?;
            Op::LayerNormalization { axis: a.int("axis", -1)?, epsilon: epsilon()? }
        }
        "RMSNormalization" => {
            stash()?;
            Op::RmsNormalization { axis: a.int("axis", -1)?, epsilon: epsilon()? }
        }
        "LpNormalization" => Op::LpNormalization { axis: a.int("axis", -1)?, p: a.int("p", 2)? },
        "LRN" => Op::Lrn {
            alpha: a.float("alpha", 1e-4)?,
            beta: a.float("beta", 0.75)?,
            bias: a.float("bias", 1.0)?,
            size: a.int("size", 0)?,
        },
        "MeanVarianceNormalization" => Op::MeanVarianceNormalization {
            axes: a.ints_or_none("axes").unwrap_or_else(|| vec![0, 2, 3]),
        },
        "SwiGLU" => Op::SwiGlu { alpha: a.float("alpha", 1.0)? },
        "Det" => Op::Det,
        "RNN" => recurrent(Cell::Rnn, a)?,
        "GRU" => {
            recurrent(Cell::Gru { linear_before_reset: a.flag("linear_before_reset", false)? }, a)?
        }
        "LSTM" => recurrent(Cell::Lstm { input_forget: a.flag("input_forget", false)? }, a)?,
        "Attention" => Op::Attention(attention(a)?),
        "RotaryEmbedding" => Op::RotaryEmbedding {
            interleaved: a.flag("interleaved", false)?,
            heads: a.int("num_heads", 0)?,
            rotated: a.int("rotary_embedding_dim", 0)?,
        },
        "Resize" if version >= 11 => Op::Resize(resize(a)?),
        // Before operator set 11 it was equal to Upsample.
        "Resize" | "Upsample" => {
            let mode = a.text("mode", "nearest")?;
            Op::Upsample { interpolation: interpolation(&mode, Nearest::Floor, -0.75)? }
        }
        "GridSample" => {
            let edge = match a.text("padding_mode", "zeros")?.as_str() {
                "zeros" => PadModeOfGrid::Zeros,
                "border" => PadModeOfGrid::Border,
                "reflection" => PadModeOfGrid::Reflection,
                other => {
                    return Err(Error::attribute(
                        "padding_mode",
                        other,
                        "zeros, border or reflection is possible",
                    ));
                }
            };
            let interpolation =
                interpolation(&a.text("mode", "linear")?, Nearest::PreferFloor, -0.75)?;
            Op::GridSample { interpolation, edge, align_corners: a.flag("align_corners", false)? }
        }
        _ => return Ok(None),
    }))
}

fn interpolation(mode: &str, nearest: Nearest, cubic_a: f32) -> Result<Interpolation> {
    Ok(match mode {
        "nearest" => Interpolation::Nearest(nearest),
        "linear" | "bilinear" => Interpolation::Linear,
        "cubic" | "bicubic" => Interpolation::Cubic(cubic_a.into()),
        other => {
            return Err(Error::attribute("mode", other, "nearest, linear or cubic is possible"));
        }
    })
}

fn resize(a: &Attributes<'_>) -> Result<Resize> {
    let coordinates = match a.text("coordinate_transformation_mode", "half_pixel")?.as_str() {
        "half_pixel" => Coordinates::HalfPixel,
        "half_pixel_symmetric" => Coordinates::HalfPixelSymmetric,
        "pytorch_half_pixel" => Coordinates::PytorchHalfPixel,
        "align_corners" => Coordinates::AlignCorners,
        "asymmetric" => Coordinates::Asymmetric,
        "tf_crop_and_resize" => Coordinates::CropAndResize(a.float("extrapolation_value", 0.0)?),
        other => {
            return Err(Error::attribute(
                "coordinate_transformation_mode",
                other,
                "it is not known",
            ));
        }
    };
    let nearest = match a.text("nearest_mode", "round_prefer_floor")?.as_str() {
        "round_prefer_floor" => Nearest::PreferFloor,
        "round_prefer_ceil" => Nearest::PreferCeil,
        "floor" => Nearest::Floor,
        "ceil" => Nearest::Ceil,
        other => return Err(Error::attribute("nearest_mode", other, "it is not known")),
    };
    let cubic_a = a.float("cubic_coeff_a", -0.75)?;
    let options = ResizeOptions {
        interpolation: interpolation(&a.text("mode", "nearest")?, nearest, cubic_a)?,
        coordinates,
        filter: if a.flag("antialias", false)? { Filter::Antialias } else { Filter::Fixed },
        border: if a.flag("exclude_outside", false)? { Border::Ignore } else { Border::Repeat },
    };
    let aspect = match a.text("keep_aspect_ratio_policy", "stretch")?.as_str() {
        "stretch" => Aspect::Stretch,
        "not_larger" => Aspect::NotLarger,
        "not_smaller" => Aspect::NotSmaller,
        other => {
            return Err(Error::attribute("keep_aspect_ratio_policy", other, "it is not known"));
        }
    };
    Ok(Resize { options, axes: a.ints_or_none("axes"), aspect })
}

fn recurrent(cell: Cell, a: &Attributes<'_>) -> Result<Op> {
    let direction = match a.text("direction", "forward")?.as_str() {
        "forward" => Direction::Forward,
        "reverse" => Direction::Reverse,
        "bidirectional" => Direction::Both,
        other => {
            return Err(Error::attribute(
                "direction",
                other,
                "forward, reverse or bidirectional is possible",
            ));
        }
    };
    let defaults: &[Unary] = match cell {
        Cell::Rnn => &[Unary::Tanh],
        Cell::Gru { .. } => &[Unary::Sigmoid, Unary::Tanh],
        Cell::Lstm { .. } => &[Unary::Sigmoid, Unary::Tanh, Unary::Tanh],
    };
    let n = defaults.len() * if direction == Direction::Both { 2 } else { 1 };
    let names = a.texts("activations");
    let (alphas, betas) =
        (a.floats_or_none("activation_alpha"), a.floats_or_none("activation_beta"));
    let mut activations: Vec<Unary> = defaults.iter().copied().cycle().take(n).collect();
    if !names.is_empty() {
        if names.len() != n {
            return Err(Error::attribute("activations", names, format!("{n} are needed")));
        }
        // Parameters belong to the functions that have some, in their order.
        let (mut alphas, mut betas) = (alphas.into_iter().flatten(), betas.into_iter().flatten());
        activations = names
            .iter()
            .map(|name| {
                Ok(match name.to_ascii_lowercase().as_str() {
                    "tanh" => Unary::Tanh,
                    "sigmoid" => Unary::Sigmoid,
                    "relu" => Unary::Relu,
                    "softplus" => Unary::Softplus,
                    "softsign" => Unary::Softsign,
                    "leakyrelu" => Unary::LeakyRelu { alpha: alphas.next().unwrap_or(0.01) },
                    "thresholdedrelu" => {
                        Unary::ThresholdedRelu { alpha: alphas.next().unwrap_or(1.0) }
                    }
                    "elu" => Unary::Elu { alpha: alphas.next().unwrap_or(1.0) },
                    "hardsigmoid" => Unary::HardSigmoid {
                        alpha: alphas.next().unwrap_or(0.2),
                        beta: betas.next().unwrap_or(0.5),
                    },
                    _ => {
                        return Err(Error::attribute(
                            "activations",
                            name,
                            "the function is not known",
                        ));
                    }
                })
            })
            .collect::<Result<_>>()?;
    }
    Ok(Op::Recurrent(Recurrent {
        cell,
        direction,
        activations,
        clip: a.float_or_none("clip")?,
        hidden: a.int_or_none("hidden_size")?,
        batch_first: a.flag("layout", false)?,
    }))
}

fn attention(a: &Attributes<'_>) -> Result<Attention> {
    a.ignore(&["softmax_precision"]);
    let window =
        |name| -> Result<Option<i64>> { Ok(Some(a.int(name, -1)?).filter(|&size| size >= 0)) };
    Ok(Attention {
        causal: a.flag("is_causal", false)?,
        query_heads: a.int_or_none("q_num_heads")?,
        key_heads: a.int_or_none("kv_num_heads")?,
        scale: a.float_or_none("scale")?,
        softcap: a.float("softcap", 0.0)?,
        left_window: window("left_window_size")?,
        right_window: window("right_window_size")?,
        shown: match a.int("qk_matmul_output_mode", 0)? {
            0 => ShownScores::Product,
            1 => ShownScores::Capped,
            2 => ShownScores::Masked,
            3 => ShownScores::Weights,
            other => {
                return Err(Error::attribute(
                    "qk_matmul_output_mode",
                    other,
                    "0 to 3 are possible",
                ));
            }
        },
    })
}

/// Reads an equation of axes: `ij,jk->ik`.
fn equation(text: &str) -> Result<Equation> {
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let fault =
        || Error::attribute("equation", &text, "letters, commas, \"...\" and \"->\" are possible");
    let (left, right) = match text.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (text.as_str(), None),
    };
    let term = |text: &str| -> Result<EquationTerm> {
        let (before, after, ellipsis) = match text.split_once("...") {
            Some((before, after)) => (before, after, true),
            None => (text, "", false),
        };
        if !before.bytes().chain(after.bytes()).all(|c| c.is_ascii_alphabetic()) {
            return Err(fault());
        }
        Ok(EquationTerm {
            before: before.bytes().collect(),
            ellipsis,
            after: after.bytes().collect(),
        })
    };
    let inputs = left.split(',').map(term).collect::<Result<Vec<_>>>()?;
    let output = match right {
        Some(right) => term(right)?,
        None => {
            // Without an output: the broadcast axes, then those that occur once, in the order of
            // the alphabet.
            let all: Vec<u8> = inputs
                .iter()
                .flat_map(|term| term.before.iter().chain(&term.after))
                .copied()
                .collect();
            let mut once: Vec<u8> = all
                .iter()
                .copied()
                .filter(|c| all.iter().filter(|other| *other == c).count() == 1)
                .collect();
            once.sort_unstable();
            EquationTerm {
                before: Vec::new(),
                ellipsis: inputs.iter().any(|term| term.ellipsis),
                after: once,
            }
        }
    };
    Ok(Equation { inputs, output })
}

fn shape(name: &str, version: i64, node: &NodeProto, a: &Attributes<'_>) -> Result<Option<Op>> {
    Ok(Some(match name {
        "Reshape" => {
            a.ignore(&["consumed_inputs"]);
            Op::Reshape { shape: a.ints_or_none("shape"), allow_zero: a.flag("allowzero", false)? }
        }
        "Flatten" => Op::Flatten { axis: a.int("axis", 1)? },
        "Squeeze" => Op::Squeeze { axes: a.ints_or_none("axes") },
        "Unsqueeze" => Op::Unsqueeze { axes: a.ints_or_none("axes") },
        "Transpose" => Op::Transpose { order: a.ints_or_none("perm") },
        "Expand" => Op::Expand,
        "Tile" => Op::Tile,
        "Concat" => Op::Concat { axis: a.int("axis", 1)? },
        "Split" => {
            let parts = a.int_or_none("num_outputs")?;
            let sizes = a.ints_or_none("split");
            Op::Split {
                axis: a.int("axis", 0)?,
                sizes,
                parts: Some(parts.unwrap_or(node.output.len() as i64)),
            }
        }
        "Slice" => {
            let given = match (a.ints_or_none("starts"), a.ints_or_none("ends")) {
                (Some(starts), Some(ends)) => {
                    Some(SliceGiven { starts, ends, axes: a.ints_or_none("axes") })
                }
                _ => None,
            };
            Op::Slice { given }
        }
        "Pad" => {
            let mode = match a.text("mode", "constant")?.as_str() {
                "constant" => PadMode::Constant,
                "reflect" => PadMode::Reflect,
                "edge" => PadMode::Edge,
                "wrap" => PadMode::Wrap,
                other => {
                    return Err(Error::attribute(
                        "mode",
                        other,
                        "constant, reflect, edge or wrap is possible",
                    ));
                }
            };
            let given = match a.ints_or_none("pads") {
                Some(pads) => Some((pads, a.float("value", 0.0)?)),
                None => None,
            };
            Op::Pad { mode, given }
        }
        "Gather" => Op::Gather { axis: a.int("axis", 0)? },
        "GatherElements" => Op::GatherElements { axis: a.int("axis", 0)? },
        "GatherND" => Op::GatherNd { batch_dims: a.int("batch_dims", 0)? },
        "Scatter" | "ScatterElements" => {
            Op::ScatterElements { axis: a.int("axis", 0)?, scatter: scatter(a)? }
        }
        "ScatterND" => Op::ScatterNd { scatter: scatter(a)? },
        "Compress" => Op::Compress { axis: a.int_or_none("axis")? },
        "OneHot" => Op::OneHot { axis: a.int("axis", -1)? },
        "Trilu" => Op::Trilu {
            triangle: if a.flag("upper", true)? { Triangle::Upper } else { Triangle::Lower },
        },
        "EyeLike" => Op::EyeLike { diagonal: a.int("k", 0)?, dtype: dtype_attribute("dtype", a)? },
        "NonZero" => Op::NonZero,
        "DepthToSpace" => {
            let order = match a.text("mode", "DCR")?.as_str() {
                "DCR" => BlockOrder::DepthColumnRow,
                "CRD" => BlockOrder::ColumnRowDepth,
                other => return Err(Error::attribute("mode", other, "DCR or CRD is possible")),
            };
            Op::DepthToSpace { block: a.int("blocksize", 0)?, order }
        }
        "SpaceToDepth" => {
            if a.text("mode", "DCR")? != "DCR" {
                return Err(Error::attribute("mode", "CRD", "DCR is possible"));
            }
            Op::SpaceToDepth { block: a.int("blocksize", 0)? }
        }
        "ReverseSequence" => Op::ReverseSequence {
            batch_axis: a.int("batch_axis", 1)?,
            time_axis: a.int("time_axis", 0)?,
        },
        "CenterCropPad" => Op::CenterCropPad { axes: a.ints_or_none("axes") },
        "Col2Im" => Op::Col2Im { window: window::read(a)? },
        "Unique" => Op::Unique { axis: a.int_or_none("axis")?, sorted: a.flag("sorted", true)? },
        "Shape" => {
            let (start, end) =
                if version < 15 { (0, None) } else { (a.int("start", 0)?, a.int_or_none("end")?) };
            Op::Shape { start, end }
        }
        "Size" => Op::Size,
        "ConstantOfShape" => {
            let value = match a.tensor_or_none("value")? {
                Some(value) => value,
                None => Tensor::from_slice(&[0.0_f32], &[1], &Device::Cpu)?,
            };
            Op::ConstantOfShape { value: ConstantValue(value) }
        }
        "Range" => Op::Range,
        _ => return Ok(None),
    }))
}

fn scatter(a: &Attributes<'_>) -> Result<Scatter> {
    Ok(match a.text("reduction", "none")?.as_str() {
        "none" => Scatter::Replace,
        "add" => Scatter::Add,
        "mul" => Scatter::Mul,
        "max" => Scatter::Max,
        "min" => Scatter::Min,
        other => {
            return Err(Error::attribute(
                "reduction",
                other,
                "none, add, mul, max or min is possible",
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::known::KNOWN;
    use super::*;

    #[test]
    fn operators_are_listed_in_order() {
        assert!(KNOWN.is_sorted());
    }

    #[test]
    fn every_listed_operator_is_read() {
        let importer = Importer { version: super::super::NEWEST_OPSET, folder: None, functions: 0 };
        let node = NodeProto::default();
        for name in KNOWN.iter().filter(|name| !["If", "Loop", "Scan"].contains(name)) {
            let attributes = Attributes::new(&node, None).unwrap();
            // Some need an attribute; none may be unknown.
            if let Err(error) = read(&importer, name, &node, &attributes) {
                assert!(matches!(error, Error::Attribute { .. }), "{name}: {error}");
            }
        }
    }
}

//! Operators of classical machine learning, read as nodes of tensors.

use std::path::Path;

use aleatron_tensor::{DType, Device, Tensor};

use super::attribute::Attributes;
use super::lower::Lowering;
use super::proto::NodeProto;
use crate::error::{Error, Result};
use crate::graph::ValueId;
use crate::op::{Binary, Dims, Extreme, NoAxes, Op, Reduction, Softmax, SoftmaxAxes, Tie, Unary};

/// Adds the nodes of an operator of classical machine learning.
pub(super) fn lower(to: &mut Lowering<'_>, node: &NodeProto, folder: Option<&Path>) -> Result<()> {
    let a = Attributes::new(node, folder)?;
    match node.op_type.as_deref().unwrap_or_default() {
        "Scaler" => scaler(to, &a)?,
        "LinearRegressor" => regressor(to, &a)?,
        "LinearClassifier" => classifier(to, &a)?,
        "Normalizer" => normalizer(to, &a)?,
        "LabelEncoder" => label_encoder(to, &a)?,
        "ArrayFeatureExtractor" => feature_extractor(to)?,
        "ZipMap" => {
            // The labels of a map say which class a column is; the probabilities are what the node
            // is given.
            a.ignore(&["classlabels_int64s", "classlabels_strings"]);
            let x = to.input(0)?;
            to.finish(0, Op::Identity, &[x]);
        }
        other => {
            return Err(Error::model(other, "internal error: the operator is listed and not read"));
        }
    }
    a.finish()
}

/// (x - offset) * scale.
fn scaler(to: &mut Lowering<'_>, a: &Attributes<'_>) -> Result<()> {
    let (offset, scale) = (a.floats_or_none("offset"), a.floats_or_none("scale"));
    let (offset, scale) = (offset.unwrap_or_else(|| vec![0.0]), scale.unwrap_or_else(|| vec![1.0]));
    let x = to.floats(0)?;
    let offset = to.constant("offset", &offset, &[offset.len()])?;
    let scale = to.constant("scale", &scale, &[scale.len()])?;
    let moved = to.node("moved", Op::Binary(Binary::Sub), &[x, offset]);
    to.finish(0, Op::Binary(Binary::Mul), &[moved, scale]);
    Ok(())
}

/// Adds a product with `rows` rows of coefficients.
fn product(
    to: &mut Lowering<'_>,
    rows: usize,
    coefficients: &[f32],
    biases: &[f32],
) -> Result<ValueId> {
    if rows == 0 || coefficients.is_empty() || !coefficients.len().is_multiple_of(rows) {
        let expected = format!("a multiple of {rows} is needed");
        return Err(Error::attribute("coefficients", coefficients.len(), expected));
    }
    if !biases.is_empty() && biases.len() != rows {
        return Err(Error::attribute("intercepts", biases.len(), format!("{rows} are needed")));
    }
    let x = to.floats(0)?;
    let weights = to.constant("coefficients", coefficients, &[rows, coefficients.len() / rows])?;
    let mut inputs = vec![x, weights];
    if !biases.is_empty() {
        inputs.push(to.constant("intercepts", biases, &[rows])?);
    }
    let op = Op::Gemm { alpha: 1.0, beta: 1.0, transpose_a: false, transpose_b: true };
    Ok(to.node("product", op, &inputs))
}

/// Returns the function that is applied to scores.
fn post_transform(a: &Attributes<'_>) -> Result<Op> {
    match a.text("post_transform", "NONE")?.as_str() {
        "NONE" => Ok(Op::Identity),
        "LOGISTIC" => Ok(Op::Unary(Unary::Sigmoid)),
        "SOFTMAX" => Ok(Op::Softmax { function: Softmax::Softmax, axes: SoftmaxAxes::One(-1) }),
        other => {
            Err(Error::attribute("post_transform", other, "NONE, LOGISTIC or SOFTMAX is possible"))
        }
    }
}

fn regressor(to: &mut Lowering<'_>, a: &Attributes<'_>) -> Result<()> {
    let targets = a.int("targets", 1)?;
    let rows = usize::try_from(targets)
        .map_err(|_| Error::attribute("targets", targets, "a positive number is needed"))?;
    let coefficients = a.floats_or_none("coefficients").unwrap_or_default();
    let biases = a.floats_or_none("intercepts").unwrap_or_default();
    let transform = post_transform(a)?;
    let scores = product(to, rows, &coefficients, &biases)?;
    to.finish(0, transform, &[scores]);
    Ok(())
}

fn classifier(to: &mut Lowering<'_>, a: &Attributes<'_>) -> Result<()> {
    a.ignore(&["multi_class"]);
    if a.has("classlabels_strings") {
        return Err(Error::attribute("classlabels_strings", "given", STRINGS));
    }
    let labels = a.ints_or_none("classlabels_ints").unwrap_or_default();
    let coefficients = a.floats_or_none("coefficients").unwrap_or_default();
    let biases = a.floats_or_none("intercepts").unwrap_or_default();
    let rows = if biases.is_empty() { labels.len() } else { biases.len() };
    if rows < 2 || labels.len() != rows {
        let expected =
            format!("one for each of the {} labels, and two at least, are needed", labels.len());
        return Err(Error::attribute("intercepts", rows, expected));
    }
    let transform = post_transform(a)?;
    let scores = product(to, rows, &coefficients, &biases)?;
    let arg =
        Op::ArgReduce { extreme: Extreme::Max, axis: 1, reduced: Dims::Drop, tie: Tie::First };
    let best = to.node("best", arg, &[scores]);
    let labels = to.constant("labels", &labels, &[rows])?;
    to.finish(0, Op::Gather { axis: 0 }, &[labels, best]);
    to.finish(1, transform, &[scores]);
    Ok(())
}

fn normalizer(to: &mut Lowering<'_>, a: &Attributes<'_>) -> Result<()> {
    let norm = a.text("norm", "MAX")?;
    let x = to.floats(0)?;
    match norm.as_str() {
        "L1" => to.finish(0, Op::LpNormalization { axis: -1, p: 1 }, &[x]),
        "L2" => to.finish(0, Op::LpNormalization { axis: -1, p: 2 }, &[x]),
        "MAX" => {
            let (axes, reduced) = (Some(vec![-1]), Dims::Keep);
            let op = Op::Reduce { reduction: Reduction::Max, axes, reduced, no_axes: NoAxes::All };
            let most = to.node("most", op, &[x]);
            // A row of zeros stays zero.
            let (zero, one) =
                (to.constant("zero", &[0.0_f32], &[])?, to.constant("one", &[1.0_f32], &[])?);
            let is_zero = to.node("is_zero", Op::Binary(Binary::Equal), &[most, zero]);
            let divisor = to.node("divisor", Op::Where, &[is_zero, one, most]);
            to.finish(0, Op::Binary(Binary::Div), &[x, divisor]);
        }
        other => return Err(Error::attribute("norm", other, "MAX, L1 or L2 is possible")),
    }
    Ok(())
}

/// The reason why text labels are unsupported.
const STRINGS: &str = "texts are not supported; export the model with integer labels";

/// Reads the keys, the values or the default of an encoder.
fn labels(a: &Attributes<'_>, kind: &str, plural: &str) -> Result<Option<Tensor>> {
    let texts = format!("{kind}_string{plural}");
    if a.has(&texts) {
        return Err(Error::attribute(texts, "given", STRINGS));
    }
    if let Some(tensor) = a.tensor_or_none(&format!("{kind}_tensor"))? {
        return Ok(Some(tensor));
    }
    let (ints, floats) = (format!("{kind}_int64{plural}"), format!("{kind}_float{plural}"));
    let cpu = &Device::Cpu;
    if plural.is_empty() {
        if let Some(number) = a.int_or_none(&ints)? {
            return Ok(Some(Tensor::from_slice(&[number], &[1], cpu)?));
        }
        let number = a.float_or_none(&floats)?;
        return Ok(number.map(|number| Tensor::from_slice(&[number], &[1], cpu)).transpose()?);
    }
    if let Some(numbers) = a.ints_or_none(&ints) {
        return Ok(Some(Tensor::from_slice(&numbers, &[numbers.len()], cpu)?));
    }
    let numbers = a.floats_or_none(&floats);
    Ok(numbers.map(|numbers| Tensor::from_slice(&numbers, &[numbers.len()], cpu)).transpose()?)
}

/// Replaces each element that is a key by the value of that key, and all others by a default.
fn label_encoder(to: &mut Lowering<'_>, a: &Attributes<'_>) -> Result<()> {
    let missing = |name: &str| Error::attribute(name, "missing", "integers or floats are needed");
    let keys = labels(a, "keys", "s")?.ok_or_else(|| missing("keys_int64s"))?;
    let values = labels(a, "values", "s")?.ok_or_else(|| missing("values_int64s"))?;
    if keys.rank() != 1 || keys.shape() != values.shape() || keys.is_empty() {
        let expected = format!("{:?} values go with it", values.shape());
        return Err(Error::attribute("keys", keys.shape(), expected));
    }
    let default = match (labels(a, "default", "")?, values.dtype()) {
        (Some(default), dtype) if default.dtype() == dtype && default.len() == 1 => {
            default.reshape(&[])?
        }
        (Some(default), dtype) => {
            return Err(Error::attribute(
                "default",
                default.dtype(),
                format!("one {dtype} is needed"),
            ));
        }
        (None, DType::I64) => Tensor::from_slice(&[-1_i64], &[], &Device::Cpu)?,
        (None, dtype) => Tensor::zeros(&[], dtype, &Device::Cpu)?,
    };
    if keys.dtype().is_float() && crate::product::floats(&keys)?.iter().any(|key| key.is_nan()) {
        return Err(Error::attribute("keys", "NaN", "a key must be equal to itself"));
    }
    let x = to.input(0)?;
    let name = |what: &str| format!("{}_{what}", to.name);
    let (keys_name, values_name, default_name) = (name("keys"), name("values"), name("default"));
    let keys = to.graph.add_constant(keys_name, keys);
    let values = to.graph.add_constant(values_name, values);
    let default = to.graph.add_constant(default_name, default);
    let apart = to.node("apart", Op::Unsqueeze { axes: Some(vec![-1]) }, &[x]);
    let is_key = to.node("is_key", Op::Binary(Binary::Equal), &[apart, keys]);
    let matches = to.node("matches", Op::Cast(DType::I32), &[is_key]);
    let arg =
        Op::ArgReduce { extreme: Extreme::Max, axis: -1, reduced: Dims::Drop, tie: Tie::First };
    let index = to.node("index", arg, &[matches]);
    let (axes, reduced) = (Some(vec![-1]), Dims::Drop);
    let any = Op::Reduce { reduction: Reduction::Max, axes, reduced, no_axes: NoAxes::All };
    let any = to.node("any", any, &[matches]);
    let is_found = to.node("is_found", Op::Cast(DType::Bool), &[any]);
    let found = to.node("found", Op::Gather { axis: 0 }, &[values, index]);
    to.finish(0, Op::Where, &[is_found, found, default]);
    Ok(())
}

/// Selects columns by their index.
fn feature_extractor(to: &mut Lowering<'_>) -> Result<()> {
    let (x, indices) = (to.input(0)?, to.input(1)?);
    let rank = to.graph.value(x)?.shape.as_ref().map(Vec::len);
    let rows = match rank {
        // A row of features is a matrix of one row.
        Some(1) => to.node("row", Op::Unsqueeze { axes: Some(vec![0]) }, &[x]),
        Some(_) => x,
        None => return Err(Error::input(0, "its rank is not known; the file must tell its shape")),
    };
    let flat = to.constant("flat", &[-1_i64], &[1])?;
    let flat = to.node("indices", Op::Reshape { shape: None, allow_zero: false }, &[indices, flat]);
    to.finish(0, Op::Gather { axis: -1 }, &[rows, flat]);
    Ok(())
}

//! Writing ONNX files.
//!
//! A graph is written in operator set 18, or in the oldest one that has all of its operators.
//! Attributes of older sets are written as constants. The same graph gives the same bytes, and a
//! graph that was written and read is written as the same bytes again.

mod operator;

use std::collections::HashMap;
use std::path::Path;

use aleatron_tensor::{DType, Device, Tensor};
use half::f16;
use prost::Message;

use self::operator::Written;
use super::MAX_RANK;
use super::proto::{
    AttributeProto, DimensionProto, EntryProto, GraphProto, ModelProto, NodeProto,
    OperatorSetIdProto, TensorProto, TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
};
use crate::error::{Error, Result};
use crate::graph::{Dim, Graph, Node, Value, ValueId};
use crate::inspect::zeros_for;
use crate::narrow::Narrow;
use crate::op::Op;
use crate::run::Runner;

/// The version of the file format: the oldest that has operator set 18.
const FORMAT: i64 = 8;

/// The oldest operator set that is written.
const OPSET: i64 = 18;

impl Graph {
    /// Writes the graph as the bytes of an `.onnx` file, constants included.
    ///
    /// ```
    /// use aleatron_graph::{Graph, Op, Unary, Value};
    /// let mut graph = Graph::new("example");
    /// let x = graph.add_input(Value { name: "x".to_owned(), ..Value::default() });
    /// let y = graph.add_node("relu", Op::Unary(Unary::Relu), &[x]);
    /// graph.add_output(y);
    /// let bytes = graph.to_onnx()?;
    /// assert_eq!(Graph::from_onnx(&bytes)?.to_onnx()?, bytes);
    /// # Ok::<(), aleatron_graph::Error>(())
    /// ```
    ///
    /// # Errors
    /// An error if no node computes a value, a constant cannot be read, or the shapes of outputs
    /// cannot be determined by a run.
    pub fn to_onnx(&self) -> Result<Vec<u8>> {
        self.check_values()?;
        let mut writer = Writer { used: HashMap::new(), version: OPSET };
        let mut graph = writer.graph(self, &HashMap::new())?;
        graph.output = self.described_outputs(&graph)?;
        let metadata = self.metadata.iter();
        let model = ModelProto {
            ir_version: Some(FORMAT),
            producer_name: Some("aleatron".to_owned()),
            graph: Some(graph),
            opset_import: vec![OperatorSetIdProto {
                domain: Some(String::new()),
                version: Some(writer.version),
            }],
            metadata_props: metadata
                .map(|(key, value)| EntryProto {
                    key: Some(key.clone()),
                    value: Some(value.clone()),
                })
                .collect(),
            functions: Vec::new(),
        };
        // The format holds at most two gigabytes.
        let size = model.encoded_len();
        if i32::try_from(size).is_err() {
            return Err(Error::model(
                "model",
                format!("{size} bytes; an ONNX file has less than 2^31"),
            ));
        }
        Ok(model.encode_to_vec())
    }

    /// Writes an `.onnx` file.
    ///
    /// # Errors
    /// As [`Self::to_onnx`], and [`Error::File`] if it cannot be written.
    pub fn write_onnx(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let bytes = self.to_onnx()?;
        std::fs::write(path, bytes).map_err(|source| Error::File { path: path.to_owned(), source })
    }

    /// Returns the outputs with types and shapes, which the format requires: unknown ones are
    /// determined by a run with zeros.
    fn described_outputs(&self, written: &GraphProto) -> Result<Vec<ValueInfoProto>> {
        let mut known = Vec::with_capacity(self.outputs.len());
        for &id in &self.outputs {
            known.push(self.value(id)?.clone());
        }
        if known.iter().any(|value| value.dtype.is_none() || value.shape.is_none()) {
            let inputs =
                self.inputs.iter().map(|&id| zeros_for(self, id, 1)).collect::<Result<Vec<_>>>()?;
            let made = Runner::new(self.clone(), &Device::Cpu)?.run(inputs)?;
            for (value, made) in known.iter_mut().zip(&made) {
                value.dtype = value.dtype.or(Some(made.dtype()));
                let shape = value.shape.take();
                value.shape = Some(shape.unwrap_or_else(|| vec![Dim::Unknown; made.rank()]));
            }
        }
        let names = written.output.iter().map(|value| value.name.clone().unwrap_or_default());
        let narrow = self.outputs.iter().map(|&id| self.narrow(id));
        let described = known.into_iter().zip(names).zip(narrow);
        Ok(described.map(|((value, name), narrow)| describe(&value, narrow, name)).collect())
    }
}

/// The known types of a node's values.
#[derive(Clone, Copy)]
struct Types {
    /// The type of the first input.
    like: Option<DType>,
    /// The type of the first output, if tensors hold it in a wider one.
    made: Option<Narrow>,
}

/// Writes graphs with unique names of values.
struct Writer {
    /// The used names, each with the last appended number.
    used: HashMap<String, usize>,
    version: i64,
}

impl Writer {
    /// Returns an unused name like this one.
    fn name(&mut self, like: &str) -> String {
        let base = if like.is_empty() { "value" } else { like };
        let mut name = base.to_owned();
        while self.used.contains_key(&name) {
            let n = self.used.entry(base.to_owned()).or_insert(1);
            *n += 1;
            name = format!("{base}_{n}");
        }
        self.used.insert(name.clone(), 1);
        name
    }

    /// Writes a graph; `outer` has the names of captured values.
    fn graph(&mut self, graph: &Graph, outer: &HashMap<ValueId, String>) -> Result<GraphProto> {
        let mut names: HashMap<ValueId, String> = HashMap::new();
        for (outside, inside) in &graph.captures {
            let name = outer.get(outside).ok_or_else(|| Error::MissingValue {
                name: graph
                    .value(*inside)
                    .map_or_else(|_| String::new(), |value| value.name.clone()),
            })?;
            names.insert(*inside, name.clone());
        }
        let mut proto = GraphProto { name: Some(graph.name.clone()), ..GraphProto::default() };
        for (&id, tensor) in &graph.constants {
            let name = self.name(&graph.value(id)?.name);
            proto.initializer.push(write_tensor(tensor, graph.narrow(id), &name)?);
            names.insert(id, name);
        }
        for &id in &graph.inputs {
            let value = graph.value(id)?;
            let name = self.name(&value.name);
            let dtype = value.dtype.or(Some(DType::F32));
            proto.input.push(describe(
                &Value { dtype, ..value.clone() },
                graph.narrow(id),
                name.clone(),
            ));
            names.insert(id, name);
        }
        for id in graph.nodes.iter().flat_map(|node| node.outputs.iter().flatten()) {
            let name = self.name(&graph.value(*id)?.name);
            names.insert(*id, name);
        }
        for (index, node) in graph.nodes.iter().enumerate() {
            let first = node.inputs.first().copied().flatten();
            let like = first.and_then(|id| graph.value(id).ok()?.dtype);
            let made = node.outputs.first().copied().flatten().and_then(|id| graph.narrow(id));
            self.node(node, Types { like, made }, &names, &mut proto).map_err(|source| {
                Error::Node {
                    index,
                    name: node.name.clone(),
                    operator: node.op.name().to_owned(),
                    source: Box::new(source),
                }
            })?;
        }
        for &id in &graph.outputs {
            let name = find(&names, graph, id)?;
            // For an inner graph, names suffice.
            proto.output.push(ValueInfoProto { name: Some(name), r#type: None });
        }
        Ok(proto)
    }

    fn node(
        &mut self,
        node: &Node,
        types: Types,
        names: &HashMap<ValueId, String>,
        proto: &mut GraphProto,
    ) -> Result<()> {
        let name_of = |id: &Option<ValueId>| match id {
            None => Ok(String::new()),
            Some(id) => names
                .get(id)
                .cloned()
                .ok_or_else(|| Error::MissingValue { name: format!("number {}", id.index()) }),
        };
        let mut inputs = node.inputs.iter().map(name_of).collect::<Result<Vec<_>>>()?;
        let outputs = node.outputs.iter().map(name_of).collect::<Result<Vec<_>>>()?;
        let is_given = |k: usize| node.inputs.get(k).copied().flatten().is_some();
        let Written { operator, mut attributes, constants, version } =
            operator::write(&node.op, types.made, &is_given)?;
        self.version = self.version.max(version);
        // The inputs of older sets: further, unused inputs would have a meaning in the written set.
        match node.op {
            Op::Dropout { training: false }
            | Op::Pad { given: Some(_), .. }
            | Op::Slice { given: Some(_) } => inputs.truncate(1),
            Op::Upsample { .. } => inputs.truncate(2),
            _ => {}
        }
        for (index, what, tensor) in constants {
            let name = self.name(&format!("{}_{what}", node.name));
            // Attributes of floats have 32 bits; as inputs, they are of the type of the others.
            let tensor = match types.like {
                Some(like) if like.is_float() && tensor.dtype().is_float() => tensor.cast(like)?,
                _ => tensor,
            };
            proto.initializer.push(write_tensor(&tensor, None, &name)?);
            inputs.resize(inputs.len().max(index + 1), String::new());
            inputs[index] = name;
        }
        match &node.op {
            Op::If { then_branch, else_branch } => {
                attributes.push(inner("then_branch", self.graph(then_branch, names)?));
                attributes.push(inner("else_branch", self.graph(else_branch, names)?));
            }
            Op::Loop { body } => attributes.push(inner("body", self.graph(body, names)?)),
            // Scales are the third input of what replaced it.
            Op::Upsample { .. } if !inputs.is_empty() => inputs.insert(1, String::new()),
            _ => {}
        }
        let of =
            |operator: &str, name: String, inputs: Vec<String>, outputs: Vec<String>, attribute| {
                NodeProto {
                    input: inputs,
                    output: outputs,
                    name: Some(name),
                    op_type: Some(operator.to_owned()),
                    attribute,
                    domain: None,
                }
            };
        if let Some(axis) = operator::flattened_softmax(&node.op) {
            // The old form joins all axes from one on: as rows, and back to the shape.
            let [shape, rows, made] = ["shape", "rows", "made"].map(|what| {
                let like = format!("{}_{what}", node.name);
                self.name(&like)
            });
            let [start, flatten, zeros] = [("start", 0), ("axis", axis), ("allowzero", 1)]
                .map(|(name, value)| vec![operator::integer(name, value)]);
            let nodes = [
                of(
                    "Shape",
                    format!("{}_shape", node.name),
                    inputs.clone(),
                    vec![shape.clone()],
                    start,
                ),
                of("Flatten", format!("{}_rows", node.name), inputs, vec![rows.clone()], flatten),
                of(operator, node.name.clone(), vec![rows], vec![made.clone()], attributes),
                of("Reshape", format!("{}_back", node.name), vec![made, shape], outputs, zeros),
            ];
            proto.node.extend(nodes);
            return Ok(());
        }
        proto.node.push(of(operator, node.name.clone(), inputs, outputs, attributes));
        Ok(())
    }
}

fn find(names: &HashMap<ValueId, String>, graph: &Graph, id: ValueId) -> Result<String> {
    match names.get(&id) {
        Some(name) => Ok(name.clone()),
        None => Err(Error::MissingValue { name: graph.value(id)?.name.clone() }),
    }
}

fn inner(name: &str, graph: GraphProto) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        g: Some(graph),
        r#type: Some(5),
        ..AttributeProto::default()
    }
}

/// Returns the code of ONNX for a type of tensors, or for the narrower type that it holds.
pub(super) fn code_of(dtype: DType, narrow: Option<Narrow>) -> Result<i32> {
    if let Some(narrow) = narrow {
        return Ok(match narrow {
            Narrow::Int8 => 3,
            Narrow::UInt16 => 4,
            Narrow::Int16 => 5,
            Narrow::UInt32 => 12,
            Narrow::UInt64 => 13,
        });
    }
    Ok(match dtype {
        DType::F32 => 1,
        DType::U8 => 2,
        DType::I32 => 6,
        DType::I64 => 7,
        DType::Bool => 9,
        DType::F16 => 10,
        other => {
            return Err(Error::model(
                "type",
                format!("internal error: {other} has no number in ONNX"),
            ));
        }
    })
}

/// The bytes of written elements.
trait Bytes {
    fn append(self, bytes: &mut Vec<u8>);
}

macro_rules! bytes {
    ($($type:ty)*) => {
        $(impl Bytes for $type {
            fn append(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }
        })*
    };
}

bytes! { f32 f16 i32 i64 u8 }

impl Bytes for bool {
    fn append(self, bytes: &mut Vec<u8>) {
        bytes.push(self.into());
    }
}

fn bytes_of<T: aleatron_tensor::Element + Bytes>(tensor: &Tensor) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    tensor.to_vec::<T>()?.into_iter().for_each(|element| element.append(&mut bytes));
    Ok(bytes)
}

/// Writes a constant with its elements; narrow types are written as such.
fn write_tensor(tensor: &Tensor, narrow: Option<Narrow>, name: &str) -> Result<TensorProto> {
    let raw = match (narrow, tensor.dtype()) {
        (Some(narrow), _) => narrow_bytes(tensor, narrow)?,
        (None, DType::F32) => bytes_of::<f32>(tensor)?,
        (None, DType::F16) => bytes_of::<f16>(tensor)?,
        (None, DType::I32) => bytes_of::<i32>(tensor)?,
        (None, DType::I64) => bytes_of::<i64>(tensor)?,
        (None, DType::U8) => bytes_of::<u8>(tensor)?,
        (None, DType::Bool) => bytes_of::<bool>(tensor)?,
        (None, other) => {
            return Err(Error::model(
                format!("tensor \"{name}\""),
                format!("{other} is not written"),
            ));
        }
    };
    Ok(TensorProto {
        dims: tensor.shape().iter().map(|&size| size as i64).collect(),
        data_type: Some(code_of(tensor.dtype(), narrow)?),
        name: Some(name.to_owned()),
        raw_data: Some(raw),
        ..TensorProto::default()
    })
}

/// Returns the low bytes of integers of a narrow type.
fn narrow_bytes(tensor: &Tensor, narrow: Narrow) -> Result<Vec<u8>> {
    let size = match narrow {
        Narrow::Int8 => 1,
        Narrow::Int16 | Narrow::UInt16 => 2,
        Narrow::UInt32 => 4,
        Narrow::UInt64 => 8,
    };
    let values = tensor.cast(DType::I64)?.to_vec::<i64>()?;
    Ok(values.iter().flat_map(|value| value.to_le_bytes().into_iter().take(size)).collect())
}

fn describe(value: &Value, narrow: Option<Narrow>, name: String) -> ValueInfoProto {
    let dimension = |dim: &Dim| match dim {
        Dim::Fixed(size) => DimensionProto { dim_value: Some(*size as i64), dim_param: None },
        Dim::Named(name) => DimensionProto { dim_value: None, dim_param: Some(name.clone()) },
        Dim::Unknown => DimensionProto::default(),
    };
    // Shapes of more axes than can be read are omitted, like unknown ones.
    let dims = value.shape.as_ref().filter(|dims| dims.len() <= MAX_RANK);
    let shape = dims.map(|dims| TensorShapeProto { dim: dims.iter().map(dimension).collect() });
    // A type without a code stays undefined, like an unknown one.
    let elem_type = value.dtype.and_then(|dtype| code_of(dtype, narrow).ok());
    let tensor_type = TensorTypeProto { elem_type, shape };
    let kind = TypeProto { tensor_type: Some(tensor_type), ..TypeProto::default() };
    ValueInfoProto { name: Some(name), r#type: Some(kind) }
}

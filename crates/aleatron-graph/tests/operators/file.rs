//! Small files of one or a few nodes.

use aleatron_graph::onnx::proto::{
    AttributeProto, DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    TensorProto, TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
};
use aleatron_graph::{Graph, Runner};
use aleatron_tensor::{Device, Element, Tensor};
use prost::Message;

/// The numbers of element types in a file.
pub(crate) mod code {
    pub(crate) const FLOAT: i32 = 1;
    pub(crate) const UINT8: i32 = 2;
    pub(crate) const INT8: i32 = 3;
    pub(crate) const UINT16: i32 = 4;
    pub(crate) const INT16: i32 = 5;
    pub(crate) const INT32: i32 = 6;
    pub(crate) const INT64: i32 = 7;
    pub(crate) const UINT32: i32 = 12;
    pub(crate) const UINT64: i32 = 13;
}

pub(crate) fn node(
    op: &str,
    inputs: &[&str],
    outputs: &[&str],
    attribute: Vec<AttributeProto>,
) -> NodeProto {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    NodeProto {
        input: names(inputs),
        output: names(outputs),
        op_type: Some(op.to_owned()),
        attribute,
        ..NodeProto::default()
    }
}

pub(crate) fn ml_node(
    op: &str,
    inputs: &[&str],
    outputs: &[&str],
    attribute: Vec<AttributeProto>,
) -> NodeProto {
    NodeProto { domain: Some("ai.onnx.ml".to_owned()), ..node(op, inputs, outputs, attribute) }
}

fn attribute(name: &str, kind: i32) -> AttributeProto {
    AttributeProto { name: Some(name.to_owned()), r#type: Some(kind), ..AttributeProto::default() }
}

pub(crate) fn int(name: &str, value: i64) -> AttributeProto {
    AttributeProto { i: Some(value), ..attribute(name, 2) }
}

pub(crate) fn text(name: &str, value: &str) -> AttributeProto {
    AttributeProto { s: Some(value.as_bytes().to_vec()), ..attribute(name, 3) }
}

pub(crate) fn floats(name: &str, values: &[f32]) -> AttributeProto {
    AttributeProto { floats: values.to_vec(), ..attribute(name, 6) }
}

pub(crate) fn ints(name: &str, values: &[i64]) -> AttributeProto {
    AttributeProto { ints: values.to_vec(), ..attribute(name, 7) }
}

pub(crate) fn graph_attribute(name: &str, graph: GraphProto) -> AttributeProto {
    AttributeProto { g: Some(graph), ..attribute(name, 5) }
}

/// Returns a constant of integers, in the field that their type has.
pub(crate) fn integers(name: &str, code: i32, shape: &[i64], values: &[i64]) -> TensorProto {
    let mut tensor = TensorProto {
        dims: shape.to_vec(),
        data_type: Some(code),
        name: Some(name.to_owned()),
        ..TensorProto::default()
    };
    match code {
        code::INT64 => tensor.int64_data = values.to_vec(),
        code::UINT32 | code::UINT64 => {
            tensor.uint64_data = values.iter().map(|&v| v as u64).collect()
        }
        _ => tensor.int32_data = values.iter().map(|&v| v as i32).collect(),
    }
    tensor
}

pub(crate) fn reals(name: &str, shape: &[i64], values: &[f32]) -> TensorProto {
    TensorProto {
        dims: shape.to_vec(),
        data_type: Some(code::FLOAT),
        name: Some(name.to_owned()),
        float_data: values.to_vec(),
        ..TensorProto::default()
    }
}

pub(crate) fn value(name: &str, code: i32, sizes: &[i64]) -> ValueInfoProto {
    let dim = |&size: &i64| DimensionProto { dim_value: Some(size), dim_param: None };
    let shape = TensorShapeProto { dim: sizes.iter().map(dim).collect() };
    let tensor_type = Some(TensorTypeProto { elem_type: Some(code), shape: Some(shape) });
    let kind = TypeProto { tensor_type, ..TypeProto::default() };
    ValueInfoProto { name: Some(name.to_owned()), r#type: Some(kind) }
}

pub(crate) fn untyped(name: &str) -> ValueInfoProto {
    ValueInfoProto { name: Some(name.to_owned()), r#type: None }
}

/// Returns a graph from inputs to outputs.
pub(crate) fn graph(
    nodes: Vec<NodeProto>,
    input: Vec<ValueInfoProto>,
    outputs: &[&str],
    initializer: Vec<TensorProto>,
) -> GraphProto {
    let output = outputs.iter().map(|name| untyped(name)).collect();
    GraphProto { node: nodes, input, output, initializer, ..GraphProto::default() }
}

pub(crate) fn read(graph: GraphProto) -> aleatron_graph::Result<Graph> {
    let opset = |domain: &str, version| OperatorSetIdProto {
        domain: Some(domain.to_owned()),
        version: Some(version),
    };
    let model = ModelProto {
        ir_version: Some(10),
        graph: Some(graph),
        opset_import: vec![opset("", 21), opset("ai.onnx.ml", 3)],
        ..ModelProto::default()
    };
    Graph::from_onnx(&model.encode_to_vec())
}

pub(crate) fn tensor<T: Element>(values: &[T], shape: &[usize]) -> Tensor {
    Tensor::from_slice(values, shape, &Device::Cpu).unwrap()
}

/// Runs a graph as it was read, simplified, and written and read again: all three must give the
/// same.
pub(crate) fn run<T: Element>(graph: &Graph, inputs: &[Tensor]) -> Vec<Vec<T>> {
    let outputs = |graph: Graph| -> Vec<Vec<T>> {
        let made = Runner::new(graph, &Device::Cpu).unwrap().run(inputs.to_vec()).unwrap();
        made.iter().map(|tensor| tensor.to_vec::<T>().unwrap()).collect()
    };
    let expected = outputs(graph.clone());
    let mut simplified = graph.clone();
    simplified.simplify().unwrap();
    assert_eq!(outputs(simplified), expected, "simplified");
    let bytes = graph.to_onnx().unwrap();
    let again = Graph::from_onnx(&bytes).unwrap();
    assert_eq!(again.to_onnx().unwrap(), bytes, "written twice");
    assert_eq!(outputs(again), expected, "written and read");
    expected
}

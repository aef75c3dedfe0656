//! Broken, oversized or malicious files are errors, never panics.
#![allow(clippy::unwrap_used, clippy::panic)]

use aleatron_graph::onnx::proto::{
    AttributeProto, DimensionProto, EntryProto, GraphProto, ModelProto, NodeProto,
    OperatorSetIdProto, TensorProto, TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
};
use aleatron_graph::{Error, Graph, Runner};
use aleatron_tensor::{DType, Device, Tensor};
use proptest::prelude::*;
use prost::Message;

fn node(op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    NodeProto {
        input: names(inputs),
        output: names(outputs),
        op_type: Some(op.to_owned()),
        ..NodeProto::default()
    }
}

fn value(name: &str, sizes: &[i64]) -> ValueInfoProto {
    let dim = |&size: &i64| DimensionProto { dim_value: Some(size), dim_param: None };
    let shape = TensorShapeProto { dim: sizes.iter().map(dim).collect() };
    let tensor_type = Some(TensorTypeProto { elem_type: Some(1), shape: Some(shape) });
    ValueInfoProto {
        name: Some(name.to_owned()),
        r#type: Some(TypeProto { tensor_type, ..TypeProto::default() }),
    }
}

fn model(graph: GraphProto) -> ModelProto {
    let opset = OperatorSetIdProto { domain: None, version: Some(21) };
    ModelProto {
        ir_version: Some(10),
        graph: Some(graph),
        opset_import: vec![opset],
        ..ModelProto::default()
    }
}

fn graph(nodes: Vec<NodeProto>) -> GraphProto {
    GraphProto {
        node: nodes,
        input: vec![value("x", &[2])],
        output: vec![value("y", &[2])],
        ..GraphProto::default()
    }
}

fn read(graph: GraphProto) -> aleatron_graph::Result<Graph> {
    Graph::from_onnx(&model(graph).encode_to_vec())
}

#[test]
fn a_plain_model_is_read() {
    let graph =
        read(graph(vec![node("Relu", &["a"], &["y"]), node("Neg", &["x"], &["a"])])).unwrap();
    // Nodes may stand in any order.
    assert_eq!(
        graph.nodes().iter().map(|node| node.op.name()).collect::<Vec<_>>(),
        ["Neg", "Relu"]
    );
    let x = Tensor::from_slice(&[-1.0_f32, 2.0], &[2], &Device::Cpu).unwrap();
    let y = Runner::new(graph, &Device::Cpu).unwrap().run(vec![x]).unwrap();
    assert_eq!(y[0].to_vec::<f32>().unwrap(), [1.0, 0.0]);
}

#[test]
fn cycles_and_missing_values_are_errors() {
    let cycle = read(graph(vec![
        node("Neg", &["b"], &["a"]),
        node("Neg", &["a"], &["b"]),
        node("Neg", &["x"], &["y"]),
    ]));
    assert!(matches!(cycle, Err(Error::Cycle { nodes: 2, .. })), "{cycle:?}");
    let own = read(graph(vec![node("Add", &["x", "y"], &["y"])]));
    assert!(matches!(own, Err(Error::Cycle { nodes: 1, .. })), "{own:?}");
    let missing = read(graph(vec![node("Neg", &["nowhere"], &["y"])])).unwrap_err();
    assert!(missing.to_string().contains("nowhere"), "{missing}");
    let output = read(graph(vec![node("Neg", &["x"], &["other"])]));
    assert!(matches!(output, Err(Error::MissingValue { name }) if name == "y"));
    let twice = read(graph(vec![node("Neg", &["x"], &["y"]), node("Abs", &["x"], &["y"])]));
    assert!(matches!(twice, Err(Error::RepeatedValue { name }) if name == "y"));
}

#[test]
fn all_unknown_operators_are_named_at_once() {
    let mut foreign = node("Magic", &["a"], &["b"]);
    foreign.domain = Some("com.example".to_owned());
    let nodes = vec![node("Nope", &["x"], &["a"]), foreign, node("Nope", &["b"], &["y"])];
    let error = read(graph(nodes)).unwrap_err();
    let text = error.to_string();
    assert_eq!(
        text,
        "2 operators are not supported: Nope (opset 21, 2 nodes), com.example.Magic (opset 21, 1 node)"
    );
}

#[test]
fn impossible_shapes_are_errors() {
    for sizes in [&[-1_i64][..], &[i64::MAX, 4], &[1 << 40, 1 << 40]] {
        let mut graph = graph(vec![node("Neg", &["x"], &["y"])]);
        graph.input = vec![value("x", sizes)];
        assert!(matches!(read(graph), Err(Error::Model { .. })), "{sizes:?}");
    }
    for (dims, bytes) in [(vec![-2], 8), (vec![1 << 62, 8], 8), (vec![3], 8), (vec![2], 9)] {
        let mut graph = graph(vec![node("Add", &["x", "w"], &["y"])]);
        graph.initializer = vec![TensorProto {
            dims: dims.clone(),
            data_type: Some(1),
            name: Some("w".to_owned()),
            raw_data: Some(vec![0; bytes]),
            ..TensorProto::default()
        }];
        assert!(matches!(read(graph), Err(Error::Model { .. })), "{dims:?}");
    }
}

#[test]
fn a_huge_result_is_an_error() {
    let mut shape = node("ConstantOfShape", &["s"], &["a"]);
    shape.attribute = Vec::new();
    let mut graph = graph(vec![shape, node("Exp", &["a"], &["y"])]);
    graph.initializer = vec![TensorProto {
        dims: vec![2],
        data_type: Some(7),
        name: Some("s".to_owned()),
        int64_data: vec![1 << 30, 1 << 30],
        ..TensorProto::default()
    }];
    graph.output = vec![ValueInfoProto { name: Some("y".to_owned()), r#type: None }];
    let graph = read(graph).unwrap();
    let x = Tensor::zeros(&[2], DType::F32, &Device::Cpu).unwrap();
    assert!(Runner::new(graph, &Device::Cpu).unwrap().run(vec![x]).is_err());
}

#[test]
fn constants_stay_in_the_folder_of_the_model() {
    let folder = std::env::temp_dir().join(format!("aleatron-external-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("w.bin"), [0, 0, 128, 63, 0, 0, 0, 64, 9, 9]).unwrap();
    let with = |location: &str, offset: &str, length: &str| {
        let entry = |key: &str, value: &str| EntryProto {
            key: Some(key.into()),
            value: Some(value.into()),
        };
        let mut graph = graph(vec![node("Add", &["x", "w"], &["y"])]);
        graph.initializer = vec![TensorProto {
            dims: vec![2],
            data_type: Some(1),
            name: Some("w".to_owned()),
            data_location: Some(1),
            external_data: vec![
                entry("location", location),
                entry("offset", offset),
                entry("length", length),
            ],
            ..TensorProto::default()
        }];
        let path = folder.join("model.onnx");
        std::fs::write(&path, model(graph).encode_to_vec()).unwrap();
        Graph::read_onnx(path)
    };
    let graph = with("w.bin", "0", "8").unwrap();
    let (_, weights) = graph.constants().next().unwrap();
    assert_eq!(weights.to_vec::<f32>().unwrap(), [1.0, 2.0]);
    for (location, offset, length) in [
        ("../w.bin", "0", "8"),
        ("/etc/hostname", "0", "8"),
        ("", "0", "8"),
        ("missing.bin", "0", "8"),
        ("w.bin", "4", "8"),
        ("w.bin", "18446744073709551615", "8"),
        ("w.bin", "-1", "8"),
        ("w.bin", "0", "4"),
    ] {
        assert!(with(location, offset, length).is_err(), "{location} {offset} {length}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// Reading a pipe blocks until data are written to it: it is an error, as a model and as a file of
/// constants.
#[cfg(unix)]
#[test]
fn pipes_and_devices_are_errors() {
    let folder = std::env::temp_dir().join(format!("aleatron-pipe-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let pipe = folder.join("w.bin");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let entry =
        |key: &str, value: &str| EntryProto { key: Some(key.into()), value: Some(value.into()) };
    let mut graph = graph(vec![node("Add", &["x", "w"], &["y"])]);
    graph.initializer = vec![TensorProto {
        dims: vec![2],
        data_type: Some(1),
        name: Some("w".to_owned()),
        data_location: Some(1),
        external_data: vec![entry("location", "w.bin")],
        ..TensorProto::default()
    }];
    let path = folder.join("model.onnx");
    std::fs::write(&path, model(graph).encode_to_vec()).unwrap();
    let error = Graph::read_onnx(&path).unwrap_err().to_string();
    assert!(error.contains("w.bin") && error.contains("regular file"), "{error}");
    for path in [pipe.as_path(), std::path::Path::new("/dev/zero"), folder.as_path()] {
        let error = Graph::read_onnx(path).unwrap_err().to_string();
        assert!(error.contains("regular file"), "{error}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// Constants of a sparse file may be larger than the memory, each and all together: none of them is
/// read.
#[test]
fn external_constants_that_exceed_memory_together_are_errors() {
    let folder = std::env::temp_dir().join(format!("aleatron-sum-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let size = 1_u64 << 30;
    std::fs::File::create(folder.join("w.bin")).unwrap().set_len(size).unwrap();
    let entry =
        |key: &str, value: &str| EntryProto { key: Some(key.into()), value: Some(value.into()) };
    let mut graph = graph(vec![node("Neg", &["x"], &["y"])]);
    let constant = |k: usize| TensorProto {
        dims: vec![(size / 4) as i64],
        data_type: Some(1),
        name: Some(format!("w{k}")),
        data_location: Some(1),
        external_data: vec![entry("location", "w.bin")],
        ..TensorProto::default()
    };
    // Together 4 TiB.
    graph.initializer = (0..4096).map(constant).collect();
    let path = folder.join("model.onnx");
    std::fs::write(&path, model(graph).encode_to_vec()).unwrap();
    let error = Graph::read_onnx(&path).unwrap_err();
    assert!(matches!(error, Error::Core(aleatron_core::Error::Memory { .. })), "{error}");
    std::fs::remove_dir_all(folder).unwrap();
}

/// Sixty times twice the elements: the sizes follow from those of the input, so nothing is
/// computed.
#[test]
fn doubling_values_are_errors_before_they_are_computed() {
    let name = |k: usize| if k == 0 { "x".to_owned() } else { format!("v{k}") };
    let double = |k: usize| {
        let mut node = node("Concat", &[&name(k), &name(k)], &[&name(k + 1)]);
        let (axis, kind) = (Some("axis".to_owned()), Some(2));
        node.attribute = vec![AttributeProto {
            name: axis,
            i: Some(0),
            r#type: kind,
            ..AttributeProto::default()
        }];
        node
    };
    let mut nodes: Vec<NodeProto> = (0..60).map(double).collect();
    nodes.push(node("Relu", &["v60"], &["y"]));
    let mut doubled = graph(nodes.clone());
    doubled.output[0].r#type = None;
    let mut constant = doubled.clone();
    constant.input.clear();
    constant.initializer = vec![TensorProto {
        dims: vec![2],
        data_type: Some(1),
        name: Some("x".to_owned()),
        float_data: vec![1.0, 2.0],
        ..TensorProto::default()
    }];
    for (file, n_inputs) in [(doubled, 1), (constant, 0)] {
        let mut graph = read(file).unwrap();
        let simplified = graph.simplify().unwrap();
        assert!(simplified.constants < 30, "{simplified:?}");
        let x = Tensor::zeros(&[2], DType::F32, &Device::Cpu).unwrap();
        let error = Runner::new(graph, &Device::Cpu).unwrap().run(vec![x; n_inputs]).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::Node { .. }) && text.contains("Concat"), "{text}");
    }
}

/// Every value would fit into memory, but a sum at the end keeps all of them alive.
#[test]
fn values_that_exceed_memory_together_are_errors_before_they_are_computed() {
    let n = 1_usize << 20;
    let names: Vec<String> = (0..n).map(|k| format!("v{k}")).collect();
    let mut nodes: Vec<NodeProto> = names.iter().map(|name| node("Neg", &["x"], &[name])).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    nodes.push(node("Sum", &all, &["y"]));
    let mut file = graph(nodes);
    let size = 1_usize << 22;
    file.input = vec![value("x", &[size as i64])];
    file.output = vec![value("y", &[size as i64])];
    let graph = read(file).unwrap();
    let x = Tensor::zeros(&[size], DType::F32, &Device::Cpu).unwrap();
    // At least 4 TiB together.
    let error = Runner::new(graph, &Device::Cpu).unwrap().run(vec![x]).unwrap_err();
    assert!(matches!(&error, Error::Node { operator, .. } if operator == "Neg"), "{error}");
}

#[test]
fn a_million_nodes_are_sorted() {
    let n = 1_000_000;
    let name = |k: usize| {
        if k == 0 {
            "x".to_owned()
        } else if k == n {
            "y".to_owned()
        } else {
            format!("v{k}")
        }
    };
    let nodes = (0..n).rev().map(|k| node("Identity", &[&name(k)], &[&name(k + 1)])).collect();
    let mut graph = read(graph(nodes)).unwrap();
    assert_eq!(graph.nodes().len(), n);
    graph.simplify().unwrap();
    // The last node computes the output, whose name stays.
    assert_eq!(graph.nodes().len(), 1);
}

#[test]
fn nested_graphs_have_a_depth_limit() {
    let mut inner = GraphProto { output: vec![value("x", &[2])], ..GraphProto::default() };
    for _ in 0..40 {
        let mut deeper = node("If", &["c"], &["r"]);
        let branch = |name: &str| AttributeProto {
            name: Some(name.to_owned()),
            g: Some(inner.clone()),
            ..AttributeProto::default()
        };
        deeper.attribute = vec![branch("then_branch")];
        inner = GraphProto {
            node: vec![deeper],
            output: vec![value("r", &[2])],
            ..GraphProto::default()
        };
    }
    let mut outer = inner;
    outer.input = vec![value("x", &[2]), value("c", &[])];
    assert!(read(outer).is_err());
}

#[test]
fn attributes_are_checked() {
    let with = |name: &str, i: i64| {
        let mut flatten = node("Flatten", &["x"], &["y"]);
        flatten.attribute = vec![AttributeProto {
            name: Some(name.to_owned()),
            i: Some(i),
            ..AttributeProto::default()
        }];
        read(graph(vec![flatten]))
    };
    assert!(with("axis", 1).is_ok());
    let unknown = with("sideways", 1).unwrap_err();
    assert!(unknown.to_string().contains("sideways"), "{unknown}");
    let outside = with("axis", 7).unwrap();
    let x = Tensor::zeros(&[2], DType::F32, &Device::Cpu).unwrap();
    assert!(Runner::new(outside, &Device::Cpu).unwrap().run(vec![x]).is_err());
}

#[test]
fn normalisations_without_channels_are_errors() {
    for operator in ["GroupNormalization", "InstanceNormalization", "BatchNormalization"] {
        let mut normalize = node(operator, &["x"; 5], &["y"]);
        if operator == "GroupNormalization" {
            normalize.input.truncate(3);
            let groups = AttributeProto { i: Some(1), ..AttributeProto::default() };
            normalize.attribute =
                vec![AttributeProto { name: Some("num_groups".to_owned()), ..groups }];
        }
        if operator == "InstanceNormalization" {
            normalize.input.truncate(3);
        }
        let mut graph = graph(vec![normalize]);
        graph.input = vec![value("x", &[])];
        let x = Tensor::from_slice(&[1.0_f32], &[], &Device::Cpu).unwrap();
        let failed =
            Runner::new(read(graph).unwrap(), &Device::Cpu).unwrap().run(vec![x]).unwrap_err();
        assert!(failed.to_string().contains("input 0"), "{operator}: {failed}");
    }
}

/// Inputs that a node of an older operator set ignores are not written for a newer one.
#[test]
fn old_nodes_are_written_as_they_run() {
    let ints = |name: &str, ints: &[i64]| AttributeProto {
        name: Some(name.to_owned()),
        ints: ints.to_vec(),
        ..AttributeProto::default()
    };
    let least =
        AttributeProto { name: Some("min".to_owned()), f: Some(1.0), ..AttributeProto::default() };
    for (operator, attributes, expected) in [
        ("Dropout", vec![], &[-1.0, 2.0][..]),
        ("Pad", vec![ints("pads", &[1, 0])], &[0.0, -1.0, 2.0]),
        ("Slice", vec![ints("starts", &[1]), ints("ends", &[2])], &[2.0]),
        // The bound that an attribute gives, and then the one of an input.
        ("Clip", vec![least], &[-1.0, 2.0]),
    ] {
        let mut old = node(operator, &["x"; 5], &["y"]);
        old.attribute = attributes;
        let mut old = graph(vec![old]);
        old.output = vec![ValueInfoProto { name: Some("y".to_owned()), r#type: None }];
        let mut old = model(old);
        old.opset_import[0].version = Some(9);
        let old = Graph::from_onnx(&old.encode_to_vec()).unwrap();
        let new = old.to_onnx().map(|bytes| Graph::from_onnx(&bytes).unwrap());
        let x = Tensor::from_slice(&[-1.0_f32, 2.0], &[2], &Device::Cpu).unwrap();
        for graph in [old, new.unwrap()] {
            let y = Runner::new(graph, &Device::Cpu).unwrap().run(vec![x.clone()]).unwrap();
            assert_eq!(y[0].to_vec::<f32>().unwrap(), expected, "{operator}");
        }
    }
    let mut upsample = graph(vec![node("Upsample", &["x", "s", "s", "s"], &["y"])]);
    upsample.output = vec![ValueInfoProto { name: Some("y".to_owned()), r#type: None }];
    upsample.initializer = vec![TensorProto {
        dims: vec![1],
        data_type: Some(1),
        name: Some("s".to_owned()),
        float_data: vec![2.0],
        ..TensorProto::default()
    }];
    let mut upsample = model(upsample);
    upsample.opset_import[0].version = Some(9);
    let upsample = Graph::from_onnx(&upsample.encode_to_vec()).unwrap();
    let written = Graph::from_onnx(&upsample.to_onnx().unwrap()).unwrap();
    for graph in [upsample, written] {
        let x = Tensor::from_slice(&[-1.0_f32, 2.0], &[2], &Device::Cpu).unwrap();
        let y = Runner::new(graph, &Device::Cpu).unwrap().run(vec![x]).unwrap();
        assert_eq!(y[0].to_vec::<f32>().unwrap(), [-1.0, -1.0, 2.0, 2.0]);
    }
    let empty = read(graph(vec![node("Upsample", &[], &["y"])])).unwrap();
    let written = Graph::from_onnx(&empty.to_onnx().unwrap()).unwrap();
    let x = Tensor::from_slice(&[0.0_f32; 2], &[2], &Device::Cpu).unwrap();
    assert!(Runner::new(written, &Device::Cpu).unwrap().run(vec![x]).is_err());
}

/// The attributes of old nodes have 32 bits, also for half precision; integers were not padded.
#[test]
fn old_floats_are_written_for_the_type_they_meet() {
    let float = |name: &str| AttributeProto {
        name: Some(name.to_owned()),
        f: Some(0.5),
        ..AttributeProto::default()
    };
    let pads = AttributeProto {
        name: Some("pads".to_owned()),
        ints: vec![1, 0],
        ..AttributeProto::default()
    };
    let x = Tensor::from_slice(&[-1.0_f32, 2.0], &[2], &Device::Cpu).unwrap();
    for (operator, attributes, number, dtype, expected) in [
        ("Pad", vec![pads.clone(), float("value")], 10, DType::F16, Some(&[0.5, -1.0, 2.0][..])),
        ("Pad", vec![pads, float("value")], 7, DType::I64, None),
        ("Clip", vec![float("min")], 10, DType::F16, Some(&[0.5, 2.0])),
        ("Clip", vec![float("max")], 10, DType::F16, Some(&[-1.0, 0.5])),
    ] {
        let mut old = node(operator, &["x"], &["y"]);
        old.attribute = attributes;
        let mut old = graph(vec![old]);
        old.output = vec![ValueInfoProto { name: Some("y".to_owned()), r#type: None }];
        if let Some(TypeProto { tensor_type: Some(of), .. }) = &mut old.input[0].r#type {
            of.elem_type = Some(number);
        }
        let mut old = model(old);
        old.opset_import[0].version = Some(9);
        let old = Graph::from_onnx(&old.encode_to_vec()).unwrap();
        let x = x.cast(dtype).unwrap();
        let Some(expected) = expected else {
            assert!(Runner::new(old, &Device::Cpu).unwrap().run(vec![x]).is_err(), "{operator}");
            continue;
        };
        let new = Graph::from_onnx(&old.to_onnx().unwrap()).unwrap();
        let mut constants =
            new.nodes()[0].inputs.iter().flatten().filter_map(|&id| new.constant(id));
        assert!(
            constants.all(|constant| [dtype, DType::I64].contains(&constant.dtype())),
            "{operator}"
        );
        for graph in [old, new] {
            let y =
                Runner::new(graph, &Device::Cpu).unwrap().run(vec![x.clone()]).unwrap().remove(0);
            assert_eq!(y.dtype(), dtype, "{operator}");
            assert_eq!(
                y.cast(DType::F32).unwrap().to_vec::<f32>().unwrap(),
                expected,
                "{operator}"
            );
        }
    }
}

#[test]
fn the_determinant_of_nothing_is_one() {
    let mut graph = graph(vec![node("Det", &["x"], &["y"])]);
    graph.input = vec![value("x", &[2, 0, 0])];
    let x = Tensor::zeros(&[2, 0, 0], DType::F32, &Device::Cpu).unwrap();
    let y = Runner::new(read(graph).unwrap(), &Device::Cpu).unwrap().run(vec![x]).unwrap();
    assert_eq!(y[0].to_vec::<f32>().unwrap(), [1.0, 1.0]);
}

proptest! {
    #[test]
    fn bytes_are_a_model_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = Graph::from_onnx(&bytes).is_ok();
    }

    #[test]
    fn model_with_a_changed_byte_is_read_or_an_error(at in 0..200_usize, to in any::<u8>()) {
        let mut bytes = model(graph(vec![node("Gemm", &["x", "x"], &["a"]), node("Softmax", &["a"], &["y"])])).encode_to_vec();
        let at = at % bytes.len();
        bytes[at] = to;
        if let Ok(graph) = Graph::from_onnx(&bytes) {
            let inputs = graph.inputs().iter().map(|&id| aleatron_graph::inspect::zeros_for(&graph, id, 1));
            if let Ok(inputs) = inputs.collect::<Result<Vec<_>, _>>() {
                let _ = Runner::new(graph, &Device::Cpu).unwrap().run(inputs).is_ok();
            }
        }
    }
}

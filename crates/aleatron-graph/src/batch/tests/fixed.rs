//! Graphs that fix the number of samples.

use super::*;

/// Builds a graph for a fixed number of samples and compares its freed form with it on three runs
/// of samples.
fn freed(what: &str, n: usize, sample: &[usize], build: impl Fn(&mut Build) -> ValueId) -> Graph {
    let mut made = Build::new(sample, Some(n));
    let output = build(&mut made);
    let graph = made.done(output);
    let freed = free(&graph, n).unwrap().unwrap_or_else(|| panic!("{what}: not freed"));
    assert_independent(&freed, what);
    let all = samples(&freed, 3 * n).swap_remove(0);
    let runs =
        (0..3).map(|k| bits(&graph, vec![all.slice(0, k * n..(k + 1) * n).unwrap()]).unwrap());
    assert_eq!(
        bits(&freed, vec![all.clone()]).unwrap(),
        runs.collect::<Vec<_>>().concat(),
        "{what}"
    );
    // Nodes of the original graph keep their names and their order.
    let names =
        |graph: &Graph| graph.nodes().iter().map(|node| node.name.clone()).collect::<Vec<_>>();
    let kept: Vec<String> =
        names(&freed).into_iter().filter(|name| !name.starts_with("samples")).collect();
    assert_eq!(kept, names(&graph), "{what}");
    // The shapes of the file are those of any number of samples, also after writing.
    let read = Graph::from_onnx(&freed.to_onnx().unwrap()).unwrap();
    let first = &read.value(read.inputs()[0]).unwrap().shape.as_ref().unwrap()[0];
    assert!(matches!(first, Dim::Named(_)), "{what}: {first}");
    freed
}

/// Returns the same for one sample and for four.
fn freed_both(what: &str, sample: &[usize], build: impl Fn(&mut Build, i64) -> ValueId) {
    for n in [1, 4] {
        freed(&format!("{what}, {n}"), n, sample, |b| build(b, n as i64));
    }
}

#[test]
fn graph_without_fixed_constants_is_freed() {
    freed_both("dense", &[3], |b, _| {
        let w = b.floats(&[3, 2]);
        b.node(Op::MatMul, &[b.x, w])
    });
}

#[test]
fn reshapes_that_name_the_number_of_samples_are_freed() {
    freed_both("flatten", &[2, 3], |b, n| {
        let y = b.reshape(b.x, &[n, 6]);
        let w = b.floats(&[6, 2]);
        b.node(Op::MatMul, &[y, w])
    });
    freed_both("the rest", &[2, 3], |b, n| b.reshape(b.x, &[n, -1]));
    freed_both("rows and back", &[4, 3], |b, n| {
        let rows = b.reshape(b.x, &[4 * n, 3]);
        let w = b.floats(&[3, 2]);
        let made = b.node(Op::MatMul, &[rows, w]);
        b.reshape(made, &[n, 4, 2])
    });
    freed_both("heads", &[4, 6], |b, n| {
        let apart = b.reshape(b.x, &[n, 4, 2, 3]);
        let turned = b.transpose(apart, &[0, 2, 1, 3]);
        let heads = b.reshape(turned, &[2 * n, 4, 3]);
        let w = b.floats(&[3, 3]);
        let made = b.node(Op::MatMul, &[heads, w]);
        let apart = b.reshape(made, &[n, 2, 4, 3]);
        let turned = b.transpose(apart, &[0, 2, 1, 3]);
        b.reshape(turned, &[n, 4, 6])
    });
    freed_both("steps first", &[4, 3], |b, n| {
        let turned = b.transpose(b.x, &[1, 0, 2]);
        let rows = b.reshape(turned, &[4 * n, 3]);
        let w = b.floats(&[3, 2]);
        let made = b.node(Op::MatMul, &[rows, w]);
        let apart = b.reshape(made, &[4, n, 2]);
        b.transpose(apart, &[1, 0, 2])
    });
}

#[test]
fn constants_with_a_row_for_each_sample_are_freed() {
    freed_both("a term", &[2, 3], |b, n| {
        let row = floats(&[1, 1, 3], 4);
        let rows = row.broadcast_to(&[n as usize, 2, 3]).unwrap().contiguous().unwrap();
        let term = b.constant(rows);
        b.node(Op::Binary(Binary::Add), &[b.x, term])
    });
    freed_both("a bias of gemm", &[3], |b, n| {
        let w = b.floats(&[2, 3]);
        let rows = floats(&[1, 2], 4).broadcast_to(&[n as usize, 2]).unwrap().contiguous().unwrap();
        let bias = b.constant(rows);
        b.node(gemm(false, true), &[b.x, w, bias])
    });
    freed_both("a token", &[2, 3], |b, n| {
        let rows =
            floats(&[1, 1, 3], 4).broadcast_to(&[n as usize, 1, 3]).unwrap().contiguous().unwrap();
        let token = b.constant(rows);
        b.node(Op::Concat { axis: 1 }, &[token, b.x])
    });
    freed_both("positions of rows", &[4, 3], |b, n| {
        let rows = b.reshape(b.x, &[4 * n, 3]);
        let one = floats(&[1, 4, 3], 4).broadcast_to(&[n as usize, 4, 3]).unwrap();
        let positions =
            b.constant(one.reshape(&[4 * n as usize, 3]).unwrap().contiguous().unwrap());
        let sum = b.node(Op::Binary(Binary::Add), &[rows, positions]);
        b.reshape(sum, &[n, 12])
    });
    freed_both("expand", &[1, 3], |b, n| {
        let shape = b.ints(&[n, 4, 3]);
        b.node(Op::Expand, &[b.x, shape])
    });
    freed_both("states", &[4, 2], |b, n| {
        let [w, r, bias] = [b.floats(&[1, 12, 2]), b.floats(&[1, 12, 3]), b.floats(&[1, 24])];
        let turned = b.transpose(b.x, &[1, 0, 2]);
        let zeros =
            b.constant(Tensor::zeros(&[1, n as usize, 3], DType::F32, &Device::Cpu).unwrap());
        let half =
            floats(&[1, 1, 3], 9).broadcast_to(&[1, n as usize, 3]).unwrap().contiguous().unwrap();
        let half = b.constant(half);
        let lengths = b.constant(ints(&vec![4; n as usize]).cast(DType::I32).unwrap());
        let made = b.nodes(lstm(false), &[turned, w, r, bias, lengths, zeros, half], 2);
        b.node(Op::Squeeze { axes: Some(vec![0]) }, &[made[1]])
    });
    freed_both("sizes", &[1, 2, 2], |b, n| {
        let resize = crate::op::Resize {
            options: crate::op::ResizeOptions::new(crate::op::Interpolation::Linear),
            axes: None,
            aspect: crate::op::Aspect::Stretch,
        };
        let sizes = b.ints(&[n, 1, 4, 4]);
        b.node(Op::Resize(resize), &[b.x]);
        b.graph.nodes.last_mut().unwrap().inputs.extend([None, None, Some(sizes)]);
        b.graph.nodes.last().unwrap().outputs[0].unwrap()
    });
    freed_both("a slice of all", &[3], |b, n| {
        let [starts, ends, axes] = [b.ints(&[0, 1]), b.ints(&[n, 3]), b.ints(&[0, 1])];
        b.node(Op::Slice { given: None }, &[b.x, starts, ends, axes])
    });
}

#[test]
fn names_of_the_graph_are_not_taken_by_new_nodes() {
    let graph = freed("names", 2, &[1, 3], |b| {
        let token = b.constant(Tensor::ones(&[2, 1, 3], DType::F32, &Device::Cpu).unwrap());
        let y = b.node(Op::Concat { axis: 1 }, &[token, b.x]);
        b.graph.nodes.last_mut().unwrap().name = "node_samples_expand".to_owned();
        y
    });
    let mut names: Vec<&str> = graph.nodes().iter().map(|node| node.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), graph.nodes().len());
}

#[test]
fn graphs_that_mix_a_fixed_number_of_samples_are_not_freed() {
    let keeps = |what: &str, n: usize, build: &dyn Fn(&mut Build) -> ValueId| {
        let mut made = Build::new(&[3], Some(n));
        let output = build(&mut made);
        assert!(free(&made.done(output), n).unwrap().is_none(), "{what}");
    };
    for n in [1, 4] {
        keeps("softmax", n, &|b| b.node(softmax(0), &[b.x]));
        keeps("products of samples", n, &|b| b.node(gemm(false, true), &[b.x, b.x]));
        keeps("steps first", n, &|b| b.transpose(b.x, &[1, 0]));
    }
    keeps("the first sample", 1, &|b| {
        let first = b.constant(Tensor::from_slice(&[0_i64], &[], &Device::Cpu).unwrap());
        b.node(Op::Gather { axis: 0 }, &[b.x, first])
    });
    keeps("regrouped", 4, &|b| b.reshape(b.x, &[2, 6]));
    keeps("terms that differ", 2, &|b| {
        let terms = b.floats(&[2, 1]);
        b.node(Op::Binary(Binary::Add), &[b.x, terms])
    });
}

//! Graphs that mix samples, and outputs that are not one row for each sample.

use super::*;

/// Builds a graph over samples of a shape and checks that it mixes them, by the node that does.
fn check(what: &str, sample: &[usize], build: impl Fn(&mut Build) -> ValueId) {
    let mut made = Build::new(sample, None);
    let output = build(&mut made);
    let graph = made.done(output);
    let found = analysis(&graph).unwrap();
    assert_eq!(found.batching(&graph, output).unwrap(), Batching::Whole, "{what}");
    assert!(found.mixed_by(output).is_some_and(|node| node < graph.nodes().len()), "{what}");
    assert_eq!(found.layout(output), None, "{what}");
}

#[test]
fn nodes_over_samples_mix_them() {
    check("softmax", &[3], |b| b.node(softmax(0), &[b.x]));
    check("old softmax", &[3], |b| {
        b.node(Op::Softmax { function: Softmax::Softmax, axes: SoftmaxAxes::From(0) }, &[b.x])
    });
    check("mean", &[3], |b| {
        let mean = b.node(mean(&[0], Dims::Keep), &[b.x]);
        b.node(Op::Binary(Binary::Sub), &[b.x, mean])
    });
    check("maximum of everything", &[3], |b| {
        let op = Op::Reduce {
            reduction: Reduction::Max,
            axes: None,
            reduced: Dims::Drop,
            no_axes: NoAxes::All,
        };
        let most = b.node(op, &[b.x]);
        b.node(Op::Binary(Binary::Div), &[b.x, most])
    });
    check("cumulative sum", &[3], |b| {
        let axis = b.constant(Tensor::from_slice(&[0_i64], &[], &Device::Cpu).unwrap());
        b.node(Op::CumSum { exclusive: false, reverse: false }, &[b.x, axis])
    });
    check("batch normalization of training", &[2, 5], |b| {
        let [a, c, d, v] =
            [0; 4].map(|_| b.constant(Tensor::ones(&[2], DType::F32, &Device::Cpu).unwrap()));
        let op = Op::BatchNormalization { epsilon: 1e-5, momentum: 0.9, training: true };
        b.nodes(op, &[b.x, a, c, d, v], 1)[0]
    });
    check("largest sample", &[3], |b| {
        b.node(
            Op::ArgReduce {
                extreme: Extreme::Max,
                axis: 0,
                reduced: Dims::Keep,
                tie: crate::op::Tie::First,
            },
            &[b.x],
        )
    });
}

#[test]
fn products_of_samples_mix_them() {
    check("x times x transposed", &[3], |b| {
        let turned = b.transpose(b.x, &[1, 0]);
        b.node(Op::MatMul, &[b.x, turned])
    });
    check("gemm of samples", &[3], |b| b.node(gemm(false, true), &[b.x, b.x]));
    check("einsum of samples", &[3], |b| b.node(equation(&["ni", "mi"], "nm"), &[b.x, b.x]));
    check("sum over samples", &[3], |b| {
        b.node(equation(&["ni", "ij"], "j"), &[b.x, b.x].map(|x| x))
    });
    check("rows and columns", &[1], |b| {
        let turned = b.transpose(b.x, &[1, 0]);
        b.node(Op::Binary(Binary::Add), &[b.x, turned])
    });
}

#[test]
fn numbers_of_samples_mix_them() {
    check("divided by the number", &[3], |b| {
        let n = b.sizes(b.x, 0, 1);
        let n = b.node(Op::Cast(DType::F32), &[n]);
        b.node(Op::Binary(Binary::Div), &[b.x, n])
    });
    check("position", &[3], |b| {
        let n = b.sizes(b.x, 0, 1);
        let n = b.node(Op::Squeeze { axes: Some(vec![0]) }, &[n]);
        let [zero, one] =
            [0_i64, 1].map(|v| b.constant(Tensor::from_slice(&[v], &[], &Device::Cpu).unwrap()));
        let positions = b.node(Op::Range, &[zero, n, one]);
        let positions = b.node(Op::Cast(DType::F32), &[positions]);
        let positions = b.reshape(positions, &[-1, 1]);
        b.node(Op::Binary(Binary::Add), &[b.x, positions])
    });
    check("as many features as samples", &[5], |b| {
        let [starts, axes] = [b.ints(&[0]), b.ints(&[1])];
        let ends = b.sizes(b.x, 0, 1);
        let part = b.node(Op::Slice { given: None }, &[b.x, starts, ends, axes]);
        b.node(mean(&[1], Dims::Keep), &[part])
    });
    check("a feature by the number", &[5], |b| {
        let n = b.sizes(b.x, 0, 1);
        b.node(Op::Gather { axis: 1 }, &[b.x, n])
    });
}

#[test]
fn movement_between_samples_mixes_them() {
    check("the first sample", &[3], |b| {
        let first = b.ints(&[0]);
        let first = b.node(Op::Gather { axis: 0 }, &[b.x, first]);
        b.node(Op::Binary(Binary::Add), &[b.x, first])
    });
    check("samples by index", &[3], |b| {
        let n = b.sizes(b.x, 0, 1);
        let one = b.ints(&[1]);
        let last = b.node(Op::Binary(Binary::Sub), &[n, one]);
        b.node(Op::Gather { axis: 0 }, &[b.x, last])
    });
    check("samples by index of the largest", &[3], |b| {
        let average = b.node(mean(&[0], Dims::Drop), &[b.x]);
        let argmax = Op::ArgReduce {
            extreme: Extreme::Max,
            axis: 0,
            reduced: Dims::Keep,
            tie: crate::op::Tie::First,
        };
        let which = b.node(argmax, &[average]);
        b.node(Op::Gather { axis: 1 }, &[b.x, which])
    });
    check("reversed samples", &[3], |b| {
        let [starts, ends, axes, steps] =
            [b.ints(&[-1]), b.ints(&[i64::MIN]), b.ints(&[0]), b.ints(&[-1])];
        b.node(Op::Slice { given: None }, &[b.x, starts, ends, axes, steps])
    });
    check("a row before the samples", &[3], |b| {
        let row = b.floats(&[1, 3]);
        b.node(Op::Concat { axis: 0 }, &[row, b.x])
    });
    check("padded samples", &[3], |b| {
        let pads = b.ints(&[1, 0, 0, 0]);
        b.node(Op::Pad { mode: crate::op::PadMode::Constant, given: None }, &[b.x, pads])
    });
    // Regrouped: any constant size may be the number of samples in one run and none in another.
    for shape in [[2, -1], [3, -1], [6, -1]] {
        check(&format!("reshape to {shape:?}"), &[6], |b| {
            let y = b.reshape(b.x, &shape);
            let most = b.node(mean(&[1], Dims::Keep), &[y]);
            b.node(Op::Binary(Binary::Sub), &[y, most])
        });
    }
}

#[test]
fn graph_that_needs_several_samples_is_an_error_with_the_node() {
    let mut b = Build::new(&[6], None);
    let y = b.reshape(b.x, &[-1, 12]);
    let error = batching(&b.done(y)).unwrap_err();
    assert!(matches!(&error, Error::Node { name, .. } if name == "node0"), "{error}");
}

#[test]
fn positions_of_maxima_depend_on_the_sample() {
    let mut b = Build::new(&[1, 4], None);
    let op = Op::Pool {
        pooling: Pooling::Max { column_major: false },
        window: window(&[2], &[]),
        rounding: Rounding::Down,
    };
    let made = b.nodes(op, &[b.x], 2);
    let graph = b.done(made[1]);
    assert_eq!(batching(&graph).unwrap(), Batching::Whole);
    assert_eq!(analysis(&graph).unwrap().layout(made[0]), Some(Layout::LEADING));
}

/// Returns the message of the error for an output.
fn refusal(sample: &[usize], build: impl Fn(&mut Build) -> ValueId) -> String {
    let mut made = Build::new(sample, None);
    let output = build(&mut made);
    let graph = made.done(output);
    match batching(&graph) {
        Err(error @ Error::Model { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn outputs_without_a_row_for_each_sample_are_errors_with_their_name() {
    let steps_first = refusal(&[4, 3], |b| b.transpose(b.x, &[1, 0, 2]));
    assert_eq!(
        steps_first,
        "output \"node0_output\": its samples lie along axis 1, not along the first: the first size must be the number of samples; choose another output"
    );
    let rows = refusal(&[4, 3], |b| b.reshape(b.x, &[-1, 3]));
    assert!(rows.contains("its first size is 4 times the number of samples"), "{rows}");
    let joined = refusal(&[4, 3], |b| b.reshape(b.x, &[1, -1]));
    assert!(joined.contains("its axis 1 holds 12 rows of each sample"), "{joined}");
    let constant = refusal(&[3], |b| {
        let c = b.floats(&[1, 3]);
        b.relu(c)
    });
    assert!(constant.contains("does not depend on the features"), "{constant}");
    let sizes = refusal(&[3], |b| b.sizes(b.x, 0, 1));
    assert!(sizes.contains("does not depend on the features"), "{sizes}");
}

#[test]
fn outputs_whose_size_depends_on_values_are_errors_with_their_name() {
    let positions = |b: &mut Build| {
        let made = b.node(Op::NonZero, &[b.x]);
        b.transpose(made, &[1, 0])
    };
    let text = refusal(&[3], positions);
    assert!(
        text.starts_with(
            "output \"node1_output\": its size depends on the values of features, by node \"node0\" (NonZero)"
        ),
        "{text}"
    );
    let unique = refusal(&[3], |b| b.nodes(Op::Unique { axis: None, sorted: true }, &[b.x], 1)[0]);
    assert!(unique.contains("(Unique)"), "{unique}");
    let repeated = refusal(&[3], |b| {
        let op = Op::Reduce {
            reduction: Reduction::Max,
            axes: None,
            reduced: Dims::Drop,
            no_axes: NoAxes::All,
        };
        let most = b.node(op, &[b.x]);
        let most = b.node(Op::Cast(DType::I64), &[most]);
        let most = b.reshape(most, &[1]);
        let one = b.ints(&[1]);
        let two = b.ints(&[1]);
        let most = b.node(Op::Binary(Binary::Add), &[most, two]);
        let repeats = b.node(Op::Concat { axis: 0 }, &[one, most]);
        b.node(Op::Tile, &[b.x, repeats])
    });
    assert!(repeated.contains("(Tile)"), "{repeated}");
    // The nonzero elements of a constant have a fixed number, and so has a sum over all of them.
    let mut b = Build::new(&[3], None);
    let c = b.floats(&[1, 3]);
    let found = b.node(Op::NonZero, &[c]);
    let found = b.node(Op::Cast(DType::F32), &[found]);
    let row = b.node(mean(&[0], Dims::Keep), &[found]);
    let y = b.node(Op::Binary(Binary::Add), &[b.x, row]);
    assert_independent(&b.done(y), "positions in a constant");
    let mut b = Build::new(&[3], None);
    let found = b.node(Op::NonZero, &[b.x]);
    let found = b.node(Op::Cast(DType::F32), &[found]);
    let op = Op::Reduce {
        reduction: Reduction::Sum,
        axes: None,
        reduced: Dims::Drop,
        no_axes: NoAxes::All,
    };
    let sum = b.node(op, &[found]);
    let y = b.node(Op::Binary(Binary::Add), &[b.x, sum]);
    assert_eq!(batching(&b.done(y)).unwrap(), Batching::Whole);
}

#[test]
fn squeeze_of_all_axes_of_one_element_is_not_independent() {
    // With one sample, the axis of the samples goes as well.
    check("squeeze", &[1, 3], |b| b.node(Op::Squeeze { axes: None }, &[b.x]));
}

#[test]
fn graphs_inside_nodes_mix_samples() {
    check("branches", &[3], |b| {
        let branch = |op: Unary, outer: ValueId| {
            let mut graph = Graph::new("branch");
            let x = graph.add_value(Value { name: "outer".to_owned(), ..Value::default() });
            graph.captures.push((outer, x));
            let y = graph.add_node("inner", Op::Unary(op), &[x]);
            graph.add_output(y);
            Box::new(graph)
        };
        let condition = b.constant(Tensor::from_slice(&[true], &[], &Device::Cpu).unwrap());
        let (then_branch, else_branch) = (branch(Unary::Relu, b.x), branch(Unary::Neg, b.x));
        b.node(Op::If { then_branch, else_branch }, &[condition])
    });
}

//! Simplification changes nodes but no result.
#![allow(clippy::unwrap_used, clippy::panic)]

use aleatron_graph::op::{Padding, Window};
use aleatron_graph::product::Product;
use aleatron_graph::{Binary, Dim, Graph, Op, Runner, Value};
use aleatron_tensor::{DType, Device, Tensor};

const CPU: &Device = &Device::Cpu;

/// Returns reproducible pseudo-random numbers.
fn numbers(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..n)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((state >> 40) as f32 / (1 << 23) as f32) - 1.0
        })
        .collect()
}

fn tensor(shape: &[usize], seed: u64) -> Tensor {
    Tensor::from_slice(&numbers(shape.iter().product(), seed), shape, CPU).unwrap()
}

fn input(graph: &mut Graph, shape: &[usize]) -> aleatron_graph::ValueId {
    let shape = shape.iter().map(|&n| Dim::Fixed(n)).collect();
    graph.add_input(Value { name: "x".to_owned(), dtype: Some(DType::F32), shape: Some(shape) })
}

fn outputs(graph: &Graph, x: &Tensor) -> Vec<f32> {
    let made = Runner::new(graph.clone(), CPU).unwrap().run(vec![x.clone()]).unwrap();
    made[0].to_vec::<f32>().unwrap()
}

#[test]
fn batch_normalisation_becomes_part_of_the_product_before_it() {
    for is_conv in [true, false] {
        let mut graph = Graph::new("normalised");
        let shape: &[usize] = if is_conv { &[2, 3, 5, 5] } else { &[2, 7] };
        let x = input(&mut graph, shape);
        let product = if is_conv {
            let w = graph.add_constant("w", tensor(&[4, 3, 3, 3], 1));
            let window = Window {
                kernel: Vec::new(),
                strides: vec![2, 1],
                dilations: Vec::new(),
                padding: Padding::Explicit(vec![1, 0, 1, 1]),
            };
            graph.add_node("conv", Op::Conv { window, groups: 1 }, &[x, w])
        } else {
            let w = graph.add_constant("w", tensor(&[7, 4], 1));
            let b = graph.add_constant("b", tensor(&[4], 2));
            let op = Op::Gemm { alpha: 0.5, beta: 2.0, transpose_a: false, transpose_b: false };
            graph.add_node("gemm", op, &[x, w, b])
        };
        let parameters: Vec<_> = (0..4)
            .map(|k| {
                let values: Vec<f32> = numbers(4, 3 + k).iter().map(|v| v.abs() + 0.25).collect();
                graph.add_constant(format!("p{k}"), Tensor::from_slice(&values, &[4], CPU).unwrap())
            })
            .collect();
        let op = Op::BatchNormalization { epsilon: 1e-3, momentum: 0.9, training: false };
        let y = graph.add_node("norm", op, &[&[product], parameters.as_slice()].concat());
        graph.add_output(y);
        let x = tensor(shape, 9);
        let before = outputs(&graph, &x);
        let done = graph.simplify().unwrap();
        assert_eq!((done.folded, graph.nodes().len()), (1, 1));
        let after = outputs(&graph, &x);
        // Both sum at most 27 products of magnitudes below 1 and scale them by at most 1.25 /
        // sqrt(0.25): every step rounds by 2^-24 of sums below 68 + 4, a few dozen times.
        let bound = 72.0 * 40.0 * 2.0_f32.powi(-24);
        for (a, b) in before.iter().zip(&after) {
            assert!((a - b).abs() <= bound, "{a} {b}");
        }
        assert!(Product::of(&graph, &graph.nodes()[0]).unwrap().is_some());
    }
}

#[test]
fn a_value_that_is_used_elsewhere_is_not_folded() {
    let mut graph = Graph::new("shared");
    let x = input(&mut graph, &[2, 3]);
    let w = graph.add_constant("w", tensor(&[3, 4], 1));
    let op = Op::Gemm { alpha: 1.0, beta: 1.0, transpose_a: false, transpose_b: false };
    let product = graph.add_node("gemm", op, &[x, w]);
    let ones: Vec<_> = (0..4)
        .map(|k| graph.add_constant(format!("p{k}"), Tensor::ones(&[4], DType::F32, CPU).unwrap()))
        .collect();
    let op = Op::BatchNormalization { epsilon: 0.0, momentum: 0.9, training: false };
    let norm = graph.add_node("norm", op, &[&[product], ones.as_slice()].concat());
    let sum = graph.add_node("sum", Op::Binary(Binary::Add), &[norm, product]);
    graph.add_output(sum);
    assert_eq!(graph.simplify().unwrap().folded, 0);
    assert_eq!(graph.nodes().len(), 3);
}

#[test]
fn nodes_of_constants_are_computed_once() {
    let mut graph = Graph::new("constants");
    let x = input(&mut graph, &[2]);
    let (a, b) =
        (graph.add_constant("a", tensor(&[2], 1)), graph.add_constant("b", tensor(&[2], 2)));
    let sum = graph.add_node("sum", Op::Binary(Binary::Add), &[a, b]);
    let unused = graph.add_node("unused", Op::Binary(Binary::Mul), &[x, a]);
    let y = graph.add_node("y", Op::Binary(Binary::Mul), &[x, sum]);
    graph.add_output(y);
    let x = tensor(&[2], 3);
    let before = outputs(&graph, &x);
    let done = graph.simplify().unwrap();
    assert_eq!((done.constants, done.removed, graph.nodes().len()), (1, 1, 1));
    assert_eq!(outputs(&graph, &x), before);
    assert_eq!(graph.constants().count(), 1);
    assert!(unused.index() > 0);
}

/// A result that is too large to be stored is left to the run and is not computed first: 2^40
/// elements would not fit into memory.
#[test]
fn nodes_that_expand_constants_too_much_are_not_folded() {
    let big = 1_i64 << 20;
    let integers =
        |values: &[i64], shape: &[usize]| Tensor::from_slice(values, shape, CPU).unwrap();
    let column = Tensor::ones(&[big as usize, 1], DType::F32, CPU).unwrap();
    let row = Tensor::ones(&[1, big as usize], DType::F32, CPU).unwrap();
    let one = |value: i64| integers(&[value], &[]);
    let cases = [
        (Op::Tile, vec![tensor(&[2, 2], 1), integers(&[big, big], &[2])]),
        (Op::Binary(Binary::Add), vec![column.clone(), row.clone()]),
        (Op::MatMul, vec![column, row]),
        (Op::Range, vec![one(0), one(big * big), one(1)]),
    ];
    for (op, inputs) in cases {
        let name = format!("{op:?}");
        let mut graph = Graph::new("large");
        let ids: Vec<_> = inputs
            .into_iter()
            .enumerate()
            .map(|(k, t)| graph.add_constant(format!("c{k}"), t))
            .collect();
        let y = graph.add_node("y", op, &ids);
        graph.add_output(y);
        graph.simplify().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(graph.nodes().len(), 1, "{name}");
    }
}

/// Beyond 2^53 not every integer is a float.
#[test]
fn ranges_of_large_integers_are_exact() {
    let n = 1_i64 << 53;
    for (start, limit, delta, expected) in [
        (n, n + 4, 1, vec![n, n + 1, n + 2, n + 3]),
        (n + 5, n, -2, vec![n + 5, n + 3, n + 1]),
        (i64::MAX - 3, i64::MAX, 2, vec![i64::MAX - 3, i64::MAX - 1]),
        (0, -3, 1, vec![]),
        (0, 0, -1, vec![]),
    ] {
        let mut graph = Graph::new("range");
        let ids = [start, limit, delta].map(|value| {
            graph.add_constant(format!("c{value}"), Tensor::from_slice(&[value], &[], CPU).unwrap())
        });
        let y = graph.add_node("y", Op::Range, &ids);
        graph.add_output(y);
        let made = Runner::new(graph, CPU).unwrap().run(Vec::new()).unwrap();
        assert_eq!(made[0].to_vec::<i64>().unwrap(), expected);
    }
}

//! The drawing of a graph: a box for each node, an edge for each value, and the error as a shade.

use super::xml::{Element, elements};
use super::{cell, evaluation, page, section};
use crate::support::generator;
use aleatron_eval::{Evaluation, GraphNode, GraphSummary, Losses};

fn node(name: &str, inputs: &[usize], graph_inputs: &[&str], products: Option<u64>) -> GraphNode {
    GraphNode {
        name: name.to_owned(),
        operator: if products.is_some() { "Conv" } else { "Add" }.to_owned(),
        shape: vec![1, 4, 6, 5],
        inputs: inputs.to_vec(),
        graph_inputs: graph_inputs.iter().map(|&name| name.to_owned()).collect(),
        stream_products: products,
    }
}

/// A convolution whose input is added to its output, twice.
fn residual(errors: [Option<f64>; 4]) -> Evaluation {
    let mut evaluation = evaluation(vec![cell("sobol", 8, 0, 70), cell("sobol", 16, 0, 90)]);
    let nodes = vec![
        node("conv1", &[], &["x"], Some(1500)),
        node("sum1", &[0], &["x"], None),
        node("conv2", &[1], &[], Some(1500)),
        node("sum2", &[1, 2], &[], None),
    ];
    let losses = Losses {
        generator: generator("sobol"),
        length: 8,
        score: 0.7,
        node_errors: errors.to_vec(),
        alone: vec![Some(0.8), None, Some(0.7), None],
    };
    evaluation.graph = Some(GraphSummary { nodes, losses: vec![losses] });
    evaluation
}

/// Returns the boxes of a drawing by the names of their nodes, and its edges.
fn drawn(evaluation: &Evaluation) -> (Vec<Element>, Vec<Element>) {
    let page = page(evaluation);
    let part = section(&page, "The graph");
    let svg = elements(part).into_iter().find(|svg| svg.has("class", "network")).unwrap();
    let edges = svg.all("path").into_iter().filter(|path| path.has("class", "edge")).collect();
    (svg.all("g"), edges)
}

#[test]
fn every_node_and_every_edge_is_drawn() {
    let (boxes, edges) = drawn(&residual([Some(0.001), Some(0.01), Some(0.5), Some(2.5)]));
    let titles: Vec<String> = boxes.iter().map(Element::title).collect();
    assert_eq!(
        titles,
        [
            "input x",
            "conv1: Conv 4×6×5; streams, 1.50 k products; error 0.10 % of the signal",
            "sum1: Add 4×6×5; binary; error 1.00 % of the signal",
            "conv2: Conv 4×6×5; streams, 1.50 k products; error 50.0 % of the signal",
            "sum2: Add 4×6×5; binary; error 250 % of the signal",
        ]
    );
    // x to conv1 and to sum1, conv1 to sum1, sum1 to conv2 and to sum2, conv2 to sum2.
    assert_eq!(edges.len(), 6);
    // Two of them go around a convolution.
    assert_eq!(edges.iter().filter(|edge| edge.text("d").contains('C')).count(), 2);
    let classes: Vec<&str> = boxes.iter().map(|b| b.text("class")).collect();
    assert_eq!(classes, ["input", "streams", "binary", "streams", "binary lost"]);
}

/// From 0.1 % to 100 %, in three decades, of 72 % of the colour.
#[test]
fn shades_are_logarithmic_in_the_error() {
    let fills = |errors| -> Vec<String> {
        let (boxes, _) = drawn(&residual(errors));
        boxes[1..].iter().map(|b| b.all("rect")[0].text("style").to_owned()).collect()
    };
    let shade =
        |percent: u32| format!("fill:color-mix(in srgb, var(--heat) {percent}%, var(--panel))");
    let expected = [0, 24, 48, 72].map(shade);
    assert_eq!(fills([Some(0.001), Some(0.01), Some(0.1), Some(1.0)]), expected);
    let expected = [0, 0, 72, 72].map(shade);
    assert_eq!(fills([Some(0.0), Some(1e-9), Some(1.5), Some(1e9)]), expected);
}

/// A node that is 0 in floating point is not shown as free of errors.
#[test]
fn node_without_a_signal_has_no_error() {
    let evaluation = residual([None, Some(0.25), Some(0.5), Some(0.5)]);
    let (boxes, _) = drawn(&evaluation);
    assert!(
        boxes[1]
            .title()
            .ends_with("no relative error: the output is 0 in floating point, or not of floats")
    );
    let shown: Vec<String> = boxes[1..3]
        .iter()
        .map(|b| b.all("text").into_iter().find(|t| t.has("class", "error")).unwrap().inside)
        .collect();
    assert_eq!(shown, ["-", "25.0 %"]);
    let read = Evaluation::from_json(&evaluation.to_json().unwrap()).unwrap();
    assert_eq!(read, evaluation);
}

#[test]
fn graph_without_losses_is_drawn_without_errors() {
    let mut evaluation = residual([None; 4]);
    evaluation.graph.as_mut().unwrap().losses.clear();
    let (boxes, edges) = drawn(&evaluation);
    assert_eq!((boxes.len(), edges.len()), (5, 6));
    assert_eq!(boxes[1].title(), "conv1: Conv 4×6×5; streams, 1.50 k products");
    let part = page(&evaluation);
    assert!(!part.contains("error of the output, of the signal"));
}

#[test]
fn names_in_drawings_are_escaped_and_cut_at_their_beginning() {
    let mut evaluation = residual([Some(0.5); 4]);
    let nodes = &mut evaluation.graph.as_mut().unwrap().nodes;
    nodes[0].name = "/features/features.0/block.1/conv<1>".to_owned();
    nodes[0].graph_inputs = vec!["<x>".to_owned()];
    nodes[0].operator = "<op>".to_owned();
    let (boxes, _) = drawn(&evaluation);
    let shown = boxes.iter().find(|b| b.title().starts_with("/features")).unwrap();
    let name = shown.all("text").into_iter().find(|t| t.has("class", "name")).unwrap().inside;
    // The last 21 characters of the name.
    assert_eq!(name, "…res.0/block.1/conv&lt;1&gt;");
    let page = page(&evaluation);
    for bad in ["conv<1>", "<x>", "<op>"] {
        assert!(!page.contains(bad), "{bad}");
    }
}

#[test]
fn graph_that_is_too_large_is_a_table_alone() {
    let mut evaluation = residual([Some(0.5); 4]);
    let graph = evaluation.graph.as_mut().unwrap();
    graph.nodes = (0..2500).map(|k| node(&format!("n{k}"), &[], &[], None)).collect();
    graph.losses[0].node_errors = vec![Some(0.5); 2500];
    graph.losses[0].alone = vec![None; 2500];
    let page = page(&evaluation);
    let part = section(&page, "The graph");
    assert!(part.contains("A graph of 2500 nodes is not drawn.") && part.contains("n2499"));
    assert!(!part.contains("<svg"));
}

//! Scans, which run as loops.

use aleatron_graph::Graph;
use aleatron_graph::onnx::proto::AttributeProto;

use super::file::{
    code, graph, graph_attribute, int, ints, node, read, run, tensor, untyped, value,
};

/// Running sums of rows: the state is the sum so far, and every step shows it.
fn sums(attributes: Vec<AttributeProto>, shape: &[i64]) -> Graph {
    let nodes = vec![
        node("Add", &["sum_in", "row"], &["sum_out"], vec![]),
        node("Identity", &["sum_out"], &["shown"], vec![]),
    ];
    let mut body =
        graph(nodes, vec![untyped("sum_in"), untyped("row")], &["sum_out", "shown"], vec![]);
    body.output[1] = value("shown", code::FLOAT, &[2]);
    let mut all = vec![graph_attribute("body", body), int("num_scan_inputs", 1)];
    all.extend(attributes);
    let scan = node("Scan", &["start", "rows"], &["last", "sums"], all);
    let inputs = vec![value("start", code::FLOAT, &[2]), value("rows", code::FLOAT, shape)];
    read(graph(vec![scan], inputs, &["last", "sums"], vec![])).unwrap()
}

#[test]
fn scan_runs_forward_and_backward_along_any_axis() {
    let inputs =
        [tensor(&[0.0_f32, 100.0], &[2]), tensor(&[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[3, 2])];
    let forward = run::<f32>(&sums(vec![], &[3, 2]), &inputs);
    assert_eq!(forward, [vec![9.0, 112.0], vec![1.0, 102.0, 4.0, 106.0, 9.0, 112.0]]);
    let backward = run::<f32>(&sums(vec![ints("scan_input_directions", &[1])], &[3, 2]), &inputs);
    assert_eq!(backward, [vec![9.0, 112.0], vec![5.0, 106.0, 8.0, 110.0, 9.0, 112.0]]);
    let turned = run::<f32>(&sums(vec![ints("scan_output_directions", &[1])], &[3, 2]), &inputs);
    assert_eq!(turned[1], [9.0, 112.0, 4.0, 106.0, 1.0, 102.0]);
    let columns =
        sums(vec![ints("scan_input_axes", &[1]), ints("scan_output_axes", &[1])], &[2, 3]);
    let inputs = [inputs[0].clone(), inputs[1].t().unwrap().contiguous().unwrap()];
    assert_eq!(run::<f32>(&columns, &inputs)[1], [1.0, 4.0, 9.0, 102.0, 106.0, 112.0]);
}

#[test]
fn scan_with_wrong_attributes_is_an_error() {
    let body = || {
        let nodes = vec![node("Add", &["a", "b"], &["c"], vec![])];
        graph_attribute("body", graph(nodes, vec![untyped("a"), untyped("b")], &["c"], vec![]))
    };
    for attributes in [
        vec![int("num_scan_inputs", 3)],
        vec![],
        vec![int("num_scan_inputs", 1), ints("scan_input_axes", &[0, 1])],
    ] {
        let all = [vec![body()], attributes].concat();
        let scan = node("Scan", &["start", "rows"], &["last"], all);
        let inputs = vec![untyped("start"), untyped("rows")];
        let error = read(graph(vec![scan], inputs, &["last"], vec![])).unwrap_err().to_string();
        assert!(error.contains("Scan") && error.contains("scan_in"), "{error}");
    }
}

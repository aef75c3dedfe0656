//! Accuracy lost node by node and layer by layer.

use crate::support::{
    Classes, constant, evaluated, features, float_accuracy, gemm, generator, given, graph,
    labelled, network, one_seed, plan, samples,
};
use aleatron_core::Cancel;
use aleatron_data::Dataset;
use aleatron_engine::network::{Calibration, Graph, Mode, Network, Op, StreamConfig};
use aleatron_eval::{Evaluation, Losses, Plan, find_losses, report};
use aleatron_graph::{Binary, Dim, Unary, Value};
use aleatron_tensor::DType;

#[test]
fn losses_are_those_of_each_node_and_layer() {
    let (network, data) = labelled(100);
    let plan = one_seed("sobol", &[8, 1024]);
    let mut found = evaluated(&network, &data, &plan);
    find_losses(&network, &data, &plan, &mut found, Cancel::NEVER).unwrap();
    let graph = found.graph.clone().unwrap();
    let names: Vec<&str> = graph.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["conv", "relu", "flat", "fc"]);
    assert_eq!(graph.nodes[3].inputs, [2]);
    assert!(graph.nodes[0].inputs.is_empty() && graph.nodes[3].graph_inputs.is_empty());
    assert_eq!(graph.nodes[0].graph_inputs, ["x"]);
    assert_eq!(graph.nodes.iter().filter(|node| node.stream_products.is_some()).count(), 2);
    let losses = &graph.losses[0];
    // Labels are those of floats, so the shortest streams lose.
    assert_eq!((losses.length, losses.score), (8, found.cells[0].classes().accuracy));
    assert_eq!(
        losses.alone.iter().map(Option::is_some).collect::<Vec<_>>(),
        [true, false, false, true]
    );
    // One layer alone is the network with the other in binary.
    let only = network.clone().with_mode("fc", Mode::Binary).unwrap();
    let config = StreamConfig::new(8).generator("sobol".parse().unwrap()).seed(0);
    let classes = only.to_streams(&config).unwrap().predict(data.features(), 0).unwrap();
    let right = classes.iter().zip(data.labels()).filter(|(a, b)| a == b).count();
    assert_eq!(losses.alone[0], Some(right as f64 / 100.0));
    // The error of the last node by hand.
    let [made, exact] = [
        network.to_streams(&config).unwrap().forward(data.features(), 0).unwrap(),
        network.forward(data.features()).unwrap(),
    ];
    let squares: f64 = made.iter().zip(&exact).map(|(a, b)| (a - b).powi(2)).sum();
    let error = (squares / exact.iter().map(|b| b * b).sum::<f64>()).sqrt();
    let measured = losses.node_errors[3].unwrap();
    assert!((measured - error).abs() < 1e-9 * error, "{measured} {error}");
    // A node without products passes its input on.
    assert_eq!(losses.node_errors[1], losses.node_errors[2]);
    let page = report::evaluation(&found);
    for part in
        ["The graph", "Where accuracy is lost", "streams, ", "sobol, 8 bits", "Stopping early"]
    {
        assert!(page.contains(part), "{part}");
    }
    let read = Evaluation::from_json(&found.to_json().unwrap()).unwrap();
    assert_eq!(read, found);
    let broken = found.to_json().unwrap().replacen("\"inputs\": []", "\"inputs\": [3]", 1);
    assert!(Evaluation::from_json(&broken).is_err());
}

/// Returns a dense layer over a fixed number of samples.
fn batched(n: usize, weights: &[f32]) -> Network {
    let mut graph = Graph::new("batched");
    let shape = Some(vec![Dim::Fixed(n), Dim::Fixed(2)]);
    let x = graph.add_input(Value { name: "x".to_owned(), dtype: Some(DType::F32), shape });
    let w = given(&mut graph, "w", weights, &[weights.len() / 2, 2]);
    let y = graph.add_node("fc", gemm(), &[x, w]);
    graph.add_output(y);
    Network::new(graph).unwrap()
}

/// A graph that fixes the number of samples is freed: no sample is left out and none is added.
#[test]
fn node_errors_are_over_all_samples() {
    let network = batched(4, &[0.5, -0.25, 0.125, 0.75, -0.5, 1.0]);
    let plan = one_seed("sobol", &[8]);
    let config = StreamConfig::new(8).generator("sobol".parse().unwrap()).seed(0);
    for n in [10, 8, 4, 3] {
        let x = features(2 * n, 9);
        let data = Dataset::new("d", 2, x.clone(), network.predict(&x).unwrap()).unwrap();
        let mut found = evaluated(&network, &data, &plan);
        find_losses(&network, &data, &plan, &mut found, Cancel::NEVER).unwrap();
        let made = network.to_streams(&config).unwrap().forward(&x, 0).unwrap();
        let exact = network.forward(&x).unwrap();
        let squares: f64 = made.iter().zip(&exact).map(|(a, b)| (a - b).powi(2)).sum();
        let error = (squares / exact.iter().map(|b| b * b).sum::<f64>()).sqrt();
        let measured = found.graph.unwrap().losses[0].node_errors[0].unwrap();
        assert!(error > 0.0 && (measured - error).abs() < 1e-9 * error, "{n}: {measured} {error}");
    }
}

/// Losses are measured once for each generator: at the longest length that loses more than a point,
/// or at the shortest if none does.
#[test]
fn losses_are_measured_at_the_longest_length_that_loses() {
    let (network, data) = (network(), samples());
    let plan = Plan { seeds: 1, ..plan(&["sobol", "lfsr", "sobol"], &[8, 16, 32]) };
    let mut found = evaluated(&network, &data, &plan);
    found.float = float_accuracy(0.75);
    for cell in &mut found.cells {
        // A whole point is not more than one.
        cell.classes_mut().accuracy = match (cell.generator == generator("sobol"), cell.length) {
            (true, 8 | 16) => 0.5,
            (true, _) => 0.74,
            _ => 0.8,
        };
    }
    find_losses(&network, &data, &plan, &mut found, Cancel::NEVER).unwrap();
    let graph = found.graph.as_ref().unwrap();
    let lengths: Vec<_> = graph.losses.iter().map(|l| (l.generator, l.length)).collect();
    assert_eq!(lengths, [(generator("sobol"), 16), (generator("lfsr"), 8)]);
    let page = report::evaluation(&found);
    for part in [
        "<h3>sobol, 16 bits<small>",
        "<h3>lfsr, 8 bits<small>",
        "<tr><td class=\"text\">a</td><td>",
        "<tr><td class=\"text\">b</td><td>",
        "<td class=\"text\">2</td><td class=\"text\">features</td>",
        "<td class=\"text\">3</td><td class=\"text\">",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

/// A node that is 0 in floating point has no error relative to it, rather than none at all.
#[test]
fn node_of_zeros_has_no_relative_error() {
    let network = graph(&[4], |graph, x| {
        let (w, v) = (constant(graph, "w", &[3, 4], 1), constant(graph, "v", &[3, 4], 2));
        let low = given(graph, "low", &[-100.0_f32; 3], &[3]);
        let first = graph.add_node("first", gemm(), &[x, w]);
        let second = graph.add_node("second", gemm(), &[x, v, low]);
        let dead = graph.add_node("dead", Op::Unary(Unary::Relu), &[second]);
        graph.add_node("sum", Op::Binary(Binary::Add), &[first, dead])
    });
    let x = features(80, 5);
    let network = network.calibrated(&x, &Calibration::default()).unwrap();
    let data = Dataset::new("d", 4, x.clone(), network.predict(&x).unwrap()).unwrap();
    let plan = one_seed("sobol", &[8]);
    let mut found = evaluated(&network, &data, &plan);
    find_losses(&network, &data, &plan, &mut found, Cancel::NEVER).unwrap();
    let graph = found.graph.as_ref().unwrap();
    let errors = graph.nodes.iter().zip(&graph.losses[0].node_errors);
    let none: Vec<&str> =
        errors.filter(|(_, error)| error.is_none()).map(|(node, _)| node.name.as_str()).collect();
    assert_eq!(none, ["dead"]);
    // Of two joined branches, both read the input of the graph.
    let readers = graph.nodes.iter().filter(|node| node.graph_inputs == ["x"]).count();
    assert_eq!(readers, 2);
}

#[test]
fn inconsistent_losses_in_a_file_are_errors() {
    let (network, data) = (network(), samples());
    let plan = one_seed("sobol", &[8]);
    let mut found = evaluated(&network, &data, &plan);
    find_losses(&network, &data, &plan, &mut found, Cancel::NEVER).unwrap();
    let read = |found: &Evaluation| Evaluation::from_json(&found.to_json().unwrap());
    assert_eq!(read(&found).unwrap(), found);
    type Change = fn(&mut Losses);
    let changes: [Change; 6] = [
        |losses| losses.node_errors.push(Some(0.0)),
        |losses| losses.alone.push(None),
        |losses| losses.score = 1.5,
        |losses| losses.alone[0] = Some(-0.5),
        |losses| losses.node_errors[0] = Some(-1.0),
        |losses| losses.node_errors.clear(),
    ];
    for (k, change) in changes.iter().enumerate() {
        let mut changed = found.clone();
        change(&mut changed.graph.as_mut().unwrap().losses[0]);
        assert!(read(&changed).is_err(), "change {k}");
    }
}

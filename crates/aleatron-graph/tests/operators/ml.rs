//! Operators of classical machine learning.

use aleatron_graph::Runner;
use aleatron_graph::onnx::proto::{Opaque, TypeProto, ValueInfoProto};
use aleatron_tensor::Device;

use super::file::{code, floats, graph, int, ints, ml_node, read, run, tensor, text, value};

/// A pipeline as exporters write it: scaled features, a linear classifier, normalized scores, and a
/// list of maps.
#[test]
fn classifier_pipeline_gives_labels_and_probabilities() {
    let nodes = vec![
        ml_node(
            "Scaler",
            &["x"],
            &["a"],
            vec![floats("offset", &[1.0, 2.0]), floats("scale", &[2.0, 0.5])],
        ),
        ml_node(
            "LinearClassifier",
            &["a"],
            &["label", "scores"],
            vec![
                floats("coefficients", &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0]),
                floats("intercepts", &[0.0, 1.0, -1.0]),
                ints("classlabels_ints", &[10, 20, 30]),
                text("post_transform", "NONE"),
                int("multi_class", 1),
            ],
        ),
        ml_node("Normalizer", &["scores"], &["shares"], vec![text("norm", "L1")]),
        ml_node("ZipMap", &["shares"], &["maps"], vec![ints("classlabels_int64s", &[10, 20, 30])]),
    ];
    let mut file = graph(nodes, vec![value("x", code::FLOAT, &[2, 2])], &["label", "maps"], vec![]);
    let kind = TypeProto { sequence_type: Some(Opaque {}), ..TypeProto::default() };
    file.output[1] = ValueInfoProto { name: Some("maps".to_owned()), r#type: Some(kind) };
    let graph = read(file).unwrap();
    let x = tensor(&[2.0_f32, 6.0, 3.0, 2.0], &[2, 2]);
    // Scaled: (2, 2) and (4, 0); scores: (2, 3, 3) and (4, 1, 3).
    let made = Runner::new(graph.clone(), &Device::Cpu).unwrap().run(vec![x]).unwrap();
    assert_eq!(made[0].to_vec::<i64>().unwrap(), [20, 10]);
    assert_eq!(made[1].to_vec::<f32>().unwrap(), [0.25, 0.375, 0.375, 0.5, 0.125, 0.375]);
    let again = aleatron_graph::Graph::from_onnx(&graph.to_onnx().unwrap()).unwrap();
    assert_eq!(again.to_onnx().unwrap(), graph.to_onnx().unwrap());
}

#[test]
fn linear_regressor_has_a_row_for_each_target() {
    let attributes = vec![
        floats("coefficients", &[1.0, 2.0, 3.0, 4.0]),
        floats("intercepts", &[0.5, -0.5]),
        int("targets", 2),
    ];
    let nodes = vec![ml_node("LinearRegressor", &["x"], &["y"], attributes)];
    let file = graph(nodes, vec![value("x", code::INT64, &[1, 2])], &["y"], vec![]);
    assert_eq!(run::<f32>(&read(file).unwrap(), &[tensor(&[10_i64, 1], &[1, 2])])[0], [12.5, 33.5]);
}

#[test]
fn normalizer_by_the_largest_leaves_zeros() {
    let nodes = vec![ml_node("Normalizer", &["x"], &["y"], vec![text("norm", "MAX")])];
    let file = graph(nodes, vec![value("x", code::FLOAT, &[2, 2])], &["y"], vec![]);
    let made = run::<f32>(&read(file).unwrap(), &[tensor(&[1.0_f32, 4.0, 0.0, 0.0], &[2, 2])]);
    assert_eq!(made[0], [0.25, 1.0, 0.0, 0.0]);
}

#[test]
fn label_encoder_replaces_keys_and_gives_others_the_default() {
    let attributes =
        vec![ints("keys_int64s", &[3, 1, 7]), floats("values_floats", &[0.5, 1.5, 2.5])];
    let nodes = vec![ml_node("LabelEncoder", &["x"], &["y"], attributes)];
    let file = graph(nodes, vec![value("x", code::INT64, &[2, 2])], &["y"], vec![]);
    let made = run::<f32>(&read(file).unwrap(), &[tensor(&[7_i64, 3, 2, 1], &[2, 2])]);
    assert_eq!(made[0], [2.5, 0.5, 0.0, 1.5]);
}

#[test]
fn text_labels_are_errors_with_their_name() {
    let mut texts = text("classlabels_strings", "");
    texts.r#type = Some(8);
    let nodes = vec![ml_node("LinearClassifier", &["x"], &["y", "z"], vec![texts])];
    let error =
        read(graph(nodes, vec![value("x", code::FLOAT, &[1, 2])], &["z"], vec![])).unwrap_err();
    assert!(error.to_string().contains("classlabels_strings"), "{error}");
    let nodes = vec![ml_node("SVMClassifier", &["x"], &["y"], vec![])];
    let error =
        read(graph(nodes, vec![value("x", code::FLOAT, &[1, 2])], &["y"], vec![])).unwrap_err();
    assert!(error.to_string().contains("ai.onnx.ml.SVMClassifier"), "{error}");
}

/// A list of another type would look like an empty one.
#[test]
fn attribute_of_another_type_is_an_error() {
    let nodes = vec![ml_node("Scaler", &["x"], &["y"], vec![int("scale", 2)])];
    let error =
        read(graph(nodes, vec![value("x", code::FLOAT, &[1, 2])], &["y"], vec![])).unwrap_err();
    assert!(
        error.to_string().contains("\"scale\"") && error.to_string().contains("another type"),
        "{error}"
    );
}

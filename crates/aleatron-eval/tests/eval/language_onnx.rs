//! Linear products of a language model beside the same products in an ONNX file.

use crate::language::{Recorded, TOKENS, load, record, scales, streams};
use aleatron_core::Cancel;
use aleatron_core::generator::WidthChoice;
use aleatron_engine::network::{Graph, Network, Op, StreamConfig};
use aleatron_eval::language::{InputScales, ProductSelection, StreamProducts};
use aleatron_graph::{Dim, Value};
use aleatron_tensor::{DType, Device, Tensor};
use aleatron_transformer::Transformer;
use std::sync::Arc;

/// How exports divide the rows of weights among nodes.
#[derive(Clone, Copy)]
enum Nodes {
    /// One node for each product of the model.
    Whole,
    /// Two for each, as for queries and keys.
    Halves,
}

/// Returns a network with the products of a model as `MatMul`, each product with an input of its
/// own and all positions as rows, written as ONNX and read back.
fn exported(
    model: &mut Transformer,
    scales: &InputScales,
    seen: &[Recorded],
    nodes: Nodes,
) -> Network {
    let mut graph = Graph::new("products");
    let mut outputs = Vec::new();
    let mut input_scales = Vec::new();
    for product in seen {
        let [m, n] = product.linear.shape(model.config());
        let weights = model.pass().linear_weights(product.linear).unwrap();
        let weights = Tensor::from_slice(&weights, &[m, n], &Device::Cpu).unwrap();
        let name = product.linear.to_string();
        let sizes = [TOKENS.len(), n].map(Dim::Fixed);
        let shape = std::iter::once(Dim::Named("samples".to_owned())).chain(sizes).collect();
        let value =
            Value { name: format!("{name} in"), dtype: Some(DType::F32), shape: Some(shape) };
        let x = graph.add_input(value);
        let step = match nodes {
            Nodes::Whole => m,
            Nodes::Halves => m.div_ceil(2),
        };
        for start in (0..m).step_by(step) {
            let rows = start..m.min(start + step);
            let part = format!("{name} from {}", rows.start);
            let columns = weights.slice(0, rows).unwrap().transpose(0, 1).unwrap();
            let w = graph.add_constant(format!("{part} weights"), columns.contiguous().unwrap());
            outputs.push(graph.add_node(part, Op::MatMul, &[x, w]));
            input_scales.push(scales.scales[product.linear.index(model.config())]);
        }
    }
    let all = graph.add_node("all", Op::Concat { axis: 2 }, &outputs);
    graph.add_output(all);
    let mut each = input_scales.iter();
    let network = Network::new(graph).unwrap();
    let network = network.with_layers(|layer| layer.input_scale = *each.next().unwrap()).unwrap();
    Network::from_onnx(&network.to_onnx().unwrap()).unwrap()
}

/// Returns the values of the products in the network, in the order of `seen`.
fn values(
    network: &Network,
    config: &StreamConfig,
    seen: &[Recorded],
    sequence: u32,
) -> Vec<Vec<f32>> {
    let features: Vec<f64> =
        seen.iter().flat_map(|product| &product.inputs).map(|&x| x.into()).collect();
    let scores = network.to_streams(config).unwrap().forward(&features, sequence).unwrap();
    let mut values = vec![Vec::new(); seen.len()];
    let mut scores = scores.iter();
    for _ in 0..TOKENS.len() {
        for (product, values) in seen.iter().zip(&mut values) {
            let m = product.outputs.len() / TOKENS.len();
            values.extend(scores.by_ref().take(m).map(|&score| score as f32));
        }
    }
    assert_eq!(scores.next(), None);
    values
}

#[test]
fn products_in_an_onnx_file_have_the_bits_of_the_language_model() {
    for name in ["llama", "gpt2"] {
        let mut model = load(name);
        // No input saturates: networks reject such features.
        let mut scales = scales(&mut model, 1.0);
        scales.scales.iter_mut().for_each(|scale| *scale *= 2.0);
        for generator in ["bernoulli", "sobol", "bernoulli+sobol:2", "lfsr"] {
            let width: WidthChoice = "6".parse().unwrap();
            let config = streams(generator, 63).width(width);
            // A sample of the network is a sequence of this many positions.
            let context = TOKENS.len();
            let pass = model.pass();
            let all = ProductSelection::All;
            let products =
                StreamProducts::new(pass, &scales, &config, context, all, Cancel::NEVER).unwrap();
            let seen = record(&mut model, Arc::new(products));
            let network = exported(&mut model, &scales, &seen, Nodes::Whole);
            let same = values(&network, &config, &seen, 3);
            let other = values(&network, &config, &seen, 4);
            for ((product, same), other) in seen.iter().zip(&same).zip(&other) {
                let what = format!("{name}, {generator}, {}", product.linear);
                assert_eq!(product.outputs, *same, "{what}");
                // Random inputs belong to one sequence; shared sequences are those of all.
                assert_eq!(product.outputs != *other, generator.starts_with("bernoulli"), "{what}");
            }
            // Streams of shared sequences do not depend on the index of the layer.
            if !generator.starts_with("bernoulli") {
                let divided = exported(&mut model, &scales, &seen, Nodes::Halves);
                assert_eq!(values(&divided, &config, &seen, 3), same, "{name}, {generator}");
            }
        }
    }
}

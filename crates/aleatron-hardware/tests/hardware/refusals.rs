//! Networks without hardware support are errors, with the name and a remedy.

use crate::support::config;
use aleatron_core::generator::Sharing;
use aleatron_engine::network::{Arithmetic, Network, NetworkBuilder, Op};
use aleatron_graph::op::{Softmax, SoftmaxAxes};
use aleatron_hardware::{Circuit, Design, Error, Options};

fn refusal(network: &Network, config: &aleatron_engine::network::StreamConfig) -> String {
    Circuit::new(network, config, &Options::default()).unwrap_err().to_string()
}

#[test]
fn bernoulli_streams_are_an_error_with_the_layer() {
    let network = Network::digits_plain().unwrap();
    for generator in ["bernoulli", "bernoulli+sobol:2", "sobol:1+bernoulli"] {
        let text = refusal(&network, &config(64, generator));
        assert!(
            text.contains("layer \"hidden\": Bernoulli streams")
                && text.contains("--generator lfsr"),
            "{text}"
        );
    }
}

#[test]
fn floating_point_arithmetic_is_an_error() {
    let network = Network::digits_plain().unwrap();
    let float = config(64, "lfsr").arithmetic(Arithmetic::Float);
    assert!(matches!(
        Circuit::new(&network, &float, &Options::default()),
        Err(Error::FloatArithmetic)
    ));
}

#[test]
fn nodes_on_tensors_are_an_error_with_their_names() {
    let network = NetworkBuilder::new("softmax", &[2])
        .dense("only", 2, &[0.5, -0.5, 0.25, 1.0], &[])
        .node(
            "probabilities",
            Op::Softmax { function: Softmax::Softmax, axes: SoftmaxAxes::One(1) },
            &[],
            1,
        )
        .build()
        .unwrap();
    let text = refusal(&network, &config(16, "sobol"));
    assert!(text.contains("\"probabilities\" (Softmax)") && text.contains("--output"), "{text}");
}

#[test]
fn convolution_with_a_sequence_per_input_is_an_error() {
    let network = Network::digits_cnn().unwrap();
    let text = refusal(&network, &config(16, "lfsr").sharing(Sharing::OnePerInput));
    assert!(text.contains("convolution") && text.contains("--sharing all"), "{text}");
}

#[test]
fn zero_lanes_and_partial_samples_are_errors() {
    let network = Network::digits_plain().unwrap();
    let circuit = Circuit::new(&network, &config(16, "lfsr"), &Options::default()).unwrap();
    let options = Options { lanes: Some(0), ..Options::default() };
    assert!(matches!(Design::new(&circuit, &options), Err(Error::NoLanes)));
    for n in [0, 63] {
        assert!(matches!(circuit.trace(&vec![0.0; n]), Err(Error::Samples { .. })));
    }
}

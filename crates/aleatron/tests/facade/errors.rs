//! Errors of the engine and of data become the facade's by `?`, with the error of the core at the
//! bottom.

use aleatron::data::Dataset;
use aleatron::eval::{Error as EvalError, Plan, evaluate};
use aleatron::network::Network;
use aleatron::{Cancel, CoreError, EngineError, Error, Result, StreamLayer};

#[test]
fn layer_error_of_the_core_stays_an_error_of_the_core() {
    let build = || -> Result<StreamLayer> { Ok(StreamLayer::dense(0, 1).build()?) };
    let error = build().unwrap_err();
    assert!(matches!(error, Error::Core(CoreError::Zero { .. })), "{error:?}");
    assert!(matches!(error.core(), Some(CoreError::Zero { .. })), "{error:?}");
}

#[test]
fn network_error_converts_to_an_engine_error() {
    let load = || -> Result<Network> { Ok(Network::load("no such folder/n.onnx")?) };
    let error = load().unwrap_err();
    assert!(matches!(error, Error::Engine(EngineError::Graph(_))), "{error:?}");
    assert!(error.to_string().starts_with("no such folder/n.onnx: "), "{error}");
    assert_eq!(error.core(), None);
}

#[test]
fn data_error_converts_and_keeps_its_message() {
    let read = || -> Result<Dataset> { Ok(Dataset::read("data.txt")?) };
    let error = read().unwrap_err();
    assert!(matches!(error, Error::Data(_)), "{error:?}");
    assert!(error.to_string().starts_with("data.txt: "), "{error}");
}

#[test]
fn evaluation_error_of_a_lower_crate_stays_its_error() {
    let run = |plan: &Plan| -> Result<()> {
        let (network, data) = (Network::digits_noise_aware()?, Dataset::digits_test());
        evaluate(&network, &data, plan, None, Cancel::NEVER, |_| ())?;
        Ok(())
    };
    let nothing = run(&Plan { lengths: Vec::new(), ..Plan::default() }).unwrap_err();
    assert!(matches!(nothing, Error::Eval(EvalError::Nothing("lengths"))), "{nothing:?}");
    let mut plan = Plan::default();
    plan.layers.insert("none".to_owned(), "length=4".parse().unwrap());
    let unknown = run(&plan).unwrap_err();
    assert!(matches!(unknown, Error::Engine(EngineError::UnknownLayer { .. })), "{unknown:?}");
    let seeds = run(&Plan { seeds: usize::MAX, ..Plan::default() }).unwrap_err();
    assert!(matches!(seeds, Error::Core(CoreError::TooLarge { .. })), "{seeds:?}");
    assert_eq!(seeds.core().map(ToString::to_string), Some(seeds.to_string()));
}

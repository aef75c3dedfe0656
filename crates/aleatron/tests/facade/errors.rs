//! Errors of the engine and of data become the facade's by `?`, with the error of the core at the bottom.

use aleatron::data::Dataset;
use aleatron::network::Network;
use aleatron::{CoreError, EngineError, Error, Result, StreamLayer};

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

//! Programs: states that the builder and the reference rule out are internal errors with their
//! location.

use aleatron_core::arithmetic::{Activation, FloatStage};
use aleatron_core::program::plain::run_step;
use aleatron_core::program::{
    ConstantOp, GatherIndex, Pattern, ProgramBuilder, Sign, SlotData, SlotId, SlotKind, ValueRange,
};
use aleatron_core::{Encoding, Error, LayerSpec, Length, Polarity, Result, Weights};

fn location<T: std::fmt::Debug>(result: Result<T>) -> &'static str {
    match result.unwrap_err() {
        error @ Error::Internal { place } => {
            assert!(error.to_string().contains(place), "{error}");
            place
        }
        other => panic!("{other}"),
    }
}

/// Returns a program with a layer of two inputs and one neuron, and the slots of its input,
/// thresholds, counts and score.
fn program() -> (ProgramBuilder, [SlotId; 4]) {
    let mut program = ProgramBuilder::default();
    let encoding = Encoding::Bernoulli { seed: 1 };
    let spec =
        LayerSpec::dense(2, 1, Length::new(64).unwrap(), Polarity::Bipolar, encoding).unwrap();
    let weights = Weights::new(&spec, vec![0.5, -0.5]).unwrap();
    let layer = program.layer(spec, weights, 1).unwrap();
    let input = program.input(2).unwrap();
    let thresholds = program.quantize(layer, input, 1.0, None, ValueRange::Check).unwrap();
    let counts = program.product(layer, thresholds).unwrap();
    let score = program.decode(layer, counts, stage()).unwrap();
    (program, [input, thresholds, counts, score])
}

fn stage() -> FloatStage {
    FloatStage { scales: vec![1.0], bias: vec![0.0], activation: Activation::Identity }
}

#[test]
fn data_of_another_kind_is_an_internal_error() {
    let floats = || SlotData::Float(vec![1.0]);
    for kind in [SlotKind::Integer, SlotKind::Threshold, SlotKind::Count] {
        let mut data = SlotData::empty(kind);
        assert_eq!(location(data.append(floats())), "program::SlotData::append");
        assert_eq!(data.len(), 0);
        assert_eq!(location(data.into_floats()), "program::SlotData::into_floats");
    }
    assert_eq!(location(floats().into_words()), "program::SlotData::into_words");
}

#[test]
fn slots_of_another_kind_are_internal_errors() {
    let (mut program, [input, thresholds, counts, score]) = program();
    let location_of_kind = "program::ProgramBuilder::of_kind";
    let quantized = program.quantize(0, thresholds, 1.0, None, ValueRange::Check);
    assert_eq!(location(quantized), location_of_kind);
    assert_eq!(location(program.product(0, input)), location_of_kind);
    assert_eq!(location(program.decode(0, score, stage())), location_of_kind);
    let uniform = || Pattern::uniform(1.0);
    assert_eq!(location(program.constant(counts, ConstantOp::Add, uniform())), location_of_kind);
    assert_eq!(location(program.restore(input, uniform())), location_of_kind);
    let numbers = "program::ProgramBuilder::numbers";
    let first = GatherIndex { input: 0, element: 0 };
    assert_eq!(location(program.gather(vec![counts], vec![first])), numbers);
    assert_eq!(location(program.combine([thresholds, input], Sign::Plus, None)), numbers);
    let rescale = Some(Pattern::uniform([None, None]));
    let combined = program.combine([input, input], Sign::Plus, rescale);
    assert_eq!(location(combined), "program::ProgramBuilder::combine");
}

#[test]
fn steps_on_data_of_another_kind_are_internal_errors() {
    let (builder, [input, _, _, score]) = program();
    let program = builder.finish(vec![score]).unwrap();
    for step in program.steps() {
        let wrong = match program.slot(step.inputs()[0]).kind {
            SlotKind::Float => SlotData::Words(vec![0; 2]),
            _ => SlotData::Float(vec![0.0; 2]),
        };
        let run = run_step(&program, step, &[&wrong], 1, &mut [0]);
        assert_eq!(location(run), "program::plain::run_step", "{step:?}");
    }
    // A step that saturates needs a counter for its layer.
    let quantize = program.steps().iter().find(|step| step.inputs() == [input]).unwrap();
    let run = run_step(&program, quantize, &[&SlotData::Float(vec![0.0; 2])], 1, &mut []);
    assert_eq!(location(run), "program::plain::run_step");
}

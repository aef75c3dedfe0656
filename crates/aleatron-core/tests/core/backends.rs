//! The conformance suite on backends: the reference passes, and every kind of wrong backend is
//! detected.

use aleatron_core::backend::{
    Backend, Batch, CountMethod, DeviceArray, DeviceArrayMut, DeviceBatch, DeviceElement,
    InputOrder, Inputs, PrepareOptions, PreparedLayer,
};
use aleatron_core::conformance::{
    Case, LayerCase, Operation, Reference, Subject, run_layers, suite, trace_words,
};
use aleatron_core::lif::LifTrace;
use aleatron_core::program::{
    PreparedProgram, Program, ProgramBatch, ProgramOutput, SlotData, SlotId, plain,
};
use aleatron_core::threshold::NEGATIVE;
use aleatron_core::{
    BackendFault, Cancel, Encoding, Error, LayerSpec, Length, Polarity, Result, SampleSeed,
    StreamMatrix, Weights, reference,
};
use std::sync::{Arc, Mutex};

/// The defect of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Nothing,
    /// The first count is too large by one, for this form of inputs.
    Values,
    Thresholds,
    Streams,
    /// Layers are unsupported.
    Unsupported,
    /// Encoded streams are unsupported.
    NoStreams,
    /// All calls fail with another error.
    Broken,
    /// Calls with encoded streams fail with another error.
    BrokenStreams,
    /// The first word of the first slot of a program is too large by one.
    Program,
    /// As `Program`, but only if just the outputs of the program are requested.
    ProgramOutputs,
    /// Programs are unsupported.
    NoSteps,
}

/// The reference as a backend, which records the options of its preparations.
#[derive(Debug)]
struct Plain(Fault, Mutex<Vec<(CountMethod, usize)>>);

impl Plain {
    fn new(fault: Fault) -> Self {
        Self(fault, Mutex::default())
    }
}

#[derive(Debug)]
struct PlainLayer {
    spec: LayerSpec,
    weights: StreamMatrix,
    negative_weights: Vec<bool>,
    fault: Fault,
}

/// Returns which thresholds are negative; only those of signed layers can be.
fn negative(spec: &LayerSpec, thresholds: &[u64]) -> Vec<bool> {
    match spec.polarity() {
        Polarity::Signed => thresholds.iter().map(|threshold| threshold & NEGATIVE != 0).collect(),
        _ => Vec::new(),
    }
}

impl Backend for Plain {
    fn name(&self) -> String {
        "plain".to_owned()
    }

    fn prepare(
        &self,
        spec: &LayerSpec,
        weights: &Weights,
        options: &PrepareOptions<'_>,
    ) -> Result<Box<dyn PreparedLayer>> {
        self.1.lock().unwrap().push((options.method, options.max_batch));
        match self.0 {
            Fault::Unsupported => return Err(Error::unsupported("plain", "layers")),
            Fault::Broken => return Err(Error::Cancelled),
            _ => {}
        }
        let thresholds = spec.weight_thresholds(weights)?;
        let weights = reference::weight_streams(spec, &thresholds);
        let negative_weights = negative(spec, &thresholds);
        Ok(Box::new(PlainLayer { spec: spec.clone(), weights, negative_weights, fault: self.0 }))
    }

    fn prepare_program(
        &self,
        program: &Arc<Program>,
        options: &PrepareOptions<'_>,
    ) -> Result<Option<Box<dyn PreparedProgram>>> {
        if self.0 == Fault::NoSteps {
            return Ok(None);
        }
        let layers = program.layers().iter();
        let layers = layers.map(|layer| self.prepare(&layer.spec, &layer.weights, options));
        let layers = layers.collect::<Result<_>>()?;
        Ok(Some(Box::new(PlainProgram { program: Arc::clone(program), layers, fault: self.0 })))
    }
}

#[derive(Debug)]
struct PlainProgram {
    program: Arc<Program>,
    layers: Vec<Box<dyn PreparedLayer>>,
    fault: Fault,
}

impl PreparedProgram for PlainProgram {
    fn run(
        &self,
        batch: &ProgramBatch<'_>,
        slots: &[SlotId],
        cancel: Cancel<'_>,
    ) -> Result<ProgramOutput> {
        let counts_of = |layer: usize, thresholds: &[u64], seed| {
            self.layers[layer].counts(&Batch::thresholds(thresholds, seed), cancel)
        };
        let mut output = plain::run(&self.program, batch, slots, counts_of)?;
        let is_wrong = match self.fault {
            Fault::Program => true,
            Fault::ProgramOutputs => slots == self.program.outputs(),
            _ => false,
        };
        match &mut output.slots[0] {
            SlotData::Float(values) if is_wrong => values[0] += 1.0,
            SlotData::Integer(values) if is_wrong => values[0] += 1,
            SlotData::Words(words) if is_wrong => words[0] += 1,
            _ => {}
        }
        Ok(output)
    }

    fn backend_for(&self, _: usize) -> Option<String> {
        Some("plain".to_owned())
    }
}

impl PreparedLayer for PlainLayer {
    fn counts(&self, batch: &Batch<'_>, _: Cancel<'_>) -> Result<Vec<u64>> {
        let n_samples = batch.check(&self.spec)?;
        let encode = |thresholds: &[u64]| {
            let streams = reference::input_streams(&self.spec, thresholds, batch.seed);
            (streams, negative(&self.spec, thresholds))
        };
        let ((inputs, negative_inputs), fault) = match batch.inputs {
            Inputs::Values(values) => (encode(&self.spec.input_thresholds(values)?), Fault::Values),
            Inputs::Thresholds(thresholds) => (encode(thresholds), Fault::Thresholds),
            Inputs::Streams(_) | Inputs::SignedStreams { .. } if self.fault == Fault::NoStreams => {
                return Err(Error::unsupported("plain", "streams"));
            }
            Inputs::Streams(_) if self.fault == Fault::BrokenStreams => {
                return Err(Error::Cancelled);
            }
            Inputs::Streams(words) | Inputs::SignedStreams { words, .. } => {
                let rows = n_samples * self.spec.n_inputs();
                let streams = StreamMatrix::from_words(words.to_vec(), rows, self.spec.length())?;
                let negative = match batch.inputs {
                    Inputs::SignedStreams { negative, .. } => negative.to_vec(),
                    _ => Vec::new(),
                };
                ((streams, negative), Fault::Streams)
            }
            _ => return Err(Error::unsupported("plain", "these inputs")),
        };
        let negative = [self.negative_weights.as_slice(), &negative_inputs];
        let mut counts = reference::signed_counts(&self.spec, [&self.weights, &inputs], negative);
        counts[0] += u64::from(self.fault == fault);
        Ok(counts)
    }

    fn backend_for(&self, _: usize) -> Option<String> {
        Some("plain".to_owned())
    }
}

/// Returns small cases of layers and networks, with their answers.
fn cases() -> Vec<(Case, Vec<u64>)> {
    let is_small = |case: &Case| match case {
        Case::Layer(layer) => {
            let products = layer.spec.n_neurons() * layer.spec.max_fan_in() * layer.n_samples();
            products * layer.spec.length().bits() <= 8_000
        }
        Case::Network(_) | Case::Program(_) => true,
        _ => false,
    };
    let cases = suite::fixed().unwrap().into_iter().filter(is_small);
    cases.map(|case| (Reference.answer(&case), case)).map(|(answer, case)| (case, answer)).collect()
}

#[test]
fn suite_accepts_reference_and_detects_each_defect() {
    let cases = cases();
    for operation in [
        Operation::Dense,
        Operation::Sparse,
        Operation::Sequence,
        Operation::Table,
        Operation::Network,
    ]
    .into_iter()
    .chain([Operation::Mixed, Operation::Program])
    {
        assert!(
            cases.iter().any(|(case, _)| case.operation() == operation),
            "no {operation:?} is small"
        );
    }
    for (case, expected) in &cases {
        let run = |fault| run_layers(&Plain::new(fault), case);
        assert_eq!(run(Fault::Nothing).unwrap().as_ref(), Ok(expected), "{case:?}");
        assert_eq!(run(Fault::NoStreams).unwrap().as_ref(), Ok(expected));
        assert!(run(Fault::Unsupported).is_none());
        assert_eq!(run(Fault::Broken), Some(Err(Error::Cancelled)));
        match case {
            // Layers of programs receive thresholds.
            Case::Network(_) | Case::Program(_) => {
                for fault in [Fault::Values, Fault::Streams] {
                    assert_eq!(run(fault).unwrap().as_ref(), Ok(expected));
                }
                for fault in [Fault::Thresholds, Fault::Program, Fault::ProgramOutputs] {
                    assert_ne!(
                        run(fault).unwrap().as_ref(),
                        Ok(expected),
                        "{fault:?} was not found: {case:?}"
                    );
                }
                assert_eq!(run(Fault::NoSteps).unwrap().as_ref(), Ok(expected));
            }
            _ => {
                for fault in [Fault::Values, Fault::Thresholds, Fault::Streams] {
                    assert_ne!(
                        run(fault).unwrap().as_ref(),
                        Ok(expected),
                        "{fault:?} was not found: {case:?}"
                    );
                }
            }
        }
    }
}

/// Cases specify the count method; batches of 64 are enough for all of them.
#[test]
fn layers_are_prepared_with_options_of_their_case() {
    let mut methods = Vec::new();
    for (case, _) in cases() {
        if let Case::Layer(layer) = &case {
            let plain = Plain::new(Fault::Nothing);
            run_layers(&plain, &case).unwrap().unwrap();
            assert_eq!(plain.1.into_inner().unwrap(), [(layer.method, 64)]);
            methods.push(layer.method);
        }
    }
    assert!(
        [CountMethod::Best, CountMethod::Bits, CountMethod::Tables]
            .iter()
            .all(|method| methods.contains(method))
    );
}

/// Backends run only cases of layers and networks.
#[test]
fn cases_without_layers_are_not_run_on_backends() {
    let others = suite::fixed()
        .unwrap()
        .into_iter()
        .filter(|case| !matches!(case, Case::Layer(_) | Case::Network(_) | Case::Program(_)));
    let mut n = 0;
    for case in others {
        n += 1;
        assert!(run_layers(&Plain::new(Fault::Nothing), &case).is_none());
        assert_eq!(Reference.run(&case).unwrap().unwrap(), Reference.answer(&case));
    }
    assert!(n > 200);
}

#[test]
fn samples_of_cases_are_complete() {
    for (case, answer) in cases() {
        if let Case::Layer(layer) = case {
            assert_eq!(layer.n_samples() * layer.spec.n_neurons(), answer.len());
            assert_eq!(layer.input_streams().rows(), layer.n_samples() * layer.spec.n_inputs());
            assert_eq!(layer.weight_streams().rows(), layer.spec.n_weights());
            let thresholds = layer.spec.input_thresholds(&layer.input_values()).unwrap();
            // A negative zero is a zero.
            let same = |(&a, &b): (&u64, &u64)| a == b || (a, b) == (0, NEGATIVE);
            assert!(thresholds.iter().zip(&layer.inputs).all(same), "{thresholds:?}");
        }
    }
}

/// A backend may lack one form of inputs; any other error is its answer.
#[test]
fn unsupported_input_form_is_skipped_and_other_errors_are_answers() {
    let (length, encoding) = (Length::new(64).unwrap(), Encoding::Bernoulli { seed: 1 });
    let spec = LayerSpec::dense(3, 2, length, Polarity::Unipolar, encoding).unwrap();
    let (weights, inputs) = (vec![1 << 31; 6], vec![1 << 30; 3]);
    let case =
        LayerCase { spec, weights, inputs, seed: SampleSeed::new(0), method: CountMethod::Best };
    let run = |fault| run_layers(&Plain::new(fault), &Case::Layer(case.clone())).unwrap();
    assert!(run(Fault::NoStreams).is_ok());
    assert_eq!(run(Fault::BrokenStreams), Err(Error::Cancelled));
}

/// By default, layers are not lost, have no notes, and do not support device arrays.
#[test]
fn default_layer_methods_report_no_loss_notes_or_device_arrays() {
    let (length, encoding) = (Length::new(64).unwrap(), Encoding::Bernoulli { seed: 1 });
    let spec = LayerSpec::dense(3, 2, length, Polarity::Unipolar, encoding).unwrap();
    let weights = Weights::random(&spec, 1).unwrap();
    let layer =
        Plain::new(Fault::Nothing).prepare(&spec, &weights, &PrepareOptions::default()).unwrap();
    assert!(!layer.is_lost() && layer.notes().is_empty());
    // SAFETY: the layer refuses arrays of any address.
    let (inputs, outputs) = unsafe {
        (
            DeviceArray::from_raw(0, 3, DeviceElement::F64),
            DeviceArrayMut::from_raw(0, 2, DeviceElement::F64),
        )
    };
    let mut batch =
        DeviceBatch { inputs, outputs, seed: SampleSeed::new(0), order: InputOrder::Ready };
    let error = layer.counts_on_device(&mut batch, Cancel::NEVER).unwrap_err();
    assert_eq!(error.backend_fault(), Some(BackendFault::Unsupported));
}

#[test]
fn trace_words_are_spikes_then_potentials() {
    let trace = LifTrace { spikes: vec![0, 1], voltages: vec![-1, 5] };
    assert_eq!(trace_words(&trace), [0, 1, 0xffff, 5]);
}

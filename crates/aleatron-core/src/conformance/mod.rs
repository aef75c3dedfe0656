//! The conformance suite that every backend must pass: cases, subjects that answer them, and a hash
//! of the answers.
//!
//! A [`Case`] is an operation with its inputs; [`Subject::run`] answers it as words. [`Reference`]
//! answers it with the specification as code. Property tests feed random cases to each SIMD tier,
//! thread count and GPU adapter; `aleatron verify` feeds them [`suite::fixed`], the same cases on
//! every machine, and prints the [`digest`] of the answers.

mod case;
mod mask;
mod network;
mod program;
#[cfg(feature = "proptest")]
pub mod strategies;
pub mod suite;

pub use case::{Case, LayerCase, Operation};
pub use mask::MaskCase;
pub use network::{NetworkCase, NetworkLayer};
pub use program::ProgramCase;

use crate::backend::{Backend, Batch, PrepareOptions};
use crate::cancel::Cancel;
use crate::error::{BackendFault, Result};
use crate::lif::LifTrace;
use crate::polarity::Polarity;
use crate::{gates::Gate, philox, reference};

/// A backend under test, which runs cases.
pub trait Subject {
    /// Answers a case as words; `None` if the operation is not supported.
    ///
    /// # Errors
    /// Returns any error of the subject; a valid case should not cause one.
    fn run(&self, case: &Case) -> Option<Result<Vec<u64>>>;
}

/// Answers a case of a layer or a network with a backend; `None` for other cases, and if the
/// backend does not support the layer.
pub fn run_layers(backend: &dyn Backend, case: &Case) -> Option<Result<Vec<u64>>> {
    let answer = match case {
        Case::Layer(layer) => run_layer(backend, layer),
        Case::Network(network) => network.run(backend),
        Case::Program(program) => program.run(backend),
        _ => return None,
    };
    match answer {
        Err(error) if error.backend_fault() == Some(BackendFault::Unsupported) => None,
        answer => Some(answer),
    }
}

/// Counts a layer with each form of inputs, repeatedly. If two answers differ, returns both of them
/// concatenated: which of them is right is unknown, but such an answer equals no right one.
fn run_layer(backend: &dyn Backend, case: &LayerCase) -> Result<Vec<u64>> {
    let options =
        PrepareOptions { method: case.method, max_batch: 64, ..PrepareOptions::default() };
    let layer = backend.prepare(&case.spec, &case.weight_values()?, &options)?;
    let (values, streams, negative) =
        (case.input_values(), case.input_streams(), case.negative_inputs());
    let counts = |batch: Batch<'_>| match layer.counts(&batch, Cancel::NEVER) {
        // Tables accept only thresholds.
        Err(error) if error.backend_fault() == Some(BackendFault::Unsupported) => Ok(None),
        counts => counts.map(Some),
    };
    let thresholds = Batch::thresholds(&case.inputs, case.seed);
    let expected = layer.counts(&thresholds, Cancel::NEVER)?;
    let values = Batch::values(&values, case.seed);
    let streams = match case.spec.polarity() {
        Polarity::Unipolar | Polarity::Bipolar => Batch::streams(streams.words()),
        Polarity::Signed => Batch::signed_streams(streams.words(), &negative),
    };
    for batch in [values, thresholds, values, streams] {
        if let Some(other) = counts(batch)?.filter(|counts| *counts != expected) {
            return Ok([expected, other].concat());
        }
    }
    Ok(expected)
}

/// The subject that answers with [`crate::reference`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Reference;

impl Subject for Reference {
    fn run(&self, case: &Case) -> Option<Result<Vec<u64>>> {
        Some(Ok(self.answer(case)))
    }
}

impl Reference {
    /// Answers a case; the reference supports all of them.
    #[must_use]
    pub fn answer(&self, case: &Case) -> Vec<u64> {
        match case {
            Case::Encode { thresholds, length, address } => thresholds
                .iter()
                .zip(address.unit..=u32::MAX)
                .flat_map(|(&t, unit)| {
                    reference::encode(t, *length, address.at_unit(unit)).into_words()
                })
                .collect(),
            Case::Pack { bits } => case::pack(bits),
            Case::Unpack { stream } => stream.to_bits().into_iter().map(u64::from).collect(),
            Case::Gate { gate, a, b } => reference::gate(*gate, a, b).into_words(),
            Case::Not { a } => reference::not(a).into_words(),
            Case::Mux { select, a, b } => reference::mux(select, a, b).into_words(),
            Case::Popcount { a } => vec![reference::popcount(a)],
            Case::AndPopcount { a, b } => {
                vec![reference::popcount(&reference::gate(Gate::And, a, b))]
            }
            Case::Hamming { a, b } => vec![reference::hamming_distance(a, b)],
            Case::Mask(mask) => mask.answer(),
            Case::EncodeSequence { sequence, thresholds, length } => {
                thresholds.iter().flat_map(|&t| sequence.encode(t, *length).into_words()).collect()
            }
            Case::Layer(layer) => {
                let streams = [&layer.weight_streams(), &layer.input_streams()];
                let negative = [&layer.negative_weights()[..], &layer.negative_inputs()];
                reference::signed_counts(&layer.spec, streams, negative)
            }
            Case::Network(network) => network.answer(),
            Case::Program(program) => program.answer(),
            Case::LifRun { params, drives } => {
                trace_words(&reference::lif_run(*params, drives.iter().copied()))
            }
            Case::LifMulti { params, drive, currents, n_steps } => {
                let mut all = LifTrace::default();
                for &current in currents {
                    let drives =
                        std::iter::repeat_n(crate::lif::LifDrive { current, ..*drive }, *n_steps);
                    let one = reference::lif_run(*params, drives);
                    all.spikes.extend(one.spikes);
                    all.voltages.extend(one.voltages);
                }
                trace_words(&all)
            }
        }
    }
}

/// Returns a trace as words: spikes, then potentials.
#[must_use]
pub fn trace_words(trace: &LifTrace) -> Vec<u64> {
    let spikes = trace.spikes.iter().map(|&spike| u64::from(spike));
    spikes.chain(trace.voltages.iter().map(|&v| v as u16 as u64)).collect()
}

/// Hashes answers, depending on every word and its position: FNV-1a over their bytes, finished with
/// Philox.
#[must_use]
pub fn digest<'a>(answers: impl IntoIterator<Item = &'a [u64]>) -> u64 {
    let mut digest = Digest::default();
    answers.into_iter().for_each(|answer| digest.answer(answer.iter().copied()));
    digest.finish()
}

/// Computes [`digest`] of words that arrive one after the other.
///
/// ```
/// use aleatron_core::conformance::{Digest, digest};
/// let mut hash = Digest::default();
/// hash.answer([1, 2]);
/// hash.word(1); // as many words follow
/// hash.word(3);
/// assert_eq!(hash.finish(), digest([&[1, 2][..], &[3]]));
/// ```
#[derive(Debug, Clone)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    /// Adds one word.
    pub fn word(&mut self, word: u64) {
        for byte in word.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Adds an answer: its length and its words.
    pub fn answer(&mut self, words: impl IntoIterator<Item = u64, IntoIter: ExactSizeIterator>) {
        let words = words.into_iter();
        self.word(words.len() as u64);
        words.for_each(|word| self.word(word));
    }

    /// Returns the hash.
    #[must_use]
    pub fn finish(self) -> u64 {
        let [a, b, ..] = philox::philox4x32([self.0 as u32, (self.0 >> 32) as u32, 0, 0], [0; 2]);
        u64::from(a) | u64::from(b) << 32
    }
}

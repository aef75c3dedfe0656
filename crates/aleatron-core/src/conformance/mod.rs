//! The one suite every backend must pass: cases, the backends that answer them, and a hash of the answers.
//!
//! A [`Case`] is an operation with its inputs; [`Backend::run`] answers it as words. [`Reference`] is the plain
//! answer. Property tests feed random cases to each SIMD tier, thread count and GPU adapter; `aleatron verify`
//! feeds them [`suite::fixed`], the same cases on every machine, and prints the [`digest`] of what came back.

mod case;
pub mod suite;

pub use case::{Case, DenseCase, Operation, SparseCase};

use crate::lif::LifTrace;
use crate::{gates::Gate, philox, reference};

/// Something that can run cases.
pub trait Backend {
    /// Why a case could not be run.
    type Error: std::error::Error;

    /// The answer as words, or `None` where this backend has no kernel for the operation.
    ///
    /// # Errors
    /// Whatever the backend reports; a valid case should have none.
    fn run(&self, case: &Case) -> Option<Result<Vec<u64>, Self::Error>>;
}

/// The plain backend: [`crate::reference`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Reference;

impl Backend for Reference {
    type Error = std::convert::Infallible;

    fn run(&self, case: &Case) -> Option<Result<Vec<u64>, Self::Error>> {
        Some(Ok(self.answer(case)))
    }
}

impl Reference {
    /// The answer, which there always is.
    #[must_use]
    pub fn answer(&self, case: &Case) -> Vec<u64> {
        match case {
            Case::Encode { thresholds, length, address } => thresholds
                .iter()
                .zip(address.unit..=u32::MAX)
                .flat_map(|(&t, unit)| reference::encode(t, *length, address.at_unit(unit)).into_words())
                .collect(),
            Case::Pack { bits } => case::pack(bits),
            Case::Unpack { stream } => stream.to_bits().into_iter().map(u64::from).collect(),
            Case::Gate { gate, a, b } => reference::gate(*gate, a, b).into_words(),
            Case::Not { a } => reference::not(a).into_words(),
            Case::Mux { select, a, b } => reference::mux(select, a, b).into_words(),
            Case::Popcount { a } => vec![reference::popcount(a)],
            Case::AndPopcount { a, b } => vec![reference::popcount(&reference::gate(Gate::And, a, b))],
            Case::Hamming { a, b } => vec![reference::hamming_distance(a, b)],
            Case::Dense(dense) => {
                reference::dense_counts(&dense.shape, &dense.weight_streams(), &dense.input_streams())
            }
            Case::Sparse(sparse) => reference::sparse_counts(
                &sparse.connections,
                sparse.polarity,
                &sparse.weight_streams(),
                &sparse.input_streams(),
            ),
            Case::LifRun { params, drives } => {
                trace_words(&reference::lif_run(*params, drives.iter().copied()))
            }
            Case::LifMulti { params, drive, currents, n_steps } => {
                let mut all = LifTrace::default();
                for &current in currents {
                    let drives = std::iter::repeat_n(crate::lif::LifDrive { current, ..*drive }, *n_steps);
                    let one = reference::lif_run(*params, drives);
                    all.spikes.extend(one.spikes);
                    all.voltages.extend(one.voltages);
                }
                trace_words(&all)
            }
        }
    }
}

/// A trace as words: spikes, then potentials.
#[must_use]
pub fn trace_words(trace: &LifTrace) -> Vec<u64> {
    let spikes = trace.spikes.iter().map(|&spike| u64::from(spike));
    spikes.chain(trace.voltages.iter().map(|&v| v as u16 as u64)).collect()
}

/// A hash of answers that depends on every word and its place: FNV-1a over their bytes, finished with Philox.
#[must_use]
pub fn digest<'a>(answers: impl IntoIterator<Item = &'a [u64]>) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut mix = |word: u64| {
        for byte in word.to_le_bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for answer in answers {
        mix(answer.len() as u64);
        answer.iter().copied().for_each(&mut mix);
    }
    let [a, b, ..] = philox::philox4x32([hash as u32, (hash >> 32) as u32, 0, 0], [0; 2]);
    u64::from(a) | u64::from(b) << 32
}

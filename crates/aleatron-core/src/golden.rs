//! The known answers of `golden/streams.kat`, parsed: the same text file every backend and language reads.

use crate::address::{Domain, LayerIndex, StreamAddress};

/// The text of `golden/streams.kat`.
pub const TEXT: &str = include_str!("../golden/streams.kat");

/// One known answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Philox words of a counter and a seed.
    Philox {
        /// The counter.
        counter: [u32; 4],
        /// The seed.
        seed: u64,
        /// The four words.
        words: Vec<u32>,
    },
    /// A Bernoulli stream.
    Encode {
        /// The probability.
        p: f64,
        /// The length in bits.
        length: usize,
        /// Where it is drawn.
        address: StreamAddress,
        /// The packed words.
        words: Vec<u64>,
    },
    /// A random weight.
    Weight {
        /// The seed of the layer.
        seed: u64,
        /// The neuron.
        neuron: u32,
        /// The input.
        input: u32,
        /// The weight.
        value: f64,
    },
    /// The counts of a unipolar layer with random weights over the inputs of [`dense_input`].
    Dense {
        /// Inputs.
        n_inputs: usize,
        /// Neurons.
        n_neurons: usize,
        /// Stream length.
        length: usize,
        /// Seed of the layer.
        weight_seed: u64,
        /// Seed of the inputs.
        input_seed: u64,
        /// Sample.
        sample: u32,
        /// One count per neuron.
        counts: Vec<u64>,
    },
}

/// Input `i` of the dense answers.
#[must_use]
pub fn dense_input(i: usize) -> f64 {
    ((7 * i + 3) % 11) as f64 / 10.0
}

/// All known answers; `Err` with the first line that cannot be read.
///
/// # Errors
/// The line, where the file is not as documented in its head.
pub fn answers() -> Result<Vec<Answer>, &'static str> {
    let lines = TEXT.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| parse(line).ok_or(line)).collect()
}

fn parse(line: &str) -> Option<Answer> {
    let (question, answer) = line.split_once(" = ")?;
    let fields: Vec<&str> = question.split_whitespace().collect();
    let hex32 = |s: &str| u32::from_str_radix(s, 16).ok();
    let hex64 = |s: &str| u64::from_str_radix(s, 16).ok();
    match *fields.as_slice() {
        ["philox", c0, c1, c2, c3, seed] => Some(Answer::Philox {
            counter: [hex32(c0)?, hex32(c1)?, hex32(c2)?, hex32(c3)?],
            seed: hex64(seed)?,
            words: answer.split_whitespace().map(hex32).collect::<Option<_>>()?,
        }),
        ["encode", p, length, seed, unit, row, domain] => Some(Answer::Encode {
            p: p.parse().ok()?,
            length: length.parse().ok()?,
            address: StreamAddress {
                seed: hex64(seed)?,
                domain: *Domain::ALL.get(domain.parse::<usize>().ok()?)?,
                layer: LayerIndex::ALONE,
                row: row.parse().ok()?,
                unit: unit.parse().ok()?,
            },
            words: answer.split_whitespace().map(hex64).collect::<Option<_>>()?,
        }),
        ["weight", seed, neuron, input] => Some(Answer::Weight {
            seed: hex64(seed)?,
            neuron: neuron.parse().ok()?,
            input: input.parse().ok()?,
            value: answer.parse().ok()?,
        }),
        ["dense", n_inputs, n_neurons, length, weight_seed, input_seed, sample] => Some(Answer::Dense {
            n_inputs: n_inputs.parse().ok()?,
            n_neurons: n_neurons.parse().ok()?,
            length: length.parse().ok()?,
            weight_seed: hex64(weight_seed)?,
            input_seed: hex64(input_seed)?,
            sample: sample.parse().ok()?,
            counts: answer.split_whitespace().map(|count| count.parse().ok()).collect::<Option<_>>()?,
        }),
        _ => None,
    }
}

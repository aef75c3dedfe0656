//! The known answers of `golden/streams.kat`, and of the layers of `golden/layers.kat` and
//! `golden/mixed.kat`, parsed: every backend and language reads the same text files.

use crate::address::{Domain, LayerIndex, StreamAddress};
use crate::backend::CountMethod;
use crate::conformance::LayerCase;
use crate::connections::Connections;
use crate::convolution::{ConvShape, Convolution};
use crate::error::Quantity;
use crate::fault::Faults;
use crate::generator::{GeneratorName, Sharing, Width};
use crate::layer::{LayerSpec, SampleSeed, Topology, Weights};
use crate::polarity::Polarity;
use crate::stream::Length;
use std::sync::Arc;

/// The text of `golden/streams.kat`.
pub const TEXT: &str = include_str!("../golden/streams.kat");

/// The text of `golden/layers.kat`.
pub const LAYERS_TEXT: &str = include_str!("../golden/layers.kat");

/// The text of `golden/mixed.kat`.
pub const MIXED_TEXT: &str = include_str!("../golden/mixed.kat");

/// The text of `golden/faults.kat`.
pub const FAULTS_TEXT: &str = include_str!("../golden/faults.kat");

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
        /// The address of the stream.
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

/// Returns input `i` of the dense answers.
#[must_use]
pub fn dense_input(i: usize) -> f64 {
    ((7 * i + 3) % 11) as f64 / 10.0
}

/// Parses all known answers.
///
/// # Errors
/// Returns the first line that is not as documented in the head of the file.
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
        ["dense", n_inputs, n_neurons, length, weight_seed, input_seed, sample] => {
            Some(Answer::Dense {
                n_inputs: n_inputs.parse().ok()?,
                n_neurons: n_neurons.parse().ok()?,
                length: length.parse().ok()?,
                weight_seed: hex64(weight_seed)?,
                input_seed: hex64(input_seed)?,
                sample: sample.parse().ok()?,
                counts: answer
                    .split_whitespace()
                    .map(|count| count.parse().ok())
                    .collect::<Option<_>>()?,
            })
        }
        _ => None,
    }
}

/// The known counts of one sample of a layer.
#[derive(Debug, Clone)]
pub struct LayerAnswer {
    /// The layer and the sample; layers with shared sequences are counted bit by bit.
    pub case: LayerCase,
    /// One count per neuron.
    pub counts: Vec<u64>,
}

/// Parses the layers of `golden/layers.kat` and of `golden/mixed.kat`.
///
/// # Errors
/// Returns the first line that is not as documented in the head of the file.
pub fn layers() -> Result<Vec<LayerAnswer>, &'static str> {
    let lines =
        LAYERS_TEXT.lines().chain(MIXED_TEXT.lines()).filter(|line| line.starts_with("layer "));
    lines.map(|line| layer(line).ok_or(line)).collect()
}

/// Parses the layers of `golden/faults.kat` with their faults.
///
/// # Errors
/// Returns the first line that is not as documented in the head of the file.
pub fn fault_layers() -> Result<Vec<(Faults, LayerAnswer)>, &'static str> {
    let parse = |line: &str| {
        let (question, answer) = line.split_once(" = ")?;
        let fields: Vec<&str> = question.split_whitespace().collect();
        let [_, faults, seed, fields @ ..] = &fields[..] else { return None };
        let faults = faults.split(',').map(|fault| fault.parse().ok()).collect::<Option<_>>()?;
        let faults = Faults::new(seed.parse().ok()?, faults).ok()?;
        let fields: Vec<&str> = std::iter::once("layer").chain(fields.iter().copied()).collect();
        Some((faults, layer_of(&fields, answer)?))
    };
    let lines = FAULTS_TEXT.lines().filter(|line| line.starts_with("layer "));
    lines.map(|line| parse(line).ok_or(line)).collect()
}

fn layer(line: &str) -> Option<LayerAnswer> {
    let (question, answer) = line.split_once(" = ")?;
    layer_of(&question.split_whitespace().collect::<Vec<_>>(), answer)
}

fn layer_of(fields: &[&str], answer: &str) -> Option<LayerAnswer> {
    let [
        _,
        polarity,
        topology,
        generator,
        sharing,
        width,
        bits,
        weight_seed,
        input_seed,
        sample,
        index,
    ] = fields[..]
    else {
        return None;
    };
    let number = |text: &str| text.parse::<u64>().ok();
    let polarity: Polarity = polarity.parse().ok()?;
    let sharing: Sharing = sharing.parse().ok()?;
    let generator: GeneratorName = generator.parse().ok()?;
    let encoding = generator
        .encoding(number(weight_seed)?, Width::new(width.parse().ok()?).ok()?, sharing)
        .ok()?;
    let length = Length::new(bits.parse().ok()?).ok()?;
    let spec = LayerSpec::new(topology_of(topology)?, length, polarity, encoding).ok()?;
    let spec = spec.at(LayerIndex::new(index.parse().ok()?).ok()?);
    let values = |n: usize, a: usize, b: usize, modulus: usize| -> Vec<f64> {
        let share = |k: usize| ((a * k + b) % modulus) as f64 / (modulus - 1) as f64;
        (0..n).map(|k| polarity.value_of(share(k))).collect()
    };
    let weights = Weights::new(&spec, values(spec.n_weights(), 5, 2, 29)).ok()?;
    let inputs = values(spec.n_inputs(), 7, 3, 23);
    Some(LayerAnswer {
        case: LayerCase {
            weights: spec.weight_thresholds(&weights).ok()?,
            inputs: spec
                .encoding()
                .input_width()
                .thresholds(&inputs, polarity, Quantity::Value)
                .ok()?,
            seed: SampleSeed::new(number(input_seed)?).starting_at(sample.parse().ok()?),
            method: CountMethod::Bits,
            spec,
        },
        counts: answer.split_whitespace().map(number).collect::<Option<_>>()?,
    })
}

fn topology_of(text: &str) -> Option<Topology> {
    fn numbers<const N: usize>(text: &str) -> Option<[usize; N]> {
        let numbers: Option<Vec<usize>> =
            text.split(',').map(|number| number.parse().ok()).collect();
        numbers?.try_into().ok()
    }
    let fields: Vec<&str> = text.split(':').collect();
    Some(match fields[..] {
        ["dense", n, m] => {
            Topology::Dense { n_inputs: n.parse().ok()?, n_neurons: m.parse().ok()? }
        }
        ["sparse", n, rows] => {
            let row = |row: &str| {
                row.split(',').filter_map(|input| input.parse::<usize>().ok()).collect::<Vec<_>>()
            };
            let rows = rows.split('/').map(row);
            Topology::Sparse(Arc::new(Connections::from_rows(rows, n.parse().ok()?).ok()?))
        }
        ["conv", input, out, kernel, stride, padding, dilation, groups] => {
            let [top, bottom, left, right] = numbers(padding)?;
            let convolution =
                Convolution::conv2d(numbers(input)?, out.parse().ok()?, numbers(kernel)?)
                    .with_stride(numbers(stride)?)
                    .with_paddings([[top, bottom], [left, right]])
                    .with_dilation(numbers(dilation)?)
                    .with_groups(groups.parse().ok()?);
            Topology::Conv(ConvShape::new(convolution).ok()?)
        }
        _ => return None,
    })
}

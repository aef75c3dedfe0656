//! The fixed suite: the same random cases on every machine, drawn with Philox from one seed.

use super::case::{Case, LayerCase};
use super::network::{NetworkCase, NetworkLayer};
use crate::address::{Domain, LayerIndex, StreamAddress};
use crate::arithmetic::{Accumulator, Activation, Arithmetic, FloatStage, Requantizer};
use crate::backend::CountMethod;
use crate::connections::Connections;
use crate::error::Result;
use crate::gates::Gate;
use crate::generator::{Pairing, Sequence, SequenceKind, Sharing, Width};
use crate::layer::{Encoding, LayerSpec, SampleSeed, Topology, Weights};
use crate::lif::{LifDrive, LifParams};
use crate::philox::philox4x32;
use crate::polarity::Polarity;
use crate::stream::{BitStream, Length};
use crate::threshold::Threshold;
use std::sync::Arc;

/// Lengths around every boundary a kernel has: words, 256- and 512-bit registers, and none.
const LENGTHS: [usize; 18] =
    [1, 2, 31, 32, 33, 63, 64, 65, 100, 128, 255, 256, 511, 512, 513, 1000, 1024, 2113];

/// Layers (inputs, neurons, samples) around every tile boundary.
const LAYERS: [(usize, usize, usize); 10] = [
    (1, 1, 1),
    (3, 2, 2),
    (5, 4, 1),
    (7, 5, 3),
    (8, 9, 4),
    (17, 3, 5),
    (16, 8, 9),
    (33, 7, 2),
    (64, 13, 1),
    (40, 6, 6),
];

/// The cases that version 0.1 verified: the first of [`fixed`]. The hash of their answers is known, see `golden/verify.kat`.
pub const FIRST_CASES: usize = 304;

/// The cases of `aleatron verify`.
///
/// # Errors
/// None: the cases are valid by construction, and a test says so.
pub fn fixed() -> Result<Vec<Case>> {
    let mut random = Random { next: 0 };
    let mut cases = streams(&mut random)?;
    cases.extend(sequences(&mut random)?);
    cases.extend(networks(&mut random)?);
    Ok(cases)
}

/// Streams, gates, counts, Bernoulli layers and neurons.
fn streams(draw: &mut Random) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (n, &bits) in LENGTHS.iter().enumerate() {
        let length = Length::new(bits)?;
        cases.push(Case::Encode {
            thresholds: draw.thresholds(1 + 3 * (n % 7)),
            length,
            address: draw.address(),
        });
        let bits = (0..bits).map(|_| (draw.word() as u8) & 3).collect();
        cases.push(Case::Pack { bits });
        cases.push(Case::Unpack { stream: draw.stream(length)? });
        for gate in Gate::ALL {
            cases.push(Case::Gate { gate, a: draw.stream(length)?, b: draw.stream(length)? });
        }
        cases.push(Case::Not { a: draw.stream(length)? });
        cases.push(Case::Mux {
            select: draw.stream(length)?,
            a: draw.stream(length)?,
            b: draw.stream(length)?,
        });
        cases.push(Case::Popcount { a: draw.stream(length)? });
        cases.push(Case::AndPopcount { a: draw.stream(length)?, b: draw.stream(length)? });
        cases.push(Case::Hamming { a: draw.stream(length)?, b: draw.stream(length)? });
    }
    for (n, &(n_inputs, n_neurons, n_samples)) in LAYERS.iter().enumerate() {
        for polarity in [Polarity::Unipolar, Polarity::Bipolar] {
            let length = Length::new(LENGTHS[(5 * n + polarity as usize) % LENGTHS.len()])?;
            cases.push(Case::Layer(draw.dense(n_inputs, n_neurons, n_samples, length, polarity)?));
            cases.push(Case::Layer(draw.sparse(n_inputs, n_neurons, n_samples, length, polarity)?));
        }
    }
    for n in 0..24 {
        let params = draw.lif_params()?;
        let drive = draw.drive();
        let vary = |draw: &mut Random| LifDrive { current: draw.small(), noise: draw.small(), ..drive };
        let drives = (0..50 + 13 * n).map(|_| vary(draw)).collect();
        cases.push(Case::LifRun { params, drives });
        let currents = (0..1 + 3 * n).map(|_| draw.small()).collect();
        cases.push(Case::LifMulti { params, drive, currents, n_steps: 10 + 7 * n });
    }
    Ok(cases)
}

/// Shared sequences: streams, layers bit by bit, and layers from tables.
fn sequences(draw: &mut Random) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (n, &bits) in LENGTHS.iter().enumerate() {
        let length = Length::new(bits)?;
        for &kind in SequenceKind::ALL {
            let sequence = draw.sequence(kind, 3 + (5 * n as u32 + kind as u32) % 30)?;
            let thresholds = (0..1 + n % 5).map(|_| draw.below(sequence.width().one() + 1)).collect();
            cases.push(Case::EncodeSequence { sequence, thresholds, length });
        }
    }
    for (n, &(n_inputs, n_neurons, n_samples)) in LAYERS.iter().enumerate() {
        for (p, polarity) in Polarity::ALL.into_iter().enumerate() {
            let length = Length::new(LENGTHS[(7 * n + p) % LENGTHS.len()])?;
            for sharing in Sharing::ALL {
                let pairing = draw.pairing(sharing, n + p)?;
                let dense = Topology::Dense { n_inputs, n_neurons };
                for method in [CountMethod::Bits, CountMethod::Tables] {
                    if method == CountMethod::Bits || sharing != Sharing::OnePerStream {
                        let case =
                            draw.sequence_layer(dense.clone(), n_samples, length, polarity, pairing)?;
                        cases.push(Case::Layer(LayerCase { method, ..case }));
                    }
                }
                let sparse = Topology::Sparse(Arc::new(draw.connections(n_inputs, n_neurons)?));
                let case = draw.sequence_layer(sparse, n_samples, length, polarity, pairing)?;
                cases.push(Case::Layer(LayerCase { method: CountMethod::Bits, ..case }));
            }
        }
    }
    Ok(cases)
}

/// Networks of two and three layers in both arithmetics.
fn networks(draw: &mut Random) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for n in 0..6 {
        let sizes = [&[5, 4, 3][..], &[16, 9, 4], &[7, 8, 6, 5]][n % 3];
        let layers = (1..sizes.len()).map(|k| draw.network_layer(n, k, sizes)).collect::<Result<Vec<_>>>()?;
        let polarity = layers[0].spec.polarity();
        let inputs = (0..3 * sizes[0]).map(|_| draw.value(polarity)).collect();
        let seed = SampleSeed::new(draw.word().into()).starting_at(draw.word() % 50);
        for arithmetic in Arithmetic::ALL {
            let (layers, inputs) = (layers.clone(), Vec::clone(&inputs));
            cases.push(Case::Network(NetworkCase { layers, inputs, seed, arithmetic }));
        }
    }
    Ok(cases)
}

/// A sequence of random things.
struct Random {
    next: u32,
}

impl Random {
    fn word(&mut self) -> u32 {
        let word = philox4x32([self.next / 4, 0, 0, 0], [0x5eed, 0xa1ea])[self.next as usize % 4];
        self.next += 1;
        word
    }

    fn small(&mut self) -> i16 {
        (self.word() as i32 >> 21) as i16
    }

    fn thresholds(&mut self, n: usize) -> Vec<Threshold> {
        // Every eighth is an end point, every eighth a very small probability.
        let p = |word: u32| match word % 8 {
            0 => f64::from(word >> 3 & 1),
            1 => f64::from(word) / 4_294_967_296.0 / 65_536.0,
            _ => f64::from(word) / 4_294_967_296.0,
        };
        (0..n).filter_map(|_| Threshold::from_probability(p(self.word())).ok()).collect()
    }

    fn address(&mut self) -> StreamAddress {
        StreamAddress {
            seed: u64::from(self.word()) << 32 | u64::from(self.word()),
            domain: Domain::ALL[self.word() as usize % Domain::ALL.len()],
            layer: LayerIndex::new(self.word() as usize % 5).unwrap_or_default(),
            row: self.word() % 1000,
            unit: self.word() % 1000,
        }
    }

    fn stream(&mut self, length: Length) -> Result<BitStream> {
        let bits: Vec<u8> = (0..length.bits()).map(|_| (self.word() >> 31) as u8).collect();
        BitStream::from_bits(&bits)
    }

    /// An integer below `end`.
    fn below(&mut self, end: u64) -> u64 {
        u64::from(self.word()) * end >> 32
    }

    /// A value of a stream.
    fn value(&mut self, polarity: Polarity) -> f64 {
        polarity.value_of(f64::from(self.word()) / 4_294_967_296.0)
    }

    fn bernoulli_layer(
        &mut self,
        topology: Topology,
        index: LayerIndex,
        n_samples: usize,
        length: Length,
        polarity: Polarity,
    ) -> Result<LayerCase> {
        // The seed of the weights is drawn after their thresholds.
        let unseeded = LayerSpec::new(topology.clone(), length, polarity, Encoding::Bernoulli { seed: 0 })?;
        let thresholds = |thresholds: Vec<Threshold>| thresholds.into_iter().map(Threshold::get).collect();
        let weights = thresholds(self.thresholds(unseeded.n_weights()));
        let seed = self.word().into();
        let inputs = thresholds(self.thresholds(unseeded.n_inputs() * n_samples));
        Ok(LayerCase {
            spec: LayerSpec::new(topology, length, polarity, Encoding::Bernoulli { seed })?.at(index),
            weights,
            inputs,
            seed: SampleSeed::new(self.word().into()).starting_at(self.word() % 100),
            method: CountMethod::Best,
        })
    }

    fn dense(
        &mut self,
        n_inputs: usize,
        n_neurons: usize,
        n_samples: usize,
        length: Length,
        polarity: Polarity,
    ) -> Result<LayerCase> {
        let index = LayerIndex::new(self.word() as usize % 3)?;
        self.bernoulli_layer(Topology::Dense { n_inputs, n_neurons }, index, n_samples, length, polarity)
    }

    fn sparse(
        &mut self,
        n_inputs: usize,
        n_neurons: usize,
        n_samples: usize,
        length: Length,
        polarity: Polarity,
    ) -> Result<LayerCase> {
        let topology = Topology::Sparse(Arc::new(self.connections(n_inputs, n_neurons)?));
        self.bernoulli_layer(topology, LayerIndex::ALONE, n_samples, length, polarity)
    }

    fn connections(&mut self, n_inputs: usize, n_neurons: usize) -> Result<Connections> {
        let mask: Vec<bool> = (0..n_inputs * n_neurons).map(|_| self.word().is_multiple_of(3)).collect();
        Connections::from_mask(&mask, n_inputs)
    }

    /// A sequence with few dimensions or primes before it, so that there are many after it.
    fn sequence(&mut self, kind: SequenceKind, bits: u32) -> Result<Sequence> {
        let width = Width::new(bits)?;
        let parameter = match kind {
            SequenceKind::Lfsr => 1 + self.below(width.one() - 1) as u32,
            SequenceKind::Sobol => 1 + self.word() % 20,
            SequenceKind::Halton => 2 + self.word() % 20,
            SequenceKind::Ramp => 0,
        };
        kind.sequence(parameter, width)
    }

    /// Two sequences of up to twelve bits that have as many others beside them as `sharing` needs.
    fn pairing(&mut self, sharing: Sharing, n: usize) -> Result<Pairing> {
        let (few, many) = (&[SequenceKind::Lfsr, SequenceKind::Sobol], &[SequenceKind::Lfsr]);
        let [inputs, weights]: [&[SequenceKind]; 2] = match sharing {
            Sharing::OneForAll => [SequenceKind::ALL, SequenceKind::ALL],
            Sharing::OnePerInput => [few, few],
            Sharing::OnePerStream => [few, many],
        };
        let mut one =
            |kinds: &[SequenceKind], n: usize| self.sequence(kinds[n % kinds.len()], 3 + (3 * n as u32) % 10);
        Ok(Pairing { inputs: one(inputs, n)?, weights: one(weights, n + 1)?, sharing })
    }

    fn sequence_layer(
        &mut self,
        topology: Topology,
        n_samples: usize,
        length: Length,
        polarity: Polarity,
        pairing: Pairing,
    ) -> Result<LayerCase> {
        let spec = LayerSpec::new(topology, length, polarity, Encoding::Sequences(pairing))?;
        let mut thresholds = |n: usize, width: Width| (0..n).map(|_| self.below(width.one() + 1)).collect();
        let weights = thresholds(spec.n_weights(), pairing.weights.width());
        let inputs = thresholds(spec.n_inputs() * n_samples, pairing.inputs.width());
        Ok(LayerCase { spec, weights, inputs, seed: SampleSeed::new(0), method: CountMethod::Best })
    }

    /// Layer `k - 1` of network `n`.
    fn network_layer(&mut self, n: usize, k: usize, sizes: &[usize]) -> Result<NetworkLayer> {
        let polarity = Polarity::ALL[n % 2];
        let length = Length::new([64, 100, 33][(n + k) % 3])?;
        let encoding = match (n + k) % 2 {
            0 => Encoding::Bernoulli { seed: self.word().into() },
            _ => Encoding::Sequences(self.pairing(Sharing::OneForAll, n)?),
        };
        let spec = LayerSpec::dense(sizes[k - 1], sizes[k], length, polarity, encoding)?;
        let spec = spec.at(LayerIndex::new(k - 1)?);
        let weights = (0..spec.n_weights()).map(|_| self.value(polarity)).collect();
        let quarters = |word: u32| f64::from(word % 64) / 16.0 - 2.0;
        let stage = FloatStage {
            scale: 0.25 + f64::from(self.word() % 16) / 8.0,
            bias: (0..sizes[k]).map(|_| quarters(self.word())).collect(),
            activation: [Activation::Identity, Activation::Relu, Activation::Clamp { low: -0.5, high: 1.25 }]
                [(n + k) % 3],
        };
        let next_scale = 0.5 + f64::from(self.word() % 16) / 4.0;
        // No wider than the narrowest sequence the next layer may have.
        let comparator = Width::new(3)?;
        let (scale, bits) = (stage.scale, 4 + self.word() % 12);
        let accumulator = Accumulator::calibrated(&spec, &stage)?;
        // Half of the networks have accumulators that saturate now and then.
        let accumulator = match n {
            0..3 => accumulator,
            _ => Accumulator::new(12, accumulator.bias().to_vec(), accumulator.activation())?,
        };
        Ok(NetworkLayer {
            weights: Weights::new(&spec, weights)?,
            input_scale: next_scale,
            accumulator,
            requantizer: Requantizer::calibrated(&spec, scale, next_scale, bits, comparator, polarity)?,
            spec,
            stage,
        })
    }

    fn lif_params(&mut self) -> Result<LifParams> {
        Ok(LifParams::new(1 + self.word() % 16, self.word() % 32)?
            .with_rest(self.small())
            .with_reset(self.small())
            .with_threshold(self.small())
            .with_refractory_period(self.word() % 4))
    }

    fn drive(&mut self) -> LifDrive {
        LifDrive { leak_k: self.small(), gain_k: self.small(), current: self.small(), noise: self.small() }
    }
}

//! Random values for the fixed suite, drawn with Philox from one seed.

use super::super::case::LayerCase;
use super::super::network::NetworkLayer;
use crate::address::{Domain, LayerIndex, StreamAddress};
use crate::arithmetic::{Accumulator, Activation, FloatStage, Requantizer};
use crate::backend::CountMethod;
use crate::connections::Connections;
use crate::error::Result;
use crate::generator::{OperandSequences, Pairing, Sequence, SequenceKind, Sharing, Width};
use crate::layer::{Encoding, LayerSpec, SampleSeed, Topology, Weights};
use crate::lif::{LifDrive, LifParams};
use crate::philox::philox4x32;
use crate::polarity::Polarity;
use crate::stream::{BitStream, Length};
use crate::threshold::{NEGATIVE, Threshold};
use std::sync::Arc;

/// The sequences of random cases. Digits of counters have separate cases, so that the other cases
/// stay as they are.
pub(super) const SEQUENCES: [SequenceKind; 4] =
    [SequenceKind::Lfsr, SequenceKind::Sobol, SequenceKind::Halton, SequenceKind::Ramp];

/// A source of random values.
pub(super) struct Random {
    pub(super) next: u32,
}

impl Random {
    pub(super) fn word(&mut self) -> u32 {
        let word = philox4x32([self.next / 4, 0, 0, 0], [0x5eed, 0xa1ea])[self.next as usize % 4];
        self.next += 1;
        word
    }

    pub(super) fn small(&mut self) -> i16 {
        (self.word() as i32 >> 21) as i16
    }

    pub(super) fn thresholds(&mut self, n: usize) -> Vec<Threshold> {
        // Every eighth threshold is an end point, every eighth a very small probability.
        let p = |word: u32| match word % 8 {
            0 => f64::from(word >> 3 & 1),
            1 => f64::from(word) / 4_294_967_296.0 / 65_536.0,
            _ => f64::from(word) / 4_294_967_296.0,
        };
        (0..n).filter_map(|_| Threshold::from_probability(p(self.word())).ok()).collect()
    }

    pub(super) fn address(&mut self) -> StreamAddress {
        StreamAddress {
            seed: u64::from(self.word()) << 32 | u64::from(self.word()),
            domain: Domain::ALL[self.word() as usize % Domain::ALL.len()],
            layer: LayerIndex::new(self.word() as usize % 5).unwrap_or_default(),
            row: self.word() % 1000,
            unit: self.word() % 1000,
        }
    }

    pub(super) fn stream(&mut self, length: Length) -> Result<BitStream> {
        let bits: Vec<u8> = (0..length.bits()).map(|_| (self.word() >> 31) as u8).collect();
        BitStream::from_bits(&bits)
    }

    /// Draws an integer below `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        u64::from(self.word()) * end >> 32
    }

    /// Draws a value of a stream.
    pub(super) fn value(&mut self, polarity: Polarity) -> f64 {
        polarity.value_of(f64::from(self.word()) / 4_294_967_296.0)
    }

    pub(super) fn bernoulli_layer(
        &mut self,
        topology: Topology,
        index: LayerIndex,
        n_samples: usize,
        length: Length,
        polarity: Polarity,
    ) -> Result<LayerCase> {
        // The seed of the weights is drawn after their thresholds.
        let unseeded =
            LayerSpec::new(topology.clone(), length, polarity, Encoding::Bernoulli { seed: 0 })?;
        let thresholds =
            |thresholds: Vec<Threshold>| thresholds.into_iter().map(Threshold::get).collect();
        let weights = thresholds(self.thresholds(unseeded.n_weights()));
        let weights = self.signed(weights, polarity);
        let seed = self.word().into();
        let inputs = thresholds(self.thresholds(unseeded.n_inputs() * n_samples));
        let inputs = self.signed(inputs, polarity);
        Ok(LayerCase {
            spec: LayerSpec::new(topology, length, polarity, Encoding::Bernoulli { seed })?
                .at(index),
            weights,
            inputs,
            seed: SampleSeed::new(self.word().into()).starting_at(self.word() % 100),
            method: CountMethod::Best,
        })
    }

    pub(super) fn dense(
        &mut self,
        n_inputs: usize,
        n_neurons: usize,
        n_samples: usize,
        length: Length,
        polarity: Polarity,
    ) -> Result<LayerCase> {
        let index = LayerIndex::new(self.word() as usize % 3)?;
        self.bernoulli_layer(
            Topology::Dense { n_inputs, n_neurons },
            index,
            n_samples,
            length,
            polarity,
        )
    }

    pub(super) fn sparse(
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

    pub(super) fn conv(
        &mut self,
        topology: Topology,
        n_samples: usize,
        length: Length,
        polarity: Polarity,
    ) -> Result<LayerCase> {
        let index = LayerIndex::new(self.word() as usize % 3)?;
        self.bernoulli_layer(topology, index, n_samples, length, polarity)
    }

    pub(super) fn connections(&mut self, n_inputs: usize, n_neurons: usize) -> Result<Connections> {
        let mask: Vec<bool> =
            (0..n_inputs * n_neurons).map(|_| self.word().is_multiple_of(3)).collect();
        Connections::from_mask(&mask, n_inputs)
    }

    /// Draws a sequence early in its family, so that many others follow.
    pub(super) fn sequence(&mut self, kind: SequenceKind, bits: u32) -> Result<Sequence> {
        let width = Width::new(bits)?;
        let parameter = match kind {
            SequenceKind::Lfsr => 1 + self.below(width.one() - 1) as u32,
            SequenceKind::Sobol => 1 + self.word() % 20,
            SequenceKind::Halton => 2 + self.word() % 20,
            SequenceKind::Ramp => 0,
            SequenceKind::Digit => self.word() % 2,
        };
        kind.sequence(parameter, width)
    }

    /// Draws two sequences of up to twelve bits that have as many siblings as `sharing` needs.
    pub(super) fn pairing(&mut self, sharing: Sharing, n: usize) -> Result<Pairing> {
        let (few, many) = (&[SequenceKind::Lfsr, SequenceKind::Sobol], &[SequenceKind::Lfsr]);
        let [inputs, weights]: [&[SequenceKind]; 2] = match sharing {
            Sharing::OneForAll => [&SEQUENCES, &SEQUENCES],
            Sharing::OnePerInput => [few, few],
            Sharing::OnePerStream => [few, many],
        };
        let mut one = |kinds: &[SequenceKind], n: usize| {
            self.sequence(kinds[n % kinds.len()], 3 + (3 * n as u32) % 10)
        };
        Ok(Pairing { inputs: one(inputs, n)?, weights: one(weights, n + 1)?, sharing })
    }

    pub(super) fn sequence_layer(
        &mut self,
        topology: Topology,
        n_samples: usize,
        length: Length,
        polarity: Polarity,
        pairing: Pairing,
    ) -> Result<LayerCase> {
        let spec = LayerSpec::new(topology, length, polarity, Encoding::Sequences(pairing))?;
        let mut thresholds =
            |n: usize, width: Width| (0..n).map(|_| self.below(width.one() + 1)).collect();
        let weights = thresholds(spec.n_weights(), pairing.weights.width());
        let inputs = thresholds(spec.n_inputs() * n_samples, pairing.inputs.width());
        let (weights, inputs) = (self.signed(weights, polarity), self.signed(inputs, polarity));
        Ok(LayerCase { spec, weights, inputs, seed: SampleSeed::new(0), method: CountMethod::Best })
    }

    /// Returns number `n` of the encodings with random bits for one operand and sequences for the
    /// other.
    pub(super) fn mixed(&mut self, sharing: Sharing, n: usize) -> Result<Encoding> {
        let Pairing { inputs, weights, .. } = self.pairing(sharing, n / 2)?;
        Ok(match n % 2 {
            0 => {
                Encoding::BernoulliInputs { weights: OperandSequences { first: weights, sharing } }
            }
            _ => Encoding::BernoulliWeights {
                seed: self.word().into(),
                inputs: OperandSequences { first: inputs, sharing },
            },
        })
    }

    pub(super) fn mixed_layer(
        &mut self,
        topology: Topology,
        n_samples: usize,
        length: Length,
        polarity: Polarity,
        encoding: Encoding,
    ) -> Result<LayerCase> {
        let index = LayerIndex::new(self.word() as usize % 3)?;
        let spec = LayerSpec::new(topology, length, polarity, encoding)?.at(index);
        let mut thresholds = |n: usize, width: Width| -> Vec<u64> {
            match width {
                Width::BERNOULLI => self.thresholds(n).into_iter().map(Threshold::get).collect(),
                width => (0..n).map(|_| self.below(width.one() + 1)).collect(),
            }
        };
        let weights = thresholds(spec.n_weights(), encoding.weight_width());
        let inputs = thresholds(spec.n_inputs() * n_samples, encoding.input_width());
        let (weights, inputs) = (self.signed(weights, polarity), self.signed(inputs, polarity));
        let seed = SampleSeed::new(self.word().into()).starting_at(self.word() % 100);
        Ok(LayerCase { spec, weights, inputs, seed, method: CountMethod::Best })
    }

    /// Draws a layer of network `n` with index `k - 1`; its streams have the first polarity, those
    /// of the next layer the second.
    pub(super) fn network_layer(
        &mut self,
        n: usize,
        k: usize,
        topology: Topology,
        [polarity, next_polarity]: [Polarity; 2],
    ) -> Result<NetworkLayer> {
        let encoding = match (n + k) % 2 {
            0 => Encoding::Bernoulli { seed: self.word().into() },
            _ => Encoding::Sequences(self.pairing(Sharing::OneForAll, n)?),
        };
        self.network_layer_of(n, k, topology, [polarity, next_polarity], encoding)
    }

    /// Draws a layer as [`Self::network_layer`], of a given encoding.
    pub(super) fn network_layer_of(
        &mut self,
        n: usize,
        k: usize,
        topology: Topology,
        [polarity, next_polarity]: [Polarity; 2],
        encoding: Encoding,
    ) -> Result<NetworkLayer> {
        let length = Length::new([64, 100, 33][(n + k) % 3])?;
        let spec =
            LayerSpec::new(topology, length, polarity, encoding)?.at(LayerIndex::new(k - 1)?);
        let weights = (0..spec.n_weights()).map(|_| self.value(polarity)).collect();
        let quarters = |word: u32| f64::from(word % 64) / 16.0 - 2.0;
        let stage = FloatStage {
            scales: vec![0.25 + f64::from(self.word() % 16) / 8.0],
            bias: (0..spec.n_rows()).map(|_| quarters(self.word())).collect(),
            activation: [
                Activation::Identity,
                Activation::Relu,
                Activation::Clamp { low: -0.5, high: 1.25 },
            ][(n + k) % 3],
        };
        let next_scale = 0.5 + f64::from(self.word() % 16) / 4.0;
        // No wider than the narrowest sequence that the next layer may have.
        let comparator = Width::new(3)?;
        let (scale, bits) = (stage.scales[0], 4 + self.word() % 12);
        let accumulator = Accumulator::calibrated(&spec, &stage, 0)?;
        // Half of the networks have accumulators that sometimes saturate.
        let accumulator = match n {
            0..3 => accumulator,
            _ => Accumulator::new(12, accumulator.bias().to_vec(), accumulator.activation())?,
        };
        Ok(NetworkLayer {
            weights: Weights::new(&spec, weights)?,
            input_scale: next_scale,
            accumulator,
            pool: None,
            requantizer: Requantizer::calibrated(
                &spec,
                scale,
                next_scale,
                bits,
                comparator,
                next_polarity,
            )?,
            spec,
            stage,
        })
    }

    /// Makes some thresholds negative if `polarity` has signs.
    fn signed(&mut self, thresholds: Vec<u64>, polarity: Polarity) -> Vec<u64> {
        match polarity {
            Polarity::Unipolar | Polarity::Bipolar => thresholds,
            Polarity::Signed => {
                let sign = |word: u32| if word >> 31 == 1 { NEGATIVE } else { 0 };
                thresholds.into_iter().map(|threshold| threshold | sign(self.word())).collect()
            }
        }
    }

    pub(super) fn lif_params(&mut self) -> Result<LifParams> {
        Ok(LifParams::new(1 + self.word() % 16, self.word() % 32)?
            .with_rest(self.small())
            .with_reset(self.small())
            .with_threshold(self.small())
            .with_refractory_period(self.word() % 4))
    }

    pub(super) fn drive(&mut self) -> LifDrive {
        LifDrive {
            leak_k: self.small(),
            gain_k: self.small(),
            current: self.small(),
            noise: self.small(),
        }
    }
}

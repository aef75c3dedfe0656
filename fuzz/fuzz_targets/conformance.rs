//! Bytes as a case of the suite: every tier of this machine, on one and on three threads, must
//! equal the reference.
#![no_main]

use aleatron_core::backend::CountMethod;
use aleatron_core::conformance::{Case, LayerCase, MaskCase, Reference, Subject};
use aleatron_core::fault::{Fault, FaultKind, FaultRate, FaultSite, Faults, Operand};
use aleatron_core::gates::Gate;
use aleatron_core::generator::{OperandSequences, Pairing, Sequence, SequenceKind, Sharing};
use aleatron_core::lif::{LifDrive, LifParams};
use aleatron_core::philox::{key, philox4x32};
use aleatron_core::threshold::NEGATIVE;
use aleatron_core::{
    BitStream, Connections, ConvShape, Convolution, Domain, Encoding, LayerIndex, LayerSpec,
    Length, Polarity, SampleSeed, StreamAddress, Threshold, Topology, Width,
};
use aleatron_cpu::{Cpu, Pool, Tier};
use libfuzzer_sys::fuzz_target;
use std::sync::{Arc, LazyLock};

static BACKENDS: LazyLock<Vec<Cpu>> = LazyLock::new(|| {
    let pools = [1, 3].map(|threads| Arc::new(Pool::eager(threads).unwrap()));
    let tiers = Tier::available();
    tiers
        .iter()
        .flat_map(|&tier| pools.iter().map(move |pool| Cpu::new(tier, pool.clone())))
        .collect()
});

fuzz_target!(|bytes: &[u8]| {
    let Some(case) = Source::new(bytes).case() else { return };
    let expected = Reference.answer(&case);
    for cpu in BACKENDS.iter() {
        let answer = cpu.run(&case).unwrap().unwrap();
        assert!(
            answer == expected,
            "{} on {} threads differs for {case:?}",
            cpu.tier(),
            cpu.threads()
        );
    }
});

/// Numbers from bytes, and from random words after the last byte: a fuzzer begins with very short
/// inputs, which would otherwise be streams of zeros.
struct Source<'a> {
    bytes: &'a [u8],
    seed: u64,
    next: u32,
}

impl<'a> Source<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        let mix = |seed: u64, &byte: &u8| (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Self { bytes, seed: bytes.iter().fold(0, mix), next: 0 }
    }

    fn word(&mut self) -> u32 {
        if let Some((word, rest)) = self.bytes.split_first_chunk() {
            self.bytes = rest;
            return u32::from_le_bytes(*word);
        }
        self.next += 1;
        philox4x32([self.next, 0, 0, 0], key(self.seed))[0]
    }

    fn long_word(&mut self) -> u64 {
        u64::from(self.word()) << 32 | u64::from(self.word())
    }

    /// Returns a number from `low` to `high`, both included.
    fn within(&mut self, low: usize, high: usize) -> usize {
        low + self.word() as usize % (high - low + 1)
    }

    fn choose<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.within(0, from.len() - 1)]
    }

    fn short(&mut self) -> i16 {
        // All magnitudes, mostly those of typical neurons, not only those that overflow.
        let shift = self.word() % 16;
        (self.word() as i16) >> shift
    }

    fn length(&mut self) -> Length {
        Length::new(self.within(1, 600)).unwrap()
    }

    fn stream(&mut self, length: Length) -> BitStream {
        let mut words: Vec<u64> = (0..length.words()).map(|_| self.long_word()).collect();
        *words.last_mut().unwrap() &= length.tail_mask();
        BitStream::from_words(words, length).unwrap()
    }

    fn threshold(&mut self) -> Threshold {
        // All precisions: thresholds with few digits end comparisons early. And both ends.
        let shift = self.word() % 40;
        let digits = match shift {
            0..32 => u64::from(self.word() >> shift << shift),
            32..36 => 0,
            _ => 1 << 32,
        };
        Threshold::from_probability(digits as f64 / 4_294_967_296.0).unwrap()
    }

    fn thresholds(&mut self, n: usize) -> Vec<Threshold> {
        (0..n).map(|_| self.threshold()).collect()
    }

    fn layer(&mut self) -> LayerIndex {
        LayerIndex::new(self.within(0, LayerIndex::MAX as usize)).unwrap()
    }

    fn polarity(&mut self) -> Polarity {
        self.choose(&Polarity::ALL)
    }

    fn case(&mut self) -> Option<Case> {
        let kind = self.within(0, 15);
        let length = self.length();
        Some(match kind {
            0 => {
                let n = self.within(1, 24);
                let address = StreamAddress {
                    seed: self.long_word(),
                    domain: self.choose(&Domain::ALL),
                    layer: self.layer(),
                    row: self.word(),
                    unit: self.word().min(u32::MAX - 24),
                };
                Case::Encode { thresholds: self.thresholds(n), length, address }
            }
            1 => Case::Pack { bits: (0..length.bits()).map(|_| self.word() as u8 & 3).collect() },
            2 => Case::Unpack { stream: self.stream(length) },
            3 => {
                let gate = self.choose(&Gate::ALL);
                Case::Gate { gate, a: self.stream(length), b: self.stream(length) }
            }
            4 => Case::Not { a: self.stream(length) },
            5 => {
                let [select, a, b] = std::array::from_fn(|_| self.stream(length));
                Case::Mux { select, a, b }
            }
            6 | 7 => {
                // Past sixteen registers of every width.
                let length = Length::new(self.within(1, 20_000)).unwrap();
                let a = self.stream(length);
                match kind {
                    6 => Case::Popcount { a },
                    _ => Case::AndPopcount { a, b: self.stream(length) },
                }
            }
            8 => Case::Hamming { a: self.stream(length), b: self.stream(length) },
            9 => {
                let (sequence, n) = (self.sequence(), self.within(1, 24));
                Case::EncodeSequence {
                    sequence,
                    thresholds: self.comparators(sequence.width(), n),
                    length,
                }
            }
            10 => Case::Layer(self.bernoulli_layer(length)),
            11 => Case::Layer(self.sequence_layer(length)?),
            12 => Case::Layer(self.mixed_layer(length)?),
            13 => Case::Mask(self.mask(length)?),
            _ => self.neurons(),
        })
    }

    /// Masks of a fault; `None` for a kind that the site cannot have.
    fn mask(&mut self, length: Length) -> Option<MaskCase> {
        let site = self.choose(&FaultSite::ALL);
        let burst = FaultKind::Burst { cycles: 1 + self.word() % 100 };
        let kind = self.choose(&[FaultKind::Transient, FaultKind::Permanent, burst]);
        // All magnitudes from 2^-29 to 0.5.
        let rate = 0.5 / f64::from(1u32 << (self.word() % 28)) * (0.5 + f64::from(self.word()) / 8_589_934_592.0);
        let fault = Fault::new(site, kind, FaultRate::new(rate).ok()?).ok()?;
        let mask = Faults::new(self.long_word(), vec![fault]).ok()?.at(site, self.layer()).next()?;
        let n_rows = if fault.is_per_sample() { self.within(1, 4) as u32 } else { 1 };
        Some(MaskCase {
            mask,
            length,
            operand: self.choose(&[Operand::Inputs, Operand::Weights]),
            sample: self.word().min(u32::MAX - 4),
            row: self.word().min(u32::MAX - 4),
            unit: self.word().min(u32::MAX - 8),
            n_rows,
            n_units: self.within(1, 8) as u32,
        })
    }

    fn topology(&mut self) -> Topology {
        let (n_inputs, n_neurons) = (self.within(1, 12), self.within(1, 12));
        match self.word() % 4 {
            0 => Topology::Dense { n_inputs, n_neurons },
            1 => {
                let mask: Vec<bool> =
                    (0..n_inputs * n_neurons).map(|_| self.word() & 1 == 1).collect();
                Topology::Sparse(Arc::new(Connections::from_mask(&mask, n_inputs).unwrap()))
            }
            _ => Topology::Conv(self.convolution()),
        }
    }

    /// Returns a convolution with borders of every kind, or some of its output channels.
    fn convolution(&mut self) -> ConvShape {
        let groups = self.within(1, 2);
        let (channels, out_channels) = (groups * self.within(1, 2), groups * self.within(1, 3));
        let [kernel, dilation, stride] =
            [3, 2, 3].map(|most| [self.within(1, most), self.within(1, most)]);
        let padding = [(); 2].map(|()| [self.within(0, 2), self.within(0, 2)]);
        // No smaller than the kernel where there is no padding.
        let size = [0, 1].map(|k| self.within((kernel[k] - 1) * dilation[k] + 1, 6));
        let conv = Convolution {
            input: [channels, size[0], size[1]],
            out_channels,
            kernel,
            stride,
            padding,
            dilation,
            groups,
        };
        let shape = ConvShape::new(conv).unwrap();
        match self.word() & 3 {
            0 => {
                let first = self.within(0, out_channels - 1);
                shape.channels(first..self.within(first + 1, out_channels)).unwrap()
            }
            _ => shape,
        }
    }

    /// Returns the samples of a batch: few if each takes the reference long.
    fn samples(&mut self, spec: &LayerSpec) -> usize {
        match spec.topology() {
            Topology::Conv(_) => self.within(0, 3),
            _ => self.within(0, 12),
        }
    }

    /// Returns thresholds, with signs if the operands of a layer have them.
    fn signed(&mut self, polarity: Polarity, thresholds: Vec<u64>) -> Vec<u64> {
        if polarity != Polarity::Signed {
            return thresholds;
        }
        thresholds
            .into_iter()
            .map(|threshold| threshold | if self.word() & 1 == 1 { NEGATIVE } else { 0 })
            .collect()
    }

    fn bernoulli_layer(&mut self, length: Length) -> LayerCase {
        let (topology, polarity) = (self.topology(), self.polarity());
        let encoding = Encoding::Bernoulli { seed: self.long_word() };
        let spec = LayerSpec::new(topology, length, polarity, encoding).unwrap().at(self.layer());
        let n_samples = self.samples(&spec);
        let thresholds = |source: &mut Self, n| {
            let thresholds = source.thresholds(n).into_iter().map(Threshold::get).collect();
            source.signed(polarity, thresholds)
        };
        LayerCase {
            weights: thresholds(self, spec.n_weights()),
            inputs: thresholds(self, spec.n_inputs() * n_samples),
            seed: SampleSeed::new(self.long_word()).starting_at(self.word().min(u32::MAX - 12)),
            method: CountMethod::Best,
            spec,
        }
    }

    /// Returns a layer with sequences; `None` if the generator has too few sequences.
    fn sequence_layer(&mut self, length: Length) -> Option<LayerCase> {
        let (topology, polarity) = (self.topology(), self.polarity());
        let pairing = Pairing {
            inputs: self.sequence(),
            weights: self.sequence(),
            sharing: self.choose(&Sharing::ALL),
        };
        let spec = LayerSpec::new(topology, length, polarity, Encoding::Sequences(pairing)).ok()?;
        let n_samples = self.samples(&spec);
        let weights = self.comparators(pairing.weights.width(), spec.n_weights());
        let inputs = self.comparators(pairing.inputs.width(), spec.n_inputs() * n_samples);
        Some(LayerCase {
            weights: self.signed(polarity, weights),
            inputs: self.signed(polarity, inputs),
            seed: SampleSeed::new(0),
            method: self.choose(&[CountMethod::Best, CountMethod::Bits]),
            spec,
        })
    }

    /// Returns a layer with random bits for one operand and sequences for the other; `None` if the
    /// generator has too few sequences for the layer.
    fn mixed_layer(&mut self, length: Length) -> Option<LayerCase> {
        let (topology, polarity) = (self.topology(), self.polarity());
        let sequences =
            OperandSequences { first: self.sequence(), sharing: self.choose(&Sharing::ALL) };
        let encoding = match self.word() & 1 {
            0 => Encoding::BernoulliInputs { weights: sequences },
            _ => Encoding::BernoulliWeights { seed: self.long_word(), inputs: sequences },
        };
        let spec = LayerSpec::new(topology, length, polarity, encoding).ok()?.at(self.layer());
        let n_samples = self.samples(&spec);
        let weights = self.comparators(encoding.weight_width(), spec.n_weights());
        let inputs = self.comparators(encoding.input_width(), spec.n_inputs() * n_samples);
        Some(LayerCase {
            weights: self.signed(polarity, weights),
            inputs: self.signed(polarity, inputs),
            seed: SampleSeed::new(self.long_word()).starting_at(self.word().min(u32::MAX - 12)),
            method: CountMethod::Best,
            spec,
        })
    }

    /// Returns a sequence of a kind that has as many as any layer here needs.
    fn sequence(&mut self) -> Sequence {
        let kind = self.choose(&[SequenceKind::Lfsr, SequenceKind::Sobol, SequenceKind::Halton]);
        let (parameter, bits) = (self.within(2, 5), self.within(3, 14));
        kind.sequence(parameter as u32, Width::new(bits as u32).unwrap()).unwrap()
    }

    fn comparators(&mut self, width: Width, n: usize) -> Vec<u64> {
        (0..n).map(|_| self.long_word() % (width.one() + 1)).collect()
    }

    fn neurons(&mut self) -> Case {
        let params = LifParams::new(self.within(1, 16) as u32, self.within(0, 31) as u32)
            .unwrap()
            .with_rest(self.short())
            .with_reset(self.short())
            .with_threshold(self.short())
            .with_refractory_period(self.word() % 6);
        let [leak_k, gain_k, noise] = std::array::from_fn(|_| self.short());
        let drive = LifDrive { leak_k, gain_k, current: 0, noise };
        if self.word() & 1 == 0 {
            let n_steps = self.within(1, 200);
            let step = |_| LifDrive { current: self.short(), noise: self.short(), ..drive };
            return Case::LifRun { params, drives: (0..n_steps).map(step).collect() };
        }
        let (n, n_steps) = (self.within(1, 80), self.within(1, 100));
        Case::LifMulti { params, drive, currents: (0..n).map(|_| self.short()).collect(), n_steps }
    }
}

//! The fixed suite: the same random cases on every machine, drawn with Philox from one seed.

use super::case::{Case, DenseCase, SparseCase};
use crate::address::{Domain, LayerIndex, StreamAddress};
use crate::connections::Connections;
use crate::dense::{DenseShape, Polarity};
use crate::error::Result;
use crate::gates::Gate;
use crate::lif::{LifDrive, LifParams};
use crate::philox::philox4x32;
use crate::stream::{BitStream, Length};
use crate::threshold::Threshold;

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

/// The cases of `aleatron verify`.
///
/// # Errors
/// None: the cases are valid by construction, and a test says so.
pub fn fixed() -> Result<Vec<Case>> {
    let mut draw = Draw { next: 0 };
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
            cases.push(Case::Dense(draw.dense(n_inputs, n_neurons, n_samples, length, polarity)?));
            cases.push(Case::Sparse(draw.sparse(n_inputs, n_neurons, n_samples, length, polarity)?));
        }
    }
    for n in 0..24 {
        let params = draw.lif_params()?;
        let drive = draw.drive();
        let vary = |draw: &mut Draw| LifDrive { current: draw.small(), noise: draw.small(), ..drive };
        let drives = (0..50 + 13 * n).map(|_| vary(&mut draw)).collect();
        cases.push(Case::LifRun { params, drives });
        let currents = (0..1 + 3 * n).map(|_| draw.small()).collect();
        cases.push(Case::LifMulti { params, drive, currents, n_steps: 10 + 7 * n });
    }
    Ok(cases)
}

/// A sequence of random things.
struct Draw {
    next: u32,
}

impl Draw {
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

    fn dense(
        &mut self,
        n_inputs: usize,
        n_neurons: usize,
        n_samples: usize,
        length: Length,
        polarity: Polarity,
    ) -> Result<DenseCase> {
        Ok(DenseCase {
            shape: DenseShape::new(n_inputs, n_neurons, length, polarity)?,
            layer: LayerIndex::new(self.word() as usize % 3)?,
            weights: self.thresholds(n_inputs * n_neurons),
            weight_seed: self.word().into(),
            inputs: self.thresholds(n_inputs * n_samples),
            input_seed: self.word().into(),
            first_row: self.word() % 100,
        })
    }

    fn sparse(
        &mut self,
        n_inputs: usize,
        n_neurons: usize,
        n_samples: usize,
        length: Length,
        polarity: Polarity,
    ) -> Result<SparseCase> {
        let mask: Vec<bool> = (0..n_inputs * n_neurons).map(|_| self.word().is_multiple_of(3)).collect();
        let connections = Connections::from_mask(&mask, n_inputs)?;
        Ok(SparseCase {
            length,
            polarity,
            weights: self.thresholds(connections.len()),
            weight_seed: self.word().into(),
            inputs: self.thresholds(n_inputs * n_samples),
            input_seed: self.word().into(),
            first_row: self.word() % 100,
            connections,
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

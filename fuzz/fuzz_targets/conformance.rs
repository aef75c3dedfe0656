//! Bytes as a case of the suite: every tier of this machine, on one and on three threads, must answer as the reference does.
#![no_main]

use aleatron_core::conformance::{Backend, Case, DenseCase, Reference, SparseCase};
use aleatron_core::gates::Gate;
use aleatron_core::lif::{LifDrive, LifParams};
use aleatron_core::{
    BitStream, Connections, DenseShape, Domain, LayerIndex, Length, Polarity, StreamAddress, Threshold,
};
use aleatron_cpu::{Cpu, Pool, Tier};
use arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use std::sync::{Arc, LazyLock};

static BACKENDS: LazyLock<Vec<Cpu>> = LazyLock::new(|| {
    let pools = [1, 3].map(|threads| Arc::new(Pool::eager(threads).unwrap()));
    let tiers = Tier::available();
    tiers.iter().flat_map(|&tier| pools.iter().map(move |pool| Cpu::new(tier, pool.clone()))).collect()
});

fuzz_target!(|bytes: &[u8]| {
    let Ok(case) = case(&mut Unstructured::new(bytes)) else { return };
    let expected = Reference.answer(&case);
    for cpu in BACKENDS.iter() {
        let answer = cpu.run(&case).unwrap().unwrap();
        assert!(answer == expected, "{} on {} threads differs for {case:?}", cpu.tier(), cpu.threads());
    }
});

fn case(u: &mut Unstructured<'_>) -> Result<Case> {
    Ok(match u.int_in_range(0..=10)? {
        0 => {
            let n = u.int_in_range(1..=24)?;
            Case::Encode { thresholds: thresholds(u, n)?, length: length(u)?, address: address(u)? }
        }
        1 => {
            let n = u.int_in_range(1..=700)?;
            Case::Pack { bits: (0..n).map(|_| u.arbitrary()).collect::<Result<_>>()? }
        }
        2 => {
            let length = length(u)?;
            Case::Unpack { stream: stream(u, length)? }
        }
        3 => {
            let (gate, length) = (*u.choose(&Gate::ALL)?, length(u)?);
            Case::Gate { gate, a: stream(u, length)?, b: stream(u, length)? }
        }
        4 => {
            let length = length(u)?;
            Case::Not { a: stream(u, length)? }
        }
        5 => {
            let length = length(u)?;
            Case::Mux { select: stream(u, length)?, a: stream(u, length)?, b: stream(u, length)? }
        }
        6 => {
            let length = long(u)?;
            Case::AndPopcount { a: stream(u, length)?, b: stream(u, length)? }
        }
        7 => {
            let length = long(u)?;
            Case::Popcount { a: stream(u, length)? }
        }
        8 => Case::Dense(dense(u)?),
        9 => Case::Sparse(sparse(u)?),
        _ => lif(u)?,
    })
}

fn length(u: &mut Unstructured<'_>) -> Result<Length> {
    Ok(Length::new(u.int_in_range(1..=600)?).unwrap())
}

/// Past sixteen registers of every width, and two of them still within the bytes that a fuzzer makes by default.
fn long(u: &mut Unstructured<'_>) -> Result<Length> {
    Ok(Length::new(u.int_in_range(1..=12_000)?).unwrap())
}

/// Bytes that run out become zeros, so a short input is a sparse stream and not an error.
fn stream(u: &mut Unstructured<'_>, length: Length) -> Result<BitStream> {
    let mut words = (0..length.words()).map(|_| u.arbitrary()).collect::<Result<Vec<u64>>>()?;
    *words.last_mut().unwrap() &= length.tail_mask();
    Ok(BitStream::from_words(words, length).unwrap())
}

fn thresholds(u: &mut Unstructured<'_>, n: usize) -> Result<Vec<Threshold>> {
    let one = |u: &mut Unstructured<'_>| {
        // All precisions: thresholds with few digits end comparisons early.
        let shift = u.int_in_range(0..=31)?;
        let digits = u64::from(u.arbitrary::<u32>()? >> shift << shift) + u64::from(u.ratio(1, 16)?);
        Ok(Threshold::from_probability(digits as f64 / 4_294_967_296.0).unwrap())
    };
    (0..n).map(|_| one(u)).collect()
}

fn address(u: &mut Unstructured<'_>) -> Result<StreamAddress> {
    Ok(StreamAddress {
        seed: u.arbitrary()?,
        domain: *u.choose(&Domain::ALL)?,
        layer: LayerIndex::new(u.int_in_range(0..=LayerIndex::MAX as usize)?).unwrap(),
        row: u.arbitrary()?,
        unit: u.int_in_range(0..=u32::MAX - 24)?,
    })
}

fn polarity(u: &mut Unstructured<'_>) -> Result<Polarity> {
    Ok(*u.choose(&[Polarity::Unipolar, Polarity::Bipolar])?)
}

fn dense(u: &mut Unstructured<'_>) -> Result<DenseCase> {
    let (n, m, samples) = (u.int_in_range(1..=12)?, u.int_in_range(1..=12)?, u.int_in_range(0..=12)?);
    Ok(DenseCase {
        shape: DenseShape::new(n, m, length(u)?, polarity(u)?).unwrap(),
        layer: LayerIndex::new(u.int_in_range(0..=LayerIndex::MAX as usize)?).unwrap(),
        weight_seed: u.arbitrary()?,
        input_seed: u.arbitrary()?,
        first_row: u.int_in_range(0..=u32::MAX - 12)?,
        weights: thresholds(u, n * m)?,
        inputs: thresholds(u, n * samples)?,
    })
}

fn sparse(u: &mut Unstructured<'_>) -> Result<SparseCase> {
    let (n, m, samples) = (u.int_in_range(1..=12)?, u.int_in_range(1..=12)?, u.int_in_range(0..=4)?);
    let (length, polarity) = (length(u)?, polarity(u)?);
    let mask = (0..n * m).map(|_| u.arbitrary()).collect::<Result<Vec<bool>>>()?;
    let connections = Connections::from_mask(&mask, n).unwrap();
    Ok(SparseCase {
        length,
        polarity,
        weight_seed: u.arbitrary()?,
        input_seed: u.arbitrary()?,
        first_row: u.int_in_range(0..=u32::MAX - 4)?,
        weights: thresholds(u, connections.len())?,
        inputs: thresholds(u, n * samples)?,
        connections,
    })
}

fn lif(u: &mut Unstructured<'_>) -> Result<Case> {
    let params = LifParams::new(u.int_in_range(1..=16)?, u.int_in_range(0..=31)?)
        .unwrap()
        .with_rest(u.arbitrary()?)
        .with_reset(u.arbitrary()?)
        .with_threshold(u.arbitrary()?)
        .with_refractory_period(u.int_in_range(0..=5)?);
    let (leak_k, gain_k) = (u.arbitrary()?, u.arbitrary()?);
    if u.arbitrary()? {
        let n = u.int_in_range(1..=200)?;
        let drive = |_| Ok(LifDrive { leak_k, gain_k, current: u.arbitrary()?, noise: u.arbitrary()? });
        return Ok(Case::LifRun { params, drives: (0..n).map(drive).collect::<Result<_>>()? });
    }
    let (n, n_steps) = (u.int_in_range(1..=80)?, u.int_in_range(1..=100)?);
    let drive = LifDrive { leak_k, gain_k, current: 0, noise: u.arbitrary()? };
    let currents = (0..n).map(|_| u.arbitrary()).collect::<Result<_>>()?;
    Ok(Case::LifMulti { params, drive, currents, n_steps })
}

//! Runs one operation on one tier repeatedly, for tools that count instructions: `instructions TIER
//! OPERATION REPEATS`.
//!
//! Everything is prepared before the first repeat, so two runs differ only by the instructions of
//! the additional repeats. Prints the units of work in a repeat: words of 64 bits, look-ups, or
//! steps of a neuron. `cargo xtask instructions` counts with an emulator.

use aleatron_core::generator::{Pairing, Sequence, Sharing, Sobol, Width};
use aleatron_core::lif::{LifDrive, LifParams};
use aleatron_core::{DenseShape, Length, Polarity, StreamAddress, Threshold};
use aleatron_cpu::{Cpu, Pool, TabledWeights, Tier};
use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;

/// Words of the buffers that are counted, packed and unpacked.
const WORDS: usize = 1024;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [tier, operation, repeats] = arguments.as_slice() else {
        return Err("usage: instructions TIER OPERATION REPEATS".into());
    };
    let cpu = Cpu::new(Tier::from_name(tier)?, Arc::new(Pool::new(1)?));
    let units = run(&cpu, operation, repeats.parse()?)?;
    println!("{units}");
    Ok(())
}

/// Runs an operation and returns the units of work in a repeat.
fn run(cpu: &Cpu, operation: &str, repeats: usize) -> Result<usize, Box<dyn Error>> {
    let words: Vec<u64> =
        (1..=WORDS as u64).map(|k| k.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let others: Vec<u64> = words.iter().map(|word| word.rotate_left(17)).collect();
    let mut bits = vec![0; 64 * WORDS];
    match operation {
        "ones" => {
            (0..repeats).for_each(|_| _ = black_box(cpu.popcount(black_box(&words))));
            Ok(WORDS)
        }
        "and_ones" => {
            for _ in 0..repeats {
                black_box(cpu.and_popcount(black_box(&words), &others)?);
            }
            Ok(WORDS)
        }
        "dense" | "dense_batch" => {
            // Four neurons by one sample or four, with rows of 256 inputs by 1024 bits.
            let samples = if operation == "dense" { 1 } else { 4 };
            let shape = DenseShape::new(256, 4, Length::new(1024)?, Polarity::Unipolar)?;
            let (weights, inputs) = (words.repeat(16), others.repeat(4 * samples));
            let ones = cpu.row_ones(&weights, shape.row_words());
            for _ in 0..repeats {
                black_box(cpu.dense_counts(&shape, black_box(&weights), &ones, &inputs)?);
            }
            Ok(4 * samples * shape.row_words())
        }
        "encode" => {
            let thresholds: Result<Vec<_>, _> =
                (0..64).map(|k| Threshold::from_probability(f64::from(k) / 64.0 + 0.0071)).collect();
            let (thresholds, length) = (thresholds?, Length::new(1024)?);
            let mut out = vec![0; 64 * 16];
            for seed in 0..repeats {
                let address = StreamAddress::input(seed as u64, 0, 0);
                cpu.encode_rows_into(&thresholds, 64, length, address, black_box(&mut out))?;
            }
            Ok(out.len())
        }
        "pack" => {
            cpu.unpack_into(&words, &mut bits)?;
            let mut out = vec![0; WORDS];
            for _ in 0..repeats {
                cpu.pack_into(black_box(&bits), black_box(&mut out))?;
            }
            Ok(WORDS)
        }
        "unpack" => {
            for _ in 0..repeats {
                cpu.unpack_into(black_box(&words), black_box(&mut bits))?;
            }
            Ok(WORDS)
        }
        "sequences" => {
            let sobol = Sequence::Sobol(Sobol::new(1, Width::EIGHT)?);
            let thresholds: Vec<u64> = (0..256).collect();
            let mut out = vec![0; 256 * 16];
            for _ in 0..repeats {
                cpu.encode_sequences(&sobol, &thresholds, 1, Length::new(1024)?, black_box(&mut out))?;
            }
            Ok(out.len())
        }
        "look_up" => {
            let (n, m) = (64, 512);
            let shape = DenseShape::new(n, m, Length::new(1024)?, Polarity::Bipolar)?;
            let sobol = |dimension| Sobol::new(dimension, Width::EIGHT).map(Sequence::Sobol);
            let pairing = Pairing { inputs: sobol(1)?, weights: sobol(2)?, sharing: Sharing::OneForAll };
            let threshold = |k: usize| (k * 7919 % 257) as u64;
            let weights: Vec<u64> = (0..n * m).map(threshold).collect();
            let inputs: Vec<u64> = (0..n).map(threshold).collect();
            let weights = TabledWeights::new(shape, &pairing, &weights)?;
            for _ in 0..repeats {
                black_box(cpu.table_counts(&weights, black_box(&inputs))?);
            }
            Ok(n * m)
        }
        "lif" => {
            let drive = LifDrive { leak_k: 20, gain_k: 256, current: 0, noise: 1 };
            let currents: Vec<i16> = (0..64).map(|k| k * 3).collect();
            for _ in 0..repeats {
                black_box(cpu.lif_run_multi(LifParams::default(), drive, black_box(&currents), 256)?);
            }
            Ok(64 * 256)
        }
        _ => Err(
            "the operations are ones, and_ones, dense, dense_batch, encode, pack, unpack, sequences, look_up and \
                  lif"
                .into(),
        ),
    }
}

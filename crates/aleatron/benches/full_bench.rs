//! Dense layers: single samples against the memory they stream, batches against the registers'
//! counting rate.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use aleatron::{
    Cpu, Length, Polarity, Pool, Quantity, StreamLayer, Tier, encode_inputs, reference,
    set_num_threads, threshold,
};
use aleatron_core::StreamMatrix;
use std::sync::Arc;
use support::{Ceiling, Table, Timing, keep, rate};

const LENGTH: usize = 1024;
const SEED: u64 = 44257;

fn main() {
    let mut table = Table::from_arguments();
    let cores = std::thread::available_parallelism().unwrap().get();
    for threads in [1, cores] {
        set_num_threads(threads).unwrap();
        let cpu = Cpu::new(Tier::current().unwrap(), Arc::new(Pool::new(threads).unwrap()));
        for (n_inputs, n_neurons) in [(64, 32), (512, 256), (1000, 500)] {
            single(&mut table, &cpu, n_inputs, n_neurons);
        }
        for (n_inputs, n_neurons, n_samples) in [(64, 32, 100), (512, 256, 64), (1000, 500, 64)] {
            batch(&mut table, &cpu, n_inputs, n_neurons, n_samples);
        }
        if cores == 1 {
            break;
        }
    }
    construct(&mut table);
    table.print(&format!("Dense layers, L = {LENGTH}, on {}", Tier::current().unwrap()));
}

/// Benchmarks one sample from probabilities to counts; the ceiling only reads the weights.
fn single(table: &mut Table, cpu: &Cpu, n_inputs: usize, n_neurons: usize) {
    let name = format!("{n_inputs}->{n_neurons}, one sample, {}", threads(cpu));
    if !table.wants(&name) {
        return;
    }
    let layer = layer(n_inputs, n_neurons);
    let x = values(n_inputs);
    check(&layer, &x);
    let streams = layer.weight_streams().unwrap();
    let bytes = 8.0 * streams.words().len() as f64;
    // As in a layer: aligned, on huge pages.
    let mut weights =
        aleatron_cpu::WordBuffer::zeroed(streams.words().len(), Quantity::Weights).unwrap();
    weights.copy_from_slice(streams.words());
    drop(streams);
    let mut seed = SEED;
    table.case(
        &name,
        rate(bytes, "B/s"),
        || keep(layer.counts(&x, next(&mut seed)).unwrap()),
        Some(reading(&mut || keep(cpu.ceiling_read(&weights)))),
    );
    table.case(
        &format!("{name}, seed used before"),
        rate(bytes, "B/s"),
        || keep(layer.counts(&x, SEED).unwrap()),
        Some(reading(&mut || keep(cpu.ceiling_read(&weights)))),
    );
}

/// Benchmarks a batch; the ceiling ANDs, counts and adds registers that are never loaded.
fn batch(table: &mut Table, cpu: &Cpu, n_inputs: usize, n_neurons: usize, n_samples: usize) {
    let name = format!("{n_inputs}->{n_neurons} x {n_samples}, {}", threads(cpu));
    if !table.wants(&name) {
        return;
    }
    let layer = layer(n_inputs, n_neurons);
    let x = values(n_inputs * n_samples);
    check(&layer, &x[..n_inputs]);
    assert_eq!(
        layer.counts_batch(&x, SEED).unwrap()[..n_neurons],
        layer.counts(&x[..n_inputs], SEED).unwrap()
    );
    let pairs = layer.spec().weight_words() * n_samples;
    let ceiling_words = pairs / 16;
    let streams =
        encode_inputs(&x, n_inputs, Length::new(LENGTH).unwrap(), Polarity::Unipolar, SEED)
            .unwrap();
    let scale = pairs as f64 / (ceiling_words * cpu.threads()) as f64;
    let mut work = || keep(cpu.ceiling_count(ceiling_words));
    table.case(
        &format!("{name}, encoded"),
        rate(64.0 * pairs as f64, "bit-MAC/s"),
        || keep(layer.counts_encoded(&streams).unwrap()),
        Some(counting(&mut work, scale)),
    );
    let mut seed = SEED;
    table.case(
        &name,
        rate(64.0 * pairs as f64, "bit-MAC/s"),
        || keep(layer.counts_batch(&x, next(&mut seed)).unwrap()),
        Some(counting(&mut work, scale)),
    );
    table.case(
        &format!("{name}, seed used before"),
        rate(64.0 * pairs as f64, "bit-MAC/s"),
        || keep(layer.counts_batch(&x, SEED).unwrap()),
        Some(counting(&mut work, scale)),
    );
}

/// Returns the ceiling of a single sample: reading a copy of the weights.
fn reading(work: &mut dyn FnMut()) -> Ceiling<'_> {
    Ceiling { name: "reading the weights", work, scale: 1.0, timing: Timing::Separate }
}

/// Returns the ceiling of a batch.
fn counting(work: &mut dyn FnMut(), scale: f64) -> Ceiling<'_> {
    Ceiling { name: "counting registers", work, scale, timing: Timing::Alternating }
}

/// Returns a new seed for each call: cached draws cannot be reused.
fn next(seed: &mut u64) -> u64 {
    *seed += 1;
    *seed
}

fn construct(table: &mut Table) {
    let name = "construct 1000->500";
    if table.wants(name) {
        table.case(
            name,
            rate(1000.0 * 500.0 * LENGTH as f64, "bit/s"),
            || keep(layer(1000, 500)),
            None,
        );
    }
}

fn threads(cpu: &Cpu) -> String {
    match cpu.threads() {
        1 => "1 thread".to_owned(),
        n => format!("{n} threads"),
    }
}

fn values(n: usize) -> Vec<f64> {
    (0..n).map(|i| ((i * 7919) % 1009) as f64 / 1009.0).collect()
}

fn layer(n_inputs: usize, n_neurons: usize) -> StreamLayer {
    StreamLayer::dense(n_inputs, n_neurons).length(LENGTH).seed(1).build().unwrap()
}

/// Checks the first neuron with the reference.
fn check(layer: &StreamLayer, x: &[f64]) {
    let (spec, one) = (layer.spec(), layer.spec().neurons(0..1).unwrap());
    let first = layer.weight_streams().unwrap().words()[..spec.sample_words()].to_vec();
    let weights = StreamMatrix::from_words(first, spec.n_inputs(), spec.length()).unwrap();
    let inputs =
        encode_inputs(x, spec.n_inputs(), spec.length(), Polarity::Unipolar, SEED).unwrap();
    let thresholds = threshold::thresholds(x, Polarity::Unipolar, Quantity::Value).unwrap();
    let address = aleatron::StreamAddress::input(SEED, 0, 0);
    assert_eq!(inputs.stream(0).unwrap(), reference::encode(thresholds[0], spec.length(), address));
    assert_eq!(layer.counts(x, SEED).unwrap()[..1], reference::counts(&one, &weights, &inputs));
}

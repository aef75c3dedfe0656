//! Benchmarks of convolutions against dense layers with as many products, tables against bits, and
//! signed layers against unipolar ones.
//!
//! `cargo bench --bench conv_bench`; an argument selects the cases whose name contains it.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use aleatron::backend::CountMethod;
use aleatron::conformance::{Case, LayerCase, Reference};
use aleatron::{
    Convolution, Cpu, LayerBuilder, Polarity, Pool, SampleSeed, StreamLayer, Tier, Weights,
    set_num_threads,
};
use std::sync::Arc;
use support::{Ceiling, Table, Timing, keep, rate};

const SEED: u64 = 44257;

/// 32 channels to 64 by kernels of 3 x 3 on 28 x 28 positions.
const CONV: Convolution = Convolution::conv2d([32, 28, 28], 64, [3, 3]).with_padding([1, 1]);

fn main() {
    let mut table = Table::from_arguments();
    let cores = std::thread::available_parallelism().unwrap().get();
    for threads in [1, cores] {
        set_num_threads(threads).unwrap();
        let cpu = Cpu::new(Tier::current().unwrap(), Arc::new(Pool::new(threads).unwrap()));
        let threads =
            if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
        for polarity in Polarity::ALL {
            let dense = StreamLayer::dense(1000, 500).length(1024).polarity(polarity);
            batch(
                &mut table,
                &cpu,
                &format!("dense 1000->500 x 64, L = 1024, {polarity}, {threads}"),
                dense,
                64,
            );
        }
        // The same numbers of products and of rows of weights as in the convolution.
        let dense = StreamLayer::dense(288, 64).length(256);
        batch(&mut table, &cpu, &format!("dense 288->64 x 784, L = 256, {threads}"), dense, 784);
        for polarity in Polarity::ALL {
            let conv = StreamLayer::convolution(CONV).length(256).polarity(polarity);
            batch(
                &mut table,
                &cpu,
                &format!("conv 32->64, 3x3, 28x28, L = 256, {polarity}, {threads}"),
                conv,
                4,
            );
        }
        for (name, method) in [("bits", CountMethod::Bits), ("tables", CountMethod::Tables)] {
            let conv = StreamLayer::convolution(CONV).signed().length(1024).method(method);
            let conv = conv.generator("sobol".parse().unwrap());
            let name = format!("conv 32->64, 3x3, 28x28, L = 1024, sobol, {name}, {threads}");
            batch(&mut table, &cpu, &name, conv, 4);
        }
        if cores == 1 {
            break;
        }
    }
    table.print(&format!("Convolutions and signed layers on {}", Tier::current().unwrap()));
}

/// Benchmarks a batch whose seed was used before; the ceiling ANDs, counts and adds registers that
/// are never loaded.
fn batch(table: &mut Table, cpu: &Cpu, name: &str, layer: LayerBuilder, n_samples: usize) {
    if !table.wants(name) {
        return;
    }
    let layer = layer.seed(1).build().unwrap();
    let spec = layer.spec();
    let [low, high] = spec.polarity().interval();
    let value = |i: usize| low + (high - low) * ((i * 7919) % 1009) as f64 / 1009.0;
    let x: Vec<f64> = (0..spec.n_inputs() * n_samples).map(value).collect();
    check(&layer, &x[..spec.n_inputs()]);
    let pairs = spec.product_words() * n_samples;
    let ceiling_words = pairs / 16;
    let scale = pairs as f64 / (ceiling_words * cpu.threads()) as f64;
    let mut work = || keep(cpu.ceiling_count(ceiling_words));
    table.case(
        name,
        rate(64.0 * pairs as f64, "bit-MAC/s"),
        || keep(layer.counts_batch(&x, SEED).unwrap()),
        Some(Ceiling {
            name: "counting registers",
            work: &mut work,
            scale,
            timing: Timing::Alternating,
        }),
    );
}

/// Checks the neurons of the first row of weights with the reference.
fn check(layer: &StreamLayer, x: &[f64]) {
    let rows = layer.spec().neurons_per_row();
    let spec = layer.spec().neurons(0..rows).unwrap();
    let weights = Weights::new(&spec, layer.weights()[..spec.n_weights()].to_vec()).unwrap();
    let case = LayerCase {
        weights: spec.weight_thresholds(&weights).unwrap(),
        inputs: spec.input_thresholds(x).unwrap(),
        spec,
        seed: SampleSeed::new(SEED),
        method: CountMethod::Bits,
    };
    assert_eq!(layer.counts(x, SEED).unwrap()[..rows], Reference.answer(&Case::Layer(case)));
}

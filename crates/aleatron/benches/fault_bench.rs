//! Layers with transient faults of inputs, weight streams and products, each beside the same layer
//! without faults.
//!
//! `cargo bench --bench fault_bench`; an argument keeps the cases whose name has it.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use aleatron::backend::{Backend, Batch, FaultBackend, PrepareOptions, PreparedLayer};
use aleatron::fault::{Faults, plain};
use aleatron::{Cpu, CpuBackend, Encoding, LayerSpec, Length, Polarity, SampleSeed, Tier, Weights};
use aleatron_core::Cancel;
use std::sync::Arc;
use support::{Table, ceiling, keep, rate};

const SEED: u64 = 44257;

fn main() {
    let mut table = Table::from_arguments();
    let sizes = [(64, 32, 256, 16), (64, 32, 1024, 16), (1000, 500, 256, 8), (1000, 500, 1024, 8)];
    for (n_inputs, n_neurons, bits, n_samples) in sizes {
        let length = Length::new(bits).unwrap();
        let encoding = Encoding::Bernoulli { seed: 1 };
        let spec =
            LayerSpec::dense(n_inputs, n_neurons, length, Polarity::Bipolar, encoding).unwrap();
        for site in ["inputs", "weights", "products"] {
            for rate in ["1e-5", "1e-4", "1e-3", "1e-2", "1e-1"] {
                let name =
                    format!("{n_inputs}->{n_neurons} x {n_samples}, L = {bits}, {site} {rate}");
                layer(&mut table, &name, &spec, n_samples, &format!("{site}:transient:{rate}"));
            }
        }
    }
    let threads = Cpu::current().unwrap().threads();
    table.print(&format!("Faults on {}, {threads} threads", Tier::current().unwrap()));
}

/// A layer on the CPU with faults, of new samples each time.
fn layer(table: &mut Table, name: &str, spec: &LayerSpec, n_samples: usize, fault: &str) {
    if !table.wants(name) {
        return;
    }
    let faults = Faults::new(7, vec![fault.parse().unwrap()]).unwrap();
    let values = |n: usize, step: usize| -> Vec<f64> {
        (0..n).map(|i| (i * step % 1009) as f64 / 504.5 - 1.0).collect()
    };
    let weights = Weights::new(spec, values(spec.n_weights(), 7919)).unwrap();
    let x = values(spec.n_inputs() * n_samples, 5077);
    let backend: Arc<dyn Backend> = Arc::new(CpuBackend::CURRENT);
    let options = PrepareOptions::default();
    let prepare = |backend: &dyn Backend| backend.prepare(spec, &weights, &options).unwrap();
    let [without, with] =
        [prepare(&*backend), prepare(&*FaultBackend::wrap(Arc::clone(&backend), &faults))];
    check(spec, &faults, &weights, &x, &*with);
    let count = |layer: &dyn PreparedLayer, first: &mut u32| {
        let seed = SampleSeed::new(SEED).starting_at(*first);
        *first += n_samples as u32;
        keep(layer.counts(&Batch::values(&x, seed), Cancel::NEVER).unwrap());
    };
    let mut first = [0, 0];
    let [first_without, first_with] = &mut first;
    table.case(
        name,
        rate(n_samples as f64, "samples/s"),
        || count(&*with, first_with),
        ceiling("the layer without faults", &mut || count(&*without, first_without)),
    );
}

/// Compares the first two neurons of the first sample with the plain definition.
fn check(
    spec: &LayerSpec,
    faults: &Faults,
    weights: &Weights,
    x: &[f64],
    layer: &dyn PreparedLayer,
) {
    let seed = SampleSeed::new(SEED).starting_at(3);
    let counts = layer.counts(&Batch::values(x, seed), Cancel::NEVER).unwrap();
    let part = spec.neurons(0..2).unwrap();
    let weights = spec.weight_thresholds(weights).unwrap();
    let inputs = spec.input_thresholds(&x[..spec.n_inputs()]).unwrap();
    let own = &weights[..part.n_weights()];
    assert_eq!(counts[..2], plain::counts(&part, faults, own, &inputs, seed).unwrap());
}

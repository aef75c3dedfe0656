//! Benchmarks of scaling with the stream length, the size of a layer, the batch and the threads;
//! the table shows deviations from linear scaling.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use aleatron::{StreamLayer, Tier, set_num_threads};
use support::{Table, keep, rate};

fn main() {
    let mut table = Table::from_arguments();
    set_num_threads(1).unwrap();
    for length in [128, 256, 512, 1024, 2048, 4096] {
        case(&mut table, &format!("32->16, L = {length}"), 32, 16, length, 1);
    }
    for length in [128, 256, 512, 1024, 2048, 4096] {
        case(&mut table, &format!("256->128 x 16, L = {length}"), 256, 128, length, 16);
    }
    for n in [32, 64, 128, 256, 512] {
        case(&mut table, &format!("{n}->{n} x 16, L = 1024"), n, n, 1024, 16);
    }
    for batch in [1, 10, 100, 1000] {
        case(&mut table, &format!("64->32 x {batch}, L = 1024"), 64, 32, 1024, batch);
    }
    let cores = std::thread::available_parallelism().unwrap().get();
    for threads in (0..).map(|k| 1 << k).take_while(|n| *n <= cores) {
        set_num_threads(threads).unwrap();
        case(&mut table, &format!("512->256 x 64, {threads} of {cores} cores"), 512, 256, 1024, 64);
    }
    table.print(&format!(
        "Scaling on {} (one thread where none is named)",
        Tier::current().unwrap()
    ));
}

fn case(
    table: &mut Table,
    name: &str,
    n_inputs: usize,
    n_neurons: usize,
    length: usize,
    n_samples: usize,
) {
    if !table.wants(name) {
        return;
    }
    let layer = StreamLayer::dense(n_inputs, n_neurons).length(length).seed(1).build().unwrap();
    let x: Vec<f64> = (0..n_inputs * n_samples).map(|i| (i * 31 % 97) as f64 / 97.0).collect();
    let whole = layer.counts_batch(&x, 7).unwrap();
    assert_eq!(whole[..n_neurons], layer.counts(&x[..n_inputs], 7).unwrap());
    let macs = (n_inputs * n_neurons * length * n_samples) as f64;
    let mut seed = 7;
    let work = || {
        // A new seed each time: cached draws cannot be reused.
        seed += 1;
        keep(layer.counts_batch(&x, seed).unwrap());
    };
    table.case(name, rate(macs, "bit-MAC/s"), work, None);
}

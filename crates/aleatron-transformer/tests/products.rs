//! Products of matrices with 1 to 33 rows of activations, whose kernels differ: against f64, within
//! the bound that `common/reference.rs` derives.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use aleatron_transformer::weights::Loader;
use aleatron_transformer::weights::random::{RandomTensors, sized};
use aleatron_transformer::{
    Config, CpuForwardPass, DeviceChoice, ForwardPass, Logits, Precision, Segment,
};
use common::reference::Reference;
use common::rounding;

const SEED: u64 = 11;

/// Returns the CPU, the GPU, and the GPU without subgroups and other abilities.
fn passes(loader: &Loader<'_>) -> Vec<(DeviceChoice, Box<dyn ForwardPass>)> {
    let mut all: Vec<(DeviceChoice, Box<dyn ForwardPass>)> =
        vec![(DeviceChoice::Cpu, Box::new(CpuForwardPass::new(loader).unwrap()))];
    #[cfg(feature = "gpu")]
    {
        use aleatron_device::{Capabilities, ContextOptions, GpuContext};
        use aleatron_transformer::WgslForwardPass;
        use std::sync::{Arc, OnceLock};
        static CONTEXTS: OnceLock<[Arc<GpuContext>; 2]> = OnceLock::new();
        let contexts = CONTEXTS.get_or_init(|| {
            [Capabilities::ALL, Capabilities::NONE].map(|capabilities| {
                let options = ContextOptions { capabilities, ..ContextOptions::default() };
                GpuContext::open(&common::adapter(), &options).unwrap()
            })
        });
        for context in contexts {
            let pass = WgslForwardPass::new(context, loader).unwrap();
            all.push((DeviceChoice::Gpu(Some(context.info().index)), Box::new(pass)));
        }
    }
    all
}

/// Returns the configuration of one layer with these widths: hidden, inner, vocabulary. Heads are
/// small.
fn config([hidden, inner, vocabulary]: [usize; 3]) -> Config {
    let small = sized("tiny").unwrap();
    Config { layers: 1, hidden, heads: 3, kv_heads: 1, head_dim: 6, inner, vocabulary, ..small }
}

fn check(sizes: [usize; 3], rows: impl Iterator<Item = usize> + Clone) {
    let config = config(sizes);
    let vocabulary = config.vocabulary;
    for precision in [Precision::F32, Precision::F16, Precision::Int8] {
        let loader = Loader {
            config: &config,
            source: &RandomTensors { seed: SEED },
            precision,
            merged: None,
        };
        let reference = Reference::new(&loader, None);
        for (device, mut pass) in passes(&loader) {
            let sequence = pass.open().unwrap();
            for rows in rows.clone() {
                let tokens: Vec<u32> =
                    (0..rows).map(|i| ((i * i + rows) % vocabulary) as u32).collect();
                pass.truncate(sequence, 0).unwrap();
                let logits =
                    pass.forward(&[Segment { sequence, tokens: &tokens }], Logits::All).unwrap();
                let trace = reference.read(&tokens, rounding(device, precision, rows));
                for row in [0, rows / 2, rows - 1] {
                    let logits = &logits[row * vocabulary..][..vocabulary];
                    let what = format!("{rows} rows of {sizes:?}, {precision} on {device}");
                    trace.assert_row(row, logits, (row % 3..vocabulary).step_by(9), &what);
                }
            }
        }
    }
}

#[test]
fn products_of_every_number_of_rows_match_reference() {
    // No size is a multiple of what a workgroup, a lane or a vector takes.
    check([50, 37, 45], 1..=33);
}

#[test]
fn sums_over_several_iterations_of_lanes_match_reference() {
    // From one vector short of a turn of 64 lanes with four vectors each, to one past it.
    for hidden in [1020, 1024, 1040, 2058] {
        check([hidden, 7, 19], [1, 3, 5, 8, 11, 16, 17].into_iter());
    }
}

#[test]
fn products_of_one_row_and_one_column_match_reference() {
    check([2, 1, 1], [1, 2, 5, 9, 16, 20].into_iter());
}

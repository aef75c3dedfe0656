//! Random networks. `ALEATRON_HARDWARE_CASES=200 cargo test -p aleatron-hardware random` runs more
//! of them, from number `ALEATRON_HARDWARE_FIRST` on.

use crate::support::{check, config};
use aleatron_core::arithmetic::{Pool, PoolKind};
use aleatron_core::generator::Sharing;
use aleatron_core::{Convolution, Polarity};
use aleatron_engine::network::{Activation, Network, NetworkBuilder, StreamConfig};
use aleatron_hardware::simulate::Simulator;
use aleatron_hardware::{Circuit, ClockGating, Margin, Options, Output, Pipeline};

/// A deterministic source of test cases.
struct Draws(u64);

impl Draws {
    fn word(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Returns a number from `low` to `high`.
    fn between(&mut self, low: usize, high: usize) -> usize {
        low + (self.word() % (high - low + 1) as u64) as usize
    }

    fn choose<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.between(0, items.len() - 1)]
    }

    /// Returns numbers in [-1, 1], or in [0, 1] for unipolar streams.
    fn values(&mut self, n: usize, polarity: Polarity) -> Vec<f64> {
        let low = if polarity == Polarity::Unipolar { 0.0 } else { -1.0 };
        (0..n).map(|_| low + (1.0 - low) * (self.word() % 65) as f64 / 64.0).collect()
    }

    fn activation(&mut self) -> Activation {
        self.choose(&[
            Activation::Identity,
            Activation::Relu,
            Activation::Clamp { low: -0.5, high: 1.5 },
        ])
    }
}

fn cases() -> u64 {
    std::env::var("ALEATRON_HARDWARE_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(11)
}

fn first() -> u64 {
    std::env::var("ALEATRON_HARDWARE_FIRST").ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn options(draws: &mut Draws) -> Options {
    Options {
        clock_gating: draws.choose(&[ClockGating::Enables, ClockGating::Cells]),
        lanes: draws.choose(&[None, Some(1), Some(3), Some(8)]),
        pipeline: draws.choose(&[Pipeline::None, Pipeline::Registers]),
        output: draws.choose(&[Output::Scores, Output::Scores, Output::Class]),
        ..Options::default()
    }
}

fn dense(draws: &mut Draws) -> (Network, StreamConfig, Polarity) {
    let polarity = draws.choose(&Polarity::ALL);
    // One in six networks has up to 200 inputs and neurons, and streams that Icarus simulates in
    // seconds.
    let is_large = draws.between(0, 5) == 5;
    let most = if is_large { [200, 200] } else { [20, 12] };
    let mut n = draws.between(1, most[0]);
    let mut builder = NetworkBuilder::new("dense", &[n]);
    for layer in 0..draws.between(1, if is_large { 2 } else { 3 }) {
        let m = draws.between(1, most[1]);
        builder = builder
            .dense(
                &format!("layer{layer}"),
                n,
                &draws.values(n * m, polarity),
                &draws.values(m, Polarity::Bipolar),
            )
            .polarity(polarity)
            .activation(draws.activation());
        n = m;
    }
    let generator = draws.choose(&["lfsr", "sobol", "vdc", "ramp", "halton", "lfsr:3+sobol:2"]);
    let length = if is_large {
        draws.choose(&[1, 7, 16])
    } else {
        draws.choose(&[1, 2, 7, 16, 33, 64, 100])
    };
    let is_shared = !["lfsr", "sobol"].contains(&generator);
    let sharing = if is_shared { Sharing::OneForAll } else { draws.choose(&Sharing::ALL) };
    (builder.build().unwrap(), config(length, generator).sharing(sharing), polarity)
}

fn conv(draws: &mut Draws) -> (Network, StreamConfig, Polarity) {
    let polarity = draws.choose(&Polarity::ALL);
    let groups = draws.between(1, 3);
    let (channels, out) = (groups * draws.between(1, 2), groups * draws.between(1, 3));
    let size = [draws.between(3, 6), draws.between(3, 6)];
    let kernel = [draws.between(1, 3), draws.between(1, 3)];
    let stride = [draws.between(1, 2), draws.between(1, 3)];
    let mut padding = [[0; 2]; 2];
    padding.iter_mut().flatten().for_each(|side| *side = draws.between(0, 1));
    let dilation = if kernel[0] < 3 && kernel[1] < 3 { [draws.between(1, 2), 1] } else { [1, 1] };
    let convolution = Convolution::conv2d([channels, size[0], size[1]], out, kernel)
        .with_stride(stride)
        .with_paddings(padding)
        .with_dilation(dilation)
        .with_groups(groups);
    let shape = aleatron_core::ConvShape::new(convolution).unwrap();
    let weights = draws.values(shape.n_weights(), polarity);
    let mut builder = NetworkBuilder::new("conv", &[channels, size[0], size[1]])
        .convolution("conv", convolution, &weights, &draws.values(out, Polarity::Bipolar))
        .polarity(polarity)
        .activation(draws.activation());
    let [_, mut rows, mut columns] = shape.output();
    if rows > 1 && columns > 1 {
        let kind = draws.choose(&[PoolKind::Max, PoolKind::Average]);
        builder = builder.pool(Pool::new(kind, [2, 2]));
        (rows, columns) = (rows / 2, columns / 2);
    }
    let n = out * rows * columns;
    let m = draws.between(1, 4);
    let network = builder
        .dense("last", n, &draws.values(n * m, polarity), &[])
        .polarity(polarity)
        .build()
        .unwrap();
    (
        network,
        config(draws.choose(&[3, 8, 17]), draws.choose(&["lfsr", "sobol", "halton"])),
        polarity,
    )
}

/// Replaces the streams of a network by integers of random widths.
fn with_integers(
    make: impl Fn(&mut Draws) -> (Network, StreamConfig, Polarity),
) -> impl Fn(&mut Draws) -> (Network, StreamConfig, Polarity) {
    move |draws| {
        let (network, config, polarity) = make(draws);
        let generator =
            draws.choose(&["int2", "int3", "int4", "int6", "int8", "int9"]).parse().unwrap();
        (network, config.generator(generator), polarity)
    }
}

fn run(name: &str, make: impl Fn(&mut Draws) -> (Network, StreamConfig, Polarity)) {
    for case in first()..cases() {
        let mut draws = Draws(case);
        let (network, config, polarity) = make(&mut draws);
        let mut options = options(&mut draws);
        if options.output == Output::Class {
            let margin = Margin::new(draws.choose(&[0.25, 0.5, 1.0])).unwrap();
            let early = Options { early_termination: Some(margin), ..options };
            // Some networks do not support early termination.
            if Circuit::new(&network, &config, &early).is_ok() {
                options = early;
            }
        }
        let x = draws.values(2 * network.n_features(), polarity);
        check(&format!("{name}-{case}"), &network, &config, &options, &x, Simulator::Icarus);
    }
}

#[test]
fn random_dense_networks_equal_the_engine() {
    run("dense", dense);
}

#[test]
fn random_convolutions_equal_the_engine() {
    run("conv", conv);
}

#[test]
fn random_dense_networks_of_integers_equal_the_engine() {
    run("dense-integers", with_integers(dense));
}

#[test]
fn random_convolutions_of_integers_equal_the_engine() {
    run("conv-integers", with_integers(conv));
}

#[test]
fn random_network_equals_the_engine_in_verilator() {
    let mut draws = Draws(5);
    let (network, config, polarity) = dense(&mut draws);
    let x = draws.values(3 * network.n_features(), polarity);
    check("verilator", &network, &config, &Options::default(), &x, Simulator::Verilator);
}

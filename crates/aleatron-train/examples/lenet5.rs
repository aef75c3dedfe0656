//! Trains LeNet-5 on images of digits in floating point, then through short streams, and prints the
//! accuracies.
//!
//! ```text
//! cargo run --release -p aleatron-train --example lenet5 -- digits.npz [SEEDS]
//! ```
//!
//! The file holds images `x` (n, 28, 28) in 0..1 and classes `y`. A fifth of the images is the test
//! set, on which no choice within a run depends. docs/training.md tells where such images are, and
//! has the results.

use std::error::Error;
use std::time::Instant;

use aleatron_core::Cancel;
use aleatron_data::Dataset;
use aleatron_engine::network::{Network, NetworkShape, StreamConfig, ValueRange, WeightScale};
use aleatron_train::batches::split;
use aleatron_train::{AdamOptions, Forward, OptimizerKind, TrainOptions, calibrate_for, train};

/// Generators and lengths that the network is fine-tuned for, one by one, and the epochs of each.
const TARGETS: [(&str, usize, usize); 4] =
    [("sobol", 8, 10), ("sobol", 16, 10), ("sobol", 32, 10), ("bernoulli", 16, 30)];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: lenet5 digits.npz [SEEDS]")?;
    let seeds: u64 = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let all = Dataset::read(&path)?.with_sample_shape(&[1, 28, 28])?;
    // Settings were chosen on the first fifth: test images are others, and those of the fifth are
    // trained on.
    let (rest, seen) = split(all.len(), 0.2, 0)?;
    let (kept, test) = split(rest.len(), 0.25, 1)?;
    let test: Vec<usize> = test.into_iter().map(|k| rest[k]).collect();
    let training: Vec<usize> = seen.into_iter().chain(kept.into_iter().map(|k| rest[k])).collect();
    let (data, test) = (all.subset("training", &training)?, all.subset("test", &test)?);
    println!("{} images for training, {} for the test", data.len(), test.len());
    println!("seed  streams         before   after  float  seconds");
    for seed in 0..seeds {
        let start = Instant::now();
        let optimizer = OptimizerKind::Adam(AdamOptions { rate: 2e-3, ..AdamOptions::default() });
        let options = TrainOptions { epochs: 15, optimizer, seed, ..TrainOptions::default() };
        let network =
            train(&Network::random(NetworkShape::Lenet5, seed)?, &data, &options)?.network;
        let float = accuracy(&network.predict(test.features())?, &test);
        println!(
            "{seed:>4}  {:<14}{:>8}{:>8}{float:>7.2}{:>9.1}",
            "float",
            "",
            "",
            start.elapsed().as_secs_f64()
        );
        for (generator, length, epochs) in TARGETS {
            let start = Instant::now();
            let config =
                StreamConfig::new(length).generator(generator.parse()?).range(ValueRange::Saturate);
            let configs = std::slice::from_ref(&config);
            let (network, _) =
                calibrate_for(&network, &data, configs, WeightScale::PerRow, Cancel::NEVER)?;
            let before = streams(&network, &config, &test)?;
            let forward = Forward::Streams(vec![config.clone()]);
            let options =
                TrainOptions { epochs, optimizer, forward, seed, ..TrainOptions::default() };
            let trained = train(&network, &data, &options)?.network;
            let after = streams(&trained, &config, &test)?;
            let name = format!("{generator} {length}");
            let seconds = start.elapsed().as_secs_f64();
            println!("{seed:>4}  {name:<14}{before:>8.2}{after:>8.2}{float:>7.2}{seconds:>9.1}");
        }
    }
    Ok(())
}

/// Returns the percentage of images whose class is right as streams.
fn streams(
    network: &Network,
    config: &StreamConfig,
    test: &Dataset,
) -> Result<f64, Box<dyn Error>> {
    Ok(accuracy(&network.to_streams(config)?.predict(test.features(), 0)?, test))
}

fn accuracy(classes: &[usize], test: &Dataset) -> f64 {
    let right = classes.iter().zip(test.labels()).filter(|(class, label)| class == label).count();
    100.0 * right as f64 / test.len() as f64
}

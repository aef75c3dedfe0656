//! `aleatron bench network`: a whole network as streams, compared with the CPU before it is timed.

use super::names::read_name;
use super::{Outcome, read_length, read_positive};
use crate::{Verdict, output};
use aleatron::generator::GeneratorName;
use aleatron::network::{Arithmetic, Calibration, Network, NetworkShape, StreamConfig};
use aleatron::{Cancel, Device};
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Samples that are compared with the CPU's.
const COMPARED: usize = 8;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The network: lenet5 or resnet20, with random weights.
    #[arg(long, value_name = "NAME", default_value_t = NetworkShape::Resnet20, value_parser = read_name::<NetworkShape>)]
    network: NetworkShape,
    /// The stream length in bits.
    #[arg(long, value_name = "BITS", value_parser = read_length, default_value_t = 128)]
    length: usize,
    /// The generator of streams.
    #[arg(long, default_value = "bernoulli", value_parser = read_name::<GeneratorName>)]
    generator: GeneratorName,
    /// The images of a run.
    #[arg(long, value_name = "N", value_parser = read_positive, default_value_t = 1024)]
    images: usize,
    /// The inter-layer arithmetic: float or integer.
    #[arg(long, default_value_t = Arithmetic::Float, value_parser = read_name::<Arithmetic>)]
    arithmetic: Arithmetic,
    /// Where streams run: cpu, gpu, gpu:1, cuda or cuda:1.
    #[arg(long, default_value_t = Device::Cpu, value_parser = read_name::<Device>)]
    device: Device,
    /// Show the time, the launches and the bytes of each kernel.
    #[arg(long)]
    profile: bool,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// The time of all launches of one kernel.
#[derive(Debug, Serialize)]
struct KernelRow {
    kernel: String,
    launches: u32,
    microseconds: f64,
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct Report {
    network: String,
    device: String,
    arithmetic: String,
    length: usize,
    images: usize,
    /// The least time of a run.
    seconds: f64,
    images_per_second: f64,
    bit_macs_per_second: f64,
    /// The time of all kernels over that of a run; chunks that overlap add up to more than 1. None
    /// if the device has no kernel times.
    kernel_share: Option<f64>,
    /// The kernels of a run, the slowest first; empty if they were not requested.
    kernels: Vec<KernelRow>,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let network = Network::random(options.network, 1)?;
    let width = network.n_features();
    aleatron::memory::check(
        options.images as u128 * width as u128 * 8,
        aleatron::Quantity::Inputs,
    )?;
    // Features from 0 to 1, as those of images.
    let images: Vec<f64> =
        (0..options.images * width).map(|i| (i * 7919 % 1009) as f64 / 1008.0).collect();
    let few = &images[..COMPARED.min(options.images) * width];
    let network = Arc::new(network.calibrated(few, &Calibration::default())?);
    let macs: u128 = network
        .inspect(options.length)?
        .nodes
        .iter()
        .filter_map(|node| node.stream.as_ref())
        .map(|stream| stream.bit_macs as u128)
        .sum();
    let config = StreamConfig::new(options.length)
        .generator(options.generator)
        .arithmetic(options.arithmetic);
    let streams = Arc::clone(&network)
        .into_streams(&config.clone().device(options.device.clone()), Cancel::NEVER)?;
    if options.device.may_use_accelerators()
        && streams.forward(few, 0)?
            != Arc::clone(&network).into_streams(&config, Cancel::NEVER)?.forward(few, 0)?
    {
        output::line(format!("{} differs from the CPU", options.device))?;
        return Ok(Verdict::Bad);
    }
    streams.forward(&images, 0)?;
    let mut best = Duration::MAX;
    // Single images take microseconds.
    for _ in 0..if options.images < 64 { 200 } else { 3 } {
        let start = Instant::now();
        streams.forward(&images, 0)?;
        best = best.min(start.elapsed());
    }
    let seconds = best.as_secs_f64();
    let mut times = streams.profile(&images, Cancel::NEVER)?;
    let kernels: Duration = times.iter().map(|kernel| kernel.time).sum();
    times.sort_by_key(|kernel| std::cmp::Reverse(kernel.time));
    let shown = if options.profile { times.len() } else { 0 };
    let rows = times.into_iter().take(shown).map(|kernel| KernelRow {
        kernel: kernel.name,
        launches: kernel.launches,
        microseconds: 1e6 * kernel.time.as_secs_f64(),
        bytes: kernel.bytes,
    });
    let report = Report {
        network: options.network.to_string(),
        device: options.device.to_string(),
        arithmetic: options.arithmetic.to_string(),
        length: options.length,
        images: options.images,
        seconds,
        images_per_second: options.images as f64 / seconds,
        bit_macs_per_second: macs as f64 * options.images as f64 / seconds,
        kernel_share: (!kernels.is_zero()).then(|| kernels.as_secs_f64() / seconds),
        kernels: rows.collect(),
    };
    if options.json {
        output::json(&report)?;
    } else {
        let share = report
            .kernel_share
            .map_or_else(String::new, |share| format!(", kernels {share:.2} of it"));
        output::line(format!(
            "{}, {} bits, {} images on {} ({} arithmetic): {:.1} us{share}, {:.0} images/s, {:.3} Tbit-MAC/s",
            report.network,
            report.length,
            report.images,
            report.device,
            report.arithmetic,
            1e6 * report.seconds,
            report.images_per_second,
            report.bit_macs_per_second / 1e12
        ))?;
        for KernelRow { kernel, launches, microseconds, bytes } in &report.kernels {
            let megabytes = *bytes as f64 / 1e6;
            output::line(format!(
                "{kernel:<24} {launches:>6} launches {microseconds:>12.1} us {megabytes:>10.2} MB"
            ))?;
        }
    }
    Ok(Verdict::Good)
}

//! `aleatron bench`: dense layers on the CPU and on the GPU, checked to be equal before they are
//! timed; transformers are in `transformer.rs`.

use super::names::read_name;
use super::{Failure, Outcome, read_length};
use crate::{Verdict, output};
use aleatron::backend::{KernelTime, describe};
use aleatron::{Device, EngineError, LayerBuilder, StreamLayer};
use serde::Serialize;
use std::time::{Duration, Instant};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    aleatron bench cpu --layers 1000x500x64 --length 1024\n  \
    aleatron bench gpu --device cuda --profile")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Layers on the CPU.
    Cpu(Options),
    /// Layers on the GPU, beside the CPU.
    Gpu(GpuOptions),
    /// A whole network of convolutions with random weights, as streams.
    Network(super::network::Options),
    /// A transformer of a named size with random weights.
    #[cfg(feature = "transformer")]
    Transformer(super::transformer::Options),
}

#[derive(Debug, clap::Args)]
struct Options {
    /// Layers as INPUTSxNEURONSxSAMPLES.
    #[arg(long, value_delimiter = ',', default_value = "64x32x1,512x256x1,1000x500x1,1000x500x64")]
    layers: Vec<Size>,
    /// The stream length in bits.
    #[arg(long, value_name = "BITS", value_parser = read_length, allow_hyphen_values = true, default_value_t = 1024)]
    length: usize,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct GpuOptions {
    #[command(flatten)]
    common: Options,
    /// The GPU: gpu for the default one, gpu:1, or cuda and cuda:1 for NVIDIA cards through CUDA.
    #[arg(long, default_value_t = Device::Gpu(None), value_parser = read_name::<Device>)]
    device: Device,
    /// Show the time, the bytes and the bandwidth of each kernel.
    #[arg(long)]
    profile: bool,
}

/// A layer and a batch.
#[derive(Debug, Clone, Copy)]
struct Size {
    n_inputs: usize,
    n_neurons: usize,
    n_samples: usize,
}

impl std::str::FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Option<Vec<usize>> = text.split('x').map(|part| part.parse().ok()).collect();
        match parts.as_deref() {
            Some(&[n_inputs, n_neurons]) => Ok(Self { n_inputs, n_neurons, n_samples: 1 }),
            Some(&[n_inputs, n_neurons, n_samples]) => Ok(Self { n_inputs, n_neurons, n_samples }),
            _ => Err(format!("\"{text}\" is not INPUTSxNEURONS or INPUTSxNEURONSxSAMPLES")),
        }
    }
}

#[derive(Debug, Serialize)]
struct Row {
    layer: String,
    cpu_us: f64,
    cpu_bit_macs_per_second: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_us: Option<f64>,
    /// The device that `Device::Auto` selects.
    #[serde(skip_serializing_if = "Option::is_none")]
    auto: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    match &arguments.what {
        What::Cpu(options) => {
            let rows = options.layers.iter().map(|size| Ok(measure(*size, options.length)?.0));
            report(&rows.collect::<Result<Vec<_>, EngineError>>()?, options)
        }
        What::Gpu(options) => gpu(options),
        What::Network(options) => super::network::run(options),
        #[cfg(feature = "transformer")]
        What::Transformer(options) => super::transformer::run(options),
    }
}

fn gpu(options: &GpuOptions) -> Outcome {
    if options.device.may_use_host_memory() {
        return Err(Failure::Usage(format!("--device: {} is not a GPU", options.device)));
    }
    let mut rows = Vec::new();
    for &size in &options.common.layers {
        let (mut row, cpu, x) = measure(size, options.common.length)?;
        let expected = cpu.counts_batch(&x, SEED)?;
        let builder = size.layer(options.common.length).weights(cpu.weights());
        let layer = builder
            .clone()
            .device(options.device.clone())
            .max_batch(size.n_samples.max(1))
            .build()?;
        if layer.counts_batch(&x, SEED)? != expected {
            output::line(format!("{}: {} differs from the CPU", row.layer, options.device))?;
            return Ok(Verdict::Bad);
        }
        row.gpu_us = Some(best(|| layer.counts_batch(&x, SEED).map(drop))?);
        if options.profile {
            row.profile = Some(profile(&layer, &x)?);
        }
        let auto = builder.device(Device::Auto).build()?;
        auto.counts_batch(&x, SEED)?;
        row.auto = auto.backend_for(size.n_samples);
        rows.push(row);
    }
    if !options.common.json {
        let name =
            describe(&options.device).map_or_else(|| options.device.to_string(), |info| info.name);
        output::line(format!("GPU: {name}"))?;
    }
    report(&rows, &options.common)
}

/// Returns the times of a layer's kernels as a table.
fn profile(layer: &StreamLayer, x: &[f64]) -> Result<String, EngineError> {
    // The first runs warm up.
    layer.profile(x, SEED)?;
    layer.profile(x, SEED)?;
    let mut table =
        format!("{:<36}{:>9}{:>12}{:>10}{:>10}\n", "kernel", "launches", "us", "MB", "GB/s");
    for KernelTime { name, launches, time, bytes } in layer.profile(x, SEED)? {
        let (us, megabytes) = (time.as_secs_f64() * 1e6, bytes as f64 / 1e6);
        let rate = if us > 0.0 { 1e3 * megabytes / us } else { 0.0 };
        table += &format!("{name:<36}{launches:>9}{us:>12.2}{megabytes:>10.2}{rate:>10.0}\n");
    }
    Ok(table)
}

const SEED: u64 = aleatron::SampleSeed::DEFAULT;

impl Size {
    fn layer(self, length: usize) -> LayerBuilder {
        StreamLayer::dense(self.n_inputs, self.n_neurons).length(length)
    }
}

/// Returns the CPU's time for a layer, with the layer and its inputs.
fn measure(size: Size, length: usize) -> Result<(Row, StreamLayer, Vec<f64>), EngineError> {
    let Size { n_inputs, n_neurons, n_samples } = size;
    let layer = size.layer(length).build()?;
    let n_values = n_inputs.saturating_mul(n_samples);
    aleatron::memory::check(n_values as u128 * 8, aleatron::Quantity::Inputs)?;
    let x: Vec<f64> = (0..n_values).map(|i| (i % 1009) as f64 / 1009.0).collect();
    let cpu_us = best(|| layer.counts_batch(&x, SEED).map(drop))?;
    let macs = n_inputs as f64 * n_neurons as f64 * n_samples as f64 * length as f64;
    let row = Row {
        layer: format!("{n_inputs}->{n_neurons} x {n_samples}"),
        cpu_us,
        cpu_bit_macs_per_second: macs / (cpu_us * 1e-6),
        gpu_us: None,
        auto: None,
        profile: None,
    };
    Ok((row, layer, x))
}

/// The best time of many runs in microseconds: noise only adds.
fn best(mut work: impl FnMut() -> Result<(), EngineError>) -> Result<f64, EngineError> {
    work()?;
    let (start, mut best) = (Instant::now(), Duration::MAX);
    for run in 0.. {
        let once = Instant::now();
        work()?;
        best = best.min(once.elapsed());
        if run >= 4 && start.elapsed() > Duration::from_millis(300) {
            break;
        }
    }
    Ok(best.as_secs_f64() * 1e6)
}

fn report(rows: &[Row], options: &Options) -> Outcome {
    if options.json {
        output::json(&rows)?;
        return Ok(Verdict::Good);
    }
    output::line(format!(
        "{:<22}{:>12}{:>18}{:>12}{:>10}{:>8}",
        "layer", "CPU us", "CPU Gbit-MAC/s", "GPU us", "speed-up", "auto"
    ))?;
    for row in rows {
        let (gpu, ratio) = match row.gpu_us {
            Some(gpu) => (format!("{gpu:.1}"), format!("{:.2}", row.cpu_us / gpu)),
            None => (String::new(), String::new()),
        };
        let rate = row.cpu_bit_macs_per_second / 1e9;
        let auto = row.auto.as_deref().unwrap_or_default();
        output::line(format!(
            "{:<22}{:>12.1}{rate:>18.1}{gpu:>12}{ratio:>10}{auto:>8}",
            row.layer, row.cpu_us
        ))?;
    }
    for row in rows {
        if let Some(profile) = &row.profile {
            output::line(format!("\n{}\n{}", row.layer, profile.trim_end()))?;
        }
    }
    Ok(Verdict::Good)
}

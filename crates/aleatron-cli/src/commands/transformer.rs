//! `aleatron bench transformer`: prompts and steps of a transformer with random weights, checked
//! before they are timed.

use super::names::read_name;
use super::{Outcome, read_positive};
use crate::{Verdict, output};
use aleatron::transformer::weights::random::sized;
use aleatron::transformer::{
    DeviceChoice, ForwardPass, LoadOptions, Logits, Precision, Result, Sampling, Segment,
    SequenceId, Transformer,
};
use aleatron::{Cpu, Pool, Tier, get_num_threads};
use serde::Serialize;
use std::sync::Arc;
use std::time::Instant;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The size: tiny, small, tinyllama, llama-3b or llama-8b.
    #[arg(long, value_name = "NAME", default_value = "tiny")]
    size: String,
    /// Where to run: auto, cpu, gpu or gpu:1.
    #[arg(long, default_value_t = DeviceChoice::Auto, value_parser = read_name::<DeviceChoice>)]
    device: DeviceChoice,
    /// How weights are kept: f32, f16 or int8.
    #[arg(long, default_value_t = Precision::F16, value_parser = read_name::<Precision>)]
    precision: Precision,
    /// The tokens of the prompt.
    #[arg(long, value_name = "N", value_parser = read_positive, default_value_t = 512)]
    prompt: usize,
    /// The steps to time.
    #[arg(long, value_name = "N", value_parser = read_positive, default_value_t = 128)]
    steps: usize,
    /// The sequences of a batch; several are several rows.
    #[arg(long, value_delimiter = ',', value_name = "N,...", value_parser = read_positive, default_values_t = [1, 16])]
    batch: Vec<usize>,
    /// Show the time, the bytes and the bandwidth of each kernel.
    #[arg(long)]
    profile: bool,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    device: String,
    size: String,
    precision: String,
    weight_bytes: u64,
    load_seconds: f64,
    /// The difference between a prompt and its tokens one by one, as a fraction of the largest
    /// logit.
    difference: f32,
    prompt: usize,
    prefill_ms: f64,
    /// On the CPU, the bandwidth of all threads reading memory of the size of the weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    read_gb_per_second: Option<f64>,
    decoding: Vec<Decoding>,
}

#[derive(Debug, Serialize)]
struct Decoding {
    sequences: usize,
    step_ms: f64,
    tokens_per_second: f64,
    /// The bandwidth of reading the weights once per step.
    weight_gb_per_second: f64,
}

/// Prompts of benchmarks: any tokens.
fn prompt(len: usize, vocabulary: usize) -> Vec<u32> {
    (0..len).map(|i| ((i * 7919 + 13) % vocabulary) as u32).collect()
}

pub(crate) fn run(options: &Options) -> Outcome {
    let config = sized(&options.size).map_err(super::Failure::usage)?;
    let start = Instant::now();
    let loading = LoadOptions {
        device: options.device,
        precision: options.precision,
        ..LoadOptions::default()
    };
    let mut model = Transformer::random(&config, 1, &loading)?;
    let load_seconds = start.elapsed().as_secs_f64();
    let device = model.device();
    let pass = model.pass();
    let difference = difference(pass)?;
    let prefill_ms = prefill(pass, options.prompt)?;
    let (mut decoding, mut read_gb_per_second) = (Vec::new(), None);
    for &sequences in &options.batch {
        // Before each row, since another program may take a part of the bandwidth for a while.
        if device == "cpu" {
            let read = reading(pass.weight_bytes())?;
            read_gb_per_second = Some(read_gb_per_second.map_or(read, |best: f64| best.max(read)));
        }
        decoding.push(decode(pass, sequences, options.steps)?);
    }
    let report = Report {
        device,
        size: options.size.clone(),
        precision: options.precision.to_string(),
        weight_bytes: pass.weight_bytes(),
        load_seconds,
        difference,
        prompt: options.prompt,
        prefill_ms,
        read_gb_per_second,
        decoding,
    };
    if options.json {
        output::json(&report)?;
    } else {
        show(&report)?;
        if options.profile {
            profile(pass, options)?;
        }
    }
    // Sums in another order, and activations rounded to 16 bits, are far below this; a wrong kernel
    // is not.
    Ok(if difference < 0.05 { Verdict::Good } else { Verdict::Bad })
}

fn show(report: &Report) -> std::io::Result<()> {
    let Report { device, size, precision, weight_bytes, load_seconds, .. } = report;
    output::line(format!(
        "{size}, {precision}, {:.3} GB of weights per step, on {device}; loaded in {load_seconds:.1} s",
        *weight_bytes as f64 / 1e9
    ))?;
    output::line(format!(
        "prompt and steps differ by {:.2e} of the largest logit",
        report.difference
    ))?;
    output::line(format!("prompt of {} tokens: {:.2} ms", report.prompt, report.prefill_ms))?;
    for row in &report.decoding {
        let of_reading = report.read_gb_per_second.map_or_else(String::new, |read| {
            format!(", {:.2} of reading ({read:.1} GB/s)", row.weight_gb_per_second / read)
        });
        output::line(format!(
            "{:>3} sequences: {:>8.3} ms per step, {:>9.1} tokens/s, weights at {:>7.1} GB/s{of_reading}",
            row.sequences, row.step_ms, row.tokens_per_second, row.weight_gb_per_second
        ))?;
    }
    Ok(())
}

/// The largest size of memory for measuring the bandwidth; it is far beyond any cache.
const MOST_READ: u64 = 1 << 30;

/// Gigabytes per second that all threads read, the best of several times.
fn reading(bytes: u64) -> Result<f64, super::Failure> {
    let words = vec![1_u64; (bytes.min(MOST_READ) / 8).max(1) as usize];
    let cpu = Cpu::new(Tier::current()?, Arc::new(Pool::new(get_num_threads()?)?));
    let mut best = f64::INFINITY;
    for _ in 0..8 {
        let start = Instant::now();
        std::hint::black_box(cpu.ceiling_read(&words));
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(words.len() as f64 * 8.0 / best / 1e9)
}

/// Compares a prompt as a whole with its tokens one by one.
fn difference(pass: &mut dyn ForwardPass) -> Result<f32> {
    let tokens = prompt(40, pass.config().vocabulary);
    let sequence = pass.open()?;
    let whole = pass.forward(&[Segment { sequence, tokens: &tokens }], Logits::Last)?;
    pass.truncate(sequence, 0)?;
    let mut single = Vec::new();
    for token in &tokens {
        let segment = Segment { sequence, tokens: std::slice::from_ref(token) };
        single = pass.forward(&[segment], Logits::Last)?;
    }
    pass.close(sequence);
    let largest = single.iter().fold(f32::MIN_POSITIVE, |most, x| most.max(x.abs()));
    let apart = whole.iter().zip(&single).map(|(a, b)| (a - b).abs());
    // NaN must propagate.
    Ok(apart.fold(0.0, |most, d| if d <= most { most } else { d }) / largest)
}

/// Returns the best time of a prompt, in milliseconds.
fn prefill(pass: &mut dyn ForwardPass, len: usize) -> Result<f64> {
    let tokens = prompt(len, pass.config().vocabulary);
    let sequence = pass.open()?;
    let mut best = f64::INFINITY;
    let start = Instant::now();
    for run in 0..10 {
        let once = Instant::now();
        pass.prefill(&[Segment { sequence, tokens: &tokens }], &Sampling::GREEDY)?;
        best = best.min(once.elapsed().as_secs_f64() * 1e3);
        pass.truncate(sequence, 0)?;
        if run > 0 && start.elapsed().as_secs_f64() > 20.0 {
            break;
        }
    }
    pass.close(sequence);
    Ok(best)
}

/// Sequences with a short prompt each.
fn open(pass: &mut dyn ForwardPass, sequences: usize) -> Result<Vec<SequenceId>> {
    let tokens = prompt(32, pass.config().vocabulary);
    let opened = (0..sequences).map(|_| pass.open()).collect::<Result<Vec<_>>>()?;
    let segments: Vec<_> =
        opened.iter().map(|&sequence| Segment { sequence, tokens: &tokens }).collect();
    pass.prefill(&segments, &Sampling::GREEDY)?;
    Ok(opened)
}

fn decode(pass: &mut dyn ForwardPass, sequences: usize, steps: usize) -> Result<Decoding> {
    let opened = open(pass, sequences)?;
    let ahead = pass.look_ahead();
    // The first steps compile pipelines and allocate memory.
    for _ in 0..4 {
        pass.submit_step()?;
        pass.take_step()?;
    }
    let start = Instant::now();
    for step in 0..steps + ahead {
        if step < steps {
            pass.submit_step()?;
        }
        if step >= ahead {
            pass.take_step()?;
        }
    }
    let seconds = start.elapsed().as_secs_f64() / steps as f64;
    opened.into_iter().for_each(|sequence| pass.close(sequence));
    Ok(Decoding {
        sequences,
        step_ms: seconds * 1e3,
        tokens_per_second: sequences as f64 / seconds,
        weight_gb_per_second: pass.weight_bytes() as f64 / seconds / 1e9,
    })
}

/// Tables of kernels: of a prompt, and of a step of each batch.
fn profile(pass: &mut dyn ForwardPass, options: &Options) -> Result<(), super::Failure> {
    pass.start_profile()?;
    prefill_once(pass, options.prompt)?;
    let table = pass.finish_profile()?;
    output::line(format!("\nprompt of {} tokens\n{}", options.prompt, table.trim_end()))?;
    for &sequences in &options.batch {
        let opened = open(pass, sequences)?;
        pass.start_profile()?;
        for _ in 0..4 {
            pass.submit_step()?;
            pass.take_step()?;
        }
        let table = pass.finish_profile()?;
        output::line(format!("\nfour steps of {sequences} sequences\n{}", table.trim_end()))?;
        opened.into_iter().for_each(|sequence| pass.close(sequence));
    }
    Ok(())
}

fn prefill_once(pass: &mut dyn ForwardPass, len: usize) -> Result<()> {
    let tokens = prompt(len, pass.config().vocabulary);
    let sequence = pass.open()?;
    pass.prefill(&[Segment { sequence, tokens: &tokens }], &Sampling::GREEDY)?;
    pass.close(sequence);
    Ok(())
}

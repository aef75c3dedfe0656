//! `aleatron eval`: a network as bit streams, accuracy against length and generator.

use super::Outcome;
use crate::{Verdict, interrupt, output};
use aleatron::Device;
use aleatron::core::generator::{Sharing, Width};
use aleatron::data::Dataset;
use aleatron::eval::{Evaluation, GeneratorSpec, Plan, Progress, evaluate, report};
use aleatron::network::Network;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The files of a report.
const JSON_NAME: &str = "evaluation.json";
const PAGE_NAME: &str = "index.html";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// NAME.json with NAME.safetensors beside it, or one of the embedded networks for digits: noise-aware, plain.
    #[arg(default_value = "noise-aware")]
    network: PathBuf,
    /// Labelled samples, as .npz with arrays x and y or as .csv with the class last; the embedded test digits if not given.
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Lengths of streams in bits.
    #[arg(long, value_delimiter = ',', value_name = "BITS,...")]
    lengths: Vec<usize>,
    /// bernoulli, lfsr, sobol, halton, vdc, ramp, or two sequences as in sobol:1+lfsr:77.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    generators: Vec<GeneratorSpec>,
    /// Seeds for generators that have one.
    #[arg(long, value_name = "N")]
    seeds: Option<usize>,
    /// Bits of the sequences that streams share.
    #[arg(long, value_name = "BITS")]
    width: Option<u32>,
    /// How many independent sequences streams share.
    #[arg(long, value_enum, default_value_t)]
    sharing: SharingName,
    /// Where to run: auto (wherever it is faster), cpu or gpu. It changes times and nothing else.
    #[arg(long, default_value_t)]
    device: Device,
    /// Write a page (index.html) and the full result (evaluation.json) into this folder.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Go on with the result in the folder of the report.
    #[arg(long, requires = "report")]
    resume: bool,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
enum SharingName {
    /// One for all inputs and one for all weights.
    #[default]
    All,
    /// A pair for each input.
    Input,
    /// One for every stream.
    Stream,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let plan = arguments.plan()?;
    let network = load_network(&arguments.network)?;
    let data = match &arguments.data {
        Some(path) => Dataset::read(path)?,
        None => Dataset::digits_test(),
    };
    let earlier = match (&arguments.report, arguments.resume) {
        (Some(folder), true) => Some(read_result(&folder.join(JSON_NAME))?),
        _ => None,
    };
    // Fail before the work, not after it.
    if let Some(folder) = &arguments.report {
        std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    let interrupted = interrupt::watch();
    let bar = progress_bar();
    let start = Instant::now();
    let evaluation = evaluate(&network, &data, &plan, earlier, |progress: Progress<'_>| {
        bar.set_length(progress.total as u64);
        bar.set_position(progress.done as u64);
        bar.set_message(format!("{}, {} bits, seed {}", progress.generator, progress.length, progress.seed));
        if interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    bar.finish_and_clear();
    let elapsed = start.elapsed();

    if let Some(folder) = &arguments.report {
        write(&folder.join(JSON_NAME), &evaluation.to_json()?)?;
        write(&folder.join(PAGE_NAME), &report::evaluation(&evaluation))?;
    }
    if arguments.json {
        output::json(&evaluation)?;
    } else {
        output::line(evaluation.to_string().trim_end())?;
        output::line(format!("\n{} cells in {:.1} s", evaluation.cells.len(), elapsed.as_secs_f64()))?;
        if let Some(folder) = &arguments.report {
            output::line(format!("Report: {}", folder.join(PAGE_NAME).display()))?;
        }
    }
    Ok(if evaluation.is_complete() { Verdict::Good } else { Verdict::Bad })
}

impl Arguments {
    fn plan(&self) -> Result<Plan, Box<dyn std::error::Error>> {
        let mut plan = Plan::default();
        if !self.lengths.is_empty() {
            plan.lengths.clone_from(&self.lengths);
        }
        if !self.generators.is_empty() {
            plan.generators.clone_from(&self.generators);
        }
        if let Some(seeds) = self.seeds {
            plan.seeds = seeds;
        }
        if let Some(bits) = self.width {
            plan.width = Width::new(bits)?;
        }
        plan.sharing = match self.sharing {
            SharingName::All => Sharing::OneForAll,
            SharingName::Input => Sharing::OnePerInput,
            SharingName::Stream => Sharing::OnePerStream,
        };
        plan.device = self.device;
        Ok(plan)
    }
}

fn load_network(path: &Path) -> aleatron::Result<Network> {
    match path.to_str() {
        Some("noise-aware") => Network::digits_noise_aware(),
        Some("plain") => Network::digits_plain(),
        _ => Network::load(path),
    }
}

fn read_result(path: &Path) -> Result<Evaluation, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

/// A bar on standard error, or nothing where nobody watches.
fn progress_bar() -> ProgressBar {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(Some(0), target);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len}  {elapsed_precise}  {msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

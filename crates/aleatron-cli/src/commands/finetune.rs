//! `aleatron finetune`: trains a LoRA adapter of a transformer in floating point or through
//! streams, and shows its loss.

use super::eval::progress_bar;
use super::finetune_streams::StreamOptions;
use super::report::{fault, try_writing};
use super::{Failure, Outcome, read_positive};
use crate::invocation::Invocation;
use crate::{Verdict, interrupt, output};
use aleatron::eval::Source;
use aleatron::eval::report::{finetuning, with_provenance};
use aleatron::tensor::Device;
use aleatron::train::lora::{
    Activations, Corpus, FinetuneOptions, LoraModel, Reader, SequenceOrder, Step, finetune_with,
};
use aleatron::train::{AdamOptions, Error, Schedule};
use aleatron::transformer::lora::targets;
use aleatron::transformer::{Adapter, AdapterOptions, AlphaScaling, Config, ModelSource};
use aleatron::{Cancel, CoreError};
use std::path::{Path, PathBuf};
use std::time::Instant;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    aleatron finetune MODEL_DIR --data text.txt --out adapter\n  \
    aleatron finetune MODEL_DIR --data chats.jsonl --out adapter --rank 16 \\\n      --alpha 32 --targets all --steps 500 --report report\n  \
    aleatron finetune bytes --data text.txt --out adapter --targets all \\\n      --stream-length 64 --generator sobol\n  \
    aleatron generate MODEL_DIR \"Once upon a time\" --lora adapter")]
pub(crate) struct Arguments {
    /// A folder with config.json, .safetensors files and tokenizer.json, or bytes, a small model
    /// in the program.
    model: PathBuf,
    /// The texts: one text in any file, or JSON lines in a .jsonl file, with {"text"}, {"prompt",
    /// "completion"} or {"tokens", "labels"}.
    #[arg(long, value_name = "FILE", help_heading = "Samples")]
    data: PathBuf,
    /// Write the adapter into this folder, in PEFT's files.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    out: PathBuf,
    /// Start from this adapter instead of a new one.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["rank", "alpha", "rank_stabilized", "dropout", "targets"], help_heading = "Adapter")]
    adapter: Option<PathBuf>,
    /// The rank of the corrections.
    #[arg(long, value_name = "R", value_parser = read_positive, default_value_t = 8, help_heading = "Adapter")]
    rank: usize,
    /// Corrections are multiplied by alpha / rank.
    #[arg(long, value_name = "ALPHA", default_value_t = 16.0, help_heading = "Adapter")]
    alpha: f64,
    /// Multiply corrections by alpha / sqrt(rank) instead.
    #[arg(long, help_heading = "Adapter")]
    rank_stabilized: bool,
    /// The share of the inputs of corrections that is dropped at random.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, help_heading = "Adapter")]
    dropout: f64,
    /// The projections with corrections: q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj,
    /// down_proj, or all.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", default_values_t = ["q_proj".to_owned(), "v_proj".to_owned()], help_heading = "Adapter")]
    targets: Vec<String>,
    /// Updates.
    #[arg(long, value_name = "N", value_parser = read_positive, default_value_t = 100, help_heading = "Training")]
    steps: usize,
    /// Sequences whose gradients are computed at once.
    #[arg(long, value_name = "N", value_parser = read_positive, default_value_t = 4, help_heading = "Training")]
    batch: usize,
    /// Batches whose gradients are added up for one update.
    #[arg(long, value_name = "N", value_parser = read_positive, default_value_t = 1, help_heading = "Training")]
    accumulation: usize,
    /// The most tokens of a sequence.
    #[arg(long, value_name = "N", value_parser = read_positive, default_value_t = 256, help_heading = "Training")]
    length: usize,
    /// The learning rate of AdamW.
    #[arg(long, value_name = "RATE", default_value_t = 2e-4, help_heading = "Training")]
    learning_rate: f64,
    /// The weight decay of AdamW.
    #[arg(long, value_name = "DECAY", default_value_t = 0.01, help_heading = "Training")]
    weight_decay: f64,
    /// How the learning rate changes: linear or cosine to 0, or constant.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "linear",
        ignore_case = true,
        help_heading = "Training"
    )]
    schedule: ScheduleName,
    /// Steps in which the learning rate rises.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Training")]
    warmup: usize,
    /// The largest norm of the gradients of a step.
    #[arg(long, value_name = "NORM", help_heading = "Training")]
    clip_norm: Option<f64>,
    /// The order of the sequences: shuffled or sequential.
    #[arg(
        long,
        value_name = "ORDER",
        default_value = "shuffled",
        ignore_case = true,
        help_heading = "Training"
    )]
    order: OrderName,
    /// Compute layers again in the backward pass instead of retaining their values: less memory,
    /// more time.
    #[arg(long, help_heading = "Training")]
    recompute: bool,
    /// Decides the new adapter, the order of sequences and the dropout.
    #[arg(long, value_name = "SEED", default_value_t = 0, help_heading = "Training")]
    seed: u64,
    /// Where to compute: cpu, gpu or gpu:1.
    #[arg(long, value_name = "DEVICE", default_value = "cpu", help_heading = "Execution")]
    device: String,
    /// Save the state in this file every half minute, and go on from it if it exists.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    checkpoint: Option<PathBuf>,
    /// Write a page with the loss curve (finetuning.html) into this folder.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    report: Option<PathBuf>,
    #[command(flatten)]
    streams: StreamOptions,
    /// Print JSON instead of text.
    #[arg(long, help_heading = "Output")]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ScheduleName {
    Linear,
    Cosine,
    Constant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum OrderName {
    Shuffled,
    Sequential,
}

/// The result, for `--json`.
#[derive(serde::Serialize)]
struct Report<'a> {
    model: String,
    adapter: String,
    device: String,
    sequences: usize,
    truncated: usize,
    trainable_parameters: usize,
    steps: &'a [Step],
    seconds: f64,
}

pub(crate) fn run(arguments: &Arguments, invocation: &Invocation) -> Outcome {
    arguments.check()?;
    let source = ModelSource::named(&arguments.model);
    let config = source.config()?;
    LoraModel::check(&config)?;
    arguments.streams.check(&config)?;
    let adapter = arguments.adapter(&config)?;
    let corpus = arguments.corpus(&config, &source)?;
    let device = Device::named(&arguments.device).map_err(Failure::usage)?;
    if corpus.truncated > 0 {
        output::message(format!(
            "{} of {} sequences were cut to {} tokens; --length sets the number",
            corpus.truncated,
            corpus.sequences.len(),
            arguments.length
        ));
    }
    interrupt::watch();
    let model = LoraModel::from_pretrained(&source, &config, adapter, &device).map_err(failure)?;
    let model = arguments.streams.install(model, &source, &corpus)?;
    let start = Instant::now();
    let steps = arguments.train(&model, &corpus)?;
    let seconds = start.elapsed().as_secs_f64();
    model.adapter()?.save(&arguments.out, &config)?;
    if let Some(folder) = &arguments.report {
        arguments.write_page(folder, &steps, invocation)?;
    }
    if arguments.json {
        output::json(&Report {
            model: arguments.model.display().to_string(),
            adapter: arguments.out.display().to_string(),
            device: device.to_string(),
            sequences: corpus.sequences.len(),
            truncated: corpus.truncated,
            trainable_parameters: trainable(&model),
            steps: &steps,
            seconds,
        })?;
    } else {
        arguments.print(&model, &corpus, &steps, seconds)?;
    }
    Ok(Verdict::Good)
}

impl Arguments {
    /// Refuses options out of range and destinations that cannot be written, before anything is
    /// read.
    fn check(&self) -> Result<(), Failure> {
        let is_positive = |x: f64| x > 0.0 && x.is_finite();
        if !is_positive(self.learning_rate) {
            let rate = self.learning_rate;
            return Err(Failure::Usage(format!(
                "--learning-rate: {rate} is not a positive number"
            )));
        }
        if let Some(path) = self.checkpoint.as_ref().filter(|path| path.is_dir()) {
            return Err(Failure::Usage(format!(
                "--checkpoint: {} is a folder, not a file",
                path.display()
            )));
        }
        if self.warmup >= self.steps && self.warmup > 0 {
            let (warmup, steps) = (self.warmup, self.steps);
            return Err(Failure::Usage(format!(
                "--warmup: {warmup} is not less than the {steps} steps"
            )));
        }
        for folder in self.report.iter().chain([&self.out]) {
            std::fs::create_dir_all(folder).map_err(|error| fault(folder, &error))?;
            try_writing(folder)?;
        }
        if let Some(path) = &self.checkpoint {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            try_writing(folder.unwrap_or(Path::new(".")))?;
        }
        Ok(())
    }

    fn adapter(&self, config: &Config) -> Result<Adapter, Failure> {
        if let Some(folder) = &self.adapter {
            return Ok(Adapter::read(folder, config)?);
        }
        let scaling = if self.rank_stabilized {
            AlphaScaling::RankStabilized
        } else {
            AlphaScaling::Standard
        };
        let options = AdapterOptions {
            rank: self.rank,
            alpha: self.alpha,
            scaling,
            dropout: self.dropout,
            targets: targets(config, &self.targets).map_err(Failure::usage)?,
            base_model: self.model.display().to_string(),
        };
        Adapter::create(config, &options, self.seed).map_err(Failure::usage)
    }

    fn corpus(&self, config: &Config, source: &ModelSource) -> Result<Corpus, Failure> {
        let tokenizer = source.tokenizer()?;
        let reader = Reader { config, tokenizer: tokenizer.as_ref(), length: self.length };
        reader.read(&self.data).map_err(failure)
    }

    fn options(&self) -> FinetuneOptions {
        let warmup = self.warmup;
        FinetuneOptions {
            steps: self.steps,
            batch: self.batch,
            accumulation: self.accumulation,
            adam: AdamOptions {
                rate: self.learning_rate,
                weight_decay: self.weight_decay,
                ..AdamOptions::default()
            },
            schedule: match self.schedule {
                ScheduleName::Linear => Schedule::Linear { warmup, floor: 0.0 },
                ScheduleName::Cosine => Schedule::Cosine { warmup, floor: 0.0 },
                // The share at the end is that at the start.
                ScheduleName::Constant => Schedule::Linear { warmup, floor: 1.0 },
            },
            clip: self.clip_norm,
            order: match self.order {
                OrderName::Shuffled => SequenceOrder::Shuffled,
                OrderName::Sequential => SequenceOrder::Sequential,
            },
            activations: if self.recompute {
                Activations::Recomputed
            } else {
                Activations::Retained
            },
            seed: self.seed,
            checkpoint: self.checkpoint.clone(),
        }
    }

    fn train(&self, model: &LoraModel, corpus: &Corpus) -> Result<Vec<Step>, Failure> {
        let bar = progress_bar();
        bar.set_length(self.steps as u64);
        let cancel = Cancel::when(&interrupt::is_pressed);
        let found = finetune_with(model, &corpus.sequences, &self.options(), cancel, &mut |step| {
            bar.set_position(step.step as u64);
            bar.set_message(format!("loss {:.4}", step.loss));
        });
        bar.finish_and_clear();
        found.map_err(|error| match error {
            Error::Core(CoreError::Cancelled) => Failure::Work(match &self.checkpoint {
                Some(path) => {
                    format!("cancelled; the same command goes on from {}", path.display())
                }
                None => "cancelled; with --checkpoint FILE, training can be resumed".to_owned(),
            }),
            error => failure(error),
        })
    }

    fn print(
        &self,
        model: &LoraModel,
        corpus: &Corpus,
        steps: &[Step],
        seconds: f64,
    ) -> std::io::Result<()> {
        output::line(format!(
            "{} trainable parameters on {}, {} sequences of {}{}\n",
            trainable(model),
            self.model.display(),
            corpus.sequences.len(),
            self.data.display(),
            self.streams.summary()
        ))?;
        output::line(format!("{:>6}{:>12}{:>14}{:>12}", "step", "loss", "rate", "norm"))?;
        // About twenty rows, the first and the last among them.
        let every = steps.len().div_ceil(20).max(1);
        for step in
            steps.iter().filter(|s| s.step == 1 || s.step % every == 0 || s.step == steps.len())
        {
            let Step { step, loss, rate, norm, .. } = step;
            output::line(format!("{step:>6}{loss:>12.6}{rate:>14.3e}{norm:>12.4}"))?;
        }
        let targets: usize = steps.iter().map(|step| step.targets).sum();
        let speed = targets as f64 / seconds.max(1e-9);
        output::line(format!("\n{seconds:.1} s, {speed:.0} predicted tokens/s"))?;
        output::line(format!("Adapter: {}", self.out.display()))?;
        if let Some(folder) = &self.report {
            output::line(format!("Report: {}", folder.join(PAGE_NAME).display()))?;
        }
        Ok(())
    }

    fn write_page(
        &self,
        folder: &Path,
        steps: &[Step],
        invocation: &Invocation,
    ) -> Result<(), Failure> {
        let losses: Vec<f64> = steps.iter().map(|step| step.loss).collect();
        let note = format!(
            "Adapter {} of {}, trained on {}{}: {} steps of {} sequences.",
            self.out.display(),
            self.model.display(),
            self.data.display(),
            self.streams.summary(),
            steps.len(),
            self.batch * self.accumulation
        );
        let page = finetuning("Fine-tuning by LoRA", &[note], &losses);
        let mut run = super::provenance::of_command(invocation)?;
        run.device = Some(self.device.clone());
        run.sources.extend(match ModelSource::named(&self.model) {
            ModelSource::Embedded => vec![Source::described("model", "embedded bytes")],
            ModelSource::Folder(folder) => vec![Source::read("model", &folder)?],
        });
        run.sources.push(Source::read("data", &self.data)?);
        let page = with_provenance(&page, &[run]);
        Ok(aleatron::eval::write(folder.join(PAGE_NAME), &page)?)
    }
}

const PAGE_NAME: &str = "finetuning.html";

/// Returns the number of elements of all parameters.
fn trainable(model: &LoraModel) -> usize {
    model.parameters().iter().map(|parameter| parameter.tensor().len()).sum()
}

/// Returns the failure of an error; one about an option is invalid usage.
fn failure(error: Error) -> Failure {
    match error {
        error @ Error::Option { .. } => Failure::usage(error),
        error => error.into(),
    }
}

//! `aleatron finetune`: trains a LoRA adapter or all weights of a transformer in floating point or
//! through streams, and shows its loss.

use super::eval::progress_bar;
use super::finetune_streams::StreamOptions;
use super::report::{fault, try_writing};
use super::{Failure, Outcome, read_positive};
use crate::invocation::Invocation;
use crate::{Verdict, interrupt, output};
use aleatron::eval::report::{finetuning, with_provenance};
use aleatron::eval::{Provenance, Source};
use aleatron::tensor::Device;
use aleatron::train::language::{
    Activations, Corpus, FinetuneOptions, LanguageModel, Reader, SequenceOrder, Step, Trained,
    finetune_with,
};
use aleatron::train::{AdamOptions, Error, Schedule};
use aleatron::transformer::lora::targets;
use aleatron::transformer::weights::save::check_destination;
use aleatron::transformer::{Adapter, AdapterOptions, AlphaScaling, Config, ModelSource};
use aleatron::{Cancel, CoreError};
use std::path::{Path, PathBuf};
use std::time::Instant;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    aleatron finetune MODEL_DIR --data text.txt --out adapter\n  \
    aleatron finetune MODEL_DIR --data chats.jsonl --out adapter --rank 16 \\\n      --alpha 32 --targets all --steps 500 --report report\n  \
    aleatron finetune bytes --data text.txt --out adapter --targets all \\\n      --stream-length 64 --generator sobol\n  \
    aleatron finetune bytes --train weights --data text.txt --out model\n  \
    aleatron generate MODEL_DIR \"Once upon a time\" --lora adapter")]
pub(crate) struct Arguments {
    /// A folder with config.json, .safetensors files and tokenizer.json, or bytes, a small model
    /// in the program.
    model: PathBuf,
    /// The texts: one text in any file, or JSON lines in a .jsonl file, with {"text"}, {"prompt",
    /// "completion"} or {"tokens", "labels"}.
    #[arg(long, value_name = "FILE", help_heading = "Samples")]
    data: PathBuf,
    /// Write the adapter into this folder, in PEFT's files, or the model.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    out: PathBuf,
    /// What to train: an adapter beside the weights, which stay as they are, or all weights.
    #[arg(
        long,
        value_name = "PART",
        default_value = "adapter",
        ignore_case = true,
        help_heading = "Training"
    )]
    train: TrainedPart,
    /// Start from this adapter instead of a new one.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["rank", "alpha", "rank_stabilized", "dropout", "targets"], help_heading = "Adapter")]
    adapter: Option<PathBuf>,
    /// The rank of the corrections; 8 if not given.
    #[arg(long, value_name = "R", value_parser = read_positive, allow_hyphen_values = true, help_heading = "Adapter")]
    rank: Option<usize>,
    /// Corrections are multiplied by alpha / rank; 16 if not given.
    #[arg(long, value_name = "ALPHA", allow_hyphen_values = true, help_heading = "Adapter")]
    alpha: Option<f64>,
    /// Multiply corrections by alpha / sqrt(rank) instead.
    #[arg(long, help_heading = "Adapter")]
    rank_stabilized: bool,
    /// The share of the inputs of corrections that is dropped at random; 0 if not given.
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true, help_heading = "Adapter")]
    dropout: Option<f64>,
    /// The projections with corrections: q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj,
    /// down_proj, or all; q_proj,v_proj if not given.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", help_heading = "Adapter")]
    targets: Option<Vec<String>>,
    /// Updates.
    #[arg(long, value_name = "N", value_parser = read_positive, default_value_t = 100, allow_hyphen_values = true, help_heading = "Training")]
    steps: usize,
    /// Sequences whose gradients are computed at once.
    #[arg(long, value_name = "N", value_parser = read_positive, default_value_t = 4, allow_hyphen_values = true, help_heading = "Training")]
    batch: usize,
    /// Batches whose gradients are added up for one update.
    #[arg(long, value_name = "N", value_parser = read_positive, default_value_t = 1, allow_hyphen_values = true, help_heading = "Training")]
    accumulation: usize,
    /// The most tokens of a sequence.
    #[arg(long, value_name = "N", value_parser = read_positive, default_value_t = 256, allow_hyphen_values = true, help_heading = "Training")]
    length: usize,
    /// The learning rate of AdamW.
    #[arg(
        long,
        value_name = "RATE",
        default_value_t = 2e-4,
        allow_hyphen_values = true,
        help_heading = "Training"
    )]
    learning_rate: f64,
    /// The weight decay of AdamW.
    #[arg(
        long,
        value_name = "DECAY",
        default_value_t = 0.01,
        allow_hyphen_values = true,
        help_heading = "Training"
    )]
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
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        allow_hyphen_values = true,
        help_heading = "Training"
    )]
    warmup: usize,
    /// The largest norm of the gradients of a step.
    #[arg(long, value_name = "NORM", allow_hyphen_values = true, help_heading = "Training")]
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
    #[arg(
        long,
        value_name = "SEED",
        default_value_t = 0,
        allow_hyphen_values = true,
        help_heading = "Training"
    )]
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
enum TrainedPart {
    Adapter,
    Weights,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    adapter: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trained_model: Option<String>,
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
    LanguageModel::check(&config)?;
    arguments.streams.check(&config)?;
    let trained = arguments.trained(&config, &source)?;
    trained.check(arguments.streams.products()).map_err(failure)?;
    let corpus = arguments.corpus(&config, &source)?;
    let device = Device::named(&arguments.device).map_err(Failure::usage)?;
    LanguageModel::check_memory(&config, &trained, &device, &arguments.options())
        .map_err(failure)?;
    if corpus.truncated > 0 {
        output::message(format!(
            "{} of {} sequences were cut to {} tokens; --length sets the number",
            corpus.truncated,
            corpus.sequences.len(),
            arguments.length
        ));
    }
    interrupt::watch();
    let run = arguments.provenance(&source, &device, invocation)?;
    let model =
        LanguageModel::from_pretrained(&source, &config, trained, &device).map_err(failure)?;
    let model = arguments.streams.install(model, &source, &corpus)?;
    let start = Instant::now();
    let steps = arguments.train(&model, &corpus)?;
    let seconds = start.elapsed().as_secs_f64();
    model.save(&arguments.out, &source)?;
    if let Some(folder) = &arguments.report {
        arguments.write_page(folder, &steps, run)?;
    }
    if arguments.json {
        output::json(&Report {
            model: arguments.model.display().to_string(),
            adapter: (arguments.train == TrainedPart::Adapter).then(|| arguments.out_name()),
            trained_model: (arguments.train == TrainedPart::Weights).then(|| arguments.out_name()),
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
        self.check_part()?;
        let is_positive = |x: f64| x > 0.0 && x.is_finite();
        if !is_positive(self.learning_rate) {
            let rate = self.learning_rate;
            return Err(Failure::Usage(format!(
                "--learning-rate: {rate} is not a positive number"
            )));
        }
        let is_special = |path: &&PathBuf| path.exists() && !path.is_file();
        if let Some(path) = self.checkpoint.as_ref().filter(is_special) {
            return Err(Failure::Usage(format!(
                "--checkpoint: {} is not a regular file",
                path.display()
            )));
        }
        if self.warmup >= self.steps && self.warmup > 0 {
            let (warmup, steps) = (self.warmup, self.steps);
            return Err(Failure::Usage(format!(
                "--warmup: {warmup} is not less than the {steps} steps"
            )));
        }
        self.options().check().map_err(failure)?;
        for folder in self.report.iter().chain([&self.out]) {
            std::fs::create_dir_all(folder).map_err(|error| fault(folder, &error))?;
            try_writing(folder)?;
        }
        if let Some(path) = &self.checkpoint {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new("."));
            try_writing(folder)?;
            // Weights beside those of the result would prevent that it is saved.
            if let (Ok(folder), Ok(out)) = (folder.canonicalize(), self.out.canonicalize())
                && folder == out
            {
                return Err(Failure::Usage(format!(
                    "--checkpoint: {} is in the folder of --out; choose a file in another folder",
                    path.display()
                )));
            }
        }
        Ok(())
    }

    /// Refuses options of adapters where all weights are trained.
    fn check_part(&self) -> Result<(), Failure> {
        if self.train == TrainedPart::Adapter {
            return Ok(());
        }
        let given = [
            ("--adapter", self.adapter.is_some()),
            ("--rank", self.rank.is_some()),
            ("--alpha", self.alpha.is_some()),
            ("--rank-stabilized", self.rank_stabilized),
            ("--dropout", self.dropout.is_some()),
            ("--targets", self.targets.is_some()),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => {
                Err(Failure::Usage(format!("{option} cannot be combined with --train weights")))
            }
            None => Ok(()),
        }
    }

    fn out_name(&self) -> String {
        self.out.display().to_string()
    }

    fn trained(&self, config: &Config, source: &ModelSource) -> Result<Trained, Failure> {
        match self.train {
            TrainedPart::Adapter => self.adapter(config).map(Trained::Adapter),
            TrainedPart::Weights => {
                check_destination(&self.out, source)?;
                Ok(Trained::Weights)
            }
        }
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
        let names = ["q_proj".to_owned(), "v_proj".to_owned()];
        let names = self.targets.as_deref().unwrap_or(&names);
        let options = AdapterOptions {
            rank: self.rank.unwrap_or(8),
            alpha: self.alpha.unwrap_or(16.0),
            scaling,
            dropout: self.dropout.unwrap_or(0.0),
            targets: targets(config, names).map_err(Failure::usage)?,
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

    fn train(&self, model: &LanguageModel, corpus: &Corpus) -> Result<Vec<Step>, Failure> {
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
        model: &LanguageModel,
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
        let what = match self.train {
            TrainedPart::Adapter => "Adapter",
            TrainedPart::Weights => "Model",
        };
        output::line(format!("{what}: {}", self.out.display()))?;
        if let Some(folder) = &self.report {
            output::line(format!("Report: {}", folder.join(PAGE_NAME).display()))?;
        }
        Ok(())
    }

    /// Returns the provenance for the page; `None` without one. The files are those before the
    /// training, which may write into their folders.
    fn provenance(
        &self,
        source: &ModelSource,
        device: &Device,
        invocation: &Invocation,
    ) -> Result<Option<Provenance>, Failure> {
        if self.report.is_none() {
            return Ok(None);
        }
        let mut run = super::provenance::of_command(invocation)?;
        run.device = Some(device.to_string());
        run.sources.push(match source {
            ModelSource::Embedded => {
                Source::described("model", format!("embedded {}", source.name()))
            }
            ModelSource::Folder(folder) => Source::read("model", folder)?,
        });
        let adapter = self.adapter.as_deref().map(|path| Source::read("adapter", path));
        run.sources.extend(adapter.transpose()?);
        run.sources.push(Source::read("data", &self.data)?);
        Ok(Some(run))
    }

    fn write_page(
        &self,
        folder: &Path,
        steps: &[Step],
        run: Option<Provenance>,
    ) -> Result<(), Failure> {
        let losses: Vec<f64> = steps.iter().map(|step| step.loss).collect();
        let note = format!(
            "{} {} of {}, trained on {}{}: {} steps of {} sequences.",
            match self.train {
                TrainedPart::Adapter => "Adapter",
                TrainedPart::Weights => "Weights",
            },
            self.out.display(),
            self.model.display(),
            self.data.display(),
            self.streams.summary(),
            steps.len(),
            self.batch * self.accumulation
        );
        let title = match self.train {
            TrainedPart::Adapter => "Fine-tuning by LoRA",
            TrainedPart::Weights => "Fine-tuning of all weights",
        };
        let page = finetuning(title, &[note], &losses);
        let page = with_provenance(&page, run.as_slice());
        Ok(aleatron::eval::write(folder.join(PAGE_NAME), &page)?)
    }
}

const PAGE_NAME: &str = "finetuning.html";

/// Returns the number of elements of all parameters.
fn trainable(model: &LanguageModel) -> usize {
    model.parameters().iter().map(|parameter| parameter.tensor().len()).sum()
}

/// Returns the failure of an error; one about an option is invalid usage.
fn failure(error: Error) -> Failure {
    match error {
        error @ Error::Option { .. } => Failure::usage(error),
        error => error.into(),
    }
}

//! `aleatron eval MODEL_DIR --text FILE`: the loss of a language model as bit streams against length and generator.

use super::eval::{progress_bar, resume_hint};
use super::names::read_name;
use super::plan::read_layer;
use super::report::{Earlier, EarlierOptions, LOCK_NAME, fault, open_folder};
use super::source::read_share;
use super::{Failure, Outcome, read_length, read_positive};
use crate::invocation::Invocation;
use crate::{Verdict, interrupt, output};
use aleatron::eval::language::{
    LanguageCheckpoint, LanguageEvaluation, LanguagePlan, LanguageText, Sensitivity, evaluate_language_model,
};
use aleatron::eval::{CheckpointFile, Error as EvalError, FileLock, plural, report};
use aleatron::generator::{GeneratorName, Sharing, WidthChoice};
use aleatron::network::{LayerOverride, read_layers};
use aleatron::transformer::{Config, DeviceChoice, LoadOptions, Precision, Tokenizer, Transformer};
use aleatron::{Cancel, CoreError, Device};
use clap::Parser;
use std::path::{Path, PathBuf};
use std::time::Instant;

const JSON_NAME: &str = "evaluation.json";
const CSV_NAME: &str = "evaluation.csv";
const PAGE_NAME: &str = "index.html";

/// The options that language models alone have.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Language models (aleatron eval MODEL_DIR --text FILE)")]
pub(crate) struct LanguageOptions {
    /// The text to predict, in UTF-8. Its first tokens are for calibration.
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,
    /// A folder with an adapter in PEFT's files, which is added to the weights.
    #[arg(long, value_name = "DIR")]
    lora: Option<PathBuf>,
    /// The positions of a sequence; those of the model and at most 512 if not given.
    #[arg(long, value_name = "N", value_parser = read_positive)]
    context: Option<usize>,
    /// The tokens for calibration; a tenth of the text and at most 4096 if not given.
    #[arg(long, value_name = "N", value_parser = read_positive)]
    calibration_tokens: Option<usize>,
    /// The most tokens to predict; all if not given.
    #[arg(long, value_name = "N", value_parser = read_positive)]
    max_tokens: Option<usize>,
    /// How weights are rounded before they are encoded: f32 (the default), f16 or int8.
    #[arg(long, value_parser = read_name::<Precision>)]
    precision: Option<Precision>,
    /// Also run one linear product as streams at a time, at the shortest length.
    #[arg(long)]
    sensitivity: bool,
}

impl LanguageOptions {
    /// Refuses options of language models for networks.
    pub(crate) fn check_unused(&self) -> Result<(), Failure> {
        let given = [
            ("--text", self.text.is_some()),
            ("--lora", self.lora.is_some()),
            ("--context", self.context.is_some()),
            ("--calibration-tokens", self.calibration_tokens.is_some()),
            ("--max-tokens", self.max_tokens.is_some()),
            ("--precision", self.precision.is_some()),
            ("--sensitivity", self.sensitivity),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => Err(Failure::Usage(format!(
                "{option} is for language models: give a folder with config.json, as in aleatron eval MODEL_DIR --text FILE"
            ))),
            None => Ok(()),
        }
    }
}

/// The arguments of `aleatron eval` that apply to language models. Options of networks are errors.
#[derive(Debug, Parser)]
#[command(name = "aleatron eval", override_usage = "aleatron eval MODEL_DIR --text FILE [OPTIONS]")]
struct Arguments {
    /// A folder with config.json, .safetensors files and tokenizer.json.
    #[arg(required_unless_present = "named_model")]
    model: Option<PathBuf>,
    /// The same as an option.
    #[arg(long = "network", value_name = "MODEL_DIR", conflicts_with = "model")]
    named_model: Option<PathBuf>,
    #[command(flatten)]
    options: LanguageOptions,
    /// Lengths of streams in bits.
    #[arg(long, value_delimiter = ',', value_name = "BITS,...", value_parser = read_length, allow_hyphen_values = true,
        default_values_t = LanguagePlan::default().lengths)]
    lengths: Vec<usize>,
    /// The generators.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", value_parser = read_name::<GeneratorName>,
        default_values_t = LanguagePlan::default().generators)]
    generators: Vec<GeneratorName>,
    /// Seeds for generators that have one.
    #[arg(long, value_name = "N", value_parser = read_positive, allow_hyphen_values = true,
        default_value_t = LanguagePlan::default().seeds)]
    seeds: usize,
    /// Bits of the sequences that streams share.
    #[arg(long, value_name = "BITS", default_value = "auto", allow_hyphen_values = true,
        value_parser = read_name::<WidthChoice>)]
    width: WidthChoice,
    /// How many independent sequences streams share.
    #[arg(long, value_name = "HOW", default_value_t = Sharing::OneForAll, value_parser = read_name::<Sharing>)]
    sharing: Sharing,
    /// Settings of one linear product.
    #[arg(long = "layer", value_name = "NAME:SETTINGS", value_parser = read_layer)]
    layers: Vec<(String, LayerOverride)>,
    /// Settings of linear products from a JSON file.
    #[arg(long = "layers", value_name = "FILE")]
    layers_file: Option<PathBuf>,
    /// The share of inputs that the scale of a product must cover; the others saturate.
    #[arg(long, value_name = "SHARE", value_parser = read_share, default_value_t = LanguagePlan::default().share)]
    percentile: f64,
    /// Where linear products run.
    #[arg(long, default_value_t, value_parser = read_name::<Device>)]
    device: Device,
    /// Write a page, the full result and a table into this folder.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    #[command(flatten)]
    earlier: EarlierOptions,
    /// Print JSON instead of a table.
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print comma-separated values instead of a table.
    #[arg(long)]
    csv: bool,
}

/// Returns whether a path is the folder of a language model.
pub(crate) fn is_model(path: &Path) -> bool {
    path.is_dir() && path.join("config.json").exists()
}

/// Evaluates a language model with the arguments of `aleatron eval`.
pub(crate) fn run(invocation: &Invocation) -> Outcome {
    // The first argument is the name of the program, the second that of the command.
    let rest = invocation.arguments().iter().skip(2).cloned();
    let parsed = Arguments::try_parse_from(std::iter::once("aleatron eval".into()).chain(rest));
    match parsed {
        Ok(arguments) => arguments.evaluate(invocation),
        Err(error) => {
            let text = error.render().to_string();
            Err(Failure::Usage(format!("{} (a language model)", first_line(&text))))
        }
    }
}

/// Returns the first line of an error of clap, without its prefix.
fn first_line(text: &str) -> &str {
    let line = text.lines().next().unwrap_or("invalid arguments");
    line.strip_prefix("error: ").unwrap_or(line)
}

/// The folder of a report.
struct Report {
    folder: PathBuf,
    /// The result to resume from.
    checkpoint: Option<LanguageCheckpoint>,
    /// Held as long as the report may be written.
    _lock: FileLock,
}

impl Arguments {
    fn evaluate(&self, invocation: &Invocation) -> Outcome {
        let folder = self.model.as_ref().or(self.named_model.as_ref()).ok_or_else(|| {
            Failure::Usage("give the folder of a model: aleatron eval MODEL_DIR --text FILE".to_owned())
        })?;
        let Some(path) = &self.options.text else {
            return Err(Failure::Usage("a language model needs a text: give it with --text FILE".to_owned()));
        };
        // Everything that can be known is checked before the weights are read.
        let plan = self.plan()?;
        let config = Config::read(&folder.join("config.json"))?;
        plan.check(&config).map_err(Failure::usage)?;
        let tokenizer = read_tokenizer(folder)?;
        let text = LanguageText::read(path, &tokenizer)?;
        text.split(plan.calibration, plan.predicted)?;
        text.check_vocabulary(&config)?;
        let name = model_name(folder);
        let report = self.report.as_deref().map(|report| self.open_report(report, &name, text.name()));
        let report = report.transpose()?;
        let mut model = load(folder, self.options.precision, self.options.lora.as_deref())?;
        interrupt::watch();
        let (bar, start) = (progress_bar(), Instant::now());
        let mut file = report.as_ref().map(|report| CheckpointFile::new(report.folder.join(JSON_NAME)));
        let cancel = Cancel::when(&interrupt::is_pressed);
        let checkpoint = report.as_ref().and_then(|report| report.checkpoint.as_ref());
        let found =
            evaluate_language_model(&name, &mut model, &text, &plan, checkpoint, cancel, |progress| {
                if let (Some(file), Some(found)) = (&mut file, progress.evaluation) {
                    let runs =
                        found.rows.iter().map(|row| row.seeds.len()).sum::<usize>() + found.sensitivity.len();
                    // A failure is seen again when the whole report is written.
                    let _ = file.update(runs, || found.to_json());
                }
                bar.set_length(progress.total as u64);
                bar.set_position(progress.done as u64);
                bar.set_message(progress.label.to_owned());
            });
        bar.finish_and_clear();
        let (found, failure) = match found {
            Ok(found) => (found, None),
            Err(EvalError::UnfinishedLanguage { done, source }) => (*done, Some(*source)),
            Err(error) if error.core() == Some(&CoreError::Cancelled) => {
                let reason = "cancelled before the model had run in floating point";
                return Err(Failure::Work(reason.to_owned()));
            }
            Err(error @ EvalError::Checkpoint(_)) => {
                let hint = "--force instead of --resume replaces the report";
                return Err(Failure::Work(format!("{error} ({hint})")));
            }
            Err(error) => return Err(error.into()),
        };
        if let Some(report) = &report {
            report.write(&found)?;
        }
        self.print(&found, report.as_ref(), start)?;
        let hint = resume_hint(report.is_some(), invocation);
        match failure {
            Some(error) => Err(Failure::from(error).with_hint(&hint)),
            None if found.is_complete() => Ok(Verdict::Good),
            None => {
                output::message(hint);
                Ok(Verdict::Bad)
            }
        }
    }

    fn plan(&self) -> Result<LanguagePlan, Failure> {
        let mut plan = LanguagePlan {
            lengths: self.lengths.clone(),
            generators: self.generators.clone(),
            seeds: self.seeds,
            width: self.width,
            sharing: self.sharing,
            context: self.options.context,
            calibration: self.options.calibration_tokens,
            predicted: self.options.max_tokens,
            share: self.percentile,
            sensitivity: if self.options.sensitivity { Sensitivity::Enabled } else { Sensitivity::Disabled },
            device: self.device.clone(),
            ..LanguagePlan::default()
        };
        if let Some(path) = &self.layers_file {
            plan.layers = read_layers(path)?;
        }
        for (name, layer) in &self.layers {
            if plan.layers.insert(name.clone(), *layer).is_some() {
                return Err(Failure::Usage(format!("--layer: \"{name}\" is given twice")));
            }
        }
        Ok(plan)
    }

    /// Opens the folder of a report, unless it holds results that would be lost.
    fn open_report(&self, folder: &Path, model: &str, text: &str) -> Result<Report, Failure> {
        let lock = open_folder(folder, LOCK_NAME)?;
        let (file, earlier) = (folder.join(JSON_NAME), self.earlier.earlier());
        let read = || {
            let text = std::fs::read_to_string(&file).map_err(|error| fault(&file, &error))?;
            LanguageCheckpoint::from_json(&text).map_err(|error| fault(&file, &error))
        };
        let refuse = |reason: &str| Err(fault(folder, &format!("{reason}, or replace it with --force")));
        let checkpoint = match earlier {
            Earlier::Resume if file.exists() => Some(read()?),
            Earlier::Resume | Earlier::Force => None,
            Earlier::Replace if file.exists() => match read() {
                Ok(found) if found.names() == [model, text] && found.is_complete() => None,
                Ok(found) if found.names() == [model, text] => {
                    return refuse("it holds an unfinished report: go on with --resume");
                }
                _ => return refuse("it holds a report of something else: choose another folder"),
            },
            Earlier::Replace if folder.join(PAGE_NAME).exists() => {
                return refuse("it holds a page of something else: choose another folder");
            }
            Earlier::Replace => None,
        };
        Ok(Report { folder: folder.to_owned(), checkpoint, _lock: lock })
    }

    fn print(
        &self,
        found: &LanguageEvaluation,
        report: Option<&Report>,
        start: Instant,
    ) -> std::io::Result<()> {
        if self.json {
            return output::json(found);
        }
        if self.csv {
            return output::line(found.to_csv().trim_end());
        }
        output::line(found.text(output::width()).trim_end())?;
        let runs = found.rows.iter().map(|row| row.seeds.len()).sum::<usize>() + found.sensitivity.len() + 1;
        output::line(format!(
            "\n{} over the text in {:.1} s",
            plural(runs, "run"),
            start.elapsed().as_secs_f64()
        ))?;
        match report {
            Some(report) => output::line(format!("Report: {}", report.folder.join(PAGE_NAME).display())),
            None => Ok(()),
        }
    }
}

impl Report {
    fn write(&self, found: &LanguageEvaluation) -> Result<(), Failure> {
        let files =
            [(JSON_NAME, found.to_json()?), (CSV_NAME, found.to_csv()), (PAGE_NAME, report::language(found))];
        for (name, text) in files {
            aleatron::eval::write(self.folder.join(name), &text)?;
        }
        Ok(())
    }
}

/// Loads a model for streams, on the CPU; an adapter is added to its weights.
pub(super) fn load(
    folder: &Path,
    precision: Option<Precision>,
    lora: Option<&Path>,
) -> Result<Transformer, Failure> {
    let options = LoadOptions {
        device: DeviceChoice::Cpu,
        precision: precision.unwrap_or(Precision::F32),
        merge: lora.map(Path::to_owned),
    };
    Ok(Transformer::from_pretrained(folder, &options)?)
}

/// Reads the tokenizer of a model.
fn read_tokenizer(folder: &Path) -> Result<Tokenizer, Failure> {
    let path = folder.join("tokenizer.json");
    if !path.exists() {
        return Err(Failure::Work(format!(
            "{}: the model has no tokenizer.json, which texts need; save it there with Hugging Face's \
             AutoTokenizer.from_pretrained(NAME).save_pretrained(DIR)",
            folder.display()
        )));
    }
    Ok(Tokenizer::read(&path)?)
}

/// Returns the name of a folder, without those above it.
fn model_name(folder: &Path) -> String {
    let absolute = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let name = absolute.file_name().map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| folder.display().to_string())
}

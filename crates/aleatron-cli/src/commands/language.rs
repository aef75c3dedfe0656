//! `aleatron eval bytes` and `aleatron eval MODEL_DIR --text FILE`: the loss of a language model as
//! bit streams against length and generator.

use super::eval::{progress_bar, resume_hint};
use super::find::{Request, SearchSubject};
use super::language_report::LanguageReport;
use super::names::read_name;
use super::plan::read_layer;
use super::report::{EarlierOptions, Format};
use super::shard::{self, Shard};
use super::source::read_share;
use super::{Failure, Outcome, read_length, read_positive};
use crate::invocation::Invocation;
use crate::{interrupt, output};
use aleatron::eval::language::{
    LanguageJob, LanguagePlan, LanguageText, Sensitivity, evaluate_language_model,
    find_product_lengths,
};
use aleatron::eval::{Error as EvalError, Provenance, Search, Source};
use aleatron::generator::{GeneratorName, Sharing, WidthChoice};
use aleatron::network::{LayerOverride, read_layers};
use aleatron::transformer::{
    DeviceChoice, LinearId, LoadOptions, ModelSource, Precision, Tokenizer, Transformer,
};
use aleatron::{Cancel, CoreError, Device};
use clap::Parser;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The options that language models alone have.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Language models (eval bytes, eval MODEL_DIR)")]
pub(crate) struct LanguageOptions {
    /// The text to predict, in UTF-8. Its first tokens are for calibration. For bytes, a text in
    /// the program if not given.
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
    /// Also measure early termination of the head: a position stops when its best token leads by
    /// this many standard deviations.
    #[arg(long, value_delimiter = ',', value_name = "M,...")]
    margins: Vec<f64>,
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
            ("--margins", !self.margins.is_empty()),
            ("--sensitivity", self.sensitivity),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => Err(Failure::Usage(format!(
                "{option} is for language models: give a folder with config.json or the name bytes, as in aleatron eval MODEL_DIR --text FILE"
            ))),
            None => Ok(()),
        }
    }
}

/// The arguments of `aleatron eval` that apply to language models. Options of networks are errors.
#[derive(Debug, Parser)]
#[command(
    name = "aleatron eval",
    override_usage = "aleatron eval bytes [OPTIONS]\n       aleatron eval MODEL_DIR --text FILE [OPTIONS]"
)]
struct Arguments {
    /// A folder with config.json, .safetensors files and tokenizer.json, or bytes, a small model
    /// in the program.
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
    /// Search for the shortest streams of each linear product that add at most this many nats per
    /// token.
    #[arg(long, value_name = "NATS", conflicts_with_all = ["csv", "shard", "sensitivity"])]
    find: Option<f64>,
    /// The most trials of --find.
    #[arg(long, value_name = "N", value_parser = read_positive, default_value_t = 100, requires = "find")]
    budget: usize,
    /// Run one of N shards of the work, and write it into the folder of the report.
    #[arg(long, value_name = "I/N", requires = "report", conflicts_with_all = ["json", "csv"])]
    shard: Option<Shard>,
    #[command(flatten)]
    format: Format,
}

/// Returns whether a path is the folder of a language model, or the name of the embedded model.
pub(crate) fn is_model(path: &Path) -> bool {
    match ModelSource::named(path) {
        ModelSource::Embedded => true,
        ModelSource::Folder(folder) => folder.is_dir() && folder.join("config.json").exists(),
    }
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

impl Arguments {
    fn evaluate(&self, invocation: &Invocation) -> Outcome {
        let folder = self.model.as_ref().or(self.named_model.as_ref()).ok_or_else(|| {
            Failure::Usage(
                "give the folder of a model: aleatron eval MODEL_DIR --text FILE".to_owned(),
            )
        })?;
        let source = ModelSource::named(folder);
        if self.options.text.is_none() && source != ModelSource::Embedded {
            return Err(Failure::Usage(
                "a language model needs a text: give it with --text FILE".to_owned(),
            ));
        }
        // Everything that can be known is checked before the weights are read.
        let plan = self.plan()?;
        let config = source.config()?;
        plan.check(&config).map_err(Failure::usage)?;
        let tokenizer = read_tokenizer(&source)?;
        let text = match &self.options.text {
            Some(path) => LanguageText::read(path, &tokenizer)?,
            None => LanguageText::embedded(&tokenizer)?,
        };
        text.split(plan.calibration, plan.predicted)?;
        text.check_vocabulary(&config)?;
        let name = source.name();
        let provenance = self.provenance(&source, invocation)?;
        if let Some(loss) = self.find {
            return self.find(loss, &source, &text, &plan, (&provenance, invocation));
        }
        if let Some((shard, folder)) = self.shard.zip(self.report.as_deref()) {
            let model = load(&source, self.options.precision, self.options.lora.as_deref())?;
            interrupt::watch();
            let cancel = Cancel::when(&interrupt::is_pressed);
            let mut job = LanguageJob::new(&name, model, &text, &plan, cancel)?;
            let earlier = self.earlier.earlier();
            return shard::run(&mut job, shard, folder, earlier, invocation, &provenance);
        }
        let earlier = self.earlier.earlier();
        let report = self.report.as_deref();
        let report = report
            .map(|folder| LanguageReport::open(folder, earlier, [&name, text.name()]))
            .transpose()?;
        let mut model = load(&source, self.options.precision, self.options.lora.as_deref())?;
        interrupt::watch();
        let (bar, start) = (progress_bar(), Instant::now());
        let mut file = report.as_ref().map(LanguageReport::checkpoint_file);
        let cancel = Cancel::when(&interrupt::is_pressed);
        let checkpoint = report.as_ref().and_then(|report| report.checkpoint.as_ref());
        let found = evaluate_language_model(
            &name,
            &mut model,
            &text,
            &plan,
            checkpoint,
            cancel,
            |progress| {
                if let (Some(file), Some(found)) = (&mut file, progress.evaluation) {
                    let runs = found.rows.iter().map(|row| row.seeds.len()).sum::<usize>()
                        + found.sensitivity.len();
                    // A failure is seen again when the whole report is written.
                    let _ = file.update(runs, || {
                        let mut part = found.clone();
                        part.provenance.push(provenance.clone());
                        part.to_json()
                    });
                }
                bar.set_length(progress.total as u64);
                bar.set_position(progress.done as u64);
                bar.set_message(progress.label.to_owned());
            },
        );
        bar.finish_and_clear();
        let (mut found, failure) = match found {
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
        found.provenance.push(provenance);
        if let Some(report) = &report {
            report.write(&found)?;
        }
        let outcome = self.format.print_language(&found, report.as_ref(), start.elapsed())?;
        let hint = resume_hint(report.is_some(), invocation);
        match failure {
            Some(error) => Err(Failure::from(error).with_hint(&hint)),
            None if found.is_complete() => Ok(outcome),
            None => {
                output::message(hint);
                Ok(outcome)
            }
        }
    }

    /// Returns the provenance of the run: the files of the model, its adapter and its text.
    fn provenance(
        &self,
        source: &ModelSource,
        invocation: &Invocation,
    ) -> Result<Provenance, Failure> {
        let mut run = super::provenance::of_run(invocation, &self.device)?;
        match source {
            ModelSource::Embedded => {
                run.sources.push(Source::described("model", format!("embedded {}", source.name())));
            }
            ModelSource::Folder(folder) => run.sources.push(Source::read("model", folder)?),
        }
        for (role, path) in [("adapter", &self.options.lora), ("text", &self.options.text)] {
            run.sources.extend(path.as_deref().map(|path| Source::read(role, path)).transpose()?);
        }
        if self.options.text.is_none() {
            run.sources.push(Source::described("text", "embedded text"));
        }
        run.sources.extend(super::provenance::of_layers(self.layers_file.as_deref())?);
        Ok(run)
    }

    /// Searches for the shortest streams that add at most `loss` nats per token.
    fn find(
        &self,
        loss: f64,
        source: &ModelSource,
        text: &LanguageText,
        plan: &LanguagePlan,
        (provenance, invocation): (&Provenance, &Invocation),
    ) -> Outcome {
        let (&[generator], Some(&shortest), Some(&longest)) =
            (&plan.generators[..], plan.lengths.iter().min(), plan.lengths.iter().max())
        else {
            return Err(Failure::Usage("--find: give one generator with --generators".to_owned()));
        };
        if !(0.0..f64::INFINITY).contains(&loss) {
            return Err(Failure::Usage(format!(
                "--find: {loss} is not a number of nats per token from 0 on"
            )));
        }
        let mut model = load(source, self.options.precision, self.options.lora.as_deref())?;
        let layers: Vec<String> =
            LinearId::all(model.config()).iter().map(ToString::to_string).collect();
        let (name, budget, folder) = (source.name(), self.budget, self.report.as_deref());
        let search = Search { generator, loss, longest, shortest, budget };
        let request = Request {
            loss,
            budget,
            folder,
            earlier: self.earlier.earlier(),
            json: self.format.json,
            provenance,
        };
        let title = format!("Model {name}");
        let subject = SearchSubject { title, name: &name, layers: &layers, own: &plan.layers };
        subject.search(&request, invocation, |known, cancel, progress| {
            find_product_lengths(&mut model, text, plan, &search, known, cancel, progress)
        })
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
            margins: self.options.margins.clone(),
            sensitivity: if self.options.sensitivity {
                Sensitivity::Enabled
            } else {
                Sensitivity::Disabled
            },
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
}

/// Loads a model for streams, on the CPU; an adapter is added to its weights.
pub(super) fn load(
    source: &ModelSource,
    precision: Option<Precision>,
    lora: Option<&Path>,
) -> Result<Transformer, Failure> {
    let options = LoadOptions {
        device: DeviceChoice::Cpu,
        precision: precision.unwrap_or(Precision::F32),
        merge: lora.map(Path::to_owned),
    };
    Ok(Transformer::load(source, &options)?)
}

/// Reads the tokenizer of a model.
fn read_tokenizer(source: &ModelSource) -> Result<Tokenizer, Failure> {
    source.tokenizer()?.ok_or_else(|| {
        Failure::Work(format!(
            "{}: the model has no tokenizer.json, which texts need; save it there with Hugging Face's \
             AutoTokenizer.from_pretrained(NAME).save_pretrained(DIR)",
            source.name()
        ))
    })
}

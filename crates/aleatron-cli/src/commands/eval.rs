//! `aleatron eval`: the accuracy of a network as bit streams against length and generator.

use super::data::{DataOptions, class_note};
use super::find::{self, Request};
#[cfg(feature = "transformer")]
use super::language;
use super::plan::PlanOptions;
use super::report::{EarlierOptions, Format, Report};
use super::shard::{self, Shard};
use super::source::{Calibrated, NetworkOptions, are_bytes, check_samples};
use super::{Failure, Outcome, read_positive};
use crate::invocation::Invocation;
use crate::{interrupt, output};
use aleatron::data::{Dataset, LabelKind};
use aleatron::eval::{
    Error as EvalError, Evaluation, Job, Plan, Progress, Provenance, add_costs, evaluate, plural,
};
use aleatron::network::{Network, ValueRange};
use aleatron::{Cancel, CoreError, EngineError};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::borrow::Cow;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    aleatron eval                         the embedded network and digits\n  \
    aleatron eval --report report         with a page: report/index.html\n  \
    aleatron eval model.onnx --data test.npz --calibrate train.npz \\\n      --lengths 32,64,128 --generators sobol,lfsr\n  \
    aleatron eval model.onnx --data test.npz --find 1\n  \
    aleatron eval --faults 0,1e-3,1e-2 --fault-site streams,counters\n  \
    aleatron eval MODEL_DIR --text FILE   a language model")]
pub(crate) struct Arguments {
    #[command(flatten)]
    network: NetworkOptions,
    /// The task of the network: classification (labels are classes, and accuracy is measured) or
    /// regression (labels are numbers, one for each output, and mean errors are measured).
    #[arg(
        long,
        value_name = "TASK",
        default_value = "classification",
        ignore_case = true,
        help_heading = "Network"
    )]
    task: Task,
    #[command(flatten)]
    data: DataOptions,
    #[command(flatten)]
    plan: PlanOptions,
    /// Search for the shortest streams of each layer that lose at most this many percentage points
    /// of accuracy, or for regression hundredths of R², between the least and the greatest of
    /// the lengths given.
    #[arg(long, value_name = "POINTS", conflicts_with_all = ["csv", "shard"], help_heading = "Search")]
    find: Option<f64>,
    /// The most trials of --find.
    #[arg(long, value_name = "N", value_parser = read_positive, default_value_t = 100, requires = "find", help_heading = "Search")]
    budget: usize,
    /// Write a page (index.html), the full result (evaluation.json) and a table (evaluation.csv)
    /// into this folder.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    report: Option<PathBuf>,
    #[command(flatten)]
    earlier: EarlierOptions,
    /// Run one of N shards of the work, such as 2/8, and write it into the folder of the report;
    /// `aleatron merge` puts them together.
    #[arg(long, value_name = "I/N", requires = "report", conflicts_with_all = ["json", "csv"], help_heading = "Output")]
    shard: Option<Shard>,
    #[command(flatten)]
    format: Format,
    #[cfg(feature = "transformer")]
    #[command(flatten)]
    language: language::LanguageOptions,
}

/// The task of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Task {
    Classification,
    Regression,
}

impl Task {
    /// Returns the kind of the labels.
    pub(crate) fn labels(self) -> LabelKind {
        match self {
            Self::Classification => LabelKind::Classes,
            Self::Regression => LabelKind::Numbers,
        }
    }
}

/// A network, its data and its plan, which fit each other.
struct Subject {
    network: Arc<Network>,
    data: Dataset,
    plan: Plan,
    /// Warnings about the calibration, for the result.
    warnings: Vec<String>,
    /// Facts about the data, for the output.
    notes: Vec<String>,
    provenance: Provenance,
}

impl Subject {
    fn names(&self) -> [&str; 2] {
        [self.network.name(), self.data.name()]
    }
}

/// Adds the losses of nodes, which the page shows, to an evaluation; a cancelled one stays as it
/// is.
fn with_losses(
    subject: &Subject,
    mut found: Evaluation,
    cancel: Cancel<'_>,
) -> Result<Evaluation, EvalError> {
    if !found.is_complete() {
        return Ok(found);
    }
    let Subject { network, data, plan, .. } = subject;
    match aleatron::eval::find_losses(network, data, plan, &mut found, cancel) {
        Ok(()) | Err(EvalError::Core(CoreError::Cancelled)) => Ok(found),
        Err(source) => {
            Err(EvalError::Unfinished { done: Box::new(found), source: Box::new(source) })
        }
    }
}

pub(crate) fn run(arguments: &Arguments, invocation: &Invocation) -> Outcome {
    #[cfg(feature = "transformer")]
    if language::is_model(arguments.network.path()) {
        return language::run(invocation);
    }
    arguments.check()?;
    let subject = arguments.subject(invocation)?;
    let Subject { network, data, plan, provenance, .. } = &subject;
    if let Some(loss) = arguments.find {
        let request = Request {
            loss,
            budget: arguments.budget,
            folder: arguments.report.as_deref(),
            earlier: arguments.earlier.earlier(),
            json: arguments.format.json,
            provenance,
        };
        subject.notes.iter().for_each(output::message);
        return find::run(network, data, plan, &request, invocation);
    }
    if let Some((shard, folder)) = arguments.shard.zip(arguments.report.as_deref()) {
        subject.notes.iter().for_each(output::message);
        let run = provenance.clone();
        let mut job = arguments.job(subject)?.with_costs();
        return shard::run(&mut job, shard, folder, arguments.earlier.earlier(), invocation, &run);
    }
    arguments.evaluate(&subject, invocation)
}

/// An evaluation whose tasks run on other processes.
pub(crate) struct Distributed {
    pub(crate) arguments: Arguments,
    pub(crate) job: Job<'static>,
    pub(crate) report: Option<Report>,
    warnings: Vec<String>,
    notes: Vec<String>,
    provenance: Provenance,
}

impl Distributed {
    pub(crate) fn open(arguments: Arguments, invocation: &Invocation) -> Result<Self, Failure> {
        if let Some(shard) = arguments.shard {
            return Err(Failure::Usage(format!(
                "--shard {shard}: the processes of this run share the work already"
            )));
        }
        if arguments.find.is_some() {
            return Err(Failure::Usage("--find runs in one process".to_owned()));
        }
        #[cfg(feature = "transformer")]
        if language::is_model(arguments.network.path()) {
            return Err(Failure::Usage(
                "language models run in one process: give each process a shard with --shard I/N --report DIR"
                    .to_owned(),
            ));
        }
        arguments.check()?;
        let subject = arguments.subject(invocation)?;
        let earlier = arguments.earlier.earlier();
        let report = arguments.report.as_deref();
        let report =
            report.map(|folder| Report::open(folder, earlier, subject.names())).transpose()?;
        let (warnings, notes) = (subject.warnings.clone(), subject.notes.clone());
        let provenance = subject.provenance.clone();
        let job = arguments.job(subject)?;
        Ok(Self { arguments, job, report, warnings, notes, provenance })
    }

    /// Writes and prints an evaluation, and reports the failure that ended it.
    pub(crate) fn finish(
        &self,
        found: &Evaluation,
        failure: Option<String>,
        elapsed: Duration,
    ) -> Outcome {
        let mut found = found.clone();
        self.job.add_costs(&mut found);
        add_warnings(&mut found, &self.warnings);
        found.provenance.push(self.provenance.clone());
        if let Some(report) = &self.report {
            report.write(&found)?;
        }
        match failure {
            Some(failure) => {
                let cells = plural(found.unfinished, "cell");
                Err(Failure::Work(format!("{failure}\nunfinished: {cells} to go")))
            }
            None => self.arguments.format.print(&found, &self.notes, self.report.as_ref(), elapsed),
        }
    }
}

/// Adds warnings to a result, each once.
fn add_warnings(found: &mut Evaluation, warnings: &[String]) {
    for warning in warnings {
        if !found.warnings.contains(warning) {
            found.warnings.push(warning.clone());
        }
    }
}

impl Arguments {
    /// Runs an evaluation with a progress bar, writes its report and prints it.
    fn evaluate(&self, subject: &Subject, invocation: &Invocation) -> Outcome {
        let earlier = self.earlier.earlier();
        let report = self.report.as_deref();
        let report =
            report.map(|folder| Report::open(folder, earlier, subject.names())).transpose()?;
        let checkpoint = report.as_ref().and_then(|report| report.checkpoint.clone());
        interrupt::watch();
        let (bar, start) = (progress_bar(), Instant::now());
        let mut file = report.as_ref().map(Report::checkpoint_file);
        let cancel = Cancel::when(&interrupt::is_pressed);
        let Subject { network, data, plan, .. } = subject;
        let result = evaluate(network, data, plan, checkpoint, cancel, |progress: Progress<'_>| {
            if let Some(file) = &mut file {
                // A failure is seen again when the whole report is written.
                let _ = file.update(progress.done, || {
                    let mut part = progress.evaluation.clone();
                    part.provenance.push(subject.provenance.clone());
                    part.to_json()
                });
            }
            bar.set_length(progress.total as u64);
            bar.set_position(progress.done as u64);
            bar.set_message(format!(
                "{}, {} bits, seed {}",
                progress.generator, progress.length, progress.seed
            ));
        });
        let result = match report {
            Some(_) => result.and_then(|found| with_losses(subject, found, cancel)),
            None => result,
        };
        bar.finish_and_clear();
        let elapsed = start.elapsed();
        let (mut evaluation, failure) = match result {
            Ok(evaluation) => (evaluation, None),
            Err(EvalError::Unfinished { done, source }) => (*done, Some(*source)),
            Err(error) => return Err(self.explain(error, Some(&subject.data))),
        };
        add_costs(network, data, &mut evaluation);
        add_warnings(&mut evaluation, &subject.warnings);
        evaluation.provenance.push(subject.provenance.clone());
        if let Some(report) = &report {
            report.write(&evaluation)?;
        }
        if let Some(error) = failure {
            return Err(self
                .explain(error, Some(&subject.data))
                .with_hint(&resume_hint(report.is_some(), invocation)));
        }
        let outcome = self.format.print(&evaluation, &subject.notes, report.as_ref(), elapsed)?;
        if !evaluation.is_complete() {
            output::message(resume_hint(report.is_some(), invocation));
        }
        Ok(outcome)
    }

    fn job(&self, subject: Subject) -> Result<Job<'static>, Failure> {
        let Subject { network, data, plan, .. } = subject;
        Job::new(network, Cow::Owned(data), plan).map_err(|error| self.explain(error, None))
    }

    /// Refuses options that cannot be combined, before anything is read.
    fn check(&self) -> Result<(), Failure> {
        #[cfg(feature = "transformer")]
        self.language.check_unused()?;
        match self.find {
            Some(loss) if !(0.0..=100.0).contains(&loss) => {
                return Err(Failure::Usage(format!(
                    "--find: {loss} is not a number of percentage points from 0 to 100"
                )));
            }
            Some(_) if !self.plan.faults.is_empty() => {
                return Err(Failure::Usage("--find cannot be combined with --faults".to_owned()));
            }
            Some(_) if self.plan.generators.len() > 1 => {
                return Err(Failure::Usage(
                    "--find: give one generator with --generators".to_owned(),
                ));
            }
            _ => {}
        }
        self.data.check(self.task.labels(), self.network.calibrate.as_deref())
    }

    /// Reads the network and the data, and checks that they fit each other and the plan.
    fn subject(&self, invocation: &Invocation) -> Result<Subject, Failure> {
        let (mut plan, kind) = (self.plan.plan()?, self.task.labels());
        let network = self.network.load()?;
        plan.check(&network).map_err(|error| match error {
            // A property of the network is not the fault of an argument.
            EvalError::Nothing(_) | EvalError::Engine(EngineError::NoIntegerForm { .. }) => {
                self.explain(error, None)
            }
            error => Failure::usage(error),
        })?;
        let data = self.data.read(kind)?;
        check_samples(&network, &data).map_err(|failure| self.explain_embedded(failure))?;
        if kind == LabelKind::Classes {
            data.check_classes(network.n_classes())?;
        }
        let calibrated = self.network.calibrate(network, &data, &self.data, kind)?;
        let Calibrated { network, is_calibrated, warnings, samples } = calibrated;
        let mut provenance = super::provenance::of_network(
            invocation,
            &self.plan.device,
            &self.network,
            &self.data,
            &samples,
        )?;
        let layers = super::provenance::of_layers(self.plan.layers_file.as_deref())?;
        provenance.sources.extend(layers);
        if is_calibrated {
            plan.range = ValueRange::Saturate;
        }
        warnings.iter().for_each(|warning| output::message(format!("warning: {warning}")));
        let notes = class_note(&data).into_iter().collect();
        Ok(Subject { network: Arc::new(network), data, plan, warnings, notes, provenance })
    }

    /// Adds the remedy to a failure of samples that are the embedded ones.
    fn explain_embedded(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Work(text) if self.data.is_embedded() => Failure::Work(format!(
                "{text} (these are the embedded digits: give your own samples with --data)"
            )),
            failure => failure,
        }
    }

    /// Returns an error with its remedy.
    fn explain(&self, error: EvalError, data: Option<&Dataset>) -> Failure {
        let are_raw_bytes = || {
            let samples = data.map(|data| data.samples(0..data.len().min(16)));
            !self.data.is_divided()
                && samples.is_some_and(|samples| samples.is_ok_and(|samples| are_bytes(&samples)))
        };
        let hint = match error {
            EvalError::UnknownClass { .. } => return self.explain_embedded(error.into()),
            EvalError::Engine(EngineError::Feature { .. }) if are_raw_bytes() => {
                " (--clip does that; for bytes of images that the network takes in [0, 1], --divide 255)"
            }
            EvalError::Engine(EngineError::Feature { .. }) => " (--clip does that)",
            EvalError::Checkpoint(_) => " (--force instead of --resume replaces the report)",
            _ => "",
        };
        Failure::Work(format!("{error}{hint}"))
    }
}

/// Returns how to go on with a run that has not finished.
pub(crate) fn resume_hint(is_saved: bool, invocation: &Invocation) -> String {
    if is_saved {
        format!("the finished part is saved; go on with: {}", invocation.resumed())
    } else {
        "nothing is saved: with --report DIR, a run can be resumed".to_owned()
    }
}

/// Returns a bar on standard error, or none if that is not a terminal.
pub(crate) fn progress_bar() -> ProgressBar {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(Some(0), target);
    if let Ok(style) =
        ProgressStyle::with_template("{bar:30} {pos}/{len}  {elapsed_precise}  {msg}")
    {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

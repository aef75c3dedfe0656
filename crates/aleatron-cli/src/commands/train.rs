//! `aleatron train`: fine-tunes a network for short streams, and shows its accuracy before and
//! after.

use super::data::DataOptions;
use super::eval::{Task, progress_bar};
use super::names::read_name;
use super::report::{fault, try_writing};
use super::source::{NetworkOptions, check_samples};
use super::{Failure, Outcome, read_length, read_positive, train_find};
use crate::invocation::Invocation;
use crate::{Verdict, interrupt, output};
use aleatron::data::Dataset;
use aleatron::eval::report::{TrainingEpoch, training};
use aleatron::eval::{Evaluation, Plan, Provenance, Source, evaluate};
use aleatron::fault::{FaultKind, FaultRate, FaultSites};
use aleatron::generator::{GeneratorName, Sharing, WidthChoice};
use aleatron::network::{Arithmetic, Network, StreamConfig, ValueRange};
use aleatron::train::batches::{Augmentation, split};
use aleatron::train::{
    AdamOptions, Forward, OptimizerKind, Progress, Schedule, SgdOptions, TrainOptions, Trained,
    calibrate_for, train_with,
};
use aleatron::{Cancel, CoreError, Device};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The share of the samples that is held out for the evaluation if no test samples are given.
const TEST_SHARE: f64 = 0.2;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    aleatron train --lengths 8 --out short.onnx   the embedded network and digits\n  \
    aleatron train model.onnx --data train.npz --test test.npz \\\n      --lengths 16,32 --generators sobol,lfsr --out trained.onnx\n  \
    aleatron train --find 1 --lengths 4,64 --out short.onnx \\\n      --out-layers layers.json")]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(super) network: NetworkOptions,
    /// The task of the network: classification or regression.
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
    /// Samples for the evaluation before and after, in the format of --data. If not given, a fifth
    /// of the samples is held out; for the embedded digits, the test digits.
    #[arg(long, value_name = "FILE", help_heading = "Samples")]
    test: Option<PathBuf>,
    /// Lengths of streams to train for, in bits; steps take them in turn. With --find, the least
    /// and the greatest length of a layer.
    #[arg(long, value_delimiter = ',', value_name = "BITS,...", value_parser = read_length, default_values_t = [16], help_heading = "Streams")]
    pub(super) lengths: Vec<usize>,
    /// Generators to train for, as in eval; steps take them in turn.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", value_parser = read_name::<GeneratorName>,
        default_values_t = [GeneratorName::SOBOL], help_heading = "Streams")]
    pub(super) generators: Vec<GeneratorName>,
    /// Lengths of the evaluation before and after; those of training are added.
    #[arg(long, value_delimiter = ',', value_name = "BITS,...", value_parser = read_length,
        default_values_t = [8, 16, 32, 64, 256], conflicts_with = "find", help_heading = "Streams")]
    eval_lengths: Vec<usize>,
    /// Bits of the sequences that streams share, 1 to 32, or auto.
    #[arg(long, value_name = "BITS", default_value = "auto", value_parser = read_name::<WidthChoice>, help_heading = "Streams")]
    width: WidthChoice,
    /// How many independent sequences streams share: all, input or stream.
    #[arg(long, value_name = "HOW", default_value_t = Sharing::OneForAll, value_parser = read_name::<Sharing>, help_heading = "Streams")]
    sharing: Sharing,
    /// The inter-layer arithmetic: float, or integer as in a circuit.
    #[arg(long, value_name = "KIND", default_value_t = Arithmetic::Float, value_parser = read_name::<Arithmetic>, help_heading = "Streams")]
    arithmetic: Arithmetic,
    /// Search for the shortest streams of each layer, and train the network for them: lengths are
    /// halved, and the network is trained for them, as long as the score of the validation samples
    /// is at most this many percentage points of accuracy, or for regression hundredths of R²,
    /// below floating point.
    #[arg(long, value_name = "POINTS", conflicts_with_all = ["faults"], help_heading = "Search")]
    pub(super) find: Option<f64>,
    /// The most trials of --find.
    #[arg(long, value_name = "N", value_parser = read_positive, default_value_t = 100, requires = "find", help_heading = "Search")]
    pub(super) budget: usize,
    /// A fault rate to train with: the probability that a bit of a site flips, from 1e-9 to 0.5.
    /// Each step has other faults. The evaluations are with and without faults.
    #[arg(long, value_name = "RATE", value_parser = read_name::<FaultRate>, help_heading = "Faults")]
    faults: Option<FaultRate>,
    /// The sites of faults, as for eval; several are joined by +.
    #[arg(long, value_name = "SITE", value_parser = read_name::<FaultSites>, requires = "faults",
        default_value_t = FaultSites::STREAMS, help_heading = "Faults")]
    fault_site: FaultSites,
    /// The kind of faults, as for eval.
    #[arg(long, value_name = "KIND", value_parser = read_name::<FaultKind>, requires = "faults", help_heading = "Faults")]
    fault_kind: Option<FaultKind>,
    /// How the network runs in training: streams (the counts that an evaluation has), noise
    /// (floating point with the noise of random streams, cheaper) or float.
    #[arg(
        long,
        value_name = "KIND",
        default_value = "streams",
        ignore_case = true,
        help_heading = "Training"
    )]
    through: Through,
    /// Where streams run: auto, cpu, gpu, cuda. It changes times and nothing else.
    #[arg(long, default_value_t = Device::Cpu, value_parser = read_name::<Device>, help_heading = "Execution")]
    device: Device,
    /// Where gradients are computed, and the network between its streams: cpu, gpu or gpu:1. Small
    /// networks are faster on the CPU.
    #[arg(long, value_name = "DEVICE", default_value = "cpu", help_heading = "Execution")]
    gradient_device: String,
    /// Passes over the data. With --find, those of each trial, 5 by default.
    #[arg(long, value_name = "N", value_parser = read_positive, default_value_t = 20,
        default_value_if("find", clap::builder::ArgPredicate::IsPresent, "5"), help_heading = "Training")]
    epochs: usize,
    /// Samples of a step.
    #[arg(long, value_name = "N", value_parser = read_positive, default_value_t = 64, help_heading = "Training")]
    batch: usize,
    /// The learning rate at the start; it falls along half a cosine to 0.
    #[arg(long, value_name = "RATE", default_value_t = 2e-3, help_heading = "Training")]
    rate: f64,
    /// The rule of the updates: adam or sgd.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "adam",
        ignore_case = true,
        help_heading = "Training"
    )]
    optimizer: OptimizerName,
    /// The share of the training samples by which the best epoch is chosen, and with --find the
    /// lengths.
    #[arg(long, value_name = "SHARE", default_value_t = 0.1, help_heading = "Training")]
    validation: f64,
    /// Stop after so many epochs without a better validation score.
    #[arg(long, value_name = "N", value_parser = read_positive, help_heading = "Training")]
    patience: Option<usize>,
    /// The largest norm of the gradients of a step.
    #[arg(long, value_name = "NORM", help_heading = "Training")]
    clip_norm: Option<f64>,
    /// Move training images at random by up to so many pixels.
    #[arg(long, value_name = "PIXELS", default_value_t = 0, help_heading = "Training")]
    shift: usize,
    /// Decides the order of samples, augmentation and random streams.
    #[arg(long, value_name = "SEED", default_value_t = 0, help_heading = "Training")]
    seed: u64,
    /// Write the trained network to this .onnx file.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) out: Option<PathBuf>,
    /// Write the lengths that --find found to this file, for --layers.
    #[arg(long, value_name = "FILE", requires = "find", help_heading = "Output")]
    pub(super) out_layers: Option<PathBuf>,
    /// Save the state after every epoch, or with --find after every trial, in this file, and go on
    /// from it if it exists.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    checkpoint: Option<PathBuf>,
    /// Write a page (training.html) and both evaluations (before.json, after.json) into this
    /// folder; with --find, the page is find.html, and find.json and layers.json are added.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(super) report: Option<PathBuf>,
    /// Print JSON instead of a table.
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,
}

/// The forward pass of training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Through {
    Streams,
    Noise,
    Float,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum OptimizerName {
    Adam,
    Sgd,
}

/// The result, for `--json`.
#[derive(serde::Serialize)]
struct Result<'a> {
    before: &'a Evaluation,
    after: &'a Evaluation,
    epochs: &'a [aleatron::train::Epoch],
    best_epoch: usize,
    seconds: f64,
}

/// A network, its samples and the settings of its training, which fit each other.
pub(super) struct Subject {
    pub(super) network: Network,
    pub(super) data: Dataset,
    pub(super) test: Dataset,
    pub(super) plan: Plan,
    pub(super) options: TrainOptions,
    pub(super) provenance: Provenance,
}

pub(crate) fn run(arguments: &Arguments, invocation: &Invocation) -> Outcome {
    arguments.check()?;
    let plan = arguments.plan();
    let options = arguments.options(&plan)?;
    let (network, data, test) = arguments.subject()?;
    plan.check(&network).map_err(Failure::usage)?;
    let report = arguments.find.and(arguments.report.as_deref());
    let checkpoint = arguments.checkpoint.as_deref();
    let _lock =
        report.map(|folder| train_find::open_report(folder, &network, checkpoint)).transpose()?;
    if arguments.out.is_none() {
        output::message("the trained network will not be saved: give --out FILE.onnx");
    }
    interrupt::watch();
    let cancel = Cancel::when(&interrupt::is_pressed);
    let start = Instant::now();
    let (network, calibration) = arguments.calibrate(network, &data, &plan, cancel)?;
    let provenance = arguments.provenance(invocation, &calibration, &options.device)?;
    if let Some(loss) = arguments.find {
        let subject = Subject { network, data, test, plan, options, provenance };
        return train_find::run(arguments, loss, &subject, cancel);
    }
    let mut before = arguments.evaluate(&network, &test, &plan, cancel)?;
    before.provenance.push(provenance.clone());
    let mut trained = arguments.train(&network, &data, &options, cancel)?;
    if arguments.through == Through::Float {
        // The inputs of layers have changed, and no streams told the training how large they may
        // be.
        let configs = arguments.configs(&plan).map_err(Failure::usage)?;
        let (weights, data) = (arguments.network.weight_scale.unwrap_or_default(), &data);
        (trained.network, _) = calibrate_for(&trained.network, data, &configs, weights, cancel)?;
    }
    if let Some(path) = &arguments.out {
        trained.network.save(path)?;
    }
    let mut after = arguments.evaluate(&trained.network, &test, &plan, cancel)?;
    after.provenance.push(provenance);
    let seconds = start.elapsed().as_secs_f64();
    if let Some(folder) = &arguments.report {
        write_report(folder, &before, &after, &trained)?;
    }
    if arguments.json {
        let Trained { history, best_epoch, .. } = &trained;
        let result = Result {
            before: &before,
            after: &after,
            epochs: history,
            best_epoch: *best_epoch,
            seconds,
        };
        output::json(&result)?;
    } else {
        arguments.print(&before, &after, &trained, seconds)?;
    }
    Ok(Verdict::Good)
}

impl Arguments {
    /// Returns the provenance of the run.
    fn provenance(
        &self,
        invocation: &Invocation,
        calibration: &str,
        gradients: &aleatron::tensor::Device,
    ) -> std::result::Result<Provenance, Failure> {
        let (network, data) = (&self.network, &self.data);
        let mut run =
            super::provenance::of_network(invocation, &self.device, network, data, calibration)?;
        let gradients = gradients.to_string();
        if let Some(device) = run.device.as_mut().filter(|device| **device != gradients) {
            device.push_str(&format!("; gradients on {gradients}"));
        }
        let test = self.test.as_deref().map(|path| Source::read("test", path));
        run.sources.extend(test.transpose()?);
        Ok(run)
    }

    /// Refuses options that cannot be combined and destinations that cannot be written, before
    /// anything is read.
    fn check(&self) -> std::result::Result<(), Failure> {
        self.data.check(self.task.labels(), self.network.calibrate.as_deref())?;
        if !(self.rate > 0.0 && self.rate.is_finite()) {
            return Err(Failure::Usage(format!("--rate: {} is not a positive number", self.rate)));
        }
        if self.faults.is_some() && self.through != Through::Streams {
            return Err(Failure::Usage(
                "--faults needs --through streams: only streams have bits that flip".to_owned(),
            ));
        }
        if let Some(loss) = self.find {
            train_find::check(self, loss)?;
            if self.through != Through::Streams {
                return Err(Failure::Usage(
                    "--find needs --through streams: trials train through their streams".to_owned(),
                ));
            }
        }
        if self.test.is_some() && self.data.is_embedded() {
            return Err(Failure::Usage(
                "--test needs --data: the embedded digits have test digits".to_owned(),
            ));
        }
        for path in self.out.iter().chain(&self.out_layers).chain(&self.checkpoint) {
            if path.is_dir() {
                return Err(Failure::Usage(format!("{}: a folder, not a file", path.display())));
            }
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            try_writing(folder.unwrap_or(Path::new(".")))?;
        }
        if let Some(folder) = &self.report {
            std::fs::create_dir_all(folder).map_err(|error| fault(folder, &error))?;
            try_writing(folder)?;
        }
        Ok(())
    }

    /// Reads the network, the samples of training and those of the evaluation.
    fn subject(&self) -> std::result::Result<(Network, Dataset, Dataset), Failure> {
        let kind = self.task.labels();
        let network = self.network.load()?;
        let (data, test) = match (&self.test, self.data.is_embedded()) {
            (_, true) => (Dataset::digits_train(), Dataset::digits_test()),
            (Some(path), _) => (self.data.read(kind)?, self.data.read_file(path, kind)?),
            (None, false) => {
                let all = self.data.read(kind)?;
                let (training, held) =
                    split(all.len(), TEST_SHARE, self.seed).map_err(Failure::usage)?;
                if held.is_empty() {
                    let (name, n) = (all.name(), all.len());
                    return Err(Failure::Work(format!(
                        "{name}: a fifth of {n} samples is none for the evaluation; give some with --test FILE"
                    )));
                }
                let name = format!("{} held out of {}", held.len(), all.name());
                output::message(format!(
                    "{} samples are held out of training for the evaluation; give others with --test FILE",
                    held.len()
                ));
                (all.subset(all.name(), &training)?, all.subset(name, &held)?)
            }
        };
        for samples in [&data, &test] {
            check_samples(&network, samples)?;
        }
        Ok((network, data, test))
    }

    /// Calibrates a network without scales: by the given percentile, or by the best one for the
    /// streams of the training. Returns a description of the calibration as well.
    fn calibrate(
        &self,
        network: Network,
        data: &Dataset,
        plan: &Plan,
        cancel: Cancel<'_>,
    ) -> std::result::Result<(Network, String), Failure> {
        if self.network.has_scales(&network) || self.network.finds_scales() {
            let kind = self.task.labels();
            let calibrated = self.network.calibrate(network, data, &self.data, kind)?;
            return Ok((calibrated.network, calibrated.samples));
        }
        let weights = self.network.weight_scale.unwrap_or_default();
        let (network, share) = calibrate_for(
            &network,
            data,
            &self.configs(plan).map_err(Failure::usage)?,
            weights,
            cancel,
        )?;
        output::message(format!(
            "the scale of each layer covers {} % of its inputs, which is best for these streams; --percentile sets it",
            100.0 * share
        ));
        let scales = format!("{} % of the inputs of {}", 100.0 * share, data.name());
        Ok((network, scales))
    }

    /// Returns the configurations to train for.
    fn configs(&self, plan: &Plan) -> aleatron::eval::Result<Vec<StreamConfig>> {
        let faults = match self.faults {
            Some(rate) => self.fault_site.faults(self.fault_kind, rate)?,
            None => Vec::new(),
        };
        let pairs = self
            .lengths
            .iter()
            .flat_map(|&length| self.generators.iter().map(move |&g| (length, g)));
        let config = |(length, generator)| {
            StreamConfig::new(length)
                .generator(generator)
                .width(plan.width)
                .sharing(plan.sharing)
                .arithmetic(plan.arithmetic)
                .range(plan.range)
                .device(plan.device.clone())
                .faults(faults.clone())
        };
        Ok(pairs.map(config).collect())
    }

    /// Returns the plan of the evaluations.
    fn plan(&self) -> Plan {
        let mut lengths = [&self.eval_lengths[..], &self.lengths].concat();
        lengths.sort_unstable();
        lengths.dedup();
        Plan {
            lengths,
            generators: self.generators.clone(),
            width: self.width,
            sharing: self.sharing,
            arithmetic: self.arithmetic,
            range: ValueRange::Saturate,
            device: self.device.clone(),
            faults: self.faults.map_or_else(Vec::new, |rate| vec![FaultRate::ZERO, rate]),
            fault_sites: vec![self.fault_site],
            fault_kind: self.fault_kind,
            ..Plan::default()
        }
    }

    /// Opens the device of gradients.
    fn gradient_device(&self) -> std::result::Result<aleatron::tensor::Device, Failure> {
        use aleatron::tensor::{Device, Error};
        Device::named(&self.gradient_device).map_err(|error| match error {
            Error::Name { .. } => Failure::usage(error),
            error => error.into(),
        })
    }

    fn options(&self, plan: &Plan) -> std::result::Result<TrainOptions, Failure> {
        let forward = match self.through {
            Through::Float => Forward::Float,
            Through::Noise => Forward::Noise { lengths: self.lengths.clone() },
            Through::Streams => Forward::Streams(self.configs(plan).map_err(Failure::usage)?),
        };
        let optimizer = match self.optimizer {
            OptimizerName::Adam => OptimizerKind::Adam(AdamOptions::default()),
            OptimizerName::Sgd => OptimizerKind::Sgd(SgdOptions::default()),
        };
        Ok(TrainOptions {
            epochs: self.epochs,
            batch: self.batch,
            optimizer: optimizer.with_rate(self.rate),
            schedule: Schedule::default(),
            forward,
            augmentation: Augmentation { shift: self.shift, ..Augmentation::default() },
            clip: self.clip_norm,
            validation: self.validation,
            patience: self.patience,
            seed: self.seed,
            device: self.gradient_device()?,
            checkpoint: self.checkpoint.clone(),
            ..TrainOptions::default()
        })
    }

    pub(super) fn evaluate(
        &self,
        network: &Network,
        test: &Dataset,
        plan: &Plan,
        cancel: Cancel<'_>,
    ) -> std::result::Result<Evaluation, Failure> {
        let bar = progress_bar();
        let found = evaluate(network, test, plan, None, cancel, |progress| {
            bar.set_length(progress.total as u64);
            bar.set_position(progress.done as u64);
            bar.set_message(format!(
                "evaluating, {}, {} bits",
                progress.generator, progress.length
            ));
        });
        bar.finish_and_clear();
        match found? {
            found if found.is_complete() => Ok(found),
            _ => Err(self.cancelled()),
        }
    }

    fn train(
        &self,
        network: &Network,
        data: &Dataset,
        options: &TrainOptions,
        cancel: Cancel<'_>,
    ) -> std::result::Result<Trained, Failure> {
        let bar = progress_bar();
        let mut per_epoch = 1;
        let trained = train_with(network, data, options, cancel, &mut |progress| match progress {
            Progress::Start { steps, .. } => {
                per_epoch = steps as u64;
                bar.set_length(per_epoch * options.epochs as u64);
            }
            Progress::Step { epoch, step, loss } => {
                bar.set_position((epoch as u64 - 1) * per_epoch + step as u64);
                bar.set_message(format!("epoch {epoch}, loss {loss:.4}"));
            }
            Progress::Epoch(epoch) => {
                let score =
                    epoch.validation.map_or_else(String::new, |score| match score.accuracy {
                        Some(accuracy) => format!(", validation {:.2} %", 100.0 * accuracy),
                        None => format!(", validation loss {:.4}", score.loss),
                    });
                bar.println(format!("epoch {:>3}: loss {:.4}{score}", epoch.epoch, epoch.loss));
            }
            _ => {}
        });
        bar.finish_and_clear();
        trained.map_err(|error| self.failure(error))
    }

    /// Returns the failure of a training.
    pub(super) fn failure(&self, error: aleatron::train::Error) -> Failure {
        match error {
            aleatron::train::Error::Core(CoreError::Cancelled) => self.cancelled(),
            error @ aleatron::train::Error::Option { .. } => Failure::usage(error),
            error => error.into(),
        }
    }

    pub(super) fn cancelled(&self) -> Failure {
        Failure::Work(match &self.checkpoint {
            Some(path) => format!("cancelled; the same command goes on from {}", path.display()),
            None => "cancelled; with --checkpoint FILE, training can be resumed".to_owned(),
        })
    }

    fn print(
        &self,
        before: &Evaluation,
        after: &Evaluation,
        trained: &Trained,
        seconds: f64,
    ) -> std::io::Result<()> {
        let is_classes = before.float.classification().is_some();
        let (factor, what) = if is_classes { (100.0, "accuracy %") } else { (1.0, "R²") };
        output::line(format!(
            "Network {} on {}, {} samples: {what} before and after training\n",
            before.network.name, before.data.name, before.data.samples
        ))?;
        output::line(format!(
            "{:<12}{:>6}{}{:>10}{:>10}{:>12}",
            "generator",
            "bits",
            if self.faults.is_some() { "    faults" } else { "" },
            "before",
            "after",
            "difference"
        ))?;
        let line = |generator: &str, bits: &str, faults: &str, a: f64, b: f64| {
            let (a, b) = (factor * a, factor * b);
            let faults =
                if self.faults.is_some() { format!("{faults:>10}") } else { String::new() };
            output::line(format!(
                "{generator:<12}{bits:>6}{faults}{a:>10.2}{b:>10.2}{:>+12.2}",
                b - a
            ))
        };
        for (old, new) in before.rows().iter().zip(&after.rows()) {
            let rate = old.faults.map_or_else(|| "0".to_owned(), |faults| faults.rate.to_string());
            line(&old.generator.to_string(), &old.bits(), &rate, old.score(), new.score())?;
        }
        line("float", "", "", before.float.score(), after.float.score())?;
        let (epochs, best) = (trained.history.len(), trained.best_epoch);
        output::line(match (best, trained.before) {
            (0, _) => format!(
                "\nNo epoch of {epochs} was better on the validation samples: the network is unchanged. {seconds:.1} s"
            ),
            (best, Some(_)) => {
                format!(
                    "\nEpoch {best} of {epochs}, the best on the validation samples; {seconds:.1} s"
                )
            }
            (best, None) => format!(
                "\nEpoch {best} of {epochs}, the last one: there are no validation samples; {seconds:.1} s"
            ),
        })?;
        if let Some(path) = &self.out {
            output::line(format!("Network: {}", path.display()))?;
        }
        if let Some(folder) = &self.report {
            output::line(format!("Report: {}", folder.join(PAGE_NAME).display()))?;
        }
        Ok(())
    }
}

const PAGE_NAME: &str = "training.html";

/// Writes the page and both evaluations.
fn write_report(
    folder: &Path,
    before: &Evaluation,
    after: &Evaluation,
    trained: &Trained,
) -> std::result::Result<(), Failure> {
    let epochs = trained.history.iter().map(|epoch| TrainingEpoch {
        loss: epoch.loss,
        validation: epoch.validation.map(|score| score.loss),
    });
    let page = training(before, after, &epochs.collect::<Vec<_>>());
    for (name, text) in
        [(PAGE_NAME, page), ("before.json", before.to_json()?), ("after.json", after.to_json()?)]
    {
        aleatron::eval::write(folder.join(name), &text)?;
    }
    Ok(())
}

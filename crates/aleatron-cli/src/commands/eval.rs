//! `aleatron eval`: a network as bit streams, accuracy against length and generator.

use super::report::{Earlier, Format, Found, Report, fault, try_writing};
use super::shard::{self, Shard};
use super::{Failure, Outcome, read_length, read_positive};
use crate::interrupt;
use aleatron::data::{CsvOptions, Dataset, Error as DataError, Header, LabelColumn, LabelKind, ReadOptions};
use aleatron::eval::{
    Evaluation, Job, Plan, Progress, RegressionEvaluation, Subject, evaluate, evaluate_regression, plural,
};
use aleatron::generator::{GeneratorName, Sharing, WidthChoice};
#[cfg(feature = "graph")]
use aleatron::graph::{Calibration, GraphNetwork, InputScale, Mode};
use aleatron::network::{Arithmetic, FeatureRange, LayerOverride, Network, read_layers};
use aleatron::{Cancel, Device, EngineError, Error, Polarity};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::borrow::Cow;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
#[cfg(feature = "graph")]
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// NAME.json with NAME.safetensors beside it, an .onnx file, or one of the embedded networks for digits: noise-aware, plain, cnn.
    #[arg(default_value = "noise-aware")]
    network: PathBuf,
    /// The same as an option.
    #[arg(long = "network", value_name = "NETWORK", conflicts_with = "network")]
    named_network: Option<PathBuf>,
    /// What the network does: classification (labels are classes, and accuracy is found) or regression (labels are numbers, one for each output,
    /// and mean errors are found).
    #[arg(long, value_name = "TASK", default_value = "classification")]
    task: Task,
    /// Labelled samples, as .npz with arrays x and y, as .csv, as .npy with --labels, or as a folder with a folder of PNG images for each class;
    /// the embedded test digits if not given.
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// The labels of the samples of an .npy file, as another one.
    #[arg(long, value_name = "FILE", requires = "data")]
    labels: Option<PathBuf>,
    /// Divide all features by this, such as 255 for images of bytes.
    #[arg(long, value_name = "NUMBER", default_value_t = 1.0, requires = "data")]
    divide: f64,
    /// Whether the first line of a .csv file names its columns: auto, yes or no.
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    header: Header,
    /// The column of a .csv file that holds the classes: its name, or its index from 0 on, or from the end with -1.
    #[arg(long, value_name = "COLUMN", default_value = "-1", allow_hyphen_values = true)]
    label: LabelColumn,
    /// Let features that the first layer cannot encode saturate, and count them.
    #[arg(long)]
    clip: bool,
    /// Lengths of streams in bits.
    #[arg(long, value_delimiter = ',', value_name = "BITS,...", value_parser = read_length, allow_hyphen_values = true,
        default_values_t = Plan::default().lengths)]
    lengths: Vec<usize>,
    /// bernoulli, sobol, lfsr, halton, vdc, ramp, or one for inputs and one for weights, as in sobol:1+lfsr:77 or bernoulli+sobol:2.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", default_values_t = Plan::default().generators)]
    generators: Vec<GeneratorName>,
    /// Seeds for generators that have one.
    #[arg(long, value_name = "N", value_parser = read_positive, allow_hyphen_values = true,
        default_value_t = Plan::default().seeds)]
    seeds: usize,
    /// Bits of the sequences that streams share, 1 to 32, or auto: as many as the length covers where a generator needs its whole
    /// period, else eight.
    #[arg(long, value_name = "BITS", default_value = "auto", allow_hyphen_values = true)]
    width: WidthChoice,
    /// How many independent sequences streams share: all (one for inputs, one for weights), input (a pair for each) or stream.
    #[arg(long, value_name = "HOW", default_value_t = Sharing::OneForAll)]
    sharing: Sharing,
    /// Settings of one layer: NAME:length=64,generator=sobol,width=6,sharing=input, any of them. May be given several times.
    #[arg(long = "layer", value_name = "NAME:SETTINGS", value_parser = read_layer)]
    layers: Vec<(String, LayerOverride)>,
    /// Settings of layers from a JSON file: {"NAME": {"length": 64, "generator": "sobol"}, ...}, the same settings as those of --layer.
    #[arg(long = "layers", value_name = "FILE")]
    layers_file: Option<PathBuf>,
    /// How streams hold numbers, in every layer: signed (a sign and a magnitude), bipolar or unipolar; as the network says if not given.
    #[arg(long, value_name = "KIND")]
    polarity: Option<Polarity>,
    /// Samples of training to find the scales of an .onnx network with; the first 256 samples of the data if not given.
    #[cfg(feature = "graph")]
    #[arg(long, value_name = "FILE")]
    calibrate: Option<PathBuf>,
    /// The share of inputs of an .onnx network's layers, in (0, 1], that their scale must cover; the others saturate.
    #[cfg(feature = "graph")]
    #[arg(long, value_name = "SHARE", default_value_t = 1.0)]
    percentile: f64,
    /// A layer of an .onnx network that runs in binary. May be given several times.
    #[cfg(feature = "graph")]
    #[arg(long = "binary", value_name = "NAME")]
    binary: Vec<String>,
    /// Look for the shortest streams of each layer that lose at most this many percentage points, between the least and the greatest of the
    /// lengths given.
    #[arg(long, value_name = "POINTS", conflicts_with_all = ["csv", "shard"])]
    find: Option<f64>,
    /// The most trials of --find.
    #[arg(long, value_name = "N", value_parser = read_positive, default_value_t = 100, requires = "find")]
    budget: usize,
    /// How numbers are kept between layers: float, or integer as a circuit does.
    #[arg(long, value_name = "KIND", default_value_t = Arithmetic::Float)]
    arithmetic: Arithmetic,
    /// Where to run: auto (wherever it is faster), cpu, gpu, gpu:1, or several as in gpu:0,gpu:1. It changes times and nothing else.
    #[arg(long, default_value_t)]
    device: Device,
    /// Write a page (index.html), the full result (evaluation.json) and a table (evaluation.csv) into this folder.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Keep what the folder of the report holds, and run what is missing.
    #[arg(long, requires = "report")]
    resume: bool,
    /// Run one of N shares of the work, such as 2/8, and leave it in the folder of the report; `aleatron merge` puts them together.
    #[arg(long, value_name = "I/N", requires = "report", conflicts_with_all = ["json", "csv"])]
    shard: Option<Shard>,
    #[command(flatten)]
    format: Format,
}

/// What a network does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Task {
    Classification,
    Regression,
}

impl Task {
    fn labels(self) -> LabelKind {
        match self {
            Self::Classification => LabelKind::Classes,
            Self::Regression => LabelKind::Numbers,
        }
    }
}

/// What went wrong with a file of samples; a divisor is an argument.
fn explain_reading(error: DataError) -> Failure {
    match error {
        DataError::Divisor(_) => Failure::Usage(format!("--divide: {error}")),
        error => error.into(),
    }
}

/// Reads NAME:SETTINGS. A name may have colons; settings begin after the last one before an equals sign.
fn read_layer(text: &str) -> Result<(String, LayerOverride), String> {
    let fault = || "use NAME:length=64,generator=sobol,width=6,sharing=input, any of them".to_owned();
    let settings = text.find('=').and_then(|equals| text[..equals].rfind(':')).ok_or_else(fault)?;
    let (name, rest) = (&text[..settings], &text[settings + 1..]);
    Ok((name.to_owned(), rest.parse().map_err(|error: EngineError| error.to_string())?))
}

/// The network that arguments name.
fn load_subject(arguments: &Arguments, plan: &Plan, data: &Dataset) -> Result<Subject, Failure> {
    #[cfg(feature = "graph")]
    if arguments.is_graph() {
        return Ok(Subject::Graph(load_graph(arguments, plan, data)?.into()));
    }
    let _ = data;
    let network = load_network(arguments.network())?;
    let network = match arguments.polarity {
        Some(polarity) => network.with_polarity(polarity).map_err(Failure::usage)?,
        None => network,
    };
    plan.check(&network).map_err(Failure::usage)?;
    Ok(Subject::Layers(network.into()))
}

/// Samples for scales, where none are given.
#[cfg(feature = "graph")]
const CALIBRATION_SAMPLES: usize = 256;

#[cfg(feature = "graph")]
fn load_graph(arguments: &Arguments, plan: &Plan, data: &Dataset) -> Result<GraphNetwork, Failure> {
    let mut network = GraphNetwork::load(arguments.network())?;
    if let Some(polarity) = arguments.polarity {
        network = network.with_polarity(polarity).map_err(Failure::usage)?;
    }
    for name in &arguments.binary {
        network = network.with_mode(name, Mode::Binary).map_err(Failure::usage)?;
    }
    let network = Arc::new(network);
    Subject::from(Arc::clone(&network)).check(plan).map_err(|error| match error {
        // What the network lacks is not the fault of an argument.
        Error::Nothing(_) | Error::Engine(EngineError::NoIntegerForm { .. }) => arguments.explain(error),
        error => Failure::usage(error),
    })?;
    let (expected, actual) = (network.n_features(), data.n_features());
    if expected != actual {
        return Err(arguments.explain(Error::FeatureCount { expected, actual }));
    }
    let inputs = match arguments.percentile {
        1.0 => InputScale::Maximum,
        share => InputScale::Percentile(share),
    };
    let calibration = Calibration { inputs, ..Calibration::default() };
    let features = match &arguments.calibrate {
        Some(path) => {
            let read = Dataset::read_features(path, &arguments.read_options(None));
            let (actual, features) = read.map_err(explain_reading)?;
            if expected != actual {
                return Err(arguments.explain(Error::FeatureCount { expected, actual }));
            }
            features.into()
        }
        None => data.samples(0..data.len().min(CALIBRATION_SAMPLES))?,
    };
    network.calibrated(&features, &calibration).map_err(|error| arguments.explain(error.into()))
}

/// An evaluation with what its page shows of the graph; one that was ended stays as it is.
#[cfg(feature = "graph")]
fn with_losses(
    network: &GraphNetwork,
    data: &Dataset,
    plan: &Plan,
    mut found: Evaluation,
    cancel: Cancel<'_>,
) -> aleatron::Result<Evaluation> {
    if !found.is_complete() {
        return Ok(found);
    }
    match aleatron::eval::find_losses(network, data, plan, &mut found, cancel) {
        Ok(()) | Err(Error::Core(aleatron::CoreError::Cancelled)) => Ok(found),
        Err(source) => Err(Error::Unfinished { done: Box::new(found), source: Box::new(source) }),
    }
}

fn search(arguments: &Arguments, network: &Subject, data: &Dataset, plan: &Plan, loss: f64) -> Outcome {
    if let Some(folder) = &arguments.report {
        std::fs::create_dir_all(folder).map_err(|e| fault(folder, &e))?;
        try_writing(folder)?;
    }
    let request = super::find::Request {
        loss,
        budget: arguments.budget,
        folder: arguments.report.as_deref(),
        resume: arguments.resume,
        json: arguments.format.json,
    };
    interrupt::watch();
    super::find::run(network, data, plan, &request, Cancel::when(&interrupt::is_pressed), &progress_bar())
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    arguments.check()?;
    let (network, data, plan) = arguments.subject()?;
    if let Some(loss) = arguments.find {
        return search(arguments, &network, &data, &plan, loss);
    }
    let earlier = Earlier::new(arguments.resume);
    if arguments.task == Task::Regression {
        return arguments.judge(|checkpoint, cancel, progress| {
            evaluate_regression(&network, &data, &plan, checkpoint, cancel, progress)
        });
    }
    if let Some((shard, folder)) = arguments.shard.zip(arguments.report.as_deref()) {
        let job = Job::new(network, Cow::Owned(data), plan).map_err(|e| arguments.explain(e))?;
        return shard::run(&job, shard, folder, earlier);
    }
    arguments.judge(|checkpoint, cancel, progress| {
        let found = evaluate(&network, &data, &plan, checkpoint, cancel, progress)?;
        #[cfg(feature = "graph")]
        let found = match &network {
            Subject::Graph(network) if arguments.report.is_some() => {
                with_losses(network, &data, &plan, found, cancel)?
            }
            _ => found,
        };
        Ok(found)
    })
}

/// An evaluation whose tasks somebody else runs.
pub(crate) struct Distributed {
    pub(crate) arguments: Arguments,
    pub(crate) job: Job<'static>,
    pub(crate) report: Option<Report>,
}

impl Distributed {
    pub(crate) fn open(arguments: Arguments) -> Result<Self, Failure> {
        if let Some(shard) = arguments.shard {
            return Err(Failure::Usage(format!(
                "--shard {shard}: the processes of this run share the work already"
            )));
        }
        if arguments.task == Task::Regression {
            return Err(Failure::Usage("--task regression runs in one process".to_owned()));
        }
        if arguments.find.is_some() {
            return Err(Failure::Usage("--find runs in one process".to_owned()));
        }
        arguments.check()?;
        let (network, data, plan) = arguments.subject()?;
        let job = Job::new(network, Cow::Owned(data), plan).map_err(|e| arguments.explain(e))?;
        let earlier = Earlier::new(arguments.resume);
        let report = arguments.report.as_deref().map(|folder| Report::open(folder, earlier)).transpose()?;
        Ok(Self { arguments, job, report })
    }

    /// Writes and prints what was found, and says what has failed.
    pub(crate) fn finish(&self, found: &Evaluation, failure: Option<String>, elapsed: Duration) -> Outcome {
        if let Some(report) = &self.report {
            report.write(found)?;
        }
        match failure {
            Some(failure) => {
                let cells = plural(found.unfinished, "cell");
                Err(Failure::Work(format!("{failure}\nunfinished: {cells} to go")))
            }
            None => self.arguments.format.print(found, self.report.as_ref(), elapsed),
        }
    }
}

/// Evaluations, and what becomes of those that something ended.
trait Partial: Found {
    /// What was done, and what ended it.
    fn done(error: Error) -> Result<(Self, Error), Error>;
}

impl Partial for Evaluation {
    fn done(error: Error) -> Result<(Self, Error), Error> {
        match error {
            Error::Unfinished { done, source } => Ok((*done, *source)),
            error => Err(error),
        }
    }
}

impl Partial for RegressionEvaluation {
    fn done(error: Error) -> Result<(Self, Error), Error> {
        match error {
            Error::UnfinishedRegression { done, source } => Ok((*done, *source)),
            error => Err(error),
        }
    }
}

impl Arguments {
    /// Runs an evaluation with a bar for its progress, writes its report and prints it.
    fn judge<E: Partial + Clone>(
        &self,
        evaluate: impl FnOnce(Option<E>, Cancel<'_>, &mut dyn FnMut(Progress<'_>)) -> aleatron::Result<E>,
    ) -> Outcome {
        let earlier = Earlier::new(self.resume);
        let report = self.report.as_deref().map(|folder| Report::<E>::open(folder, earlier)).transpose()?;
        let checkpoint = report.as_ref().and_then(|report| report.checkpoint.clone());
        interrupt::watch();
        let bar = progress_bar();
        let start = Instant::now();
        let cancel = Cancel::when(&interrupt::is_pressed);
        let result = evaluate(checkpoint, cancel, &mut |progress: Progress<'_>| {
            bar.set_length(progress.total as u64);
            bar.set_position(progress.done as u64);
            bar.set_message(format!(
                "{}, {} bits, seed {}",
                progress.generator, progress.length, progress.seed
            ));
        });
        bar.finish_and_clear();
        let elapsed = start.elapsed();
        let (evaluation, failure) = match result {
            Ok(evaluation) => (evaluation, None),
            Err(error) => {
                let (done, source) = E::done(error).map_err(|error| self.explain(error))?;
                (done, Some(source))
            }
        };
        if let Some(report) = &report {
            report.write(&evaluation)?;
        }
        match failure {
            Some(error) => Err(self.explain(error)),
            None => self.format.print(&evaluation, report.as_ref(), elapsed),
        }
    }

    /// Refuses what does not go together, before anything is read.
    fn check(&self) -> Result<(), Failure> {
        let usage = |text: &str| Err(Failure::Usage(text.to_owned()));
        if self.task == Task::Regression {
            if self.find.is_some() {
                return usage("--find looks for accuracy, which --task regression has not");
            }
            if self.shard.is_some() {
                return usage("--shard: --task regression runs in one process");
            }
        }
        match self.find {
            Some(loss) if !(0.0..=100.0).contains(&loss) => {
                return Err(Failure::Usage(format!("--find: {loss} is not a number of percentage points")));
            }
            Some(_) if self.generators.len() > 1 => {
                return usage("--find: give one generator with --generators");
            }
            _ => {}
        }
        #[cfg(feature = "graph")]
        {
            if !(self.percentile > 0.0 && self.percentile <= 1.0) {
                let share = self.percentile;
                return Err(Failure::Usage(format!("--percentile: {share} is not a share in (0, 1]")));
            }
            let is_set = self.calibrate.is_some() || self.percentile != 1.0 || !self.binary.is_empty();
            if is_set && !self.is_graph() {
                return usage("--calibrate, --percentile and --binary are for .onnx networks");
            }
        }
        if self.read_options(None).csv != CsvOptions::default() && !self.reads_csv() {
            return usage("--header and --label are for .csv files");
        }
        Ok(())
    }

    /// Whether the network is an .onnx file.
    #[cfg(feature = "graph")]
    fn is_graph(&self) -> bool {
        self.network().extension().is_some_and(|ending| ending.eq_ignore_ascii_case("onnx"))
    }

    /// Whether samples are read from a .csv file.
    fn reads_csv(&self) -> bool {
        #[cfg(feature = "graph")]
        let calibrate = self.calibrate.as_ref();
        #[cfg(not(feature = "graph"))]
        let calibrate = None;
        let mut files = self.data.iter().chain(calibrate);
        files.any(|file| file.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("csv")))
    }

    /// The network, the data and the plan, which fit each other.
    fn subject(&self) -> Result<(Subject, Dataset, Plan), Failure> {
        let plan = self.plan()?;
        let data = match &self.data {
            Some(path) => self.read(path, self.labels.as_deref())?,
            None if self.task == Task::Regression => {
                return Err(Failure::Usage(
                    "--task regression needs --data: the embedded digits have classes".to_owned(),
                ));
            }
            None => Dataset::digits_test(),
        };
        Ok((load_subject(self, &plan, &data)?, data, plan))
    }

    fn network(&self) -> &Path {
        self.named_network.as_ref().unwrap_or(&self.network)
    }

    fn read(&self, path: &Path, labels: Option<&Path>) -> Result<Dataset, Failure> {
        Dataset::read_with(path, &self.read_options(labels)).map_err(explain_reading)
    }

    fn read_options(&self, labels: Option<&Path>) -> ReadOptions {
        ReadOptions {
            csv: CsvOptions { header: self.header, label: self.label.clone() },
            labels: labels.map(Path::to_owned),
            kind: self.task.labels(),
            divisor: self.divide,
        }
    }

    fn plan(&self) -> Result<Plan, Failure> {
        let mut plan = Plan {
            lengths: self.lengths.clone(),
            generators: self.generators.clone(),
            seeds: self.seeds,
            width: self.width,
            sharing: self.sharing,
            arithmetic: self.arithmetic,
            range: if self.clip { FeatureRange::Clip } else { FeatureRange::Check },
            device: self.device.clone(),
            ..Plan::default()
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

    /// An error with what may help.
    fn explain(&self, error: Error) -> Failure {
        let hint = match error {
            Error::FeatureCount { .. } | Error::UnknownClass { .. } if self.data.is_none() => {
                " (these are the embedded digits: give samples of your own with --data)"
            }
            Error::Engine(EngineError::Feature { .. }) => " (--clip does that)",
            Error::Checkpoint(_) => " (without --resume, the report is replaced)",
            _ => "",
        };
        Failure::Work(format!("{error}{hint}"))
    }
}

fn load_network(path: &Path) -> Result<Network, EngineError> {
    match path.to_str() {
        Some("noise-aware") => Network::digits_noise_aware(),
        Some("plain") => Network::digits_plain(),
        Some("cnn") => Network::digits_cnn(),
        _ => Network::load(path),
    }
}

/// A bar on standard error, or nothing where nobody watches.
pub(crate) fn progress_bar() -> ProgressBar {
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

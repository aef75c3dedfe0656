//! `aleatron eval`: a network as bit streams, accuracy against length and generator.

use super::report::{Earlier, Format, Report};
use super::shard::{self, Shard};
use super::{Failure, Outcome, read_length, read_positive};
use crate::interrupt;
use aleatron::data::{CsvOptions, Dataset, Header, LabelColumn};
use aleatron::eval::{Evaluation, Job, Plan, Progress, evaluate, plural};
use aleatron::generator::{GeneratorName, Sharing, WidthChoice};
use aleatron::network::{Arithmetic, FeatureRange, LayerOverride, Network};
use aleatron::{Cancel, Device, Error, Polarity};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::borrow::Cow;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// NAME.json with NAME.safetensors beside it, or one of the embedded networks for digits: noise-aware, plain, cnn.
    #[arg(default_value = "noise-aware")]
    network: PathBuf,
    /// The same as an option.
    #[arg(long = "network", value_name = "NETWORK", conflicts_with = "network")]
    named_network: Option<PathBuf>,
    /// Labelled samples, as .npz with arrays x and y or as .csv; the embedded test digits if not given.
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
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
    /// bernoulli, sobol, lfsr, halton, vdc, ramp, or two sequences as in sobol:1+lfsr:77.
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
    /// How streams hold numbers, in every layer: signed (a sign and a magnitude), bipolar or unipolar; as the network says if not given.
    #[arg(long, value_name = "KIND")]
    polarity: Option<Polarity>,
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

/// Reads NAME:SETTINGS. A name may have colons; settings begin after the last one before an equals sign.
fn read_layer(text: &str) -> Result<(String, LayerOverride), String> {
    let fault = || "use NAME:length=64,generator=sobol,width=6,sharing=input, any of them".to_owned();
    let settings = text.find('=').and_then(|equals| text[..equals].rfind(':')).ok_or_else(fault)?;
    let (name, rest) = (&text[..settings], &text[settings + 1..]);
    Ok((name.to_owned(), rest.parse().map_err(|error: Error| error.to_string())?))
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let (network, data, plan) = arguments.subject()?;
    let earlier = Earlier::new(arguments.resume);
    if let Some((shard, folder)) = arguments.shard.zip(arguments.report.as_deref()) {
        let job = Job::new(network.into(), Cow::Owned(data), plan).map_err(|e| arguments.explain(e))?;
        return shard::run(&job, shard, folder, earlier);
    }
    let report = arguments.report.as_deref().map(|folder| Report::open(folder, earlier)).transpose()?;
    let checkpoint = report.as_ref().and_then(|report| report.checkpoint.clone());
    interrupt::watch();
    let bar = progress_bar();
    let start = Instant::now();
    let cancel = Cancel::when(&interrupt::is_pressed);
    let result = evaluate(&network, &data, &plan, checkpoint, cancel, |progress: Progress<'_>| {
        bar.set_length(progress.total as u64);
        bar.set_position(progress.done as u64);
        bar.set_message(format!("{}, {} bits, seed {}", progress.generator, progress.length, progress.seed));
    });
    bar.finish_and_clear();
    let elapsed = start.elapsed();
    let (evaluation, failure) = match result {
        Ok(evaluation) => (evaluation, None),
        Err(Error::Unfinished { done, source }) => (*done, Some(*source)),
        Err(error) => return Err(arguments.explain(error)),
    };
    if let Some(report) = &report {
        report.write(&evaluation)?;
    }
    if let Some(error) = failure {
        return Err(arguments.explain(error));
    }
    arguments.format.print(&evaluation, report.as_ref(), elapsed)
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
        let (network, data, plan) = arguments.subject()?;
        let job = Job::new(network.into(), Cow::Owned(data), plan).map_err(|e| arguments.explain(e))?;
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

impl Arguments {
    /// The network, the data and the plan, which fit each other.
    fn subject(&self) -> Result<(Network, Dataset, Plan), Failure> {
        let plan = self.plan()?;
        let network = load_network(self.named_network.as_ref().unwrap_or(&self.network))?;
        let network = match self.polarity {
            Some(polarity) => network.with_polarity(polarity).map_err(Failure::usage)?,
            None => network,
        };
        plan.check(&network).map_err(Failure::usage)?;
        let data = match &self.data {
            Some(path) => {
                let options = CsvOptions { header: self.header, label: self.label.clone() };
                Dataset::read_with(path, &options)?
            }
            None => Dataset::digits_test(),
        };
        Ok((network, data, plan))
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
            Error::Feature { .. } => " (--clip does that)",
            _ => "",
        };
        Failure::Work(format!("{error}{hint}"))
    }
}

fn load_network(path: &Path) -> aleatron::Result<Network> {
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

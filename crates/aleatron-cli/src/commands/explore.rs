//! `aleatron explore`: the designs of a network that are worth building.

use super::data::{DataOptions, class_note};
use super::eval::{Task, progress_bar, resume_hint};
use super::names::read_name;
use super::report::{Earlier, EarlierOptions, LOCK_NAME, fault, open_folder};
use super::source::{Calibrated, NetworkOptions, check_samples};
use super::{Failure, Outcome, read_length, read_positive};
use crate::invocation::Invocation;
use crate::{Verdict, interrupt, output};
use aleatron::data::{Dataset, LabelKind};
use aleatron::eval::{
    CheckpointFile, Design, DesignSpace, EarlyTermination, Error as EvalError, Exploration, Lanes,
    Plan, Provenance, plural, report,
};
use aleatron::fault::{FaultKind, FaultRate, FaultSites};
use aleatron::generator::{GeneratorName, Sharing, WidthChoice};
use aleatron::network::{Network, ValueRange};
use aleatron::{Cancel, Device};
use std::path::{Path, PathBuf};

/// The files of an exploration in the folder of a report.
const JSON_NAME: &str = "explore.json";
const PAGE_NAME: &str = "explore.html";
const CSV_NAME: &str = "explore.csv";

/// Options of this command that `aleatron rtl` does not have or takes from the design, and those of
/// them without a value.
const OWN_OPTIONS: [&str; 19] = [
    "--variant",
    "--task",
    "--generators",
    "--lengths",
    "--sharings",
    "--widths",
    "--early-margins",
    "--lanes",
    "--seeds",
    "--loss",
    "--budget",
    "--faults",
    "--fault-site",
    "--fault-kind",
    "--report",
    "--device",
    "--clip",
    "--resume",
    "--force",
];
const FLAGS: [&str; 5] = ["--clip", "--resume", "--force", "--json", "--csv"];

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    aleatron explore --report designs     the embedded network and digits\n  \
    aleatron explore model.onnx --data test.npz --generators sobol,lfsr \\\n      --lengths 16,32,64 --lanes all,8 --report designs")]
pub(crate) struct Arguments {
    #[command(flatten)]
    network: NetworkOptions,
    /// A variant of the network to explore beside it, such as the same network trained for short
    /// streams. May be given several times.
    #[arg(long, value_name = "FILE", help_heading = "Network")]
    variant: Vec<PathBuf>,
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
    /// The generators of streams, and binary circuits to compare with: int8 multiplies integers of
    /// 8 bits. Bernoulli streams have no hardware.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", value_parser = read_name::<GeneratorName>,
        default_values_t = DesignSpace::default().generators, help_heading = "Designs")]
    generators: Vec<GeneratorName>,
    /// Lengths of streams in bits. Lengths of single layers are halved down to the least of them.
    #[arg(long, value_delimiter = ',', value_name = "BITS,...", value_parser = read_length,
        default_values_t = DesignSpace::default().lengths, help_heading = "Designs")]
    lengths: Vec<usize>,
    /// How many sequences streams share: all, input or stream.
    #[arg(long, value_delimiter = ',', value_name = "HOW,...", value_parser = read_name::<Sharing>,
        default_values_t = DesignSpace::default().sharings, help_heading = "Designs")]
    sharings: Vec<Sharing>,
    /// Widths of the sequences in bits, or auto.
    #[arg(long, value_delimiter = ',', value_name = "BITS,...", value_parser = read_name::<WidthChoice>,
        default_values_t = DesignSpace::default().widths, help_heading = "Designs")]
    widths: Vec<WidthChoice>,
    /// Early termination in the last layer: none, or the lead of the best score, in standard
    /// deviations of the counting noise, at which it stops.
    #[arg(long, value_delimiter = ',', value_name = "M,...", value_parser = read_name::<EarlyTermination>,
        default_values_t = DesignSpace::default().early, help_heading = "Designs")]
    early_margins: Vec<EarlyTermination>,
    /// Neurons that a layer computes at a time: all, or a number.
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_values_t = DesignSpace::default().lanes, help_heading = "Designs")]
    lanes: Vec<Lanes>,
    /// Seeds for generators that have one.
    #[arg(long, value_name = "N", value_parser = read_positive, default_value_t = Plan::default().seeds, help_heading = "Search")]
    seeds: usize,
    /// Show and refine designs that lose at most this many percentage points of accuracy, or for
    /// regression hundredths of R².
    #[arg(long, value_name = "POINTS", default_value_t = DesignSpace::default().loss, help_heading = "Search")]
    loss: f64,
    /// The most trials; a trial runs the samples, or a share of them, through the network.
    #[arg(long, value_name = "N", value_parser = read_positive, default_value_t = DesignSpace::default().budget, help_heading = "Search")]
    budget: usize,
    /// A fault rate to measure scores with: the probability that a bit of a site flips, from 1e-9
    /// to 0.5.
    #[arg(long, value_name = "RATE", value_parser = read_name::<FaultRate>, help_heading = "Faults")]
    faults: Option<FaultRate>,
    /// The sites of faults, as for eval; several are joined by +.
    #[arg(long, value_name = "SITE", value_parser = read_name::<FaultSites>, requires = "faults",
        default_value_t = FaultSites::STREAMS, help_heading = "Faults")]
    fault_site: FaultSites,
    /// The kind of faults, as for eval.
    #[arg(long, value_name = "KIND", value_parser = read_name::<FaultKind>, requires = "faults", help_heading = "Faults")]
    fault_kind: Option<FaultKind>,
    /// Let features that the first layer cannot encode saturate.
    #[arg(long, help_heading = "Samples")]
    clip: bool,
    /// Where to run: auto, cpu, gpu, cuda. It changes times and nothing else.
    #[arg(long, default_value_t, value_parser = read_name::<Device>, help_heading = "Execution")]
    device: Device,
    /// Write a page (explore.html), the full result (explore.json) and a table (explore.csv) into
    /// this folder.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    report: Option<PathBuf>,
    #[command(flatten)]
    earlier: EarlierOptions,
    /// Print JSON instead of a table.
    #[arg(long, conflicts_with = "csv", help_heading = "Output")]
    json: bool,
    /// Print comma-separated values instead of a table.
    #[arg(long, help_heading = "Output")]
    csv: bool,
}

pub(crate) fn run(arguments: &Arguments, invocation: &Invocation) -> Outcome {
    if !(0.0..=100.0).contains(&arguments.loss) {
        let loss = arguments.loss;
        return Err(Failure::Usage(format!(
            "--loss: {loss} is not a number of percentage points from 0 to 100"
        )));
    }
    let is_early =
        arguments.early_margins.iter().any(|early| *early != EarlyTermination::default());
    if is_early && arguments.faults.is_some() {
        return Err(Failure::Usage(
            "--early-margins cannot be combined with --faults: margins are bounds for streams without flips"
                .to_owned(),
        ));
    }
    let folder = arguments.report.as_deref();
    let (networks, data, plan, calibration) = arguments.read()?;
    let _lock = folder.map(|folder| open_folder(folder, LOCK_NAME)).transpose()?;
    let known = folder.map(|folder| known(folder, arguments.earlier.earlier(), &networks));
    let known = known.transpose()?.flatten();
    let mut runs = known.as_ref().map_or_else(Vec::new, |known| known.provenance.clone());
    runs.push(arguments.provenance(invocation, &calibration)?);
    let space = arguments.space();
    let mut file = folder.map(|folder| CheckpointFile::new(folder.join(JSON_NAME)));
    interrupt::watch();
    let bar = progress_bar();
    let cancel = Cancel::when(&interrupt::is_pressed);
    let found = aleatron::eval::explore(&networks, &data, &plan, &space, known, cancel, |found| {
        if let Some(file) = &mut file {
            // A failure is seen again when the whole exploration is written.
            let _ = file.update(found.trials.len(), || {
                Exploration { provenance: runs.clone(), ..found.clone() }.to_json()
            });
        }
        bar.set_length(space.budget as u64);
        bar.set_position(found.trials.len() as u64);
        bar.set_message("trials");
    });
    bar.finish_and_clear();
    let (mut found, failure) = match found {
        Ok(found) => (found, None),
        Err(EvalError::UnfinishedExploration { done, source }) => (*done, Some(*source)),
        Err(error) => return Err(error.into()),
    };
    found.provenance = runs;
    let command = |design: &Design| arguments.rtl_command(&found, design, invocation);
    let written = match folder {
        Some(folder) => write(folder, &found, command)?,
        None => Vec::new(),
    };
    if let Some(error) = failure {
        return Err(Failure::from(error).with_hint(&resume_hint(folder.is_some(), invocation)));
    }
    if arguments.json {
        output::json(&found)?;
    } else if arguments.csv {
        output::line(found.to_csv().trim_end())?;
    } else {
        output::line(text(&found, command).trim_end())?;
        written.iter().try_for_each(|path| output::line(format!("Written: {path}")))?;
    }
    if interrupt::is_pressed() {
        output::message(resume_hint(folder.is_some(), invocation));
        return Ok(Verdict::Bad);
    }
    Ok(if found.optimal().next().is_some() { Verdict::Good } else { Verdict::Bad })
}

impl Arguments {
    /// Reads the networks and the data, checks that they fit each other, and describes the samples of
    /// calibrations.
    fn read(&self) -> Result<(Vec<Network>, Dataset, Plan, String), Failure> {
        let kind: LabelKind = self.task.labels();
        self.data.check(kind, self.network.calibrate.as_deref())?;
        let mut networks = vec![self.network.load()?];
        for path in &self.variant {
            networks.push(self.network.load_variant(path)?);
        }
        let data = self.data.read(kind)?;
        let mut range = if self.clip { ValueRange::Saturate } else { ValueRange::Check };
        let (mut calibrated, mut calibrations) = (Vec::new(), Vec::new());
        for network in networks {
            check_samples(&network, &data)?;
            if kind == LabelKind::Classes {
                data.check_classes(network.n_classes())?;
            }
            let Calibrated { network, is_calibrated, warnings, samples } =
                self.network.calibrate(network, &data, &self.data, kind)?;
            warnings.iter().for_each(|warning| output::message(format!("warning: {warning}")));
            if is_calibrated {
                range = ValueRange::Saturate;
            }
            calibrated.push(network);
            calibrations.push(samples);
        }
        class_note(&data).iter().for_each(output::message);
        let plan = Plan {
            seeds: self.seeds,
            range,
            device: self.device.clone(),
            faults: self.faults.into_iter().collect(),
            fault_sites: vec![self.fault_site],
            fault_kind: self.fault_kind,
            ..Plan::default()
        };
        Ok((calibrated, data, plan, calibrations.join("; ")))
    }

    /// Returns the provenance of the run.
    fn provenance(
        &self,
        invocation: &Invocation,
        calibration: &str,
    ) -> Result<Provenance, Failure> {
        let mut run = super::provenance::of_network(
            invocation,
            &self.device,
            &self.network,
            &self.data,
            calibration,
        )?;
        for path in &self.variant {
            run.sources.push(super::source::provenance("variant", path)?);
        }
        Ok(run)
    }

    fn space(&self) -> DesignSpace {
        DesignSpace {
            generators: self.generators.clone(),
            lengths: self.lengths.clone(),
            sharings: self.sharings.clone(),
            widths: self.widths.clone(),
            early: self.early_margins.clone(),
            lanes: self.lanes.clone(),
            loss: self.loss,
            budget: self.budget,
        }
    }

    /// Returns the command that generates the circuit of a design.
    fn rtl_command(&self, found: &Exploration, design: &Design, invocation: &Invocation) -> String {
        let mut options = design.rtl_options(&found.layers);
        // The first network is among the arguments of this run; a variant replaces it.
        if let Some(path) = design.streams.network.checked_sub(1).and_then(|k| self.variant.get(k))
        {
            options.extend(["--network".to_owned(), path.display().to_string()]);
        }
        options.extend(["--out", "circuit", "--check"].map(str::to_owned));
        let replaced = (design.streams.network > 0).then(|| self.network.given());
        invocation.as_command("rtl", &OWN_OPTIONS, &FLAGS, replaced, &options)
    }
}

/// Writes the exploration and its page, and returns the names of the files.
fn write(
    folder: &Path,
    found: &Exploration,
    command: impl Fn(&Design) -> String,
) -> Result<Vec<String>, Failure> {
    let files = [
        (PAGE_NAME, report::exploration(found, command)),
        (JSON_NAME, found.to_json()?),
        (CSV_NAME, found.to_csv()),
    ];
    let mut written = Vec::new();
    for (name, text) in files {
        let path = folder.join(name);
        aleatron::eval::write(&path, &text)?;
        written.push(path.display().to_string());
    }
    Ok(written)
}

/// Returns the result of an earlier exploration to resume, if the arguments request it.
fn known(
    folder: &Path,
    earlier: Earlier,
    networks: &[Network],
) -> Result<Option<Exploration>, Failure> {
    let path = folder.join(JSON_NAME);
    if earlier == Earlier::Force || !path.exists() {
        return Ok(None);
    }
    let read = || {
        let text = std::fs::read_to_string(&path).map_err(|error| fault(&path, &error))?;
        Exploration::from_json(&text).map_err(|error| fault(&path, &error))
    };
    if earlier == Earlier::Resume {
        return read().map(Some);
    }
    let refuse =
        |reason: &str| Err(fault(folder, &format!("{reason}, or replace it with --force")));
    match read() {
        Err(_) => refuse("it holds an exploration of something else: choose another folder"),
        Ok(found) if !networks.iter().map(Network::name).eq(found.networks.iter()) => {
            refuse("it holds an exploration of another network: choose another folder")
        }
        Ok(found) if !found.is_finished => {
            refuse("it holds an unfinished exploration: go on with --resume")
        }
        Ok(_) => Ok(None),
    }
}

fn text(found: &Exploration, command: impl Fn(&Design) -> String) -> String {
    let score = |score: f64| found.measure.show(score);
    let mut text = format!(
        "{} on {}, {}: floating point {}{}\n\n",
        found.networks.join(", "),
        found.data,
        plural(found.samples, "sample"),
        score(found.float_score()),
        found.faults.map_or_else(String::new, |faults| format!("; faults: {faults}")),
    );
    let mut rows = vec![
        [
            "network",
            "generator",
            "bits",
            "sharing",
            "width",
            "margin",
            "lanes",
            "score",
            "energy nJ",
            "area",
            "latency",
        ]
        .map(str::to_owned),
    ];
    for design in found.optimal() {
        let streams = &design.streams;
        rows.push([
            found.networks.get(streams.network).cloned().unwrap_or_default(),
            streams.generator.to_string(),
            streams.bits(),
            streams.sharing.to_string(),
            streams.width.to_string(),
            streams.early.to_string(),
            design.lanes.to_string(),
            score(design.score),
            format!("{:.2}", design.cost.energy),
            format!("{:.0}", design.cost.area),
            design.cost.latency.to_string(),
        ]);
    }
    for row in &rows {
        let cells: Vec<String> = (0..row.len())
            .map(|k| {
                let width = rows.iter().map(|row| row[k].chars().count()).max().unwrap_or(0);
                let cell = &row[k];
                if k < 2 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            })
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text.push_str(&format!(
        "\n{} optimal of {} from {}; area in gate equivalents, energy and area by a model\n",
        rows.len() - 1,
        plural(found.designs.len(), "design"),
        plural(found.trials.len(), "trial"),
    ));
    text.push_str(
        "designs were chosen and scored on the same samples: evaluate the one that you choose on others\n",
    );
    if let Some(design) = found.optimal().next() {
        text.push_str(&format!("the circuit of the first: {}\n", command(design)));
    } else {
        text.push_str(&format!("no design loses at most {} points\n", found.loss));
    }
    let mut reasons: Vec<&str> =
        found.missing.iter().map(|missing| missing.reason.as_str()).collect();
    reasons.dedup();
    reasons.iter().for_each(|reason| text.push_str(&format!("no circuit: {reason}\n")));
    if !found.is_finished {
        text.push_str(
            "the search has not finished: go on with --report DIR --resume and a larger --budget\n",
        );
    }
    text
}

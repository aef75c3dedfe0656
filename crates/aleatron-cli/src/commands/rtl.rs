//! `aleatron rtl`: the circuit of a network in Verilog, checked against the engine.

use super::data::DataOptions;
use super::names::read_name;
use super::source::{Calibrated, NetworkOptions, check_samples};
use super::{Failure, Outcome, read_length, read_positive};
use crate::{Verdict, output};
use aleatron::SampleSeed;
use aleatron::data::{Dataset, LabelKind};
use aleatron::generator::{GeneratorName, Sharing, WidthChoice};
use aleatron::hardware::simulate::{self, Simulator};
use aleatron::hardware::{Bench, Circuit, Design, InputInterval, Options, Output, Pipeline, synthesis};
use aleatron::network::{Arithmetic, StreamConfig, ValueRange};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    network: NetworkOptions,
    #[command(flatten)]
    data: DataOptions,
    /// Bits of a stream.
    #[arg(long, value_name = "BITS", value_parser = read_length, default_value_t = 64)]
    length: usize,
    /// The generator of the streams: lfsr, sobol, halton, vdc, ramp, or a pair of them. Bernoulli streams have no hardware.
    #[arg(long, value_name = "NAME", value_parser = read_name::<GeneratorName>, default_value = "lfsr")]
    generator: GeneratorName,
    /// The width of the sequences and comparators in bits, or auto.
    #[arg(long, value_name = "BITS", default_value = "auto", value_parser = read_name::<WidthChoice>)]
    width: WidthChoice,
    /// The sequences that streams share: all, input or stream.
    #[arg(long, value_name = "HOW", default_value_t = Sharing::OneForAll, value_parser = read_name::<Sharing>)]
    sharing: Sharing,
    /// The seed of generators that have one.
    #[arg(long, default_value_t = SampleSeed::DEFAULT)]
    seed: u64,
    /// The neurons that a layer computes at a time; all of them if not given.
    #[arg(long, value_name = "N", value_parser = read_positive)]
    lanes: Option<usize>,
    /// Put registers between comparators and counters.
    #[arg(long)]
    pipeline: bool,
    /// Let the index of the greatest score leave the circuit in place of the scores.
    #[arg(long)]
    class: bool,
    /// Declare that features never become negative inputs, which saves area in layers of signed streams.
    #[arg(long)]
    non_negative: bool,
    /// The folder for the files of the circuit.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Simulate the circuit and compare every threshold, count, value and score with the engine.
    #[arg(long)]
    check: bool,
    /// The simulator of --check: icarus or verilator; the first one that is installed if not given.
    #[arg(long, value_name = "NAME", value_parser = read_name::<Simulator>, requires = "check")]
    simulator: Option<Simulator>,
    /// Synthesize the circuit with Yosys and show its area by part in gate equivalents.
    #[arg(long)]
    synth: bool,
    /// The Liberty file of the cells of --synth; a table of generic gates if not given.
    #[arg(long, value_name = "FILE", requires = "synth")]
    liberty: Option<PathBuf>,
    /// The samples in the vectors of the test bench.
    #[arg(long, value_name = "N", value_parser = read_positive, default_value_t = 2)]
    samples: usize,
}

impl Arguments {
    fn options(&self) -> Options {
        Options {
            lanes: self.lanes,
            pipeline: if self.pipeline { Pipeline::Registers } else { Pipeline::None },
            output: if self.class { Output::Class } else { Output::Scores },
            inputs: if self.non_negative { InputInterval::NonNegative } else { InputInterval::Signed },
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let kind = LabelKind::Classes;
    arguments.data.check(kind, arguments.network.calibrate.as_deref())?;
    let simulator = match (arguments.check, arguments.simulator) {
        (false, _) => None,
        (true, Some(simulator)) => Some(simulator),
        (true, None) => Some(Simulator::installed()?),
    };
    let network = arguments.network.load()?;
    let data = arguments.data.read(kind)?;
    check_samples(&network, &data)?;
    let Calibrated { network, is_calibrated, warnings } =
        arguments.network.calibrate(network, &data, &arguments.data, kind)?;
    warnings.iter().for_each(|warning| output::message(format!("warning: {warning}")));
    let range = if is_calibrated { ValueRange::Saturate } else { ValueRange::Check };
    let config = StreamConfig::new(arguments.length)
        .generator(arguments.generator)
        .width(arguments.width)
        .sharing(arguments.sharing)
        .seed(arguments.seed)
        .range(range)
        .arithmetic(Arithmetic::Integer);
    let options = arguments.options();
    let circuit = Circuit::new(&network, &config, &options)?;
    let design = Design::new(&circuit, &options)?;
    let trace = circuit.trace(&samples(&data, arguments.samples)?)?;
    let bench = Bench::new(&circuit, &options, &trace)?;
    design.write(&arguments.out)?;
    bench.write(&arguments.out)?;
    output::line(format!(
        "{}: {} stages, top module {}, at least {} cycles between samples, in {}",
        circuit.name,
        circuit.stages.len(),
        design.top(),
        design.interval(),
        arguments.out.display()
    ))?;
    if let Some(simulator) = simulator {
        for passed in simulate::check(&arguments.out, &design, simulator)? {
            let seconds = passed.elapsed.as_secs_f64();
            output::line(format!("{simulator} {}: {} ({seconds:.2} s)", passed.run, passed.summary))?;
        }
        output::line("equal to the engine in every threshold, count, value and score")?;
    }
    if arguments.synth {
        let area = synthesis::area(&arguments.out, &design, arguments.liberty.as_deref())?;
        output::line(format!(
            "area {:.0} gate equivalents, {} flip-flops",
            area.gate_equivalents, area.flip_flops
        ))?;
        for (part, size) in area.parts.iter().filter(|(_, size)| *size > 0.0) {
            let share = 100.0 * size / area.gate_equivalents;
            output::line(format!("  {part:<44} {size:>10.0} {share:>5.1} %"))?;
        }
    }
    Ok(Verdict::Good)
}

fn samples(data: &Dataset, n: usize) -> Result<Vec<f64>, Failure> {
    Ok(data.samples(0..n.min(data.len()))?.into_owned())
}

//! Test benches: vectors of the engine, and Verilog that compares a design with them.

mod network;
mod units;

use crate::circuit::{Circuit, Link, Operation, Source};
use crate::verilog::{File, masked, write_files};
use crate::{Options, Output, Result, Trace};
use std::fmt::Write as _;
use std::path::Path;

/// Test benches and their vectors.
#[derive(Debug, Clone)]
pub struct Bench {
    files: Vec<File>,
}

impl Bench {
    /// Writes the test benches of a design for the samples of a trace: `network_tb` runs the
    /// samples, `units_tb` checks every generated constant.
    ///
    /// # Errors
    /// Returns [`crate::Error::Core`] for a trace of another circuit.
    pub fn new(circuit: &Circuit, options: &Options, trace: &Trace) -> Result<Self> {
        let mut files = network::files(circuit, options, trace)?;
        files.extend(units::files(circuit, options)?);
        Ok(Self { files })
    }

    /// Returns the files.
    #[must_use]
    pub fn files(&self) -> &[File] {
        &self.files
    }

    /// Writes the files below the folder of the design.
    ///
    /// # Errors
    /// Returns [`crate::Error::File`] for the first file that cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        write_files(folder, &self.files)
    }
}

/// Returns a `$readmemh` file with one word in each line.
fn hex(path: &str, values: impl Iterator<Item = i128>, bits: u32) -> File {
    let digits = bits.div_ceil(4) as usize;
    let mut text = String::new();
    for value in values {
        let _ = writeln!(text, "{:0digits$x}", masked(value, bits));
    }
    File { path: path.to_owned(), text }
}

/// Returns the elements of samples in their order of arrival.
pub(crate) fn arriving<'a, T: Copy>(
    link: &'a Link,
    values: &'a [T],
) -> impl Iterator<Item = T> + 'a {
    values.chunks_exact(link.elements.max(1)).flat_map(|sample| {
        link.order.iter().filter_map(|&element| sample.get(element as usize)).copied()
    })
}

/// Returns the outputs of the circuit for the samples of a trace.
pub(crate) fn results(circuit: &Circuit, options: &Options, trace: &Trace) -> Vec<i64> {
    let classes = |classes: &[usize]| classes.iter().map(|&class| class as i64).collect();
    match (options.output, &trace.early, circuit.output) {
        (Output::Scores, _, Source::Stage(index)) => {
            trace.stages.get(index).map_or_else(Vec::new, |stage| stage.values.clone())
        }
        (Output::Scores, _, Source::Input) => Vec::new(),
        (Output::Class, Some(early), _) => classes(&early.classes),
        (Output::Class, None, _) => classes(&trace.full_classes(circuit)),
    }
}

/// Returns the values of a layer's counters, in the order in which they are read, after the cycles
/// of each read.
fn counters(circuit: &Circuit, stage: usize, counts: &[u64], cycles: &[usize]) -> Vec<i128> {
    let Some(found) = circuit.stages.get(stage) else { return Vec::new() };
    let Operation::Layer(layer) = &found.operation else { return Vec::new() };
    let Some(spec) = circuit.program.layers().get(layer.layer).map(|layer| &layer.spec) else {
        return Vec::new();
    };
    let n = spec.n_neurons();
    let mut values = Vec::with_capacity(counts.len());
    for (sample, &cycles) in counts.chunks_exact(found.output.elements.max(1)).zip(cycles) {
        for &element in &found.output.order {
            let neuron = element as usize % n;
            let row = neuron / spec.neurons_per_row();
            values.push(layer.counter(row, sample[element as usize], spec.fan_in(neuron), cycles));
        }
    }
    values
}

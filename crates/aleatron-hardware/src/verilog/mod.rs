//! Verilog of a circuit: a fixed library, generated constants and the top level, as files.

mod counter;
mod integers;
mod layer;
mod project;
mod stage;
mod text;
mod top;

pub(crate) use counter::{Counter, CounterSize};
pub(crate) use layer::LayerText;
pub(crate) use project::latency_bound;
pub(crate) use stage::{StageText, scale_bits, width_of};
pub(crate) use text::{masked, range};
use top::bytes as bytes_of;
pub(crate) use top::{link_name, output_bits};

use crate::circuit::{Circuit, LayerCircuit, Operation, Products, Source, identifier};
use crate::{Error, Options, Pipeline, Result};
use std::collections::BTreeSet;
use std::path::Path;

/// The modules of the library.
macro_rules! library {
    ($($name:literal),+ $(,)?) => {
        const LIBRARY: &[(&str, &str)] = &[$(($name, include_str!(concat!("../../rtl/", $name, ".v")))),+];
    };
}

library!(
    "al_accumulate",
    "al_accumulator",
    "al_adders",
    "al_argmax",
    "al_clock_gate",
    "al_compare",
    "al_control",
    "al_decide",
    "al_fifo",
    "al_fork",
    "al_half_adders",
    "al_index",
    "al_lfsr",
    "al_multiply_add",
    "al_pool",
    "al_products",
    "al_register",
    "al_reorder",
    "al_saturate",
    "al_scale",
    "al_sobol",
    "al_window",
);

/// The module of binary circuits. Netlists of other circuits depend on the modules that Yosys
/// reads, if only by chance.
const MULTIPLIER: &str = "al_multiply_add";

const LICENCE: &str = "// SPDX-License-Identifier: MIT OR Apache-2.0\n";

/// A generated module.
pub(crate) struct Module {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// A file of a design.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its path below the folder of the design, with `/` between folders.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// The cycles of one stage for a sample.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Cycles {
    /// The name of the stage.
    pub stage: String,
    /// The number of cycles of a sample, if neither side makes the stage wait.
    pub cycles: u64,
}

/// A circuit in Verilog.
#[derive(Debug, Clone)]
pub struct Design {
    files: Vec<File>,
    sources: Vec<String>,
    top: String,
    cycles: Vec<Cycles>,
}

impl Design {
    /// Writes the Verilog of a circuit.
    ///
    /// # Errors
    /// Returns [`Error::NoLanes`] for 0 lanes.
    pub fn new(circuit: &Circuit, options: &Options) -> Result<Self> {
        if options.lanes == Some(0) {
            return Err(Error::NoLanes);
        }
        let top = top_name(circuit);
        let (mut modules, mut counters) = (Vec::new(), BTreeSet::new());
        modules.push(top::top(circuit, options, &top, &top));
        for stage in &circuit.stages {
            let module = format!("{top}_{}", stage.name);
            let input = circuit.link(stage.inputs.first().copied().unwrap_or(Source::Input));
            match &stage.operation {
                Operation::Layer(layer) => {
                    let text = LayerText::new(module, layer, input, &stage.output, options);
                    counters.extend(text.counters());
                    modules.extend(text.modules());
                }
                operation => {
                    let inputs = stage.inputs.iter().map(|&source| circuit.link(source)).collect();
                    let text = StageText {
                        module,
                        inputs,
                        output: &stage.output,
                        operation,
                        gating: options.clock_gating,
                    };
                    modules.extend(text.modules());
                }
            }
        }
        modules.extend(
            counters.iter().map(|counter| Module { name: counter.name(), text: counter.text() }),
        );
        let has_integers = circuit.layers().any(|(_, layer)| layer.products == Products::Integers);
        let mut files: Vec<File> = LIBRARY
            .iter()
            .filter(|(name, _)| has_integers || *name != MULTIPLIER)
            .map(|(name, text)| File { path: format!("rtl/{name}.v"), text: (*text).to_owned() })
            .collect();
        for module in modules {
            files.push(File {
                path: format!("rtl/{}.v", module.name),
                text: format!("{LICENCE}{}", module.text),
            });
        }
        let sources = files.iter().map(|file| file.path.clone()).collect();
        let mut design = Self { files, sources, top, cycles: cycles(circuit, options) };
        design.files.extend(project::files(circuit, options, &design));
        Ok(design)
    }

    /// Returns the files.
    #[must_use]
    pub fn files(&self) -> &[File] {
        &self.files
    }

    /// Returns the paths of the Verilog files for synthesis.
    #[must_use]
    pub fn sources(&self) -> &[String] {
        &self.sources
    }

    /// Returns the name of the top module.
    #[must_use]
    pub fn top(&self) -> &str {
        &self.top
    }

    /// Returns the cycles of each stage.
    #[must_use]
    pub fn cycles(&self) -> &[Cycles] {
        &self.cycles
    }

    /// Returns the least number of cycles from one sample to the next: those of the slowest stage.
    #[must_use]
    pub fn interval(&self) -> u64 {
        self.cycles.iter().map(|stage| stage.cycles).max().unwrap_or(0)
    }

    /// Writes the files below a folder, which is created if it is missing.
    ///
    /// # Errors
    /// Returns [`Error::File`] for the first file that cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        write_files(folder, &self.files)
    }
}

pub(crate) fn write_files(folder: &Path, files: &[File]) -> Result<()> {
    for file in files {
        let path = folder.join(&file.path);
        let fault = |source| Error::File { path: path.clone(), source };
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(fault)?;
        }
        std::fs::write(&path, &file.text).map_err(fault)?;
    }
    Ok(())
}

/// Returns the name of the top module.
pub(crate) fn top_name(circuit: &Circuit) -> String {
    identifier("net", &circuit.name)
}

/// Escapes text so that it does not end a comment.
pub(crate) fn comment(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Returns the number of cycles of each stage for a sample.
pub(crate) fn cycles(circuit: &Circuit, options: &Options) -> Vec<Cycles> {
    let stages = circuit.stages.iter().map(|stage| {
        let input = circuit.link(stage.inputs.first().copied().unwrap_or(Source::Input));
        let cycles = match &stage.operation {
            Operation::Layer(layer) => layer_cycles(layer, options),
            operation => stage_cycles(operation, input.elements),
        };
        Cycles { stage: stage.name.clone(), cycles }
    });
    stages.collect()
}

fn layer_cycles(layer: &LayerCircuit, options: &Options) -> u64 {
    let rows_at_a_time =
        options.lanes.unwrap_or(layer.rows.len()).clamp(1, layer.rows.len().max(1));
    let groups = layer.rows.len().div_ceil(rows_at_a_time) as u64;
    let window = &layer.window;
    let rows = window.size[0] + window.padding[0][0] + window.padding[0][1];
    let pushes = (rows * window.padded_columns() * window.channels) as u64;
    let run = 1 + layer.cycles() as u64 + u64::from(options.pipeline == Pipeline::Registers);
    // Each check reads all neurons, waits two cycles for the decision and, with registers, one for
    // the last bits.
    let decision = 2 * u64::from(!layer.checks.is_empty());
    let check =
        layer.rows.len() as u64 + decision + u64::from(options.pipeline == Pipeline::Registers);
    let checks = layer.checks.len() as u64 * check + decision;
    pushes + window.positions as u64 * (groups * run + layer.rows.len() as u64) + checks
}

fn stage_cycles(operation: &Operation, elements: usize) -> u64 {
    match operation {
        Operation::Pool { window, .. } => {
            let rows = window.size[0] + window.padding[0][0] + window.padding[0][1];
            ((rows * window.padded_columns() + window.positions) * window.channels) as u64
        }
        Operation::Reorder { addresses } => (elements + addresses.len()) as u64,
        _ => elements as u64,
    }
}

//! Area of a design, by Yosys.
//!
//! Designs are mapped to generic gates or, with a Liberty file, to the cells of a library,
//! including full adders if it has them. Flip-flops with one enable share clock gates; fewer than
//! three of them have multiplexers.

use crate::cost::PartValues;
use crate::energy::Energy;
use crate::energy::cells::Cells;
use crate::energy::liberty::Adder;
use crate::energy::netlist::Hierarchy;
use crate::simulate::{command, is_installed};
use crate::{Circuit, Design, Error, Options, Result, Trace};
use serde::Serialize;
use std::path::Path;

/// Converts flip-flops with a synchronous reset and an enable to flip-flops with an enable.
const FLIP_FLOPS: &str = include_str!("synthesis/flip_flops.v");

/// The area of a design, and the depth of its logic.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Area {
    /// The area of all parts in gate equivalents.
    pub gate_equivalents: f64,
    /// The area of each part in gate equivalents; a design that is synthesized as a whole has one
    /// part.
    pub parts: PartValues,
    /// The number of flip-flops.
    pub flip_flops: u64,
    /// The number of cells on the longest path between registers: the depth of the logic.
    pub depth: u64,
}

/// The unit of optimization of synthesis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Boundaries {
    /// Each module alone, so that the area is known by part.
    #[default]
    Parts,
    /// The whole design, which is smaller; its area is not known by part.
    Flattened,
}

/// A design as a netlist of cells.
#[derive(Debug)]
pub struct Synthesized {
    top: String,
    pub(crate) hierarchy: Hierarchy,
    pub(crate) cells: Cells,
}

impl Synthesized {
    /// Synthesizes a design whose files are below `folder`, into generic gates or, with a Liberty
    /// file, into those of a library.
    ///
    /// # Errors
    /// Returns [`Error::MissingTool`] without Yosys, [`Error::Tool`] if it fails,
    /// [`Error::Liberty`] for a library without the cells that are needed.
    pub fn new(
        folder: &Path,
        design: &Design,
        liberty: Option<&Path>,
        boundaries: Boundaries,
    ) -> Result<Self> {
        let (hierarchy, cells) = synthesize(folder, design, liberty, boundaries)?;
        Ok(Self { top: design.top().to_owned(), hierarchy, cells })
    }

    /// Returns the area and the depth of the logic. The depth is that of the whole design, however
    /// its modules were optimized.
    ///
    /// # Errors
    /// Returns [`Error::ToolOutput`] for a netlist with unknown cells or with loops of gates.
    pub fn area(&self) -> Result<Area> {
        let (parts, flip_flops) = self.hierarchy.area(&self.top, &self.cells)?;
        let depth = crate::energy::depth(&self.hierarchy, &self.top, &self.cells)?;
        Ok(Area { gate_equivalents: parts.total(), parts, flip_flops, depth })
    }

    /// Returns the energy of the samples of a trace of the circuit; see [`crate::energy`].
    ///
    /// # Errors
    /// Returns [`Error::Different`] if a result of the netlist is not that of the engine,
    /// [`Error::ToolOutput`] for a netlist with unknown cells.
    pub fn energy(&self, circuit: &Circuit, options: &Options, trace: &Trace) -> Result<Energy> {
        crate::energy::measure(&self.hierarchy, &self.top, &self.cells, circuit, options, trace)
    }
}

fn synthesize(
    folder: &Path,
    design: &Design,
    liberty: Option<&Path>,
    boundaries: Boundaries,
) -> Result<(Hierarchy, Cells)> {
    if !is_installed("yosys") {
        return Err(Error::MissingTool { tool: "Yosys", package: "yosys" });
    }
    let build = folder.join("build");
    std::fs::create_dir_all(&build)
        .map_err(|source| Error::File { path: build.clone(), source })?;
    let write = |name: &str, text: &str| {
        let path = build.join(name);
        std::fs::write(&path, text).map_err(|source| Error::File { path, source })
    };
    let (cells, library) = Cells::read(liberty)?;
    write("flip_flops.v", FLIP_FLOPS)?;
    let mut sources = design.sources().to_vec();
    let mut delete = String::new();
    for (n_inputs, module) in [(3, "al_adders"), (2, "al_half_adders")] {
        let Some(adder) = cells.adder(n_inputs) else { continue };
        write(&format!("{module}.v"), &adders(&adder, module))?;
        let own = format!("rtl/{module}.v");
        sources
            .iter_mut()
            .filter(|source| **source == own)
            .for_each(|source| *source = format!("build/{module}.v"));
        delete.push_str(&format!("delete ={}; ", adder.cell));
    }
    let map = match library {
        Some(text) => {
            write("cells.lib", &text)?;
            "abc -liberty build/cells.lib"
        }
        None => "abc -g AND,NAND,OR,NOR,XOR,XNOR,MUX",
    };
    let flatten = if boundaries == Boundaries::Flattened { " -flatten" } else { "" };
    let script = format!(
        "read_verilog {}; synth -top {}{flatten}; dfflegalize -cell $_DFF_P_ x -cell $_DFFE_PP_ x -cell $_SDFFE_PP?P_ x; techmap -map \
         build/flip_flops.v; simplemap; opt_merge; {map}; opt_clean -purge; {delete}write_json build/netlist.json",
        sources.join(" "),
        design.top(),
    );
    command("yosys", &["-q", "-p", &script], folder)?;
    Ok((Hierarchy::read(&build.join("netlist.json"))?, cells))
}

/// Returns vectors of adders as cells of a library: logic synthesis does not find cells of two
/// outputs.
fn adders(adder: &Adder<'_>, module: &str) -> String {
    let Adder { cell, inputs, sum, carry } = adder;
    let ports = |port: fn(&str, &str) -> String| -> String {
        inputs.iter().zip(["a", "b", "c"]).map(|(pin, name)| port(pin, name)).collect()
    };
    format!(
        "// SPDX-License-Identifier: MIT OR Apache-2.0\n(* blackbox *)\nmodule {cell} ({}output wire {sum}, output wire {carry});\nendmodule\n\n\
         module {module} #(parameter N = 1) (\n    {}output wire [N-1:0] sum, output wire [N-1:0] carry\n);\n    {cell} cells [N-1:0] \
         ({}.{sum}(sum), .{carry}(carry));\nendmodule\n",
        ports(|pin, _| format!("input wire {pin}, ")),
        ports(|_, name| format!("input wire [N-1:0] {name}, ")),
        ports(|pin, name| format!(".{pin}({name}), ")),
    )
}

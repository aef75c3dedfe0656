//! Area of a design, by Yosys.

use crate::simulate::{command, is_installed};
use crate::{Design, Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Areas of cells in gate equivalents, that is, NAND gates of two inputs: transistors of the static CMOS cell over four.
const GENERIC: [(&str, f64); 12] = [
    ("$_NOT_", 0.5),
    ("$_NAND_", 1.0),
    ("$_NOR_", 1.0),
    ("$_AND_", 1.5),
    ("$_OR_", 1.5),
    ("$_ANDNOT_", 1.5),
    ("$_ORNOT_", 1.5),
    ("$_XOR_", 2.5),
    ("$_XNOR_", 2.5),
    ("$_MUX_", 3.0),
    ("$_DFF_P_", 6.0),
    ("$_DFFE_PP_", 8.0),
];

/// Parts of a circuit and the modules that belong to them, by a part of their names.
const PARTS: [(&str, &[&str]); 10] = [
    ("sequences", &["al_lfsr", "al_sobol", "_sequences"]),
    ("line buffers and input registers", &["al_window", "al_reorder", "al_fifo"]),
    ("comparators of inputs", &["al_compare"]),
    ("weight bits", &["_weights"]),
    ("products", &["al_products"]),
    ("parallel counters", &["al_count_", "al_adders"]),
    ("accumulators", &["al_accumulator"]),
    (
        "biases, activations, requantizers and pools",
        &["_accumulate", "_function", "al_scale", "al_saturate", "al_pool"],
    ),
    ("control and handshakes", &["al_control", "al_register", "al_index", "al_fork", "al_argmax"]),
    ("multiplexers of counts and the rest", &[""]),
];

/// The area of a design.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Area {
    /// The area of all parts in gate equivalents.
    pub gate_equivalents: f64,
    /// The area of each part in gate equivalents. Parts are synthesized one by one; a flow that flattens the design needs less.
    pub parts: Vec<(&'static str, f64)>,
    /// The number of flip-flops.
    pub flip_flops: u64,
}

#[derive(Debug, Deserialize)]
struct Statistics {
    modules: BTreeMap<String, ModuleStatistics>,
}

#[derive(Debug, Deserialize)]
struct ModuleStatistics {
    #[serde(default)]
    num_cells_by_type: BTreeMap<String, u64>,
    #[serde(default)]
    area: f64,
}

/// Synthesizes a design whose files are below `folder`, into generic gates or, with a Liberty file, into those of a library.
///
/// # Errors
/// [`Error::MissingTool`] without Yosys, [`Error::Tool`] if it fails, [`Error::ToolOutput`] for a library without a NAND gate of two inputs.
pub fn area(folder: &Path, design: &Design, liberty: Option<&Path>) -> Result<Area> {
    if !is_installed("yosys") {
        return Err(Error::MissingTool { tool: "Yosys", package: "yosys" });
    }
    let build = folder.join("build");
    std::fs::create_dir_all(&build).map_err(|source| Error::File { path: build.clone(), source })?;
    let liberty = match liberty {
        Some(path) => {
            let absolute =
                std::path::absolute(path).map_err(|source| Error::File { path: path.into(), source })?;
            let text = std::fs::read_to_string(&absolute)
                .map_err(|source| Error::File { path: absolute.clone(), source })?;
            let nand = nand_area(&text).ok_or_else(|| Error::ToolOutput {
                tool: "the library",
                missing: "NAND gate of two inputs".to_owned(),
            })?;
            Some((absolute.display().to_string(), nand))
        }
        None => None,
    };
    let mut script = format!("read_verilog {}; synth -top {}; ", design.sources().join(" "), design.top());
    match &liberty {
        Some((path, _)) => script.push_str(&format!(
            "dfflibmap -liberty {path}; abc -liberty {path}; opt_clean -purge; tee -q -o build/area.json stat -json -liberty {path}"
        )),
        None => script.push_str(
            "dfflegalize -cell $_DFF_P_ x -cell $_DFFE_PP_ x; abc -g AND,NAND,OR,NOR,XOR,XNOR,MUX; opt_clean -purge; tee -q -o \
             build/area.json stat -json",
        ),
    }
    command("yosys", &["-q", "-p", &script], folder)?;
    let path = build.join("area.json");
    let text = std::fs::read_to_string(&path).map_err(|source| Error::File { path, source })?;
    let fault = |error: serde_json::Error| Error::ToolOutput {
        tool: "yosys",
        missing: format!("statistics: {error}"),
    };
    let statistics: Statistics = serde_json::from_str(&modules_only(&text)).map_err(fault)?;
    Ok(total(&statistics, design.top(), liberty.map(|(_, nand)| nand)))
}

/// Returns the statistics of modules: Yosys 0.23 writes the hierarchy of a design with several modules as plain text behind them.
fn modules_only(text: &str) -> String {
    match text.split_once("\n   },\n") {
        Some((modules, _)) => format!("{modules}\n   }}\n}}\n"),
        None => text.to_owned(),
    }
}

/// Adds up the modules, each as often as it is in the design.
fn total(statistics: &Statistics, top: &str, nand: Option<f64>) -> Area {
    let mut instances: BTreeMap<&str, u64> = BTreeMap::new();
    let mut pending = vec![(format!("\\{top}"), 1_u64)];
    while let Some((name, times)) = pending.pop() {
        let Some((name, module)) = statistics.modules.get_key_value(&name) else { continue };
        *instances.entry(name).or_default() += times;
        for (cell, count) in &module.num_cells_by_type {
            // Modules with parameters have names that begin with a dollar sign, others with a backslash in the list of modules.
            let inner = [cell.clone(), format!("\\{cell}")]
                .into_iter()
                .find(|name| statistics.modules.contains_key(name));
            pending.extend(inner.map(|inner| (inner, times * count)));
        }
    }
    let mut area =
        Area { gate_equivalents: 0.0, parts: PARTS.map(|(part, _)| (part, 0.0)).to_vec(), flip_flops: 0 };
    for (name, times) in instances {
        let Some(module) = statistics.modules.get(name) else { continue };
        let own = match nand {
            Some(nand) => module.area / nand,
            None => GENERIC.iter().map(|(cell, area)| cells(module, cell) as f64 * area).sum(),
        };
        let is_flip_flop = |cell: &str| {
            cell.to_ascii_lowercase().contains("dff") || cell.to_ascii_lowercase().contains("dfx")
        };
        let flip_flops: u64 = module
            .num_cells_by_type
            .iter()
            .filter(|(cell, _)| is_flip_flop(cell))
            .map(|(_, count)| count)
            .sum();
        area.flip_flops += flip_flops * times;
        area.gate_equivalents += own * times as f64;
        let part =
            PARTS.iter().position(|(_, names)| names.iter().any(|part| name.contains(part))).unwrap_or(0);
        area.parts[part].1 += own * times as f64;
    }
    area
}

fn cells(module: &ModuleStatistics, cell: &str) -> u64 {
    module.num_cells_by_type.get(cell).copied().unwrap_or(0)
}

/// Returns the area of the smallest NAND gate of two inputs of a Liberty file.
fn nand_area(text: &str) -> Option<f64> {
    let mut least: Option<f64> = None;
    for cell in text.split("cell (").skip(1).chain(text.split("cell(").skip(1)) {
        let name = cell.split(')').next()?.to_ascii_lowercase();
        if !name.contains("nand2") {
            continue;
        }
        let area = cell.split("area").nth(1)?.trim_start_matches([' ', ':', '\t']);
        let area: f64 = area.split([';', ' ', '\n']).next()?.trim().parse().ok()?;
        least = Some(least.map_or(area, |least| least.min(area)));
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn area_of_a_library_is_that_of_its_smallest_nand() {
        let text = "library (a) { cell (\"inv_1\") { area : 2.0; } cell (\"nand2_2\") { area : 5.0; }\n cell (\"nand2_1\") { area : 3.75; } }";
        assert_eq!(nand_area(text), Some(3.75));
        assert_eq!(nand_area("library (a) { cell (inv) { area : 1; } }"), None);
    }

    #[test]
    fn hierarchy_behind_the_modules_is_left_out() {
        let text =
            "{\n   \"modules\": {\n      \"a\": {\n      }\n   },\n       b   1\n   \"design\": {\n   }\n}\n";
        let statistics: Statistics = serde_json::from_str(&modules_only(text)).unwrap();
        assert_eq!(statistics.modules.keys().collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn modules_count_as_often_as_they_are_instantiated() {
        let text = r#"{"modules": {"\\top": {"num_cells_by_type": {"$_NAND_": 1, "leaf": 2, "$paramod\\al_index": 1}},
            "\\leaf": {"num_cells_by_type": {"$_DFF_P_": 3, "$paramod\\al_index": 1}},
            "$paramod\\al_index": {"num_cells_by_type": {"$_XOR_": 2}}}}"#;
        let area = total(&serde_json::from_str(text).unwrap(), "top", None);
        assert_eq!((area.gate_equivalents, area.flip_flops), (1.0 + 2.0 * 18.0 + 3.0 * 5.0, 6));
        assert_eq!(area.parts.iter().map(|(_, area)| area).sum::<f64>(), area.gate_equivalents);
    }
}

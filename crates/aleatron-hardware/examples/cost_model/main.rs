//! Fits the cost model to synthesized designs, and checks it with others.
//!
//! `cargo run -p aleatron-hardware --example cost_model -- FOLDER generic` synthesizes every design
//! without a measurement in FOLDER, shows the errors of the current model, and writes newly fitted
//! coefficients to FOLDER. With `sky130 LIBERTY` instead of `generic`, the cells are those of a
//! Liberty file. Held-out designs are excluded unless `--held-out` is given. With
//! `--leave-one-out`, each design is compared with coefficients that were fitted to all others;
//! terms are chosen by these errors. With `--integers`, the designs are binary circuits, and only
//! the coefficients of their own terms are fitted. Needs Yosys.

mod designs;
mod fit;

use aleatron_hardware::cost::{AreaTerm, EnergyTerm, Part, Structure, Technology};
use aleatron_hardware::synthesis::{Boundaries, Synthesized};
use aleatron_hardware::{Circuit, Design, Trace};
use designs::{Case, Draws, Set, Use};
use fit::{Observation, fit};
use serde_json::{Map, Value, json};
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

const SAMPLES: usize = 2;

/// A design with its measurement.
struct Measured {
    case: Case,
    structure: Structure,
    /// The area and the energy of the model.
    model: [f64; 2],
    measurement: Value,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut has = |option: &str| {
        let n_arguments = arguments.len();
        arguments.retain(|argument| argument != option);
        arguments.len() < n_arguments
    };
    let (has_held_out, has_left_out) = (has("--held-out"), has("--leave-one-out"));
    let set = if has("--integers") { Set::Integers } else { Set::Streams };
    let (folder, technology, liberty) = match &arguments[..] {
        [folder, technology] => (PathBuf::from(folder), technology.parse::<Technology>()?, None),
        [folder, technology, liberty] => {
            (PathBuf::from(folder), technology.parse::<Technology>()?, Some(PathBuf::from(liberty)))
        }
        _ => {
            return Err(
                "usage: cost_model FOLDER (generic | sky130 LIBERTY) [--held-out] [--leave-one-out] [--integers]".into()
            );
        }
    };
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{technology}.json"));
    let mut known: Map<String, Value> = match std::fs::read_to_string(&path) {
        Ok(text) => serde_json::from_str(&text)?,
        Err(_) => Map::new(),
    };
    let mut all = Vec::new();
    for case in designs::all(set)?.into_iter().filter(|case| has_held_out || case.role == Use::Fit)
    {
        let circuit = Circuit::new(&case.network, &case.config, &case.options)?;
        let x = Draws(1).samples(SAMPLES * case.network.n_features(), case.polarity);
        let trace = circuit.trace(&x)?;
        if !known.contains_key(&case.name) {
            let start = Instant::now();
            let measurement = measure(&folder, &case, &circuit, &trace, liberty.as_deref())?;
            println!(
                "{}: {:.0} gate equivalents, {:.3} nJ, {:.0} s",
                case.name,
                sum(&measurement["area"]),
                sum(&measurement["energy"]),
                start.elapsed().as_secs_f64()
            );
            known.insert(case.name.clone(), measurement);
            std::fs::write(&path, serde_json::to_string_pretty(&known)?)?;
        }
        let cost = circuit.cost(&case.options, technology, Some(&trace))?;
        let structure = Structure::new(&circuit, &case.options, Some(&trace));
        let measurement = known[&case.name].clone();
        all.push(Measured { case, structure, model: [cost.area, cost.energy], measurement });
    }
    let fit = |left_out: Option<usize>| {
        Quantity::ALL.map(|quantity| {
            let fixed = |term: usize| match set {
                Set::Streams => None,
                Set::Integers => quantity.shipped(technology, term),
            };
            quantity.fit(&all, left_out, fixed)
        })
    };
    let fitted = fit(None);
    std::fs::write(folder.join(format!("{technology}.rs")), text(technology, &fitted))?;
    report("shipped coefficients", &all, |k| all[k].model);
    report("newly fitted coefficients", &all, |k| by(&fitted, &all[k]));
    if has_left_out {
        report("coefficients fitted to all other designs", &all, |k| by(&fit(Some(k)), &all[k]));
    }
    Ok(())
}

fn sum(parts: &Value) -> f64 {
    parts.as_object().map_or(0.0, |parts| parts.values().filter_map(Value::as_f64).sum())
}

fn measure(
    folder: &Path,
    case: &Case,
    circuit: &Circuit,
    trace: &Trace,
    liberty: Option<&Path>,
) -> Result<Value, Box<dyn Error>> {
    let folder =
        folder.join(format!("design-{}", if liberty.is_some() { "library" } else { "generic" }));
    let _ = std::fs::remove_dir_all(&folder);
    let design = Design::new(circuit, &case.options)?;
    design.write(&folder)?;
    let synthesized = Synthesized::new(&folder, &design, liberty, Boundaries::Parts)?;
    let area = synthesized.area()?;
    let energy = synthesized.energy(circuit, &case.options, trace)?;
    Ok(json!({ "area": area.parts, "energy": energy.parts, "cycles": energy.cycles }))
}

/// The area or the energy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quantity {
    Area,
    Energy,
}

impl Quantity {
    const ALL: [Self; 2] = [Self::Area, Self::Energy];

    fn name(self) -> &'static str {
        match self {
            Self::Area => "area",
            Self::Energy => "energy",
        }
    }

    fn terms(self) -> Vec<(&'static str, Part)> {
        match self {
            Self::Area => AreaTerm::ALL.map(|term| (term.name(), term.part())).to_vec(),
            Self::Energy => EnergyTerm::ALL.map(|term| (term.name(), term.part())).to_vec(),
        }
    }

    /// Returns the amounts of all terms in a design.
    fn amounts(self, measured: &Measured) -> Vec<f64> {
        match self {
            Self::Area => AreaTerm::ALL.map(|term| measured.structure.area(term)).to_vec(),
            Self::Energy => EnergyTerm::ALL.map(|term| measured.structure.energy(term)).to_vec(),
        }
    }

    /// Returns the shipped coefficient of a term; `None` for terms of binary circuits.
    fn shipped(self, technology: Technology, term: usize) -> Option<f64> {
        match self {
            Self::Area => {
                use AreaTerm::{MultiplierCell, MultiplyAddBit, OperandBit, WeightTableBit};
                let term = AreaTerm::ALL[term];
                let is_own =
                    [OperandBit, WeightTableBit, MultiplierCell, MultiplyAddBit].contains(&term);
                (!is_own).then(|| technology.area_of(term))
            }
            Self::Energy => {
                use EnergyTerm::{
                    MultiplierToggle, MultiplyAddStep, OperandToggle, WeightTableToggle,
                };
                let term = EnergyTerm::ALL[term];
                let is_own = [OperandToggle, WeightTableToggle, MultiplierToggle, MultiplyAddStep]
                    .contains(&term);
                (!is_own).then(|| technology.energy_of(term))
            }
        }
    }

    /// Fits the coefficients of all terms that are not fixed, part by part, to the designs of the
    /// set, excluding one.
    fn fit(
        self,
        all: &[Measured],
        left_out: Option<usize>,
        fixed: impl Fn(usize) -> Option<f64>,
    ) -> Vec<f64> {
        let terms = self.terms();
        let chosen = || {
            let designs = all.iter().enumerate();
            designs.filter(|(k, measured)| measured.case.role == Use::Fit && Some(*k) != left_out)
        };
        let amounts: Vec<Vec<f64>> = chosen().map(|(_, measured)| self.amounts(measured)).collect();
        let mut coefficients: Vec<f64> =
            (0..terms.len()).map(|term| fixed(term).unwrap_or(0.0)).collect();
        for part in Part::ALL {
            let (known, own): (Vec<usize>, Vec<usize>) = (0..terms.len())
                .filter(|&term| terms[term].1 == part)
                .partition(|&term| fixed(term).is_some());
            let of_known = |amounts: &[f64]| -> f64 {
                known.iter().map(|&term| amounts[term] * coefficients[term]).sum()
            };
            let observations: Vec<Observation> = chosen()
                .zip(&amounts)
                .map(|((_, measured), amounts)| Observation {
                    amounts: own.iter().map(|&term| amounts[term]).collect(),
                    value: measured.measurement[self.name()][part.name()].as_f64().unwrap_or(0.0)
                        - of_known(amounts),
                    scale: sum(&measured.measurement[self.name()]),
                })
                .collect();
            for (term, coefficient) in own.iter().zip(fit(&observations, own.len())) {
                coefficients[*term] = coefficient;
            }
        }
        coefficients
    }
}

/// Returns a design's area and energy from coefficients.
fn by(coefficients: &[Vec<f64>; 2], measured: &Measured) -> [f64; 2] {
    let product = |k: usize| {
        let amounts = Quantity::ALL[k].amounts(measured);
        amounts.iter().zip(&coefficients[k]).map(|(amount, coefficient)| amount * coefficient).sum()
    };
    [product(0), product(1)]
}

/// Returns coefficients as Rust.
fn text(technology: Technology, coefficients: &[Vec<f64>; 2]) -> String {
    let mut text =
        format!("const {}: Coefficients = Coefficients {{\n", technology.name().to_uppercase());
    for (quantity, coefficients) in Quantity::ALL.into_iter().zip(coefficients) {
        let _ = writeln!(text, "    {}: [", quantity.name());
        for ((name, _), coefficient) in quantity.terms().iter().zip(coefficients) {
            let _ = writeln!(text, "        {} // {name}", number(*coefficient));
        }
        text.push_str("    ],\n");
    }
    text.push_str("};\n");
    text
}

fn number(value: f64) -> String {
    match value {
        0.0 => "0.0,".to_owned(),
        value if value < 0.01 => format!("{value:.3e},"),
        value => format!("{value:.4},"),
    }
}

fn report(title: &str, all: &[Measured], model: impl Fn(usize) -> [f64; 2]) {
    println!(
        "\n{title}\n{:<48} {:>9} {:>9} {:>7} {:>9} {:>9} {:>7}",
        "design", "area", "model", "error", "nJ", "model", "error"
    );
    let mut errors: Vec<(Use, [f64; 2])> = Vec::new();
    for (k, measured) in all.iter().enumerate() {
        let found = [sum(&measured.measurement["area"]), sum(&measured.measurement["energy"])];
        let model = model(k);
        let error = [0, 1].map(|k| 100.0 * (model[k] / found[k] - 1.0));
        let role = match measured.case.role {
            Use::Fit => "fit",
            Use::HeldOut => "held",
        };
        println!(
            "{:<6}{:<42} {:>9.0} {:>9.0} {:>6.1}% {:>9.3} {:>9.3} {:>6.1}%",
            role, measured.case.name, found[0], model[0], error[0], found[1], model[1], error[1]
        );
        errors.push((measured.case.role, error));
    }
    for (role, name) in [(Use::Fit, "fitted"), (Use::HeldOut, "held out")] {
        let of_role: Vec<[f64; 2]> =
            errors.iter().filter(|(r, _)| *r == role).map(|(_, e)| *e).collect();
        let n = of_role.len().max(1) as f64;
        for (k, what) in ["area", "energy"].into_iter().enumerate() {
            let mean = of_role.iter().map(|error| error[k].abs()).sum::<f64>() / n;
            let worst = of_role.iter().map(|error| error[k].abs()).fold(0.0, f64::max);
            println!(
                "{name}, {} designs, {what}: mean error {mean:.1} %, worst {worst:.1} %",
                of_role.len()
            );
        }
    }
}

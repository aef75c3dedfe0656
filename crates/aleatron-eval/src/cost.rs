//! Cost of the circuits behind rows: cycles, area and energy, by the model of `aleatron-hardware`.

use super::plan::Plan;
use super::result::Evaluation;
use super::serial;
use crate::{Error, Found, Result};
use aleatron_core::arithmetic::Arithmetic;
use aleatron_core::generator::GeneratorName;
use aleatron_data::Dataset;
use aleatron_engine::network::{LayerOverride, Network, StreamConfig};
use aleatron_hardware::cost::Technology;
use aleatron_hardware::{Circuit, Options};
use serde::{Deserialize, Serialize};

/// Samples whose streams give the activity that energy depends on.
const SAMPLES: usize = 2;

/// The cost of the circuit of a network with some streams, all of whose neurons work in parallel.
/// Circuits compute in integers between layers; an evaluation in floating point has the cost of the
/// circuit with the same streams.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum CircuitCost {
    /// The circuit exists.
    Known(CostFigures),
    /// The network, its generator or its data have no circuit.
    Missing {
        /// The reason.
        reason: String,
    },
}

/// The cost of a circuit, by a model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostFigures {
    /// The cycles from one sample to the next.
    pub cycles: u64,
    /// The area in gate equivalents, that is, NAND gates of two inputs.
    pub area: f64,
    /// The energy of a sample in nanojoules.
    pub energy: f64,
}

/// The cost of one generator and length.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RowCost {
    /// The generator.
    #[serde(with = "serial::text")]
    pub generator: GeneratorName,
    /// The length of streams, except in layers with a length of their own.
    pub length: usize,
    /// The cost. In JSON, its figures are fields of the row.
    #[serde(flatten)]
    pub cost: CircuitCost,
}

impl CircuitCost {
    /// Computes the cost of the circuit of a network with these streams on the first samples of the
    /// data.
    fn new(network: &Network, data: &Dataset, config: StreamConfig) -> Self {
        let config = config.arithmetic(Arithmetic::Integer);
        let options = Options::default();
        let compute = || -> aleatron_hardware::Result<CostFigures> {
            let circuit = Circuit::new(network, &config, &options)?;
            // Samples that cannot be read or encoded fail in the evaluation itself; the cost is
            // then that of all inputs alike.
            let samples = data.samples(0..SAMPLES.min(data.len())).ok();
            let trace = samples.and_then(|samples| circuit.trace(&samples).ok());
            let cost = circuit.cost(&options, Technology::Generic, trace.as_ref())?;
            Ok(CostFigures { cycles: cost.cycles, area: cost.area, energy: cost.energy })
        };
        match compute() {
            Ok(figures) => Self::Known(figures),
            Err(error) => Self::Missing { reason: error.to_string() },
        }
    }

    /// Returns the figures; `None` without a circuit.
    #[must_use]
    pub fn figures(&self) -> Option<&CostFigures> {
        match self {
            Self::Known(figures) => Some(figures),
            Self::Missing { .. } => None,
        }
    }

    /// Returns the reason why there are no figures.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Known(_) => None,
            Self::Missing { reason } => Some(reason),
        }
    }

    /// Checks that the figures can be those of a circuit.
    fn validate(&self) -> Result<(), String> {
        let is_size = |value: f64| (0.0..f64::INFINITY).contains(&value);
        match self {
            Self::Known(figures) if !is_size(figures.area) || !is_size(figures.energy) => {
                Err("the cost of its circuit is negative or infinite".to_owned())
            }
            _ => Ok(()),
        }
    }
}

/// The inputs and neurons of the largest layers that the cost model was fitted to.
const FITTED_SIZE: usize = 64;

/// Adds the cost of the circuit of each row that has cells.
pub fn add_costs(network: &Network, data: &Dataset, evaluation: &mut Evaluation) {
    let mut rows: Vec<(GeneratorName, usize)> = Vec::new();
    for row in evaluation.rows() {
        // Faults do not change the circuit.
        if !rows.contains(&(row.generator, row.length)) {
            rows.push((row.generator, row.length));
        }
    }
    evaluation.costs = costs(network, data, &evaluation.plan, &rows);
}

/// Adds the cost of the circuit of each row of the plan, whether it has cells or not.
pub(super) fn add_planned_costs(network: &Network, data: &Dataset, evaluation: &mut Evaluation) {
    let plan = &evaluation.plan;
    let rows = plan.generators.iter().flat_map(|&generator| {
        plan.lengths_of(&generator).into_iter().map(move |length| (generator, length))
    });
    evaluation.costs = costs(network, data, plan, &rows.collect::<Vec<_>>());
}

fn costs(
    network: &Network,
    data: &Dataset,
    plan: &Plan,
    rows: &[(GeneratorName, usize)],
) -> Vec<RowCost> {
    let cost = |&(generator, length): &(GeneratorName, usize)| {
        let cost = CircuitCost::new(network, data, plan.config(&generator, length, 0));
        RowCost { generator, length, cost }
    };
    rows.iter().map(cost).collect()
}

/// Adds the cost of the circuit with the lengths that a search has found.
pub fn add_cost(network: &Network, data: &Dataset, plan: &Plan, found: &mut Found) {
    let longest = found.lengths.iter().copied().max().unwrap_or(1);
    let mut config = plan.config(&found.generator, longest, 0);
    for (name, &length) in found.layers.iter().zip(&found.lengths) {
        let own = config.layers.get(name).copied().unwrap_or_default();
        config.layers.insert(name.clone(), LayerOverride { length: Some(length), ..own });
    }
    found.cost = Some(CircuitCost::new(network, data, config));
}

impl Evaluation {
    /// Returns the cost of the circuit of a row, if it was computed.
    pub(super) fn cost_of(&self, generator: &GeneratorName, length: usize) -> Option<&CircuitCost> {
        let found =
            self.costs.iter().find(|cost| cost.generator == *generator && cost.length == length);
        found.map(|row| &row.cost)
    }

    /// Returns the reasons why rows have no circuit, each once, with the generators they are about.
    pub(super) fn cost_reasons(&self) -> Vec<String> {
        let mut reasons: Vec<String> = Vec::new();
        for RowCost { generator, cost, .. } in &self.costs {
            if let Some(reason) = cost.reason() {
                let reason = format!("{generator}: {reason}");
                if !reasons.contains(&reason) {
                    reasons.push(reason);
                }
            }
        }
        reasons
    }

    /// Returns a note if circuits are larger than those that the model was fitted to.
    pub(super) fn cost_note(&self) -> Option<String> {
        let largest = self.network.sizes.iter().copied().max().unwrap_or(0);
        let has_figures = self.costs.iter().any(|row| row.cost.figures().is_some());
        (has_figures && largest > FITTED_SIZE).then(|| {
            format!(
                "area and energy are extrapolated: the model was fitted to layers of up to {FITTED_SIZE} inputs and neurons, \
                 this network has {largest}; aleatron rtl --synth --energy measures a circuit"
            )
        })
    }

    /// Checks that costs are those of circuits, each once.
    pub(super) fn validate_costs(&self) -> Result<(), String> {
        for (k, RowCost { generator, length, cost }) in self.costs.iter().enumerate() {
            let name = format!("the cost of {generator} at {length} bits");
            cost.validate().map_err(|reason| format!("{name}: {reason}"))?;
            let is_same =
                |other: &RowCost| other.generator == *generator && other.length == *length;
            if self.costs[..k].iter().any(is_same) {
                return Err(format!("{name} is there twice"));
            }
        }
        Ok(())
    }
}

impl Found {
    /// Checks the cost of the circuit.
    pub(super) fn validate_cost(&self) -> Result<()> {
        let checked = self.cost.as_ref().map_or(Ok(()), CircuitCost::validate);
        checked.map_err(|reason| Error::Format { file: "search".to_owned(), reason })
    }
}

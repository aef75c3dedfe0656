//! What an evaluation found, whole and summed up.

use super::early::{CertainStop, EarlyStop};
use super::statistics::{Estimate, mean};
use crate::{Error, Result};
use aleatron_engine::stream::LayerStats;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything one evaluation found. It is complete when it has all the cells of its plan, and can be gone on from when not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evaluation {
    /// The version of Aleatron that made it.
    pub version: String,
    /// The network.
    pub network: NetworkSummary,
    /// The data.
    pub data: DataSummary,
    /// What was to be run.
    pub plan: PlanSummary,
    /// The accuracy in floating point.
    pub float_accuracy: f64,
    /// What is known to be wrong with generators, each once.
    pub warnings: Vec<String>,
    /// What was run: one cell per generator, length and seed.
    pub cells: Vec<Cell>,
    /// The cells of the plan that were not run.
    pub unfinished: usize,
    /// The nodes of a graph and where accuracy is lost among them, where that was looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<GraphSummary>,
}

/// A graph, and where it loses accuracy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphSummary {
    /// The nodes in the order in which they run.
    pub nodes: Vec<GraphNode>,
    /// For each generator, where accuracy is lost.
    pub losses: Vec<Losses>,
}

/// A node of a graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphNode {
    /// Its name.
    pub name: String,
    /// Its operator.
    pub operator: String,
    /// The shape of its first output for one sample.
    pub shape: Vec<usize>,
    /// The nodes whose outputs it takes, by their places.
    pub inputs: Vec<usize>,
    /// The products of a sample where it runs as streams.
    pub stream_products: Option<u64>,
}

/// Where a graph loses accuracy with one generator and length.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Losses {
    /// The generator.
    pub generator: String,
    /// The length of streams.
    pub length: usize,
    /// The accuracy of the whole network, with seed 0.
    pub accuracy: f64,
    /// The root mean square error of what each node makes against floating point, over the root mean square of what it makes there; all errors of
    /// the nodes before it are in it. Over the first samples.
    pub node_errors: Vec<f64>,
    /// The accuracy where one layer alone runs as streams, for each node; `None` for those in binary.
    pub alone: Vec<Option<f64>>,
}

/// What a network is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkSummary {
    /// Its name.
    pub name: String,
    /// The features, the rows of weights of each layer but the last, and the outputs.
    pub sizes: Vec<usize>,
    /// The names of the layers.
    pub layers: Vec<String>,
    /// The products of one sample.
    pub products: usize,
    /// A hash of every number in it.
    pub fingerprint: String,
}

/// What a data set is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataSummary {
    /// Its name.
    pub name: String,
    /// The samples.
    pub samples: usize,
    /// A hash of every number in it.
    pub fingerprint: String,
}

/// What was to be run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanSummary {
    /// The lengths, ascending.
    pub lengths: Vec<usize>,
    /// The generators.
    pub generators: Vec<String>,
    /// The seeds of generators that have one.
    pub seeds: usize,
    /// The width of shared sequences.
    pub width: String,
    /// How many sequences streams share.
    pub sharing: String,
    /// Layers with settings of their own.
    pub layers: BTreeMap<String, String>,
    /// How numbers are kept between layers.
    pub arithmetic: String,
    /// Whether features that cannot be encoded saturate.
    pub clip: bool,
    /// The leads at which samples stop early.
    pub margins: Vec<f64>,
    /// The device.
    pub device: String,
}

/// One generator, length and seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// The generator.
    pub generator: String,
    /// The length of streams, except in layers with a length of their own.
    pub length: usize,
    /// The stream length of each layer that runs as streams.
    pub lengths: Vec<usize>,
    /// The seed.
    pub seed: u64,
    /// The share of samples whose top class is their label.
    pub accuracy: f64,
    /// The share of samples whose top class is that of floating point.
    pub agreement: f64,
    /// Samples by label, then by class.
    pub confusion: Vec<Vec<u32>>,
    /// The errors of each layer's counts.
    pub layers: Vec<LayerStats>,
    /// Stopping early, by margin.
    pub early: Vec<EarlyStop>,
    /// Stopping the last layer where the outcome is certain; not where an activation follows it.
    pub certain: Option<CertainStop>,
    /// Features that lay outside what the first layer can encode, and were clipped.
    pub clipped: u64,
    /// The time the streams took.
    pub seconds: f64,
    /// Samples per second.
    pub samples_per_second: f64,
    /// Products of bits per second.
    pub bit_macs_per_second: f64,
}

/// One generator and length, over its seeds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The generator.
    pub generator: String,
    /// The length of streams, except in layers with a length of their own.
    pub length: usize,
    /// The stream length of each layer that runs as streams.
    pub lengths: Vec<usize>,
    /// The accuracy.
    pub accuracy: Estimate,
    /// The accuracy of each seed.
    pub accuracies: Vec<f64>,
    /// The agreement with floating point.
    pub agreement: f64,
    /// The mean error of each layer's counts; the worst is over all seeds.
    pub layers: Vec<LayerStats>,
    /// Stopping early, by margin.
    pub early: Vec<EarlyStop>,
    /// Stopping the last layer where the outcome is certain.
    pub certain: Option<CertainStop>,
    /// Samples per second.
    pub samples_per_second: f64,
    /// Products of bits per second.
    pub bit_macs_per_second: f64,
    /// Samples by label, then by class, of all seeds.
    pub confusion: Vec<Vec<u64>>,
}

impl Evaluation {
    /// Whether every cell of the plan is there.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.unfinished == 0
    }

    /// The evaluation without times and rates, which no two runs have in common: all else is the same wherever it was run.
    #[must_use]
    pub fn without_times(mut self) -> Self {
        for cell in &mut self.cells {
            (cell.seconds, cell.samples_per_second, cell.bit_macs_per_second) = (0.0, 0.0, 0.0);
        }
        self
    }

    /// Puts the cells into the order of the plan: by generator, then by seed, then by length.
    pub(super) fn sort(&mut self) {
        let place =
            |cell: &Cell| self.plan.generators.iter().position(|generator| *generator == cell.generator);
        let mut cells = std::mem::take(&mut self.cells);
        cells.sort_by_key(|cell| (place(cell), cell.seed, cell.length));
        self.cells = cells;
    }

    /// The cells summed up over seeds, by generator and then by length, in the order of the plan.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        let keys = self.plan.generators.iter().flat_map(|g| self.plan.lengths.iter().map(move |&l| (g, l)));
        keys.filter_map(|(generator, length)| {
            let matching =
                self.cells.iter().filter(|cell| cell.generator == *generator && cell.length == length);
            Row::new(&matching.collect::<Vec<_>>())
        })
        .collect()
    }

    /// The rows of one generator, by length.
    #[must_use]
    pub fn rows_of(&self, generator: &str) -> Vec<Row> {
        self.rows().into_iter().filter(|row| row.generator == generator).collect()
    }

    /// Returns the shortest length from which on every seed of a generator stays within `points` percentage points of floating point;
    /// `None` if not even the longest does.
    ///
    /// # Errors
    /// [`Error::UnknownGenerator`] for one that was not evaluated.
    pub fn shortest_within(&self, generator: &str, points: f64) -> Result<Option<usize>> {
        if !self.plan.generators.iter().any(|known| known == generator) {
            let (name, known) = (generator.to_owned(), self.plan.generators.clone());
            return Err(Error::UnknownGenerator { name, known });
        }
        // Accuracies are counts over samples: the slack is for the rounding of f64 alone.
        let bar = self.float_accuracy - points / 100.0 - 1e-9;
        let rows = self.rows_of(generator);
        let close = rows.iter().rev().take_while(|row| row.worst_accuracy() >= bar);
        Ok(close.last().map(|row| row.length))
    }

    /// Whether stopping early says something about a row: not where the full run is far from floating point, since there is nothing to
    /// lose by stopping at chance level.
    #[must_use]
    pub fn has_early(&self, row: &Row) -> bool {
        row.accuracy.mean >= self.float_accuracy - FAR / 100.0 - 1e-9
    }

    /// The evaluation as JSON.
    ///
    /// # Errors
    /// What the writer of JSON says; not for an evaluation made by [`super::evaluate`].
    pub fn to_json(&self) -> Result<String> {
        let fault = |error: serde_json::Error| Error::Format {
            file: "evaluation".to_owned(),
            reason: error.to_string(),
        };
        serde_json::to_string_pretty(self).map_err(fault)
    }

    /// One line of comma-separated values for each cell, under a heading.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let mut text =
            "generator,length,seed,accuracy,agreement,clipped,seconds,samples_per_second,bit_macs_per_second"
                .to_owned();
        for name in &self.network.layers {
            text.push_str(&format!(",{0} mean error,{0} worst error,{0} saturated", name.replace(',', ";")));
        }
        text.push('\n');
        for cell in &self.cells {
            let Cell { generator, length, seed, accuracy, agreement, clipped, seconds, .. } = cell;
            let (samples, products) = (cell.samples_per_second, cell.bit_macs_per_second);
            text.push_str(&format!(
                "{generator},{length},{seed},{accuracy},{agreement},{clipped},{seconds},{samples},{products}"
            ));
            for layer in &cell.layers {
                text.push_str(&format!(",{},{},{}", layer.mean_value, layer.worst_value, layer.saturated));
            }
            text.push('\n');
        }
        text
    }
}

/// Percentage points below floating point from which on a row is far from it.
const FAR: f64 = 5.0;

impl Row {
    /// Returns the least accuracy of a seed.
    #[must_use]
    pub fn worst_accuracy(&self) -> f64 {
        self.accuracies.iter().copied().fold(self.accuracy.mean, f64::min)
    }

    /// Returns the mean stream length of the layers that run as streams.
    #[must_use]
    pub fn mean_length(&self) -> f64 {
        mean(&self.lengths.iter().map(|&length| length as f64).collect::<Vec<_>>())
    }

    /// Returns whether all layers have the length of the row.
    #[must_use]
    pub fn has_one_length(&self) -> bool {
        self.lengths.iter().all(|&length| length == self.length)
    }

    /// Returns the stream lengths as text: one number, or the shortest and the longest if layers differ.
    #[must_use]
    pub fn bits(&self) -> String {
        bits(&self.lengths, self.length)
    }

    /// The margin that takes the fewest cycles among those that lose at most `points` percentage points of accuracy on these
    /// samples; `None` where none of them takes fewer than the full run.
    #[must_use]
    pub fn early_within(&self, points: f64) -> Option<&EarlyStop> {
        let good = self.early.iter().filter(|stop| {
            stop.accuracy_lost <= points / 100.0 + 1e-9 && stop.mean_cycles < self.mean_length()
        });
        good.min_by(|a, b| a.mean_cycles.total_cmp(&b.mean_cycles))
    }

    /// Sums up the cells of one generator and length; `None` of none.
    fn new(cells: &[&Cell]) -> Option<Self> {
        let first = cells.first()?;
        let average =
            |value: fn(&Cell) -> f64| mean(&cells.iter().map(|cell| value(cell)).collect::<Vec<_>>());
        let accuracies: Vec<f64> = cells.iter().map(|cell| cell.accuracy).collect();
        let layers = (0..first.layers.len()).map(|k| {
            let errors: Vec<&LayerStats> = cells.iter().filter_map(|cell| cell.layers.get(k)).collect();
            let average = |value: fn(&LayerStats) -> f64| {
                mean(&errors.iter().map(|error| value(error)).collect::<Vec<_>>())
            };
            let worst =
                |value: fn(&LayerStats) -> f64| errors.iter().map(|error| value(error)).fold(0.0, f64::max);
            LayerStats {
                counts: errors.iter().map(|error| error.counts).sum(),
                mean_count: average(|error| error.mean_count),
                worst_count: worst(|error| error.worst_count),
                mean_value: average(|error| error.mean_value),
                worst_value: worst(|error| error.worst_value),
                saturated: errors.iter().map(|error| error.saturated).sum(),
            }
        });
        let early = (0..first.early.len()).map(|k| {
            let stops: Vec<&EarlyStop> = cells.iter().filter_map(|cell| cell.early.get(k)).collect();
            let average = |value: fn(&EarlyStop) -> f64| {
                mean(&stops.iter().map(|stop| value(stop)).collect::<Vec<_>>())
            };
            EarlyStop {
                margin: first.early[k].margin,
                mean_cycles: average(|stop| stop.mean_cycles),
                accuracy: average(|stop| stop.accuracy),
                accuracy_lost: average(|stop| stop.accuracy_lost),
                stopped: average(|stop| stop.stopped),
            }
        });
        let certain: Vec<CertainStop> = cells.iter().filter_map(|cell| cell.certain).collect();
        let certain = (!certain.is_empty()).then(|| CertainStop {
            mean_cycles: mean(&certain.iter().map(|stop| stop.mean_cycles).collect::<Vec<_>>()),
            stopped: mean(&certain.iter().map(|stop| stop.stopped).collect::<Vec<_>>()),
        });
        let mut confusion: Vec<Vec<u64>> =
            first.confusion.iter().map(|counts| vec![0; counts.len()]).collect();
        for cell in cells {
            let entries = confusion.iter_mut().flatten().zip(cell.confusion.iter().flatten());
            entries.for_each(|(sum, &n)| *sum += u64::from(n));
        }
        Some(Self {
            generator: first.generator.clone(),
            length: first.length,
            lengths: first.lengths.clone(),
            accuracy: Estimate::new(&accuracies, [0.0, 1.0]),
            accuracies,
            agreement: average(|cell| cell.agreement),
            layers: layers.collect(),
            early: early.collect(),
            certain,
            samples_per_second: average(|cell| cell.samples_per_second),
            bit_macs_per_second: average(|cell| cell.bit_macs_per_second),
            confusion,
        })
    }
}

/// Returns stream lengths as text: one number, or the shortest and the longest if layers differ.
pub(super) fn bits(lengths: &[usize], length: usize) -> String {
    match (lengths.iter().min(), lengths.iter().max()) {
        (Some(shortest), Some(longest)) if shortest < longest => format!("{shortest}-{longest}"),
        (Some(all), _) => all.to_string(),
        _ => length.to_string(),
    }
}

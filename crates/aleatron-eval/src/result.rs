//! The results of an evaluation, whole and summed up.

use super::cost::{CircuitCost, RowCost};
use super::early::EarlyStop;
use super::faults::FaultPoint;
use super::figures::{
    CellFigures, ClassificationRow, Errors, Figures, FloatAccuracy, FloatFigures, RowFigures,
};
use super::plan::Plan;
use super::provenance::Provenance;
use super::serial;
use super::statistics::mean;
use super::subject::Subject;
use crate::{Error, Result};
use aleatron_core::conformance::Digest;
use aleatron_core::generator::GeneratorName;
use aleatron_data::{Dataset, LabelKind};
use aleatron_engine::VERSION;
use aleatron_engine::stream::LayerStats;
use serde::{Deserialize, Serialize};

/// The results of an evaluation. It is complete if it has all the cells of its plan; otherwise it
/// can be resumed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evaluation {
    /// The version of Aleatron that computed it.
    pub version: String,
    /// The network.
    pub network: NetworkSummary,
    /// The data.
    pub data: DataSummary,
    /// The plan, with each length and generator once and the margins that apply.
    pub plan: Plan,
    /// The figures of floating point.
    pub float: FloatFigures,
    /// Known problems of generators and inputs, each once.
    pub warnings: Vec<String>,
    /// One cell for each generator, length and seed.
    pub cells: Vec<Cell>,
    /// The number of cells of the plan that were not run.
    pub unfinished: usize,
    /// The nodes of the graph and their share in the loss, if it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<GraphSummary>,
    /// The cost of the circuit of each row, if it was computed by [`super::add_costs`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<RowCost>,
    /// The runs that contributed, in their order. Results are equal without them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provenance: Vec<Provenance>,
}

/// A graph, and the loss of its nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphSummary {
    /// The nodes in the order in which they run.
    pub nodes: Vec<GraphNode>,
    /// The losses with each generator.
    pub losses: Vec<Losses>,
}

/// A node of a graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphNode {
    /// The name.
    pub name: String,
    /// The operator.
    pub operator: String,
    /// The shape of its first output for one sample.
    pub shape: Vec<usize>,
    /// The indices of the nodes whose outputs are its inputs.
    pub inputs: Vec<usize>,
    /// The names of the inputs of the graph that it takes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub graph_inputs: Vec<String>,
    /// The products of a sample, if it runs as streams.
    pub stream_products: Option<u64>,
}

/// The loss of each node of a graph with one generator and length.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Losses {
    /// The generator.
    #[serde(with = "serial::text")]
    pub generator: GeneratorName,
    /// The length of streams.
    pub length: usize,
    /// The score of the whole network, with seed 0.
    pub score: f64,
    /// The root mean square error of the output of each node against floating point, relative to
    /// the root mean square of the output in floating point, over the first samples. It
    /// includes the errors of the nodes before it. `None` if the output is 0 in floating point, not
    /// finite, or not of floats.
    pub node_errors: Vec<Option<f64>>,
    /// The score if the layer of a node is the only one that runs as streams; `None` for nodes in
    /// binary.
    pub alone: Vec<Option<f64>>,
}

/// The identity of a network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkSummary {
    /// The name.
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

/// The identity of a data set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataSummary {
    /// The name.
    pub name: String,
    /// The samples.
    pub samples: usize,
    /// A hash of every number in it.
    pub fingerprint: String,
}

/// One generator, length, seed and set of faults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The generator.
    #[serde(with = "serial::text")]
    pub generator: GeneratorName,
    /// The length of streams, except in layers with a length of their own.
    pub length: usize,
    /// The stream length of each layer that runs as streams.
    pub lengths: Vec<usize>,
    /// The seed, of streams and of faults.
    pub seed: u64,
    /// The faults, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<FaultPoint>,
    /// The figures of a classification or a regression. In JSON, they are fields of the cell.
    #[serde(flatten)]
    pub figures: CellFigures,
    /// The errors of each layer's counts.
    pub layers: Vec<LayerStats>,
    /// Features outside the interval that the first layer can encode, which saturated.
    pub clipped: u64,
    /// The time of the streams.
    pub seconds: f64,
    /// Samples per second.
    pub samples_per_second: f64,
    /// Products of bits per second.
    pub bit_macs_per_second: f64,
}

/// One generator, length and set of faults, over its seeds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The generator.
    #[serde(with = "serial::text")]
    pub generator: GeneratorName,
    /// The length of streams, except in layers with a length of their own.
    pub length: usize,
    /// The stream length of each layer that runs as streams.
    pub lengths: Vec<usize>,
    /// The faults, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faults: Option<FaultPoint>,
    /// The figures of a classification or a regression. In JSON, they are fields of the row.
    #[serde(flatten)]
    pub figures: RowFigures,
    /// The score of each seed.
    #[serde(skip)]
    pub scores: Vec<f64>,
    /// The mean error of each layer's counts; the worst is over all seeds.
    pub layers: Vec<LayerStats>,
    /// Samples per second.
    pub samples_per_second: f64,
    /// Products of bits per second.
    pub bit_macs_per_second: f64,
    /// The cost of the circuit, if it was computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<CircuitCost>,
}

/// Samples that are hashed at a time.
const HASHED: usize = 256;

impl DataSummary {
    pub(super) fn new(data: &Dataset) -> Result<Self> {
        let mut digest = Digest::default();
        digest.word((data.len() * data.n_features()) as u64);
        for (_, features) in data.chunks(HASHED) {
            features?.iter().for_each(|feature| digest.word(feature.to_bits()));
        }
        digest.answer(data.labels().iter().map(|&label| label as u64));
        if data.label_kind() == LabelKind::Numbers {
            digest.answer(data.targets().iter().map(|target| target.to_bits()));
        }
        let (name, fingerprint) = (data.name().to_owned(), format!("{:016x}", digest.finish()));
        Ok(Self { name, samples: data.len(), fingerprint })
    }
}

impl Evaluation {
    /// Creates an evaluation without results.
    pub(super) fn new(subject: &Subject, data: &Dataset, plan: &Plan) -> Result<Self> {
        Ok(Self {
            version: VERSION.to_owned(),
            network: subject.summary()?,
            data: DataSummary::new(data)?,
            plan: plan.clone(),
            float: match data.label_kind() {
                LabelKind::Classes => Figures::Classification(FloatAccuracy { accuracy: 0.0 }),
                LabelKind::Numbers => Figures::Regression(Errors::default()),
            },
            warnings: Vec::new(),
            cells: Vec::new(),
            unfinished: 0,
            graph: None,
            costs: Vec::new(),
            provenance: Vec::new(),
        })
    }

    /// Returns whether every cell of the plan is finished.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.unfinished == 0
    }

    /// Returns the evaluation without times, rates and provenance: everything else is equal on every
    /// machine.
    #[must_use]
    pub fn without_times(mut self) -> Self {
        self.provenance.clear();
        for cell in &mut self.cells {
            (cell.seconds, cell.samples_per_second, cell.bit_macs_per_second) = (0.0, 0.0, 0.0);
        }
        self
    }

    /// Puts the cells into the order of the plan: by generator, then by faults, then by seed, then
    /// by length.
    pub(super) fn sort(&mut self) {
        let rank = |cell: &Cell| {
            self.plan.generators.iter().position(|generator| *generator == cell.generator)
        };
        let points = self.plan.fault_points();
        let point = |cell: &Cell| points.iter().position(|point| *point == cell.faults);
        let mut cells = self.cells.clone();
        cells.sort_by_key(|cell| (rank(cell), point(cell), cell.seed, cell.length));
        self.cells = cells;
    }

    /// Returns the cells summed up over seeds, by generator, then by faults, then by length, in the
    /// order of the plan.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        let mut keys: Vec<(&GeneratorName, Option<FaultPoint>, usize)> = Vec::new();
        for generator in &self.plan.generators {
            let lengths = self.plan.lengths_of(generator);
            for point in self.plan.fault_points_of(generator) {
                keys.extend(lengths.iter().map(|&length| (generator, point, length)));
            }
        }
        keys.into_iter()
            .filter_map(|(generator, point, length)| {
                let is_own = |cell: &&Cell| {
                    cell.generator == *generator && cell.faults == point && cell.length == length
                };
                let matching = self.cells.iter().filter(is_own);
                let row = Row::new(&matching.collect::<Vec<_>>())?;
                Some(Row { cost: self.cost_of(generator, length).cloned(), ..row })
            })
            .collect()
    }

    /// Returns the rows of one generator without faults, by length.
    #[must_use]
    pub fn rows_of(&self, generator: &str) -> Vec<Row> {
        let is_own = |row: &Row| row.generator.to_string() == generator && row.faults.is_none();
        self.rows().into_iter().filter(is_own).collect()
    }

    /// Returns the shortest length from which on the score of every seed of a generator stays
    /// within `points` hundredths of that of floating point; `None` if not even the longest
    /// does.
    ///
    /// # Errors
    /// [`Error::UnknownGenerator`] for one that was not evaluated.
    pub fn shortest_within(&self, generator: &str, points: f64) -> Result<Option<usize>> {
        let known: Vec<String> = self.plan.generators.iter().map(ToString::to_string).collect();
        if !known.iter().any(|known| known == generator) {
            let name = generator.to_owned();
            return Err(Error::UnknownGenerator { name, known });
        }
        // The slack is for the rounding of f64 alone.
        let bar = self.float.score() - points / 100.0 - 1e-9;
        let rows = self.rows_of(generator);
        let close = rows.iter().rev().take_while(|row| row.worst_score() >= bar);
        Ok(close.last().map(|row| row.length))
    }

    /// Returns whether early termination is meaningful for a row: not if the full run is far from
    /// floating point, since stopping at chance level loses nothing.
    #[must_use]
    pub fn has_early(&self, row: &Row) -> bool {
        row.score() >= self.float.score() - FAR / 100.0 - 1e-9
    }

    /// Returns the evaluation as JSON.
    ///
    /// # Errors
    /// An error of the JSON writer; not for an evaluation of [`super::evaluate`].
    pub fn to_json(&self) -> Result<String> {
        let fault = |error: serde_json::Error| Error::Format {
            file: "evaluation".to_owned(),
            reason: error.to_string(),
        };
        serde_json::to_string_pretty(self).map_err(fault)
    }

    /// Returns one line of comma-separated values for each cell, under a heading.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let figures = match self.float {
            Figures::Classification(_) => "accuracy,agreement",
            Figures::Regression(_) => {
                "mean absolute error,root mean square error,r squared,mean absolute error to float,root mean square error to float"
            }
        };
        let mut text = format!(
            "generator,length,seed,{figures},clipped,seconds,samples_per_second,bit_macs_per_second"
        );
        let has_faults = self.plan.has_faults();
        if has_faults {
            text.push_str(",fault site,fault rate");
        }
        for name in &self.network.layers {
            text.push_str(&format!(
                ",{0} mean error,{0} worst error,{0} saturated",
                name.replace(',', ";")
            ));
        }
        text.push('\n');
        for cell in &self.cells {
            let Cell { generator, length, seed, clipped, seconds, .. } = cell;
            let figures = match &cell.figures {
                Figures::Classification(cell) => vec![cell.accuracy, cell.agreement],
                Figures::Regression(cell) => {
                    let (targets, float) = (&cell.to_targets, &cell.to_float);
                    let targets =
                        [targets.mean_absolute, targets.root_mean_square, targets.r_squared];
                    [&targets[..], &[float.mean_absolute, float.root_mean_square]].concat()
                }
            };
            let figures: Vec<String> = figures.iter().map(ToString::to_string).collect();
            let (samples, products) = (cell.samples_per_second, cell.bit_macs_per_second);
            text.push_str(&format!(
                "{generator},{length},{seed},{},{clipped},{seconds},{samples},{products}",
                figures.join(",")
            ));
            if has_faults {
                text.push_str(&match cell.faults {
                    Some(FaultPoint { sites, rate }) => format!(",{sites},{}", rate.get()),
                    None => ",,0".to_owned(),
                });
            }
            for layer in &cell.layers {
                text.push_str(&format!(
                    ",{},{},{}",
                    layer.mean_value, layer.worst_value, layer.saturated
                ));
            }
            text.push('\n');
        }
        text
    }
}

/// Percentage points below floating point from which on a row is far from it.
const FAR: f64 = 5.0;

impl Row {
    /// Returns the mean score of the seeds: the accuracy, or the coefficient of determination of a
    /// regression.
    #[must_use]
    pub fn score(&self) -> f64 {
        mean(&self.scores)
    }

    /// Returns the least score of a seed.
    #[must_use]
    pub fn worst_score(&self) -> f64 {
        self.scores.iter().copied().fold(self.score(), f64::min)
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

    /// Returns the stream lengths as text: one number, or the shortest and the longest if layers
    /// differ; a dash for integers.
    #[must_use]
    pub fn bits(&self) -> String {
        if self.generator.integer_bits().is_some() {
            return "-".to_owned();
        }
        match (self.lengths.iter().min(), self.lengths.iter().max()) {
            (Some(shortest), Some(longest)) if shortest < longest => {
                format!("{shortest}-{longest}")
            }
            (Some(all), _) => all.to_string(),
            _ => self.length.to_string(),
        }
    }

    /// Returns the margin that takes the fewest cycles among those that lose at most `points`
    /// percentage points of accuracy on these samples; `None` if none of them takes fewer than
    /// the full run.
    #[must_use]
    pub fn early_within(&self, points: f64) -> Option<&EarlyStop> {
        let early =
            self.figures.classification().map_or(&[][..], |row: &ClassificationRow| &row.early);
        let good = early.iter().filter(|stop| {
            stop.accuracy_lost <= points / 100.0 + 1e-9 && stop.mean_cycles < self.mean_length()
        });
        good.min_by(|a, b| a.mean_cycles.total_cmp(&b.mean_cycles))
    }

    /// Sums up the cells of one generator and length; `None` of none.
    fn new(cells: &[&Cell]) -> Option<Self> {
        let first = cells.first()?;
        let average = |value: fn(&Cell) -> f64| {
            mean(&cells.iter().map(|cell| value(cell)).collect::<Vec<_>>())
        };
        let figures: Vec<&CellFigures> = cells.iter().map(|cell| &cell.figures).collect();
        let layers = (0..first.layers.len()).map(|k| {
            let errors: Vec<&LayerStats> =
                cells.iter().filter_map(|cell| cell.layers.get(k)).collect();
            let average = |value: fn(&LayerStats) -> f64| {
                mean(&errors.iter().map(|error| value(error)).collect::<Vec<_>>())
            };
            let worst = |value: fn(&LayerStats) -> f64| {
                errors.iter().map(|error| value(error)).fold(0.0, f64::max)
            };
            LayerStats {
                counts: errors.iter().map(|error| error.counts).sum(),
                mean_count: average(|error| error.mean_count),
                worst_count: worst(|error| error.worst_count),
                mean_value: average(|error| error.mean_value),
                worst_value: worst(|error| error.worst_value),
                mean_signal: average(|error| error.mean_signal),
                saturated: errors.iter().map(|error| error.saturated).sum(),
            }
        });
        Some(Self {
            generator: first.generator,
            length: first.length,
            lengths: first.lengths.clone(),
            faults: first.faults,
            figures: RowFigures::new(&figures),
            scores: figures.iter().map(|figures| figures.score()).collect(),
            layers: layers.collect(),
            samples_per_second: average(|cell| cell.samples_per_second),
            bit_macs_per_second: average(|cell| cell.bit_macs_per_second),
            cost: None,
        })
    }
}

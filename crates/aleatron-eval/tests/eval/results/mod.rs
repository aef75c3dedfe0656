//! Results of evaluations: summaries, printed tables, pages of reports, and the coordinates of
//! drawings.

mod charts;
mod compare;
mod confusion;
mod graph;
mod multiplier;
mod page;
mod rows;
mod tables;
mod text;
mod xml;

use crate::support::{self, float_accuracy};
use aleatron_engine::stream::LayerStats;
use aleatron_eval::{
    Cell, CertainStop, Classification, DataSummary, EarlyStop, Evaluation, Figures, NetworkSummary,
    Plan, report,
};
use xml::Element;

/// Samples of each of the two classes.
const HALF: u32 = 50;

/// Returns a cell of two classes in which `right` of 100 samples are right; the other figures
/// follow from it and the length.
fn cell(generator: &str, length: usize, seed: u64, right: u32) -> Cell {
    let wrong = 2 * HALF - right;
    let (first, second) = (wrong / 2, wrong - wrong / 2);
    let accuracy = f64::from(right) / 100.0;
    let early = [1.0, 2.0].map(|margin| EarlyStop {
        margin,
        mean_cycles: length as f64 * margin / 4.0,
        accuracy: accuracy - 0.002 * (2.0 - margin),
        accuracy_lost: 0.002 * (2.0 - margin),
        stopped: 0.75 / margin,
    });
    let error = 1.0 / length as f64;
    Cell {
        generator: support::generator(generator),
        length,
        lengths: vec![length],
        seed,
        faults: None,
        figures: Figures::Classification(Classification {
            accuracy,
            agreement: accuracy - 0.01,
            confusion: vec![vec![HALF - first, first], vec![second, HALF - second]],
            early: early.to_vec(),
            certain: Some(CertainStop { mean_cycles: length as f64 / 2.0, stopped: 0.5 }),
        }),
        layers: vec![LayerStats {
            counts: 300,
            mean_count: 1.0,
            worst_count: 3.0,
            mean_value: error,
            worst_value: 4.0 * error,
            mean_signal: 2.0,
            saturated: 0,
        }],
        clipped: 0,
        seconds: 1.0,
        samples_per_second: 1500.0,
        bit_macs_per_second: 2.5e9,
    }
}

/// Returns an evaluation of these cells, with 90 % right in floating point.
fn evaluation(cells: Vec<Cell>) -> Evaluation {
    let mut lengths: Vec<usize> = cells.iter().map(|cell| cell.length).collect();
    lengths.sort_unstable();
    lengths.dedup();
    let mut generators = Vec::new();
    for cell in &cells {
        if !generators.contains(&cell.generator) {
            generators.push(cell.generator);
        }
    }
    Evaluation {
        version: aleatron_engine::VERSION.to_owned(),
        network: NetworkSummary {
            name: "net".to_owned(),
            sizes: vec![3, 2],
            layers: vec!["only".to_owned()],
            products: 6,
            fingerprint: "0".to_owned(),
        },
        data: DataSummary { name: "data".to_owned(), samples: 100, fingerprint: "0".to_owned() },
        plan: Plan { lengths, generators, seeds: 2, margins: vec![1.0, 2.0], ..Plan::default() },
        float: float_accuracy(0.9),
        warnings: Vec::new(),
        cells,
        unfinished: 0,
        graph: None,
        costs: Vec::new(),
        provenance: Vec::new(),
    }
}

/// Returns two generators, one of them with two seeds, over three lengths.
fn example() -> Evaluation {
    let sobol =
        [(8, 70), (16, 88), (64, 90)].map(|(length, right)| cell("sobol", length, 0, right));
    let mut cells = sobol.to_vec();
    for (length, rights) in [(8, [50, 54]), (16, [66, 74]), (64, [86, 88])] {
        cells.extend((0..).zip(rights).map(|(seed, right)| cell("bernoulli", length, seed, right)));
    }
    evaluation(cells)
}

/// Returns the page of an evaluation.
fn page(evaluation: &Evaluation) -> String {
    report::evaluation(evaluation)
}

/// Returns the section of a page below a heading.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let heading = format!("<h2>{heading}</h2>");
    let rest = page.split_once(&heading).unwrap_or_else(|| panic!("no {heading}")).1;
    rest.split("<h2>").next().unwrap().split("<footer>").next().unwrap()
}

/// Returns the drawings of a section with their contents.
fn drawings(part: &str) -> Vec<Element> {
    xml::elements(part)
        .into_iter()
        .filter(|element| element.name == "svg" && element.depth_of_svg == 0)
        .collect()
}

//! The facade: layers, networks, files, evaluations, devices and where calls run.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking, too")]

mod checkpoints;
mod convolutions;
mod cuda;
mod data;
mod data_files;
mod devices;
mod errors;
mod eval;
mod eval_tasks;
mod files;
mod find;
mod gpu;
mod graph;
mod graph_files;
mod graph_integers;
mod graph_laws;
mod graph_streams;
mod layers;
mod network;
mod networks;
mod placement;
mod regression;
mod statistics;
mod stopping;

use aleatron::Cancel;
use aleatron::data::Dataset;
use aleatron::eval::{Evaluation, Plan, evaluate};
use aleatron::network::{FeatureMap, Layer, Network};

/// Two layers that run in no time.
fn network() -> Network {
    let layers = vec![
        Layer::new("a", 2, vec![0.5, -0.25, 1.0, 0.125]),
        Layer::new("b", 2, vec![0.75, -1.0, 0.5, 0.25, 0.0, -0.5]),
    ];
    Network::new("n", FeatureMap::IDENTITY, layers).unwrap()
}

/// Samples for it.
fn samples() -> Dataset {
    Dataset::new("d", 2, vec![0.5, -0.5, 1.0, 0.0, -1.0, 0.25], vec![0, 1, 2]).unwrap()
}

fn plan(generators: &[&str], lengths: &[usize]) -> Plan {
    let generators = generators.iter().map(|name| name.parse().unwrap()).collect();
    Plan { generators, lengths: lengths.to_vec(), seeds: 2, margins: vec![1.0, 2.0], ..Plan::default() }
}

fn run(plan: &Plan) -> Evaluation {
    evaluate(&network(), &samples(), plan, None, Cancel::NEVER, |_| ()).unwrap()
}

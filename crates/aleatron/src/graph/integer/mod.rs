//! Graphs in integers: what is between two stream nodes as a circuit has it.
//!
//! [`form`] says which nodes have a form in integers, and refuses graphs where one that is needed has none. [`plan`] goes through the graph
//! once for a number of samples and finds the unit of every integer, the widths, and the constants of every node. [`step`] computes nodes with
//! them. `docs/streams.md` defines all of it.

mod form;
mod plan;
mod pool;
mod step;

pub(crate) use form::check;
pub(crate) use plan::{Plan, Step};

use self::form::Forms;
use super::GraphNetwork;
use crate::Result;
use crate::network::StreamConfig;
use aleatron_graph::Runner;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Plans that are kept: those of whole pieces, of the last one, and of a single sample.
const KEPT: usize = 4;

/// The integer side of a graph.
#[derive(Debug)]
pub(crate) struct IntegerGraph {
    forms: Forms,
    /// By the number of samples, the last used one at the end.
    plans: Mutex<VecDeque<(usize, Arc<Plan>)>>,
}

impl IntegerGraph {
    /// Checks that every node between two stream nodes has a form in integers.
    pub(crate) fn new(network: &GraphNetwork, config: &StreamConfig, runner: &Runner) -> Result<Self> {
        let graph = Self { forms: Forms::new(network)?, plans: Mutex::default() };
        graph.plan(network, config, runner, network.batch().unwrap_or(1))?;
        Ok(graph)
    }

    /// The plan for a number of samples.
    pub(crate) fn plan(
        &self,
        network: &GraphNetwork,
        config: &StreamConfig,
        runner: &Runner,
        n_samples: usize,
    ) -> Result<Arc<Plan>> {
        let kept = || self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut kept = kept();
            let known = kept.iter().position(|(n, _)| *n == n_samples).and_then(|k| kept.remove(k));
            if let Some((n, plan)) = known {
                kept.push_back((n, Arc::clone(&plan)));
                return Ok(plan);
            }
        }
        let made = Arc::new(Plan::new(network, config, runner, &self.forms, n_samples)?);
        let mut kept = kept();
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back((n_samples, Arc::clone(&made)));
        Ok(made)
    }
}

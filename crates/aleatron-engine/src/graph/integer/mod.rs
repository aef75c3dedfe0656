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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::graph::{Graph, Op};
    use aleatron_graph::{Binary, Dim, Value};
    use aleatron_tensor::{DType, Device, Tensor};

    /// A product of three inputs and two rows, to which numbers are added.
    fn network() -> GraphNetwork {
        let mut graph = Graph::new("offset");
        let shape = Some(vec![Dim::Named("n".to_owned()), Dim::Fixed(3)]);
        let x = graph.add_input(Value { name: "x".to_owned(), dtype: Some(DType::F32), shape });
        let mut constant = |name: &str, values: &[f32], shape: &[usize]| {
            graph.add_constant(name, Tensor::from_slice(values, shape, &Device::Cpu).unwrap())
        };
        let (w, c) = (constant("w", &[0.5; 6], &[3, 2]), constant("c", &[0.25, 0.75], &[2]));
        let product = graph.add_node("product", Op::MatMul, &[x, w]);
        let y = graph.add_node("sum", Op::Binary(Binary::Add), &[product, c]);
        graph.add_output(y);
        GraphNetwork::new(graph).unwrap()
    }

    fn terms(plan: &Plan) -> &[i64] {
        let Step::Offset { terms, .. } = &plan.steps[1] else { panic!("{:?}", plan.steps[1]) };
        terms
    }

    #[test]
    fn the_last_plans_are_kept() {
        let (network, config) = (network(), StreamConfig::new(64));
        let runner = network.runner().unwrap();
        let graph = IntegerGraph::new(&network, &config, &runner).unwrap();
        let plan = |n: usize| graph.plan(&network, &config, &runner, n).unwrap();
        let kept = || graph.plans.lock().unwrap().iter().map(|(n, _)| *n).collect::<Vec<_>>();
        assert_eq!(kept(), [1]);
        let first = plan(1);
        (2..=4).for_each(|n| drop(plan(n)));
        assert!(Arc::ptr_eq(&first, &plan(1)));
        assert_eq!(kept(), [2, 3, 4, 1]);
        drop(plan(5));
        assert_eq!(kept(), [3, 4, 1, 5]);
        // Terms are those of one sample, whatever the number of samples.
        assert_eq!(terms(&first).len(), 2);
        assert_eq!(terms(&plan(5)), terms(&first));
    }
}

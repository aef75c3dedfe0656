//! Graphs inside nodes.

use std::collections::HashMap;

use aleatron_tensor::{Device, Tensor};

use super::inputs::Inputs;
use super::{Nobody, Runner};
use crate::error::{Error, Result};
use crate::graph::{Graph, ValueId};

/// Looks up a value of the graph around.
type Outer<'a> = &'a dyn Fn(ValueId) -> Result<Tensor>;

/// The most steps of a loop: one that runs longer is taken for one that never ends.
const MAX_STEPS: i64 = 1 << 24;

fn captured(graph: &Graph, outer: Outer<'_>) -> Result<HashMap<ValueId, Tensor>> {
    graph.captures.iter().map(|(from, to)| Ok((*to, outer(*from)?))).collect()
}

fn truth(tensor: &Tensor, input: usize) -> Result<bool> {
    match tensor.to_vec::<bool>()?.as_slice() {
        [value] => Ok(*value),
        values => Err(Error::input(input, format!("one boolean is needed, not {}", values.len()))),
    }
}

pub(super) fn branch(
    inputs: &Inputs<'_>,
    then_branch: &Graph,
    else_branch: &Graph,
    outer: Outer<'_>,
    device: &Device,
) -> Result<Vec<Tensor>> {
    let graph = if truth(inputs.get(0)?, 0)? { then_branch } else { else_branch };
    Runner::new(graph.clone(), device)?.run_values(captured(graph, outer)?, &mut Nobody)
}

pub(super) fn repeat(
    inputs: &Inputs<'_>,
    body: &Graph,
    outer: Outer<'_>,
    device: &Device,
) -> Result<Vec<Tensor>> {
    let most = match inputs.maybe(0) {
        Some(_) => inputs.int(0)?,
        None => i64::MAX,
    };
    let mut goes_on = match inputs.maybe(1) {
        Some(condition) => truth(condition, 1)?,
        None => true,
    };
    let mut carried: Vec<Tensor> = inputs.0.iter().skip(2).flatten().cloned().collect();
    let n = carried.len();
    if body.inputs().len() != n + 2 || body.outputs().len() < n + 1 {
        return Err(Error::attribute("body", body.inputs().len(), format!("{} inputs are needed", n + 2)));
    }
    let runner = Runner::new(body.clone(), device)?;
    let given = captured(body, outer)?;
    let mut collected: Vec<Vec<Option<Tensor>>> = vec![Vec::new(); body.outputs().len() - n - 1];
    let mut step = 0;
    while goes_on && step < most {
        if step >= MAX_STEPS {
            return Err(Error::input(0, format!("the loop runs longer than {MAX_STEPS} steps")));
        }
        let mut values = given.clone();
        let number = Tensor::from_slice(&[step], &[], &Device::Cpu)?;
        let condition = Tensor::from_slice(&[goes_on], &[], &Device::Cpu)?;
        let all = [number, condition].into_iter().chain(carried);
        values.extend(body.inputs().iter().copied().zip(all));
        let mut made = runner.run_values(values, &mut Nobody)?.into_iter();
        goes_on = match made.next() {
            Some(condition) => truth(&condition, 1)?,
            None => false,
        };
        carried = made.by_ref().take(n).collect();
        for (list, tensor) in collected.iter_mut().zip(made) {
            list.push(Some(tensor.unsqueeze(0)?));
        }
        step += 1;
    }
    for list in collected {
        if list.is_empty() {
            return Err(Error::input(0, "a loop without a step makes nothing to collect"));
        }
        carried.push(super::shape::concat(&Inputs(&list), 0)?);
    }
    Ok(carried)
}

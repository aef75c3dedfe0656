//! Graphs inside nodes.

use std::collections::HashMap;

use aleatron_tensor::{Device, Tensor};

use super::inputs::Inputs;
use super::memory::Limits;
use super::{Runner, Unobserved};
use crate::error::{Error, Result};
use crate::graph::{Graph, ValueId};

/// Looks up a value of the outer graph.
type Outer<'a> = &'a dyn Fn(ValueId) -> Result<Tensor>;

/// The largest number of steps of all loops of a run together, nested ones included: a run with
/// more is assumed never to end.
pub(super) const MAX_STEPS: u32 = 1 << 20;

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
    limits: &Limits,
) -> Result<Vec<Tensor>> {
    let graph = if truth(inputs.get(0)?, 0)? { then_branch } else { else_branch };
    Runner::new(graph.clone(), device)?.run_values(captured(graph, outer)?, &mut Unobserved, limits)
}

pub(super) fn repeat(
    inputs: &Inputs<'_>,
    body: &Graph,
    outer: Outer<'_>,
    device: &Device,
    limits: &Limits,
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
        return Err(Error::attribute(
            "body",
            body.inputs().len(),
            format!("{} inputs are needed", n + 2),
        ));
    }
    let runner = Runner::new(body.clone(), device)?;
    let given = captured(body, outer)?;
    let mut collected: Vec<Vec<Option<Tensor>>> = vec![Vec::new(); body.outputs().len() - n - 1];
    let mut step = 0;
    while goes_on && step < most {
        if !limits.take_step() {
            return Err(Error::input(
                0,
                format!("the loops of the graph take more than {MAX_STEPS} steps"),
            ));
        }
        let mut values = given.clone();
        let number = Tensor::from_slice(&[step], &[], &Device::Cpu)?;
        let condition = Tensor::from_slice(&[goes_on], &[], &Device::Cpu)?;
        let all = [number, condition].into_iter().chain(carried);
        values.extend(body.inputs().iter().copied().zip(all));
        let mut made = runner.run_values(values, &mut Unobserved, limits)?.into_iter();
        let condition = made.next().ok_or_else(|| {
            Error::model(
                "body",
                "internal error: it has no condition, and its outputs were counted",
            )
        })?;
        goes_on = truth(&condition, 1)?;
        carried = made.by_ref().take(n).collect();
        for (list, tensor) in collected.iter_mut().zip(made) {
            list.push(Some(tensor.unsqueeze(0)?));
        }
        step += 1;
    }
    for list in collected {
        if list.is_empty() {
            return Err(Error::input(0, "a loop without steps has no outputs to collect"));
        }
        carried.push(super::shape::concat(&Inputs(&list), 0)?);
    }
    Ok(carried)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Value;
    use crate::op::{Binary, Op};

    /// Returns the body of a loop that never ends by itself and carries a number.
    fn body(made: impl FnOnce(&mut Graph, ValueId) -> ValueId) -> Box<Graph> {
        let mut graph = Graph::new("body");
        let input = |name: &str| Value { name: name.to_owned(), dtype: None, shape: None };
        graph.add_input(input("step"));
        let goes_on = graph.add_input(input("goes_on"));
        let number = graph.add_input(input("number"));
        let made = made(&mut graph, number);
        graph.add_output(goes_on);
        graph.add_output(made);
        Box::new(graph)
    }

    fn scalar<T: aleatron_tensor::Element>(value: T) -> Tensor {
        Tensor::from_slice(&[value], &[], &Device::Cpu).unwrap()
    }

    /// Returns a loop of this many steps over a body.
    fn repeated(graph: &mut Graph, steps: i64, number: ValueId, body: Box<Graph>) -> ValueId {
        let steps = graph.add_constant("steps", scalar(steps));
        let goes_on = graph.add_constant("begins", scalar(true));
        graph.add_node("loop", Op::Loop { body }, &[steps, goes_on, number])
    }

    /// Nested loops share one limit: three steps of four steps each are fifteen.
    #[test]
    fn nested_loops_share_a_limit() {
        let increment = body(|graph, number| {
            let one = graph.add_constant("one", scalar(1_i64));
            graph.add_node("add", Op::Binary(Binary::Add), &[number, one])
        });
        let outer = body(|graph, number| repeated(graph, 4, number, increment));
        let mut graph = Graph::new("nested");
        let zero = graph.add_constant("zero", scalar(0_i64));
        let sum = repeated(&mut graph, 3, zero, outer);
        graph.add_output(sum);
        let runner = Runner::new(graph, &Device::Cpu).unwrap();
        let run =
            |steps: u32| runner.run_values(HashMap::new(), &mut Unobserved, &Limits::new(steps));
        assert_eq!(run(15).unwrap()[0].to_vec::<i64>().unwrap(), [12]);
        let error = run(14).unwrap_err().to_string();
        assert!(error.contains("the loops of the graph take more than"), "{error}");
        assert_eq!(runner.run(Vec::new()).unwrap()[0].to_vec::<i64>().unwrap(), [12]);
    }
}

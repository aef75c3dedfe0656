//! `Scan` as a loop over indices.

use aleatron_tensor::DType;

use super::attribute::Attributes;
use super::lower::Lowering;
use super::proto::NodeProto;
use crate::error::{Error, Result};
use crate::graph::{Graph, Node, Value, ValueId};
use crate::op::{Binary, Op};

/// The attributes except the body.
const NAMES: [&str; 5] = [
    "num_scan_inputs",
    "scan_input_axes",
    "scan_input_directions",
    "scan_output_axes",
    "scan_output_directions",
];

/// Checks that a node is supported; [`lower`] reads the attributes.
pub(super) fn check(attributes: &Attributes<'_>, version: i64) -> Result<()> {
    attributes.ignore(&NAMES);
    match version < 9 {
        true => {
            let reason =
                format!("operator set {version}; Scan is supported from operator set 9 on");
            Err(Error::model("Scan", reason))
        }
        false => Ok(()),
    }
}

/// The direction along an axis.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Reverse,
}

/// The settings of a node.
struct Settings {
    n_scanned: usize,
    input_axes: Vec<i64>,
    input_directions: Vec<Direction>,
    output_axes: Vec<i64>,
    output_directions: Vec<Direction>,
}

impl Settings {
    fn new(attributes: &Attributes<'_>, n_inputs: usize, n_outputs: usize) -> Result<Self> {
        let scanned = attributes.int("num_scan_inputs", 0)?;
        let n_scanned = usize::try_from(scanned).ok().filter(|n| (1..=n_inputs).contains(n));
        let Some(n_scanned) = n_scanned else {
            return Err(Error::attribute(
                "num_scan_inputs",
                scanned,
                format!("the node has {n_inputs} inputs"),
            ));
        };
        let Some(n_made) = n_outputs.checked_sub(n_inputs - n_scanned) else {
            let n_states = n_inputs - n_scanned;
            return Err(Error::attribute(
                "body",
                n_outputs,
                format!("{n_states} outputs at least are needed"),
            ));
        };
        let numbers = |name: &str, n: usize| -> Result<Vec<i64>> {
            match attributes.ints_or_none(name) {
                None => Ok(vec![0; n]),
                Some(numbers) if numbers.len() == n => Ok(numbers),
                Some(numbers) => {
                    Err(Error::attribute(name, numbers, format!("{n} numbers are needed")))
                }
            }
        };
        let directions = |name: &str, n: usize| -> Result<Vec<Direction>> {
            let directions = numbers(name, n)?.into_iter().map(|number| match number {
                0 => Ok(Direction::Forward),
                1 => Ok(Direction::Reverse),
                other => Err(Error::attribute(name, other, "0 or 1 is possible")),
            });
            directions.collect()
        };
        Ok(Self {
            n_scanned,
            input_axes: numbers("scan_input_axes", n_scanned)?,
            input_directions: directions("scan_input_directions", n_scanned)?,
            output_axes: numbers("scan_output_axes", n_made)?,
            output_directions: directions("scan_output_directions", n_made)?,
        })
    }
}

/// Adds a loop over the body of a scan, which is given as a loop without the inputs of a loop.
pub(super) fn lower(to: &mut Lowering<'_>, op: Op, node: &NodeProto) -> Result<()> {
    let Op::Loop { mut body } = op else {
        return Err(Error::model("Scan", "internal error: its body was not read"));
    };
    let n_inputs = to.inputs.len();
    let settings = Settings::new(&Attributes::new(node, None)?, n_inputs, body.outputs.len())?;
    if body.inputs.len() != n_inputs {
        let found = body.inputs.len();
        return Err(Error::attribute("body", found, format!("{n_inputs} inputs are needed")));
    }
    let n_states = n_inputs - settings.n_scanned;
    // The number of steps is the size of the first sequence.
    let sizes = |to: &mut Lowering<'_>, k: usize| -> Result<ValueId> {
        let axis = settings.input_axes[k];
        let end = (axis != -1).then(|| axis + 1);
        let sequence = to.input(n_states + k)?;
        let size = to.node("size", Op::Shape { start: axis, end }, &[sequence]);
        Ok(to.node("steps", Op::Squeeze { axes: Some(vec![0]) }, &[size]))
    };
    let steps = sizes(to, 0)?;
    let value = |name: &str, dtype| Value {
        name: name.to_owned(),
        dtype: Some(dtype),
        shape: Some(Vec::new()),
    };
    let step = body.add_value(value("scan_step", DType::I64));
    let goes_on = body.add_value(value("scan_condition", DType::Bool));
    let elements = body.inputs.split_off(n_states);
    let mut nodes = Vec::new();
    for (k, element) in elements.into_iter().enumerate() {
        let sequence = captured(&mut body, to.input(n_states + k)?, "scan_sequence");
        let mut index = step;
        if settings.input_directions[k] == Direction::Reverse {
            let one = to.constant("one", &[1_i64], &[])?;
            let last = to.node("last", Op::Binary(Binary::Sub), &[steps, one]);
            let last = captured(&mut body, last, "scan_last");
            index =
                body.add_node(format!("scan_index_{k}"), Op::Binary(Binary::Sub), &[last, step]);
            nodes.extend(body.nodes.pop());
        }
        nodes.push(Node {
            name: format!("scan_element_{k}"),
            op: Op::Gather { axis: settings.input_axes[k] },
            inputs: vec![Some(sequence), Some(index)],
            outputs: vec![Some(element)],
        });
    }
    nodes.append(&mut body.nodes);
    body.nodes = nodes;
    body.inputs.splice(0..0, [step, goes_on]);
    body.outputs.insert(0, goes_on);
    body.name_nodes();
    let ranks: Vec<Option<usize>> = body.outputs[1 + n_states..]
        .iter()
        .map(|&id| body.value(id).ok()?.shape.as_ref().map(|shape| shape.len() + 1))
        .collect();
    let states = to.inputs[..n_states].iter().copied();
    let inputs = [Some(steps), None].into_iter().chain(states).collect();
    let mut outputs: Vec<Option<ValueId>> = to.outputs.clone();
    outputs.resize(body.outputs.len() - 1, None);
    // Nodes after the loop reverse sequences.
    let mut reversed = Vec::new();
    for (k, rank) in ranks.into_iter().enumerate() {
        let (axis, direction) = (settings.output_axes[k], settings.output_directions[k]);
        let Some(output) = outputs[n_states + k] else { continue };
        if axis == 0 && direction == Direction::Forward {
            continue;
        }
        let stacked = to
            .graph
            .add_value(Value { name: format!("{}_stacked_{k}", to.name), ..Value::default() });
        outputs[n_states + k] = Some(stacked);
        reversed.push((stacked, output, n_states + k, axis, direction, rank));
    }
    to.graph.nodes.push(Node { name: to.name.clone(), op: Op::Loop { body }, inputs, outputs });
    for (mut id, _, k, axis, direction, rank) in reversed {
        if direction == Direction::Reverse {
            let numbers = [("start", -1), ("end", i64::MIN + 1), ("axis", 0), ("step", -1)];
            let mut inputs = vec![id];
            for (what, number) in numbers {
                inputs.push(to.constant(what, &[number], &[1])?);
            }
            id = to.node("reversed", Op::Slice { given: None }, &inputs);
        }
        match order(axis, rank)? {
            Some(order) => to.finish(k, Op::Transpose { order: Some(order) }, &[id]),
            None => to.finish(k, Op::Identity, &[id]),
        }
    }
    Ok(())
}

/// Returns the order of axes that moves the first one to another position; `None` for no change.
fn order(axis: i64, rank: Option<usize>) -> Result<Option<Vec<i64>>> {
    if axis == 0 {
        return Ok(None);
    }
    let Some(rank) = rank else {
        let expected =
            "the file must tell the shapes of the body's outputs to use other axes than 0";
        return Err(Error::attribute("scan_output_axes", axis, expected));
    };
    let axis = crate::run::axis_of(axis, rank)?;
    let mut order: Vec<i64> = (1..rank as i64).collect();
    order.insert(axis, 0);
    Ok(Some(order))
}

fn captured(body: &mut Graph, outer: ValueId, name: &str) -> ValueId {
    let inner = body.add_value(Value { name: name.to_owned(), ..Value::default() });
    body.captures.push((outer, inner));
    inner
}

//! Recurrent cells: RNN, GRU, LSTM. States are kept in 64 bits.

use aleatron_tensor::Tensor;

use super::array::Array;
use super::inputs::{Inputs, size};
use crate::error::{Error, Result};
use crate::op::{Cell, Direction, Recurrent, Unary};

/// A function of the cells.
fn apply(function: Unary, x: f64) -> f64 {
    match function {
        Unary::Tanh => x.tanh(),
        Unary::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Unary::Relu => x.max(0.0),
        Unary::Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
        Unary::Softsign => x / (1.0 + x.abs()),
        Unary::LeakyRelu { alpha } => {
            if x < 0.0 {
                f64::from(alpha) * x
            } else {
                x
            }
        }
        Unary::ThresholdedRelu { alpha } => {
            if x > f64::from(alpha) {
                x
            } else {
                0.0
            }
        }
        Unary::Elu { alpha } => {
            if x < 0.0 {
                f64::from(alpha) * x.exp_m1()
            } else {
                x
            }
        }
        Unary::HardSigmoid { alpha, beta } => (f64::from(alpha) * x + f64::from(beta)).clamp(0.0, 1.0),
        // The importer lets no other function through.
        _ => f64::NAN,
    }
}

/// The parameters of one direction.
struct Weights {
    input: Vec<f64>,
    recurrent: Vec<f64>,
    input_bias: Vec<f64>,
    recurrent_bias: Vec<f64>,
    peepholes: Vec<f64>,
    functions: Vec<Unary>,
    n_inputs: usize,
    hidden: usize,
    clip: Option<f64>,
}

impl Weights {
    /// The products of a gate with the input.
    fn with_input(&self, gate: usize, x: &[f64], unit: usize) -> f64 {
        let row = gate * self.hidden + unit;
        let products = self.input[row * self.n_inputs..][..self.n_inputs].iter().zip(x);
        products.map(|(w, x)| w * x).sum::<f64>() + self.input_bias[row]
    }

    /// The products of a gate with a state.
    fn with_state(&self, gate: usize, h: &[f64], unit: usize) -> f64 {
        let row = gate * self.hidden + unit;
        let products = self.recurrent[row * self.hidden..][..self.hidden].iter().zip(h);
        products.map(|(w, h)| w * h).sum::<f64>() + self.recurrent_bias[row]
    }

    fn act(&self, function: usize, x: f64) -> f64 {
        let x = self.clip.map_or(x, |clip| x.clamp(-clip, clip));
        apply(self.functions[function], x)
    }

    fn peephole(&self, gate: usize, unit: usize) -> f64 {
        self.peepholes.get(gate * self.hidden + unit).copied().unwrap_or(0.0)
    }

    /// The state and the cell after one step.
    fn step(&self, cell: Cell, x: &[f64], h: &[f64], c: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let units = 0..self.hidden;
        match cell {
            Cell::Rnn => {
                let new = units.map(|u| self.act(0, self.with_input(0, x, u) + self.with_state(0, h, u)));
                (new.collect(), Vec::new())
            }
            Cell::Gru { linear_before_reset } => {
                let gate = |gate: usize, u: usize| {
                    self.act(0, self.with_input(gate, x, u) + self.with_state(gate, h, u))
                };
                let reset: Vec<f64> = units.clone().map(|u| gate(1, u)).collect();
                let damped: Vec<f64> = h.iter().zip(&reset).map(|(h, r)| h * r).collect();
                let new = units.map(|u| {
                    let update = gate(0, u);
                    let past = match linear_before_reset {
                        true => reset[u] * self.with_state(2, h, u),
                        false => self.with_state(2, &damped, u),
                    };
                    let candidate = self.act(1, self.with_input(2, x, u) + past);
                    (1.0 - update) * candidate + update * h[u]
                });
                (new.collect(), Vec::new())
            }
            Cell::Lstm { input_forget } => {
                // Gates are input, output, forget, cell; peepholes input, output, forget.
                let (mut states, mut cells) =
                    (Vec::with_capacity(self.hidden), Vec::with_capacity(self.hidden));
                for u in units {
                    let sum = |gate: usize| self.with_input(gate, x, u) + self.with_state(gate, h, u);
                    let input = self.act(0, sum(0) + self.peephole(0, u) * c[u]);
                    let forget = match input_forget {
                        true => 1.0 - input,
                        false => self.act(0, sum(2) + self.peephole(2, u) * c[u]),
                    };
                    let cell = forget * c[u] + input * self.act(1, sum(3));
                    let output = self.act(0, sum(1) + self.peephole(1, u) * cell);
                    states.push(output * apply(self.functions[2], cell));
                    cells.push(cell);
                }
                (states, cells)
            }
        }
    }
}

pub(super) fn run(inputs: &Inputs<'_>, node: &Recurrent) -> Result<Vec<Tensor>> {
    let x = inputs.get(0)?;
    let dtype = x.dtype();
    // Time first.
    let in_time = |tensor: &Tensor| -> Result<Array<f32>> {
        Array::floats(&if node.batch_first { tensor.transpose(0, 1)? } else { tensor.clone() })
    };
    if x.rank() != 3 {
        return Err(Error::input(0, format!("rank 3 is needed, not {:?}", x.shape())));
    }
    let x = in_time(x)?;
    let &[steps, batch, n_inputs] = x.shape.as_slice() else {
        return Err(Error::input(0, "rank 3 is needed"));
    };
    let (gates, is_lstm) = match node.cell {
        Cell::Rnn => (1, false),
        Cell::Gru { .. } => (3, false),
        Cell::Lstm { .. } => (4, true),
    };
    let (w, r) = (Array::floats(inputs.get(1)?)?, Array::floats(inputs.get(2)?)?);
    let directions = if node.direction == Direction::Both { 2 } else { 1 };
    let hidden = r.shape.last().copied().unwrap_or(0);
    let rows = gates * hidden;
    if w.shape != [directions, rows, n_inputs] || r.shape != [directions, rows, hidden] || hidden == 0 {
        return Err(Error::input(
            1,
            format!("weights {:?} and {:?} for inputs {:?}", w.shape, r.shape, x.shape),
        ));
    }
    if node.hidden.is_some_and(|given| size(given, "hidden_size").ok() != Some(hidden)) {
        return Err(Error::attribute("hidden_size", node.hidden, format!("the weights have {hidden}")));
    }
    let optional = |k: usize, shape: &[usize]| -> Result<Option<Vec<f64>>> {
        let Some(tensor) = inputs.maybe(k) else { return Ok(None) };
        let array = match node.batch_first && (k == 5 || k == 6) {
            true => Array::floats(&tensor.transpose(0, 1)?)?,
            false => Array::floats(tensor)?,
        };
        if array.shape != shape {
            return Err(Error::input(k, format!("shape {:?}, expected {shape:?}", array.shape)));
        }
        Ok(Some(array.data.iter().map(|&v| f64::from(v)).collect()))
    };
    let bias = optional(3, &[directions, 2 * rows])?;
    let lengths = match inputs.maybe_ints(4)? {
        Some(lengths) if lengths.len() == batch => {
            lengths.iter().map(|&n| Ok(size(n, "sequence_lens")?.min(steps))).collect::<Result<Vec<_>>>()?
        }
        Some(lengths) => {
            return Err(Error::input(4, format!("{} lengths for a batch of {batch}", lengths.len())));
        }
        None => vec![steps; batch],
    };
    let initial_h = optional(5, &[directions, batch, hidden])?;
    let initial_c = if is_lstm { optional(6, &[directions, batch, hidden])? } else { None };
    let peepholes = if is_lstm { optional(7, &[directions, 3 * hidden])? } else { None };
    let x: Vec<f64> = x.data.iter().map(|&v| f64::from(v)).collect();

    let mut all = Array::<f32>::full(&[steps, directions, batch, hidden], 0.0)?;
    let mut last_h = Array::<f32>::full(&[directions, batch, hidden], 0.0)?;
    let mut last_c = last_h.clone();
    let per_direction = node.activations.len() / directions;
    for d in 0..directions {
        let part = |data: &[f64], n: usize| data[d * n..(d + 1) * n].to_vec();
        let wide = |data: &[f32]| data.iter().map(|&v| f64::from(v)).collect::<Vec<_>>();
        let bias = bias.as_ref().map_or_else(|| vec![0.0; 2 * rows], |bias| part(bias, 2 * rows));
        let weights = Weights {
            input: part(&wide(&w.data), rows * n_inputs),
            recurrent: part(&wide(&r.data), rows * hidden),
            input_bias: bias[..rows].to_vec(),
            recurrent_bias: bias[rows..].to_vec(),
            peepholes: peepholes.as_ref().map_or_else(Vec::new, |p| part(p, 3 * hidden)),
            functions: node.activations[d * per_direction..(d + 1) * per_direction].to_vec(),
            n_inputs,
            hidden,
            clip: node.clip.map(f64::from),
        };
        let is_reversed = node.direction == Direction::Reverse || d == 1;
        for b in 0..batch {
            let start = |initial: &Option<Vec<f64>>| {
                let first = (d * batch + b) * hidden;
                initial.as_ref().map_or_else(|| vec![0.0; hidden], |all| all[first..first + hidden].to_vec())
            };
            let (mut h, mut c) = (start(&initial_h), start(&initial_c));
            let order: Box<dyn Iterator<Item = usize>> =
                if is_reversed { Box::new((0..lengths[b]).rev()) } else { Box::new(0..lengths[b]) };
            for t in order {
                (h, c) = weights.step(node.cell, &x[(t * batch + b) * n_inputs..][..n_inputs], &h, &c);
                let first = ((t * directions + d) * batch + b) * hidden;
                let target = &mut all.data[first..first + hidden];
                target.iter_mut().zip(&h).for_each(|(target, h)| *target = *h as f32);
            }
            let first = (d * batch + b) * hidden;
            for (u, h) in h.iter().enumerate() {
                last_h.data[first + u] = *h as f32;
            }
            for (u, c) in c.iter().enumerate() {
                last_c.data[first + u] = *c as f32;
            }
        }
    }
    let mut made = Vec::new();
    let y = all.tensor_as(dtype)?;
    made.push(if node.batch_first { y.permute(&[2, 0, 1, 3])? } else { y });
    for state in [Some(last_h), is_lstm.then_some(last_c)].into_iter().flatten() {
        let state = state.tensor_as(dtype)?;
        made.push(if node.batch_first { state.transpose(0, 1)? } else { state });
    }
    Ok(made)
}

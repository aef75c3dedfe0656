//! Recurrent nodes: RNN, GRU, LSTM.
//!
//! The products with inputs are one product for all steps, samples and directions; [`cell`](super::cell) adds those with states.

use aleatron_core::{Quantity, memory};
use aleatron_tensor::{Device, Tensor};

use super::activation::Activation;
use super::array::Array;
use super::cell::{Matrix, Order, Sequence, States, Weights};
use super::inputs::{Inputs, size};
use crate::error::{Error, Result};
use crate::op::{Cell, Direction, Recurrent};

/// From this many products on, two directions run on two threads.
const MANY_PRODUCTS: usize = 1 << 20;

/// The inputs of a node, checked.
struct Given {
    steps: usize,
    batch: usize,
    hidden: usize,
    directions: usize,
    /// Gates times units.
    rows: usize,
    lengths: Vec<usize>,
    recurrent: Tensor,
    bias: Option<Vec<f32>>,
    initial_h: Option<Vec<f32>>,
    initial_c: Option<Vec<f32>>,
    peepholes: Option<Vec<f32>>,
}

/// What one direction computes: the states of every step, and the last ones.
struct Made {
    all: Vec<f32>,
    last: States,
}

pub(super) fn run(inputs: &Inputs<'_>, node: &Recurrent) -> Result<Vec<Tensor>> {
    let x = inputs.get(0)?;
    let dtype = x.dtype();
    if x.rank() != 3 {
        return Err(Error::input(0, format!("rank 3 is needed, not {:?}", x.shape())));
    }
    // Time first.
    let x = Array::floats(&if node.batch_first { x.transpose(0, 1)? } else { x.clone() })?;
    let given = Given::new(inputs, node, &x.shape)?;
    let Given { steps, batch, hidden, directions, .. } = given;
    let products = given.products(inputs, node, x)?;
    let direction = |d: usize| given.run(node, d, &products);
    let work = steps.saturating_mul(given.rows * hidden).saturating_mul(batch);
    let is_apart = directions == 2 && work >= MANY_PRODUCTS;
    let made = match is_apart {
        true => on_two_threads(&direction)?,
        false => (0..directions).map(direction).collect::<Result<Vec<_>>>()?,
    };
    let mut all = Array::<f32>::full(&[steps, directions, batch, hidden], 0.0)?;
    let block = batch * hidden;
    for (d, made) in made.iter().enumerate() {
        let targets = all.data.chunks_exact_mut(block.max(1)).skip(d).step_by(directions);
        targets.zip(made.all.chunks_exact(block.max(1))).for_each(|(to, from)| to.copy_from_slice(from));
    }
    let states = |of: fn(&Made) -> &[f32]| -> Result<Tensor> {
        let data: Vec<f32> = made.iter().flat_map(|made| of(made).iter().copied()).collect();
        let state = Array { shape: vec![directions, batch, hidden], data }.tensor_as(dtype)?;
        Ok(if node.batch_first { state.transpose(0, 1)? } else { state })
    };
    let y = all.tensor_as(dtype)?;
    let y = if node.batch_first { y.permute(&[2, 0, 1, 3])? } else { y };
    let mut outputs = vec![y, states(|made| &made.last.h)?];
    if matches!(node.cell, Cell::Lstm { .. }) {
        outputs.push(states(|made| &made.last.c)?);
    }
    Ok(outputs)
}

/// Runs two directions on two threads, or one after the other if there is no second thread.
fn on_two_threads(direction: &(dyn Fn(usize) -> Result<Made> + Sync)) -> Result<Vec<Made>> {
    std::thread::scope(|scope| {
        let second = std::thread::Builder::new().spawn_scoped(scope, || direction(1));
        let first = direction(0)?;
        let second = match second {
            Ok(thread) => thread
                .join()
                .map_err(|_| Error::model("second direction", "internal error: its thread panicked"))??,
            Err(_) => direction(1)?,
        };
        Ok(vec![first, second])
    })
}

impl Given {
    fn new(inputs: &Inputs<'_>, node: &Recurrent, x: &[usize]) -> Result<Self> {
        let &[steps, batch, n_inputs] = x else { return Err(Error::input(0, "rank 3 is needed")) };
        let (gates, is_lstm) = match node.cell {
            Cell::Rnn => (1, false),
            Cell::Gru { .. } => (3, false),
            Cell::Lstm { .. } => (4, true),
        };
        let (w, r) = (inputs.get(1)?, Array::floats(inputs.get(2)?)?);
        let directions = if node.direction == Direction::Both { 2 } else { 1 };
        let hidden = r.shape.last().copied().unwrap_or(0);
        let rows = gates * hidden;
        if w.shape() != [directions, rows, n_inputs] || r.shape != [directions, rows, hidden] || hidden == 0 {
            let reason = format!("weights {:?} and {:?} for inputs {x:?}", w.shape(), r.shape);
            return Err(Error::input(1, reason));
        }
        if node.hidden.is_some_and(|given| size(given, "hidden_size").ok() != Some(hidden)) {
            return Err(Error::attribute("hidden_size", node.hidden, format!("the weights have {hidden}")));
        }
        let optional = |k: usize, shape: &[usize]| -> Result<Option<Vec<f32>>> {
            let Some(tensor) = inputs.maybe(k) else { return Ok(None) };
            let array = match node.batch_first && (k == 5 || k == 6) {
                true => Array::floats(&tensor.transpose(0, 1)?)?,
                false => Array::floats(tensor)?,
            };
            if array.shape != shape {
                return Err(Error::input(k, format!("shape {:?}, expected {shape:?}", array.shape)));
            }
            Ok(Some(array.data))
        };
        let lengths = match inputs.maybe_ints(4)? {
            Some(lengths) if lengths.len() == batch => {
                let lengths = lengths.iter().map(|&n| Ok(size(n, "sequence_lens")?.min(steps)));
                lengths.collect::<Result<Vec<_>>>()?
            }
            Some(lengths) => {
                return Err(Error::input(4, format!("{} lengths for a batch of {batch}", lengths.len())));
            }
            None => vec![steps; batch],
        };
        let state = [directions, batch, hidden];
        Ok(Self {
            steps,
            batch,
            hidden,
            directions,
            rows,
            lengths,
            recurrent: r.tensor()?,
            bias: optional(3, &[directions, 2 * rows])?,
            initial_h: optional(5, &state)?,
            initial_c: if is_lstm { optional(6, &state)? } else { None },
            peepholes: if is_lstm { optional(7, &[directions, 3 * hidden])? } else { None },
        })
    }

    /// The products of all steps with the input weights of all directions, and all biases that are added to them.
    fn products(&self, inputs: &Inputs<'_>, node: &Recurrent, x: Array<f32>) -> Result<Vec<f32>> {
        let (n, n_inputs) = (self.steps * self.batch, x.shape[2]);
        let width = self.directions * self.rows;
        let w = Array::floats(inputs.get(1)?)?.tensor()?.reshape(&[width, n_inputs])?;
        let x = Tensor::from_vec(x.data, &[n, n_inputs], &Device::Cpu)?;
        let mut products = x.matmul(&w.t()?.contiguous()?)?.to_vec::<f32>()?;
        let Some(bias) = &self.bias else { return Ok(products) };
        let mut summed = vec![0.0_f32; width];
        for (d, bias) in bias.chunks_exact(2 * self.rows).enumerate() {
            let (input, recurrent) = bias.split_at(self.rows);
            for (k, sum) in summed[d * self.rows..][..self.rows].iter_mut().enumerate() {
                // The reset of such a GRU applies to the recurrent bias of the candidate.
                let is_inside = is_reset_last(node.cell) && k >= 2 * self.hidden;
                *sum = input[k] + if is_inside { 0.0 } else { recurrent[k] };
            }
        }
        for row in products.chunks_exact_mut(width) {
            row.iter_mut().zip(&summed).for_each(|(product, bias)| *product += bias);
        }
        Ok(products)
    }

    /// Runs one direction.
    fn run(&self, node: &Recurrent, d: usize, products: &[f32]) -> Result<Made> {
        let Self { batch, hidden, rows, .. } = *self;
        let own = self.recurrent.select(0, d)?;
        let is_gru = matches!(node.cell, Cell::Gru { .. });
        let (gates, candidate) = match is_gru && !is_reset_last(node.cell) {
            true => (own.slice(0, 0..2 * hidden)?, Some(own.slice(0, 2 * hidden..rows)?)),
            false => (own, None),
        };
        let bias = self.bias.as_ref().map(|bias| &bias[(2 * d + 1) * rows..(2 * d + 2) * rows]);
        let candidate_bias = match bias.filter(|_| is_reset_last(node.cell)) {
            Some(bias) => bias[2 * hidden..].to_vec(),
            None => vec![0.0; hidden],
        };
        let per_direction = node.activations.len() / self.directions;
        let functions = node.activations.iter().skip(d * per_direction).take(per_direction);
        let weights = Weights {
            cell: node.cell,
            gates: Matrix::new(&gates)?,
            candidate: candidate.map(|candidate| Matrix::new(&candidate)).transpose()?,
            candidate_bias,
            peepholes: self
                .peepholes
                .as_ref()
                .map_or_else(Vec::new, |all| all[d * 3 * hidden..][..3 * hidden].to_vec()),
            functions: functions.map(|&function| Activation::new(function)).collect::<Result<_>>()?,
            clip: node.clip,
            hidden,
        };
        let start = |initial: &Option<Vec<f32>>| {
            let n = batch * hidden;
            initial.as_ref().map_or_else(|| vec![0.0; n], |all| all[d * n..][..n].to_vec())
        };
        let mut last = States { h: start(&self.initial_h), c: start(&self.initial_c) };
        let is_reversed = node.direction == Direction::Reverse || d == 1;
        let sequence = Sequence {
            products,
            stride: self.directions * rows,
            offset: d * rows,
            batch,
            lengths: &self.lengths,
            order: if is_reversed { Order::Reverse } else { Order::Forward },
        };
        let n = (self.steps as u128).saturating_mul(batch as u128).saturating_mul(hidden as u128);
        let mut all = memory::zeros(n, Quantity::Value)?;
        weights.run(&sequence, &mut last, &mut all)?;
        Ok(Made { all, last })
    }
}

fn is_reset_last(cell: Cell) -> bool {
    matches!(cell, Cell::Gru { linear_before_reset: true })
}

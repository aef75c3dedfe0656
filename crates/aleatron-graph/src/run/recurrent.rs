//! Recurrent nodes: RNN, GRU, LSTM.
//!
//! The products with inputs are one product for all steps, samples and directions; each step adds
//! those with the states of all samples.

use aleatron_tensor::{DType, Scalar, Tensor};

use super::elementwise;
use super::inputs::{Inputs, size};
use crate::error::{Error, Result};
use crate::op::{Cell, Direction, Recurrent, Unary};

/// The inputs of a node, checked.
struct Given<'a> {
    node: &'a Recurrent,
    steps: usize,
    batch: usize,
    hidden: usize,
    directions: usize,
    /// The number of gates times the number of units.
    rows: usize,
    /// The steps of each sample, if some have fewer than others.
    lengths: Option<Vec<usize>>,
    recurrent: Tensor,
    bias: Option<Tensor>,
    initial_h: Option<Tensor>,
    initial_c: Option<Tensor>,
    peepholes: Option<Tensor>,
}

/// The parameters of one direction.
struct Weights<'a> {
    cell: Cell,
    functions: &'a [Unary],
    clip: Option<f32>,
    hidden: usize,
    /// Recurrent weights by unit and gate; for a GRU whose reset comes before the product, without
    /// those of the candidate.
    gates: Tensor,
    /// The recurrent weights of the candidate of such a GRU.
    candidate: Option<Tensor>,
    /// The recurrent bias of the candidate of a GRU whose reset comes after the product.
    candidate_bias: Option<Tensor>,
    /// The peepholes of an LSTM: input, output, forget.
    peepholes: Option<Tensor>,
}

/// The states of all samples.
struct States {
    h: Tensor,
    c: Tensor,
}

pub(super) fn run(inputs: &Inputs<'_>, node: &Recurrent) -> Result<Vec<Tensor>> {
    let x = inputs.get(0)?;
    if x.rank() != 3 {
        return Err(Error::input(0, format!("rank 3 is needed, not {:?}", x.shape())));
    }
    // Time first.
    let first = if node.batch_first { x.transpose(0, 1)? } else { x.clone() };
    let given = Given::new(inputs, node, first.shape())?;
    let products = given.products(inputs, &first.cast(DType::F32)?)?;
    let made =
        (0..given.directions).map(|d| given.run(d, &products)).collect::<Result<Vec<_>>>()?;
    let joined = |of: &dyn Fn(&(Tensor, States)) -> &Tensor, axis: isize| -> Result<Tensor> {
        let parts: Vec<&Tensor> = made.iter().map(of).collect();
        Ok(Tensor::stack(&parts, axis)?.cast(x.dtype())?)
    };
    let states = |state: Tensor| -> Result<Tensor> {
        Ok(if node.batch_first { state.transpose(0, 1)? } else { state })
    };
    let y = joined(&|made| &made.0, 1)?;
    let y = if node.batch_first { y.permute(&[2, 0, 1, 3])? } else { y };
    let mut outputs = vec![y, states(joined(&|made| &made.1.h, 0)?)?];
    if matches!(node.cell, Cell::Lstm { .. }) {
        outputs.push(states(joined(&|made| &made.1.c, 0)?)?);
    }
    Ok(outputs)
}

impl<'a> Given<'a> {
    fn new(inputs: &Inputs<'_>, node: &'a Recurrent, x: &[usize]) -> Result<Self> {
        let &[steps, batch, n_inputs] = x else { return Err(Error::input(0, "rank 3 is needed")) };
        let (gates, is_lstm) = match node.cell {
            Cell::Rnn => (1, false),
            Cell::Gru { .. } => (3, false),
            Cell::Lstm { .. } => (4, true),
        };
        let (w, r) = (inputs.get(1)?, inputs.get(2)?);
        let directions = if node.direction == Direction::Both { 2 } else { 1 };
        let hidden = r.shape().last().copied().unwrap_or(0);
        let rows = gates * hidden;
        let fits =
            w.shape() == [directions, rows, n_inputs] && r.shape() == [directions, rows, hidden];
        if !fits || hidden == 0 {
            let reason = format!("weights {:?} and {:?} for inputs {x:?}", w.shape(), r.shape());
            return Err(Error::input(1, reason));
        }
        if node.hidden.is_some_and(|given| size(given, "hidden_size").ok() != Some(hidden)) {
            return Err(Error::attribute(
                "hidden_size",
                node.hidden,
                format!("the weights have {hidden}"),
            ));
        }
        let optional = |k: usize, shape: &[usize]| -> Result<Option<Tensor>> {
            let Some(tensor) = inputs.maybe(k) else { return Ok(None) };
            let is_state = k == 5 || k == 6;
            let tensor =
                if node.batch_first && is_state { tensor.transpose(0, 1)? } else { tensor.clone() };
            if tensor.shape() != shape {
                return Err(Error::input(
                    k,
                    format!("shape {:?}, expected {shape:?}", tensor.shape()),
                ));
            }
            Ok(Some(tensor.cast(DType::F32)?))
        };
        let lengths = match inputs.maybe_ints(4)? {
            Some(lengths) if lengths.len() == batch => {
                let lengths = lengths.iter().map(|&n| Ok(size(n, "sequence_lens")?.min(steps)));
                Some(lengths.collect::<Result<Vec<_>>>()?)
            }
            Some(lengths) => {
                return Err(Error::input(
                    4,
                    format!("{} lengths for a batch of {batch}", lengths.len()),
                ));
            }
            None => None,
        };
        let state = [directions, batch, hidden];
        Ok(Self {
            node,
            steps,
            batch,
            hidden,
            directions,
            rows,
            lengths: lengths.filter(|lengths| lengths.iter().any(|&length| length < steps)),
            recurrent: r.cast(DType::F32)?,
            bias: optional(3, &[directions, 2 * rows])?,
            initial_h: optional(5, &state)?,
            initial_c: if is_lstm { optional(6, &state)? } else { None },
            peepholes: if is_lstm { optional(7, &[directions, 3 * hidden])? } else { None },
        })
    }

    /// Returns whether the reset of a GRU applies to the recurrent product and bias of its
    /// candidate.
    fn is_reset_last(&self) -> bool {
        matches!(self.node.cell, Cell::Gru { linear_before_reset: true })
    }

    /// Returns the products of all steps with the input weights of all directions, and all biases
    /// that are added to them.
    fn products(&self, inputs: &Inputs<'_>, x: &Tensor) -> Result<Tensor> {
        let (n_inputs, width) = (x.shape()[2], self.directions * self.rows);
        let w = inputs.get(1)?.cast(DType::F32)?.reshape(&[width, n_inputs])?;
        let products = x.reshape(&[self.steps * self.batch, n_inputs])?.matmul(&w.t()?)?;
        let products = products.reshape(&[self.steps, self.batch, width])?;
        let Some(bias) = &self.bias else { return Ok(products) };
        let (input, mut recurrent) = (bias.slice(1, ..self.rows)?, bias.slice(1, self.rows..)?);
        if self.is_reset_last() {
            let none = Tensor::zeros(&[self.directions, self.hidden], DType::F32, &x.device())?;
            recurrent = Tensor::concat(&[&recurrent.slice(1, ..2 * self.hidden)?, &none], 1)?;
        }
        Ok(products.add(&input.add(&recurrent)?.reshape(&[width])?)?)
    }

    /// Returns steps in the opposite order, those of each sample by its own length.
    fn reversed(&self, x: &Tensor) -> Result<Tensor> {
        let Some(lengths) = &self.lengths else { return Ok(x.flip(0)?) };
        let from = (0..self.steps).flat_map(|k| {
            lengths.iter().map(move |&length| if k < length { length - 1 - k } else { k } as i32)
        });
        let from = Tensor::from_vec(from.collect(), &[self.steps, self.batch, 1], &x.device())?;
        Ok(x.gather(0, &from)?)
    }

    /// Runs one direction: returns the states of every step, and the last ones.
    fn run(&self, d: usize, products: &Tensor) -> Result<(Tensor, States)> {
        let (node, device) = (self.node, products.device());
        let weights = self.weights(d)?;
        let is_reversed = node.direction == Direction::Reverse || d == 1;
        let mut products = products.slice(2, d * self.rows..(d + 1) * self.rows)?;
        if is_reversed {
            products = self.reversed(&products)?;
        }
        let start = |initial: &Option<Tensor>| -> Result<Tensor> {
            match initial {
                Some(all) => Ok(all.select(0, d)?),
                None => Ok(Tensor::zeros(&[self.batch, self.hidden], DType::F32, &device)?),
            }
        };
        let mut states = States { h: start(&self.initial_h)?, c: start(&self.initial_c)? };
        let lengths = match &self.lengths {
            Some(lengths) => {
                let lengths: Vec<i32> =
                    lengths.iter().map(|&n| i32::try_from(n).unwrap_or(i32::MAX)).collect();
                Some(Tensor::from_vec(lengths, &[self.batch, 1], &device)?)
            }
            None => None,
        };
        let mut all = Vec::with_capacity(self.steps);
        for k in 0..self.steps {
            let next = weights.step(&products.select(0, k)?, &states)?;
            let Some(lengths) = &lengths else {
                all.push(next.h.clone());
                states = next;
                continue;
            };
            // A finished sample keeps its states.
            let is_active = lengths.gt(Scalar::Int(k as i64))?;
            all.push(is_active.where_(&next.h, 0.0)?);
            let h = is_active.where_(&next.h, &states.h)?;
            states = States { h, c: is_active.where_(&next.c, &states.c)? };
        }
        let mut all = match all.is_empty() {
            true => Tensor::zeros(&[0, self.batch, self.hidden], DType::F32, &device)?,
            false => Tensor::stack(&all.iter().collect::<Vec<_>>(), 0)?,
        };
        if is_reversed {
            all = self.reversed(&all)?;
        }
        Ok((all, states))
    }

    fn weights(&self, d: usize) -> Result<Weights<'a>> {
        let (hidden, cell) = (self.hidden, self.node.cell);
        let own = self.recurrent.select(0, d)?.t()?.contiguous()?;
        let is_split = matches!(cell, Cell::Gru { linear_before_reset: false });
        let (gates, candidate) = match is_split {
            true => {
                let candidate = own.slice(1, 2 * hidden..)?.contiguous()?;
                (own.slice(1, ..2 * hidden)?.contiguous()?, Some(candidate))
            }
            false => (own, None),
        };
        let candidate_bias = match &self.bias {
            Some(bias) if self.is_reset_last() => {
                Some(bias.select(0, d)?.slice(0, self.rows + 2 * hidden..)?)
            }
            _ => None,
        };
        let per_direction = self.node.activations.len() / self.directions;
        let functions = self.node.activations.get(d * per_direction..(d + 1) * per_direction);
        let peepholes = self.peepholes.as_ref().map(|all| all.select(0, d)).transpose()?;
        let (functions, clip) = (functions.unwrap_or_default(), self.node.clip);
        Ok(Weights { cell, functions, clip, hidden, gates, candidate, candidate_bias, peepholes })
    }
}

impl Weights<'_> {
    /// Applies the function of a gate to its sums.
    fn activate(&self, function: usize, x: &Tensor) -> Result<Tensor> {
        match self.clip {
            Some(clip) => self.function(function, &x.clip(-clip, clip)?),
            None => self.function(function, x),
        }
    }

    fn function(&self, k: usize, x: &Tensor) -> Result<Tensor> {
        let missing =
            || Error::model("activations", format!("internal error: function {k} is missing"));
        elementwise::apply(*self.functions.get(k).ok_or_else(missing)?, x)
    }

    /// Adds the peephole to the sums of a gate of an LSTM.
    fn peephole(&self, sums: &Tensor, k: usize, c: &Tensor) -> Result<Tensor> {
        let units = k * self.hidden..(k + 1) * self.hidden;
        let sum = sums.slice(1, units.clone())?;
        let Some(weights) = &self.peepholes else { return Ok(sum) };
        Ok(sum.add(&weights.slice(0, units)?.mul(c)?)?)
    }

    /// Returns the states after a step whose products with the inputs are given.
    fn step(&self, products: &Tensor, States { h, c }: &States) -> Result<States> {
        let recurrent = h.matmul(&self.gates)?;
        let gate = |x: &Tensor, k: usize| x.slice(1, k * self.hidden..(k + 1) * self.hidden);
        match self.cell {
            Cell::Rnn => {
                let h = self.activate(0, &products.add(&recurrent)?)?;
                Ok(States { h, c: c.clone() })
            }
            Cell::Gru { .. } => {
                let both = 2 * self.hidden;
                let sums = products.slice(1, ..both)?.add(&recurrent.slice(1, ..both)?)?;
                let gates = self.activate(0, &sums)?;
                let (update, reset) = (gate(&gates, 0)?, gate(&gates, 1)?);
                let past = match &self.candidate {
                    Some(candidate) => h.mul(&reset)?.matmul(candidate)?,
                    None => {
                        let past = gate(&recurrent, 2)?;
                        let bias =
                            self.candidate_bias.as_ref().map(|bias| past.add(bias)).transpose()?;
                        bias.unwrap_or(past).mul(&reset)?
                    }
                };
                let new = self.activate(1, &gate(products, 2)?.add(&past)?)?;
                // (1 - z) new + z h
                let h = new.add(&update.mul(&h.sub(&new)?)?)?;
                Ok(States { h, c: c.clone() })
            }
            Cell::Lstm { input_forget } => {
                let sums = products.add(&recurrent)?;
                let (input, output, forget) = match &self.peepholes {
                    // Without peepholes the three gates are known at once: one pass instead of
                    // three.
                    None => {
                        let gates = self.activate(0, &sums.slice(1, ..3 * self.hidden)?)?;
                        (gate(&gates, 0)?, Some(gate(&gates, 1)?), gate(&gates, 2)?)
                    }
                    Some(_) => {
                        let [input, forget] =
                            [0, 2].map(|k| self.activate(0, &self.peephole(&sums, k, c)?));
                        (input?, None, forget?)
                    }
                };
                let forget = if input_forget { input.neg()?.add(1.0)? } else { forget };
                let new = self.activate(1, &gate(&sums, 3)?)?;
                let c = forget.mul(c)?.add(&input.mul(&new)?)?;
                let output = match output {
                    Some(output) => output,
                    None => self.activate(0, &self.peephole(&sums, 1, &c)?)?,
                };
                let h = self.function(2, &c)?.mul(&output)?;
                Ok(States { h, c })
            }
        }
    }
}

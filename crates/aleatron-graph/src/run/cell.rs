//! One direction of a recurrent node: steps over all samples at once.

use aleatron_tensor::Tensor;

use super::activation::Activation;
use crate::error::{Error, Result};
use crate::op::Cell;

/// A matrix that rows are multiplied with in every step.
pub(super) struct Matrix {
    /// By input, then by output.
    data: Vec<f32>,
    n_inputs: usize,
    n_outputs: usize,
}

impl Matrix {
    /// Takes a matrix of outputs by inputs.
    pub(super) fn new(rows: &Tensor) -> Result<Self> {
        let &[n_outputs, n_inputs] = rows.shape() else {
            return Err(Error::model("weights", format!("internal error: shape {:?}", rows.shape())));
        };
        Ok(Self { data: rows.t()?.to_vec()?, n_inputs, n_outputs })
    }

    /// Writes the products of rows. The sums of a row have the same order for any number of rows: samples do not depend on each other.
    fn multiply(&self, rows: &[f32], out: &mut [f32]) {
        let (n, m) = (self.n_inputs, self.n_outputs);
        let mut rows = rows.chunks_exact(2 * n);
        let mut outs = out.chunks_exact_mut(2 * m);
        for (pair, out) in rows.by_ref().zip(outs.by_ref()) {
            let (first, second) = pair.split_at(n);
            let (out_first, out_second) = out.split_at_mut(m);
            self.multiply_pair([first, second], [out_first, out_second]);
        }
        if !rows.remainder().is_empty() {
            self.multiply_row(rows.remainder(), outs.into_remainder());
        }
    }

    /// Four inputs at a time: the sums are read and written once for four products.
    fn multiply_row(&self, row: &[f32], out: &mut [f32]) {
        out.fill(0.0);
        let (four, rest) = row.as_chunks::<4>();
        for (k, inputs) in four.iter().enumerate() {
            add_four(self.four(k), *inputs, out);
        }
        for (k, &x) in rest.iter().enumerate() {
            self.add_one(4 * four.len() + k, x, out);
        }
    }

    /// Two rows at a time: the weights are read once for both.
    fn multiply_pair(&self, rows: [&[f32]; 2], out: [&mut [f32]; 2]) {
        let [first, second] = out;
        first.fill(0.0);
        second.fill(0.0);
        let [(four, rest), (other_four, other_rest)] = rows.map(<[f32]>::as_chunks::<4>);
        for (k, (inputs, others)) in four.iter().zip(other_four).enumerate() {
            add_four_twice(self.four(k), [*inputs, *others], first, second);
        }
        for (k, (&x, &other)) in rest.iter().zip(other_rest).enumerate() {
            self.add_one(4 * four.len() + k, x, first);
            self.add_one(4 * four.len() + k, other, second);
        }
    }

    /// The weights of four inputs.
    fn four(&self, k: usize) -> [&[f32]; 4] {
        let n = self.n_outputs;
        let (low, high) = self.data[4 * k * n..][..4 * n].split_at(2 * n);
        let ((w0, w1), (w2, w3)) = (low.split_at(n), high.split_at(n));
        [w0, w1, w2, w3]
    }

    fn add_one(&self, k: usize, x: f32, out: &mut [f32]) {
        let weights = &self.data[k * self.n_outputs..][..self.n_outputs];
        out.iter_mut().zip(weights).for_each(|(sum, w)| *sum += x * w);
    }
}

/// The sum of four products, in the one order that both functions below use.
fn four_products(weights: [f32; 4], inputs: [f32; 4]) -> f32 {
    let ([w0, w1, w2, w3], [a, b, c, d]) = (weights, inputs);
    (a * w0 + b * w1) + (c * w2 + d * w3)
}

fn add_four(weights: [&[f32]; 4], inputs: [f32; 4], out: &mut [f32]) {
    let n = out.len();
    let [w0, w1, w2, w3] = weights.map(|weights| &weights[..n]);
    for j in 0..n {
        out[j] += four_products([w0[j], w1[j], w2[j], w3[j]], inputs);
    }
}

fn add_four_twice(weights: [&[f32]; 4], inputs: [[f32; 4]; 2], first: &mut [f32], second: &mut [f32]) {
    let n = first.len();
    let [w0, w1, w2, w3] = weights.map(|weights| &weights[..n]);
    let second = &mut second[..n];
    for j in 0..n {
        let weights = [w0[j], w1[j], w2[j], w3[j]];
        first[j] += four_products(weights, inputs[0]);
        second[j] += four_products(weights, inputs[1]);
    }
}

/// The parameters of one direction.
pub(super) struct Weights {
    pub(super) cell: Cell,
    /// Recurrent weights of all gates; for a GRU whose reset comes before the product, without those of the candidate.
    pub(super) gates: Matrix,
    /// The recurrent weights of the candidate of such a GRU.
    pub(super) candidate: Option<Matrix>,
    /// The recurrent bias of the candidate of a GRU whose reset comes after the product.
    pub(super) candidate_bias: Vec<f32>,
    /// Of an LSTM: input, output, forget; empty for none.
    pub(super) peepholes: Vec<f32>,
    pub(super) functions: Vec<Activation>,
    pub(super) clip: Option<f32>,
    pub(super) hidden: usize,
}

/// The sequence of one direction.
pub(super) struct Sequence<'a> {
    /// Products with inputs and biases: by step, sample and gate; others may lie between the samples.
    pub(super) products: &'a [f32],
    /// The distance of samples in the products, and where those of the direction begin.
    pub(super) stride: usize,
    pub(super) offset: usize,
    pub(super) batch: usize,
    pub(super) lengths: &'a [usize],
    pub(super) order: Order,
}

/// The order of steps.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Forward,
    Reverse,
}

/// The states of all samples, by sample and unit.
pub(super) struct States {
    pub(super) h: Vec<f32>,
    pub(super) c: Vec<f32>,
}

impl Weights {
    fn activate(&self, function: usize, x: &mut [f32]) -> Result<()> {
        if let Some(clip) = self.clip {
            x.iter_mut().for_each(|x| *x = x.clamp(-clip, clip));
        }
        self.function(function)?.apply(x);
        Ok(())
    }

    fn function(&self, k: usize) -> Result<Activation> {
        let missing = || Error::model("activations", format!("internal error: function {k} is missing"));
        self.functions.get(k).copied().ok_or_else(missing)
    }

    /// Runs over a sequence; `all` gets the states of every step, by step, sample and unit.
    pub(super) fn run(&self, sequence: &Sequence<'_>, states: &mut States, all: &mut [f32]) -> Result<()> {
        let (n, batch) = (self.hidden, sequence.batch);
        let width = self.gates.n_outputs;
        let mut recurrent = vec![0.0; batch * width];
        let mut damped = vec![0.0; if self.candidate.is_some() { batch * n } else { 0 }];
        let mut candidates = damped.clone();
        let n_gates = match self.cell {
            Cell::Rnn => 1,
            Cell::Gru { .. } => 3,
            Cell::Lstm { .. } => 4,
        };
        let mut gates = vec![0.0; n_gates * n];
        let mut resets = damped.clone();
        for k in 0..sequence.lengths.iter().copied().max().unwrap_or(0) {
            self.gates.multiply(&states.h, &mut recurrent);
            let step = |b: usize| match sequence.order {
                Order::Forward => k,
                Order::Reverse => sequence.lengths[b] - 1 - k,
            };
            let active = || (0..batch).filter(|&b| k < sequence.lengths[b]);
            let products = |b: usize| {
                &sequence.products[(step(b) * batch + b) * sequence.stride + sequence.offset..][..n_gates * n]
            };
            if let Some(candidate) = &self.candidate {
                for b in active() {
                    let reset = &mut resets[b * n..][..n];
                    sum(&products(b)[n..2 * n], &recurrent[b * width + n..][..n], reset);
                    self.activate(0, reset)?;
                    let h = &states.h[b * n..][..n];
                    damped[b * n..][..n]
                        .iter_mut()
                        .zip(h.iter().zip(reset))
                        .for_each(|(d, (h, r))| *d = h * *r);
                }
                candidate.multiply(&damped, &mut candidates);
            }
            for b in active() {
                let h = &mut states.h[b * n..][..n];
                let own = &recurrent[b * width..][..width];
                match self.cell {
                    Cell::Rnn => {
                        sum(products(b), own, h);
                        self.activate(0, h)?;
                    }
                    Cell::Gru { .. } => {
                        let candidate = candidates.get(b * n..(b + 1) * n);
                        self.gru(products(b), own, candidate, &mut gates, h)?;
                    }
                    Cell::Lstm { input_forget } => {
                        sum(products(b), own, &mut gates);
                        self.lstm(&mut gates, input_forget, h, &mut states.c[b * n..][..n])?;
                    }
                }
                all[(step(b) * batch + b) * n..][..n].copy_from_slice(h);
            }
        }
        Ok(())
    }

    /// Computes the state of a GRU; `candidate` has the recurrent products of the candidate if the reset comes before them.
    fn gru(
        &self,
        products: &[f32],
        recurrent: &[f32],
        candidate: Option<&[f32]>,
        gates: &mut [f32],
        h: &mut [f32],
    ) -> Result<()> {
        let n = self.hidden;
        let (update, rest) = gates.split_at_mut(n);
        let (reset, new) = rest.split_at_mut(n);
        sum(&products[..n], &recurrent[..n], update);
        self.activate(0, update)?;
        match (&self.candidate, candidate) {
            (Some(_), Some(candidate)) => sum(&products[2 * n..], candidate, new),
            (None, _) => {
                sum(&products[n..2 * n], &recurrent[n..2 * n], reset);
                self.activate(0, reset)?;
                let past = recurrent[2 * n..].iter().zip(&self.candidate_bias);
                let all = products[2 * n..].iter().zip(reset.iter()).zip(past);
                new.iter_mut()
                    .zip(all)
                    .for_each(|(new, ((x, r), (past, bias)))| *new = x + r * (past + bias));
            }
            (Some(_), None) => return Err(Error::model("GRU", "internal error: no candidate")),
        }
        self.activate(1, new)?;
        let both = update.iter().zip(new.iter());
        h.iter_mut().zip(both).for_each(|(h, (z, new))| *h = (1.0 - z) * new + z * *h);
        Ok(())
    }

    /// Computes the state and the cell of an LSTM from the sums of its gates: input, output, forget, cell.
    fn lstm(&self, gates: &mut [f32], input_forget: bool, h: &mut [f32], c: &mut [f32]) -> Result<()> {
        let n = self.hidden;
        let (input, rest) = gates.split_at_mut(n);
        let (output, rest) = rest.split_at_mut(n);
        let (forget, new) = rest.split_at_mut(n);
        let peephole = |k: usize, c: &[f32], gate: &mut [f32]| {
            if let Some(weights) = self.peepholes.get(k * n..(k + 1) * n) {
                gate.iter_mut().zip(weights.iter().zip(c)).for_each(|(gate, (w, c))| *gate += w * c);
            }
        };
        peephole(0, c, input);
        self.activate(0, input)?;
        if input_forget {
            forget.iter_mut().zip(input.iter()).for_each(|(f, i)| *f = 1.0 - i);
        } else {
            peephole(2, c, forget);
            self.activate(0, forget)?;
        }
        self.activate(1, new)?;
        let all = forget.iter().zip(input.iter().zip(new.iter()));
        c.iter_mut().zip(all).for_each(|(c, (f, (i, new)))| *c = f * *c + i * new);
        peephole(1, c, output);
        self.activate(0, output)?;
        h.copy_from_slice(c);
        self.function(2)?.apply(h);
        h.iter_mut().zip(output.iter()).for_each(|(h, o)| *h *= o);
        Ok(())
    }
}

fn sum(a: &[f32], b: &[f32], out: &mut [f32]) {
    out.iter_mut().zip(a.iter().zip(b)).for_each(|(out, (a, b))| *out = a + b);
}

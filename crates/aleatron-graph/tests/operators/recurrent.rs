//! Recurrent nodes, compared with plain loops in 64 bits.

use aleatron_graph::onnx::proto::TensorProto;

use super::file::{code, graph, int, integers, node, read, reals, run, tensor, text, value};

/// Returns pseudo-random numbers in [-1, 1).
fn numbers(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|k| ((k * 7919 + seed * 104_729 + 13) % 2003) as f32 / 1001.5 - 1.0).collect()
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Rnn,
    Gru { linear_before_reset: bool },
    Lstm,
}

struct Case {
    kind: Kind,
    steps: usize,
    batch: usize,
    inputs: usize,
    hidden: usize,
    lengths: Vec<usize>,
}

impl Case {
    fn gates(&self) -> usize {
        match self.kind {
            Kind::Rnn => 1,
            Kind::Gru { .. } => 3,
            Kind::Lstm => 4,
        }
    }

    /// Returns the states of all steps of both directions by the definition, one sample and one
    /// unit after the other.
    fn expected(
        &self,
        x: &[f32],
        w: &[f32],
        r: &[f32],
        bias: &[f32],
        peepholes: &[f32],
    ) -> Vec<f64> {
        let (n, gates) = (self.hidden, self.gates());
        let rows = gates * n;
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let mut all = vec![0.0; self.steps * 2 * self.batch * n];
        for d in 0..2 {
            for b in 0..self.batch {
                let (mut h, mut c) = (vec![0.0; n], vec![0.0; n]);
                let length = self.lengths[b];
                let order: Vec<usize> =
                    if d == 0 { (0..length).collect() } else { (0..length).rev().collect() };
                for t in order {
                    let from_input = |gate: usize, u: usize| {
                        let row = d * rows + gate * n + u;
                        let products = (0..self.inputs).map(|k| {
                            f64::from(w[row * self.inputs + k])
                                * f64::from(x[(t * self.batch + b) * self.inputs + k])
                        });
                        products.sum::<f64>() + f64::from(bias[d * 2 * rows + gate * n + u])
                    };
                    let from_state = |gate: usize, u: usize, h: &[f64]| {
                        let row = d * rows + gate * n + u;
                        let products = (0..n).map(|k| f64::from(r[row * n + k]) * h[k]);
                        products.sum::<f64>() + f64::from(bias[d * 2 * rows + rows + gate * n + u])
                    };
                    let whole =
                        |gate: usize, u: usize| from_input(gate, u) + from_state(gate, u, &h);
                    let peephole = |k: usize, u: usize| f64::from(peepholes[d * 3 * n + k * n + u]);
                    let (mut next_h, mut next_c) = (vec![0.0; n], vec![0.0; n]);
                    let reset: Vec<f64> = match self.kind {
                        Kind::Gru { .. } => (0..n).map(|u| sigmoid(whole(1, u))).collect(),
                        _ => Vec::new(),
                    };
                    let damped: Vec<f64> = h.iter().zip(&reset).map(|(h, r)| h * r).collect();
                    for u in 0..n {
                        match self.kind {
                            Kind::Rnn => next_h[u] = whole(0, u).tanh(),
                            Kind::Gru { linear_before_reset } => {
                                let past = match linear_before_reset {
                                    true => reset[u] * from_state(2, u, &h),
                                    false => from_state(2, u, &damped),
                                };
                                let (z, new) =
                                    (sigmoid(whole(0, u)), (from_input(2, u) + past).tanh());
                                next_h[u] = (1.0 - z) * new + z * h[u];
                            }
                            Kind::Lstm => {
                                let i = sigmoid(whole(0, u) + peephole(0, u) * c[u]);
                                let f = sigmoid(whole(2, u) + peephole(2, u) * c[u]);
                                next_c[u] = f * c[u] + i * whole(3, u).tanh();
                                let o = sigmoid(whole(1, u) + peephole(1, u) * next_c[u]);
                                next_h[u] = o * next_c[u].tanh();
                            }
                        }
                        all[((t * 2 + d) * self.batch + b) * n + u] = next_h[u];
                    }
                    (h, c) = (next_h, next_c);
                }
            }
        }
        all
    }

    fn check(&self) {
        let (n, rows) = (self.hidden, self.gates() * self.hidden);
        let x = numbers(self.steps * self.batch * self.inputs, 1);
        let scaled = |values: Vec<f32>| values.into_iter().map(|v| v * 0.5).collect::<Vec<_>>();
        let (w, r) = (scaled(numbers(2 * rows * self.inputs, 2)), scaled(numbers(2 * rows * n, 3)));
        let (bias, peepholes) = (numbers(4 * rows, 4), numbers(6 * n, 5));
        let size = |n: usize| n as i64;
        let lengths: Vec<i64> = self.lengths.iter().map(|&n| n as i64).collect();
        let mut constants: Vec<TensorProto> = vec![
            reals("w", &[2, size(rows), size(self.inputs)], &w),
            reals("r", &[2, size(rows), size(n)], &r),
            reals("b", &[2, size(2 * rows)], &bias),
            integers("lengths", code::INT32, &[size(self.batch)], &lengths),
        ];
        let mut names = vec!["x", "w", "r", "b", "lengths"];
        let mut attributes = vec![text("direction", "bidirectional"), int("hidden_size", size(n))];
        let op = match self.kind {
            Kind::Rnn => "RNN",
            Kind::Gru { linear_before_reset } => {
                attributes.push(int("linear_before_reset", linear_before_reset.into()));
                "GRU"
            }
            Kind::Lstm => {
                names.extend(["", "", "p"]);
                constants.push(reals("p", &[2, size(3 * n)], &peepholes));
                "LSTM"
            }
        };
        let shape = [self.steps, self.batch, self.inputs];
        let input = value("x", code::FLOAT, &shape.map(size));
        let file =
            graph(vec![node(op, &names, &["y"], attributes)], vec![input], &["y"], constants);
        let made = run::<f32>(&read(file).unwrap(), &[tensor(&x, &shape)]).remove(0);
        let expected = self.expected(&x, &w, &r, &bias, &peepholes);
        assert_eq!(made.len(), expected.len());
        for (k, (a, b)) in made.iter().zip(&expected).enumerate() {
            assert!((f64::from(*a) - b).abs() < 2e-5, "{op} {k}: {a} instead of {b}");
        }
    }
}

const KINDS: [Kind; 4] = [
    Kind::Rnn,
    Kind::Gru { linear_before_reset: false },
    Kind::Gru { linear_before_reset: true },
    Kind::Lstm,
];

/// One sample, a few, and so many that products of tensors are used; sequences of several lengths.
#[test]
fn bidirectional_cells_match_plain_loops() {
    for kind in KINDS {
        for (batch, hidden) in [(1, 7), (3, 5), (6, 4)] {
            let lengths = (0..batch).map(|b| 5 - b % 3).collect();
            Case { kind, steps: 5, batch, inputs: 3, hidden, lengths }.check();
        }
    }
}

/// So many products that the directions run on two threads.
#[test]
fn long_bidirectional_sequences_match_plain_loops() {
    for kind in [Kind::Lstm, Kind::Gru { linear_before_reset: true }] {
        Case { kind, steps: 120, batch: 1, inputs: 8, hidden: 64, lengths: vec![120] }.check();
    }
}

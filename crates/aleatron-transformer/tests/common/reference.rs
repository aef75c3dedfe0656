//! A model in f64, with a bound on how far any correct pass may be from it.
//!
//! Every operation of a pass rounds. With u = 2^-24 and g(n) = n u / (1 - n u), a sum of products,
//! fused or not, whose terms each go through at most n roundings, is off by at most g(n) sum |w x|.
//! The other operations have the accuracy that WGSL asks for (a ULP is at most 2 u of the value):
//! an exponential 3 + 2 |x| ULP, an inverse root 2 ULP, a quotient 2.5 ULP, a hyperbolic tangent
//! 1e-5 on a GPU. From these, and from the numbers of the f64 pass, follows a bound of the error
//! that each operation itself adds to its result: `Stage::errors`.
//!
//! A small change d of an intermediate result changes a logit by the derivative of the logit times
//! d. So the logit is off by at most the sum, over all intermediate results, of |derivative| times
//! the error bound: to first order in u, and nothing is left to chance. Derivatives come from one
//! pass backwards for each logit.

use super::rounding::{Rounding, U, g};
use aleatron_transformer::Adapter;
use aleatron_transformer::config::{Activation, Config, NormKind};
use aleatron_transformer::weights::{Layer, Linear, Loader, Matrix, MatrixData, NormWeights, Slot};

/// A matrix with its bias and the correction of an adapter.
#[derive(Debug)]
struct Map {
    columns: usize,
    weights: Vec<f64>,
    bias: Vec<f64>,
    /// The sizes of the terms of the weights, which an adapter's may exceed.
    sizes: Vec<f64>,
    adapted: Vec<f64>,
    rank: usize,
}

impl Map {
    fn new(matrix: &Matrix, bias: Option<&[f32]>) -> Self {
        let (rows, columns, stride) = (matrix.rows(), matrix.columns(), matrix.stride());
        let mut weights = Vec::with_capacity(rows * columns);
        for at in (0..rows).flat_map(|row| (0..columns).map(move |k| (row, row * stride + k))) {
            weights.push(match matrix.data() {
                MatrixData::F32(data) => f64::from(data[at.1]),
                MatrixData::F16(data) => f64::from(data[at.1]),
                MatrixData::Int8(data, scales) => f64::from(data[at.1]) * f64::from(scales[at.0]),
            });
        }
        let bias = bias
            .map_or_else(|| vec![0.0; rows], |bias| bias.iter().map(|b| f64::from(*b)).collect());
        let sizes = weights.iter().map(|w| w.abs()).collect();
        Self { columns, weights, bias, sizes, adapted: Vec::new(), rank: 0 }
    }

    fn linear(map: &Linear, adapter: Option<(&Adapter, &Config, usize, Slot)>) -> Self {
        let mut result = Self::new(&map.matrix, map.bias.as_deref());
        let lora =
            adapter.and_then(|(adapter, config, layer, slot)| adapter.stacked(config, layer, slot));
        if let Some(lora) = lora {
            let columns = result.columns;
            result.rank = lora.rank;
            result.adapted = vec![0.0; result.weights.len()];
            for (row, b) in lora.b.chunks_exact(lora.rank).enumerate() {
                for (b, a) in b.iter().zip(lora.a.chunks_exact(columns)) {
                    for (k, a) in a.iter().enumerate() {
                        let product = f64::from(*b) * f64::from(*a);
                        result.weights[row * columns + k] += product;
                        result.adapted[row * columns + k] += product.abs();
                    }
                }
            }
        }
        result
    }

    fn row(&self, row: usize) -> &[f64] {
        &self.weights[row * self.columns..][..self.columns]
    }

    /// Results and their errors.
    fn apply(&self, x: &[f64], rounding: Rounding) -> (Vec<f64>, Vec<f64>) {
        let size = |sizes: &[f64], row: usize| -> f64 {
            let row = sizes.get(row * self.columns..).unwrap_or(&[]);
            row.iter().zip(x).map(|(w, x)| w * x.abs()).sum()
        };
        // A scale and a bias round once each, and weights once for each rank that is merged into
        // them. The corrections of an adapter are a sum over inputs in any order, then over
        // ranks.
        let own = g(rounding.sums.depth(self.columns) + 4 + self.rank);
        let added = g(self.columns + self.rank + 6);
        let each = self.bias.iter().enumerate().map(|(row, bias)| {
            let sum: f64 = self.row(row).iter().zip(x).map(|(w, x)| w * x).sum();
            let (size, more) = (size(&self.sizes, row), size(&self.adapted, row));
            let error =
                own * (size + bias.abs()) + added * more + rounding.activations * (size + more);
            (sum + bias, error)
        });
        each.unzip()
    }

    /// Returns the derivatives by the inputs.
    fn back(&self, y: &[f64]) -> Vec<f64> {
        let mut x = vec![0.0; self.columns];
        for (row, y) in self.weights.chunks_exact(self.columns).zip(y) {
            if *y != 0.0 {
                x.iter_mut().zip(row).for_each(|(x, w)| *x += w * y);
            }
        }
        x
    }
}

#[derive(Debug)]
struct Norm {
    kind: NormKind,
    epsilon: f64,
    weight: Vec<f64>,
    bias: Vec<f64>,
}

impl Norm {
    fn new(weights: &NormWeights, config: &Config) -> Self {
        let wide = |values: &[f32]| values.iter().map(|x| f64::from(*x)).collect::<Vec<_>>();
        let bias = weights.bias.as_deref().map_or_else(|| vec![0.0; weights.weight.len()], wide);
        let epsilon = f64::from(config.norm_epsilon);
        Self { kind: config.norm, epsilon, weight: wide(&weights.weight), bias }
    }

    /// Returns the values minus their mean, and their factor.
    fn centred(&self, x: &[f64]) -> (Vec<f64>, f64) {
        let n = x.len() as f64;
        let mean = match self.kind {
            NormKind::Rms => 0.0,
            NormKind::Layer => x.iter().sum::<f64>() / n,
        };
        let d: Vec<f64> = x.iter().map(|x| x - mean).collect();
        let variance = d.iter().map(|d| d * d).sum::<f64>() / n;
        (d, 1.0 / (variance + self.epsilon).sqrt())
    }

    fn apply(&self, x: &[f64], rounding: Rounding) -> (Vec<f64>, Vec<f64>) {
        let ((d, scale), n) = (self.centred(x), x.len());
        // Sums of lanes may be added one after the other here.
        let depth = rounding.sums.depth(n) + 16;
        let mean_error = match self.kind {
            NormKind::Rms => 0.0,
            NormKind::Layer => g(depth + 1) * x.iter().map(|x| x.abs()).sum::<f64>() / n as f64,
        };
        let d_error = |d: f64| mean_error + U * d.abs();
        let variance_error =
            d.iter().map(|d| 2.0 * d.abs() * d_error(*d) + g(depth + 2) * d * d).sum::<f64>()
                / n as f64;
        // Half of the relative error of the variance, an inverse root, two products.
        let factor = 0.5 * variance_error * scale * scale + 7.0 * U;
        let each = d.iter().zip(&self.weight).zip(&self.bias).map(|((d, w), b)| {
            let product = d * scale * w;
            let error = (scale * w).abs() * d_error(*d) + product.abs() * factor;
            (product + b, error + U * (product + b).abs())
        });
        each.unzip()
    }

    fn back(&self, x: &[f64], y: &[f64]) -> Vec<f64> {
        let ((d, scale), n) = (self.centred(x), x.len() as f64);
        let weighted: Vec<f64> = y.iter().zip(&self.weight).map(|(y, w)| y * w).collect();
        let inner: f64 = weighted.iter().zip(&d).map(|(y, d)| y * d).sum();
        let mut result: Vec<f64> = weighted
            .iter()
            .zip(&d)
            .map(|(y, d)| scale * y - d * scale.powi(3) / n * inner)
            .collect();
        if self.kind == NormKind::Layer {
            let mean = result.iter().sum::<f64>() / n;
            result.iter_mut().for_each(|x| *x -= mean);
        }
        result
    }
}

/// Results of one operation for every row, and the errors it adds.
#[derive(Debug, Default)]
struct Stage {
    values: Vec<Vec<f64>>,
    errors: Vec<Vec<f64>>,
}

impl Stage {
    fn of(rows: impl Iterator<Item = (Vec<f64>, Vec<f64>)>) -> Self {
        let (values, errors) = rows.unzip();
        Self { values, errors }
    }

    /// Returns the weighted sum of the errors of a row, with these derivatives.
    fn weigh(&self, row: usize, derivatives: &[f64]) -> f64 {
        derivatives.iter().zip(&self.errors[row]).map(|(d, e)| d.abs() * e).sum()
    }
}

#[derive(Debug)]
struct ReferenceLayer {
    norms: [Norm; 2],
    qkv: Map,
    output: Map,
    up: Map,
    down: Map,
}

/// The intermediate results of a layer.
#[derive(Debug, Default)]
struct LayerTrace {
    /// The input.
    x: Stage,
    normed: Stage,
    qkv: Stage,
    rotated: Stage,
    heads: Stage,
    middle: Stage,
    middle_normed: Stage,
    up: Stage,
    inner: Stage,
}

/// A model in f64.
#[derive(Debug)]
pub struct Reference {
    config: Config,
    embedding: Map,
    positions: Option<Vec<f32>>,
    layers: Vec<ReferenceLayer>,
    norm: Norm,
    head: Option<Map>,
}

/// A text that a [`Reference`] has read.
#[derive(Debug)]
pub struct Trace<'a> {
    model: &'a Reference,
    table: Vec<f32>,
    layers: Vec<LayerTrace>,
    x: Stage,
    normed: Stage,
    logits: Stage,
}

impl Reference {
    /// Loads the model with the weights of a pass, rounded to its precision.
    pub fn new(loader: &Loader<'_>, adapter: Option<&Adapter>) -> Self {
        let (config, ends) = (loader.config, loader.ends().unwrap());
        let layer = |index: usize| {
            let Layer { attention_norm, qkv, output, feed_forward_norm, up, down } =
                loader.layer(index).unwrap();
            let map = |map: &Linear, slot| {
                Map::linear(map, adapter.map(|adapter| (adapter, config, index, slot)))
            };
            ReferenceLayer {
                norms: [attention_norm, feed_forward_norm].map(|norm| Norm::new(&norm, config)),
                qkv: map(&qkv, Slot::Qkv),
                output: map(&output, Slot::Output),
                up: map(&up, Slot::Up),
                down: map(&down, Slot::Down),
            }
        };
        Self {
            config: config.clone(),
            embedding: Map::new(&ends.embedding, None),
            positions: ends.positions,
            layers: (0..config.layers).map(layer).collect(),
            norm: Norm::new(&ends.norm, config),
            head: ends.head.map(|head| Map::new(&head, None)),
        }
    }

    fn head(&self) -> &Map {
        self.head.as_ref().unwrap_or(&self.embedding)
    }

    /// Reads a text.
    pub fn read(&self, tokens: &[u32], rounding: Rounding) -> Trace<'_> {
        let config = &self.config;
        let table =
            config.rope.map_or_else(Vec::new, |rope| rope.table(config.head_dim, 0, tokens.len()));
        let mut x = Stage::of(tokens.iter().enumerate().map(|(position, &token)| {
            let mut row = self.embedding.row(token as usize).to_vec();
            if let Some(positions) = &self.positions {
                let learned = &positions[position * config.hidden..][..config.hidden];
                row.iter_mut().zip(learned).for_each(|(x, p)| *x += f64::from(*p));
            }
            let errors = row.iter().map(|x| g(2) * x.abs()).collect();
            (row, errors)
        }));
        let mut layers = Vec::new();
        for (index, layer) in self.layers.iter().enumerate() {
            let map = |map: &Map, from: &Stage| {
                Stage::of(from.values.iter().map(|row| map.apply(row, rounding)))
            };
            let normed = Stage::of(x.values.iter().map(|row| layer.norms[0].apply(row, rounding)));
            let qkv = map(&layer.qkv, &normed);
            let turned = qkv.values.iter().enumerate();
            let rotated = Stage::of(
                turned.map(|(position, row)| self.rotate(row, &table, position, rounding)),
            );
            let heads = Stage::of((0..tokens.len()).map(|row| self.attend(&rotated, index, row)));
            let middle = add(&x, map(&layer.output, &heads));
            let middle_normed =
                Stage::of(middle.values.iter().map(|row| layer.norms[1].apply(row, rounding)));
            let up = map(&layer.up, &middle_normed);
            let inner =
                Stage::of(up.values.iter().map(|row| activate(config.activation, row, rounding)));
            let after = add(&middle, map(&layer.down, &inner));
            let before = std::mem::replace(&mut x, after);
            layers.push(LayerTrace {
                x: before,
                normed,
                qkv,
                rotated,
                heads,
                middle,
                middle_normed,
                up,
                inner,
            });
        }
        let normed = Stage::of(x.values.iter().map(|row| self.norm.apply(row, rounding)));
        let logits = Stage::of(normed.values.iter().map(|row| self.head().apply(row, rounding)));
        Trace { model: self, table, layers, x, normed, logits }
    }

    /// Queries and keys turned to their position; keys and values as the cache keeps them.
    fn rotate(
        &self,
        row: &[f64],
        table: &[f32],
        position: usize,
        rounding: Rounding,
    ) -> (Vec<f64>, Vec<f64>) {
        let (head, query) = (self.config.head_dim, self.config.query_width());
        let turned = query + self.config.kv_width();
        let (mut values, mut errors) = (row.to_vec(), vec![0.0; row.len()]);
        if !table.is_empty() {
            for i in (0..turned).filter(|i| i % head < head / 2) {
                let at = position * head + i % head * 2;
                let (cosine, sine) = (f64::from(table[at]), f64::from(table[at + 1]));
                let (a, b) = (row[i], row[i + head / 2]);
                (values[i], values[i + head / 2]) = (a * cosine - b * sine, b * cosine + a * sine);
                // Two roundings of the sum, one of the sine or cosine in another implementation's
                // table.
                errors[i] = g(4) * ((a * cosine).abs() + (b * sine).abs());
                errors[i + head / 2] = g(4) * ((b * cosine).abs() + (a * sine).abs());
            }
        }
        for (value, error) in values.iter().zip(&mut errors).skip(query) {
            *error += rounding.cache * value.abs();
        }
        (values, errors)
    }

    /// Returns the positions that a row of a layer attends to.
    fn attended(&self, layer: usize, row: usize) -> std::ops::RangeInclusive<usize> {
        let first = match &self.config.sliding_window {
            Some(window) if layer >= window.first_layer => {
                (row + 1).saturating_sub(window.positions)
            }
            _ => 0,
        };
        first..=row
    }

    /// Returns the scores, less the largest, and the shares of the positions that `row` attends to,
    /// for one head.
    fn shares(
        &self,
        rotated: &Stage,
        layer: usize,
        row: usize,
        head: usize,
    ) -> (Vec<f64>, Vec<f64>) {
        let scale = 1.0 / (self.config.head_dim as f64).sqrt();
        let query = &rotated.values[row][head * self.config.head_dim..][..self.config.head_dim];
        let key = self.key_start(head);
        let mut scores: Vec<f64> = rotated.values[self.attended(layer, row)]
            .iter()
            .map(|other| scale * query.iter().zip(&other[key..]).map(|(q, k)| q * k).sum::<f64>())
            .collect();
        let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        scores.iter_mut().for_each(|score| *score -= largest);
        let total: f64 = scores.iter().map(|score| score.exp()).sum();
        let shares = scores.iter().map(|score| score.exp() / total).collect();
        (scores, shares)
    }

    fn key_start(&self, head: usize) -> usize {
        let kv_head = head / (self.config.heads / self.config.kv_heads);
        self.config.query_width() + kv_head * self.config.head_dim
    }

    fn value_start(&self, head: usize) -> usize {
        self.key_start(head) + self.config.kv_width()
    }

    /// Returns the weighted values of every head for one row.
    fn attend(&self, rotated: &Stage, layer: usize, row: usize) -> (Vec<f64>, Vec<f64>) {
        let others = &rotated.values[self.attended(layer, row)];
        let (size, count) = (self.config.head_dim, others.len());
        let (mut values, mut errors) = (Vec::new(), Vec::new());
        let scale = 1.0 / (size as f64).sqrt();
        // Positions may be taken in parts of at least 32, whose largest scores and sums are
        // combined: each part is one more exponential and one more product for the weights before
        // it.
        let parts = count.div_ceil(32) + 2;
        for head in 0..self.config.heads {
            let (scores, shares) = self.shares(rotated, layer, row, head);
            let query = &rotated.values[row][head * size..][..size];
            let (key, value) = (self.key_start(head), self.value_start(head));
            // The relative error of each weight: of its score, of the difference, of the
            // exponentials and of their products. The arguments of the exponentials
            // have one sign and add up to the score.
            let weight_errors: Vec<f64> = (0..count)
                .map(|j| {
                    let terms = query.iter().zip(&others[j][key..]).map(|(q, k)| (q * k).abs());
                    g(size + 3) * scale * terms.sum::<f64>()
                        + U * (7 * parts) as f64
                        + 5.0 * U * scores[j].abs()
                })
                .collect();
            for d in 0..size {
                let of = |j: usize| others[j][value + d];
                let sum: f64 = (0..count).map(|j| shares[j] * of(j)).sum();
                let size: f64 = (0..count).map(|j| shares[j] * of(j).abs()).sum();
                let moved: f64 =
                    (0..count).map(|j| shares[j] * weight_errors[j] * (of(j) - sum).abs()).sum();
                values.push(sum);
                errors.push(moved + g(count + parts + 6) * (size + sum.abs()));
            }
        }
        (values, errors)
    }

    /// Computes the derivatives by queries, keys and values from those by the heads of one row.
    fn attend_back(
        &self,
        rotated: &Stage,
        layer: usize,
        row: usize,
        heads: &[f64],
        out: &mut [Vec<f64>],
    ) {
        let size = self.config.head_dim;
        let scale = 1.0 / (size as f64).sqrt();
        for (head, y) in heads.chunks_exact(size).enumerate() {
            let (_, shares) = self.shares(rotated, layer, row, head);
            let (key, value) = (self.key_start(head), self.value_start(head));
            let by_share: Vec<f64> = rotated.values[self.attended(layer, row)]
                .iter()
                .map(|other| y.iter().zip(&other[value..]).map(|(y, v)| y * v).sum())
                .collect();
            let mean: f64 = shares.iter().zip(&by_share).map(|(p, d)| p * d).sum();
            for (i, j) in self.attended(layer, row).enumerate() {
                let by_score = shares[i] * (by_share[i] - mean) * scale;
                for d in 0..size {
                    out[j][value + d] += shares[i] * y[d];
                    out[j][key + d] += by_score * rotated.values[row][head * size + d];
                    out[row][head * size + d] += by_score * rotated.values[j][key + d];
                }
            }
        }
    }
}

/// Adds a product to an earlier result.
fn add(x: &Stage, product: Stage) -> Stage {
    let rows = x.values.iter().zip(product.values.iter().zip(product.errors));
    Stage::of(rows.map(|(x, (y, mut errors))| {
        let sums: Vec<f64> = x.iter().zip(y).map(|(x, y)| x + y).collect();
        errors.iter_mut().zip(&sums).for_each(|(error, sum)| *error += U * sum.abs());
        (sums, errors)
    }))
}

const ROOT: f64 = 0.797_884_560_802_865_4;

fn activate(activation: Activation, up: &[f64], rounding: Rounding) -> (Vec<f64>, Vec<f64>) {
    match activation {
        // An exponential, a sum, a quotient and a product.
        Activation::GatedSilu => up
            .as_chunks::<2>()
            .0
            .iter()
            .map(|[gate, x]| {
                let y = gate / (1.0 + (-gate).exp()) * x;
                (y, (13.0 + 4.0 * gate.abs()) * U * y.abs())
            })
            .unzip(),
        Activation::GeluTanh => up
            .iter()
            .map(|x| {
                let inside = ROOT * (x + 0.044_715 * x.powi(3));
                let t = inside.tanh();
                let y = 0.5 * x * (1.0 + t);
                let inside_error = 8.0 * U * inside.abs() * (1.0 - t * t);
                (
                    y,
                    0.5 * x.abs() * (rounding.tanh + U * (1.0 + t) + inside_error)
                        + 3.0 * U * y.abs(),
                )
            })
            .unzip(),
    }
}

fn activate_back(activation: Activation, up: &[f64], y: &[f64]) -> Vec<f64> {
    match activation {
        Activation::GatedSilu => {
            let pairs = up.as_chunks::<2>().0.iter().zip(y);
            pairs
                .flat_map(|([gate, x], y)| {
                    let s = 1.0 / (1.0 + (-gate).exp());
                    [y * x * s * (1.0 + gate * (1.0 - s)), y * gate * s]
                })
                .collect()
        }
        Activation::GeluTanh => up
            .iter()
            .zip(y)
            .map(|(x, y)| {
                let t = (ROOT * (x + 0.044_715 * x.powi(3))).tanh();
                let slope = ROOT * (1.0 + 3.0 * 0.044_715 * x * x);
                y * (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * slope)
            })
            .collect(),
    }
}

impl Trace<'_> {
    pub fn logit(&self, row: usize, token: usize) -> f64 {
        self.logits.values[row][token]
    }

    /// Returns the error bound of a logit, including its rounding to f32.
    pub fn bound(&self, row: usize, token: usize) -> f64 {
        let model = self.model;
        let mut bound = self.logits.errors[row][token] + U * self.logit(row, token).abs();
        let normed = model.head().row(token);
        bound += self.normed.weigh(row, normed);
        // Rows after this one have no influence; of the rows before, some have no influence yet.
        let mut x: Vec<Option<Vec<f64>>> = vec![None; row + 1];
        x[row] = Some(model.norm.back(&self.x.values[row], normed));
        let mut out = &self.x;
        for (index, (layer, trace)) in model.layers.iter().zip(&self.layers).enumerate().rev() {
            let mut rotated = vec![vec![0.0; model.config.qkv_rows()]; row + 1];
            for (r, x) in x.iter_mut().enumerate() {
                let Some(x) = x else { continue };
                bound += out.weigh(r, x);
                let inner = layer.down.back(x);
                bound += trace.inner.weigh(r, &inner);
                let up = activate_back(model.config.activation, &trace.up.values[r], &inner);
                bound += trace.up.weigh(r, &up);
                let normed = layer.up.back(&up);
                bound += trace.middle_normed.weigh(r, &normed);
                let more = layer.norms[1].back(&trace.middle.values[r], &normed);
                x.iter_mut().zip(more).for_each(|(x, more)| *x += more);
                bound += trace.middle.weigh(r, x);
                let heads = layer.output.back(x);
                bound += trace.heads.weigh(r, &heads);
                model.attend_back(&trace.rotated, index, r, &heads, &mut rotated);
            }
            for (r, rotated) in rotated.iter().enumerate() {
                bound += trace.rotated.weigh(r, rotated);
                let qkv = self.rotate_back(rotated, r);
                bound += trace.qkv.weigh(r, &qkv);
                let normed = layer.qkv.back(&qkv);
                bound += trace.normed.weigh(r, &normed);
                let more = layer.norms[0].back(&trace.x.values[r], &normed);
                let x = x[r].get_or_insert_with(|| vec![0.0; more.len()]);
                x.iter_mut().zip(more).for_each(|(x, more)| *x += more);
            }
            out = &trace.x;
        }
        bound
            + x.iter()
                .enumerate()
                .map(|(r, x)| out.weigh(r, x.as_deref().unwrap_or(&[])))
                .sum::<f64>()
    }

    fn rotate_back(&self, rotated: &[f64], position: usize) -> Vec<f64> {
        let config = &self.model.config;
        let (head, turned) = (config.head_dim, config.query_width() + config.kv_width());
        let mut result = rotated.to_vec();
        if !self.table.is_empty() {
            for i in (0..turned).filter(|i| i % head < head / 2) {
                let at = position * head + i % head * 2;
                let (cosine, sine) = (f64::from(self.table[at]), f64::from(self.table[at + 1]));
                let (a, b) = (rotated[i], rotated[i + head / 2]);
                (result[i], result[i + head / 2]) = (a * cosine + b * sine, b * cosine - a * sine);
            }
        }
        result
    }

    /// Compares logits of a row, all of them, with this text's; those of `tokens` by their own
    /// bounds.
    #[track_caller]
    pub fn assert_row(
        &self,
        row: usize,
        logits: &[f32],
        tokens: impl Iterator<Item = usize>,
        what: &str,
    ) {
        assert_eq!(logits.len(), self.model.config.vocabulary);
        for token in tokens {
            let (expected, bound) = (self.logit(row, token), self.bound(row, token));
            let apart = (f64::from(logits[token]) - expected).abs();
            // Neither an infinite bound nor an infinite logit may pass.
            assert!(
                apart <= bound && bound < 0.5 * expected.abs().max(1.0),
                "{what}: row {row}, token {token}: {} instead of {expected}, {apart} apart, bound {bound}",
                logits[token]
            );
        }
    }
}

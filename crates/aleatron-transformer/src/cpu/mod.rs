//! The forward pass on the CPU, with the same interface as on a GPU; tests compare both.

mod attention;
mod dot;
mod linear;
mod products;

use std::collections::VecDeque;
use std::sync::Arc;

use aleatron_core::{Quantity, memory};
use aleatron_cpu::{Pool, Tier, threads};

use crate::config::{Activation, Config, NormKind};
use crate::error::{Error, Result};
use crate::lora::{Adapter, QkvLoRA};
use crate::pass::{
    AdapterId, ForwardPass, Logits, Segment, Sequence, SequenceId, Sequences, grown,
};
use crate::products::{LinearId, LinearProducts};
use crate::sampling::Sampling;
use crate::weights::{Ends, Layer, Linear, Loader, Matrix, NormWeights, Slot};
use attention::SequenceCache;
use dot::Instructions;
use linear::{Activations, Workers, add_bias, correct};

/// The corrections of an adapter, layer by layer, one for each matrix.
type Corrections = Vec<[Option<QkvLoRA>; 4]>;

/// A token that passes through the layers.
#[derive(Debug, Clone, Copy)]
struct Row {
    token: u32,
    sequence: SequenceId,
    position: usize,
    adapter: Option<AdapterId>,
    /// The number of the sequence, for linear products.
    number: u64,
}

/// The state that a step continues.
#[derive(Debug)]
struct Decoding {
    sequences: Vec<SequenceId>,
    tokens: Vec<u32>,
    sampling: Sampling,
}

/// A transformer on the CPU's threads. Results do not depend on their number.
#[derive(Debug)]
pub struct CpuForwardPass {
    config: Config,
    ends: Ends,
    layers: Vec<Layer>,
    pool: Arc<Pool>,
    instructions: Instructions,
    /// Cosines and sines, for the positions needed so far.
    rotations: Vec<f32>,
    sequences: Sequences,
    /// Caches by the index of the sequence.
    caches: Vec<SequenceCache>,
    adapters: Vec<Corrections>,
    decoding: Option<Decoding>,
    taken: VecDeque<Vec<u32>>,
    epoch: u64,
    /// Executes or observes linear products.
    products: Option<Arc<dyn LinearProducts>>,
}

impl CpuForwardPass {
    /// Loads a model.
    ///
    /// # Errors
    /// An error with the fault of its weights, or if they do not fit into memory.
    pub fn new(loader: &Loader<'_>) -> Result<Self> {
        loader.config.check()?;
        let layers =
            (0..loader.config.layers).map(|layer| loader.layer(layer)).collect::<Result<_>>()?;
        Ok(Self {
            config: loader.config.clone(),
            ends: loader.ends()?,
            layers,
            pool: threads::current()?,
            instructions: Instructions::of(Tier::current()?),
            rotations: Vec::new(),
            sequences: Sequences::default(),
            caches: Vec::new(),
            adapters: Vec::new(),
            decoding: None,
            taken: VecDeque::new(),
            epoch: 0,
            products: None,
        })
    }

    fn workers(&self) -> Workers<'_> {
        Workers { pool: &self.pool, instructions: self.instructions }
    }

    /// Reserves capacity for the positions of a call and returns its rows.
    fn prepare(&mut self, segments: &[Segment<'_>]) -> Result<Vec<Row>> {
        self.sequences.check(&self.config, segments)?;
        let mut rows = Vec::new();
        for segment in segments {
            let Sequence { len, adapter, number } = self.sequences.get(segment.sequence)?;
            let positions = len + segment.tokens.len();
            self.caches[segment.sequence.0].reserve(&self.config, positions)?;
            self.rotate_up_to(positions)?;
            let placed = segment.tokens.iter().zip(len..);
            rows.extend(placed.map(|(&token, position)| Row {
                token,
                sequence: segment.sequence,
                position,
                adapter,
                number,
            }));
        }
        Ok(rows)
    }

    fn rotate_up_to(&mut self, positions: usize) -> Result<()> {
        let Some(rope) = self.config.rope else { return Ok(()) };
        let known = self.rotations.len() / self.config.head_dim;
        if positions > known {
            let wanted = grown(positions, &self.config);
            memory::check((wanted * self.config.head_dim * 4) as u128, Quantity::Weights)?;
            self.rotations.extend(rope.table(self.config.head_dim, known, wanted - known));
        }
        Ok(())
    }

    /// Runs rows through all layers; their keys and values stay in the caches.
    fn run(&mut self, rows: &[Row]) -> Result<Activations> {
        let mut x = Activations::new(rows.len(), self.config.hidden);
        for (i, row) in rows.iter().enumerate() {
            self.ends.embedding.row(row.token as usize, x.row_mut(i));
            if let Some(positions) = &self.ends.positions {
                let learned = &positions[row.position * self.config.hidden..][..self.config.hidden];
                x.row_mut(i).iter_mut().zip(learned).for_each(|(x, p)| *x += p);
            }
        }
        for layer in 0..self.layers.len() {
            let normed = self.norm(&self.layers[layer].attention_norm, &x);
            let mut qkv = self.map(layer, Slot::Qkv, rows, &normed)?;
            self.store(layer, rows, &mut qkv);
            let heads = self.attend(layer, rows, &qkv);
            let output = self.map(layer, Slot::Output, rows, &heads)?;
            add(&mut x, &output);
            let normed = self.norm(&self.layers[layer].feed_forward_norm, &x);
            let up = self.map(layer, Slot::Up, rows, &normed)?;
            let inner = self.activate(&up);
            let down = self.map(layer, Slot::Down, rows, &inner)?;
            add(&mut x, &down);
        }
        Ok(x)
    }

    /// Returns the matrix of a layer.
    fn layer_map(&self, layer: usize, slot: Slot) -> Option<&Linear> {
        let weights = self.layers.get(layer)?;
        Some(match slot {
            Slot::Qkv => &weights.qkv,
            Slot::Output => &weights.output,
            Slot::Up => &weights.up,
            Slot::Down => &weights.down,
        })
    }

    /// Returns the matrix of the head.
    fn head(&self) -> &Matrix {
        self.ends.head.as_ref().unwrap_or(&self.ends.embedding)
    }

    /// Applies a linear map of a layer, with the adapters of the rows.
    fn map(&self, layer: usize, slot: Slot, rows: &[Row], x: &Activations) -> Result<Activations> {
        let linear = LinearId::Layer { layer, slot };
        let map = self.layer_map(layer, slot).ok_or_else(|| self.unknown(linear))?;
        let mut out = self.product(linear, &map.matrix, rows.iter(), x)?;
        add_bias(map, &mut out);
        for (i, row) in rows.iter().enumerate() {
            let corrections = row.adapter.and_then(|adapter| self.adapters.get(adapter.0));
            if let Some(lora) = corrections.and_then(|layers| layers[layer][slot as usize].as_ref())
            {
                correct(lora, x.row(i), out.row_mut(i));
            }
        }
        Ok(out)
    }

    fn norm(&self, weights: &NormWeights, x: &Activations) -> Activations {
        let mut out = Activations::new(x.rows(), x.width);
        let n = x.width as f32;
        for i in 0..x.rows() {
            let (x, y) = (x.row(i), out.row_mut(i));
            let mean = match self.config.norm {
                NormKind::Rms => 0.0,
                NormKind::Layer => pairwise(x, |x| x) / n,
            };
            let variance = pairwise(x, |x| (x - mean) * (x - mean)) / n;
            let scale = 1.0 / (variance + self.config.norm_epsilon).sqrt();
            for (k, y) in y.iter_mut().enumerate() {
                *y = (x[k] - mean) * scale * weights.weight[k];
                if let Some(bias) = &weights.bias {
                    *y += bias[k];
                }
            }
        }
        out
    }

    fn activate(&self, up: &Activations) -> Activations {
        let mut out = Activations::new(up.rows(), self.config.inner);
        for i in 0..up.rows() {
            let (up, out) = (up.row(i), out.row_mut(i));
            match self.config.activation {
                Activation::GatedSilu => {
                    for (y, pair) in out.iter_mut().zip(up.as_chunks::<2>().0) {
                        *y = pair[0] / (1.0 + (-pair[0]).exp()) * pair[1];
                    }
                }
                Activation::GeluTanh => {
                    for (y, x) in out.iter_mut().zip(up) {
                        let inside = 0.797_884_6 * (x + 0.044_715 * x * x * x);
                        *y = 0.5 * x * (1.0 + inside.tanh());
                    }
                }
            }
        }
        out
    }

    /// Computes the logits of some of the rows.
    fn logits(&self, x: &Activations, rows: &[Row], wanted: &[usize]) -> Result<Activations> {
        let mut chosen = Activations::new(wanted.len(), x.width);
        for (i, &row) in wanted.iter().enumerate() {
            chosen.row_mut(i).copy_from_slice(x.row(row));
        }
        let normed = self.norm(&self.ends.norm, &chosen);
        self.product(LinearId::Head, self.head(), wanted.iter().map(|&row| &rows[row]), &normed)
    }

    /// Ends the series of steps of a sequence.
    fn end_steps_of(&mut self, sequence: SequenceId) {
        if self.decoding.as_ref().is_some_and(|decoding| decoding.sequences.contains(&sequence)) {
            self.restart();
        }
    }

    /// Ends a series of steps.
    fn restart(&mut self) {
        self.taken.clear();
        self.decoding = None;
        self.epoch += 1;
    }

    fn advance(&mut self, segments: &[Segment<'_>]) -> Result<()> {
        for segment in segments {
            self.sequences.get_mut(segment.sequence)?.len += segment.tokens.len();
        }
        Ok(())
    }

    /// Appends tokens and chooses the next ones.
    fn append(&mut self, segments: &[Segment<'_>], sampling: &Sampling) -> Result<Vec<u32>> {
        sampling.check()?;
        let rows = self.prepare(segments)?;
        let x = self.run(&rows)?;
        let ends = last_rows(segments);
        let logits = self.logits(&x, &rows, &ends)?;
        self.advance(segments)?;
        let chosen = ends.iter().enumerate().map(|(i, &end)| {
            let sequence = segments[i].sequence.0;
            let token = sampling.choose(logits.row(i), rows[end].position as u32 + 1, i as u32);
            token.ok_or(Error::NotFinite { sequence })
        });
        chosen.collect()
    }
}

impl ForwardPass for CpuForwardPass {
    fn config(&self) -> &Config {
        &self.config
    }

    fn device(&self) -> String {
        "cpu".to_owned()
    }

    fn open(&mut self) -> Result<SequenceId> {
        let slot = self.sequences.free_slot();
        if slot == self.caches.len() {
            self.caches.push(SequenceCache::default());
        }
        Ok(self.sequences.occupy(slot, Sequence::default()))
    }

    fn close(&mut self, sequence: SequenceId) {
        self.end_steps_of(sequence);
        self.sequences.close(sequence);
        if let Some(cache) = self.caches.get_mut(sequence.0) {
            *cache = SequenceCache::default();
        }
    }

    fn fork(&mut self, sequence: SequenceId) -> Result<SequenceId> {
        let state = self.sequences.get(sequence)?;
        let mut cache = SequenceCache::default();
        cache.reserve(&self.config, state.len)?;
        cache.copy_from(&self.caches[sequence.0], &self.config, state.len);
        let new = self.open()?;
        self.caches[new.0] = cache;
        Ok(self.sequences.occupy(new.0, state))
    }

    fn truncate(&mut self, sequence: SequenceId, keep: usize) -> Result<()> {
        self.end_steps_of(sequence);
        self.sequences.truncate(sequence, keep)
    }

    fn len(&self, sequence: SequenceId) -> Result<usize> {
        Ok(self.sequences.get(sequence)?.len)
    }

    fn load_adapter(&mut self, adapter: &Adapter) -> Result<AdapterId> {
        let config = &self.config;
        let layer = |layer| Slot::ALL.map(|slot| adapter.stacked(config, layer, slot));
        self.adapters.push((0..config.layers).map(layer).collect());
        Ok(self.sequences.add_adapter())
    }

    fn use_adapter(&mut self, sequence: SequenceId, adapter: Option<AdapterId>) -> Result<()> {
        self.end_steps_of(sequence);
        self.sequences.use_adapter(sequence, adapter)
    }

    fn forward(&mut self, segments: &[Segment<'_>], logits: Logits) -> Result<Vec<f32>> {
        self.restart();
        let rows = self.prepare(segments)?;
        let wanted = match logits {
            Logits::All => (0..rows.len()).collect(),
            Logits::Last => last_rows(segments),
        };
        memory::check(
            wanted.len() as u128 * self.config.vocabulary as u128 * 12,
            Quantity::Counts,
        )?;
        let x = self.run(&rows)?;
        let out = self.logits(&x, &rows, &wanted)?;
        self.advance(segments)?;
        Ok((0..wanted.len()).flat_map(|row| out.row(row)).copied().collect())
    }

    fn prefill(&mut self, segments: &[Segment<'_>], sampling: &Sampling) -> Result<Vec<u32>> {
        self.restart();
        let tokens = self.append(segments, sampling)?;
        let sequences = segments.iter().map(|segment| segment.sequence).collect();
        self.decoding = Some(Decoding { sequences, tokens: tokens.clone(), sampling: *sampling });
        Ok(tokens)
    }

    fn submit_step(&mut self) -> Result<()> {
        let Some(Decoding { sequences, tokens, sampling }) = self.decoding.take() else {
            return Err(Error::NoStep);
        };
        let pairs = sequences.iter().zip(&tokens);
        let segments: Vec<Segment<'_>> = pairs
            .map(|(&sequence, token)| Segment { sequence, tokens: std::slice::from_ref(token) })
            .collect();
        let next = self.append(&segments, &sampling);
        let going_on = next.as_ref().map_or_else(|_| tokens.clone(), Clone::clone);
        self.decoding = Some(Decoding { sequences, tokens: going_on, sampling });
        self.taken.push_back(next?);
        Ok(())
    }

    fn take_step(&mut self) -> Result<Vec<u32>> {
        self.taken.pop_front().ok_or(Error::NoStep)
    }

    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn look_ahead(&self) -> usize {
        0
    }

    fn set_linear_products(&mut self, products: Option<Arc<dyn LinearProducts>>) -> Result<()> {
        self.products = products;
        Ok(())
    }

    fn set_sequence_number(&mut self, sequence: SequenceId, number: u64) -> Result<()> {
        self.sequences.get_mut(sequence)?.number = number;
        Ok(())
    }

    fn linear_weights(&self, linear: LinearId) -> Result<Vec<f32>> {
        self.weights_of(linear)
    }

    fn weight_bytes(&self) -> u64 {
        let layer = |layer: &Layer| {
            [&layer.qkv, &layer.output, &layer.up, &layer.down]
                .iter()
                .map(|map| map.matrix.bytes())
                .sum::<usize>()
        };
        (self.layers.iter().map(layer).sum::<usize>() + self.head().bytes()) as u64
    }

    fn start_profile(&mut self) -> Result<()> {
        Ok(())
    }

    fn finish_profile(&mut self) -> Result<String> {
        Ok(String::new())
    }
}

/// Returns the row of the last token of each segment.
pub(crate) fn last_rows(segments: &[Segment<'_>]) -> Vec<usize> {
    let ends = segments.iter().scan(0, |end, segment| {
        *end += segment.tokens.len();
        Some(*end - 1)
    });
    ends.collect()
}

fn add(x: &mut Activations, y: &Activations) {
    x.data.iter_mut().zip(&y.data).for_each(|(x, y)| *x += y);
}

/// Returns a sum in 16 parts, which is more accurate than a sequential sum.
fn pairwise(values: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    let (chunks, rest) = values.as_chunks::<16>();
    let mut sums = [0.0; 16];
    for chunk in chunks {
        sums.iter_mut().zip(chunk).for_each(|(sum, x)| *sum += f(*x));
    }
    sums.iter().sum::<f32>() + rest.iter().map(|x| f(*x)).sum::<f32>()
}

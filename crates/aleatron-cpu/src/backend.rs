//! The CPU as a [`Backend`]: layers encoded into memory, counted by [`Cpu`].

use crate::{Cpu, TabledWeights, WordBuffer};
use aleatron_core::backend::{Batch, CountMethod, Inputs, PrepareOptions, PreparedLayer};
use aleatron_core::threshold::{extend_thresholds, thresholds};
use aleatron_core::{
    Backend, Cancel, Connections, DenseShape, Encoding, Error, LayerSpec, Pairing, Quantity, Result,
    StreamMatrix, Threshold, Topology, Weights, memory,
};
use std::fmt;

/// Words of weight streams made between two checks for cancellation: some milliseconds.
const PREPARE_WORDS: usize = 1 << 20;

/// Words counted between two checks for cancellation: tens of milliseconds.
const COUNT_WORDS: usize = 1 << 30;

/// Words of inputs with shared sequences made at a time.
const INPUT_WORDS: usize = 1 << 20;

/// The CPU as a backend: a given one, or the tier and threads that are current when a call is made.
#[derive(Debug, Clone, Default)]
pub struct CpuBackend(Option<Cpu>);

impl CpuBackend {
    /// The tier and threads that are current when a call is made; see [`Cpu::current`].
    pub const CURRENT: Self = Self(None);

    /// A given tier and pool.
    #[must_use]
    pub fn new(cpu: Cpu) -> Self {
        Self(Some(cpu))
    }

    fn cpu(&self) -> Result<Cpu> {
        match &self.0 {
            Some(cpu) => Ok(cpu.clone()),
            None => Cpu::current().map_err(Error::from),
        }
    }
}

impl Backend for CpuBackend {
    fn name(&self) -> String {
        "cpu".to_owned()
    }

    fn prepare(
        &self,
        spec: &LayerSpec,
        weights: &Weights,
        options: &PrepareOptions<'_>,
    ) -> Result<Box<dyn PreparedLayer>> {
        let cpu = self.cpu()?;
        let weights = match (spec.topology(), spec.encoding()) {
            (Topology::Dense { .. }, Encoding::Bernoulli { seed }) => {
                dense_bernoulli(&cpu, spec, weights, *seed, options.cancel)?
            }
            (Topology::Dense { .. }, Encoding::Sequences(pairing)) => {
                match (options.method.resolve(spec)?, spec.dense_shape()) {
                    (CountMethod::Tables, Some(shape)) => {
                        let thresholds = spec.weight_thresholds(weights)?;
                        Prepared::Tables(TabledWeights::new(shape, pairing, &thresholds)?)
                    }
                    _ => dense_sequences(&cpu, spec, pairing, weights)?,
                }
            }
            (Topology::Sparse(connections), Encoding::Bernoulli { seed }) => {
                sparse_bernoulli(&cpu, spec, connections, weights, *seed, options.cancel)?
            }
            (Topology::Sparse(_), Encoding::Sequences(pairing)) => {
                Prepared::Sparse(sequence_weights(&cpu, spec, pairing, weights)?)
            }
            _ => return Err(Error::unsupported(self.name(), "layers of this kind")),
        };
        Ok(Box::new(CpuLayer { backend: self.clone(), spec: spec.clone(), weights }))
    }
}

/// Draws the weight streams of a dense layer, some neurons at a time.
fn dense_bernoulli(
    cpu: &Cpu,
    spec: &LayerSpec,
    weights: &Weights,
    seed: u64,
    cancel: Cancel<'_>,
) -> Result<Prepared> {
    let (n, row_words) = (spec.n_inputs(), spec.sample_words());
    let mut streams = WordBuffer::zeroed(spec.weight_words(), Quantity::Weights)?;
    let mut ones = memory::with_capacity(spec.n_neurons() as u128, Quantity::Weights)?;
    let neurons = (PREPARE_WORDS / row_words).max(1);
    let first = spec.weight_address(seed);
    let mut thresholds = Vec::new();
    let pieces = streams.chunks_mut(neurons * row_words).zip(weights.values().chunks(neurons * n));
    for (k, (streams, weights)) in pieces.enumerate() {
        cancel.check()?;
        thresholds.clear();
        extend_thresholds(weights, spec.polarity(), Quantity::Weight, &mut thresholds)?;
        let address = first.at_row(first.row.wrapping_add((k * neurons) as u32));
        cpu.encode_rows_into(&thresholds, n, spec.length(), address, streams)?;
        ones.extend(cpu.row_ones(streams, row_words));
    }
    Ok(Prepared::Dense { streams, ones })
}

/// Draws the weight streams of a sparse layer, some neurons at a time where somebody may want it to stop.
fn sparse_bernoulli(
    cpu: &Cpu,
    spec: &LayerSpec,
    connections: &Connections,
    weights: &Weights,
    seed: u64,
    cancel: Cancel<'_>,
) -> Result<Prepared> {
    let (length, polarity) = (spec.length(), spec.polarity());
    let mut streams = WordBuffer::zeroed(spec.weight_words(), Quantity::Weights)?;
    let thresholds = thresholds(weights.values(), polarity, Quantity::Weight)?;
    if cancel.is_never() {
        let address = spec.weight_address(seed);
        cpu.encode_connections(connections, &thresholds, length, address, &mut streams)?;
        return Ok(Prepared::Sparse(streams));
    }
    let (offsets, at_once) = (connections.offsets(), (PREPARE_WORDS / length.words()).max(1));
    let mut first = 0;
    while first < spec.n_neurons() {
        cancel.check()?;
        // As many neurons as have so many connections together, and one at least.
        let end = offsets.partition_point(|&offset| offset <= offsets[first] + at_once) - 1;
        let neurons = first..end.max(first + 1);
        let part = spec.neurons(neurons.clone())?;
        let range = offsets[neurons.start]..offsets[neurons.end];
        if let Topology::Sparse(connections) = part.topology() {
            let words = &mut streams[range.start * length.words()..range.end * length.words()];
            let address = part.weight_address(seed);
            cpu.encode_connections(connections, &thresholds[range], length, address, words)?;
        }
        first = neurons.end;
    }
    Ok(Prepared::Sparse(streams))
}

fn dense_sequences(cpu: &Cpu, spec: &LayerSpec, pairing: &Pairing, weights: &Weights) -> Result<Prepared> {
    let streams = sequence_weights(cpu, spec, pairing, weights)?;
    let ones = cpu.row_ones(&streams, spec.sample_words());
    Ok(Prepared::Dense { streams, ones })
}

fn sequence_weights(cpu: &Cpu, spec: &LayerSpec, pairing: &Pairing, weights: &Weights) -> Result<WordBuffer> {
    let mut streams = WordBuffer::zeroed(spec.weight_words(), Quantity::Weights)?;
    cpu.encode_shared_weights(spec, pairing, &spec.weight_thresholds(weights)?, &mut streams)?;
    Ok(streams)
}

impl Cpu {
    /// The packed weight streams of a layer, one per weight in their order.
    ///
    /// # Errors
    /// [`Error::Memory`] where they do not fit, [`Error::TooLarge`] where a generator has too few sequences.
    pub fn weight_streams(&self, spec: &LayerSpec, weights: &Weights) -> Result<StreamMatrix> {
        let mut streams = StreamMatrix::zeros(spec.n_weights(), spec.length())?;
        match (spec.topology(), spec.encoding()) {
            (Topology::Dense { n_inputs, .. }, Encoding::Bernoulli { seed }) => {
                let thresholds = thresholds(weights.values(), spec.polarity(), Quantity::Weight)?;
                let address = spec.weight_address(*seed);
                self.encode_rows_into(&thresholds, *n_inputs, spec.length(), address, streams.words_mut())?;
            }
            (Topology::Sparse(connections), Encoding::Bernoulli { seed }) => {
                let thresholds = thresholds(weights.values(), spec.polarity(), Quantity::Weight)?;
                let address = spec.weight_address(*seed);
                self.encode_connections(
                    connections,
                    &thresholds,
                    spec.length(),
                    address,
                    streams.words_mut(),
                )?;
            }
            (_, Encoding::Sequences(pairing)) => {
                let thresholds = spec.weight_thresholds(weights)?;
                self.encode_shared_weights(spec, pairing, &thresholds, streams.words_mut())?;
            }
            _ => return Err(Error::unsupported("cpu", "layers of this kind")),
        }
        Ok(streams)
    }
}

/// The weights of a layer in memory.
enum Prepared {
    /// Packed rows of neurons by inputs, and the ones of each row.
    Dense { streams: WordBuffer, ones: Vec<u64> },
    /// One packed stream per connection.
    Sparse(WordBuffer),
    /// Thresholds and tables.
    Tables(TabledWeights),
}

/// A layer on the CPU.
struct CpuLayer {
    backend: CpuBackend,
    spec: LayerSpec,
    weights: Prepared,
}

impl fmt::Debug for CpuLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CpuLayer").field("spec", &self.spec).finish_non_exhaustive()
    }
}

impl PreparedLayer for CpuLayer {
    fn counts(&self, batch: &Batch<'_>, cancel: Cancel<'_>) -> Result<Vec<u64>> {
        let n_samples = batch.check(&self.spec)?;
        let cpu = self.backend.cpu()?;
        // Encoding a word costs as much as counting many.
        let cost = self.spec.weight_words().saturating_add(self.spec.sample_words().saturating_mul(64));
        let samples = (COUNT_WORDS / cost).max(1);
        if n_samples <= samples || cancel.is_never() {
            return self.count(&cpu, batch);
        }
        let len = n_samples as u128 * self.spec.n_neurons() as u128;
        let mut counts = memory::with_capacity(len, Quantity::Counts)?;
        for start in (0..n_samples).step_by(samples) {
            cancel.check()?;
            let piece = batch.samples(&self.spec, start, n_samples.min(start + samples))?;
            let made = self.count(&cpu, &piece);
            counts.append(&mut made.map_err(|error| error.shifted(start * self.spec.n_inputs()))?);
        }
        Ok(counts)
    }

    fn backend_for(&self, _: usize) -> Option<String> {
        Some(self.backend.name())
    }
}

impl CpuLayer {
    /// The counts of a batch that was checked.
    fn count(&self, cpu: &Cpu, batch: &Batch<'_>) -> Result<Vec<u64>> {
        match (&self.weights, batch.inputs) {
            (Prepared::Tables(weights), Inputs::Values(values)) => {
                Ok(cpu.table_counts(weights, &self.spec.input_thresholds(values)?)?)
            }
            (Prepared::Tables(weights), Inputs::Thresholds(thresholds)) => {
                Ok(cpu.table_counts(weights, thresholds)?)
            }
            (Prepared::Tables(_), _) => Err(Error::unsupported("cpu", "streams for a layer of tables")),
            (_, Inputs::Streams(words)) => self.count_streams(cpu, words),
            (_, Inputs::Values(values)) => match self.spec.encoding() {
                Encoding::Bernoulli { .. } => {
                    let inputs = thresholds(values, self.spec.polarity(), Quantity::Value)?;
                    self.count_bernoulli(cpu, &inputs, batch)
                }
                Encoding::Sequences(pairing) => {
                    self.count_sequences(cpu, pairing, &self.spec.input_thresholds(values)?)
                }
                _ => Err(Error::unsupported("cpu", "inputs of this encoding")),
            },
            (_, Inputs::Thresholds(inputs)) => match self.spec.encoding() {
                Encoding::Bernoulli { .. } => {
                    let inputs: Vec<Threshold> = inputs.iter().map(|&t| Threshold::saturating(t)).collect();
                    self.count_bernoulli(cpu, &inputs, batch)
                }
                Encoding::Sequences(pairing) => self.count_sequences(cpu, pairing, inputs),
                _ => Err(Error::unsupported("cpu", "inputs of this encoding")),
            },
            _ => Err(Error::unsupported("cpu", "inputs of this kind")),
        }
    }

    fn shape(&self) -> Result<DenseShape> {
        self.spec.dense_shape().ok_or_else(|| Error::unsupported("cpu", "layers of this kind"))
    }

    fn count_streams(&self, cpu: &Cpu, words: &[u64]) -> Result<Vec<u64>> {
        let (length, polarity) = (self.spec.length(), self.spec.polarity());
        match (&self.weights, self.spec.topology()) {
            (Prepared::Dense { streams, ones }, _) => cpu.dense_counts(&self.shape()?, streams, ones, words),
            (Prepared::Sparse(streams), Topology::Sparse(connections)) => {
                cpu.sparse_counts(connections, length, polarity, streams, words)
            }
            _ => Err(Error::unsupported("cpu", "layers of this kind")),
        }
    }

    fn count_bernoulli(&self, cpu: &Cpu, inputs: &[Threshold], batch: &Batch<'_>) -> Result<Vec<u64>> {
        let (length, polarity) = (self.spec.length(), self.spec.polarity());
        let address = self.spec.input_address(batch.seed);
        match (&self.weights, self.spec.topology()) {
            (Prepared::Dense { streams, ones }, _) => {
                cpu.dense_counts_of(&self.shape()?, streams, ones, inputs, address)
            }
            (Prepared::Sparse(streams), Topology::Sparse(connections)) => {
                cpu.sparse_counts_of(connections, length, polarity, streams, inputs, address)
            }
            _ => Err(Error::unsupported("cpu", "layers of this kind")),
        }
    }

    /// Inputs with shared sequences, encoded a piece at a time.
    fn count_sequences(&self, cpu: &Cpu, pairing: &Pairing, inputs: &[u64]) -> Result<Vec<u64>> {
        let n = self.spec.n_inputs();
        let samples = (INPUT_WORDS / self.spec.sample_words()).max(1);
        let mut counts = Vec::new();
        for piece in inputs.chunks(samples * n) {
            let streams = cpu.encode_shared_inputs(pairing, piece, n, self.spec.length())?;
            counts.append(&mut self.count_streams(cpu, streams.words())?);
        }
        Ok(counts)
    }
}

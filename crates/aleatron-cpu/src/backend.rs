//! The CPU as a [`Backend`]: layers with weights encoded in memory, counted by [`Cpu`].

use crate::conv::{ConvWeights, InputSigns};
use crate::conv_table::TabledConv;
use crate::dense::{Correction, WeightRows};
use crate::encode::Thresholds;
use crate::program::ProgramLayers;
use crate::signed::{SignTable, Terms};
use crate::sparse::ConnectionWeights;
use crate::{Cpu, CpuProgram, TabledWeights, WordBuffer};
use aleatron_core::backend::{
    Batch, CountMethod, Inputs, PrepareOptions, PreparedLayer, WeightStreams,
};
use aleatron_core::program::{PreparedProgram, Program, ProgramLayer};
use aleatron_core::threshold::{extend_thresholds, is_negative, thresholds};
use aleatron_core::{
    Backend, Cancel, Connections, DenseShape, Encoding, Error, InputSource, LayerSpec,
    OperandSequences, Polarity, Quantity, Result, StreamMatrix, Threshold, Topology, WeightSource,
    Weights, memory,
};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Number of words of weight streams encoded between two checks for cancellation: some
/// milliseconds.
const PREPARE_WORDS: usize = 1 << 20;

/// Number of words counted between two checks for cancellation: tens of milliseconds.
const COUNT_WORDS: usize = 1 << 30;

/// Number of words of inputs with shared sequences encoded at a time.
const INPUT_WORDS: usize = 1 << 20;

/// The CPU as a backend: a given [`Cpu`], or the current tier and threads of each call.
#[derive(Debug, Clone, Default)]
pub struct CpuBackend(Option<Cpu>);

impl CpuBackend {
    /// Uses the current tier and threads of each call; see [`Cpu::current`].
    pub const CURRENT: Self = Self(None);

    /// Creates a backend of a given tier and pool.
    #[must_use]
    pub fn new(cpu: Cpu) -> Self {
        Self(Some(cpu))
    }

    /// Returns the tier and threads for a call.
    pub(crate) fn cpu(&self) -> Result<Cpu> {
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
        Ok(Box::new(self.prepare_layer(spec, weights, options)?))
    }

    fn prepare_program(
        &self,
        program: &Arc<Program>,
        options: &PrepareOptions<'_>,
    ) -> Result<Option<Box<dyn PreparedProgram>>> {
        let prepare =
            |layer: &ProgramLayer| self.prepare_layer(&layer.spec, &layer.weights, options);
        let layers = ProgramLayers::Cpu(program.prepare_layers(prepare)?);
        Ok(Some(Box::new(CpuProgram::of(Arc::clone(program), layers, self.clone())?)))
    }

    fn prepare_streams(
        &self,
        spec: &LayerSpec,
        weights: WeightStreams<'_>,
        options: &PrepareOptions<'_>,
    ) -> Result<Option<Box<dyn PreparedLayer>>> {
        weights.check(spec)?;
        let mut streams = WordBuffer::zeroed(spec.weight_words(), Quantity::Weights)?;
        streams.copy_from_slice(weights.words);
        options.cancel.check()?;
        let weights = of_streams(&self.cpu()?, spec, streams, weights.negative.to_vec())?;
        Ok(Some(Box::new(CpuLayer { backend: self.clone(), spec: spec.clone(), weights })))
    }
}

impl CpuBackend {
    fn prepare_layer(
        &self,
        spec: &LayerSpec,
        weights: &Weights,
        options: &PrepareOptions<'_>,
    ) -> Result<CpuLayer> {
        let cpu = self.cpu()?;
        let weights = match (spec.topology(), options.method.resolve(spec)?, spec.encoding()) {
            (Topology::Dense { .. }, CountMethod::Tables, Encoding::Sequences(pairing)) => {
                let shape = spec
                    .dense_shape()
                    .ok_or_else(|| Error::unsupported("cpu", "layers of this kind"))?;
                let thresholds = spec.weight_thresholds(weights)?;
                Prepared::Tables(TabledWeights::new(shape, pairing, &thresholds)?)
            }
            (Topology::Conv(shape), CountMethod::Tables, Encoding::Sequences(pairing))
                if TabledConv::suits(shape) =>
            {
                let thresholds = spec.weight_thresholds(weights)?;
                let (length, polarity) = (spec.length(), spec.polarity());
                Prepared::ConvTables(TabledConv::new(
                    *shape, length, polarity, pairing, thresholds,
                )?)
            }
            _ => {
                let streams = encoded(&cpu, spec, weights, options.cancel)?;
                of_streams(&cpu, spec, streams, negative(spec, weights))?
            }
        };
        Ok(CpuLayer { backend: self.clone(), spec: spec.clone(), weights })
    }
}

/// Prepares the packed weight streams of a layer, with the signs of a signed one.
fn of_streams(
    cpu: &Cpu,
    spec: &LayerSpec,
    mut streams: WordBuffer,
    negative: Vec<bool>,
) -> Result<Prepared> {
    let (n, length, polarity) = (spec.n_inputs(), spec.length(), spec.polarity());
    match spec.topology() {
        Topology::Dense { .. } => {
            let correction = match polarity {
                Polarity::Unipolar => DenseCorrection::Nothing,
                Polarity::Bipolar => {
                    DenseCorrection::Ones(cpu.row_ones(&streams, spec.sample_words()))
                }
                Polarity::Signed => {
                    DenseCorrection::Signs(SignTable::new(cpu, &mut streams, n, length, &negative)?)
                }
            };
            Ok(Prepared::Dense { streams, correction })
        }
        Topology::Sparse(_) => Ok(Prepared::Sparse { streams, negative }),
        Topology::Conv(shape) => {
            Ok(Prepared::Conv(ConvWeights::new(cpu, *shape, length, polarity, streams, negative)?))
        }
        _ => Err(Error::unsupported("cpu", "layers of this kind")),
    }
}

/// Returns the signs of the weights of a signed layer; empty for other layers.
fn negative(spec: &LayerSpec, weights: &Weights) -> Vec<bool> {
    match spec.polarity() {
        Polarity::Unipolar | Polarity::Bipolar => Vec::new(),
        polarity @ Polarity::Signed => {
            weights.values().iter().map(|&w| polarity.is_negative(w)).collect()
        }
    }
}

/// Returns the packed weight streams of a layer, one per weight in their order; for a signed layer,
/// those of the magnitudes.
fn encoded(
    cpu: &Cpu,
    spec: &LayerSpec,
    weights: &Weights,
    cancel: Cancel<'_>,
) -> Result<WordBuffer> {
    let mut streams = WordBuffer::zeroed(spec.weight_words(), Quantity::Weights)?;
    cpu.encode_weights(spec, weights, cancel, &mut streams)?;
    Ok(streams)
}

impl Cpu {
    /// Encodes the packed weight streams of a layer, one per weight in their order; for a signed
    /// layer, those of the magnitudes.
    ///
    /// # Errors
    /// Returns [`Error::Memory`] if they do not fit, [`Error::TooLarge`] if a generator has too few
    /// sequences, [`Error::Cancelled`] if `cancel` requests it.
    pub fn weight_streams(
        &self,
        spec: &LayerSpec,
        weights: &Weights,
        cancel: Cancel<'_>,
    ) -> Result<StreamMatrix> {
        let mut streams = StreamMatrix::zeros(spec.n_weights(), spec.length())?;
        self.encode_weights(spec, weights, cancel, streams.words_mut())?;
        Ok(streams)
    }

    fn encode_weights(
        &self,
        spec: &LayerSpec,
        weights: &Weights,
        cancel: Cancel<'_>,
        out: &mut [u64],
    ) -> Result<()> {
        match (spec.topology(), spec.encoding().weight_source()) {
            (Topology::Sparse(connections), WeightSource::Bernoulli { seed }) => {
                let thresholds = thresholds(weights.values(), spec.polarity(), Quantity::Weight)?;
                if cancel.is_never() {
                    let address = spec.weight_address(seed);
                    return self.encode_connections(
                        connections,
                        &thresholds,
                        spec.length(),
                        address,
                        out,
                    );
                }
                self.encode_some_connections(spec, connections, &thresholds, seed, cancel, out)
            }
            (_, WeightSource::Bernoulli { seed }) => {
                self.encode_weight_rows(spec, weights, seed, cancel, out)
            }
            (_, WeightSource::Sequences(sequences)) => {
                self.encode_shared_weights(spec, &sequences, &spec.weight_thresholds(weights)?, out)
            }
        }
    }

    /// Draws the weight streams of a sparse layer, some neurons at a time.
    fn encode_some_connections(
        &self,
        spec: &LayerSpec,
        connections: &Connections,
        thresholds: &[Threshold],
        seed: u64,
        cancel: Cancel<'_>,
        out: &mut [u64],
    ) -> Result<()> {
        let length = spec.length();
        let (offsets, at_once) = (connections.offsets(), (PREPARE_WORDS / length.words()).max(1));
        let mut first = 0;
        while first < spec.n_neurons() {
            cancel.check()?;
            // As many neurons as have this number of connections together, and at least one.
            let end = offsets.partition_point(|&offset| offset <= offsets[first] + at_once) - 1;
            let neurons = first..end.max(first + 1);
            let part = spec.neurons(neurons.clone())?;
            let range = offsets[neurons.start]..offsets[neurons.end];
            if let Topology::Sparse(connections) = part.topology() {
                let words = &mut out[range.start * length.words()..range.end * length.words()];
                let address = part.weight_address(seed);
                self.encode_connections(connections, &thresholds[range], length, address, words)?;
            }
            first = neurons.end;
        }
        Ok(())
    }

    /// Draws rows of weight streams, some at a time.
    fn encode_weight_rows(
        &self,
        spec: &LayerSpec,
        weights: &Weights,
        seed: u64,
        cancel: Cancel<'_>,
        out: &mut [u64],
    ) -> Result<()> {
        let n = spec.n_weights() / spec.n_rows();
        let row_words = n * spec.length().words();
        let rows = (PREPARE_WORDS / row_words).max(1);
        let first = spec.weight_address(seed);
        let mut thresholds = Vec::new();
        let chunks = out.chunks_mut(rows * row_words).zip(weights.values().chunks(rows * n));
        for (k, (streams, weights)) in chunks.enumerate() {
            cancel.check()?;
            thresholds.clear();
            extend_thresholds(weights, spec.polarity(), Quantity::Weight, &mut thresholds)?;
            let address = first.at_row(first.row.wrapping_add((k * rows) as u32));
            self.encode_rows_into(&thresholds, n, spec.length(), address, streams)?;
        }
        Ok(())
    }
}

/// The weights of a layer in memory.
enum Prepared {
    /// Packed rows of neurons by inputs.
    Dense { streams: WordBuffer, correction: DenseCorrection },
    /// One packed stream per connection, with the signs of a signed layer.
    Sparse { streams: WordBuffer, negative: Vec<bool> },
    /// Packed rows of output channels by taps.
    Conv(ConvWeights),
    /// Thresholds of weights, and tables.
    Tables(TabledWeights),
    /// Thresholds of kernels, and tables.
    ConvTables(TabledConv),
}

/// The correction of counts of a dense layer; see [`Correction`].
enum DenseCorrection {
    Nothing,
    Ones(Vec<u64>),
    Signs(SignTable),
}

impl DenseCorrection {
    fn as_ref(&self) -> Correction<'_> {
        match self {
            Self::Nothing => Correction::Nothing,
            Self::Ones(ones) => Correction::Ones(ones),
            Self::Signs(signs) => Correction::Signs(signs),
        }
    }
}

/// A layer on the CPU.
pub(crate) struct CpuLayer {
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
        self.counts_on(&self.backend.cpu()?, batch, cancel)
    }

    fn backend_for(&self, _: usize) -> Option<String> {
        Some(self.backend.name())
    }
}

impl CpuLayer {
    /// Returns the counts of a batch, computed on a given tier and pool.
    pub(crate) fn counts_on(
        &self,
        cpu: &Cpu,
        batch: &Batch<'_>,
        cancel: Cancel<'_>,
    ) -> Result<Vec<u64>> {
        let n_samples = batch.check(&self.spec)?;
        // Encoding a word costs as much as counting many.
        let cost =
            self.spec.product_words().saturating_add(self.spec.sample_words().saturating_mul(64));
        let samples = (COUNT_WORDS / cost).max(1);
        if n_samples <= samples || cancel.is_never() {
            return self.count(cpu, batch);
        }
        let len = n_samples as u128 * self.spec.n_neurons() as u128;
        let mut counts = memory::with_capacity(len, Quantity::Counts)?;
        for start in (0..n_samples).step_by(samples) {
            cancel.check()?;
            let chunk = batch.samples(&self.spec, start, n_samples.min(start + samples))?;
            let counted = self.count(cpu, &chunk);
            counts
                .append(&mut counted.map_err(|error| error.shifted(start * self.spec.n_inputs()))?);
        }
        Ok(counts)
    }

    /// Counts a validated batch.
    fn count(&self, cpu: &Cpu, batch: &Batch<'_>) -> Result<Vec<u64>> {
        let spec = &self.spec;
        match (&self.weights, spec.encoding().input_source(), batch.inputs) {
            (Prepared::Tables(weights), _, Inputs::Values(values)) => {
                Ok(cpu.table_counts(weights, &spec.input_thresholds(values)?)?)
            }
            (Prepared::Tables(weights), _, Inputs::Thresholds(thresholds)) => {
                Ok(cpu.table_counts(weights, thresholds)?)
            }
            (Prepared::ConvTables(weights), _, Inputs::Values(values)) => {
                cpu.conv_table_counts(weights, &spec.input_thresholds(values)?)
            }
            (Prepared::ConvTables(weights), _, Inputs::Thresholds(thresholds)) => {
                cpu.conv_table_counts(weights, thresholds)
            }
            (Prepared::Tables(_) | Prepared::ConvTables(_), ..) => {
                Err(Error::unsupported("cpu", "streams for a layer of tables"))
            }
            (_, _, Inputs::Streams(words)) => self.count_streams(cpu, words, &[], None),
            (_, _, Inputs::SignedStreams { words, negative }) => {
                self.count_signed_streams(cpu, words, negative)
            }
            (_, InputSource::Bernoulli, Inputs::Values(values))
                if spec.polarity() != Polarity::Signed =>
            {
                let inputs = thresholds(values, spec.polarity(), Quantity::Value)?;
                self.count_bernoulli(cpu, &inputs, &[], batch)
            }
            (_, InputSource::Bernoulli, Inputs::Values(values)) => {
                self.count_thresholds(cpu, &spec.input_thresholds(values)?, batch)
            }
            (_, InputSource::Bernoulli, Inputs::Thresholds(inputs)) => {
                self.count_thresholds(cpu, inputs, batch)
            }
            (_, InputSource::Sequences(sequences), Inputs::Values(values)) => {
                self.count_sequences(cpu, &sequences, &spec.input_thresholds(values)?)
            }
            (_, InputSource::Sequences(sequences), Inputs::Thresholds(inputs)) => {
                self.count_sequences(cpu, &sequences, inputs)
            }
            _ => Err(Error::unsupported("cpu", "inputs of this kind")),
        }
    }

    fn shape(&self) -> Result<DenseShape> {
        self.spec.dense_shape().ok_or_else(|| Error::unsupported("cpu", "layers of this kind"))
    }

    fn connections<'a>(
        &'a self,
        streams: &'a [u64],
        negative: &'a [bool],
    ) -> Result<ConnectionWeights<'a>> {
        let Topology::Sparse(connections) = self.spec.topology() else {
            return Err(Error::unsupported("cpu", "layers of this kind"));
        };
        let (length, polarity) = (self.spec.length(), self.spec.polarity());
        Ok(ConnectionWeights { connections, length, polarity, streams, negative })
    }

    /// Returns the terms of the inputs of a signed dense layer, whose negative streams it
    /// complements. Other layers use the signs themselves.
    fn terms(&self, cpu: &Cpu, words: &mut [u64], negative: &[bool]) -> Option<Terms> {
        let is_needed = self.spec.polarity() == Polarity::Signed
            && matches!(self.weights, Prepared::Dense { .. });
        is_needed.then(|| Terms::new(cpu.tier(), words, self.spec.length(), negative))
    }

    /// Counts streams; for a signed layer, with their signs and terms.
    fn count_streams(
        &self,
        cpu: &Cpu,
        words: &[u64],
        negative: &[bool],
        terms: Option<&Terms>,
    ) -> Result<Vec<u64>> {
        match &self.weights {
            Prepared::Dense { streams, correction } => {
                let rows =
                    WeightRows { shape: &self.shape()?, streams, correction: correction.as_ref() };
                cpu.row_counts(&rows, words, terms)
            }
            Prepared::Sparse { streams, negative: of_weights } => {
                cpu.connection_counts(&self.connections(streams, of_weights)?, words, negative)
            }
            Prepared::Conv(weights) => {
                let signs = if negative.is_empty() {
                    InputSigns::None
                } else {
                    InputSigns::Flags(negative)
                };
                cpu.conv_counts(weights, words, signs)
            }
            Prepared::Tables(_) | Prepared::ConvTables(_) => {
                Err(Error::unsupported("cpu", "streams for a layer of tables"))
            }
        }
    }

    /// Counts a caller's streams of magnitudes, copied a chunk at a time so that they can be
    /// complemented.
    fn count_signed_streams(
        &self,
        cpu: &Cpu,
        words: &[u64],
        negative: &[bool],
    ) -> Result<Vec<u64>> {
        let samples = (INPUT_WORDS / self.spec.sample_words()).max(1);
        let chunks = words.chunks(samples * self.spec.sample_words());
        let mut counts = Vec::new();
        for (words, negative) in chunks.zip(negative.chunks(samples * self.spec.n_inputs())) {
            let mut words = words.to_vec();
            let terms = self.terms(cpu, &mut words, negative);
            counts.append(&mut self.count_streams(cpu, &words, negative, terms.as_ref())?);
        }
        Ok(counts)
    }

    /// Counts thresholds of Bernoulli streams, with signs for a signed layer.
    fn count_thresholds(&self, cpu: &Cpu, inputs: &[u64], batch: &Batch<'_>) -> Result<Vec<u64>> {
        if let Prepared::Conv(weights) = &self.weights {
            let signs = match self.spec.polarity() {
                Polarity::Signed => InputSigns::Thresholds(inputs),
                Polarity::Unipolar | Polarity::Bipolar => InputSigns::None,
            };
            return self.count_conv(cpu, weights, Thresholds::Signed(inputs), signs, batch);
        }
        let negative = self.negative(inputs);
        let inputs: Vec<Threshold> = inputs.iter().map(|&t| Threshold::saturating(t)).collect();
        self.count_bernoulli(cpu, &inputs, &negative, batch)
    }

    /// Returns the signs of the thresholds of a signed layer; empty for other layers.
    fn negative(&self, thresholds: &[u64]) -> Vec<bool> {
        match self.spec.polarity() {
            Polarity::Unipolar | Polarity::Bipolar => Vec::new(),
            Polarity::Signed => {
                thresholds.iter().map(|&threshold| is_negative(threshold)).collect()
            }
        }
    }

    fn count_bernoulli(
        &self,
        cpu: &Cpu,
        inputs: &[Threshold],
        negative: &[bool],
        batch: &Batch<'_>,
    ) -> Result<Vec<u64>> {
        let address = self.spec.input_address(batch.seed);
        match &self.weights {
            Prepared::Dense { streams, correction } => {
                let rows =
                    WeightRows { shape: &self.shape()?, streams, correction: correction.as_ref() };
                cpu.row_counts_of(&rows, inputs, negative, address)
            }
            Prepared::Sparse { streams, negative: of_weights } => cpu.connection_counts_of(
                &self.connections(streams, of_weights)?,
                inputs,
                negative,
                address,
            ),
            Prepared::Conv(weights) => {
                let signs = if negative.is_empty() {
                    InputSigns::None
                } else {
                    InputSigns::Flags(negative)
                };
                self.count_conv(cpu, weights, Thresholds::Checked(inputs), signs, batch)
            }
            Prepared::Tables(_) | Prepared::ConvTables(_) => {
                Err(Error::unsupported("cpu", "layers of this kind"))
            }
        }
    }

    /// Counts a convolution of Bernoulli streams.
    fn count_conv(
        &self,
        cpu: &Cpu,
        weights: &ConvWeights,
        inputs: Thresholds<'_>,
        signs: InputSigns<'_>,
        batch: &Batch<'_>,
    ) -> Result<Vec<u64>> {
        let (n, n_neurons, length) =
            (self.spec.n_inputs(), self.spec.n_neurons(), self.spec.length());
        let address = self.spec.input_address(batch.seed);
        let count = |samples: Range<usize>, words: &mut [u64]| {
            cpu.conv_counts(weights, words, signs.range(samples.start * n..samples.end * n))
        };
        cpu.encode_in_chunks(inputs, n, length, address, n_neurons, count)
    }

    /// Counts inputs with shared sequences, encoded a chunk at a time.
    fn count_sequences(
        &self,
        cpu: &Cpu,
        sequences: &OperandSequences,
        inputs: &[u64],
    ) -> Result<Vec<u64>> {
        let n = self.spec.n_inputs();
        let samples = (INPUT_WORDS / self.spec.sample_words()).max(1);
        let mut counts = Vec::new();
        for chunk in inputs.chunks(samples * n) {
            let mut streams = cpu.encode_shared_inputs(sequences, chunk, n, self.spec.length())?;
            let negative = self.negative(chunk);
            let terms = self.terms(cpu, streams.words_mut(), &negative);
            counts.append(&mut self.count_streams(
                cpu,
                streams.words(),
                &negative,
                terms.as_ref(),
            )?);
        }
        Ok(counts)
    }
}

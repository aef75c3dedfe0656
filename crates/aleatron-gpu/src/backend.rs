//! A device as a [`Backend`] of layers, and as a subject of the conformance suite.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use aleatron_core::backend::{
    Batch, CountMethod, Inputs as BatchInputs, PrepareOptions, PreparedLayer,
};
use aleatron_core::conformance::{Case, Subject, run_layers};
use aleatron_core::generator::Sequence;
use aleatron_core::program::{InputSign, KernelTime, PreparedProgram, Program};
use aleatron_core::threshold::{extend_thresholds, is_negative, magnitude, thresholds};
use aleatron_core::{
    Backend, BitStream, Cancel, Connections, ConvShape, Convolution, Encoding, Error as CoreError,
    InputSource, LayerSpec, Length, OperandSequences, Polarity, Quantity, Sharing, StreamMatrix,
    Threshold, Topology, WeightSource, Weights,
};
use aleatron_device::{AdapterChoice, GpuContext, Profiler, adapter};

use crate::conv::GpuConv;
use crate::conv_table::GpuTabledConv;
use crate::dense::GpuDense;
use crate::encode::encode;
use crate::error::{Error, Result};
use crate::gates;
use crate::inputs::{CountOptions, Inputs, ThresholdSource};
use crate::program::GpuProgram;
use crate::sequence::encode_sequences;
use crate::sparse::GpuSparse;
use crate::table::GpuTabled;

/// Number of integers of sequences sent to a device at a time.
const SEQUENCE_VALUES: usize = 1 << 22;

/// Number of words of inputs with shared sequences encoded at a time.
const INPUT_WORDS: usize = 1 << 22;

/// A device as a backend: encoding, gates, counts, and layers of every kind.
#[derive(Debug, Clone)]
pub struct GpuBackend {
    name: String,
    device: Device,
}

#[derive(Debug, Clone)]
enum Device {
    /// The shared device of the adapter at this index, which is opened again after a loss.
    Shared(usize),
    /// A single device, until it is lost.
    Own(Arc<GpuContext>),
}

impl GpuBackend {
    /// Creates a backend on the shared device of an adapter. It is opened with the first layer.
    ///
    /// # Errors
    /// Returns [`aleatron_device::Error::NoAdapter`] with the available adapters.
    pub fn open(choice: &AdapterChoice) -> Result<Self> {
        let index = adapter::find(choice)?.index;
        Ok(Self { name: name_of(index), device: Device::Shared(index) })
    }

    /// Creates a backend on a given device.
    #[must_use]
    pub fn on(context: Arc<GpuContext>) -> Self {
        Self { name: name_of(context.info().index), device: Device::Own(context) }
    }

    fn context(&self) -> Result<Arc<GpuContext>> {
        match &self.device {
            Device::Shared(index) => Ok(GpuContext::get(&AdapterChoice::Index(*index))?),
            Device::Own(context) => Ok(Arc::clone(context)),
        }
    }

    fn unsupported(&self, what: &str) -> CoreError {
        CoreError::unsupported(&self.name, what)
    }
}

fn name_of(index: usize) -> String {
    format!("gpu:{index}")
}

impl Backend for GpuBackend {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn prepare(
        &self,
        spec: &LayerSpec,
        weights: &Weights,
        options: &PrepareOptions<'_>,
    ) -> aleatron_core::Result<Box<dyn PreparedLayer>> {
        let weights = self.prepare_weights(spec, weights, InputSign::Any, options)?;
        Ok(Box::new(GpuLayer { backend: self.clone(), spec: spec.clone(), weights }))
    }

    fn prepare_program(
        &self,
        program: &Arc<Program>,
        options: &PrepareOptions<'_>,
    ) -> aleatron_core::Result<Option<Box<dyn PreparedProgram>>> {
        let prepared = GpuProgram::new(self, &self.context()?, program, options)?;
        Ok(prepared.map(|prepared| Box::new(prepared) as Box<dyn PreparedProgram>))
    }
}

impl GpuBackend {
    /// Encodes the weights of a layer of any kind and uploads them.
    pub(crate) fn prepare_weights(
        &self,
        spec: &LayerSpec,
        weights: &Weights,
        input_sign: InputSign,
        options: &PrepareOptions<'_>,
    ) -> aleatron_core::Result<Prepared> {
        options.cancel.check()?;
        let prepared = match (spec.topology(), spec.polarity()) {
            (Topology::Dense { .. }, Polarity::Signed) => {
                self.signed_dense(spec, weights, options)?
            }
            (Topology::Sparse(connections), Polarity::Signed) => {
                self.signed_sparse(spec, connections, weights, options)?
            }
            (Topology::Dense { .. }, _) => self.dense(spec, weights, options)?,
            (Topology::Sparse(_), _) => self.sparse(spec, weights, options)?,
            (Topology::Conv(shape), _) => self.convolution(spec, *shape, weights, options)?,
            _ => return Err(self.unsupported("layers of this kind")),
        };
        Ok(match prepared {
            Prepared::Conv(layer) => Prepared::Conv(layer.with_input_sign(input_sign)),
            prepared => prepared,
        })
    }
}

impl GpuBackend {
    fn dense(
        &self,
        spec: &LayerSpec,
        weights: &Weights,
        options: &PrepareOptions<'_>,
    ) -> aleatron_core::Result<Prepared> {
        let context = &self.context()?;
        let shape = spec.dense_shape().ok_or_else(|| self.unsupported("layers of this kind"))?;
        let max_batch = options.max_batch;
        if let (Encoding::Sequences(pairing), CountMethod::Tables) =
            (spec.encoding(), options.method.resolve(spec)?)
        {
            let thresholds = spec.weight_thresholds(weights)?;
            return Ok(Prepared::Tabled(GpuTabled::new(
                context,
                shape,
                max_batch,
                pairing,
                &thresholds,
            )?));
        }
        Ok(Prepared::Dense(match spec.encoding().weight_source() {
            WeightSource::Bernoulli { seed } => {
                let thresholds = thresholds(weights.values(), spec.polarity(), Quantity::Weight)?;
                let first = spec.weight_address(seed);
                GpuDense::drawn(context, shape, max_batch, &thresholds, first, options.cancel)?
            }
            WeightSource::Sequences(sequences) => {
                let thresholds = spec.weight_thresholds(weights)?;
                let words =
                    sequence_weights(context, spec, &sequences, &thresholds, options.cancel)?;
                GpuDense::from_words(context, shape, max_batch, &words)?
            }
        }))
    }

    fn sparse(
        &self,
        spec: &LayerSpec,
        weights: &Weights,
        options: &PrepareOptions<'_>,
    ) -> aleatron_core::Result<Prepared> {
        let context = &self.context()?;
        let Topology::Sparse(connections) = spec.topology() else {
            return Err(self.unsupported("layers of this kind"));
        };
        let (length, polarity, max_batch) = (spec.length(), spec.polarity(), options.max_batch);
        let connections = connections.as_ref().clone();
        Ok(Prepared::Sparse(match spec.encoding().weight_source() {
            WeightSource::Bernoulli { seed } => {
                let weights = thresholds(weights.values(), polarity, Quantity::Weight)?;
                let first = spec.weight_address(seed);
                GpuSparse::from_thresholds(
                    context,
                    connections,
                    length,
                    polarity,
                    max_batch,
                    &weights,
                    first,
                )?
            }
            WeightSource::Sequences(sequences) => {
                let thresholds = spec.weight_thresholds(weights)?;
                let words =
                    sequence_weights(context, spec, &sequences, &thresholds, options.cancel)?;
                GpuSparse::from_words(context, connections, length, polarity, max_batch, &words)?
            }
        }))
    }
}

impl GpuBackend {
    /// Prepares a signed dense layer: from a table if one pair of sequences is shared by all and
    /// the table is not too large, otherwise as a convolution of one position.
    fn signed_dense(
        &self,
        spec: &LayerSpec,
        weights: &Weights,
        options: &PrepareOptions<'_>,
    ) -> aleatron_core::Result<Prepared> {
        if let (Encoding::Sequences(pairing), CountMethod::Tables, Some(shape)) =
            (spec.encoding(), options.method.resolve(spec)?, spec.dense_shape())
            && pairing.sharing == Sharing::OneForAll
        {
            let (context, thresholds) = (&self.context()?, spec.weight_thresholds(weights)?);
            match GpuTabled::new(context, shape, options.max_batch, pairing, &thresholds) {
                Err(Error::TooLarge { .. }) => {}
                layer => return Ok(Prepared::Tabled(layer?)),
            }
        }
        let one = Convolution::conv2d([spec.n_inputs(), 1, 1], spec.n_neurons(), [1, 1]);
        self.convolution_of_bits(spec, ConvShape::new(one)?, weights, options)
    }

    fn convolution(
        &self,
        spec: &LayerSpec,
        shape: ConvShape,
        weights: &Weights,
        options: &PrepareOptions<'_>,
    ) -> aleatron_core::Result<Prepared> {
        if let (Encoding::Sequences(pairing), CountMethod::Tables) =
            (spec.encoding(), options.method.resolve(spec)?)
        {
            let (context, thresholds) = (&self.context()?, spec.weight_thresholds(weights)?);
            let (length, polarity, max_batch) = (spec.length(), spec.polarity(), options.max_batch);
            match GpuTabledConv::new(
                context,
                shape,
                length,
                polarity,
                max_batch,
                pairing,
                &thresholds,
            ) {
                Err(Error::TooLarge { .. }) => {}
                layer => return Ok(Prepared::TabledConv(layer?)),
            }
        }
        self.convolution_of_bits(spec, shape, weights, options)
    }

    fn convolution_of_bits(
        &self,
        spec: &LayerSpec,
        shape: ConvShape,
        weights: &Weights,
        options: &PrepareOptions<'_>,
    ) -> aleatron_core::Result<Prepared> {
        let context = &self.context()?;
        let (length, polarity) = (spec.length(), spec.polarity());
        let words = match spec.encoding().weight_source() {
            WeightSource::Bernoulli { seed } => {
                let thresholds = thresholds(weights.values(), polarity, Quantity::Weight)?;
                let n_units = spec.n_weights() / spec.n_rows();
                encode(context, &thresholds, n_units, length, spec.weight_address(seed))?
                    .into_words()
            }
            WeightSource::Sequences(sequences) => {
                let thresholds = magnitudes(spec.weight_thresholds(weights)?);
                sequence_weights(context, spec, &sequences, &thresholds, options.cancel)?
            }
        };
        let negative = match polarity {
            Polarity::Unipolar | Polarity::Bipolar => Vec::new(),
            Polarity::Signed => weights.values().iter().map(|&w| polarity.is_negative(w)).collect(),
        };
        let max_batch = options.max_batch;
        Ok(Prepared::Conv(GpuConv::from_words(
            context, shape, length, polarity, max_batch, &words, &negative,
        )?))
    }

    /// Prepares a signed sparse layer as two unipolar ones: the connections with non-negative
    /// weights, and the others.
    fn signed_sparse(
        &self,
        spec: &LayerSpec,
        connections: &Connections,
        weights: &Weights,
        options: &PrepareOptions<'_>,
    ) -> aleatron_core::Result<Prepared> {
        let part = |is_negative: bool| {
            let (mut rows, mut values) = (Vec::new(), Vec::new());
            for neuron in 0..connections.n_neurons() {
                let first = connections.offsets()[neuron];
                let weights = &weights.values()[first..];
                let selected = connections.inputs_of(neuron).iter().zip(weights);
                let selected: Vec<_> =
                    selected.filter(|(_, w)| (**w < 0.0) == is_negative).collect();
                rows.push(selected.iter().map(|(input, _)| **input as usize).collect::<Vec<_>>());
                values.extend(selected.iter().map(|(_, w)| w.abs()));
            }
            if values.is_empty() {
                return Ok(None);
            }
            let connections = Connections::from_rows(rows, connections.n_inputs())?;
            let (length, encoding) = (spec.length(), *spec.encoding());
            let part = LayerSpec::sparse(connections, length, Polarity::Unipolar, encoding)?;
            let part = part.at(spec.index()).starting_at(spec.first_neuron());
            let weights = Weights::new(&part, values)?;
            match self.sparse(&part, &weights, options)? {
                Prepared::Sparse(layer) => Ok(Some(layer)),
                _ => Err(self.unsupported("layers of this kind")),
            }
        };
        Ok(Prepared::SignedSparse {
            positive: part(false)?,
            negative: part(true)?,
            context: self.context()?,
        })
    }
}

/// Removes the signs of thresholds.
fn magnitudes(mut thresholds: Vec<u64>) -> Vec<u64> {
    thresholds.iter_mut().for_each(|threshold| *threshold = magnitude(*threshold));
    thresholds
}

/// Returns the integers of sequences, one after the other.
pub(crate) fn integers(
    sequences: impl Iterator<Item = aleatron_core::Result<Sequence>>,
    length: Length,
) -> Result<Vec<u32>> {
    let mut values = Vec::new();
    for sequence in sequences {
        values.extend(sequence?.values().take(length.bits()));
    }
    Ok(values)
}

/// Returns the packed weight streams of a layer whose weights share sequences.
fn sequence_weights(
    context: &Arc<GpuContext>,
    spec: &LayerSpec,
    shared: &OperandSequences,
    thresholds: &[u64],
    cancel: Cancel<'_>,
) -> aleatron_core::Result<Vec<u64>> {
    let length = spec.length();
    let n = match spec.topology() {
        Topology::Conv(shape) => shape.kernel_weights(),
        _ => spec.n_inputs(),
    };
    if shared.sharing == Sharing::OneForAll {
        let values = integers(std::iter::once(Ok(shared.first)), length)?;
        return Ok(encode_sequences(context, &values, thresholds, 1, length)?);
    }
    let mut weight_indices = (0..spec.n_rows()).flat_map(|neuron| {
        let inputs: Vec<usize> = match spec.topology() {
            Topology::Sparse(connections) => {
                connections.inputs_of(neuron).iter().map(|&input| input as usize).collect()
            }
            _ => (0..n).collect(),
        };
        inputs.into_iter().map(move |input| (spec.first_neuron() as usize + neuron, input))
    });
    // One sequence per stream, for some streams at a time.
    let at_once = (SEQUENCE_VALUES / length.bits()).max(1);
    let mut words = Vec::new();
    for chunk in thresholds.chunks(at_once) {
        cancel.check()?;
        let sequences = weight_indices.by_ref().take(chunk.len());
        let values =
            integers(sequences.map(|(neuron, input)| shared.weight(neuron, input, n)), length)?;
        words.append(&mut encode_sequences(context, &values, chunk, chunk.len(), length)?);
    }
    Ok(words)
}

/// The weights of a layer on a device.
#[derive(Debug)]
pub(crate) enum Prepared {
    Dense(GpuDense),
    Sparse(GpuSparse),
    Tabled(GpuTabled),
    Conv(GpuConv),
    TabledConv(GpuTabledConv),
    /// The connections with non-negative weights, and the others, if any.
    SignedSparse {
        positive: Option<GpuSparse>,
        negative: Option<GpuSparse>,
        context: Arc<GpuContext>,
    },
}

impl Prepared {
    fn context(&self) -> &Arc<GpuContext> {
        match self {
            Self::Dense(layer) => layer.context(),
            Self::Sparse(layer) => layer.context(),
            Self::Tabled(layer) => layer.context(),
            Self::Conv(layer) => layer.context(),
            Self::TabledConv(layer) => layer.context(),
            Self::SignedSparse { context, .. } => context,
        }
    }
}

/// A layer on a device.
struct GpuLayer {
    backend: GpuBackend,
    spec: LayerSpec,
    weights: Prepared,
}

impl fmt::Debug for GpuLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { backend, spec, .. } = self;
        f.debug_struct("GpuLayer")
            .field("backend", backend)
            .field("spec", spec)
            .finish_non_exhaustive()
    }
}

impl PreparedLayer for GpuLayer {
    fn counts(&self, batch: &Batch<'_>, cancel: Cancel<'_>) -> aleatron_core::Result<Vec<u64>> {
        self.count_batch(batch, CountOptions { cancel, ..CountOptions::default() })
    }

    fn profile(
        &self,
        batch: &Batch<'_>,
        cancel: Cancel<'_>,
    ) -> aleatron_core::Result<Vec<KernelTime>> {
        let mut profiler = Profiler::new(self.weights.context()).map_err(Error::from)?;
        self.count_batch(batch, CountOptions { cancel, ..CountOptions::profiled(&mut profiler) })?;
        Ok(kernel_times(&profiler))
    }

    fn is_lost(&self) -> bool {
        self.weights.context().is_lost()
    }

    fn backend_for(&self, _: usize) -> Option<String> {
        Some(self.backend.name())
    }
}

/// Returns the times of a profiler.
pub(crate) fn kernel_times(profiler: &Profiler) -> Vec<KernelTime> {
    let times = profiler.rows().iter().map(|row| KernelTime {
        name: row.kernel.to_string(),
        launches: u32::try_from(row.calls).unwrap_or(u32::MAX),
        time: row.time,
        bytes: row.bytes,
    });
    times.collect()
}

impl GpuLayer {
    fn count_batch(
        &self,
        batch: &Batch<'_>,
        options: CountOptions<'_>,
    ) -> aleatron_core::Result<Vec<u64>> {
        let n_samples = batch.check(&self.spec)?;
        if let Prepared::SignedSparse { .. } = &self.weights {
            return self.count_signed_sparse(batch, options.cancel);
        }
        match (self.spec.encoding().input_source(), batch.inputs) {
            (_, BatchInputs::Streams(words)) => self.count(Inputs::Streams(words), &[], options),
            (_, BatchInputs::SignedStreams { words, negative }) => {
                self.count(Inputs::Streams(words), negative, options)
            }
            (InputSource::Bernoulli, _) => self.count_bernoulli(batch, n_samples, options),
            (InputSource::Sequences(sequences), BatchInputs::Thresholds(thresholds)) => {
                self.count_sequences(&sequences, thresholds, options)
            }
            (InputSource::Sequences(sequences), BatchInputs::Values(values)) => {
                self.count_sequences(&sequences, &self.spec.input_thresholds(values)?, options)
            }
            _ => Err(self.backend.unsupported("inputs of this kind")),
        }
    }

    /// Counts streams, or draws them from thresholds; for a signed layer, with the signs of the
    /// inputs.
    fn count(
        &self,
        inputs: Inputs<'_>,
        negative: &[bool],
        options: CountOptions<'_>,
    ) -> aleatron_core::Result<Vec<u64>> {
        match &self.weights {
            Prepared::Dense(layer) => Ok(layer.counts_with(inputs, options)?),
            Prepared::Sparse(layer) => Ok(layer.counts_with(inputs, options)?),
            Prepared::Conv(layer) => Ok(layer.counts_with(inputs, negative, options)?),
            Prepared::Tabled(_) | Prepared::TabledConv(_) => {
                Err(self.backend.unsupported("streams for a layer of tables"))
            }
            Prepared::SignedSparse { .. } => Err(self.backend.unsupported("inputs of this kind")),
        }
    }

    /// Returns the signs of the inputs of a signed layer; empty for other layers.
    fn negative(&self, batch: &Batch<'_>) -> Vec<bool> {
        let polarity = self.spec.polarity();
        match batch.inputs {
            _ if polarity != Polarity::Signed => Vec::new(),
            BatchInputs::Values(values) => {
                values.iter().map(|&x| polarity.is_negative(x)).collect()
            }
            BatchInputs::Thresholds(thresholds) => {
                thresholds.iter().map(|&t| is_negative(t)).collect()
            }
            BatchInputs::SignedStreams { negative, .. } => negative.to_vec(),
            _ => Vec::new(),
        }
    }

    /// Counts both parts of the weights with both parts of the inputs: ones shared by operands of
    /// equal signs are added, others subtracted.
    fn count_signed_sparse(
        &self,
        batch: &Batch<'_>,
        cancel: Cancel<'_>,
    ) -> aleatron_core::Result<Vec<u64>> {
        let Prepared::SignedSparse { positive, negative, context } = &self.weights else {
            return Err(self.backend.unsupported("layers of this kind"));
        };
        let (n, length, signs) = (self.spec.n_inputs(), self.spec.length(), self.negative(batch));
        let words = match (self.spec.encoding().input_source(), batch.inputs) {
            (_, BatchInputs::SignedStreams { words, .. }) => words.to_vec(),
            (InputSource::Bernoulli, BatchInputs::Values(values)) => {
                let thresholds = thresholds(values, self.spec.polarity(), Quantity::Value)?;
                encode(context, &thresholds, n, length, self.spec.input_address(batch.seed))?
                    .into_words()
            }
            (InputSource::Bernoulli, BatchInputs::Thresholds(all)) => {
                let thresholds: Vec<_> = all.iter().map(|&t| Threshold::saturating(t)).collect();
                encode(context, &thresholds, n, length, self.spec.input_address(batch.seed))?
                    .into_words()
            }
            (InputSource::Sequences(sequences), BatchInputs::Values(values)) => {
                self.sequence_streams(&sequences, &self.spec.input_thresholds(values)?)?
            }
            (InputSource::Sequences(sequences), BatchInputs::Thresholds(all)) => {
                self.sequence_streams(&sequences, all)?
            }
            _ => return Err(self.backend.unsupported("inputs of this kind")),
        };
        let n_samples = signs.len() / n;
        let fan_ins = self.spec.topology().fan_ins();
        let start = fan_ins.iter().map(|&n| n as u64 * length.bits() as u64);
        let mut counts: Vec<u64> = start.cycle().take(n_samples * self.spec.n_neurons()).collect();
        for of_negative in [false, true] {
            if of_negative && !signs.contains(&true) {
                continue;
            }
            let mut words = words.clone();
            for (stream, &is_negative) in words.chunks_exact_mut(length.words()).zip(&signs) {
                if is_negative != of_negative {
                    stream.fill(0);
                }
            }
            for (part, counts_up) in [(positive, !of_negative), (negative, of_negative)] {
                let Some(layer) = part else { continue };
                let options = CountOptions { cancel, ..CountOptions::default() };
                let shared = layer.counts_with(Inputs::Streams(&words), options)?;
                for (count, shared) in counts.iter_mut().zip(shared) {
                    *count = if counts_up { *count + shared } else { count.wrapping_sub(shared) };
                }
            }
        }
        Ok(counts)
    }

    /// Encodes the streams of inputs with shared sequences.
    fn sequence_streams(
        &self,
        sequences: &OperandSequences,
        thresholds: &[u64],
    ) -> Result<Vec<u64>> {
        let (n, length) = (self.spec.n_inputs(), self.spec.length());
        let period = if sequences.sharing == Sharing::OneForAll { 1 } else { n };
        let values = integers((0..period).map(|input| sequences.input(input)), length)?;
        let thresholds = magnitudes(thresholds.to_vec());
        encode_sequences(self.weights.context(), &values, &thresholds, period, length)
    }

    /// Counts Bernoulli inputs; thresholds are computed while the device counts the previous
    /// samples.
    fn count_bernoulli(
        &self,
        batch: &Batch<'_>,
        n_samples: usize,
        options: CountOptions<'_>,
    ) -> aleatron_core::Result<Vec<u64>> {
        let (n, polarity) = (self.spec.n_inputs(), self.spec.polarity());
        let mut fill = |samples: Range<usize>, out: &mut Vec<Threshold>| -> Result<()> {
            let range = samples.start * n..samples.end * n;
            match batch.inputs {
                BatchInputs::Values(values) => {
                    let counted =
                        extend_thresholds(&values[range.clone()], polarity, Quantity::Value, out);
                    counted.map_err(|error| error.shifted(range.start))?;
                }
                BatchInputs::Thresholds(all) => {
                    out.extend(
                        all[range].iter().map(|&threshold| Threshold::saturating(threshold)),
                    );
                }
                _ => return Err(self.backend.unsupported("inputs of this kind").into()),
            }
            Ok(())
        };
        let source = ThresholdSource::Filled { n_samples, fill: &mut fill };
        let first = self.spec.input_address(batch.seed);
        self.count(Inputs::Thresholds { source, first }, &self.negative(batch), options)
    }

    /// Counts inputs with shared sequences: from tables, or encoded a chunk at a time.
    fn count_sequences(
        &self,
        sequences: &OperandSequences,
        thresholds: &[u64],
        options: CountOptions<'_>,
    ) -> aleatron_core::Result<Vec<u64>> {
        if let Prepared::Tabled(layer) = &self.weights {
            return Ok(layer.counts_with(ThresholdSource::Slice(thresholds), options)?);
        }
        if let Prepared::TabledConv(layer) = &self.weights {
            return Ok(layer.counts_with(thresholds, options)?);
        }
        let (n, cancel) = (self.spec.n_inputs(), options.cancel);
        let samples = (INPUT_WORDS / self.spec.sample_words()).max(1);
        let mut counts = Vec::new();
        for chunk in thresholds.chunks(samples * n) {
            cancel.check()?;
            let streams = self.sequence_streams(sequences, chunk)?;
            let options = CountOptions { cancel, ..CountOptions::default() };
            let negative: Vec<bool> = match self.spec.polarity() {
                Polarity::Unipolar | Polarity::Bipolar => Vec::new(),
                Polarity::Signed => chunk.iter().map(|&t| is_negative(t)).collect(),
            };
            counts.append(&mut self.count(Inputs::Streams(&streams), &negative, options)?);
        }
        Ok(counts)
    }
}

impl Subject for GpuBackend {
    fn run(&self, case: &Case) -> Option<aleatron_core::Result<Vec<u64>>> {
        match case {
            Case::Layer(_) | Case::Network(_) | Case::Program(_) => run_layers(self, case),
            _ => self.answer(case).transpose().map(|answer| Ok(answer?)),
        }
    }
}

impl GpuBackend {
    /// Answers a case other than layers; `None` if it is unsupported.
    fn answer(&self, case: &Case) -> Result<Option<Vec<u64>>> {
        let context = &self.context()?;
        Ok(Some(match case {
            Case::Encode { thresholds, length, address } => {
                encode(context, thresholds, thresholds.len(), *length, *address)?.into_words()
            }
            Case::EncodeSequence { sequence, thresholds, length } => {
                let values = integers(std::iter::once(Ok(*sequence)), *length)?;
                encode_sequences(context, &values, thresholds, 1, *length)?
            }
            Case::Gate { gate, a, b } => {
                gates::gate(context, *gate, &matrix(a)?, &matrix(b)?)?.into_words()
            }
            Case::Not { a } => gates::not(context, &matrix(a)?)?.into_words(),
            Case::Mux { select, a, b } => {
                gates::mux(context, &matrix(select)?, &matrix(a)?, &matrix(b)?)?.into_words()
            }
            Case::Popcount { a } => gates::popcount(context, &matrix(a)?)?,
            Case::AndPopcount { a, b } => gates::and_popcount(context, &matrix(a)?, &matrix(b)?)?,
            Case::Hamming { a, b } => gates::hamming_distance(context, &matrix(a)?, &matrix(b)?)?,
            _ => return Ok(None),
        }))
    }
}

/// Returns one stream as a matrix.
fn matrix(stream: &BitStream) -> Result<StreamMatrix> {
    Ok(StreamMatrix::from_words(stream.words().to_vec(), 1, stream.length())?)
}

//! A device as a [`Backend`] of layers, and in the suite that every backend must pass.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use aleatron_core::backend::{Batch, CountMethod, Inputs as BatchInputs, PrepareOptions, PreparedLayer};
use aleatron_core::conformance::{Case, Subject, run_layers};
use aleatron_core::generator::Sequence;
use aleatron_core::threshold::{extend_thresholds, thresholds};
use aleatron_core::{
    Backend, BitStream, Cancel, Encoding, Error as CoreError, LayerSpec, Length, Pairing, Polarity, Quantity,
    Sharing, StreamMatrix, Threshold, Topology, Weights,
};
use aleatron_device::{AdapterChoice, GpuContext, adapter};

use crate::dense::GpuDense;
use crate::encode::encode;
use crate::error::Result;
use crate::gates;
use crate::inputs::{CountOptions, Inputs, ThresholdSource};
use crate::sequence::encode_sequences;
use crate::sparse::GpuSparse;
use crate::table::GpuTabled;

/// Integers of sequences sent to a device at a time.
const SEQUENCE_VALUES: usize = 1 << 22;

/// Words of inputs with shared sequences encoded at a time.
const INPUT_WORDS: usize = 1 << 22;

/// A device as a backend: encoding, gates, counts, and layers of every kind.
#[derive(Debug, Clone)]
pub struct GpuBackend {
    name: String,
    device: Device,
}

#[derive(Debug, Clone)]
enum Device {
    /// The shared device of the adapter at this place, which is opened anew where it was lost.
    Shared(usize),
    /// One device, for as long as it lives.
    Own(Arc<GpuContext>),
}

impl GpuBackend {
    /// The shared device of an adapter. It is opened with the first layer.
    ///
    /// # Errors
    /// [`aleatron_device::Error::NoAdapter`] with the adapters there are.
    pub fn open(choice: &AdapterChoice) -> Result<Self> {
        let index = adapter::find(choice)?.index;
        Ok(Self { name: name_of(index), device: Device::Shared(index) })
    }

    /// A given device.
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
        options.cancel.check()?;
        if spec.polarity() == Polarity::Signed {
            return Err(self.unsupported("signed layers"));
        }
        let weights = match (spec.topology(), spec.encoding()) {
            (Topology::Dense { .. }, _) => self.dense(spec, weights, options)?,
            (Topology::Sparse(_), _) => self.sparse(spec, weights, options)?,
            (Topology::Conv(_), _) => return Err(self.unsupported("convolutions")),
            _ => return Err(self.unsupported("layers of this kind")),
        };
        Ok(Box::new(GpuLayer { backend: self.clone(), spec: spec.clone(), weights }))
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
        Ok(match spec.encoding() {
            Encoding::Bernoulli { seed } => {
                let thresholds = thresholds(weights.values(), spec.polarity(), Quantity::Weight)?;
                let first = spec.weight_address(*seed);
                let cancel = options.cancel;
                Prepared::Dense(GpuDense::drawn(context, shape, max_batch, &thresholds, first, cancel)?)
            }
            Encoding::Sequences(pairing) => {
                let thresholds = spec.weight_thresholds(weights)?;
                match options.method.resolve(spec)? {
                    CountMethod::Tables => {
                        Prepared::Tabled(GpuTabled::new(context, shape, max_batch, pairing, &thresholds)?)
                    }
                    _ => {
                        let words = sequence_weights(context, spec, pairing, &thresholds, options.cancel)?;
                        Prepared::Dense(GpuDense::from_words(context, shape, max_batch, &words)?)
                    }
                }
            }
            _ => return Err(self.unsupported("weights of this encoding")),
        })
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
        Ok(Prepared::Sparse(match spec.encoding() {
            Encoding::Bernoulli { seed } => {
                let weights = thresholds(weights.values(), polarity, Quantity::Weight)?;
                let first = spec.weight_address(*seed);
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
            Encoding::Sequences(pairing) => {
                let thresholds = spec.weight_thresholds(weights)?;
                let words = sequence_weights(context, spec, pairing, &thresholds, options.cancel)?;
                GpuSparse::from_words(context, connections, length, polarity, max_batch, &words)?
            }
            _ => return Err(self.unsupported("weights of this encoding")),
        }))
    }
}

/// The integers of sequences, one after the other.
fn integers(
    sequences: impl Iterator<Item = aleatron_core::Result<Sequence>>,
    length: Length,
) -> Result<Vec<u32>> {
    let mut values = Vec::new();
    for sequence in sequences {
        values.extend(sequence?.values().take(length.bits()));
    }
    Ok(values)
}

/// The packed weight streams of a layer with shared sequences.
fn sequence_weights(
    context: &Arc<GpuContext>,
    spec: &LayerSpec,
    pairing: &Pairing,
    thresholds: &[u64],
    cancel: Cancel<'_>,
) -> aleatron_core::Result<Vec<u64>> {
    let (n, length) = (spec.n_inputs(), spec.length());
    if pairing.sharing == Sharing::OneForAll {
        let values = integers(std::iter::once(Ok(pairing.weights)), length)?;
        return Ok(encode_sequences(context, &values, thresholds, 1, length)?);
    }
    let mut places = (0..spec.n_neurons()).flat_map(|neuron| {
        let inputs: Vec<usize> = match spec.topology() {
            Topology::Sparse(connections) => {
                connections.inputs_of(neuron).iter().map(|&input| input as usize).collect()
            }
            _ => (0..n).collect(),
        };
        inputs.into_iter().map(move |input| (spec.first_neuron() as usize + neuron, input))
    });
    // A sequence for each stream, those of some streams at a time.
    let at_once = (SEQUENCE_VALUES / length.bits()).max(1);
    let mut words = Vec::new();
    for piece in thresholds.chunks(at_once) {
        cancel.check()?;
        let sequences = places.by_ref().take(piece.len());
        let values = integers(sequences.map(|(neuron, input)| pairing.weight(neuron, input, n)), length)?;
        words.append(&mut encode_sequences(context, &values, piece, piece.len(), length)?);
    }
    Ok(words)
}

/// The weights of a layer on a device.
enum Prepared {
    Dense(GpuDense),
    Sparse(GpuSparse),
    Tabled(GpuTabled),
}

impl Prepared {
    fn context(&self) -> &Arc<GpuContext> {
        match self {
            Self::Dense(layer) => layer.context(),
            Self::Sparse(layer) => layer.context(),
            Self::Tabled(layer) => layer.context(),
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
        f.debug_struct("GpuLayer").field("backend", backend).field("spec", spec).finish_non_exhaustive()
    }
}

impl PreparedLayer for GpuLayer {
    fn counts(&self, batch: &Batch<'_>, cancel: Cancel<'_>) -> aleatron_core::Result<Vec<u64>> {
        let n_samples = batch.check(&self.spec)?;
        let options = CountOptions { cancel, ..CountOptions::default() };
        match (self.spec.encoding(), batch.inputs) {
            (_, BatchInputs::Streams(words)) => self.count(Inputs::Streams(words), options),
            (Encoding::Bernoulli { .. }, _) => self.count_bernoulli(batch, n_samples, options),
            (Encoding::Sequences(pairing), BatchInputs::Thresholds(thresholds)) => {
                self.count_sequences(pairing, thresholds, options)
            }
            (Encoding::Sequences(pairing), BatchInputs::Values(values)) => {
                self.count_sequences(pairing, &self.spec.input_thresholds(values)?, options)
            }
            _ => Err(self.backend.unsupported("inputs of this kind")),
        }
    }

    fn is_lost(&self) -> bool {
        self.weights.context().is_lost()
    }

    fn backend_for(&self, _: usize) -> Option<String> {
        Some(self.backend.name())
    }
}

impl GpuLayer {
    fn count(&self, inputs: Inputs<'_>, options: CountOptions<'_>) -> aleatron_core::Result<Vec<u64>> {
        match &self.weights {
            Prepared::Dense(layer) => Ok(layer.counts_with(inputs, options)?),
            Prepared::Sparse(layer) => Ok(layer.counts_with(inputs, options)?),
            Prepared::Tabled(_) => Err(self.backend.unsupported("streams for a layer of tables")),
        }
    }

    /// Thresholds are made while the device counts the samples before.
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
                    let made = extend_thresholds(&values[range.clone()], polarity, Quantity::Value, out);
                    made.map_err(|error| error.shifted(range.start))?;
                }
                BatchInputs::Thresholds(all) => {
                    out.extend(all[range].iter().map(|&threshold| Threshold::saturating(threshold)));
                }
                _ => return Err(self.backend.unsupported("inputs of this kind").into()),
            }
            Ok(())
        };
        let source = ThresholdSource::Filled { n_samples, fill: &mut fill };
        let first = self.spec.input_address(batch.seed);
        self.count(Inputs::Thresholds { source, first }, options)
    }

    /// Inputs with shared sequences: from tables, or encoded a piece at a time.
    fn count_sequences(
        &self,
        pairing: &Pairing,
        thresholds: &[u64],
        options: CountOptions<'_>,
    ) -> aleatron_core::Result<Vec<u64>> {
        if let Prepared::Tabled(layer) = &self.weights {
            return Ok(layer.counts_with(ThresholdSource::Slice(thresholds), options)?);
        }
        let (n, length, cancel) = (self.spec.n_inputs(), self.spec.length(), options.cancel);
        let period = if pairing.sharing == Sharing::OneForAll { 1 } else { n };
        let values = integers((0..period).map(|input| pairing.input(input)), length)?;
        let samples = (INPUT_WORDS / self.spec.sample_words()).max(1);
        let mut counts = Vec::new();
        for piece in thresholds.chunks(samples * n) {
            cancel.check()?;
            let streams = encode_sequences(self.weights.context(), &values, piece, period, length)?;
            let options = CountOptions { cancel, ..CountOptions::default() };
            counts.append(&mut self.count(Inputs::Streams(&streams), options)?);
        }
        Ok(counts)
    }
}

impl Subject for GpuBackend {
    fn run(&self, case: &Case) -> Option<aleatron_core::Result<Vec<u64>>> {
        match case {
            Case::Layer(_) | Case::Network(_) => run_layers(self, case),
            _ => self.answer(case).transpose().map(|answer| Ok(answer?)),
        }
    }
}

impl GpuBackend {
    /// The answer to a case of anything but layers; `None` without code for it.
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
            Case::Gate { gate, a, b } => gates::gate(context, *gate, &matrix(a)?, &matrix(b)?)?.into_words(),
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

/// One stream as a matrix.
fn matrix(stream: &BitStream) -> Result<StreamMatrix> {
    Ok(StreamMatrix::from_words(stream.words().to_vec(), 1, stream.length())?)
}

//! Layers: weights are encoded once and stay on the device; inputs are encoded in each call.
//!
//! A [`StreamLayer`] is a [`LayerSpec`] with its weights on a [`Backend`]. Every call, for one
//! sample, a batch, or encoded streams, is one operation: count, for each sample and neuron, the
//! ones (or matches) of input and weight streams.

use crate::backend::{
    self, Backend, Batch, CountMethod, Device, DeviceBatch, Inputs, KernelTime, PrepareOptions,
    PreparedLayer,
};
use crate::{Error, Result};
use aleatron_core::generator::{GeneratorName, Pairing, Sharing, Warning, WidthChoice};
use aleatron_core::threshold::thresholds;
use aleatron_core::{
    BackendFault, Cancel, Connections, ConvShape, Convolution, Encoding, Error as CoreError,
    LayerIndex, LayerSpec, Length, Polarity, Quantity, SampleSeed, StreamAddress, StreamMatrix,
    Topology, Weights, memory,
};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

/// The default seed of a layer's weights.
pub const DEFAULT_WEIGHT_SEED: u64 = 24301;

/// A layer of stochastic neurons.
///
/// Its weight streams are encoded once and retained. A call encodes the input streams of its seed
/// and counts; the same seed gives the same bits, on any device, tier, number of threads or batch.
///
/// ```
/// use aleatron_engine::StreamLayer;
/// let layer = StreamLayer::dense(2, 1).bipolar().length(4096).weights(&[0.5, -1.0]).build()?;
/// let y = layer.forward(&[-0.5, 0.25], 2)?[0]; // about 0.5 * -0.5 + -1.0 * 0.25
/// assert!((y + 0.5).abs() < 0.1);
/// # Ok::<(), aleatron_engine::Error>(())
/// ```
pub struct StreamLayer {
    spec: LayerSpec,
    weights: Weights,
    device: Device,
    method: CountMethod,
    max_batch: usize,
    warnings: Vec<Warning>,
    backend: Arc<dyn Backend>,
    prepared: PreparedSlot,
    /// Prepared with the first encoded streams, if the layer otherwise counts from tables.
    bits: PreparedSlot,
}

/// The layer on its backend, once it is prepared.
#[derive(Debug, Default)]
struct PreparedSlot(RwLock<Option<Arc<dyn PreparedLayer>>>);

impl PreparedSlot {
    fn new(prepared: Box<dyn PreparedLayer>) -> Self {
        Self(RwLock::new(Some(prepared.into())))
    }

    /// Returns the layer, if it was prepared.
    fn get(&self) -> Option<Arc<dyn PreparedLayer>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the prepared layer, preparing it if no thread has done so or if its device was lost.
    fn get_or_prepare(
        &self,
        prepare: impl FnOnce() -> aleatron_core::Result<Box<dyn PreparedLayer>>,
    ) -> Result<Arc<dyn PreparedLayer>> {
        if let Some(layer) = self.get().filter(|layer| !layer.is_lost()) {
            return Ok(layer);
        }
        let mut slot = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match &*slot {
            Some(layer) if !layer.is_lost() => Ok(Arc::clone(layer)),
            _ => Ok(Arc::clone(slot.insert(prepare()?.into()))),
        }
    }
}

impl StreamLayer {
    /// Starts a layer in which every neuron is connected to every input.
    #[must_use]
    pub fn dense(n_inputs: usize, n_neurons: usize) -> LayerBuilder {
        Self::of(Topology::Dense { n_inputs, n_neurons })
    }

    /// Starts a layer whose neurons have separate lists of inputs, with a cost proportional to the
    /// connections. A connection has the weight stream of the same connection in the dense layer of
    /// the same seed, so a fully connected layer has the counts of the dense one:
    ///
    /// ```
    /// use aleatron_core::Connections;
    /// use aleatron_engine::StreamLayer;
    /// let sparse = StreamLayer::sparse(Connections::from_mask(&[true; 6], 3)?).length(100).build()?;
    /// let dense = StreamLayer::dense(3, 2).length(100).build()?;
    /// let x = [0.1, 0.5, 0.9];
    /// assert_eq!(sparse.counts(&x, 7)?, dense.counts(&x, 7)?);
    /// # Ok::<(), aleatron_engine::Error>(())
    /// ```
    #[must_use]
    pub fn sparse(connections: impl Into<Arc<Connections>>) -> LayerBuilder {
        Self::of(Topology::Sparse(connections.into()))
    }

    /// Starts a convolution. An input has one stream per sample, used at every position and
    /// channel; a weight has one stream. Samples are images by channel, row and column, and so are
    /// the counts; weights are those of the kernels, by output channel, channel of its group, row
    /// and column.
    ///
    /// ```
    /// use aleatron_core::Convolution;
    /// use aleatron_engine::StreamLayer;
    /// let edges = Convolution::conv2d([1, 3, 4], 1, [1, 2]);
    /// let layer = StreamLayer::convolution(edges).signed().length(256).weights(&[-1.0, 1.0]).build()?;
    /// let image = [0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0];
    /// assert_eq!(layer.forward(&image, 7)?, [0.0, 1.0, 0.0, 1.0, 0.0, -1.0, 0.0, -1.0, 0.0]);
    /// # Ok::<(), aleatron_engine::Error>(())
    /// ```
    #[must_use]
    pub fn convolution(convolution: Convolution) -> LayerBuilder {
        LayerBuilder::new(TopologyChoice::Convolution(convolution))
    }

    /// Starts a layer of any topology.
    #[must_use]
    pub fn of(topology: Topology) -> LayerBuilder {
        LayerBuilder::new(TopologyChoice::Checked(topology))
    }

    /// Returns everything except the weights that determines its counts.
    #[must_use]
    pub fn spec(&self) -> &LayerSpec {
        &self.spec
    }

    /// Returns the weights, row-major of neurons by inputs, one per connection in their order, or
    /// of output channels by taps.
    #[must_use]
    pub fn weights(&self) -> &[f64] {
        self.weights.values()
    }

    /// Returns the requested device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the name of the backend that runs a batch of `n_samples`; `None` if [`Device::Auto`]
    /// has not measured it yet.
    #[must_use]
    pub fn backend_for(&self, n_samples: usize) -> Option<String> {
        self.prepared.get()?.backend_for(n_samples)
    }

    /// Returns warnings about the generators.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Returns notes for the user, such as a device that [`Device::Auto`] could not use.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        self.prepared.get().map_or_else(Vec::new, |layer| layer.notes())
    }

    /// Counts one sample. Returns one count per neuron.
    ///
    /// # Errors
    /// Returns [`CoreError::Mismatch`] unless there is one value per input, and errors as for
    /// [`Self::counts_batch`].
    pub fn counts(&self, values: &[f64], seed: impl Into<SampleSeed>) -> Result<Vec<u64>> {
        let (expected, actual) = (self.spec.n_inputs(), values.len());
        if expected != actual {
            return Err(CoreError::Mismatch { what: Quantity::Inputs, expected, actual }.into());
        }
        self.counts_batch(values, seed)
    }

    /// Counts a batch, row-major of samples by neurons; `values` are samples by inputs. Shared
    /// sequences do not depend on the seed.
    ///
    /// ```
    /// use aleatron_core::SampleSeed;
    /// use aleatron_engine::StreamLayer;
    /// let layer = StreamLayer::dense(3, 2).length(100).build()?;
    /// let x = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
    /// let whole = layer.counts_batch(&x, 7)?;
    /// let last = layer.counts(&x[6..], SampleSeed::new(7).starting_at(2))?; // a sample's bits depend on its index alone
    /// assert_eq!(whole[4..], last);
    /// # Ok::<(), aleatron_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`CoreError::Ragged`] unless the values are whole samples, [`CoreError::OutOfRange`]
    /// with the first value outside the interval of the polarity, [`CoreError::TooLarge`] above
    /// 2^32 samples, [`CoreError::Memory`] if the counts do not fit, [`CoreError::Backend`] if the
    /// device fails.
    pub fn counts_batch(&self, values: &[f64], seed: impl Into<SampleSeed>) -> Result<Vec<u64>> {
        self.count(&Batch::values(values, seed.into()), Cancel::NEVER)
    }

    /// Counts a batch and returns the time of each kernel of the device, or no times if the device
    /// does not measure them.
    ///
    /// # Errors
    /// As for [`Self::counts_batch`].
    pub fn profile(&self, values: &[f64], seed: impl Into<SampleSeed>) -> Result<Vec<KernelTime>> {
        let batch = Batch::values(values, seed.into());
        backend::check_fork(&self.device)?;
        Ok(self.prepared_for(&batch, Cancel::NEVER)?.profile(&batch, Cancel::NEVER)?)
    }

    /// Counts encoded streams, row-major of samples by neurons; see [`encode_inputs`].
    ///
    /// # Errors
    /// Returns [`CoreError::Mismatch`] if the streams have another length, [`CoreError::Ragged`]
    /// unless they are whole samples, [`CoreError::DirtyTail`] for ones beyond the length, and
    /// errors as for [`Self::counts_batch`].
    pub fn counts_encoded(&self, streams: &StreamMatrix) -> Result<Vec<u64>> {
        let (expected, actual) = (self.spec.length().bits(), streams.length().bits());
        if expected != actual {
            return Err(CoreError::Mismatch { what: Quantity::Length, expected, actual }.into());
        }
        self.count(&Batch::streams(streams.words()), Cancel::NEVER)
    }

    /// Counts encoded streams with signs, one for each stream: `negative` marks the streams that
    /// count down.
    ///
    /// ```
    /// use aleatron_core::{Length, Polarity};
    /// use aleatron_engine::{StreamLayer, encode_inputs};
    /// let x = [0.2, -0.4, 0.6];
    /// let layer = StreamLayer::dense(3, 5).signed().length(256).build()?;
    /// let streams = encode_inputs(&x, 3, Length::new(256)?, Polarity::Signed, 7)?;
    /// assert_eq!(layer.counts_encoded_signed(&streams, &[false, true, false])?, layer.counts(&x, 7)?);
    /// # Ok::<(), aleatron_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Self::counts_encoded`], and [`CoreError::Mismatch`] unless there is one sign per
    /// stream or if the layer is unsigned.
    pub fn counts_encoded_signed(
        &self,
        streams: &StreamMatrix,
        negative: &[bool],
    ) -> Result<Vec<u64>> {
        let (expected, actual) = (self.spec.length().bits(), streams.length().bits());
        if expected != actual {
            return Err(CoreError::Mismatch { what: Quantity::Length, expected, actual }.into());
        }
        self.count(&Batch::signed_streams(streams.words(), negative), Cancel::NEVER)
    }

    /// Counts any batch, row-major of samples by neurons, with cancellation.
    ///
    /// # Errors
    /// As for [`PreparedLayer::counts`].
    pub fn count(&self, batch: &Batch<'_>, cancel: Cancel<'_>) -> Result<Vec<u64>> {
        backend::check_fork(&self.device)?;
        match self.prepared_for(batch, cancel)?.counts(batch, cancel) {
            // Lost during the call: the next device may work.
            Err(error) if error.backend_fault() == Some(BackendFault::Lost) => {
                Ok(self.prepared_for(batch, cancel)?.counts(batch, cancel)?)
            }
            counts => Ok(counts?),
        }
    }

    /// Counts arrays in device memory, and leaves the results there, with cancellation. All work is
    /// complete on return. CUDA devices support it.
    ///
    /// # Errors
    /// As for [`PreparedLayer::counts_on_device`].
    pub fn count_on_device(&self, batch: &mut DeviceBatch<'_>, cancel: Cancel<'_>) -> Result<()> {
        backend::check_fork(&self.device)?;
        let values = Batch::values(&[], batch.seed);
        Ok(self.prepared_for(&values, cancel)?.counts_on_device(batch, cancel)?)
    }

    /// Returns the values of [`Self::counts`].
    ///
    /// # Errors
    /// As for [`Self::counts`].
    pub fn forward(&self, values: &[f64], seed: impl Into<SampleSeed>) -> Result<Vec<f64>> {
        Ok(self.decode(&self.counts(values, seed)?))
    }

    /// Returns the values of [`Self::counts_batch`].
    ///
    /// # Errors
    /// As for [`Self::counts_batch`].
    pub fn forward_batch(&self, values: &[f64], seed: impl Into<SampleSeed>) -> Result<Vec<f64>> {
        Ok(self.decode(&self.counts_batch(values, seed)?))
    }

    /// Returns the values of [`Self::counts_encoded`].
    ///
    /// # Errors
    /// As for [`Self::counts_encoded`].
    pub fn forward_encoded(&self, streams: &StreamMatrix) -> Result<Vec<f64>> {
        Ok(self.decode(&self.counts_encoded(streams)?))
    }

    /// Decodes counts, row-major of samples by neurons.
    #[must_use]
    pub fn decode(&self, counts: &[u64]) -> Vec<f64> {
        self.spec.decode_all(counts)
    }

    /// Replaces all weights. They are encoded first: an error leaves the old ones unchanged.
    ///
    /// # Errors
    /// Returns [`CoreError::Mismatch`] for a wrong number of weights, [`CoreError::OutOfRange`]
    /// with the first weight outside the interval of the polarity, [`CoreError::Memory`] and
    /// [`CoreError::Backend`] if memory is exhausted.
    pub fn set_weights(&mut self, weights: &[f64]) -> Result<()> {
        let weights = Weights::new(&self.spec, weights.to_vec())?;
        let options = PrepareOptions {
            method: self.method,
            max_batch: self.max_batch,
            cancel: Cancel::NEVER,
        };
        self.prepared = PreparedSlot::new(self.backend.prepare(&self.spec, &weights, &options)?);
        self.bits = PreparedSlot::default();
        self.weights = weights;
        Ok(())
    }

    /// Encodes the packed weight streams on the CPU, one per weight in their order.
    ///
    /// # Errors
    /// Returns [`CoreError::Memory`] if they do not fit.
    pub fn weight_streams(&self) -> Result<StreamMatrix> {
        Ok(crate::backend::host()?.weight_streams(&self.spec, &self.weights, Cancel::NEVER)?)
    }

    /// Returns the layer on its backend, prepared again on a newly opened device if the last one
    /// was lost.
    fn prepared_for(
        &self,
        batch: &Batch<'_>,
        cancel: Cancel<'_>,
    ) -> Result<Arc<dyn PreparedLayer>> {
        let (slot, method) = match (batch.inputs, self.method.resolve(&self.spec)?) {
            (Inputs::Streams(_) | Inputs::SignedStreams { .. }, CountMethod::Tables) => {
                (&self.bits, CountMethod::Bits)
            }
            _ => (&self.prepared, self.method),
        };
        let options = PrepareOptions { method, max_batch: self.max_batch, cancel };
        slot.get_or_prepare(|| self.backend.prepare(&self.spec, &self.weights, &options))
    }
}

impl fmt::Debug for StreamLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamLayer")
            .field("spec", &self.spec)
            .field("device", &self.device)
            .finish_non_exhaustive()
    }
}

/// The settings of a layer. Every setting has a default; [`Self::build`] checks them all.
#[derive(Debug, Clone)]
pub struct LayerBuilder {
    topology: TopologyChoice,
    length: usize,
    polarity: Polarity,
    seed: u64,
    generator: Generator,
    width: WidthChoice,
    sharing: Sharing,
    index: LayerIndex,
    neurons: Option<Range<usize>>,
    weights: Option<Vec<f64>>,
    device: Device,
    method: CountMethod,
    max_batch: usize,
}

#[derive(Debug, Clone)]
enum TopologyChoice {
    Checked(Topology),
    Convolution(Convolution),
}

#[derive(Debug, Clone, Copy)]
enum Generator {
    Named(GeneratorName),
    Given(Encoding),
}

impl LayerBuilder {
    fn new(topology: TopologyChoice) -> Self {
        let options = PrepareOptions::default();
        Self {
            topology,
            length: 1024,
            polarity: Polarity::Unipolar,
            seed: DEFAULT_WEIGHT_SEED,
            generator: Generator::Named(GeneratorName::Bernoulli),
            width: WidthChoice::Auto,
            sharing: Sharing::OneForAll,
            index: LayerIndex::ALONE,
            neurons: None,
            weights: None,
            device: Device::Cpu,
            method: options.method,
            max_batch: options.max_batch,
        }
    }

    /// Sets the stream length in bits; 1024 by default.
    #[must_use]
    pub fn length(self, length: usize) -> Self {
        Self { length, ..self }
    }

    /// Sets the polarity of the streams; unipolar by default.
    #[must_use]
    pub fn polarity(self, polarity: Polarity) -> Self {
        Self { polarity, ..self }
    }

    /// Selects bipolar streams, for values in [-1, 1].
    #[must_use]
    pub fn bipolar(self) -> Self {
        self.polarity(Polarity::Bipolar)
    }

    /// Selects signed streams, for values in [-1, 1]: a sign and the stream of a magnitude. A
    /// product near zero is a stream of few ones instead of a fair coin as in bipolar encoding, so
    /// signed sums are much less noisy.
    #[must_use]
    pub fn signed(self) -> Self {
        self.polarity(Polarity::Signed)
    }

    /// Sets the seed of Bernoulli weight streams and of random weights; [`DEFAULT_WEIGHT_SEED`] by
    /// default.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Sets the generator; Bernoulli streams by default. One operand may have random bits and the
    /// other a sequence: `bernoulli+sobol:2` draws the inputs, `sobol:1+bernoulli` the weights.
    ///
    /// ```
    /// use aleatron_engine::StreamLayer;
    /// let layer = StreamLayer::dense(2, 1).bipolar().length(256).generator("sobol".parse()?).weights(&[0.5, -1.0]).build()?;
    /// assert_eq!(layer.forward(&[-0.5, 0.25], 0)?, [-0.5]); // exactly 0.5 * -0.5 + -1.0 * 0.25
    /// # Ok::<(), aleatron_engine::Error>(())
    /// ```
    #[must_use]
    pub fn generator(self, generator: GeneratorName) -> Self {
        Self { generator: Generator::Named(generator), ..self }
    }

    /// Sets the shared sequences, with their sharing.
    #[must_use]
    pub fn sequences(self, pairing: Pairing) -> Self {
        self.encoding(Encoding::Sequences(pairing))
    }

    /// Sets the encoding of another layer: its seed, sequences and sharing.
    #[must_use]
    pub fn encoding(self, encoding: Encoding) -> Self {
        Self { generator: Generator::Given(encoding), ..self }
    }

    /// Sets the width of a named generator's sequences; chosen by the length by default.
    #[must_use]
    pub fn width(self, width: impl Into<WidthChoice>) -> Self {
        Self { width: width.into(), ..self }
    }

    /// Sets the sharing of a named generator's sequences; one for all by default.
    #[must_use]
    pub fn sharing(self, sharing: Sharing) -> Self {
        Self { sharing, ..self }
    }

    /// Sets the layer's index in a network; a single layer by default.
    #[must_use]
    pub fn at(self, index: LayerIndex) -> Self {
        Self { index, ..self }
    }

    /// Restricts the layer to these neurons, which have the same weights and bits as in the whole
    /// layer.
    ///
    /// ```
    /// use aleatron_engine::StreamLayer;
    /// let whole = StreamLayer::dense(3, 10).length(100).build()?;
    /// let part = StreamLayer::dense(3, 10).length(100).neurons(4..10).build()?;
    /// let x = [0.1, 0.5, 0.9];
    /// assert_eq!(part.counts(&x, 7)?, whole.counts(&x, 7)?[4..]);
    /// # Ok::<(), aleatron_engine::Error>(())
    /// ```
    #[must_use]
    pub fn neurons(self, neurons: Range<usize>) -> Self {
        Self { neurons: Some(neurons), ..self }
    }

    /// Sets the weights, row-major of neurons by inputs, one per connection, or of output channels
    /// by taps; by default random, uniform over the polarity's interval.
    #[must_use]
    pub fn weights(self, weights: &[f64]) -> Self {
        Self { weights: Some(weights.to_vec()), ..self }
    }

    /// Sets the device; the CPU by default.
    #[must_use]
    pub fn device(self, device: Device) -> Self {
        Self { device, ..self }
    }

    /// Sets how shared sequences are counted; the faster method by default.
    #[must_use]
    pub fn method(self, method: CountMethod) -> Self {
        Self { method, ..self }
    }

    /// Sets the batch size to allocate buffers for; 256 by default. Larger batches run in more
    /// chunks.
    #[must_use]
    pub fn max_batch(self, max_batch: usize) -> Self {
        Self { max_batch, ..self }
    }

    /// Builds the layer.
    ///
    /// # Errors
    /// Returns [`CoreError::Zero`] for a size of 0, [`CoreError::TooLarge`] for a size above its
    /// limit or a generator with too few sequences, [`CoreError::Mismatch`] and
    /// [`CoreError::OutOfRange`] for the weights, [`CoreError::Memory`] with the bytes of the layer
    /// if it does not fit, [`CoreError::Backend`] if the device is missing or cannot hold the
    /// layer.
    pub fn build(self) -> Result<StreamLayer> {
        self.build_with(Cancel::NEVER)
    }

    /// Builds the layer as [`Self::build`], with cancellation.
    ///
    /// # Errors
    /// As for [`Self::build`], and [`CoreError::Cancelled`].
    pub fn build_with(self, cancel: Cancel<'_>) -> Result<StreamLayer> {
        let length = Length::new(self.length)?;
        let encoding = match self.generator {
            Generator::Named(name) => {
                name.check_streams()?;
                name.encoding(self.seed, self.width.resolve(&name, length), self.sharing)?
            }
            Generator::Given(encoding) => encoding,
        };
        let topology = match self.topology {
            TopologyChoice::Checked(topology) => topology,
            TopologyChoice::Convolution(convolution) => {
                Topology::Conv(ConvShape::new(convolution)?)
            }
        };
        let whole = LayerSpec::new(topology, length, self.polarity, encoding)?.at(self.index);
        let spec = match self.neurons {
            Some(neurons) => whole.neurons(neurons)?,
            None => whole,
        };
        let warnings = warnings(&spec)?;
        if self.max_batch == 0 {
            return Err(CoreError::Zero(Quantity::Samples).into());
        }
        let device = self.device.resolved()?;
        // Without the device, nothing is created for it.
        let backend = backend::open(&device)?;
        let streams = if device.may_use_host_memory() { spec.weight_words() } else { 0 };
        memory::check((spec.n_weights() as u128 + streams as u128) * 8, Quantity::Weights)?;
        let weights = match self.weights {
            Some(weights) => Weights::new(&spec, weights)?,
            None => crate::backend::host()?.random_weights(&spec, self.seed)?,
        };
        let options = PrepareOptions { method: self.method, max_batch: self.max_batch, cancel };
        let prepared = backend.prepare(&spec, &weights, &options)?;
        Ok(StreamLayer {
            spec,
            weights,
            device,
            method: self.method,
            max_batch: self.max_batch,
            warnings,
            backend,
            prepared: PreparedSlot::new(prepared),
            bits: PreparedSlot::default(),
        })
    }
}

/// Returns warnings about the generators of a layer.
pub(crate) fn warnings(spec: &LayerSpec) -> Result<Vec<Warning>> {
    let pairing = match spec.encoding() {
        Encoding::Sequences(pairing) => pairing,
        // Random bits are independent of any sequence.
        Encoding::BernoulliInputs { weights: one }
        | Encoding::BernoulliWeights { inputs: one, .. } => {
            return Ok(one.cut_off(spec.length()).into_iter().collect());
        }
        _ => return Ok(Vec::new()),
    };
    let mut warnings = match spec.topology() {
        Topology::Conv(shape) => {
            pairing.conv_warnings(shape.n_inputs(), shape.n_channels(), shape.kernel_weights())?
        }
        _ => pairing.warnings(spec.n_inputs(), spec.n_neurons())?,
    };
    warnings.extend(pairing.cut_off(spec.length()));
    Ok(warnings)
}

/// Encodes inputs once, for several layers to share: row-major samples by inputs, drawn as by a
/// single layer; for signed inputs, the streams of their magnitudes.
///
/// ```
/// use aleatron_core::{Length, Polarity};
/// use aleatron_engine::{StreamLayer, encode_inputs};
/// let x = [0.2, 0.4, 0.6];
/// let streams = encode_inputs(&x, 3, Length::new(256)?, Polarity::Unipolar, 7)?;
/// for seed in [1, 2] {
///     let layer = StreamLayer::dense(3, 5).length(256).seed(seed).build()?;
///     assert_eq!(layer.counts_encoded(&streams)?, layer.counts(&x, 7)?);
/// }
/// # Ok::<(), aleatron_engine::Error>(())
/// ```
///
/// # Errors
/// Returns [`CoreError::Zero`] without inputs, [`CoreError::OutOfRange`] for a value outside the
/// interval of `polarity`, [`CoreError::Ragged`] unless the values are whole samples,
/// [`CoreError::TooLarge`] above 2^32 samples, [`CoreError::Memory`] if the streams do not fit.
pub fn encode_inputs(
    values: &[f64],
    n_inputs: usize,
    length: Length,
    polarity: Polarity,
    seed: impl Into<SampleSeed>,
) -> Result<StreamMatrix> {
    if n_inputs == 0 {
        return Err(Error::from(CoreError::Zero(Quantity::Inputs)));
    }
    let SampleSeed { seed, first_sample } = seed.into();
    let thresholds = thresholds(values, polarity, Quantity::Value)?;
    let address = StreamAddress::input(seed, 0, first_sample);
    Ok(crate::backend::host()?.encode_rows(&thresholds, n_inputs, length, address)?)
}

#[cfg(test)]
impl StreamLayer {
    /// Creates a layer of one input and one neuron on a backend.
    pub(crate) fn of_backend(backend: crate::backend::fake::FakeBackend) -> Result<Self> {
        let encoding = Encoding::Bernoulli { seed: 1 };
        let spec = LayerSpec::dense(1, 1, Length::new(64)?, Polarity::Unipolar, encoding)?;
        let (weights, options) = (Weights::new(&spec, vec![0.5])?, PrepareOptions::default());
        let prepared = PreparedSlot::new(backend.prepare(&spec, &weights, &options)?);
        let (device, method, max_batch) = (Device::Cpu, options.method, options.max_batch);
        let (warnings, backend, bits) = (Vec::new(), Arc::new(backend), PreparedSlot::default());
        Ok(Self { spec, weights, device, method, max_batch, warnings, backend, prepared, bits })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::backend::fake::{FakeBackend, FakeLayer, fault};

    fn fake(name: &'static str) -> FakeLayer {
        FakeLayer::new(name, Ok(vec![5]))
    }

    /// A lost layer is prepared again, unless another thread was faster.
    #[test]
    fn layers_are_prepared_once_per_lost_device() {
        let name = |slot: &PreparedSlot| {
            let layer = slot.get_or_prepare(|| Ok(Box::new(fake("second")))).unwrap();
            layer.backend_for(1).unwrap()
        };
        let slot = PreparedSlot::new(Box::new(fake("first")));
        assert_eq!(name(&slot), "first");
        let slot = PreparedSlot::new(Box::new(fake("first").lost([true, true])));
        assert_eq!((name(&slot), name(&slot)), ("second".to_owned(), "second".to_owned()));
        // Lost at the first check; at the second, another thread has prepared it.
        let slot = PreparedSlot::new(Box::new(fake("first").lost([true, false])));
        assert_eq!(name(&slot), "first");
        assert_eq!(name(&PreparedSlot::default()), "second");
    }

    #[test]
    fn batch_of_a_lost_device_is_counted_again() {
        let counts = |first: CoreError, next: &[&'static str]| {
            let first = FakeLayer::new("first", Err(first)).lost([false, true, true]);
            let backend =
                FakeBackend::new([first].into_iter().chain(next.iter().copied().map(fake)));
            let layer = StreamLayer::of_backend(backend).unwrap();
            assert_eq!(layer.notes(), ["first"]);
            layer.counts(&[0.5], 0).map_err(|error| error.core().cloned())
        };
        assert_eq!(counts(fault(BackendFault::Lost), &["second"]), Ok(vec![5]));
        let full = fault(BackendFault::OutOfMemory);
        assert_eq!(counts(fault(BackendFault::Lost), &[]), Err(Some(full.clone())));
        assert_eq!(counts(full.clone(), &["second"]), Err(Some(full)));
    }
}

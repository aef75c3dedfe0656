//! Layers: weights as streams, kept where the layer runs; inputs as streams, made for each call.
//!
//! A [`StreamLayer`] is a [`LayerSpec`] with its weights on a [`Backend`]. Every call, whether of
//! one sample, a batch, or streams that are encoded, comes down to one operation: count, for each
//! sample and neuron, the ones (or matches) of input and weight streams.

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

/// The seed of a layer's weights where none is given.
pub const DEFAULT_WEIGHT_SEED: u64 = 24301;

/// A layer of stochastic neurons.
///
/// Its weight streams are made once and kept. A call makes the input streams of its seed and
/// counts; the same seed gives the same bits, whatever the device, the tier, the threads or the
/// batch.
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
    prepared: Kept,
    /// For streams that are encoded, where the layer counts from tables; prepared with the first
    /// of them.
    bits: Kept,
}

/// The layer on its backend, once it is prepared.
#[derive(Debug, Default)]
struct Kept(RwLock<Option<Arc<dyn PreparedLayer>>>);

impl Kept {
    fn new(prepared: Box<dyn PreparedLayer>) -> Self {
        Self(RwLock::new(Some(prepared.into())))
    }

    /// The layer, if it was prepared.
    fn get(&self) -> Option<Arc<dyn PreparedLayer>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The layer, prepared by `prepare` unless it is there with its device, or another thread has
    /// been quicker.
    fn get_or_prepare(
        &self,
        prepare: impl FnOnce() -> aleatron_core::Result<Box<dyn PreparedLayer>>,
    ) -> Result<Arc<dyn PreparedLayer>> {
        if let Some(layer) = self.get().filter(|layer| !layer.is_lost()) {
            return Ok(layer);
        }
        let mut kept = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some(layer) if !layer.is_lost() => Ok(Arc::clone(layer)),
            _ => Ok(Arc::clone(kept.insert(prepare()?.into()))),
        }
    }
}

impl StreamLayer {
    /// Starts a layer in which every neuron sees every input.
    #[must_use]
    pub fn dense(n_inputs: usize, n_neurons: usize) -> LayerBuilder {
        Self::of(Topology::Dense { n_inputs, n_neurons })
    }

    /// Starts a layer in which a neuron sees the inputs it is connected to, and costs no more than
    /// that. A connection has the weight stream that the dense layer of the same seed has
    /// there, so a fully connected one counts what the dense one does:
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

    /// Starts a convolution. An input has one stream in a sample, used at every position and
    /// channel; a weight has one in the layer. Samples are images by channel, row and column,
    /// and so are the counts; weights are those of the kernels, by output channel, channel of
    /// its group, row and column.
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

    /// Everything but the weights that decides its counts.
    #[must_use]
    pub fn spec(&self) -> &LayerSpec {
        &self.spec
    }

    /// The weights, row-major of neurons by inputs, one per connection in their order, or of output
    /// channels by taps.
    #[must_use]
    pub fn weights(&self) -> &[f64] {
        self.weights.values()
    }

    /// The device asked for.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The name of the backend that a batch of `n_samples` runs on; `None` where [`Device::Auto`]
    /// has yet to measure it.
    #[must_use]
    pub fn backend_for(&self, n_samples: usize) -> Option<String> {
        self.prepared.get()?.backend_for(n_samples)
    }

    /// What is wrong with the generators, if anything is known to be.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// What a user should know of how it runs, such as a device that [`Device::Auto`] could not
    /// use.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        self.prepared.get().map_or_else(Vec::new, |layer| layer.notes())
    }

    /// The counts of one sample, one per neuron.
    ///
    /// # Errors
    /// [`CoreError::Mismatch`] where there is not one value per input, and as
    /// [`Self::counts_batch`].
    pub fn counts(&self, values: &[f64], seed: impl Into<SampleSeed>) -> Result<Vec<u64>> {
        let (expected, actual) = (self.spec.n_inputs(), values.len());
        if expected != actual {
            return Err(CoreError::Mismatch { what: Quantity::Inputs, expected, actual }.into());
        }
        self.counts_batch(values, seed)
    }

    /// The counts of a batch, row-major of samples by neurons; `values` are samples by inputs.
    /// Shared sequences do not depend on the seed.
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
    /// [`CoreError::Ragged`] where the values are not whole samples, [`CoreError::OutOfRange`] with
    /// the first value outside the interval of the polarity, [`CoreError::TooLarge`] past 2^32
    /// samples, [`CoreError::Memory`] where the counts do not fit, [`CoreError::Backend`] where
    /// the device fails.
    pub fn counts_batch(&self, values: &[f64], seed: impl Into<SampleSeed>) -> Result<Vec<u64>> {
        self.count(&Batch::values(values, seed.into()), Cancel::NEVER)
    }

    /// Counts a batch and returns the time of each kernel of the device; none on a device that does
    /// not time them.
    ///
    /// # Errors
    /// As [`Self::counts_batch`].
    pub fn profile(&self, values: &[f64], seed: impl Into<SampleSeed>) -> Result<Vec<KernelTime>> {
        let batch = Batch::values(values, seed.into());
        backend::check_fork(&self.device)?;
        Ok(self.prepared_for(&batch, Cancel::NEVER)?.profile(&batch, Cancel::NEVER)?)
    }

    /// The counts of streams that are encoded, row-major of samples by neurons; see
    /// [`encode_inputs`].
    ///
    /// # Errors
    /// [`CoreError::Mismatch`] where the streams have another length, [`CoreError::Ragged`] where
    /// they are not whole samples, [`CoreError::DirtyTail`] where one has ones past its length,
    /// and as [`Self::counts_batch`].
    pub fn counts_encoded(&self, streams: &StreamMatrix) -> Result<Vec<u64>> {
        let (expected, actual) = (self.spec.length().bits(), streams.length().bits());
        if expected != actual {
            return Err(CoreError::Mismatch { what: Quantity::Length, expected, actual }.into());
        }
        self.count(&Batch::streams(streams.words()), Cancel::NEVER)
    }

    /// The counts of streams that are encoded and have signs, one for each stream: `negative` says
    /// which of them count down.
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
    /// As [`Self::counts_encoded`], and [`CoreError::Mismatch`] where there is not one sign per
    /// stream or the layer has none.
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

    /// The counts of any batch, row-major of samples by neurons, unless cancelled on the way.
    ///
    /// # Errors
    /// As [`PreparedLayer::counts`].
    pub fn count(&self, batch: &Batch<'_>, cancel: Cancel<'_>) -> Result<Vec<u64>> {
        backend::check_fork(&self.device)?;
        match self.prepared_for(batch, cancel)?.counts(batch, cancel) {
            // Lost on the way: the next device may live.
            Err(error) if error.backend_fault() == Some(BackendFault::Lost) => {
                Ok(self.prepared_for(batch, cancel)?.counts(batch, cancel)?)
            }
            counts => Ok(counts?),
        }
    }

    /// Counts arrays in the memory of the layer's device, and leaves the results there, unless
    /// cancelled on the way. All is done when this returns. Devices of CUDA can do so.
    ///
    /// # Errors
    /// As [`PreparedLayer::counts_on_device`].
    pub fn count_on_device(&self, batch: &mut DeviceBatch<'_>, cancel: Cancel<'_>) -> Result<()> {
        backend::check_fork(&self.device)?;
        let values = Batch::values(&[], batch.seed);
        Ok(self.prepared_for(&values, cancel)?.counts_on_device(batch, cancel)?)
    }

    /// The values of [`Self::counts`].
    ///
    /// # Errors
    /// As [`Self::counts`].
    pub fn forward(&self, values: &[f64], seed: impl Into<SampleSeed>) -> Result<Vec<f64>> {
        Ok(self.decode(&self.counts(values, seed)?))
    }

    /// The values of [`Self::counts_batch`].
    ///
    /// # Errors
    /// As [`Self::counts_batch`].
    pub fn forward_batch(&self, values: &[f64], seed: impl Into<SampleSeed>) -> Result<Vec<f64>> {
        Ok(self.decode(&self.counts_batch(values, seed)?))
    }

    /// The values of [`Self::counts_encoded`].
    ///
    /// # Errors
    /// As [`Self::counts_encoded`].
    pub fn forward_encoded(&self, streams: &StreamMatrix) -> Result<Vec<f64>> {
        Ok(self.decode(&self.counts_encoded(streams)?))
    }

    /// The values of counts, row-major of samples by neurons.
    #[must_use]
    pub fn decode(&self, counts: &[u64]) -> Vec<f64> {
        self.spec.decode_all(counts)
    }

    /// Replaces all weights. They are encoded first: on an error the old ones stay.
    ///
    /// # Errors
    /// [`CoreError::Mismatch`] where there are not as many as the layer has,
    /// [`CoreError::OutOfRange`] with the first one outside the interval of the polarity,
    /// [`CoreError::Memory`] and [`CoreError::Backend`] where there is no room.
    pub fn set_weights(&mut self, weights: &[f64]) -> Result<()> {
        let weights = Weights::new(&self.spec, weights.to_vec())?;
        let options = PrepareOptions {
            method: self.method,
            max_batch: self.max_batch,
            cancel: Cancel::NEVER,
        };
        self.prepared = Kept::new(self.backend.prepare(&self.spec, &weights, &options)?);
        self.bits = Kept::default();
        self.weights = weights;
        Ok(())
    }

    /// The packed weight streams, one per weight in their order, encoded anew on the CPU.
    ///
    /// # Errors
    /// [`CoreError::Memory`] where they do not fit.
    pub fn weight_streams(&self) -> Result<StreamMatrix> {
        Ok(crate::backend::host()?.weight_streams(&self.spec, &self.weights)?)
    }

    /// The layer on its backend, prepared again on a device that is opened anew where the last one
    /// was lost.
    fn prepared_for(
        &self,
        batch: &Batch<'_>,
        cancel: Cancel<'_>,
    ) -> Result<Arc<dyn PreparedLayer>> {
        let (kept, method) = match (batch.inputs, self.method.resolve(&self.spec)?) {
            (Inputs::Streams(_) | Inputs::SignedStreams { .. }, CountMethod::Tables) => {
                (&self.bits, CountMethod::Bits)
            }
            _ => (&self.prepared, self.method),
        };
        let options = PrepareOptions { method, max_batch: self.max_batch, cancel };
        kept.get_or_prepare(|| self.backend.prepare(&self.spec, &self.weights, &options))
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

/// A layer to be. Every setting has a default; [`Self::build`] checks them all.
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

    /// Streams of this many bits; 1024 if not given.
    #[must_use]
    pub fn length(self, length: usize) -> Self {
        Self { length, ..self }
    }

    /// Streams of this polarity; unipolar if not given.
    #[must_use]
    pub fn polarity(self, polarity: Polarity) -> Self {
        Self { polarity, ..self }
    }

    /// Bipolar streams, for values in [-1, 1].
    #[must_use]
    pub fn bipolar(self) -> Self {
        self.polarity(Polarity::Bipolar)
    }

    /// Signed streams, for values in [-1, 1]: a sign and the stream of a magnitude. A product near
    /// zero is a stream of few ones, where a bipolar one is a fair coin, so signed sums are
    /// much less noisy.
    #[must_use]
    pub fn signed(self) -> Self {
        self.polarity(Polarity::Signed)
    }

    /// The seed of Bernoulli weight streams and of random weights; [`DEFAULT_WEIGHT_SEED`] if not
    /// given.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Bits from this generator; Bernoulli streams if not given. One operand may have random bits
    /// and the other a sequence: `bernoulli+sobol:2` draws the inputs, `sobol:1+bernoulli` the
    /// weights.
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

    /// Bits from these shared sequences, with the sharing they name.
    #[must_use]
    pub fn sequences(self, pairing: Pairing) -> Self {
        self.encoding(Encoding::Sequences(pairing))
    }

    /// Bits from where another layer has them: its seed, sequences and sharing.
    #[must_use]
    pub fn encoding(self, encoding: Encoding) -> Self {
        Self { generator: Generator::Given(encoding), ..self }
    }

    /// The width of a named generator's sequences; fitted to the length if not given.
    #[must_use]
    pub fn width(self, width: impl Into<WidthChoice>) -> Self {
        Self { width: width.into(), ..self }
    }

    /// How a named generator's sequences are shared; one for all if not given.
    #[must_use]
    pub fn sharing(self, sharing: Sharing) -> Self {
        Self { sharing, ..self }
    }

    /// The layer's place in a network; on its own if not given.
    #[must_use]
    pub fn at(self, index: LayerIndex) -> Self {
        Self { index, ..self }
    }

    /// These neurons alone: each has the weights and bits that it has in the whole layer.
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

    /// These weights, row-major of neurons by inputs, one per connection, or of output channels by
    /// taps; random ones, uniform over the polarity's interval, if not given.
    #[must_use]
    pub fn weights(self, weights: &[f64]) -> Self {
        Self { weights: Some(weights.to_vec()), ..self }
    }

    /// On this device; the CPU if not given.
    #[must_use]
    pub fn device(self, device: Device) -> Self {
        Self { device, ..self }
    }

    /// How shared sequences are counted; the faster way if not given.
    #[must_use]
    pub fn method(self, method: CountMethod) -> Self {
        Self { method, ..self }
    }

    /// The batch to keep buffers for; 256 if not given. Larger ones run in more pieces.
    #[must_use]
    pub fn max_batch(self, max_batch: usize) -> Self {
        Self { max_batch, ..self }
    }

    /// Makes the layer.
    ///
    /// # Errors
    /// [`CoreError::Zero`] for a size of 0, [`CoreError::TooLarge`] for one past its limit or a
    /// generator with too few sequences, [`CoreError::Mismatch`] and [`CoreError::OutOfRange`]
    /// for the weights, [`CoreError::Memory`] with the bytes the layer would take where it does
    /// not fit, [`CoreError::Backend`] where the device is not there or cannot hold the layer.
    pub fn build(self) -> Result<StreamLayer> {
        self.build_unless(Cancel::NEVER)
    }

    /// As [`Self::build`], unless cancelled on the way.
    ///
    /// # Errors
    /// As [`Self::build`], and [`CoreError::Cancelled`].
    pub fn build_unless(self, cancel: Cancel<'_>) -> Result<StreamLayer> {
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
        // Without the device, nothing is made for it.
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
            prepared: Kept::new(prepared),
            bits: Kept::default(),
        })
    }
}

/// What is known to be wrong with the generators of a layer.
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

/// Encodes inputs once, for several layers to share: row-major samples by inputs, drawn as a layer
/// on its own draws them; of signed ones, the streams of their magnitudes.
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
/// [`CoreError::Zero`] without inputs, [`CoreError::OutOfRange`] for a value outside the interval
/// of `polarity`, [`CoreError::Ragged`] where the values are not whole samples,
/// [`CoreError::TooLarge`] past 2^32 samples, [`CoreError::Memory`] where the streams do not fit.
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
    /// A layer of one input and one neuron on a backend.
    pub(crate) fn of_backend(backend: crate::backend::fake::FakeBackend) -> Result<Self> {
        let encoding = Encoding::Bernoulli { seed: 1 };
        let spec = LayerSpec::dense(1, 1, Length::new(64)?, Polarity::Unipolar, encoding)?;
        let (weights, options) = (Weights::new(&spec, vec![0.5])?, PrepareOptions::default());
        let prepared = Kept::new(backend.prepare(&spec, &weights, &options)?);
        let (device, method, max_batch) = (Device::Cpu, options.method, options.max_batch);
        let (warnings, backend, bits) = (Vec::new(), Arc::new(backend), Kept::default());
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

    /// A layer that is lost is prepared again, unless another thread has been quicker.
    #[test]
    fn layers_are_prepared_once_for_every_device_they_lose() {
        let name = |kept: &Kept| {
            let layer = kept.get_or_prepare(|| Ok(Box::new(fake("second")))).unwrap();
            layer.backend_for(1).unwrap()
        };
        let kept = Kept::new(Box::new(fake("first")));
        assert_eq!(name(&kept), "first");
        let kept = Kept::new(Box::new(fake("first").lost([true, true])));
        assert_eq!((name(&kept), name(&kept)), ("second".to_owned(), "second".to_owned()));
        // Lost at the first look; at the second, one that is not is there.
        let kept = Kept::new(Box::new(fake("first").lost([true, false])));
        assert_eq!(name(&kept), "first");
        assert_eq!(name(&Kept::default()), "second");
    }

    #[test]
    fn what_is_lost_on_the_way_is_counted_again() {
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

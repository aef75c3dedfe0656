//! The specification of a layer: everything except the weights that determines its counts, that is,
//! topology, length, polarity and encoding.

use crate::address::{LayerIndex, StreamAddress};
use crate::connections::Connections;
use crate::convolution::{ConvShape, Convolution};
use crate::dense::DenseShape;
use crate::error::{Error, Quantity, Result};
use crate::generator::{IntegerBits, OperandSequences, Pairing, Width};
use crate::polarity::Polarity;
use crate::stream::Length;
use crate::weights;
use std::ops::Range;
use std::sync::Arc;

/// The connections between inputs and neurons.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "a layer has one, and a shape is numbers alone")]
pub enum Topology {
    /// Every neuron is connected to every input.
    Dense {
        /// The number of inputs.
        n_inputs: usize,
        /// The number of neurons.
        n_neurons: usize,
    },
    /// Each neuron has its own list of inputs.
    Sparse(Arc<Connections>),
    /// A convolution with a neuron for each output channel and position, connected to the inputs
    /// under the kernel of its channel at its position.
    Conv(ConvShape),
}

impl Topology {
    /// Returns the number of inputs.
    #[must_use]
    pub fn n_inputs(&self) -> usize {
        match self {
            Self::Dense { n_inputs, .. } => *n_inputs,
            Self::Sparse(connections) => connections.n_inputs(),
            Self::Conv(shape) => shape.n_inputs(),
        }
    }

    /// Returns the number of neurons.
    #[must_use]
    pub fn n_neurons(&self) -> usize {
        match self {
            Self::Dense { n_neurons, .. } => *n_neurons,
            Self::Sparse(connections) => connections.n_neurons(),
            Self::Conv(shape) => shape.n_outputs(),
        }
    }

    /// Returns the number of rows of weights: one for each neuron, or for each output channel.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        match self {
            Self::Dense { .. } | Self::Sparse(_) => self.n_neurons(),
            Self::Conv(shape) => shape.n_channels(),
        }
    }

    /// Returns the number of neurons that share a row of weights: one, or as many as a kernel has
    /// positions.
    #[must_use]
    pub fn neurons_per_row(&self) -> usize {
        match self {
            Self::Dense { .. } | Self::Sparse(_) => 1,
            Self::Conv(shape) => shape.n_positions(),
        }
    }

    /// Returns the number of weights: one per neuron and input, one per connection, or one per tap
    /// of each kernel.
    #[must_use]
    pub fn n_weights(&self) -> usize {
        match self {
            Self::Dense { n_inputs, n_neurons } => n_inputs * n_neurons,
            Self::Sparse(connections) => connections.len(),
            Self::Conv(shape) => shape.n_weights(),
        }
    }

    /// Returns the number of products of all neurons for a sample.
    #[must_use]
    pub fn n_products(&self) -> usize {
        match self {
            Self::Dense { .. } | Self::Sparse(_) => self.n_weights(),
            Self::Conv(shape) => shape.n_products(),
        }
    }

    /// Returns the number of products of a neuron.
    #[must_use]
    pub fn fan_in(&self, neuron: usize) -> usize {
        match self {
            Self::Dense { n_inputs, .. } => *n_inputs,
            Self::Sparse(connections) => connections.inputs_of(neuron).len(),
            Self::Conv(shape) => shape.fan_in(neuron % shape.n_positions()),
        }
    }

    /// Returns the numbers of products of neurons 0, 1, …, over one period: of every neuron of a
    /// sparse layer, of the positions of a channel, of any neuron of a dense layer.
    #[must_use]
    pub fn fan_ins(&self) -> Vec<usize> {
        match self {
            Self::Dense { n_inputs, .. } => vec![*n_inputs],
            Self::Sparse(connections) => {
                connections.offsets().windows(2).map(|ends| ends[1] - ends[0]).collect()
            }
            Self::Conv(shape) => shape.fan_ins(),
        }
    }

    /// Returns the largest number of products of a neuron.
    #[must_use]
    pub fn max_fan_in(&self) -> usize {
        match self {
            Self::Dense { n_inputs, .. } => *n_inputs,
            Self::Sparse(_) => self.fan_ins().into_iter().max().unwrap_or(0),
            Self::Conv(shape) => shape.max_fan_in(),
        }
    }
}

/// The encoding of a layer's operands: the random sources of its streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Encoding {
    /// Every stream has independent random bits.
    Bernoulli {
        /// The seed of the weight streams.
        seed: u64,
    },
    /// Streams share sequences.
    Sequences(Pairing),
    /// Every input stream has independent random bits, and weight streams share sequences.
    BernoulliInputs {
        /// The sequences of the weights.
        weights: OperandSequences,
    },
    /// Every weight stream has independent random bits, and input streams share sequences.
    BernoulliWeights {
        /// The seed of the weight streams.
        seed: u64,
        /// The sequences of the inputs.
        inputs: OperandSequences,
    },
}

/// The random source of a layer's input streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InputSource {
    /// Every stream has independent random bits; the seed comes with each call.
    Bernoulli,
    /// Streams share sequences.
    Sequences(OperandSequences),
}

/// The random source of a layer's weight streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WeightSource {
    /// Every stream has independent random bits.
    Bernoulli {
        /// The seed of the streams.
        seed: u64,
    },
    /// Streams share sequences.
    Sequences(OperandSequences),
}

impl Encoding {
    /// Returns the random source of the inputs.
    #[must_use]
    pub const fn input_source(&self) -> InputSource {
        match self {
            Self::Bernoulli { .. } | Self::BernoulliInputs { .. } => InputSource::Bernoulli,
            Self::Sequences(pairing) => InputSource::Sequences(pairing.of_inputs()),
            Self::BernoulliWeights { inputs, .. } => InputSource::Sequences(*inputs),
        }
    }

    /// Returns the random source of the weights.
    ///
    /// ```
    /// use aleatron_core::generator::{GeneratorName, Sharing, Width};
    /// use aleatron_core::{InputSource, WeightSource};
    /// let name: GeneratorName = "bernoulli+sobol:2".parse()?;
    /// let encoding = name.encoding(7, Width::EIGHT, Sharing::OneForAll)?;
    /// assert_eq!(encoding.input_source(), InputSource::Bernoulli);
    /// assert!(matches!(encoding.weight_source(), WeightSource::Sequences(_)));
    /// # Ok::<(), aleatron_core::Error>(())
    /// ```
    #[must_use]
    pub const fn weight_source(&self) -> WeightSource {
        match self {
            Self::Bernoulli { seed } | Self::BernoulliWeights { seed, .. } => {
                WeightSource::Bernoulli { seed: *seed }
            }
            Self::Sequences(pairing) => WeightSource::Sequences(pairing.of_weights()),
            Self::BernoulliInputs { weights } => WeightSource::Sequences(*weights),
        }
    }

    /// Returns the width of the integers that inputs are compared with.
    #[must_use]
    pub const fn input_width(&self) -> Width {
        match self.input_source() {
            InputSource::Bernoulli => Width::BERNOULLI,
            InputSource::Sequences(sequences) => sequences.width(),
        }
    }

    /// Returns the width of the integers that weights are compared with.
    #[must_use]
    pub const fn weight_width(&self) -> Width {
        match self.weight_source() {
            WeightSource::Bernoulli { .. } => Width::BERNOULLI,
            WeightSource::Sequences(sequences) => sequences.width(),
        }
    }
}

/// Everything except the weights that determines a layer's counts.
///
/// ```
/// use aleatron_core::{Encoding, LayerSpec, Length, Polarity};
/// let spec = LayerSpec::dense(1000, 500, Length::new(1024)?, Polarity::Unipolar, Encoding::Bernoulli { seed: 1 })?;
/// assert_eq!(spec.n_weights(), 500_000);
/// assert_eq!(spec.decode(0, 512), 0.5);
/// # Ok::<(), aleatron_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LayerSpec {
    topology: Topology,
    length: Length,
    polarity: Polarity,
    encoding: Encoding,
    index: LayerIndex,
    first_neuron: u32,
}

impl LayerSpec {
    /// Creates a layer outside of a network.
    ///
    /// # Errors
    /// Returns [`Error::Zero`] for no inputs or neurons, [`Error::TooLarge`] above 2^32 of either,
    /// if a generator has too few sequences and if signed counts could exceed 64 bits, and
    /// [`Error::Memory`] if the size of the weight streams overflows an address.
    pub fn new(
        topology: Topology,
        length: Length,
        polarity: Polarity,
        encoding: Encoding,
    ) -> Result<Self> {
        let spec = Self {
            topology,
            length,
            polarity,
            encoding,
            index: LayerIndex::ALONE,
            first_neuron: 0,
        };
        match &spec.topology {
            Topology::Dense { n_inputs, n_neurons } => {
                DenseShape::new(*n_inputs, *n_neurons, length, polarity)?;
            }
            Topology::Sparse(_) | Topology::Conv(_) => {
                let streams = spec.n_weights().max(spec.n_inputs());
                let bytes = streams as u128 * length.words() as u128 * 8;
                if bytes > isize::MAX as u128 {
                    return Err(Error::Memory { what: Quantity::Weights, bytes, available: None });
                }
            }
        }
        let (actual, limit) = (spec.max_count(), u64::MAX.into());
        if polarity == Polarity::Signed && actual > limit {
            return Err(Error::TooLarge { what: Quantity::Counts, actual, limit });
        }
        spec.check_sequences()?;
        Ok(spec)
    }

    /// Checks that the generators have a sequence for the last input and the last weight, and
    /// thereby for all.
    fn check_sequences(&self) -> Result<()> {
        if let InputSource::Sequences(inputs) = self.encoding.input_source() {
            inputs.input(self.n_inputs() - 1)?;
        }
        let WeightSource::Sequences(weights) = self.encoding.weight_source() else { return Ok(()) };
        let (first, n) = (self.first_neuron as usize, self.n_inputs());
        match &self.topology {
            Topology::Dense { n_neurons, .. } => {
                weights.weight(first + n_neurons - 1, n - 1, n)?;
            }
            Topology::Sparse(connections) => {
                // The last connected neuron has the largest sequence number of the weights, the
                // last connected input that of the inputs.
                let last = |j: &usize| Some((*j, *connections.inputs_of(*j).last()? as usize));
                if let Some((neuron, input)) =
                    (0..connections.n_neurons()).rev().find_map(|j| last(&j))
                {
                    weights.weight(first + neuron, input, n)?;
                }
                if let Some(&input) = connections.inputs().iter().max() {
                    weights.weight(0, input as usize, n)?;
                }
            }
            Topology::Conv(shape) => {
                let taps = shape.kernel_weights();
                weights.weight(first + shape.n_channels() - 1, taps - 1, taps)?;
            }
        }
        Ok(())
    }

    /// Creates a dense layer outside of a network.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn dense(
        n_inputs: usize,
        n_neurons: usize,
        length: Length,
        polarity: Polarity,
        encoding: Encoding,
    ) -> Result<Self> {
        Self::new(Topology::Dense { n_inputs, n_neurons }, length, polarity, encoding)
    }

    /// Creates a sparse layer outside of a network.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn sparse(
        connections: Connections,
        length: Length,
        polarity: Polarity,
        encoding: Encoding,
    ) -> Result<Self> {
        Self::new(Topology::Sparse(Arc::new(connections)), length, polarity, encoding)
    }

    /// Creates a convolution outside of a network.
    ///
    /// # Errors
    /// As for [`ConvShape::new`] and [`Self::new`].
    pub fn conv(
        convolution: Convolution,
        length: Length,
        polarity: Polarity,
        encoding: Encoding,
    ) -> Result<Self> {
        Self::new(Topology::Conv(ConvShape::new(convolution)?), length, polarity, encoding)
    }

    /// Returns the same layer at `index` of a network.
    #[must_use]
    pub fn at(self, index: LayerIndex) -> Self {
        Self { index, ..self }
    }

    /// Returns the same layer with its first row of weights at another index, as in a shard of a
    /// layer.
    #[must_use]
    pub fn starting_at(self, first_neuron: u32) -> Self {
        Self { first_neuron, ..self }
    }

    /// Returns the same layer with streams of another length.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn with_length(&self, length: Length) -> Result<Self> {
        let Self { topology, polarity, encoding, index, first_neuron, .. } = self.clone();
        Ok(Self { index, first_neuron, ..Self::new(topology, length, polarity, encoding)? })
    }

    /// Returns a layer of some of the neurons, whose bits do not change. Neurons of a convolution
    /// can be selected by whole output channels, [`Self::neurons_per_row`] neurons each.
    ///
    /// ```
    /// use aleatron_core::{Encoding, LayerSpec, Length, Polarity};
    /// let spec = LayerSpec::dense(3, 10, Length::new(64)?, Polarity::Unipolar, Encoding::Bernoulli { seed: 1 })?;
    /// let part = spec.neurons(4..10)?;
    /// assert_eq!((part.n_neurons(), part.first_neuron()), (6, 4));
    /// # Ok::<(), aleatron_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Zero`] for an empty range, [`Error::TooLarge`] for a range past the end,
    /// [`Error::Ragged`] for a range that begins or ends within an output channel.
    pub fn neurons(&self, range: Range<usize>) -> Result<Self> {
        let n = self.n_neurons();
        if range.end > n {
            let (what, actual) = (Quantity::Neurons, range.end as u128);
            return Err(Error::TooLarge { what, actual, limit: n as u128 });
        }
        if range.is_empty() {
            return Err(Error::Zero(Quantity::Neurons));
        }
        let topology = match &self.topology {
            Topology::Dense { n_inputs, .. } => {
                Topology::Dense { n_inputs: *n_inputs, n_neurons: range.len() }
            }
            Topology::Sparse(connections) => {
                let rows =
                    range.clone().map(|j| connections.inputs_of(j).iter().map(|&i| i as usize));
                Topology::Sparse(Arc::new(Connections::from_rows(rows, connections.n_inputs())?))
            }
            Topology::Conv(shape) => {
                let divisor = shape.n_positions();
                if let Some(actual) =
                    [range.start, range.end].into_iter().find(|end| !end.is_multiple_of(divisor))
                {
                    return Err(Error::Ragged { what: Quantity::Neurons, actual, divisor });
                }
                Topology::Conv(shape.channels(range.start / divisor..range.end / divisor)?)
            }
        };
        // Fits: a layer has at most 2^32 rows.
        let first_row =
            self.first_neuron.wrapping_add((range.start / self.neurons_per_row()) as u32);
        Ok(Self { topology, first_neuron: first_row, ..self.clone() })
    }

    /// Returns the connections between inputs and neurons.
    #[must_use]
    pub const fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Returns the stream length.
    #[must_use]
    pub const fn length(&self) -> Length {
        self.length
    }

    /// Returns the polarity.
    #[must_use]
    pub const fn polarity(&self) -> Polarity {
        self.polarity
    }

    /// Returns the encoding.
    #[must_use]
    pub const fn encoding(&self) -> &Encoding {
        &self.encoding
    }

    /// Returns the layer's index in its network.
    #[must_use]
    pub const fn index(&self) -> LayerIndex {
        self.index
    }

    /// Returns the row of the first neuron's weight streams, an output channel of a convolution: 0
    /// unless selected by [`Self::neurons`].
    #[must_use]
    pub const fn first_neuron(&self) -> u32 {
        self.first_neuron
    }

    /// Returns the number of inputs.
    #[must_use]
    pub fn n_inputs(&self) -> usize {
        self.topology.n_inputs()
    }

    /// Returns the number of neurons.
    #[must_use]
    pub fn n_neurons(&self) -> usize {
        self.topology.n_neurons()
    }

    /// Returns the number of rows of weights: one for each neuron, or for each output channel.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        self.topology.n_rows()
    }

    /// Returns the number of neurons that share a row of weights: one, or as many as a kernel has
    /// positions.
    #[must_use]
    pub fn neurons_per_row(&self) -> usize {
        self.topology.neurons_per_row()
    }

    /// Returns the number of weights: one per neuron and input, one per connection, or one per tap
    /// of each kernel.
    #[must_use]
    pub fn n_weights(&self) -> usize {
        self.topology.n_weights()
    }

    /// Returns the number of products of a neuron.
    #[must_use]
    pub fn fan_in(&self, neuron: usize) -> usize {
        self.topology.fan_in(neuron)
    }

    /// Returns the largest number of products of a neuron.
    #[must_use]
    pub fn max_fan_in(&self) -> usize {
        self.topology.max_fan_in()
    }

    /// Returns the greatest possible count.
    #[must_use]
    pub fn max_count(&self) -> u128 {
        let products = self.max_fan_in() as u128 * self.length.bits() as u128;
        if self.polarity == Polarity::Signed { 2 * products } else { products }
    }

    /// Returns the number of pairs of packed words that all neurons together multiply for a sample.
    #[must_use]
    pub fn product_words(&self) -> usize {
        self.topology.n_products().saturating_mul(self.length.words())
    }

    /// Returns the number of packed words of one sample's inputs.
    #[must_use]
    pub fn sample_words(&self) -> usize {
        self.n_inputs() * self.length.words()
    }

    /// Returns the number of packed words of all weight streams.
    #[must_use]
    pub fn weight_words(&self) -> usize {
        self.n_weights() * self.length.words()
    }

    /// Returns the shape of a dense layer; `None` for another topology.
    #[must_use]
    pub fn dense_shape(&self) -> Option<DenseShape> {
        match self.topology {
            Topology::Dense { n_inputs, n_neurons } => {
                DenseShape::new(n_inputs, n_neurons, self.length, self.polarity).ok()
            }
            Topology::Sparse(_) | Topology::Conv(_) => None,
        }
    }

    /// Returns the bits of the integers that the layer multiplies; `None` for a layer of streams.
    #[must_use]
    pub fn integer_bits(&self) -> Option<IntegerBits> {
        IntegerBits::of(&self.encoding, self.length)
    }

    /// Decodes one neuron's count.
    #[must_use]
    pub fn decode(&self, neuron: usize, count: u64) -> f64 {
        self.polarity.decode(count, self.fan_in(neuron), self.length)
    }

    /// Decodes counts, row-major of samples by neurons.
    #[must_use]
    pub fn decode_all(&self, counts: &[u64]) -> Vec<f64> {
        self.polarity.decode_rows(counts, &self.topology.fan_ins(), self.length)
    }

    /// Returns the number of samples in `n` inputs.
    ///
    /// # Errors
    /// Returns [`Error::Ragged`] if they are not whole samples.
    pub fn samples_in(&self, n: usize) -> Result<usize> {
        let divisor = self.n_inputs();
        if n.is_multiple_of(divisor) {
            return Ok(n / divisor);
        }
        Err(Error::Ragged { what: Quantity::Inputs, actual: n, divisor })
    }

    /// Returns the thresholds of inputs, as wide as [`Encoding::input_width`]; see
    /// [`Width::thresholds`] for signed inputs.
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] with the first value outside the interval of the polarity.
    pub fn input_thresholds(&self, values: &[f64]) -> Result<Vec<u64>> {
        self.encoding.input_width().thresholds(values, self.polarity, Quantity::Value)
    }

    /// Returns the thresholds of weights, as wide as [`Encoding::weight_width`]; see
    /// [`Width::thresholds`] for signed weights.
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] with the first weight outside the interval of the polarity.
    pub fn weight_thresholds(&self, weights: &Weights) -> Result<Vec<u64>> {
        self.encoding.weight_width().thresholds(weights.values(), self.polarity, Quantity::Weight)
    }

    /// Returns the address of the Bernoulli stream of input 0 at the first neuron.
    #[must_use]
    pub const fn weight_address(&self, seed: u64) -> StreamAddress {
        StreamAddress::weight(seed, 0, self.first_neuron).in_layer(self.index)
    }

    /// Returns the address of the Bernoulli stream of input 0 of a sample.
    #[must_use]
    pub const fn input_address(&self, seed: SampleSeed) -> StreamAddress {
        StreamAddress::input(seed.seed, 0, seed.first_sample).in_layer(self.index)
    }
}

/// The weights of a layer, with their number and interval checked. Cheap to clone.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights(Arc<Vec<f64>>);

impl Weights {
    /// Creates the weights of a layer, row-major of neurons by inputs, of output channels by taps,
    /// or one per connection.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] for a wrong number of weights, and [`Error::OutOfRange`] with
    /// the first weight outside the interval of the polarity.
    pub fn new(spec: &LayerSpec, values: Vec<f64>) -> Result<Self> {
        let (expected, actual) = (spec.n_weights(), values.len());
        if expected != actual {
            return Err(Error::Mismatch { what: Quantity::Weights, expected, actual });
        }
        spec.polarity.check(&values, Quantity::Weight)?;
        Ok(Self(Arc::new(values)))
    }

    /// Draws the random weights of a seed; see [`weights`](mod@weights).
    ///
    /// # Errors
    /// Returns [`Error::Memory`] if they do not fit.
    pub fn random(spec: &LayerSpec, seed: u64) -> Result<Self> {
        let mut values = crate::memory::zeros(spec.n_weights() as u128, Quantity::Weights)?;
        match &spec.topology {
            Topology::Dense { .. } | Topology::Conv(_) => {
                let per_row = values.len() / spec.n_rows();
                for (row, neuron) in
                    values.chunks_exact_mut(per_row).zip(spec.first_neuron..=u32::MAX)
                {
                    weights::fill_row(seed, spec.index, neuron, spec.polarity, row);
                }
            }
            Topology::Sparse(connections) => {
                for (j, neuron) in (0..connections.n_neurons()).zip(spec.first_neuron..=u32::MAX) {
                    let range = connections.offsets()[j]..connections.offsets()[j + 1];
                    for (value, &input) in values[range].iter_mut().zip(connections.inputs_of(j)) {
                        *value = weights::random(seed, spec.index, neuron, input, spec.polarity);
                    }
                }
            }
        }
        Ok(Self(Arc::new(values)))
    }

    /// Returns the weights, row-major of neurons by inputs, of output channels by taps, or one per
    /// connection.
    #[must_use]
    pub fn values(&self) -> &[f64] {
        &self.0
    }

    /// Returns the weights of some neurons, for the layer of [`LayerSpec::neurons`].
    #[must_use]
    pub fn neurons(&self, spec: &LayerSpec, range: Range<usize>) -> Self {
        let ends = match &spec.topology {
            Topology::Dense { n_inputs, .. } => [range.start, range.end].map(|j| j * n_inputs),
            Topology::Sparse(connections) => {
                let last = connections.offsets().len() - 1;
                [range.start, range.end].map(|j| connections.offsets()[j.min(last)])
            }
            Topology::Conv(shape) => {
                [range.start, range.end].map(|j| j / shape.n_positions() * shape.kernel_weights())
            }
        };
        let [start, end] = ends.map(|end| end.min(self.0.len()));
        Self(Arc::new(self.0[start..end.max(start)].to_vec()))
    }
}

/// The seed of a call's input streams, and the global index of its first sample.
///
/// A sample's streams depend on its global index, never on its batch, so splitting a batch changes
/// no bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SampleSeed {
    /// The seed.
    pub seed: u64,
    /// The global index of the first sample.
    pub first_sample: u32,
}

impl SampleSeed {
    /// The default seed.
    pub const DEFAULT: u64 = 44257;

    /// Creates a seed for samples 0, 1, ….
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed, first_sample: 0 }
    }

    /// Returns the same seed for samples from `first_sample` on.
    #[must_use]
    pub const fn starting_at(self, first_sample: u32) -> Self {
        Self { first_sample, ..self }
    }

    /// Returns the same seed `n` samples further on.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] above the 2^32 samples that a counter can address.
    pub fn advanced(self, n: usize) -> Result<Self> {
        let actual = u128::from(self.first_sample) + n as u128;
        match u32::try_from(actual) {
            Ok(first_sample) => Ok(self.starting_at(first_sample)),
            Err(_) => Err(Error::TooLarge { what: Quantity::Row, actual, limit: u32::MAX.into() }),
        }
    }
}

impl Default for SampleSeed {
    fn default() -> Self {
        Self::new(Self::DEFAULT)
    }
}

impl From<u64> for SampleSeed {
    fn from(seed: u64) -> Self {
        Self::new(seed)
    }
}

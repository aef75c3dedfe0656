//! What decides the counts of a layer, the weights aside: its topology, length, polarity and where
//! its bits come from.

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

/// Which inputs each neuron sees.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "a layer has one, and a shape is numbers alone")]
pub enum Topology {
    /// Every neuron sees every input.
    Dense {
        /// Inputs.
        n_inputs: usize,
        /// Neurons.
        n_neurons: usize,
    },
    /// A neuron sees the inputs it is connected to.
    Sparse(Arc<Connections>),
    /// A neuron, one for each output channel and position, sees the inputs under the kernel of its
    /// channel at its position.
    Conv(ConvShape),
}

impl Topology {
    /// The number of inputs.
    #[must_use]
    pub fn n_inputs(&self) -> usize {
        match self {
            Self::Dense { n_inputs, .. } => *n_inputs,
            Self::Sparse(connections) => connections.n_inputs(),
            Self::Conv(shape) => shape.n_inputs(),
        }
    }

    /// The number of neurons.
    #[must_use]
    pub fn n_neurons(&self) -> usize {
        match self {
            Self::Dense { n_neurons, .. } => *n_neurons,
            Self::Sparse(connections) => connections.n_neurons(),
            Self::Conv(shape) => shape.n_outputs(),
        }
    }

    /// The rows of weights: one for each neuron, or for each output channel.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        match self {
            Self::Dense { .. } | Self::Sparse(_) => self.n_neurons(),
            Self::Conv(shape) => shape.n_channels(),
        }
    }

    /// The neurons that have one row of weights: one, or as many as a kernel has positions.
    #[must_use]
    pub fn neurons_per_row(&self) -> usize {
        match self {
            Self::Dense { .. } | Self::Sparse(_) => 1,
            Self::Conv(shape) => shape.n_positions(),
        }
    }

    /// The number of weights: one per neuron and input, one per connection, or one per tap of each
    /// kernel.
    #[must_use]
    pub fn n_weights(&self) -> usize {
        match self {
            Self::Dense { n_inputs, n_neurons } => n_inputs * n_neurons,
            Self::Sparse(connections) => connections.len(),
            Self::Conv(shape) => shape.n_weights(),
        }
    }

    /// The products that all neurons together sum for a sample.
    #[must_use]
    pub fn n_products(&self) -> usize {
        match self {
            Self::Dense { .. } | Self::Sparse(_) => self.n_weights(),
            Self::Conv(shape) => shape.n_products(),
        }
    }

    /// The products a neuron sums.
    #[must_use]
    pub fn fan_in(&self, neuron: usize) -> usize {
        match self {
            Self::Dense { n_inputs, .. } => *n_inputs,
            Self::Sparse(connections) => connections.inputs_of(neuron).len(),
            Self::Conv(shape) => shape.fan_in(neuron % shape.n_positions()),
        }
    }

    /// The products of neurons 0, 1, …, which come again from the start for those past the last: of
    /// every neuron of a sparse layer, of the positions of a channel, of any neuron of a dense
    /// layer.
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

    /// The most products a neuron sums.
    #[must_use]
    pub fn max_fan_in(&self) -> usize {
        match self {
            Self::Dense { n_inputs, .. } => *n_inputs,
            Self::Sparse(_) => self.fan_ins().into_iter().max().unwrap_or(0),
            Self::Conv(shape) => shape.max_fan_in(),
        }
    }
}

/// Where the bits of a layer's streams come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Encoding {
    /// Every stream has random bits of its own.
    Bernoulli {
        /// The seed of the weight streams.
        seed: u64,
    },
    /// Streams share sequences.
    Sequences(Pairing),
    /// Every input stream has random bits of its own, and weight streams share sequences.
    BernoulliInputs {
        /// The sequences of the weights.
        weights: OperandSequences,
    },
    /// Every weight stream has random bits of its own, and input streams share sequences.
    BernoulliWeights {
        /// The seed of the weight streams.
        seed: u64,
        /// The sequences of the inputs.
        inputs: OperandSequences,
    },
}

/// Where the bits of a layer's input streams come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InputSource {
    /// Every stream has random bits of its own; the seed comes with each call.
    Bernoulli,
    /// Streams share sequences.
    Sequences(OperandSequences),
}

/// Where the bits of a layer's weight streams come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WeightSource {
    /// Every stream has random bits of its own.
    Bernoulli {
        /// The seed of the streams.
        seed: u64,
    },
    /// Streams share sequences.
    Sequences(OperandSequences),
}

impl Encoding {
    /// Where the bits of the inputs come from.
    #[must_use]
    pub const fn input_source(&self) -> InputSource {
        match self {
            Self::Bernoulli { .. } | Self::BernoulliInputs { .. } => InputSource::Bernoulli,
            Self::Sequences(pairing) => InputSource::Sequences(pairing.of_inputs()),
            Self::BernoulliWeights { inputs, .. } => InputSource::Sequences(*inputs),
        }
    }

    /// Where the bits of the weights come from.
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

    /// The width of the integers that inputs are compared with.
    #[must_use]
    pub const fn input_width(&self) -> Width {
        match self.input_source() {
            InputSource::Bernoulli => Width::BERNOULLI,
            InputSource::Sequences(sequences) => sequences.width(),
        }
    }

    /// The width of the integers that weights are compared with.
    #[must_use]
    pub const fn weight_width(&self) -> Width {
        match self.weight_source() {
            WeightSource::Bernoulli { .. } => Width::BERNOULLI,
            WeightSource::Sequences(sequences) => sequences.width(),
        }
    }
}

/// Everything but the weights that decides a layer's counts.
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
    /// A layer on its own.
    ///
    /// # Errors
    /// [`Error::Zero`] for no inputs or neurons, [`Error::TooLarge`] past 2^32 of either, where a
    /// generator has too few sequences and where signed counts could pass 64 bits,
    /// [`Error::Memory`] where the size of the weight streams overflows an address.
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

    /// Checks that the generators have a sequence for the last input and the last weight, and so
    /// for all.
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
                // The last neuron that is connected has the last sequence of those by weight, the
                // last input of those by input.
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

    /// A dense layer on its own.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn dense(
        n_inputs: usize,
        n_neurons: usize,
        length: Length,
        polarity: Polarity,
        encoding: Encoding,
    ) -> Result<Self> {
        Self::new(Topology::Dense { n_inputs, n_neurons }, length, polarity, encoding)
    }

    /// A sparse layer on its own.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn sparse(
        connections: Connections,
        length: Length,
        polarity: Polarity,
        encoding: Encoding,
    ) -> Result<Self> {
        Self::new(Topology::Sparse(Arc::new(connections)), length, polarity, encoding)
    }

    /// A convolution on its own.
    ///
    /// # Errors
    /// As [`ConvShape::new`] and [`Self::new`].
    pub fn conv(
        convolution: Convolution,
        length: Length,
        polarity: Polarity,
        encoding: Encoding,
    ) -> Result<Self> {
        Self::new(Topology::Conv(ConvShape::new(convolution)?), length, polarity, encoding)
    }

    /// The same layer at `index` of a network.
    #[must_use]
    pub fn at(self, index: LayerIndex) -> Self {
        Self { index, ..self }
    }

    /// The same layer with its first row of weights at another place, as a part of a layer has it.
    #[must_use]
    pub fn starting_at(self, first_neuron: u32) -> Self {
        Self { first_neuron, ..self }
    }

    /// The same layer with streams of another length.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_length(&self, length: Length) -> Result<Self> {
        let Self { topology, polarity, encoding, index, first_neuron, .. } = self.clone();
        Ok(Self { index, first_neuron, ..Self::new(topology, length, polarity, encoding)? })
    }

    /// Some of the neurons as a layer of their own: a neuron has the same bits in both. Those of a
    /// convolution can be taken by whole output channels, [`Self::neurons_per_row`] neurons
    /// each.
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
    /// [`Error::Zero`] for an empty range, [`Error::TooLarge`] for one past the end,
    /// [`Error::Ragged`] for one that begins or ends within an output channel.
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

    /// Which inputs each neuron sees.
    #[must_use]
    pub const fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The stream length.
    #[must_use]
    pub const fn length(&self) -> Length {
        self.length
    }

    /// The polarity.
    #[must_use]
    pub const fn polarity(&self) -> Polarity {
        self.polarity
    }

    /// Where the bits come from.
    #[must_use]
    pub const fn encoding(&self) -> &Encoding {
        &self.encoding
    }

    /// The layer's place in a network.
    #[must_use]
    pub const fn index(&self) -> LayerIndex {
        self.index
    }

    /// The row of the first neuron's weight streams, an output channel of a convolution: 0 but for
    /// a layer made by [`Self::neurons`].
    #[must_use]
    pub const fn first_neuron(&self) -> u32 {
        self.first_neuron
    }

    /// The number of inputs.
    #[must_use]
    pub fn n_inputs(&self) -> usize {
        self.topology.n_inputs()
    }

    /// The number of neurons.
    #[must_use]
    pub fn n_neurons(&self) -> usize {
        self.topology.n_neurons()
    }

    /// The rows of weights: one for each neuron, or for each output channel.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        self.topology.n_rows()
    }

    /// The neurons that have one row of weights: one, or as many as a kernel has positions.
    #[must_use]
    pub fn neurons_per_row(&self) -> usize {
        self.topology.neurons_per_row()
    }

    /// The number of weights: one per neuron and input, one per connection, or one per tap of each
    /// kernel.
    #[must_use]
    pub fn n_weights(&self) -> usize {
        self.topology.n_weights()
    }

    /// The products a neuron sums.
    #[must_use]
    pub fn fan_in(&self, neuron: usize) -> usize {
        self.topology.fan_in(neuron)
    }

    /// The most products a neuron sums.
    #[must_use]
    pub fn max_fan_in(&self) -> usize {
        self.topology.max_fan_in()
    }

    /// The greatest count there can be.
    #[must_use]
    pub fn max_count(&self) -> u128 {
        let products = self.max_fan_in() as u128 * self.length.bits() as u128;
        if self.polarity == Polarity::Signed { 2 * products } else { products }
    }

    /// The pairs of packed words that all neurons together multiply for a sample.
    #[must_use]
    pub fn product_words(&self) -> usize {
        self.topology.n_products().saturating_mul(self.length.words())
    }

    /// The packed words of one sample's inputs.
    #[must_use]
    pub fn sample_words(&self) -> usize {
        self.n_inputs() * self.length.words()
    }

    /// The packed words of all weight streams.
    #[must_use]
    pub fn weight_words(&self) -> usize {
        self.n_weights() * self.length.words()
    }

    /// The shape of a dense layer; `None` for another topology.
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

    /// The value of one neuron's count.
    #[must_use]
    pub fn decode(&self, neuron: usize, count: u64) -> f64 {
        self.polarity.decode(count, self.fan_in(neuron), self.length)
    }

    /// The values of counts, row-major of samples by neurons.
    #[must_use]
    pub fn decode_all(&self, counts: &[u64]) -> Vec<f64> {
        self.polarity.decode_rows(counts, &self.topology.fan_ins(), self.length)
    }

    /// The number of samples in `n` inputs.
    ///
    /// # Errors
    /// [`Error::Ragged`] where they are not whole samples.
    pub fn samples_in(&self, n: usize) -> Result<usize> {
        let divisor = self.n_inputs();
        if n.is_multiple_of(divisor) {
            return Ok(n / divisor);
        }
        Err(Error::Ragged { what: Quantity::Inputs, actual: n, divisor })
    }

    /// The thresholds of inputs, as wide as [`Encoding::input_width`]; see [`Width::thresholds`]
    /// for those of signed ones.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] with the first value outside the interval of the polarity.
    pub fn input_thresholds(&self, values: &[f64]) -> Result<Vec<u64>> {
        self.encoding.input_width().thresholds(values, self.polarity, Quantity::Value)
    }

    /// The thresholds of weights, as wide as [`Encoding::weight_width`]; see [`Width::thresholds`]
    /// for those of signed ones.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] with the first one outside the interval of the polarity.
    pub fn weight_thresholds(&self, weights: &Weights) -> Result<Vec<u64>> {
        self.encoding.weight_width().thresholds(weights.values(), self.polarity, Quantity::Weight)
    }

    /// Where the Bernoulli stream of input 0 at the first neuron is drawn.
    #[must_use]
    pub const fn weight_address(&self, seed: u64) -> StreamAddress {
        StreamAddress::weight(seed, 0, self.first_neuron).in_layer(self.index)
    }

    /// Where the Bernoulli stream of input 0 of a sample is drawn.
    #[must_use]
    pub const fn input_address(&self, seed: SampleSeed) -> StreamAddress {
        StreamAddress::input(seed.seed, 0, seed.first_sample).in_layer(self.index)
    }
}

/// The weights of a layer: as many as it has, each in the interval of its polarity. Cheap to clone.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights(Arc<Vec<f64>>);

impl Weights {
    /// Weights of a layer, row-major of neurons by inputs, of output channels by taps, or one per
    /// connection.
    ///
    /// # Errors
    /// [`Error::Mismatch`] where there are not as many as the layer has, [`Error::OutOfRange`] with
    /// the first one outside the interval of the polarity.
    pub fn new(spec: &LayerSpec, values: Vec<f64>) -> Result<Self> {
        let (expected, actual) = (spec.n_weights(), values.len());
        if expected != actual {
            return Err(Error::Mismatch { what: Quantity::Weights, expected, actual });
        }
        spec.polarity.check(&values, Quantity::Weight)?;
        Ok(Self(Arc::new(values)))
    }

    /// The random weights of a seed; see [`weights`](mod@weights).
    ///
    /// # Errors
    /// [`Error::Memory`] where they do not fit.
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

    /// The weights, row-major of neurons by inputs, of output channels by taps, or one per
    /// connection.
    #[must_use]
    pub fn values(&self) -> &[f64] {
        &self.0
    }

    /// The weights of some neurons, for the layer that [`LayerSpec::neurons`] makes of them.
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
/// A sample's streams depend on its own global index, never on the batch it came in, so splitting a
/// batch changes no bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SampleSeed {
    /// The seed.
    pub seed: u64,
    /// The global index of the first sample.
    pub first_sample: u32,
}

impl SampleSeed {
    /// The seed where none is given.
    pub const DEFAULT: u64 = 44257;

    /// A seed for samples 0, 1, ….
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed, first_sample: 0 }
    }

    /// The same seed for samples from `first_sample` on.
    #[must_use]
    pub const fn starting_at(self, first_sample: u32) -> Self {
        Self { first_sample, ..self }
    }

    /// The same seed `n` samples further on.
    ///
    /// # Errors
    /// [`Error::TooLarge`] past the 2^32 samples that a counter can name.
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

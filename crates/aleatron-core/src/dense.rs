//! The shape of a dense layer and its derived sizes.

use crate::error::{Error, Quantity, Result};
use crate::polarity::Polarity;
use crate::stream::Length;

/// Inputs, neurons, length and polarity of a layer: all at least 1, and with every derived size
/// checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DenseShape {
    n_inputs: usize,
    n_neurons: usize,
    length: Length,
    polarity: Polarity,
}

impl DenseShape {
    /// Creates a layer of `n_neurons` neurons over `n_inputs` inputs.
    ///
    /// ```
    /// use aleatron_core::{DenseShape, Length, Polarity};
    /// let shape = DenseShape::new(1000, 500, Length::new(1024)?, Polarity::Unipolar)?;
    /// assert_eq!(shape.weight_bytes(), 64_000_000);
    /// assert!(DenseShape::new(0, 1, Length::new(64)?, Polarity::Unipolar).is_err());
    /// # Ok::<(), aleatron_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Zero`] for no inputs or neurons, [`Error::TooLarge`] above 2^32 of either,
    /// [`Error::Memory`] if the weights' size overflows an address.
    pub fn new(
        n_inputs: usize,
        n_neurons: usize,
        length: Length,
        polarity: Polarity,
    ) -> Result<Self> {
        for (what, n) in [(Quantity::Inputs, n_inputs), (Quantity::Neurons, n_neurons)] {
            if n == 0 {
                return Err(Error::Zero(what));
            }
            if n as u128 > 1 << 32 {
                return Err(Error::TooLarge { what, actual: n as u128, limit: 1 << 32 });
            }
        }
        let shape = Self { n_inputs, n_neurons, length, polarity };
        let bytes = n_inputs as u128 * n_neurons as u128 * length.words() as u128 * 8;
        if bytes > isize::MAX as u128 {
            return Err(Error::Memory { what: Quantity::Weights, bytes, available: None });
        }
        Ok(shape)
    }

    /// Returns the number of inputs.
    #[must_use]
    pub const fn n_inputs(&self) -> usize {
        self.n_inputs
    }

    /// Returns the number of neurons.
    #[must_use]
    pub const fn n_neurons(&self) -> usize {
        self.n_neurons
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

    /// Returns the number of weights, one per neuron and input.
    #[must_use]
    pub const fn n_weights(&self) -> usize {
        self.n_inputs * self.n_neurons
    }

    /// Returns the number of packed words of one sample's inputs, which is also that of one
    /// neuron's weights.
    #[must_use]
    pub const fn row_words(&self) -> usize {
        self.n_inputs * self.length.words()
    }

    /// Returns the number of packed words of all weight streams.
    #[must_use]
    pub const fn weight_words(&self) -> usize {
        self.row_words() * self.n_neurons
    }

    /// Returns the size of all weight streams in bytes.
    #[must_use]
    pub const fn weight_bytes(&self) -> usize {
        self.weight_words() * 8
    }

    /// Decodes one neuron's count.
    #[must_use]
    pub fn decode(&self, count: u64) -> f64 {
        self.polarity.decode(count, self.n_inputs, self.length)
    }

    /// Returns the number of samples in `values` inputs.
    ///
    /// # Errors
    /// Returns [`Error::Ragged`] if they are not whole samples.
    pub fn samples_in(&self, values: usize) -> Result<usize> {
        if values.is_multiple_of(self.n_inputs) {
            Ok(values / self.n_inputs)
        } else {
            Err(Error::Ragged { what: Quantity::Inputs, actual: values, divisor: self.n_inputs })
        }
    }
}

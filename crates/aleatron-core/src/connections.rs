//! The connections of sparse layers as compressed rows.

use crate::error::{Error, Quantity, Result};

/// The connections of a sparse layer: for each neuron a strictly increasing list of inputs.
///
/// ```
/// use aleatron_core::Connections;
/// let mask = [true, false, true, false, false, true];
/// let connections = Connections::from_mask(&mask, 3)?;
/// assert_eq!(connections.inputs_of(0), [0, 2]);
/// assert_eq!(connections.inputs_of(1), [2]);
/// assert_eq!(connections.len(), 3);
/// # Ok::<(), aleatron_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Connections {
    n_inputs: usize,
    offsets: Vec<usize>,
    inputs: Vec<u32>,
}

impl Connections {
    /// Creates connections where `mask`, row-major of neurons by inputs, is true.
    ///
    /// # Errors
    /// Returns [`Error::Zero`] without inputs or neurons, [`Error::Ragged`] if the mask is not
    /// whole rows, [`Error::TooLarge`] above 2^32 inputs.
    pub fn from_mask(mask: &[bool], n_inputs: usize) -> Result<Self> {
        if n_inputs == 0 {
            return Err(Error::Zero(Quantity::Inputs));
        }
        if !mask.len().is_multiple_of(n_inputs) {
            return Err(Error::Ragged {
                what: Quantity::Connections,
                actual: mask.len(),
                divisor: n_inputs,
            });
        }
        Self::from_rows(
            mask.chunks(n_inputs).map(|row| (0..n_inputs).filter(|&i| row[i])),
            n_inputs,
        )
    }

    /// Creates connections from a list of inputs per neuron.
    ///
    /// # Errors
    /// Returns [`Error::Zero`] without inputs or neurons, [`Error::UnsortedConnections`] if a list
    /// does not strictly increase, [`Error::UnknownInput`] if it names an input at or past
    /// `n_inputs`, [`Error::TooLarge`] above 2^32 inputs or neurons.
    pub fn from_rows<Row>(rows: impl IntoIterator<Item = Row>, n_inputs: usize) -> Result<Self>
    where
        Row: IntoIterator<Item = usize>,
    {
        if n_inputs == 0 {
            return Err(Error::Zero(Quantity::Inputs));
        }
        if n_inputs as u128 > 1 << 32 {
            return Err(Error::TooLarge {
                what: Quantity::Inputs,
                actual: n_inputs as u128,
                limit: 1 << 32,
            });
        }
        let mut connections = Self { n_inputs, offsets: vec![0], inputs: Vec::new() };
        for (neuron, row) in rows.into_iter().enumerate() {
            if neuron as u128 >= 1 << 32 {
                let actual = neuron as u128 + 1;
                return Err(Error::TooLarge { what: Quantity::Neurons, actual, limit: 1 << 32 });
            }
            let mut previous = None;
            for (position, input) in row.into_iter().enumerate() {
                if input >= n_inputs {
                    return Err(Error::UnknownInput { neuron, input, n_inputs });
                }
                if previous.is_some_and(|previous| previous >= input) {
                    return Err(Error::UnsortedConnections { neuron, position, input });
                }
                previous = Some(input);
                connections.inputs.push(input as u32);
            }
            connections.offsets.push(connections.inputs.len());
        }
        if connections.n_neurons() == 0 {
            return Err(Error::Zero(Quantity::Neurons));
        }
        Ok(connections)
    }

    /// Returns the number of inputs.
    #[must_use]
    pub fn n_inputs(&self) -> usize {
        self.n_inputs
    }

    /// Returns the number of neurons.
    #[must_use]
    pub fn n_neurons(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Returns the number of connections.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inputs.len()
    }

    /// Returns whether there are no connections.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inputs.is_empty()
    }

    /// Returns the offset of each neuron's connections in [`Self::inputs`], and the end of the last
    /// neuron's.
    #[must_use]
    pub fn offsets(&self) -> &[usize] {
        &self.offsets
    }

    /// Returns the inputs of all connections, neuron after neuron.
    #[must_use]
    pub fn inputs(&self) -> &[u32] {
        &self.inputs
    }

    /// Returns the inputs of one neuron; empty if the neuron does not exist.
    #[must_use]
    pub fn inputs_of(&self, neuron: usize) -> &[u32] {
        match self.offsets.get(neuron..) {
            Some(&[start, end, ..]) => &self.inputs[start..end],
            _ => &[],
        }
    }
}

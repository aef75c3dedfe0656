//! Parts of a circuit, and numbers by part.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// A part of a circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Part {
    /// The random sources of comparators.
    Sequences,
    /// Line buffers and other memories of inputs.
    InputRegisters,
    /// The comparators of inputs.
    InputComparators,
    /// The stream bits of weights: constant comparators and, for groups of neurons, tables.
    WeightBits,
    /// The products of stream bits, or the multipliers of integers with their accumulators.
    Products,
    /// The parallel counters.
    Counters,
    /// The accumulators after the counters.
    Accumulators,
    /// Biases, activations, requantizers, pools and sums.
    Arithmetic,
    /// Control and handshakes.
    Control,
    /// Multiplexers of counts and everything else.
    Other,
}

impl Part {
    /// All parts.
    pub const ALL: [Self; 10] = [
        Self::Sequences,
        Self::InputRegisters,
        Self::InputComparators,
        Self::WeightBits,
        Self::Products,
        Self::Counters,
        Self::Accumulators,
        Self::Arithmetic,
        Self::Control,
        Self::Other,
    ];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sequences => "sequences",
            Self::InputRegisters => "line buffers and input registers",
            Self::InputComparators => "comparators of inputs",
            Self::WeightBits => "weight bits",
            Self::Products => "products",
            Self::Counters => "parallel counters",
            Self::Accumulators => "accumulators",
            Self::Arithmetic => "biases, activations, requantizers and pools",
            Self::Control => "control and handshakes",
            Self::Other => "multiplexers of counts and the rest",
        }
    }

    /// Returns the part of a module of a design.
    pub(crate) fn of_module(name: &str) -> Self {
        let modules: [(Self, &[&str]); 9] = [
            (Self::Sequences, &["al_lfsr", "al_sobol", "_sequences"]),
            (Self::InputRegisters, &["al_window", "al_reorder", "al_fifo"]),
            (Self::InputComparators, &["al_compare"]),
            (Self::WeightBits, &["_weights"]),
            (Self::Products, &["al_products", "al_multiply_add"]),
            (Self::Counters, &["al_count_", "al_adders", "al_half_adders"]),
            (Self::Accumulators, &["al_accumulator"]),
            (Self::Arithmetic, &["_accumulate", "_function", "al_scale", "al_saturate", "al_pool"]),
            (
                Self::Control,
                &["al_control", "al_register", "al_index", "al_fork", "al_argmax", "al_clock_gate"],
            ),
        ];
        let found = modules.iter().find(|(_, names)| names.iter().any(|part| name.contains(part)));
        found.map_or(Self::Other, |(part, _)| *part)
    }
}

/// One number for each part of a circuit.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PartValues([f64; Part::ALL.len()]);

impl PartValues {
    /// Returns the number of a part.
    #[must_use]
    pub fn get(&self, part: Part) -> f64 {
        self.0.get(part as usize).copied().unwrap_or(0.0)
    }

    /// Returns the parts with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (Part, f64)> + '_ {
        Part::ALL.into_iter().zip(self.0)
    }

    /// Returns the sum.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.0.iter().sum()
    }

    pub(crate) fn add(&mut self, part: Part, value: f64) {
        if let Some(slot) = self.0.get_mut(part as usize) {
            *slot += value;
        }
    }

    pub(crate) fn scale(&mut self, factor: f64) {
        self.0.iter_mut().for_each(|value| *value *= factor);
    }
}

impl Serialize for PartValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(Part::ALL.len()))?;
        for (part, value) in self.iter() {
            map.serialize_entry(part.name(), &value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_in_the_order_of_their_numbers() {
        for (k, part) in Part::ALL.into_iter().enumerate() {
            assert_eq!(part as usize, k);
        }
    }

    #[test]
    fn modules_belong_to_the_first_matching_part() {
        assert_eq!(Part::of_module("$paramod$0a56\\al_window"), Part::InputRegisters);
        assert_eq!(Part::of_module("net_n_hidden_weights"), Part::WeightBits);
        assert_eq!(Part::of_module("net_n_hidden"), Part::Other);
    }
}

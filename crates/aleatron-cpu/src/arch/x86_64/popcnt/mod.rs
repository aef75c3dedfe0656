//! The `popcnt` instruction.

pub(crate) mod count;

//! The `popcnt` instruction.

pub(crate) mod ceiling;
pub(crate) mod count;

//! The product of two streams, and its relation to counts of AND.

use aleatron_core::Polarity;
use aleatron_core::program::InputSign;

use crate::encode::RowStreams;
use crate::kernels::{ResultKind, ValueKind};

/// The product of two streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Product {
    /// Counts are those of AND.
    And,
    /// Counts are `n L - ones(w) - ones(x) + 2 ones(w AND x)`.
    Xnor,
    /// Counts are `n L`, plus those of AND of operands of equal signs, minus those of operands of
    /// different signs.
    SignedAnd,
    /// The same for non-negative inputs: plus those of positive weights, minus those of negative
    /// ones.
    SplitAnd,
}

impl Product {
    /// Returns the product of a polarity. This is the only dispatch on polarities: a new polarity
    /// needs a product here, and its conversion in `Finish`.
    pub(crate) const fn of(polarity: Polarity, inputs: InputSign) -> Self {
        match (polarity, inputs) {
            (Polarity::Unipolar, _) => Self::And,
            (Polarity::Bipolar, _) => Self::Xnor,
            (Polarity::Signed, InputSign::Any) => Self::SignedAnd,
            (Polarity::Signed, InputSign::NonNegative) => Self::SplitAnd,
        }
    }

    /// Returns whether operands have signs.
    pub(crate) const fn is_signed(self) -> bool {
        matches!(self, Self::SignedAnd | Self::SplitAnd)
    }

    /// Returns the kind of conversion of its values.
    pub(crate) const fn value_kind(self) -> ValueKind {
        match self {
            Self::And => ValueKind::UnipolarF64,
            Self::Xnor => ValueKind::BipolarF64,
            Self::SignedAnd | Self::SplitAnd => ValueKind::SignedF64,
        }
    }

    /// Returns the kind of conversion of its values of 32 bits.
    pub(crate) const fn single_kind(self) -> ValueKind {
        match self {
            Self::And => ValueKind::UnipolarF32,
            Self::Xnor => ValueKind::BipolarF32,
            Self::SignedAnd | Self::SplitAnd => ValueKind::SignedF32,
        }
    }

    /// Returns the kind of conversion of its thresholds.
    pub(crate) const fn threshold_kind(self) -> ValueKind {
        match self {
            Self::And | Self::Xnor => ValueKind::Thresholds,
            Self::SignedAnd | Self::SplitAnd => ValueKind::SignedThresholds,
        }
    }

    /// Returns the form of its results as values.
    pub(crate) const fn result_kind(self) -> ResultKind {
        match self {
            Self::And => ResultKind::UnipolarValues,
            Self::Xnor => ResultKind::BipolarValues,
            Self::SignedAnd | Self::SplitAnd => ResultKind::SignedValues,
        }
    }

    /// Returns the streams of the rows that are multiplied with AND.
    pub(crate) const fn row_streams(self) -> RowStreams {
        match self {
            Self::And | Self::Xnor | Self::SplitAnd => RowStreams::Magnitudes,
            Self::SignedAnd => RowStreams::BothSigns,
        }
    }
}

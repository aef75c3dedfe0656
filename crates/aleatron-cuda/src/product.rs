//! What two streams are multiplied by, and what that makes of counts of AND.

use aleatron_core::Polarity;
use aleatron_core::program::InputSign;

use crate::encode::RowStreams;
use crate::kernels::{ResultKind, ValueKind};

/// What two streams are multiplied by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Product {
    /// Counts are those of AND.
    And,
    /// Counts are `n L - ones(w) - ones(x) + 2 ones(w AND x)`.
    Xnor,
    /// Counts are `n L`, plus those of AND of operands of one sign, less those of operands of two.
    SignedAnd,
    /// The same for inputs that are not negative: plus those of positive weights, less those of
    /// negative ones.
    SplitAnd,
}

impl Product {
    /// The product of a polarity. The one place that asks for it: whoever adds a polarity adds its
    /// product here, and what its counts are made of in `Finish`.
    pub(crate) const fn of(polarity: Polarity, inputs: InputSign) -> Self {
        match (polarity, inputs) {
            (Polarity::Unipolar, _) => Self::And,
            (Polarity::Bipolar, _) => Self::Xnor,
            (Polarity::Signed, InputSign::Any) => Self::SignedAnd,
            (Polarity::Signed, InputSign::NonNegative) => Self::SplitAnd,
        }
    }

    /// Whether operands have signs.
    pub(crate) const fn is_signed(self) -> bool {
        matches!(self, Self::SignedAnd | Self::SplitAnd)
    }

    /// What values of it are converted as.
    pub(crate) const fn value_kind(self) -> ValueKind {
        match self {
            Self::And => ValueKind::UnipolarF64,
            Self::Xnor => ValueKind::BipolarF64,
            Self::SignedAnd | Self::SplitAnd => ValueKind::SignedF64,
        }
    }

    /// The same for values of 32 bits.
    pub(crate) const fn single_kind(self) -> ValueKind {
        match self {
            Self::And => ValueKind::UnipolarF32,
            Self::Xnor => ValueKind::BipolarF32,
            Self::SignedAnd | Self::SplitAnd => ValueKind::SignedF32,
        }
    }

    /// The same for thresholds.
    pub(crate) const fn threshold_kind(self) -> ValueKind {
        match self {
            Self::And | Self::Xnor => ValueKind::Thresholds,
            Self::SignedAnd | Self::SplitAnd => ValueKind::SignedThresholds,
        }
    }

    /// What its results are as values.
    pub(crate) const fn result_kind(self) -> ResultKind {
        match self {
            Self::And => ResultKind::UnipolarValues,
            Self::Xnor => ResultKind::BipolarValues,
            Self::SignedAnd | Self::SplitAnd => ResultKind::SignedValues,
        }
    }

    /// What the rows are that it multiplies as AND.
    pub(crate) const fn row_streams(self) -> RowStreams {
        match self {
            Self::And | Self::Xnor | Self::SplitAnd => RowStreams::Magnitudes,
            Self::SignedAnd => RowStreams::BothSigns,
        }
    }
}

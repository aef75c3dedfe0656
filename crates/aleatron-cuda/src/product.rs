//! What two streams are multiplied by, and what that makes of counts of AND.

use aleatron_core::{Error as CoreError, Polarity};

use crate::error::Result;
use crate::kernels::{ResultKind, ValueKind};

/// What two streams are multiplied by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Product {
    /// Counts are those of AND.
    And,
    /// Counts are `n L - ones(w) - ones(x) + 2 ones(w AND x)`.
    Xnor,
}

impl Product {
    /// The product of a polarity. The one place that asks for it: whoever adds a polarity adds its product here, and what its
    /// counts are made of in `Finish`.
    pub(crate) fn of(polarity: Polarity) -> Result<Self> {
        match polarity {
            Polarity::Unipolar => Ok(Self::And),
            Polarity::Bipolar => Ok(Self::Xnor),
            Polarity::Signed => Err(CoreError::unsupported("cuda", "signed layers").into()),
        }
    }

    /// What values of it are converted as.
    pub(crate) const fn value_kind(self) -> ValueKind {
        match self {
            Self::And => ValueKind::UnipolarF64,
            Self::Xnor => ValueKind::BipolarF64,
        }
    }

    /// The same for values of 32 bits.
    pub(crate) const fn single_kind(self) -> ValueKind {
        match self {
            Self::And => ValueKind::UnipolarF32,
            Self::Xnor => ValueKind::BipolarF32,
        }
    }

    /// What its results are as values.
    pub(crate) const fn result_kind(self) -> ResultKind {
        match self {
            Self::And => ResultKind::UnipolarValues,
            Self::Xnor => ResultKind::BipolarValues,
        }
    }
}

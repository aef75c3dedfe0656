//! Inter-layer arithmetic: converts the counts of one layer into the inputs of the next.
//!
//! [`FloatStage`] computes in f64, as a simulation may. [`Accumulator`] and [`Requantizer`] compute
//! as a circuit does, in integers of stated widths: count, integer bias, activation, multiplier and
//! right shift, saturation, threshold of the next comparator. [`PoolShape`] reduces images in
//! either arithmetic, after the activation. [`Rescaler`] and [`to_units`] are for graphs, whose
//! integers have units of their own. `docs/streams.md` is the specification.

mod exact;
mod factor;
mod float;
mod integer;
mod pool;
mod scale;

pub(crate) use float::divide;
pub use float::{Activation, FloatStage, saturate};
pub use integer::{Accumulator, IntegerActivation, Requantized, Requantizer, Rescaler, to_units};
pub use pool::{Border, Pool, PoolKind, PoolShape};
pub use scale::{SIGNAL_LIMIT, weight_scale_of_row};

use crate::error::{Error, Quantity, Result};
use std::fmt;
use std::str::FromStr;

/// The inter-layer arithmetic. As text: `float` or `integer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Arithmetic {
    /// Numbers are f64.
    #[default]
    Float,
    /// Numbers are integers of stated widths, as in a circuit.
    Integer,
}

impl Arithmetic {
    /// Both arithmetics.
    pub const ALL: [Self; 2] = [Self::Float, Self::Integer];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Float => "float",
            Self::Integer => "integer",
        }
    }
}

impl fmt::Display for Arithmetic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Arithmetic {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|arithmetic| arithmetic.name() == text);
        found.ok_or_else(|| {
            Error::unknown_name(Quantity::Arithmetic, text, Self::ALL.map(Self::name))
        })
    }
}

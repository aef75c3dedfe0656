//! Cost of a circuit by a model: cycles, area and energy of a sample, without synthesis.
//!
//! The model counts the structures of a circuit from its description ([`Structure`]) and multiplies
//! them with coefficients that were fitted to synthesized designs. `docs/hardware.md` states its
//! error and the command that repeats the fit.
//!
//! ```
//! use aleatron_engine::network::{Arithmetic, Network, StreamConfig};
//! use aleatron_hardware::cost::Technology;
//! use aleatron_hardware::{Circuit, Options};
//! let config = StreamConfig::new(64).generator("lfsr".parse()?).arithmetic(Arithmetic::Integer);
//! let options = Options::default();
//! let circuit = Circuit::new(&Network::digits_noise_aware()?, &config, &options)?;
//! let cost = circuit.cost(&options, Technology::Generic, None)?;
//! assert_eq!(cost.cycles, 193);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod activity;
mod adders;
mod coefficients;
mod integers;
mod lane;
mod part;
mod structure;
mod term;

pub use part::{Part, PartValues};
pub use structure::Structure;
pub use term::{AreaTerm, EnergyTerm};

use crate::{Circuit, Error, Options, Result, Trace};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// The cells for which a cost is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Technology {
    /// The table of generic gates.
    #[default]
    Generic,
    /// The standard cells of the open library sky130 hd (130 nm, 1.8 V).
    Sky130,
}

impl Technology {
    /// All technologies.
    pub const ALL: [Self; 2] = [Self::Generic, Self::Sky130];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Generic => "generic",
            Self::Sky130 => "sky130",
        }
    }

    /// Returns the gate equivalents of one structure of a term.
    #[must_use]
    pub fn area_of(self, term: AreaTerm) -> f64 {
        coefficients::of(self).area.get(term as usize).copied().unwrap_or(0.0)
    }

    /// Returns the nanojoules of one unit of activity of a term.
    #[must_use]
    pub fn energy_of(self, term: EnergyTerm) -> f64 {
        coefficients::of(self).energy.get(term as usize).copied().unwrap_or(0.0)
    }
}

impl fmt::Display for Technology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Technology {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|technology| technology.name() == text);
        found.ok_or_else(|| format!("there is no technology \"{text}\"; use generic or sky130"))
    }
}

/// The cost of a circuit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cost {
    /// The number of cycles from one sample to the next: those of the slowest stage.
    pub cycles: u64,
    /// The largest number of cycles from the first word of a sample to its last result, if no other
    /// sample is in the circuit.
    pub latency: u64,
    /// The area in gate equivalents, that is, NAND gates of two inputs.
    pub area: f64,
    /// The energy of a sample in nanojoules.
    pub energy: f64,
    /// The area of each part in gate equivalents.
    pub area_parts: PartValues,
    /// The energy of each part in nanojoules.
    pub energy_parts: PartValues,
}

impl Circuit {
    /// Computes the cost of the circuit by the model. The energy is that of the samples of a trace;
    /// without one, that of uniformly distributed inputs.
    ///
    /// # Errors
    /// Returns [`Error::NoLanes`] for 0 lanes.
    pub fn cost(
        &self,
        options: &Options,
        technology: Technology,
        trace: Option<&Trace>,
    ) -> Result<Cost> {
        if options.lanes == Some(0) {
            return Err(Error::NoLanes);
        }
        let coefficients = coefficients::of(technology);
        let structure = Structure::new(self, options, trace);
        let (mut area_parts, mut energy_parts) = (PartValues::default(), PartValues::default());
        for (term, coefficient) in AreaTerm::ALL.into_iter().zip(coefficients.area) {
            area_parts.add(term.part(), structure.area(term) * coefficient);
        }
        for (term, coefficient) in EnergyTerm::ALL.into_iter().zip(coefficients.energy) {
            energy_parts.add(term.part(), structure.energy(term) * coefficient);
        }
        let stages = crate::verilog::cycles(self, options);
        Ok(Cost {
            cycles: stages.iter().map(|stage| stage.cycles).max().unwrap_or(0),
            latency: crate::verilog::latency_bound(&stages),
            area: area_parts.total(),
            energy: energy_parts.total(),
            area_parts,
            energy_parts,
        })
    }
}

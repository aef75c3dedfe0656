//! Faults of an evaluation: rates and sites.

use super::plan::Plan;
use super::serial;
use crate::{Error, Result};
use aleatron_core::fault::{Fault, FaultRate, FaultSite, FaultSites, Faults};
use aleatron_core::generator::GeneratorName;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The faults of a cell; their kind is that of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultPoint {
    /// The sites.
    #[serde(with = "serial::text")]
    pub sites: FaultSites,
    /// The rate, above 0.
    #[serde(with = "rate")]
    pub rate: FaultRate,
}

impl fmt::Display for FaultPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.sites, self.rate)
    }
}

/// A rate as a number in JSON.
mod rate {
    use aleatron_core::fault::FaultRate;
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    pub(crate) fn serialize<S: Serializer>(
        rate: &FaultRate,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(rate.get())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<FaultRate, D::Error> {
        FaultRate::new(f64::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// Rates as numbers in JSON.
pub(super) mod rates {
    use aleatron_core::fault::FaultRate;
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    pub(crate) fn serialize<S: Serializer>(
        rates: &[FaultRate],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(rates.iter().map(|rate| rate.get()))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<FaultRate>, D::Error> {
        let rates = Vec::<f64>::deserialize(deserializer)?;
        rates.into_iter().map(|rate| FaultRate::new(rate).map_err(D::Error::custom)).collect()
    }
}

/// Returns whether the circuit of a generator has sites: one that multiplies integers has no
/// streams.
fn has_sites(generator: &GeneratorName, sites: FaultSites) -> bool {
    generator.integer_bits().is_none() || sites.iter().all(FaultSite::is_binary)
}

impl Plan {
    /// Returns the faults of cells: none first, if the plan has no rates or a rate of 0, then by
    /// site and rate.
    #[must_use]
    pub fn fault_points(&self) -> Vec<Option<FaultPoint>> {
        let mut points = Vec::new();
        if self.faults.is_empty() || self.faults.iter().any(|rate| rate.is_zero()) {
            points.push(None);
        }
        let rates = || self.faults.iter().copied().filter(|rate| !rate.is_zero());
        for &sites in &self.fault_sites {
            points.extend(rates().map(|rate| Some(FaultPoint { sites, rate })));
        }
        points
    }

    /// Returns the faults of the cells of a generator: those of the plan whose sites its circuit
    /// has.
    #[must_use]
    pub fn fault_points_of(&self, generator: &GeneratorName) -> Vec<Option<FaultPoint>> {
        let mut points = self.fault_points();
        points.retain(|point| point.is_none_or(|point| has_sites(generator, point.sites)));
        points
    }

    /// Returns the generators whose circuits have no streams, with the sites of the plan that they
    /// therefore do not have.
    pub(super) fn missing_sites(&self) -> Vec<(GeneratorName, Vec<FaultSites>)> {
        let missing = |generator: &GeneratorName| {
            let sites =
                self.fault_sites.iter().copied().filter(|sites| !has_sites(generator, *sites));
            (*generator, sites.collect::<Vec<_>>())
        };
        match self.has_faults() {
            true => {
                self.generators.iter().map(missing).filter(|(_, sites)| !sites.is_empty()).collect()
            }
            false => Vec::new(),
        }
    }

    /// Returns whether some cells have faults.
    #[must_use]
    pub fn has_faults(&self) -> bool {
        self.fault_points().iter().any(Option::is_some)
    }

    /// Returns the faults of a cell for a configuration.
    pub(super) fn faults_of(&self, point: Option<FaultPoint>) -> Result<Vec<Fault>> {
        Ok(match point {
            Some(FaultPoint { sites, rate }) => sites.faults(self.fault_kind, rate)?,
            None => Vec::new(),
        })
    }

    /// Checks that rates and sites are given once, and that sites can have faults of the kind.
    pub(super) fn check_faults(&self) -> Result<()> {
        for (k, rate) in self.faults.iter().enumerate() {
            if self.faults[..k].contains(rate) {
                return Err(Error::Twice { what: "fault rate", value: rate.to_string() });
            }
        }
        for (k, sites) in self.fault_sites.iter().enumerate() {
            if self.fault_sites[..k].contains(sites) {
                return Err(Error::Twice { what: "fault site", value: sites.to_string() });
            }
        }
        if !self.faults.is_empty() && self.fault_sites.is_empty() {
            return Err(Error::Nothing("fault sites"));
        }
        for point in self.fault_points() {
            Faults::new(0, self.faults_of(point)?)?;
        }
        for (generator, missing) in self.missing_sites() {
            if missing.len() == self.fault_sites.len() {
                return Err(Error::NoFaultSite { generator });
            }
        }
        Ok(())
    }

    /// Adds the rates and sites of another plan.
    pub(super) fn add_faults(&mut self, other: &Self) {
        // Sites without rates say nothing.
        match (self.has_faults(), other.has_faults()) {
            (false, true) => self.fault_sites.clone_from(&other.fault_sites),
            (true, true) => {
                for sites in &other.fault_sites {
                    if !self.fault_sites.contains(sites) {
                        self.fault_sites.push(*sites);
                    }
                }
            }
            (_, false) => {}
        }
        // A plan without rates has cells without faults.
        let of_none =
            (self.faults.is_empty() != other.faults.is_empty()).then_some(&FaultRate::ZERO);
        for rate in other.faults.iter().chain(of_none) {
            if !self.faults.contains(rate) {
                self.faults.push(*rate);
            }
        }
        self.faults.sort_by(|a, b| a.get().total_cmp(&b.get()));
    }
}

//! Sets of sites.

use super::{Fault, FaultKind, FaultRate, FaultSite};
use crate::error::{Error, Quantity, Result};
use std::fmt;
use std::str::FromStr;

/// Sites that have faults at the same time.
///
/// As text: names joined by `+`; `streams` is `inputs+weights`.
///
/// ```
/// use aleatron_core::fault::{FaultKind, FaultRate, FaultSites};
/// let sites: FaultSites = "streams+counters".parse()?;
/// assert_eq!(sites.to_string(), "inputs+weights+counters");
/// let faults = sites.faults(None, FaultRate::new(1e-3)?)?;
/// assert_eq!(faults[2].to_string(), "counters:transient:1e-3");
/// # Ok::<(), aleatron_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FaultSites {
    /// Bit k is set if the set contains site number k; the set is not empty.
    bits: u16,
}

impl FaultSites {
    /// Bits of input and weight streams.
    pub const STREAMS: Self =
        Self { bits: 1 << FaultSite::Inputs as u16 | 1 << FaultSite::Weights as u16 };

    /// Returns the sites in order of their numbers.
    pub fn iter(self) -> impl Iterator<Item = FaultSite> {
        FaultSite::ALL.into_iter().filter(move |site| self.bits >> (*site as u16) & 1 == 1)
    }

    /// Returns one fault for each site, of the given kind or of the default kind of each site.
    ///
    /// # Errors
    /// As for [`Fault::new`].
    pub fn faults(self, kind: Option<FaultKind>, rate: FaultRate) -> Result<Vec<Fault>> {
        self.iter()
            .map(|site| Fault::new(site, kind.unwrap_or(site.default_kind()), rate))
            .collect()
    }
}

impl From<FaultSite> for FaultSites {
    fn from(site: FaultSite) -> Self {
        Self { bits: 1 << site as u16 }
    }
}

impl fmt::Display for FaultSites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.iter().map(FaultSite::name).collect();
        f.write_str(&names.join("+"))
    }
}

impl FromStr for FaultSites {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut bits = 0;
        for name in text.split('+') {
            let own = match name {
                "streams" => Self::STREAMS.bits,
                name => match FaultSite::ALL.into_iter().find(|site| site.name() == name) {
                    Some(site) => Self::from(site).bits,
                    None => {
                        let names: Vec<&str> = FaultSite::ALL.map(FaultSite::name).to_vec();
                        let reason = format!(
                            "use streams (inputs and weights), {}, or several joined by +",
                            names.join(", ")
                        );
                        return Err(Error::Syntax {
                            what: Quantity::FaultSite,
                            text: name.to_owned(),
                            reason,
                        });
                    }
                },
            };
            if bits & own != 0 {
                let reason = format!("{} is given twice in {text}", Self { bits: bits & own });
                return Err(Error::Syntax {
                    what: Quantity::FaultSite,
                    text: name.to_owned(),
                    reason,
                });
            }
            bits |= own;
        }
        Ok(Self { bits })
    }
}

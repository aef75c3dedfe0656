//! Faults as text.

use super::{Fault, FaultKind, FaultSite, Faults};
use crate::error::{Error, Quantity, Result};
use std::fmt;
use std::str::FromStr;

impl fmt::Display for FaultSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for FaultSite {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|site| site.name() == text);
        found.ok_or_else(|| {
            Error::unknown_name(Quantity::FaultSite, text, Self::ALL.map(Self::name))
        })
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transient | Self::Permanent => f.write_str(self.name()),
            Self::Burst { cycles } => write!(f, "burst={cycles}"),
        }
    }
}

impl FromStr for FaultKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let unknown = || {
            Error::unknown_name(
                Quantity::FaultKind,
                text,
                ["transient", "permanent", "burst=CYCLES"],
            )
        };
        match text {
            "transient" => Ok(Self::Transient),
            "permanent" => Ok(Self::Permanent),
            _ => {
                let cycles = text.strip_prefix("burst=").and_then(|cycles| cycles.parse().ok());
                cycles.map(|cycles| Self::Burst { cycles }).ok_or_else(unknown)
            }
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.site, self.kind, self.rate)
    }
}

impl FromStr for Fault {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let fields: Vec<&str> = text.split(':').collect();
        match fields[..] {
            [site, rate] => {
                let site: FaultSite = site.parse()?;
                Self::new(site, site.default_kind(), rate.parse()?)
            }
            [site, kind, rate] => Self::new(site.parse()?, kind.parse()?, rate.parse()?),
            _ => {
                let reason =
                    "use SITE:RATE or SITE:KIND:RATE, such as inputs:transient:1e-3".to_owned();
                Err(Error::Syntax { what: Quantity::Fault, text: text.to_owned(), reason })
            }
        }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults: Vec<String> = self.faults.iter().map(Fault::to_string).collect();
        f.write_str(&faults.join(","))
    }
}

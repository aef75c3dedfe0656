//! What can go wrong on the CPU.

/// An error of the CPU engine.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The input is at fault.
    #[error(transparent)]
    Core(#[from] aleatron_core::Error),
    /// No tier has this name.
    #[error("there is no tier \"{name}\"; the tiers are {}", known.join(", "))]
    UnknownTier {
        /// The name asked for.
        name: String,
        /// Every name there is.
        known: Vec<&'static str>,
    },
    /// This machine does not have the tier.
    #[error("tier {name} is not available on this machine, which has {}", available.join(", "))]
    UnavailableTier {
        /// The tier asked for.
        name: &'static str,
        /// The tiers this machine has.
        available: Vec<&'static str>,
    },
    /// The system would not start the threads.
    #[error("cannot start {threads} threads: {reason}")]
    Threads {
        /// The threads asked for.
        threads: usize,
        /// What the system said.
        reason: String,
    },
}

impl From<Error> for aleatron_core::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Core(error) => error,
            error => {
                let (fault, message) =
                    (aleatron_core::BackendFault::Unavailable, error.to_string());
                Self::Backend { backend: "cpu".to_owned(), fault, message }
            }
        }
    }
}

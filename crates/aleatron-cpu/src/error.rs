//! The error type of the CPU backend.

/// An error of the CPU backend.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The input is invalid.
    #[error(transparent)]
    Core(#[from] aleatron_core::Error),
    /// No tier has this name.
    #[error("unknown tier \"{name}\"; the tiers are {}", known.join(", "))]
    UnknownTier {
        /// The requested name.
        name: String,
        /// All known names.
        known: Vec<&'static str>,
    },
    /// This machine does not have the tier.
    #[error("tier {name} is not available on this machine, which has {}", available.join(", "))]
    UnavailableTier {
        /// The requested tier.
        name: &'static str,
        /// The tiers of this machine.
        available: Vec<&'static str>,
    },
    /// The system could not start the threads.
    #[error("cannot start {threads} threads: {reason}")]
    Threads {
        /// The requested number of threads.
        threads: usize,
        /// The reason given by the system.
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

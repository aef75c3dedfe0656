//! What a user of the library may have to handle.

/// The result of every fallible operation of the library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The input is at fault: which quantity, where, and its value.
    #[error(transparent)]
    Core(#[from] aleatron_core::Error),
    /// The CPU engine cannot be set up as asked.
    #[error(transparent)]
    Cpu(aleatron_cpu::Error),
    /// The GPU, its driver or the lack of one.
    #[cfg(feature = "gpu")]
    #[error(transparent)]
    Gpu(aleatron_gpu::Error),
    /// This build has no GPU support.
    #[error("this build of aleatron has no GPU support: build it with the cargo feature `gpu`")]
    NotBuilt,
    /// No device has this name.
    #[error("there is no device \"{name}\"; the devices are auto, cpu, gpu")]
    UnknownDevice {
        /// The name asked for.
        name: String,
    },
    /// A network or one of its files is at fault.
    #[error(transparent)]
    Network(#[from] crate::network::NetworkError),
    /// A data set is at fault.
    #[error(transparent)]
    Data(#[from] crate::data::DataError),
    /// An evaluation cannot be run as asked.
    #[error(transparent)]
    Plan(#[from] crate::eval::PlanError),
}

impl From<aleatron_cpu::Error> for Error {
    fn from(error: aleatron_cpu::Error) -> Self {
        match error {
            aleatron_cpu::Error::Core(error) => Self::Core(error),
            error => Self::Cpu(error),
        }
    }
}

//! The error of every crate under one name.

/// The result of every fallible operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of any crate, for functions that use several of them.
///
/// An error of `aleatron-core` is always [`Error::Core`], and an error of a layer, a network or
/// data always [`Error::Engine`] or [`Error::Data`], for any crate that returned it; the exception
/// is an error that names its layer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An argument or a backend is at fault.
    #[error(transparent)]
    Core(#[from] aleatron_core::Error),
    /// A layer, a network, its file or its device is at fault.
    #[error(transparent)]
    Engine(aleatron_engine::Error),
    /// The data are at fault.
    #[error(transparent)]
    Data(aleatron_data::Error),
    /// An evaluation or a search failed.
    #[error(transparent)]
    Eval(aleatron_eval::Error),
    /// Training failed.
    #[error(transparent)]
    Train(Box<aleatron_train::Error>),
    /// A network has no circuit, or a circuit could not be written.
    #[error(transparent)]
    Hardware(aleatron_hardware::Error),
    /// A language model failed.
    #[cfg(feature = "transformer")]
    #[error(transparent)]
    Transformer(#[from] aleatron_transformer::Error),
}

impl From<aleatron_cpu::Error> for Error {
    fn from(error: aleatron_cpu::Error) -> Self {
        Self::Core(error.into())
    }
}

impl From<aleatron_engine::Error> for Error {
    fn from(error: aleatron_engine::Error) -> Self {
        match error {
            aleatron_engine::Error::Core(error) => Self::Core(error),
            error => Self::Engine(error),
        }
    }
}

impl From<aleatron_graph::Error> for Error {
    fn from(error: aleatron_graph::Error) -> Self {
        aleatron_engine::Error::from(error).into()
    }
}

impl From<aleatron_data::Error> for Error {
    fn from(error: aleatron_data::Error) -> Self {
        match error {
            aleatron_data::Error::Core(error) => Self::Core(error),
            error => Self::Data(error),
        }
    }
}

impl From<aleatron_eval::Error> for Error {
    fn from(error: aleatron_eval::Error) -> Self {
        match error {
            aleatron_eval::Error::Core(error) => Self::Core(error),
            aleatron_eval::Error::Engine(error) => Self::Engine(error),
            aleatron_eval::Error::Data(error) => Self::Data(error),
            #[cfg(feature = "transformer")]
            aleatron_eval::Error::Transformer(error) => Self::Transformer(error),
            error => Self::Eval(error),
        }
    }
}

impl From<aleatron_train::Error> for Error {
    fn from(error: aleatron_train::Error) -> Self {
        match error {
            aleatron_train::Error::Core(error) => Self::Core(error),
            aleatron_train::Error::Engine(error) => error.into(),
            aleatron_train::Error::Data(error) => error.into(),
            error => Self::Train(Box::new(error)),
        }
    }
}

impl From<aleatron_hardware::Error> for Error {
    fn from(error: aleatron_hardware::Error) -> Self {
        match error {
            aleatron_hardware::Error::Core(error) => Self::Core(error),
            aleatron_hardware::Error::Engine(error) => error.into(),
            error => Self::Hardware(error),
        }
    }
}

impl Error {
    /// Returns the error of `aleatron-core` that caused this one, if there is one.
    #[must_use]
    pub fn core(&self) -> Option<&aleatron_core::Error> {
        match self {
            Self::Core(error) => Some(error),
            Self::Engine(error) => error.core(),
            Self::Eval(error) => error.core(),
            _ => None,
        }
    }
}

//! Cancellation of long computations, which poll a token between chunks of work.

use crate::error::{Error, Result};
use std::fmt;

/// A cancellation token that long computations poll between chunks of work.
///
/// ```
/// use aleatron_core::{Cancel, Error};
/// use std::sync::atomic::{AtomicBool, Ordering};
/// let pressed = AtomicBool::new(false);
/// let is_pressed = || pressed.load(Ordering::Relaxed);
/// let cancel = Cancel::when(&is_pressed);
/// assert_eq!(cancel.check(), Ok(()));
/// pressed.store(true, Ordering::Relaxed);
/// assert_eq!(cancel.check(), Err(Error::Cancelled));
/// assert_eq!(Cancel::NEVER.check(), Ok(()));
/// ```
#[derive(Clone, Copy)]
pub struct Cancel<'a>(Option<&'a (dyn Fn() -> bool + Sync)>);

impl<'a> Cancel<'a> {
    /// A token that is never cancelled.
    pub const NEVER: Cancel<'static> = Cancel(None);

    /// Creates a token that is cancelled once `cancelled` returns true. It is called every few tens
    /// of milliseconds, on the thread that started the computation.
    #[must_use]
    pub const fn when(cancelled: &'a (dyn Fn() -> bool + Sync)) -> Self {
        Self(Some(cancelled))
    }

    /// Returns whether the token can never be cancelled, so that there is no need to poll it.
    #[must_use]
    pub const fn is_never(self) -> bool {
        self.0.is_none()
    }

    /// Checks whether the computation may continue.
    ///
    /// # Errors
    /// Returns [`Error::Cancelled`] if it is cancelled.
    pub fn check(self) -> Result<()> {
        match self.0 {
            Some(cancelled) if cancelled() => Err(Error::Cancelled),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Cancel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Cancel::when(..)" } else { "Cancel::NEVER" })
    }
}

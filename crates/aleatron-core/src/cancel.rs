//! Stopping long work: whoever runs it asks between two pieces whether it is still wanted.

use crate::error::{Error, Result};
use std::fmt;

/// A question that long work asks between two pieces: go on?
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
    /// Work that nobody stops.
    pub const NEVER: Cancel<'static> = Cancel(None);

    /// Work that stops once `cancelled` answers true. It is asked every few tens of milliseconds,
    /// on the thread that called for the work.
    #[must_use]
    pub const fn when(cancelled: &'a (dyn Fn() -> bool + Sync)) -> Self {
        Self(Some(cancelled))
    }

    /// Whether nobody can stop it, so that there is no need to ask.
    #[must_use]
    pub const fn is_never(self) -> bool {
        self.0.is_none()
    }

    /// Asks whether to go on.
    ///
    /// # Errors
    /// [`Error::Cancelled`] where not.
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

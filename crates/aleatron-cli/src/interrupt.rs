//! Ctrl-C as a question: a command that can stop in between asks, and leaves what it has finished.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C is noted instead of ending the process; [`is_pressed`] tells whether it has
/// come. A second one ends the process at once.
pub(crate) fn watch() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let note = || {
            if INTERRUPTED.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
        };
        // Where no handler can be installed, Ctrl-C does what it did before.
        let _ = ctrlc::set_handler(note);
    });
    INTERRUPTED.store(false, Ordering::Relaxed);
}

/// Returns whether Ctrl-C has come since [`watch`].
pub(crate) fn is_pressed() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

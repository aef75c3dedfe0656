//! Handling of Ctrl-C: a command polls for it, stops early and retains finished results.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Installs a handler that records Ctrl-C instead of ending the process; see [`is_pressed`]. A
/// second Ctrl-C ends the process.
pub(crate) fn watch() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let note = || {
            if INTERRUPTED.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
        };
        // If no handler can be installed, Ctrl-C ends the process.
        let _ = ctrlc::set_handler(note);
    });
    INTERRUPTED.store(false, Ordering::Relaxed);
}

/// Returns whether Ctrl-C was pressed since [`watch`].
pub(crate) fn is_pressed() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

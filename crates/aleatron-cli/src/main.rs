//! The `aleatron` program.

fn main() -> std::process::ExitCode {
    silence_mesa();
    aleatron_cli::run(std::env::args_os())
}

/// Keeps a layer of Mesa's from complaining, on standard error, that a headless machine has no
/// desktop.
///
/// The layer orders devices as a desktop or [`CHOICE`] says; without either it does nothing.
#[expect(unsafe_code, reason = "variables of the environment can be set in no other way")]
fn silence_mesa() {
    const CHOICE: &str = "MESA_VK_DEVICE_SELECT";
    const OFF: &str = "NODEVICE_SELECT";
    if std::env::var_os(CHOICE).is_none() && std::env::var_os(OFF).is_none() {
        // SAFETY: the first thing the program does, on its only thread.
        unsafe { std::env::set_var(OFF, "1") };
    }
}

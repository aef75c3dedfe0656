//! The `aleatron` program.

fn main() -> std::process::ExitCode {
    aleatron_cli::run(std::env::args_os())
}

//! The `aleatron` program.
fn main() {}

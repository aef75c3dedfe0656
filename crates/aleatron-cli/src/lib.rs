//! The `aleatron` program as a library.
#![forbid(unsafe_code)]

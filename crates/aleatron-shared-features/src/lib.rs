//! Selects the cargo features of dependencies; contains no code.
#![forbid(unsafe_code)]

//! Neural networks as streams of random bits.
#![forbid(unsafe_code)]

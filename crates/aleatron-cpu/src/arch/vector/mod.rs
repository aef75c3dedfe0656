//! Algorithms over vector registers, generic over instruction sets: [`encode`] generates Bernoulli
//! streams with the random words of [`philox`], in the operations of [`simd`], which each
//! instruction set implements in its `simd.rs`; [`transpose`] turns rows into columns.

pub(super) mod encode;
pub(super) mod philox;
pub(super) mod simd;
pub(super) mod transpose;

//! The names of two other GPU libraries, over this crate's own types: code written for them needs
//! little more than another import.
//!
//! - [`volta`]: tensors behind shared handles, buffers and kernels on the one GPU of the process
//!   (`docs/volta.md`);
//! - [`trueno`]: slices in, vectors out on a GPU, command batches, tiles (`docs/trueno.md`).
//!
//! Both are adapters: every operation is one of [`crate::Tensor`]. Sizes and names of operations
//! are checked, nothing panics, and a software adapter is used only if the environment names it.

pub mod trueno;
pub mod volta;

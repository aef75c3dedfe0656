//! Random tensors.

//! The instructions that every x86-64 processor has.

pub(crate) mod transpose;

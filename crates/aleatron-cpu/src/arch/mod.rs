//! The kernels, by instruction set and operation: `<set>/count.rs` counts ones, `encode.rs`
//! generates Bernoulli streams, `bits.rs` packs and unpacks, `gates.rs` applies gates, `lif.rs`
//! steps many neurons, `table.rs` looks counts up, `sequence.rs` compares shared sequences,
//! `ceiling.rs` measures peak throughput. A folder holds the operations for which that instruction
//! set is faster than the one below it; `vector/` holds the code shared by several, and
//! `dispatch.rs` assembles the tiers.

#[cfg(target_arch = "aarch64")]
pub(crate) mod aarch64;
pub(crate) mod portable;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod vector;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86_64;

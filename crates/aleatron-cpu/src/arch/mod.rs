//! The kernels. The path says whose, the file says what: `<who>/count.rs` counts ones, `encode.rs`
//! makes Bernoulli streams, `bits.rs` packs and unpacks, `gates.rs` combines, `lif.rs` steps many
//! neurons, `table.rs` looks counts up, `sequence.rs` compares shared sequences, `ceiling.rs` shows
//! what is possible. A folder holds what that instruction set does better than the one below it;
//! `vector/` holds what several share, and `dispatch.rs` puts the tiers together.

#[cfg(target_arch = "aarch64")]
pub(crate) mod aarch64;
pub(crate) mod portable;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod vector;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86_64;

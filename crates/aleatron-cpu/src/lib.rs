//! Aleatron's operations at the speed of the CPU, bit-exact with [`aleatron_core::reference`].
//!
//! A [`Cpu`] is a [`Tier`] (which instructions) and a [`Pool`] (how many threads); neither ever
//! changes a result. Operations: [`Cpu::encode`], [`Cpu::dense_counts`], [`Cpu::sparse_counts`],
//! [`Cpu::popcount`], [`Cpu::gate`], [`Cpu::pack`], [`Cpu::lif_run`], [`Cpu::encode_sequences`],
//! [`Cpu::table_counts`] and their variants; [`CpuProgram`] runs compiled networks.
//!
//! Reading order: [`tier`] detects instruction sets, `dispatch.rs` selects the kernel in
//! `arch/<set>/<operation>.rs`, and `dense.rs`, `encode.rs`, `sequence.rs`, `lif.rs`, `gates.rs`,
//! `bits.rs` and `program/` are the loops and threads around the kernels. Unsafe code: buffers in
//! `memory.rs`, the state of a process in `process.rs`, kernel calls in `dispatch.rs`; below
//! `arch/`, loads and stores in `<processor>/memory.rs`, single instructions in `simd.rs` and
//! `transpose.rs`, a call in `vector/encode/entry.rs`, empty assembly in `ceiling.rs`.
//!
//! Other crates may use the threads ([`Pool::for_each`]), the memory ([`AlignedBuffer`]) and the
//! detected instruction sets ([`Tier::has_avx2`] and similar functions).
//!
//! ```
//! use aleatron_core::{Length, StreamAddress, Threshold};
//! use aleatron_cpu::Cpu;
//!
//! let cpu = Cpu::current()?;
//! let streams = cpu.encode(&[Threshold::ONE; 3], Length::new(100)?, StreamAddress::input(7, 0, 0))?;
//! assert_eq!(cpu.popcount(streams.words()), 300);
//! # Ok::<(), aleatron_cpu::Error>(())
//! ```

mod arch;
mod backend;
mod bits;
pub mod ceiling;
mod conformance;
mod conv;
mod conv_table;
mod cost;
mod dense;
mod dispatch;
mod draws;
mod encode;
mod error;
mod gates;
mod lif;
mod mask;
mod memory;
mod process;
mod program;
mod recycle;
mod sequence;
mod signed;
mod sparse;
mod table;
pub mod threads;
pub mod tier;

pub use aleatron_core::memory::available as available_memory;
pub use backend::CpuBackend;
pub use draws::{get_draw_memory, set_draw_memory};
pub use error::Error;
pub use mask::{MaskDrawer, MaskGrid, run_words, set_run, split_hit};
pub use memory::{AlignedBuffer, WordBuffer};
pub use program::CpuProgram;
pub use table::TabledWeights;
pub use threads::{Pool, get_num_threads, set_num_threads};
pub use tier::Tier;

use std::sync::Arc;

/// A tier and a pool of threads: they determine the speed of operations, never their results.
#[derive(Debug, Clone)]
pub struct Cpu {
    tier: Tier,
    pool: Arc<Pool>,
}

impl Cpu {
    /// Returns the current tier and pool of this process; see [`Tier::current`] and
    /// [`set_num_threads`].
    ///
    /// # Errors
    /// Returns [`Error::UnknownTier`] or [`Error::UnavailableTier`] if `ALEATRON_TIER` is not a
    /// tier of this machine, and [`Error::Threads`] if the system cannot start threads.
    pub fn current() -> Result<Self, Error> {
        Ok(Self { tier: Tier::current()?, pool: threads::current()? })
    }

    /// Creates a CPU from a tier and a pool.
    #[must_use]
    pub fn new(tier: Tier, pool: Arc<Pool>) -> Self {
        Self { tier, pool }
    }

    /// Returns the tier.
    #[must_use]
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// Returns the number of threads, including the calling one.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }
}

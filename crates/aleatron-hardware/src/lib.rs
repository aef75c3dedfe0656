//! Circuits of networks as stochastic bitstreams: Verilog that is bit-exact with the engine, count
//! by count.
//!
//! - [`Circuit`]: the description in integers, created from the program that the engine runs, and
//!   [`Circuit::trace`], the integers of a sample;
//! - [`Design`]: Verilog, a self-checking test bench and vectors of the engine, as files;
//! - [`simulate`]: simulation with Icarus Verilog or Verilator, which compares every threshold,
//!   count, value and score;
//! - [`synthesis`]: the area of a design, by Yosys;
//! - [`energy`]: the energy of a sample, by the simulation of a netlist of gates;
//! - [`cost`]: cycles, area and energy of a circuit by a model, without synthesis.
//!
//! ```
//! use aleatron_engine::network::{Arithmetic, Network, StreamConfig};
//! use aleatron_hardware::{Circuit, Design, Options};
//! let config = StreamConfig::new(64).generator("sobol".parse()?).arithmetic(Arithmetic::Integer);
//! let options = Options::default();
//! let circuit = Circuit::new(&Network::digits_plain()?, &config, &options)?;
//! let design = Design::new(&circuit, &options)?;
//! assert!(design.files().iter().any(|file| file.path == "rtl/al_lfsr.v"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod bench;
pub mod circuit;
pub mod cost;
pub mod energy;
mod error;
pub mod simulate;
pub mod synthesis;
mod trace;
mod verilog;

pub use bench::Bench;
pub use circuit::{Circuit, InputInterval, Margin};
pub use error::{Error, Result};
pub use trace::{EarlyTrace, StageTrace, Trace};
pub use verilog::{Cycles, Design, File};

/// Options of the construction of a circuit from its description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The number of neurons that a layer computes at a time; all of them if absent.
    pub lanes: Option<usize>,
    /// Whether registers are between comparators and counters.
    pub pipeline: Pipeline,
    /// The output of the circuit.
    pub output: Output,
    /// Whether inputs may be negative.
    pub inputs: InputInterval,
    /// How registers hold their values.
    pub clock_gating: ClockGating,
    /// The decision margin at which the last layer stops before its streams end; all cycles run if
    /// absent.
    pub early_termination: Option<Margin>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            lanes: None,
            pipeline: Pipeline::None,
            output: Output::Scores,
            inputs: InputInterval::Signed,
            clock_gating: ClockGating::Enables,
            early_termination: None,
        }
    }
}

/// Whether registers are between comparators and counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Pipeline {
    /// No registers.
    #[default]
    None,
    /// One register for each stream bit; every group of neurons takes one more cycle.
    Registers,
}

/// How the registers of stream bits, counts and input words hold their values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ClockGating {
    /// Registers have enables, as in FPGAs; a tool may gate their clocks.
    #[default]
    Enables,
    /// Their clocks pass through `al_clock_gate`, a latch and an AND gate, for circuits of standard
    /// cells.
    Cells,
}

/// The output of a circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Output {
    /// The scores, one after the other.
    #[default]
    Scores,
    /// The index of the greatest score.
    Class,
}

//! Cells of a netlist, with the energy of their toggles.

use super::liberty::{Adder, Cell, Library};
use crate::{Error, Result};
use std::path::Path;

/// Areas of cells in gate equivalents, that is, NAND gates of two inputs: transistors of the static
/// CMOS cell over four.
const GENERIC_AREAS: [(&str, f64); 13] = [
    ("$_NOT_", 0.5),
    ("$_NAND_", 1.0),
    ("$_NOR_", 1.0),
    ("$_AND_", 1.5),
    ("$_OR_", 1.5),
    ("$_ANDNOT_", 1.5),
    ("$_ORNOT_", 1.5),
    ("$_XOR_", 2.5),
    ("$_XNOR_", 2.5),
    ("$_MUX_", 3.0),
    ("$_DFF_P_", 6.0),
    ("$_DFFE_PP_", 6.0),
    ("clock gate", 4.0),
];

fn generic_area(cell: &str) -> Option<f64> {
    GENERIC_AREAS.iter().find(|(name, _)| *name == cell).map(|(_, area)| *area)
}

/// The largest number of flip-flops driven by one clock gate.
const FAN_OUT: usize = 32;
/// The least number of flip-flops with one enable for which a clock gate pays off.
const LEAST_GATED: usize = 3;

/// The energy, in joules, of a toggle of a generic gate of one gate equivalent. With it, the energy
/// of the embedded network `noise_aware` is within 3 % of that with the sky130 library (1.8 V, 130
/// nm); see `docs/hardware.md`.
const TOGGLE: f64 = 5.0e-15;
/// The energy, in joules, of a clock cycle of a generic flip-flop.
const CLOCK: f64 = 30.0e-15;
/// The energy, in joules, of a cycle of a generic clock gate whose output is constant.
const GATE: f64 = 20.0e-15;

/// A pin and the energy, in joules, of one toggle of it.
#[derive(Debug, Clone)]
pub(super) struct Pin {
    pub(super) name: String,
    pub(super) energy: f64,
}

impl Pin {
    fn new(name: &str, energy: f64) -> Self {
        Self { name: name.to_owned(), energy }
    }
}

/// The role of a cell in a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Its outputs follow its inputs.
    Gate,
    /// Its output loads its data, the first input, at every edge of the clock.
    FlipFlop,
    /// Its output loads its data, the first input, at edges of the clock at which its enable, the
    /// second input, is 1.
    EnabledFlipFlop,
}

/// A kind of cell.
#[derive(Debug, Clone)]
pub(super) struct CellKind {
    pub(super) role: Role,
    pub(super) inputs: Vec<Pin>,
    pub(super) outputs: Vec<Pin>,
    /// The truth table of each output over the inputs, for gates.
    pub(super) tables: Vec<u64>,
    /// The delay in picoseconds, at least 1.
    pub(super) delay: u32,
    /// The energy, in joules, of a clock cycle, for flip-flops.
    pub(super) clock: f64,
    /// The area in gate equivalents.
    pub(super) area: f64,
}

/// A cell that gates the clock of flip-flops, or, for few of them, a multiplexer for each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ClockGate {
    /// The area in gate equivalents.
    pub(super) area: f64,
    /// The area of a multiplexer in gate equivalents.
    pub(super) multiplexer: f64,
    /// The energy, in joules, of every cycle.
    pub(super) always: f64,
    /// The additional energy, in joules, of a cycle in which the gate is open.
    pub(super) open: f64,
}

/// The cells of a netlist: generic gates, or those of a library.
#[derive(Debug)]
pub(crate) enum Cells {
    Generic,
    Library { library: Library, flip_flop: String, nand: f64 },
}

impl ClockGate {
    /// Returns whether flip-flops with one enable have clock gates.
    pub(super) fn drives(flip_flops: usize) -> bool {
        flip_flops >= LEAST_GATED
    }

    /// Returns the clock gates of flip-flops with one enable.
    pub(super) fn number(flip_flops: usize) -> usize {
        if Self::drives(flip_flops) { flip_flops.div_ceil(FAN_OUT) } else { 0 }
    }

    /// Returns the area of the enable of some flip-flops, in gate equivalents.
    pub(super) fn area_of(&self, flip_flops: usize) -> f64 {
        match Self::number(flip_flops) {
            0 => flip_flops as f64 * self.multiplexer,
            gates => gates as f64 * self.area,
        }
    }
}

/// Truth tables of generic gates over the pins A, B and S.
const GENERIC: [(&str, &[&str], u64); 10] = [
    ("$_NOT_", &["A"], 0b01),
    ("$_AND_", &["A", "B"], 0b1000),
    ("$_NAND_", &["A", "B"], 0b0111),
    ("$_OR_", &["A", "B"], 0b1110),
    ("$_NOR_", &["A", "B"], 0b0001),
    ("$_XOR_", &["A", "B"], 0b0110),
    ("$_XNOR_", &["A", "B"], 0b1001),
    ("$_ANDNOT_", &["A", "B"], 0b0010),
    ("$_ORNOT_", &["A", "B"], 0b1011),
    ("$_MUX_", &["A", "B", "S"], 0b1100_1010),
];

impl Cells {
    /// Returns generic gates or, with a Liberty file, the cells of a library and its text without
    /// the cells that synthesis must not choose.
    ///
    /// # Errors
    /// Returns [`Error::File`], and [`Error::Liberty`] for a file without the cells or units that
    /// are needed.
    pub(crate) fn read(liberty: Option<&Path>) -> Result<(Self, Option<String>)> {
        let Some(path) = liberty else { return Ok((Self::Generic, None)) };
        let (library, text) = Library::read(path)?;
        let missing =
            |what: &str| Error::Liberty { path: path.into(), line: 0, what: what.to_owned() };
        let nand =
            library.nand_area().ok_or_else(|| missing("it has no NAND gate of two inputs"))?;
        let flip_flop = library.smallest(|cell| cell.flip_flop.is_some());
        let flip_flop =
            flip_flop.ok_or_else(|| missing("it has no flip-flop without reset"))?.0.to_owned();
        Ok((Self::Library { library, flip_flop, nand }, Some(text)))
    }

    /// Returns the full adder, of three inputs, or half adder, of two, of a library.
    pub(crate) fn adder(&self, n_inputs: usize) -> Option<Adder<'_>> {
        match self {
            Self::Generic => None,
            Self::Library { library, .. } => library.adder(n_inputs),
        }
    }

    /// Returns the kind of a cell of a netlist; `None` if it is unknown.
    pub(super) fn kind(&self, name: &str) -> Option<CellKind> {
        let role = match name {
            "$_DFF_P_" => Role::FlipFlop,
            "$_DFFE_PP_" => Role::EnabledFlipFlop,
            _ => Role::Gate,
        };
        match (self, role) {
            (Self::Generic, Role::Gate) => {
                let (_, inputs, table) = GENERIC.iter().find(|(known, ..)| *known == name)?;
                let area = generic_area(name)?;
                // The energy of a gate is that of its output; its inputs are loads of other gates,
                // which are part of these.
                Some(CellKind {
                    role,
                    inputs: inputs.iter().map(|pin| Pin::new(pin, 0.0)).collect(),
                    outputs: vec![Pin::new("Y", area * TOGGLE)],
                    tables: vec![*table],
                    delay: 1,
                    clock: 0.0,
                    area,
                })
            }
            (Self::Generic, _) => {
                let area = generic_area(name)?;
                let output = Pin::new("Q", area * TOGGLE);
                Some(flip_flop(role, Pin::new("D", 0.0), output, CLOCK, area))
            }
            (Self::Library { library, nand, .. }, Role::Gate) => {
                gate(library, library.cells.get(name)?, *nand)
            }
            (Self::Library { library, flip_flop: cell, nand }, _) => {
                let cell = library.cells.get(cell)?;
                let pins = cell.flip_flop.as_ref()?;
                let (output, _) = cell.outputs.first()?;
                Some(flip_flop(
                    role,
                    Pin::new(
                        "D",
                        load(library, cell, &pins.data) + internal(library, cell, &pins.data),
                    ),
                    Pin::new("Q", internal(library, cell, output)),
                    2.0 * (load(library, cell, &pins.clock) + internal(library, cell, &pins.clock)),
                    cell.area / nand,
                ))
            }
        }
    }

    /// Returns the energy of a clock gate.
    pub(super) fn clock_gate(&self) -> ClockGate {
        let found = match self {
            Self::Generic => None,
            Self::Library { library, nand, .. } => {
                let gate = library.smallest(|cell| cell.gated_clock.is_some());
                gate.and_then(|(_, cell)| Some((library, cell, cell.gated_clock.as_ref()?, *nand)))
            }
        };
        let multiplexer = generic_area("$_MUX_").unwrap_or(0.0);
        let Some((library, cell, clock, nand)) = found else {
            let area = generic_area("clock gate").unwrap_or(0.0);
            return ClockGate { always: GATE, open: GATE, area, multiplexer };
        };
        let always = load(library, cell, clock) + internal(library, cell, clock);
        let open = cell.outputs.iter().map(|(pin, _)| internal(library, cell, pin)).sum::<f64>();
        ClockGate { always: 2.0 * always, open: 2.0 * open, area: cell.area / nand, multiplexer }
    }
}

fn flip_flop(role: Role, data: Pin, output: Pin, clock: f64, area: f64) -> CellKind {
    let mut inputs = vec![data];
    if role == Role::EnabledFlipFlop {
        // The enable opens a clock gate, which is counted once for all its flip-flops.
        inputs.push(Pin::new("E", 0.0));
    }
    CellKind { role, inputs, outputs: vec![output], tables: Vec::new(), delay: 0, clock, area }
}

fn gate(library: &Library, cell: &Cell, nand: f64) -> Option<CellKind> {
    let tables = cell.outputs.iter().map(|(_, function)| function.as_ref()?.table(cell));
    Some(CellKind {
        role: Role::Gate,
        inputs: cell
            .inputs
            .iter()
            .map(|(pin, _)| Pin::new(pin, load(library, cell, pin)))
            .collect(),
        outputs: cell
            .outputs
            .iter()
            .map(|(pin, _)| Pin::new(pin, internal(library, cell, pin)))
            .collect(),
        tables: tables.collect::<Option<Vec<_>>>()?,
        delay: delay(library, cell),
        clock: 0.0,
        area: cell.area / nand,
    })
}

/// Returns the energy, in joules, of charging or discharging an input pin.
fn load(library: &Library, cell: &Cell, pin: &str) -> f64 {
    0.5 * cell.capacitance(pin) * library.capacitance_energy
}

/// Returns the energy, in joules, of one toggle of a pin inside its cell.
fn internal(library: &Library, cell: &Cell, pin: &str) -> f64 {
    cell.energy.get(pin).copied().unwrap_or(0.0) * library.internal_energy
}

fn delay(library: &Library, cell: &Cell) -> u32 {
    (cell.delay * library.picoseconds).round().clamp(1.0, 1e6) as u32
}

//! Cells of a Liberty file: areas, functions, capacitances, internal energies and delays.
//!
//! Only the groups and attributes that synthesis and energy need are interpreted. Tables are read
//! in the middle: the energy and the delay of a cell are those of a typical slope and load.

use super::function::Function;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

/// The cells of a library, and the units of its numbers.
#[derive(Debug, Clone)]
pub(crate) struct Library {
    /// The cells by name.
    pub(crate) cells: BTreeMap<String, Cell>,
    /// The energy, in joules, of a full swing of one unit of capacitance, times two.
    pub(crate) capacitance_energy: f64,
    /// The energy, in joules, of one unit of the tables of internal power.
    pub(crate) internal_energy: f64,
    /// The picoseconds of one unit of time.
    pub(crate) picoseconds: f64,
}

/// A cell of a library.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cell {
    /// The area in the unit of the library.
    pub(crate) area: f64,
    /// The input pins with their capacitances.
    pub(crate) inputs: Vec<(String, f64)>,
    /// The output pins with their functions; `None` for states and for functions that are not
    /// combinational.
    pub(crate) outputs: Vec<(String, Option<Function>)>,
    /// The internal energy of one toggle of each pin.
    pub(crate) energy: BTreeMap<String, f64>,
    /// The mean delay from inputs to outputs.
    pub(crate) delay: f64,
    /// The pins of a flip-flop that loads its data at the rising edge of its clock.
    pub(crate) flip_flop: Option<FlipFlop>,
    /// The clock pin of a cell that gates a clock, open at its rising edge.
    pub(crate) gated_clock: Option<String>,
    /// Whether synthesis must not choose the cell.
    pub(crate) is_excluded: bool,
}

/// The pins of a plain flip-flop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FlipFlop {
    pub(crate) clock: String,
    pub(crate) data: String,
}

/// The pins of a full adder or of a half adder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Adder<'a> {
    pub(crate) cell: &'a str,
    pub(crate) inputs: Vec<&'a str>,
    pub(crate) sum: &'a str,
    pub(crate) carry: &'a str,
}

/// A group of a Liberty file.
#[derive(Debug, Default)]
struct Group {
    kind: String,
    arguments: Vec<String>,
    values: Vec<(String, String)>,
    lists: Vec<(String, Vec<String>)>,
    groups: Vec<Group>,
    /// The bytes of the text from its name to its closing brace.
    bytes: Range<usize>,
}

impl Group {
    fn value(&self, name: &str) -> Option<&str> {
        self.values.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn number(&self, name: &str) -> Option<f64> {
        self.value(name)?.trim().parse().ok().filter(|value: &f64| value.is_finite())
    }

    fn list(&self, name: &str) -> &[String] {
        self.lists.iter().find(|(key, _)| key == name).map_or(&[], |(_, values)| values)
    }

    fn each<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Group> {
        self.groups.iter().filter(move |group| group.kind == kind)
    }
}

impl Library {
    /// Reads a Liberty file, and returns its text without the cells that synthesis must not choose.
    ///
    /// # Errors
    /// Returns [`Error::File`], and [`Error::Liberty`] with the line for text that is not a library
    /// with its units.
    pub(crate) fn read(path: &Path) -> Result<(Self, String)> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| Error::File { path: path.into(), source })?;
        let fault = |(line, what)| Error::Liberty { path: path.into(), line, what };
        let root = parse(&text).map_err(fault)?;
        let library = Self::new(&root).map_err(fault)?;
        let (mut usable, mut next) = (String::with_capacity(text.len()), 0);
        for cell in root.each("library").flat_map(|library| library.each("cell")) {
            let name = cell.arguments.first();
            if name.and_then(|name| library.cells.get(name)).is_none_or(|cell| cell.is_excluded) {
                usable.push_str(&text[next..cell.bytes.start]);
                next = cell.bytes.end;
            }
        }
        usable.push_str(&text[next..]);
        Ok((library, usable))
    }

    fn new(root: &Group) -> Result<Self, (usize, String)> {
        let fault = |what: &str| (0, what.to_owned());
        let Some(library) = root.each("library").next() else {
            return Err(fault("it has no library group"));
        };
        let volts = library.number("nom_voltage").ok_or_else(|| fault("it has no nom_voltage"))?;
        let [size, unit] = library.list("capacitive_load_unit") else {
            return Err(fault("it has no capacitive_load_unit"));
        };
        let farads = match (size.parse::<f64>(), unit.to_ascii_lowercase().as_str()) {
            (Ok(size), "pf") => size * 1e-12,
            (Ok(size), "ff") => size * 1e-15,
            _ => return Err(fault("capacitive_load_unit is neither in pf nor in ff")),
        };
        let picoseconds = match library.value("time_unit") {
            Some("1ns") | None => 1000.0,
            Some("100ps") => 100.0,
            Some("10ps") => 10.0,
            Some("1ps") => 1.0,
            Some(other) => return Err((0, format!("time_unit {other} is unknown"))),
        };
        let cells = library.each("cell").filter_map(|group| {
            let name = group.arguments.first()?.clone();
            let mut cell = Cell::new(group);
            // Cells of power management that logic synthesis would use as cheap gates.
            cell.is_excluded |= ["lpflow", "probe"].iter().any(|part| name.contains(part));
            Some((name, cell))
        });
        Ok(Self {
            cells: cells.collect(),
            capacitance_energy: farads * volts * volts,
            // The unit of energy is that of capacitance times the square of one volt.
            internal_energy: farads,
            picoseconds,
        })
    }

    /// Returns the name of the smallest cell that fulfils a condition.
    pub(crate) fn smallest(&self, condition: impl Fn(&Cell) -> bool) -> Option<(&str, &Cell)> {
        let found = self.cells.iter().filter(|(_, cell)| !cell.is_excluded && condition(cell));
        found
            .min_by(|(_, a), (_, b)| a.area.total_cmp(&b.area))
            .map(|(name, cell)| (name.as_str(), cell))
    }

    /// Returns the smallest full adder, of three inputs, or half adder, of two.
    pub(crate) fn adder(&self, n_inputs: usize) -> Option<Adder<'_>> {
        let [sum, carry] = match n_inputs {
            3 => [0b1001_0110, 0b1110_1000],
            2 => [0b0110, 0b1000],
            _ => return None,
        };
        let output = |cell: &Cell, wanted: u64| {
            let table = |function: &Option<Function>| function.as_ref().and_then(|f| f.table(cell));
            cell.outputs.iter().position(|(_, function)| table(function) == Some(wanted))
        };
        let is_adder = |cell: &Cell| {
            let is_sized = cell.inputs.len() == n_inputs && cell.outputs.len() == 2;
            is_sized && output(cell, sum).is_some() && output(cell, carry).is_some()
        };
        let (name, cell) = self.smallest(is_adder)?;
        let [sum, carry] =
            [output(cell, sum)?, output(cell, carry)?].map(|k| cell.outputs[k].0.as_str());
        Some(Adder {
            cell: name,
            inputs: cell.inputs.iter().map(|(pin, _)| pin.as_str()).collect(),
            sum,
            carry,
        })
    }

    /// Returns the area of the smallest NAND gate of two inputs.
    pub(crate) fn nand_area(&self) -> Option<f64> {
        let is_nand = |cell: &Cell| match (&cell.inputs[..], &cell.outputs[..]) {
            ([_, _], [(_, Some(function))]) => function.table(cell) == Some(0b0111),
            _ => false,
        };
        self.smallest(is_nand).map(|(_, cell)| cell.area).filter(|area| *area > 0.0)
    }
}

impl Cell {
    fn new(group: &Group) -> Self {
        let mut cell = Self {
            area: group.number("area").unwrap_or(0.0),
            gated_clock: clock_gate(group),
            is_excluded: group.value("dont_use") == Some("true"),
            ..Self::default()
        };
        let mut delays = Vec::new();
        for pin in group.each("pin") {
            let Some(name) = pin.arguments.first() else { continue };
            let tables = pin.each("internal_power").flat_map(|power| {
                power
                    .groups
                    .iter()
                    .filter(|g| ["rise_power", "fall_power", "power"].contains(&g.kind.as_str()))
            });
            cell.energy.insert(name.clone(), mean(tables.filter_map(middle)));
            match pin.value("direction") {
                Some("output") => {
                    let function = pin.value("function").and_then(Function::parse);
                    cell.outputs.push((name.clone(), function));
                    let tables = pin.each("timing").flat_map(|timing| {
                        timing
                            .groups
                            .iter()
                            .filter(|g| ["cell_rise", "cell_fall"].contains(&g.kind.as_str()))
                    });
                    delays.extend(tables.filter_map(middle));
                }
                Some("input") => {
                    cell.inputs.push((name.clone(), pin.number("capacitance").unwrap_or(0.0)))
                }
                _ => {}
            }
        }
        cell.delay = mean(delays.into_iter());
        let is_pin = |name: &str| cell.inputs.iter().any(|(pin, _)| pin == name);
        let is_plain = |ff: &&Group| ff.value("clear").is_none() && ff.value("preset").is_none();
        cell.flip_flop = group.each("ff").next().filter(is_plain).and_then(|ff| {
            let [clock, data] = [ff.value("clocked_on")?, ff.value("next_state")?]
                .map(|name| name.trim_matches(['(', ')', ' ']));
            let pins = FlipFlop { clock: clock.to_owned(), data: data.to_owned() };
            (is_pin(clock) && is_pin(data) && cell.inputs.len() == 2).then_some(pins)
        });
        cell
    }

    /// Returns the capacitance of an input pin.
    pub(crate) fn capacitance(&self, pin: &str) -> f64 {
        self.inputs
            .iter()
            .find(|(name, _)| name == pin)
            .map_or(0.0, |(_, capacitance)| *capacitance)
    }
}

/// Returns the clock pin of a cell that gates a clock.
fn clock_gate(group: &Group) -> Option<String> {
    if group.value("clock_gating_integrated_cell") != Some("latch_posedge") {
        return None;
    }
    let is_clock = |pin: &&Group| pin.value("clock_gate_clock_pin") == Some("true");
    group.each("pin").find(is_clock)?.arguments.first().cloned()
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = values.fold((0.0, 0_usize), |(sum, n), value| (sum + value, n + 1));
    if n == 0 { 0.0 } else { sum / n as f64 }
}

/// Returns the entry in the middle of the slopes and at a third of the loads of a table.
fn middle(table: &Group) -> Option<f64> {
    let rows: Vec<Vec<f64>> = table
        .list("values")
        .iter()
        .map(|row| row.split([',', ' ']).filter_map(|value| value.trim().parse().ok()).collect())
        .collect();
    match &rows[..] {
        [] => None,
        [row] => row.get(row.len() / 2).copied(),
        rows => rows.get(rows.len() / 2).and_then(|row| row.get(row.len() / 3)).copied(),
    }
}

/// A token and its line.
struct Tokens<'a> {
    text: &'a str,
    line: usize,
}

impl<'a> Tokens<'a> {
    fn next(&mut self) -> Result<Option<&'a str>, (usize, String)> {
        loop {
            let trimmed = self.text.trim_start_matches([' ', '\t', '\r', '\\']);
            self.text = trimmed;
            if let Some(rest) = trimmed.strip_prefix('\n') {
                (self.text, self.line) = (rest, self.line + 1);
            } else if let Some(rest) = trimmed.strip_prefix("/*") {
                let Some((comment, rest)) = rest.split_once("*/") else {
                    return Err((self.line, "a comment without end".to_owned()));
                };
                self.line += comment.matches('\n').count();
                self.text = rest;
            } else {
                break;
            }
        }
        let Some(first) = self.text.chars().next() else { return Ok(None) };
        let len = match first {
            '{' | '}' | '(' | ')' | ':' | ';' | ',' => 1,
            '"' => match self.text[1..].find('"') {
                Some(end) => end + 2,
                None => return Err((self.line, "a text without end".to_owned())),
            },
            _ => self
                .text
                .find(|c: char| c.is_whitespace() || "{}():;,\"".contains(c))
                .unwrap_or(self.text.len()),
        };
        let (token, rest) = self.text.split_at(len);
        self.line += token.matches('\n').count();
        self.text = rest;
        Ok(Some(token))
    }
}

/// Parses groups without recursion, so that no nesting is too deep.
fn parse(text: &str) -> Result<Group, (usize, String)> {
    let mut tokens = Tokens { text, line: 1 };
    let mut open = vec![Group::default()];
    while let Some(name) = tokens.next()? {
        let start = text.len() - tokens.text.len() - name.len();
        match name {
            ";" | "," => continue,
            "}" => {
                let Some(mut done) = open.pop() else { break };
                done.bytes.end = start + 1;
                match open.last_mut() {
                    Some(parent) => parent.groups.push(done),
                    None => {
                        return Err((
                            tokens.line,
                            "a closing brace without an opening one".to_owned(),
                        ));
                    }
                }
                continue;
            }
            _ => {}
        }
        let line = tokens.line;
        let fault = |found: &str| {
            (line, format!("\"{name}\" is followed by {found}, not by a colon or a parenthesis"))
        };
        let Some(group) = open.last_mut() else { break };
        match tokens.next()? {
            Some(":") => {
                // A value ends with a semicolon, or, in files without it, with the line.
                let rest = tokens.text;
                let end = match rest.trim_start().strip_prefix('"') {
                    Some(inner) => {
                        let skipped = rest.len() - inner.len();
                        inner.find('"').map(|end| skipped + end + 1)
                    }
                    None => rest.find([';', '\n', '}']),
                };
                let end =
                    end.ok_or_else(|| (line, format!("the value of \"{name}\" has no end")))?;
                let value = rest[..end].trim().trim_matches('"').to_owned();
                tokens.line += rest[..end].matches('\n').count();
                tokens.text = &rest[end..];
                group.values.push((name.to_owned(), value));
            }
            Some("(") => {
                let mut arguments = Vec::new();
                loop {
                    match tokens.next()? {
                        Some(")") => break,
                        Some(",") => {}
                        Some(argument) => arguments.push(argument.trim_matches('"').to_owned()),
                        None => {
                            return Err((line, format!("the arguments of \"{name}\" have no end")));
                        }
                    }
                }
                let before = (tokens.text, tokens.line);
                if tokens.next()? == Some("{") {
                    let bytes = start..start;
                    open.push(Group {
                        kind: name.to_owned(),
                        arguments,
                        bytes,
                        ..Group::default()
                    });
                } else {
                    (tokens.text, tokens.line) = before;
                    group.lists.push((name.to_owned(), arguments));
                }
            }
            Some(other) => return Err(fault(&format!("\"{other}\""))),
            None => return Err(fault("the end of the file")),
        }
    }
    match <[Group; 1]>::try_from(open) {
        Ok([root]) => Ok(root),
        Err(_) => Err((tokens.line, "a group without end".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) const TEXT: &str = r#"
library ("small") {
    time_unit : "1ns"; nom_voltage : 2.0;
    capacitive_load_unit (1.0, "pf");
    cell ("nand2_2") { area : 5.0;
        pin ("A") { direction : "input"; capacitance : 0.002; }
        pin ("B") { direction : "input"; capacitance : 0.002; }
        pin ("Y") { direction : "output"; function : "(!A) | (!B)"; } }
    cell (nand2_1) { area : 3.75 ;
        pin (A) { direction : input; capacitance : 0.001; } /* a
        comment */
        pin (B) { direction : input; capacitance : 0.003; }
        pin (Y) { direction : output; function : "!(A&B)";
            internal_power () { related_pin : "A";
                rise_power (t) { values ("1, 2, 3", \
                    "4, 5, 6"); }
                fall_power (t) { values ("7, 8, 9", "0, 1, 2"); } }
            timing () { cell_rise (t) { values ("1, 2, 3"); } } } }
    cell (dff) { area : 20; ff (IQ, IQN) { clocked_on : "CLK"; next_state : "D"; }
        pin (CLK) { direction : input; capacitance : 0.004; clock : true; }
        pin (D) { direction : input; capacitance : 0.001; }
        pin (Q) { direction : output; function : "IQ"; } }
}
"#;

    #[test]
    fn cells_have_areas_functions_and_middle_energies() {
        let library = parse(TEXT).and_then(|root| Library::new(&root)).unwrap();
        assert_eq!(library.nand_area(), Some(3.75));
        let nand = &library.cells["nand2_1"];
        // Rise: middle row 1, a third of three columns is column 1, so 5; fall: 1.
        assert_eq!((nand.energy["Y"], nand.delay, nand.capacitance("B")), (3.0, 2.0, 0.003));
        assert_eq!(library.capacitance_energy, 4e-12);
        let expected = FlipFlop { clock: "CLK".to_owned(), data: "D".to_owned() };
        assert_eq!(library.cells["dff"].flip_flop, Some(expected));
    }

    #[test]
    fn errors_are_reported_with_their_lines() {
        for (text, line, part) in [
            ("library (a) {\n cell (b) {", 2, "without end"),
            ("library (a) {\n\n x y }", 3, "\"y\""),
            ("}", 1, "closing brace"),
            ("library (a) { n : \"1", 1, "no end"),
            ("library (a) { /* ", 1, "comment"),
            ("cell (a) {}", 0, "library"),
        ] {
            let (found, what) = parse(text).and_then(|root| Library::new(&root)).unwrap_err();
            assert!(found == line && what.contains(part), "{text}: line {found}, {what}");
        }
    }
}

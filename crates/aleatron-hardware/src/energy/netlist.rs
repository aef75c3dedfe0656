//! Netlists of gates and flip-flops, as written by Yosys, without their hierarchy.

use super::cells::{CellKind, Cells, Role};
use crate::cost::{Part, PartValues};
use crate::{Error, Result};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// The net that is always 0.
pub(super) const ZERO: u32 = 0;
/// The net that is always 1.
pub(super) const ONE: u32 = 1;

/// A netlist with its hierarchy.
#[derive(Debug, Deserialize)]
pub(crate) struct Hierarchy {
    modules: BTreeMap<String, JsonModule>,
}

#[derive(Debug, Deserialize)]
struct JsonModule {
    ports: BTreeMap<String, JsonPort>,
    cells: BTreeMap<String, JsonCell>,
}

#[derive(Debug, Deserialize)]
struct JsonPort {
    bits: Vec<Bit>,
}

#[derive(Debug, Deserialize)]
struct JsonCell {
    r#type: String,
    connections: BTreeMap<String, Vec<Bit>>,
}

/// A bit of a module: a net, or a constant as text.
#[derive(Debug, Deserialize, PartialEq, Eq, Hash)]
#[serde(untagged)]
enum Bit {
    Net(u32),
    Constant(String),
}

/// A cell of a netlist.
#[derive(Debug)]
pub(super) struct Instance {
    /// The index of its kind.
    pub(super) kind: usize,
    /// The part of the circuit.
    pub(super) part: Part,
    /// The nets of its inputs, in the order of the pins of its kind.
    pub(super) inputs: Vec<u32>,
    /// The nets of its outputs, in the order of the pins of its kind.
    pub(super) outputs: Vec<u32>,
}

/// A netlist without hierarchy.
#[derive(Debug)]
pub(super) struct Netlist {
    /// The number of nets; the first two are constants.
    pub(super) n_nets: usize,
    /// The kinds of cells.
    pub(super) kinds: Vec<CellKind>,
    /// The cells.
    pub(super) instances: Vec<Instance>,
    /// The nets of each port of the top module, lowest bit first.
    pub(super) ports: BTreeMap<String, Vec<u32>>,
}

/// Nets with a union-find of equal nets.
struct Nets(Vec<u32>);

impl Nets {
    fn new_net(&mut self) -> u32 {
        let id = self.0.len() as u32;
        self.0.push(id);
        id
    }

    fn root(&self, mut net: u32) -> u32 {
        while self.0[net as usize] != net {
            net = self.0[net as usize];
        }
        net
    }

    /// Joins two nets; constants, whose numbers are lowest, stay roots.
    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.root(a), self.root(b));
        self.0[a.max(b) as usize] = a.min(b);
    }
}

pub(super) fn fault(missing: impl Into<String>) -> Error {
    Error::ToolOutput { tool: "yosys", missing: missing.into() }
}

impl Hierarchy {
    /// Reads a netlist in the JSON of Yosys.
    ///
    /// # Errors
    /// Returns [`Error::File`], and [`Error::ToolOutput`] for text that is not a netlist.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| Error::File { path: path.into(), source })?;
        Self::parse(&text)
    }

    pub(super) fn parse(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|error| fault(format!("netlist in JSON: {error}")))
    }

    /// Returns the area of each part in gate equivalents, and the number of flip-flops. Each module
    /// counts as often as it is instantiated.
    ///
    /// # Errors
    /// Returns [`Error::ToolOutput`] for an unknown cell or module.
    pub(crate) fn area(&self, top: &str, cells: &Cells) -> Result<(PartValues, u64)> {
        let (mut parts, mut flip_flops) = (PartValues::default(), 0);
        let gate = cells.clock_gate();
        let mut pending = vec![(top, 1_u64)];
        while let Some((name, times)) = pending.pop() {
            let module = self.modules.get(name).ok_or_else(|| fault(format!("module {name}")))?;
            let (mut numbers, mut enables) =
                (BTreeMap::<&str, u64>::new(), HashMap::<&Bit, usize>::new());
            for cell in module.cells.values() {
                *numbers.entry(&cell.r#type).or_default() += 1;
                if cell.r#type == "$_DFFE_PP_"
                    && let Some(enable) = cell.connections.get("E").and_then(|bits| bits.first())
                {
                    *enables.entry(enable).or_default() += 1;
                }
            }
            let mut area: f64 = enables.into_values().map(|size| gate.area_of(size)).sum();
            for (cell, number) in numbers {
                if self.modules.contains_key(cell) {
                    pending.push((cell, times * number));
                    continue;
                }
                let kind = cells.kind(cell).ok_or_else(|| fault(format!("known cell {cell}")))?;
                area += kind.area * number as f64;
                flip_flops += if kind.role == Role::Gate { 0 } else { times * number };
            }
            parts.add(Part::of_module(name), area * times as f64);
        }
        Ok((parts, flip_flops))
    }
}

impl Netlist {
    /// Removes the hierarchy of a netlist.
    ///
    /// # Errors
    /// Returns [`Error::ToolOutput`] for an unknown cell or module.
    pub(super) fn new(json: &Hierarchy, top: &str, cells: &Cells) -> Result<Self> {
        let mut nets = Nets(vec![ZERO, ONE]);
        let module = json.modules.get(top).ok_or_else(|| fault(format!("module {top}")))?;
        let mut ports = BTreeMap::new();
        let mut map = HashMap::new();
        for (name, port) in &module.ports {
            let bits =
                port.bits.iter().map(|bit| local(bit, &mut map, &mut nets)).collect::<Vec<u32>>();
            ports.insert(name.clone(), bits);
        }
        let (mut kinds, mut known, mut instances) = (Vec::new(), HashMap::new(), Vec::new());
        let mut pending = vec![(top, module, map)];
        while let Some((name, module, mut map)) = pending.pop() {
            let part = Part::of_module(name);
            for cell in module.cells.values() {
                if let Some((name, inner)) = json.modules.get_key_value(&cell.r#type) {
                    let mut inner_map = HashMap::new();
                    for (port, bits) in &cell.connections {
                        let Some(port) = inner.ports.get(port) else { continue };
                        for (outer, inner) in bits.iter().zip(&port.bits) {
                            let outer = local(outer, &mut map, &mut nets);
                            match inner {
                                Bit::Net(id) => {
                                    let same = *inner_map.entry(*id).or_insert(outer);
                                    nets.join(same, outer);
                                }
                                Bit::Constant(_) => {
                                    let constant = local(inner, &mut inner_map, &mut nets);
                                    nets.join(constant, outer);
                                }
                            }
                        }
                    }
                    pending.push((name, inner, inner_map));
                    continue;
                }
                let kind = match known.get(&cell.r#type) {
                    Some(&kind) => kind,
                    None => {
                        let found = cells.kind(&cell.r#type);
                        kinds.push(
                            found.ok_or_else(|| fault(format!("known cell {}", cell.r#type)))?,
                        );
                        known.insert(&cell.r#type, kinds.len() - 1);
                        kinds.len() - 1
                    }
                };
                let mut net =
                    |pin: &String| match cell.connections.get(pin).and_then(|bits| bits.first()) {
                        Some(bit) => local(bit, &mut map, &mut nets),
                        None => nets.new_net(),
                    };
                let inputs = kinds[kind].inputs.iter().map(|pin| net(&pin.name)).collect();
                let outputs = kinds[kind].outputs.iter().map(|pin| net(&pin.name)).collect();
                instances.push(Instance { kind, part, inputs, outputs });
            }
        }
        for instance in &mut instances {
            let all = instance.inputs.iter_mut().chain(&mut instance.outputs);
            all.for_each(|net| *net = nets.root(*net));
        }
        ports.values_mut().flatten().for_each(|net| *net = nets.root(*net));
        Ok(Self { n_nets: nets.0.len(), kinds, instances, ports })
    }

    /// Returns the nets of a port.
    ///
    /// # Errors
    /// Returns [`Error::ToolOutput`] if the top module has no such port.
    pub(super) fn port(&self, name: &str) -> Result<&[u32]> {
        self.ports.get(name).map(Vec::as_slice).ok_or_else(|| fault(format!("port {name}")))
    }

    /// Returns the flip-flops, with the indices of their cells.
    pub(super) fn flip_flops(&self) -> impl Iterator<Item = (usize, &Instance, Option<u32>)> {
        self.instances.iter().enumerate().filter_map(|(k, instance)| {
            match self.kinds[instance.kind].role {
                Role::FlipFlop => Some((k, instance, None)),
                // An enable that is always 1 is equivalent to none.
                Role::EnabledFlipFlop => {
                    Some((k, instance, instance.inputs.get(1).copied().filter(|&net| net != ONE)))
                }
                Role::Gate => None,
            }
        })
    }
}

/// Returns the net of a bit of a module. Unknown bits are 0.
fn local(bit: &Bit, map: &mut HashMap<u32, u32>, nets: &mut Nets) -> u32 {
    match bit {
        Bit::Net(id) => *map.entry(*id).or_insert_with(|| nets.new_net()),
        Bit::Constant(text) if text == "1" => ONE,
        Bit::Constant(_) => ZERO,
    }
}

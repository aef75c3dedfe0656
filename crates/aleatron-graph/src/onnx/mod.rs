//! Reading and writing ONNX files.
//!
//! Operator sets from 6 to 28 are read; the operators are those of [`Op`](crate::op::Op). `Scan`
//! and some operators of classical machine learning (`ai.onnx.ml`) are read as several nodes of
//! those. A model with others is refused with a list of all of them. Every field of a file is
//! checked: a malformed file is an error.

mod attribute;
mod element;
mod known;
mod lower;
mod ml;
mod operator;
pub mod proto;
mod quantized;
mod scan;
mod signal;
mod tensor;
mod window;
mod write;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use aleatron_core::{Quantity, memory};
use prost::Message;

use self::attribute::Attributes;
use self::lower::Lowering;
use self::proto::{GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto};
use self::tensor::{ElementType, type_name};
use crate::error::{Error, Result, UnknownOperator};
use crate::graph::{Dim, Graph, Node, Value, ValueId};
use crate::narrow::Narrow;

/// The oldest operator set that is read.
pub const OLDEST_OPSET: i64 = 6;

/// The newest operator set that is read.
pub const NEWEST_OPSET: i64 = 28;

/// The largest depth of nested graphs.
const MAX_DEPTH: usize = 8;

/// The largest declared rank of a value.
const MAX_RANK: usize = 32;

impl Graph {
    /// Reads an `.onnx` file, and the files of its folder that hold its constants.
    ///
    /// # Errors
    /// An error with the fault of the file, or its unsupported operators.
    pub fn read_onnx(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let in_file = |source| Error::File { path: path.to_owned(), source };
        let file = std::fs::metadata(path).map_err(in_file)?;
        if !file.is_file() {
            // Opening a pipe waits for its writer, and a device may have no end.
            let reason = "it is not a regular file; write the model into a file first";
            return Err(in_file(std::io::Error::new(std::io::ErrorKind::InvalidInput, reason)));
        }
        let size = file.len();
        // The file, what is decoded from it, and the tensors.
        memory::check(3 * u128::from(size), Quantity::Weights)?;
        let bytes = std::fs::read(path).map_err(in_file)?;
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let graph = read(&bytes, Some(folder))?;
        let name = path.file_name().map_or_else(|| "model".into(), |name| name.to_string_lossy());
        // A dot may be part of a name: "model.v1" is not "model".
        let stem = name
            .len()
            .checked_sub(".onnx".len())
            .and_then(|at| Some((name.get(..at)?, name.get(at..)?)));
        Ok(match stem {
            Some((stem, ending)) if ending.eq_ignore_ascii_case(".onnx") && !stem.is_empty() => {
                graph.with_name(stem)
            }
            _ => graph.with_name(name),
        })
    }

    /// Reads a model from memory. Constants in external files are errors.
    ///
    /// # Errors
    /// As [`Self::read_onnx`].
    pub fn from_onnx(bytes: &[u8]) -> Result<Self> {
        read(bytes, None)
    }
}

fn read(bytes: &[u8], folder: Option<&Path>) -> Result<Graph> {
    let model =
        ModelProto::decode(bytes).map_err(|error| Error::Format { reason: error.to_string() })?;
    let fault = |reason: String| Error::model("model", reason);
    let Some(graph) = &model.graph else {
        return Err(Error::Format { reason: "there is no graph".to_owned() });
    };
    let mut version = None;
    for import in &model.opset_import {
        if matches!(import.domain.as_deref(), None | Some("" | "ai.onnx")) {
            let new = import.version.unwrap_or_default();
            if version.is_some_and(|old| old != new) {
                return Err(fault(format!(
                    "two operator sets, {} and {new}",
                    version.unwrap_or_default()
                )));
            }
            version = Some(new);
        }
    }
    // Operators of classical machine learning have their own operator set; a model may have no
    // others.
    let is_ml = |node: &NodeProto| domain(node) == known::ML;
    if version.is_none() && !graph.node.is_empty() && graph.node.iter().all(is_ml) {
        version = Some(NEWEST_OPSET);
    }
    let Some(version) = version else { return Err(fault("no operator set is named".to_owned())) };
    if !(OLDEST_OPSET..=NEWEST_OPSET).contains(&version) {
        return Err(fault(format!(
            "operator set {version}; {OLDEST_OPSET} to {NEWEST_OPSET} are read"
        )));
    }
    let importer = Importer { version, folder, functions: model.functions.len() };
    importer.refuse_unknown(graph)?;
    let mut read = importer.graph(graph, None, 0)?;
    element::infer(&mut read, &BTreeMap::new())?;
    let entries = model.metadata_props.iter();
    read.metadata = entries
        .map(|entry| {
            (entry.key.clone().unwrap_or_default(), entry.value.clone().unwrap_or_default())
        })
        .collect();
    Ok(read)
}

/// The values of the outer graph, by name.
type Outer<'a> = Option<&'a HashMap<String, ValueId>>;

pub(crate) struct Importer<'a> {
    pub(crate) version: i64,
    folder: Option<&'a Path>,
    functions: usize,
}

impl Importer<'_> {
    /// Checks that all operators are supported; the error lists all unsupported ones.
    fn refuse_unknown(&self, graph: &GraphProto) -> Result<()> {
        let mut unknown: BTreeMap<(String, String), usize> = BTreeMap::new();
        let mut graphs = vec![graph];
        while let Some(graph) = graphs.pop() {
            for node in &graph.node {
                let (domain, name) = (domain(node), node.op_type.as_deref().unwrap_or_default());
                if !known::is_known(domain, name) {
                    *unknown.entry((domain.to_owned(), name.to_owned())).or_default() += 1;
                }
                graphs.extend(node.attribute.iter().filter_map(|attribute| attribute.g.as_ref()));
            }
        }
        if unknown.is_empty() {
            return Ok(());
        }
        let operators = unknown.into_iter().map(|((domain, name), nodes)| UnknownOperator {
            domain,
            name,
            version: self.version,
            nodes,
        });
        Err(Error::Operators { operators: operators.collect() })
    }

    fn graph(&self, proto: &GraphProto, outer: Outer<'_>, depth: usize) -> Result<Graph> {
        if depth > MAX_DEPTH {
            return Err(Error::model(
                "model",
                format!("graphs are nested deeper than {MAX_DEPTH}"),
            ));
        }
        let mut graph = Graph::new(proto.name.as_deref().unwrap_or("graph"));
        let fault = |reason: &str| {
            Error::model(format!("graph \"{}\"", proto.name.as_deref().unwrap_or_default()), reason)
        };
        if !proto.sparse_initializer.is_empty() {
            return Err(fault("sparse constants are not read"));
        }
        if self.functions > 0 && depth == 0 && proto.node.is_empty() {
            return Err(fault("a model of functions alone is not read"));
        }
        // Constants in other files may be many times as large as this one: all of them must fit
        // before the first is read.
        let outside = proto.initializer.iter().filter(|tensor| tensor.data_location == Some(1));
        let bytes = outside.map(tensor::bytes_as_tensor).fold(0_u128, u128::saturating_add);
        memory::check(bytes, Quantity::Weights)?;
        let mut names: HashMap<String, ValueId> = HashMap::new();
        for initializer in &proto.initializer {
            let name = initializer.name.clone().unwrap_or_default();
            let id = graph.add_constant(&name, tensor::read(initializer, self.folder)?);
            let element = ElementType::from_code(initializer.data_type.unwrap_or_default());
            graph.narrow.extend(element.and_then(ElementType::narrow).map(|narrow| (id, narrow)));
            if name.is_empty() || names.insert(name.clone(), id).is_some() {
                return Err(Error::RepeatedValue { name });
            }
        }
        for input in &proto.input {
            let (value, narrow) = read_value(input)?;
            // An input with a constant of its name has that as its default: it is a constant.
            if names.contains_key(&value.name) && depth == 0 {
                continue;
            }
            let name = value.name.clone();
            let id = graph.add_input(value);
            graph.narrow.extend(narrow.map(|narrow| (id, narrow)));
            if name.is_empty() || names.insert(name.clone(), id).is_some() {
                return Err(Error::RepeatedValue { name });
            }
        }
        let mut known: HashMap<&str, &ValueInfoProto> = HashMap::new();
        for info in proto.value_info.iter().chain(&proto.output) {
            known.insert(info.name.as_deref().unwrap_or_default(), info);
        }
        // Outputs first, so that nodes may stand in any order.
        let mut outputs = Vec::with_capacity(proto.node.len());
        for node in &proto.node {
            let mut made = Vec::with_capacity(node.output.len());
            for name in &node.output {
                if name.is_empty() {
                    made.push(None);
                    continue;
                }
                let value = match known.get(name.as_str()) {
                    // A list of maps from labels to probabilities, of which the probabilities are
                    // passed on.
                    Some(_) if is_zip_map(node) => Value { name: name.clone(), ..Value::default() },
                    // The integer types of values between nodes are inferred.
                    Some(info) => read_value(info)?.0,
                    None => Value { name: name.clone(), ..Value::default() },
                };
                let id = graph.add_value(value);
                if names.insert(name.clone(), id).is_some() {
                    return Err(Error::RepeatedValue { name: name.clone() });
                }
                made.push(Some(id));
            }
            outputs.push(made);
        }
        for (index, (node, outputs)) in proto.node.iter().zip(outputs).enumerate() {
            let in_node = |source: Error| Error::Node {
                index,
                name: node.name.clone().unwrap_or_default(),
                operator: node.op_type.clone().unwrap_or_default(),
                source: Box::new(source),
            };
            let mut inputs = Vec::with_capacity(node.input.len());
            for name in &node.input {
                inputs.push(match name.is_empty() {
                    true => None,
                    false => Some(resolve(name, &mut graph, &mut names, outer).map_err(in_node)?),
                });
            }
            let name = node.name.clone().unwrap_or_default();
            if domain(node) == known::ML {
                let mut lowering = Lowering { graph: &mut graph, name, inputs, outputs };
                ml::lower(&mut lowering, node, self.folder).map_err(in_node)?;
                continue;
            }
            let op = self.operator(node, &mut graph, &mut names, outer, depth).map_err(in_node)?;
            if node.op_type.as_deref() == Some("Scan") {
                let mut lowering = Lowering { graph: &mut graph, name, inputs, outputs };
                scan::lower(&mut lowering, op, node).map_err(in_node)?;
                continue;
            }
            let own = element::of_attributes(node).and_then(ElementType::narrow);
            if let (Some(narrow), Some(Some(id))) = (own, outputs.first()) {
                graph.narrow.insert(*id, narrow);
            }
            graph.nodes.push(Node { name, op, inputs, outputs });
        }
        for output in &proto.output {
            let name = output.name.as_deref().unwrap_or_default();
            let id = resolve(name, &mut graph, &mut names, outer)?;
            graph.outputs.push(id);
        }
        graph.name_nodes();
        graph.sort()?;
        Ok(graph)
    }

    fn operator(
        &self,
        node: &NodeProto,
        graph: &mut Graph,
        names: &mut HashMap<String, ValueId>,
        outer: Outer<'_>,
        depth: usize,
    ) -> Result<crate::op::Op> {
        let attributes = Attributes::new(node, self.folder)?;
        let name = node.op_type.as_deref().unwrap_or_default();
        let mut subgraph = |attribute: &str| -> Result<Box<Graph>> {
            let proto = attributes.graph(attribute)?;
            // Captured values must be values of the outer graph first.
            for name in free_names(proto, MAX_DEPTH) {
                if !names.contains_key(&name) {
                    resolve(&name, graph, names, outer)?;
                }
            }
            Ok(Box::new(self.graph(proto, Some(names), depth + 1)?))
        };
        let op = match name {
            "If" => crate::op::Op::If {
                then_branch: subgraph("then_branch")?,
                else_branch: subgraph("else_branch")?,
            },
            "Loop" => crate::op::Op::Loop { body: subgraph("body")? },
            "Scan" => {
                scan::check(&attributes, self.version)?;
                crate::op::Op::Loop { body: subgraph("body")? }
            }
            _ => operator::read(self, name, node, &attributes)?,
        };
        attributes.finish()?;
        Ok(op)
    }
}

/// Returns the value with a name: of this graph, or taken from one around it.
fn resolve(
    name: &str,
    graph: &mut Graph,
    names: &mut HashMap<String, ValueId>,
    outer: Outer<'_>,
) -> Result<ValueId> {
    if let Some(&id) = names.get(name) {
        return Ok(id);
    }
    let Some(&outer) = outer.and_then(|names| names.get(name)) else {
        return Err(Error::MissingValue { name: name.to_owned() });
    };
    let inner = graph.add_value(Value { name: name.to_owned(), ..Value::default() });
    graph.captures.push((outer, inner));
    names.insert(name.to_owned(), inner);
    Ok(inner)
}

/// Returns the names that a graph uses and does not make.
fn free_names(graph: &GraphProto, depth: usize) -> Vec<String> {
    let mut made: std::collections::HashSet<&str> = std::collections::HashSet::new();
    made.extend(graph.input.iter().filter_map(|value| value.name.as_deref()));
    made.extend(graph.initializer.iter().filter_map(|tensor| tensor.name.as_deref()));
    made.extend(graph.node.iter().flat_map(|node| node.output.iter().map(String::as_str)));
    let mut free = Vec::new();
    let mut add = |name: &str| {
        if !name.is_empty() && !made.contains(name) {
            free.push(name.to_owned());
        }
    };
    for node in &graph.node {
        node.input.iter().for_each(|name| add(name));
        for inner in node.attribute.iter().filter_map(|attribute| attribute.g.as_ref()) {
            if depth > 0 {
                free_names(inner, depth - 1).iter().for_each(|name| add(name));
            }
        }
    }
    graph.output.iter().filter_map(|value| value.name.as_deref()).for_each(&mut add);
    free.sort();
    free.dedup();
    free
}

fn domain(node: &NodeProto) -> &str {
    match node.domain.as_deref() {
        None | Some("ai.onnx") => "",
        Some(domain) => domain,
    }
}

fn is_zip_map(node: &NodeProto) -> bool {
    domain(node) == known::ML && node.op_type.as_deref() == Some("ZipMap")
}

/// Reads the declaration of a value, and its type if tensors hold it in a wider one.
fn read_value(info: &ValueInfoProto) -> Result<(Value, Option<Narrow>)> {
    let name = info.name.clone().unwrap_or_default();
    let fault = |reason: String| Error::model(format!("value \"{name}\""), reason);
    let Some(kind) = &info.r#type else { return Ok((Value { name, ..Value::default() }, None)) };
    let TypeProto { tensor_type, sequence_type, map_type, sparse_tensor_type, optional_type } =
        kind;
    let Some(tensor) = tensor_type else {
        let kind = match (sequence_type, map_type, sparse_tensor_type, optional_type) {
            (Some(_), ..) => "a sequence",
            (_, Some(_), ..) => "a map",
            (_, _, Some(_), _) => "a sparse tensor",
            (_, _, _, Some(_)) => "optional",
            _ => return Ok((Value { name, ..Value::default() }, None)),
        };
        return Err(fault(format!("it is {kind}; tensors are read")));
    };
    let code = tensor.elem_type.unwrap_or_default();
    let element = ElementType::from_code(code);
    let dtype = match (code, element) {
        (0, _) => None,
        (_, Some(element)) => Some(element.dtype()),
        _ => return Err(fault(format!("elements of type {} are not read", type_name(code)))),
    };
    let shape = match &tensor.shape {
        None => None,
        Some(shape) if shape.dim.len() > MAX_RANK => {
            return Err(fault(format!("rank {}, at most {MAX_RANK} is possible", shape.dim.len())));
        }
        Some(shape) => {
            let mut dims = Vec::with_capacity(shape.dim.len());
            for dim in &shape.dim {
                dims.push(match (dim.dim_value, &dim.dim_param) {
                    (Some(size), _) => Dim::Fixed(
                        usize::try_from(size)
                            .map_err(|_| fault(format!("an axis of size {size}")))?,
                    ),
                    (None, Some(name)) if !name.is_empty() => Dim::Named(name.clone()),
                    _ => Dim::Unknown,
                });
            }
            let fixed = dims.iter().map(|dim| if let Dim::Fixed(size) = dim { *size } else { 1 });
            let bytes = fixed.clone().try_fold(8_usize, |all, size| all.checked_mul(size.max(1)));
            if bytes.is_none_or(|bytes| bytes > isize::MAX as usize) {
                return Err(fault(format!("shape {:?} is too large", fixed.collect::<Vec<_>>())));
            }
            Some(dims)
        }
    };
    Ok((Value { name, dtype, shape }, element.and_then(ElementType::narrow)))
}

/// Reads a tensor from a separate file, as in ONNX's tests.
///
/// # Errors
/// An error with the fault of the bytes.
pub fn read_tensor(bytes: &[u8]) -> Result<aleatron_tensor::Tensor> {
    let proto = proto::TensorProto::decode(bytes)
        .map_err(|error| Error::Format { reason: error.to_string() })?;
    tensor::read(&proto, None)
}

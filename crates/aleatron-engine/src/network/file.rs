//! Networks as files: NAME.json describes a network, NAME.safetensors beside it holds its numbers.
//!
//! The description is one JSON object, a graph of nodes with shapes. Version 2, which is written:
//!
//! | field | meaning |
//! |---|---|
//! | `format` | `"aleatron-network"` |
//! | `version` | 2 |
//! | `name` | the name of the network |
//! | `inputs` | what comes in, each an object: `name`, `shape` of one sample, and `offset` and `scale`: inputs are `(feature - offset) / scale` |
//! | `nodes` | in the order they run, each an object of the following |
//! | `name` | the node's name; its tensors are `NAME.weight` and `NAME.bias`, which may be missing |
//! | `kind` | `"dense"`, `"conv1d"`, `"conv2d"`, `"pool"` or `"flatten"` |
//! | `inputs` | the names of what it takes: of an input or of nodes before it |
//! | `shape` | the shape of its output for one sample: numbers; channels and places; or channels, rows and columns |
//! | `outputs` | the names of what comes out |
//!
//! Dense layers and convolutions have streams, and these fields more:
//!
//! | field | meaning |
//! |---|---|
//! | `polarity` | `"unipolar"`, `"bipolar"` or `"signed"` |
//! | `input_scale` | what inputs are divided by before they are encoded |
//! | `weight_scale` | what weights are divided by before they are encoded |
//! | `activation` | `"identity"`, `"relu"` or `{"clamp": {"low": l, "high": h}}` |
//!
//! A dense layer takes a shape of one number. Its weights are of shape (neurons, inputs), its biases of shape (neurons). The weights of a
//! convolution are of shape (output channels, channels of a group, places) or (output channels, channels of a group, rows, columns), its biases
//! of shape (output channels). For each axis it has a number in `stride` and in `dilation`, and in `padding` the pair of what is added before
//! and after; and `groups`. A `pool` follows a convolution or a pool, and has `reduce`, `"max"` or `"average"`; `window` and `stride`, a number for each
//! axis; `padding` as above; and `border`, `"left_out"`, or `"zeros"` where an average counts the padding as zeros. `flatten` makes one axis of
//! all, in their order.
//!
//! Networks are chains: one input, each node takes the one before it, and the last comes out. Version 1 is
//! read, too: it has one `input` of an offset and a scale, and `layers` with the fields of a dense node, but no kinds, inputs and shapes.
//!
//! Tensors are F16, BF16, F32 or F64 when read, and F64 when written, so that a network survives saving unchanged.

use super::layer::Layer;
use super::node::{ActivationDescription, DenseNode, Node, Reader, dense_layer, is_sequence, nodes_of};
use super::{Activation, FeatureMap, Network};
use crate::{Error, Result};
use aleatron_core::Polarity;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use std::path::{Path, PathBuf};

const FORMAT: &str = "aleatron-network";
const VERSION: u32 = 2;

/// What every version has.
#[derive(serde::Deserialize)]
struct Head {
    format: String,
    version: u32,
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    format: String,
    version: u32,
    name: String,
    inputs: Vec<InputDescription>,
    nodes: Vec<Node>,
    outputs: Vec<String>,
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct InputDescription {
    name: String,
    shape: Vec<usize>,
    offset: f64,
    scale: f64,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct FirstDescription {
    #[serde(rename = "format")]
    _format: String,
    #[serde(rename = "version")]
    _version: u32,
    name: String,
    #[serde(default)]
    input: FirstInput,
    layers: Vec<FirstLayer>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct FirstInput {
    offset: f64,
    scale: f64,
}

impl Default for FirstInput {
    fn default() -> Self {
        let FeatureMap { offset, scale } = FeatureMap::IDENTITY;
        Self { offset, scale }
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct FirstLayer {
    name: String,
    polarity: String,
    input_scale: f64,
    weight_scale: f64,
    activation: ActivationDescription,
}

/// The name of the one input.
const INPUT: &str = "input";

/// A tensor by name, in double precision: what a state dict holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// The name, such as `0.weight`.
    pub name: String,
    /// The shape.
    pub shape: Vec<usize>,
    /// The values, row-major.
    pub values: Vec<f64>,
}

impl Network {
    /// The noise-aware network 64-64-10 for the embedded digits.
    ///
    /// # Errors
    /// None for the files as they are.
    pub fn digits_noise_aware() -> Result<Self> {
        Self::from_parts(
            include_str!("../../assets/digits/noise_aware.json"),
            include_bytes!("../../assets/digits/noise_aware.safetensors"),
        )
    }

    /// The plainly trained network 64-64-10 for the embedded digits.
    ///
    /// # Errors
    /// None for the files as they are.
    pub fn digits_plain() -> Result<Self> {
        Self::from_parts(
            include_str!("../../assets/digits/plain.json"),
            include_bytes!("../../assets/digits/plain.safetensors"),
        )
    }

    /// The convolutional network for the embedded digits, as signed streams: 8 and 16 channels of 3 x 3 kernels with pools, and a dense
    /// layer.
    ///
    /// ```
    /// use aleatron_engine::network::Network;
    /// let network = Network::digits_cnn()?;
    /// assert_eq!(network.input_shape(), [1, 8, 8]);
    /// assert_eq!(network.layers()[1].output_shape(), [16, 2, 2]);
    /// # Ok::<(), aleatron_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// None for the files as they are.
    pub fn digits_cnn() -> Result<Self> {
        Self::from_parts(
            include_str!("../../assets/digits/cnn.json"),
            include_bytes!("../../assets/digits/cnn.safetensors"),
        )
    }

    /// Reads NAME.json and NAME.safetensors; `path` may be either or NAME itself.
    ///
    /// # Errors
    /// [`Error::File`] where one cannot be read, [`Error::Format`], [`Error::MissingTensor`], [`Error::TensorShape`] and
    /// [`Error::TensorType`] with what is wrong in it, and all that [`Self::new`] refuses.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let [json, tensors] = files(path.as_ref());
        let description = std::fs::read_to_string(&json).map_err(|e| Error::file(&json, e))?;
        let bytes = std::fs::read(&tensors).map_err(|e| Error::file(&tensors, e))?;
        let names = [&json, &tensors].map(|path| path.display().to_string());
        Self::from_named_parts(&description, &bytes, [&names[0], &names[1]])
    }

    /// Writes NAME.json and NAME.safetensors for a `path` of NAME, with or without one of these endings; any other ending is part of
    /// the name.
    ///
    /// # Errors
    /// [`Error::File`] where one cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let (description, tensors) = self.to_parts()?;
        let [json, numbers] = files(path.as_ref());
        if json.file_name() == Some(".json".as_ref()) {
            let why = std::io::Error::new(std::io::ErrorKind::InvalidInput, "not the name of a file");
            return Err(Error::file(path.as_ref(), why));
        }
        // The description last: without it, there is no network to be read.
        for (path, bytes) in [(numbers, tensors.as_slice()), (json, description.as_bytes())] {
            crate::file::replace(&path, bytes).map_err(|e| Error::file(&path, e))?;
        }
        Ok(())
    }

    /// A network from the contents of its two files.
    ///
    /// # Errors
    /// As [`Self::load`], but for files that cannot be read.
    pub fn from_parts(description: &str, tensors: &[u8]) -> Result<Self> {
        Self::from_named_parts(description, tensors, ["network description", "tensors"])
    }

    fn from_named_parts(description: &str, tensors: &[u8], names: [&str; 2]) -> Result<Self> {
        let fault = |reason: String| Error::Format { file: names[0].to_owned(), reason };
        let json = |e: serde_json::Error| fault(e.to_string());
        let head: Head = serde_json::from_str(description).map_err(json)?;
        let (name, input, shape, nodes) = match (head.format.as_str(), head.version) {
            (FORMAT, 1) => {
                let first: FirstDescription = serde_json::from_str(description).map_err(json)?;
                let FirstInput { offset, scale } = first.input;
                let nodes = first.layers.into_iter().map(|layer| {
                    Node::Dense(DenseNode {
                        name: layer.name,
                        inputs: Vec::new(),
                        shape: Vec::new(),
                        polarity: layer.polarity,
                        input_scale: layer.input_scale,
                        weight_scale: layer.weight_scale,
                        activation: layer.activation,
                    })
                });
                (first.name, FeatureMap { offset, scale }, Vec::new(), nodes.collect::<Vec<_>>())
            }
            (FORMAT, VERSION) => {
                let graph: Description = serde_json::from_str(description).map_err(json)?;
                let (input, shape) = check_chain(&graph).map_err(fault)?;
                (graph.name, input, shape, graph.nodes)
            }
            (format, version) => {
                return Err(fault(format!(
                    "{format} version {version} is not {FORMAT} version 1 or {VERSION}"
                )));
            }
        };
        let tensors = read_named_tensors(tensors, names[1])?;
        let mut reader = Reader::new(&tensors, shape);
        for node in &nodes {
            reader.read(node, &fault)?;
        }
        Self::new(name, input, reader.finish())
    }

    /// The contents of the two files: the description and the tensors.
    ///
    /// # Errors
    /// [`Error::Format`] where the tensors cannot be written.
    pub fn to_parts(&self) -> Result<(String, Vec<u8>)> {
        let mut shape = match self.layers().first().and_then(Layer::conv_shape) {
            Some(conv) if is_sequence(conv) => vec![conv.convolution().input[0], conv.convolution().input[2]],
            _ => self.input_shape(),
        };
        let input_shape = shape.clone();
        let mut nodes: Vec<Node> = Vec::new();
        for layer in self.layers() {
            let before = nodes.last().map_or(INPUT, Node::name).to_owned();
            nodes.append(&mut nodes_of(layer, &before, &shape));
            shape = layer.output_shape();
        }
        let outputs = nodes.last().map(|node| node.name().to_owned()).into_iter().collect();
        let FeatureMap { offset, scale } = self.input();
        let description = Description {
            format: FORMAT.into(),
            version: VERSION,
            name: self.name().to_owned(),
            inputs: vec![InputDescription { name: INPUT.into(), shape: input_shape, offset, scale }],
            nodes,
            outputs,
        };
        let failed = |file: &str, reason: String| Error::Format { file: file.into(), reason };
        let mut json = serde_json::to_string_pretty(&description)
            .map_err(|e| failed("network description", e.to_string()))?;
        json.push('\n');

        let mut data = Vec::new();
        for layer in self.layers() {
            let bytes = |values: &[f64]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
            let shape = layer.weight_shape();
            data.push((format!("{}.weight", layer.name()), shape, bytes(layer.weights())));
            data.push((format!("{}.bias", layer.name()), vec![layer.bias().len()], bytes(layer.bias())));
        }
        let views = data.iter().map(|(name, shape, bytes)| {
            let view = TensorView::new(Dtype::F64, shape.clone(), bytes);
            Ok((name.as_str(), view.map_err(|e| failed(name, e.to_string()))?))
        });
        let views = views.collect::<Result<Vec<_>>>()?;
        let bytes = safetensors::serialize(views, None).map_err(|e| failed("tensors", e.to_string()))?;
        Ok((json, bytes))
    }

    /// A network of signed layers from a torch-style state dict: each `PREFIX.weight` of shape (neurons, inputs), with its
    /// `PREFIX.bias` if there is one, is a layer, in the order given; `hidden` is applied between layers and nothing after
    /// the last. Scales of inputs are 1 until [`Self::calibrated`] sets them.
    ///
    /// # Errors
    /// [`Error::NoLayers`] where no name ends in `.weight`, [`Error::UnknownTensors`] with all tensors that belong to no layer,
    /// [`Error::TensorShape`] with the tensor at fault, and all that [`Self::new`] refuses.
    pub fn from_state_dict(
        name: impl Into<String>,
        input: FeatureMap,
        tensors: &[Tensor],
        hidden: Activation,
    ) -> Result<Self> {
        let prefixes: Vec<&str> = tensors.iter().filter_map(|t| t.name.strip_suffix(".weight")).collect();
        let belongs = |name: &str| {
            let prefix = name.strip_suffix(".weight").or(name.strip_suffix(".bias"));
            prefix.is_some_and(|prefix| prefixes.contains(&prefix))
        };
        let others = tensors.iter().map(|tensor| &tensor.name).filter(|name| !belongs(name));
        let others: Vec<String> = others.map(|name| format!("\"{name}\"")).collect();
        if !others.is_empty() {
            return Err(Error::UnknownTensors { tensors: others });
        }
        let layers = prefixes.iter().enumerate().map(|(k, prefix)| {
            let activation = if k + 1 == prefixes.len() { Activation::Identity } else { hidden };
            let layer = dense_layer(k, prefix, tensors)?.with_polarity(Polarity::Signed);
            Ok(layer.with_activation(activation))
        });
        Self::new(name, input, layers.collect::<Result<_>>()?)
    }
}

/// Every tensor of a safetensors file.
///
/// # Errors
/// [`Error::Format`] for a file that is not of the format, [`Error::TensorType`] for a type that is not read.
pub fn read_tensors(bytes: &[u8]) -> Result<Vec<Tensor>> {
    read_named_tensors(bytes, "tensors")
}

fn read_named_tensors(bytes: &[u8], file: &str) -> Result<Vec<Tensor>> {
    let format = |reason: String| Error::Format { file: file.to_owned(), reason };
    let archive = SafeTensors::deserialize(bytes).map_err(|e| format(e.to_string()))?;
    let mut tensors = archive.tensors();
    // The file keeps tensors in the order of their data; names come back in no order at all.
    tensors.sort_by_key(|(_, view)| view.data().as_ptr() as usize);
    let read = |(name, view): (String, TensorView<'_>)| {
        let data = view.data();
        let values: Vec<f64> = match view.dtype() {
            Dtype::F64 => chunks(data).map(f64::from_le_bytes).collect(),
            Dtype::F32 => chunks(data).map(|b| f32::from_le_bytes(b).into()).collect(),
            Dtype::BF16 => chunks(data).map(|b| half::bf16::from_le_bytes(b).into()).collect(),
            Dtype::F16 => chunks(data).map(|b| half::f16::from_le_bytes(b).into()).collect(),
            dtype => return Err(Error::TensorType { tensor: name, dtype: format!("{dtype:?}") }),
        };
        Ok(Tensor { name, shape: view.shape().to_vec(), values })
    };
    tensors.into_iter().map(read).collect()
}

fn chunks<const N: usize>(data: &[u8]) -> impl Iterator<Item = [u8; N]> {
    data.as_chunks::<N>().0.iter().copied()
}

/// The two files of a network called by either of them or by its name. Only their own endings are endings: `model.v1` is a name.
fn files(path: &Path) -> [PathBuf; 2] {
    let endings = [".json", ".safetensors"];
    let text = path.as_os_str().to_string_lossy();
    let stem = match endings.iter().any(|ending| text.ends_with(ending)) {
        true => path.with_extension(""),
        false => path.to_owned(),
    };
    endings.map(|ending| {
        let mut name = stem.clone().into_os_string();
        name.push(ending);
        name.into()
    })
}

/// Checks that a graph is a chain from its one input to its one output; how features become inputs, and their shape.
fn check_chain(graph: &Description) -> Result<(FeatureMap, Vec<usize>), String> {
    let [input] = graph.inputs.as_slice() else {
        return Err(format!("{} inputs; networks of one input are read", graph.inputs.len()));
    };
    if input.shape.is_empty() {
        return Err(format!("input \"{}\" has no shape", input.name));
    }
    let mut before = input.name.as_str();
    for node in &graph.nodes {
        if node.inputs() != [before] {
            let (name, inputs) = (node.name(), node.inputs().join("\", \""));
            return Err(format!("node \"{name}\" takes \"{inputs}\", not the node before it, \"{before}\""));
        }
        before = node.name();
    }
    if graph.outputs != [before] {
        return Err(format!(
            "the outputs are \"{}\", not the last node, \"{before}\"",
            graph.outputs.join("\", \"")
        ));
    }
    Ok((FeatureMap { offset: input.offset, scale: input.scale }, input.shape.clone()))
}

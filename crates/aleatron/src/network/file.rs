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
//! | `kind` | `"dense"`, with weights of shape (neurons, inputs) and biases of shape (neurons) |
//! | `inputs` | the names of what it takes: of an input or of nodes before it |
//! | `shape` | the shape of its output for one sample |
//! | `polarity` | `"unipolar"` or `"bipolar"` |
//! | `input_scale` | what inputs are divided by before they are encoded |
//! | `weight_scale` | what weights are divided by before they are encoded |
//! | `activation` | `"identity"`, `"relu"` or `{"clamp": {"low": l, "high": h}}` |
//! | `outputs` | the names of what comes out |
//!
//! Networks are chains of dense layers so far: one input, each node takes the one before it, and the last comes out. Version 1 is
//! read, too: it has one `input` of an offset and a scale, and `layers` with the fields of a node, but no kinds, inputs and shapes.
//!
//! Tensors are F16, BF16, F32 or F64 when read, and F64 when written, so that a network survives saving unchanged.

use super::layer::Layer;
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
    nodes: Vec<NodeDescription>,
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

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeDescription {
    name: String,
    kind: String,
    inputs: Vec<String>,
    shape: Vec<usize>,
    polarity: String,
    input_scale: f64,
    weight_scale: f64,
    activation: ActivationDescription,
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

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum ActivationDescription {
    Identity,
    Relu,
    Clamp { low: f64, high: f64 },
}

impl From<ActivationDescription> for Activation {
    fn from(activation: ActivationDescription) -> Self {
        match activation {
            ActivationDescription::Identity => Self::Identity,
            ActivationDescription::Relu => Self::Relu,
            ActivationDescription::Clamp { low, high } => Self::Clamp { low, high },
        }
    }
}

/// The name of the one input.
const INPUT: &str = "input";

/// The kind of all nodes there are so far.
const DENSE: &str = "dense";

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
        let mut features = None;
        let (name, input, nodes) = match (head.format.as_str(), head.version) {
            (FORMAT, 1) => {
                let first: FirstDescription = serde_json::from_str(description).map_err(json)?;
                let FirstInput { offset, scale } = first.input;
                let nodes = first.layers.into_iter().map(|layer| NodeDescription {
                    name: layer.name,
                    kind: DENSE.to_owned(),
                    inputs: Vec::new(),
                    shape: Vec::new(),
                    polarity: layer.polarity,
                    input_scale: layer.input_scale,
                    weight_scale: layer.weight_scale,
                    activation: layer.activation,
                });
                (first.name, FeatureMap { offset, scale }, nodes.collect::<Vec<_>>())
            }
            (FORMAT, VERSION) => {
                let graph: Description = serde_json::from_str(description).map_err(json)?;
                let input = check_chain(&graph).map_err(fault)?;
                features = graph.inputs.first().map(|input| input.shape.clone());
                (graph.name, input, graph.nodes)
            }
            (format, version) => {
                return Err(fault(format!(
                    "{format} version {version} is not {FORMAT} version 1 or {VERSION}"
                )));
            }
        };
        let tensors = read_named_tensors(tensors, names[1])?;
        let mut layers = Vec::new();
        for (k, node) in nodes.into_iter().enumerate() {
            if node.kind != DENSE {
                return Err(fault(format!(
                    "node \"{}\" is of kind \"{}\"; {DENSE} nodes are read",
                    node.name, node.kind
                )));
            }
            let polarity: Polarity = node
                .polarity
                .parse()
                .map_err(|e: aleatron_core::Error| fault(format!("node \"{}\": {e}", node.name)))?;
            let layer = layer_from(k, &node.name, &tensors)?;
            if let Some(shape) = features.take().filter(|shape| *shape != [layer.n_inputs()]) {
                return Err(fault(format!(
                    "the input has shape {shape:?}, but the first layer takes {}",
                    layer.n_inputs()
                )));
            }
            if !node.shape.is_empty() && node.shape != [layer.n_neurons()] {
                return Err(fault(format!(
                    "node \"{}\" has shape {:?}, but its weights are of {} neurons",
                    node.name,
                    node.shape,
                    layer.n_neurons()
                )));
            }
            layers.push(
                layer
                    .with_polarity(polarity)
                    .with_input_scale(node.input_scale)
                    .with_weight_scale(node.weight_scale)
                    .with_activation(node.activation.into()),
            );
        }
        Self::new(name, input, layers)
    }

    /// The contents of the two files: the description and the tensors.
    ///
    /// # Errors
    /// [`Error::Format`] where the tensors cannot be written.
    pub fn to_parts(&self) -> Result<(String, Vec<u8>)> {
        let before = std::iter::once(INPUT).chain(self.layers().iter().map(Layer::name));
        let nodes = self.layers().iter().zip(before).map(|(layer, before)| NodeDescription {
            name: layer.name().to_owned(),
            kind: DENSE.to_owned(),
            inputs: vec![before.to_owned()],
            shape: vec![layer.n_neurons()],
            polarity: layer.polarity().to_string(),
            input_scale: layer.input_scale(),
            weight_scale: layer.weight_scale(),
            activation: match layer.activation() {
                Activation::Relu => ActivationDescription::Relu,
                Activation::Clamp { low, high } => ActivationDescription::Clamp { low, high },
                _ => ActivationDescription::Identity,
            },
        });
        let FeatureMap { offset, scale } = self.input();
        let description = Description {
            format: FORMAT.into(),
            version: VERSION,
            name: self.name().to_owned(),
            inputs: vec![InputDescription {
                name: INPUT.into(),
                shape: vec![self.n_features()],
                offset,
                scale,
            }],
            nodes: nodes.collect(),
            outputs: self.layers().last().map(|layer| layer.name().to_owned()).into_iter().collect(),
        };
        let failed = |file: &str, reason: String| Error::Format { file: file.into(), reason };
        let mut json = serde_json::to_string_pretty(&description)
            .map_err(|e| failed("network description", e.to_string()))?;
        json.push('\n');

        let mut data = Vec::new();
        for layer in self.layers() {
            let bytes = |values: &[f64]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
            let (n, m) = (layer.n_inputs(), layer.n_neurons());
            data.push((format!("{}.weight", layer.name()), vec![m, n], bytes(layer.weights())));
            data.push((format!("{}.bias", layer.name()), vec![m], bytes(layer.bias())));
        }
        let views = data.iter().map(|(name, shape, bytes)| {
            let view = TensorView::new(Dtype::F64, shape.clone(), bytes);
            Ok((name.as_str(), view.map_err(|e| failed(name, e.to_string()))?))
        });
        let views = views.collect::<Result<Vec<_>>>()?;
        let bytes = safetensors::serialize(views, None).map_err(|e| failed("tensors", e.to_string()))?;
        Ok((json, bytes))
    }

    /// A bipolar network from a torch-style state dict: each `PREFIX.weight` of shape (neurons, inputs), with its
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
            Ok(layer_from(k, prefix, tensors)?.with_activation(activation))
        });
        Self::new(name, input, layers.collect::<Result<_>>()?)
    }
}

fn layer_from(k: usize, name: &str, tensors: &[Tensor]) -> Result<Layer> {
    let find = |suffix: &str| {
        let name = format!("{name}.{suffix}");
        tensors
            .iter()
            .find(|tensor| tensor.name == name)
            .ok_or(Error::MissingTensor { layer: k, tensor: name })
    };
    let wrong = |tensor: &Tensor, expected: &str| Error::TensorShape {
        layer: k,
        tensor: tensor.name.clone(),
        expected: expected.to_owned(),
        actual: tensor.shape.clone(),
    };
    let weight = find("weight")?;
    let &[m, n] = weight.shape.as_slice() else { return Err(wrong(weight, "(neurons, inputs)")) };
    if m.checked_mul(n) != Some(weight.values.len()) {
        return Err(wrong(weight, &format!("{} values", weight.values.len())));
    }
    let layer = Layer::new(name, n, weight.values.clone());
    match find("bias") {
        Ok(bias) if bias.shape == [m] && bias.values.len() == m => Ok(layer.with_bias(bias.values.clone())),
        Ok(bias) => Err(wrong(bias, &format!("[{m}]"))),
        Err(_) => Ok(layer),
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

/// Checks that a graph is a chain from its one input to its one output; how features become inputs.
fn check_chain(graph: &Description) -> Result<FeatureMap, String> {
    let [input] = graph.inputs.as_slice() else {
        return Err(format!("{} inputs; networks of one input are read", graph.inputs.len()));
    };
    let mut before = &input.name;
    for node in &graph.nodes {
        if node.inputs != [before.clone()] {
            let (name, inputs) = (&node.name, node.inputs.join("\", \""));
            return Err(format!("node \"{name}\" takes \"{inputs}\", not the node before it, \"{before}\""));
        }
        before = &node.name;
    }
    if graph.outputs != [before.clone()] {
        return Err(format!(
            "the outputs are \"{}\", not the last node, \"{before}\"",
            graph.outputs.join("\", \"")
        ));
    }
    Ok(FeatureMap { offset: input.offset, scale: input.scale })
}

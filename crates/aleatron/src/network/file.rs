//! Networks as files: NAME.json describes a network, NAME.safetensors beside it holds its numbers.
//!
//! The description is one JSON object:
//!
//! | field | meaning |
//! |---|---|
//! | `format` | `"aleatron-network"` |
//! | `version` | 1 |
//! | `name` | the name of the network |
//! | `input` | `{"offset": o, "scale": s}`: inputs are `(feature - o) / s`; left out, features are used as they are |
//! | `layers` | in order, each an object of the following |
//! | `name` | the layer's name; its tensors are `NAME.weight`, of shape (neurons, inputs), and `NAME.bias`, of shape (neurons), which may be missing |
//! | `polarity` | `"unipolar"` or `"bipolar"` |
//! | `input_scale` | what inputs are divided by before they are encoded |
//! | `weight_scale` | what weights are divided by before they are encoded |
//! | `activation` | `"identity"`, `"relu"` or `{"clamp": {"low": l, "high": h}}` |
//!
//! Tensors are F16, BF16, F32 or F64 when read, and F64 when written, so that a network survives saving unchanged.

use super::error::NetworkError;
use super::layer::{Activation, Layer};
use super::{FeatureMap, Network};
use crate::{Error, Result};
use aleatron_core::Polarity;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use std::path::Path;

const FORMAT: &str = "aleatron-network";
const VERSION: u32 = 1;

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    format: String,
    version: u32,
    name: String,
    #[serde(default = "identity")]
    input: FeatureMap,
    layers: Vec<LayerDescription>,
}

fn identity() -> FeatureMap {
    FeatureMap::IDENTITY
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct LayerDescription {
    name: String,
    polarity: PolarityName,
    input_scale: f64,
    weight_scale: f64,
    activation: Activation,
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum PolarityName {
    Unipolar,
    Bipolar,
}

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
    /// [`NetworkError::File`] where one cannot be read, else as [`Self::from_parts`].
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let json = path.with_extension("json");
        let description = std::fs::read_to_string(&json).map_err(|e| file_error(&json, &e))?;
        let tensors = path.with_extension("safetensors");
        let bytes = std::fs::read(&tensors).map_err(|e| file_error(&tensors, &e))?;
        Self::from_parts(&description, &bytes)
    }

    /// Writes NAME.json and NAME.safetensors for a `path` of NAME, with or without one of these extensions.
    ///
    /// # Errors
    /// [`NetworkError::File`] where one cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let (description, tensors) = self.to_parts()?;
        for (extension, bytes) in [("json", description.as_bytes()), ("safetensors", &tensors)] {
            let path = path.with_extension(extension);
            std::fs::write(&path, bytes).map_err(|e| file_error(&path, &e))?;
        }
        Ok(())
    }

    /// A network from the contents of its two files.
    ///
    /// # Errors
    /// [`NetworkError::Format`] for a file that is not of its format, [`NetworkError::MissingTensor`],
    /// [`NetworkError::TensorShape`] and [`NetworkError::TensorType`] with the tensor, and all that [`Self::new`] refuses.
    pub fn from_parts(description: &str, tensors: &[u8]) -> Result<Self> {
        let format =
            |reason: String| Error::from(NetworkError::Format { what: "network description".into(), reason });
        let description: Description =
            serde_json::from_str(description).map_err(|e| format(e.to_string()))?;
        if description.format != FORMAT || description.version != VERSION {
            let (name, version) = (&description.format, description.version);
            return Err(format(format!("{name} version {version} is not {FORMAT} version {VERSION}")));
        }
        let tensors = read_tensors(tensors)?;
        let layers = description.layers.into_iter().enumerate().map(|(k, layer)| {
            let polarity = match layer.polarity {
                PolarityName::Unipolar => Polarity::Unipolar,
                PolarityName::Bipolar => Polarity::Bipolar,
            };
            let built = layer_from(k, &layer.name, &tensors)?
                .with_polarity(polarity)
                .with_input_scale(layer.input_scale)
                .with_weight_scale(layer.weight_scale)
                .with_activation(layer.activation);
            Ok(built)
        });
        Self::new(description.name, description.input, layers.collect::<Result<_>>()?)
    }

    /// The contents of the two files: the description and the tensors.
    ///
    /// # Errors
    /// [`NetworkError::Format`] where the tensors cannot be written.
    pub fn to_parts(&self) -> Result<(String, Vec<u8>)> {
        let layers = self.layers().iter().map(|layer| LayerDescription {
            name: layer.name().to_owned(),
            polarity: match layer.polarity() {
                Polarity::Unipolar => PolarityName::Unipolar,
                Polarity::Bipolar => PolarityName::Bipolar,
            },
            input_scale: layer.input_scale(),
            weight_scale: layer.weight_scale(),
            activation: layer.activation(),
        });
        let description = Description {
            format: FORMAT.into(),
            version: VERSION,
            name: self.name().to_owned(),
            input: self.input(),
            layers: layers.collect(),
        };
        let failed =
            |what: &str, reason: String| Error::from(NetworkError::Format { what: what.into(), reason });
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
    /// the last. Scales of hidden inputs are 1 until [`Self::calibrated`] sets them.
    ///
    /// # Errors
    /// [`NetworkError::Empty`] where no name ends in `.weight`, [`NetworkError::TensorShape`] with the tensor at fault, and all
    /// that [`Self::new`] refuses.
    pub fn from_state_dict(
        name: impl Into<String>,
        input: FeatureMap,
        tensors: &[Tensor],
        hidden: Activation,
    ) -> Result<Self> {
        let prefixes: Vec<&str> = tensors.iter().filter_map(|t| t.name.strip_suffix(".weight")).collect();
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
            .ok_or(NetworkError::MissingTensor { layer: k, tensor: name })
    };
    let wrong = |tensor: &Tensor, expected: &str| {
        Error::from(NetworkError::TensorShape {
            layer: k,
            tensor: tensor.name.clone(),
            expected: expected.to_owned(),
            actual: tensor.shape.clone(),
        })
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
/// [`NetworkError::Format`] for a file that is not of the format, [`NetworkError::TensorType`] for a type that is not read.
pub fn read_tensors(bytes: &[u8]) -> Result<Vec<Tensor>> {
    let format = |reason: String| Error::from(NetworkError::Format { what: "tensors".into(), reason });
    let file = SafeTensors::deserialize(bytes).map_err(|e| format(e.to_string()))?;
    let mut tensors = file.tensors();
    // The file keeps tensors in the order of their data; names come back in no order at all.
    tensors.sort_by_key(|(_, view)| view.data().as_ptr() as usize);
    let read = |(name, view): (String, TensorView<'_>)| {
        let data = view.data();
        let values: Vec<f64> = match view.dtype() {
            Dtype::F64 => chunks(data).map(f64::from_le_bytes).collect(),
            Dtype::F32 => chunks(data).map(|b| f32::from_le_bytes(b).into()).collect(),
            Dtype::BF16 => {
                chunks(data).map(|b| f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16).into()).collect()
            }
            Dtype::F16 => chunks(data).map(|b| from_half(u16::from_le_bytes(b))).collect(),
            dtype => {
                return Err(NetworkError::TensorType { tensor: name, dtype: format!("{dtype:?}") }.into());
            }
        };
        Ok(Tensor { name, shape: view.shape().to_vec(), values })
    };
    tensors.into_iter().map(read).collect()
}

fn chunks<const N: usize>(data: &[u8]) -> impl Iterator<Item = [u8; N]> {
    data.as_chunks::<N>().0.iter().copied()
}

/// An IEEE half-precision number.
fn from_half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023) / 1024.0);
    sign * match exponent {
        0 => fraction * 2.0_f64.powi(-14),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction) * 2.0_f64.powi(exponent - 15),
    }
}

fn file_error(path: &Path, error: &std::io::Error) -> Error {
    NetworkError::File { path: path.to_owned(), reason: error.to_string() }.into()
}

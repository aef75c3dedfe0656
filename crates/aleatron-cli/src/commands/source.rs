//! The network of an evaluation: an embedded one or a file, its settings, and its calibration.

use super::Failure;
use super::bindings::BindingOptions;
use super::data::DataOptions;
use super::names::read_name;
use aleatron::Polarity;
use aleatron::data::{Dataset, LabelKind};
use aleatron::eval::{Error as EvalError, Source};
use aleatron::network::{Batching, Calibration, InputScale, Mode, Network, WeightScale};
use std::path::{Path, PathBuf};

/// The number of samples for calibration, if none are given.
const CALIBRATION_SAMPLES: usize = 256;

/// The metadata of files whose layers have scales.
const LAYERS: &str = "aleatron.layers";

/// Inputs of a first layer from which on they may be bytes that the network takes as numbers in [0,
/// 1].
const BYTES: f64 = 100.0;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Network")]
pub(crate) struct NetworkOptions {
    /// An .onnx file, or an embedded network for digits: noise_aware, plain or cnn.
    #[arg(default_value = "noise_aware", help_heading = None::<&'static str>)]
    network: PathBuf,
    /// The same as an option.
    #[arg(long = "network", value_name = "NETWORK", conflicts_with = "network")]
    named_network: Option<PathBuf>,
    #[command(flatten)]
    bindings: BindingOptions,
    /// The encoding of streams in every layer: signed (a sign and a magnitude), bipolar or
    /// unipolar; that of the network if not given.
    #[arg(long, value_name = "KIND", value_parser = read_name::<Polarity>)]
    polarity: Option<Polarity>,
    /// A layer that runs in binary. May be given several times.
    #[arg(long = "binary", value_name = "NAME")]
    binary: Vec<String>,
    /// Samples of training to find the scales of layers with. A network without scales is
    /// calibrated with the first 256 samples of the data if this is not given.
    #[arg(long, value_name = "FILE")]
    pub(crate) calibrate: Option<PathBuf>,
    /// The share of inputs that the scale of a layer must cover, as a fraction (0.999) or in
    /// percent (99.9); the others saturate.
    #[arg(long, value_name = "SHARE", value_parser = read_share)]
    percentile: Option<f64>,
    /// The scale of weights: row (one for each neuron or output channel) or tensor (one for a
    /// layer).
    #[arg(long, value_name = "KIND", value_parser = read_weight_scale)]
    pub(crate) weight_scale: Option<WeightScale>,
}

/// Reads a share in (0, 1], or in percent if it is above 1.
pub(super) fn read_share(text: &str) -> Result<f64, String> {
    let value: f64 = text.trim().trim_end_matches('%').trim_end().parse().unwrap_or(f64::NAN);
    let is_percent = value > 1.0 || text.trim().ends_with('%');
    let share = if is_percent { value / 100.0 } else { value };
    if share > 0.0 && share <= 1.0 {
        Ok(share)
    } else {
        Err(format!("{text} is not a share in (0, 1] or a percentage up to 100"))
    }
}

fn read_weight_scale(text: &str) -> Result<WeightScale, String> {
    match text.to_ascii_lowercase().as_str() {
        "row" => Ok(WeightScale::PerRow),
        "tensor" => Ok(WeightScale::Tensor),
        _ => Err("use row or tensor".to_owned()),
    }
}

/// A network with its scales.
pub(crate) struct Calibrated {
    pub(crate) network: Network,
    /// Whether the network was calibrated in this run: features beyond the scales saturate.
    pub(crate) is_calibrated: bool,
    /// Warnings about the scales for the user.
    pub(crate) warnings: Vec<String>,
    /// The samples that they were found with.
    pub(crate) samples: String,
}

impl NetworkOptions {
    /// Returns the name or the path.
    pub(crate) fn path(&self) -> &Path {
        self.named_network.as_ref().unwrap_or(&self.network)
    }

    /// Returns the name or the path as text.
    pub(crate) fn given(&self) -> String {
        self.path().display().to_string()
    }

    /// Reads the network and applies the settings of its layers.
    pub(crate) fn load(&self) -> Result<Network, Failure> {
        self.load_variant(self.path())
    }

    /// Reads another network and applies the same settings to its layers.
    pub(crate) fn load_variant(&self, path: &Path) -> Result<Network, Failure> {
        let mut network = load(path, &self.bindings)?;
        if let Some(polarity) = self.polarity {
            network = network.with_polarity(polarity).map_err(Failure::usage)?;
        }
        for name in &self.binary {
            network = network.with_mode(name, Mode::Binary).map_err(Failure::usage)?;
        }
        Ok(network)
    }

    /// Returns the file of the network, or the name of the embedded one.
    pub(crate) fn provenance(&self) -> Result<Source, Failure> {
        provenance("network", self.path())
    }

    /// Returns whether the file of a network has scales.
    pub(crate) fn has_scales(&self, network: &Network) -> bool {
        network.graph().metadata(LAYERS).is_some()
    }

    /// Returns whether the arguments say how scales are found.
    pub(crate) fn finds_scales(&self) -> bool {
        self.calibrate.is_some() || self.percentile.is_some()
    }

    /// Calibrates the network if it lacks scales or the arguments request it.
    pub(crate) fn calibrate(
        &self,
        network: Network,
        data: &Dataset,
        options: &DataOptions,
        kind: LabelKind,
    ) -> Result<Calibrated, Failure> {
        let finds_inputs = !self.has_scales(&network) || self.finds_scales();
        if !finds_inputs && self.weight_scale.is_none() {
            let samples = "scales of the network file".to_owned();
            return Ok(Calibrated { network, is_calibrated: false, warnings: Vec::new(), samples });
        }
        let inputs = self.percentile.map_or(InputScale::Maximum, InputScale::Percentile);
        let calibration = Calibration { inputs, weights: self.weight_scale.unwrap_or_default() };
        let mut warnings = Vec::new();
        let mut samples = "scales of inputs of the network file".to_owned();
        let features = match (&self.calibrate, options.is_embedded()) {
            (Some(path), _) => {
                let inputs = options.read_inputs(path, kind)?;
                check_samples(&network, &inputs)?;
                inputs.samples(0..inputs.len())?.into_owned()
            }
            // The scales of inputs remain: any sample will do.
            _ if !finds_inputs => {
                data.samples(0..calibration_samples(&network, data))?.into_owned()
            }
            (None, true) => {
                let training = Dataset::digits_train();
                let n = calibration_samples(&network, &training);
                samples = format!("the first {n} samples of {}", training.name());
                training.samples(0..n)?.into_owned()
            }
            (None, false) => {
                let n = calibration_samples(&network, data);
                samples = format!("the first {n} samples of the data");
                warnings.push(format!(
                    "the scales of layers were found with the first {n} samples of the test data, which may flatter the \
                     accuracy; give samples of training with --calibrate FILE"
                ));
                data.samples(0..n)?.into_owned()
            }
        };
        let mut calibrated = network.calibrated(&features, &calibration)?;
        if !finds_inputs {
            let mut scales = network.layers().iter().map(|layer| layer.input_scale);
            calibrated = calibrated.with_layers(|layer| {
                layer.input_scale = scales.next().unwrap_or(layer.input_scale);
            })?;
        }
        warnings.extend(byte_warning(&calibrated, &features, options));
        Ok(Calibrated { network: calibrated, is_calibrated: finds_inputs, warnings, samples })
    }
}

/// Returns the samples of data that scales are found with: whole runs if their size is fixed.
fn calibration_samples(network: &Network, data: &Dataset) -> usize {
    let n = data.len().min(CALIBRATION_SAMPLES);
    match (network.batching(), network.batch()) {
        (_, Some(batch)) => (n / batch).max(1).saturating_mul(batch).min(data.len()),
        (Batching::Independent | Batching::Whole, None) => n,
    }
}

/// Returns a warning if bytes reach the first layer as they are.
fn byte_warning(network: &Network, features: &[f64], options: &DataOptions) -> Option<String> {
    let reaches =
        network.stream_layers().next().is_some_and(|(_, layer)| layer.input_scale > BYTES);
    (reaches && !options.is_divided() && are_bytes(features)).then(|| {
        "features are whole numbers from 0 to 255, like the bytes of images; if the network takes inputs in [0, 1], give \
         --divide 255"
            .to_owned()
    })
}

/// Returns whether all features are bytes, some of them large.
pub(crate) fn are_bytes(features: &[f64]) -> bool {
    let is_byte = |value: &f64| (0.0..=255.0).contains(value) && value.fract() == 0.0;
    features.iter().all(is_byte) && features.iter().any(|&value| value > BYTES)
}

/// Checks that samples have the shape that a network takes.
pub(crate) fn check_samples(network: &Network, data: &Dataset) -> Result<(), Failure> {
    let (expected, actual) = (network.n_features(), data.n_features());
    if expected != actual && data.sample_shape().len() == 1 {
        return Err(EvalError::FeatureCount { expected, actual }.into());
    }
    Ok(data.check_shape(&network.input_shape())?)
}

/// Returns an embedded network by its name.
pub(crate) fn embedded(path: &Path) -> Option<aleatron::Result<Network, aleatron::EngineError>> {
    match path.to_str()?.to_ascii_lowercase().replace('-', "_").as_str() {
        "noise_aware" => Some(Network::digits_noise_aware()),
        "plain" => Some(Network::digits_plain()),
        "cnn" => Some(Network::digits_cnn()),
        _ => None,
    }
}

/// Returns the file of a network, or the name of an embedded one.
pub(crate) fn provenance(role: &str, path: &Path) -> Result<Source, Failure> {
    Ok(match embedded(path) {
        Some(_) => Source::described(role, format!("embedded {}", path.display())),
        None => Source::read(role, path)?,
    })
}

/// Reads an embedded network or a file.
pub(crate) fn load(path: &Path, options: &BindingOptions) -> Result<Network, Failure> {
    if let Some(network) = embedded(path) {
        let network = network?;
        return match options.is_empty() {
            true => Ok(network),
            false => Ok(Network::from_onnx_with(&network.to_onnx()?, &options.read()?)?),
        };
    }
    check_file(path)?;
    Ok(Network::load_with(path, &options.read()?)?)
}

/// Checks that a path is an .onnx file, and otherwise explains how to export one.
pub(crate) fn check_file(path: &Path) -> Result<(), Failure> {
    let name = path.display();
    let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
    let export = match ending.as_deref() {
        Some("pt" | "pth") => "torch.onnx.export(model.eval(), example, \"model.onnx\")",
        Some("h5" | "keras") => "python -m tf2onnx.convert --keras MODEL --output model.onnx",
        Some("tflite") => "python -m tf2onnx.convert --tflite MODEL --output model.onnx",
        Some("pb") => "python -m tf2onnx.convert --saved-model FOLDER --output model.onnx",
        Some("pkl" | "pickle" | "joblib") => "skl2onnx.to_onnx(model, X[:1]) in Python",
        Some("json" | "safetensors") => "Network.save(\"model.onnx\") in Python",
        _ => {
            return match std::fs::metadata(path) {
                Ok(metadata) if metadata.is_file() => Ok(()),
                Ok(_) => Err(Failure::Work(format!(
                    "{name}: not a regular file; a network is an .onnx file"
                ))),
                Err(error) => Err(Failure::Work(format!(
                    "{name}: {error}; a network is an .onnx file, or noise_aware, plain or cnn"
                ))),
            };
        }
    };
    Err(Failure::Usage(format!("{name}: a network is an .onnx file; export it with {export}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_above_one_are_percentages() {
        assert_eq!(read_share("0.999"), Ok(0.999));
        assert_eq!(read_share("99.9"), Ok(99.9 / 100.0));
        assert_eq!(read_share("1"), Ok(1.0));
        assert_eq!(read_share("1%"), Ok(0.01));
        assert_eq!(read_share("100"), Ok(1.0));
        for wrong in ["0", "-1", "nan", "100.1", "x"] {
            assert!(read_share(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn bytes_are_whole_and_some_are_large() {
        assert!(are_bytes(&[0.0, 255.0, 17.0]));
        // Digits go up to 16, and scaled pixels are not whole numbers.
        assert!(
            !are_bytes(&[0.0, 16.0]) && !are_bytes(&[0.5, 255.0]) && !are_bytes(&[-1.0, 255.0])
        );
    }
}

//! Graph networks as ONNX files, which keep how the products run.

use super::{GraphLayer, GraphNetwork, Mode};
use crate::{Error, Result};
use aleatron_core::Polarity;
use aleatron_graph::{Error as GraphError, Graph};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The name under which a file keeps how products run.
const LAYERS: &str = "aleatron.layers";

/// How a product runs, as files have it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    name: String,
    runs_as: RunsAs,
    polarity: String,
    input_scale: f64,
    weight_scales: Vec<f64>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RunsAs {
    Streams,
    Binary,
}

impl GraphNetwork {
    /// Reads an `.onnx` file and simplifies its graph. A file that [`Self::to_onnx`] wrote has its products run as they did.
    ///
    /// # Errors
    /// [`Error::Graph`] with what is wrong with the file, or as [`Self::new`].
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        Self::of_file(Graph::read_onnx(path)?)
    }

    /// As [`Self::load`], from the bytes of a file.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn from_onnx(bytes: &[u8]) -> Result<Self> {
        Self::of_file(Graph::from_onnx(bytes)?)
    }

    fn of_file(mut graph: Graph) -> Result<Self> {
        graph.simplify()?;
        let mut network = Self::new(graph)?;
        if let Some(text) = network.graph().metadata(LAYERS) {
            let fault =
                |reason: String| GraphError::Model { place: format!("metadata \"{LAYERS}\""), reason };
            let notes: Vec<Note> = serde_json::from_str(text).map_err(|error| fault(error.to_string()))?;
            for note in notes {
                let Some(layer) = network.layers.iter_mut().find(|layer| layer.name == note.name) else {
                    return Err(fault(format!("there is no layer \"{}\"", note.name)).into());
                };
                note.apply(layer).map_err(|reason| fault(format!("layer \"{}\": {reason}", layer.name)))?;
            }
        }
        Ok(network)
    }

    /// The network as the bytes of an `.onnx` file: its graph as it is after simplification, and how its products run. Other programs read
    /// the graph and ignore the rest.
    ///
    /// # Errors
    /// [`Error::Graph`] where the graph is too large for the format.
    pub fn to_onnx(&self) -> Result<Vec<u8>> {
        let notes: Vec<Note> = self.layers.iter().map(Note::of).collect();
        let text = serde_json::to_string(&notes).map_err(|error| GraphError::Model {
            place: format!("metadata \"{LAYERS}\""),
            reason: error.to_string(),
        })?;
        Ok(self.graph().clone().with_metadata(LAYERS, text).to_onnx()?)
    }

    /// Writes the network as an `.onnx` file: whole, or not at all.
    ///
    /// # Errors
    /// As [`Self::to_onnx`], and [`Error::File`] where it cannot be written.
    pub fn save_onnx(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        crate::file::replace(path, &self.to_onnx()?).map_err(|error| Error::file(path, error))
    }
}

impl Note {
    fn of(layer: &GraphLayer) -> Self {
        Self {
            name: layer.name.clone(),
            runs_as: match layer.mode {
                Mode::Streams => RunsAs::Streams,
                Mode::Binary => RunsAs::Binary,
            },
            polarity: layer.polarity.to_string(),
            input_scale: layer.input_scale,
            weight_scales: layer.weight_scales.clone(),
        }
    }

    /// Lets a layer run as this says.
    fn apply(self, layer: &mut GraphLayer) -> std::result::Result<(), String> {
        let polarity: Polarity =
            self.polarity.parse().map_err(|error: aleatron_core::Error| error.to_string())?;
        let rows = layer.product.n_rows();
        if ![1, rows].contains(&self.weight_scales.len()) {
            return Err(format!("{} scales of weights for {rows} rows", self.weight_scales.len()));
        }
        if let Some(scale) = self
            .weight_scales
            .iter()
            .chain([&self.input_scale])
            .find(|scale| !(**scale > 0.0 && scale.is_finite()))
        {
            return Err(format!("the scale {scale} is not positive and finite"));
        }
        if polarity == Polarity::Unipolar && layer.product.weights.iter().any(|w| *w < 0.0) {
            return Err("unipolar streams hold no negative weights".to_owned());
        }
        layer.mode = match self.runs_as {
            RunsAs::Streams => Mode::Streams,
            RunsAs::Binary => Mode::Binary,
        };
        layer.polarity = polarity;
        layer.input_scale = self.input_scale;
        layer.weight_scales = self.weight_scales;
        Ok(())
    }
}

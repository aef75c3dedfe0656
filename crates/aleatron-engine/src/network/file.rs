//! Networks as ONNX files, with the settings of their layers in the metadata.

use super::{Bindings, Layer, Mode, Network};
use crate::{Error, Result};
use aleatron_graph::{Error as GraphError, Graph};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;

/// The metadata key of the settings of layers.
const LAYERS: &str = "aleatron.layers";

/// The settings of a layer in files.
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

impl Network {
    /// Reads an `.onnx` file and simplifies its graph. Layers of a file written by
    /// [`Self::to_onnx`] have their original settings.
    ///
    /// # Errors
    /// Returns [`Error::Graph`] with the defect of the file, and errors as for [`Self::new`].
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        Self::load_with(path, &Bindings::default())
    }

    /// Reads like [`Self::load`], with constants for inputs, numbers for symbolic sizes, and an
    /// output other than the first.
    ///
    /// # Errors
    /// As for [`Self::load`], and [`Error::Graph`] for names that the graph does not have and
    /// constants that do not fit.
    pub fn load_with(path: impl AsRef<Path>, bindings: &Bindings) -> Result<Self> {
        Self::bound(Graph::read_onnx(path)?, bindings)
    }

    /// Reads like [`Self::load`], from the bytes of a file.
    ///
    /// # Errors
    /// As for [`Self::load`].
    pub fn from_onnx(bytes: &[u8]) -> Result<Self> {
        Self::from_graph(Graph::from_onnx(bytes)?)
    }

    /// Reads like [`Self::load_with`], from the bytes of a file.
    ///
    /// # Errors
    /// As for [`Self::load_with`].
    pub fn from_onnx_with(bytes: &[u8], bindings: &Bindings) -> Result<Self> {
        Self::bound(Graph::from_onnx(bytes)?, bindings)
    }

    /// Creates a network from the graph of a file: simplifies it, and applies the settings of
    /// layers in the metadata.
    ///
    /// # Errors
    /// As for [`Self::load`].
    pub fn from_graph(graph: Graph) -> Result<Self> {
        Self::bound(graph, &Bindings::default())
    }

    fn bound(mut graph: Graph, bindings: &Bindings) -> Result<Self> {
        // Layers that the selected output does not need are in the file, but not in the network.
        let names: BTreeSet<String> = graph.nodes().iter().map(|node| node.name.clone()).collect();
        graph.bind(bindings)?;
        graph.simplify()?;
        let mut network = Self::new(graph)?;
        let Some(text) = network.graph().metadata(LAYERS) else { return Ok(network) };
        let fault =
            |reason: String| GraphError::Model { place: format!("metadata \"{LAYERS}\""), reason };
        let notes: Vec<Note> =
            serde_json::from_str(text).map_err(|error| fault(error.to_string()))?;
        for note in notes {
            let Some(index) = network.layers.iter().position(|layer| layer.name == note.name)
            else {
                if bindings.output.is_some() && names.contains(&note.name) {
                    continue;
                }
                return Err(fault(format!("there is no layer \"{}\"", note.name)).into());
            };
            let layer = &mut network.layers[index];
            note.apply(layer)
                .map_err(|reason| fault(format!("layer \"{}\": {reason}", layer.name)))?;
            layer.check(index).map_err(|error| fault(error.to_string()))?;
        }
        Ok(network)
    }

    /// Returns the network as the bytes of an `.onnx` file: its graph after simplification, and the
    /// settings of its layers in the metadata, which other programs ignore.
    ///
    /// # Errors
    /// Returns [`Error::Graph`] if the graph is too large for the format.
    pub fn to_onnx(&self) -> Result<Vec<u8>> {
        let notes: Vec<Note> = self.layers.iter().map(Note::of).collect();
        let text = serde_json::to_string(&notes).map_err(|error| GraphError::Model {
            place: format!("metadata \"{LAYERS}\""),
            reason: error.to_string(),
        })?;
        Ok(self.graph().clone().with_metadata(LAYERS, text).to_onnx()?)
    }

    /// Writes the network as an `.onnx` file, atomically.
    ///
    /// # Errors
    /// As for [`Self::to_onnx`], and [`Error::File`] if it cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        aleatron_core::file::replace(path, &self.to_onnx()?)
            .map_err(|error| Error::file(path, error))
    }
}

impl Note {
    fn of(layer: &Layer) -> Self {
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

    /// Applies the settings to a layer.
    fn apply(self, layer: &mut Layer) -> std::result::Result<(), String> {
        layer.polarity =
            self.polarity.parse().map_err(|error: aleatron_core::Error| error.to_string())?;
        layer.mode = match self.runs_as {
            RunsAs::Streams => Mode::Streams,
            RunsAs::Binary => Mode::Binary,
        };
        layer.input_scale = self.input_scale;
        layer.weight_scales = self.weight_scales;
        Ok(())
    }
}

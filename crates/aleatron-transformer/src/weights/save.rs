//! Writing models as Hugging Face files.

use std::path::Path;

use safetensors::tensor::{Dtype, TensorView};

use crate::error::{Error, Result};
use crate::source::ModelSource;

/// The files besides the weights that a model with other weights shares.
pub(crate) const DESCRIPTIONS: [&str; 5] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
];

/// The file of the weights.
const WEIGHTS: &str = "model.safetensors";

/// A tensor of 32-bit floats to write.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedTensor {
    /// The name.
    pub name: String,
    /// The shape.
    pub shape: Vec<usize>,
    /// The elements, row-major.
    pub values: Vec<f32>,
}

/// Checks that a model can be written into a folder without touching other weights: the folder is
/// not that of the source, and has no weights in other files.
///
/// # Errors
/// [`Error::Format`] with the file and the remedy.
pub fn check_destination(folder: &Path, source: &ModelSource) -> Result<()> {
    let refuse = |path: &Path, reason: &str| Err(Error::format(path, reason));
    if let ModelSource::Folder(own) = source
        && let (Ok(own), Ok(other)) = (own.canonicalize(), folder.canonicalize())
        && own == other
    {
        return refuse(folder, "it is the folder of the model itself; choose another one");
    }
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(()) };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_weights = Path::new(&name).extension().is_some_and(|end| end == "safetensors")
            || name == "model.safetensors.index.json";
        if is_weights && name != WEIGHTS {
            let reason = "it has weights of another model or an adapter; choose another folder";
            return refuse(&folder.join(name), reason);
        }
    }
    Ok(())
}

/// Writes a model with the configuration and the tokenizer of a source and other weights into a
/// folder, which is created if it does not exist.
///
/// # Errors
/// As [`check_destination`], and [`Error::File`] if a file cannot be read or written.
pub fn save(folder: &Path, source: &ModelSource, tensors: &[NamedTensor]) -> Result<()> {
    check_destination(folder, source)?;
    let mut files = vec![(WEIGHTS, encode(&folder.join(WEIGHTS), tensors)?)];
    for name in DESCRIPTIONS {
        if let Some(content) = source.description(name)? {
            files.push((name, content));
        }
    }
    write_all(folder, &files)
}

/// Returns the bytes of a `.safetensors` file.
pub(crate) fn encode(path: &Path, tensors: &[NamedTensor]) -> Result<Vec<u8>> {
    let bytes: Vec<Vec<u8>> = tensors
        .iter()
        .map(|tensor| tensor.values.iter().flat_map(|value| value.to_le_bytes()).collect())
        .collect();
    let mut views = Vec::with_capacity(tensors.len());
    for (tensor, data) in tensors.iter().zip(&bytes) {
        let view = TensorView::new(Dtype::F32, tensor.shape.clone(), data);
        views.push((&tensor.name, view.map_err(|error| Error::format(path, error))?));
    }
    // Other readers expect the format.
    let metadata = [("format".to_owned(), "pt".to_owned())].into_iter().collect();
    safetensors::serialize(views, Some(metadata)).map_err(|error| Error::format(path, error))
}

/// Writes files into a folder, which is created if it does not exist. Each is written completely
/// before it takes its name.
pub(crate) fn write_all(folder: &Path, files: &[(&str, Vec<u8>)]) -> Result<()> {
    let failed = |path: &Path, source| Error::File { path: path.to_owned(), source };
    std::fs::create_dir_all(folder).map_err(|source| failed(folder, source))?;
    for (name, content) in files {
        let (path, partial) = (folder.join(name), folder.join(format!("{name}.partial")));
        std::fs::write(&partial, content).map_err(|source| failed(&partial, source))?;
        std::fs::rename(&partial, &path).map_err(|source| failed(&path, source))?;
    }
    Ok(())
}

//! Writing models as Hugging Face files.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use aleatron_core::file;
use safetensors::tensor::{Dtype, TensorView};

use crate::error::{Error, Result};
use crate::options::parse_object;
use crate::source::ModelSource;
use crate::weights::files::TensorFiles;

/// The files besides the weights that a model with other weights shares.
pub(crate) const DESCRIPTIONS: [&str; 10] = [
    CONFIG,
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
];

/// The file of the configuration.
const CONFIG: &str = "config.json";

/// The file of the weights.
const WEIGHTS: &str = "model.safetensors";

/// The ends of names of files of weights, in the formats of other programs as well.
const WEIGHT_ENDS: [&str; 8] =
    [".safetensors", ".bin", ".gguf", ".pt", ".pth", ".h5", ".msgpack", ".index.json"];

/// The entry of the metadata of files that this crate writes.
const MARK: (&str, &str) = ("producer", "aleatron");

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

/// Checks that a model can be written into a folder without touching another one: the folder is not
/// that of the source, and has no weights and descriptions of a model, except for those that
/// [`save`] has written.
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
    let names: BTreeSet<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let is_own = TensorFiles::open(&[folder.join(WEIGHTS)])
        .is_ok_and(|files| files.has_entry(MARK.0, MARK.1));
    for name in &names {
        let is_weights = WEIGHT_ENDS.iter().any(|end| name.ends_with(end));
        if is_weights && !(is_own && name == WEIGHTS) {
            let reason = "it has weights of another model or an adapter; choose another folder";
            return refuse(&folder.join(name), reason);
        }
        if !is_own && DESCRIPTIONS.contains(&name.as_str()) {
            let reason = "it describes another model; choose another folder";
            return refuse(&folder.join(name), reason);
        }
    }
    Ok(())
}

/// Writes a model with the configuration and the tokenizer of a source and other weights into a
/// folder, which is created if it does not exist. A model that was written before is replaced.
///
/// # Errors
/// As [`check_destination`], and [`Error::File`] if a file cannot be read or written.
pub fn save(folder: &Path, source: &ModelSource, tensors: &[NamedTensor]) -> Result<()> {
    check_destination(folder, source)?;
    let (mut files, mut missing) = (Vec::new(), Vec::new());
    for name in DESCRIPTIONS {
        match source.description(name)? {
            Some(content) if name == CONFIG => {
                files.push((name, with_saved_type(&content, &folder.join(name))?));
            }
            Some(content) => files.push((name, content)),
            None => missing.push(folder.join(name)),
        }
    }
    files.push((WEIGHTS, encode(&folder.join(WEIGHTS), tensors)?));
    write_all(folder, &files)?;
    // Descriptions of an earlier model do not describe this one.
    for path in missing {
        match std::fs::remove_file(&path) {
            Err(source) if source.kind() != ErrorKind::NotFound => {
                return Err(Error::File { path, source });
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns a configuration that names the type of the written weights: other programs load them in
/// the type that it names.
fn with_saved_type(config: &[u8], path: &Path) -> Result<Vec<u8>> {
    let text = std::str::from_utf8(config).map_err(|error| Error::format(path, error))?;
    let mut options = parse_object(text, path)?;
    // The first name is that of newer files.
    let known = ["dtype", "torch_dtype"].into_iter().filter(|&name| options.contains_key(name));
    let mut names: Vec<&str> = known.collect();
    if names.is_empty() {
        names.push("dtype");
    }
    for name in names {
        options.insert(name.to_owned(), "float32".into());
    }
    let mut text =
        serde_json::to_string_pretty(&options).map_err(|error| Error::format(path, error))?;
    text.push('\n');
    Ok(text.into_bytes())
}

/// Returns the bytes of a `.safetensors` file, the same for the same tensors.
pub(crate) fn encode(path: &Path, tensors: &[NamedTensor]) -> Result<Vec<u8>> {
    let bytes: Vec<Cow<'_, [u8]>> =
        tensors.iter().map(|tensor| little_endian(&tensor.values)).collect();
    let mut views = Vec::with_capacity(tensors.len());
    for (tensor, data) in tensors.iter().zip(&bytes) {
        let view = TensorView::new(Dtype::F32, tensor.shape.clone(), data);
        views.push((&tensor.name, view.map_err(|error| Error::format(path, error))?));
    }
    // Other readers expect the format.
    let metadata = [("format", "pt"), MARK];
    let entries = metadata.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let mut file = safetensors::serialize(views, Some(entries.into_iter().collect()))
        .map_err(|error| Error::format(path, error))?;
    sort_metadata(&mut file, &BTreeMap::from(metadata))
        .ok_or_else(|| Error::format(path, "its header does not begin with the metadata"))?;
    Ok(file)
}

/// Writes the entries of the metadata in their order: those of a hash map come in another order
/// each time. Returns `None` if the file does not begin with these entries.
fn sort_metadata(file: &mut [u8], entries: &BTreeMap<&str, &str>) -> Option<()> {
    let sorted = serde_json::to_string(entries).ok()?;
    let header = file.get_mut(HEADER_LENGTH_BYTES..)?;
    if !header.starts_with(METADATA_KEY) {
        return None;
    }
    let text = header.get_mut(METADATA_KEY.len()..)?.get_mut(..sorted.len())?;
    let found: BTreeMap<&str, &str> = serde_json::from_slice(text).ok()?;
    if found != *entries {
        return None;
    }
    text.copy_from_slice(sorted.as_bytes());
    Some(())
}

/// The bytes before the header of a file, which hold its length.
const HEADER_LENGTH_BYTES: usize = 8;

/// The beginning of a header with metadata.
const METADATA_KEY: &[u8] = b"{\"__metadata__\":";

/// Returns the bytes of numbers, without a copy where the processor stores them in this order.
fn little_endian(values: &[f32]) -> Cow<'_, [u8]> {
    match cfg!(target_endian = "little") {
        true => Cow::Borrowed(bytemuck::cast_slice(values)),
        false => Cow::Owned(values.iter().flat_map(|value| value.to_le_bytes()).collect()),
    }
}

/// Writes files into a folder, which is created if it does not exist. They take their names in the
/// order of the list once all are complete: weights belong to its end.
pub(crate) fn write_all(folder: &Path, files: &[(&str, Vec<u8>)]) -> Result<()> {
    let failed = |path: &Path, source| Error::File { path: path.to_owned(), source };
    std::fs::create_dir_all(folder).map_err(|source| failed(folder, source))?;
    let paths: Vec<PathBuf> = files.iter().map(|(name, _)| folder.join(name)).collect();
    let contents = files.iter().map(|(_, content)| content.as_slice());
    let all: Vec<(&Path, &[u8])> = paths.iter().map(PathBuf::as_path).zip(contents).collect();
    file::replace_all(&all).map_err(|(path, source)| failed(path, source))
}

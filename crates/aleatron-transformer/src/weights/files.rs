//! Tensors of `.safetensors` files, which are mapped into memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use memmap2::Mmap;
use safetensors::tensor::{Dtype, Metadata, SafeTensors};

use super::{HEAD, TensorSource, tensors};
use crate::config::{Architecture, Config};
use crate::error::{Error, Result};
use crate::source::{ModelSource, WEIGHTS};

/// The mapped files of a folder, or the embedded files.
#[derive(Debug)]
pub struct TensorFiles {
    files: Vec<TensorFile>,
    /// The index of the file of each tensor.
    index: BTreeMap<String, usize>,
}

#[derive(Debug)]
struct TensorFile {
    bytes: Contents,
    /// The offset of the tensors.
    start: usize,
    metadata: Metadata,
}

/// The bytes of a file.
#[derive(Debug)]
enum Contents {
    Mapped(Mmap),
    Embedded(&'static [u8]),
}

impl Contents {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Embedded(bytes) => bytes,
        }
    }
}

impl TensorFiles {
    /// Maps the model's files of a folder: `model.safetensors`, or those that
    /// `model.safetensors.index.json` lists, or all `.safetensors` files.
    ///
    /// # Errors
    /// [`Error::NoWeights`] without such files, [`Error::File`], [`Error::Format`] or
    /// [`Error::RepeatedTensor`].
    pub fn open_folder(folder: &Path) -> Result<Self> {
        let single = folder.join("model.safetensors");
        let listed = folder.join("model.safetensors.index.json");
        let paths: Vec<PathBuf> = if single.is_file() {
            vec![single]
        } else if listed.is_file() {
            let map = crate::options::read_object(&listed)?;
            let weights = map.get("weight_map").and_then(|value| value.as_object());
            let weights = weights.ok_or_else(|| Error::format(&listed, "no weight_map"))?;
            let names: BTreeSet<&str> = weights.values().filter_map(|name| name.as_str()).collect();
            if let Some(name) = names.iter().find(|name| name.contains(['/', '\\'])) {
                return Err(Error::format(
                    &listed,
                    format!("\"{name}\" is not a file of this folder"),
                ));
            }
            names.into_iter().map(|name| folder.join(name)).collect()
        } else {
            let failed = |source| Error::File { path: folder.to_owned(), source };
            let entries = std::fs::read_dir(folder).map_err(failed)?;
            let all = entries.filter_map(|entry| Some(entry.ok()?.path()));
            let mut paths: Vec<PathBuf> = all
                .filter(|path| path.extension().is_some_and(|extension| extension == "safetensors"))
                .collect();
            paths.sort();
            paths
        };
        if paths.is_empty() {
            return Err(Error::NoWeights { path: folder.to_owned() });
        }
        Self::open(&paths)
    }

    /// Maps these files.
    ///
    /// # Errors
    /// As [`Self::open_folder`].
    pub fn open(paths: &[PathBuf]) -> Result<Self> {
        let (mut files, mut index) = (Vec::new(), BTreeMap::new());
        for path in paths {
            let failed = |source| Error::File { path: path.clone(), source };
            let file = aleatron_core::file::open(path).map_err(failed)?;
            let file = TensorFile::new(Contents::Mapped(map(&file).map_err(failed)?), path)?;
            for name in file.metadata.tensors().into_keys() {
                if index.insert(name.clone(), files.len()).is_some() {
                    return Err(Error::RepeatedTensor { name });
                }
            }
            files.push(file);
        }
        Ok(Self { files, index })
    }

    /// Reads the tensors of an embedded `.safetensors` file.
    fn embedded(bytes: &'static [u8]) -> Result<Self> {
        let file =
            TensorFile::new(Contents::Embedded(bytes), Path::new("bytes/model.safetensors"))?;
        let index = file.metadata.tensors().into_keys().map(|name| (name, 0)).collect();
        Ok(Self { files: vec![file], index })
    }

    /// Returns whether the metadata of all files have an entry.
    pub(crate) fn has_entry(&self, key: &str, value: &str) -> bool {
        self.files.iter().all(|file| {
            let entries = file.metadata.metadata().as_ref();
            entries.and_then(|entries| entries.get(key)).is_some_and(|found| found == value)
        })
    }

    /// Returns the names of all tensors.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.index.keys().map(String::as_str)
    }

    /// Returns the shape of a tensor.
    #[must_use]
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        let file = &self.files[*self.index.get(name)?];
        Some(&file.metadata.info(name)?.shape)
    }

    /// Maps the weights of a model and checks that each tensor is present with its shape, and that
    /// there are no unknown ones.
    ///
    /// # Errors
    /// As [`Self::open_folder`], [`Error::MissingTensor`], [`Error::TensorShape`],
    /// [`Error::TensorType`] or [`Error::ExtraTensor`].
    pub fn open_model(source: &ModelSource, config: &Config) -> Result<impl TensorSource + use<>> {
        // GPT-2's first files omit the prefix.
        let is_bare = |name: &str| {
            config.architecture == Architecture::Gpt2
                && !name.starts_with("transformer.")
                && name != HEAD
        };
        let files = match source {
            ModelSource::Folder(folder) => Self::open_folder(folder)?,
            ModelSource::Embedded => Self::embedded(WEIGHTS)?,
        };
        let files = files.with_prefix("transformer.", is_bare);
        let may_be = |name: &str| {
            let buffers = [".rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias"];
            buffers.iter().any(|end| name.ends_with(end)) || (config.tied_head && name == HEAD)
        };
        files.check(&tensors(config), may_be)?;
        Ok(files)
    }

    /// Renames tensors of files that omit a prefix.
    fn with_prefix(mut self, prefix: &str, is_meant: impl Fn(&str) -> bool) -> PrefixedFiles {
        let aliases = std::mem::take(&mut self.index);
        let names = aliases
            .into_iter()
            .map(|(name, file)| match is_meant(&name) {
                true => (format!("{prefix}{name}"), (file, name)),
                false => (name.clone(), (file, name)),
            })
            .collect();
        PrefixedFiles { files: self.files, names }
    }
}

/// Tensors under the names of this crate.
#[derive(Debug)]
struct PrefixedFiles {
    files: Vec<TensorFile>,
    names: BTreeMap<String, (usize, String)>,
}

impl PrefixedFiles {
    /// Checks that the tensors are those of a list, in name and shape, besides some optional ones.
    fn check(
        &self,
        expected: &[(String, Vec<usize>)],
        may_be: impl Fn(&str) -> bool,
    ) -> Result<()> {
        for (name, shape) in expected {
            let (file, own) =
                self.names.get(name).ok_or_else(|| Error::MissingTensor { name: name.clone() })?;
            self.files[*file].check(own, shape)?;
        }
        let known: BTreeSet<&str> = expected.iter().map(|(name, _)| name.as_str()).collect();
        match self.names.iter().find(|(name, _)| !known.contains(name.as_str()) && !may_be(name)) {
            Some((_, (_, own))) => Err(Error::ExtraTensor { name: own.clone() }),
            None => Ok(()),
        }
    }
}

impl TensorSource for PrefixedFiles {
    fn tensor(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let (file, own) =
            self.names.get(name).ok_or_else(|| Error::MissingTensor { name: name.to_owned() })?;
        self.files[*file].tensor(own, shape)
    }
}

impl TensorSource for TensorFiles {
    fn tensor(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let file =
            self.index.get(name).ok_or_else(|| Error::MissingTensor { name: name.to_owned() })?;
        self.files[*file].tensor(name, shape)
    }
}

impl TensorFile {
    fn new(bytes: Contents, path: &Path) -> Result<Self> {
        let (header, metadata) =
            SafeTensors::read_metadata(bytes.as_slice()).map_err(|e| Error::format(path, e))?;
        Ok(Self { bytes, start: header + size_of::<u64>(), metadata })
    }

    fn check(&self, name: &str, shape: &[usize]) -> Result<()> {
        let missing = || Error::MissingTensor { name: name.to_owned() };
        let info = self.metadata.info(name).ok_or_else(missing)?;
        if info.shape != shape {
            let (expected, actual) = (shape.to_vec(), info.shape.clone());
            return Err(Error::TensorShape { name: name.to_owned(), expected, actual });
        }
        if !matches!(info.dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16) {
            let element = format!("{:?}", info.dtype);
            return Err(Error::TensorType { name: name.to_owned(), element });
        }
        Ok(())
    }

    fn tensor(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        self.check(name, shape)?;
        let missing = || Error::MissingTensor { name: name.to_owned() };
        let info = self.metadata.info(name).ok_or_else(missing)?;
        let (begin, end) = info.data_offsets;
        let bytes =
            self.bytes.as_slice().get(self.start + begin..self.start + end).ok_or_else(missing)?;
        let len: usize = shape.iter().product();
        let mut out = aleatron_core::memory::zeros(len as u128, aleatron_core::Quantity::Weights)?;
        // Tensors may begin at any byte, so elements are read as bytes where they are not aligned.
        match info.dtype {
            Dtype::F32 => {
                out.iter_mut()
                    .zip(bytes.as_chunks::<4>().0)
                    .for_each(|(x, b)| *x = f32::from_le_bytes(*b));
            }
            Dtype::F16 => match bytemuck::try_cast_slice::<u8, f16>(bytes) {
                Ok(halves) if cfg!(target_endian = "little") => {
                    halves.convert_to_f32_slice(&mut out)
                }
                _ => out
                    .iter_mut()
                    .zip(bytes.as_chunks::<2>().0)
                    .for_each(|(x, b)| *x = f16::from_le_bytes(*b).to_f32()),
            },
            _ => out
                .iter_mut()
                .zip(bytes.as_chunks::<2>().0)
                .for_each(|(x, b)| *x = bf16::from_le_bytes(*b).to_f32()),
        }
        Ok(out)
    }
}

/// Maps a file.
#[allow(unsafe_code)]
fn map(file: &File) -> std::io::Result<Mmap> {
    // SAFETY: the mapping is read-only, and its bytes are only ever read as numbers, of which every
    // bit pattern is one. Another process that writes the file meanwhile can change those
    // numbers; one that shortens it ends this process with a bus error, as for every program
    // that maps files.
    unsafe { Mmap::map(file) }
}

//! Checkpoints: files from which training resumes with the same bits.
//!
//! A checkpoint is one safetensors file with parameters (`parameter.NAME`), the best parameters so
//! far (`best.NAME`), the state of the optimizer (`optimizer.NAME`) and, as JSON in a tensor of
//! bytes, a record: the history and a fingerprint of the settings. Random numbers are functions of
//! the seed, the epoch and the sample, so that no generator state is needed.

use std::collections::BTreeMap;
use std::path::Path;

use aleatron_tensor::{Device, Tensor, io};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Epoch, Error, Result, Score};

/// The format that records have to name.
pub(crate) const FORMAT: u32 = 1;
const RECORD: &str = "record";

/// Everything that training needs to resume. A record is an object with the member `format`.
#[derive(Debug)]
pub(crate) struct Checkpoint<R = Record> {
    pub(crate) parameters: BTreeMap<String, Tensor>,
    pub(crate) best: BTreeMap<String, Tensor>,
    pub(crate) optimizer: BTreeMap<String, Tensor>,
    pub(crate) record: R,
}

/// The part of a checkpoint that is not a tensor.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    format: u32,
    /// The settings and the data that the checkpoint belongs to.
    pub(crate) fingerprint: String,
    pub(crate) history: Vec<Epoch>,
    /// The validation score before training.
    pub(crate) before: Option<Score>,
    /// The epoch of the best parameters, counted from 1; 0 for those before training.
    pub(crate) best_epoch: usize,
}

impl Record {
    pub(crate) fn new(
        fingerprint: String,
        history: Vec<Epoch>,
        before: Option<Score>,
        best_epoch: usize,
    ) -> Self {
        Self { format: FORMAT, fingerprint, history, before, best_epoch }
    }
}

impl<R: Serialize + DeserializeOwned> Checkpoint<R> {
    /// Writes the file; a reader never sees a part of it.
    pub(crate) fn save(&self, path: &Path) -> Result<()> {
        let mut tensors = BTreeMap::new();
        for (prefix, all) in
            [("parameter", &self.parameters), ("best", &self.best), ("optimizer", &self.optimizer)]
        {
            tensors.extend(
                all.iter().map(|(name, tensor)| (format!("{prefix}.{name}"), tensor.clone())),
            );
        }
        let text = serde_json::to_vec(&self.record).map_err(|error| fault(path, error))?;
        tensors.insert(RECORD.to_owned(), Tensor::from_slice(&text, &[text.len()], &Device::Cpu)?);
        Ok(io::save(&tensors, path)?)
    }

    /// Reads a file that [`Self::save`] wrote.
    pub(crate) fn load(path: &Path) -> Result<Self> {
        let mut parts = [BTreeMap::new(), BTreeMap::new(), BTreeMap::new()];
        let mut record: Option<Value> = None;
        for (name, tensor) in io::load(path, &Device::Cpu)? {
            if name == RECORD {
                let bytes = tensor.to_vec::<u8>()?;
                record = Some(serde_json::from_slice(&bytes).map_err(|error| fault(path, error))?);
                continue;
            }
            let part = ["parameter.", "best.", "optimizer."]
                .iter()
                .position(|prefix| name.starts_with(prefix));
            let Some((part, (_, rest))) = part.zip(name.split_once('.')) else {
                return Err(fault(
                    path,
                    format!("tensor \"{name}\" does not belong to a checkpoint"),
                ));
            };
            parts[part].insert(rest.to_owned(), tensor);
        }
        let record =
            record.ok_or_else(|| fault(path, "the file is not a checkpoint of a training"))?;
        if record["format"] != FORMAT {
            let found = &record["format"];
            return Err(fault(
                path,
                format!("format {found} is not supported; this version reads format {FORMAT}"),
            ));
        }
        let record = serde_json::from_value(record).map_err(|error| {
            let kind = "the checkpoint belongs to another kind of training";
            fault(path, format!("{kind} ({error}); remove it or choose another file"))
        })?;
        let [parameters, best, optimizer] = parts;
        Ok(Self { parameters, best, optimizer, record })
    }
}

fn fault(path: &Path, reason: impl ToString) -> Error {
    Error::File { path: path.to_owned(), reason: reason.to_string() }
}

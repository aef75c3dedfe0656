//! A job as bytes, for workers of other processes and machines.
//!
//! Eight bytes hold the size of a JSON object; the object, the ONNX file of the network and the features follow. Numbers are little-endian.

use super::job::Job;
use super::outline::summarize_plan;
use super::plan::Plan;
use super::result::PlanSummary;
use crate::{Error, Result};
use aleatron_core::{Quantity, memory};
use aleatron_data::Dataset;
use aleatron_engine::network::{Network, ValueRange};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    /// The outline's hash: a worker of another version has another.
    id: String,
    network_bytes: usize,
    data: String,
    n_features: usize,
    labels: Vec<usize>,
    plan: PlanSummary,
}

impl Job<'_> {
    /// The whole job as bytes.
    ///
    /// # Errors
    /// [`aleatron_core::Error::Memory`] where they do not fit.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let network = self.subject.network().to_onnx()?;
        let head = Head {
            id: self.outline().id()?,
            network_bytes: network.len(),
            data: self.data.name().to_owned(),
            n_features: self.data.n_features(),
            labels: self.data.labels().to_vec(),
            plan: summarize_plan(&self.plan),
        };
        let head = super::part::to_line(&head)?;
        let values = self.data.len() as u128 * self.data.n_features() as u128;
        let size = 8 + head.len() as u128 + network.len() as u128 + 8 * values;
        let mut bytes: Vec<u8> = memory::with_capacity(size, Quantity::Value)?;
        bytes.extend((head.len() as u64).to_le_bytes());
        bytes.extend(head.as_bytes());
        bytes.extend(network);
        for (_, features) in self.data.pieces(self.outline().chunk) {
            features?.iter().for_each(|feature| bytes.extend(feature.to_le_bytes()));
        }
        Ok(bytes)
    }
}

impl Job<'static> {
    /// Reads what [`Job::to_bytes`] wrote.
    ///
    /// # Errors
    /// [`Error::Format`] with what is wrong, also where the bytes were written by another version, and as [`Job::new`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let fault = |reason: &str| Error::Format { file: "job".to_owned(), reason: reason.to_owned() };
        let short = || fault("it ends too soon");
        let (size, rest) = bytes.split_first_chunk::<8>().ok_or_else(short)?;
        let size = usize::try_from(u64::from_le_bytes(*size)).map_err(|_| short())?;
        let (head, rest) = rest.split_at_checked(size).ok_or_else(short)?;
        let head: Head = serde_json::from_slice(head).map_err(|error| fault(&error.to_string()))?;
        let (network, features) = rest.split_at_checked(head.network_bytes).ok_or_else(short)?;
        let network = Arc::new(Network::from_onnx(network)?);
        let (features, odd) = features.as_chunks::<8>();
        if !odd.is_empty() {
            return Err(short());
        }
        let features = features.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
        let data = Dataset::new(head.data, head.n_features, features, head.labels)?;
        let job = Self::new(network, Cow::Owned(data), Plan::from_summary(&head.plan)?)?;
        match job.outline().id()? == head.id {
            true => Ok(job),
            false => Err(fault("it was written by another version of Aleatron")),
        }
    }
}

impl Plan {
    /// The plan that a summary tells of.
    pub(super) fn from_summary(summary: &PlanSummary) -> Result<Self> {
        let generators = summary.generators.iter().map(|name| Ok(name.parse()?)).collect::<Result<_>>()?;
        let layers = summary.layers.iter().map(|(name, layer)| Ok((name.clone(), layer.parse()?)));
        Ok(Self {
            lengths: summary.lengths.clone(),
            generators,
            seeds: summary.seeds,
            width: summary.width.parse()?,
            sharing: summary.sharing.parse()?,
            layers: layers.collect::<Result<_>>()?,
            arithmetic: summary.arithmetic.parse()?,
            range: if summary.clip { ValueRange::Saturate } else { ValueRange::Check },
            margins: summary.margins.clone(),
            device: summary.device.parse()?,
        })
    }
}

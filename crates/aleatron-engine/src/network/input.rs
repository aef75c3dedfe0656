//! The inputs of a network: conversion of the features of a sample to the inputs of its graph.

use crate::{Error, Result};
use aleatron_core::{Quantity, memory};
use aleatron_graph::{Dim, Error as GraphError, Graph};
use aleatron_tensor::{DType, Device, Tensor};

/// One input of a network. The features of a sample are those of all inputs, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkInput {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub dtype: DType,
    /// The shape of one sample.
    pub shape: Vec<usize>,
}

impl NetworkInput {
    /// Returns the number of features of a sample.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns whether a sample has no features for this input; a network has no such inputs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Finds the inputs of a graph, and the number of samples of a run if the graph fixes it.
pub(super) fn inputs_of(graph: &Graph) -> Result<(Vec<NetworkInput>, Option<usize>)> {
    let fault =
        |reason: String| GraphError::Model { place: format!("graph \"{}\"", graph.name()), reason };
    let mut inputs = Vec::new();
    let mut batch: Option<Dim> = None;
    for &id in graph.inputs() {
        let value = graph.value(id)?;
        let name = &value.name;
        let Some([first, sample @ ..]) = value.shape.as_deref() else {
            let reason = format!(
                "input \"{name}\" has no axis of samples: give it a constant with --input {name}=VALUE"
            );
            return Err(fault(reason).into());
        };
        let mut shape = Vec::with_capacity(sample.len());
        for dim in sample {
            let Dim::Fixed(size) = dim else {
                let text: Vec<String> =
                    value.shape.iter().flatten().map(ToString::to_string).collect();
                let text = text.join(", ");
                let axis = 1 + shape.len();
                let key =
                    if let Dim::Named(key) = dim { key.clone() } else { format!("{name}.{axis}") };
                let reason = format!(
                    "input \"{name}\" has shape [{text}]: give the size of axis {axis} with --shape {key}=SIZE"
                );
                return Err(fault(reason).into());
            };
            shape.push(*size);
        }
        if shape.contains(&0) {
            return Err(fault(format!(
                "input \"{name}\" has samples of shape {shape:?}, which are empty"
            ))
            .into());
        }
        match (&batch, first) {
            (Some(Dim::Fixed(known)), Dim::Fixed(size)) if known != size => {
                let reason = format!(
                    "input \"{name}\" takes {size} samples, another input {known}: give one of them a constant with --input {name}=VALUE"
                );
                return Err(fault(reason).into());
            }
            (Some(Dim::Fixed(_)), _) => {}
            _ => batch = Some(first.clone()),
        }
        inputs.push(NetworkInput {
            name: name.clone(),
            dtype: value.dtype.unwrap_or(DType::F32),
            shape,
        });
    }
    if inputs.is_empty() {
        return Err(fault("it has no inputs".to_owned()).into());
    }
    let batch = if let Some(Dim::Fixed(n)) = batch { Some(n) } else { None };
    if batch == Some(0) {
        return Err(fault("a run takes no samples".to_owned()).into());
    }
    // The features as given and as the graph takes them: if they fit, all products of these sizes
    // fit.
    let features = inputs.iter().fold(0_u128, |sum, input| {
        sum.saturating_add(
            input.shape.iter().fold(1, |n: u128, &size| n.saturating_mul(size as u128)),
        )
    });
    let samples = batch.unwrap_or(1) as u128;
    memory::check(features.saturating_mul(samples).saturating_mul(16), Quantity::Samples)?;
    Ok((inputs, batch))
}

/// Returns `n_samples` samples of zeros as the inputs of a graph.
pub(crate) fn zeros(inputs: &[NetworkInput], n_samples: usize) -> Result<Vec<Tensor>> {
    let width: usize = inputs.iter().map(NetworkInput::len).sum();
    let len = n_samples as u128 * width as u128;
    tensors(inputs, &memory::zeros(len, Quantity::Samples)?, n_samples)
}

/// Returns samples as the inputs of a graph; `features` are whole samples.
pub(crate) fn tensors(
    inputs: &[NetworkInput],
    features: &[f64],
    n_samples: usize,
) -> Result<Vec<Tensor>> {
    let width: usize = inputs.iter().map(NetworkInput::len).sum();
    let mut first = 0;
    let mut converted = Vec::with_capacity(inputs.len());
    for input in inputs {
        let range = first..first + input.len();
        first = range.end;
        let values = features.chunks_exact(width.max(1)).flat_map(|sample| &sample[range.clone()]);
        let shape = [&[n_samples], input.shape.as_slice()].concat();
        converted.push(match input.dtype {
            dtype if dtype.is_float() => {
                let values: Vec<f32> = values.map(|&value| value as f32).collect();
                let tensor = Tensor::from_slice(&values, &shape, &Device::Cpu);
                tensor.and_then(|tensor| tensor.cast(dtype)).map_err(GraphError::from)?
            }
            dtype => {
                let mut whole = Vec::with_capacity(n_samples * input.len());
                for (k, &value) in values.enumerate() {
                    // Up to 2^53 every whole number is exact in f64.
                    if value.fract() != 0.0 || value.abs() > 9_007_199_254_740_992.0 {
                        let (sample, feature) = (k / input.len(), range.start + k % input.len());
                        return Err(Error::NotWhole {
                            sample,
                            feature,
                            value,
                            input: input.name.clone(),
                        });
                    }
                    whole.push(value as i64);
                }
                let tensor = Tensor::from_slice(&whole, &shape, &Device::Cpu);
                tensor.and_then(|tensor| tensor.cast(dtype)).map_err(GraphError::from)?
            }
        });
    }
    Ok(converted)
}

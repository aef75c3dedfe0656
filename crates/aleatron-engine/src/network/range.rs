//! The use of the interval of streams by the inputs of layers.

use super::{Mode, Network};
use crate::Result;
use aleatron_core::Cancel;
use aleatron_graph::{Node, Observer};
use aleatron_tensor::{DType, Tensor};
use std::fmt;

/// The fraction of a layer's inputs that may saturate without a warning. Calibration with a
/// percentile of 99 % lets one in a hundred inputs of its samples saturate, and other samples may
/// have some more.
const SATURATED: f64 = 0.02;

/// The least fraction of its interval that a layer's largest input uses without a warning.
const USED: f64 = 0.125;

/// The least fraction of its interval that an input of a layer uses, over all samples. If more than
/// half of the inputs are below it, there is a warning.
const USED_BY_INPUT: f64 = 0.03125;

/// The use of the interval of streams by the inputs of one layer, over some samples in floating
/// point.
#[derive(Debug, Clone, PartialEq)]
pub struct InputRange {
    /// The index of the layer.
    pub layer: usize,
    /// The name of the layer.
    pub name: String,
    /// The input scale of the layer: the input that becomes 1.
    pub scale: f64,
    /// The fraction of inputs outside the interval, which saturate.
    pub saturated: f64,
    /// The largest magnitude of an input over the scale.
    pub largest: f64,
    /// The fraction of inputs that use less than 1/32 of the interval over all samples, among
    /// those that are not always zero.
    pub small: f64,
}

impl InputRange {
    /// Returns a warning, if any applies.
    #[must_use]
    pub fn warning(&self) -> Option<InputWarning> {
        let kind = if self.saturated > SATURATED {
            InputWarningKind::Saturated
        } else if self.largest > 0.0 && self.largest < USED {
            InputWarningKind::Unused
        } else if self.small > 0.5 {
            InputWarningKind::Uneven
        } else {
            return None;
        };
        Some(InputWarning { kind, range: self.clone() })
    }
}

/// A layer whose inputs do not fit the interval of its streams.
#[derive(Debug, Clone, PartialEq)]
pub struct InputWarning {
    /// The kind of the warning.
    pub kind: InputWarningKind,
    /// The range of the inputs.
    pub range: InputRange,
}

/// The kind of a warning about the inputs of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InputWarningKind {
    /// Too many of them are outside the interval.
    Saturated,
    /// All of them use a small part of the interval.
    Unused,
    /// Most of them use a small part of the interval, because others need all of it.
    Uneven,
}

impl fmt::Display for InputWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let InputRange { name, scale, saturated, largest, small, .. } = &self.range;
        let percent = |fraction: f64| 100.0 * fraction;
        match self.kind {
            InputWarningKind::Saturated => write!(
                f,
                "layer \"{name}\": {:.1} % of its inputs saturate at the input scale {scale}; calibrate the network with samples of training",
                percent(*saturated)
            ),
            InputWarningKind::Unused => write!(
                f,
                "layer \"{name}\": its inputs use {:.1} % of the interval of their streams at the input scale {scale}; calibrate the network with samples of training",
                percent(*largest)
            ),
            InputWarningKind::Uneven => write!(
                f,
                "layer \"{name}\": {:.1} % of its inputs use less than {:.1} % of the interval of their streams, because others are much larger; scale the features to similar ranges before the network",
                percent(*small),
                percent(USED_BY_INPUT)
            ),
        }
    }
}

/// The observed inputs of one layer.
#[derive(Debug, Clone, Default)]
struct ObservedInputs {
    inputs: u64,
    saturated: u64,
    /// The largest magnitude of each input of a sample.
    largest: Vec<f32>,
}

/// Collects the inputs of layers.
struct Ranges<'a> {
    network: &'a Network,
    layers: Vec<Option<usize>>,
    seen: Vec<ObservedInputs>,
    /// The number of samples of the run.
    n_samples: usize,
    cancel: Cancel<'a>,
}

impl Observer for Ranges<'_> {
    fn compute(
        &mut self,
        index: usize,
        _: &Node,
        inputs: &[Option<Tensor>],
    ) -> aleatron_graph::Result<Option<Vec<Tensor>>> {
        self.cancel.check()?;
        let (Some(Some(k)), Some(Some(input))) = (self.layers.get(index).copied(), inputs.first())
        else {
            return Ok(None);
        };
        let layer = &self.network.layers()[k];
        let values = input.cast(DType::F32)?.to_vec::<f32>()?;
        let [low, high] = layer.polarity.interval().map(|end| (end * layer.input_scale) as f32);
        let seen = &mut self.seen[k];
        seen.inputs += values.len() as u64;
        seen.saturated +=
            values.iter().filter(|value| !(low..=high).contains(*value)).count() as u64;
        let [before, after] = self.network.blocks_of(layer.node, values.len() / self.n_samples);
        seen.largest.resize(before * after, 0.0);
        // Elements are in the order of a row-major array of shape [before, samples, after].
        for (k, row) in values.chunks(after.max(1)).enumerate() {
            let own = &mut seen.largest[k / self.n_samples * after..][..after];
            own.iter_mut()
                .zip(row)
                .for_each(|(largest, value)| *largest = largest.max(value.abs()));
        }
        Ok(None)
    }
}

impl Network {
    /// Returns the sizes around the samples in the memory of the first input of a node, of which a
    /// sample has `len` elements.
    fn blocks_of(&self, node: usize, len: usize) -> [usize; 2] {
        let id =
            self.graph.nodes().get(node).and_then(|node| node.inputs.first().copied().flatten());
        let layout =
            id.and_then(|id| Some((self.analysis.layout(id)?, self.analysis.shape(id)?.0)));
        match layout {
            Some((layout, one)) if self.analysis.n_samples() == 1 => layout.blocks(one),
            // Samples that cannot run separately are taken in their order in memory.
            _ => [1, len],
        }
    }

    /// Returns the range of the inputs of each layer that runs as streams, for samples in floating
    /// point.
    ///
    /// # Errors
    /// As for [`Self::forward_with`].
    pub fn input_ranges(&self, features: &[f64], cancel: Cancel<'_>) -> Result<Vec<InputRange>> {
        let (layers, seen) =
            (self.layers_by_node(), vec![ObservedInputs::default(); self.layers.len()]);
        let mut ranges = Ranges { network: self, layers, seen, n_samples: 0, cancel };
        let n_samples = features.len() / self.n_features();
        for chunk in features.chunks((self.chunk(n_samples) * self.n_features()).max(1)) {
            ranges.n_samples = chunk.len() / self.n_features();
            self.run_float(chunk, &mut ranges, |_, _| Ok(()))?;
        }
        let mut found = Vec::new();
        for (k, (layer, seen)) in self.layers.iter().zip(&ranges.seen).enumerate() {
            if layer.mode == Mode::Binary || seen.inputs == 0 {
                continue;
            }
            let of_scale = |value: &f32| f64::from(*value) / layer.input_scale;
            let used: Vec<f64> =
                seen.largest.iter().map(of_scale).filter(|&used| used > 0.0).collect();
            let small = used.iter().filter(|&&used| used < USED_BY_INPUT).count();
            found.push(InputRange {
                layer: k,
                name: layer.name.clone(),
                scale: layer.input_scale,
                saturated: seen.saturated as f64 / seen.inputs as f64,
                largest: used.iter().copied().fold(0.0, f64::max),
                small: small as f64 / used.len().max(1) as f64,
            });
        }
        Ok(found)
    }

    /// Returns a warning for each layer that runs as streams and whose inputs saturate or use a
    /// small part of their interval, for samples in floating point.
    ///
    /// ```
    /// use aleatron_core::Cancel;
    /// use aleatron_engine::network::NetworkBuilder;
    /// let network = NetworkBuilder::new("n", &[2]).dense("fc", 2, &[0.5, 1.0], &[]).build()?;
    /// let warnings = network.input_warnings(&[0.5, 7.0], Cancel::NEVER)?;
    /// assert!(warnings[0].to_string().starts_with("layer \"fc\": 50.0 % of its inputs saturate"));
    /// let calibrated = network.calibrated(&[0.5, 7.0], &Default::default())?;
    /// assert!(calibrated.input_warnings(&[0.5, 7.0], Cancel::NEVER)?.is_empty());
    /// # Ok::<(), aleatron_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Self::input_ranges`].
    pub fn input_warnings(
        &self,
        features: &[f64],
        cancel: Cancel<'_>,
    ) -> Result<Vec<InputWarning>> {
        Ok(self.input_ranges(features, cancel)?.iter().filter_map(InputRange::warning).collect())
    }
}

//! Attribution of rejected values of a program to features.

use super::StreamNetwork;
use crate::Error;
use crate::compile::ProgramSegment;
use crate::network::{Network, StreamConfig};
use aleatron_core::Error as CoreError;
use aleatron_core::program::{ConstantOp, Program, SlotId, StepKind, ValueRange};

/// An element of an input of a program, and the operations on it before it is quantized.
#[derive(Debug, Clone)]
struct Origin {
    input: SlotId,
    element: usize,
    /// Operations with constants, the last one first.
    ops: Vec<(ConstantOp, f64)>,
}

impl Origin {
    /// Traces an element back to an input; `None` if it is computed from several elements.
    fn of(program: &Program, slot: SlotId, element: usize) -> Option<Self> {
        let (mut slot, mut element, mut ops) = (slot, element, Vec::new());
        while !program.inputs().contains(&slot) {
            let step = program.steps().iter().find(|step| step.output() == slot)?;
            match step.kind() {
                StepKind::Constant { op, constants } => {
                    ops.push((*op, *constants.get(element)));
                    slot = step.input();
                }
                StepKind::Gather { map } => {
                    let index = map.get(element)?;
                    slot = *step.inputs().get(index.input as usize)?;
                    element = index.element as usize;
                }
                _ => return None,
            }
        }
        Some(Self { input: slot, element, ops })
    }

    /// Returns the encoded value of a feature.
    fn encode(&self, feature: f64) -> f64 {
        self.ops.iter().rev().fold(feature, |value, (op, constant)| op.apply(value, *constant))
    }

    /// Returns the feature of an encoded value.
    fn invert(&self, value: f64) -> f64 {
        self.ops.iter().fold(value, |value, &(op, constant)| match op {
            ConstantOp::Add => value - constant,
            ConstantOp::Subtract => value + constant,
            ConstantOp::SubtractFrom => constant - value,
            ConstantOp::Multiply => value / constant,
            ConstantOp::Divide => value * constant,
        })
    }

    /// Returns the features of the ends of an interval, the lesser first.
    fn interval(&self, interval: [f64; 2]) -> [f64; 2] {
        let [a, b] = interval.map(|end| self.invert(end));
        [a.min(b), a.max(b)]
    }
}

impl StreamNetwork {
    /// Converts an error of a program to features and layers.
    pub(super) fn explained(
        &self,
        segment: &ProgramSegment,
        features: &[f64],
        error: CoreError,
    ) -> Error {
        let CoreError::OutOfRange { index, value, low, high, .. } = error else {
            return error.into();
        };
        let program = &segment.program;
        let checked = program.steps().iter().filter_map(|step| match step.kind() {
            StepKind::Quantize { layer, scale, range: ValueRange::Check, .. } => {
                Some((step, *layer, *scale))
            }
            _ => None,
        });
        let checked: Vec<_> = checked.collect();
        let width = self.network.n_features();
        for &(step, _, scale) in &checked {
            let len = program.slot(step.input()).len;
            let (sample, element) = (index / len, index % len);
            let Some(origin) = Origin::of(program, step.input(), element) else { continue };
            let Some(offset) = segment.input_offset(&self.network, origin.input) else { continue };
            let feature = offset + origin.element;
            let Some(&found) = features.get(sample * width + feature) else { continue };
            // Several layers may read features: the one whose value this is.
            let encoded = origin.encode(found) / scale;
            if encoded.to_bits() == value.to_bits() || encoded.is_nan() && value.is_nan() {
                let [low, high] = origin.interval([low * scale, high * scale]);
                return Error::Feature { sample, feature, value: found, low, high };
            }
        }
        // Not a feature itself, but computed from features: its layer is known if only one checks
        // its inputs.
        match checked[..] {
            [(_, layer, _)] if let Some(&layer) = segment.layers.get(layer) => {
                self.in_layer(layer, error.into())
            }
            _ => error.into(),
        }
    }
}

/// A feature that a layer encodes.
#[derive(Debug)]
struct CheckedFeature {
    feature: usize,
    origin: Origin,
    scale: f64,
    /// The interval of the layer's streams.
    interval: [f64; 2],
}

/// A check of features against the intervals of layers, without running the network; see
/// [`Network::feature_check`].
#[derive(Debug)]
pub struct FeatureCheck {
    width: usize,
    features: Vec<CheckedFeature>,
}

impl FeatureCheck {
    /// Checks whole samples.
    ///
    /// # Errors
    /// Returns [`Error::Feature`] with the first feature that a layer cannot encode.
    pub fn check(&self, features: &[f64]) -> crate::Result<()> {
        for (sample, values) in features.chunks_exact(self.width.max(1)).enumerate() {
            for CheckedFeature { feature, origin, scale, interval } in &self.features {
                let Some(&value) = values.get(*feature) else { continue };
                let [low, high] = *interval;
                let slack = ValueRange::ROUNDING * (high - low);
                let encoded = origin.encode(value) / scale;
                if !(low - slack <= encoded && encoded <= high + slack) {
                    let [low, high] = origin.interval([low * scale, high * scale]);
                    return Err(Error::Feature { sample, feature: *feature, value, low, high });
                }
            }
        }
        Ok(())
    }
}

impl Network {
    /// Returns the check of the features that reach layers individually. Values that a layer
    /// computes from several features are checked when the network runs.
    ///
    /// # Errors
    /// As for [`Network::check_config`].
    pub fn feature_check(&self) -> crate::Result<FeatureCheck> {
        let (width, mut features) = (self.n_features(), Vec::new());
        self.each_checked(|segment, origin, scale, interval| {
            let Some(origin) = origin else { return };
            if let Some(offset) = segment.input_offset(self, origin.input) {
                let feature = offset + origin.element;
                features.push(CheckedFeature { feature, origin, scale, interval });
            }
        })?;
        Ok(FeatureCheck { width, features })
    }

    /// Returns the least and the greatest feature that the layers reading features can encode;
    /// `None` if features do not reach a layer individually.
    ///
    /// # Errors
    /// As for [`Network::check_config`].
    pub fn feature_interval(&self) -> crate::Result<Option<[f64; 2]>> {
        let (mut interval, mut is_known): (Option<[f64; 2]>, bool) = (None, true);
        self.each_checked(|_, origin, scale, bounds| match origin {
            Some(origin) => {
                let [low, high] = origin.interval(bounds.map(|bound| bound * scale));
                let known = interval.get_or_insert([low, high]);
                *known = [known[0].max(low), known[1].min(high)];
            }
            None => is_known = false,
        })?;
        Ok(interval.filter(|_| is_known))
    }

    /// Visits every value that a layer checks before it encodes it, with the scale and the interval
    /// of the layer.
    fn each_checked(
        &self,
        mut visit: impl FnMut(&ProgramSegment, Option<Origin>, f64, [f64; 2]),
    ) -> crate::Result<()> {
        let compiled = self.compiled(&StreamConfig::new(1))?;
        for segment in &compiled.segments {
            let crate::compile::Segment::Program(segment) = segment else { continue };
            let program = &segment.program;
            for step in program.steps() {
                let StepKind::Quantize { layer, scale, range: ValueRange::Check, .. } = step.kind()
                else {
                    continue;
                };
                let interval = program.layers()[*layer].spec.polarity().interval();
                for element in 0..program.slot(step.input()).len {
                    // Elements of several samples that run together are not features of one sample.
                    let origin = Origin::of(program, step.input(), element);
                    visit(segment, origin.filter(|_| compiled.n_samples() == 1), *scale, interval);
                }
            }
        }
        Ok(())
    }
}

impl ProgramSegment {
    /// Returns the index of the first feature of an input of the program, if it is an input of the
    /// network.
    fn input_offset(&self, network: &Network, input: SlotId) -> Option<usize> {
        let position = self.program.inputs().iter().position(|id| *id == input)?;
        let id = *self.inputs.get(position)?;
        let position = network.graph().inputs().iter().position(|input| *input == id)?;
        Some(network.inputs()[..position].iter().map(crate::network::NetworkInput::len).sum())
    }
}

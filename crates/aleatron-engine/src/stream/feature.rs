//! Values that a program refused, as the features they come from.

use super::StreamNetwork;
use crate::Error;
use crate::compile::ProgramSegment;
use crate::network::{Network, StreamConfig};
use aleatron_core::Error as CoreError;
use aleatron_core::program::{ConstantOp, Program, SlotId, StepKind, ValueRange};

/// An element of an input of a program, and what happens to it before it is quantized.
#[derive(Debug, Clone)]
struct Origin {
    input: SlotId,
    element: usize,
    /// Operations with constants, the last one first.
    ops: Vec<(ConstantOp, f64)>,
}

impl Origin {
    /// Follows an element back to an input; `None` if several elements make it.
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

    /// Returns the feature that becomes a value.
    fn invert(&self, value: f64) -> f64 {
        self.ops.iter().fold(value, |value, &(op, constant)| match op {
            ConstantOp::Add => value - constant,
            ConstantOp::Subtract => value + constant,
            ConstantOp::SubtractFrom => constant - value,
            ConstantOp::Multiply => value / constant,
            ConstantOp::Divide => value * constant,
        })
    }

    /// Returns the features that become the ends of an interval, the lesser first.
    fn interval(&self, interval: [f64; 2]) -> [f64; 2] {
        let [a, b] = interval.map(|end| self.invert(end));
        [a.min(b), a.max(b)]
    }
}

impl StreamNetwork {
    /// Returns an error of a program in terms of features and layers.
    pub(super) fn explained(&self, segment: &ProgramSegment, features: &[f64], error: CoreError) -> Error {
        let CoreError::OutOfRange { index, value, low, high, .. } = error else { return error.into() };
        let program = &segment.program;
        let checked = program.steps().iter().filter_map(|step| match step.kind() {
            StepKind::Quantize { layer, scale, range: ValueRange::Check, .. } => Some((step, *layer, *scale)),
            _ => None,
        });
        let checked: Vec<_> = checked.collect();
        let width = self.network.n_features();
        for &(step, _, scale) in &checked {
            let len = program.slot(step.input()).len;
            let (sample, element) = (index / len, index % len);
            let Some(origin) = Origin::of(program, step.input(), element) else { continue };
            let Some(offset) = self.offset(segment, origin.input) else { continue };
            let feature = offset + origin.element;
            let Some(&found) = features.get(sample * width + feature) else { continue };
            // Several layers may read features: the one whose value this is.
            let encoded = origin.ops.iter().rev().fold(found, |v, (op, c)| op.apply(v, *c)) / scale;
            if encoded.to_bits() == value.to_bits() || encoded.is_nan() && value.is_nan() {
                let [low, high] = origin.interval([low * scale, high * scale]);
                return Error::Feature { sample, feature, value: found, low, high };
            }
        }
        // Not a feature itself, but computed from features: its layer is known if only one checks its inputs.
        match checked[..] {
            [(_, layer, _)] if let Some(&layer) = segment.layers.get(layer) => {
                self.in_layer(layer, error.into())
            }
            _ => error.into(),
        }
    }

    /// Returns the index of the first feature of a program's input, if it is an input of the network.
    fn offset(&self, segment: &ProgramSegment, input: SlotId) -> Option<usize> {
        let position = segment.program.inputs().iter().position(|id| *id == input)?;
        offset(&self.network, segment.inputs.get(position).copied()?)
    }
}

fn offset(network: &Network, id: aleatron_graph::ValueId) -> Option<usize> {
    let position = network.graph().inputs().iter().position(|input| *input == id)?;
    Some(network.inputs()[..position].iter().map(crate::network::NetworkInput::len).sum())
}

impl Network {
    /// Returns the least and the greatest feature that the layers which read features can encode; `None` if features do not reach a layer one by
    /// one.
    ///
    /// # Errors
    /// As [`Network::check_config`].
    pub fn feature_interval(&self) -> crate::Result<Option<[f64; 2]>> {
        let compiled = self.compiled(&StreamConfig::new(1))?;
        let mut interval: Option<[f64; 2]> = None;
        for segment in &compiled.segments {
            let crate::compile::Segment::Program(segment) = segment else { continue };
            for step in segment.program.steps() {
                let StepKind::Quantize { layer, scale, range: ValueRange::Check, .. } = step.kind() else {
                    continue;
                };
                let bounds = segment.program.layers()[*layer].spec.polarity().interval();
                for element in 0..segment.program.slot(step.input()).len {
                    let Some(origin) = Origin::of(&segment.program, step.input(), element) else {
                        return Ok(None);
                    };
                    let [low, high] = origin.interval(bounds.map(|bound| bound * scale));
                    let known = interval.get_or_insert([low, high]);
                    *known = [known[0].max(low), known[1].min(high)];
                }
            }
        }
        Ok(interval)
    }
}

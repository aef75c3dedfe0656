//! Construction of programs, with all checks that backends rely on.

use super::{
    Bounds, ConstantOp, GatherIndex, InputSign, Pattern, Program, ProgramLayer, Sign, Slot, SlotId,
    SlotKind, Step, StepKind, ValueRange,
};
use crate::arithmetic::{Accumulator, FloatStage, PoolShape, Requantizer, Rescaler};
use crate::error::{Error, Quantity, Result};
use crate::generator::Width;
use crate::layer::{LayerSpec, Weights};

/// The largest number of elements of a slot per sample: kernels index them with 32 bits.
const MAX_ELEMENTS: usize = 1 << 31;

/// Builds a [`Program`]. Every method checks its arguments and returns the slot that the new step
/// computes.
#[derive(Debug, Clone, Default)]
pub struct ProgramBuilder {
    layers: Vec<ProgramLayer>,
    slots: Vec<Slot>,
    steps: Vec<Step>,
    inputs: Vec<SlotId>,
}

impl ProgramBuilder {
    /// Adds a layer that each sample sends `rows` rows of inputs through, and returns its index.
    ///
    /// # Errors
    /// Returns [`Error::Zero`] for no rows, [`Error::Mismatch`] if the weights are not those of the
    /// layer.
    pub fn layer(&mut self, spec: LayerSpec, weights: Weights, rows: usize) -> Result<usize> {
        if rows == 0 {
            return Err(Error::Zero(Quantity::Row));
        }
        same(Quantity::Weights, spec.n_weights(), weights.values().len())?;
        self.layers.push(ProgramLayer { spec, weights, rows, input_sign: InputSign::Any });
        Ok(self.layers.len() - 1)
    }

    /// States that the inputs of a layer are never negative.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] for a layer that was not added.
    pub fn set_non_negative(&mut self, layer: usize) -> Result<()> {
        let (actual, limit) = (layer as u128, self.layers.len() as u128);
        match self.layers.get_mut(layer) {
            Some(layer) => layer.input_sign = InputSign::NonNegative,
            None => return Err(Error::TooLarge { what: Quantity::Layer, actual, limit }),
        }
        Ok(())
    }

    /// Returns a slot that was added.
    #[must_use]
    pub fn slot(&self, id: SlotId) -> Option<Slot> {
        self.slots.get(id.0).copied()
    }

    /// Returns the identifier of the slot at an index, if there are so many.
    #[must_use]
    pub fn slot_id(&self, index: usize) -> Option<SlotId> {
        (index < self.slots.len()).then_some(SlotId(index))
    }

    /// Returns a layer that was added.
    #[must_use]
    pub fn layer_at(&self, layer: usize) -> Option<&ProgramLayer> {
        self.layers.get(layer)
    }

    /// Adds an input of `len` floats per sample.
    ///
    /// # Errors
    /// Returns [`Error::Zero`] for no elements, [`Error::TooLarge`] above 2^31.
    pub fn input(&mut self, len: usize) -> Result<SlotId> {
        let id = self.add_slot(SlotKind::Float, len)?;
        self.inputs.push(id);
        Ok(id)
    }

    /// Adds the thresholds of a layer's inputs from floats; `scale` becomes 1. The comparator is as
    /// wide as the layer's generator unless a narrower one is given.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] if the slot has other than the layer's inputs,
    /// [`Error::OutOfRange`] for a scale that is not positive, [`Error::TooLarge`] for a comparator
    /// wider than the generator.
    pub fn quantize(
        &mut self,
        layer: usize,
        input: SlotId,
        scale: f64,
        comparator: Option<Width>,
        range: ValueRange,
    ) -> Result<SlotId> {
        let len = self.layer_inputs(layer)?;
        same(Quantity::Inputs, len, self.of_kind(input, SlotKind::Float)?)?;
        if !(scale > 0.0 && scale.is_finite()) {
            let (low, high) = (f64::MIN_POSITIVE, f64::MAX);
            return Err(Error::OutOfRange {
                what: Quantity::Value,
                index: 0,
                value: scale,
                low,
                high,
            });
        }
        let width = self.layers[layer].spec.encoding().input_width();
        let comparator = comparator.unwrap_or(width);
        narrower(comparator, width)?;
        let kind = StepKind::Quantize { layer, scale, comparator, range };
        self.add(kind, vec![input], SlotKind::Threshold, len)
    }

    /// Adds the thresholds of a layer's inputs from integers.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] if the slot has other than the layer's inputs or the polarity is
    /// another, [`Error::TooLarge`] for a comparator wider than the generator.
    pub fn requantize(
        &mut self,
        layer: usize,
        input: SlotId,
        requantizers: Pattern<Requantizer>,
    ) -> Result<SlotId> {
        let len = self.layer_inputs(layer)?;
        same(Quantity::Inputs, len, self.of_kind(input, SlotKind::Integer)?)?;
        fits(&requantizers, len)?;
        let spec = &self.layers[layer].spec;
        for requantizer in requantizers.table() {
            narrower(requantizer.comparator(), spec.encoding().input_width())?;
            if requantizer.polarity() != spec.polarity() {
                let (text, reason) =
                    (requantizer.polarity().to_string(), spec.polarity().to_string());
                return Err(Error::Syntax { what: Quantity::Polarity, text, reason });
            }
        }
        self.add(
            StepKind::Requantize { layer, requantizers },
            vec![input],
            SlotKind::Threshold,
            len,
        )
    }

    /// Adds the counts of a layer for the thresholds of its inputs.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] if the thresholds are not those of the layer's inputs.
    pub fn product(&mut self, layer: usize, thresholds: SlotId) -> Result<SlotId> {
        same(
            Quantity::Inputs,
            self.layer_inputs(layer)?,
            self.of_kind(thresholds, SlotKind::Threshold)?,
        )?;
        let made_for =
            self.steps.iter().find(|step| step.output == thresholds).map(|step| &step.kind);
        match made_for {
            Some(
                StepKind::Quantize { layer: own, .. } | StepKind::Requantize { layer: own, .. },
            ) => {
                same(Quantity::Layer, layer, *own)?;
            }
            _ => return Err(Error::Internal { place: "program::ProgramBuilder::product" }),
        }
        let len = self.layer_outputs(layer)?;
        self.add(StepKind::Product { layer }, vec![thresholds], SlotKind::Count, len)
    }

    /// Adds the values of a layer's counts in f64.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] if the counts are not those of the layer, or unless there is one
    /// bias per row of weights, and one scale or one per row.
    pub fn decode(&mut self, layer: usize, counts: SlotId, stage: FloatStage) -> Result<SlotId> {
        let len = self.counts_of(layer, counts)?;
        let rows = self.layers[layer].spec.n_rows();
        same(Quantity::Bias, rows, stage.bias.len())?;
        if stage.scales.len() != 1 {
            same(Quantity::Bias, rows, stage.scales.len())?;
        }
        self.add(StepKind::Decode { layer, stage }, vec![counts], SlotKind::Float, len)
    }

    /// Adds the accumulated values of a layer's counts.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] if the counts are not those of the layer, or unless there is one
    /// bias per row of weights.
    pub fn accumulate(
        &mut self,
        layer: usize,
        counts: SlotId,
        accumulator: Accumulator,
    ) -> Result<SlotId> {
        let len = self.counts_of(layer, counts)?;
        same(Quantity::Bias, self.layers[layer].spec.n_rows(), accumulator.bias().len())?;
        self.add(StepKind::Accumulate { layer, accumulator }, vec![counts], SlotKind::Integer, len)
    }

    /// Adds the result of a floating-point operation with constants.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] if the slot has no floats, [`Error::Ragged`] if the constants do
    /// not repeat evenly over it.
    pub fn constant(
        &mut self,
        input: SlotId,
        op: ConstantOp,
        constants: Pattern<f64>,
    ) -> Result<SlotId> {
        let len = self.of_kind(input, SlotKind::Float)?;
        fits(&constants, len)?;
        self.add(StepKind::Constant { op, constants }, vec![input], SlotKind::Float, len)
    }

    /// Adds integers plus constant terms.
    ///
    /// # Errors
    /// As for [`Self::constant`].
    pub fn offset(&mut self, input: SlotId, sign: Sign, terms: Pattern<i64>) -> Result<SlotId> {
        let len = self.of_kind(input, SlotKind::Integer)?;
        fits(&terms, len)?;
        self.add(StepKind::Offset { sign, terms }, vec![input], SlotKind::Integer, len)
    }

    /// Adds floats or integers limited to an interval.
    ///
    /// # Errors
    /// As for [`Self::constant`], and [`Error::OutOfRange`] for a bound that is NaN.
    pub fn clip(&mut self, input: SlotId, bounds: Bounds) -> Result<SlotId> {
        let (kind, len) = match &bounds {
            Bounds::Float(pattern) => {
                let len = self.of_kind(input, SlotKind::Float)?;
                fits(pattern, len)?;
                for (index, bound) in pattern.table().iter().flatten().enumerate() {
                    if bound.is_nan() {
                        let (low, high) = (f64::NEG_INFINITY, f64::INFINITY);
                        let (what, value) = (Quantity::Bound, *bound);
                        return Err(Error::OutOfRange { what, index, value, low, high });
                    }
                }
                (SlotKind::Float, len)
            }
            Bounds::Integer(pattern) => {
                let len = self.of_kind(input, SlotKind::Integer)?;
                fits(pattern, len)?;
                (SlotKind::Integer, len)
            }
        };
        self.add(StepKind::Clip(bounds), vec![input], kind, len)
    }

    /// Adds the pooled windows of images of floats or integers.
    ///
    /// # Errors
    /// Returns [`Error::Ragged`] if the slot does not hold whole images.
    pub fn pool(&mut self, input: SlotId, shape: PoolShape) -> Result<SlotId> {
        let (kind, len) = self.numbers(input)?;
        let divisor = shape.n_inputs();
        if !len.is_multiple_of(divisor) {
            return Err(Error::Ragged { what: Quantity::Inputs, actual: len, divisor });
        }
        let len = len / divisor * shape.n_outputs();
        self.add(StepKind::Pool(shape), vec![input], kind, len)
    }

    /// Adds selected elements of slots of one kind.
    ///
    /// # Errors
    /// Returns [`Error::Zero`] for no inputs or elements, [`Error::Mismatch`] for inputs of several
    /// kinds, [`Error::TooLarge`] for an index that is out of bounds.
    pub fn gather(&mut self, inputs: Vec<SlotId>, map: Vec<GatherIndex>) -> Result<SlotId> {
        let slots = inputs.iter().map(|&id| self.numbers(id)).collect::<Result<Vec<_>>>()?;
        let Some(&(kind, _)) = slots.first() else { return Err(Error::Zero(Quantity::Inputs)) };
        if slots.iter().any(|slot| slot.0 != kind) {
            return Err(Error::Internal { place: "program::ProgramBuilder::gather" });
        }
        for index in &map {
            let len = slots.get(index.input as usize).map_or(0, |slot| slot.1);
            if index.element as usize >= len {
                let (what, actual) = (Quantity::Inputs, index.element.into());
                return Err(Error::TooLarge { what, actual, limit: len as u128 });
            }
        }
        let len = map.len();
        self.add(StepKind::Gather { map }, inputs, kind, len)
    }

    /// Adds the sum or the difference of two slots.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] for slots of different sizes or kinds, or rescalers of floats.
    pub fn combine(
        &mut self,
        inputs: [SlotId; 2],
        sign: Sign,
        rescale: Option<Pattern<[Option<Rescaler>; 2]>>,
    ) -> Result<SlotId> {
        let [(kind, len), (other, other_len)] =
            [self.numbers(inputs[0])?, self.numbers(inputs[1])?];
        same(Quantity::Inputs, len, other_len)?;
        if kind != other || rescale.is_some() && kind == SlotKind::Float {
            return Err(Error::Internal { place: "program::ProgramBuilder::combine" });
        }
        if let Some(rescale) = &rescale {
            fits(rescale, len)?;
        }
        self.add(StepKind::Combine { sign, rescale }, inputs.to_vec(), kind, len)
    }

    /// Adds the values represented by integers.
    ///
    /// # Errors
    /// As for [`Self::constant`].
    pub fn restore(&mut self, input: SlotId, units: Pattern<f64>) -> Result<SlotId> {
        let len = self.of_kind(input, SlotKind::Integer)?;
        fits(&units, len)?;
        self.add(StepKind::Restore { units }, vec![input], SlotKind::Float, len)
    }

    /// Finishes the program, which usually returns `outputs`. Steps that no output depends on are
    /// removed.
    ///
    /// # Errors
    /// Returns [`Error::Zero`] for no outputs, [`Error::TooLarge`] for a slot of another program.
    pub fn finish(self, outputs: Vec<SlotId>) -> Result<Program> {
        if outputs.is_empty() {
            return Err(Error::Zero(Quantity::Value));
        }
        let Self { layers, slots, mut steps, inputs } = self;
        if let Some(unknown) = outputs.iter().find(|id| id.0 >= slots.len()) {
            let (actual, limit) = (unknown.0 as u128, slots.len() as u128);
            return Err(Error::TooLarge { what: Quantity::Value, actual, limit });
        }
        let mut needed = vec![false; slots.len()];
        outputs.iter().for_each(|id| needed[id.0] = true);
        for step in steps.iter().rev() {
            if needed[step.output.0] {
                step.inputs.iter().for_each(|id| needed[id.0] = true);
            }
        }
        steps.retain(|step| needed[step.output.0]);
        Ok(Program { layers, slots, steps, inputs, outputs })
    }

    fn add(
        &mut self,
        kind: StepKind,
        inputs: Vec<SlotId>,
        slot_kind: SlotKind,
        len: usize,
    ) -> Result<SlotId> {
        let output = self.add_slot(slot_kind, len)?;
        self.steps.push(Step { kind, inputs, output });
        Ok(output)
    }

    fn add_slot(&mut self, kind: SlotKind, len: usize) -> Result<SlotId> {
        if len == 0 {
            return Err(Error::Zero(Quantity::Value));
        }
        if len > MAX_ELEMENTS {
            let (actual, limit) = (len as u128, MAX_ELEMENTS as u128);
            return Err(Error::TooLarge { what: Quantity::Inputs, actual, limit });
        }
        self.slots.push(Slot { kind, len });
        Ok(SlotId(self.slots.len() - 1))
    }

    fn get(&self, id: SlotId) -> Result<Slot> {
        let (actual, limit) = (id.0 as u128, self.slots.len() as u128);
        self.slot(id).ok_or(Error::TooLarge { what: Quantity::Value, actual, limit })
    }

    /// Returns the size of a slot, which must have the given kind.
    fn of_kind(&self, id: SlotId, kind: SlotKind) -> Result<usize> {
        let slot = self.get(id)?;
        match slot.kind == kind {
            true => Ok(slot.len),
            false => Err(Error::Internal { place: "program::ProgramBuilder::of_kind" }),
        }
    }

    /// Returns the kind and size of a slot of floats or integers.
    fn numbers(&self, id: SlotId) -> Result<(SlotKind, usize)> {
        let slot = self.get(id)?;
        match slot.kind {
            SlotKind::Float | SlotKind::Integer => Ok((slot.kind, slot.len)),
            SlotKind::Threshold | SlotKind::Count => {
                Err(Error::Internal { place: "program::ProgramBuilder::numbers" })
            }
        }
    }

    fn known_layer(&self, layer: usize) -> Result<&ProgramLayer> {
        let (actual, limit) = (layer as u128, self.layers.len() as u128);
        self.layers.get(layer).ok_or(Error::TooLarge { what: Quantity::Layer, actual, limit })
    }

    fn layer_inputs(&self, layer: usize) -> Result<usize> {
        self.known_layer(layer).map(|layer| layer.spec.n_inputs().saturating_mul(layer.rows))
    }

    fn layer_outputs(&self, layer: usize) -> Result<usize> {
        self.known_layer(layer).map(|layer| layer.spec.n_neurons().saturating_mul(layer.rows))
    }

    /// Returns the size of the counts of a layer, which must match the slot.
    fn counts_of(&self, layer: usize, counts: SlotId) -> Result<usize> {
        let len = self.layer_outputs(layer)?;
        same(Quantity::Counts, len, self.of_kind(counts, SlotKind::Count)?)?;
        let is_own =
            |step: &Step| step.output == counts && step.kind == StepKind::Product { layer };
        match self.steps.iter().any(is_own) {
            true => Ok(len),
            false => Err(Error::Internal { place: "program::ProgramBuilder::counts_of" }),
        }
    }
}

fn same(what: Quantity, expected: usize, actual: usize) -> Result<()> {
    match expected == actual {
        true => Ok(()),
        false => Err(Error::Mismatch { what, expected, actual }),
    }
}

fn fits<T>(pattern: &Pattern<T>, len: usize) -> Result<()> {
    let divisor = pattern.period();
    match len.is_multiple_of(divisor) {
        true => Ok(()),
        false => Err(Error::Ragged { what: Quantity::Value, actual: len, divisor }),
    }
}

fn narrower(comparator: Width, width: Width) -> Result<()> {
    let (actual, limit) = (comparator.bits().into(), width.bits().into());
    match actual <= limit {
        true => Ok(()),
        false => Err(Error::TooLarge { what: Quantity::ComparatorWidth, actual, limit }),
    }
}

//! Numbers of a graph as elements of slots.

use crate::Result;
use aleatron_core::program::{GatherIndex, InputSign, ProgramBuilder, SlotId, SlotKind};
use aleatron_core::{Error as CoreError, Quantity};
use aleatron_graph::Error as GraphError;
use aleatron_tensor::{Device, Tensor};

/// Number of bits of a code that hold the index of an element.
const ELEMENT_BITS: u32 = 32;

/// A value of a graph in the slots of a program. Each element is a code: the slot, and the index in
/// it. Nodes that move elements run on codes.
#[derive(Debug, Clone)]
pub(super) struct Number {
    pub(super) codes: Tensor,
    /// The index of the unit of each integer.
    pub(super) units: Option<Tensor>,
    pub(super) kind: SlotKind,
    /// The width of integers in bits.
    pub(super) width: u32,
    /// Whether it depends on streams.
    pub(super) is_streamed: bool,
    /// Whether elements may be negative.
    pub(super) sign: InputSign,
}

impl Number {
    /// Creates the number whose elements are all elements of a slot, in order.
    pub(super) fn of_slot(slot: SlotId, kind: SlotKind, shape: &[usize]) -> Result<Self> {
        let base = (slot.index() as i64) << ELEMENT_BITS;
        let codes: Vec<i64> =
            (0..shape.iter().product::<usize>() as i64).map(|k| base | k).collect();
        let codes = integers(&codes, shape)?;
        Ok(Self { codes, units: None, kind, width: 0, is_streamed: false, sign: InputSign::Any })
    }

    pub(super) fn shape(&self) -> &[usize] {
        self.codes.shape()
    }

    /// Returns the number with a unit for each element, by index.
    pub(super) fn with_units(self, units: &[u32]) -> Result<Self> {
        let units: Vec<i64> = units.iter().map(|&unit| unit.into()).collect();
        let units = integers(&units, self.shape())?;
        Ok(Self { units: Some(units), ..self })
    }

    /// Returns the index of the unit of each element.
    pub(super) fn unit_indices(&self) -> Result<Vec<u32>> {
        let Some(units) = &self.units else {
            return Err(
                CoreError::Internal { place: "engine::compile::Number::unit_indices" }.into()
            );
        };
        let units = units.to_vec::<i64>().map_err(GraphError::from)?;
        Ok(units.into_iter().map(|unit| unit as u32).collect())
    }

    /// Returns the number broadcast to a shape.
    pub(super) fn broadcast(&self, shape: &[usize]) -> Result<Self> {
        let to = |tensor: &Tensor| tensor.broadcast_to(shape).map_err(GraphError::from);
        let units = self.units.as_ref().map(to).transpose()?;
        Ok(Self { codes: to(&self.codes)?, units, ..self.clone() })
    }

    /// Returns the slot and the index in it of each element.
    pub(super) fn elements(&self) -> Result<Vec<(usize, u32)>> {
        let codes = self.codes.to_vec::<i64>().map_err(GraphError::from)?;
        Ok(codes.into_iter().map(|code| ((code >> ELEMENT_BITS) as usize, code as u32)).collect())
    }

    /// Returns a slot that holds exactly these elements in their order, gathering them if
    /// necessary.
    pub(super) fn slot(&self, program: &mut ProgramBuilder) -> Result<SlotId> {
        let elements = self.elements()?;
        let id = |program: &ProgramBuilder, index: usize| {
            let missing = CoreError::Internal { place: "engine::compile::Number::slot" };
            program.slot_id(index).ok_or(missing)
        };
        let Some(&(first, _)) = elements.first() else {
            return Err(CoreError::Zero(Quantity::Value).into());
        };
        let first_id = id(program, first)?;
        let is_whole = program.slot(first_id).is_some_and(|slot| slot.len == elements.len())
            && elements
                .iter()
                .enumerate()
                .all(|(k, &(slot, element))| slot == first && element as usize == k);
        if is_whole {
            return Ok(first_id);
        }
        let mut sources: Vec<usize> = elements.iter().map(|element| element.0).collect();
        sources.sort_unstable();
        sources.dedup();
        let map = elements.iter().map(|&(slot, element)| {
            let internal = |_| CoreError::Internal { place: "engine::compile::Number::slot" };
            let input = sources.binary_search(&slot).map_err(internal)? as u32;
            Ok(GatherIndex { input, element })
        });
        let map = map.collect::<aleatron_core::Result<_>>()?;
        let inputs = sources.into_iter().map(|index| id(program, index));
        let inputs = inputs.collect::<aleatron_core::Result<_>>()?;
        Ok(program.gather(inputs, map)?)
    }
}

/// Creates a tensor of integers.
pub(super) fn integers(values: &[i64], shape: &[usize]) -> Result<Tensor> {
    Ok(Tensor::from_slice(values, shape, &Device::Cpu).map_err(GraphError::from)?)
}

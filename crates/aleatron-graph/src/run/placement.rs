//! Placement of the inputs of nodes on devices.
//!
//! Floats of a run begin on its device and stay there; integers stay on the device that computed
//! them, because most of them are shapes that the host needs. A node runs on the device if an input
//! that it computes with is there, and otherwise on the host: shapes are computed without the
//! device. Copies to the device do not wait for anything; a copy to the host does, and is made for
//! [`Role::Parameter`] and for operators of [`is_on_host`] alone.

use aleatron_tensor::{DType, Device, Scalar, Tensor};

use crate::error::Result;
use crate::op::Op;

/// The role of an input of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The node computes with the elements.
    Data,
    /// The elements are positions along an axis of another input.
    Index,
    /// The elements decide shapes or settings: the host needs them.
    Parameter,
}

/// Returns the role of an input of a node.
pub(super) fn role(op: &Op, input: usize) -> Role {
    let is_parameter = match op {
        Op::ConstantOfShape { .. } | Op::Range | Op::If { .. } => true,
        Op::Loop { .. } => input < 2,
        Op::Reshape { .. }
        | Op::Squeeze { .. }
        | Op::Unsqueeze { .. }
        | Op::Expand
        | Op::Tile
        | Op::Split { .. }
        | Op::Slice { .. }
        | Op::Pad { .. }
        | Op::CenterCropPad { .. }
        | Op::Reduce { .. }
        | Op::CumSum { .. }
        | Op::CumProd { .. }
        | Op::TopK { .. }
        | Op::Trilu { .. }
        | Op::Compress { .. }
        | Op::ReverseSequence { .. }
        | Op::Resize(_)
        | Op::Upsample { .. }
        | Op::Col2Im { .. }
        | Op::Dropout { .. } => input > 0,
        Op::OneHot { .. } => input == 1,
        Op::MaxUnpool { .. } => input == 2,
        Op::Recurrent(_) => input == 4,
        Op::Attention(_) => input == 6,
        _ => false,
    };
    let is_index = match op {
        Op::Gather { .. } | Op::GatherElements { .. } | Op::GatherNd { .. } => input == 1,
        Op::RotaryEmbedding { .. } => input == 3,
        _ => false,
    };
    match (is_parameter, is_index) {
        (true, _) => Role::Parameter,
        (false, true) => Role::Index,
        (false, false) => Role::Data,
    }
}

/// Returns whether an operator always runs on the host. `docs/onnx.md` gives the reason for each.
pub(super) fn is_on_host(op: &Op) -> bool {
    matches!(
        op,
        Op::Compress { .. }
            | Op::ConvInteger { .. }
            | Op::Det
            | Op::Dft { .. }
            | Op::DynamicQuantizeLinear
            | Op::EyeLike { .. }
            | Op::MatMulInteger
            | Op::MaxUnpool { .. }
            | Op::NonMaxSuppression { .. }
            | Op::NonZero
            | Op::QLinearConv { .. }
            | Op::QLinearMatMul { .. }
            | Op::QuantizeLinear { .. }
            | Op::Range
            | Op::ScatterElements { .. }
            | Op::ScatterNd { .. }
            | Op::SignalWindow { .. }
            | Op::Stft { .. }
            | Op::Unique { .. }
    )
}

/// Returns whether a constant is large enough that a node with it always runs on the device.
pub(super) fn is_weight(constant: &Tensor) -> bool {
    constant.rank() > 1 && constant.dtype().is_float()
}

/// Returns a tensor on a device; positions are converted if the device has no 64-bit integers.
pub(super) fn moved(tensor: &Tensor, role: Role, device: &Device) -> Result<Tensor> {
    if role == Role::Index && !device.supports(tensor.dtype()) {
        // A position past 32 bits is outside every axis of a device, and stays outside.
        let (low, high) = (Scalar::Int(i32::MIN.into()), Scalar::Int(i32::MAX.into()));
        let narrow = tensor.to_device(&Device::Cpu)?.clip(low, high)?.cast(DType::I32)?;
        return Ok(narrow.to_device(device)?);
    }
    Ok(tensor.to_device(device)?)
}

/// Returns whether a tensor with this role can be on a device.
pub(super) fn fits(tensor: &Tensor, role: Role, device: &Device) -> bool {
    role == Role::Index || device.supports(tensor.dtype())
}

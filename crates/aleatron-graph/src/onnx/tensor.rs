//! Constants of an ONNX file as tensors.
//!
//! Elements come as bytes, as numbers of a field for their type, or from another file beside the
//! model. Types that tensors do not have are held in wider ones: bfloat16 as f32, int8, int16 and
//! uint16 as i32, uint32 and, as far as they fit, uint64 as i64. The graph knows the
//! types of integers, see [`Narrow`]. 64-bit floats are rounded to f32.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Component, Path};

use aleatron_core::{Quantity, memory};
use aleatron_tensor::{DType, Device, Tensor};
use half::{bf16, f16};

use super::proto::TensorProto;
use crate::error::{Error, Result};
use crate::narrow::Narrow;

/// The element types of ONNX that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ElementType {
    F32,
    U8,
    I8,
    U16,
    I16,
    I32,
    I64,
    Bool,
    F16,
    F64,
    U32,
    U64,
    BF16,
}

impl ElementType {
    /// Returns the type with a code of ONNX.
    pub(crate) fn from_code(code: i32) -> Option<Self> {
        Some(match code {
            1 => Self::F32,
            2 => Self::U8,
            3 => Self::I8,
            4 => Self::U16,
            5 => Self::I16,
            6 => Self::I32,
            7 => Self::I64,
            9 => Self::Bool,
            10 => Self::F16,
            11 => Self::F64,
            12 => Self::U32,
            13 => Self::U64,
            16 => Self::BF16,
            _ => return None,
        })
    }

    /// Returns the type of tensors that holds it.
    pub(crate) fn dtype(self) -> DType {
        match self {
            Self::F32 | Self::F64 | Self::BF16 => DType::F32,
            Self::F16 => DType::F16,
            Self::U8 => DType::U8,
            Self::I8 | Self::U16 | Self::I16 | Self::I32 => DType::I32,
            Self::I64 | Self::U32 | Self::U64 => DType::I64,
            Self::Bool => DType::Bool,
        }
    }

    /// Returns the type of integers that tensors hold in a wider one, if it is one of those.
    pub(crate) fn narrow(self) -> Option<Narrow> {
        Some(match self {
            Self::I8 => Narrow::Int8,
            Self::I16 => Narrow::Int16,
            Self::U16 => Narrow::UInt16,
            Self::U32 => Narrow::UInt32,
            Self::U64 => Narrow::UInt64,
            Self::F32
            | Self::F64
            | Self::BF16
            | Self::F16
            | Self::U8
            | Self::I32
            | Self::I64
            | Self::Bool => {
                return None;
            }
        })
    }

    /// Returns the name of the type in ONNX.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::F32 => "float",
            Self::U8 => "uint8",
            Self::I8 => "int8",
            Self::U16 => "uint16",
            Self::I16 => "int16",
            Self::I32 => "int32",
            Self::I64 => "int64",
            Self::Bool => "bool",
            Self::F16 => "float16",
            Self::F64 => "double",
            Self::U32 => "uint32",
            Self::U64 => "uint64",
            Self::BF16 => "bfloat16",
        }
    }

    fn size(self) -> usize {
        match self {
            Self::U8 | Self::I8 | Self::Bool => 1,
            Self::U16 | Self::I16 | Self::F16 | Self::BF16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::I64 | Self::F64 | Self::U64 => 8,
        }
    }
}

/// Returns the name of an element type of ONNX, for messages.
pub(crate) fn type_name(code: i32) -> String {
    let name = match code {
        0 => "undefined",
        8 => "string",
        14 => "complex64",
        15 => "complex128",
        17..=20 => "an 8-bit float",
        21 => "uint4",
        22 => "int4",
        23 => "float4e2m1",
        _ => return format!("number {code}"),
    };
    name.to_owned()
}

/// Returns the size of a constant as a tensor in bytes, for a sum over all constants; 0 for one
/// that is an error later.
pub(crate) fn bytes_as_tensor(proto: &TensorProto) -> u128 {
    let Some(element) = ElementType::from_code(proto.data_type.unwrap_or_default()) else {
        return 0;
    };
    let sizes = proto.dims.iter().map(|&size| u128::try_from(size).unwrap_or(0));
    sizes.fold(element.dtype().size() as u128, u128::saturating_mul)
}

/// Reads a constant as a tensor on the host. `folder` is the folder of the model and its external
/// files.
pub(crate) fn read(proto: &TensorProto, folder: Option<&Path>) -> Result<Tensor> {
    let name = proto.name.as_deref().unwrap_or_default();
    let fault = |reason: String| Error::model(format!("tensor \"{name}\""), reason);
    let code = proto.data_type.unwrap_or_default();
    let Some(element) = ElementType::from_code(code) else {
        return Err(fault(format!("elements of type {} are not read", type_name(code))));
    };
    let mut shape = Vec::with_capacity(proto.dims.len());
    for &size in &proto.dims {
        shape.push(usize::try_from(size).map_err(|_| fault(format!("shape {:?}", proto.dims)))?);
    }
    let len = shape.iter().try_fold(1_usize, |len, &size| len.checked_mul(size));
    let Some(len) = len else { return Err(fault(format!("shape {shape:?} is too large"))) };
    let external;
    let raw = if proto.data_location == Some(1) {
        external = read_external(proto, len.saturating_mul(element.size()), folder, &fault)?;
        Some(external.as_slice())
    } else {
        proto.raw_data.as_deref()
    };
    match raw {
        Some(bytes) => {
            if len.checked_mul(element.size()) != Some(bytes.len()) {
                let found = bytes.len();
                return Err(fault(format!(
                    "shape {shape:?} of {} does not have {found} bytes",
                    element.name()
                )));
            }
            from_bytes(element, bytes, &shape, &fault)
        }
        None => from_fields(proto, element, len, &shape, &fault),
    }
}

fn from_bytes(
    element: ElementType,
    bytes: &[u8],
    shape: &[usize],
    fault: &dyn Fn(String) -> Error,
) -> Result<Tensor> {
    fn chunks<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
        bytes.as_chunks::<N>().0.iter().copied()
    }
    let cpu = &Device::Cpu;
    memory::check(8 * (bytes.len() / element.size()) as u128, Quantity::Weights)?;
    Ok(match element {
        ElementType::F32 => make(chunks(bytes).map(f32::from_le_bytes), shape)?,
        ElementType::F64 => make(chunks(bytes).map(|b| f64::from_le_bytes(b) as f32), shape)?,
        ElementType::BF16 => make(chunks(bytes).map(|b| bf16::from_le_bytes(b).to_f32()), shape)?,
        ElementType::F16 => Tensor::from_slice(
            &chunks(bytes).map(f16::from_le_bytes).collect::<Vec<_>>(),
            shape,
            cpu,
        )?,
        ElementType::U8 => Tensor::from_slice(bytes, shape, cpu)?,
        ElementType::I8 => Tensor::from_slice(
            &bytes.iter().map(|&b| i32::from(b as i8)).collect::<Vec<_>>(),
            shape,
            cpu,
        )?,
        ElementType::U16 => {
            let values: Vec<i32> =
                chunks(bytes).map(|b| i32::from(u16::from_le_bytes(b))).collect();
            Tensor::from_slice(&values, shape, cpu)?
        }
        ElementType::I16 => {
            let values: Vec<i32> =
                chunks(bytes).map(|b| i32::from(i16::from_le_bytes(b))).collect();
            Tensor::from_slice(&values, shape, cpu)?
        }
        ElementType::I32 => Tensor::from_slice(
            &chunks(bytes).map(i32::from_le_bytes).collect::<Vec<_>>(),
            shape,
            cpu,
        )?,
        ElementType::U32 => {
            let values: Vec<i64> =
                chunks(bytes).map(|b| i64::from(u32::from_le_bytes(b))).collect();
            Tensor::from_slice(&values, shape, cpu)?
        }
        ElementType::I64 => Tensor::from_slice(
            &chunks(bytes).map(i64::from_le_bytes).collect::<Vec<_>>(),
            shape,
            cpu,
        )?,
        ElementType::U64 => wide(chunks(bytes).map(u64::from_le_bytes), shape, fault)?,
        ElementType::Bool => {
            Tensor::from_slice(&bytes.iter().map(|&b| b != 0).collect::<Vec<_>>(), shape, cpu)?
        }
    })
}

fn make(values: impl Iterator<Item = f32>, shape: &[usize]) -> Result<Tensor> {
    Ok(Tensor::from_slice(&values.collect::<Vec<_>>(), shape, &Device::Cpu)?)
}

fn wide(
    values: impl Iterator<Item = u64>,
    shape: &[usize],
    fault: &dyn Fn(String) -> Error,
) -> Result<Tensor> {
    let narrow = |value: u64| {
        i64::try_from(value).map_err(|_| fault(format!("{value} does not fit 63 bits")))
    };
    Ok(Tensor::from_slice(&values.map(narrow).collect::<Result<Vec<_>>>()?, shape, &Device::Cpu)?)
}

fn from_fields(
    proto: &TensorProto,
    element: ElementType,
    len: usize,
    shape: &[usize],
    fault: &dyn Fn(String) -> Error,
) -> Result<Tensor> {
    let cpu = &Device::Cpu;
    let check = |found: usize| match found == len {
        true => Ok(()),
        false => Err(fault(format!(
            "shape {shape:?} of {} does not have {found} elements",
            element.name()
        ))),
    };
    let small = &proto.int32_data;
    // A field holds 32 bits of each element, of which the type has the low ones.
    let fields = |values: &[i32], low_bits: fn(i32) -> i32| -> Result<Tensor> {
        check(values.len())?;
        let values: Vec<i32> = values.iter().map(|&value| low_bits(value)).collect();
        Ok(Tensor::from_vec(values, shape, cpu)?)
    };
    Ok(match element {
        ElementType::F32 => {
            check(proto.float_data.len())?;
            Tensor::from_slice(&proto.float_data, shape, cpu)?
        }
        ElementType::F64 => {
            check(proto.double_data.len())?;
            make(proto.double_data.iter().map(|&value| value as f32), shape)?
        }
        ElementType::I64 => {
            check(proto.int64_data.len())?;
            Tensor::from_slice(&proto.int64_data, shape, cpu)?
        }
        ElementType::U32 | ElementType::U64 => {
            check(proto.uint64_data.len())?;
            wide(proto.uint64_data.iter().copied(), shape, fault)?
        }
        ElementType::I32 => {
            check(small.len())?;
            Tensor::from_slice(small, shape, cpu)?
        }
        ElementType::I8 => fields(small, |v| i32::from(v as i8))?,
        ElementType::I16 => fields(small, |v| i32::from(v as i16))?,
        ElementType::U16 => fields(small, |v| i32::from(v as u16))?,
        ElementType::U8 => {
            check(small.len())?;
            Tensor::from_slice(&small.iter().map(|&v| v as u8).collect::<Vec<_>>(), shape, cpu)?
        }
        ElementType::Bool => {
            check(small.len())?;
            Tensor::from_slice(&small.iter().map(|&v| v != 0).collect::<Vec<_>>(), shape, cpu)?
        }
        ElementType::F16 => {
            check(small.len())?;
            let values: Vec<f16> = small.iter().map(|&v| f16::from_bits(v as u16)).collect();
            Tensor::from_slice(&values, shape, cpu)?
        }
        ElementType::BF16 => {
            check(small.len())?;
            make(small.iter().map(|&v| bf16::from_bits(v as u16).to_f32()), shape)?
        }
    })
}

/// Reads the bytes of a constant in an external file, which must be inside the folder of the model.
fn read_external(
    proto: &TensorProto,
    expected: usize,
    folder: Option<&Path>,
    fault: &dyn Fn(String) -> Error,
) -> Result<Vec<u8>> {
    let (mut location, mut offset, mut length) = (None, 0_u64, None);
    for entry in &proto.external_data {
        let value = entry.value.as_deref().unwrap_or_default();
        let number = || {
            value
                .parse::<u64>()
                .map_err(|_| fault(format!("\"{value}\" is not an offset in a file")))
        };
        match entry.key.as_deref().unwrap_or_default() {
            "location" => location = Some(value),
            "offset" => offset = number()?,
            "length" => length = Some(number()?),
            // A checksum, and keys of later versions, do not affect the location of the bytes.
            _ => {}
        }
    }
    let Some(location) = location else {
        return Err(fault("no file is named for its elements".to_owned()));
    };
    let Some(folder) = folder else {
        return Err(fault(format!(
            "its elements are in \"{location}\": read the model from its file"
        )));
    };
    let relative = Path::new(location);
    if location.is_empty()
        || !relative.components().all(|part| matches!(part, Component::Normal(_)))
    {
        return Err(fault(format!("\"{location}\" is not a file in the folder of the model")));
    }
    if length.is_some_and(|length| length != expected as u64) {
        let length = length.unwrap_or_default();
        return Err(fault(format!("it has {expected} bytes, the file says {length}")));
    }
    let path = folder.join(relative);
    let in_file = |source| Error::File { path: path.clone(), source };
    // A link could point outside the folder.
    let (real, root) =
        (path.canonicalize().map_err(in_file)?, folder.canonicalize().map_err(in_file)?);
    if !real.starts_with(root) {
        return Err(fault(format!("\"{location}\" is not a file in the folder of the model")));
    }
    // Opening a pipe waits for its writer, and a device may have no end.
    let kind = std::fs::metadata(&real).map_err(in_file)?;
    if !kind.is_file() {
        return Err(fault(format!("\"{location}\" is not a regular file")));
    }
    let mut file = File::open(real).map_err(in_file)?;
    let size = file.metadata().map_err(in_file)?.len();
    if offset.checked_add(expected as u64).is_none_or(|end| end > size) {
        return Err(fault(format!(
            "{expected} bytes from {offset} on of \"{location}\", which has {size}"
        )));
    }
    let mut bytes = memory::zeros(expected as u128, Quantity::Weights)?;
    file.seek(SeekFrom::Start(offset)).map_err(in_file)?;
    file.read_exact(&mut bytes).map_err(in_file)?;
    Ok(bytes)
}

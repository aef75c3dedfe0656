//! Files of tensors, in the safetensors format.
//!
//! ```
//! use std::collections::BTreeMap;
//! use aleatron_tensor::{Device, Tensor, io};
//!
//! let folder = std::env::temp_dir().join(format!("aleatron-io-{}", std::process::id()));
//! std::fs::create_dir_all(&folder)?;
//! let weight = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2], &Device::Cpu)?;
//! weight.save(folder.join("weight.safetensors"))?;
//! let read = Tensor::load(folder.join("weight.safetensors"), &Device::Cpu)?;
//! assert_eq!(read.to_vec::<f32>()?, weight.to_vec::<f32>()?);
//!
//! let bias = Tensor::from_slice(&[0.5f32, -0.5], &[2], &Device::Cpu)?;
//! let layer = BTreeMap::from([("weight".to_owned(), weight), ("bias".to_owned(), bias)]);
//! io::save(&layer, folder.join("layer.safetensors"))?;
//! assert_eq!(io::load(folder.join("layer.safetensors"), &Device::Cpu)?["bias"].shape(), [2]);
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Types
//!
//! Every type of a tensor is stored as it is. Files of other programs may hold types that tensors
//! do not have; those whose values fit a wider type are converted exactly (bf16 to f32; i8, i16 and
//! u16 to i32; u32 to i64), the others are an error.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use half::bf16;
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};

use crate::device::Device;
use crate::dtype::{DType, Element};
use crate::error::{Error, Result};
use crate::storage::Storage;
use crate::tensor::Tensor;

/// The name of the tensor in a file that [`Tensor::save`] writes.
const SINGLE_NAME: &str = "tensor";

/// Writes tensors of any devices to a safetensors file, under their names.
///
/// The file is written beside the path and then renamed: a reader never sees a part of it.
///
/// # Errors
/// [`Error::File`] if the file cannot be written, otherwise as [`Tensor::to_vec`].
pub fn save(tensors: &BTreeMap<String, Tensor>, path: impl AsRef<Path>) -> Result<()> {
    write(tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)), path.as_ref())
}

/// Reads every tensor of a safetensors file onto a device.
///
/// # Errors
/// [`Error::File`] for a file that cannot be read, is not valid, or holds a type that tensors do
/// not have; otherwise as [`Tensor::to_device`].
pub fn load(path: impl AsRef<Path>, device: &Device) -> Result<BTreeMap<String, Tensor>> {
    let path = path.as_ref();
    let bytes = aleatron_core::file::read(path).map_err(|error| file_error(path, &error))?;
    let file = SafeTensors::deserialize(&bytes).map_err(|error| file_error(path, &error))?;
    let tensors = file.tensors().into_iter().map(|(name, view)| {
        let tensor = read_tensor(&view)
            .map_err(|error| match error {
                Error::Name { .. } => file_error(path, &format!("tensor \"{name}\": {error}")),
                other => other,
            })?
            .to_device(device)?;
        Ok((name, tensor))
    });
    tensors.collect()
}

impl Tensor {
    /// Writes the tensor to a safetensors file of its own, under the name `tensor`.
    ///
    /// # Errors
    /// As [`save`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        write([(SINGLE_NAME, self)].into_iter(), path.as_ref())
    }

    /// Reads the only tensor of a safetensors file onto a device. [`load`] reads files of several.
    ///
    /// # Errors
    /// [`Error::File`] if the file does not hold exactly one tensor, otherwise as [`load`].
    pub fn load(path: impl AsRef<Path>, device: &Device) -> Result<Self> {
        let path = path.as_ref();
        let mut tensors = load(path, device)?;
        match (tensors.len(), tensors.pop_first()) {
            (1, Some((_, tensor))) => Ok(tensor),
            (n, _) => Err(file_error(
                path,
                &format!("the file holds {n} tensors, not 1; read it with io::load"),
            )),
        }
    }
}

fn file_error(path: &Path, reason: &impl ToString) -> Error {
    Error::File { path: path.to_owned(), reason: reason.to_string() }
}

fn write<'a>(tensors: impl Iterator<Item = (&'a str, &'a Tensor)>, path: &Path) -> Result<()> {
    let on_host: Vec<(&str, Tensor)> = tensors
        .map(|(name, tensor)| Ok((name, tensor.to_device(&Device::Cpu)?.whole()?)))
        .collect::<Result<_>>()?;
    let views = on_host.iter().map(|(name, tensor)| {
        let Storage::Cpu(storage) = tensor.storage() else {
            return Err(Error::internal("io::write, tensor on a GPU"));
        };
        let view =
            TensorView::new(stored_type(tensor.dtype()), tensor.shape().to_vec(), storage.bytes());
        Ok((*name, view.map_err(|error| file_error(path, &error))?))
    });
    let views = views.collect::<Result<Vec<_>>>()?;
    let bytes = serialize(views, None).map_err(|error| file_error(path, &error))?;
    let mut partial = path.as_os_str().to_owned();
    partial.push(format!(".{}.partial", std::process::id()));
    let written = fs::write(&partial, bytes).and_then(|()| fs::rename(&partial, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&partial);
        file_error(path, &error)
    })
}

fn stored_type(dtype: DType) -> Dtype {
    match dtype {
        DType::Bool => Dtype::BOOL,
        DType::U8 => Dtype::U8,
        DType::I32 => Dtype::I32,
        DType::I64 => Dtype::I64,
        DType::F16 => Dtype::F16,
        DType::F32 => Dtype::F32,
        DType::F64 => Dtype::F64,
    }
}

/// Reads a tensor onto the host. A type that tensors do not have is an [`Error::Name`].
fn read_tensor(view: &TensorView<'_>) -> Result<Tensor> {
    let shape = view.shape();
    let bytes = view.data();
    match view.dtype() {
        Dtype::BOOL => of_bytes(bytes, shape, |[byte]| byte != 0),
        Dtype::U8 => of_bytes(bytes, shape, |[byte]| byte),
        Dtype::I8 => of_bytes(bytes, shape, |byte| i32::from(i8::from_le_bytes(byte))),
        Dtype::I16 => of_bytes(bytes, shape, |bytes| i32::from(i16::from_le_bytes(bytes))),
        Dtype::U16 => of_bytes(bytes, shape, |bytes| i32::from(u16::from_le_bytes(bytes))),
        Dtype::I32 => of_bytes(bytes, shape, i32::from_le_bytes),
        Dtype::U32 => of_bytes(bytes, shape, |bytes| i64::from(u32::from_le_bytes(bytes))),
        Dtype::I64 => of_bytes(bytes, shape, i64::from_le_bytes),
        Dtype::F16 => of_bytes(bytes, shape, half::f16::from_le_bytes),
        Dtype::BF16 => of_bytes(bytes, shape, |bytes| bf16::from_le_bytes(bytes).to_f32()),
        Dtype::F32 => of_bytes(bytes, shape, f32::from_le_bytes),
        Dtype::F64 => of_bytes(bytes, shape, f64::from_le_bytes),
        other => Err(Error::Name { what: "element type", name: other.to_string() }),
    }
}

/// Reads elements of `N` bytes each, at any address.
fn of_bytes<const N: usize, T: Element>(
    bytes: &[u8],
    shape: &[usize],
    value: impl Fn([u8; N]) -> T,
) -> Result<Tensor> {
    let (elements, _) = bytes.as_chunks::<N>();
    let len = elements.len();
    let storage = crate::cpu::filled(T::DTYPE, len, |buffer| {
        for (stored, element) in buffer.slice_mut::<T::Stored>()?.iter_mut().zip(elements) {
            *stored = value(*element).to_stored();
        }
        Ok(())
    })?;
    Tensor::from_cpu(storage, shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_types_are_widened_exactly_or_are_errors() {
        let read = |dtype, bytes: &[u8], n: usize| {
            read_tensor(&TensorView::new(dtype, vec![n], bytes).unwrap())
        };
        let x = read(Dtype::BF16, &[0x80, 0x3f, 0x00, 0xc0], 2).unwrap();
        assert_eq!(x.to_vec::<f32>().unwrap(), [1.0, -2.0]);
        assert_eq!(read(Dtype::I8, &[0xff, 1], 2).unwrap().to_vec::<i32>().unwrap(), [-1, 1]);
        assert_eq!(
            read(Dtype::U32, &[0xff; 4], 1).unwrap().to_vec::<i64>().unwrap(),
            [4_294_967_295]
        );
        assert_eq!(
            read(Dtype::BOOL, &[0, 1, 2], 3).unwrap().to_vec::<bool>().unwrap(),
            [false, true, true]
        );
        assert!(matches!(read(Dtype::U64, &[0; 8], 1), Err(Error::Name { .. })));
    }
}

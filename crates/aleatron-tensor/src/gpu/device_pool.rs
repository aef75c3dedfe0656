//! Several GPUs that share work.

use aleatron_device::{AdapterChoice, hardware_adapters};

use super::device::GpuDevice;
use crate::cpu::filled;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::storage::Storage;
use crate::tensor::Tensor;
use crate::trace::report;

/// GPUs that share work: each takes some rows of a product, or some of a batch. Results are those
/// of one GPU of their kind, bit for bit.
#[derive(Debug, Clone)]
pub struct GpuDevicePool {
    devices: Vec<GpuDevice>,
}

impl GpuDevicePool {
    /// Opens all GPUs of the machine, each once; software adapters are excluded unless the
    /// environment names one.
    ///
    /// # Errors
    /// [`Error::Device`] if there is none, or one opens no device.
    pub fn all() -> Result<Self> {
        let choice = AdapterChoice::from_env();
        if choice != AdapterChoice::Strongest {
            return Ok(Self { devices: vec![GpuDevice::get(&choice)?] });
        }
        let indices: Vec<usize> = hardware_adapters().iter().map(|info| info.index).collect();
        if indices.is_empty() {
            // The error that lists the available adapters.
            return Ok(Self { devices: vec![GpuDevice::get(&AdapterChoice::Strongest)?] });
        }
        Self::with_indices(&indices)
    }

    /// Opens the GPUs with these indices.
    ///
    /// # Errors
    /// [`Error::Device`] if an adapter is missing or opens no device, [`Error::Argument`] for an
    /// empty list.
    pub fn with_indices(indices: &[usize]) -> Result<Self> {
        let devices = indices.iter().map(|&index| GpuDevice::get(&AdapterChoice::Index(index)));
        Self::of(devices.collect::<Result<_>>()?)
    }

    /// Creates a pool of these devices, several of which may be on one adapter.
    ///
    /// # Errors
    /// [`Error::Argument`] for an empty list.
    pub fn of(devices: Vec<GpuDevice>) -> Result<Self> {
        if devices.is_empty() {
            return Err(Error::argument("device pool", "devices", 0, "at least one is needed"));
        }
        Ok(Self { devices })
    }

    /// Returns the number of devices.
    #[must_use]
    pub fn len(&self) -> usize {
        self.devices.len()
    }

    /// Returns whether the pool is empty, which it never is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }

    /// Returns the device at an index.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&GpuDevice> {
        self.devices.get(index)
    }

    /// Returns the index of the adapter of the device at an index.
    #[must_use]
    pub fn adapter_index(&self, index: usize) -> Option<usize> {
        self.get(index).map(|device| device.info().index)
    }

    /// Iterates over the devices.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &GpuDevice> {
        self.devices.iter()
    }

    /// Converts the pool into its devices.
    #[must_use]
    pub fn into_devices(self) -> Vec<GpuDevice> {
        self.devices
    }

    /// Multiplies two tensors of the host, on the host: each device multiplies some rows of the
    /// left with the right. The left factor is a matrix or a batch of matrices, which is divided
    /// along its first axis; the right factor is a matrix.
    ///
    /// # Errors
    /// As [`Tensor::matmul`], and [`Error::Devices`] for tensors that are not on the host.
    pub fn matmul(&self, left: &Tensor, right: &Tensor) -> Result<Tensor> {
        const OP: &str = "sharded matmul";
        right.check_device(OP, &Tensor::zeros(&[], right.dtype(), &Device::Cpu)?)?;
        if right.rank() != 2 || left.rank() < 2 {
            return Err(Error::shapes(OP, left.shape(), right.shape()));
        }
        self.map_batch(left, |device, rows| rows.matmul(&right.to_device(device)?))
    }

    /// Divides a tensor of the host along its first axis, applies a function to each part on a
    /// different device, and concatenates the results on the host. The function is called at least
    /// once.
    ///
    /// # Errors
    /// The first error of the function, [`Error::Devices`] for a tensor that is not on the host,
    /// [`Error::Rank`] for one without axes, [`Error::Shapes`] for results that differ in more
    /// than their first axis.
    pub fn map_batch(
        &self,
        batch: &Tensor,
        function: impl Fn(&Device, &Tensor) -> Result<Tensor> + Sync,
    ) -> Result<Tensor> {
        const OP: &str = "map batch";
        batch.check_device(OP, &Tensor::zeros(&[], batch.dtype(), &Device::Cpu)?)?;
        let Some(&len) = batch.shape().first() else {
            let expected = crate::error::RankNeeded::AtLeast(1);
            return Err(Error::Rank { op: OP, expected, shape: Vec::new() });
        };
        let count = self.devices.len().min(len).max(1);
        let part = |i: usize| batch.slice(0, i * len / count..(i + 1) * len / count);
        let run = |(i, device): (usize, &GpuDevice)| -> Result<Tensor> {
            let device = Device::Gpu(device.clone());
            function(&device, &part(i)?.to_device(&device)?)?.to_device(&Device::Cpu)
        };
        // A thread for each device: one waits while the others compute.
        let parts: Vec<Result<Tensor>> = std::thread::scope(|scope| {
            let others: Vec<_> = self
                .devices
                .iter()
                .enumerate()
                .take(count)
                .skip(1)
                .map(|at| scope.spawn(move || run(at)))
                .collect();
            let mut parts = vec![run((0, &self.devices[0]))];
            parts.extend(others.into_iter().map(|thread| match thread.join() {
                Ok(part) => part,
                Err(panic) => std::panic::resume_unwind(panic),
            }));
            parts
        });
        let parts = parts.into_iter().collect::<Result<Vec<_>>>()?;
        Ok(report(OP, join(OP, &parts)?))
    }
}

/// Concatenates tensors of the host along their first axis.
fn join(op: &'static str, parts: &[Tensor]) -> Result<Tensor> {
    let first = &parts[0];
    if first.rank() == 0 {
        let expected = crate::error::RankNeeded::AtLeast(1);
        return Err(Error::Rank { op, expected, shape: Vec::new() });
    }
    let mut shape = first.shape().to_vec();
    shape[0] = 0;
    for part in parts {
        if part.rank() != first.rank()
            || part.shape()[1..] != first.shape()[1..]
            || part.dtype() != first.dtype()
        {
            return Err(Error::shapes(op, first.shape(), part.shape()));
        }
        shape[0] += part.shape()[0];
    }
    let (len, size) = (crate::layout::elements(&shape)?, first.dtype().size());
    let storage = filled(first.dtype(), len, |buffer| {
        let mut at = 0;
        for part in parts {
            let part = part.contiguous()?;
            let Storage::Cpu(storage) = part.storage() else {
                return Err(Error::Devices {
                    op,
                    left: Device::Cpu.to_string(),
                    right: part.device().to_string(),
                });
            };
            let from = part.layout().offset() * size;
            let bytes = part.len() * size;
            buffer.bytes_mut()[at..at + bytes]
                .copy_from_slice(&storage.bytes()[from..from + bytes]);
            at += bytes;
        }
        Ok(())
    })?;
    Tensor::from_cpu(storage, &shape)
}

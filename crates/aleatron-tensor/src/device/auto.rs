//! The choice between the CPU and a GPU, from measurements.

use std::fmt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::gpu::GpuDevice;
use crate::tensor::Tensor;

/// Describes work for which a device is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Work {
    /// Elementwise operations and reductions over this many elements.
    Elements(usize),
    /// A product of an m x k and a k x n matrix.
    Matmul {
        /// The rows of the left matrix.
        m: usize,
        /// The columns of the left matrix.
        k: usize,
        /// The columns of the right matrix.
        n: usize,
    },
}

impl Work {
    fn size(self) -> u128 {
        match self {
            Self::Elements(elements) => elements as u128,
            Self::Matmul { m, k, n } => m as u128 * k as u128 * n as u128,
        }
    }
}

/// The devices that [`Device::auto`] chose, and the measurements behind the choice.
///
/// The times include the copy of the arguments to the device and of the result back: small work is
/// faster on the CPU, however fast the GPU is. Both kinds of work are timed once in each process,
/// at the first call.
#[derive(Debug, Clone)]
pub struct AutoDevice {
    gpu: std::result::Result<GpuDevice, String>,
    elements: Rule,
    matmul: Rule,
}

/// The size from which on a GPU was faster than the CPU; `None` if it was faster at no measured
/// size.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    gpu_from: Option<u128>,
    /// The size, the time on the CPU and the time on the GPU.
    measured: Vec<(u128, Duration, Duration)>,
}

impl Rule {
    /// Chooses the smallest size from which on the GPU was faster at every larger size.
    fn new(measured: Vec<(u128, Duration, Duration)>) -> Self {
        let faster = measured.iter().rev().take_while(|(_, cpu, gpu)| gpu < cpu);
        let gpu_from = faster.last().map(|(size, ..)| *size);
        Self { gpu_from, measured }
    }

    const NONE: Self = Self { gpu_from: None, measured: Vec::new() };
}

impl AutoDevice {
    /// Returns the device for large work: the GPU if it was faster than the CPU at the largest
    /// measured sizes, otherwise the CPU.
    #[must_use]
    pub fn device(&self) -> Device {
        self.device_for(Work::Elements(usize::MAX))
    }

    /// Returns the device for work of a size.
    #[must_use]
    pub fn device_for(&self, work: Work) -> Device {
        let rule = match work {
            Work::Elements(_) => &self.elements,
            Work::Matmul { .. } => &self.matmul,
        };
        match (&self.gpu, rule.gpu_from) {
            (Ok(gpu), Some(from)) if work.size() >= from => Device::Gpu(gpu.clone()),
            _ => Device::Cpu,
        }
    }

    /// Returns the size from which on work of a kind goes to the GPU: elements, or multiplications
    /// of a matrix product.
    fn describe(
        &self,
        f: &mut fmt::Formatter<'_>,
        what: &str,
        rule: &Rule,
        gpu: &GpuDevice,
    ) -> fmt::Result {
        match (rule.gpu_from, rule.measured.last()) {
            (Some(from), _) => write!(f, "{what}: {gpu} from {from} on, cpu below"),
            (None, Some((size, cpu, time))) => {
                write!(f, "{what}: cpu ({cpu:.1?} for {size}; {gpu} took {time:.1?})")
            }
            (None, None) => write!(f, "{what}: cpu"),
        }
    }
}

impl fmt::Display for AutoDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.gpu {
            Err(reason) => write!(f, "cpu ({reason})"),
            Ok(gpu) => {
                self.describe(f, "elements", &self.elements, gpu)?;
                self.describe(f, "; multiplications of matrices", &self.matmul, gpu)
            }
        }
    }
}

/// Elements whose time is measured.
const ELEMENTS: [usize; 6] = [1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22];

/// Sides of the square matrices whose product is measured.
const SIDES: [usize; 5] = [64, 128, 256, 512, 1024];

/// A GPU that takes longer by this factor is not timed at larger sizes of the same work.
const HOPELESS: u32 = 8;

impl Device {
    /// Chooses between the CPU and [`Device::gpu`] by measuring both at the first call, and reports
    /// the choice.
    ///
    /// ```
    /// use aleatron_tensor::{DType, Device, Tensor, Work};
    ///
    /// let auto = Device::auto();
    /// println!("{auto}"); // elements: gpu:0 (NVIDIA H200) from 1048576 on, cpu below; …
    /// let x = Tensor::ones(&[8], DType::F32, &auto.device_for(Work::Elements(8)))?;
    /// assert_eq!(x.device(), Device::Cpu); // 8 elements are too few for any GPU
    /// # Ok::<(), aleatron_tensor::Error>(())
    /// ```
    pub fn auto() -> &'static AutoDevice {
        static AUTO: OnceLock<AutoDevice> = OnceLock::new();
        AUTO.get_or_init(|| choose(Device::gpu()))
    }
}

fn choose(gpu: Result<Device>) -> AutoDevice {
    let gpu = match gpu {
        Ok(Device::Gpu(gpu)) => gpu,
        Ok(Device::Cpu) => return only_cpu("no GPU"),
        Err(error) => return only_cpu(&error.to_string()),
    };
    let rules = measure(&ELEMENTS, &gpu, |&n| n as u128, elementwise).and_then(|elements| {
        Ok((elements, measure(&SIDES, &gpu, |&n| (n as u128).pow(3), product)?))
    });
    match rules {
        Ok((elements, matmul)) => AutoDevice { gpu: Ok(gpu), elements, matmul },
        // A GPU that fails here would fail at the user's work.
        Err(error) => only_cpu(&format!("{gpu}: {error}")),
    }
}

fn only_cpu(reason: &str) -> AutoDevice {
    AutoDevice { gpu: Err(reason.to_owned()), elements: Rule::NONE, matmul: Rule::NONE }
}

fn measure(
    sizes: &[usize],
    gpu: &GpuDevice,
    size: impl Fn(&usize) -> u128,
    work: impl Fn(usize, &Device) -> Result<()>,
) -> Result<Rule> {
    let gpu = Device::Gpu(gpu.clone());
    let mut measured = Vec::with_capacity(sizes.len());
    for n in sizes {
        let (cpu, accelerated) = (time(|| work(*n, &Device::Cpu))?, time(|| work(*n, &gpu))?);
        measured.push((size(n), cpu, accelerated));
        // The GPU is timed up to the middle of the sizes at least: its fixed costs weigh less and
        // less.
        if measured.len() > sizes.len() / 2 && accelerated > HOPELESS * cpu {
            break;
        }
    }
    Ok(Rule::new(measured))
}

/// Returns the shorter of two times, after a run that compiles the kernels.
fn time(work: impl Fn() -> Result<()>) -> Result<Duration> {
    work()?;
    let mut shortest = Duration::MAX;
    for _ in 0..2 {
        let start = Instant::now();
        work()?;
        shortest = shortest.min(start.elapsed());
    }
    Ok(shortest)
}

fn elementwise(n: usize, device: &Device) -> Result<()> {
    let x = Tensor::ones(&[n], DType::F32, &Device::Cpu)?.to_device(device)?;
    x.mul(0.5)?.add(1.0)?.tanh()?.to_vec::<f32>().map(drop)
}

fn product(n: usize, device: &Device) -> Result<()> {
    let x = Tensor::ones(&[n, n], DType::F32, &Device::Cpu)?.to_device(device)?;
    x.matmul(&x)?.to_vec::<f32>().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpu_is_chosen_from_the_size_on_at_which_it_stays_faster() {
        let rule = |times: &[(u64, u64)]| {
            let ms = Duration::from_millis;
            let measured = times.iter().enumerate();
            Rule::new(measured.map(|(i, &(cpu, gpu))| (1 << i, ms(cpu), ms(gpu))).collect())
                .gpu_from
        };
        assert_eq!(rule(&[(1, 5), (4, 5), (9, 5), (20, 6)]), Some(4));
        // An outlier at a smaller size is ignored.
        assert_eq!(rule(&[(6, 5), (4, 5), (9, 5)]), Some(4));
        assert_eq!(rule(&[(1, 5), (9, 5), (4, 6)]), None);
        assert_eq!(rule(&[(2, 1)]), Some(1));
        assert_eq!(rule(&[]), None);
    }

    #[test]
    fn choice_without_a_gpu_names_the_reason() {
        let auto = choose(Device::named("tpu"));
        assert_eq!(
            (auto.device(), auto.device_for(Work::Elements(1 << 40))),
            (Device::Cpu, Device::Cpu)
        );
        assert!(
            auto.to_string().starts_with("cpu (") && auto.to_string().contains("tpu"),
            "{auto}"
        );
    }
}

//! Shared helpers of the tests: devices, random values and derived bounds.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::sync::OnceLock;

use aleatron_core::philox::philox4x32;
use aleatron_device::{AdapterChoice, Capabilities, Checks, ContextOptions};
use aleatron_tensor::{Device, GpuDevice, Tensor};

/// Returns the adapter that the environment names, otherwise Mesa's software one. A missing adapter
/// is a failure: these tests must run.
pub fn choice() -> AdapterChoice {
    match AdapterChoice::from_env() {
        AdapterChoice::Strongest => AdapterChoice::named("llvmpipe"),
        named => named,
    }
}

pub fn gpu() -> Device {
    Device::gpu_of(&choice()).unwrap_or_else(|error| {
        panic!("{error}\nGPU tests need an adapter: apt-get install mesa-vulkan-drivers libvulkan1")
    })
}

/// Opens a separate device.
pub fn own_gpu(options: &ContextOptions) -> Device {
    Device::Gpu(GpuDevice::open(&choice(), options).unwrap())
}

/// Opens a device that checks every kernel at run time: kernels without checks must give equal
/// results.
pub fn checked_gpu() -> Device {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    let options = ContextOptions { checks: Checks::Always, ..ContextOptions::default() };
    DEVICE.get_or_init(|| own_gpu(&options)).clone()
}

/// Returns a device without optional abilities whose bindings hold 64 KiB.
pub fn plain_gpu() -> Device {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    let options = ContextOptions {
        capabilities: Capabilities::NONE,
        max_binding_bytes: Some(1 << 16),
        ..ContextOptions::default()
    };
    DEVICE.get_or_init(|| own_gpu(&options)).clone()
}

/// Returns the CPU and the GPU.
pub fn devices() -> Vec<Device> {
    vec![Device::Cpu, gpu()]
}

/// Returns the CPU and every kind of GPU.
pub fn all_devices() -> Vec<Device> {
    vec![Device::Cpu, gpu(), checked_gpu(), plain_gpu()]
}

/// A sequence of random values.
pub struct Draw {
    seed: u32,
    next: u32,
}

impl Draw {
    pub fn new(seed: u32) -> Self {
        Self { seed, next: 0 }
    }

    pub fn word(&mut self) -> u32 {
        let word = philox4x32([self.next / 4, 0, 0, 0], [self.seed, 11])[self.next as usize % 4];
        self.next += 1;
        word
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.word() as usize % n
    }

    /// Between the two.
    pub fn float(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * (self.word() >> 8) as f32 / 16_777_216.0
    }

    pub fn floats(&mut self, n: usize, low: f32, high: f32) -> Vec<f32> {
        (0..n).map(|_| self.float(low, high)).collect()
    }

    pub fn ints(&mut self, n: usize, low: i32, high: i32) -> Vec<i32> {
        (0..n).map(|_| low + (self.word() % (high - low) as u32) as i32).collect()
    }
}

/// Returns the views that a tensor of these elements is tried as: in order, transposed storage,
/// with gaps, flipped, offset.
pub fn views(data: &[f32], shape: &[usize], device: &Device) -> Vec<(&'static str, Tensor)> {
    let whole = Tensor::from_slice(data, shape, device).unwrap();
    let mut all = vec![("in order", whole.clone())];
    if shape.is_empty() {
        return all;
    }
    let rank = shape.len() as isize;
    let back: Vec<isize> = (0..rank).rev().collect();
    all.push((
        "transposed",
        whole.permute(&back).unwrap().contiguous().unwrap().permute(&back).unwrap(),
    ));
    // Every second element of a tensor twice as long, after one element.
    let mut wide = shape.to_vec();
    let last = shape[shape.len() - 1];
    wide[shape.len() - 1] = 2 * last + 1;
    let mut spread = vec![f32::NAN; data.len() / last.max(1) * (2 * last + 1)];
    for (i, &x) in data.iter().enumerate() {
        spread[i / last * (2 * last + 1) + 1 + 2 * (i % last)] = x;
    }
    let spread = Tensor::from_slice(&spread, &wide, device).unwrap();
    let slice = aleatron_tensor::Slice::from(1..2 * last + 1).step(2);
    all.push(("with gaps", spread.slice(-1, slice).unwrap()));
    let flipped = whole.flip(0).unwrap().contiguous().unwrap().flip(0).unwrap();
    all.push(("flipped", flipped));
    all
}

/// Checks values against exact ones, each within its bound; NaN and infinities must be the same.
#[track_caller]
pub fn assert_within(what: &str, got: &[f32], want: &[f64], bound: impl Fn(usize) -> f64) {
    assert_eq!(got.len(), want.len(), "{what}: number of elements");
    for (i, (&got, &want)) in got.iter().zip(want).enumerate() {
        let is_right = if want.is_nan() {
            got.is_nan()
        } else if want.is_infinite() {
            f64::from(got) == want
        } else {
            (f64::from(got) - want).abs() <= bound(i)
        };
        assert!(is_right, "{what}: element {i} is {got:e}, want {want:e} within {:e}", bound(i));
    }
}

/// The unit roundoff of 32-bit floats.
pub const U: f64 = 5.960_464_477_539_063e-8;

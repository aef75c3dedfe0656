//! Sizes around the limits of devices, and sizes above them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use aleatron_device::ContextOptions;
use aleatron_tensor::{DType, Device, Error, Tensor};
use common::{gpu, own_gpu};

/// Small integers that floats hold, for indices.
fn pattern(n: usize, device: &Device) -> Tensor {
    let row = Tensor::arange(0, 1000, 1, DType::F32, device).unwrap();
    let rows = n.div_ceil(1000);
    row.broadcast_to(&[rows, 1000]).unwrap().reshape(&[rows * 1000]).unwrap().slice(0, ..n).unwrap()
}

#[test]
fn elementwise_around_sixteen_mi_elements() {
    // 65,535 workgroups of 256 threads with one element each end at 16,776,960.
    for n in [16_776_959, 16_776_961, (16 << 20) + 3] {
        let device = gpu();
        let y = pattern(n, &device).mul(2.0).unwrap().relu().unwrap();
        for index in [0, 1, 999, 1000, n / 2, n - 2, n - 1] {
            let got = y.slice(0, index..index + 1).unwrap().item::<f32>().unwrap();
            assert_eq!(got, 2.0 * (index % 1000) as f32, "element {index} of {n}");
        }
        let whole = n / 1000 * 1000;
        let sum: f64 = (n / 1000) as f64 * 999_000.0;
        let got = y.slice(0, ..whole).unwrap().reshape(&[n / 1000, 1000]).unwrap().sum(1).unwrap();
        let total: f64 = got.to_vec::<f32>().unwrap().iter().map(|x| f64::from(*x)).sum();
        assert_eq!(total, sum);
    }
}

#[test]
fn buffers_past_the_largest_binding_are_bound_in_parts() {
    // 40 Mi floats are 160 MiB, more than the 128 MiB that the reference device binds.
    let device = gpu();
    let n = (40 << 20) + 5;
    let x = pattern(n, &device).contiguous().unwrap();
    let y = x.add(1.0).unwrap();
    for index in [0, (32 << 20) - 1, 32 << 20, (32 << 20) + 1, n - 1] {
        assert_eq!(
            y.slice(0, index..index + 1).unwrap().item::<f32>().unwrap(),
            (index % 1000 + 1) as f32
        );
    }
    // Small bindings: everything is bound in parts.
    let small =
        own_gpu(&ContextOptions { max_binding_bytes: Some(1 << 12), ..ContextOptions::default() });
    let x = pattern(2500, &small).contiguous().unwrap();
    let want: Vec<f32> = (0..2500).map(|i| (i % 1000) as f32).collect();
    assert_eq!(x.to_vec::<f32>().unwrap(), want);
    let t = x.reshape(&[50, 50]).unwrap().t().unwrap().add(0.0).unwrap();
    assert_eq!(t.to_vec::<f32>().unwrap()[1], 50.0);
    assert_eq!(x.max_all().unwrap().item::<f32>().unwrap(), 999.0);
    let halves = x.cast(DType::F16).unwrap().cast(DType::F32).unwrap();
    assert_eq!(halves.to_vec::<f32>().unwrap(), want);
}

#[test]
fn exhausted_memory_is_an_error_that_later_operations_survive() {
    for device in [Device::Cpu, gpu()] {
        for shape in [&[1usize << 40][..], &[usize::MAX], &[1 << 30, 1 << 20], &[1 << 62, 8]] {
            let refused = Tensor::ones(shape, DType::F32, &device)
                .and_then(|x| x.contiguous()?.to_vec::<f32>());
            assert!(
                matches!(
                    &refused,
                    Err(Error::Memory { .. } | Error::TooLarge { .. } | Error::Device(_))
                ),
                "{shape:?} on {device}: {:?}",
                refused.map(|_| ())
            );
        }
        let one = Tensor::ones(&[1], DType::F32, &device).unwrap();
        // A view of any size needs no memory, but its elements do.
        let wide = one.broadcast_to(&[1 << 50]).unwrap();
        assert!(wide.add(1.0).is_err());
        assert_eq!(one.add(1.0).unwrap().item::<f32>().unwrap(), 2.0);
    }
    assert!(Tensor::ones(&[1; 65], DType::F32, &Device::Cpu).is_err());
}

#[test]
fn axes_of_size_zero_and_one() {
    for device in [Device::Cpu, gpu()] {
        let none = Tensor::zeros(&[3, 0, 2], DType::F32, &device).unwrap();
        assert_eq!(none.transpose(0, 2).unwrap().reshape(&[0]).unwrap().len(), 0);
        assert_eq!(
            none.add(&Tensor::ones(&[1, 1, 2], DType::F32, &device).unwrap()).unwrap().shape(),
            [3, 0, 2]
        );
        assert_eq!(none.contiguous().unwrap().to_vec::<f32>().unwrap().len(), 0);
        let one = Tensor::full(&[1, 1, 1], 2.5, DType::F32, &device).unwrap();
        assert_eq!(one.t().unwrap().squeeze(0).unwrap().item::<f32>().unwrap(), 2.5);
    }
}

//! Random tensors: the same everywhere, and distributed as they should be.

use crate::common::devices;
use aleatron_tensor::{DType, Device, Error, Tensor};
use half::f16;

#[test]
fn values_are_the_same_on_every_device_and_in_every_shape() {
    for make in [Tensor::rand_seeded, Tensor::randn_seeded] {
        let want = make(&[1003], 42, DType::F32, &Device::Cpu).unwrap().to_vec::<f32>().unwrap();
        for device in devices() {
            let x = make(&[17, 59], 42, DType::F32, &device).unwrap();
            assert_eq!(x.device(), device);
            assert_eq!(x.to_vec::<f32>().unwrap(), want);
            let halves = make(&[1003], 42, DType::F16, &device).unwrap().to_vec::<f16>().unwrap();
            assert!(halves.iter().zip(&want).all(|(h, x)| *h == f16::from_f32(*x)));
            assert_ne!(
                make(&[1003], 43, DType::F32, &device).unwrap().to_vec::<f32>().unwrap(),
                want
            );
        }
        assert!(matches!(make(&[3], 1, DType::I32, &Device::Cpu), Err(Error::DType { .. })));
        assert_eq!(make(&[0, 2], 1, DType::F32, &Device::Cpu).unwrap().len(), 0);
    }
}

#[test]
fn moments_of_random_tensors_match_their_distribution() {
    let n = 1 << 20;
    let item = |x: Tensor| f64::from(x.item::<f32>().unwrap());
    let uniform = Tensor::rand_seeded(&[n], 1, DType::F32, &Device::Cpu).unwrap();
    // Five standard deviations of the mean of this many values, and the rounding of the sum.
    let five = |variance: f64| 5.0 * (variance / n as f64).sqrt() + 4e-5;
    assert!((item(uniform.mean_all().unwrap()) - 0.5).abs() < five(1.0 / 12.0));
    assert!(item(uniform.min_all().unwrap()) >= 0.0 && item(uniform.max_all().unwrap()) < 1.0);
    let normal = Tensor::randn_seeded(&[n], 1, DType::F32, &Device::Cpu).unwrap();
    assert!(item(normal.mean_all().unwrap()).abs() < five(1.0));
    // The square of a normal variable has variance 2, its fourth power 96.
    assert!((item(normal.square().unwrap().mean_all().unwrap()) - 1.0).abs() < five(2.0));
    let fourth = normal.square().unwrap().square().unwrap();
    assert!((item(fourth.mean_all().unwrap()) - 3.0).abs() < five(96.0) + 1e-4);
    let neighbours = normal.slice(0, 1..).unwrap().mul(&normal.slice(0, ..n - 1).unwrap()).unwrap();
    assert!(item(neighbours.mean_all().unwrap()).abs() < five(1.0));
}

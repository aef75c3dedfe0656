//! A build without the cargo feature `gpu`: tensors on the CPU, and an error for every request of a
//! GPU.
#![cfg(not(feature = "gpu"))]

use aleatron_tensor::{DType, Device, Error, Order, Tensor, Work};

#[test]
fn gpu_device_without_the_feature_is_an_error_that_names_it() {
    assert_eq!(Device::gpu(), Err(Error::NoGpuSupport));
    for name in ["gpu", "GPU", "gpu:0", "gpu:llvmpipe"] {
        let error = Device::named(name).unwrap_err();
        assert_eq!(error, Error::NoGpuSupport);
        assert!(error.to_string().contains("cargo feature `gpu`"), "{error}");
    }
    assert_eq!(Device::named("cpu"), Ok(Device::Cpu));
    assert!(matches!(Device::named("tpu"), Err(Error::Name { .. })));
}

#[test]
fn automatic_device_without_the_feature_is_the_cpu() {
    let auto = Device::auto();
    assert_eq!(
        (auto.device(), auto.device_for(Work::Elements(1 << 40))),
        (Device::Cpu, Device::Cpu)
    );
    assert!(auto.to_string().contains("cargo feature `gpu`"), "{auto}");
}

#[test]
fn operations_run_on_the_cpu() {
    let x = Tensor::arange(0, 6, 1, DType::F32, &Device::Cpu).unwrap().reshape(&[2, 3]).unwrap();
    let product = x.matmul(&x.t().unwrap()).unwrap();
    assert_eq!(product.to_vec::<f32>().unwrap(), [5.0, 14.0, 14.0, 50.0]);
    let sorted = x.sort(1, Order::Descending).unwrap().cumsum(1).unwrap();
    assert_eq!(sorted.to_vec::<f32>().unwrap(), [2.0, 3.0, 3.0, 5.0, 9.0, 12.0]);
    let joined = Tensor::concat(&[&x, &x.mul(2.0).unwrap()], 0).unwrap().max(0).unwrap();
    assert_eq!(joined.to_vec::<f32>().unwrap(), [6.0, 8.0, 10.0]);
    assert_eq!(x.to_device(&Device::Cpu).unwrap().softmax(&[1]).unwrap().device(), Device::Cpu);
}

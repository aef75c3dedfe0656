//! The names of other libraries: their example and tests, with another import.

use aleatron_tensor::compat::{self, Device, GpuBackend, GpuBuffer, GpuKernels, RawTensor, TensorOps};
use aleatron_tensor::{Error, compat::runtime};

/// Every test here uses the GPU that the environment names, else Mesa's software one.
fn named_adapter() {
    if std::env::var_os("SC_GPU_ADAPTER").is_none() && std::env::var_os("ALEATRON_GPU").is_none() {
        panic!("name an adapter: SC_GPU_ADAPTER=llvmpipe");
    }
    assert!(compat::is_gpu_available());
}

#[test]
fn test_gpu_buffer_roundtrip() {
    named_adapter();
    let data = vec![1.0, 2.0, 3.0, 4.0];
    let buffer = GpuBuffer::from_slice(&data).unwrap();
    assert_eq!(data, buffer.to_vec());
    assert_eq!(GpuBuffer::zeros(5).unwrap().to_vec(), [0.0; 5]);
    assert_eq!(GpuBuffer::from_slice(&[]).unwrap().to_vec(), [0f32; 0]);
}

#[test]
fn test_gpu_add() {
    named_adapter();
    let a = GpuBuffer::from_slice(&[1.0, 2.0, 3.0, 4.0]).unwrap();
    let b = GpuBuffer::from_slice(&[5.0, 6.0, 7.0, 8.0]).unwrap();
    let c = GpuKernels::binary_op(&a, &b, "add").unwrap();
    assert_eq!(c.to_vec(), vec![6.0, 8.0, 10.0, 12.0]);
    // Names that nothing has, and lengths that do not fit, are refused.
    assert!(GpuKernels::binary_op(&a, &b, "plus").is_none());
    assert!(GpuKernels::binary_op(&a, &b, "equal").is_none());
    assert!(GpuKernels::unary_op(&a, "").is_none());
    assert!(GpuKernels::binary_op(&a, &GpuBuffer::zeros(3).unwrap(), "add").is_none());
    assert_eq!(GpuKernels::unary_op(&a, "neg").unwrap().to_vec(), [-1.0, -2.0, -3.0, -4.0]);
    assert_eq!(GpuKernels::sum(&GpuBuffer::from_slice(&vec![1.0; 1 << 20]).unwrap()), Some(1_048_576.0));
}

#[test]
fn test_gpu_matmul() {
    named_adapter();
    let a = GpuBuffer::from_slice(&[1.0, 2.0, 3.0, 4.0]).unwrap();
    let b = GpuBuffer::from_slice(&[5.0, 6.0, 7.0, 8.0]).unwrap();
    let c = GpuKernels::matmul(&a, &b, 2, 2, 2).unwrap();
    assert_eq!(c.to_vec(), vec![19.0, 22.0, 43.0, 50.0]);
    assert!(GpuKernels::matmul(&a, &b, 2, 3, 2).is_none());
}

#[test]
fn the_usage_example() {
    named_adapter();
    let a = RawTensor::randn(&[100, 100]);
    let b = RawTensor::randn(&[100, 100]);
    let a_gpu = a.to_device(Device::GPU("default".to_string()));
    let b_gpu = b.to_device(Device::GPU("default".to_string()));
    let c_gpu = a_gpu.matmul(&b_gpu);
    assert!(c_gpu.get().unwrap().device().is_gpu());
    let c_cpu = c_gpu.to_device(Device::CPU);
    assert_eq!(c_cpu.borrow().shape, [100, 100]);
    assert_eq!(c_cpu.get().unwrap().device(), aleatron_tensor::Device::Cpu);
    // A bias stays where the product is.
    let bias = RawTensor::new(&[1.0; 100], &[100]).to_device(Device::GPU("default".to_string()));
    assert!(c_gpu.add(&bias).get().unwrap().device().is_gpu());
    // Errors are kept, not hidden.
    let wrong = a.matmul(&RawTensor::new(&[1.0; 6], &[2, 3])).relu();
    assert!(wrong.get().is_err());
    assert!(matches!(a.add(&b_gpu).get(), Err(Error::Devices { .. })));
    assert!(a.to_device(Device::GPU("no such adapter".to_string())).get().is_err());
}

#[test]
fn slices_in_vectors_out() {
    named_adapter();
    let mut backend = GpuBackend::new();
    assert_eq!(backend.vec_add(&[1.0, 2.0], &[3.0, 4.0]).unwrap(), [4.0, 6.0]);
    assert!(backend.vec_add(&[1.0, 2.0], &[3.0]).is_err());
    assert_eq!(backend.dot(&vec![1.0; 1000], &vec![2.0; 1000]).unwrap(), 2000.0);
    assert_eq!(backend.relu(&[]).unwrap(), [0f32; 0]);
    assert_eq!(backend.matmul(&[1.0, 2.0], &[3.0, 4.0], 1, 2, 1).unwrap(), [11.0]);
    assert!(matches!(backend.matmul(&[1.0], &[3.0, 4.0], 1, 2, 1), Err(Error::Elements { .. })));
    // Relative accuracy near 0.
    let tiny = backend.tanh(&[3e-8, 1e-5]).unwrap();
    assert!((f64::from(tiny[0]) / 3e-8 - 1.0).abs() < 1e-6 && (f64::from(tiny[1]) / 1e-5 - 1.0).abs() < 1e-6);
    assert_eq!(backend.softmax(&[1.0, 1.0, 1.0, 1.0]).unwrap(), [0.25; 4]);
    assert_eq!(backend.convolve2d(&[1.0, 2.0, 3.0, 4.0], &[1.0, 1.0], [2, 2], [1, 2]).unwrap(), [3.0, 7.0]);
    let data: Vec<f32> = (0..35).map(|x| x as f32).collect();
    assert_eq!(backend.tiled_sum_2d_gpu(&data, 7, 5).unwrap(), compat::tiled_sum_2d(&data, 7, 5).unwrap());
    assert_eq!(backend.tiled_max_2d_gpu(&[f32::NEG_INFINITY; 4], 2, 2).unwrap(), f32::NEG_INFINITY);
    assert!(compat::tiled_sum_2d(&data[..30], 7, 5).is_err());
    assert_eq!(compat::tiled_reduce_partial::<compat::MaxOp>(&data, 7, 5).unwrap(), [34.0]);
}

#[test]
fn futures_run_in_any_executor() {
    named_adapter();
    let x = aleatron_tensor::Tensor::from_slice(&[1.0f32, 4.0], &[2], &crate::common::gpu()).unwrap();
    let read = x.sqrt().unwrap().start_read::<f32>().unwrap();
    assert_eq!(runtime::block_on(read).unwrap(), [1.0, 2.0]);
    assert!(runtime::sync_available());
    assert!(compat::shaders::EXPONENTIALS.contains("fn m_exp"));
}

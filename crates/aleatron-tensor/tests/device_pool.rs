//! Results of several devices equal those of one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use aleatron_device::ContextOptions;
use aleatron_tensor::{ConvOptions, DType, Device, Error, GpuDevice, GpuDevicePool, Tensor};
use common::{Draw, choice};

fn pool(n: usize) -> GpuDevicePool {
    let open = |_| GpuDevice::open(&choice(), &ContextOptions::default()).unwrap();
    GpuDevicePool::of((0..n).map(open).collect()).unwrap()
}

#[test]
fn sharded_products_equal_those_of_one_device() {
    let mut draw = Draw::new(61);
    let pool = pool(3);
    assert_eq!((pool.len(), pool.is_empty(), pool.iter().len()), (3, false, 3));
    let one = Device::Gpu(pool.get(0).unwrap().clone());
    for rows in [0, 1, 2, 3, 10, 131] {
        let left =
            Tensor::from_slice(&draw.floats(rows * 40, -1.0, 1.0), &[rows, 40], &Device::Cpu)
                .unwrap();
        let right =
            Tensor::from_slice(&draw.floats(40 * 24, -1.0, 1.0), &[40, 24], &Device::Cpu).unwrap();
        let got = pool.matmul(&left, &right).unwrap();
        assert_eq!((got.shape(), got.device()), (&[rows, 24][..], Device::Cpu));
        let want = left.to_device(&one).unwrap().matmul(&right.to_device(&one).unwrap()).unwrap();
        assert_eq!(got.to_vec::<f32>().unwrap(), want.to_vec::<f32>().unwrap(), "{rows} rows");
    }
}

#[test]
fn batch_parts_are_concatenated_in_order() {
    let mut draw = Draw::new(62);
    let pool = pool(2);
    let batch =
        Tensor::from_slice(&draw.floats(5 * 2 * 6 * 6, -1.0, 1.0), &[5, 2, 6, 6], &Device::Cpu)
            .unwrap();
    let weight =
        Tensor::from_slice(&draw.floats(3 * 2 * 3 * 3, -1.0, 1.0), &[3, 2, 3, 3], &Device::Cpu)
            .unwrap();
    let convolve = |device: &Device, part: &Tensor| {
        part.conv2d(&weight.to_device(device)?, None, &ConvOptions::default())?.relu()
    };
    let got = pool.map_batch(&batch, convolve).unwrap();
    let one = Device::Gpu(pool.get(1).unwrap().clone());
    let want = convolve(&one, &batch.to_device(&one).unwrap()).unwrap();
    assert_eq!(got.shape(), want.shape());
    assert_eq!(got.to_vec::<f32>().unwrap(), want.to_vec::<f32>().unwrap());
    let failed = pool.map_batch(&batch, |_, part| part.reshape(&[7]));
    assert!(matches!(failed, Err(Error::Reshape { .. })));
}

#[test]
fn invalid_arguments_of_a_pool_are_errors() {
    assert!(matches!(GpuDevicePool::of(Vec::new()), Err(Error::Argument { .. })));
    assert!(matches!(GpuDevicePool::with_indices(&[10_000]), Err(Error::Device(_))));
    let pool = pool(1);
    let device = Device::Gpu(pool.get(0).unwrap().clone());
    let there = Tensor::ones(&[2, 2], DType::F32, &device).unwrap();
    let here = Tensor::ones(&[2, 2], DType::F32, &Device::Cpu).unwrap();
    assert!(matches!(pool.matmul(&there, &here), Err(Error::Devices { .. })));
    assert!(matches!(pool.matmul(&here, &there), Err(Error::Devices { .. })));
    assert!(matches!(pool.matmul(&here, &here.select(0, 0).unwrap()), Err(Error::Shapes { .. })));
    assert!(matches!(
        pool.map_batch(&Tensor::ones(&[], DType::F32, &Device::Cpu).unwrap(), |_, x| Ok(x.clone())),
        Err(Error::Rank { .. })
    ));
    assert_eq!(pool.adapter_index(0), Some(pool.get(0).unwrap().info().index));
    assert_eq!((pool.adapter_index(1), pool.into_devices().len()), (None, 1));
}

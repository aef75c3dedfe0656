//! Explicit batches: operations are submitted together, and handles are checked.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use aleatron_device::ContextOptions;
use aleatron_tensor::{Device, Error, GpuCommandBatch, GpuDevice, Tensor};
use common::own_gpu;

fn device() -> GpuDevice {
    let Device::Gpu(gpu) = own_gpu(&ContextOptions::default()) else { unreachable!() };
    gpu
}

#[test]
fn nothing_is_submitted_before_execute() {
    let gpu = device();
    let mut batch = GpuCommandBatch::new(&gpu);
    let x = batch.upload(&[1.0f32, -2.0, 3.0]).unwrap();
    let mut y = x;
    for _ in 0..300 {
        y = batch.relu(y).unwrap();
        y = batch.scale(y, 1.0).unwrap();
    }
    let z = batch.add(y, x).unwrap();
    assert_eq!((batch.num_operations(), gpu.submissions()), (601, 0));
    batch.execute().unwrap();
    assert_eq!(gpu.submissions(), 1);
    // 601 operations are fused to kernels of dozens.
    assert!(gpu.launches() <= 601 / 20, "{}", gpu.launches());
    assert_eq!(batch.read::<f32>(z).unwrap(), [2.0, -2.0, 6.0]);
    assert_eq!(batch.read::<f32>(x).unwrap(), [1.0, -2.0, 3.0]);
}

#[test]
fn dot_products_of_any_length_match() {
    let gpu = device();
    for n in [1usize, 255, 256, 257, 1024, 100_000] {
        let mut batch = GpuCommandBatch::new(&gpu);
        let ones = batch.upload(&vec![1.0f32; n]).unwrap();
        let twos = batch.scale(ones, 2.0).unwrap();
        let dot = batch.dot(ones, twos).unwrap();
        batch.execute().unwrap();
        assert_eq!(batch.read::<f32>(dot).unwrap(), [2.0 * n as f32]);
    }
}

#[test]
fn network_runs_in_one_batch() {
    let gpu = device();
    let mut batch = GpuCommandBatch::new(&gpu);
    let x = batch.upload(&[1.0f32, 2.0, 3.0, 4.0]).unwrap();
    let w = batch.upload(&[1.0f32, -1.0, 0.5, 2.0, -3.0, 0.0]).unwrap();
    let y = batch.matmul(x, w, 2, 2, 3).unwrap();
    let y = batch.relu(y).unwrap();
    batch.execute().unwrap();
    assert_eq!(gpu.submissions(), 1);
    assert_eq!(batch.read::<f32>(y).unwrap(), [5.0, 0.0, 0.5, 11.0, 0.0, 1.5]);
    assert!(batch.matmul(x, w, 3, 2, 3).is_err());
}

#[test]
fn foreign_and_stale_buffer_ids_are_errors() {
    let gpu = device();
    let [mut one, mut other] = [GpuCommandBatch::new(&gpu), GpuCommandBatch::new(&gpu)];
    let a = one.upload(&[1.0f32]).unwrap();
    let b = other.upload(&[2.0f32]).unwrap();
    assert!(matches!(one.relu(b), Err(Error::Handle { index: 0, .. })));
    assert!(matches!(other.read::<f32>(a), Err(Error::Handle { .. })));
    assert!(matches!(one.add(a, b), Err(Error::Handle { .. })));
    assert_eq!(one.num_operations(), 0);
    one.reset();
    assert!(matches!(one.relu(a), Err(Error::Handle { round: 0, current: 1, .. })));
    let c = one.upload(&[5.0f32]).unwrap();
    assert_ne!(a, c);
    let d = one.gelu(c).unwrap();
    one.execute().unwrap();
    assert!((one.read::<f32>(d).unwrap()[0] - 5.0).abs() < 1e-5);
    let elsewhere = Tensor::from_slice(&[1.0f32], &[1], &Device::Cpu).unwrap();
    assert!(matches!(one.import(&elsewhere), Err(Error::Devices { .. })));
    let short = one.upload(&[1.0f32, 2.0]).unwrap();
    assert!(matches!(one.dot(c, short), Err(Error::Shapes { op: "dot", .. })));
}

#[test]
fn repeated_batches_create_no_new_objects() {
    let gpu = device();
    let run = |gpu: &GpuDevice| {
        let mut batch = GpuCommandBatch::new(gpu);
        let x = batch.upload(&vec![0.5f32; 5000]).unwrap();
        let y = batch.apply([x], |[x]| x.reshape(&[50, 100])?.softmax(&[1])).unwrap();
        let z = batch.sum(y).unwrap();
        if let Some(done) = batch.execute_async().unwrap() {
            pollster::block_on(done).unwrap();
        }
        batch.read::<f32>(z).unwrap()[0]
    };
    let first = run(&gpu);
    assert!((first - 50.0).abs() < 1e-4);
    let created = gpu.context().created();
    for _ in 0..10 {
        assert_eq!(run(&gpu), first);
    }
    assert_eq!(gpu.context().created().pipelines, created.pipelines);
    assert_eq!(gpu.context().created().buffers, created.buffers);
}

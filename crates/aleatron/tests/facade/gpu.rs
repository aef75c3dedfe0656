//! Names that other systems document, on a GPU. A missing adapter is a failure.
#![cfg(feature = "gpu")]

use aleatron::compat::GpuDenseLayer;
use aleatron::gpu::{AdapterChoice, GpuContext};
use aleatron::{CoreError, Device, EngineError, StreamLayer};

fn values(n: usize) -> Vec<f64> {
    (0..n).map(|i| (i * 37 % 101) as f64 / 100.0).collect()
}

#[test]
fn documented_names_run_on_the_default_gpu() {
    // The default device of this machine is the one that the environment names.
    if AdapterChoice::from_env() == AdapterChoice::Strongest {
        return assert!(GpuDenseLayer::new(64, 32, 1024, 42, 4).is_err());
    }
    assert!(GpuDenseLayer::is_gpu_available());
    let layer = GpuDenseLayer::new(64, 32, 1024, 42, 4).unwrap();
    assert!(GpuDenseLayer::try_new(64, 32, 1024, 42, 4).is_some());
    assert!(GpuDenseLayer::try_new(64, 32, 0, 42, 4).is_none());
    let cpu = StreamLayer::dense(64, 32).length(1024).seed(42).device(Device::Cpu).build().unwrap();
    assert_eq!(layer.forward_gpu(&values(64), 1).unwrap(), cpu.forward(&values(64), 1).unwrap());
    let x = values(64 * 5);
    assert_eq!(layer.forward_batch_gpu(&x, 5, 1).unwrap(), cpu.forward_batch(&x, 1).unwrap());
    assert!(matches!(
        layer.forward_batch_gpu(&x, 6, 1),
        Err(EngineError::Core(CoreError::Mismatch { expected: 384, actual: 320, .. }))
    ));
    assert_eq!(layer.forward_gpu(&[0.0; 64], 1).unwrap(), [0.0; 32]);
    assert_ne!(
        layer.forward_gpu(&values(64), 1).unwrap(),
        layer.forward_gpu(&values(64), 2).unwrap()
    );
    let context = GpuContext::get(&AdapterChoice::from_env()).unwrap();
    assert_eq!(layer.gpu_name(), context.name());
}

//! A forked process, in a separate program: the fork mark applies to the whole process.
#![allow(clippy::unwrap_used, clippy::panic)]

use aleatron::backend::{after_fork, devices, is_forked, open};
use aleatron::{CoreError, Device, StreamLayer};
use aleatron_core::BackendFault;

/// One test, since there is one process.
#[test]
fn forked_process_has_only_the_cpu() {
    let builder = StreamLayer::dense(3, 2).length(100).seed(4);
    let layer = builder.clone().device(Device::Cpu).build().unwrap();
    let x = [0.25, 0.5, 1.0];
    let expected = layer.counts(&x, 7).unwrap();
    assert!(!is_forked());
    after_fork();
    assert!(is_forked() && devices().is_empty());
    // Layers built before and after the fork count the same.
    assert_eq!(layer.counts(&x, 7).unwrap(), expected);
    for device in [Device::Cpu, Device::Auto] {
        assert_eq!(
            builder.clone().device(device).build().unwrap().counts(&x, 7).unwrap(),
            expected
        );
    }
    for device in ["gpu", "cuda:0", "cpu,gpu"] {
        let error = open(&device.parse().unwrap()).unwrap_err();
        let Some(CoreError::Backend { backend, fault, message }) = error.core() else {
            panic!("{device}: {error}")
        };
        assert_eq!((backend.as_str(), *fault), (device, BackendFault::Unavailable));
        assert!(message.contains("forked process"), "{message}");
    }
}

//! CUDA GPUs by name, and the error if there is none.
#![cfg(feature = "cuda")]

use aleatron_core::{BackendFault, Error as CoreError};
use aleatron_engine::backend::{cuda_absence, devices};
use aleatron_engine::{Device, Error, StreamLayer};

#[test]
fn cuda_device_names_round_trip_through_text() {
    for (text, device) in
        [("cuda", Device::Cuda(0)), ("cuda:0", Device::Cuda(0)), ("cuda:12", Device::Cuda(12))]
    {
        assert_eq!(text.parse::<Device>().unwrap(), device);
    }
    assert_eq!(Device::Cuda(3).to_string(), "cuda:3");
    let pool = Device::Pool(vec![Device::Cuda(0), Device::Gpu(Some(1)), Device::Cpu]);
    assert_eq!("cuda, gpu:1, cpu".parse::<Device>().unwrap(), pool);
    assert!(pool.may_use_accelerators() && Device::Cuda(0).may_use_accelerators());
    for text in ["cuda:", "cuda:-1", "cuda:1:2", "CUDA", "cuda0"] {
        assert!(matches!(text.parse::<Device>(), Err(Error::UnknownDevice { .. })), "{text}");
    }
}

#[test]
fn cuda_device_counts_or_its_absence_is_explained() {
    let layer = StreamLayer::dense(3, 2).length(100);
    let listed = devices().iter().any(|info| info.device == Device::Cuda(0));
    assert_eq!(cuda_absence().is_none(), listed);
    let built = layer.clone().device(Device::Cuda(0)).build();
    match cuda_absence() {
        None => {
            let counts = built.unwrap().counts(&[0.1, 0.5, 0.9], 7).unwrap();
            assert_eq!(counts, layer.clone().build().unwrap().counts(&[0.1, 0.5, 0.9], 7).unwrap());
        }
        Some(why) => {
            let Err(Error::Core(CoreError::Backend { fault, message, .. })) = built else {
                panic!("{built:?}")
            };
            assert_eq!((fault, message), (BackendFault::Unavailable, why));
        }
    }
    // An index that no machine has.
    let error = layer.device(Device::Cuda(1 << 20)).build().unwrap_err();
    assert!(
        matches!(error, Error::Core(CoreError::Backend { fault: BackendFault::Unavailable, .. })),
        "{error}"
    );
}

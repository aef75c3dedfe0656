//! The errors of machines without usable CUDA. Each case needs a separate process, since the driver
//! is loaded once.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use aleatron_core::{Backend, BackendFault};
use aleatron_cuda::{CudaBackend, Error, devices};
use common::{driver, on_card, set};
use std::process::Command;

/// Runs one of the cases below in a separate process.
fn apart(case: &str) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", case, "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{text}");
}

/// Returns the error of opening a GPU as users of any backend receive it.
fn fault(error: Error) -> (Option<BackendFault>, String) {
    let error = aleatron_core::Error::from(error);
    (error.backend_fault(), error.to_string())
}

#[test]
fn missing_library_is_an_error() {
    // The library of this process, which loads no emulated one.
    // SAFETY: loading the driver's library runs only its initializers.
    #[allow(unsafe_code, reason = "the library is loaded")]
    let is_there = unsafe { libloading::Library::new("libcuda.so.1") }.is_ok();
    match devices() {
        Err(Error::NoLibrary) => {
            assert!(!is_there);
            let (kind, text) = fault(CudaBackend::open(0).unwrap_err());
            assert_eq!(kind, Some(BackendFault::Unavailable));
            assert!(
                text.contains("there is no CUDA driver") && text.contains("libcuda.so.1"),
                "{text}"
            );
        }
        other => assert!(is_there, "{other:?}"),
    }
}

#[test]
fn other_missing_requirements_are_errors() {
    if on_card() {
        return;
    }
    for case in ["old_driver", "no_device", "driver_that_fails", "cards_that_differ"] {
        apart(case);
    }
}

#[test]
#[ignore = "run by `other_absences`"]
fn old_driver() {
    driver();
    set("version", 11_080);
    let (kind, text) = fault(devices().unwrap_err());
    assert_eq!(kind, Some(BackendFault::Unavailable));
    assert!(text.contains("11.8") && text.contains("12.0"), "{text}");
}

#[test]
#[ignore = "run by `other_absences`"]
fn no_device() {
    driver();
    set("devices", 0);
    assert_eq!(devices().unwrap_err(), Error::NoDevice);
    assert_eq!(CudaBackend::open(0).unwrap_err().fault(), BackendFault::Unavailable);
}

#[test]
#[ignore = "run by `other_absences`"]
fn driver_that_fails() {
    driver();
    set("fail cuInit", 3);
    let (kind, text) = fault(devices().unwrap_err());
    assert_eq!(kind, Some(BackendFault::Failed));
    assert!(text.contains("cuInit"), "{text}");
}

#[test]
#[ignore = "run by `other_absences`"]
fn cards_that_differ() {
    driver();
    set("devices", 2);
    assert_eq!(devices().unwrap().len(), 2);
    assert_eq!(CudaBackend::open(1).unwrap().name(), "cuda:1");
    let (kind, text) = fault(CudaBackend::open(2).unwrap_err());
    assert_eq!(kind, Some(BackendFault::Unavailable));
    assert!(text.contains("no cuda:2") && text.contains("cuda:0 to cuda:1"), "{text}");
    set("capability", 75);
    let (kind, text) = fault(CudaBackend::open(0).unwrap_err());
    assert_eq!(kind, Some(BackendFault::Unavailable));
    assert!(text.contains("7.5") && text.contains("8.0"), "{text}");
}

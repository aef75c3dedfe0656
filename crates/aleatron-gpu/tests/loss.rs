//! Layers whose device is lost.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use aleatron_core::generator::{Pairing, Sequence, Sharing, Sobol, Width};
use aleatron_core::{Connections, DenseShape, Polarity, StreamAddress, Threshold};
use aleatron_gpu::device::Error as DeviceError;
use aleatron_gpu::{ContextOptions, Error, GpuDense, GpuSparse, GpuTabled};
use common::{length, own_context};

#[test]
fn layers_of_a_lost_device_report_the_loss() {
    let context = own_context(&ContextOptions::default());
    let shape = DenseShape::new(2, 2, length(64), Polarity::Unipolar).unwrap();
    let mut dense = GpuDense::from_words(&context, shape, 4, &[1, 3, 7, 15]).unwrap();
    let connections = Connections::from_rows([vec![0], vec![1]], 2).unwrap();
    let sparse =
        GpuSparse::from_words(&context, connections, length(64), Polarity::Unipolar, 4, &[1, 3])
            .unwrap();
    let sobol = |dimension| Sequence::Sobol(Sobol::new(dimension, Width::EIGHT).unwrap());
    let pairing = Pairing { inputs: sobol(1), weights: sobol(2), sharing: Sharing::OneForAll };
    let tabled = GpuTabled::new(&context, shape, 4, &pairing, &[1, 2, 3, 4]).unwrap();
    let first = StreamAddress::input(0, 0, 0);
    assert_eq!(dense.counts(&[Threshold::ONE; 2], first).unwrap(), [3, 7]);
    assert!(!dense.is_lost() && !sparse.is_lost() && !tabled.is_lost());

    context.destroy();
    assert!(dense.is_lost() && sparse.is_lost() && tabled.is_lost());
    let lost = |error: Error| {
        assert!(matches!(error, Error::Device(DeviceError::DeviceLost { .. })), "{error}");
    };
    lost(dense.counts(&[Threshold::ONE; 2], first).unwrap_err());
    lost(dense.counts_of_streams(&[0; 2]).unwrap_err());
    lost(dense.set_words(&[0; 4]).unwrap_err());
    lost(dense.words().unwrap_err());
    lost(sparse.counts(&[Threshold::ONE; 2], first).unwrap_err());
    lost(tabled.counts(&[1, 2]).unwrap_err());
    lost(GpuDense::from_words(&context, shape, 4, &[1, 3, 7, 15]).unwrap_err());
}

#[test]
fn oversized_layers_are_errors_before_allocation() {
    let context = own_context(&ContextOptions::default());
    let before = context.created();
    let shape = DenseShape::new(1 << 20, 1 << 12, length(1 << 30), Polarity::Unipolar).unwrap();
    let error = GpuDense::from_words(&context, shape, 1, &[]).unwrap_err();
    assert!(
        matches!(error, Error::TooLarge { what: aleatron_gpu::Limit::RowWords, .. }),
        "{error}"
    );
    assert_eq!(context.created(), before);
}

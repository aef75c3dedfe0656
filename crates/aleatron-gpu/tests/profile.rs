//! Kernels are timed, and a device that cannot says so.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use aleatron_core::{DenseShape, Polarity, StreamAddress};
use aleatron_gpu::{Bandwidth, Error, GpuDense, Profiler};
use common::{Draw, context, length, plain_context};

#[test]
fn a_layer_is_timed_kernel_by_kernel() {
    let context = context();
    let mut draw = Draw::new(51);
    let shape = DenseShape::new(20, 10, length(256), Polarity::Unipolar).unwrap();
    let layer = GpuDense::from_words(&context, shape, 300, &draw.streams(200, shape.length())).unwrap();
    let mut profiler = Profiler::new(&context).unwrap();
    let inputs = draw.thresholds(20 * 300);
    let first = StreamAddress::input(1, 0, 0);
    for (n_samples, kernel) in [(1, "accumulate"), (300, "tile")] {
        profiler.reset();
        let inputs = &inputs[..20 * n_samples];
        let counts = layer.counts_profiled(inputs, first, Some(&mut profiler)).unwrap();
        assert_eq!(counts, layer.counts(inputs, first).unwrap());
        let names: Vec<_> = profiler.rows().iter().map(|row| row.kernel).collect();
        assert_eq!(names, ["encode", kernel]);
        for row in profiler.rows() {
            assert_eq!(row.calls, n_samples.div_ceil(layer.piece()) as u64, "{row:?}");
            assert!(row.bytes > 0 && !row.time.is_zero(), "{row:?}");
        }
        assert_eq!(profiler.time_of("encode"), profiler.rows()[0].time);
        assert!(profiler.time_of("sparse").is_zero());
    }
    let bandwidth = Bandwidth::measure(&context, 1 << 22).unwrap();
    assert!(bandwidth.read > 0.0 && bandwidth.copy > 0.0, "{bandwidth:?}");
    let table = profiler.table(bandwidth);
    assert!(table.lines().count() == 3 && table.contains("encode") && table.contains("of copy"), "{table}");
}

#[test]
fn a_device_without_timestamps_says_so() {
    let error = Profiler::new(&plain_context(1 << 20)).unwrap_err();
    assert!(matches!(error, Error::Unsupported { feature: "timestamps", .. }), "{error}");
}

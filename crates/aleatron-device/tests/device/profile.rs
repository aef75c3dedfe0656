//! Kernels are timed, and a device without timestamps returns an error.

use crate::common::{Float, context, plain_context};
use aleatron_device::{Bandwidth, Error, Profiler};

#[test]
fn kernels_are_timed_by_name() {
    let context = context();
    let (a, b) = (context.upload(&[1f32; 4096]).unwrap(), context.buffer::<f32>(4096).unwrap());
    let bound = context
        .bind(&context.pipeline(&Float::Scale, &[]).unwrap(), &[a.view(), b.view()])
        .unwrap();
    let mut profiler = Profiler::new(&context).unwrap();
    for _ in 0..2 {
        let mut recorder = context.recorder(Some(&mut profiler)).unwrap();
        for _ in 0..3 {
            recorder.dispatch(&bound, &2f32, [64, 1, 1], 32_768).unwrap();
        }
        // A range that is not whole words needs a kernel too.
        let bytes = context.upload(&[1u8; 7]).unwrap();
        recorder.clear(bytes.view_of(1, 2).unwrap()).unwrap();
        recorder.submit().unwrap();
        profiler.collect().unwrap();
    }
    let names: Vec<_> =
        profiler.rows().iter().map(|row| (&*row.kernel, row.calls, row.bytes)).collect();
    assert_eq!(names, [("scale", 6, 6 * 32_768), ("copy bytes", 2, 8)]);
    assert_eq!(profiler.time_of("scale"), profiler.rows()[0].time);
    assert!(!profiler.time_of("scale").is_zero() && profiler.time_of("sparse").is_zero());
    let bandwidth = Bandwidth::measure(&context, 1 << 22).unwrap();
    assert!(bandwidth.read > 0.0 && bandwidth.copy > 0.0, "{bandwidth:?}");
    let table = profiler.table(bandwidth);
    assert!(
        table.lines().count() == 3 && table.contains("scale") && table.contains("of copy"),
        "{table}"
    );
    profiler.reset();
    assert!(profiler.rows().is_empty());
}

#[test]
fn dropped_recordings_are_not_timed() {
    let context = context();
    let (a, b) = (context.upload(&[1f32]).unwrap(), context.buffer::<f32>(1).unwrap());
    let bound = context
        .bind(&context.pipeline(&Float::Scale, &[]).unwrap(), &[a.view(), b.view()])
        .unwrap();
    let mut profiler = Profiler::new(&context).unwrap();
    for submitted in [false, true, false] {
        let mut recorder = context.recorder(Some(&mut profiler)).unwrap();
        recorder.dispatch(&bound, &2f32, [1, 1, 1], 10).unwrap();
        if submitted {
            recorder.submit().unwrap();
        }
    }
    profiler.collect().unwrap();
    let rows: Vec<_> = profiler.rows().iter().map(|row| (row.calls, row.bytes)).collect();
    assert_eq!(rows, [(1, 10)]);
    profiler.collect().unwrap();
    assert_eq!(profiler.rows().len(), 1);
}

#[test]
fn dispatches_beyond_capacity_run_untimed() {
    let context = context();
    let counter = context.upload(&[0f32]).unwrap();
    let other = context.upload(&[0f32]).unwrap();
    let pipeline = context.pipeline(&Float::Scale, &[("PLUS", 1f32.into())]).unwrap();
    let there = context.bind(&pipeline, &[counter.view(), other.view()]).unwrap();
    let back = context.bind(&pipeline, &[other.view(), counter.view()]).unwrap();
    let mut profiler = Profiler::new(&context).unwrap();
    let mut recorder = context.recorder(Some(&mut profiler)).unwrap();
    for _ in 0..600 {
        recorder.dispatch(&there, &1f32, [1, 1, 1], 0).unwrap();
        recorder.dispatch(&back, &1f32, [1, 1, 1], 0).unwrap();
    }
    recorder.submit().unwrap();
    profiler.collect().unwrap();
    assert_eq!(counter.read().unwrap(), [1200.0]);
    assert_eq!(profiler.rows()[0].calls, 1024);
}

#[test]
fn profiler_without_timestamps_is_an_error() {
    let error = Profiler::new(&plain_context()).unwrap_err();
    assert!(matches!(error, Error::Unsupported { feature: "timestamps", .. }), "{error}");
}

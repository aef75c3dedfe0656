//! Profiles of layers, kernel by kernel.

use crate::common::{Draw, context, length};
use aleatron_core::{DenseShape, Polarity, StreamAddress};
use aleatron_gpu::{Bandwidth, CountOptions, GpuDense, Inputs, Profiler, ThresholdSource};

#[test]
fn layer_profile_has_a_row_per_kernel() {
    let context = context();
    let mut draw = Draw::new(51);
    let shape = DenseShape::new(20, 10, length(256), Polarity::Unipolar).unwrap();
    let layer =
        GpuDense::from_words(&context, shape, 300, &draw.streams(200, shape.length())).unwrap();
    let mut profiler = Profiler::new(&context).unwrap();
    let inputs = draw.thresholds(20 * 300);
    let streams = draw.streams(20 * 300, shape.length());
    let first = StreamAddress::input(1, 0, 0);
    for (n_samples, kernel) in [(1, "accumulate"), (300, "tile")] {
        profiler.reset();
        let inputs = &inputs[..20 * n_samples];
        let source = ThresholdSource::Slice(inputs);
        let options = CountOptions::profiled(&mut profiler);
        let counts = layer.counts_with(Inputs::Thresholds { source, first }, options).unwrap();
        assert_eq!(counts, layer.counts(inputs, first).unwrap());
        let names: Vec<_> = profiler.rows().iter().map(|row| &*row.kernel).collect();
        assert_eq!(names, ["encode", kernel]);
        for row in profiler.rows() {
            assert_eq!(row.calls, n_samples.div_ceil(layer.chunk()) as u64, "{row:?}");
            assert!(row.bytes > 0 && !row.time.is_zero(), "{row:?}");
        }
        assert_eq!(profiler.time_of("encode"), profiler.rows()[0].time);
        profiler.reset();
        let streams = &streams[..20 * n_samples * shape.length().words()];
        let options = CountOptions::profiled(&mut profiler);
        let counts = layer.counts_with(Inputs::Streams(streams), options).unwrap();
        assert_eq!(counts, layer.counts_of_streams(streams).unwrap());
        assert_eq!(profiler.rows().iter().map(|row| &*row.kernel).collect::<Vec<_>>(), [kernel]);
    }
    let table = profiler.table(Bandwidth::measure(&context, 1 << 22).unwrap());
    assert!(
        table.lines().count() == 2 && table.contains("tile") && table.contains("of copy"),
        "{table}"
    );
}

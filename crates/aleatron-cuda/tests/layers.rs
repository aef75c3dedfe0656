//! Calls of layers: their allocations, errors, and state after failures.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(unsafe_code, reason = "arrays are named by their addresses")]

mod common;

use aleatron_core::backend::{
    Batch, DeviceArray, DeviceArrayMut, DeviceBatch, DeviceElement, DeviceStream, InputOrder,
    PrepareOptions, PreparedLayer,
};
use aleatron_core::{
    Backend, BackendFault, Cancel, Encoding, Error, LayerSpec, Length, Polarity, SampleSeed,
    Weights,
};
use aleatron_cpu::CpuBackend;
use aleatron_cuda::array::CudaArray;
use aleatron_cuda::measure::{FewTrial, FewVariant, TileTrial, TileVariant};
use aleatron_cuda::{
    ContextOptions, CudaBackend, CudaContext, CudaLayer, KernelChoice, Profiler, TileShape,
};
use common::{alone, calls, context, on_card, set, small_context};
use std::sync::atomic::{AtomicUsize, Ordering};

const SEED: SampleSeed = SampleSeed::new(9).starting_at(1000);

fn spec(
    n_inputs: usize,
    n_neurons: usize,
    bits: usize,
    polarity: Polarity,
) -> (LayerSpec, Weights) {
    let encoding = Encoding::Bernoulli { seed: 3 };
    let spec =
        LayerSpec::dense(n_inputs, n_neurons, Length::new(bits).unwrap(), polarity, encoding)
            .unwrap();
    let weights = Weights::random(&spec, 5).unwrap();
    (spec, weights)
}

fn values(n: usize) -> Vec<f64> {
    (0..n).map(|i| (i * 37 % 101) as f64 / 100.0).collect()
}

fn options(max_batch: usize) -> PrepareOptions<'static> {
    PrepareOptions { max_batch, ..PrepareOptions::default() }
}

/// Batches of every size around those at which kernels change, with every kernel, match the CPU.
#[test]
fn all_kernels_match_cpu() {
    let _alone = alone();
    for polarity in [Polarity::Unipolar, Polarity::Bipolar] {
        let (spec, weights) = spec(19, 70, 100, polarity);
        let cpu = CpuBackend::CURRENT.prepare(&spec, &weights, &options(8)).unwrap();
        let backend = CudaBackend::on(context());
        let mut choices = vec![KernelChoice::Auto, KernelChoice::Tiles];
        choices.extend(TileShape::in_use().into_iter().map(KernelChoice::Tile));
        let hopper = context().info().capability.0 == 9;
        for choice in choices {
            if matches!(choice, KernelChoice::Tile(shape) if shape.needs_hopper() && !hopper) {
                continue;
            }
            for n in [1, 2, 7, 8, 9, 33, 70] {
                let x = values(19 * n);
                let layer =
                    backend.layer(&spec, &weights, &options(40)).unwrap().with_kernel(choice);
                let expected = cpu.counts(&Batch::values(&x, SEED), Cancel::NEVER).unwrap();
                // The first call is launched, the second recorded, the third repeated.
                for call in 0..3 {
                    let found = layer.counts(&Batch::values(&x, SEED), Cancel::NEVER).unwrap();
                    assert_eq!(found, expected, "{choice:?}, {n} samples, call {call}");
                }
            }
        }
    }
}

#[test]
fn later_calls_allocate_nothing() {
    let _alone = alone();
    let context = context();
    let (spec, weights) = spec(19, 70, 100, Polarity::Bipolar);
    let layer = CudaBackend::on(context.clone()).layer(&spec, &weights, &options(1100)).unwrap();
    for n in [1, 40, 1100] {
        let x = values(19 * n);
        let batch = Batch::values(&x, SEED);
        for _ in 0..2 {
            layer.counts(&batch, Cancel::NEVER).unwrap();
        }
        let before = context.allocations();
        for _ in 0..3 {
            layer.counts(&batch, Cancel::NEVER).unwrap();
        }
        assert_eq!(context.allocations(), before, "{n} samples");
    }
}

#[test]
fn first_invalid_value_is_reported() {
    let _alone = alone();
    let (spec, weights) = spec(3, 2, 64, Polarity::Unipolar);
    let layer = CudaBackend::on(context()).layer(&spec, &weights, &options(4)).unwrap();
    for (n, bad) in [(1, 2), (9, 5), (9, 26), (30, 77)] {
        for value in [f64::NAN, -0.1, 1.5, f64::INFINITY] {
            let mut x = values(3 * n);
            x[bad] = value;
            let last = x.len() - 1;
            x[last] = 7.0;
            x[bad] = value;
            let fault = layer.counts(&Batch::values(&x, SEED), Cancel::NEVER).unwrap_err();
            let Error::OutOfRange { index, value: named, .. } = fault else { panic!("{fault}") };
            assert_eq!((index, named.to_bits()), (bad, value.to_bits()));
        }
        // The layer still works.
        let x = values(3 * n);
        let cpu = CpuBackend::CURRENT.prepare(&spec, &weights, &options(4)).unwrap();
        let batch = Batch::values(&x, SEED);
        assert_eq!(layer.counts(&batch, Cancel::NEVER), cpu.counts(&batch, Cancel::NEVER));
    }
}

/// The blocks of one sample have slices of its values and groups of neurons each: all of them
/// report the same.
#[test]
fn first_invalid_value_of_one_sample_is_reported_by_every_block() {
    let _alone = alone();
    for polarity in [Polarity::Unipolar, Polarity::Bipolar] {
        let (spec, weights) = spec(30, 64, 1024, polarity);
        let layer = CudaBackend::on(context()).layer(&spec, &weights, &options(1)).unwrap();
        let cpu = CpuBackend::CURRENT.prepare(&spec, &weights, &options(1)).unwrap();
        let good = values(30);
        for bad in [&[29][..], &[0], &[11, 29], &[12, 3, 28]] {
            let mut x = good.clone();
            bad.iter().for_each(|&index| x[index] = f64::NAN);
            for _ in 0..2 {
                let fault = layer.counts(&Batch::values(&x, SEED), Cancel::NEVER).unwrap_err();
                let Error::OutOfRange { index, .. } = fault else { panic!("{fault}") };
                assert_eq!(Some(&index), bad.iter().min());
            }
            let batch = Batch::values(&good, SEED);
            assert_eq!(layer.counts(&batch, Cancel::NEVER), cpu.counts(&batch, Cancel::NEVER));
        }
    }
}

#[test]
fn device_arrays_are_used_in_place() {
    let _alone = alone();
    let context = context();
    for polarity in [Polarity::Unipolar, Polarity::Bipolar] {
        for n in [1, 5, 40] {
            let (spec, weights) = spec(19, 7, 100, polarity);
            let layer =
                CudaBackend::on(context.clone()).layer(&spec, &weights, &options(16)).unwrap();
            let x = values(19 * n);
            let expected = layer.counts(&Batch::values(&x, SEED), Cancel::NEVER).unwrap();
            let inputs = CudaArray::with(&context, &x).unwrap();
            for (element, words) in [
                (DeviceElement::U64, expected.clone()),
                (
                    DeviceElement::F64,
                    spec.decode_all(&expected).into_iter().map(f64::to_bits).collect(),
                ),
            ] {
                let mut outputs = CudaArray::zeros(&context, 7 * n, element).unwrap();
                let streams =
                    [DeviceStream::DEFAULT, DeviceStream::OF_THREAD].map(InputOrder::AfterStream);
                for order in [InputOrder::Ready, InputOrder::AfterAll, streams[0], streams[1]] {
                    let (inputs, outputs_mut) = (inputs.array(), outputs.array_mut());
                    let mut batch = DeviceBatch { inputs, outputs: outputs_mut, seed: SEED, order };
                    layer.counts_on_device(&mut batch, Cancel::NEVER).unwrap();
                    assert_eq!(outputs.read().unwrap(), words);
                }
            }
        }
    }
}

/// Creates an array at any address. Tests pass arrays of callers that break the contract, as far as
/// the driver can detect it.
fn raw(address: u64, len: usize, element: DeviceElement) -> DeviceArray<'static> {
    // SAFETY: the memory lives as long as the test, or is rejected before it is read.
    unsafe { DeviceArray::from_raw(address, len, element) }
}

fn raw_mut(address: u64, len: usize, element: DeviceElement) -> DeviceArrayMut<'static> {
    // SAFETY: as for `raw`, and nothing else uses the memory meanwhile.
    unsafe { DeviceArrayMut::from_raw(address, len, element) }
}

#[test]
fn arrays_that_do_not_fit_are_errors() {
    use DeviceElement::{F32, F64, U64};
    let _alone = alone();
    let context = context();
    let (spec, weights) = spec(3, 2, 64, Polarity::Unipolar);
    let layer = CudaBackend::on(context.clone()).layer(&spec, &weights, &options(4)).unwrap();
    let inputs = CudaArray::with(&context, &values(6)).unwrap();
    let outputs = CudaArray::zeros(&context, 4, U64).unwrap();
    let (x, y) = (inputs.array().address(), outputs.array().address());
    let count = |inputs, outputs| {
        let mut batch = DeviceBatch { inputs, outputs, seed: SEED, order: InputOrder::Ready };
        layer.counts_on_device(&mut batch, Cancel::NEVER)
    };
    count(raw(x, 6, F64), raw_mut(y, 4, U64)).unwrap();
    let text = |inputs, outputs| count(inputs, outputs).unwrap_err().to_string();
    let host = [0.5f64; 6];
    assert!(text(raw(host.as_ptr() as u64, 6, F64), raw_mut(y, 4, U64)).contains("memory"));
    assert!(text(raw(0, 6, F64), raw_mut(y, 4, U64)).contains("memory"));
    assert!(text(raw(u64::MAX - 7, 6, F64), raw_mut(y, 4, U64)).contains("memory"));
    assert!(text(raw(x, 5, F64), raw_mut(y, 4, U64)).contains('5'));
    assert!(text(raw(x, 6, U64), raw_mut(y, 4, U64)).contains("uint64"));
    assert!(text(raw(x, 6, F64), raw_mut(y, 3, U64)).contains("has 3"));
    assert!(text(raw(x, 6, F64), raw_mut(y, 4, F32)).contains("float32"));
    assert!(text(raw(x, 6, F64), raw_mut(x, 4, U64)).contains("overlaps"));
    assert!(text(raw(x, 6, F64), raw_mut(x + 40, 4, U64)).contains("overlaps"));
    // More than its allocation holds.
    assert!(text(raw(x, 12, F64), raw_mut(y, 8, U64)).contains("ends after"));
    let bad = CudaArray::with(&context, &[0.5, 0.5, 0.5, 0.5, 2.0, 0.5]).unwrap();
    let fault = count(bad.array(), raw_mut(y, 4, U64)).unwrap_err();
    assert!(matches!(fault, Error::OutOfRange { index: 4, value: 2.0, .. }), "{fault}");
}

#[test]
fn array_in_memory_of_a_layer_is_an_error() {
    if on_card() {
        // Only the emulated driver reports the memory of a layer.
        return;
    }
    let _alone = alone();
    let context = context();
    let (spec, weights) = spec(3, 2, 64, Polarity::Unipolar);
    let inputs = CudaArray::with(&context, &values(3)).unwrap();
    let mut outputs = CudaArray::zeros(&context, 2, DeviceElement::U64).unwrap();
    let layer = CudaBackend::on(context.clone()).layer(&spec, &weights, &options(4)).unwrap();
    let own = calls("address of the last allocation") as u64;
    fn count(
        layer: &CudaLayer,
        inputs: DeviceArray<'_>,
        outputs: DeviceArrayMut<'_>,
    ) -> Result<(), String> {
        let mut batch = DeviceBatch { inputs, outputs, seed: SEED, order: InputOrder::Ready };
        layer.counts_on_device(&mut batch, Cancel::NEVER).map_err(|error| error.to_string())
    }
    let result = count(&layer, inputs.array(), raw_mut(own, 2, DeviceElement::U64));
    assert!(result.unwrap_err().contains("a layer uses itself"));
    let result = count(&layer, raw(own, 3, DeviceElement::F64), outputs.array_mut());
    assert!(result.unwrap_err().contains("a layer uses itself"));
    // Memory of a layer of another context of the GPU is also rejected.
    let other = CudaBackend::on(common::context()).layer(&spec, &weights, &options(4)).unwrap();
    let own = calls("address of the last allocation") as u64;
    let result = count(&layer, inputs.array(), raw_mut(own, 2, DeviceElement::U64));
    assert!(result.unwrap_err().contains("a layer uses itself"));
    drop(other);
    assert_eq!(count(&layer, inputs.array(), outputs.array_mut()), Ok(()));
}

#[test]
fn stream_of_another_device_is_an_error() {
    if on_card() {
        return;
    }
    let _alone = alone();
    set("devices", 2);
    let contexts =
        [0, 1].map(|index| CudaContext::open(index, &ContextOptions::default()).unwrap());
    let (spec, weights) = spec(3, 2, 64, Polarity::Unipolar);
    let layers = contexts.each_ref().map(|context| {
        let layer = CudaBackend::on(context.clone()).layer(&spec, &weights, &options(4)).unwrap();
        (layer, calls("handle of the last stream") as u64)
    });
    let [(layer, own), (_other, foreign)] = &layers;
    let inputs = CudaArray::with(&contexts[0], &values(3)).unwrap();
    let mut outputs = CudaArray::zeros(&contexts[0], 2, DeviceElement::U64).unwrap();
    let mut count = |handle: u64| {
        // SAFETY: the streams are those of layers that live to the end of the test.
        let order = InputOrder::AfterStream(unsafe { DeviceStream::from_raw(handle) });
        let (inputs, outputs) = (inputs.array(), outputs.array_mut());
        let mut batch = DeviceBatch { inputs, outputs, seed: SEED, order };
        layer.counts_on_device(&mut batch, Cancel::NEVER).map_err(|error| error.to_string())
    };
    let results = [count(*own), count(*foreign)];
    set("devices", 1);
    assert_eq!(results[0], Ok(()));
    assert!(results[1].as_ref().unwrap_err().contains("another device"), "{results:?}");
}

/// Downloaded words were written before: the emulated driver counts words that still have the
/// initial value of new memory.
#[test]
fn downloads_contain_no_unwritten_words() {
    if on_card() {
        return;
    }
    let _alone = alone();
    let before = calls("unwritten words copied");
    for polarity in [Polarity::Unipolar, Polarity::Bipolar, Polarity::Signed] {
        let (spec, weights) = spec(19, 7, 100, polarity);
        let layer = CudaBackend::on(context()).layer(&spec, &weights, &options(64)).unwrap();
        for n in [1, 5, 40] {
            let x = values(19 * n);
            layer.counts(&Batch::values(&x, SEED), Cancel::NEVER).unwrap();
        }
    }
    assert_eq!(calls("unwritten words copied"), before);
}

/// Sizes above the limits of a kernel are errors with their name, instead of kernels over a part of
/// the work.
#[test]
fn trial_above_32_bits_is_an_error() {
    let _alone = alone();
    let context = context();
    let length = Length::new(64).unwrap();
    for sizes in [[1 << 17, 1 << 17, 1], [1, 1 << 33, 1], [1 << 33, 1, 1 << 31]] {
        let refused = TileTrial::new(&context, sizes[0], sizes[1], sizes[2], length);
        assert!(
            refused.is_err_and(|error| error.to_string().contains("operands of a trial")),
            "{sizes:?}"
        );
    }
    assert!(TileTrial::new(&context, 0, 1, 1, length).is_err());
    let few = FewTrial::new(&context, 70, 9, 1, length).unwrap();
    for slice_bytes in [0, 64, 100, 1 << 13, u32::MAX] {
        let variant = FewVariant { slice_bytes: Some(slice_bytes), ..FewVariant::default() };
        assert!(few.check(&variant).is_err(), "{slice_bytes}");
    }
    let variant = FewVariant { blocks: Some(u32::MAX), ..FewVariant::default() };
    assert_eq!(few.check(&variant).unwrap(), None);
    let tiles = TileTrial::new(&context, 40, 300, 70, length).unwrap();
    let variant =
        TileVariant { band: Some(u32::MAX), n_parts: Some(u32::MAX), ..TileVariant::default() };
    assert_eq!(tiles.check(&variant).unwrap(), None);
}

#[test]
fn batch_is_cancelled_between_chunks() {
    let _alone = alone();
    let (spec, weights) = spec(3, 2, 64, Polarity::Unipolar);
    let layer = CudaBackend::on(context()).layer(&spec, &weights, &options(1)).unwrap();
    let asked = AtomicUsize::new(0);
    let cancelled = || asked.fetch_add(1, Ordering::Relaxed) >= 3;
    let x = values(3 * 100);
    let batch = Batch::values(&x, SEED);
    assert_eq!(layer.counts(&batch, Cancel::when(&cancelled)), Err(Error::Cancelled));
    // The layer still works.
    assert_eq!(layer.counts(&batch, Cancel::NEVER).map(|counts| counts.len()), Ok(200));
}

#[test]
fn kernels_are_timed() {
    let _alone = alone();
    let (spec, weights) = spec(19, 7, 100, Polarity::Unipolar);
    let layer = CudaBackend::on(context()).layer(&spec, &weights, &options(64)).unwrap();
    let profiler = Profiler::default();
    let x = values(19 * 40);
    layer.counts_with(&Batch::values(&x, SEED), Cancel::NEVER, Some(&profiler)).unwrap();
    let names: Vec<String> = profiler.times().unwrap().into_iter().map(|time| time.name).collect();
    assert!(
        names[0] == "encode_8" && names[1].starts_with("tile_") && names[2] == "finish_32",
        "{names:?}"
    );
    layer.counts_with(&Batch::values(&x[..19], SEED), Cancel::NEVER, Some(&profiler)).unwrap();
    assert!(profiler.table().unwrap().contains("one_"));
}

#[test]
fn layer_that_does_not_fit_is_an_error() {
    let _alone = alone();
    let (spec, weights) = spec(40, 7, 1000, Polarity::Unipolar);
    let backend = CudaBackend::on(small_context(1 << 10));
    let fault = backend.prepare(&spec, &weights, &options(4)).unwrap_err();
    assert_eq!(fault.backend_fault(), Some(BackendFault::OutOfMemory));
    let fault = CudaBackend::on(context()).prepare(&spec, &weights, &options(0)).unwrap_err();
    assert!(matches!(fault, Error::Zero(_)), "{fault}");
}

/// Every call of the driver fails once, as for exhausted memory or a lost GPU: an error, and the
/// next call works.
#[test]
fn failing_driver_calls_are_errors() {
    if on_card() {
        return;
    }
    let _alone = alone();
    let (spec, weights) = spec(19, 7, 100, Polarity::Bipolar);
    let cpu = CpuBackend::CURRENT.prepare(&spec, &weights, &options(4)).unwrap();
    let x = values(19 * 12);
    let batch = Batch::values(&x, SEED);
    // One sample, twice, and another one: launches that are repeated, with the same parameters and
    // with others.
    let ones = [0, 0, 1].map(|sample| Batch::values(&x[..19], SEED.advanced(sample).unwrap()));
    let mut expected = cpu.counts(&batch, Cancel::NEVER).unwrap();
    for one in &ones {
        expected.extend(cpu.counts(one, Cancel::NEVER).unwrap());
    }
    let calls = [
        "cuMemAlloc_v2",
        "cuMemHostAlloc",
        "cuLaunchKernel",
        "cuMemcpyHtoDAsync_v2",
        "cuMemcpyDtoHAsync_v2",
        "cuMemsetD32Async",
        "cuStreamCreate",
        "cuStreamSynchronize",
        "cuModuleLoadData",
        "cuModuleGetFunction",
        "cuDevicePrimaryCtxRetain",
        "cuMemGetInfo_v2",
        "cuTensorMapEncodeTiled",
        "cuFuncSetAttribute",
        "cuStreamBeginCapture_v2",
        "cuStreamEndCapture",
        "cuGraphInstantiateWithFlags",
        "cuGraphLaunch",
        "cuGraphCreate",
        "cuGraphAddKernelNode_v2",
        "cuGraphExecKernelNodeSetParams_v2",
    ];
    for name in calls {
        for (code, fault) in
            [(2, BackendFault::OutOfMemory), (1, BackendFault::Failed), (700, BackendFault::Lost)]
        {
            for skip in [0, 1, 5] {
                let backend = CudaBackend::open(0).unwrap();
                let run = || -> aleatron_core::Result<Vec<u64>> {
                    let layer = backend.prepare(&spec, &weights, &options(12))?;
                    for _ in 0..3 {
                        layer.counts(&batch, Cancel::NEVER)?;
                    }
                    let mut counts = layer.counts(&batch, Cancel::NEVER)?;
                    for one in &ones {
                        counts.extend(layer.counts(one, Cancel::NEVER)?);
                    }
                    Ok(counts)
                };
                set(&format!("skip {name}"), skip);
                set(&format!("fail {name}"), code);
                match run() {
                    Err(error) => {
                        assert_eq!(
                            error.backend_fault(),
                            Some(fault),
                            "{name} {code} {skip}: {error}"
                        )
                    }
                    // Fewer calls than were skipped, or a call whose failure is harmless.
                    Ok(counts) => assert_eq!(counts, expected, "{name} {code} {skip}"),
                }
                set(&format!("fail {name}"), 0);
                let again =
                    run().unwrap_or_else(|error| panic!("after {name} {code} {skip}: {error}"));
                assert_eq!(again, expected, "after {name} {code} {skip}");
            }
        }
    }
}

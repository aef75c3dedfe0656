//! Calls of convolutions and of signed layers: in chunks, repeated, sharded, from and to device
//! memory.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use aleatron_core::backend::{
    Batch, CountMethod, DeviceArray, DeviceBatch, DeviceElement, InputOrder, PrepareOptions,
};
use aleatron_core::generator::{Pairing, SequenceKind, Sharing};
use aleatron_core::{
    Backend, BackendFault, Cancel, Connections, ConvShape, Convolution, Encoding, Error, LayerSpec,
    Length, Polarity, SampleSeed, Topology, Weights, Width,
};
use aleatron_cpu::CpuBackend;
use aleatron_cuda::array::CudaArray;
use aleatron_cuda::{CudaBackend, CudaLayer, Profiler};
use common::{alone, context, on_card, set, small_context};
use std::collections::BTreeSet;
use std::sync::Arc;

const SEED: SampleSeed = SampleSeed::new(9).starting_at(1000);

fn options(max_batch: usize, method: CountMethod) -> PrepareOptions<'static> {
    PrepareOptions { max_batch, method, ..PrepareOptions::default() }
}

struct Layer {
    spec: LayerSpec,
    weights: Weights,
    method: CountMethod,
}

impl Layer {
    fn new(topology: Topology, bits: usize, polarity: Polarity, sharing: Option<Sharing>) -> Self {
        let sequence = |kind: SequenceKind| kind.sequence(3, Width::new(6).unwrap()).unwrap();
        let encoding = match sharing {
            None => Encoding::Bernoulli { seed: 3 },
            Some(sharing) => Encoding::Sequences(Pairing {
                inputs: sequence(SequenceKind::Sobol),
                weights: sequence(SequenceKind::Lfsr),
                sharing,
            }),
        };
        let spec =
            LayerSpec::new(topology, Length::new(bits).unwrap(), polarity, encoding).unwrap();
        let weights = Weights::random(&spec, 5).unwrap();
        Self { spec, weights, method: CountMethod::Best }
    }

    /// Returns values of `n_samples` samples, of both signs if operands have signs.
    fn values(&self, n_samples: usize, step: usize) -> Vec<f64> {
        let [low, high] = self.spec.polarity().interval();
        let n = n_samples * self.spec.n_inputs();
        (0..n).map(|i| low + (high - low) * ((i * step % 101) as f64 / 100.0)).collect()
    }

    fn expected(&self, x: &[f64]) -> Vec<u64> {
        let cpu = CpuBackend::CURRENT
            .prepare(&self.spec, &self.weights, &options(8, self.method))
            .unwrap();
        cpu.counts(&Batch::values(x, SEED), Cancel::NEVER).unwrap()
    }

    fn on(&self, backend: &CudaBackend, max_batch: usize) -> CudaLayer {
        backend.layer(&self.spec, &self.weights, &options(max_batch, self.method)).unwrap()
    }
}

fn image(groups: usize) -> Topology {
    let conv = Convolution::conv2d([2 * groups, 4, 5], 3 * groups, [3, 2])
        .with_paddings([[1, 1], [0, 2]])
        .with_stride([2, 1])
        .with_groups(groups);
    Topology::Conv(ConvShape::new(conv).unwrap())
}

/// Returns one layer of every kind.
fn layers() -> Vec<Layer> {
    let dense = Topology::Dense { n_inputs: 13, n_neurons: 9 };
    let mask: Vec<bool> = (0..13 * 9).map(|i| i % 3 != 0).collect();
    let sparse = Topology::Sparse(Arc::new(Connections::from_mask(&mask, 13).unwrap()));
    let mut all = vec![
        Layer::new(dense.clone(), 100, Polarity::Signed, None),
        Layer::new(dense.clone(), 64, Polarity::Signed, Some(Sharing::OnePerStream)),
        Layer::new(dense.clone(), 100, Polarity::Signed, Some(Sharing::OnePerInput)),
        Layer::new(dense, 100, Polarity::Signed, Some(Sharing::OneForAll)),
        Layer::new(sparse.clone(), 100, Polarity::Signed, None),
        Layer::new(sparse, 33, Polarity::Signed, Some(Sharing::OnePerStream)),
    ];
    for polarity in Polarity::ALL {
        all.push(Layer::new(image(2), 100, polarity, None));
        all.push(Layer::new(image(1), 60, polarity, Some(Sharing::OnePerStream)));
        all.push(Layer::new(image(2), 100, polarity, Some(Sharing::OneForAll)));
    }
    all
}

#[test]
fn chunks_and_repeated_calls_match_cpu() {
    let _alone = alone();
    let backend = CudaBackend::on(context());
    for layer in layers() {
        let on_card = layer.on(&backend, 3);
        // The first call of a size is launched, the second recorded, the others repeated, with
        // separate values.
        for step in [37, 41, 53, 59] {
            let x = layer.values(5, step);
            let found = on_card.counts_with(&Batch::values(&x, SEED), Cancel::NEVER, None).unwrap();
            assert_eq!(found, layer.expected(&x), "{:?}, step {step}", layer.spec);
        }
    }
}

/// With little memory, weights are regenerated for every chunk, and rows are cut.
#[test]
fn little_memory_does_not_change_counts() {
    let _alone = alone();
    let dense = Topology::Dense { n_inputs: 40, n_neurons: 30 };
    let conv = ConvShape::new(Convolution::conv2d([2, 3, 3], 40, [2, 2])).unwrap();
    let mut all = vec![
        Layer::new(dense.clone(), 100, Polarity::Signed, None),
        Layer::new(dense, 100, Polarity::Signed, Some(Sharing::OnePerStream)),
    ];
    all.extend(Polarity::ALL.map(|polarity| Layer::new(Topology::Conv(conv), 300, polarity, None)));
    for layer in all {
        let (x, mut regenerated) = (layer.values(3, 37), 0);
        let expected = layer.expected(&x);
        for bytes in [8 << 10, 12 << 10, 16 << 10, 24 << 10, 64 << 10] {
            let backend = CudaBackend::on(small_context(bytes));
            match backend.layer(&layer.spec, &layer.weights, &options(3, layer.method)) {
                Ok(on_card) => {
                    regenerated += usize::from(!on_card.is_kept());
                    let found =
                        on_card.counts_with(&Batch::values(&x, SEED), Cancel::NEVER, None).unwrap();
                    assert_eq!(found, expected, "{:?} in {bytes}", layer.spec);
                }
                Err(error) => {
                    assert_eq!(
                        error.fault(),
                        BackendFault::OutOfMemory,
                        "{:?}: {error}",
                        layer.spec
                    )
                }
            }
        }
        assert!(regenerated > 0, "the weights of {:?} were never regenerated", layer.spec);
    }
}

#[test]
fn shards_of_a_convolution_equal_the_whole() {
    let _alone = alone();
    let backend = CudaBackend::on(context());
    for sharing in [None, Some(Sharing::OneForAll), Some(Sharing::OnePerStream)] {
        let whole = Layer::new(image(1), 70, Polarity::Signed, sharing);
        let grouped = Layer::new(image(2), 70, Polarity::Bipolar, sharing);
        for layer in [whole, grouped] {
            let (x, m) = (layer.values(2, 37), layer.spec.n_neurons());
            let per_channel = layer.spec.neurons_per_row();
            let expected = layer.expected(&x);
            // Within groups, and across them.
            for ends in [[0, 1], [1, 3], [2, layer.spec.n_rows()]] {
                let [start, end] = ends.map(|end| end * per_channel);
                let part = Layer {
                    spec: layer.spec.neurons(start..end).unwrap(),
                    weights: layer.weights.neurons(&layer.spec, start..end),
                    method: layer.method,
                };
                let found =
                    part.on(&backend, 4).counts_with(&Batch::values(&x, SEED), Cancel::NEVER, None);
                let wanted: Vec<u64> =
                    expected.chunks(m).flat_map(|sample| sample[start..end].to_vec()).collect();
                assert_eq!(found.unwrap(), wanted, "{ends:?} of {:?}", layer.spec);
            }
        }
    }
}

#[test]
fn later_calls_allocate_nothing() {
    let _alone = alone();
    let context = context();
    let backend = CudaBackend::on(context.clone());
    for layer in layers() {
        let on_card = layer.on(&backend, 4);
        let x = layer.values(9, 37);
        let call = || on_card.counts_with(&Batch::values(&x, SEED), Cancel::NEVER, None).unwrap();
        let first = call();
        call();
        let before = context.allocations();
        assert_eq!((call(), context.allocations()), (first, before), "{:?}", layer.spec);
    }
}

/// If rows are cut into parts, findings about the values are reported with the last part.
#[test]
fn first_invalid_value_is_reported() {
    let _alone = alone();
    let dense = Topology::Dense { n_inputs: 13, n_neurons: 9 };
    let mut all = layers();
    all.push(Layer::new(dense, 1000, Polarity::Unipolar, None));
    for layer in all {
        for context in [context(), small_context(12 << 10), small_context(24 << 10)] {
            let backend = CudaBackend::on(context);
            let Ok(on_card) = backend.layer(&layer.spec, &layer.weights, &options(2, layer.method))
            else {
                continue;
            };
            let n = layer.spec.n_inputs();
            for (bad, value) in [(0, 1.5), (n + 1, f64::NAN), (4 * n - 1, -1.25)] {
                let mut x = layer.values(5, 37);
                x[5 * n - 1] = 7.0;
                x[bad] = value;
                let found = on_card.counts_with(&Batch::values(&x, SEED), Cancel::NEVER, None);
                let error = Error::from(found.unwrap_err());
                let Error::OutOfRange { index, value: named, .. } = error else {
                    panic!("{error}")
                };
                assert_eq!((index, named.to_bits()), (bad, value.to_bits()), "{:?}", layer.spec);
            }
            let x = layer.values(5, 37);
            let found = on_card.counts_with(&Batch::values(&x, SEED), Cancel::NEVER, None).unwrap();
            assert_eq!(found, layer.expected(&x), "{:?}", layer.spec);
        }
    }
}

#[test]
fn device_arrays_give_counts_and_values() {
    let _alone = alone();
    let context = context();
    let backend = CudaBackend::on(context.clone());
    for layer in layers() {
        let on_card = layer.on(&backend, 3);
        // Values that are exact in 32 bits.
        let x: Vec<f64> = layer.values(5, 37).into_iter().map(|v| f64::from(v as f32)).collect();
        let expected = layer.expected(&x);
        let values: Vec<u64> =
            layer.spec.decode_all(&expected).into_iter().map(f64::to_bits).collect();
        let wide = CudaArray::with(&context, &x).unwrap();
        let bits = |v: Option<&f64>| u64::from((*v.unwrap_or(&0.0) as f32).to_bits());
        let packed: Vec<f64> = x
            .chunks(2)
            .map(|pair| f64::from_bits(bits(pair.first()) | bits(pair.get(1)) << 32))
            .collect();
        let packed = CudaArray::with(&context, &packed).unwrap();
        // SAFETY: the array has two values of 32 bits in each of its elements, and lives as long as
        // its view.
        let narrow =
            unsafe { DeviceArray::from_raw(packed.array().address(), x.len(), DeviceElement::F32) };
        for (element, words) in [(DeviceElement::U64, &expected), (DeviceElement::F64, &values)] {
            for inputs in [wide.array(), narrow] {
                let mut outputs = CudaArray::zeros(&context, expected.len(), element).unwrap();
                let order = InputOrder::Ready;
                let mut batch =
                    DeviceBatch { inputs, outputs: outputs.array_mut(), seed: SEED, order };
                on_card.count_arrays(&mut batch, Cancel::NEVER).unwrap();
                assert_eq!(&outputs.read().unwrap(), words, "{:?}, {element}", layer.spec);
            }
        }
    }
}

/// Streams of whole vectors of sixteen bytes are gathered as vectors.
#[test]
fn kernels_are_timed() {
    let _alone = alone();
    let backend = CudaBackend::on(context());
    for (bits, gather) in [(64, "gather_2"), (65, "gather_4"), (200, "gather_4"), (130, "gather_2")]
    {
        let layer = Layer::new(image(2), bits, Polarity::Bipolar, None);
        let (profiler, x) = (Profiler::default(), layer.values(2, 37));
        let found = layer.on(&backend, 4).counts_with(
            &Batch::values(&x, SEED),
            Cancel::NEVER,
            Some(&profiler),
        );
        assert_eq!(found.unwrap(), layer.expected(&x));
        let names: BTreeSet<String> =
            profiler.times().unwrap().into_iter().map(|time| time.name).collect();
        for name in ["encode_8", gather, "row_ones_32", "finish_patches"] {
            assert!(names.contains(name), "{bits}: {names:?}");
        }
        assert!(names.iter().any(|name| name.starts_with("tile_")), "{names:?}");
    }
    // Two rows of one sample, and sixteen of eight.
    let one = ConvShape::new(Convolution::conv2d([13, 1, 1], 9, [1, 1])).unwrap();
    let layer = Layer::new(Topology::Conv(one), 100, Polarity::Signed, None);
    let on_card = layer.on(&backend, 8);
    for (n_samples, kernel) in [(1, "few_"), (4, "few_"), (5, "tile_"), (8, "tile_")] {
        let (profiler, x) = (Profiler::default(), layer.values(n_samples, 37));
        let found =
            on_card.counts_with(&Batch::values(&x, SEED), Cancel::NEVER, Some(&profiler)).unwrap();
        assert_eq!(found, layer.expected(&x));
        let times = profiler.times().unwrap();
        assert!(times.iter().any(|time| time.name.starts_with(kernel)), "{n_samples}: {times:?}");
    }
    // A dense layer of the same operands multiplies complemented streams once.
    let dense =
        Layer::new(Topology::Dense { n_inputs: 13, n_neurons: 9 }, 100, Polarity::Signed, None);
    let (on_card, profiler, x) = (dense.on(&backend, 8), Profiler::default(), dense.values(3, 37));
    let found = on_card.counts_with(&Batch::values(&x, SEED), Cancel::NEVER, Some(&profiler));
    assert_eq!(found.unwrap(), dense.expected(&x));
    let times = profiler.times().unwrap();
    for name in ["complement_4", "sign_terms", "finish_signed_32"] {
        assert!(times.iter().any(|time| time.name == name), "{times:?}");
    }
}

/// A stride may exceed the image if there is only one position.
#[test]
fn unused_strides_may_be_of_any_size() {
    let _alone = alone();
    let backend = CudaBackend::on(context());
    let conv = Convolution::conv2d([3, 2, 1], 2, [2, 1])
        .with_stride([usize::MAX >> 1, usize::MAX >> 1])
        .with_dilation([1, usize::MAX >> 1]);
    let layer =
        Layer::new(Topology::Conv(ConvShape::new(conv).unwrap()), 40, Polarity::Unipolar, None);
    let x = layer.values(3, 37);
    let found =
        layer.on(&backend, 4).counts_with(&Batch::values(&x, SEED), Cancel::NEVER, None).unwrap();
    assert_eq!(found, layer.expected(&x));
}

/// Single calls of the driver fail: an error, and the next call works.
#[test]
fn failing_driver_calls_are_errors() {
    if on_card() {
        return;
    }
    let _alone = alone();
    let layer = Layer::new(image(1), 64, Polarity::Bipolar, None);
    let x = layer.values(5, 37);
    let expected = layer.expected(&x);
    let run = || -> aleatron_core::Result<Vec<u64>> {
        let options = options(3, layer.method);
        let on_card = CudaBackend::open(0)?.layer(&layer.spec, &layer.weights, &options)?;
        for _ in 0..2 {
            on_card.counts_with(&Batch::values(&x, SEED), Cancel::NEVER, None)?;
        }
        Ok(on_card.counts_with(&Batch::values(&x, SEED), Cancel::NEVER, None)?)
    };
    let mut failed = 0;
    for name in [
        "cuMemAlloc_v2",
        "cuLaunchKernel",
        "cuMemsetD32Async",
        "cuStreamEndCapture",
        "cuGraphLaunch",
    ] {
        for (code, fault) in [(2, BackendFault::OutOfMemory), (700, BackendFault::Lost)] {
            for skip in [0, 3, 9] {
                set(&format!("skip {name}"), skip);
                set(&format!("fail {name}"), code);
                match run() {
                    Err(error) => {
                        assert_eq!(
                            error.backend_fault(),
                            Some(fault),
                            "{name} {code} {skip}: {error}"
                        );
                        failed += 1;
                    }
                    // Fewer calls than were skipped.
                    Ok(counts) => assert_eq!(counts, expected, "{name} {code} {skip}"),
                }
                set(&format!("fail {name}"), 0);
                let again =
                    run().unwrap_or_else(|error| panic!("after {name} {code} {skip}: {error}"));
                assert_eq!(again, expected, "after {name} {code} {skip}");
            }
        }
    }
    assert!(failed > 15, "{failed} calls failed");
}

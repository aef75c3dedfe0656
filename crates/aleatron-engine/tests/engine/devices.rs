//! Devices by name, and pools of several.

use crate::placement::in_child;
use aleatron_core::{
    BackendFault, Cancel, ConvShape, Convolution, Error as CoreError, LayerSpec, Result,
    SampleSeed, Topology, Weights,
};
use aleatron_engine::backend::{
    self, Backend, Batch, DEVICE_VARIABLE, DeviceArray, DeviceArrayMut, DeviceBatch, DeviceElement,
    InputOrder, PoolBackend, PrepareOptions, PreparedLayer, Split,
};
use aleatron_engine::{Device, Error, StreamLayer};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

#[test]
fn device_names_round_trip_through_text() {
    for (text, device) in [
        ("auto", Device::Auto),
        ("cpu", Device::Cpu),
        ("gpu", Device::Gpu(None)),
        ("gpu:3", Device::Gpu(Some(3))),
        ("cpu,gpu:0", Device::Pool(vec![Device::Cpu, Device::Gpu(Some(0))])),
    ] {
        assert_eq!(text.parse::<Device>().unwrap(), device);
        assert_eq!(device.to_string(), text);
    }
    assert_eq!(
        " cpu , gpu ".parse::<Device>().unwrap(),
        Device::Pool(vec![Device::Cpu, Device::Gpu(None)])
    );
    for text in ["", "tpu", "cpu:0", "auto:1", "gpu:x", "gpu:", "cpu,auto", "cpu,", "gpu:-1"] {
        assert!(text.parse::<Device>().is_err(), "{text}");
    }
    let may = ["auto", "cpu", "gpu", "cpu,cpu", "cpu,gpu"]
        .map(|t| t.parse::<Device>().unwrap().may_use_accelerators());
    assert_eq!(may, [true, false, true, false, true]);
    assert_eq!(Device::Cpu.resolved().unwrap(), Device::Cpu);
    assert_eq!(backend::open(&Device::Cpu).unwrap().name(), "cpu");
    assert_eq!(backend::open(&Device::Auto).unwrap().name(), "auto");
    assert_eq!(backend::open(&"cpu,cpu".parse().unwrap()).unwrap().name(), "cpu,cpu");
}

#[test]
#[ignore = "run by device_variable_decides_for_auto_only, in a process of its own"]
fn child_is_on_the_cpu() {
    assert_eq!(Device::Auto.resolved().unwrap(), Device::Cpu);
    assert_eq!(backend::open(&Device::Auto).unwrap().name(), "cpu");
    // An explicit device takes precedence.
    assert_eq!(Device::Gpu(Some(1)).resolved().unwrap(), Device::Gpu(Some(1)));
}

#[test]
#[ignore = "run by device_variable_decides_for_auto_only, in a process of its own"]
fn child_chooses() {
    assert_eq!(Device::Auto.resolved().unwrap(), Device::Auto);
}

#[test]
#[ignore = "run by device_variable_decides_for_auto_only, in a process of its own"]
fn child_has_an_unknown_device() {
    assert!(matches!(Device::Auto.resolved(), Err(Error::UnknownDevice { name }) if name == "tpu"));
    assert_eq!(Device::Cpu.resolved().unwrap(), Device::Cpu);
}

#[test]
fn device_variable_decides_for_auto_only() {
    for (value, test) in [
        (Some("cpu"), "devices::child_is_on_the_cpu"),
        (Some("tpu"), "devices::child_has_an_unknown_device"),
        (Some(""), "devices::child_chooses"),
        (None, "devices::child_chooses"),
    ] {
        let variables = value.map(|value| (DEVICE_VARIABLE, Path::new(value)));
        in_child(test, variables.as_slice());
    }
}

/// The CPU cannot count arrays in device memory.
#[test]
fn device_arrays_on_the_cpu_are_unsupported() {
    // SAFETY: the CPU rejects arrays of any address.
    let (inputs, outputs) = unsafe {
        (
            DeviceArray::from_raw(0, 3, DeviceElement::F64),
            DeviceArrayMut::from_raw(0, 2, DeviceElement::F64),
        )
    };
    let mut batch =
        DeviceBatch { inputs, outputs, seed: SampleSeed::new(0), order: InputOrder::Ready };
    let layer = StreamLayer::dense(3, 2).length(64).build().unwrap();
    let error = layer.count_on_device(&mut batch, Cancel::NEVER).unwrap_err();
    let fault = error.core().and_then(CoreError::backend_fault);
    assert_eq!(fault, Some(BackendFault::Unsupported), "{error}");
}

/// A backend that counts on the CPU and records its calls.
#[derive(Debug, Default)]
struct Listening {
    neurons: Mutex<Vec<[usize; 2]>>,
    samples: Arc<Mutex<Vec<(u32, usize)>>>,
    lost: Arc<AtomicBool>,
}

#[derive(Debug)]
struct ListeningLayer {
    layer: Box<dyn PreparedLayer>,
    spec: LayerSpec,
    samples: Arc<Mutex<Vec<(u32, usize)>>>,
    lost: Arc<AtomicBool>,
}

impl Backend for Listening {
    fn name(&self) -> String {
        "listening".to_owned()
    }

    fn prepare(
        &self,
        spec: &LayerSpec,
        weights: &Weights,
        options: &PrepareOptions<'_>,
    ) -> Result<Box<dyn PreparedLayer>> {
        self.neurons.lock().unwrap().push([spec.first_neuron() as usize, spec.n_neurons()]);
        let layer = aleatron_cpu::CpuBackend::CURRENT.prepare(spec, weights, options)?;
        let (samples, lost) = (Arc::clone(&self.samples), Arc::clone(&self.lost));
        Ok(Box::new(ListeningLayer { layer, spec: spec.clone(), samples, lost }))
    }
}

impl PreparedLayer for ListeningLayer {
    fn counts(&self, batch: &Batch<'_>, cancel: Cancel<'_>) -> Result<Vec<u64>> {
        self.samples.lock().unwrap().push((batch.seed.first_sample, batch.n_samples(&self.spec)?));
        // Runs until cancelled, if it can be cancelled.
        while !cancel.is_never() && cancel.check().is_ok() {
            std::thread::yield_now();
        }
        cancel.check()?;
        self.layer.counts(batch, cancel)
    }

    fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    fn backend_for(&self, _: usize) -> Option<String> {
        Some("listening".to_owned())
    }
}

struct Pooled {
    backends: Vec<Arc<Listening>>,
    layer: Box<dyn PreparedLayer>,
    plain: StreamLayer,
}

fn pooled(n_neurons: usize, n_backends: usize, split: Split) -> Pooled {
    pooled_layer(StreamLayer::dense(2, n_neurons).length(64).build().unwrap(), n_backends, split)
}

fn pooled_layer(plain: StreamLayer, n_backends: usize, split: Split) -> Pooled {
    let backends: Vec<Arc<Listening>> = (0..n_backends).map(|_| Arc::default()).collect();
    let dynamic = backends.iter().map(|backend| Arc::clone(backend) as Arc<dyn Backend>).collect();
    let pool = PoolBackend::new(dynamic, split).unwrap();
    let weights = Weights::new(plain.spec(), plain.weights().to_vec()).unwrap();
    let layer = pool.prepare(plain.spec(), &weights, &PrepareOptions::default()).unwrap();
    Pooled { backends, layer, plain }
}

impl Pooled {
    fn neurons(&self) -> Vec<[usize; 2]> {
        self.backends.iter().flat_map(|backend| backend.neurons.lock().unwrap().clone()).collect()
    }

    fn samples(&self) -> Vec<(u32, usize)> {
        self.backends.iter().flat_map(|backend| backend.samples.lock().unwrap().clone()).collect()
    }
}

/// From 64 neurons for each backend on, neurons are distributed; fewer are on each backend, and
/// samples are distributed.
#[test]
fn pool_splits_neurons_if_there_are_enough_and_samples_otherwise() {
    let values: Vec<f64> = (0..14).map(|k| f64::from(k) / 14.0).collect();
    let seed = SampleSeed::new(5).starting_at(100);
    let count = |pooled: &Pooled| {
        let counts = pooled.layer.counts(&Batch::values(&values, seed), Cancel::NEVER).unwrap();
        assert_eq!(counts, pooled.plain.counts_batch(&values, seed).unwrap());
    };
    let many = pooled(128, 2, Split::Best);
    count(&many);
    assert_eq!(
        (many.neurons(), many.samples()),
        (vec![[0, 64], [64, 64]], vec![(100, 7), (100, 7)])
    );
    let few = pooled(127, 2, Split::Best);
    count(&few);
    assert_eq!((few.neurons(), few.samples()), (vec![[0, 127]; 2], vec![(100, 3), (103, 4)]));
    let forced = pooled(5, 3, Split::Neurons);
    count(&forced);
    assert_eq!(forced.neurons(), [[0, 1], [1, 2], [3, 2]]);
    let samples = pooled(500, 3, Split::Samples);
    count(&samples);
    assert_eq!(samples.samples(), [(100, 2), (102, 2), (104, 3)]);
    assert_eq!(samples.layer.backend_for(9).unwrap(), "listening,listening,listening");
    // Fewer samples than backends.
    let one = pooled(5, 3, Split::Samples);
    let counts = one.layer.counts(&Batch::values(&values[..2], seed), Cancel::NEVER).unwrap();
    assert_eq!(
        (counts, one.samples()),
        (one.plain.counts_batch(&values[..2], seed).unwrap(), vec![(100, 1)])
    );
}

/// Sixteen channels on three backends: no share begins or ends within a channel.
#[test]
fn pool_splits_convolutions_at_output_channels() {
    let conv = |n_channels, groups| {
        let convolution = Convolution::conv2d([2, 5, 4], n_channels, [3, 2]).with_groups(groups);
        let shape = ConvShape::new(convolution).unwrap();
        StreamLayer::of(Topology::Conv(shape)).length(64).build().unwrap()
    };
    let values: Vec<f64> = (0..80).map(|k| f64::from(k) / 80.0).collect();
    let seed = SampleSeed::new(5).starting_at(100);
    // Nine positions each; the first channel and the neurons of each share, or all neurons on each
    // backend.
    for (n_channels, groups, split, expected) in [
        (16, 1, Split::Neurons, vec![[0, 45], [5, 45], [10, 54]]),
        (2, 1, Split::Neurons, vec![[0, 9], [1, 9]]),
        (2, 1, Split::Best, vec![[0, 18]; 3]),
        (16, 1, Split::Best, vec![[0, 144]; 3]),
        (22, 1, Split::Best, vec![[0, 63], [7, 63], [14, 72]]),
    ] {
        let pooled = pooled_layer(conv(n_channels, groups), 3, split);
        assert_eq!(pooled.neurons(), expected, "{n_channels} channels");
        let counts = pooled.layer.counts(&Batch::values(&values, seed), Cancel::NEVER).unwrap();
        assert_eq!(
            counts,
            pooled.plain.counts_batch(&values, seed).unwrap(),
            "{n_channels} channels"
        );
    }
}

#[test]
fn pool_is_lost_if_one_backend_is() {
    let pooled = pooled(5, 3, Split::Samples);
    assert!(!pooled.layer.is_lost());
    pooled.backends[1].lost.store(true, Ordering::Relaxed);
    assert!(pooled.layer.is_lost());
}

/// The token is polled on the caller's thread, and stops all shares.
#[test]
fn pool_cancellation_is_checked_on_the_calling_thread() {
    let pooled = pooled(5, 3, Split::Samples);
    let asked = AtomicUsize::new(0);
    let caller = std::thread::current().id();
    let stop = || {
        assert_eq!(std::thread::current().id(), caller);
        asked.fetch_add(1, Ordering::Relaxed) >= 2
    };
    let batch = Batch::values(&[0.5; 12], SampleSeed::new(0));
    let error = pooled.layer.counts(&batch, Cancel::when(&stop)).unwrap_err();
    assert_eq!(error, CoreError::Cancelled);
    assert_eq!(pooled.samples().len(), 3);
    assert!(asked.load(Ordering::Relaxed) >= 3);
}

/// Conformance cases on a device: only layers, networks and programs are answered.
#[test]
fn conformance_subject_of_a_device_answers_layers_and_programs() {
    use aleatron_core::conformance::{Case, Reference, suite};
    let subject = backend::subject(&Device::Cpu).unwrap();
    let mut answered = 0;
    // The last 60 cases before those of masks, and these.
    for case in suite::fixed().unwrap().into_iter().rev().take(60 + 114) {
        match (subject.run(&case), &case) {
            (Some(answer), Case::Layer(_) | Case::Network(_) | Case::Program(_)) => {
                assert_eq!(answer.unwrap(), Reference.answer(&case));
                answered += 1;
            }
            (None, Case::Layer(_) | Case::Network(_) | Case::Program(_)) => {
                panic!("{case:?} was not answered")
            }
            (answer, _) => assert!(answer.is_none()),
        }
    }
    assert!(answered >= 40);
}

/// The reported device is the requested one, and `auto` stays on the CPU if there is no other
/// device to measure.
#[test]
fn layer_reports_its_device_and_backend() {
    let layer = StreamLayer::dense(3, 2).device(Device::Cpu).build().unwrap();
    assert_eq!((layer.device(), layer.backend_for(1)), (&Device::Cpu, Some("cpu".to_owned())));
    assert!(layer.notes().is_empty() && layer.warnings().is_empty());
    // Tables leave nothing to measure.
    let tables = StreamLayer::dense(3, 2)
        .generator("sobol".parse().unwrap())
        .device(Device::Auto)
        .build()
        .unwrap();
    assert_eq!(tables.backend_for(1), Some("cpu".to_owned()));
    let auto = StreamLayer::dense(3, 2).device(Device::Auto).build().unwrap();
    assert_eq!(auto.backend_for(3), None);
    let counts = auto.counts_batch(&[0.5; 9], 7).unwrap();
    assert_eq!(counts, layer.counts_batch(&[0.5; 9], 7).unwrap());
    // Three samples are measured for batches of up to four.
    if !cfg!(feature = "gpu") {
        assert_eq!(
            [3, 4, 5].map(|n| auto.backend_for(n)),
            [Some("cpu".to_owned()), Some("cpu".to_owned()), None]
        );
        assert!(backend::devices().is_empty());
    }
    assert!(auto.counts_batch(&[], 7).unwrap().is_empty());
}

#[cfg(not(feature = "cuda"))]
#[test]
fn build_without_cuda_explains_its_absence() {
    let why = backend::cuda_absence().unwrap();
    assert!(why.contains("build it with the cargo feature `cuda`"), "{why}");
    assert!(backend::devices().iter().all(|info| !matches!(info.device, Device::Cuda(_))));
}

/// Names of GPUs are parsed in every build; whether one exists is checked when it is opened.
#[test]
fn cuda_names_are_parsed_in_every_build() {
    assert_eq!("cuda".parse::<Device>().unwrap(), Device::Cuda(0));
    assert_eq!("cuda:2".parse::<Device>().unwrap(), Device::Cuda(2));
}

//! Shared test utilities: the adapter under test and random values.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::sync::Arc;

use aleatron_core::philox::philox4x32;
use aleatron_core::{
    Connections, DenseShape, Encoding, LayerSpec, Length, Polarity, StreamMatrix, Threshold,
    Topology, reference,
};
use aleatron_gpu::{AdapterChoice, Capabilities, Checks, ContextOptions, GpuContext};

/// Returns the adapter selected by the environment, otherwise Mesa's software adapter. A missing
/// adapter is a failure: these tests must run.
pub fn choice() -> AdapterChoice {
    match AdapterChoice::from_env() {
        AdapterChoice::Strongest => AdapterChoice::named("llvmpipe"),
        named => named,
    }
}

pub fn context() -> Arc<GpuContext> {
    GpuContext::get(&choice()).unwrap_or_else(|error| {
        panic!("{error}\nGPU tests need an adapter: apt-get install mesa-vulkan-drivers libvulkan1")
    })
}

pub fn own_context(options: &ContextOptions) -> Arc<GpuContext> {
    GpuContext::open(&choice(), options).unwrap()
}

/// Returns a device without optional capabilities whose bindings hold `bytes`.
pub fn plain_context(bytes: u64) -> Arc<GpuContext> {
    own_context(&ContextOptions {
        capabilities: Capabilities::NONE,
        max_binding_bytes: Some(bytes),
        ..ContextOptions::default()
    })
}

/// Returns the shared device, and one that checks every kernel at run time: kernels without checks
/// must give equal results on both.
pub fn both_contexts() -> [Arc<GpuContext>; 2] {
    let checked = ContextOptions { checks: Checks::Always, ..ContextOptions::default() };
    [context(), own_context(&checked)]
}

/// Returns every kind of device: as it is, checking every kernel, and without optional
/// capabilities.
pub fn every_context() -> Vec<Arc<GpuContext>> {
    both_contexts().into_iter().chain([plain_context(1 << 27)]).collect()
}

/// A sequence of random words.
pub struct Draw {
    pub seed: u32,
    pub next: u32,
}

impl Draw {
    pub fn new(seed: u32) -> Self {
        Self { seed, next: 0 }
    }

    pub fn word(&mut self) -> u32 {
        let word = philox4x32([self.next / 4, 0, 0, 0], [self.seed, 7])[self.next as usize % 4];
        self.next += 1;
        word
    }

    /// Draws thresholds, some at the ends and some next to them.
    pub fn thresholds(&mut self, n: usize) -> Vec<Threshold> {
        let p = |word: u32| match word % 8 {
            0 => f64::from(word >> 3 & 1),
            1 => f64::from(word >> 16) / 281_474_976_710_656.0,
            2 => 1.0 - f64::from(word >> 16) / 281_474_976_710_656.0,
            3 => 0.5,
            _ => f64::from(word) / 4_294_967_296.0,
        };
        (0..n).map(|_| Threshold::from_probability(p(self.word())).unwrap()).collect()
    }

    pub fn streams(&mut self, n: usize, length: Length) -> Vec<u64> {
        let mut words = Vec::new();
        for _ in 0..n {
            words.extend(
                (0..length.words()).map(|_| u64::from(self.word()) << 32 | u64::from(self.word())),
            );
            *words.last_mut().unwrap() &= length.tail_mask();
        }
        words
    }
}

pub fn length(bits: usize) -> Length {
    Length::new(bits).unwrap()
}

/// Returns the reference's counts of a dense layer.
pub fn dense_counts(shape: &DenseShape, weights: &StreamMatrix, inputs: &StreamMatrix) -> Vec<u64> {
    let topology = Topology::Dense { n_inputs: shape.n_inputs(), n_neurons: shape.n_neurons() };
    layer_counts(topology, shape.length(), shape.polarity(), weights, inputs)
}

/// Returns the reference's counts of a sparse layer.
pub fn sparse_counts(
    connections: &Connections,
    polarity: Polarity,
    weights: &StreamMatrix,
    inputs: &StreamMatrix,
) -> Vec<u64> {
    let topology = Topology::Sparse(Arc::new(connections.clone()));
    layer_counts(topology, inputs.length(), polarity, weights, inputs)
}

fn layer_counts(
    topology: Topology,
    length: Length,
    polarity: Polarity,
    weights: &StreamMatrix,
    inputs: &StreamMatrix,
) -> Vec<u64> {
    let spec = LayerSpec::new(topology, length, polarity, Encoding::Bernoulli { seed: 0 }).unwrap();
    reference::counts(&spec, weights, inputs)
}

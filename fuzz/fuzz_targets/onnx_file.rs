//! Bytes as an ONNX model: a graph or an error, never a panic; a graph that is read is simplified and run with zeros.
//!
//! Only small shapes run: large ones fail for lack of memory, which takes long and finds nothing.
#![no_main]

use aleatron_graph::{Dim, Graph, Runner, inspect};
use aleatron_tensor::Device;
use libfuzzer_sys::fuzz_target;

/// The largest number of elements of an input of a run.
const MAX_ELEMENTS: usize = 1 << 12;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut graph) = Graph::from_onnx(bytes) else { return };
    if graph.nodes().len() > 64 || graph.simplify().is_err() {
        return;
    }
    let elements = |id| {
        let shape = graph.value(id).ok()?.shape.as_deref().unwrap_or_default();
        shape.iter().try_fold(1_usize, |all, dim| {
            all.checked_mul(if let Dim::Fixed(n) = dim { *n } else { 2 })
        })
    };
    if !graph.inputs().iter().all(|&id| elements(id).is_some_and(|n| n <= MAX_ELEMENTS)) {
        return;
    }
    let inputs: Result<Vec<_>, _> =
        graph.inputs().iter().map(|&id| inspect::zeros_for(&graph, id, 2)).collect();
    if let (Ok(inputs), Ok(runner)) = (inputs, Runner::new(graph, &Device::Cpu)) {
        let _ = runner.run(inputs);
    }
});

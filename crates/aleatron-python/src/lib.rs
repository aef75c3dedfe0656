//! The extension module `aleatron._core`: converts between Python and the `aleatron` crate, and nothing else.
//!
//! `array.rs` reads and returns arrays, `argument.rs` reads the other arguments, `error.rs` makes exceptions, and
//! `compute.rs` releases the interpreter around every computation, `cuda.rs` takes arrays that are on a card. What users call is in `layer.rs`, `streams.rs`, `lif.rs`,
//! `convolution.rs`, `network.rs`, `graph.rs`, `graph_builder.rs`, `plan.rs`, `evaluation.rs`, `regression.rs`, `find.rs`, `job.rs`, `tensor.rs`, `transformer.rs` and `system.rs`. Doc comments of those are Python docstrings; their examples are tested by
//! `python/tests/test_docs.py`.
#![forbid(unsafe_code)]
#![allow(
    clippy::doc_lazy_continuation,
    clippy::too_many_arguments,
    reason = "Python's docstrings and keyword arguments keep Python's customs"
)]

mod argument;
mod array;
mod compute;
mod convolution;
mod cuda;
mod error;
mod evaluation;
mod find;
mod graph;
mod graph_builder;
mod job;
mod kept;
mod layer;
mod lif;
mod network;
mod plan;
mod regression;
mod streams;
mod system;
mod tensor;
mod transformer;
mod warning;

use pyo3::prelude::*;

/// The compiled part of Aleatron; use the package `aleatron`.
#[pymodule(gil_used = false)]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::convolution::ConvLayer;
    #[pymodule_export]
    use crate::cuda::CudaMemory;
    #[pymodule_export]
    use crate::evaluation::{Evaluation, digits, evaluate};
    #[pymodule_export]
    use crate::find::{find, read_found};
    #[pymodule_export]
    use crate::graph::{GraphNetwork, StreamGraph, rounding_bound};
    #[pymodule_export]
    use crate::graph_builder::GraphBuilder;
    #[pymodule_export]
    use crate::job::{EvalProgram, Job};
    #[pymodule_export]
    use crate::layer::{DenseLayer, SparseLayer, StreamLayer};
    #[pymodule_export]
    use crate::lif::{FixedPointLif, lif_run, lif_run_multi, lif_run_varying};
    #[pymodule_export]
    use crate::network::{Network, StreamNetwork};
    #[pymodule_export]
    use crate::plan::EvaluationPlan;
    #[pymodule_export]
    use crate::regression::{RegressionEvaluation, evaluate_regression};
    #[pymodule_export]
    use crate::streams::{correlation, count_ones, encode, pack, unpack};
    #[pymodule_export]
    use crate::system::{
        after_fork, get_draw_memory, get_num_threads, gpus, run_program, set_draw_memory, set_num_threads,
        simd_tier,
    };

    #[pymodule_export]
    use crate::tensor::Tensor;
    #[pymodule_export]
    use crate::transformer::{Generation, Transformer};

    /// Loads NumPy's interface, which cannot be done while a Ctrl-C waits to be raised: the first call of a process could.
    #[pymodule_init]
    fn load_numpy(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.py().import("numpy")?;
        numpy::PyArray1::<u64>::zeros(module.py(), 0, false);
        Ok(())
    }

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "its name in Python")]
    const __version__: &str = aleatron::VERSION;
}

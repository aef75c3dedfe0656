//! The extension module `aleatron._core`: converts between Python and the `aleatron` crate.
//!
//! `array.rs` reads and returns arrays, `argument.rs` reads the other arguments, `error.rs` creates
//! exceptions, `interpreter.rs` and `compute.rs` release the interpreter around every computation,
//! and `cuda.rs` takes arrays in device memory. The other modules hold the functions and classes of
//! the package. Their doc comments are Python docstrings, whose examples
//! `python/tests/test_docs.py` runs.
#![deny(unsafe_code)]
#![allow(
    clippy::doc_lazy_continuation,
    clippy::too_many_arguments,
    reason = "Python's docstrings and keyword arguments keep Python's customs"
)]

mod argument;
mod array;
mod circuit;
mod compute;
mod convolution;
mod cuda;
mod error;
mod evaluation;
mod explore;
mod find;
mod interpreter;
mod job;
mod language;
mod layer;
mod lif;
mod network;
mod network_builder;
mod network_file;
mod network_layers;
mod plan;
mod samples;
mod stream_cache;
mod stream_network;
mod streams;
mod system;
mod tensor;
mod train;
mod transformer;
mod warning;

use pyo3::prelude::*;

/// The compiled part of Aleatron; use the package `aleatron`.
#[pymodule(gil_used = false)]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::circuit::Circuit;
    #[pymodule_export]
    use crate::convolution::ConvLayer;
    #[pymodule_export]
    use crate::cuda::CudaMemory;
    #[pymodule_export]
    use crate::evaluation::{Evaluation, FileLock, digits, evaluate};
    #[pymodule_export]
    use crate::explore::{Explorer, read_exploration};
    #[pymodule_export]
    use crate::find::{find, read_found};
    #[pymodule_export]
    use crate::interpreter::at_exit;
    #[pymodule_export]
    use crate::job::{EvalProgram, Job};
    #[pymodule_export]
    use crate::language::{LanguageJob, evaluate_language};
    #[pymodule_export]
    use crate::layer::{DenseLayer, SparseLayer, StreamLayer};
    #[pymodule_export]
    use crate::lif::{FixedPointLif, lif_run, lif_run_multi, lif_run_varying};
    #[pymodule_export]
    use crate::network::{Network, rounding_bound};
    #[pymodule_export]
    use crate::network_builder::NetworkBuilder;
    #[pymodule_export]
    use crate::plan::EvaluationPlan;
    #[pymodule_export]
    #[pymodule_export]
    use crate::stream_network::StreamNetwork;
    #[pymodule_export]
    use crate::streams::{correlation, count_ones, encode, pack, unpack};
    #[pymodule_export]
    use crate::system::{
        after_fork, get_draw_memory, get_num_threads, gpus, run_program, set_draw_memory,
        set_num_threads, simd_tier,
    };

    #[pymodule_export]
    use crate::tensor::Tensor;
    #[pymodule_export]
    use crate::train::train;
    #[pymodule_export]
    use crate::transformer::{Generation, Transformer};

    /// Loads NumPy's interface, which fails while a Ctrl-C is pending, as it may be in the first
    /// call of a process, and registers the end of the interpreter.
    #[pymodule_init]
    fn initialize(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.py().import("numpy")?;
        numpy::PyArray1::<u64>::zeros(module.py(), 0, false);
        module.py().import("atexit")?.call_method1("register", (module.getattr("_at_exit")?,))?;
        Ok(())
    }

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "its name in Python")]
    const __version__: &str = aleatron::VERSION;
}

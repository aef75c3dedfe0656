//! One sample or a batch, through any layer: shapes, and pieces short enough for Ctrl-C to be heard.

use crate::array::{Input, output, shape_text};
use crate::compute::compute;
use crate::error::core_exception;
use aleatron::core::Quantity;
use aleatron::{Polarity, Result, SampleSeed, StreamMatrix};
use numpy::Element;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// What a layer expects of its inputs.
pub(crate) struct Inputs {
    pub(crate) n_inputs: usize,
    pub(crate) n_neurons: usize,
    pub(crate) length: aleatron::Length,
    pub(crate) polarity: Polarity,
    /// The words counted before looking whether the user has pressed Ctrl-C.
    pub(crate) patience: usize,
}

impl Inputs {
    /// `run` on a sample (n_inputs,) or a batch (N, n_inputs), as an array (n_neurons,) or (N, n_neurons).
    pub(crate) fn run<'py, T: Element + Send>(
        &self,
        x: &Bound<'py, PyAny>,
        seed: u64,
        run: impl Fn(&[f64], SampleSeed) -> Result<Vec<T>> + Sync,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = x.py();
        let x = Input::<f64>::read(x, "x")?;
        let (shape, values) = (x.shape(), x.slice()?);
        let n_samples = self.samples("x", shape, &[self.n_inputs])?;
        let seed = SampleSeed::new(seed);
        let samples_per_piece = (self.patience / self.cost()).max(1);
        let results = if n_samples.unwrap_or(1) <= samples_per_piece {
            compute(py, shape, || run(values, seed))?
        } else {
            let check = || Ok(self.polarity.check(values, Quantity::Value)?);
            compute(py, shape, check)?;
            let mut results = Vec::new();
            for (i, piece) in values.chunks(samples_per_piece * self.n_inputs).enumerate() {
                py.check_signals()?;
                // Past 2^32 samples the engine itself refuses: a counter has no room for them.
                let first = u32::try_from(i * samples_per_piece).unwrap_or(u32::MAX);
                results.append(&mut compute(py, shape, || run(piece, seed.starting_at(first)))?);
            }
            results
        };
        output(py, results, &self.result_shape(n_samples))
    }

    /// `run` on the packed streams of a sample (n_inputs, words) or a batch (N, n_inputs, words).
    pub(crate) fn run_encoded<'py, T: Element + Send>(
        &self,
        streams: &Bound<'py, PyAny>,
        run: impl Fn(&StreamMatrix) -> Result<Vec<T>> + Sync,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = streams.py();
        let streams = Input::<u64>::read(streams, "streams")?;
        let n_samples = self.samples("streams", streams.shape(), &[self.n_inputs, self.length.words()])?;
        let (rows, words) = (n_samples.unwrap_or(1) * self.n_inputs, streams.slice()?);
        let matrix = StreamMatrix::from_words(words.to_vec(), rows, self.length);
        let matrix = matrix.map_err(|error| core_exception(error, streams.shape()))?;
        let results = compute(py, streams.shape(), || run(&matrix))?;
        output(py, results, &self.result_shape(n_samples))
    }

    /// The samples of an argument whose samples have the shape `one`; `None` where it is one of them.
    fn samples(&self, name: &str, shape: &[usize], one: &[usize]) -> PyResult<Option<usize>> {
        match shape {
            shape if shape == one => Ok(None),
            [n, rest @ ..] if rest == one => Ok(Some(*n)),
            _ => {
                let sizes = one.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
                Err(PyValueError::new_err(format!(
                    "{name} has shape {}; expected {} for a sample or (N, {sizes}) for a batch",
                    shape_text(shape),
                    shape_text(one),
                )))
            }
        }
    }

    fn result_shape(&self, n_samples: Option<usize>) -> Vec<usize> {
        n_samples.into_iter().chain([self.n_neurons]).collect()
    }

    /// The work of a sample in counted words; encoding a word costs as much as counting many.
    fn cost(&self) -> usize {
        let row_words = self.n_inputs.saturating_mul(self.length.words());
        row_words.saturating_mul(self.n_neurons.saturating_add(64))
    }
}

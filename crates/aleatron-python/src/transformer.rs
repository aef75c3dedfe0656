//! `Transformer`: language models from Hugging Face files, and the iterator over generated tokens.

use crate::argument::{max_tokens, parse, seed, top_k};
use crate::array::output;
use crate::error::{core_exception, file_exception};
use crate::interpreter::detached;
use crate::warning::warn;
use aleatron::transformer::{
    self, AdapterId, DeviceChoice, GenerateOptions, GenerationConfig, GenerationOverrides,
    GenerationState, LoadOptions, ModelSource, Precision, TextStream, Tokenizer,
};
use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// A model with the adapters that were loaded by their folders.
struct Model {
    model: transformer::Transformer,
    adapters: BTreeMap<PathBuf, AdapterId>,
}

impl Model {
    /// The adapter of a folder, loaded once.
    fn adapter(&mut self, folder: Option<PathBuf>) -> transformer::Result<Option<AdapterId>> {
        let Some(folder) = folder else { return Ok(None) };
        if let Some(&adapter) = self.adapters.get(&folder) {
            return Ok(Some(adapter));
        }
        let adapter = self.model.load_adapter(&folder)?;
        self.adapters.insert(folder, adapter);
        Ok(Some(adapter))
    }
}

type Shared = Arc<Mutex<Model>>;

/// A decoder-only transformer from a folder of Hugging Face files, on a GPU or on the CPU.
///
/// Llama-like, Qwen2-like and GPT-2-like models are supported. Weights are stored as f32, f16 or
/// int8 with a scale per row.
///
/// Examples
/// --------
/// ::
///
///     model = al.Transformer.from_pretrained("model", device="gpu", precision="f16")
///     logits = model.forward([1, 15, 27])                    # (3, vocabulary)
///     for token in model.generate([1, 15, 27], max_tokens=20):
///         print(token)
///     print(model.generate_text("Once upon a time", max_tokens=50))
#[pyclass(module = "aleatron", frozen)]
pub(crate) struct Transformer {
    shared: Shared,
    device: String,
    precision: String,
    vocabulary: usize,
    max_positions: usize,
    generation: GenerationConfig,
    tokenizer: Option<Tokenizer>,
}

/// Runs a task without the interpreter.
fn run<T: Send>(
    py: Python<'_>,
    task: impl FnOnce() -> transformer::Result<T> + Send,
) -> PyResult<T> {
    detached(py, task)?.map_err(exception)
}

/// Returns the exception for an error.
pub(crate) fn exception(error: transformer::Error) -> PyErr {
    use transformer::Error as E;
    let text = error.to_string();
    match error {
        E::File { path, source } => file_exception(&path, &source),
        E::Core(error) => core_exception(error, &[]),
        E::Cache { .. } => PyMemoryError::new_err(text),
        #[cfg(feature = "gpu")]
        E::Device(_) => PyRuntimeError::new_err(text),
        E::Cpu(_) | E::NoGpuSupport => PyRuntimeError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}

/// Token ids: any sequence of integers, arrays included.
fn tokens(value: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
    let wrong = || PyTypeError::new_err("tokens must be a one-dimensional sequence of integers");
    let mut ids = Vec::new();
    for item in value.try_iter().map_err(|_| wrong())? {
        let id = item?.call_method0("__index__").map_err(|_| wrong())?;
        let place = ids.len();
        ids.push(id.extract().map_err(|_| {
            PyValueError::new_err(format!("token {place} is {id}, not in [0, 2**32)"))
        })?);
    }
    Ok(ids)
}

#[pymethods]
impl Transformer {
    /// Loads a folder with config.json, .safetensors files and, for text, tokenizer.json, or the
    /// model in the package.
    ///
    /// Parameters
    /// ----------
    /// folder
    ///     The folder, or "bytes", a small model in the package whose tokens are bytes.
    /// device
    ///     "auto" (a hardware GPU where there is one, else the CPU), "cpu", "gpu" or "gpu:1".
    /// precision
    ///     How weights are kept: "f32", "f16" or "int8".
    /// merge
    ///     The folder of a LoRA adapter that is added to the weights for good.
    #[staticmethod]
    #[pyo3(signature = (folder, *, device="auto", precision="f16", merge=None))]
    fn from_pretrained(
        py: Python<'_>,
        folder: PathBuf,
        device: &str,
        precision: &str,
        merge: Option<PathBuf>,
    ) -> PyResult<Self> {
        let device: DeviceChoice = parse(device).map_err(exception)?;
        let precision: Precision = parse(precision).map_err(exception)?;
        let options = LoadOptions { device, precision, merge };
        let source = ModelSource::named(&folder);
        let model = run(py, || transformer::Transformer::load(&source, &options))?;
        let generation = model.generation().clone();
        let warnings = generation.unsupported.iter();
        let warnings = warnings.map(|option| {
            format!("generation_config.json: {option} is not supported and has no effect")
        });
        warn(py, &warnings.collect::<Vec<_>>())?;
        Ok(Self {
            device: model.device(),
            precision: precision.to_string(),
            vocabulary: model.config().vocabulary,
            max_positions: model.config().max_positions,
            generation,
            tokenizer: model.tokenizer().ok().cloned(),
            shared: Arc::new(Mutex::new(Model { model, adapters: BTreeMap::new() })),
        })
    }

    /// Returns the logits after each token, as an array of shape (tokens, vocabulary).
    #[pyo3(signature = (tokens, *, lora=None))]
    fn forward<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = tokens)] tokens: Vec<u32>,
        lora: Option<PathBuf>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let shared = Arc::clone(&self.shared);
        let shape = [tokens.len(), self.vocabulary];
        let logits = run(py, || {
            let mut model = shared.lock().unwrap_or_else(PoisonError::into_inner);
            let adapter = model.adapter(lora)?;
            model.model.forward(&tokens, adapter)
        })?;
        output(py, logits, &shape)
    }

    /// Continues a list of tokens: returns an iterator over the new ones.
    ///
    /// Options of sampling that are None are those of the model's generation_config.json, as in
    /// Hugging Face transformers; without the file, the choice is greedy.
    ///
    /// Parameters
    /// ----------
    /// tokens
    ///     The prompt.
    /// max_tokens
    ///     The largest number of new tokens.
    /// temperature
    ///     Divides the logits; 0 for the token with the largest logit.
    /// top_k
    ///     Keeps so many tokens with the largest logits; 0 for all.
    /// top_p
    ///     Keeps the most probable tokens whose probabilities add up to this.
    /// repetition_penalty
    ///     Divides positive logits of tokens that the text contains already and multiplies negative
    ///     ones; 1 for none.
    /// seed
    ///     The seed of random choices; None for a new one in each call.
    /// lora
    ///     The folder of a LoRA adapter.
    #[pyo3(signature = (
        tokens, *, max_tokens=128, temperature=None, top_k=None, top_p=None, repetition_penalty=None, seed=None, lora=None
    ))]
    fn generate(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = tokens)] tokens: Vec<u32>,
        #[pyo3(from_py_with = max_tokens)] max_tokens: usize,
        temperature: Option<f32>,
        #[pyo3(from_py_with = top_k)] top_k: Option<u32>,
        top_p: Option<f32>,
        repetition_penalty: Option<f32>,
        seed: Option<&Bound<'_, PyAny>>,
        lora: Option<PathBuf>,
    ) -> PyResult<Generation> {
        let seed = match seed {
            Some(given) => self::seed(given)?,
            None => py.import("secrets")?.call_method1("randbits", (64,))?.extract()?,
        };
        let given = GenerationOverrides { temperature, top_k, top_p, repetition_penalty };
        let shared = Arc::clone(&self.shared);
        let state = run(py, || {
            let mut model = shared.lock().unwrap_or_else(PoisonError::into_inner);
            let adapter = model.adapter(lora)?;
            let defaults = model.model.generation().options(&given, seed);
            let options = GenerateOptions { max_tokens, adapter, ..defaults };
            GenerationState::start(&mut model.model, &[&tokens], &options)
        })?;
        Ok(Generation { shared, state: Mutex::new(state) })
    }

    /// Continues a text as `generate` does: returns the new text.
    #[pyo3(signature = (
        text, *, max_tokens=128, temperature=None, top_k=None, top_p=None, repetition_penalty=None, seed=None, lora=None
    ))]
    fn generate_text(
        &self,
        py: Python<'_>,
        text: &str,
        #[pyo3(from_py_with = max_tokens)] max_tokens: usize,
        temperature: Option<f32>,
        #[pyo3(from_py_with = top_k)] top_k: Option<u32>,
        top_p: Option<f32>,
        repetition_penalty: Option<f32>,
        seed: Option<&Bound<'_, PyAny>>,
        lora: Option<PathBuf>,
    ) -> PyResult<String> {
        let prompt = self.encode(text)?;
        let generation = self.generate(
            py,
            prompt,
            max_tokens,
            temperature,
            top_k,
            top_p,
            repetition_penalty,
            seed,
            lora,
        )?;
        let tokenizer =
            self.tokenizer.as_ref().ok_or_else(|| exception(transformer::Error::NoTokenizer))?;
        let (mut stream, mut result) = (TextStream::default(), String::new());
        while let Some(token) = generation.__next__(py)? {
            py.check_signals()?;
            result += &stream.push(tokenizer, token).map_err(exception)?;
        }
        result += &stream.finish(tokenizer).map_err(exception)?;
        Ok(result)
    }

    /// Returns the tokens of a text.
    fn encode(&self, text: &str) -> PyResult<Vec<u32>> {
        let tokenizer = self.tokenizer.as_ref().ok_or(transformer::Error::NoTokenizer);
        tokenizer.and_then(|tokenizer| tokenizer.encode(text)).map_err(exception)
    }

    /// Returns the text of tokens.
    fn decode(&self, #[pyo3(from_py_with = tokens)] tokens: Vec<u32>) -> PyResult<String> {
        let tokenizer = self.tokenizer.as_ref().ok_or(transformer::Error::NoTokenizer);
        tokenizer.and_then(|tokenizer| tokenizer.decode(&tokens)).map_err(exception)
    }

    /// The defaults of `generate`: those of generation_config.json, or those of Hugging Face
    /// transformers.
    #[getter]
    fn generation_config<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let config = PyDict::new(py);
        config.set_item("temperature", self.generation.sampling.temperature)?;
        config.set_item("top_k", self.generation.sampling.top_k)?;
        config.set_item("top_p", self.generation.sampling.top_p)?;
        config.set_item("repetition_penalty", self.generation.repetition_penalty)?;
        config.set_item("eos_token_id", &self.generation.end_tokens)?;
        Ok(config)
    }

    /// The device.
    #[getter]
    fn device(&self) -> &str {
        &self.device
    }

    /// The precision of the weights.
    #[getter]
    fn precision(&self) -> &str {
        &self.precision
    }

    /// The size of the vocabulary.
    #[getter]
    fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// The largest number of positions of a text.
    #[getter]
    fn max_positions(&self) -> usize {
        self.max_positions
    }

    fn __repr__(&self) -> String {
        format!(
            "Transformer(device='{}', precision='{}', vocabulary={})",
            self.device, self.precision, self.vocabulary
        )
    }
}

/// An iterator over generated tokens.
#[pyclass(module = "aleatron", name = "_Generation", frozen)]
pub(crate) struct Generation {
    shared: Shared,
    state: Mutex<GenerationState>,
}

#[pymethods]
impl Generation {
    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<u32>> {
        run(py, || {
            let mut model = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(state.next(&mut model.model)?.and_then(|tokens| tokens.first().copied().flatten()))
        })
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        let mut model = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.close(&mut model.model);
    }
}

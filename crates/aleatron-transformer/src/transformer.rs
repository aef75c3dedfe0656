//! A model with its tokenizer on a device, and the generation of text.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::config::{Config, Precision};
use crate::cpu::CpuForwardPass;
use crate::error::{Error, Result};
use crate::generation::{GenerationConfig, GenerationOverrides};
use crate::lora::Adapter;
use crate::pass::{AdapterId, ForwardPass, Logits, Segment, SequenceId};
use crate::penalty::RepetitionPenalty;
use crate::sampling::Sampling;
use crate::source::ModelSource;
use crate::tokenizer::Tokenizer;
use crate::weights::Loader;
use crate::weights::files::TensorFiles;
use crate::weights::random::RandomTensors;

/// The requested device of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DeviceChoice {
    /// A hardware GPU, or the one that the environment names, if there is one; otherwise the CPU.
    /// [`Transformer::device`] returns the choice.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The default GPU, or the one with this index.
    Gpu(Option<usize>),
}

impl FromStr for DeviceChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "gpu" => Ok(Self::Gpu(None)),
            _ => match text.strip_prefix("gpu:").and_then(|index| index.parse().ok()) {
                Some(index) => Ok(Self::Gpu(Some(index))),
                None => Err(Error::UnknownOption {
                    option: "device".to_owned(),
                    value: format!("\"{text}\""),
                }),
            },
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Gpu(None) => f.write_str("gpu"),
            Self::Gpu(Some(index)) => write!(f, "gpu:{index}"),
        }
    }
}

/// Options of loading a model.
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    /// The device.
    pub device: DeviceChoice,
    /// Returns the precision of the weights.
    pub precision: Precision,
    /// The folder of an adapter that is merged into the weights.
    pub merge: Option<PathBuf>,
}

/// Options of generating text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GenerateOptions {
    /// The largest number of tokens.
    pub max_tokens: usize,
    /// The options of choosing each token.
    pub sampling: Sampling,
    /// The factor that makes tokens of the text, its prompt included, less likely: positive logits
    /// are divided by it, negative ones multiplied with it. 1 has no effect. With any other factor,
    /// tokens are chosen on the host.
    pub repetition_penalty: f32,
    /// The adapter to use.
    pub adapter: Option<AdapterId>,
}

impl GenerateOptions {
    /// Replaces options by those of the caller.
    #[must_use]
    pub fn with(mut self, given: &GenerationOverrides) -> Self {
        self.sampling.temperature = given.temperature.unwrap_or(self.sampling.temperature);
        self.sampling.top_k = given.top_k.unwrap_or(self.sampling.top_k);
        self.sampling.top_p = given.top_p.unwrap_or(self.sampling.top_p);
        self.repetition_penalty = given.repetition_penalty.unwrap_or(self.repetition_penalty);
        self
    }

    /// Checks the options.
    ///
    /// # Errors
    /// [`Error::Sampling`] with the option that is out of range.
    pub fn check(&self) -> Result<()> {
        self.sampling.check()?;
        RepetitionPenalty::check(self.repetition_penalty)
    }
}

/// At most 128 tokens, each with the largest logit. [`GenerationConfig::options`] gives the
/// defaults of a model.
impl Default for GenerateOptions {
    fn default() -> Self {
        Self { max_tokens: 128, sampling: Sampling::GREEDY, repetition_penalty: 1.0, adapter: None }
    }
}

/// A model on a device.
#[derive(Debug)]
pub struct Transformer {
    pass: Box<dyn ForwardPass>,
    tokenizer: Option<Tokenizer>,
    precision: Precision,
    generation: GenerationConfig,
}

impl Transformer {
    /// Loads a folder of Hugging Face files: `config.json`, `.safetensors` files, and
    /// `generation_config.json` and `tokenizer.json` if they exist.
    ///
    /// ```no_run
    /// use aleatron_transformer::{GenerateOptions, LoadOptions, Transformer};
    ///
    /// let mut model = Transformer::from_pretrained("model".as_ref(), &LoadOptions::default())?;
    /// let prompt = model.tokenizer()?.encode("Once upon a time")?;
    /// for token in model.generate(&prompt, &GenerateOptions::default())? {
    ///     println!("{}", token?);
    /// }
    /// # Ok::<(), aleatron_transformer::Error>(())
    /// ```
    ///
    /// # Errors
    /// An error with the file, option or tensor at fault, or an error of the device.
    pub fn from_pretrained(folder: &Path, options: &LoadOptions) -> Result<Self> {
        Self::load(&ModelSource::Folder(folder.to_owned()), options)
    }

    /// Loads a folder, or the embedded model.
    ///
    /// # Errors
    /// As [`Self::from_pretrained`].
    pub fn load(source: &ModelSource, options: &LoadOptions) -> Result<Self> {
        let (config, generation) = source.configs()?;
        let files = TensorFiles::open_model(source, &config)?;
        let merged =
            options.merge.as_deref().map(|adapter| Adapter::read(adapter, &config)).transpose()?;
        let loader = Loader {
            config: &config,
            source: &files,
            precision: options.precision,
            merged: merged.as_ref(),
        };
        let tokenizer = source.tokenizer()?;
        let pass = open_pass(&loader, options.device)?;
        Ok(Self { pass, tokenizer, precision: options.precision, generation })
    }

    /// Creates a model with random weights, for benchmarks.
    ///
    /// # Errors
    /// An error of the device.
    pub fn random(config: &Config, seed: u64, options: &LoadOptions) -> Result<Self> {
        let source = RandomTensors { seed };
        let loader = Loader { config, source: &source, precision: options.precision, merged: None };
        let (pass, generation) =
            (open_pass(&loader, options.device)?, GenerationConfig::of_config(config));
        Ok(Self { pass, tokenizer: None, precision: options.precision, generation })
    }

    /// Returns the architecture and the sizes.
    #[must_use]
    pub fn config(&self) -> &Config {
        self.pass.config()
    }

    /// Returns the name of the device.
    #[must_use]
    pub fn device(&self) -> String {
        self.pass.device()
    }

    /// Returns the precision of the weights.
    #[must_use]
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Returns the defaults of generation that the folder of the model gives.
    #[must_use]
    pub fn generation(&self) -> &GenerationConfig {
        &self.generation
    }

    /// Returns the tokenizer.
    ///
    /// # Errors
    /// [`Error::NoTokenizer`] if the folder has no tokenizer.
    pub fn tokenizer(&self) -> Result<&Tokenizer> {
        self.tokenizer.as_ref().ok_or(Error::NoTokenizer)
    }

    /// Returns the pass, for batches, caches and adapters.
    pub fn pass(&mut self) -> &mut dyn ForwardPass {
        &mut *self.pass
    }

    /// Loads an adapter from PEFT's files. Calls use it if they name it.
    ///
    /// # Errors
    /// An error with the fault of its files, or an error of the device.
    pub fn load_adapter(&mut self, folder: &Path) -> Result<AdapterId> {
        let adapter = Adapter::read(folder, self.pass.config())?;
        self.pass.load_adapter(&adapter)
    }

    /// Computes the logits after each token of a text, one vocabulary per token.
    ///
    /// # Errors
    /// [`Error::Token`], [`Error::TooLong`], [`Error::NoTokens`], or an error of the device.
    pub fn forward(&mut self, tokens: &[u32], adapter: Option<AdapterId>) -> Result<Vec<f32>> {
        let sequence = self.pass.open()?;
        let logits = self
            .pass
            .use_adapter(sequence, adapter)
            .and_then(|()| self.pass.forward(&[Segment { sequence, tokens }], Logits::All));
        self.pass.close(sequence);
        logits
    }

    /// Continues a text, token by token.
    ///
    /// # Errors
    /// As [`Self::forward`], and [`Error::Sampling`].
    pub fn generate<'a>(
        &'a mut self,
        prompt: &[u32],
        options: &GenerateOptions,
    ) -> Result<Generation<'a>> {
        let state = GenerationState::start(self, &[prompt], options)?;
        Ok(Generation { model: self, state })
    }
}

fn open_pass(loader: &Loader<'_>, device: DeviceChoice) -> Result<Box<dyn ForwardPass>> {
    #[cfg(feature = "gpu")]
    {
        use aleatron_device::{AdapterChoice, GpuContext, is_gpu_available};
        let choice = match device {
            DeviceChoice::Gpu(Some(index)) => Some(AdapterChoice::Index(index)),
            DeviceChoice::Gpu(None) => Some(AdapterChoice::from_env()),
            DeviceChoice::Auto if is_gpu_available() => Some(AdapterChoice::from_env()),
            _ => None,
        };
        if let Some(choice) = choice {
            let context = GpuContext::get(&choice)?;
            return Ok(Box::new(crate::gpu::WgslForwardPass::new(&context, loader)?));
        }
    }
    #[cfg(not(feature = "gpu"))]
    if let DeviceChoice::Gpu(_) = device {
        return Err(Error::NoGpuSupport);
    }
    Ok(Box::new(CpuForwardPass::new(loader)?))
}

/// The state of the generation of one or several texts, which can be continued or abandoned at any
/// token.
#[derive(Debug)]
pub struct GenerationState {
    sequences: Vec<SequenceId>,
    /// The number of returned tokens of each sequence in the cache.
    lengths: Vec<usize>,
    /// The last token of each text.
    last: Vec<u32>,
    /// Whether each text has ended.
    ended: Vec<bool>,
    sampling: Sampling,
    penalty: Option<RepetitionPenalty>,
    end_tokens: Vec<u32>,
    /// The number of tokens still to return, those of steps in flight included.
    remaining: usize,
    in_flight: usize,
    epoch: u64,
    /// The tokens of the prefill, which are returned first.
    first: Option<Vec<u32>>,
}

impl GenerationState {
    /// Reads prompts, each a separate text.
    ///
    /// # Errors
    /// As [`Transformer::generate`].
    pub fn start(
        model: &mut Transformer,
        prompts: &[&[u32]],
        options: &GenerateOptions,
    ) -> Result<Self> {
        options.check()?;
        let (pass, mut sequences) = (&mut *model.pass, Vec::new());
        let mut penalty = RepetitionPenalty::new(options.repetition_penalty, prompts);
        let started = (|| {
            for _ in prompts {
                let sequence = pass.open()?;
                sequences.push(sequence);
                pass.use_adapter(sequence, options.adapter)?;
            }
            let pairs = sequences.iter().zip(prompts);
            let segments: Vec<_> =
                pairs.map(|(&sequence, &tokens)| Segment { sequence, tokens }).collect();
            append(pass, &segments, &options.sampling, penalty.as_mut())
        })();
        let first = match started {
            Ok(first) => first,
            Err(error) => {
                sequences.into_iter().for_each(|sequence| pass.close(sequence));
                return Err(error);
            }
        };
        let longest = prompts.iter().map(|prompt| prompt.len()).max().unwrap_or(0);
        // The last token is returned without a position in the cache.
        let room = pass.config().max_positions + 1 - longest;
        Ok(Self {
            lengths: prompts.iter().map(|prompt| prompt.len()).collect(),
            last: first.clone(),
            ended: vec![false; prompts.len()],
            sampling: options.sampling,
            penalty,
            end_tokens: pass.config().end_tokens.clone(),
            remaining: options.max_tokens.min(room),
            in_flight: 0,
            epoch: pass.epoch(),
            sequences,
            first: Some(first),
        })
    }

    /// Returns the next token of each text, `None` for texts that have ended; `None` once all have
    /// ended.
    ///
    /// # Errors
    /// An error of the device.
    pub fn next(&mut self, model: &mut Transformer) -> Result<Option<Vec<Option<u32>>>> {
        if self.remaining == 0 || self.ended.iter().all(|ended| *ended) {
            self.close(model);
            return Ok(None);
        }
        let tokens = match self.first.take() {
            Some(first) => first,
            None => self.step(&mut *model.pass)?,
        };
        self.remaining -= 1;
        let handed = tokens
            .iter()
            .zip(&self.ended)
            .map(|(&token, &ended)| (!ended).then_some(token))
            .collect();
        for (token, ended) in tokens.iter().zip(&mut self.ended) {
            *ended |= self.end_tokens.contains(token);
        }
        self.last = tokens;
        Ok(Some(handed))
    }

    fn step(&mut self, pass: &mut dyn ForwardPass) -> Result<Vec<u32>> {
        if pass.epoch() != self.epoch || self.penalty.is_some() {
            // Another call ran meanwhile: the steps in flight are lost, and the last token is read
            // again. Steps with a penalty wait for the previous token.
            self.in_flight = 0;
            for (&sequence, &len) in self.sequences.iter().zip(&self.lengths) {
                pass.truncate(sequence, len)?;
            }
            let pairs = self.sequences.iter().zip(&self.last);
            let segments: Vec<_> = pairs
                .map(|(&sequence, token)| Segment { sequence, tokens: std::slice::from_ref(token) })
                .collect();
            let tokens = append(pass, &segments, &self.sampling, self.penalty.as_mut())?;
            self.epoch = pass.epoch();
            self.lengths.iter_mut().for_each(|len| *len += 1);
            return Ok(tokens);
        }
        while self.in_flight <= pass.look_ahead() && self.in_flight < self.remaining {
            pass.submit_step()?;
            self.in_flight += 1;
        }
        let tokens = pass.take_step()?;
        self.in_flight -= 1;
        self.lengths.iter_mut().for_each(|len| *len += 1);
        Ok(tokens)
    }

    /// Releases the cache of its texts.
    pub fn close(&mut self, model: &mut Transformer) {
        self.remaining = 0;
        self.sequences.drain(..).for_each(|sequence| model.pass.close(sequence));
    }
}

/// Appends tokens to sequences and chooses the token that follows each: on the device, or with a
/// penalty on the host.
fn append(
    pass: &mut dyn ForwardPass,
    segments: &[Segment<'_>],
    sampling: &Sampling,
    penalty: Option<&mut RepetitionPenalty>,
) -> Result<Vec<u32>> {
    let Some(penalty) = penalty else { return pass.prefill(segments, sampling) };
    let mut logits = pass.forward(segments, Logits::Last)?;
    let vocabulary = pass.config().vocabulary;
    let mut tokens = Vec::with_capacity(segments.len());
    for (text, (segment, logits)) in
        segments.iter().zip(logits.chunks_exact_mut(vocabulary)).enumerate()
    {
        penalty.apply(text, logits);
        let position = pass.len(segment.sequence)? as u32;
        let chosen = sampling.choose(logits, position, text as u32);
        let token = chosen.ok_or(Error::NotFinite { sequence: segment.sequence.0 })?;
        penalty.push(text, token);
        tokens.push(token);
    }
    Ok(tokens)
}

/// An iterator over the tokens that continue a text.
#[derive(Debug)]
pub struct Generation<'a> {
    model: &'a mut Transformer,
    state: GenerationState,
}

impl Iterator for Generation<'_> {
    type Item = Result<u32>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.state.next(self.model) {
            Ok(Some(tokens)) => tokens.first().copied().flatten().map(Ok),
            Ok(None) => None,
            Err(error) => {
                self.state.close(self.model);
                Some(Err(error))
            }
        }
    }
}

impl Drop for Generation<'_> {
    fn drop(&mut self) {
        self.state.close(self.model);
    }
}

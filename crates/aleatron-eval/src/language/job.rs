//! An evaluation of a language model, whose tasks can be run anywhere.

use super::calibrate::InputScales;
use super::journal::{LanguageJournal, LanguageTaskResult, SequenceResult};
use super::plan::LanguagePlan;
use super::products::{ProductSelection, StreamProducts};
use super::schedule::{Header, LanguageSchedule, ProductSummary, fingerprint};
use super::score::Reading;
use super::text::{LanguageText, SplitText};
use crate::{Error, Result, Task};
use aleatron_core::{Cancel, Error as CoreError, Quantity};
use aleatron_engine::Device;
use aleatron_engine::network::StreamConfig;
use aleatron_transformer::{
    DeviceChoice, ForwardPass, LinearId, LoadOptions, Logits, ModelSource, Segment, Transformer,
};
use serde::{Deserialize, Serialize};
use std::borrow::BorrowMut;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Tokens whose logits identify a model.
const FINGERPRINT_TOKENS: usize = 64;

/// An evaluation of a language model to be run as tasks; see [`LanguageJournal`].
///
/// ```
/// use aleatron_core::Cancel;
/// use aleatron_eval::language::{LanguageJob, LanguagePlan, LanguageText, evaluate_language_model};
/// use aleatron_transformer::{DeviceChoice, LoadOptions, ModelSource, Transformer};
///
/// let options = LoadOptions { device: DeviceChoice::Cpu, ..LoadOptions::default() };
/// let mut model = Transformer::load(&ModelSource::Embedded, &options)?;
/// let text = LanguageText::embedded(model.tokenizer()?)?;
/// let plan = LanguagePlan { lengths: vec![64], predicted: Some(40), context: Some(10), seeds: 1, ..LanguagePlan::default() };
/// let whole = evaluate_language_model("bytes", &mut model, &text, &plan, None, Cancel::NEVER, |_| ())?;
/// let mut job = LanguageJob::new("bytes", &mut model, &text, &plan, Cancel::NEVER)?;
/// let mut journal = job.journal();
/// for task in job.schedule().split(&journal.missing(), 5).iter().rev() {
///     journal.add(job.run(task, Cancel::NEVER, &mut |_| ())?)?;
/// }
/// assert_eq!(journal.finish()?.rows[0].loss, whole.rows[0].loss);
/// # Ok::<(), aleatron_eval::Error>(())
/// ```
#[derive(Debug)]
pub struct LanguageJob<M> {
    model: M,
    schedule: LanguageSchedule,
    scales: InputScales,
    /// The tokens that are evaluated. The first is read and not predicted.
    tokens: Vec<u32>,
    /// Positions that run at once.
    chunk: usize,
    device: Device,
    /// The products of the pass that ran last, by the index of the pass.
    prepared: Option<(usize, Arc<StreamProducts>)>,
}

impl<M: BorrowMut<Transformer>> LanguageJob<M> {
    /// Checks everything that can be known before anything runs, and measures the scales of inputs.
    /// The model must be loaded on the CPU.
    ///
    /// # Errors
    /// As [`LanguagePlan::check`], [`LanguageText::split`] and [`InputScales::measure`];
    /// [`CoreError::TooLarge`] for more than 2^32 positions.
    pub fn new(
        name: &str,
        mut model: M,
        text: &LanguageText,
        plan: &LanguagePlan,
        cancel: Cancel<'_>,
    ) -> Result<Self> {
        let transformer = model.borrow_mut();
        let config = transformer.config().clone();
        plan.check(&config)?;
        let split = text.split(plan.calibration, plan.predicted)?;
        let context = plan.context_of(&config);
        check_samples(&split, context)?;
        text.check_vocabulary(&config)?;
        let precision = transformer.precision().to_string();
        let (pass, calibration) = (transformer.pass(), &text.tokens()[split.calibration.clone()]);
        let scales = InputScales::measure(pass, calibration, context, plan.share, cancel)?;
        let tokens = text.tokens()[split.evaluation.clone()].to_vec();
        let products = LinearId::all(&config).into_iter().map(|linear| {
            let [m, n] = linear.shape(&config);
            ProductSummary {
                name: linear.to_string(),
                weights: (m as u64).saturating_mul(n as u64),
            }
        });
        let header = Header {
            language_model: name.to_owned(),
            version: aleatron_engine::VERSION.to_owned(),
            text: text.name().to_owned(),
            precision,
            plan: plan.resolved(&config),
            sensitivity: plan.sensitivity,
            calibration_tokens: scales.tokens,
            quantile: scales.share,
            input_scales: scales.scales.clone(),
            predicted_tokens: split.predicted(),
            predicted_bytes: text.predicted_bytes(&split),
            context,
            products: products.collect(),
            fingerprint: identify(pass, &tokens)?,
        };
        let schedule = LanguageSchedule::new(header)?;
        let (chunk, device) = (plan.chunk, plan.device.clone());
        Ok(Self { model, schedule, scales, tokens, chunk, device, prepared: None })
    }

    /// Returns the work.
    #[must_use]
    pub fn schedule(&self) -> &LanguageSchedule {
        &self.schedule
    }

    /// Returns a journal without results.
    #[must_use]
    pub fn journal(&self) -> LanguageJournal {
        LanguageJournal::new(self.schedule.clone())
    }

    /// Returns the device that linear products run on.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the same job on another device, which changes times and nothing else; results keep
    /// the name of the first device.
    #[must_use]
    pub fn on(mut self, device: Device) -> Self {
        (self.device, self.prepared) = (device, None);
        self
    }

    /// Runs a task; `tick` is called with the tokens of each chunk of positions.
    ///
    /// # Errors
    /// [`Error::Format`] for a task of another schedule, [`CoreError::Cancelled`] when cancelled,
    /// and every failure of the model.
    pub fn run(
        &mut self,
        task: &Task,
        cancel: Cancel<'_>,
        tick: &mut dyn FnMut(usize),
    ) -> Result<LanguageTaskResult> {
        let end =
            task.first.checked_add(task.chunks).filter(|&end| end <= self.schedule.n_sequences());
        let Some(end) = end.filter(|_| task.pass < self.schedule.n_passes()) else {
            return Err(crate::task::fault(format!("{task:?} is of another schedule")));
        };
        let products = self.products(task.pass, cancel)?;
        let pass = self.model.borrow_mut().pass();
        pass.set_linear_products(products.clone().map(|products| products as _))?;
        let reading = Reading { tokens: &self.tokens, chunk: self.chunk, cancel };
        let read = (task.first..end).map(|sequence| {
            let before = products
                .as_ref()
                .map(|products| (products.saturation_counts(), products.head_counts()));
            let start = Instant::now();
            let score = reading.score(pass, sequence, self.schedule.tokens_of(sequence), tick)?;
            let seconds = start.elapsed().as_secs_f64();
            let mut result = SequenceResult {
                nats: score.nats,
                best: score.best,
                seconds,
                ..Default::default()
            };
            if let (Some(products), Some((saturated, head))) = (&products, before) {
                let after = products.saturation_counts();
                let pairs = after.iter().zip(&saturated).map(|(a, b)| [a[0] - b[0], a[1] - b[1]]);
                result.saturated = pairs.collect();
                let after = products.head_counts();
                result.head =
                    after.iter().zip(head).map(|(after, before)| after.since(before)).collect();
                result.backends = products.backends(self.chunk.min(self.schedule.header.context));
            }
            Ok(result)
        });
        let sequences: Result<Vec<_>> = read.collect();
        self.model.borrow_mut().pass().set_linear_products(None)?;
        let notes = products.map(|products| products.warnings()).unwrap_or_default();
        Ok(LanguageTaskResult { pass: task.pass, first: task.first, sequences: sequences?, notes })
    }

    /// Returns the mean loss in nats per token, of the products as streams or in floating point.
    pub(super) fn loss(
        &mut self,
        streams: Option<&StreamConfig>,
        cancel: Cancel<'_>,
    ) -> Result<f64> {
        let (context, pass) = (self.schedule.header.context, self.model.borrow_mut().pass());
        let products = streams.map(|streams| {
            StreamProducts::new(pass, &self.scales, streams, context, ProductSelection::All, cancel)
        });
        pass.set_linear_products(products.transpose()?.map(|products| Arc::new(products) as _))?;
        let reading = Reading { tokens: &self.tokens, chunk: self.chunk, cancel };
        let sequences = 0..self.schedule.n_sequences();
        let nats = sequences.map(|sequence| {
            let tokens = self.schedule.tokens_of(sequence);
            Ok(reading.score(pass, sequence, tokens, &mut |_| ())?.nats)
        });
        let nats: Result<f64> = nats.sum();
        pass.set_linear_products(None)?;
        Ok(nats? / self.schedule.header.predicted_tokens as f64)
    }

    /// Returns the products of a pass as streams, those of the last pass if it is the same; `None`
    /// in floating point.
    fn products(&mut self, pass: usize, cancel: Cancel<'_>) -> Result<Option<Arc<StreamProducts>>> {
        let Some(run) = pass.checked_sub(1).and_then(|run| self.schedule.runs.get(run)) else {
            return Ok(None);
        };
        if let Some((_, products)) = self.prepared.as_ref().filter(|(known, _)| *known == pass) {
            return Ok(Some(Arc::clone(products)));
        }
        self.prepared = None;
        let streams = self.schedule.config(run).device(self.device.clone());
        let transformer = self.model.borrow_mut().pass();
        let selection = match run.only {
            None => ProductSelection::All,
            Some(product) => {
                let linear = LinearId::all(transformer.config()).get(product).copied();
                let missing = CoreError::Internal { place: "eval::LanguageJob::products" };
                ProductSelection::Only(linear.ok_or(missing)?)
            }
        };
        let context = self.schedule.header.context;
        let products =
            StreamProducts::new(transformer, &self.scales, &streams, context, selection, cancel)?;
        let products = match run.only {
            None => {
                let margins = &self.schedule.header.plan.margins;
                products.with_head_termination(transformer, &streams, margins, cancel)?
            }
            Some(_) => products,
        };
        let products = Arc::new(products);
        self.prepared = Some((pass, Arc::clone(&products)));
        Ok(Some(products))
    }

    /// Returns the job as bytes, for workers of other processes and machines. The weights are not
    /// part of them: workers read the model of `origin`, whose path must be valid there.
    ///
    /// # Errors
    /// [`Error::Format`] for a path that is not UTF-8.
    pub fn to_bytes(&self, origin: &ModelOrigin) -> Result<Vec<u8>> {
        let head = Packed {
            origin: origin.clone(),
            header: self.schedule.header.clone(),
            tokens: self.tokens.clone(),
            chunk: self.chunk,
        };
        Ok(crate::task::to_line(&head)?.into_bytes())
    }
}

impl LanguageJob<Transformer> {
    /// Reads bytes that [`LanguageJob::to_bytes`] wrote, and loads the model.
    ///
    /// # Errors
    /// [`Error::Format`] with the fault, also if the model of this machine is another one, and as
    /// [`Transformer::load`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let fault = |reason: String| Error::Format { file: "job".to_owned(), reason };
        let packed: Packed =
            serde_json::from_slice(bytes).map_err(|error| fault(error.to_string()))?;
        let line = crate::task::to_line(&packed.header)?;
        let schedule = LanguageSchedule::from_line(&line)?;
        let Packed { origin, header, tokens, chunk } = packed;
        let mut model = origin.load()?;
        let is_known = |&token: &u32| (token as usize) < model.config().vocabulary;
        if tokens.len() != header.predicted_tokens + 1 || !tokens.iter().all(is_known) || chunk == 0
        {
            return Err(fault("its tokens are inconsistent".to_owned()));
        }
        if identify(model.pass(), &tokens)? != header.fingerprint {
            let name = origin.model.name();
            return Err(fault(format!("the model {name} of this machine computes other logits")));
        }
        let scales = InputScales {
            scales: header.input_scales,
            tokens: header.calibration_tokens,
            share: header.quantile,
        };
        let device = header.plan.device;
        Ok(Self { model, schedule, scales, tokens, chunk, device, prepared: None })
    }
}

/// The source of a model, and its precision for streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelOrigin {
    /// The folder, or the model in the program.
    pub model: ModelSource,
    /// The rounding of weights before they are encoded.
    pub precision: aleatron_transformer::Precision,
    /// The folder of an adapter that is added to the weights.
    pub lora: Option<PathBuf>,
}

impl ModelOrigin {
    /// Loads the model on the CPU, where everything but its linear products runs.
    ///
    /// # Errors
    /// As [`Transformer::load`].
    pub fn load(&self) -> Result<Transformer> {
        let (precision, merge) = (self.precision, self.lora.clone());
        Ok(Transformer::load(
            &self.model,
            &LoadOptions { device: DeviceChoice::Cpu, precision, merge },
        )?)
    }
}

/// A [`ModelOrigin`] in JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OriginText {
    model: String,
    precision: String,
    lora: Option<String>,
}

impl Serialize for ModelOrigin {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = |path: &Path| {
            let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            let text = absolute.to_str().map(str::to_owned);
            text.ok_or_else(|| {
                serde::ser::Error::custom(format!("{}: the path is not UTF-8", path.display()))
            })
        };
        let model = match &self.model {
            ModelSource::Folder(folder) => text(folder)?,
            ModelSource::Embedded => ModelSource::EMBEDDED_NAME.to_owned(),
        };
        let lora = self.lora.as_deref().map(text).transpose()?;
        OriginText { model, precision: self.precision.to_string(), lora }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ModelOrigin {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let OriginText { model, precision, lora } = OriginText::deserialize(deserializer)?;
        Ok(Self {
            model: ModelSource::named(Path::new(&model)),
            precision: precision.parse().map_err(serde::de::Error::custom)?,
            lora: lora.map(PathBuf::from),
        })
    }
}

/// A job as bytes.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Packed {
    origin: ModelOrigin,
    header: Header,
    tokens: Vec<u32>,
    chunk: usize,
}

/// Returns a hash of tokens, and of the logits after the first of them in floating point.
fn identify(pass: &mut dyn ForwardPass, tokens: &[u32]) -> Result<String> {
    let sequence = pass.open()?;
    let n = tokens.len().min(FINGERPRINT_TOKENS).min(pass.config().max_positions);
    let logits = pass.forward(&[Segment { sequence, tokens: &tokens[..n] }], Logits::All);
    pass.close(sequence);
    let logits = logits?.into_iter().map(|logit| u64::from(logit.to_bits()));
    Ok(fingerprint(logits.chain(tokens.iter().map(|&token| u64::from(token)))))
}

/// Checks that every position of a text has an index that streams can name.
fn check_samples(split: &SplitText, context: usize) -> Result<()> {
    let sequences = split.predicted().div_ceil(context) as u128;
    let (actual, limit) = (sequences * context as u128, 1_u128 << 32);
    if actual > limit {
        return Err(CoreError::TooLarge { what: Quantity::Samples, actual, limit }.into());
    }
    Ok(())
}

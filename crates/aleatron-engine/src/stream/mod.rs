//! A network as streams: the circuit with given generators and lengths, bit-exact.

mod feature;
mod nodes;
mod products;
#[cfg(test)]
mod random_tests;
mod run;
mod stages;
mod statistics;
#[cfg(test)]
mod tests;
mod trace;

pub use feature::FeatureCheck;
#[doc(hidden)]
pub use products::each_product;
pub use stages::{NetworkSegment, Stage, StageLayer, StageNode, StageStep, Stages};
pub use statistics::LayerStats;
pub use trace::{Detail, LayerInputs, LayerOutput, Measured, NodeErrors, StreamOutput};

use crate::backend::{self, Backend, CountMethod, FaultBackend, PrepareOptions};
use crate::compile::{self, Compiled, CompiledLayer, Segment, Views};
use crate::network::{Network, StreamConfig};
use crate::{Error, Result, StreamLayer};
use aleatron_core::arithmetic::{Accumulator, Requantizer};
use aleatron_core::fault::Faults;
use aleatron_core::generator::{Warning, Width};
use aleatron_core::program::{PreparedProgram, Program, ProgramLayer, StepKind};
use aleatron_core::{Cancel, Error as CoreError, LayerIndex, Length, SampleSeed};
use aleatron_graph::Runner;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Number of cached compilations: those of the last sizes of whole batches.
const CACHED: usize = 4;

/// A network prepared to run as streams: its layers hold their encoded weights, so that a call
/// encodes only inputs.
#[derive(Debug)]
pub struct StreamNetwork {
    network: Arc<Network>,
    config: StreamConfig,
    runner: Runner,
    backend: Arc<dyn Backend>,
    /// The layer that computes the scores, if it runs as streams.
    score_layer: Option<usize>,
    /// By the number of samples that run together, most recently used last.
    cached: Mutex<VecDeque<Arc<Ready>>>,
}

/// A compiled network whose programs are on a backend.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) compiled: Compiled,
    /// One for each segment that is a program.
    programs: Vec<Option<Slot>>,
}

/// A program on a backend; it is prepared again after the loss of its device.
#[derive(Debug)]
struct Slot(RwLock<Arc<dyn PreparedProgram>>);

/// The integer arithmetic around a layer: between integers and its comparators, and after its
/// counters.
#[derive(Debug, Clone, PartialEq)]
pub struct IntegerLayer {
    /// The index of the layer in the network.
    pub layer: usize,
    /// The width of the comparators of its inputs.
    pub comparator: Width,
    /// The requantizers in front of the comparators, without repetitions; none if the inputs are
    /// features.
    pub requantizers: Vec<Requantizer>,
    /// Adds the bias and applies the activation.
    pub accumulator: Accumulator,
    /// The value of 1 in the accumulator of each row of weights.
    pub units: Vec<f64>,
}

impl Network {
    /// Prepares the network to run as streams.
    ///
    /// # Errors
    /// Returns [`Error::UnknownLayer`] and [`Error::BinaryLayer`] for settings of a layer that does
    /// not run as streams, [`Error::NoIntegerForm`] with all nodes that integer arithmetic does not
    /// support, [`Error::Layer`] with the layer that cannot be prepared and the reason: too few
    /// sequences, too little memory, a missing device.
    pub fn to_streams(&self, config: &StreamConfig) -> Result<StreamNetwork> {
        Arc::new(self.clone()).into_streams(config, Cancel::NEVER)
    }

    /// Prepares like [`Self::to_streams`], sharing the network, with cancellation.
    ///
    /// # Errors
    /// As for [`Self::to_streams`], and [`aleatron_core::Error::Cancelled`].
    pub fn into_streams(
        self: Arc<Self>,
        config: &StreamConfig,
        cancel: Cancel<'_>,
    ) -> Result<StreamNetwork> {
        let runner = self.runner()?;
        let backend = self.faulty(backend::open(&config.device)?, config)?;
        let (config, cached) = (config.clone(), Mutex::default());
        let score_layer = self.score_layer().map(|score| score.layer);
        let streams = StreamNetwork { network: self, config, runner, backend, score_layer, cached };
        streams.ready(streams.group(1), cancel)?;
        Ok(streams)
    }

    /// Returns a backend with the faults of a configuration.
    fn faulty(&self, backend: Arc<dyn Backend>, config: &StreamConfig) -> Result<Arc<dyn Backend>> {
        let faults = Faults::new(config.seed, config.faults.clone())?;
        let position = |name: &String| {
            let found = self.layers().iter().position(|layer| layer.name == *name);
            let known = || self.layers().iter().map(|layer| layer.name.clone()).collect();
            let index =
                found.ok_or_else(|| Error::UnknownLayer { name: name.clone(), known: known() })?;
            Ok(LayerIndex::new(index)?)
        };
        let layers: Vec<LayerIndex> =
            config.fault_layers.iter().map(position).collect::<Result<_>>()?;
        Ok(match layers.is_empty() {
            true => FaultBackend::wrap(backend, &faults),
            false => FaultBackend::wrap_layers(backend, &faults, layers),
        })
    }

    /// Checks that integer arithmetic supports everything between two layers that run as streams.
    ///
    /// # Errors
    /// Returns [`Error::NoIntegerForm`] with all nodes that it does not support.
    pub fn check_integers(&self) -> Result<()> {
        let config =
            StreamConfig::new(1).arithmetic(aleatron_core::arithmetic::Arithmetic::Integer);
        self.check_config(&config)
    }

    /// Checks a configuration without preparing anything.
    ///
    /// # Errors
    /// As for [`Self::to_streams`], except for devices and memory.
    pub fn check_config(&self, config: &StreamConfig) -> Result<()> {
        self.compiled(config).map(drop)
    }

    /// Returns the layers that run as streams in a configuration, with their indices in the
    /// network.
    ///
    /// # Errors
    /// As for [`Self::check_config`].
    pub fn program_layers(&self, config: &StreamConfig) -> Result<Vec<(usize, ProgramLayer)>> {
        Ok(program_layers(&self.compiled(config)?))
    }

    /// Returns the known problems of the generators of a configuration, without repetitions.
    ///
    /// # Errors
    /// As for [`Self::check_config`].
    pub fn warnings(&self, config: &StreamConfig) -> Result<Vec<Warning>> {
        warnings(&self.compiled(config)?)
    }

    fn compiled(&self, config: &StreamConfig) -> Result<Compiled> {
        let n = compile::run_samples(self, 1);
        compile::compile(self, config, &self.runner()?, n, Views::Skipped)
    }
}

fn program_layers(compiled: &Compiled) -> Vec<(usize, ProgramLayer)> {
    let mut layers = Vec::new();
    for segment in &compiled.segments {
        if let Segment::Program(segment) = segment {
            layers.extend(
                segment.layers.iter().copied().zip(segment.program.layers().iter().cloned()),
            );
        }
    }
    layers.sort_by_key(|(index, _)| *index);
    layers
}

fn warnings(compiled: &Compiled) -> Result<Vec<Warning>> {
    let mut all: Vec<Warning> = Vec::new();
    for (_, layer) in program_layers(compiled) {
        for warning in crate::layer::warnings(&layer.spec)? {
            if !all.contains(&warning) {
                all.push(warning);
            }
        }
    }
    Ok(all)
}

impl StreamNetwork {
    /// Returns the network.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &StreamConfig {
        &self.config
    }

    /// Returns the stream length of each layer that runs as streams.
    #[must_use]
    pub fn lengths(&self) -> Vec<usize> {
        let length = |name: &str| {
            let settings = self.config.settings_of(name);
            settings.resolved_length().map_or(settings.length, Length::bits)
        };
        self.network.stream_layers().map(|(_, layer)| length(&layer.name)).collect()
    }

    /// Returns the layers that run as streams with their encoded form and their indices in the
    /// network.
    ///
    /// # Errors
    /// As for [`Network::to_streams`].
    pub fn layers(&self) -> Result<Vec<(usize, ProgramLayer)>> {
        Ok(program_layers(&self.ready(self.group(1), Cancel::NEVER)?.compiled))
    }

    /// Returns the integer arithmetic around each layer that runs as streams; none in floating
    /// point.
    ///
    /// # Errors
    /// As for [`Network::to_streams`].
    pub fn integer_layers(&self) -> Result<Vec<IntegerLayer>> {
        let ready = self.ready(self.group(1), Cancel::NEVER)?;
        let mut layers = Vec::new();
        for (index, compiled) in ready.compiled.layers.iter().enumerate() {
            let Some(CompiledLayer {
                segment,
                layer,
                comparator,
                accumulator: Some(accumulator),
                ..
            }) = compiled
            else {
                continue;
            };
            let Some(Segment::Program(segment)) = ready.compiled.segments.get(*segment) else {
                let location = "engine::StreamNetwork::integer_layers";
                return Err(aleatron_core::Error::Internal { place: location }.into());
            };
            let program = &segment.program;
            let own = &self.network.layers()[index];
            let length = program.layers()[*layer].spec.length();
            let unit =
                |row: usize| accumulator.unit(length, own.input_scale * own.weight_scale(row));
            let units = (0..own.product.n_rows()).map(unit).collect();
            let requantizers = requantizers(program, *layer);
            let (comparator, accumulator) = (*comparator, accumulator.clone());
            layers.push(IntegerLayer {
                layer: index,
                comparator,
                requantizers,
                accumulator,
                units,
            });
        }
        Ok(layers)
    }

    /// Returns the known problems of the generators, without repetitions.
    ///
    /// # Errors
    /// As for [`Network::to_streams`].
    pub fn warnings(&self) -> Result<Vec<Warning>> {
        warnings(&self.ready(self.group(1), Cancel::NEVER)?.compiled)
    }

    /// Returns notes for the user, such as a device that could not be used.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        let mut notes: Vec<String> = Vec::new();
        for slot in cached.iter().flat_map(|ready| ready.programs.iter().flatten()) {
            for note in slot.0.read().unwrap_or_else(PoisonError::into_inner).notes() {
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
        }
        notes
    }

    /// Returns the names of the backends that run `n_samples` samples; `None` before they have been
    /// measured.
    #[must_use]
    pub fn backend_for(&self, n_samples: usize) -> Option<String> {
        let ready = self.ready(self.group(n_samples), Cancel::NEVER).ok()?;
        let mut names: Vec<String> = Vec::new();
        for slot in ready.programs.iter().flatten() {
            let name =
                slot.0.read().unwrap_or_else(PoisonError::into_inner).backend_for(n_samples)?;
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Some(names.join(","))
    }

    /// Returns a single layer with the first `length` bits of its streams: a shorter stream is a
    /// prefix of a longer one.
    ///
    /// # Errors
    /// Returns [`Error::UnknownLayer`] for a layer that does not run as streams, and errors as for
    /// [`crate::LayerBuilder::build`].
    pub fn layer_at(&self, layer: usize, length: usize) -> Result<StreamLayer> {
        let layers = self.layers()?;
        let Some((_, found)) = layers.into_iter().find(|(index, _)| *index == layer) else {
            let name = self
                .network
                .layers()
                .get(layer)
                .map_or_else(|| layer.to_string(), |l| l.name.clone());
            let known = self.network.stream_layers().map(|(_, layer)| layer.name.clone()).collect();
            return Err(Error::UnknownLayer { name, known });
        };
        let spec = found.spec;
        // A table takes longer to compute than the few bits of one layer.
        StreamLayer::of(spec.topology().clone())
            .polarity(spec.polarity())
            .length(length)
            .encoding(*spec.encoding())
            .at(spec.index())
            .weights(found.weights.values())
            .method(CountMethod::Bits)
            .build()
    }

    /// Returns the seed of samples from index `first_sample` on.
    #[must_use]
    pub fn seed_at(&self, first_sample: u32) -> SampleSeed {
        SampleSeed::new(self.config.seed).starting_at(first_sample)
    }

    /// Returns how many of `n_samples` samples run together.
    fn group(&self, n_samples: usize) -> usize {
        compile::run_samples(&self.network, n_samples)
    }

    /// Returns the compiled network for `group` samples that run together, on its backend.
    fn ready(&self, group: usize, cancel: Cancel<'_>) -> Result<Arc<Ready>> {
        let cached = || self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut cached = cached();
            let known = cached.iter().position(|ready| ready.compiled.n_samples() == group);
            if let Some(ready) = known.and_then(|k| cached.remove(k)) {
                cached.push_back(Arc::clone(&ready));
                return Ok(ready);
            }
        }
        let compiled =
            compile::compile(&self.network, &self.config, &self.runner, group, Views::Skipped)?;
        let ready = Arc::new(self.prepare(compiled, cancel)?);
        let mut cached = cached();
        if cached.len() >= CACHED {
            cached.pop_front();
        }
        cached.push_back(Arc::clone(&ready));
        Ok(ready)
    }

    fn prepare(&self, compiled: Compiled, cancel: Cancel<'_>) -> Result<Ready> {
        let mut programs = Vec::with_capacity(compiled.segments.len());
        for segment in &compiled.segments {
            programs.push(match segment {
                Segment::Program(segment) => {
                    let prepared =
                        self.prepare_program(&segment.program, &segment.layers, cancel)?;
                    Some(Slot(RwLock::new(prepared)))
                }
                Segment::Nodes(_) => None,
            });
        }
        Ok(Ready { compiled, programs })
    }

    /// Prepares a program on the backend, or its layers on the backend and the rest on the host.
    fn prepare_program(
        &self,
        program: &Arc<Program>,
        layers: &[usize],
        cancel: Cancel<'_>,
    ) -> Result<Arc<dyn PreparedProgram>> {
        backend::check_fork(&self.config.device)?;
        let options = PrepareOptions { cancel, ..PrepareOptions::default() };
        // A backend that prepares a program as a whole does not report the failing layer, unless
        // there is only one.
        match (backend::prepare_program(&*self.backend, program, &options), layers) {
            (Ok(prepared), _) => Ok(prepared.into()),
            (Err(CoreError::InLayer { layer, source }), layers)
                if let Some(&layer) = layers.get(layer) =>
            {
                Err(self.in_layer(layer, (*source).into()))
            }
            (Err(error), &[layer]) => Err(self.in_layer(layer, error.into())),
            (Err(error), _) => Err(error.into()),
        }
    }

    fn in_layer(&self, layer: usize, source: Error) -> Error {
        match source {
            error @ Error::Core(aleatron_core::Error::Cancelled) => error,
            source => {
                let name =
                    self.network.layers().get(layer).map_or_else(String::new, |l| l.name.clone());
                Error::Layer { layer, name, source: Box::new(source) }
            }
        }
    }
}

/// Returns the different requantizers of a layer's inputs.
fn requantizers(program: &Program, layer: usize) -> Vec<Requantizer> {
    let mut found: Vec<Requantizer> = Vec::new();
    for step in program.steps() {
        if let StepKind::Requantize { layer: own, requantizers } = step.kind()
            && *own == layer
        {
            found.extend(requantizers.table());
        }
    }
    found.sort_by_key(|requantizer| (requantizer.shift(), requantizer.multiplier()));
    found.dedup();
    found
}

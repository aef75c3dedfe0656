//! An NVIDIA GPU as a [`Backend`] of layers, and as a subject of the conformance suite.

use std::sync::Arc;

use aleatron_core::backend::{PrepareOptions, PreparedLayer};
use aleatron_core::conformance::{Case, Subject, run_layers};
use aleatron_core::program::{InputSign, KernelTime, PreparedProgram, Program};
use aleatron_core::{Backend, Cancel, LayerSpec, Weights};

use crate::driver::{self, CudaContext};
use crate::error::{Error, Result};
use crate::gates::{self, GateKind, PairKind};
use crate::layer::{CudaLayer, LayerUse};
use crate::program::CudaProgram;
use crate::queue::Profiler;

/// An NVIDIA GPU as a backend: encoding, gates, counts, and layers.
///
/// ```
/// use aleatron_cuda::CudaBackend;
///
/// match CudaBackend::open(0) {
///     Ok(card) => println!("{card:?}"),
///     Err(why) => println!("{why}"),
/// }
/// ```
#[derive(Debug, Clone)]
pub struct CudaBackend {
    name: String,
    device: Device,
}

#[derive(Debug, Clone)]
enum Device {
    /// The shared context of the GPU at this index, which is opened again after a loss.
    Shared(usize),
    /// A single context, until it is lost.
    Own(Arc<CudaContext>),
}

impl CudaBackend {
    /// Creates a backend of the GPU at an index. It is opened with the first layer.
    ///
    /// # Errors
    /// Returns errors of [`crate::devices`], [`Error::UnknownDevice`] and [`Error::OldDevice`].
    pub fn open(index: usize) -> Result<Self> {
        let cards = driver::devices()?;
        let Some(info) = cards.get(index) else {
            return Err(Error::UnknownDevice { index, count: cards.len() });
        };
        info.check()?;
        Ok(Self { name: name_of(index), device: Device::Shared(index) })
    }

    /// Creates a backend of a given context.
    #[must_use]
    pub fn on(context: Arc<CudaContext>) -> Self {
        Self { name: name_of(context.info().index), device: Device::Own(context) }
    }

    /// Returns the context, opening it if necessary.
    ///
    /// # Errors
    /// As for [`CudaContext::get`].
    pub fn context(&self) -> Result<Arc<CudaContext>> {
        match &self.device {
            Device::Shared(index) => CudaContext::get(*index),
            Device::Own(context) => Ok(Arc::clone(context)),
        }
    }

    /// Prepares a layer on the GPU without the trait; [`Backend::prepare`] returns the same layer.
    ///
    /// # Errors
    /// As for [`Backend::prepare`].
    pub fn layer(
        &self,
        spec: &LayerSpec,
        weights: &Weights,
        options: &PrepareOptions<'_>,
    ) -> Result<CudaLayer> {
        options.cancel.check()?;
        let layer = CudaLayer::new(
            &self.context()?,
            spec,
            weights,
            InputSign::Any,
            LayerUse::Calls,
            options,
        )?;
        layer.reserve()?;
        Ok(layer)
    }

    /// Answers a case other than layers; `None` if it is unsupported.
    fn answer(&self, case: &Case) -> Result<Option<Vec<u64>>> {
        let context = &self.context()?;
        let one = |kind, a, b| gates::ones(context, kind, a, b);
        Ok(Some(match case {
            Case::Encode { thresholds, length, address } => {
                gates::encode(context, thresholds, *length, *address)?.into_words()
            }
            Case::EncodeSequence { sequence, thresholds, length } => {
                gates::encode_sequence(context, sequence, thresholds, *length)?.into_words()
            }
            Case::Gate { gate, a, b } => gates::gate(context, (*gate).into(), a, Some(b), None)?,
            Case::Not { a } => gates::gate(context, GateKind::Not, a, None, None)?,
            Case::Mux { select, a, b } => {
                gates::gate(context, GateKind::Mux, a, Some(b), Some(select))?
            }
            Case::Popcount { a } => one(PairKind::First, a, a)?,
            Case::AndPopcount { a, b } => one(PairKind::Both, a, b)?,
            Case::Hamming { a, b } => one(PairKind::Differing, a, b)?,
            _ => return Ok(None),
        }))
    }
}

/// Returns the name by which users select a GPU.
pub(crate) fn name_of(index: usize) -> String {
    format!("cuda:{index}")
}

impl Backend for CudaBackend {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn prepare(
        &self,
        spec: &LayerSpec,
        weights: &Weights,
        options: &PrepareOptions<'_>,
    ) -> aleatron_core::Result<Box<dyn PreparedLayer>> {
        Ok(Box::new(self.layer(spec, weights, options)?))
    }

    fn prepare_program(
        &self,
        program: &Arc<Program>,
        options: &PrepareOptions<'_>,
    ) -> aleatron_core::Result<Option<Box<dyn PreparedProgram>>> {
        let prepared = CudaProgram::new(&self.context()?, program, options)?;
        Ok(prepared.map(|program| Box::new(program) as Box<dyn PreparedProgram>))
    }
}

impl PreparedLayer for CudaLayer {
    fn counts(
        &self,
        batch: &aleatron_core::backend::Batch<'_>,
        cancel: Cancel<'_>,
    ) -> aleatron_core::Result<Vec<u64>> {
        Ok(self.counts_with(batch, cancel, None)?)
    }

    fn profile(
        &self,
        batch: &aleatron_core::backend::Batch<'_>,
        cancel: Cancel<'_>,
    ) -> aleatron_core::Result<Vec<KernelTime>> {
        let profiler = Profiler::default();
        self.counts_with(batch, cancel, Some(&profiler))?;
        Ok(profiler.times()?)
    }

    fn counts_on_device(
        &self,
        batch: &mut aleatron_core::backend::DeviceBatch<'_>,
        cancel: Cancel<'_>,
    ) -> aleatron_core::Result<()> {
        Ok(self.count_arrays(batch, cancel)?)
    }

    fn is_lost(&self) -> bool {
        self.context().is_lost()
    }

    fn backend_for(&self, _: usize) -> Option<String> {
        Some(name_of(self.context().info().index))
    }
}

impl Subject for CudaBackend {
    fn run(&self, case: &Case) -> Option<aleatron_core::Result<Vec<u64>>> {
        match case {
            Case::Layer(_) | Case::Network(_) | Case::Program(_) => run_layers(self, case),
            _ => self.answer(case).transpose().map(|answer| Ok(answer?)),
        }
    }
}

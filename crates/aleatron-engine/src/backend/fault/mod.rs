//! Faults above any backend; `docs/streams.md` defines every flip.
//!
//! A [`FaultBackend`] changes the inputs and the results of the backend below it, so that faults
//! are the same on every processor by construction. Faulty memory and stuck generators become other
//! thresholds. Faulty input streams are encoded and flipped on the host, and the backend counts
//! them as they are; so are weight streams whose flips are permanent, where the backend takes
//! streams. Other faults of weight streams and those of products are differences of counts,
//! computed from the flipped bits alone, which the host adds. Faults of counters flip bits of the
//! counts.

mod difference;
mod generator;
mod layer;
mod mask;
mod program;
mod row_masks;

use super::{Backend, CountMethod, PrepareOptions, PreparedLayer};
use aleatron_core::fault::{
    FaultSite, Faults, Operand, StoredOperand, check_generators, stick_threshold,
};
use aleatron_core::program::{PreparedProgram, Program};
use aleatron_core::{Error, LayerIndex, LayerSpec, Length, Result, Weights};
use aleatron_cpu::Cpu;
use layer::FaultLayer;
use mask::{WeightGrid, has_stuck, stuck_at};
use program::FaultProgram;
use std::sync::Arc;

/// A backend whose layers have faults.
#[derive(Debug)]
pub struct FaultBackend {
    inner: Arc<dyn Backend>,
    faults: Faults,
    /// The faulty layers; all if `None`.
    layers: Option<Vec<LayerIndex>>,
}

impl FaultBackend {
    /// Returns a backend with faults, or the backend itself if there are none.
    #[must_use]
    pub fn wrap(inner: Arc<dyn Backend>, faults: &Faults) -> Arc<dyn Backend> {
        match faults.is_empty() {
            true => inner,
            false => Arc::new(Self { inner, faults: faults.clone(), layers: None }),
        }
    }

    /// Returns a backend with faults in some layers, or the backend itself if there are none.
    #[must_use]
    pub fn wrap_layers(
        inner: Arc<dyn Backend>,
        faults: &Faults,
        layers: Vec<LayerIndex>,
    ) -> Arc<dyn Backend> {
        match faults.is_empty() || layers.is_empty() {
            true => inner,
            false => Arc::new(Self { inner, faults: faults.clone(), layers: Some(layers) }),
        }
    }

    /// Returns the faults of a layer; none if it is not among the faulty layers.
    fn faults_of(&self, spec: &LayerSpec) -> Faults {
        match &self.layers {
            Some(layers) if !layers.contains(&spec.index()) => Faults::default(),
            _ => self.faults.clone(),
        }
    }

    /// Returns whether faults affect weights only, so that programs stay resident.
    fn changes_weights_only(&self) -> bool {
        self.faults.faults().iter().all(|fault| fault.site() == FaultSite::Memory)
    }
}

impl Backend for FaultBackend {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn prepare(
        &self,
        spec: &LayerSpec,
        weights: &Weights,
        options: &PrepareOptions<'_>,
    ) -> Result<Box<dyn PreparedLayer>> {
        let faults = self.faults_of(spec);
        if faults.is_empty() {
            return self.inner.prepare(spec, weights, options);
        }
        if faults.has(FaultSite::Generators) {
            check_generators(spec)?;
        }
        let cpu = Cpu::current()?;
        let weights = faulty_weights(&cpu, spec, &faults, weights)?;
        let has_streams = faults.faults().iter().any(|fault| fault.site().changes_bits());
        let method = match (has_streams, options.method) {
            (false, method) => method,
            (true, CountMethod::Best | CountMethod::Bits) => CountMethod::Bits,
            (true, CountMethod::Tables) => {
                return Err(Error::unsupported(self.name(), "count tables of streams with faults"));
            }
        };
        let options = PrepareOptions { method, ..*options };
        Ok(Box::new(FaultLayer::new(&cpu, &*self.inner, spec, &weights, &options, &faults)?))
    }

    fn prepare_program(
        &self,
        program: &Arc<Program>,
        options: &PrepareOptions<'_>,
    ) -> Result<Option<Box<dyn PreparedProgram>>> {
        if self.changes_weights_only() {
            let cpu = Cpu::current()?;
            let faulty = |spec: &LayerSpec, weights: &Weights| {
                faulty_weights(&cpu, spec, &self.faults_of(spec), weights)
            };
            return self.inner.prepare_program(&Arc::new(program.with_weights(faulty)?), options);
        }
        if self.faults.has(FaultSite::Accumulators) {
            let layers = program
                .prepare_layers(|layer| self.prepare(&layer.spec, &layer.weights, options))?;
            let faults = program.layers().iter().map(|layer| self.faults_of(&layer.spec)).collect();
            return Ok(Some(Box::new(FaultProgram::new(Arc::clone(program), layers, faults)?)));
        }
        Ok(None)
    }
}

/// Returns weights after faults of memory and stuck generators.
fn faulty_weights(
    cpu: &Cpu,
    spec: &LayerSpec,
    faults: &Faults,
    weights: &Weights,
) -> Result<Weights> {
    let (width, polarity) = (spec.encoding().weight_width(), spec.polarity());
    if !faults.has(FaultSite::Memory) && !has_stuck(faults) {
        return Ok(weights.clone());
    }
    let (grid, stored) = (WeightGrid { spec }, StoredOperand::weights(spec));
    let mut thresholds = spec.weight_thresholds(weights)?;
    let bits = Length::new(stored.n_bits() as usize)?;
    let memory = faults.at(FaultSite::Memory, spec.index());
    if let Some(masks) = grid.masks(cpu, memory, bits, Operand::Inputs)? {
        for (threshold, &mask) in thresholds.iter_mut().zip(&masks) {
            *threshold = stored.flip(*threshold, mask);
        }
    }
    let one = Length::new(1)?;
    let masks = |site| grid.masks(cpu, faults.at(site, spec.index()), one, Operand::Weights);
    let [low, high] = [masks(FaultSite::StuckAtZero)?, masks(FaultSite::StuckAtOne)?];
    let levels = stuck_at(low.as_deref(), high.as_deref(), thresholds.len());
    stick(&mut thresholds, &levels, width.one());
    Weights::new(
        spec,
        thresholds.iter().map(|&threshold| width.value(threshold, polarity)).collect(),
    )
}

/// Replaces the thresholds of operands whose generators are stuck; their signs do not change.
fn stick(thresholds: &mut [u64], levels: &[Option<bool>], one: u64) {
    for (threshold, level) in thresholds.iter_mut().zip(levels.iter().cycle()) {
        if let Some(level) = level {
            *threshold = stick_threshold(*threshold, *level, one);
        }
    }
}

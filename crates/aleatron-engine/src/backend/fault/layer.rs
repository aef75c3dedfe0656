//! One layer with faults.

use super::difference::{ProductFaults, Samples};
use super::mask::{WeightGrid, field, flip, has_stuck, stuck_at};
use super::{generator, stick};
use crate::backend::{Backend, Batch, Inputs, PrepareOptions, PreparedLayer, WeightStreams};
use aleatron_core::fault::{
    FaultSite, Faults, Operand, StoredOperand, counter_width, positive_zero,
};
use aleatron_core::threshold::is_negative;
use aleatron_core::{
    Cancel, Error, InputSource, LayerSpec, Length, Polarity, Quantity, Result, SampleSeed,
    Threshold, Weights, memory,
};
use aleatron_cpu::{Cpu, MaskDrawer, MaskGrid};
use std::borrow::Cow;

/// Words of input streams that are created at a time.
const INPUT_WORDS: usize = 1 << 20;

/// Words of products whose differences are computed between two checks of the cancellation, about:
/// a fraction of a second.
const PRODUCT_WORDS: usize = 1 << 24;

/// A layer with faults on a backend.
#[derive(Debug)]
pub(super) struct FaultLayer {
    inner: Box<dyn PreparedLayer>,
    spec: LayerSpec,
    faults: Faults,
    /// The masks of inputs, activations and counters.
    drawers: Vec<MaskDrawer>,
    /// The level that the generator of each input is stuck at; empty if none is.
    stuck: Vec<Option<bool>>,
    /// What differences of counts need; `None` without faults of weight streams and products.
    products: Option<ProductFaults>,
}

/// Some samples of a batch as streams.
struct Streams<'a> {
    words: Cow<'a, [u64]>,
    /// Which inputs of a signed layer are negative; none of another.
    negative: Cow<'a, [bool]>,
    seed: SampleSeed,
}

impl FaultLayer {
    /// Creates a layer on a backend; `weights` have the faults of memory and stuck generators
    /// already.
    pub(super) fn new(
        cpu: &Cpu,
        backend: &dyn Backend,
        spec: &LayerSpec,
        weights: &Weights,
        options: &PrepareOptions<'_>,
        faults: &Faults,
    ) -> Result<Self> {
        let stuck = match has_stuck(faults) {
            true => {
                let (length, rows, units) = (Length::new(1)?, 1, spec.n_inputs());
                let draw = |site| -> Result<Option<Vec<u64>>> {
                    let Some(mask) = faults.at(site, spec.index()).next() else { return Ok(None) };
                    let addresses = mask.addresses(0, 0, Operand::Inputs);
                    let grid = MaskGrid { length, rows, units };
                    MaskDrawer::new(mask).masks(cpu, addresses, grid).map(Some)
                };
                let [low, high] = [draw(FaultSite::StuckAtZero)?, draw(FaultSite::StuckAtOne)?];
                stuck_at(low.as_deref(), high.as_deref(), units)
            }
            false => Vec::new(),
        };
        if faults.has(FaultSite::Counters) {
            counter_width(spec)?;
        }
        let has_generators = faults.has(FaultSite::Generators);
        let (mut inner, mut products) = (None, None);
        if faults.has(FaultSite::Weights) || faults.has(FaultSite::Products) || has_generators {
            let masks = faults.at(FaultSite::Weights, spec.index());
            let permanent = masks.filter(|mask| !mask.fault().is_per_sample());
            let grid = WeightGrid { spec };
            let mut permanent = grid.masks(cpu, permanent, spec.length(), Operand::Inputs)?;
            let thresholds = spec.weight_thresholds(weights)?;
            let negative = negative(spec, &thresholds);
            let mut words = cpu.weight_streams(spec, weights, options.cancel)?.into_words();
            if has_generators {
                // The flips are the differences to the streams of generators without faults.
                let mut flips = words.clone();
                generator::replace_weights(cpu, spec, faults, &thresholds, &mut flips)?;
                flip(&mut flips, &words);
                match &mut permanent {
                    Some(permanent) => flip(permanent, &flips),
                    None => permanent = Some(flips),
                }
            }
            options.cancel.check()?;
            permanent = permanent.filter(|flips| flips.iter().any(|&word| word != 0));
            if let Some(flips) = &permanent {
                flip(&mut words, flips);
                let streams = WeightStreams { words: &words, negative: &negative };
                inner = backend.prepare_streams(spec, streams, options)?;
                match inner {
                    Some(_) => permanent = None,
                    // The flips become differences of counts.
                    None => flip(&mut words, flips),
                }
            }
            products = ProductFaults::new(spec, faults, words, negative, permanent.as_deref())?;
        }
        let inner = match inner {
            Some(inner) => inner,
            None => backend.prepare(spec, weights, options)?,
        };
        let sites = [FaultSite::Activations, FaultSite::Inputs, FaultSite::Counters];
        let drawers = sites.into_iter().flat_map(|site| faults.at(site, spec.index()));
        let drawers = drawers.map(MaskDrawer::new).collect();
        let (spec, faults) = (spec.clone(), faults.clone());
        Ok(Self { inner, spec, faults, drawers, stuck, products })
    }

    /// Returns the masks of inputs, activations or counters.
    fn drawers(&self, site: FaultSite) -> impl Iterator<Item = &MaskDrawer> {
        self.drawers.iter().filter(move |drawer| drawer.mask().fault().site() == site)
    }

    /// Returns whether the thresholds of inputs have faults.
    fn changes_thresholds(&self) -> bool {
        !self.stuck.is_empty() || self.faults.has(FaultSite::Activations)
    }

    /// Returns the thresholds of a batch as faulty registers and stuck generators leave them;
    /// `None` for encoded streams.
    fn thresholds<'a>(&self, cpu: &Cpu, batch: &Batch<'a>) -> Result<Option<Cow<'a, [u64]>>> {
        let mut thresholds = match batch.inputs {
            Inputs::Values(values) => Cow::Owned(self.spec.input_thresholds(values)?),
            Inputs::Thresholds(thresholds) => Cow::Borrowed(thresholds),
            _ if !self.changes_thresholds() && !self.faults.has(FaultSite::Generators) => {
                return Ok(None);
            }
            _ => {
                let backend = self.inner.backend_for(1).unwrap_or_else(|| "auto".to_owned());
                return Err(Error::unsupported(
                    backend,
                    "faults of activations and generators for streams that are encoded already",
                ));
            }
        };
        for mask in self.drawers(FaultSite::Activations) {
            self.flip_registers(cpu, mask, batch.seed, thresholds.to_mut())?;
        }
        if !self.stuck.is_empty() {
            stick(thresholds.to_mut(), &self.stuck, self.spec.encoding().input_width().one());
        }
        Ok(Some(thresholds))
    }

    /// Returns a batch as streams with the flips of input streams.
    fn streams<'a>(&self, cpu: &Cpu, batch: &Batch<'a>) -> Result<Streams<'a>> {
        let (spec, seed) = (&self.spec, batch.seed);
        let (n, length) = (spec.n_inputs(), spec.length());
        let (mut words, negative) = match (self.thresholds(cpu, batch)?, batch.inputs) {
            (Some(thresholds), _) => {
                let words = match spec.encoding().input_source() {
                    InputSource::Bernoulli => {
                        let own: Vec<_> =
                            thresholds.iter().map(|&t| Threshold::saturating(t)).collect();
                        cpu.encode_rows(&own, n, length, spec.input_address(seed))?
                    }
                    InputSource::Sequences(sequences) => {
                        cpu.encode_shared_inputs(&sequences, &thresholds, n, length)?
                    }
                };
                let mut words = words.into_words();
                if self.faults.has(FaultSite::Generators) {
                    generator::replace_inputs(cpu, spec, &self.faults, &thresholds, &mut words)?;
                }
                (Cow::Owned(words), Cow::Owned(negative(spec, &thresholds)))
            }
            (None, Inputs::Streams(words)) => (Cow::Borrowed(words), Cow::Borrowed(&[][..])),
            (None, Inputs::SignedStreams { words, negative }) => {
                (Cow::Borrowed(words), Cow::Borrowed(negative))
            }
            (None, _) => return Err(Error::Internal { place: "engine::FaultLayer::streams" }),
        };
        let n_samples = words.len() / spec.sample_words();
        for mask in self.drawers(FaultSite::Inputs) {
            let own = words.to_mut();
            self.flip_rows(cpu, mask, length, n_samples, [n, 0], seed, own)?;
        }
        Ok(Streams { words, negative, seed })
    }

    /// Flips the stored bits of inputs, rows of samples by inputs.
    fn flip_registers(
        &self,
        cpu: &Cpu,
        mask: &MaskDrawer,
        seed: SampleSeed,
        thresholds: &mut [u64],
    ) -> Result<()> {
        let (units, stored) = (self.spec.n_inputs(), StoredOperand::inputs(&self.spec));
        let length = Length::new(stored.n_bits() as usize)?;
        let rows = if mask.mask().fault().is_per_sample() { thresholds.len() / units } else { 1 };
        let addresses = mask.addresses(seed.first_sample, 0, Operand::Inputs);
        let drawn = mask.masks(cpu, addresses, MaskGrid { length, rows, units })?;
        for (threshold, &mask) in thresholds.iter_mut().zip(drawn.iter().cycle()) {
            *threshold = stored.flip(*threshold, mask);
        }
        Ok(())
    }

    /// Flips numbers or streams of `length` bits, rows of samples by `units` from unit `first` on.
    #[expect(clippy::too_many_arguments, reason = "all of them belong to one address")]
    fn flip_rows(
        &self,
        cpu: &Cpu,
        mask: &MaskDrawer,
        length: Length,
        n_samples: usize,
        [units, first]: [usize; 2],
        seed: SampleSeed,
        words: &mut [u64],
    ) -> Result<()> {
        let rows = if mask.mask().fault().is_per_sample() { n_samples } else { 1 };
        let unit = field(Quantity::Neurons, first)?;
        let addresses =
            mask.addresses(seed.first_sample, 0, Operand::Inputs).map(|at| at.at_unit(unit));
        let drawn = mask.masks(cpu, addresses, MaskGrid { length, rows, units })?;
        words.chunks_mut(drawn.len().max(1)).for_each(|words| flip(words, &drawn));
        Ok(())
    }

    /// Returns whether streams are created on the host.
    fn has_streams(&self) -> bool {
        self.faults.has(FaultSite::Inputs)
            || self.faults.has(FaultSite::Generators)
            || self.products.is_some()
    }

    /// Returns the samples of a batch that the backend below gets at a time.
    fn samples_at_once(&self, n_samples: usize) -> usize {
        let most = match (self.has_streams(), &self.products) {
            (false, _) => n_samples,
            (true, None) => INPUT_WORDS / self.spec.sample_words().max(1),
            (true, Some(_)) => {
                let inputs = INPUT_WORDS / self.spec.sample_words().max(1);
                inputs.min(PRODUCT_WORDS / self.spec.product_words().max(1))
            }
        };
        most.clamp(1, n_samples.max(1))
    }

    /// Returns the counts of some samples.
    fn count(
        &self,
        cpu: &Cpu,
        batch: &Batch<'_>,
        n_samples: usize,
        cancel: Cancel<'_>,
    ) -> Result<Vec<u64>> {
        let (spec, m) = (&self.spec, self.spec.n_neurons());
        let mut counts = match (self.has_streams(), self.changes_thresholds()) {
            (false, false) => self.inner.counts(batch, cancel)?,
            (false, true) => match self.thresholds(cpu, batch)? {
                Some(thresholds) => {
                    self.inner.counts(&Batch::thresholds(&thresholds, batch.seed), cancel)?
                }
                None => self.inner.counts(batch, cancel)?,
            },
            (true, _) => {
                let streams = self.streams(cpu, batch)?;
                let encoded = match spec.polarity() {
                    Polarity::Signed => Batch::signed_streams(&streams.words, &streams.negative),
                    Polarity::Unipolar | Polarity::Bipolar => Batch::streams(&streams.words),
                };
                let mut counts = self.inner.counts(&encoded, cancel)?;
                if let Some(products) = &self.products {
                    let Streams { words, negative, seed } = &streams;
                    products.add(cpu, Samples { words, negative, seed: *seed }, &mut counts)?;
                }
                counts
            }
        };
        let first = spec.first_neuron() as usize * spec.neurons_per_row();
        for mask in self.drawers(FaultSite::Counters) {
            let length = Length::new(counter_width(spec)? as usize)?;
            self.flip_rows(cpu, mask, length, n_samples, [m, first], batch.seed, &mut counts)?;
        }
        Ok(counts)
    }
}

impl PreparedLayer for FaultLayer {
    fn counts(&self, batch: &Batch<'_>, cancel: Cancel<'_>) -> Result<Vec<u64>> {
        let n_samples = batch.check(&self.spec)?;
        let Some(last) = n_samples.checked_sub(1) else { return Ok(Vec::new()) };
        batch.seed.advanced(last)?;
        let cpu = Cpu::current()?;
        let samples = self.samples_at_once(n_samples);
        let len = n_samples as u128 * self.spec.n_neurons() as u128;
        let mut counts = memory::with_capacity(len, Quantity::Counts)?;
        for start in (0..n_samples).step_by(samples) {
            cancel.check()?;
            let end = n_samples.min(start + samples);
            let part = batch.samples(&self.spec, start, end)?;
            let made = self.count(&cpu, &part, end - start, cancel);
            counts.append(&mut made.map_err(|error| error.shifted(start * self.spec.n_inputs()))?);
        }
        Ok(counts)
    }

    fn is_lost(&self) -> bool {
        self.inner.is_lost()
    }

    fn backend_for(&self, n_samples: usize) -> Option<String> {
        self.inner.backend_for(self.samples_at_once(n_samples))
    }

    fn notes(&self) -> Vec<String> {
        self.inner.notes()
    }
}

/// Returns which thresholds of a signed layer are negative and not 0; none of another.
fn negative(spec: &LayerSpec, thresholds: &[u64]) -> Vec<bool> {
    match spec.polarity() {
        Polarity::Unipolar | Polarity::Bipolar => Vec::new(),
        Polarity::Signed => {
            thresholds.iter().map(|&threshold| is_negative(positive_zero(threshold))).collect()
        }
    }
}

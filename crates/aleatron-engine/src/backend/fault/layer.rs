//! One layer with faults.

use super::mask::{Grid, WeightGrid, field, flip, has_stuck, stuck_at};
use super::{generator, stick};
use crate::backend::{Batch, Inputs, PreparedLayer};
use aleatron_core::fault::{
    FaultMask, FaultSite, Faults, Operand, StoredOperand, counter_width, positive_zero,
};
use aleatron_core::threshold::is_negative;
use aleatron_core::{
    Cancel, Error, InputSource, LayerSpec, Length, Polarity, Quantity, Result, SampleSeed,
    Threshold, Topology, Weights, memory,
};
use aleatron_cpu::{Cpu, Pool, threads};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// Number of words of input streams that are encoded at a time.
const INPUT_WORDS: usize = 1 << 20;

/// Approximate number of words of masks of weights or products that a thread creates at a time.
const MASK_WORDS: usize = 1 << 16;

/// Approximate number of words of products whose differences are computed between two checks for
/// cancellation: a fraction of a second.
const PRODUCT_WORDS: usize = 1 << 24;

/// Approximate nanoseconds of drawing a word of a mask; only the order of magnitude matters.
const DRAW: u64 = 20;

/// A layer with faults on a backend.
#[derive(Debug)]
pub(super) struct FaultLayer {
    inner: Box<dyn PreparedLayer>,
    spec: LayerSpec,
    faults: Faults,
    /// The level that the generator of each input is stuck at; empty if none is.
    stuck: Vec<Option<bool>>,
    /// The state for differences of counts; `None` without faults of weight streams and products.
    products: Option<ProductFaults>,
}

/// The weight streams that faults of weight streams and of products apply to.
#[derive(Debug)]
struct ProductFaults {
    /// One per weight in their order.
    weights: Vec<u64>,
    /// The signs of the weights of a signed layer; empty for other layers.
    negative: Vec<bool>,
    /// The permanent flips of weight streams.
    permanent: Option<Vec<u64>>,
    /// The same, if few words have flips.
    sparse: Option<SparseMasks>,
}

/// The words of masks that are not 0.
#[derive(Debug)]
struct SparseMasks {
    /// For each stream, the index of its first entry; at the end the number of entries.
    offsets: Vec<usize>,
    /// The index of a word in its stream, and the word.
    entries: Vec<(usize, u64)>,
}

impl SparseMasks {
    /// Returns the words that are not 0; `None` if there are many.
    fn new(masks: &[u64], words: usize) -> Option<Self> {
        let n = masks.iter().filter(|&&mask| mask != 0).count();
        if n > masks.len() / 8 {
            return None;
        }
        let (mut offsets, mut entries) = (vec![0], Vec::with_capacity(n));
        for stream in masks.chunks_exact(words) {
            entries.extend(stream.iter().copied().enumerate().filter(|(_, mask)| *mask != 0));
            offsets.push(entries.len());
        }
        Some(Self { offsets, entries })
    }
}

/// Some samples of a batch as streams.
struct Streams<'a> {
    words: Cow<'a, [u64]>,
    /// The signs of the inputs of a signed layer; empty for other layers.
    negative: Cow<'a, [bool]>,
    seed: SampleSeed,
}

impl FaultLayer {
    /// Creates a layer; the backend below and `weights` already have the faults of memory and
    /// generators.
    pub(super) fn new(
        cpu: &Cpu,
        inner: Box<dyn PreparedLayer>,
        spec: &LayerSpec,
        weights: &Weights,
        faults: &Faults,
    ) -> Result<Self> {
        let stuck = match has_stuck(faults) {
            true => {
                let (length, rows, units) = (Length::new(1)?, 1, spec.n_inputs());
                let draw = |site| -> Result<Option<Vec<u64>>> {
                    let Some(mask) = faults.at(site, spec.index()).next() else { return Ok(None) };
                    let addresses = mask.addresses(0, 0, Operand::Inputs);
                    Grid { length, rows, units }.draw(cpu, &mask, addresses).map(Some)
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
        let products = match faults.has(FaultSite::Weights)
            || faults.has(FaultSite::Products)
            || has_generators
        {
            true => {
                let masks = faults.at(FaultSite::Weights, spec.index());
                let permanent = masks.filter(|mask| !mask.fault().is_per_sample());
                let rows = [0, spec.n_rows()];
                let grid = WeightGrid { spec };
                let mut permanent =
                    grid.masks(cpu, permanent, spec.length(), Operand::Inputs, 0, rows)?;
                let thresholds = spec.weight_thresholds(weights)?;
                let negative = negative(spec, &thresholds);
                let weights = cpu.weight_streams(spec, weights)?.into_words();
                if has_generators {
                    // The flips are the differences to the streams of generators without faults.
                    let mut flips = weights.clone();
                    generator::replace_weights(cpu, spec, faults, &thresholds, &mut flips)?;
                    flip(&mut flips, &weights);
                    match &mut permanent {
                        Some(permanent) => flip(permanent, &flips),
                        None => permanent = Some(flips),
                    }
                }
                let sparse = permanent.as_ref();
                let sparse =
                    sparse.and_then(|masks| SparseMasks::new(masks, spec.length().words()));
                Some(ProductFaults { weights, negative, permanent, sparse })
            }
            false => None,
        };
        let (spec, faults) = (spec.clone(), faults.clone());
        Ok(Self { inner, spec, faults, stuck, products })
    }

    /// Returns whether the thresholds of inputs have faults.
    fn changes_thresholds(&self) -> bool {
        !self.stuck.is_empty() || self.faults.has(FaultSite::Activations)
    }

    /// Returns the thresholds of a batch after faults of registers and stuck generators; `None` for
    /// encoded streams.
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
        for mask in self.faults.at(FaultSite::Activations, self.spec.index()) {
            self.flip_registers(cpu, &mask, batch.seed, thresholds.to_mut())?;
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
        for mask in self.faults.at(FaultSite::Inputs, spec.index()) {
            let own = words.to_mut();
            self.flip_rows(cpu, &mask, length, n_samples, [n, 0], seed, own)?;
        }
        Ok(Streams { words, negative, seed })
    }

    /// Flips the stored bits of inputs, rows of samples by inputs.
    fn flip_registers(
        &self,
        cpu: &Cpu,
        mask: &FaultMask,
        seed: SampleSeed,
        thresholds: &mut [u64],
    ) -> Result<()> {
        let (units, stored) = (self.spec.n_inputs(), StoredOperand::inputs(&self.spec));
        let length = Length::new(stored.n_bits() as usize)?;
        let rows = if mask.fault().is_per_sample() { thresholds.len() / units } else { 1 };
        let addresses = mask.addresses(seed.first_sample, 0, Operand::Inputs);
        let drawn = Grid { length, rows, units }.draw(cpu, mask, addresses)?;
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
        mask: &FaultMask,
        length: Length,
        n_samples: usize,
        [units, first]: [usize; 2],
        seed: SampleSeed,
        words: &mut [u64],
    ) -> Result<()> {
        let rows = if mask.fault().is_per_sample() { n_samples } else { 1 };
        let unit = field(Quantity::Neurons, first)?;
        let addresses =
            mask.addresses(seed.first_sample, 0, Operand::Inputs).map(|at| at.at_unit(unit));
        let drawn = Grid { length, rows, units }.draw(cpu, mask, addresses)?;
        words.chunks_mut(drawn.len().max(1)).for_each(|words| flip(words, &drawn));
        Ok(())
    }

    /// Returns whether streams are created on the host.
    fn has_streams(&self) -> bool {
        self.faults.has(FaultSite::Inputs) || self.products.is_some()
    }

    /// Returns the number of samples of a batch that the backend below gets at a time.
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
                    self.add_differences(cpu, products, &streams, &mut counts)?;
                }
                counts
            }
        };
        let first = spec.first_neuron() as usize * spec.neurons_per_row();
        for mask in self.faults.at(FaultSite::Counters, spec.index()) {
            let length = Length::new(counter_width(spec)? as usize)?;
            self.flip_rows(cpu, &mask, length, n_samples, [m, first], batch.seed, &mut counts)?;
        }
        Ok(counts)
    }

    /// Adds the differences caused by flips of weight streams and products, samples on several
    /// threads.
    fn add_differences(
        &self,
        cpu: &Cpu,
        products: &ProductFaults,
        streams: &Streams<'_>,
        counts: &mut [u64],
    ) -> Result<()> {
        let one = Cpu::new(cpu.tier(), Arc::new(Pool::new(1)?));
        let words = self.spec.sample_words();
        let samples =
            streams.words.chunks_exact(words).zip(counts.chunks_mut(self.spec.n_neurons()));
        let samples: Vec<_> = samples.enumerate().collect();
        let work = (samples.len() as u64).saturating_mul(self.spec.product_words() as u64);
        let cost = Duration::from_nanos(work.saturating_mul(DRAW));
        threads::current()?.try_for_each(samples.into_iter(), cost, |(k, (inputs, counts))| {
            let n = self.spec.n_inputs();
            let negative = streams.negative.get(k * n..(k + 1) * n).unwrap_or(&[]);
            let sample = streams.seed.advanced(k)?.first_sample;
            self.add_differences_of(&one, products, sample, inputs, negative, counts)
        })
    }

    /// Adds the differences of one sample.
    fn add_differences_of(
        &self,
        cpu: &Cpu,
        products: &ProductFaults,
        sample: u32,
        inputs: &[u64],
        negative: &[bool],
        counts: &mut [u64],
    ) -> Result<()> {
        let (spec, length, words) = (&self.spec, self.spec.length(), self.spec.length().words());
        let weight_masks = || {
            let masks = self.faults.at(FaultSite::Weights, spec.index());
            masks.filter(|mask| mask.fault().is_per_sample())
        };
        let has_products = self.faults.has(FaultSite::Products);
        if products.permanent.is_none() && weight_masks().next().is_none() && !has_products {
            return Ok(());
        }
        if let Some(sparse) =
            products.sparse.as_ref().filter(|_| weight_masks().next().is_none() && !has_products)
        {
            self.add_sparse(products, sparse, inputs, negative, counts);
            return Ok(());
        }
        let per_row = spec.n_weights().div_ceil(spec.n_rows()).saturating_mul(words).max(1);
        let at_once = (MASK_WORDS / per_row).clamp(1, spec.n_rows());
        let positions = spec.neurons_per_row();
        for first in (0..spec.n_rows()).step_by(at_once) {
            let rows = at_once.min(spec.n_rows() - first);
            let drawn = WeightGrid { spec }.masks(
                cpu,
                weight_masks(),
                length,
                Operand::Inputs,
                sample,
                [first, rows],
            )?;
            let start = self.first_weight(first);
            let neurons =
                counts.iter_mut().enumerate().skip(first * positions).take(rows * positions);
            for (neuron, count) in neurons {
                let own = match has_products {
                    true => Some(self.product_masks(cpu, sample, neuron)?),
                    false => None,
                };
                let mut difference = 0_i64;
                self.each_product(neuron, |unit, weight, input| {
                    let is_down = products.negative.get(weight).copied().unwrap_or(false)
                        != negative.get(input).copied().unwrap_or(false);
                    let part = |all: &Option<Vec<u64>>, k: usize, word: usize| {
                        all.as_ref().map_or(0, |all| all[k * words + word])
                    };
                    let mut sum = 0_i64;
                    for word in 0..words {
                        let of_weight = part(&products.permanent, weight, word)
                            ^ part(&drawn, weight - start, word);
                        let of_product = part(&own, unit, word);
                        if of_weight | of_product != 0 {
                            let [w, x] = [
                                products.weights[weight * words + word],
                                inputs[input * words + word],
                            ];
                            let multiply = |w: u64| match spec.polarity() {
                                // Beyond the length both products are the same.
                                Polarity::Bipolar => !(w ^ x),
                                Polarity::Unipolar | Polarity::Signed => w & x,
                            };
                            let [before, after] =
                                [multiply(w), multiply(w ^ of_weight) ^ of_product];
                            sum += i64::from(after.count_ones()) - i64::from(before.count_ones());
                        }
                    }
                    difference += if is_down { -sum } else { sum };
                });
                *count = count.wrapping_add_signed(difference);
            }
        }
        Ok(())
    }

    /// Adds the differences of one sample caused by a few permanent flips of weight streams.
    fn add_sparse(
        &self,
        products: &ProductFaults,
        sparse: &SparseMasks,
        inputs: &[u64],
        negative: &[bool],
        counts: &mut [u64],
    ) {
        let words = self.spec.length().words();
        for (neuron, count) in counts.iter_mut().enumerate() {
            self.each_product(neuron, |_, weight, input| {
                let entries = &sparse.entries[sparse.offsets[weight]..sparse.offsets[weight + 1]];
                for &(word, mask) in entries {
                    let [w, x] =
                        [products.weights[weight * words + word], inputs[input * words + word]];
                    let multiply = |w: u64| match self.spec.polarity() {
                        // Beyond the length both products are the same.
                        Polarity::Bipolar => !(w ^ x),
                        Polarity::Unipolar | Polarity::Signed => w & x,
                    };
                    let [before, after] =
                        [multiply(w), multiply(w ^ mask)].map(|word| i64::from(word.count_ones()));
                    let is_down = products.negative.get(weight).copied().unwrap_or(false)
                        != negative.get(input).copied().unwrap_or(false);
                    let difference = if is_down { before - after } else { after - before };
                    *count = count.wrapping_add_signed(difference);
                }
            });
        }
    }

    /// Returns the masks of a neuron's products, by the position of each product among the weights
    /// of its row.
    fn product_masks(&self, cpu: &Cpu, sample: u32, neuron: usize) -> Result<Vec<u64>> {
        let (spec, length) = (&self.spec, self.spec.length());
        let masks = self.faults.at(FaultSite::Products, spec.index());
        if let Topology::Sparse(_) = spec.topology() {
            let drawn = WeightGrid { spec }.masks(
                cpu,
                masks,
                length,
                Operand::Inputs,
                sample,
                [neuron, 1],
            )?;
            return Ok(drawn.unwrap_or_default());
        }
        let grid = Grid { length, rows: 1, units: spec.n_weights() / spec.n_rows() };
        let number = spec.first_neuron() as usize * spec.neurons_per_row() + neuron;
        let mut all: Vec<u64> = memory::zeros(grid.words() as u128, Quantity::Streams)?;
        for mask in masks {
            let addresses =
                mask.addresses(sample, field(Quantity::Neurons, number)?, Operand::Inputs);
            flip(&mut all, &grid.draw(cpu, &mask, addresses)?);
        }
        Ok(all)
    }

    /// Returns the index of the first weight of a row.
    fn first_weight(&self, row: usize) -> usize {
        match self.spec.topology() {
            Topology::Sparse(connections) => connections.offsets()[row],
            _ => row * (self.spec.n_weights() / self.spec.n_rows()),
        }
    }

    /// Visits the products of a neuron: the position of the weight in its row, the weight and the
    /// input.
    fn each_product(&self, neuron: usize, mut visit: impl FnMut(usize, usize, usize)) {
        match self.spec.topology() {
            Topology::Sparse(connections) => {
                let first = connections.offsets()[neuron];
                for (k, &input) in connections.inputs_of(neuron).iter().enumerate() {
                    visit(k, first + k, input as usize);
                }
            }
            Topology::Conv(shape) => {
                let (channel, position) =
                    (neuron / shape.n_positions(), neuron % shape.n_positions());
                let (taps, first_channel) =
                    (shape.kernel_weights(), shape.first_input_channel(channel));
                for tap in 0..taps {
                    if let Some(input) = shape.input_at(first_channel, position, tap) {
                        visit(tap, channel * taps + tap, input);
                    }
                }
            }
            topology => {
                let n = topology.n_inputs();
                (0..n).for_each(|input| visit(input, neuron * n + input, input));
            }
        }
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

/// Returns which thresholds of a signed layer are negative and not 0; empty for other layers.
fn negative(spec: &LayerSpec, thresholds: &[u64]) -> Vec<bool> {
    match spec.polarity() {
        Polarity::Unipolar | Polarity::Bipolar => Vec::new(),
        Polarity::Signed => {
            thresholds.iter().map(|&threshold| is_negative(positive_zero(threshold))).collect()
        }
    }
}

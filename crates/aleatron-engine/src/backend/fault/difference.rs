//! Differences of counts that flips of weight streams and products make.
//!
//! Only the words with flips are computed: the masks of a row of weights and of a neuron's products
//! are arrays with a list of the words that are not 0.

use super::mask::{WeightGrid, field};
use super::row_masks::RowMasks;
use aleatron_core::fault::{FaultSite, Faults, Operand};
use aleatron_core::{Error, LayerSpec, Polarity, Quantity, Result, SampleSeed, Topology, memory};
use aleatron_cpu::{Cpu, MaskDrawer, MaskGrid, Pool, split_hit, threads};
use std::sync::Arc;
use std::time::Duration;

/// Words of weight streams that a thread reads for all samples before it goes on, about: they stay
/// in the second-level cache.
const WEIGHT_WORDS: usize = 1 << 15;

/// Words of masks of products that a thread draws at a time, about.
const MASK_WORDS: usize = 1 << 15;

/// Nanoseconds that a hit takes, about; only the order of magnitude matters.
const HIT: f64 = 5.0;

/// Nanoseconds that a word of a mask without hits takes.
const WORD: f64 = 2.0;

/// Nanoseconds that a neuron takes.
const NEURON: f64 = 30.0;

/// The weight streams that faults of weight streams and of products meet.
#[derive(Debug)]
pub(super) struct ProductFaults {
    pub(super) spec: LayerSpec,
    /// One per weight in their order.
    pub(super) weights: Vec<u64>,
    /// Which weights of a signed layer are negative; none of another.
    pub(super) negative: Vec<bool>,
    /// The permanent flips of weight streams.
    permanent: Option<Permanent>,
    /// The masks of weight streams that differ between samples.
    of_weights: Vec<MaskDrawer>,
    /// The masks of products.
    of_products: Vec<MaskDrawer>,
}

/// The permanent flips of weight streams: the words of their masks that are not 0.
#[derive(Debug)]
struct Permanent {
    /// For each stream, the index of its first entry; the number of all at the end.
    offsets: Vec<usize>,
    /// The index of a word in its stream, and the word.
    entries: Vec<(usize, u64)>,
}

impl Permanent {
    fn new(masks: &[u64], words: usize) -> Result<Self> {
        let n = masks.iter().filter(|&&mask| mask != 0).count();
        let mut entries = memory::with_capacity(n as u128, Quantity::Streams)?;
        let mut offsets = vec![0];
        for stream in masks.chunks_exact(words) {
            entries.extend(stream.iter().copied().enumerate().filter(|(_, mask)| *mask != 0));
            offsets.push(entries.len());
        }
        Ok(Self { offsets, entries })
    }
}

/// The masks of several rows, drawn in one of two ways.
enum Drawn {
    /// Hits of all rows, and how many of them are used up.
    Hits { hits: Vec<u64>, next: usize },
    /// The words of all rows.
    Words(Vec<u64>),
}

/// The bits that flip.
#[derive(Clone, Copy)]
enum Flips {
    /// Those of weight streams.
    Weights,
    /// Outputs of the gates that multiply.
    Products,
}

/// Some samples as streams.
#[derive(Clone, Copy)]
pub(super) struct Samples<'a> {
    /// Rows of samples by inputs.
    pub(super) words: &'a [u64],
    /// Which inputs of a signed layer are negative; none of another.
    pub(super) negative: &'a [bool],
    pub(super) seed: SampleSeed,
}

/// Memory that a thread uses again for each row.
struct Workspace {
    weights: RowMasks,
    products: RowMasks,
    scratch: RowMasks,
    /// Positions of hits and what the count gains by them.
    effects: Vec<(u64, i64)>,
}

impl ProductFaults {
    /// Prepares the faults of a layer whose weight streams have the permanent flips `permanent`, as
    /// far as they are not in `weights`; `None` if nothing flips.
    ///
    /// # Errors
    /// Returns [`Error::Memory`] if the flips do not fit.
    pub(super) fn new(
        spec: &LayerSpec,
        faults: &Faults,
        weights: Vec<u64>,
        negative: Vec<bool>,
        permanent: Option<&[u64]>,
    ) -> Result<Option<Self>> {
        let drawers = |site| faults.at(site, spec.index()).map(MaskDrawer::new);
        let is_per_sample = |drawer: &MaskDrawer| drawer.mask().fault().is_per_sample();
        let of_weights: Vec<_> = drawers(FaultSite::Weights).filter(is_per_sample).collect();
        let of_products: Vec<_> = drawers(FaultSite::Products).collect();
        if permanent.is_none() && of_weights.is_empty() && of_products.is_empty() {
            return Ok(None);
        }
        let words = spec.length().words();
        let permanent = permanent.map(|masks| Permanent::new(masks, words)).transpose()?;
        let spec = spec.clone();
        Ok(Some(Self { spec, weights, negative, permanent, of_weights, of_products }))
    }

    /// Adds the differences of some samples to their counts, on several threads.
    pub(super) fn add(&self, cpu: &Cpu, samples: Samples<'_>, counts: &mut [u64]) -> Result<()> {
        let spec = &self.spec;
        let (m, words) = (spec.n_neurons(), spec.sample_words());
        let one = Cpu::new(cpu.tier(), Arc::new(Pool::new(1)?));
        let n_samples = samples.words.len() / words;
        let rows = self.rows_within(WEIGHT_WORDS).min(spec.n_rows());
        // Each thread takes several items, of samples if there are few rows.
        let chunks = spec.n_rows().div_ceil(rows);
        let groups =
            (4 * threads::current()?.threads()).div_ceil(chunks).clamp(1, n_samples.max(1));
        let group = n_samples.div_ceil(groups).max(1);
        let mut differences = memory::zeros(counts.len() as u128, Quantity::Counts)?;
        let mut items = Vec::new();
        let positions = spec.neurons_per_row();
        let mut rest = &mut differences[..];
        for first in (0..spec.n_rows()).step_by(rows) {
            let rows = rows.min(spec.n_rows() - first);
            let (own, after) = std::mem::take(&mut rest).split_at_mut(rows * positions * n_samples);
            rest = after;
            let parts = own.chunks_mut(group * rows * positions).zip((0..).step_by(group));
            items.extend(parts.map(|(own, sample)| ([first, rows], sample, own)));
        }
        let drawers = self.of_weights.iter().chain(&self.of_products);
        let per_word = drawers.map(|own| match own.has_hits() {
            true => HIT * 64.0 * own.mask().fault().rate().get(),
            false => WORD,
        });
        let per_sample = NEURON * m as f64 + per_word.sum::<f64>() * spec.product_words() as f64;
        let cost = Duration::from_nanos((n_samples as f64 * per_sample) as u64);
        threads::current()?.try_for_each(
            items.into_iter(),
            cost,
            |([first, rows], sample, own)| {
                let mut workspace = Workspace {
                    weights: RowMasks::new(self.most_row_words()?)?,
                    products: RowMasks::new(self.most_row_words()?)?,
                    scratch: RowMasks::new(self.most_row_words()?)?,
                    effects: Vec::new(),
                };
                for (k, own) in (sample..).zip(own.chunks_mut(rows * positions)) {
                    let n = spec.n_inputs();
                    let negative = samples.negative.get(k * n..(k + 1) * n).unwrap_or(&[]);
                    let inputs = &samples.words[k * words..][..words];
                    let index = samples.seed.advanced(k)?.first_sample;
                    self.add_rows(
                        &one,
                        [first, rows],
                        index,
                        inputs,
                        negative,
                        &mut workspace,
                        own,
                    )?;
                }
                Ok::<(), Error>(())
            },
        )?;
        let mut rest = &differences[..];
        for first in (0..spec.n_rows()).step_by(rows) {
            let n = rows.min(spec.n_rows() - first) * positions;
            let (own, after) = rest.split_at(n * n_samples);
            rest = after;
            for (own, counts) in own.chunks_exact(n.max(1)).zip(counts.chunks_exact_mut(m)) {
                for (count, &difference) in counts[first * positions..].iter_mut().zip(own) {
                    *count = count.wrapping_add_signed(difference);
                }
            }
        }
        Ok(())
    }

    /// Returns the number of rows whose masks have at most so many words, at least one. Masks are
    /// drawn for all units, those of sparse layers for inputs without a connection as well.
    fn rows_within(&self, words: usize) -> usize {
        let row_words = self.n_units().saturating_mul(self.spec.length().words());
        (words / row_words.max(1)).max(1)
    }

    /// Returns the words of the masks of the longest row.
    fn most_row_words(&self) -> Result<usize> {
        let most = match self.spec.topology() {
            Topology::Sparse(connections) => {
                connections.offsets().windows(2).map(|ends| ends[1] - ends[0]).max().unwrap_or(0)
            }
            _ => self.spec.n_weights() / self.spec.n_rows(),
        };
        most.checked_mul(self.spec.length().words())
            .ok_or(Error::Internal { place: "engine::fault::most_row_words" })
    }

    /// Adds the differences of the neurons of some rows of weights in one sample.
    #[expect(clippy::too_many_arguments, reason = "all of them belong to one sample")]
    fn add_rows(
        &self,
        cpu: &Cpu,
        [first, rows]: [usize; 2],
        sample: u32,
        inputs: &[u64],
        negative: &[bool],
        workspace: &mut Workspace,
        differences: &mut [i64],
    ) -> Result<()> {
        let positions = self.spec.neurons_per_row();
        let number = (self.first_row() + first) * positions;
        let at_once = self.rows_within(MASK_WORDS);
        let row_of =
            |drawer| self.draw(cpu, drawer, sample, first + self.first_row(), [first, rows]);
        let mut of_weights: Vec<_> = self.of_weights.iter().map(row_of).collect::<Result<_>>()?;
        let mut of_products = Vec::new();
        let is_single = self.is_single();
        for (neuron, difference) in differences.iter_mut().enumerate() {
            let (row, position) = (first + neuron / positions, neuron % positions);
            if neuron % at_once == 0 {
                let n = at_once.min(rows * positions - neuron);
                let draw = |own| self.draw(cpu, own, sample, number + neuron, [row, n]);
                of_products = self.of_products.iter().map(draw).collect::<Result<_>>()?;
            }
            let one = match (is_single, &mut of_weights[..], &mut of_products[..]) {
                (true, [Drawn::Hits { hits, next }], []) => {
                    Some((Flips::Weights, self.take_hits(hits, next, neuron), neuron))
                }
                (true, [], [Drawn::Hits { hits, next }]) => {
                    let index = neuron % at_once;
                    Some((Flips::Products, self.take_hits(hits, next, index), index))
                }
                _ => None,
            };
            if let Some((flips, own, index)) = one {
                *difference = self.single(flips, own, [row, index], inputs, negative, workspace);
                continue;
            }
            if let (Some(permanent), [], []) =
                (&self.permanent, &self.of_weights[..], &self.of_products[..])
            {
                let at = [row, position];
                *difference = self.permanent_difference(permanent, at, inputs, negative);
                continue;
            }
            let Workspace { weights, products, scratch, .. } = &mut *workspace;
            if position == 0 {
                weights.clear();
                self.add_permanent(row, weights);
                for (drawer, drawn) in self.of_weights.iter().zip(&mut of_weights) {
                    self.add_masks(drawer, drawn, row, row - first, weights, scratch);
                }
            }
            for (drawer, drawn) in self.of_products.iter().zip(&mut of_products) {
                self.add_masks(drawer, drawn, row, neuron % at_once, products, scratch);
            }
            *difference = self.difference(row, position, inputs, negative, weights, products);
        }
        workspace.weights.clear();
        Ok(())
    }

    /// Draws `n` rows of masks from row `number` on. Row `first` of the weights is that of the
    /// first one.
    fn draw(
        &self,
        cpu: &Cpu,
        drawer: &MaskDrawer,
        sample: u32,
        number: usize,
        [first, n]: [usize; 2],
    ) -> Result<Drawn> {
        let (spec, length) = (&self.spec, self.spec.length());
        let addresses = drawer.addresses(sample, field(Quantity::Row, number)?, Operand::Inputs);
        let grid = MaskGrid { length, rows: n, units: self.n_units() };
        let mut hits = Vec::new();
        if drawer.hits(cpu, addresses, grid, &mut hits)? {
            return Ok(Drawn::Hits { hits, next: 0 });
        }
        WeightGrid { spec }.draw_rows(cpu, drawer, addresses, grid, first).map(Drawn::Words)
    }

    /// Returns the row of the layer's first weights in the layer that this one may be a part of.
    fn first_row(&self) -> usize {
        self.spec.first_neuron() as usize
    }

    /// Returns the units of a row of masks.
    fn n_units(&self) -> usize {
        match self.spec.topology() {
            Topology::Conv(shape) => shape.kernel_weights(),
            topology => topology.n_inputs(),
        }
    }

    /// Inverts the bits of the permanent flips of a row's weight streams.
    fn add_permanent(&self, row: usize, total: &mut RowMasks) {
        let Some(permanent) = &self.permanent else { return };
        let (words, first) = (self.spec.length().words(), self.first_weight(row));
        for weight in first..self.first_weight(row + 1) {
            let entries = permanent.offsets[weight]..permanent.offsets[weight + 1];
            for &(word, mask) in &permanent.entries[entries] {
                total.flip((weight - first) * words + word, mask);
            }
        }
    }

    /// Inverts the bits of the masks of row `index` of those that were drawn, of the row of weights
    /// `row`.
    fn add_masks(
        &self,
        drawer: &MaskDrawer,
        drawn: &mut Drawn,
        row: usize,
        index: usize,
        total: &mut RowMasks,
        scratch: &mut RowMasks,
    ) {
        let words = self.spec.length().words();
        match drawn {
            Drawn::Hits { hits, next } => {
                let own = self.take_hits(hits, next, index);
                // Masks of one fault are joined before they are combined with those of others.
                match total.touched.is_empty() {
                    true => self.set_hits(own, drawer.cycles(), index, row, total),
                    false => {
                        self.set_hits(own, drawer.cycles(), index, row, scratch);
                        total.take(scratch);
                    }
                }
            }
            Drawn::Words(drawn) => {
                // Rows of sparse layers have lengths of their own, and one neuron each.
                let n = self.first_weight(row + 1) - self.first_weight(row);
                let start = match self.spec.topology() {
                    Topology::Sparse(_) => self.first_weight(row) - self.first_weight(row - index),
                    _ => index * n,
                };
                let own = drawn[start * words..][..n * words].iter().enumerate();
                own.filter(|(_, mask)| **mask != 0).for_each(|(k, &mask)| scratch.set(k, mask));
                total.take(scratch);
            }
        }
    }

    /// Returns the hits of row `index` of those that were drawn.
    fn take_hits<'a>(&self, hits: &'a [u64], next: &mut usize, index: usize) -> &'a [u64] {
        let end = (index as u64 + 1) * self.n_units() as u64 * self.spec.length().bits() as u64;
        let rest = &hits[*next..];
        let n = rest.partition_point(|&hit| hit < end);
        *next += n;
        &rest[..n]
    }

    /// Sets the bits of hits of row `index` of those that were drawn.
    fn set_hits(
        &self,
        hits: &[u64],
        cycles: usize,
        index: usize,
        row: usize,
        masks: &mut RowMasks,
    ) {
        let length = self.spec.length();
        let (words, first) = (length.words(), index * self.n_units());
        if let Topology::Sparse(connections) = self.spec.topology() {
            let inputs = connections.inputs_of(row);
            for &hit in hits {
                let (mask, k) = split_hit(hit, length);
                if let Ok(slot) = inputs.binary_search(&((mask - first) as u32)) {
                    masks.set_run(slot * words, k, cycles, length);
                }
            }
            return;
        }
        if cycles == 1 && length.bits().is_multiple_of(64) {
            let start = first as u64 * length.bits() as u64;
            for &hit in hits {
                let bit = hit - start;
                masks.set((bit / 64) as usize, 1 << (bit % 64));
            }
            return;
        }
        for &hit in hits {
            let (mask, k) = split_hit(hit, length);
            masks.set_run((mask - first) * words, k, cycles, length);
        }
    }

    /// Returns the difference of a neuron's count, the neuron at a position of a row of weights,
    /// and clears the masks of its products.
    fn difference(
        &self,
        row: usize,
        position: usize,
        inputs: &[u64],
        negative: &[bool],
        weights: &RowMasks,
        products: &mut RowMasks,
    ) -> i64 {
        let RowMasks { words: masks, touched } = products;
        let flips = weights.touched.iter().map(|&index| {
            let index = index as usize;
            (index, weights.words[index], std::mem::take(&mut masks[index]))
        });
        let at = [row, position];
        let mut difference = self.difference_of(at, inputs, negative, flips);
        let flips = touched.drain(..).map(|index| {
            let index = index as usize;
            (index, weights.words[index], std::mem::take(&mut masks[index]))
        });
        // Those of words with flips of weights are 0 by now.
        let flips = flips.filter(|&(_, _, of_product)| of_product != 0);
        difference += self.difference_of(at, inputs, negative, flips);
        difference
    }

    /// Returns the difference that the permanent flips of weights make alone.
    fn permanent_difference(
        &self,
        permanent: &Permanent,
        [row, position]: [usize; 2],
        inputs: &[u64],
        negative: &[bool],
    ) -> i64 {
        let (words, first) = (self.spec.length().words(), self.first_weight(row));
        let flips = (first..self.first_weight(row + 1)).flat_map(|weight| {
            let entries = permanent.offsets[weight]..permanent.offsets[weight + 1];
            let start = (weight - first) * words;
            permanent.entries[entries].iter().map(move |&(word, mask)| (start + word, mask, 0))
        });
        self.difference_of([row, position], inputs, negative, flips)
    }

    /// Returns the difference of words of a row's products: the index of each, and the flips of its
    /// weights and of its products.
    fn difference_of(
        &self,
        [row, position]: [usize; 2],
        inputs: &[u64],
        negative: &[bool],
        flips: impl Iterator<Item = (usize, u64, u64)>,
    ) -> i64 {
        let (spec, words) = (&self.spec, self.spec.length().words());
        let first = self.first_weight(row);
        let input_of = |slot: usize| match spec.topology() {
            Topology::Sparse(connections) => {
                connections.inputs_of(row).get(slot).map(|&input| input as usize)
            }
            Topology::Conv(shape) => shape.input_at(shape.first_input_channel(row), position, slot),
            _ => Some(slot),
        };
        let is_bipolar = spec.polarity() == Polarity::Bipolar;
        let differences = flips.map(|(index, of_weight, of_product)| {
            // Words of a row are named by 32 bits, and divided faster in as many.
            let slot = (index as u32 / words as u32) as usize;
            let Some(input) = input_of(slot) else { return 0 };
            let word = index - slot * words;
            let (w, x) = (self.weights[first * words + index], inputs[input * words + word]);
            // Past the length both products are the same.
            let multiply = |w: u64| if is_bipolar { !(w ^ x) } else { w & x };
            let [before, after] = [multiply(w), multiply(w ^ of_weight) ^ of_product]
                .map(|word| i64::from(word.count_ones()));
            let is_down = self.negative.get(first + slot).copied().unwrap_or(false)
                != negative.get(input).copied().unwrap_or(false);
            if is_down { before - after } else { after - before }
        });
        differences.sum()
    }

    /// Returns whether flips are those of one fault without bursts in a dense layer: they are added
    /// one by one.
    fn is_single(&self) -> bool {
        let mut drawers = self.of_weights.iter().chain(&self.of_products);
        let is_one = drawers.next().is_some_and(|own| own.cycles() == 1 && own.has_hits());
        is_one
            && drawers.next().is_none()
            && self.permanent.is_none()
            && matches!(self.spec.topology(), Topology::Dense { .. })
    }

    /// Returns the difference of a neuron's count, of a dense layer with flips of one fault, of the
    /// hits of row `index` of those that were drawn; `masks` are zeros, before and after.
    fn single(
        &self,
        flips: Flips,
        hits: &[u64],
        [row, index]: [usize; 2],
        inputs: &[u64],
        negative: &[bool],
        workspace: &mut Workspace,
    ) -> i64 {
        let (length, words) = (self.spec.length(), self.spec.length().words());
        let first = index * self.n_units();
        let n = inputs.len();
        let weights = &self.weights[row * n..][..n];
        let signs = self.negative.get(self.first_weight(row)..).unwrap_or(&[]);
        let is_xnor = self.spec.polarity() == Polarity::Bipolar;
        // A flip of a weight is one of the product, unless the input holds the product at 0.
        let always = if is_xnor || matches!(flips, Flips::Products) { u64::MAX } else { 0 };
        let start = first as u64 * length.bits() as u64;
        let is_aligned = length.bits().is_multiple_of(64);
        // The words lie anywhere in memory: this loop does nothing else, so that many are read at
        // the same time.
        let effects = hits.iter().map(|&hit| {
            let position = match is_aligned {
                true => hit - start,
                false => {
                    let (mask, k) = split_hit(hit, length);
                    ((mask - first) * words) as u64 * 64 + k as u64
                }
            };
            let (word, bit) = ((position / 64) as usize, position % 64);
            let (w, x) = (weights[word], inputs[word]);
            let product = if is_xnor { !(w ^ x) } else { w & x };
            let effect = ((x | always) >> bit & 1) as i64 * (1 - 2 * (product >> bit & 1) as i64);
            (position, effect)
        });
        let Workspace { products: RowMasks { words: masks, .. }, effects: found, .. } = workspace;
        found.clear();
        found.extend(effects);
        let mut difference = 0;
        for &(position, effect) in &*found {
            let (word, bit) = ((position / 64) as usize, position % 64);
            let is_new = (!masks[word] >> bit & 1) as i64;
            masks[word] |= 1 << bit;
            let is_down = !signs.is_empty() && {
                // Fewer words than 2^32 have masks.
                let slot = (word as u32 / words as u32) as usize;
                signs[slot] != negative[slot]
            };
            difference += if is_down { -is_new * effect } else { is_new * effect };
        }
        for &(position, _) in &*found {
            masks[(position / 64) as usize] = 0;
        }
        difference
    }

    /// Returns the index of the first weight of a row.
    fn first_weight(&self, row: usize) -> usize {
        match self.spec.topology() {
            Topology::Sparse(connections) => connections.offsets()[row],
            _ => row * (self.spec.n_weights() / self.spec.n_rows()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use aleatron_core::{Connections, Encoding, Length};

    /// Masks of sparse layers are drawn for all inputs, however few connections there are.
    #[test]
    fn rows_of_sparse_layers_are_limited_by_their_inputs() {
        let (inputs, neurons, bits) = (100_000, 4096, 64);
        let rows = (0..neurons).map(|j| (j..j + 10).collect::<Vec<_>>());
        let connections = Connections::from_rows(rows, inputs).unwrap();
        let (length, encoding) = (Length::new(bits).unwrap(), Encoding::Bernoulli { seed: 1 });
        let spec = LayerSpec::sparse(connections, length, Polarity::Unipolar, encoding).unwrap();
        let faults = Faults::new(1, vec!["weights:1e-2".parse().unwrap()]).unwrap();
        let weights = vec![0; spec.n_weights()];
        let faults =
            ProductFaults::new(&spec, &faults, weights, Vec::new(), None).unwrap().unwrap();
        assert_eq!(faults.rows_within(WEIGHT_WORDS), 1);
        assert_eq!(faults.rows_within(10 * inputs), 10);
    }
}

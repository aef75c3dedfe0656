//! Encoding streams that share sequences; see [`aleatron_core::generator`].
//!
//! The integers of a sequence are computed once, a block at a time, and compared with the
//! thresholds of all streams that use it.

use crate::encode::check_words;
use crate::{Cpu, dispatch};
use aleatron_core::generator::{OperandSequences, Sequence, Sharing, Siblings, Values};
use aleatron_core::threshold::magnitude;
use aleatron_core::{Error, LayerSpec, Length, Quantity, Result, StreamMatrix, Topology, memory};
use std::ops::Range;
use std::time::Duration;

/// Number of integers computed at a time, whole words of them: few enough to stay in a second-level
/// cache.
const BLOCK: usize = 1 << 14;

/// Approximate nanoseconds of comparing a word of integers; only the order of magnitude matters.
const COMPARE: usize = 20;

/// Approximate nanoseconds of computing an integer.
const MAKE: usize = 2;

/// The least number of words that a thread compares at a time.
const MIN_GRAIN: usize = 256;

impl Cpu {
    /// Encodes one stream per threshold: stream r has sequence `r % period` of [`Sequence::nth`] of
    /// the first one, and its bit k is 1 if `U_k` is below the threshold.
    ///
    /// ```
    /// use aleatron_core::Length;
    /// use aleatron_core::generator::{Sequence, Sobol, Width};
    /// use aleatron_cpu::Cpu;
    ///
    /// let (sobol, length) = (Sequence::Sobol(Sobol::new(1, Width::EIGHT)?), Length::new(100)?);
    /// let mut words = [0; 3 * 2];
    /// Cpu::current()?.encode_sequences(&sobol, &[77, 200, 256], 2, length, &mut words)?;
    /// assert_eq!(words[2..4], *sobol.nth(1)?.encode(200, length).words());
    /// # Ok::<(), aleatron_cpu::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Zero`] for a period of 0, [`Error::Mismatch`] unless `out` has exactly the
    /// words of the streams, [`Error::TooLarge`] if the generator has too few sequences.
    pub fn encode_sequences(
        &self,
        first: &Sequence,
        thresholds: &[u64],
        period: usize,
        length: Length,
        out: &mut [u64],
    ) -> Result<()> {
        check_words(out.len(), thresholds.len().checked_mul(length.words()))?;
        if period == 0 {
            return Err(Error::Zero(Quantity::Sequence));
        }
        let siblings = first.siblings();
        let n_sequences = period.min(thresholds.len());
        check_sequences(&siblings, n_sequences)?;
        let job = Job { thresholds, period, length };
        if n_sequences < self.threads() {
            for q in 0..n_sequences {
                self.share_streams(&job, &siblings.nth(q)?, q, out);
            }
        } else {
            self.share_sequences(&job, &siblings, out)?;
        }
        Ok(())
    }

    /// Encodes like [`Self::encode_sequences`], with sequence `numbers[r]` for stream r.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] unless there is one number per stream and `out` has exactly the
    /// words of the streams, [`Error::TooLarge`] if the generator has too few sequences.
    pub fn encode_numbered_sequences(
        &self,
        first: &Sequence,
        thresholds: &[u64],
        numbers: &[usize],
        length: Length,
        out: &mut [u64],
    ) -> Result<()> {
        let (expected, actual) = (thresholds.len(), numbers.len());
        if expected != actual {
            return Err(Error::Mismatch { what: Quantity::Sequence, expected, actual });
        }
        check_words(out.len(), thresholds.len().checked_mul(length.words()))?;
        let siblings = first.siblings();
        numbers.iter().max().map_or(Ok(()), |&last| siblings.nth(last).map(drop))?;
        let mut streams: Vec<_> =
            out.chunks_exact_mut(length.words()).zip(thresholds).zip(numbers).collect();
        streams.sort_unstable_by_key(|(_, number)| **number);
        let n_sequences = streams.chunk_by(|a, b| a.1 == b.1).count();
        let cost = nanoseconds(thresholds.len().saturating_mul(length.words()), COMPARE)
            + nanoseconds(n_sequences.saturating_mul(length.bits()), MAKE);
        let groups: Vec<_> = streams.chunk_by_mut(|a, b| a.1 == b.1).collect();
        self.pool.for_each(groups.into_iter(), cost, |streams| {
            // Never fails: the sequences were checked before any work.
            let Some(Ok(sequence)) = streams.first().map(|(_, number)| siblings.nth(**number))
            else {
                return;
            };
            let mut values = sequence.values();
            let mut block = vec![0; BLOCK.min(length.bits())];
            for range in blocks(length) {
                let block = next_block(&mut values, &range, length, &mut block);
                for ((out, threshold), _) in &mut *streams {
                    self.compare(block, **threshold, &mut out[range.clone()]);
                }
            }
        });
        Ok(())
    }

    /// Encodes the streams of a sequence, one per threshold.
    ///
    /// # Errors
    /// Returns [`Error::Memory`] if the streams do not fit.
    pub fn encode_sequence(
        &self,
        sequence: &Sequence,
        thresholds: &[u64],
        length: Length,
    ) -> Result<StreamMatrix> {
        let mut streams = StreamMatrix::zeros(thresholds.len(), length)?;
        self.encode_sequences(sequence, thresholds, 1, length, streams.words_mut())?;
        Ok(streams)
    }

    /// Encodes the input streams of a layer with shared sequences, samples of `n_inputs` one after
    /// the other.
    ///
    /// # Errors
    /// Returns [`Error::Zero`] without inputs, [`Error::Ragged`] unless the thresholds are whole
    /// samples, [`Error::TooLarge`] if the generator has too few sequences, [`Error::Memory`] if
    /// the streams do not fit.
    pub fn encode_shared_inputs(
        &self,
        sequences: &OperandSequences,
        thresholds: &[u64],
        n_inputs: usize,
        length: Length,
    ) -> Result<StreamMatrix> {
        let period = sequences.input_period(thresholds.len(), n_inputs)?;
        let mut streams = StreamMatrix::zeros(thresholds.len(), length)?;
        self.encode_sequences(&sequences.first, thresholds, period, length, streams.words_mut())?;
        Ok(streams)
    }

    /// Encodes the weight streams of a layer with shared sequences, one per weight in their order.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] unless `out` has exactly the words of the streams,
    /// [`Error::TooLarge`] if the generator has too few sequences, [`Error::Memory`] if temporary
    /// data do not fit.
    pub fn encode_shared_weights(
        &self,
        spec: &LayerSpec,
        sequences: &OperandSequences,
        thresholds: &[u64],
        out: &mut [u64],
    ) -> Result<()> {
        let (length, weights) = (spec.length(), &sequences.first);
        let n = match spec.topology() {
            Topology::Conv(shape) => shape.kernel_weights(),
            _ => spec.n_inputs(),
        };
        let first_neuron = spec.first_neuron() as usize;
        match (sequences.sharing, spec.topology()) {
            (Sharing::OneForAll, _) => self.encode_sequences(weights, thresholds, 1, length, out),
            (Sharing::OnePerInput, Topology::Dense { .. } | Topology::Conv(_)) => {
                self.encode_sequences(weights, thresholds, n, length, out)
            }
            (Sharing::OnePerStream, Topology::Dense { .. } | Topology::Conv(_)) => {
                // Numbers add up: number n from sequence m on is number m + n.
                let first = weights.nth(first_neuron.saturating_mul(n))?;
                self.encode_sequences(&first, thresholds, thresholds.len().max(1), length, out)
            }
            (sharing, Topology::Sparse(connections)) => {
                let mut numbers =
                    memory::with_capacity(connections.len() as u128, Quantity::Connections)?;
                for neuron in 0..connections.n_neurons() {
                    let of_neuron = match sharing {
                        Sharing::OnePerStream => (first_neuron + neuron).saturating_mul(n),
                        _ => 0,
                    };
                    let inputs = connections.inputs_of(neuron).iter();
                    numbers.extend(inputs.map(|&input| of_neuron.saturating_add(input as usize)));
                }
                self.encode_numbered_sequences(weights, thresholds, &numbers, length, out)
            }
            _ => Err(Error::unsupported("cpu", "layers of this kind")),
        }
    }

    /// Encodes with few sequences: the threads divide the streams of each, block by block.
    fn share_streams(&self, job: &Job<'_>, sequence: &Sequence, q: usize, out: &mut [u64]) {
        let streams = out.chunks_exact_mut(job.length.words()).zip(job.thresholds);
        let mut streams: Vec<_> = streams.skip(q).step_by(job.period).collect();
        let mut values = sequence.values();
        let mut block = vec![0; BLOCK.min(job.length.bits())];
        for words in blocks(job.length) {
            let block = next_block(&mut values, &words, job.length, &mut block);
            let cost = nanoseconds(streams.len().saturating_mul(words.len()), COMPARE);
            let grain =
                (MIN_GRAIN / words.len()).max(streams.len().div_ceil(4 * self.threads())).max(1);
            self.pool.for_each(streams.chunks_mut(grain), cost, |streams| {
                for (stream, threshold) in streams {
                    self.compare(block, **threshold, &mut stream[words.clone()]);
                }
            });
        }
    }

    /// Encodes with many sequences: the threads divide them, each computing the integers of its
    /// own.
    fn share_sequences(&self, job: &Job<'_>, siblings: &Siblings, out: &mut [u64]) -> Result<()> {
        let words = job.length.words();
        let n_sequences = job.period.min(job.thresholds.len());
        let per_item = n_sequences.div_ceil(4 * self.threads());
        let mut items: Vec<_> =
            (0..n_sequences).step_by(per_item).map(|first| (first, Vec::new())).collect();
        let outs = out.chunks_mut(job.period.saturating_mul(words));
        for (out, thresholds) in outs.zip(job.thresholds.chunks(job.period)) {
            let chunks = out.chunks_mut(per_item * words).zip(thresholds.chunks(per_item));
            for ((_, chunks), chunk) in items.iter_mut().zip(chunks) {
                chunks.push(chunk);
            }
        }
        let cost = nanoseconds(job.thresholds.len().saturating_mul(words), COMPARE)
            + nanoseconds(n_sequences.saturating_mul(job.length.bits()), MAKE);
        self.pool.try_for_each(items.into_iter(), cost, |(first, mut chunks)| {
            let mut block = vec![0; BLOCK.min(job.length.bits())];
            for i in 0..per_item.min(n_sequences - first) {
                let sequence = siblings.nth(first + i)?;
                let mut values = sequence.values();
                for range in blocks(job.length) {
                    let block = next_block(&mut values, &range, job.length, &mut block);
                    for (out, thresholds) in &mut chunks {
                        // The last period may be partial.
                        if let (Some(out), Some(&threshold)) =
                            (out.chunks_exact_mut(words).nth(i), thresholds.get(i))
                        {
                            self.compare(block, threshold, &mut out[range.clone()]);
                        }
                    }
                }
            }
            Ok(())
        })
    }

    /// Compares a block of integers with a threshold, ignoring its sign.
    fn compare(&self, values: &[u32], threshold: u64, out: &mut [u64]) {
        match u32::try_from(magnitude(threshold)) {
            Ok(threshold) => dispatch::compare(self.tier, values, threshold, out),
            // Every integer of 32 bits is below.
            Err(_) => {
                out.fill(u64::MAX);
                if let (Some(last), rest @ 1..) = (out.last_mut(), values.len() % 64) {
                    *last = (1 << rest) - 1;
                }
            }
        }
    }
}

/// Streams to encode.
struct Job<'a> {
    thresholds: &'a [u64],
    period: usize,
    length: Length,
}

/// Returns the words of a stream, a block at a time.
fn blocks(length: Length) -> impl Iterator<Item = Range<usize>> {
    let (words, step) = (length.words(), BLOCK / 64);
    (0..words).step_by(step).map(move |start| start..words.min(start + step))
}

/// Returns the next integers of a sequence, for the given words.
fn next_block<'a>(
    values: &mut Values,
    words: &Range<usize>,
    length: Length,
    block: &'a mut [u32],
) -> &'a [u32] {
    let n = length.bits().min(64 * words.end) - 64 * words.start;
    let block = &mut block[..n];
    values.fill(block);
    block
}

/// Checks that a generator has `n` sequences, before any work; the error is that of the first
/// missing one.
fn check_sequences(siblings: &Siblings, n: usize) -> Result<()> {
    match n.checked_sub(1).map(|last| siblings.nth(last)) {
        Some(Err(_)) => (0..n).try_for_each(|q| siblings.nth(q).map(|_| ())),
        _ => Ok(()),
    }
}

fn nanoseconds(n: usize, each: usize) -> Duration {
    // A minute is worth threads however long it really takes, and cannot overflow.
    Duration::from_nanos(n.saturating_mul(each).min(60_000_000_000) as u64)
}

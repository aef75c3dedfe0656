//! Activity of a layer: how often its sequences, words and lanes change, from its weights and the
//! words that arrive.

use super::lane::{Arrival, LaneActivity, Lanes};
use crate::circuit::{LayerCircuit, SequenceCircuit, Source};
use crate::{Circuit, Options, Trace};

/// The largest number of words of inputs for the statistics of a layer, unless one sample has more.
const WORDS: usize = 4096;
/// The largest number of counted cycles of sequences.
const CYCLES: usize = 1024;

/// Fractions of bits that change: in a cycle of streams, or with a word that arrives.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Activity {
    /// Bits of the sequences of inputs, in a cycle.
    pub(super) input_sequence: f64,
    /// Bits of the sequences of weights, in a cycle.
    pub(super) weight_sequence: f64,
    /// Bits of the line buffer, with each word.
    pub(super) word: f64,
    /// The changes in a lane.
    pub(super) lane: LaneActivity,
}

impl Activity {
    /// Returns the activity of a layer whose inputs have the words of a trace or, without one,
    /// uniformly distributed thresholds.
    pub(super) fn new(
        circuit: &Circuit,
        stage: usize,
        layer: &LayerCircuit,
        options: &Options,
        trace: Option<&Trace>,
    ) -> Self {
        let length = layer.length.min(CYCLES);
        let changes = |list: &[SequenceCircuit], width: u32| {
            let values = list.first().map(|sequence| sequence.values(length).collect::<Vec<u32>>());
            values.map_or(0.0, |values| sequence_activity(&values, width))
        };
        let arrivals = padded(layer, &words(circuit, stage, layer, trace));
        Self {
            input_sequence: changes(&layer.input_sequences, layer.comparator),
            weight_sequence: changes(&layer.weight_sequences, layer.weight_comparator),
            word: buffer_activity(layer, &arrivals, trace),
            lane: Lanes::new(layer, options, &arrivals).activity(),
        }
    }

    /// Returns the fraction of bits of the line buffer that change with each word.
    pub(super) fn words(
        circuit: &Circuit,
        stage: usize,
        layer: &LayerCircuit,
        trace: Option<&Trace>,
    ) -> f64 {
        buffer_activity(layer, &padded(layer, &words(circuit, stage, layer, trace)), trace)
    }
}

fn buffer_activity(layer: &LayerCircuit, arrivals: &[Arrival], trace: Option<&Trace>) -> f64 {
    let window = &layer.window;
    let height = window.size[0] + window.padding[0].iter().sum::<usize>();
    let pushes = height * window.padded_columns() * window.channels;
    // The line buffer is empty before the first sample of a trace.
    let n_words = trace.map(|trace| trace.n_samples.saturating_mul(pushes));
    let marks = u64::from(layer.has_marks()) << 63;
    let value = |word: Arrival| word.map_or(0, |word| word | marks);
    word_activity(arrivals, value, f64::from(layer.word_bits()), window.depth(), n_words)
}

/// Returns words that arrive at a layer, one after the other, of whole samples.
pub(super) fn words(
    circuit: &Circuit,
    stage: usize,
    layer: &LayerCircuit,
    trace: Option<&Trace>,
) -> Vec<u64> {
    let source = circuit.stages.get(stage).and_then(|stage| stage.inputs.first().copied());
    let traced = trace.zip(source).and_then(|(trace, source)| match source {
        Source::Input => Some(trace.inputs.as_slice()),
        Source::Stage(index) => trace.stages.get(index).map(|stage| stage.values.as_slice()),
    });
    let image = layer.window.size[0] * layer.window.size[1] * layer.window.channels;
    match (traced, source) {
        (Some(values), Some(source)) => {
            let link = circuit.link(source);
            crate::bench::arriving(link, values)
                .take(WORDS.max(image))
                .map(|word| word as u64)
                .collect()
        }
        _ => {
            // Steps by the golden ratio visit all thresholds evenly; every other one is negative if
            // signs exist.
            let n = (1_u64 << layer.comparator) + 1;
            let step = ((n as f64 * 0.618_034) as u64).max(1);
            let sign =
                |k: u64| if layer.has_signs() { (k & 1) << (layer.comparator + 1) } else { 0 };
            (0..2 * image as u64).map(|k| k % n * step % n | sign(k / 2)).collect()
        }
    }
}

/// Returns the words of whole samples with the padding between them.
fn padded(layer: &LayerCircuit, words: &[u64]) -> Vec<Arrival> {
    let window = &layer.window;
    let [[top, bottom], [left, right]] = window.padding;
    let row_words = window.size[1] * window.channels;
    let columns = window.padded_columns() * window.channels;
    let (left, right) = (left * window.channels, right * window.channels);
    let mut all = Vec::new();
    for image in words.chunks_exact((window.size[0] * row_words).max(1)) {
        all.extend(std::iter::repeat_n(None, top * columns));
        for row in image.chunks_exact(row_words.max(1)) {
            all.extend(std::iter::repeat_n(None, left));
            all.extend(row.iter().copied().map(Some));
            all.extend(std::iter::repeat_n(None, right));
        }
        all.extend(std::iter::repeat_n(None, bottom * columns));
    }
    all
}

/// Returns the fraction of the bits of a line buffer that change with each word. A change moves on
/// with every later word, so it affects as many words of the line buffer as follow; `n_words` is
/// the number of all words that arrive, `None` for an endless stream.
fn word_activity(
    arrivals: &[Arrival],
    value: impl Fn(Arrival) -> u64,
    word_bits: f64,
    depth: usize,
    n_words: Option<usize>,
) -> f64 {
    let seen = |k: usize| n_words.map_or(depth, |n| n.saturating_sub(k).min(depth)) as f64;
    let (mut before, mut changes, mut all) = (0, 0.0, 0.0);
    for (k, &word) in arrivals.iter().enumerate() {
        let word = value(word);
        changes += seen(k) * f64::from((word ^ before).count_ones());
        all += seen(k);
        before = word;
    }
    if all == 0.0 {
        return 0.0;
    }
    let (depth, n) = (depth as f64, n_words.map_or(f64::INFINITY, |n| n as f64));
    // The mean of seen(k) / depth over all words.
    let share = match n_words {
        None => 1.0,
        Some(_) if n >= depth => (n - depth + (depth + 1.0) / 2.0) / n,
        Some(_) => (n + 1.0) / (2.0 * depth),
    };
    share * changes / (all * word_bits)
}

/// Returns the fraction of the bits of a sequence that change in a cycle.
fn sequence_activity(values: &[u32], width: u32) -> f64 {
    let steps = values.iter().zip(values.iter().skip(1));
    let changes: u64 = steps.map(|(a, b)| u64::from((a ^ b).count_ones())).sum();
    changes as f64 / (values.len().saturating_sub(1).max(1) as f64 * f64::from(width.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activity_of_a_counter_is_that_of_its_bits() {
        // 00, 01, 10, 11: one, two and one changes of two bits.
        assert_eq!(sequence_activity(&[0, 1, 2, 3], 2), 4.0 / 6.0);
    }

    #[test]
    fn line_buffer_that_fills_up_toggles_less() {
        // Words 1, 0, 1 of one bit enter a line buffer of two words that holds zeros: 10, 01, 10
        // change 1 + 2 + 2 of 6 bits.
        let words = [Some(1), Some(0), Some(1)];
        let value = |word: Arrival| word.unwrap_or(0);
        assert!((word_activity(&words, value, 1.0, 2, Some(3)) - 5.0 / 6.0).abs() < 1e-12);
        // In the long run, every word moves through both.
        assert_eq!(word_activity(&words, value, 1.0, 2, None), 1.0);
        // Fewer words than the line buffer has: the only one changes one of four bits.
        assert_eq!(word_activity(&words[..1], value, 1.0, 4, Some(1)), 0.25);
    }
}

//! The layers of a program on a device: thresholds are read from the slot of a step, and counts
//! stay on the device.

use std::sync::Arc;

use aleatron_core::backend::PrepareOptions;
use aleatron_core::program::{InputSign, ProgramLayer};
use aleatron_core::{InputSource, LayerSpec, Polarity, SampleSeed, Sharing};
use aleatron_device::{BufferView, GpuContext, Recorder, size_u32};

use super::step::{RawForm, RawSign, launch};
use crate::backend::{GpuBackend, Prepared, integers};
use crate::buffers::{self, CountMode, check_words_of};
use crate::encode::{self, Part, threshold_words};
use crate::error::{Result, host_size};
use crate::kernels::{StagePackParams, StreamKernel};
use crate::partition::{Cut, StreamWords};
use crate::sequence::InputSequences;
use crate::sparse::GpuSparse;

/// The number of words of the buffers that a layer needs.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LayerWords {
    pub(super) packed: usize,
    pub(super) signs: usize,
    pub(super) streams: usize,
    pub(super) counts: usize,
}

impl LayerWords {
    /// Returns the larger of both sizes of each buffer.
    pub(super) fn max(self, other: Self) -> Self {
        Self {
            packed: self.packed.max(other.packed),
            signs: self.signs.max(other.signs),
            streams: self.streams.max(other.streams),
            counts: self.counts.max(other.counts),
        }
    }

    /// Returns the bytes of all buffers, of which there are two for counts.
    pub(super) fn bytes(self) -> u64 {
        let words = [self.packed, self.signs, self.streams, self.counts, self.counts];
        words.iter().fold(0_u64, |sum, &words| sum.saturating_add(4 * words as u64))
    }
}

/// The buffers shared by the layers of a program.
#[derive(Debug, Clone, Copy)]
pub(super) struct LayerViews<'a> {
    pub(super) packed: BufferView<'a>,
    pub(super) signs: BufferView<'a>,
    pub(super) streams: BufferView<'a>,
    pub(super) counts: [BufferView<'a>; 2],
}

/// The thresholds of a layer's inputs that are encoded; the others are streams of zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    All,
    NotNegative,
    Negative,
}

/// A layer of a program on a device.
#[derive(Debug)]
pub(super) struct ResidentLayer {
    spec: LayerSpec,
    input_sign: InputSign,
    prepared: Prepared,
    /// The integers of the sequences that thresholds are compared with, if they are not random.
    sequences: Option<InputSequences>,
    /// The largest number of rows of one call.
    rows: usize,
}

impl ResidentLayer {
    /// Prepares a layer for calls of up to `rows` rows, or as many as bindings can hold; `None` if
    /// its inputs cannot be encoded without the host.
    pub(super) fn new(
        backend: &GpuBackend,
        context: &Arc<GpuContext>,
        layer: &ProgramLayer,
        rows: usize,
        options: &PrepareOptions<'_>,
    ) -> Result<Option<Self>> {
        // Layers split batches into chunks of a quarter at least.
        let options = PrepareOptions { max_batch: rows.saturating_mul(4), ..*options };
        let spec = &layer.spec;
        let prepared = backend.prepare_weights(spec, &layer.weights, layer.input_sign, &options)?;
        let chunk = match &prepared {
            Prepared::Dense(layer) => layer.chunk(),
            Prepared::Sparse(layer) => layer.chunk(),
            Prepared::Tabled(layer) => layer.chunk(),
            Prepared::Conv(layer) => layer.chunk(),
            Prepared::TabledConv(layer) => layer.chunk(),
            Prepared::SignedSparse { positive, negative, .. } => {
                let parts = [positive, negative].into_iter().flatten();
                parts.map(GpuSparse::chunk).min().unwrap_or(rows)
            }
        };
        // Layers run in the buffers of the program.
        release(&prepared);
        // Both parts of a signed sparse layer add to one word for each count.
        let is_wide = buffers::is_wide(spec.max_fan_in(), spec.length());
        if is_wide && matches!(prepared, Prepared::SignedSparse { .. }) {
            return Ok(None);
        }
        let is_tabled = matches!(prepared, Prepared::Tabled(_) | Prepared::TabledConv(_));
        let sequences = match spec.encoding().input_source() {
            InputSource::Sequences(sequences) if !is_tabled => {
                let period =
                    if sequences.sharing == Sharing::OneForAll { 1 } else { spec.n_inputs() };
                let has_cuts = matches!(&prepared, Prepared::Dense(layer) if !layer.has_one_cut());
                let bytes = 256 * period as u128 * spec.length().words() as u128;
                if has_cuts || bytes > context.max_binding_bytes().into() {
                    return Ok(None);
                }
                let values =
                    integers((0..period).map(|input| sequences.input(input)), spec.length())?;
                match InputSequences::new(context, &values, period, spec.length())? {
                    Some(sequences) => Some(sequences),
                    None => return Ok(None),
                }
            }
            InputSource::Bernoulli | InputSource::Sequences(_) => None,
        };
        let (spec, input_sign) = (spec.clone(), layer.input_sign);
        Ok(Some(Self { spec, input_sign, prepared, sequences, rows: chunk.min(rows) }))
    }

    /// Returns the largest number of rows of one call.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the words that a call of `n` rows needs.
    pub(super) fn words(&self, n: usize) -> LayerWords {
        let n_inputs = self.spec.n_inputs();
        let packed = threshold_words(n * n_inputs);
        let (signs, streams, counts) = match &self.prepared {
            Prepared::Dense(layer) => (0, layer.stream_words(n), layer.count_words(n)),
            Prepared::Sparse(layer) => (0, n * layer.stream_cut().stride, layer.count_words(n)),
            Prepared::Tabled(layer) => (0, layer.row_words(n), layer.count_words(n)),
            Prepared::Conv(layer) => {
                (n * n_inputs, n * layer.stream_cut().stride, layer.count_words(n))
            }
            Prepared::TabledConv(_) => (0, 0, n * self.spec.n_neurons()),
            Prepared::SignedSparse { positive, negative, .. } => {
                let parts = [positive, negative].into_iter().flatten();
                let streams = parts.map(|part| n * part.stream_cut().stride).max().unwrap_or(0);
                (0, streams, n * self.spec.n_neurons())
            }
        };
        LayerWords { packed, signs, streams, counts }
    }

    fn is_wide(&self) -> bool {
        match &self.prepared {
            Prepared::Dense(layer) => layer.is_wide(),
            Prepared::Sparse(layer) => layer.is_wide(),
            Prepared::Conv(layer) => layer.is_wide(),
            Prepared::Tabled(_) => true,
            Prepared::TabledConv(_) | Prepared::SignedSparse { .. } => false,
        }
    }

    /// Returns the memory layout of the kernels' counts.
    pub(super) fn raw_form(&self) -> RawForm {
        match (&self.prepared, self.is_wide()) {
            (Prepared::Tabled(_), _) => RawForm::Pairs,
            (_, false) => RawForm::Words,
            (_, true) => RawForm::Planes,
        }
    }

    /// Returns how counts are derived from them.
    pub(super) fn raw_sign(&self) -> RawSign {
        match (&self.prepared, self.spec.polarity()) {
            (Prepared::SignedSparse { .. }, _) => RawSign::Difference,
            (Prepared::Dense(_) | Prepared::Sparse(_) | Prepared::Conv(_), Polarity::Bipolar) => {
                RawSign::Minus
            }
            _ => RawSign::Plus,
        }
    }

    /// Returns the constants added to them, modulo 2^64, neuron by neuron; they repeat.
    pub(super) fn bases(&self) -> Vec<u64> {
        let bits = self.spec.length().bits() as u64;
        let products =
            || self.spec.topology().fan_ins().into_iter().map(|n| n as u64 * bits).collect();
        match (&self.prepared, self.spec.polarity()) {
            (Prepared::Tabled(_) | Prepared::TabledConv(_), _) | (_, Polarity::Unipolar) => vec![0],
            (Prepared::Conv(layer), Polarity::Signed) => layer.bases(),
            _ => products(),
        }
    }

    /// Records the counts of `n` rows, whose thresholds have 64 bits each, into the first buffer of
    /// counts, and into the second one if counts are differences.
    pub(super) fn record(
        &self,
        recorder: &mut Recorder<'_>,
        thresholds: BufferView<'_>,
        views: &LayerViews<'_>,
        n: usize,
        seed: SampleSeed,
    ) -> Result<()> {
        let (words, [counts, less]) = (self.words(n), views.counts);
        let counts = counts.part(0, words.counts)?;
        match &self.prepared {
            Prepared::Dense(layer) => {
                self.pack(recorder, thresholds, views, n, Kept::All)?;
                let encode = |recorder: &mut Recorder<'_>, cut: Cut| {
                    self.encode(recorder, views, n, cut, seed)
                };
                layer.record_resident(recorder, views.streams, counts, n, &encode)
            }
            Prepared::Sparse(layer) => {
                self.pack(recorder, thresholds, views, n, Kept::All)?;
                self.encode(recorder, views, n, layer.stream_cut(), seed)?;
                recorder.clear(counts)?;
                layer.record_counts(recorder, views.streams, counts, n)
            }
            Prepared::Conv(layer) => {
                self.pack(recorder, thresholds, views, n, Kept::All)?;
                self.encode(recorder, views, n, layer.stream_cut(), seed)?;
                if layer.count_mode(n) == CountMode::Add {
                    recorder.clear(counts)?;
                }
                layer.record_counts(recorder, views.streams, views.signs, counts, n)
            }
            Prepared::Tabled(layer) => {
                self.pack(recorder, thresholds, views, n, Kept::All)?;
                if layer.count_mode() == CountMode::Add {
                    recorder.clear(counts)?;
                }
                let rows = views.streams.part(0, layer.row_words(n))?;
                layer.record_rows(recorder, views.packed, rows, n)?;
                layer.record_counts(recorder, views.packed, rows, counts, n)
            }
            Prepared::TabledConv(layer) => {
                self.pack(recorder, thresholds, views, n, Kept::All)?;
                layer.record_counts(recorder, views.packed, counts, n)
            }
            Prepared::SignedSparse { positive, negative, .. } => {
                let less = less.part(0, words.counts)?;
                recorder.clear(counts)?;
                recorder.clear(less)?;
                let signs: &[Kept] = match self.input_sign {
                    InputSign::Any => &[Kept::NotNegative, Kept::Negative],
                    InputSign::NonNegative => &[Kept::NotNegative],
                };
                for &kept in signs {
                    self.pack(recorder, thresholds, views, n, kept)?;
                    let Some(any) = positive.as_ref().or(negative.as_ref()) else { continue };
                    self.encode(recorder, views, n, any.stream_cut(), seed)?;
                    // Operands of one sign count up, operands of different signs count down.
                    let [up, down] = match kept {
                        Kept::Negative => [negative, positive],
                        Kept::All | Kept::NotNegative => [positive, negative],
                    };
                    for (part, target) in [(up, counts), (down, less)] {
                        if let Some(part) = part {
                            part.record_counts(recorder, views.streams, target, n)?;
                        }
                    }
                }
                Ok(())
            }
        }
    }

    /// Records the conversion of thresholds to the form of the layer's kernels.
    fn pack(
        &self,
        recorder: &mut Recorder<'_>,
        thresholds: BufferView<'_>,
        views: &LayerViews<'_>,
        n: usize,
        kept: Kept,
    ) -> Result<()> {
        let context = Arc::clone(recorder.context());
        let n_thresholds = n as u64 * self.spec.n_inputs() as u64;
        let is_tabled = matches!(self.prepared, Prepared::Tabled(_) | Prepared::TabledConv(_));
        let has_signs = matches!(&self.prepared, Prepared::Conv(layer) if layer.has_input_signs());
        check_words_of(&thresholds, 2 * n_thresholds)?;
        check_words_of(&views.packed, threshold_words(host_size(n_thresholds)) as u64)?;
        if has_signs {
            check_words_of(&views.signs, n_thresholds)?;
        }
        let one = self.spec.encoding().input_width().one();
        let params = StagePackParams {
            n: size_u32(n_thresholds, "thresholds of a chunk")?,
            first_negative: if is_tabled { size_u32(one + 1, "rows of a table")? } else { 0 },
        };
        let kept: u32 = match kept {
            Kept::All => 0,
            Kept::NotNegative => 1,
            Kept::Negative => 2,
        };
        let constants = [
            ("FORM", u32::from(is_tabled).into()),
            ("KEEP", kept.into()),
            ("SIGNS", has_signs.into()),
        ];
        let views = [thresholds, views.packed, views.signs];
        launch(
            recorder,
            &context,
            StreamKernel::StagePack,
            &constants,
            &views,
            &params,
            n_thresholds,
            16,
        )
    }

    /// Records the streams of a cut of `n` rows.
    fn encode(
        &self,
        recorder: &mut Recorder<'_>,
        views: &LayerViews<'_>,
        n: usize,
        cut: Cut,
        seed: SampleSeed,
    ) -> Result<()> {
        let n_units = self.spec.n_inputs();
        match &self.sequences {
            Some(sequences) => {
                let streams = views.streams.part(0, n * cut.stride)?;
                sequences.record(recorder, views.packed, streams, [n, n_units, cut.stride])
            }
            None => {
                let (first, stream) =
                    (self.spec.input_address(seed), StreamWords::of(self.spec.length()));
                encode::check_address(first, n, n_units)?;
                let part = Part { first, n_rows: n, n_units, cut, stream, out_base: 0 };
                encode::record(recorder, &part, views.packed, views.streams, None)
            }
        }
    }
}

/// Frees the memory of a layer's own calls.
fn release(prepared: &Prepared) {
    match prepared {
        Prepared::Dense(layer) => layer.release(),
        Prepared::Sparse(layer) => layer.release(),
        Prepared::Tabled(layer) => layer.release(),
        Prepared::Conv(layer) => layer.release(),
        Prepared::TabledConv(layer) => layer.release(),
        Prepared::SignedSparse { positive, negative, .. } => {
            [positive, negative].into_iter().flatten().for_each(GpuSparse::release);
        }
    }
}

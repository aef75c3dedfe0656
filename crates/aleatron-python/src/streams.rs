//! Functions on packed streams: `encode`, `pack`, `unpack`, the counting under `popcount`, and
//! correlation.

use crate::argument::{generator, length, polarity, seed, sharing, width};
use crate::array::{Input, Unwritten, output, shape_text};
use crate::compute::compute;
use crate::error::{core_exception, exception};
use aleatron::correlation::Overlap;
use aleatron::generator::{GeneratorName, Sharing, WidthChoice};
use aleatron::threshold::thresholds;
use aleatron::{
    BitStream, CoreError, Cpu, InputSource, Length, Polarity, Quantity, StreamAddress, memory,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The number of words between checks for Ctrl-C: tens of milliseconds of work.
const CHUNK_WORDS: usize = 1 << 22;

/// Encodes probabilities as packed streams of random bits.
///
/// Stream bit k is bit k % 64 of word k // 64; bits past `length` are zero. A vector's element i is
/// drawn as input i of sample 0, a matrix's row r as sample r, so the streams are those a layer
/// draws for the same seed. Use different seeds for streams that must be independent of each other.
///
/// Parameters
/// ----------
/// p
///     Values in [0, 1], or in [-1, 1] for `polarity="bipolar"`; a scalar or an array of any shape.
/// length
///     Bits per stream, at least 1.
/// seed
///     The seed of Bernoulli streams and of LFSRs.
/// polarity
///     "unipolar" or "bipolar".
/// generator, width, sharing
///     Where the bits come from, as for `Network.forward_streams`: those of a layer's inputs,
///     element i of a row being input i.
///
/// Returns
/// -------
/// numpy.ndarray
///     uint64 of shape (\*p.shape, ceil(length / 64)).
///
/// Examples
/// --------
/// >>> import aleatron as al
/// >>> streams = al.encode([0.0, 0.5, 1.0], length=100)
/// >>> streams.shape, streams.dtype
/// ((3, 2), dtype('uint64'))
/// >>> al.popcount(streams, axis=-1).tolist()
/// [0, 51, 100]
/// >>> al.encode([0.5, float("nan")], length=100)
/// Traceback (most recent call last):
///     ...
/// ValueError: probability at index 1 is nan, not in [0, 1]
#[pyfunction]
#[pyo3(
    signature = (
        p, length, seed=44257, *, polarity=Polarity::Unipolar, generator=GeneratorName::Bernoulli, width=WidthChoice::Auto,
        sharing=Sharing::OneForAll
    ),
    text_signature = "(p, length, seed=44257, *, polarity='unipolar', generator='bernoulli', width='auto', sharing='all')"
)]
pub(crate) fn encode<'py>(
    p: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = length)] length: usize,
    #[pyo3(from_py_with = seed)] seed: u64,
    #[pyo3(from_py_with = polarity)] polarity: Polarity,
    #[pyo3(from_py_with = generator)] generator: GeneratorName,
    #[pyo3(from_py_with = width)] width: WidthChoice,
    #[pyo3(from_py_with = sharing)] sharing: Sharing,
) -> PyResult<Bound<'py, PyAny>> {
    let py = p.py();
    if polarity == Polarity::Signed {
        let text = "a stream alone holds no sign: encode the magnitudes as \"unipolar\", and keep the signs";
        return Err(PyValueError::new_err(text));
    }
    let length = Length::new(length).map_err(|error| core_exception(error, &[]))?;
    let p = Input::<f64>::read(p, "p")?;
    let (shape, values) = (p.shape(), p.slice()?);
    let per_row = shape.last().copied().unwrap_or(1).max(1);
    check_memory(values.len(), length)?;
    let words_shape: Vec<usize> = shape.iter().copied().chain([length.words()]).collect();
    let resolved = width.resolve(&generator, length);
    generator.check_streams().map_err(|error| exception(error, &[]))?;
    let encoding =
        generator.encoding(seed, resolved, sharing).map_err(|error| exception(error, &[]))?;
    let check = polarity.check(values, Quantity::Probability);
    check.map_err(|error| core_exception(error, shape))?;
    let array = Unwritten::<u64>::new(py, &words_shape)?;
    // Whole rows at a time, or parts of a row that is too long: the address is the start of a
    // chunk.
    let streams = (CHUNK_WORDS / length.words()).max(1);
    let whole_rows = streams / per_row * per_row;
    array.write(|words| {
        let mut start = 0;
        while start < values.len() {
            if start > 0 {
                py.check_signals()?;
            }
            let (row, unit) = (start / per_row, start % per_row);
            let n = if whole_rows > 0 { whole_rows } else { streams.min(per_row - unit) };
            let end = values.len().min(start + n);
            let out = &mut words[start * length.words()..end * length.words()];
            let piece = &values[start..end];
            let columns = piece.len().min(per_row);
            compute(py, shape, || match encoding.input_source() {
                InputSource::Sequences(shared) => {
                    let thresholds =
                        shared.width().thresholds(piece, polarity, Quantity::Probability)?;
                    let (first, period) = match shared.sharing {
                        Sharing::OneForAll => (shared.first, 1),
                        Sharing::OnePerInput | Sharing::OnePerStream => {
                            (shared.input(unit)?, columns)
                        }
                    };
                    Ok(Cpu::current()?.encode_sequences(
                        &first,
                        &thresholds,
                        period,
                        length,
                        out,
                    )?)
                }
                InputSource::Bernoulli => {
                    let address = StreamAddress::input(seed, counter(unit)?, counter(row)?);
                    let thresholds = thresholds(piece, polarity, Quantity::Probability)?;
                    Ok(Cpu::current()?.encode_rows_into(
                        &thresholds,
                        columns,
                        length,
                        address,
                        out,
                    )?)
                }
            })?;
            start = end;
        }
        Ok(())
    })
}

/// A counter word.
fn counter(index: usize) -> aleatron::Result<u32> {
    u32::try_from(index).map_err(|_| {
        CoreError::TooLarge { what: Quantity::Row, actual: index as u128, limit: u32::MAX.into() }
            .into()
    })
}

/// Checks that the words of `n` streams would fit.
fn check_memory(n: usize, length: Length) -> PyResult<()> {
    let bytes = n as u128 * length.words() as u128 * 8;
    memory::check(bytes, Quantity::Streams).map_err(|error| core_exception(error, &[]))
}

/// Packs bits along the last axis into uint64 words, least significant bit first.
///
/// Any nonzero value is a one. The result equals `numpy.packbits(bits, axis=-1, bitorder="little")`
/// viewed as little-endian uint64, the last word filled up with zeros.
///
/// Examples
/// --------
/// >>> import aleatron as al
/// >>> al.pack([1, 0, 1, 1])
/// array([13], dtype=uint64)
/// >>> al.pack([[True] * 65, [False] * 65]).shape
/// (2, 2)
#[pyfunction]
pub(crate) fn pack<'py>(bits: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = bits.py();
    let bits = Input::<u8>::read(bits, "bits")?;
    let (shape, bytes) = (bits.shape(), bits.slice()?);
    let Some((&length, outer)) = shape.split_last() else {
        return Err(PyValueError::new_err("bits must have at least one axis"));
    };
    let n_words = length.div_ceil(64);
    let words_shape: Vec<usize> = outer.iter().copied().chain([n_words]).collect();
    let pack = |words: &mut [u64]| {
        compute(py, shape, || {
            let cpu = Cpu::current()?;
            // Streams that fill their words are one long stream.
            if outer.is_empty() || length.is_multiple_of(64) {
                return Ok(cpu.pack_into(bytes, words)?);
            }
            for (bits, words) in bytes.chunks_exact(length).zip(words.chunks_exact_mut(n_words)) {
                cpu.pack_into(bits, words)?;
            }
            Ok(())
        })
    };
    Unwritten::new(py, &words_shape)?.write(pack)
}

/// Unpacks the first `length` bits of each stream of words along the last axis, to uint8 zeros and
/// ones.
///
/// Examples
/// --------
/// >>> import aleatron as al
/// >>> al.unpack([13], length=6)
/// array([1, 0, 1, 1, 0, 0], dtype=uint8)
#[pyfunction]
pub(crate) fn unpack<'py>(
    words: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = length)] length: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let py = words.py();
    let words = Input::<u64>::read(words, "words")?;
    let (shape, elements) = (words.shape(), words.slice()?);
    let Some((&n_words, outer)) = shape.split_last() else {
        return Err(PyValueError::new_err("words must have at least one axis"));
    };
    if length.div_ceil(64) > n_words {
        let message = format!(
            "length is {length}, but streams of {n_words} words have {} bits",
            n_words * 64
        );
        return Err(PyValueError::new_err(message));
    }
    let bits_shape: Vec<usize> = outer.iter().copied().chain([length]).collect();
    let unpack = |bits: &mut [u8]| {
        compute(py, shape, || {
            let cpu = Cpu::current()?;
            if outer.is_empty() || length == n_words * 64 {
                return Ok(cpu.unpack_into(elements, bits)?);
            }
            if length > 0 {
                for (words, bits) in
                    elements.chunks_exact(n_words).zip(bits.chunks_exact_mut(length))
                {
                    cpu.unpack_into(words, bits)?;
                }
            }
            Ok(())
        })
    };
    Unwritten::new(py, &bits_shape)?.write(unpack)
}

/// Counts the ones of all words, or of each stream along the last axis.
#[pyfunction]
#[pyo3(name = "_count_ones", signature = (words, per_stream))]
pub(crate) fn count_ones<'py>(
    words: &Bound<'py, PyAny>,
    per_stream: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let py = words.py();
    let words = Input::<u64>::read(words, "words")?;
    let (shape, elements) = (words.shape(), words.slice()?);
    if !per_stream {
        let ones = compute(py, shape, || Ok(Cpu::current()?.popcount(elements)))?;
        return Ok(ones.into_pyobject(py)?.into_any());
    }
    let Some((&n_words, outer)) = shape.split_last() else {
        return Err(PyValueError::new_err(format!(
            "words have shape {}, so no last axis",
            shape_text(shape)
        )));
    };
    // Without words there may be more streams than memory: the size of an array does not bound it.
    let n_streams = outer.iter().fold(1u128, |n, &size| n.saturating_mul(size as u128));
    let ones = compute(py, shape, || match n_words {
        0 => Ok(memory::zeros(n_streams, Quantity::Streams)?),
        _ => Ok(Cpu::current()?.row_ones(elements, n_words)),
    })?;
    output(py, ones, outer)
}

/// Computes the SCC or ZCE of pairs of streams along the last axis; both arrays have one shape.
#[pyfunction]
#[pyo3(name = "_correlation")]
pub(crate) fn correlation<'py>(
    a: &Bound<'py, PyAny>,
    b: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = length)] length: usize,
    measure: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let py = a.py();
    let length = Length::new(length).map_err(|error| core_exception(error, &[]))?;
    let (a, b) = (Input::<u64>::read(a, "a")?, Input::<u64>::read(b, "b")?);
    let (shape, n_words) = (a.shape(), length.words());
    if shape.last() != Some(&n_words) || b.shape() != shape {
        let (a, b) = (shape_text(shape), shape_text(b.shape()));
        return Err(PyValueError::new_err(format!(
            "streams of {} bits have shape (..., {n_words}); a has shape {a} and b {b}",
            length.bits()
        )));
    }
    let measure: fn(&Overlap) -> f64 = match measure {
        "scc" => Overlap::scc,
        _ => Overlap::zce,
    };
    let (left, right) = (a.slice()?, b.slice()?);
    let values = compute(py, shape, || {
        let pairs = left.chunks_exact(n_words).zip(right.chunks_exact(n_words));
        let one = |(a, b): (&[u64], &[u64])| -> aleatron::Result<f64> {
            let [a, b] = [a, b].map(|words| BitStream::from_words(words.to_vec(), length));
            Ok(measure(&Overlap::of(&a?, &b?)?))
        };
        pairs.map(one).collect()
    })?;
    output(py, values, &shape[..shape.len() - 1])
}

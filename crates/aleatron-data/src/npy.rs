//! Arrays as NumPy writes them: the header, the types of elements, and files that are read in
//! chunks.

use crate::labels::RawLabels;
use crate::{Error, Result};
use aleatron_core::{Quantity, memory};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Elements converted at a time.
pub(super) const CHUNK: usize = 1 << 16;

/// The longest header of an array.
const MAX_HEADER: usize = 1 << 16;

/// The header of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) shape: Vec<usize>,
    pub(super) element: Element,
    pub(super) by_columns: bool,
    /// The offset of the data.
    pub(super) len: usize,
}

/// A NumPy type of numbers or texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Element {
    /// `f`, `i`, `u` and `b` for numbers; `U` for texts of code points, `S` for texts of bytes.
    kind: u8,
    /// The bytes of an element.
    pub(super) size: usize,
    is_big_endian: bool,
}

impl Header {
    pub(super) fn read(source: &mut impl Read) -> Result<Self, String> {
        let broken = |_: io::Error| "the array is broken".to_owned();
        let mut start = [0; 8];
        source.read_exact(&mut start).map_err(broken)?;
        if &start[..6] != b"\x93NUMPY" {
            return Err("this is not an array".into());
        }
        let mut size = [0; 4];
        let size_bytes = if start[6] == 1 { 2 } else { 4 };
        source.read_exact(&mut size[..size_bytes]).map_err(broken)?;
        let text_len = u32::from_le_bytes(size) as usize;
        if text_len > MAX_HEADER {
            return Err("its header is too long".into());
        }
        let mut text = vec![0; text_len];
        source.read_exact(&mut text).map_err(broken)?;
        let text = std::str::from_utf8(&text).map_err(|_| "its header is not text".to_owned())?;
        // A Python literal with three known keys: {'descr': '<f8', 'fortran_order': False, 'shape':
        // (3, 2), }
        let broken = || "its header is broken".to_owned();
        let value =
            |key: &str| text.split_once(&format!("'{key}':")).map(|(_, rest)| rest.trim_start());
        let kind = value("descr")
            .and_then(|rest| rest.strip_prefix('\'')?.split_once('\''))
            .ok_or_else(broken)?
            .0;
        let by_columns = value("fortran_order").ok_or_else(broken)?.starts_with("True");
        let shape = value("shape")
            .and_then(|rest| rest.strip_prefix('(')?.split_once(')'))
            .ok_or_else(broken)?
            .0;
        let sizes = shape.split(',').map(str::trim).filter(|size| !size.is_empty());
        let shape: Vec<usize> =
            sizes.map(|size| size.parse().map_err(|_| broken())).collect::<Result<_, _>>()?;
        let element = Element::parse(kind)
            .ok_or_else(|| format!("type {kind} is not read; floats, integers and booleans are"))?;
        Ok(Self { shape, element, by_columns, len: 8 + size_bytes + text_len })
    }

    /// Checks that elements are numbers.
    pub(super) fn check_numbers(&self) -> Result<(), String> {
        let Element { kind, size, is_big_endian } = self.element;
        let (order, length) = match (kind, is_big_endian) {
            (b'S', _) => ("|", size),
            (b'U', true) => (">", size / 4),
            (b'U', false) => ("<", size / 4),
            _ => return Ok(()),
        };
        let kind = char::from(kind);
        Err(format!("type {order}{kind}{length} is not read; floats, integers and booleans are"))
    }

    /// Returns the number of elements.
    pub(super) fn elements(&self) -> u128 {
        self.shape.iter().fold(1, |n, &size| n.saturating_mul(size as u128))
    }

    /// Returns the bytes of the file, header included.
    pub(super) fn bytes(&self) -> u128 {
        self.elements().saturating_mul(self.element.size as u128).saturating_add(self.len as u128)
    }

    /// Checks that elements are by rows, or can be brought into that order.
    pub(super) fn check_order(&self, name: &str) -> Result<()> {
        if self.by_columns && self.shape.len() > 2 {
            let reason = "arrays of more than two axes are read in row-major order".to_owned();
            return Err(Error::Format { file: name.to_owned(), reason });
        }
        Ok(())
    }

    /// Returns the number of samples, and the shape of each.
    pub(super) fn samples(&self, array: &str, name: &str) -> Result<(usize, Vec<usize>)> {
        let wrong = |expected| Error::ArrayShape {
            name: name.to_owned(),
            array: array.to_owned(),
            expected,
            actual: self.shape.clone(),
        };
        let [n_samples, rest @ ..] = self.shape.as_slice() else {
            return Err(wrong("(samples, features)"));
        };
        if rest.is_empty() || (self.by_columns && rest.len() > 1) {
            return Err(wrong("(samples, features), or with more axes in row-major order"));
        }
        let n_features = rest.iter().try_fold(1_usize, |all, &n| all.checked_mul(n));
        n_features.ok_or_else(|| wrong("(samples, features)"))?;
        Ok((*n_samples, rest.to_vec()))
    }

    /// Returns elements by rows that may be stored by columns.
    pub(super) fn in_rows(&self, values: Vec<f64>) -> Result<Vec<f64>> {
        match self.shape.as_slice() {
            &[rows, columns] if self.by_columns => {
                let mut by_rows = memory::with_capacity(values.len() as u128, Quantity::Samples)?;
                by_rows
                    .extend((0..rows * columns).map(|k| values[k % columns * rows + k / columns]));
                Ok(by_rows)
            }
            _ => Ok(values),
        }
    }
}

impl Element {
    /// Reads a type as NumPy writes it, as in `<f4`: byte order, kind and size.
    fn parse(text: &str) -> Option<Self> {
        let is_big_endian = text.starts_with('>');
        let plain = text.trim_start_matches(['<', '>', '|', '=']);
        if let Some((kind @ (b'U' | b'S'), length)) =
            plain.as_bytes().first().copied().zip(plain.get(1..))
        {
            let length: usize = length.parse().ok().filter(|&length| length > 0)?;
            let size = if kind == b'U' { length.checked_mul(4)? } else { length };
            return Some(Self { kind, size, is_big_endian });
        }
        let (kind, size) = match plain {
            "f2" => (b'f', 2),
            "f4" => (b'f', 4),
            "f8" => (b'f', 8),
            "i1" => (b'i', 1),
            "i2" => (b'i', 2),
            "i4" => (b'i', 4),
            "i8" => (b'i', 8),
            "u1" => (b'u', 1),
            "u2" => (b'u', 2),
            "u4" => (b'u', 4),
            "u8" => (b'u', 8),
            "b1" => (b'b', 1),
            _ => return None,
        };
        Some(Self { kind, size, is_big_endian })
    }

    pub(super) fn read(self, bytes: &[u8]) -> f64 {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        if self.is_big_endian {
            word[..bytes.len()].reverse();
        }
        let word = u64::from_le_bytes(word);
        let unused = 64 - 8 * self.size as u32;
        match (self.kind, self.size) {
            (b'f', 2) => half::f16::from_bits(word as u16).into(),
            (b'f', 4) => f32::from_bits(word as u32).into(),
            (b'f', _) => f64::from_bits(word),
            (b'i', _) => ((word as i64) << unused >> unused) as f64,
            (b'b', _) => f64::from(u8::from(word != 0)),
            _ => word as f64,
        }
    }

    /// Returns whether elements are whole numbers or truth values.
    pub(super) fn is_integer(self) -> bool {
        matches!(self.kind, b'i' | b'u' | b'b')
    }

    /// Returns whether elements are texts.
    pub(super) fn is_text(self) -> bool {
        matches!(self.kind, b'U' | b'S')
    }

    /// Returns the text of an element, without the zeros that fill it up.
    fn text(self, bytes: &[u8]) -> Option<String> {
        let text = if self.kind == b'S' {
            String::from_utf8(bytes.to_vec()).ok()?
        } else {
            let code = |bytes: &[u8]| {
                let bytes: [u8; 4] = bytes.try_into().ok()?;
                let code = if self.is_big_endian {
                    u32::from_be_bytes(bytes)
                } else {
                    u32::from_le_bytes(bytes)
                };
                char::from_u32(code)
            };
            bytes.chunks_exact(4).map(code).collect::<Option<String>>()?
        };
        Some(text.trim_end_matches('\0').to_owned())
    }

    /// Reads `len` labels, whose bytes are known to exist.
    pub(super) fn read_labels(
        self,
        source: &mut (impl Read + ?Sized),
        len: usize,
    ) -> Result<RawLabels, String> {
        let fault = |error: &dyn std::fmt::Display| format!("the array is truncated: {error}");
        if !self.is_text() {
            let mut values =
                memory::with_capacity(len as u128, Quantity::Samples).map_err(|e| fault(&e))?;
            self.read_all(source, len, &mut values).map_err(|e| fault(&e))?;
            return Ok(RawLabels::Numbers(values));
        }
        let bytes = (len as u128).saturating_mul(self.size as u128 + size_of::<String>() as u128);
        memory::check(bytes, Quantity::Samples).map_err(|e| e.to_string())?;
        let mut bytes =
            memory::zeros::<u8>(self.size as u128, Quantity::Samples).map_err(|e| e.to_string())?;
        let mut names = Vec::new();
        for k in 0..len {
            source.read_exact(&mut bytes).map_err(|e| fault(&e))?;
            names.push(self.text(&bytes).ok_or_else(|| format!("element {k} is not a text"))?);
        }
        Ok(RawLabels::Names(names))
    }

    /// Reads `len` elements and appends them.
    pub(super) fn read_all(
        self,
        source: &mut (impl Read + ?Sized),
        len: usize,
        out: &mut Vec<f64>,
    ) -> io::Result<()> {
        let mut bytes = vec![0; len.min(CHUNK) * self.size];
        let mut left = len;
        while left > 0 {
            let n = left.min(CHUNK);
            let piece = &mut bytes[..n * self.size];
            source.read_exact(piece)?;
            out.extend(piece.chunks_exact(self.size).map(|bytes| self.read(bytes)));
            left -= n;
        }
        Ok(())
    }
}

/// An array in a file, of which no more than the samples asked for are in memory at a time.
///
/// The file is read at the positions asked for rather than mapped: a file that is truncated
/// meanwhile is an error, whereas touching a mapped page of it would end the process. The system
/// caches the file either way.
#[derive(Debug)]
pub(super) struct NpyFile {
    path: PathBuf,
    file: Mutex<File>,
    header: Header,
    n_samples: usize,
    shape: Vec<usize>,
}

impl NpyFile {
    /// Opens an array of shape (samples, ...).
    pub(super) fn open(path: &Path, name: &str) -> Result<Self> {
        let (file, header) = open(path)?;
        header
            .check_numbers()
            .map_err(|reason| Error::Format { file: path.display().to_string(), reason })?;
        let (n_samples, shape) = header.samples("x", name)?;
        Ok(Self { path: path.to_owned(), file: Mutex::new(file), header, n_samples, shape })
    }

    /// Returns the number of samples.
    pub(super) fn n_samples(&self) -> usize {
        self.n_samples
    }

    /// Returns the shape of a sample.
    pub(super) fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Reads the features of some samples, one after the other.
    pub(super) fn samples(&self, range: Range<usize>) -> Result<Vec<f64>> {
        let (n_features, Header { element, len: start, .. }) =
            (self.shape.iter().product(), &self.header);
        let n = range.len();
        let mut values = memory::with_capacity(n as u128 * n_features as u128, Quantity::Samples)?;
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let mut read = |first: usize, len: usize| {
            let position = *start as u64 + first as u64 * element.size as u64;
            file.seek(SeekFrom::Start(position))
                .and_then(|_| element.read_all(&mut *file, len, &mut values))
                .map_err(|error| Error::file(&self.path, error))
        };
        if !self.header.by_columns {
            read(range.start * n_features, n * n_features)?;
            return Ok(values);
        }
        // A feature of all samples lies together.
        for feature in 0..n_features {
            read(feature * self.n_samples + range.start, n)?;
        }
        let chunk = Header { shape: vec![n, n_features], ..self.header.clone() };
        chunk.in_rows(values)
    }
}

impl PartialEq for NpyFile {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path && self.header == other.header
    }
}

/// Reads the labels of a file.
pub(super) fn read_labels(path: &Path) -> Result<(Header, RawLabels)> {
    let (file, header) = open(path)?;
    // The file has as many elements: their number fits.
    let len = header.elements() as usize;
    let labels = header
        .element
        .read_labels(&mut BufReader::new(file), len)
        .map_err(|reason| fault(path, reason))?;
    let labels = match labels {
        RawLabels::Numbers(values) => RawLabels::Numbers(header.in_rows(values)?),
        names => names,
    };
    Ok((header, labels))
}

/// Reads a whole array of numbers.
pub(super) fn read(path: &Path) -> Result<(Header, Vec<f64>)> {
    let (file, header) = open(path)?;
    header.check_numbers().map_err(|reason| fault(path, reason))?;
    let mut values = memory::with_capacity(header.elements(), Quantity::Samples)?;
    let len = header.elements() as usize;
    header
        .element
        .read_all(&mut BufReader::new(file), len, &mut values)
        .map_err(|e| Error::file(path, e))?;
    let values = header.in_rows(values)?;
    Ok((header, values))
}

fn fault(path: &Path, reason: String) -> Error {
    Error::Format { file: path.display().to_string(), reason }
}

/// Opens a file, whose size must be that of its header; its position is then the start of the
/// elements.
fn open(path: &Path) -> Result<(File, Header)> {
    let mut file = crate::file::open(path)?;
    let header = Header::read(&mut file).map_err(|reason| fault(path, reason))?;
    let (needed, actual) =
        (header.bytes(), u128::from(file.metadata().map_err(|e| Error::file(path, e))?.len()));
    if needed > actual {
        let reason =
            format!("the array is truncated: it takes {needed} bytes, the file has {actual}");
        return Err(fault(path, reason));
    }
    if needed < actual {
        return Err(fault(path, format!("{} bytes past the end of the array", actual - needed)));
    }
    Ok((file, header))
}

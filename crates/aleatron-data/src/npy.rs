//! Arrays as NumPy writes them: the header, the number types, and files that are read in pieces.

use crate::{Error, Result};
use aleatron_core::{Quantity, memory};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Elements converted at a time.
pub(super) const PIECE: usize = 1 << 16;

/// The longest header of an array.
const MAX_HEADER: usize = 1 << 16;

/// The header of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) shape: Vec<usize>,
    pub(super) element: Element,
    pub(super) by_columns: bool,
    /// Where the data start.
    pub(super) len: usize,
}

/// A NumPy number type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Element {
    kind: u8,
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
        let text = std::str::from_utf8(&text).map_err(|_| "its header is no text".to_owned())?;
        // A Python literal with three known keys: {'descr': '<f8', 'fortran_order': False, 'shape': (3, 2), }
        let broken = || "its header is broken".to_owned();
        let value = |key: &str| text.split_once(&format!("'{key}':")).map(|(_, rest)| rest.trim_start());
        let kind =
            value("descr").and_then(|rest| rest.strip_prefix('\'')?.split_once('\'')).ok_or_else(broken)?.0;
        let by_columns = value("fortran_order").ok_or_else(broken)?.starts_with("True");
        let shape =
            value("shape").and_then(|rest| rest.strip_prefix('(')?.split_once(')')).ok_or_else(broken)?.0;
        let sizes = shape.split(',').map(str::trim).filter(|size| !size.is_empty());
        let shape: Vec<usize> =
            sizes.map(|size| size.parse().map_err(|_| broken())).collect::<Result<_, _>>()?;
        let element = Element::parse(kind)
            .ok_or_else(|| format!("type {kind} is not read; floats, integers and booleans are"))?;
        Ok(Self { shape, element, by_columns, len: 8 + size_bytes + text_len })
    }

    /// The elements of the array.
    pub(super) fn elements(&self) -> u128 {
        self.shape.iter().fold(1, |n, &size| n.saturating_mul(size as u128))
    }

    /// The bytes of the file, header included.
    pub(super) fn bytes(&self) -> u128 {
        self.elements().saturating_mul(self.element.size as u128).saturating_add(self.len as u128)
    }

    /// The samples and the features of each: images may keep their axes, a sample's features are all of its elements.
    pub(super) fn samples(&self, name: &str) -> Result<[usize; 2]> {
        let wrong = |expected| Error::ArrayShape {
            name: name.to_owned(),
            array: "x",
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
        Ok([*n_samples, n_features.ok_or_else(|| wrong("(samples, features)"))?])
    }

    /// The samples and the numbers of each that are to be found: one, or a row of them.
    pub(super) fn targets(&self, name: &str) -> Result<[usize; 2]> {
        match *self.shape.as_slice() {
            [n] => Ok([n, 1]),
            [n, width] if width > 0 => Ok([n, width]),
            _ => Err(Error::ArrayShape {
                name: name.to_owned(),
                array: "y",
                expected: "(samples) or (samples, outputs)",
                actual: self.shape.clone(),
            }),
        }
    }

    /// Elements that were stored by columns, by rows.
    pub(super) fn in_rows(&self, values: Vec<f64>) -> Result<Vec<f64>> {
        match self.shape.as_slice() {
            &[rows, columns] if self.by_columns => {
                let mut by_rows = memory::with_capacity(values.len() as u128, Quantity::Samples)?;
                by_rows.extend((0..rows * columns).map(|k| values[k % columns * rows + k / columns]));
                Ok(by_rows)
            }
            _ => Ok(values),
        }
    }
}

impl Element {
    /// A type as NumPy writes it, as in `<f4`: byte order, kind and size.
    fn parse(text: &str) -> Option<Self> {
        let is_big_endian = text.starts_with('>');
        let (kind, size) = match text.trim_start_matches(['<', '>', '|', '=']) {
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

    /// Reads `len` elements and appends them.
    pub(super) fn read_all(self, source: &mut impl Read, len: usize, out: &mut Vec<f64>) -> io::Result<()> {
        let mut bytes = vec![0; len.min(PIECE) * self.size];
        let mut left = len;
        while left > 0 {
            let n = left.min(PIECE);
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
/// The file is read at the places asked for rather than mapped: one that is cut off meanwhile is an error, where touching a mapped page of
/// it would end the process. The system keeps in memory what it has room for either way.
#[derive(Debug)]
pub(super) struct NpyFile {
    path: PathBuf,
    file: Mutex<File>,
    header: Header,
    size: [usize; 2],
}

impl NpyFile {
    /// Opens an array of shape (samples, ...).
    pub(super) fn open(path: &Path, name: &str) -> Result<Self> {
        let (file, header) = open(path)?;
        let size = header.samples(name)?;
        Ok(Self { path: path.to_owned(), file: Mutex::new(file), header, size })
    }

    /// The samples and their features.
    pub(super) fn size(&self) -> [usize; 2] {
        self.size
    }

    /// The features of some samples, one after the other.
    pub(super) fn samples(&self, range: Range<usize>) -> Result<Vec<f64>> {
        let ([n_samples, n_features], Header { element, len: start, .. }) = (self.size, &self.header);
        let n = range.len();
        let mut values = memory::with_capacity(n as u128 * n_features as u128, Quantity::Samples)?;
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let mut read = |first: usize, len: usize| {
            let place = *start as u64 + first as u64 * element.size as u64;
            file.seek(SeekFrom::Start(place))
                .and_then(|_| element.read_all(&mut *file, len, &mut values))
                .map_err(|error| Error::file(&self.path, error))
        };
        if !self.header.by_columns {
            read(range.start * n_features, n * n_features)?;
            return Ok(values);
        }
        // A feature of all samples lies together.
        for feature in 0..n_features {
            read(feature * n_samples + range.start, n)?;
        }
        let piece = Header { shape: vec![n, n_features], ..self.header.clone() };
        piece.in_rows(values)
    }
}

impl PartialEq for NpyFile {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path && self.header == other.header
    }
}

/// The whole of a small array.
pub(super) fn read(path: &Path) -> Result<(Header, Vec<f64>)> {
    let (file, header) = open(path)?;
    let mut values = memory::with_capacity(header.elements(), Quantity::Samples)?;
    // The file has as many: their number fits.
    let len = header.elements() as usize;
    header.element.read_all(&mut BufReader::new(file), len, &mut values).map_err(|e| Error::file(path, e))?;
    let values = header.in_rows(values)?;
    Ok((header, values))
}

/// Opens a file, whose size must be that which its header tells of; it stands where the data start.
fn open(path: &Path) -> Result<(File, Header)> {
    let fault = |reason: String| Error::Format { file: path.display().to_string(), reason };
    let mut file = File::open(path).map_err(|e| Error::file(path, e))?;
    let header = Header::read(&mut file).map_err(fault)?;
    let (needed, actual) =
        (header.bytes(), u128::from(file.metadata().map_err(|e| Error::file(path, e))?.len()));
    if needed > actual {
        return Err(fault(format!("the array is cut off: it takes {needed} bytes, the file has {actual}")));
    }
    if needed < actual {
        return Err(fault(format!("{} bytes past the end of the array", actual - needed)));
    }
    Ok((file, header))
}

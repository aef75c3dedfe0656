//! Data as NumPy arrays: archives that `numpy.savez` and `numpy.savez_compressed` write.
//!
//! Headers are read first, so that what does not fit is refused before anything of its size is unpacked; values are then
//! converted a piece at a time. The ZIP reader checks the CRC-32 of what it has read to the end.

use super::{Dataset, class};
use crate::{Error, Result};
use aleatron_core::{Quantity, memory};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;
use zip::ZipArchive;
use zip::result::ZipError;

/// Elements converted at a time.
const PIECE: usize = 1 << 16;

/// The most bytes that one byte of a deflated stream can stand for: 258 are copied by a length and a distance of a bit each.
const MAX_DEFLATION: u128 = 1032;

/// The longest header of an array.
const MAX_HEADER: usize = 1 << 16;

pub(super) fn read(path: &Path, name: String) -> Result<Dataset> {
    let file = File::open(path).map_err(|e| Error::file(path, e))?;
    read_archive(BufReader::new(file), name)
}

/// Reads the arrays `x` and `y` of an archive.
pub(super) fn read_archive(source: impl Read + Seek, name: String) -> Result<Dataset> {
    let fault = |reason: String| Error::Format { file: name.clone(), reason };
    let mut archive =
        ZipArchive::new(source).map_err(|error| fault(format!("this is not an .npz archive: {error}")))?;
    let x = header(&mut archive, "x", &name)?;
    let y = header(&mut archive, "y", &name)?;
    let wrong = |array, expected, actual: &Header| Error::ArrayShape {
        name: name.clone(),
        array,
        expected,
        actual: actual.shape.clone(),
    };
    let &[n_samples, n_features] = x.shape.as_slice() else {
        return Err(wrong("x", "(samples, features)", &x));
    };
    let &[n_labels] = y.shape.as_slice() else { return Err(wrong("y", "(samples)", &y)) };
    if n_samples != n_labels {
        let values = n_samples.saturating_mul(n_features);
        return Err(Error::LabelCount { name, values, n_features, labels: n_labels });
    }
    let bytes = (n_samples as u128).saturating_mul(n_features as u128 + 1).saturating_mul(8);
    memory::check(bytes, Quantity::Samples)?;
    let labels = values(&mut archive, "y", &y, &name)?;
    let label = |(sample, &value): (usize, &f64)| {
        class(value).ok_or_else(|| Error::Label { name: name.clone(), sample, value: value.to_string() })
    };
    let labels = labels.iter().enumerate().map(label).collect::<Result<_>>()?;
    let features = values(&mut archive, "x", &x, &name)?;
    Dataset::new(name.clone(), n_features, features, labels)
}

/// The header of an array.
struct Header {
    shape: Vec<usize>,
    element: Element,
    by_columns: bool,
    /// Where the data start.
    len: usize,
}

/// A NumPy number type.
#[derive(Clone, Copy)]
struct Element {
    kind: u8,
    size: usize,
    is_big_endian: bool,
}

fn header<S: Read + Seek>(archive: &mut ZipArchive<S>, array: &'static str, name: &str) -> Result<Header> {
    let fault = |reason: String| Error::Format {
        file: name.to_owned(),
        reason: format!("array \"{array}\": {reason}"),
    };
    let mut member = match archive.by_name(&format!("{array}.npy")) {
        Ok(member) => member,
        Err(ZipError::FileNotFound) => return Err(Error::MissingArray { name: name.to_owned(), array }),
        Err(error) => return Err(fault(error.to_string())),
    };
    read_header(&mut member).map_err(fault)
}

fn read_header(source: &mut impl Read) -> Result<Header, String> {
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
    let shape = value("shape").and_then(|rest| rest.strip_prefix('(')?.split_once(')')).ok_or_else(broken)?.0;
    let sizes = shape.split(',').map(str::trim).filter(|size| !size.is_empty());
    let shape: Vec<usize> = sizes.map(|size| size.parse().map_err(|_| broken())).collect::<Result<_, _>>()?;
    let element = Element::parse(kind)
        .ok_or_else(|| format!("type {kind} is not read; floats, integers and booleans are"))?;
    Ok(Header { shape, element, by_columns, len: 8 + size_bytes + text_len })
}

/// The values of an array, by rows.
fn values<S: Read + Seek>(
    archive: &mut ZipArchive<S>,
    array: &'static str,
    header: &Header,
    name: &str,
) -> Result<Vec<f64>> {
    let fault = |reason: String| Error::Format {
        file: name.to_owned(),
        reason: format!("array \"{array}\": {reason}"),
    };
    let mut member = archive.by_name(&format!("{array}.npy")).map_err(|error| fault(error.to_string()))?;
    let len = header.shape.iter().fold(1u128, |n, &size| n.saturating_mul(size as u128));
    // What an archive says of itself is compared with what it can hold before memory is taken for it.
    let needed = len.saturating_mul(header.element.size as u128).saturating_add(header.len as u128);
    let most = u128::from(member.size()).min(u128::from(member.compressed_size()) * MAX_DEFLATION + 64);
    if needed > most {
        return Err(fault(format!("the array is cut off: it takes {needed} bytes, the archive has {most}")));
    }
    let mut values = memory::with_capacity(len, Quantity::Samples)?;
    let mut skipped = vec![0; header.len];
    member.read_exact(&mut skipped).map_err(|error| fault(error.to_string()))?;
    let mut bytes = vec![0; PIECE * header.element.size];
    let mut left = len as usize;
    while left > 0 {
        let piece = &mut bytes[..left.min(PIECE) * header.element.size];
        member.read_exact(piece).map_err(|error| fault(format!("the array is cut off: {error}")))?;
        values.extend(piece.chunks_exact(header.element.size).map(|bytes| header.element.read(bytes)));
        left -= left.min(PIECE);
    }
    // To the end, so that the checksum is compared.
    let rest = io::copy(&mut member, &mut io::sink()).map_err(|error| fault(error.to_string()))?;
    if rest > 0 {
        return Err(fault(format!("{rest} bytes past the end of the array")));
    }
    match header.shape.as_slice() {
        &[rows, columns] if header.by_columns => {
            let mut by_rows = memory::with_capacity(len, Quantity::Samples)?;
            by_rows.extend((0..rows * columns).map(|k| values[k % columns * rows + k / columns]));
            Ok(by_rows)
        }
        _ => Ok(values),
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

    fn read(self, bytes: &[u8]) -> f64 {
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
}

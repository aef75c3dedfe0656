//! Data as NumPy arrays: the parts of the ZIP and NPY formats that `numpy.savez` and `numpy.savez_compressed` write.

use super::{DataError, Dataset};
use crate::Result;
use std::path::Path;

/// Arrays larger than this are not unpacked: an archive of a few kilobytes could otherwise ask for any amount of memory.
const MAX_UNPACKED: usize = 4 << 30;

/// Reads the arrays `x` and `y` of an archive.
pub(super) fn read(path: &Path, name: String) -> Result<Dataset> {
    let file = |reason: String| DataError::File { name: name.clone(), reason };
    let bytes = std::fs::read(path).map_err(|e| file(e.to_string()))?;
    let array = |array: &'static str| -> Result<Array, DataError> {
        let fault = |reason: &str| file(format!("array \"{array}\": {reason}"));
        let member = member(&bytes, &format!("{array}.npy")).map_err(fault)?;
        let npy = member.ok_or(DataError::MissingArray { name: name.clone(), array })?;
        parse_npy(&npy).map_err(|reason| fault(&reason))
    };
    let (x, y) = (array("x")?, array("y")?);
    let wrong = |array, expected, actual: &[usize]| DataError::ArrayShape {
        name: name.clone(),
        array,
        expected,
        actual: actual.to_vec(),
    };
    let &[_, n_features] = x.shape.as_slice() else {
        return Err(wrong("x", "(samples, features)", &x.shape).into());
    };
    if y.shape.len() != 1 {
        return Err(wrong("y", "(samples)", &y.shape).into());
    }
    let label = |(sample, &class): (usize, &f64)| {
        // Classes are small: past 2^32 the number is none, and the cast below could round.
        let is_class = (0.0..4_294_967_296.0).contains(&class) && class.fract() == 0.0;
        let fault = || DataError::Label { name: name.clone(), sample, value: class.to_string() };
        is_class.then_some(class as usize).ok_or_else(fault)
    };
    let labels = y.values.iter().enumerate().map(label).collect::<Result<_, _>>()?;
    Dataset::new(name.clone(), n_features, x.values, labels)
}

/// The little-endian integer of `n` bytes at `at`.
fn integer(bytes: &[u8], at: usize, n: usize) -> Option<usize> {
    let field = bytes.get(at..at.checked_add(n)?)?;
    usize::try_from(field.iter().rev().fold(0_u64, |sum, &byte| sum << 8 | u64::from(byte))).ok()
}

/// The unpacked contents of a member of a ZIP archive; `None` where there is no such member.
fn member(zip: &[u8], wanted: &str) -> Result<Option<Vec<u8>>, &'static str> {
    const BROKEN: &str = "the archive is broken";
    // The end record is the last thing but for a comment of at most 64 KiB.
    let from = zip.len().saturating_sub(22 + 65_535);
    let end = zip[from..].windows(4).rposition(|window| window == b"PK\x05\x06");
    let end = from + end.ok_or("this is not an .npz archive")?;
    integer(zip, end + 20, 2).ok_or(BROKEN)?;
    let mut at = integer(zip, end + 16, 4).ok_or(BROKEN)?;
    for _ in 0..integer(zip, end + 10, 2).ok_or(BROKEN)? {
        let field = |offset, n| at.checked_add(offset).and_then(|at| integer(zip, at, n)).ok_or(BROKEN);
        if field(0, 4)? != 0x0201_4b50 {
            return Err(BROKEN);
        }
        let (method, packed, unpacked) = (field(10, 2)?, field(20, 4)?, field(24, 4)?);
        let (name_len, extra_len, comment_len, local) =
            (field(28, 2)?, field(30, 2)?, field(32, 2)?, field(42, 4)?);
        let name = zip.get(at + 46..at + 46 + name_len).ok_or(BROKEN)?;
        at += 46 + name_len + extra_len + comment_len;
        if name != wanted.as_bytes() {
            continue;
        }
        if [packed, unpacked, local].contains(&0xffff_ffff) {
            return Err("archives with members past 4 GiB are not read");
        }
        // The local header repeats the name and has an extra field of its own.
        let skip = integer(zip, local + 26, 2).zip(integer(zip, local + 28, 2)).ok_or(BROKEN)?;
        let start = local + 30 + skip.0 + skip.1;
        let data = zip.get(start..start + packed).ok_or(BROKEN)?;
        return match method {
            0 => Ok(Some(data.to_vec())),
            8 => miniz_oxide::inflate::decompress_to_vec_with_limit(data, unpacked.min(MAX_UNPACKED))
                .map(Some)
                .map_err(|_| BROKEN),
            _ => Err("its compression is neither \"stored\" nor \"deflate\""),
        };
    }
    Ok(None)
}

/// An array by rows.
struct Array {
    shape: Vec<usize>,
    values: Vec<f64>,
}

/// Reads an array of any float or integer type.
fn parse_npy(npy: &[u8]) -> Result<Array, String> {
    let broken = || "the array is broken".to_owned();
    if npy.get(..6) != Some(b"\x93NUMPY") {
        return Err("this is not an array".into());
    }
    let (length_bytes, start) = if npy.get(6) == Some(&1) { (2, 10) } else { (4, 12) };
    let end = start + integer(npy, 8, length_bytes).ok_or_else(broken)?;
    let header = npy.get(start..end).ok_or_else(broken)?;
    let header = std::str::from_utf8(header).map_err(|_| broken())?;
    // A Python literal with three known keys: {'descr': '<f8', 'fortran_order': False, 'shape': (3, 2), }
    let value = |key: &str| header.split_once(&format!("'{key}':")).map(|(_, rest)| rest.trim_start());
    let kind =
        value("descr").and_then(|rest| rest.strip_prefix('\'')?.split_once('\'')).ok_or_else(broken)?.0;
    let by_columns = value("fortran_order").ok_or_else(broken)?.starts_with("True");
    let shape = value("shape").and_then(|rest| rest.strip_prefix('(')?.split_once(')')).ok_or_else(broken)?.0;
    let sizes = shape.split(',').map(str::trim).filter(|size| !size.is_empty());
    let shape: Vec<usize> = sizes.map(|size| size.parse().map_err(|_| broken())).collect::<Result<_, _>>()?;

    let data = &npy[end..];
    let values =
        numbers(kind, data).ok_or_else(|| format!("type {kind} is not read; floats and integers are"))?;
    if shape.iter().try_fold(1_usize, |n, &size| n.checked_mul(size)) != Some(values.len()) {
        return Err(broken());
    }
    let values = match shape.as_slice() {
        &[rows, columns] if by_columns => {
            (0..rows * columns).map(|k| values[k % columns * rows + k / columns]).collect()
        }
        _ => values,
    };
    Ok(Array { shape, values })
}

/// Numbers of a NumPy type, as `<f4`: byte order, kind and size.
fn numbers(kind: &str, data: &[u8]) -> Option<Vec<f64>> {
    fn each<const N: usize>(data: &[u8], big: bool, number: impl Fn([u8; N]) -> f64) -> Vec<f64> {
        let (chunks, _) = data.as_chunks::<N>();
        let ordered = chunks.iter().map(|&chunk| {
            let mut chunk = chunk;
            if big {
                chunk.reverse();
            }
            chunk
        });
        ordered.map(number).collect()
    }
    let big = kind.starts_with('>');
    Some(match kind.trim_start_matches(['<', '>', '|', '=']) {
        "f4" => each(data, big, |b| f32::from_le_bytes(b).into()),
        "f8" => each(data, big, f64::from_le_bytes),
        "i1" => each(data, big, |b| i8::from_le_bytes(b).into()),
        "i2" => each(data, big, |b| i16::from_le_bytes(b).into()),
        "i4" => each(data, big, |b| i32::from_le_bytes(b).into()),
        "i8" => each(data, big, |b| i64::from_le_bytes(b) as f64),
        "u1" => each(data, big, |b| u8::from_le_bytes(b).into()),
        "u2" => each(data, big, |b| u16::from_le_bytes(b).into()),
        "u4" => each(data, big, |b| u32::from_le_bytes(b).into()),
        "u8" => each(data, big, |b| u64::from_le_bytes(b) as f64),
        "b1" => each(data, big, |[b]| f64::from(u8::from(b != 0))),
        _ => return None,
    })
}

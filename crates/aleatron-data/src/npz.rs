//! Data as NumPy arrays: archives that `numpy.savez` and `numpy.savez_compressed` write.
//!
//! Headers are read first, so that what does not fit is refused before anything of its size is unpacked; values are then
//! converted a piece at a time. The ZIP reader checks the CRC-32 of what it has read to the end.

use super::npy::Header;
use super::{Answers, Dataset, LabelKind};
use crate::{Error, Result};
use aleatron_core::{Quantity, memory};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;
use zip::ZipArchive;
use zip::result::ZipError;

/// The most bytes that one byte of a deflated stream can stand for: 258 are copied by a length and a distance of a bit each.
pub(super) const MAX_DEFLATION: u128 = 1032;

pub(super) fn read(path: &Path, name: String, kind: LabelKind) -> Result<Dataset> {
    let file = File::open(path).map_err(|e| Error::file(path, e))?;
    read_archive(BufReader::new(file), name, kind)
}

/// Reads the arrays `x` and `y` of an archive.
pub(super) fn read_archive(source: impl Read + Seek, name: String, kind: LabelKind) -> Result<Dataset> {
    let fault = |reason: String| Error::Format { file: name.clone(), reason };
    let mut archive =
        ZipArchive::new(source).map_err(|error| fault(format!("this is not an .npz archive: {error}")))?;
    let x = header(&mut archive, "x", &name)?;
    let y = header(&mut archive, "y", &name)?;
    let [n_samples, n_features] = x.samples(&name)?;
    let [n_labels, width] = kind.size(&y, &name)?;
    if n_samples != n_labels {
        let values = n_samples.saturating_mul(n_features);
        return Err(Error::LabelCount { name, values, n_features, labels: n_labels });
    }
    let bytes = (n_samples as u128).saturating_mul(n_features as u128 + width as u128).saturating_mul(8);
    memory::check(bytes, Quantity::Samples)?;
    let answers = Answers::new(kind, width, values(&mut archive, "y", &y, &name)?, &name)?;
    let features = values(&mut archive, "x", &x, &name)?;
    Dataset::with_answers(name, n_features, features.into(), answers)
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
    Header::read(&mut member).map_err(fault)
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
    let len = header.elements();
    // What an archive says of itself is compared with what it can hold before memory is taken for it.
    let needed = header.bytes();
    let most = u128::from(member.size()).min(u128::from(member.compressed_size()) * MAX_DEFLATION);
    if needed > most {
        return Err(fault(format!("the array is cut off: it takes {needed} bytes, the archive has {most}")));
    }
    let mut values = memory::with_capacity(len, Quantity::Samples)?;
    let mut skipped = vec![0; header.len];
    member.read_exact(&mut skipped).map_err(|error| fault(error.to_string()))?;
    header
        .element
        .read_all(&mut member, len as usize, &mut values)
        .map_err(|error| fault(format!("the array is cut off: {error}")))?;
    // To the end, so that the checksum is compared.
    let rest = io::copy(&mut member, &mut io::sink()).map_err(|error| fault(error.to_string()))?;
    if rest > 0 {
        return Err(fault(format!("{rest} bytes past the end of the array")));
    }
    header.in_rows(values)
}

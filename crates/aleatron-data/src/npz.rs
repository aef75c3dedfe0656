//! Data as NumPy arrays: archives that `numpy.savez` and `numpy.savez_compressed` write.
//!
//! Headers are read first, so that arrays that do not fit are refused before anything of their size
//! is unpacked; values are then converted in chunks. The ZIP reader checks the CRC-32 of members
//! that are read to their end.

use super::labels::{LabelData, RawLabels};
use super::npy::{Element, Header};
use super::{Dataset, ReadOptions};
use crate::{Array, Error, Features, Result};
use aleatron_core::{Quantity, memory};
use std::collections::BTreeMap;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;
use zip::ZipArchive;

/// The largest number of bytes that one byte of a deflated stream can represent: 258 are copied by
/// a length and a distance of a bit each.
pub(super) const MAX_DEFLATION: u128 = 1032;

/// The names of an array in an archive, in any case, and the option of the command line that names
/// another.
struct Role {
    what: &'static str,
    /// The first one is used even if there are others.
    names: &'static [&'static str],
    option: &'static str,
}

const FEATURES: Role =
    Role { what: "features", names: &["x", "x_test", "images", "features", "data"], option: "--x" };
const LABELS: Role =
    Role { what: "labels", names: &["y", "y_test", "labels", "targets", "target"], option: "--y" };
/// Calibration prefers samples of training.
const CALIBRATION: Role = Role {
    what: "features",
    names: &["x_train", "x", "x_test", "images", "features", "data"],
    option: "--x",
};

/// Whether the labels of an archive are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LabelUse {
    /// The labels are read.
    Read,
    /// The labels are not read and may be missing.
    Skip,
}

pub(super) fn read(
    path: &Path,
    name: String,
    options: &ReadOptions,
    labels: LabelUse,
) -> Result<Dataset> {
    read_archive(BufReader::new(crate::file::open(path)?), name, options, labels)
}

/// Reads the features and labels of an archive.
pub(super) fn read_archive(
    source: impl Read + Seek,
    name: String,
    options: &ReadOptions,
    labels: LabelUse,
) -> Result<Dataset> {
    let mut archive = Archive::open(source, name)?;
    let role = if labels == LabelUse::Skip { &CALIBRATION } else { &FEATURES };
    let x_name = archive.choose(role, options.x.as_deref())?;
    let y_name = match labels {
        LabelUse::Read => Some(archive.choose(&LABELS, options.y.as_deref())?),
        LabelUse::Skip => None,
    };
    let x = archive.header(&x_name)?;
    x.check_numbers().map_err(|reason| archive.fault(&x_name, reason))?;
    let (n_samples, stored) = x.samples(&x_name, &archive.name)?;
    let n_features = stored.iter().product::<usize>();
    let bytes = |width: usize| {
        (n_samples as u128).saturating_mul(n_features as u128 + width as u128).saturating_mul(8)
    };
    let answers = match &y_name {
        Some(y_name) => {
            let y = archive.header(y_name)?;
            let [n_labels, width] = options.kind.size(&y, y_name, &archive.name)?;
            if n_samples != n_labels {
                let (name, values) = (archive.name, n_samples.saturating_mul(n_features));
                return Err(Error::LabelCount { name, values, n_features, labels: n_labels });
            }
            memory::check(bytes(width), Quantity::Samples)?;
            let labels = archive.labels(y_name, &y)?;
            LabelData::new(options.kind, width, labels, options.classes.as_deref(), &archive.name)?
        }
        None => {
            memory::check(bytes(1), Quantity::Samples)?;
            LabelData::classes(memory::zeros(n_samples as u128, Quantity::Samples)?)
        }
    };
    let values = archive.values(&x_name, &x)?;
    let (shape, transposition) = options.layout.apply(&stored, &archive.name)?;
    let values = match transposition {
        Some(transposition) => transposition.apply(&values)?,
        None => values,
    };
    Dataset::with_answers(archive.name, shape, Features::Held(values), answers)
}

/// Reads all arrays of numbers of an archive.
pub(super) fn read_all(path: &Path) -> Result<BTreeMap<String, Array>> {
    let mut archive =
        Archive::open(BufReader::new(crate::file::open(path)?), path.display().to_string())?;
    let mut arrays = BTreeMap::new();
    for name in archive.names() {
        let header = archive.header(&name)?;
        header.check_numbers().map_err(|reason| archive.fault(&name, reason))?;
        header.check_order(&archive.name)?;
        let values = archive.values(&name, &header)?;
        arrays.insert(name, Array::new(header, values));
    }
    Ok(arrays)
}

struct Archive<S> {
    name: String,
    zip: ZipArchive<S>,
}

impl<S: Read + Seek> Archive<S> {
    fn open(source: S, name: String) -> Result<Self> {
        match ZipArchive::new(source) {
            Ok(zip) => Ok(Self { name, zip }),
            Err(error) => Err(Error::Format {
                file: name,
                reason: format!("this is not an .npz archive: {error}"),
            }),
        }
    }

    fn names(&self) -> Vec<String> {
        let names = self.zip.file_names().flatten();
        names.filter_map(|name| name.strip_suffix(".npy").map(str::to_owned)).collect()
    }

    fn fault(&self, array: &str, reason: impl std::fmt::Display) -> Error {
        Error::Format { file: self.name.clone(), reason: format!("array \"{array}\": {reason}") }
    }

    /// Returns the name of the array with a role.
    fn choose(&self, role: &Role, wanted: Option<&str>) -> Result<String> {
        let known = self.names();
        let found: Vec<&String> = match wanted {
            Some(wanted) => known.iter().filter(|name| *name == wanted).collect(),
            None => {
                let is = |name: &String, known: &str| name.eq_ignore_ascii_case(known);
                let with =
                    |role_name: &'static str| known.iter().filter(move |name| is(name, role_name));
                let first: Vec<&String> =
                    role.names.iter().take(1).copied().flat_map(with).collect();
                if first.is_empty() {
                    role.names.iter().copied().flat_map(with).collect()
                } else {
                    first
                }
            }
        };
        let reason = match (found.as_slice(), wanted) {
            ([one], _) => return Ok((*one).clone()),
            ([], Some(wanted)) => format!("there is no array \"{wanted}\""),
            ([], None) => format!("there is no array of {} ({})", role.what, role.names.join(", ")),
            (several, _) => {
                let names: Vec<&str> = several.iter().map(|name| name.as_str()).collect();
                format!("several arrays may be the {}: {}", role.what, names.join(", "))
            }
        };
        Err(Error::ArrayName { name: self.name.clone(), reason, option: role.option, known })
    }

    fn header(&mut self, array: &str) -> Result<Header> {
        let header = match self.zip.by_name(&format!("{array}.npy")) {
            Ok(mut member) => Header::read(&mut member),
            Err(error) => Err(error.to_string()),
        };
        header.map_err(|reason| self.fault(array, reason))
    }

    /// Reads the values of an array, by rows.
    fn values(&mut self, array: &str, header: &Header) -> Result<Vec<f64>> {
        let values = self.member(array, header, |element, len, member| {
            let mut values =
                memory::with_capacity(len as u128, Quantity::Samples).map_err(|e| e.to_string())?;
            let read = element.read_all(member, len, &mut values);
            read.map_err(|error| format!("the array is truncated: {error}"))?;
            Ok(values)
        })?;
        header.in_rows(values)
    }

    fn labels(&mut self, array: &str, header: &Header) -> Result<RawLabels> {
        match self.member(array, header, |element, len, member| element.read_labels(member, len))? {
            RawLabels::Numbers(values) => Ok(RawLabels::Numbers(header.in_rows(values)?)),
            names => Ok(names),
        }
    }

    /// Reads the elements of an array, whose bytes are known to be there, with `read`.
    fn member<T>(
        &mut self,
        array: &str,
        header: &Header,
        read: impl FnOnce(Element, usize, &mut dyn Read) -> Result<T, String>,
    ) -> Result<T> {
        let name = self.name.clone();
        let fault = |reason: String| Error::Format {
            file: name.clone(),
            reason: format!("array \"{array}\": {reason}"),
        };
        let mut member =
            self.zip.by_name(&format!("{array}.npy")).map_err(|error| fault(error.to_string()))?;
        // The size that a header gives is compared with the size that an archive can hold before
        // memory is allocated.
        let needed = header.bytes();
        let most =
            u128::from(member.size()).min(u128::from(member.compressed_size()) * MAX_DEFLATION);
        if needed > most {
            return Err(fault(format!(
                "the array is truncated: it takes {needed} bytes, the archive has {most}"
            )));
        }
        let mut skipped = vec![0; header.len];
        member.read_exact(&mut skipped).map_err(|error| fault(error.to_string()))?;
        let values =
            read(header.element, header.elements() as usize, &mut member).map_err(&fault)?;
        // To the end, so that the checksum is compared.
        let rest =
            io::copy(&mut member, &mut io::sink()).map_err(|error| fault(error.to_string()))?;
        if rest > 0 {
            return Err(fault(format!("{rest} bytes past the end of the array")));
        }
        Ok(values)
    }
}

//! The provenance of results: what was run, when, on what, with which files.

use super::sha256::Sha256;
use crate::{Error, Result};
use aleatron_engine::VERSION;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The provenance of a run that contributed to a result. Equal results may differ in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// The command line, if the program made the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The date and time of the beginning of the run, in UTC after ISO 8601.
    pub date: String,
    /// The version of Aleatron.
    pub version: String,
    /// The device that was asked for, and the devices that were there; `None` if nothing was
    /// computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The SIMD tier of the processor.
    pub simd_tier: String,
    /// The threads of the processor.
    pub threads: usize,
    /// The files that were read.
    pub sources: Vec<Source>,
}

/// A file, a folder, or embedded data that a run read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The use of it: network, data, labels, calibration and the like.
    pub role: String,
    /// The path, or a description of data without a file.
    pub name: String,
    /// The size of the file, or of all files of the folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The SHA-256 of the file. That of a folder is of the lines that `sha256sum` prints for its
    /// files in the order of their names. `None` for data without a file, and for more than a
    /// gibibyte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// The most bytes that are hashed.
const MOST: u64 = 1 << 30;

impl Provenance {
    /// Returns the provenance of a run that begins now.
    #[must_use]
    pub fn new(simd_tier: &str, threads: usize) -> Self {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        Self {
            command: None,
            date: utc(seconds),
            version: VERSION.to_owned(),
            device: None,
            simd_tier: simd_tier.to_owned(),
            threads,
            sources: Vec::new(),
        }
    }
}

impl Source {
    /// Returns data without a file.
    #[must_use]
    pub fn described(role: &str, name: impl Into<String>) -> Self {
        Self { role: role.to_owned(), name: name.into(), bytes: None, sha256: None }
    }

    /// Returns a file or a folder with its size and its hash. A folder counts with its files and
    /// those of its folders.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be read, or is neither a regular file nor a folder.
    pub fn read(role: &str, path: &Path) -> Result<Self> {
        let fault = |error| Error::file(path, error);
        let metadata = fs::metadata(path).map_err(fault)?;
        let files = if metadata.is_dir() { files_in(path)? } else { vec![path.to_owned()] };
        let mut bytes = 0_u64;
        for file in &files {
            let metadata = fs::metadata(file).map_err(|error| Error::file(file, error))?;
            if !metadata.is_file() {
                let kind = std::io::ErrorKind::InvalidInput;
                return Err(Error::file(file, std::io::Error::new(kind, "not a regular file")));
            }
            bytes = bytes.saturating_add(metadata.len());
        }
        let sha256 = match (bytes <= MOST, metadata.is_dir()) {
            (false, _) => None,
            (true, false) => Some(hash(path)?),
            (true, true) => {
                let mut lines = Sha256::default();
                for file in &files {
                    let name = file.strip_prefix(path).unwrap_or(file).display();
                    lines.update(format!("{}  {name}\n", hash(file)?).as_bytes());
                }
                Some(lines.finish())
            }
        };
        Ok(Self {
            role: role.to_owned(),
            name: path.display().to_string(),
            bytes: Some(bytes),
            sha256,
        })
    }
}

/// Returns the files of a folder and of its folders, in the order of their names.
fn files_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = |folder: &Path| -> Result<Vec<PathBuf>> {
        let fault = |error| Error::file(folder, error);
        let read = fs::read_dir(folder).map_err(fault)?;
        read.map(|entry| entry.map(|entry| entry.path()).map_err(fault)).collect()
    };
    let mut files = Vec::new();
    for path in entries(folder)? {
        if path.is_dir() {
            files.extend(entries(&path)?.into_iter().filter(|path| path.is_file()));
        } else if path.is_file() {
            files.push(path);
        }
    }
    // Paths compare by components, so that "b/x" would precede "b-c".
    files.sort_by_cached_key(|path| path.display().to_string());
    Ok(files)
}

fn hash(path: &Path) -> Result<String> {
    let fault = |error| Error::file(path, error);
    let mut file = File::open(path).map_err(fault)?;
    let (mut hash, mut buffer) = (Sha256::default(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut buffer).map_err(fault)? {
            0 => return Ok(hash.finish()),
            n => hash.update(&buffer[..n]),
        }
    }
}

/// Returns a date and time after ISO 8601 from the seconds since 1970, by the algorithm of Howard
/// Hinnant's `civil_from_days`.
fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months from March on.
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// A line of a file of results that has provenance instead of results.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    provenance: Provenance,
}

impl Provenance {
    /// Returns the provenance as a line of a file of results, without its end.
    ///
    /// # Errors
    /// An error of the JSON writer.
    pub fn to_line(&self) -> Result<String> {
        super::task::to_line(&Line { provenance: self.clone() })
    }

    /// Reads a line that [`Self::to_line`] wrote; `None` if it is another kind of line.
    pub(super) fn from_line(line: &str) -> Option<Result<Self>> {
        line.starts_with("{\"provenance\":").then(|| {
            let read: Result<Line, _> = serde_json::from_str(line);
            read.map(|line| line.provenance).map_err(|error| super::task::fault(error.to_string()))
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// `date -u -d @SECONDS`.
    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_868_799, "2000-02-29T23:59:59Z"),
            (1_709_164_800, "2024-02-29T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(seconds), date);
        }
    }

    #[test]
    fn folder_has_the_hash_of_the_lines_of_sha256sum() {
        let folder = std::env::temp_dir().join(format!("aleatron-sources-{}", std::process::id()));
        fs::create_dir_all(folder.join("b")).unwrap();
        fs::write(folder.join("b/two"), "abc").unwrap();
        fs::write(folder.join("a"), "").unwrap();
        fs::write(folder.join("b-c"), "").unwrap();
        let read = Source::read("data", &folder).unwrap();
        let lines = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  a\n\
                     e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  b-c\n\
                     ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  b/two\n";
        let mut expected = Sha256::default();
        expected.update(lines.as_bytes());
        assert_eq!((read.bytes, read.sha256), (Some(3), Some(expected.finish())));
        let file = Source::read("data", &folder.join("b/two")).unwrap();
        assert_eq!(file.sha256.unwrap(), lines.lines().last().unwrap().split(' ').next().unwrap());
        assert!(Source::read("data", &folder.join("c")).is_err());
        fs::remove_dir_all(folder).unwrap();
    }
}

//! Opening files.

use crate::{Error, Result};
use std::fs::{self, File};
use std::path::Path;

/// Opens a regular file. A pipe could block forever, and a device has no size to check sizes
/// against.
pub(crate) fn open(path: &Path) -> Result<File> {
    let metadata = fs::metadata(path).map_err(|error| Error::file(path, error))?;
    if !metadata.is_file() {
        let reason = "it is not a regular file".to_owned();
        return Err(Error::Format { file: path.display().to_string(), reason });
    }
    File::open(path).map_err(|error| Error::file(path, error))
}

//! Files: reads that cannot block forever, and atomic replacement, where readers never see a
//! partial file and a failed write loses nothing.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Opens a regular file. A pipe could block forever, and a device has no end.
///
/// # Errors
/// The error of the system, and [`io::ErrorKind::InvalidInput`] for anything but a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    if fs::metadata(path)?.is_file() {
        File::open(path)
    } else {
        let reason = "it is not a regular file; give the path of a regular file";
        Err(io::Error::new(io::ErrorKind::InvalidInput, reason))
    }
}

/// Reads a regular file.
///
/// # Errors
/// As [`open`].
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a regular file of text.
///
/// # Errors
/// As [`open`], and [`io::ErrorKind::InvalidData`] for bytes that are not UTF-8.
pub fn read_to_string(path: &Path) -> io::Result<String> {
    io::read_to_string(open(path)?)
}

/// Writes `bytes` to a temporary file and renames it to `path`.
///
/// # Errors
/// The error of the system.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_all(&[(path, bytes)]).map_err(|(_, error)| error)
}

/// Writes several files under temporary names and, once all are complete, renames them in their
/// order. If one cannot be written, none of them changes.
///
/// # Errors
/// The error of the system with the path of the file.
pub fn replace_all<'a>(files: &[(&'a Path, &[u8])]) -> Result<(), (&'a Path, io::Error)> {
    let mut written: Vec<Temporary> = Vec::with_capacity(files.len());
    for &(path, bytes) in files {
        written.push(Temporary::write(path, bytes).map_err(|error| (path, error))?);
    }
    for (&(path, _), temporary) in files.iter().zip(written) {
        fs::rename(&temporary.0, path).map_err(|error| (path, error))?;
    }
    Ok(())
}

/// A temporary file, which is removed when it is dropped, unless it was renamed.
struct Temporary(PathBuf);

impl Temporary {
    /// Writes the bytes of a file beside its path.
    fn write(path: &Path, bytes: &[u8]) -> io::Result<Self> {
        let own = Self(temporary_path(path)?);
        let mut file = File::create(&own.0)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        Ok(own)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // A renamed file is missing, and a failure to clean up is ignored.
        let _ = fs::remove_file(&self.0);
    }
}

/// Returns a name in the same folder that no other thread or process uses.
fn temporary_path(path: &Path) -> io::Result<PathBuf> {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file"))?;
    let mut name = name.to_owned();
    name.push(format!(".{}-{}.tmp", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    Ok(path.with_file_name(name))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Creates a folder for a test; the name must be unique among all tests.
    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("aleatron-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn names(folder: &Path) -> Vec<std::ffi::OsString> {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn replace_is_atomic_and_leaves_no_temporary_file() {
        let folder = folder("replace");
        let file = folder.join("a.v1");
        replace(&file, b"one").unwrap();
        replace(&file, b"two").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"two");
        // A folder at the path: an error, and no temporary file.
        let blocked = folder.join("blocked");
        fs::create_dir_all(blocked.join("inside")).unwrap();
        assert!(replace(&blocked, b"x").is_err());
        assert!(replace(&folder.join("missing/file"), b"x").is_err());
        assert_eq!(names(&folder), ["a.v1", "blocked"]);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn replace_all_with_a_fault_changes_no_file() {
        let folder = folder("replace-all");
        let (first, second) = (folder.join("first"), folder.join("second"));
        replace_all(&[(&first, b"one"), (&second, b"two")]).unwrap();
        let missing = folder.join("missing/file");
        let (path, error) = replace_all(&[(&first, b"three"), (&missing, b"four")]).unwrap_err();
        assert_eq!((path, error.kind()), (missing.as_path(), io::ErrorKind::NotFound));
        assert_eq!(fs::read(&first).unwrap(), b"one");
        assert_eq!(fs::read(&second).unwrap(), b"two");
        assert_eq!(names(&folder), ["first", "second"]);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn only_regular_files_are_read() {
        let folder = folder("read");
        let file = folder.join("text");
        fs::write(&file, "one").unwrap();
        assert_eq!(read(&file).unwrap(), b"one");
        assert_eq!(read_to_string(&file).unwrap(), "one");
        assert_eq!(open(&folder).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(open(&folder.join("x")).unwrap_err().kind(), io::ErrorKind::NotFound);
        #[cfg(unix)]
        {
            let pipe = folder.join("pipe");
            let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
            assert!(made.success());
            assert_eq!(open(&pipe).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}

//! A lock between processes that write the same files.

use crate::{Error, Result};
use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// Keeps other processes, and other locks of this process, off a resource until it is dropped or
/// the process ends.
#[derive(Debug)]
pub struct FileLock {
    path: PathBuf,
    /// Holds the lock, and the number of the process; `None` in a forked child.
    file: Option<File>,
}

impl FileLock {
    /// Locks a file, which is created.
    ///
    /// # Errors
    /// [`Error::Locked`] with the process that holds the lock, [`Error::File`] if the file cannot
    /// be written.
    pub fn acquire(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let fault = |source| Error::File { path: path.clone(), source };
        loop {
            let options =
                File::options().create(true).truncate(false).read(true).write(true).open(&path);
            let mut file = options.map_err(fault)?;
            match file.try_lock() {
                // The last holder has removed the file since it was opened here.
                Ok(()) if !has_name(&file, &path) => continue,
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let mut process = String::new();
                    // The message is useful without the number, too.
                    let _ = file.read_to_string(&mut process);
                    return Err(Error::Locked { path, process: process.trim().to_owned() });
                }
                // A file system without locks cannot tell whether there is another writer.
                Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {}
                Err(TryLockError::Error(error)) => return Err(fault(error)),
            }
            file.set_len(0).map_err(fault)?;
            writeln!(file, "{}", std::process::id()).map_err(fault)?;
            return Ok(Self { path, file: Some(file) });
        }
    }
}

impl FileLock {
    /// Leaves the lock to the parent, in a forked child: it ends with the parent, though the child
    /// lives on.
    pub fn after_fork(&mut self) {
        self.file = None;
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Still locked: no other process holds a file of this name. A file that remains does no
        // harm.
        if cfg!(unix) && self.file.is_some() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Returns whether an open file is the one of this name.
#[cfg(unix)]
fn has_name(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

/// Returns true: lock files are not removed here.
#[cfg(not(unix))]
fn has_name(_: &File, _: &Path) -> bool {
    true
}

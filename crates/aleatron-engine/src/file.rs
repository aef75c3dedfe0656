//! Atomic replacement of files: readers never see a partial file, and a failed write loses nothing.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes `bytes` to a temporary file and renames it to `path`.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = temporary_path(path)?;
    let written = std::fs::File::create(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    let replaced = written.and_then(|()| std::fs::rename(&temporary, path));
    if replaced.is_err() {
        // A failure to clean up is ignored.
        let _ = std::fs::remove_file(&temporary);
    }
    replaced
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
    use super::replace;

    #[test]
    fn replace_is_atomic_and_leaves_no_temporary_file() {
        let folder = std::env::temp_dir().join(format!("aleatron-replace-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("a.v1");
        replace(&file, b"one").unwrap();
        replace(&file, b"two").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"two");
        // A folder at the path: an error, and no temporary file.
        let blocked = folder.join("blocked");
        std::fs::create_dir_all(blocked.join("inside")).unwrap();
        assert!(replace(&blocked, b"x").is_err());
        assert!(replace(&folder.join("missing/file"), b"x").is_err());
        let mut left: Vec<_> =
            std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["a.v1", "blocked"]);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

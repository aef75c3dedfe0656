//! Writing files so that no reader ever sees half of one, and nothing is lost where writing fails.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes `bytes` beside `path` and then puts them in its place.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = beside(path)?;
    let written = std::fs::File::create(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    let replaced = written.and_then(|()| std::fs::rename(&temporary, path));
    if replaced.is_err() {
        // Nothing can be done where even this fails.
        let _ = std::fs::remove_file(&temporary);
    }
    replaced
}

/// A name in the same folder that no other thread or process uses.
fn beside(path: &Path) -> io::Result<PathBuf> {
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
    fn files_are_replaced_whole_and_nothing_is_left_behind() {
        let folder = std::env::temp_dir().join(format!("aleatron-replace-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("a.v1");
        replace(&file, b"one").unwrap();
        replace(&file, b"two").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"two");
        // A folder in the way: an error, and no temporary file.
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

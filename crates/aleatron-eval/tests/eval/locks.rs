//! Locks between writers of the same files.

use aleatron_eval::{Error, FileLock};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Returns a path for a lock in a folder of its own.
fn path(test: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("aleatron-lock-{test}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder.join("lock")
}

#[test]
fn second_lock_is_refused_with_the_process_of_the_first() {
    let path = path("second");
    let lock = FileLock::acquire(&path).unwrap();
    let error = FileLock::acquire(&path).unwrap_err();
    let own = std::process::id().to_string();
    assert!(matches!(&error, Error::Locked { process, .. } if *process == own), "{error}");
    assert!(error.to_string().contains(&format!("process {own} is writing there")), "{error}");
    // The refusal leaves the lock of the holder.
    assert!(matches!(FileLock::acquire(&path), Err(Error::Locked { .. })));
    drop(lock);
    assert_eq!(path.exists(), cfg!(not(unix)));
    drop(FileLock::acquire(&path).unwrap());
    std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
}

#[test]
fn lock_of_a_missing_folder_is_an_error_with_the_path() {
    let path = path("missing").join("none/lock");
    assert!(
        matches!(FileLock::acquire(&path), Err(Error::File { path: named, .. }) if named == path)
    );
    std::fs::remove_dir_all(path.parent().unwrap().parent().unwrap().parent().unwrap()).unwrap();
}

/// Locks and their files are created and removed while other threads try to take them.
#[test]
fn one_of_many_threads_holds_a_lock() {
    let path = path("threads");
    let (holders, taken) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..400 {
                    match FileLock::acquire(&path) {
                        Ok(_lock) => {
                            assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                            std::thread::yield_now();
                            taken.fetch_add(1, Ordering::SeqCst);
                            holders.fetch_sub(1, Ordering::SeqCst);
                        }
                        Err(error) => assert!(matches!(error, Error::Locked { .. }), "{error}"),
                    }
                }
            });
        }
    });
    assert!(taken.load(Ordering::SeqCst) > 0);
    std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
}

#[test]
fn forked_child_leaves_the_file_of_its_parent() {
    let path = path("fork");
    let mut lock = FileLock::acquire(&path).unwrap();
    lock.after_fork();
    drop(lock);
    assert!(path.exists());
    std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
}

//! Data sets from files that NumPy wrote (`numpy.savez` and `numpy.savez_compressed`, 2.4).
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking, too")]

use aleatron::data::Dataset;
use std::path::PathBuf;

fn path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "data", name].iter().collect()
}

#[test]
fn archives_are_read_whatever_their_layout() {
    // Stored doubles; deflated floats by columns; doubles and shorts of the other byte order.
    for name in ["stored.npz", "deflated.npz", "big_endian.npz"] {
        let data = Dataset::read(path(name)).unwrap();
        assert_eq!(data.features(), [0.0, 1.5, -2.0, 3.0, 4.25, 5.0], "{name}");
        assert_eq!((data.labels(), data.n_features(), data.len()), (&[1, 0][..], 3, 2), "{name}");
    }
}

#[test]
fn faults_of_archives_are_named() {
    let message = |name: &str| {
        let text = Dataset::read(path(name)).unwrap_err().to_string();
        text.rsplit_once("npz: ").unwrap().1.to_owned()
    };
    assert_eq!(message("no_labels.npz"), "there is no array \"y\"");
    assert_eq!(message("half_classes.npz"), "the label of sample 0 is 0.5, not a class counted from 0");
    assert_eq!(message("flat.npz"), "array \"x\" has shape [6], expected (samples, features)");
    assert_eq!(message("text.npz"), "array \"x\": type <U1 is not read; floats and integers are");
    assert_eq!(message("short.npz"), "6 values are not 3 samples of 3 features");
    assert!(message("missing.npz").contains("No such file"));
    let error = Dataset::read("data.txt").unwrap_err().to_string();
    assert_eq!(error, "data.txt: data are read from .npz and .csv files");
}

/// Whatever the bytes, reading ends with data or an error.
#[test]
fn broken_archives_are_errors() {
    let folder = std::env::temp_dir().join(format!("aleatron-data-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("broken.npz");
    for name in ["stored.npz", "deflated.npz"] {
        let whole = std::fs::read(path(name)).unwrap();
        let read = |bytes: &[u8]| {
            std::fs::write(&file, bytes).unwrap();
            Dataset::read(&file)
        };
        for len in 0..whole.len() {
            assert!(read(&whole[..len]).is_err(), "the first {len} bytes of {name}");
        }
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0xff;
            // A changed byte of data is another number; anything else must be refused, and nothing may panic.
            if let Ok(data) = read(&bytes) {
                assert_eq!(data.len(), 2, "{name} with byte {at} changed");
            }
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

//! Bytes as an `.npz` archive: samples or an error, never a panic and never more memory than the archive can fill.
//!
//! The bytes are an archive, its arrays (the first `x`, truncated to the length in two bytes, the
//! rest `y`), and edits of valid arrays, in archives with correct checksums.
#![no_main]

use aleatron::data::Dataset;
use aleatron_fuzz::{edited, npy, npz};
use libfuzzer_sys::fuzz_target;
use zip::CompressionMethod::{Deflated, Stored};

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    if let Some((cut, rest)) = bytes.split_first_chunk() {
        let (x, y) = rest.split_at(usize::from(u16::from_le_bytes(*cut)).min(rest.len()));
        check(&npz(x, y, Stored));
        check(&npz(x, y, Deflated));
    }
    let (x_edits, y_edits) = bytes.split_at(bytes.len() / 2);
    let x = edited(npy("<f2", "False", "(2, 3)", &[0x3c; 12]), x_edits);
    let y = edited(npy("|u1", "False", "(2,)", &[0, 1]), y_edits);
    check(&npz(&x, &y, Stored));
});

fn check(bytes: &[u8]) {
    let Ok(data) = Dataset::from_npz(bytes, "t") else { return };
    assert!(!data.is_empty() && data.n_features() > 0);
    assert_eq!(data.features().len(), data.len() * data.n_features());
    assert!(data.features().iter().all(|feature| feature.is_finite()));
    // Written without compression, they are read again.
    let x: Vec<u8> = data.features().iter().flat_map(|feature| feature.to_le_bytes()).collect();
    let y: Vec<u8> = data.labels().iter().flat_map(|&label| (label as u64).to_le_bytes()).collect();
    let x = npy("<f8", "False", &format!("({}, {})", data.len(), data.n_features()), &x);
    let y = npy("<u8", "False", &format!("({},)", data.len()), &y);
    assert_eq!(Dataset::from_npz(&npz(&x, &y, Stored), "t").unwrap(), data);
}

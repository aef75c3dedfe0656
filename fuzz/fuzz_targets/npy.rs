//! Bytes as `.npy` files of features and labels, which are read in chunks: the samples that the
//! reader of archives returns for the same arrays, or an error, never a panic.
//!
//! The bytes are both files (the first truncated to the length in two bytes), and edits of valid
//! ones.
#![no_main]

use aleatron::data::{Dataset, LabelKind, ReadOptions};
use aleatron_fuzz::{Scratch, edited, npy, npz};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use zip::CompressionMethod::Stored;

static FOLDER: LazyLock<Scratch> = LazyLock::new(|| Scratch::new("npy"));

fuzz_target!(|bytes: &[u8]| {
    if let Some((cut, rest)) = bytes.split_first_chunk() {
        let (x, y) = rest.split_at(usize::from(u16::from_le_bytes(*cut)).min(rest.len()));
        check(x, y);
    }
    let (x_edits, y_edits) = bytes.split_at(bytes.len() / 2);
    let order = if bytes.len() % 2 == 0 { "False" } else { "True" };
    let y = edited(npy("<i2", "False", "(2,)", &[0, 0, 1, 0]), y_edits);
    check(&edited(npy("<f2", order, "(2, 3)", &[0x3c; 12]), x_edits), &y);
    check(&edited(npy("|u1", "False", "(2, 3, 2)", &[7; 12]), x_edits), &y);
});

fn check(x: &[u8], y: &[u8]) {
    FOLDER.write("x.npy", x);
    FOLDER.write("y.npy", y);
    let labels = Some(FOLDER.path("y.npy"));
    let options = ReadOptions { labels, ..ReadOptions::default() };
    let read = |options: &ReadOptions| {
        let data = Dataset::read_with(FOLDER.path("x.npy"), options)?;
        let features = data.samples(0..data.len())?.into_owned();
        Ok::<_, aleatron::Error>((data, features))
    };
    let classes = read(&options);
    let archive = Dataset::from_npz(&npz(x, y, Stored), "t");
    assert_eq!(
        classes.is_ok(),
        archive.is_ok(),
        "{classes:?}, but an archive of the same gives {archive:?}"
    );
    if let (Ok((data, features)), Ok(archive)) = (&classes, archive) {
        assert_eq!((features.as_slice(), data.labels()), (archive.features(), archive.labels()));
        assert!(features.iter().all(|feature| feature.is_finite()));
        for sample in 0..data.len().min(9) {
            let n = data.n_features();
            assert_eq!(*data.samples(sample..sample + 1).unwrap(), features[sample * n..][..n]);
        }
        assert_eq!(
            Dataset::read_features(FOLDER.path("x.npy"), &ReadOptions::default()).unwrap().1,
            *features
        );
    }
    let numbers = ReadOptions { kind: LabelKind::Numbers, divisor: 2.0, ..options };
    if let Ok((data, halves)) = read(&numbers) {
        assert_eq!(data.targets().len(), data.len() * data.n_targets());
        assert!(data.targets().iter().chain(&halves).all(|number| number.is_finite()));
    }
}

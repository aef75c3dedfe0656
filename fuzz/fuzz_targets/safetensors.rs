//! Bytes as a file of weights: tensors that can be read, or an error, never a panic.
//!
//! The bytes are the file, the header of a file with some data behind it, and edits of a valid file.
#![no_main]

use aleatron_fuzz::{Scratch, edited, safetensors};
use aleatron_transformer::weights::TensorSource;
use aleatron_transformer::weights::files::TensorFiles;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static SCRATCH: LazyLock<Scratch> = LazyLock::new(|| Scratch::new("safetensors"));

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    check(&[&(bytes.len() as u64).to_le_bytes(), bytes, &[0x3f; 64]].concat());
    check(&edited(safetensors(), bytes));
});

fn check(bytes: &[u8]) {
    SCRATCH.write("model.safetensors", bytes);
    let Ok(files) = TensorFiles::open(&[SCRATCH.path("model.safetensors")]) else { return };
    for name in files.names() {
        let shape = files.shape(name).unwrap();
        if let Ok(values) = files.tensor(name, shape) {
            assert_eq!(values.len(), shape.iter().product::<usize>());
            // An element takes at least two bytes of the file.
            assert!(2 * values.len() <= bytes.len());
        }
        assert!(files.tensor(name, &[shape, &[2]].concat()).is_err());
    }
    assert!(files.names().all(|name| name != "missing") == files.tensor("missing", &[]).is_err());
}

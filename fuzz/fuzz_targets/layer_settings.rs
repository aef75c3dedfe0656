//! Bytes as settings of layers, in a file and as an option: settings or an error, never a panic, and settings survive being written and read.
#![no_main]

use aleatron::network::{LayerOverride, layers_from_json, layers_to_json};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(layers) = layers_from_json(text, "f") {
        assert_eq!(layers_from_json(&layers_to_json(&layers).unwrap(), "f").unwrap(), layers);
    }
    if let Ok(layer) = text.parse::<LayerOverride>() {
        assert_eq!(layer.to_string().parse::<LayerOverride>().unwrap(), layer);
    }
});

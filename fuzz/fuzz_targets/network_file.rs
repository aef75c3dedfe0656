//! Bytes as the files of a network: a network or an error, never a panic, and a network survives being written and read.
//!
//! The bytes stand for the description beside good tensors, for the tensors beside a good description, for both, cut at the
//! first zero byte, and for edits of good files: files that are nearly right get furthest.
#![no_main]

use aleatron::network::Network;
use aleatron_fuzz::edited;
use libfuzzer_sys::fuzz_target;

const DESCRIPTION: &str = r#"{"format": "aleatron-network", "version": 1, "name": "n", "layers": [{"name": "a", "polarity": "bipolar",
    "input_scale": 1.0, "weight_scale": 1.0, "activation": "relu"}]}"#;

/// A layer `a` of two neurons and two inputs.
fn tensors() -> Vec<u8> {
    let header = br#"{"a.weight":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}"#;
    [&(header.len() as u64).to_le_bytes(), &header[..], &[0; 16]].concat()
}

fuzz_target!(
    init: { Network::from_parts(DESCRIPTION, &tensors()).unwrap(); },
    |bytes: &[u8]| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        check(&text(bytes), &tensors());
        check(DESCRIPTION, bytes);
        if let Some(cut) = bytes.iter().position(|&byte| byte == 0) {
            check(&text(&bytes[..cut]), &bytes[cut + 1..]);
        }
        check(&text(&edited(DESCRIPTION.into(), bytes)), &tensors());
        check(DESCRIPTION, &edited(tensors(), bytes));
    }
);

fn check(description: &str, tensors: &[u8]) {
    let Ok(network) = Network::from_parts(description, tensors) else { return };
    let (description, tensors) = network.to_parts().unwrap();
    assert_eq!(Network::from_parts(&description, &tensors).unwrap(), network);
}

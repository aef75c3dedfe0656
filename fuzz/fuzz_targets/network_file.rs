//! Bytes as the files of a network: a network or an error, never a panic, and a network survives being written and read.
//!
//! The bytes stand for the description beside good tensors, for the tensors beside a good description, for both, cut at the
//! first zero byte, for edits of good files of both versions, since files that are nearly right get furthest, and for the numbers of a
//! description of convolutions and pools. Small networks are run.
#![no_main]

use aleatron::network::{Arithmetic, FeatureRange, Network, StreamConfig};
use aleatron_fuzz::{convolutional, edited};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

const DESCRIPTION: &str = r#"{"format": "aleatron-network", "version": 1, "name": "n", "layers": [{"name": "a", "polarity": "bipolar",
    "input_scale": 1.0, "weight_scale": 1.0, "activation": "relu"}]}"#;

/// The most products and numbers of a network that is run.
const MAX_SIZE: usize = 1 << 12;

static CONVOLUTIONAL: LazyLock<(String, Vec<u8>)> = LazyLock::new(|| convolutional().to_parts().unwrap());

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
        let (description, tensors) = &*CONVOLUTIONAL;
        check(&text(&edited(description.clone().into(), bytes)), tensors);
        check(description, &edited(tensors.clone(), bytes));
        let (description, tensors) = Numbers(bytes).network();
        check(&description, &tensors);
    }
);

fn check(description: &str, tensors: &[u8]) {
    let Ok(network) = Network::from_parts(description, tensors) else { return };
    let (description, tensors) = network.to_parts().unwrap();
    assert_eq!(Network::from_parts(&description, &tensors).unwrap(), network);
    let sizes =
        network.layers().iter().map(|layer| layer.n_inputs().max(layer.n_neurons()).max(layer.n_outputs()));
    if sizes.max().is_some_and(|most| most > MAX_SIZE) || network.products() > MAX_SIZE {
        return;
    }
    let features: Vec<f64> = (0..2 * network.n_features()).map(|k| (k % 5) as f64 / 4.0 - 0.5).collect();
    assert_eq!(network.forward(&features).unwrap().len(), 2 * network.n_outputs());
    for arithmetic in [Arithmetic::Float, Arithmetic::Integer] {
        let config = StreamConfig::new(8).arithmetic(arithmetic).range(FeatureRange::Clip);
        if let Ok(streams) = network.to_streams(&config) {
            let both = streams.forward(&features, 0).unwrap();
            let second = streams.forward(&features[network.n_features()..], 1).unwrap();
            // One sample after the other gives the same bits. A score may be no number where scales are extreme.
            let bits = |scores: &[f64]| scores.iter().map(|score| score.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&both[network.n_outputs()..]), bits(&second));
        }
    }
}

/// Numbers made of bytes: most of them small, some so large that their products overflow.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn next(&mut self) -> usize {
        let Some((&byte, rest)) = self.0.split_first() else { return 1 };
        self.0 = rest;
        match byte {
            0..192 => usize::from(byte % 6),
            _ => (1usize << (byte - 192)).wrapping_sub(self.next() % 2),
        }
    }

    fn numbers(&mut self, n: usize) -> Vec<usize> {
        (0..n).map(|_| self.next()).collect()
    }

    /// A description of a convolution, pools and a dense layer, with tensors of sizes that may fit.
    fn network(mut self) -> (String, Vec<u8>) {
        let axes = 1 + self.next() % 2;
        let (input, kernel, shape) = (self.numbers(1 + axes), self.numbers(axes), self.numbers(1 + axes));
        let (stride, dilation, groups) = (self.numbers(axes), self.numbers(axes), self.next());
        let mut pairs = || (0..axes).map(|_| [self.next(), self.next()]).collect::<Vec<_>>();
        let (padding, pool_padding) = (pairs(), pairs());
        let polarity = ["unipolar", "bipolar", "signed"][self.next() % 3];
        let mut nodes = vec![format!(
            r#"{{"kind": "conv{axes}d", "name": "a", "inputs": ["input"], "shape": {shape:?}, "stride": {stride:?}, "padding": {padding:?},
            "dilation": {dilation:?}, "groups": {groups}, "polarity": "{polarity}", "input_scale": 1.0, "weight_scale": 2.0, "activation": "relu"}}"#
        )];
        let mut last = "a".to_owned();
        for k in 0..self.next() % 3 {
            let (reduce, border) =
                (["max", "average"][self.next() % 2], ["left_out", "zeros"][self.next() % 2]);
            let [shape, window, stride] = [1 + axes, axes, axes].map(|n| self.numbers(n));
            nodes.push(format!(
                r#"{{"kind": "pool", "name": "p{k}", "inputs": ["{last}"], "shape": {shape:?}, "reduce": "{reduce}", "window": {window:?},
                "stride": {stride:?}, "padding": {pool_padding:?}, "border": "{border}"}}"#
            ));
            last = format!("p{k}");
        }
        let (n_inputs, n_neurons) = (self.next(), self.next());
        if n_neurons > 0 {
            nodes.push(format!(
                r#"{{"kind": "flatten", "name": "f", "inputs": ["{last}"], "shape": [{n_inputs}]}}, {{"kind": "dense", "name": "b", "inputs": ["f"],
                "shape": [{n_neurons}], "polarity": "signed", "input_scale": 0.5, "weight_scale": 1.0, "activation": "identity"}}"#
            ));
            last = "b".to_owned();
        }
        let description = format!(
            r#"{{"format": "aleatron-network", "version": 2, "name": "n", "outputs": ["{last}"], "nodes": [{}],
            "inputs": [{{"name": "input", "shape": {input:?}, "offset": 0.0, "scale": 1.0}}]}}"#,
            nodes.join(", ")
        );
        let weight = [&[shape[0], input[0].checked_div(groups).unwrap_or(1)], &kernel[..]].concat();
        (description, weights([("a.weight", weight), ("b.weight", vec![n_neurons, n_inputs])]))
    }
}

/// Tensors of these shapes, or empty ones where they are large.
fn weights(tensors: [(&str, Vec<usize>); 2]) -> Vec<u8> {
    let (mut entries, mut data) = (Vec::new(), Vec::new());
    for (name, mut shape) in tensors {
        let len = shape.iter().try_fold(1usize, |all, &n| all.checked_mul(n)).filter(|&len| len <= MAX_SIZE);
        if len.is_none() {
            shape.fill(0);
        }
        let start = data.len();
        (0..len.unwrap_or(0)).for_each(|k| data.extend(((k % 3) as f32 / 2.0).to_le_bytes()));
        entries.push(format!(
            r#""{name}":{{"dtype":"F32","shape":{shape:?},"data_offsets":[{start},{}]}}"#,
            data.len()
        ));
    }
    let header = format!("{{{}}}", entries.join(","));
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()
}

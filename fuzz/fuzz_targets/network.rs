//! Bytes as a network: a network that runs as streams, or an error, never a panic; and a network survives its file.
//!
//! The bytes are an ONNX file, edits of a valid file with a convolution and a pool, and the sizes of a network that is built layer by
//! layer. Small networks run.
#![no_main]

use aleatron::network::{
    Activation, Arithmetic, Batching, Calibration, Network, NetworkBuilder, StreamConfig,
    ValueRange,
};
use aleatron::{Convolution, Polarity};
use aleatron_core::arithmetic::{Border, Pool, PoolKind};
use aleatron_fuzz::{convolutional, edited};
use aleatron_graph::Graph;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

/// The largest number of inputs, outputs or weights of a network that runs.
const MAX_SIZE: usize = 1 << 10;

static VALID: LazyLock<Vec<u8>> = LazyLock::new(|| convolutional().to_onnx().unwrap());

fuzz_target!(|bytes: &[u8]| {
    check_file(bytes);
    check_file(&edited(VALID.clone(), bytes));
    if let Ok(network) = Numbers(bytes).network() {
        check(network);
    }
});

fn check_file(bytes: &[u8]) {
    // Many nodes take long and find no more than few.
    if !Graph::from_onnx(bytes).is_ok_and(|graph| graph.nodes().len() <= 16) {
        return;
    }
    if let Ok(network) = Network::from_onnx(bytes) {
        check(network);
    }
}

fn check(network: Network) {
    let again = Network::from_onnx(&network.to_onnx().unwrap()).unwrap();
    assert_eq!(again.layers(), network.layers());
    assert_eq!(
        [again.n_features(), again.n_outputs()],
        [network.n_features(), network.n_outputs()]
    );
    let weights: usize = network.layers().iter().map(|layer| layer.product.weights.len()).sum();
    let products = network.inspect(1).map_or(u64::MAX, |found| found.stream_products);
    if network.n_features() > MAX_SIZE
        || weights > MAX_SIZE
        || network.n_outputs() > MAX_SIZE
        || products > 1 << 14
    {
        return;
    }
    let n_samples = 2 * network.batch().unwrap_or(1);
    let features: Vec<f64> =
        (0..n_samples * network.n_features()).map(|k| (k % 7) as f64 / 4.0 - 0.75).collect();
    let Ok(scores) = network.forward(&features) else { return };
    assert_eq!(scores.len(), n_samples * network.n_outputs());
    let bits = |scores: &[f64]| scores.iter().map(|score| score.to_bits()).collect::<Vec<_>>();
    if let Ok(again) = again.forward(&features) {
        assert_eq!(bits(&again), bits(&scores));
    }
    let network = network.clone().calibrated(&features, &Calibration::default()).unwrap_or(network);
    for arithmetic in Arithmetic::ALL {
        let config = StreamConfig::new(8).arithmetic(arithmetic).range(ValueRange::Saturate);
        let Ok(streams) = network.to_streams(&config.device(aleatron::Device::Cpu)) else {
            continue;
        };
        let Ok(all) = streams.forward(&features, 0) else { continue };
        assert_eq!(all.len(), n_samples * network.n_outputs());
        if network.batching() == Batching::Independent {
            // One sample after the other gives the same bits.
            let second = streams.forward(&features[network.n_features()..], 1).unwrap();
            assert_eq!(bits(&all[network.n_outputs()..]), bits(&second));
        }
    }
}

/// Numbers from bytes: most of them small, some so large that their products overflow.
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

    fn pair(&mut self) -> [usize; 2] {
        [self.next(), self.next()]
    }

    /// Builds a network of a convolution, pools and a dense layer, with as many weights as its sizes may need.
    fn network(mut self) -> aleatron::Result<Network> {
        let is_sequence = self.next() % 2 == 0;
        let input = match is_sequence {
            true => [self.next(), 1, self.next()],
            false => [self.next(), self.next(), self.next()],
        };
        let sample = if is_sequence { vec![input[0], input[2]] } else { input.to_vec() };
        let (out_channels, kernel, stride, dilation) =
            (self.next(), self.pair(), self.pair(), self.pair());
        let kernel = if is_sequence { [1, kernel[1]] } else { kernel };
        let (groups, padding) = (self.next(), [self.pair(), self.pair()]);
        let convolution =
            Convolution { input, out_channels, kernel, stride, padding, dilation, groups };
        let fan_in = [input[0].checked_div(groups).unwrap_or(1), kernel[0], kernel[1]];
        let polarity = Polarity::ALL[self.next() % 3];
        let mut builder = NetworkBuilder::new("n", &sample)
            .features(&[0.25], &[self.next() as f64 / 2.0])
            .convolution("a", convolution, &weights(&[&[out_channels], &fan_in[..]].concat()), &[])
            .polarity(polarity)
            .activation(Activation::Relu);
        for _ in 0..self.next() % 3 {
            let kind = [PoolKind::Max, PoolKind::Average][self.next() % 2];
            let border = [Border::Excluded, Border::Zeros][self.next() % 2];
            let pool = Pool::new(kind, self.pair()).with_stride(self.pair());
            builder = builder.pool(pool.with_paddings([self.pair(), self.pair()], border));
        }
        let (n_inputs, n_neurons) = (self.next(), self.next());
        if n_neurons > 0 {
            builder = builder
                .dense("b", n_inputs, &weights(&[n_neurons, n_inputs]), &[])
                .input_scale(0.5);
        }
        Ok(builder.build()?)
    }
}

/// Returns weights of a shape, or none if there are too many.
fn weights(shape: &[usize]) -> Vec<f64> {
    let len =
        shape.iter().try_fold(1usize, |all, &n| all.checked_mul(n)).filter(|&len| len <= MAX_SIZE);
    (0..len.unwrap_or(0)).map(|k| (k % 3) as f64 / 2.0).collect()
}

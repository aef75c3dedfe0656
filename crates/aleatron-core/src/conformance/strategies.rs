//! Random cases for property tests of backends; with the cargo feature `proptest`.

use super::{LayerCase, MaskCase};
use crate::address::LayerIndex;
use crate::backend::CountMethod;
use crate::fault::{Fault, FaultKind, FaultRate, FaultSite, Faults, Operand};
use crate::generator::{Pairing, SequenceKind, Sharing, Width};
use crate::polarity::Polarity;
use crate::threshold::NEGATIVE;
use crate::{
    BitStream, Connections, ConvShape, Convolution, Encoding, LayerSpec, Length, SampleSeed,
    Topology,
};
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::Arc;

/// Upper bounds for the sizes of random layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Inputs of dense and sparse layers.
    pub inputs: usize,
    /// Neurons of dense layers.
    pub neurons: usize,
    /// Output channels of a group of a convolution.
    pub channels: usize,
    /// Groups of a convolution.
    pub groups: usize,
    /// Samples of a batch.
    pub samples: usize,
}

/// Generates any polarity.
pub fn polarity() -> impl Strategy<Value = Polarity> {
    prop::sample::select(Polarity::ALL.to_vec())
}

/// Adds signs to thresholds if the operands of the layer have signs.
pub fn with_signs(
    polarity: Polarity,
    threshold: impl Strategy<Value = u64>,
) -> impl Strategy<Value = u64> {
    (threshold, any::<bool>()).prop_map(move |(threshold, is_negative)| {
        threshold | if is_negative && polarity == Polarity::Signed { NEGATIVE } else { 0 }
    })
}

/// Generates dense and sparse layers, and convolutions with every kind of border.
pub fn topology(sizes: Sizes) -> impl Strategy<Value = Topology> {
    let (n, m) = (sizes.inputs, sizes.neurons);
    let dense =
        (1..n, 1..m).prop_map(|(n_inputs, n_neurons)| Topology::Dense { n_inputs, n_neurons });
    let sparse = (1..n, 1..n).prop_flat_map(|(n_inputs, n_neurons)| {
        vec(any::<bool>(), n_inputs * n_neurons).prop_filter_map(
            "mask size mismatch",
            move |mask| {
                Some(Topology::Sparse(Arc::new(Connections::from_mask(&mask, n_inputs).ok()?)))
            },
        )
    });
    let axis = || (1..9usize, 1..4usize, 1..4usize, 0..4usize, 0..4usize, 1..3usize);
    let conv = (axis(), axis(), 1..4usize, 1..sizes.channels, 1..sizes.groups).prop_filter_map(
        "kernel larger than its image",
        |((h, kh, sh, top, bottom, dh), (w, kw, sw, left, right, dw), channels, out, groups)| {
            let conv = Convolution::conv2d([channels * groups, h, w], out * groups, [kh, kw])
                .with_stride([sh, sw])
                .with_paddings([[top, bottom], [left, right]])
                .with_dilation([dh, dw])
                .with_groups(groups);
            Some(Topology::Conv(ConvShape::new(conv).ok()?))
        },
    );
    prop_oneof![2 => dense, 1 => sparse, 2 => conv]
}

/// Generates a pair of sequences with every sharing, with parameters that give any layer enough
/// sequences.
pub fn pairing() -> impl Strategy<Value = Pairing> {
    let kinds = || {
        prop::sample::select(vec![SequenceKind::Lfsr, SequenceKind::Sobol, SequenceKind::Halton])
    };
    let one = || {
        (kinds(), 2..6u32, 3..=14u32)
            .prop_filter_map("invalid sequence", |(kind, parameter, bits)| {
                kind.sequence(parameter, Width::new(bits).ok()?).ok()
            })
    };
    let sharing = prop::sample::select(Sharing::ALL.to_vec());
    (one(), one(), sharing).prop_map(|(inputs, weights, sharing)| Pairing {
        inputs,
        weights,
        sharing,
    })
}

/// Generates random bits for one operand and sequences for the other.
pub fn mixed() -> impl Strategy<Value = Encoding> {
    (pairing(), any::<Option<u64>>()).prop_map(|(pairing, weight_seed)| match weight_seed {
        Some(seed) => Encoding::BernoulliWeights { seed, inputs: pairing.of_inputs() },
        None => Encoding::BernoulliInputs { weights: pairing.of_weights() },
    })
}

/// Generates Bernoulli streams, sequences by tables and by bits, and one of each for the two
/// operands.
fn encoding() -> impl Strategy<Value = (Encoding, CountMethod)> {
    let bernoulli = any::<u64>().prop_map(|seed| (Encoding::Bernoulli { seed }, CountMethod::Best));
    let method = prop::sample::select(vec![CountMethod::Best, CountMethod::Bits]);
    let shared =
        (pairing(), method).prop_map(|(pairing, method)| (Encoding::Sequences(pairing), method));
    let mixed = mixed().prop_map(|encoding| (encoding, CountMethod::Best));
    prop_oneof![2 => bernoulli, 2 => shared, 1 => mixed]
}

/// Generates layers of any kind with a batch, rejecting those whose generator has too few
/// sequences.
pub fn layer(sizes: Sizes) -> impl Strategy<Value = LayerCase> {
    let spec = (topology(sizes), 1usize..300, polarity(), encoding(), 0usize..1 << 28);
    let spec = spec.prop_filter_map(
        "too few sequences",
        |(topology, bits, polarity, (encoding, method), k)| {
            let spec =
                LayerSpec::new(topology, Length::new(bits).ok()?, polarity, encoding).ok()?;
            Some((spec.at(LayerIndex::new(k).ok()?), method))
        },
    );
    (spec, 1..sizes.samples, any::<u64>(), 0u32..1 << 30).prop_flat_map(
        |((spec, method), n, seed, first)| {
            let polarity = spec.polarity();
            let thresholds = |width: Width, n: usize| vec(with_signs(polarity, 0..=width.one()), n);
            let weights = thresholds(spec.encoding().weight_width(), spec.n_weights());
            let inputs = thresholds(spec.encoding().input_width(), spec.n_inputs() * n);
            let seed = SampleSeed::new(seed).starting_at(first);
            (weights, inputs).prop_map(move |(weights, inputs)| LayerCase {
                spec: spec.clone(),
                weights,
                inputs,
                seed,
                method,
            })
        },
    )
}

/// Generates masks of any fault.
pub fn mask() -> impl Strategy<Value = MaskCase> {
    let kind = prop_oneof![
        Just(FaultKind::Transient),
        Just(FaultKind::Permanent),
        (1u32..100).prop_map(|cycles| FaultKind::Burst { cycles }),
    ];
    let rate = prop_oneof![Just(0.5), Just(1.0 / 32.0), 1e-3..1.0 / 32.0, 0.01..0.5, Just(1e-9)];
    let fault = (prop::sample::select(FaultSite::ALL.to_vec()), kind, rate)
        .prop_filter_map("a kind that the site cannot have", |(site, kind, rate)| {
            Fault::new(site, kind, FaultRate::new(rate).ok()?).ok()
        });
    let sizes = (1usize..300, 1u32..4, 1u32..9);
    let address = (any::<u32>(), any::<u32>(), any::<u32>(), any::<bool>(), 0usize..1 << 28);
    (any::<u64>(), fault, sizes, address).prop_filter_map(
        "an address past the last one",
        |(seed, fault, (bits, n_rows, n_units), (sample, row, unit, is_weight, layer))| {
            // Permanent faults of samples have one row.
            let n_rows = if fault.is_per_sample() { n_rows } else { 1 };
            [sample.checked_add(n_rows), row.checked_add(n_rows), unit.checked_add(n_units)]
                .into_iter()
                .collect::<Option<Vec<_>>>()?;
            let faults = Faults::new(seed, vec![fault]).ok()?;
            let mask = faults.at(fault.site(), LayerIndex::new(layer).ok()?).next()?;
            let operand = if is_weight { Operand::Weights } else { Operand::Inputs };
            let length = Length::new(bits).ok()?;
            Some(MaskCase { mask, length, operand, sample, row, unit, n_rows, n_units })
        },
    )
}

/// Generates three streams of one length.
pub fn streams() -> impl Strategy<Value = [BitStream; 3]> {
    let three = |bits: usize| [vec(0u8..2, bits), vec(0u8..2, bits), vec(0u8..2, bits)];
    (1usize..400).prop_flat_map(three).prop_filter_map("no bits", |[a, b, c]| {
        let of = |bits: &[u8]| BitStream::from_bits(bits).ok();
        Some([of(&a)?, of(&b)?, of(&c)?])
    })
}

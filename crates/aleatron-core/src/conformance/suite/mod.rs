//! The fixed suite: the same random cases on every machine, drawn with Philox from one seed.

mod program;
mod random;

use super::case::{Case, LayerCase};
use super::mask::MaskCase;
use super::network::{NetworkCase, NetworkLayer};
use crate::address::LayerIndex;
use crate::arithmetic::{Arithmetic, Border, Pool, PoolKind, PoolShape};
use crate::backend::CountMethod;
use crate::convolution::{ConvShape, Convolution};
use crate::error::Result;
use crate::fault::{Fault, FaultKind, FaultSite, Faults, Operand};
use crate::gates::Gate;
use crate::generator::{GeneratorName, IntegerBits, Sharing, Width};
use crate::layer::{Encoding, SampleSeed, Topology};
use crate::lif::LifDrive;
use crate::polarity::Polarity;
use crate::stream::Length;
use random::{Random, SEQUENCES};
use std::sync::Arc;

/// Lengths around every boundary of a kernel: words, 256- and 512-bit registers, and other lengths.
const LENGTHS: [usize; 18] =
    [1, 2, 31, 32, 33, 63, 64, 65, 100, 128, 255, 256, 511, 512, 513, 1000, 1024, 2113];

/// Layers (inputs, neurons, samples) around every tile boundary.
const LAYERS: [(usize, usize, usize); 10] = [
    (1, 1, 1),
    (3, 2, 2),
    (5, 4, 1),
    (7, 5, 3),
    (8, 9, 4),
    (17, 3, 5),
    (16, 8, 9),
    (33, 7, 2),
    (64, 13, 1),
    (40, 6, 6),
];

/// Lengths of convolutions: short, because the reference generates every bit of every product.
const CONV_LENGTHS: [usize; 8] = [1, 33, 64, 65, 100, 128, 200, 256];

/// The polarities of the first cases.
const WITHOUT_SIGNS: [Polarity; 2] = [Polarity::Unipolar, Polarity::Bipolar];

/// The number of cases of version 0.1, which come first in [`fixed`]. The hash of their answers is
/// known, see `golden/verify.kat`.
pub const FIRST_CASES: usize = 304;

/// Returns the cases of `aleatron verify`.
///
/// # Errors
/// Never fails: the cases are valid by construction, which is tested.
pub fn fixed() -> Result<Vec<Case>> {
    let mut random = Random { next: 0 };
    let mut cases = streams(&mut random)?;
    cases.extend(sequences(&mut random)?);
    cases.extend(networks(&mut random)?);
    cases.extend(signed(&mut random)?);
    cases.extend(convolutions(&mut random)?);
    cases.extend(convolutional_networks(&mut random)?);
    cases.extend(mixed(&mut random)?);
    cases.extend(program::programs(&mut random)?);
    cases.extend(integers(&mut random)?);
    cases.extend(masks(&mut random)?);
    Ok(cases)
}

/// Fault masks of every site, kind and way of drawing.
fn masks(draw: &mut Random) -> Result<Vec<Case>> {
    const RATES: [&str; 6] = ["0.5", "0.1", "0.03125", "1e-2", "0.0078125", "2e-3"];
    let mut cases = Vec::new();
    for (n, &bits) in LENGTHS.iter().enumerate() {
        let length = Length::new(bits)?;
        for (k, site) in FaultSite::ALL.into_iter().enumerate() {
            let burst = FaultKind::Burst { cycles: 1 + draw.word() % 70 };
            let kind = [FaultKind::Transient, FaultKind::Permanent, burst][(n + k / 3) % 3];
            let rate = RATES[(n + k) % RATES.len()].parse()?;
            let Ok(fault) = Fault::new(site, kind, rate) else { continue };
            let layer = LayerIndex::new(draw.word() as usize % 5)?;
            let faults = Faults::new(draw.word().into(), vec![fault])?;
            let operand = [Operand::Inputs, Operand::Weights][n % 2];
            let address = draw.address();
            cases.extend(faults.at(site, layer).map(|mask| {
                Case::Mask(MaskCase {
                    mask,
                    length,
                    operand,
                    sample: address.row,
                    row: address.unit,
                    unit: address.unit,
                    n_rows: if fault.is_per_sample() { 1 + (n % 3) as u32 } else { 1 },
                    // Short masks are many, so that some of their bits flip.
                    n_units: 1 + (600 / bits) as u32,
                })
            }));
        }
    }
    Ok(cases)
}

/// Generates layers that multiply integers of all widths up to eight bits.
fn integers(draw: &mut Random) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    let mut add = |draw: &mut Random,
                   topology: Topology,
                   n_samples: usize,
                   n: usize|
     -> Result<()> {
        // Small layers for the widest integers, because the reference counts bits.
        let bits = IntegerBits::new(if topology.n_products() > 64 {
            2 + n as u32 % 4
        } else {
            5 + n as u32 % 4
        })?;
        let encoding =
            GeneratorName::Integer(bits).encoding(0, Width::EIGHT, Sharing::OneForAll)?;
        let Encoding::Sequences(pairing) = encoding else { return Ok(()) };
        let case =
            draw.sequence_layer(topology, n_samples, bits.length()?, Polarity::Signed, pairing)?;
        let method = [CountMethod::Tables, CountMethod::Bits][n % 2];
        cases.push(Case::Layer(LayerCase { method, ..case }));
        Ok(())
    };
    for (n, &(n_inputs, n_neurons, n_samples)) in LAYERS.iter().enumerate() {
        add(draw, Topology::Dense { n_inputs, n_neurons }, n_samples, n)?;
    }
    for (n, (convolution, n_samples)) in geometries().into_iter().enumerate() {
        add(draw, Topology::Conv(ConvShape::new(convolution)?), n_samples, n)?;
    }
    Ok(cases)
}

/// Generates streams, gates, counts, Bernoulli layers and neurons.
fn streams(draw: &mut Random) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (n, &bits) in LENGTHS.iter().enumerate() {
        let length = Length::new(bits)?;
        cases.push(Case::Encode {
            thresholds: draw.thresholds(1 + 3 * (n % 7)),
            length,
            address: draw.address(),
        });
        let bits = (0..bits).map(|_| (draw.word() as u8) & 3).collect();
        cases.push(Case::Pack { bits });
        cases.push(Case::Unpack { stream: draw.stream(length)? });
        for gate in Gate::ALL {
            cases.push(Case::Gate { gate, a: draw.stream(length)?, b: draw.stream(length)? });
        }
        cases.push(Case::Not { a: draw.stream(length)? });
        cases.push(Case::Mux {
            select: draw.stream(length)?,
            a: draw.stream(length)?,
            b: draw.stream(length)?,
        });
        cases.push(Case::Popcount { a: draw.stream(length)? });
        cases.push(Case::AndPopcount { a: draw.stream(length)?, b: draw.stream(length)? });
        cases.push(Case::Hamming { a: draw.stream(length)?, b: draw.stream(length)? });
    }
    for (n, &(n_inputs, n_neurons, n_samples)) in LAYERS.iter().enumerate() {
        for polarity in WITHOUT_SIGNS {
            let length = Length::new(LENGTHS[(5 * n + polarity as usize) % LENGTHS.len()])?;
            cases.push(Case::Layer(draw.dense(n_inputs, n_neurons, n_samples, length, polarity)?));
            cases.push(Case::Layer(draw.sparse(n_inputs, n_neurons, n_samples, length, polarity)?));
        }
    }
    for n in 0..24 {
        let params = draw.lif_params()?;
        let drive = draw.drive();
        let vary =
            |draw: &mut Random| LifDrive { current: draw.small(), noise: draw.small(), ..drive };
        let drives = (0..50 + 13 * n).map(|_| vary(draw)).collect();
        cases.push(Case::LifRun { params, drives });
        let currents = (0..1 + 3 * n).map(|_| draw.small()).collect();
        cases.push(Case::LifMulti { params, drive, currents, n_steps: 10 + 7 * n });
    }
    Ok(cases)
}

/// Generates shared sequences: streams, layers bit by bit, and layers from tables.
fn sequences(draw: &mut Random) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (n, &bits) in LENGTHS.iter().enumerate() {
        let length = Length::new(bits)?;
        for kind in SEQUENCES {
            let sequence = draw.sequence(kind, 3 + (5 * n as u32 + kind as u32) % 30)?;
            let thresholds =
                (0..1 + n % 5).map(|_| draw.below(sequence.width().one() + 1)).collect();
            cases.push(Case::EncodeSequence { sequence, thresholds, length });
        }
    }
    for (n, &(n_inputs, n_neurons, n_samples)) in LAYERS.iter().enumerate() {
        for (p, polarity) in WITHOUT_SIGNS.into_iter().enumerate() {
            let length = Length::new(LENGTHS[(7 * n + p) % LENGTHS.len()])?;
            cases.extend(sequence_layers(
                draw,
                [n_inputs, n_neurons, n_samples],
                length,
                polarity,
                n + p,
            )?);
        }
    }
    Ok(cases)
}

/// Generates layers of one size with every sharing: dense bit by bit and from tables, and sparse.
fn sequence_layers(
    draw: &mut Random,
    [n_inputs, n_neurons, n_samples]: [usize; 3],
    length: Length,
    polarity: Polarity,
    n: usize,
) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for sharing in Sharing::ALL {
        let pairing = draw.pairing(sharing, n)?;
        let dense = Topology::Dense { n_inputs, n_neurons };
        for method in [CountMethod::Bits, CountMethod::Tables] {
            if method == CountMethod::Bits || sharing != Sharing::OnePerStream {
                let case =
                    draw.sequence_layer(dense.clone(), n_samples, length, polarity, pairing)?;
                cases.push(Case::Layer(LayerCase { method, ..case }));
            }
        }
        let sparse = Topology::Sparse(Arc::new(draw.connections(n_inputs, n_neurons)?));
        let case = draw.sequence_layer(sparse, n_samples, length, polarity, pairing)?;
        cases.push(Case::Layer(LayerCase { method: CountMethod::Bits, ..case }));
    }
    Ok(cases)
}

/// Generates networks of two and three layers in both arithmetics.
fn networks(draw: &mut Random) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for n in 0..6 {
        cases.extend(dense_network(draw, n, WITHOUT_SIGNS[n % 2])?);
    }
    Ok(cases)
}

/// Generates network `n`, with dense layers of one polarity.
fn dense_network(draw: &mut Random, n: usize, polarity: Polarity) -> Result<Vec<Case>> {
    let sizes = [&[5, 4, 3][..], &[16, 9, 4], &[7, 8, 6, 5]][n % 3];
    let layer = |k: usize| {
        let dense = Topology::Dense { n_inputs: sizes[k - 1], n_neurons: sizes[k] };
        draw.network_layer(n, k, dense, [polarity; 2])
    };
    let layers = (1..sizes.len()).map(layer).collect::<Result<Vec<_>>>()?;
    in_both_arithmetics(draw, layers, 3)
}

/// Generates a network and a batch of `n_samples`.
fn in_both_arithmetics(
    draw: &mut Random,
    layers: Vec<NetworkLayer>,
    n_samples: usize,
) -> Result<Vec<Case>> {
    let (n_inputs, polarity) = (layers[0].spec.n_inputs(), layers[0].spec.polarity());
    let inputs: Vec<f64> = (0..n_samples * n_inputs).map(|_| draw.value(polarity)).collect();
    let seed = SampleSeed::new(draw.word().into()).starting_at(draw.word() % 50);
    let network = |arithmetic| {
        let (layers, inputs) = (layers.clone(), inputs.clone());
        Case::Network(NetworkCase { layers, inputs, seed, arithmetic })
    };
    Ok(Arithmetic::ALL.map(network).into())
}

/// Generates signed streams in dense and sparse layers of every encoding, and in networks.
fn signed(draw: &mut Random) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (n, &(n_inputs, n_neurons, n_samples)) in LAYERS.iter().enumerate() {
        let (length, polarity) =
            (Length::new(LENGTHS[(5 * n + 2) % LENGTHS.len()])?, Polarity::Signed);
        cases.push(Case::Layer(draw.dense(n_inputs, n_neurons, n_samples, length, polarity)?));
        cases.push(Case::Layer(draw.sparse(n_inputs, n_neurons, n_samples, length, polarity)?));
        let length = Length::new(LENGTHS[(7 * n + 3) % LENGTHS.len()])?;
        cases.extend(sequence_layers(draw, [n_inputs, n_neurons, n_samples], length, polarity, n)?);
    }
    for n in 0..6 {
        cases.extend(dense_network(draw, n, Polarity::Signed)?);
    }
    Ok(cases)
}

/// Returns convolutions and batches with all geometries: strides, padding (of whole positions,
/// too), dilation, groups.
fn geometries() -> [(Convolution, usize); 12] {
    let conv = Convolution::conv2d;
    [
        (conv([1, 1, 1], 1, [1, 1]), 1),
        (conv([1, 5, 5], 2, [3, 3]), 2),
        (conv([2, 5, 4], 3, [3, 2]).with_stride([2, 1]).with_padding([1, 1]), 3),
        (conv([3, 4, 6], 5, [2, 3]).with_dilation([2, 1]).with_paddings([[0, 2], [1, 0]]), 1),
        (conv([4, 4, 4], 6, [3, 3]).with_groups(2).with_padding([1, 1]), 2),
        (conv([3, 5, 5], 3, [3, 3]).with_groups(3).with_stride([2, 2]).with_padding([1, 1]), 2),
        (Convolution::conv1d([2, 9], 3, 4).with_padding([0, 2]).with_stride([1, 2]), 4),
        (conv([2, 3, 3], 9, [1, 1]), 3),
        (conv([1, 2, 2], 2, [2, 2]).with_padding([3, 3]), 1),
        (conv([8, 3, 3], 7, [3, 3]), 5),
        (conv([1, 12, 12], 6, [5, 5]), 1),
        (
            conv([2, 6, 7], 4, [3, 3])
                .with_stride([3, 2])
                .with_dilation([1, 3])
                .with_padding([2, 1]),
            2,
        ),
    ]
}

/// Generates convolutions of every polarity and encoding.
fn convolutions(draw: &mut Random) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (n, (convolution, n_samples)) in geometries().into_iter().enumerate() {
        let topology = Topology::Conv(ConvShape::new(convolution)?);
        for (p, polarity) in Polarity::ALL.into_iter().enumerate() {
            let length = Length::new(CONV_LENGTHS[(n + 3 * p) % CONV_LENGTHS.len()])?;
            cases.push(Case::Layer(draw.conv(topology.clone(), n_samples, length, polarity)?));
            let length = Length::new(CONV_LENGTHS[(n + 5 * p + 1) % CONV_LENGTHS.len()])?;
            let (sharing, method) = [
                (Sharing::OneForAll, CountMethod::Tables),
                (Sharing::OnePerInput, CountMethod::Bits),
                (Sharing::OneForAll, CountMethod::Bits),
                (Sharing::OneForAll, CountMethod::Tables),
                (Sharing::OnePerStream, CountMethod::Bits),
            ][(n + 2 * p) % 5];
            let pairing = draw.pairing(sharing, n + p)?;
            let case =
                draw.sequence_layer(topology.clone(), n_samples, length, polarity, pairing)?;
            cases.push(Case::Layer(LayerCase { method, ..case }));
        }
    }
    Ok(cases)
}

/// Generates networks of convolutions, pools and a dense layer, of one polarity and of several.
fn convolutional_networks(draw: &mut Random) -> Result<Vec<Case>> {
    use Polarity::{Bipolar, Signed, Unipolar};
    let mut cases = Vec::new();
    let networks = [
        [Signed; 3],
        [Unipolar; 3],
        [Bipolar; 3],
        [Unipolar, Signed, Bipolar],
        [Signed, Bipolar, Signed],
    ];
    for (n, [first, second, last]) in networks.into_iter().enumerate() {
        let kinds = [PoolKind::Max, PoolKind::Average];
        let shape = ConvShape::new(Convolution::conv2d([1, 7, 6], 3, [3, 3]).with_padding([1, 1]))?;
        let mut one = draw.network_layer(n, 1, Topology::Conv(shape), [first, second])?;
        // Three rows of windows, the first and the last with padding in them, and three columns.
        let border = [Border::Excluded, Border::Zeros][n % 2];
        let pool = Pool::new(kinds[n % 2], [3, 2]).with_paddings([[1, 1], [0, 0]], border);
        one.pool = Some(PoolShape::new(pool, shape.output())?);
        let [channels, rows, columns] = PoolShape::new(pool, shape.output())?.output();
        let next = Convolution::conv2d([channels, rows, columns], 4, [2, 2]).with_stride([1, 2]);
        let shape = ConvShape::new(next)?;
        let mut two = draw.network_layer(n, 2, Topology::Conv(shape), [second, last])?;
        let [_, rows, columns] = shape.output();
        two.pool = Some(PoolShape::new(
            Pool::global(kinds[(n + 1) % 2], [rows, columns]),
            shape.output(),
        )?);
        let three =
            draw.network_layer(n, 3, Topology::Dense { n_inputs: 4, n_neurons: 3 }, [last; 2])?;
        cases.extend(in_both_arithmetics(draw, vec![one, two, three], 2)?);
    }
    Ok(cases)
}

/// Generates random bits for one operand and sequences for the other: dense and sparse layers,
/// convolutions, and networks.
fn mixed(draw: &mut Random) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (n, &(n_inputs, n_neurons, n_samples)) in LAYERS.iter().enumerate() {
        for (p, polarity) in Polarity::ALL.into_iter().enumerate() {
            let length = Length::new(LENGTHS[(5 * n + 7 * p + 2) % LENGTHS.len()])?;
            let sharing = Sharing::ALL[(n + p) % 3];
            for operand in 0..2 {
                let encoding = draw.mixed(sharing, 2 * n + operand)?;
                let topology = match (n + p) % 2 {
                    0 => Topology::Dense { n_inputs, n_neurons },
                    _ => Topology::Sparse(Arc::new(draw.connections(n_inputs, n_neurons)?)),
                };
                cases.push(Case::Layer(
                    draw.mixed_layer(topology, n_samples, length, polarity, encoding)?,
                ));
            }
        }
    }
    for (n, (convolution, n_samples)) in geometries().into_iter().enumerate() {
        let topology = Topology::Conv(ConvShape::new(convolution)?);
        for (p, polarity) in Polarity::ALL.into_iter().enumerate() {
            let length = Length::new(CONV_LENGTHS[(n + 5 * p + 2) % CONV_LENGTHS.len()])?;
            let encoding = draw.mixed(Sharing::ALL[(n / 2 + p) % 3], n + p)?;
            let case = draw.mixed_layer(topology.clone(), n_samples, length, polarity, encoding)?;
            cases.push(Case::Layer(case));
        }
    }
    for (n, polarity) in Polarity::ALL.into_iter().enumerate() {
        // A convolution, and a dense layer that reads its outputs.
        let shape = ConvShape::new(Convolution::conv2d([1, 4, 3], 2, [2, 2]).with_padding([1, 0]))?;
        let dense = Topology::Dense { n_inputs: shape.n_outputs(), n_neurons: 4 };
        let mut layers = Vec::new();
        for (k, topology) in [(1, Topology::Conv(shape)), (2, dense)] {
            let encoding = draw.mixed(Sharing::OneForAll, n + k)?;
            layers.push(draw.network_layer_of(n, k, topology, [polarity; 2], encoding)?);
        }
        cases.extend(in_both_arithmetics(draw, layers, 2)?);
    }
    Ok(cases)
}

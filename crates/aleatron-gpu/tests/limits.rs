//! Sizes beyond the limits of devices: bindings, workgroups, 32-bit counts, turns of a loop.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use aleatron_core::{Connections, DenseShape, Polarity, StreamAddress, StreamMatrix, Threshold};
use aleatron_gpu::{ContextOptions, GpuDense, GpuSparse, KernelChoice, RowGroup, TileShape};
use common::{Draw, context, length, own_context};

fn ones(w: &[u64], x: &[u64]) -> u64 {
    w.iter().zip(x).map(|(w, x)| u64::from((w & x).count_ones())).sum()
}

#[test]
fn layers_above_the_largest_binding_are_split() {
    // 1024 inputs x 1040 neurons x 1024 bits = 130 MiB, over the 128 MiB of software adapters.
    let context = context();
    let shape = DenseShape::new(1024, 1040, length(1024), Polarity::Unipolar).unwrap();
    let mut draw = Draw::new(41);
    let row = draw.streams(1024, shape.length());
    let mut words = Vec::with_capacity(shape.weight_words());
    (0..1040).for_each(|neuron| words.extend(row.iter().map(|word| word.rotate_left(neuron))));
    let layer = GpuDense::from_words(&context, shape, 2, &words).unwrap();
    let binding = context.info().max_binding_bytes;
    assert_eq!(
        layer.n_blocks() as u64,
        (shape.weight_bytes() as u64).div_ceil(binding / 131_072 * 131_072)
    );
    let streams = draw.streams(2 * 1024, shape.length());
    let n = shape.row_words();
    let expected: Vec<u64> =
        streams.chunks(n).flat_map(|x| words.chunks(n).map(|w| ones(w, x))).collect();
    for rows in [RowGroup::One, RowGroup::Four] {
        let layer = GpuDense::from_words(&context, shape, 2, &words)
            .unwrap()
            .with_kernel(KernelChoice::Rows(rows));
        assert_eq!(layer.counts_of_streams(&streams).unwrap(), expected);
    }
}

#[test]
fn more_than_65535_workgroups_are_dispatched() {
    let context = context();
    let mut draw = Draw::new(42);
    let shape = DenseShape::new(1, 70_001, length(64), Polarity::Bipolar).unwrap();
    let words = draw.streams(70_001, shape.length());
    let streams = draw.streams(3, shape.length());
    let expected: Vec<u64> = streams
        .iter()
        .flat_map(|x| words.iter().map(move |w| u64::from((!(w ^ x)).count_ones())))
        .collect();
    for choice in [
        KernelChoice::Rows(RowGroup::One),
        KernelChoice::Rows(RowGroup::Four),
        KernelChoice::Tiles(TileShape::TALLEST, 1),
    ] {
        let layer = GpuDense::from_words(&context, shape, 3, &words).unwrap().with_kernel(choice);
        assert_eq!(layer.counts_of_streams(&streams).unwrap(), expected, "{choice:?}");
    }
}

#[test]
fn counts_above_32_bits_are_exact() {
    // 65,536 inputs x 65,536 bits, all ones: 2^32, which exceeds 32 bits. The row is cut into four
    // bindings or more, and a thread takes the largest number of turns.
    let shape = DenseShape::new(65_536, 1, length(65_536), Polarity::Unipolar).unwrap();
    let first = StreamAddress::weight(1, 0, 0);
    let ones = vec![Threshold::ONE; 65_536];
    let layer = GpuDense::from_thresholds(&context(), shape, 1, &ones, first).unwrap();
    assert!(layer.n_blocks() >= 4, "{}", layer.n_blocks());
    for rows in [RowGroup::One, RowGroup::Four] {
        let layer = GpuDense::from_thresholds(&context(), shape, 1, &ones, first).unwrap();
        let layer = layer.with_kernel(KernelChoice::Rows(rows));
        assert_eq!(layer.counts(&ones, first).unwrap(), [1 << 32]);
    }
    let mut some = ones.clone();
    some[77] = Threshold::ZERO;
    assert_eq!(layer.counts(&some, first).unwrap(), [(1 << 32) - 65_536]);
}

#[test]
fn tiles_with_most_turns_complete() {
    // 2048 steps of 4 vectors for each of two parts of a row: software adapters stop at 65,535
    // turns of all loops.
    let bits = 2 * 2048 * 4 * 128;
    let mut draw = Draw::new(43);
    let shape = DenseShape::new(1, 2, length(bits), Polarity::Unipolar).unwrap();
    let words = draw.streams(2, shape.length());
    let streams = draw.streams(3, shape.length());
    let n = shape.row_words();
    let expected: Vec<u64> =
        streams.chunks(n).flat_map(|x| words.chunks(n).map(|w| ones(w, x))).collect();
    for shape_of_tile in [TileShape::SQUARE, TileShape::TALLEST] {
        let layer = GpuDense::from_words(&context(), shape, 3, &words).unwrap();
        let layer = layer.with_kernel(KernelChoice::Tiles(shape_of_tile, 1));
        assert_eq!(layer.counts_of_streams(&streams).unwrap(), expected, "{shape_of_tile:?}");
    }
}

/// More workgroups than a grid: the samples of a sparse layer need several dispatches.
#[test]
fn more_workgroups_than_a_grid_are_dispatched() {
    // Grids of 4 x 4: 3 segments leave room for 5 samples at a time.
    let options = ContextOptions { max_workgroups: Some(4), ..ContextOptions::default() };
    let context = own_context(&options);
    let mut draw = Draw::new(44);
    for polarity in [Polarity::Unipolar, Polarity::Bipolar] {
        let rows = [vec![0, 2], vec![1], vec![0, 1, 2]];
        let connections = Connections::from_rows(rows, 3).unwrap();
        let words = draw.streams(connections.len(), length(100));
        let streams = draw.streams(3 * 23, length(100));
        let w = StreamMatrix::from_words(words.clone(), connections.len(), length(100)).unwrap();
        let x = StreamMatrix::from_words(streams.clone(), 3 * 23, length(100)).unwrap();
        let expected = common::sparse_counts(&connections, polarity, &w, &x);
        let layer = GpuSparse::from_words(&context, connections, length(100), polarity, 23, &words)
            .unwrap();
        assert_eq!(layer.chunk(), 23);
        assert_eq!(layer.counts_of_streams(&streams).unwrap(), expected);
    }
}

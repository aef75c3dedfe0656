//! Dense layers on the device against the reference, for every kernel, cut and batch.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{Draw, both_contexts, context, every_context, length, plain_context};
use aleatron_core::golden::{Answer, answers, dense_input};
use aleatron_core::{
    Cancel, DenseShape, LayerIndex, Polarity, Quantity, StreamAddress, StreamMatrix, Threshold,
    reference, weights,
};
use aleatron_gpu::{
    CountOptions, Error, GpuContext, GpuDense, Inputs, KernelChoice, RowGroup, ThresholdSource,
    TileShape,
};

const POLARITIES: [Polarity; 2] = [Polarity::Unipolar, Polarity::Bipolar];

struct Case {
    shape: DenseShape,
    weights: Vec<u64>,
    inputs: Vec<Threshold>,
    first: StreamAddress,
    counts: Vec<u64>,
}

impl Case {
    fn new(
        draw: &mut Draw,
        n_inputs: usize,
        n_neurons: usize,
        n_samples: usize,
        bits: usize,
        p: Polarity,
    ) -> Self {
        let shape = DenseShape::new(n_inputs, n_neurons, length(bits), p).unwrap();
        let weights = draw.streams(shape.n_weights(), shape.length());
        let inputs = draw.thresholds(n_inputs * n_samples);
        let layer = LayerIndex::new(3).unwrap();
        let first = StreamAddress::input(draw.word().into(), 0, draw.word() % 100).in_layer(layer);
        let mut streams = Vec::new();
        for (row, inputs) in (first.row..).zip(inputs.chunks(n_inputs)) {
            for (unit, &input) in (0..).zip(inputs) {
                let at = first.at_row(row).at_unit(unit);
                streams.extend(reference::encode(input, shape.length(), at).into_words());
            }
        }
        let streams = StreamMatrix::from_words(streams, inputs.len(), shape.length()).unwrap();
        let matrix =
            StreamMatrix::from_words(weights.clone(), shape.n_weights(), shape.length()).unwrap();
        let counts = crate::common::dense_counts(&shape, &matrix, &streams);
        Self { shape, weights, inputs, first, counts }
    }

    fn check(&self, context: &Arc<GpuContext>, max_batch: usize, choice: KernelChoice) {
        let layer = GpuDense::from_words(context, self.shape, max_batch, &self.weights).unwrap();
        let layer = layer.with_kernel(choice);
        let note = format!("{:?}, batches of {max_batch}, {choice:?}", self.shape);
        assert_eq!(layer.counts(&self.inputs, self.first).unwrap(), self.counts, "{note}");
        assert_eq!(layer.words().unwrap(), self.weights, "{note}");
    }
}

#[test]
fn counts_of_odd_sizes_match_reference() {
    let mut draw = Draw::new(11);
    let sizes = [
        (1, 1, 1),
        (2, 3, 1),
        (5, 4, 2),
        (7, 9, 3),
        (16, 5, 9),
        (33, 2, 20),
        (3, 70, 5),
        (9, 6, 40),
    ];
    for (n, bits) in [1, 31, 33, 63, 64, 65, 100, 1000, 1024, 4097].into_iter().enumerate() {
        for (m, polarity) in POLARITIES.into_iter().enumerate() {
            let (n_inputs, n_neurons, n_samples) = sizes[(2 * n + 3 * m) % sizes.len()];
            let case = Case::new(&mut draw, n_inputs, n_neurons, n_samples, bits, polarity);
            every_context().iter().for_each(|context| case.check(context, 64, KernelChoice::Auto));
        }
    }
}

#[test]
fn all_kernels_give_equal_counts() {
    let mut draw = Draw::new(12);
    let shapes = [TileShape::TALL, TileShape::TALLEST].into_iter().chain(TileShape::CANDIDATES);
    let shapes: Vec<_> =
        shapes.filter(|s| s.workgroup_bytes() <= context().info().workgroup_bytes).collect();
    assert!(shapes.len() >= 6, "{shapes:?}");
    for polarity in POLARITIES {
        // More than one tile of the smaller shapes in each direction, and more than one part of
        // each row.
        let case = Case::new(&mut draw, 21, 70, 66, 257, polarity);
        for rows in RowGroup::ALL {
            every_context()
                .iter()
                .for_each(|context| case.check(context, 100, KernelChoice::Rows(rows)));
        }
        let contexts = both_contexts();
        for &shape in &shapes {
            for workgroups in [1, 64] {
                let choice = KernelChoice::Tiles(shape, workgroups);
                contexts.iter().for_each(|context| case.check(context, 100, choice));
            }
        }
    }
}

#[test]
fn chunked_batches_give_equal_counts() {
    let mut draw = Draw::new(13);
    for polarity in POLARITIES {
        let case = Case::new(&mut draw, 6, 5, 23, 130, polarity);
        for max_batch in [1, 2, 7, 22, 23, 24, 1000] {
            case.check(&context(), max_batch, KernelChoice::Auto);
            let layer =
                GpuDense::from_words(&context(), case.shape, max_batch, &case.weights).unwrap();
            let counts = layer.counts_filled(23, case.first, |samples, out| {
                out.extend(&case.inputs[samples.start * 6..samples.end * 6]);
                Ok(())
            });
            assert_eq!(counts.unwrap(), case.counts, "filled, batches of {max_batch}");
        }
    }
}

#[test]
fn weights_above_the_binding_limit_are_split() {
    let mut draw = Draw::new(14);
    for polarity in POLARITIES {
        let case = Case::new(&mut draw, 9, 11, 12, 200, polarity);
        // A row is 9 x 8 words of 4 bytes = 288 bytes.
        let mut blocks = Vec::new();
        for bytes in [1 << 20, 1000, 300, 288, 160, 96] {
            let context = plain_context(bytes);
            let layer = GpuDense::from_words(&context, case.shape, 64, &case.weights).unwrap();
            blocks.push(layer.n_blocks());
            for choice in [
                KernelChoice::Auto,
                KernelChoice::Rows(RowGroup::Two),
                KernelChoice::Rows(RowGroup::Four),
            ] {
                case.check(&context, 64, choice);
            }
        }
        assert_eq!(blocks, [1, 4, 11, 11, 22, 33]);
    }
}

#[test]
fn counts_of_streams_equal_counts_of_thresholds() {
    let mut draw = Draw::new(15);
    for polarity in POLARITIES {
        for bytes in [1 << 27, 300] {
            let shape = DenseShape::new(7, 5, length(100), polarity).unwrap();
            let words = draw.streams(shape.n_weights(), shape.length());
            let streams = draw.streams(7 * 11, shape.length());
            let layer = GpuDense::from_words(&plain_context(bytes), shape, 4, &words).unwrap();
            let w = StreamMatrix::from_words(words, shape.n_weights(), shape.length()).unwrap();
            let x = StreamMatrix::from_words(streams.clone(), 77, shape.length()).unwrap();
            assert_eq!(
                layer.counts_of_streams(&streams).unwrap(),
                crate::common::dense_counts(&shape, &w, &x)
            );
        }
    }
}

#[test]
fn weights_drawn_on_the_device_match_reference() {
    let mut draw = Draw::new(16);
    for bytes in [1 << 27, 100] {
        let shape = DenseShape::new(5, 7, length(77), Polarity::Unipolar).unwrap();
        let thresholds = draw.thresholds(35);
        let first = StreamAddress::weight(99, 0, 4).in_layer(LayerIndex::new(2).unwrap());
        let layer =
            GpuDense::from_thresholds(&plain_context(bytes), shape, 4, &thresholds, first).unwrap();
        let mut words = Vec::new();
        for (n, &threshold) in thresholds.iter().enumerate() {
            let at = first.at_row(4 + (n / 5) as u32).at_unit((n % 5) as u32);
            words.extend(reference::encode(threshold, shape.length(), at).into_words());
        }
        assert_eq!(layer.words().unwrap(), words);
    }
}

#[test]
fn set_weights_takes_effect() {
    let mut draw = Draw::new(17);
    let one = Case::new(&mut draw, 4, 6, 3, 90, Polarity::Unipolar);
    let mut layer =
        GpuDense::from_words(&context(), one.shape, 8, &vec![0; one.weights.len()]).unwrap();
    assert_eq!(layer.counts(&one.inputs, one.first).unwrap(), vec![0; 18]);
    layer.set_words(&one.weights).unwrap();
    assert_eq!(layer.counts(&one.inputs, one.first).unwrap(), one.counts);
    layer.set_thresholds(&[Threshold::ZERO; 24], one.first).unwrap();
    assert_eq!(layer.counts(&one.inputs, one.first).unwrap(), vec![0; 18]);
}

#[test]
fn known_answers_match() {
    let mut seen = 0;
    for answer in answers().unwrap() {
        let Answer::Dense {
            n_inputs,
            n_neurons,
            length: bits,
            weight_seed,
            input_seed,
            sample,
            counts,
        } = answer
        else {
            continue;
        };
        let shape = DenseShape::new(n_inputs, n_neurons, length(bits), Polarity::Unipolar).unwrap();
        let mut thresholds = Vec::new();
        for neuron in 0..n_neurons {
            let mut row = vec![0.0; n_inputs];
            weights::fill_row(
                weight_seed,
                LayerIndex::ALONE,
                neuron as u32,
                Polarity::Unipolar,
                &mut row,
            );
            thresholds.extend(row.into_iter().map(|w| Threshold::from_probability(w).unwrap()));
        }
        let first = StreamAddress::weight(weight_seed, 0, 0);
        let layer = GpuDense::from_thresholds(&context(), shape, 1, &thresholds, first).unwrap();
        let inputs: Vec<_> =
            (0..n_inputs).map(|i| Threshold::from_probability(dense_input(i)).unwrap()).collect();
        assert_eq!(
            layer.counts(&inputs, StreamAddress::input(input_seed, 0, sample)).unwrap(),
            counts
        );
        seen += 1;
    }
    assert_eq!(seen, 4);
}

#[test]
fn second_call_creates_no_objects() {
    let context = crate::common::own_context(&aleatron_gpu::ContextOptions::default());
    let mut draw = Draw::new(18);
    let case = Case::new(&mut draw, 12, 20, 40, 100, Polarity::Unipolar);
    let layer = GpuDense::from_words(&context, case.shape, 64, &case.weights).unwrap();
    for n_samples in [1, 5, 12, 25, 40] {
        let inputs = &case.inputs[..12 * n_samples];
        let streams = draw.streams(12 * n_samples, case.shape.length());
        let counts = layer.counts(inputs, case.first).unwrap();
        let of_streams = layer.counts_of_streams(&streams).unwrap();
        let before = context.created();
        assert!(
            before.pipelines >= 2 && before.buffers >= 5 && before.bind_groups >= 2,
            "{before:?}"
        );
        for _ in 0..3 {
            assert_eq!(layer.counts(inputs, case.first).unwrap(), counts);
            assert_eq!(layer.counts_of_streams(&streams).unwrap(), of_streams);
        }
        assert_eq!(context.created(), before, "{n_samples} samples");
    }
}

#[test]
fn invalid_requests_are_errors() {
    let context = context();
    let shape = DenseShape::new(3, 2, length(10), Polarity::Unipolar).unwrap();
    let core = |error: Error| match error {
        Error::Core(error) => error.to_string(),
        other => panic!("{other}"),
    };
    let new = |max_batch, words: &[u64]| GpuDense::from_words(&context, shape, max_batch, words);
    assert_eq!(core(new(0, &[0; 6]).unwrap_err()), "number of samples must be at least 1");
    assert_eq!(core(new(1, &[0; 5]).unwrap_err()), "number of packed words: expected 6, got 5");
    let dirty = new(1, &[0, 0, 0, 1 << 10, 0, 0]).unwrap_err();
    assert_eq!(core(dirty), "stream 3 has ones past its length of 10 bits");
    let mut layer = new(1, &[0; 6]).unwrap();
    let first = StreamAddress::input(1, 0, 0);
    assert_eq!(
        core(layer.counts(&[Threshold::ONE; 4], first).unwrap_err()),
        "number of inputs: 4 is not a multiple of 3"
    );
    assert!(layer.counts(&[], first).unwrap().is_empty());
    assert!(layer.counts_of_streams(&[0; 4]).is_err());
    assert!(layer.counts_of_streams(&[1 << 20, 0, 0]).is_err());
    assert!(layer.set_thresholds(&[Threshold::ONE; 5], first).is_err());
    let refuse =
        |_, _: &mut Vec<Threshold>| Err(aleatron_core::Error::Zero(Quantity::Inputs).into());
    assert_eq!(
        core(layer.counts_filled(2, first, refuse).unwrap_err()),
        "number of inputs must be at least 1"
    );
    let lazy = layer.counts_filled(2, first, |_, _| Ok(())).unwrap_err();
    assert_eq!(core(lazy), "number of inputs: expected 3, got 0");
    let past = layer.counts(&[Threshold::ONE; 6], first.at_row(u32::MAX));
    assert!(matches!(past, Err(Error::TooLarge { .. })), "{past:?}");
    // More samples than rows, or than memory for their counts; no thresholds are requested before
    // that is known.
    for n_samples in [1 << 32, usize::MAX] {
        let filled = layer.counts_filled(n_samples, first.at_row(1), |_, _| panic!("too early"));
        assert!(matches!(filled, Err(Error::TooLarge { .. })), "{filled:?}");
    }
    assert!(!layer.is_lost());
    assert_eq!(layer.counts(&[Threshold::ONE; 3], first.at_row(u32::MAX)).unwrap(), [0, 0]);
}

#[test]
fn call_can_be_cancelled_between_chunks() {
    let mut draw = Draw::new(20);
    let case = Case::new(&mut draw, 6, 5, 50, 130, Polarity::Unipolar);
    let layer = GpuDense::from_words(&context(), case.shape, 4, &case.weights).unwrap();
    assert_eq!(layer.chunk(), 4);
    for allowed in [0, 1, 5, 13, 100] {
        let asked = AtomicUsize::new(0);
        let is_over = || asked.fetch_add(1, Ordering::Relaxed) >= allowed;
        let options = CountOptions { cancel: Cancel::when(&is_over), ..CountOptions::default() };
        let filled = Cell::new(0);
        let mut fill = |samples: Range<usize>, out: &mut Vec<Threshold>| {
            filled.set(filled.get() + 1);
            out.extend(&case.inputs[samples.start * 6..samples.end * 6]);
            Ok(())
        };
        let source = ThresholdSource::Filled { n_samples: 50, fill: &mut fill };
        let inputs = Inputs::Thresholds { source, first: case.first };
        let counts = layer.counts_with(inputs, options);
        if allowed < 13 {
            assert_eq!(counts, Err(aleatron_core::Error::Cancelled.into()));
            assert_eq!(filled.get(), allowed, "no chunk is begun after the check");
        } else {
            assert_eq!(counts.unwrap(), case.counts);
        }
        // Chunks in flight do not disturb later calls.
        assert_eq!(layer.counts(&case.inputs, case.first).unwrap(), case.counts);
    }
}

#[test]
fn layer_can_be_shared_by_threads() {
    let mut draw = Draw::new(19);
    let case = Case::new(&mut draw, 9, 8, 20, 100, Polarity::Unipolar);
    let layer = GpuDense::from_words(&context(), case.shape, 8, &case.weights).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5 {
                    assert_eq!(layer.counts(&case.inputs, case.first).unwrap(), case.counts);
                }
            });
        }
    });
}

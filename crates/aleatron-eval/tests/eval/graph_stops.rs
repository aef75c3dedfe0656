//! Early termination of graphs: partial lengths, decision margins and certain stops.

use crate::support::{
    Classes, constant, dense, evaluated, features, gemm, given, graph, labelled, one_seed, scaled,
};
use aleatron_data::Dataset;
use aleatron_engine::network::{Arithmetic, Mode, Op, StreamConfig};
use aleatron_eval::{Evaluation, Plan};
use aleatron_graph::Unary;
use aleatron_graph::op::{Softmax, SoftmaxAxes};

#[test]
fn wider_margins_stop_later() {
    // More than one chunk of samples.
    let (network, data) = labelled(300);
    for generator in ["bernoulli", "lfsr"] {
        let plan = one_seed(generator, &[64, 512]);
        let found = evaluated(&network, &data, &plan);
        for cell in &found.cells {
            assert_eq!(cell.classes().early.len(), plan.margins.len());
            // The wider the margin, the later samples stop.
            assert!(
                cell.classes().early.is_sorted_by(|a, b| a.mean_cycles <= b.mean_cycles),
                "{:?}",
                cell.classes().early
            );
            let (hasty, careful) =
                (cell.classes().early[0], cell.classes().early[cell.classes().early.len() - 1]);
            assert!(hasty.stopped > 0.5 && hasty.mean_cycles < cell.length as f64, "{hasty:?}");
            assert!(careful.accuracy_lost <= hasty.accuracy_lost);
            let certain = cell.classes().certain.unwrap();
            assert!(
                certain.stopped > 0.0 && certain.mean_cycles < cell.length as f64,
                "{certain:?}"
            );
        }
        // A run of one length finds the same as one of several, which shares the partial lengths of
        // the shorter.
        let alone = evaluated(&network, &data, &one_seed(generator, &[512]));
        assert_eq!(alone.without_times().cells[0], found.without_times().cells[1]);
    }
}

/// A margin that no sample reaches stops none: every partial length and every restart is counted.
#[test]
fn cycles_count_every_partial_length_and_restart() {
    let (network, data) = labelled(20);
    let plan = Plan { margins: vec![1e12], ..one_seed("sobol", &[32]) };
    let found = evaluated(&network, &data, &plan);
    let stop = found.cells[0].classes().early[0];
    // 8, 16 and 32 cycles: 32 in the first layer, their sum in the second.
    assert_eq!((stop.mean_cycles, stop.stopped), ((32.0 + 56.0) / 2.0, 0.0));
    assert_eq!(stop.accuracy, found.cells[0].classes().accuracy);
}

/// The class that leads when a sample is certain is that of the whole run.
#[test]
fn certain_class_is_the_class_of_the_whole_run() {
    let (network, n) = (dense(), 400);
    let x = features(n * 6, 5);
    let data = Dataset::new("made", 6, x.clone(), network.predict(&x).unwrap()).unwrap();
    for generator in ["bernoulli", "bernoulli+sobol:2", "sobol:1+bernoulli"] {
        let plan = one_seed(generator, &[64]);
        let found = evaluated(&network, &data, &plan);
        let certain = found.cells[0].classes().certain.unwrap();
        assert!(certain.stopped > 0.0, "{certain:?}");
        // If the class of the first bits differs from that of all bits, the sample was not certain
        // at that length.
        let classes = |length| {
            let config = StreamConfig::new(length).generator(generator.parse().unwrap()).seed(0);
            network.to_streams(&config).unwrap().predict(&x, 0).unwrap()
        };
        let ends = classes(64);
        let mut least = vec![4; ends.len()];
        for length in (4..64).step_by(4) {
            for (sample, class) in classes(length).into_iter().enumerate() {
                if class != ends[sample] {
                    least[sample] = length + 4;
                }
            }
        }
        let least: usize = least.iter().sum();
        assert!(least > n * 4, "{generator}: no class changes, so the samples show nothing");
        assert!(certain.mean_cycles * n as f64 >= least as f64, "{generator}: {certain:?} {least}");
    }
}

#[test]
fn scores_behind_other_nodes_have_no_early_stops() {
    let with = |op: Option<Op>| {
        let network = graph(&[6], |graph, x| {
            let w = constant(graph, "w", &[4, 6], 1);
            let y = graph.add_node("fc", gemm(), &[x, w]);
            op.map_or(y, |op| graph.add_node("after", op, &[y]))
        });
        let x = features(30 * 6, 8);
        let data = Dataset::new("d", 6, x.clone(), network.predict(&x).unwrap()).unwrap();
        evaluated(&network, &data, &one_seed("sobol", &[16]))
    };
    let plain = with(None);
    assert!(
        !plain.cells[0].classes().early.is_empty() && plain.cells[0].classes().certain.is_some()
    );
    assert_eq!(
        with(Some(Op::Flatten { axis: 1 })).cells[0].classes().early,
        plain.cells[0].classes().early
    );
    let relu = with(Some(Op::Unary(Unary::Relu)));
    assert!(
        relu.cells[0].classes().early.is_empty()
            && relu.cells[0].classes().certain.is_none()
            && relu.plan.margins.is_empty()
    );
    // Both survive a file.
    for found in [plain, relu] {
        let read = Evaluation::from_json(&found.to_json().unwrap()).unwrap();
        assert_eq!(read, found);
    }
}

/// A softmax of one score is 1 for any score: no partial length can decide it.
#[test]
fn softmax_of_one_score_has_no_early_stops() {
    let with = |n: usize| {
        let network = graph(&[2], |graph, x| {
            let weights: Vec<f32> = (0..2 * n).map(|k| k as f32 / 4.0 - 0.5).collect();
            let w = given(graph, "w", &weights, &[2, n]);
            let fc = graph.add_node("fc", Op::MatMul, &[x, w]);
            let softmax = Op::Softmax { function: Softmax::Softmax, axes: SoftmaxAxes::One(-1) };
            graph.add_node("softmax", softmax, &[fc])
        });
        let x = features(10 * 2, 3);
        let data = Dataset::new("d", 2, x.clone(), network.predict(&x).unwrap()).unwrap();
        evaluated(&network, &data, &one_seed("sobol", &[16]))
    };
    assert!(with(1).cells[0].classes().early.is_empty());
    let two = with(2);
    assert_eq!(
        (two.cells[0].classes().early.is_empty(), two.cells[0].classes().certain),
        (false, None)
    );
}

/// An input of 1, one neuron that gains a bit in every cycle and one that loses one: after p of 64
/// cycles the first leads for certain if p / 64 is more than the bias less `weight` p / 64.
#[test]
fn certain_stops_are_in_the_units_of_the_scores() {
    // Eight bits less a part of a unit, which is 1/256 of a bit, or half of that if the weight is:
    // rounded, it is a tie after four.
    let nearly = 8.0 / 64.0 * (1.0 - 2f32.powi(-14));
    for (weight, bias, float, integer) in
        [(1.0, nearly, 4.0, 8.0), (0.5, 9.0 / 64.0, 8.0, 8.0), (0.25, 15.5 / 64.0, 16.0, 16.0)]
    {
        let network = graph(&[1], |graph, x| {
            let w = given(graph, "w", &[1.0, -weight], &[2, 1]);
            let b = given(graph, "b", &[0.0, bias], &[2]);
            graph.add_node("fc", gemm(), &[x, w, b])
        });
        let data = Dataset::new("one", 1, vec![1.0; 3], vec![0; 3]).unwrap();
        for (arithmetic, cycles) in [(Arithmetic::Float, float), (Arithmetic::Integer, integer)] {
            let plan = Plan { arithmetic, margins: vec![6.0], ..one_seed("bernoulli", &[64]) };
            let found = evaluated(&network, &data, &plan);
            let certain = found.cells[0].classes().certain.unwrap();
            assert_eq!(
                (certain.mean_cycles, certain.stopped),
                (cycles, 1.0),
                "{weight} {arithmetic}"
            );
            // The lead is 1 + weight - bias, of which the root of half a bit over the cycles is the
            // deviation.
            let stops = |cycles: f32| (1.0 + weight - bias) * (2.0 * cycles).sqrt() >= 6.0;
            let first = [8.0, 16.0, 32.0, 64.0].into_iter().find(|&cycles| stops(cycles)).unwrap();
            assert_eq!(
                found.cells[0].classes().early[0].mean_cycles,
                f64::from(first),
                "{weight} {arithmetic}"
            );
        }
    }
}

/// Scores of a layer in binary have no counting noise.
#[test]
fn scores_in_binary_have_no_early_stops() {
    let network = scaled();
    for (name, stops) in [("first", true), ("last", false)] {
        let network = network.clone().with_mode(name, Mode::Binary).unwrap();
        let data =
            Dataset::new("eights", 8, features(8 * 5, 5), (0..5).map(|k| k % 4).collect()).unwrap();
        let found = evaluated(&network, &data, &one_seed("sobol", &[16]));
        let cell = &found.cells[0];
        assert_eq!(
            (!cell.classes().early.is_empty(), cell.classes().certain.is_some()),
            (stops, stops),
            "{name}"
        );
    }
}

//! Cells summarized over their seeds.

use super::{cell, evaluation, example};
use crate::support::{Classes, generator};
use aleatron_engine::stream::LayerStats;
use aleatron_eval::{CertainStop, EarlyStop, Row};

#[test]
fn rows_summarize_their_cells() {
    let mut cells =
        vec![cell("bernoulli", 8, 0, 80), cell("bernoulli", 8, 1, 90), cell("bernoulli", 8, 2, 70)];
    let stats = |counts, [a, b, c, d]: [f64; 4], saturated| LayerStats {
        counts,
        mean_count: a,
        worst_count: b,
        mean_value: c,
        worst_value: d,
        mean_signal: 2.0 * c,
        saturated,
    };
    cells[0].layers = vec![stats(300, [1.0, 9.0, 0.25, 0.5], 1)];
    cells[1].layers = vec![stats(200, [2.0, 4.0, 0.5, 2.0], 5)];
    cells[2].layers = vec![stats(100, [6.0, 7.0, 0.75, 1.0], 7)];
    let early = |mean_cycles, accuracy, accuracy_lost, stopped| EarlyStop {
        margin: 1.5,
        mean_cycles,
        accuracy,
        accuracy_lost,
        stopped,
    };
    cells[0].classes_mut().early = vec![early(2.0, 0.5, 0.25, 0.0)];
    cells[1].classes_mut().early = vec![early(4.0, 0.75, 0.125, 0.5)];
    cells[2].classes_mut().early = vec![early(9.0, 0.25, 0.0, 1.0)];
    cells[0].classes_mut().certain = Some(CertainStop { mean_cycles: 4.0, stopped: 0.25 });
    cells[1].classes_mut().certain = None;
    cells[2].classes_mut().certain = Some(CertainStop { mean_cycles: 8.0, stopped: 0.75 });
    (cells[0].samples_per_second, cells[1].samples_per_second, cells[2].samples_per_second) =
        (1.0, 2.0, 6.0);
    (cells[0].bit_macs_per_second, cells[1].bit_macs_per_second, cells[2].bit_macs_per_second) =
        (10.0, 20.0, 60.0);
    let evaluation = evaluation(cells);
    let rows = evaluation.rows();
    assert_eq!(rows.len(), 1);
    let row: &Row = &rows[0];
    assert_eq!(
        (row.generator, row.length, row.classes().accuracy.n),
        (generator("bernoulli"), 8, 3)
    );
    assert!((row.score() - 0.8).abs() < 1e-12 && (row.classes().agreement - 0.79).abs() < 1e-12);
    assert_eq!(row.classes().accuracies, [0.8, 0.9, 0.7]);
    // Deviation of the mean 0.1 / sqrt 3, Student's t of two degrees of freedom 4.303.
    let half = 4.303 * 0.1 / 3f64.sqrt();
    assert!(
        (row.classes().accuracy.low - (0.8 - half)).abs() < 1e-12
            && row.classes().accuracy.high == 1.0
    );
    assert_eq!(row.layers, [stats(600, [3.0, 9.0, 0.5, 2.0], 13)]);
    assert_eq!(row.classes().early, [early(5.0, 0.5, 0.125, 0.5)]);
    assert_eq!(row.classes().certain, Some(CertainStop { mean_cycles: 6.0, stopped: 0.5 }));
    assert_eq!((row.samples_per_second, row.bit_macs_per_second), (3.0, 30.0));
    // 20, 10 and 30 wrong, half of them in each class.
    assert_eq!(row.classes().confusion, [[120, 30], [30, 120]]);
}

#[test]
fn sums_of_confusion_matrices_do_not_overflow() {
    let mut cells = vec![cell("bernoulli", 8, 0, 80), cell("bernoulli", 8, 1, 80)];
    for cell in &mut cells {
        cell.classes_mut().confusion = vec![vec![u32::MAX, u32::MAX], vec![0, 1]];
    }
    let evaluation = evaluation(cells);
    let most = 2 * u64::from(u32::MAX);
    assert_eq!(evaluation.rows()[0].classes().confusion, [[most, most], [0, 2]]);
    assert!(super::page(&evaluation).contains(&format!("0 / 1: {most}")));
}

#[test]
fn rows_are_in_the_order_of_the_plan() {
    let mut evaluation = example();
    evaluation.cells.reverse();
    let keys = |rows: &[Row]| {
        rows.iter().map(|row| (row.generator.to_string(), row.length)).collect::<Vec<_>>()
    };
    let expected = ["sobol", "bernoulli"]
        .map(|name| [8, 16, 64].map(|length| (name.to_owned(), length)))
        .concat();
    assert_eq!(keys(&evaluation.rows()), expected);
    assert_eq!(keys(&evaluation.rows_of("bernoulli")), expected[3..]);
    assert!(evaluation.rows_of("lfsr").is_empty());
    // A length without cells has no row.
    evaluation.cells.retain(|cell| cell.length != 16);
    assert_eq!(evaluation.rows().len(), 4);
    assert!(evaluation.is_complete());
    evaluation.unfinished = 3;
    assert!(!evaluation.is_complete());
}

#[test]
fn shortest_length_is_followed_by_accurate_lengths_only() {
    let shortest = |rights: [u32; 4], points: f64| {
        let cells = [8, 16, 32, 64]
            .into_iter()
            .zip(rights)
            .map(|(length, right)| cell("sobol", length, 0, right));
        evaluation(cells.collect()).shortest_within("sobol", points).unwrap()
    };
    // 90 % in floating point.
    assert_eq!(shortest([50, 80, 89, 90], 1.0), Some(32));
    assert_eq!(shortest([89, 88, 89, 90], 1.0), Some(32));
    assert_eq!(shortest([89, 89, 89, 89], 1.0), Some(8));
    assert_eq!(shortest([89, 89, 89, 88], 1.0), None);
    assert_eq!(shortest([88, 88, 88, 88], 2.0), Some(8));
    assert_eq!(shortest([88, 89, 90, 91], 0.0), Some(32));
}

#[test]
fn early_termination_is_reported_near_floating_point() {
    let evaluation = evaluation(
        [84, 85, 86]
            .map(|right| cell(&format!("sobol:{}+bernoulli", right - 80), 8, 0, right))
            .to_vec(),
    );
    let rows = evaluation.rows();
    assert_eq!([0, 1, 2].map(|k| evaluation.has_early(&rows[k])), [false, true, true]);
}

#[test]
fn early_stop_within_a_loss_has_the_fewest_cycles() {
    let stop = |margin, mean_cycles, lost| EarlyStop {
        margin,
        mean_cycles,
        accuracy: 0.9 - lost,
        accuracy_lost: lost,
        stopped: 0.5,
    };
    let mut evaluation = evaluation(vec![cell("sobol", 64, 0, 90)]);
    evaluation.cells[0].classes_mut().early = vec![
        stop(1.0, 8.0, 0.02),
        stop(2.0, 24.0, 0.005),
        stop(3.0, 16.0, 0.005),
        stop(4.0, 64.0, 0.0),
        stop(5.0, 70.0, -0.01),
    ];
    let row = evaluation.rows().remove(0);
    let margin = |points| row.early_within(points).map(|stop| stop.margin);
    assert_eq!([2.0, 1.0, 0.5].map(margin), [Some(1.0), Some(3.0), Some(3.0)]);
    // Stops that take as many cycles as the full run are not counted.
    assert_eq!([0.4, 0.0, -1.0].map(margin), [None, None, None]);
}

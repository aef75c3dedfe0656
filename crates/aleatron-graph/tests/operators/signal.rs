//! Fourier transforms, windows and boxes.

use super::file::{code, graph, int, integers, node, read, reals, run, tensor, value};

/// Returns the transform by its definition, in 64 bits.
fn transform(x: &[f32], sign: f64) -> Vec<[f64; 2]> {
    let n = x.len();
    let term =
        |j: usize, k: usize| sign * 2.0 * std::f64::consts::PI * ((j * k) % n) as f64 / n as f64;
    (0..n)
        .map(|k| {
            let sum = |f: fn(f64) -> f64| (0..n).map(|j| f64::from(x[j]) * f(term(j, k))).sum();
            [sum(f64::cos), sum(f64::sin)]
        })
        .collect()
}

#[test]
fn dft_matches_its_definition_for_any_length() {
    for n in [1_usize, 2, 3, 5, 8, 12, 100, 127] {
        let x: Vec<f32> = (0..n).map(|k| ((k * 29 + 7) % 23) as f32 - 11.0).collect();
        let file = graph(
            vec![node("DFT", &["x", "", "axis"], &["y"], vec![])],
            vec![value("x", code::FLOAT, &[1, n as i64, 1])],
            &["y"],
            vec![integers("axis", code::INT64, &[], &[1])],
        );
        let made = run::<f32>(&read(file).unwrap(), &[tensor(&x, &[1, n, 1])]).remove(0);
        let expected: Vec<f64> = transform(&x, -1.0).into_iter().flatten().collect();
        for (k, (a, b)) in made.iter().zip(&expected).enumerate() {
            assert!((f64::from(*a) - b).abs() < 1e-4, "{n} {k}: {a} instead of {b}");
        }
    }
    // An impulse has all frequencies, exactly.
    let file = graph(
        vec![node("DFT", &["x"], &["y"], vec![int("onesided", 1)])],
        vec![value("x", code::FLOAT, &[1, 4, 1])],
        &["y"],
        vec![],
    );
    let made = run::<f32>(&read(file).unwrap(), &[tensor(&[3.0_f32, 0.0, 0.0, 0.0], &[1, 4, 1])]);
    assert_eq!(made[0], [3.0, 0.0, 3.0, 0.0, 3.0, 0.0]);
}

#[test]
fn windows_have_the_values_of_their_formulas() {
    let window = |op: &str, n: i64, periodic: i64| {
        let nodes = vec![node(op, &["n"], &["y"], vec![int("periodic", periodic)])];
        let file = graph(nodes, vec![], &["y"], vec![integers("n", code::INT64, &[], &[n])]);
        run::<f32>(&read(file).unwrap(), &[]).remove(0)
    };
    assert_eq!(window("HannWindow", 4, 1), [0.0, 0.5, 1.0, 0.5]);
    assert_eq!(window("HannWindow", 3, 0), [0.0, 1.0, 0.0]);
    let edge = (25.0_f64 / 46.0 - 21.0 / 46.0) as f32;
    assert_eq!(window("HammingWindow", 3, 0), [edge, 1.0, edge]);
    let blackman = window("BlackmanWindow", 3, 0);
    assert!(blackman[0].abs() < 1e-7 && blackman[1] == 1.0, "{blackman:?}");
}

/// Two frames of a constant signal: all of it is at frequency 0.
#[test]
fn stft_has_a_spectrum_of_each_frame() {
    let file = graph(
        vec![node("STFT", &["x", "step", "window"], &["y"], vec![])],
        vec![value("x", code::FLOAT, &[1, 6, 1])],
        &["y"],
        vec![
            integers("step", code::INT64, &[], &[2]),
            reals("window", &[4], &[1.0, 2.0, 2.0, 1.0]),
        ],
    );
    let made = run::<f32>(&read(file).unwrap(), &[tensor(&[1.0_f32; 6], &[1, 6, 1])]).remove(0);
    // The transform of 1, 2, 2, 1 is 6, -1 - i, 0, and so on.
    let frame = [6.0, 0.0, -1.0, -1.0, 0.0, 0.0];
    assert_eq!(made, [frame, frame].concat());
}

#[test]
fn non_max_suppression_removes_boxes_that_overlap_better_ones() {
    let boxes =
        [0.0_f32, 0.0, 2.0, 2.0, 0.0, 0.5, 2.0, 2.5, 0.0, 4.0, 2.0, 6.0, 0.0, 4.0, 2.0, 6.0];
    let scores = [0.7_f32, 0.9, 0.5, 0.5, 0.1, 0.2, 0.3, 0.4];
    let suppress = |iou: f32, least: f32, most: i64| {
        let file = graph(
            vec![node("NonMaxSuppression", &["b", "s", "most", "iou", "least"], &["y"], vec![])],
            vec![value("b", code::FLOAT, &[1, 4, 4]), value("s", code::FLOAT, &[1, 2, 4])],
            &["y"],
            vec![
                integers("most", code::INT64, &[], &[most]),
                reals("iou", &[], &[iou]),
                reals("least", &[], &[least]),
            ],
        );
        let inputs = [tensor(&boxes, &[1, 4, 4]), tensor(&scores, &[1, 2, 4])];
        run::<i64>(&read(file).unwrap(), &inputs).remove(0)
    };
    // Boxes 0 and 1 share 3 of 5; boxes 2 and 3 are one.
    assert_eq!(suppress(0.5, 0.25, 9), [0, 0, 1, 0, 0, 2, 0, 1, 3]);
    assert_eq!(suppress(0.6, 0.25, 9), [0, 0, 1, 0, 0, 0, 0, 0, 2, 0, 1, 3]);
    assert_eq!(suppress(0.5, 0.25, 1), [0, 0, 1, 0, 1, 3]);
    assert_eq!(suppress(0.5, 0.95, 9), [] as [i64; 0]);
}

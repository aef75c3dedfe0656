//! Layouts of chains, branches and residual networks.
#![allow(clippy::unwrap_used)]

use super::*;

/// A chain of `n` vertices.
fn chain(n: usize) -> Vec<Vec<usize>> {
    (0..n).map(|k| if k == 0 { vec![] } else { vec![k - 1] }).collect()
}

/// Blocks of conv, relu, conv and a sum with the input of the block; every third block has a
/// convolution in its shortcut, as where a residual network changes its resolution.
fn residual(blocks: usize) -> Vec<Vec<usize>> {
    let mut takes = vec![vec![], vec![0]];
    for block in 0..blocks {
        let input = takes.len() - 1;
        takes.push(vec![input]);
        takes.extend((0..2).map(|k| vec![input + 1 + k]));
        let last = takes.len() - 1;
        let shortcut = if block % 3 == 2 {
            takes.push(vec![input]);
            takes.len() - 1
        } else {
            input
        };
        takes.push(vec![last, shortcut]);
        takes.push(vec![takes.len() - 1]);
    }
    takes
}

/// Points along a path of lines and curves.
fn sampled(path: &str) -> Vec<[f64; 2]> {
    let mut text = String::new();
    for c in path.chars() {
        if c.is_ascii_alphabetic() {
            text.push_str(&format!(" {c} "));
        } else {
            text.push(c);
        }
    }
    let mut words = text.split_whitespace();
    let (mut at, mut points) = ([0.0, 0.0], Vec::new());
    while let Some(command) = words.next() {
        let mut number = || words.next().unwrap().parse::<f64>().unwrap();
        let control = match command {
            "M" => {
                at = [number(), number()];
                [at; 3]
            }
            "V" => [[at[0], number()]; 3],
            "H" => [[number(), at[1]]; 3],
            "C" => [(); 3].map(|()| [number(), number()]),
            other => panic!("{other}"),
        };
        let is_line = command != "C";
        for step in 1..=32 {
            let t = f64::from(step) / 32.0;
            let s = 1.0 - t;
            points.push([0, 1].map(|k| {
                let [a, b, c, d] = [at[k], control[0][k], control[1][k], control[2][k]];
                if is_line {
                    s * a + t * d
                } else {
                    s * s * s * a + 3.0 * s * s * t * b + 3.0 * s * t * t * c + t * t * t * d
                }
            }));
        }
        at = control[2];
    }
    points
}

/// Checks that vertices do not overlap, that everything is inside the drawing, that edges begin and
/// end at their vertices, and that no edge runs through another vertex.
fn check(takes: &[Vec<usize>]) -> Layout {
    let found = layout(takes).unwrap();
    let [w, h] = BOX;
    for (k, a) in found.centres.iter().enumerate() {
        assert!(a[0] >= w / 2.0 && a[0] <= found.size[0] - w / 2.0, "{k}: {a:?} {:?}", found.size);
        assert!(a[1] >= h / 2.0 && a[1] <= found.size[1] - h / 2.0, "{k}: {a:?} {:?}", found.size);
        for b in &found.centres[..k] {
            assert!((a[0] - b[0]).abs() >= w || (a[1] - b[1]).abs() >= h, "{a:?} {b:?}");
        }
    }
    let ends: Vec<[usize; 2]> =
        takes.iter().enumerate().flat_map(|(k, all)| all.iter().map(move |&a| [a, k])).collect();
    assert_eq!(found.edges.len(), ends.len());
    for ((path, end), [from, to]) in found.edges.iter().zip(ends) {
        let points = sampled(path);
        let (first, last) = (points[0], points[points.len() - 1]);
        let [a, b] = [found.centres[from], found.centres[to]];
        assert!((first[0] - a[0]).abs() < w / 2.0 && (first[1] - a[1] - h / 2.0).abs() < 0.2);
        assert!((last[0] - b[0]).abs() < w / 2.0 && (last[1] - b[1] + h / 2.0).abs() < 0.2);
        assert!((last[0] - end[0]).abs() < 0.2 && (last[1] - end[1]).abs() < 0.2);
        for [x, y] in points {
            assert!((0.0..=found.size[0]).contains(&x) && (0.0..=found.size[1]).contains(&y));
            for (k, centre) in found.centres.iter().enumerate() {
                let inside =
                    (x - centre[0]).abs() < w / 2.0 - 1.0 && (y - centre[1]).abs() < h / 2.0 - 1.0;
                assert!(!inside, "the edge {from} to {to} runs through {k}: {path}");
            }
        }
    }
    found
}

#[test]
fn chain_is_one_straight_column() {
    let found = check(&chain(12));
    assert!(found.centres.iter().all(|centre| centre[0] == found.centres[0][0]));
    assert!(found.centres.is_sorted_by(|a, b| a[1] < b[1]));
    assert!(found.edges.iter().all(|(path, _)| !path.contains(['C', 'H'])));
}

#[test]
fn residual_edges_run_beside_a_straight_chain() {
    // The shortcut of one block: 1 to the sum in vertex 5.
    let found = check(&residual(1));
    let straight = found.centres[0][0];
    assert!(found.centres.iter().all(|centre| centre[0] == straight), "{found:?}");
    let bent: Vec<&String> =
        found.edges.iter().map(|(path, _)| path).filter(|path| path.contains('C')).collect();
    assert_eq!(bent.len(), 1);
    let far = sampled(bent[0]).into_iter().map(|[x, _]| (x - straight).abs()).fold(0.0, f64::max);
    assert!(far > BOX[0] / 2.0, "{far}");
    // Edges that meet in the sum enter it at different points.
    let ends: Vec<[f64; 2]> = found.edges[4..6].iter().map(|(_, end)| *end).collect();
    assert!(ends[0][1] == ends[1][1] && (ends[0][0] - ends[1][0]).abs() > 5.0, "{ends:?}");
}

/// A convolution in a shortcut gives way to the chain beside it.
#[test]
fn longest_chain_is_straight_beside_branches() {
    let found = check(&residual(3));
    let straight = found.centres[0][0];
    assert_eq!(found.centres.iter().filter(|centre| centre[0] != straight).count(), 1, "{found:?}");
}

#[test]
fn large_residual_network_fits_a_page() {
    let takes = residual(22);
    assert!(takes.len() > 100);
    let found = check(&takes);
    assert!(found.size[0] <= 1040.0 && found.size[1] <= 4000.0, "{:?}", found.size);
    // A chain of a hundred is folded: four columns of 178 fit into 1000, with three edges between.
    let found = check(&chain(100));
    assert!(found.size[0] <= 1040.0 && found.size[1] <= 1700.0, "{:?}", found.size);
    assert_eq!(found.edges.iter().filter(|(path, _)| path.contains('H')).count(), 3);
}

#[test]
fn branches_are_beside_each_other_without_crossings() {
    // Four branches of two vertices each, listed so that neighbours alternate, and their join.
    let mut takes = vec![vec![]];
    takes.extend([vec![0], vec![0], vec![0], vec![0]]);
    takes.extend([vec![3], vec![1], vec![4], vec![2]]);
    takes.push(vec![5, 6, 7, 8]);
    let found = check(&takes);
    assert_eq!(found.centres[1..5].iter().filter(|c| c[1] == found.centres[1][1]).count(), 4);
    let (items, _) = items(&takes, &layer_of(&takes));
    assert_eq!(crossings(&items, &ordered(&items)), 0);
    let unordered: Vec<Vec<usize>> = vec![vec![0], vec![1, 2, 3, 4], vec![5, 6, 7, 8], vec![9]];
    // 1-6 crosses 3-5; 2-8 crosses 3-5 and 4-7.
    assert_eq!(crossings(&items, &unordered), 3);
}

#[test]
fn late_inputs_are_just_before_their_use() {
    // Vertex 1 is an input that only the last one takes.
    assert_eq!(layer_of(&[vec![], vec![], vec![0], vec![2], vec![3, 1]]), [0, 2, 1, 2, 3]);
}

#[test]
fn graphs_without_vertices_or_with_too_many_are_not_drawn() {
    assert!(layout(&[]).is_none());
    assert!(layout(&chain(MOST)).is_some());
    assert!(layout(&chain(MOST + 1)).is_none());
    // Every vertex takes all before it: 200 vertices have a million slots.
    let dense: Vec<Vec<usize>> = (0..200).map(|k| (0..k).collect()).collect();
    assert!(layout(&dense).is_none());
    let dense: Vec<Vec<usize>> = (0..12).map(|k| (0..k).collect()).collect();
    check(&dense);
}

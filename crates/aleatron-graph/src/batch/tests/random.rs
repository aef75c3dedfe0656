//! Random graphs: batches of graphs classified as independent can be cut anywhere, bit for bit.

use super::*;

/// Draws numbers from a seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n.max(1)
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    fn axis(&mut self, rank: usize) -> i64 {
        self.below(rank) as i64
    }
}

/// Returns the shape of a value for one sample.
fn shape_of(graph: &Graph, id: ValueId) -> Option<(Vec<usize>, DType)> {
    let mut graph = graph.clone();
    graph.outputs = vec![id];
    let made = Runner::new(graph.clone(), &Device::Cpu).ok()?.run(samples(&graph, 1)).ok()?;
    Some((made[0].shape().to_vec(), made[0].dtype()))
}

/// Returns a shape with as many elements, some sizes of which may be left open, or be those of the
/// input.
fn other_shape(draw: &mut Draw, shape: &[usize]) -> Vec<i64> {
    let mut sizes: Vec<usize> = Vec::new();
    let mut rest: usize = shape.iter().product();
    for _ in 0..draw.below(3) {
        let divisors: Vec<usize> = (1..=rest).filter(|d| rest.is_multiple_of(*d)).collect();
        let size = draw.one_of(&divisors);
        sizes.push(size);
        rest /= size;
    }
    sizes.insert(draw.below(sizes.len() + 1), rest);
    let mut sizes: Vec<i64> = sizes.into_iter().map(|size| size as i64).collect();
    if draw.below(4) > 0 {
        let open = draw.below(sizes.len());
        sizes[open] = -1;
    }
    if draw.below(3) == 0 && shape.first().is_some_and(|&size| sizes[0] == size as i64) {
        sizes[0] = 0;
    }
    sizes
}

/// Adds a random node that takes `x`; `None` if what was drawn cannot be.
fn grown(draw: &mut Draw, b: &mut Build, x: ValueId, others: &[ValueId]) -> Option<ValueId> {
    let (shape, dtype) = shape_of(&b.graph, x)?;
    let rank = shape.len();
    if rank == 0 || shape.iter().product::<usize>() > 200 || dtype != DType::F32 {
        return None;
    }
    let axis = draw.axis(rank);
    let other = draw.one_of(others);
    Some(match draw.below(24) {
        0 => b.relu(x),
        1 => {
            // A constant with sizes of its own, or 1.
            let sizes: Vec<usize> =
                shape.iter().map(|&size| if draw.below(2) == 0 { 1 } else { size }).collect();
            let from = draw.below(rank + 1);
            let c = b.floats(&sizes[from..]);
            let op = draw.one_of(&[Binary::Add, Binary::Mul]);
            b.node(Op::Binary(op), &[x, c])
        }
        2 => b.node(Op::Binary(draw.one_of(&[Binary::Add, Binary::Sub])), &[x, other]),
        3 => {
            let w = b.floats(&[shape[rank - 1], 1 + draw.below(3)]);
            b.node(Op::MatMul, &[x, w])
        }
        4 => b.node(Op::MatMul, &[x, other]),
        5 | 6 => {
            let mut order: Vec<i64> = (0..rank as i64).collect();
            (0..rank).for_each(|k| order.swap(k, draw.below(rank)));
            b.transpose(x, &order)
        }
        7 | 8 => {
            let sizes = other_shape(draw, &shape);
            b.reshape(x, &sizes)
        }
        9 => b.node(Op::Flatten { axis: draw.below(rank + 1) as i64 }, &[x]),
        10 => b.node(softmax(axis), &[x]),
        11 => b.node(mean(&[axis], draw.one_of(&[Dims::Keep, Dims::Drop])), &[x]),
        12 => {
            let axis = b.constant(Tensor::from_slice(&[axis], &[], &Device::Cpu).unwrap());
            b.node(
                Op::CumSum { exclusive: draw.below(2) == 0, reverse: draw.below(2) == 0 },
                &[x, axis],
            )
        }
        13 => b.node(Op::Concat { axis }, &[x, other]),
        14 => {
            let size = shape[axis as usize] as i64;
            let start = draw.below(size as usize) as i64;
            let end = draw.one_of(&[size, start + 1, i64::MAX]);
            let [starts, ends, axes] = [b.ints(&[start]), b.ints(&[end]), b.ints(&[axis])];
            b.node(Op::Slice { given: None }, &[x, starts, ends, axes])
        }
        15 => {
            let which = b.ints(&[draw.below(shape[axis as usize]) as i64, 0]);
            b.node(Op::Gather { axis }, &[x, which])
        }
        16 => {
            let mut repeats = vec![1; rank];
            repeats[axis as usize] = 2;
            let repeats = b.ints(&repeats);
            b.node(Op::Tile, &[x, repeats])
        }
        17 => b.node(Op::Unsqueeze { axes: Some(vec![draw.below(rank + 1) as i64]) }, &[x]),
        18 => b.node(
            Op::Squeeze { axes: draw.one_of(&[None, Some(axis)]).map(|axis| vec![axis]) },
            &[x],
        ),
        19 => {
            // By the size of an axis of the features.
            let (start, total) = (draw.axis(rank), b.node(Op::Size, &[x]));
            let size = b.sizes(x, start, start + 1);
            let rest = b.node(Op::Binary(Binary::Div), &[total, size]);
            let rest = b.reshape(rest, &[1]);
            let parts = if draw.below(2) == 0 { [size, rest] } else { [rest, size] };
            let sizes = b.node(Op::Concat { axis: 0 }, &parts);
            b.node(Op::Reshape { shape: None, allow_zero: false }, &[x, sizes])
        }
        20 => {
            let size = b.sizes(x, axis, axis + 1);
            let size = b.node(Op::Cast(DType::F32), &[size]);
            b.node(Op::Binary(Binary::Div), &[x, size])
        }
        21 => {
            let parts = b.nodes(Op::Split { axis, sizes: None, parts: Some(2) }, &[x], 2);
            draw.one_of(&parts)
        }
        22 => {
            let k = b.ints(&[1]);
            b.nodes(Op::TopK { axis, extreme: Extreme::Max }, &[x, k], 2)[0]
        }
        _ => {
            let sizes = b.node(Op::Shape { start: 0, end: None }, &[other]);
            b.node(Op::Expand, &[x, sizes])
        }
    })
}

/// Returns a random graph of a few nodes.
fn random(seed: u64) -> Graph {
    let mut draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let sample = draw.one_of(&[&[2][..], &[6], &[2, 3], &[4, 1], &[3, 2]]);
    let mut b = Build::new(sample, None);
    let mut values = vec![b.x];
    let wanted = 1 + draw.below(6);
    for _ in 0..4 * wanted {
        if values.len() > wanted {
            break;
        }
        let x = *values.last().unwrap();
        let before = b.graph.clone();
        match grown(&mut draw, &mut b, x, &values).filter(|&id| shape_of(&b.graph, id).is_some()) {
            Some(id) => values.push(id),
            None => b.graph = before,
        }
    }
    let output = *values.last().unwrap();
    b.done(output)
}

#[test]
fn random_graph_called_independent_can_be_cut_anywhere() {
    let (mut independent, mut whole, mut refused) = (0, 0, 0);
    for seed in 0..4000 {
        let graph = random(seed);
        match batching(&graph) {
            Ok(Batching::Independent) => {
                assert_cut_anywhere(&graph, &format!("seed {seed}: {:?}", graph.nodes()));
                independent += 1;
            }
            Ok(Batching::Whole) => whole += 1,
            Err(Error::Model { .. }) => refused += 1,
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    // All of them happen.
    assert!(independent > 800 && whole > 300 && refused > 300, "{independent} {whole} {refused}");
}

/// Graphs that are whole or refused because of a rule alone would be a loss: most of those that can
/// be cut are found.
#[test]
fn random_graph_that_can_be_cut_is_mostly_called_independent() {
    let (mut found, mut missed) = (0, 0);
    for seed in 0..1500 {
        let graph = random(seed);
        let can_be_cut = || -> Option<bool> {
            let all = samples(&graph, 3).swap_remove(0);
            let whole = bits(&graph, vec![all.clone()]).ok()?;
            let single: Vec<Vec<u32>> = (0..3)
                .map(|s| bits(&graph, vec![all.slice(0, s..s + 1).unwrap()]).ok())
                .collect::<Option<_>>()?;
            let made = Runner::new(graph.clone(), &Device::Cpu).ok()?.run(vec![all]).ok()?;
            Some(made[0].shape().first() == Some(&3) && whole == single.concat())
        };
        match (batching(&graph), can_be_cut()) {
            (Ok(Batching::Independent), _) => found += 1,
            (_, Some(true)) => missed += 1,
            _ => {}
        }
    }
    assert!(missed * 10 < found, "{missed} missed, {found} found");
}

#[test]
fn random_graph_of_a_fixed_number_that_is_freed_computes_the_same() {
    let mut n_freed = 0;
    for seed in 0..1500 {
        for n in [1, 3] {
            let mut graph = random(seed);
            let input = graph.inputs()[0].index();
            graph.values[input].shape.as_mut().unwrap()[0] = Dim::Fixed(n);
            let Ok(Some(freed)) = free(&graph, n) else { continue };
            n_freed += 1;
            assert_cut_anywhere(&freed, &format!("seed {seed}, {n}"));
            let all = samples(&freed, 2 * n).swap_remove(0);
            let runs = (0..2)
                .map(|k| bits(&graph, vec![all.slice(0, k * n..(k + 1) * n).unwrap()]).unwrap());
            assert_eq!(
                bits(&freed, vec![all.clone()]).unwrap(),
                runs.collect::<Vec<_>>().concat(),
                "seed {seed}, {n}: {:?}",
                graph.nodes()
            );
        }
    }
    assert!(n_freed > 500, "{n_freed}");
}

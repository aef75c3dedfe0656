//! The layout of a graph in layers, from top to bottom, after Sugiyama, Tagawa and Toda (1981).
//!
//! The layer of a vertex is the length of the longest path to it. Edges that cross layers get a
//! slot in each, so that they run beside vertices. Layers are ordered by barycentres, and the
//! longest chain of vertices is straight. Tall graphs continue in a further column.

use std::collections::BTreeMap;

/// The width and the height of a vertex.
pub(super) const BOX: [f64; 2] = [178.0, 40.0];

/// The width of the slot of an edge beside vertices.
const SLOT: f64 = 10.0;
const GAP: f64 = 16.0;
/// The distance between two layers.
const BETWEEN: f64 = 24.0;
/// The distance between edges that enter one vertex, or that lead to the next column.
const LANE: f64 = 9.0;
const MARGIN: f64 = 6.0;
/// The height from which on a graph has several columns, and their greatest width together.
const TALL: f64 = 1400.0;
const WIDE: f64 = 1000.0;

/// The most vertices and slots that are laid out.
const MOST: usize = 2000;

/// The positions of vertices and edges.
#[derive(Debug)]
pub(super) struct Layout {
    /// The centre of each vertex.
    pub(super) centres: Vec<[f64; 2]>,
    /// The edges as paths of SVG, each with its end.
    pub(super) edges: Vec<(String, [f64; 2])>,
    pub(super) size: [f64; 2],
}

/// A vertex, or the slot of an edge, in a layer.
#[derive(Debug, Clone, Default)]
struct Item {
    layer: usize,
    /// Neighbours in the layer before and in the layer after.
    before: Vec<usize>,
    after: Vec<usize>,
    /// The chain that should be straight, by its first item.
    chain: usize,
    x: f64,
}

/// Lays out vertices by the vertices that each takes, which must have lower indices; `None` if
/// there are too many.
pub(super) fn layout(takes: &[Vec<usize>]) -> Option<Layout> {
    if takes.is_empty() || takes.len() > MOST {
        return None;
    }
    let layers = layer_of(takes);
    let spans = takes.iter().enumerate().flat_map(|(k, inputs)| {
        let layers = &layers;
        inputs.iter().map(move |&input| layers[k] - layers[input])
    });
    let slots = spans.fold(takes.len(), |sum, span| sum.saturating_add(span - 1));
    if slots > MOST {
        return None;
    }
    let (mut items, paths) = items(takes, &layers);
    let rows = ordered(&items);
    chains(&mut items, takes.len());
    place(&mut items, &rows, takes.len());
    Some(drawn(&items, &rows, &paths, takes.len()))
}

/// Returns the layer of each vertex. One without inputs is just before the first that takes it.
fn layer_of(takes: &[Vec<usize>]) -> Vec<usize> {
    let mut layers = vec![0; takes.len()];
    for (k, inputs) in takes.iter().enumerate() {
        layers[k] = inputs.iter().map(|&input| layers[input] + 1).max().unwrap_or(0);
    }
    for k in 0..takes.len() {
        let takers = (k + 1..takes.len()).filter(|&taker| takes[taker].contains(&k));
        if let (true, Some(first)) = (takes[k].is_empty(), takers.map(|taker| layers[taker]).min())
        {
            layers[k] = first - 1;
        }
    }
    layers
}

/// Returns the vertices followed by the slots of edges, and the items of each edge in their order.
fn items(takes: &[Vec<usize>], layers: &[usize]) -> (Vec<Item>, Vec<Vec<usize>>) {
    let vertex = |&layer: &usize| Item { layer, ..Item::default() };
    let mut items: Vec<Item> = layers.iter().map(vertex).collect();
    let mut paths = Vec::new();
    for (k, inputs) in takes.iter().enumerate() {
        for &input in inputs {
            let mut path = vec![input];
            for layer in layers[input] + 1..layers[k] {
                path.push(items.len());
                items.push(Item { layer, ..Item::default() });
            }
            path.push(k);
            for pair in path.windows(2) {
                items[pair[0]].after.push(pair[1]);
                items[pair[1]].before.push(pair[0]);
            }
            paths.push(path);
        }
    }
    (items, paths)
}

/// Returns the items of each layer in the order with the fewest crossings that sweeps find.
fn ordered(items: &[Item]) -> Vec<Vec<usize>> {
    let n_layers = items.iter().map(|item| item.layer + 1).max().unwrap_or(0);
    let mut rows = vec![Vec::new(); n_layers];
    for (k, item) in items.iter().enumerate() {
        rows[item.layer].push(k);
    }
    let (mut best, mut fewest) = (rows.clone(), crossings(items, &rows));
    for sweep in 0..12 {
        let down = sweep % 2 == 0;
        for step in 1..n_layers {
            let layer = if down { step } else { n_layers - 1 - step };
            let fixed = if down { layer - 1 } else { layer + 1 };
            let position: BTreeMap<usize, usize> =
                rows[fixed].iter().enumerate().map(|(position, &k)| (k, position)).collect();
            let barycentre = |(own, &k): (usize, &usize)| {
                let neighbours = if down { &items[k].before } else { &items[k].after };
                let sum: usize = neighbours.iter().filter_map(|k| position.get(k)).sum();
                let mean = match neighbours.len() {
                    0 => own as f64,
                    n => sum as f64 / n as f64,
                };
                (mean, k)
            };
            let mut keyed: Vec<(f64, usize)> =
                rows[layer].iter().enumerate().map(barycentre).collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
            rows[layer] = keyed.into_iter().map(|(_, k)| k).collect();
        }
        let found = crossings(items, &rows);
        if found < fewest {
            (best, fewest) = (rows.clone(), found);
        }
    }
    best
}

/// Returns the number of pairs of edges that cross each other between neighbouring layers.
fn crossings(items: &[Item], rows: &[Vec<usize>]) -> usize {
    let mut all = 0;
    for pair in rows.windows(2) {
        let position: BTreeMap<usize, usize> =
            pair[1].iter().enumerate().map(|(position, &k)| (k, position)).collect();
        let mut ends: Vec<usize> = Vec::new();
        for &k in &pair[0] {
            let mut own: Vec<usize> =
                items[k].after.iter().filter_map(|k| position.get(k)).copied().collect();
            own.sort_unstable();
            all += own
                .iter()
                .map(|end| ends.iter().filter(|&other| other > end).count())
                .sum::<usize>();
            ends.extend(own);
        }
    }
    all
}

/// Joins items to chains that should be straight: a vertex with the first of its inputs in the
/// layer before that has no longer way to the end, and the slots of an edge.
fn chains(items: &mut [Item], n_vertices: usize) {
    let mut depth = vec![0_usize; items.len()];
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|&k| std::cmp::Reverse(items[k].layer));
    for &k in &order {
        depth[k] = items[k].after.iter().map(|&after| depth[after] + 1).max().unwrap_or(0);
    }
    order.reverse();
    for &k in &order {
        let is_slot = k >= n_vertices;
        // The neighbour after an item that continues its chain: the one with the longest way.
        let next = |k: usize| {
            let after = items[k].after.iter().copied();
            after
                .filter(|&a| (a >= n_vertices) == is_slot)
                .max_by_key(|&a| (depth[a], usize::MAX - a))
        };
        let same = |&&b: &&usize| (b >= n_vertices) == is_slot && next(b) == Some(k);
        items[k].chain = items[k].before.iter().find(same).map_or(k, |&b| items[b].chain);
    }
}

fn width(k: usize, n_vertices: usize) -> f64 {
    if k < n_vertices { BOX[0] } else { SLOT }
}

/// Finds the horizontal positions: chains with more vertices stay where they are, and others give
/// way.
fn place(items: &mut [Item], rows: &[Vec<usize>], n_vertices: usize) {
    let mut weight: BTreeMap<usize, f64> = BTreeMap::new();
    for (k, item) in items.iter().enumerate() {
        *weight.entry(item.chain).or_default() += if k < n_vertices { 1.0 } else { 0.01 };
    }
    let weight = |chain: usize| weight.get(&chain).copied().unwrap_or(1.0).powi(3);
    for round in 0..24 {
        // The wish of a chain: the middle of its items, or in the last rounds the outermost.
        let mut wishes: BTreeMap<usize, (f64, f64, f64, f64)> = BTreeMap::new();
        for item in items.iter() {
            let (sum, n, low, high) =
                wishes.entry(item.chain).or_insert((0.0, 0.0, f64::MAX, f64::MIN));
            (*sum, *n) = (*sum + item.x, *n + 1.0);
            (*low, *high) = (low.min(item.x), high.max(item.x));
        }
        let wish = |chain: usize| match wishes.get(&chain) {
            Some((sum, n, low, high)) if round >= 16 => {
                if sum / n > 0.0 {
                    *high
                } else {
                    *low
                }
            }
            Some((sum, n, ..)) => sum / n,
            None => 0.0,
        };
        for row in rows {
            let wanted: Vec<(f64, f64)> =
                row.iter().map(|&k| (wish(items[k].chain), weight(items[k].chain))).collect();
            let mut offset = 0.0;
            let offsets: Vec<f64> = (0..row.len())
                .map(|i| {
                    if i > 0 {
                        offset +=
                            (width(row[i - 1], n_vertices) + width(row[i], n_vertices)) / 2.0 + GAP;
                    }
                    offset
                })
                .collect();
            for ((&k, x), offset) in row.iter().zip(spread(&wanted, &offsets)).zip(&offsets) {
                items[k].x = x + offset;
            }
        }
    }
}

/// Returns ascending positions, less their offsets, with the least weighted squares of the
/// distances to the wanted ones: isotonic regression by pooling adjacent violators.
fn spread(wanted: &[(f64, f64)], offsets: &[f64]) -> Vec<f64> {
    let mut pools: Vec<(f64, f64, usize)> = Vec::new();
    for (&(x, weight), offset) in wanted.iter().zip(offsets) {
        let mut pool = (x - offset, weight, 1);
        while let Some(&(before, heavy, n)) = pools.last() {
            if before <= pool.0 {
                break;
            }
            let weight = heavy + pool.1;
            pool = ((before * heavy + pool.0 * pool.1) / weight, weight, n + pool.2);
            pools.pop();
        }
        pools.push(pool);
    }
    pools.iter().flat_map(|&(x, _, n)| std::iter::repeat_n(x, n)).collect()
}

/// Returns the first layer of each column.
fn columns(items: &[Item], rows: &[Vec<usize>], wide: f64) -> Vec<usize> {
    let n = rows.len();
    let wanted = (n as f64 * (BOX[1] + BETWEEN) / TALL).ceil() as usize;
    let fit = (WIDE / (wide + 4.0 * LANE)) as usize;
    let n_columns = wanted.min(fit).max(1);
    let mut starts = vec![0];
    for column in 1..n_columns {
        let ideal = column * n / n_columns;
        let slack = n / n_columns / 6;
        let least = starts.last().map_or(1, |start| start + 1);
        // The cut that the fewest edges cross.
        let edges =
            |layer: usize| rows[layer - 1].iter().map(|&k| items[k].after.len()).sum::<usize>();
        let cuts = ideal.saturating_sub(slack).max(least)..=(ideal + slack).min(n - 1);
        starts.extend(cuts.min_by_key(|&layer| (edges(layer), layer.abs_diff(ideal))));
    }
    starts
}

/// Moves the columns beside each other and draws the edges.
fn drawn(items: &[Item], rows: &[Vec<usize>], paths: &[Vec<usize>], n_vertices: usize) -> Layout {
    let ends =
        |sign: f64| move |(k, item): (usize, &Item)| item.x + sign * width(k, n_vertices) / 2.0;
    let left = items.iter().enumerate().map(ends(-1.0)).fold(f64::MAX, f64::min);
    let right = items.iter().enumerate().map(ends(1.0)).fold(f64::MIN, f64::max);
    let starts = columns(items, rows, right - left);
    let column_of = |layer: usize| starts.iter().rposition(|&start| start <= layer).unwrap_or(0);
    // Edges to the next column need lanes below, between and above the columns.
    let lanes: Vec<usize> = starts
        .iter()
        .skip(1)
        .map(|&start| rows[start - 1].iter().map(|&k| items[k].after.len()).sum())
        .collect();
    let most = lanes.iter().copied().max().unwrap_or(0) as f64;
    let (top, gutter) = (MARGIN + LANE * (most + 1.0), LANE * (most + 2.0));
    let step = BOX[1] + BETWEEN;
    let at = |k: usize| {
        let item = &items[k];
        let column = column_of(item.layer);
        let x = MARGIN + item.x - left + column as f64 * (right - left + gutter);
        [x, top + BOX[1] / 2.0 + (item.layer - starts[column]) as f64 * step]
    };
    let column_end = |column: usize| starts.get(column + 1).copied().unwrap_or(rows.len());
    let tallest = (0..starts.len()).map(|column| column_end(column) - starts[column]).max();
    let bottom = top + tallest.unwrap_or(1) as f64 * step - BETWEEN;
    let ports = ports(items, paths);
    let mut used = vec![0_usize; starts.len()];
    let edges = paths.iter().zip(&ports).map(|(path, port)| {
        let mut text = String::new();
        let mut end = [0.0; 2];
        for (index, pair) in path.windows(2).enumerate() {
            let ([x1, y1], [x2, y2]) = (at(pair[0]), at(pair[1]));
            let (y1, y2) = (y1 + BOX[1] / 2.0, y2 - BOX[1] / 2.0);
            let x2 = if index + 2 == path.len() { x2 + port } else { x2 };
            if index == 0 {
                text.push_str(&format!("M{x1:.1} {y1:.1}"));
            } else {
                // Through the slot, beside the vertices of its layer.
                text.push_str(&format!("V{y1:.1}"));
            }
            let column = column_of(items[pair[0]].layer);
            if column_of(items[pair[1]].layer) == column {
                text.push_str(&bend([x1, y1], [x2, y2]));
            } else {
                let lane = LANE * (used[column] + 1) as f64;
                used[column] += 1;
                let x = MARGIN + (column + 1) as f64 * (right - left + gutter) - lane;
                let below = y1.max(bottom) + lane;
                text.push_str(&format!("V{below:.1}H{x:.1}V{:.1}H{x2:.1}V{y2:.1}", top - lane));
            }
            end = [x2, y2];
        }
        (text, end)
    });
    let edges: Vec<(String, [f64; 2])> = edges.collect();
    let n = starts.len() as f64;
    let size = [
        n * (right - left) + (n - 1.0) * gutter + 2.0 * MARGIN,
        bottom + if starts.len() > 1 { top } else { MARGIN },
    ];
    Layout { centres: (0..n_vertices).map(at).collect(), edges, size }
}

/// Returns a line or a curve that begins and ends upright.
fn bend([x1, y1]: [f64; 2], [x2, y2]: [f64; 2]) -> String {
    if (x1 - x2).abs() < 0.05 {
        return format!("V{y2:.1}");
    }
    let middle = (y1 + y2) / 2.0;
    format!("C{x1:.1} {middle:.1} {x2:.1} {middle:.1} {x2:.1} {y2:.1}")
}

/// Returns where each edge enters its vertex, from its middle: straight edges in the middle, others
/// beside it on the side that they come from.
fn ports(items: &[Item], paths: &[Vec<usize>]) -> Vec<f64> {
    let mut by_end: BTreeMap<usize, Vec<(f64, usize)>> = BTreeMap::new();
    for (edge, path) in paths.iter().enumerate() {
        let [.., before, end] = path[..] else { continue };
        by_end.entry(end).or_default().push((items[before].x - items[end].x, edge));
    }
    let mut ports = vec![0.0; paths.len()];
    for mut edges in by_end.into_values() {
        edges.sort_by(|a, b| a.0.total_cmp(&b.0));
        let n_left = edges.iter().filter(|(dx, _)| *dx < -0.05).count();
        let n_straight = edges.iter().filter(|(dx, _)| dx.abs() <= 0.05).count();
        // Without a straight edge, the edges are spread around the middle.
        let middle = if n_straight > 0 { n_left as f64 } else { (edges.len() - 1) as f64 / 2.0 };
        let most = edges.len().max(2) as f64 - 1.0;
        let apart = (1.5 * LANE).min((BOX[0] - 2.0 * LANE) / 2.0 / most);
        for (rank, &(_, edge)) in edges.iter().enumerate() {
            ports[edge] = (rank as f64 - middle) * apart;
        }
    }
    ports
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;

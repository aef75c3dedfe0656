//! Looking counts up.

/// Adds `rows[k][thresholds[k][j]]` for every `k` to each `sums[j]`.
#[inline]
pub(crate) fn look_up(rows: [&[u32]; 4], thresholds: [&[u16]; 4], sums: &mut [u16]) {
    let [a, b, c, d] = thresholds;
    for ((((sum, &a), &b), &c), &d) in sums.iter_mut().zip(a).zip(b).zip(c).zip(d) {
        let entry = |k: usize, t: u16| rows[k][usize::from(t)] as u16;
        let four = entry(0, a).wrapping_add(entry(1, b)).wrapping_add(entry(2, c)).wrapping_add(entry(3, d));
        *sum = sum.wrapping_add(four);
    }
}

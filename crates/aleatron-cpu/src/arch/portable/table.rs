//! Count look-up.

/// The largest number of thresholds that a kernel looks up together: sums of whole blocks of this
/// size are the fastest.
pub(crate) const LANES: usize = 32;

/// The bit of a threshold whose entry is subtracted.
pub(crate) const NEGATIVE: u16 = 1 << 15;

/// Adds `rows[k][thresholds[k][j]]` for every `k` to each `sums[j]`.
#[inline]
pub(crate) fn look_up(rows: [&[u32]; 4], thresholds: [&[u16]; 4], sums: &mut [u16]) {
    let [a, b, c, d] = thresholds;
    for ((((sum, &a), &b), &c), &d) in sums.iter_mut().zip(a).zip(b).zip(c).zip(d) {
        let entry = |k: usize, t: u16| rows[k][usize::from(t)] as u16;
        let four = entry(0, a)
            .wrapping_add(entry(1, b))
            .wrapping_add(entry(2, c))
            .wrapping_add(entry(3, d));
        *sum = sum.wrapping_add(four);
    }
}

/// Looks up as [`look_up`], and subtracts the entries of thresholds with the bit [`NEGATIVE`]: sums
/// are those of signed integers.
#[inline]
pub(crate) fn look_up_signed(rows: [&[u32]; 4], thresholds: [&[u16]; 4], sums: &mut [u16]) {
    let [a, b, c, d] = thresholds;
    for ((((sum, &a), &b), &c), &d) in sums.iter_mut().zip(a).zip(b).zip(c).zip(d) {
        let entry = |k: usize, t: u16| {
            let entry = rows[k][usize::from(t & !NEGATIVE)] as u16;
            // The entry, or its negative, by the sign of the threshold.
            let sign = (t as i16 >> 15) as u16;
            (entry ^ sign).wrapping_sub(sign)
        };
        let four = entry(0, a)
            .wrapping_add(entry(1, b))
            .wrapping_add(entry(2, c))
            .wrapping_add(entry(3, d));
        *sum = sum.wrapping_add(four);
    }
}

//! Counting ones, a word at a time.

/// The ones of `words`.
#[inline]
pub(crate) fn ones(words: &[u64]) -> u64 {
    words.iter().map(|word| u64::from(word.count_ones())).sum()
}

/// The ones `a` and `b`, of one length, share.
#[inline]
pub(crate) fn and_ones(a: &[u64], b: &[u64]) -> u64 {
    a.iter().zip(b).map(|(a, b)| u64::from((a & b).count_ones())).sum()
}

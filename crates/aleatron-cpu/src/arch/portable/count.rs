//! Counting ones, a word at a time.

/// Counts the ones of `words`.
#[inline]
pub(crate) fn ones(words: &[u64]) -> u64 {
    words.iter().map(|word| u64::from(word.count_ones())).sum()
}

/// Counts the ones of each stream of `per_stream` words.
#[inline(always)]
pub(crate) fn stream_ones(words: &[u64], per_stream: usize, out: &mut [u64]) {
    if per_stream == 1 {
        // A loop without a nested one, which the compiler vectorizes.
        out.iter_mut().zip(words).for_each(|(out, word)| *out = u64::from(word.count_ones()));
        return;
    }
    for (out, words) in out.iter_mut().zip(words.chunks_exact(per_stream)) {
        *out = ones(words);
    }
}

/// Counts the ones that `a` and `b`, of one length, share.
#[inline]
pub(crate) fn and_ones(a: &[u64], b: &[u64]) -> u64 {
    a.iter().zip(b).map(|(a, b)| u64::from((a & b).count_ones())).sum()
}

//! What complemented streams add to counts, summed for a block of weight rows at a time.

/// Weight rows summed together: a register of 16-bit integers at its widest.
pub(crate) const LANES: usize = 32;

/// An integer that holds sums of ones.
pub(crate) trait Term: Copy + Default + Send + Sync + 'static {
    /// `self + other`, which does not overflow where it matters.
    fn plus(self, other: Self) -> Self;

    /// `self` where `mask` is -1, 0 where it is 0.
    fn masked(self, mask: Self) -> Self;

    /// -1 where it is below 0, else 0.
    fn sign_mask(self) -> Self;
}

macro_rules! term {
    ($integer:ty) => {
        impl Term for $integer {
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn masked(self, mask: Self) -> Self {
                self & mask
            }

            #[inline(always)]
            fn sign_mask(self) -> Self {
                self >> (Self::BITS - 1)
            }
        }
    };
}

term!(i16);
term!(i64);

/// For each of `S` rows of inputs and each row of a block of weights, the sum over streams i of
/// `ones[i]` where `values[i]` is below 0.
#[inline(always)]
pub(crate) fn ones_of_negative<T: Term, const S: usize>(
    values: &[[T; LANES]],
    ones: [&[T]; S],
) -> [[T; LANES]; S] {
    let mut sums = [[T::default(); LANES]; S];
    let ones = ones.map(|ones| &ones[..values.len()]);
    for i in 0..values.len() {
        for s in 0..S {
            let ones = ones[s][i];
            for lane in 0..LANES {
                sums[s][lane] = sums[s][lane].plus(ones.masked(values[i][lane].sign_mask()));
            }
        }
    }
    sums
}

/// As [`ones_of_negative`], and the sum of `values[i]` where `masks[i]` is -1.
#[inline(always)]
pub(crate) fn ones_of_either<T: Term, const S: usize>(
    values: &[[T; LANES]],
    ones: [&[T]; S],
    masks: [&[T]; S],
) -> [[T; LANES]; S] {
    let mut sums = [[T::default(); LANES]; S];
    let [ones, masks] = [ones, masks].map(|rows| rows.map(|row| &row[..values.len()]));
    for i in 0..values.len() {
        for s in 0..S {
            let (ones, mask) = (ones[s][i], masks[s][i]);
            for lane in 0..LANES {
                let value = values[i][lane];
                sums[s][lane] =
                    sums[s][lane].plus(ones.masked(value.sign_mask())).plus(value.masked(mask));
            }
        }
    }
    sums
}

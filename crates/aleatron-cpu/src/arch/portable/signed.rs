//! Corrections of counts for complemented streams, summed for a block of weight rows at a time.

/// Number of weight rows summed together: the 16-bit integers of the widest register.
pub(crate) const LANES: usize = 32;

/// An integer that holds sums of ones.
pub(crate) trait Term: Copy + Default + Send + Sync + 'static {
    /// Returns `self + other`, which does not overflow for relevant lanes.
    fn plus(self, other: Self) -> Self;

    /// Returns `self` if `mask` is -1, 0 if it is 0.
    fn masked(self, mask: Self) -> Self;

    /// Returns -1 if it is below 0, otherwise 0.
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

/// Sums `ones[i]` over the streams i whose `values[i]` is below 0, for each of `S` rows of inputs
/// and each row of a block of weights.
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

/// Computes [`ones_of_negative`], and the sum of `values[i]` over the streams with a mask of -1.
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

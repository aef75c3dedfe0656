//! Bernoulli encoding, eight 32-bit stream words at a time. See [`encode`](crate::arch::x86_64::encode).

use super::simd::Avx2;
use crate::arch::x86_64::encode::{self, Encoder, Grid, Job, Undecided};
use crate::arch::x86_64::philox::{self, Philox};
use crate::arch::x86_64::simd::Simd;
use crate::draws::Draws;
use aleatron_core::{Length, StreamAddress, Threshold};

/// Encodes the streams of `thresholds` at consecutive units from `address` on; `out` holds their words.
#[target_feature(enable = "avx2,popcnt")]
pub(crate) fn encode(
    thresholds: &[Threshold],
    length: Length,
    address: StreamAddress,
    draws: Draws<'_>,
    out: &mut [u64],
) {
    encode::encode(Avx2::new(), Job { thresholds, length, address, out }, draws);
}

/// The words that the first draws of `n_streams` streams take.
pub(crate) fn first_draws(n_streams: usize, length: Length) -> usize {
    Grid::new(Avx2::LANES, n_streams, length).first_draws(Avx2::LANES)
}

/// Draws and throws away.
#[target_feature(enable = "avx2,popcnt")]
pub(crate) fn draw(draws: usize) -> u32 {
    philox::draw_many(Avx2::new(), draws)
}

impl Encoder for Avx2 {
    #[inline(always)]
    fn settle(self, undecided: &mut Undecided, philox: &Philox<Self>, job: &mut Job<'_>, draw: usize) {
        #[inline(never)]
        #[target_feature(enable = "avx2,popcnt")]
        fn settle(undecided: &mut Undecided, philox: &Philox<Avx2>, job: &mut Job<'_>, draw: usize) {
            undecided.settle(Avx2::new(), philox, job, draw);
        }
        // SAFETY: whoever has an `Avx2` is on a machine with the instructions.
        unsafe { settle(undecided, philox, job, draw) }
    }
}

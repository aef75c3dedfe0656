//! The entry points of a tier, compiled for its instructions: all generic code is inlined into
//! these.

/// The encoder of the instruction set of `$simd`, with its features.
macro_rules! encoder {
    ($simd:ident, $features:literal) => {
        use crate::arch::vector::encode::{self, Encoder, Grid, Job, Undecided};
        use crate::arch::vector::philox::{self, Philox};
        use crate::arch::vector::simd::Lanes;
        use crate::draws::Draws;
        use aleatron_core::{Length, StreamAddress, Threshold};

        /// Encodes the streams of `thresholds` at consecutive units from `address` on; `out` holds
        /// their words.
        #[target_feature(enable = $features)]
        pub(crate) fn encode(
            thresholds: &[Threshold],
            length: Length,
            address: StreamAddress,
            draws: Draws<'_>,
            out: &mut [u64],
        ) {
            encode::encode($simd::new(), Job { thresholds, length, address, out }, draws);
        }

        /// Returns the number of words of the first draws of `n_streams` streams.
        pub(crate) fn first_draws(n_streams: usize, length: Length) -> usize {
            Grid::new($simd::LANES, n_streams, length).first_draws($simd::LANES)
        }

        /// Draws and discards random words.
        #[target_feature(enable = $features)]
        pub(crate) fn draw(draws: usize) -> u32 {
            philox::draw_many($simd::new(), draws)
        }

        impl Encoder for $simd {
            #[inline(always)]
            fn settle(
                self,
                undecided: &mut Undecided,
                philox: &Philox<Self>,
                job: &mut Job<'_>,
                draw: usize,
            ) {
                #[inline(never)]
                #[target_feature(enable = $features)]
                fn settle(
                    undecided: &mut Undecided,
                    philox: &Philox<$simd>,
                    job: &mut Job<'_>,
                    draw: usize,
                ) {
                    undecided.settle($simd::new(), philox, job, draw);
                }
                // SAFETY: the proof guarantees a machine with the instructions.
                unsafe { settle(undecided, philox, job, draw) }
            }
        }
    };
}

pub(in crate::arch) use encoder;

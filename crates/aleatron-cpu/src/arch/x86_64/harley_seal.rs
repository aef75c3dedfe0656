//! Harley-Seal counting, written once for both register widths.
//!
//! A carry-save adder turns three words into a word of sums and a word of carries. A tree of fifteen of them turns
//! sixteen registers into one of sixteens and four of remainders, so the costly popcount of a register, a lookup of
//! its nibbles, is made once per sixteen (Muła, Kurz and Lemire, "Faster Population Counts Using AVX2 Instructions").

/// Defines `ones` and `and_ones` for a width. Needs in scope: `load(&[u64; LANES])`, `zero()`, `carry_save(a, b, c) ->
/// (sum, carry)`, `popcount(v)` (per 64-bit lane), `add(a, b)`, `double(v)`, `and(a, b)`, `sum_lanes(v) -> u64`.
macro_rules! harley_seal {
    ($features:literal, $vector:ty, $lanes:literal) => {
        /// The ones of `words`.
        #[target_feature(enable = $features)]
        pub(crate) fn ones(words: &[u64]) -> u64 {
            let (blocks, rest) = words.as_chunks::<$lanes>();
            let (groups, last) = blocks.as_chunks::<16>();
            let mut state = State::new();
            for group in groups {
                let mut next = group.iter();
                state.add_sixteen(|| next.next().map_or(zero(), |block| load(block)));
            }
            let mut total = state.total();
            for block in last {
                total = add(total, popcount(load(block)));
            }
            sum_lanes(total) + portable::ones(rest)
        }

        /// The ones `a` and `b`, of one length, share.
        #[target_feature(enable = $features)]
        pub(crate) fn and_ones(a: &[u64], b: &[u64]) -> u64 {
            let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<$lanes>(), b.as_chunks::<$lanes>());
            let ((a, a_last), (b, b_last)) = (a.as_chunks::<16>(), b.as_chunks::<16>());
            let mut state = State::new();
            for (a, b) in a.iter().zip(b) {
                let mut next = a.iter().zip(b);
                state.add_sixteen(|| next.next().map_or(zero(), |(a, b)| and(load(a), load(b))));
            }
            let mut total = state.total();
            for (a, b) in a_last.iter().zip(b_last) {
                total = add(total, popcount(and(load(a), load(b))));
            }
            sum_lanes(total) + portable::and_ones(a_rest, b_rest)
        }

        /// Ones not yet carried into sixteens, by weight, and the sixteens counted.
        struct State {
            ones: $vector,
            twos: $vector,
            fours: $vector,
            eights: $vector,
            sixteens: $vector,
        }

        impl State {
            #[inline]
            #[target_feature(enable = $features)]
            fn new() -> Self {
                Self { ones: zero(), twos: zero(), fours: zero(), eights: zero(), sixteens: zero() }
            }

            /// Adds sixteen registers.
            #[inline]
            #[target_feature(enable = $features)]
            fn add_sixteen(&mut self, mut next: impl FnMut() -> $vector) {
                let mut eights = [zero(); 2];
                for eight in &mut eights {
                    let mut fours = [zero(); 2];
                    for four in &mut fours {
                        let mut twos = [zero(); 2];
                        for two in &mut twos {
                            (self.ones, *two) = carry_save(self.ones, next(), next());
                        }
                        (self.twos, *four) = carry_save(self.twos, twos[0], twos[1]);
                    }
                    (self.fours, *eight) = carry_save(self.fours, fours[0], fours[1]);
                }
                let sixteen;
                (self.eights, sixteen) = carry_save(self.eights, eights[0], eights[1]);
                self.sixteens = add(self.sixteens, popcount(sixteen));
            }

            /// The count per lane.
            #[inline]
            #[target_feature(enable = $features)]
            fn total(&self) -> $vector {
                let parts = [self.eights, self.fours, self.twos, self.ones];
                let mut total = self.sixteens;
                for part in parts {
                    total = add(double(total), popcount(part));
                }
                total
            }
        }
    };
}
pub(super) use harley_seal;

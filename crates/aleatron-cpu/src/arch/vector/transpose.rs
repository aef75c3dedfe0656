//! Transposition of squares in registers: interleaving the first half of the rows with the second,
//! log2(rows) times, turns rows into columns.

use crate::arch::portable::transpose::Transpose;

/// Registers that hold a row of a square of `N` by `N` elements.
pub(in crate::arch) trait Square<E, const N: usize> {
    /// A register.
    type Row: Copy;

    fn load(row: &[E; N]) -> Self::Row;

    fn store(row: Self::Row) -> [E; N];

    /// Interleaves the elements of `a` and `b`: the first halves, and the second halves.
    fn interleave(a: Self::Row, b: Self::Row) -> [Self::Row; 2];
}

impl<Q: Square<u8, 16> + Square<i16, 8>> Transpose for Q {
    #[inline(always)]
    fn bytes<const W: usize>(
        rows: &[[u8; W]; 16],
        group: usize,
        column: impl FnMut(usize, [u8; 16]),
    ) {
        transpose::<Self, u8, 16, W>(rows, group, column);
    }

    #[inline(always)]
    fn words<const W: usize>(
        rows: &[[i16; W]; 8],
        group: usize,
        column: impl FnMut(usize, [i16; 8]),
    ) {
        transpose::<Self, i16, 8, W>(rows, group, column);
    }
}

/// Passes the columns `N * group + i` of `N` rows, each with its `i`, to the callback.
#[inline(always)]
fn transpose<Q: Square<E, N>, E, const N: usize, const W: usize>(
    rows: &[[E; W]; N],
    group: usize,
    mut column: impl FnMut(usize, [E; N]),
) {
    let mut lines: [Q::Row; N] =
        std::array::from_fn(|row| Q::load(&rows[row].as_chunks().0[group]));
    for _ in 0..N.ilog2() {
        let halves = lines;
        for i in 0..N / 2 {
            [lines[2 * i], lines[2 * i + 1]] = Q::interleave(halves[i], halves[i + N / 2]);
        }
    }
    for (i, line) in lines.into_iter().enumerate() {
        column(i, Q::store(line));
    }
}

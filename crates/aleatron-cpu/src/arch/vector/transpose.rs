//! Squares transposed in registers: interleaving the first half of the rows with the second, log2(rows) times, turns rows
//! into columns.

/// Registers that hold a row of a square of `N` by `N` elements.
pub(in crate::arch) trait Square<E, const N: usize> {
    /// A register.
    type Row: Copy;

    fn load(row: &[E; N]) -> Self::Row;

    fn store(row: Self::Row) -> [E; N];

    /// The elements of `a` and `b` in turns: the first halves, and the second halves.
    fn interleave(a: Self::Row, b: Self::Row) -> [Self::Row; 2];
}

/// Hands out the columns `N * group + i` of `N` rows, each with its `i`.
#[inline(always)]
pub(in crate::arch) fn transpose<Q: Square<E, N>, E, const N: usize, const W: usize>(
    rows: &[[E; W]; N],
    group: usize,
    mut column: impl FnMut(usize, [E; N]),
) {
    let mut lines: [Q::Row; N] = std::array::from_fn(|row| Q::load(&rows[row].as_chunks().0[group]));
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

//! Transposition of squares, an element at a time.

/// The transposition of squares of a block. Columns are passed on one by one and never stored as a
/// square: a large load of recent small stores would stall.
pub(crate) trait Transpose {
    /// Returns the columns `16 * group + i` of sixteen rows of bytes, each with its `i`.
    fn bytes<const W: usize>(
        rows: &[[u8; W]; 16],
        group: usize,
        column: impl FnMut(usize, [u8; 16]),
    );

    /// Returns the columns `8 * group + i` of eight rows of 16-bit words, each with its `i`.
    fn words<const W: usize>(
        rows: &[[i16; W]; 8],
        group: usize,
        column: impl FnMut(usize, [i16; 8]),
    );
}

/// Transposes with loads and stores.
pub(crate) struct Elements;

impl Transpose for Elements {
    #[inline(always)]
    fn bytes<const W: usize>(
        rows: &[[u8; W]; 16],
        group: usize,
        mut column: impl FnMut(usize, [u8; 16]),
    ) {
        (0..16).for_each(|i| column(i, std::array::from_fn(|row| rows[row][16 * group + i])));
    }

    #[inline(always)]
    fn words<const W: usize>(
        rows: &[[i16; W]; 8],
        group: usize,
        mut column: impl FnMut(usize, [i16; 8]),
    ) {
        (0..8).for_each(|i| column(i, std::array::from_fn(|row| rows[row][8 * group + i])));
    }
}

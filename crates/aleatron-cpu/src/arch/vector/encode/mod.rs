//! Bernoulli encoding with vector registers, generic over their width.
//!
//! A register holds 32-bit stream words ("slots"), two to a word of output. The [`Grid`] chooses
//! the number of streams, so that short streams fill it as well as long ones. Eight planes (two
//! draws) decide all but one slot in eight; the undecided slots are collected in a list and drawn
//! further together, so that a few slow bits never stall a whole register. Cached draws cost
//! little, so there are three of them, which leave one slot in a hundred and thirty.

mod entry;
mod grid;
mod undecided;

pub(in crate::arch) use entry::encoder;
pub(in crate::arch) use grid::Grid;
pub(in crate::arch) use undecided::Undecided;

use super::philox::{Philox, Planes, UnitPart, WordPart};
use super::simd::Lanes;
use crate::draws::Draws;
use aleatron_core::address::PLANES_PER_DRAW;
use aleatron_core::{Length, StreamAddress, Threshold};
use std::ops::Range;
use undecided::ROOM;

/// Number of draws of every slot before the undecided slots are set aside, if draws are generated.
const GENERATED_DRAWS: usize = 2;

/// The same, if draws are cached.
const CACHED_DRAWS: usize = 3;

/// The largest number of digits of a threshold that these draws compare with.
const FIRST_DIGITS: usize = CACHED_DRAWS * PLANES_PER_DRAW as usize;

/// Number of columns of the grid whose word parts are stored at a time: few enough for the
/// first-level cache.
const COLUMNS: usize = 4;

/// The largest number of 32-bit lanes of a register.
const MAX_LANES: usize = 16;

/// An instruction set, and the part of encoding that is not inlined.
pub(in crate::arch) trait Encoder: Lanes {
    /// Runs [`Undecided::settle`], compiled for the instruction set.
    fn settle(
        self,
        undecided: &mut Undecided,
        philox: &Philox<Self>,
        job: &mut Job<'_>,
        draw: usize,
    );
}

/// Streams to encode, at consecutive units from `address` on, and the output for their words.
pub(in crate::arch) struct Job<'a> {
    pub(in crate::arch) thresholds: &'a [Threshold],
    pub(in crate::arch) length: Length,
    pub(in crate::arch) address: StreamAddress,
    pub(in crate::arch) out: &'a mut [u64],
}

impl Job<'_> {
    /// Adds bits to stream word `word` of the stream at `unit`.
    #[inline]
    fn add(&mut self, unit: u32, word: u32, bits: u32) {
        let stream = unit.wrapping_sub(self.address.unit) as usize;
        if let Some(out) = self.out.get_mut(stream * self.length.words() + word as usize / 2) {
            *out |= u64::from(bits) << (word % 2 * 32);
        }
    }

    /// Fills streams of ones, and clears bits beyond the length.
    fn finish(&mut self) {
        let mask = self.length.tail_mask();
        if mask == u64::MAX && !self.thresholds.contains(&Threshold::ONE) {
            return;
        }
        for (stream, &threshold) in
            self.out.chunks_exact_mut(self.length.words()).zip(self.thresholds)
        {
            if threshold == Threshold::ONE {
                stream.fill(u64::MAX);
            }
            if let Some(last) = stream.last_mut() {
                *last &= mask;
            }
        }
    }
}

/// Encodes a job.
#[inline(always)]
pub(in crate::arch) fn encode<S: Encoder>(simd: S, job: Job<'_>, draws: Draws<'_>) {
    match draws {
        Draws::Generate => Encoding::new(simd, job).run::<GENERATED_DRAWS, _>(Generate),
        Draws::Store(words) => Encoding::new(simd, job).run::<CACHED_DRAWS, _>(Store(words)),
        Draws::Cached(words) => Encoding::new(simd, job).run::<CACHED_DRAWS, _>(Cached(words)),
    }
}

/// The source of the first draws of a register.
trait Source<S: Lanes, const N: usize> {
    /// Whether draws are required even if no bit depends on them.
    const ALL: bool = false;

    /// Returns the first `M` of `N` draws of a register.
    fn draw<const M: usize>(
        &mut self,
        philox: &Philox<S>,
        register: &Register<'_, S::Counters, N>,
    ) -> [Planes<S::V>; M];
}

/// A register of the grid: its number, and the word and unit parts of its draws.
struct Register<'a, C, const N: usize> {
    number: usize,
    words: &'a [WordPart<C>; N],
    units: UnitPart<C>,
}

impl<C, const N: usize> Register<'_, C, N> {
    /// Returns the range of its draws among cached draws, for registers of `lanes` 32-bit lanes.
    #[inline(always)]
    fn cached(&self, lanes: usize) -> Range<usize> {
        let words = FIRST_DIGITS * lanes / 2;
        self.number * words..(self.number + 1) * words
    }
}

struct Generate;
struct Store<'a>(&'a mut [u64]);
struct Cached<'a>(&'a [u64]);

impl<S: Lanes> Source<S, GENERATED_DRAWS> for Generate {
    #[inline(always)]
    fn draw<const M: usize>(
        &mut self,
        philox: &Philox<S>,
        register: &Register<'_, S::Counters, GENERATED_DRAWS>,
    ) -> [Planes<S::V>; M] {
        let mut words = [register.words[0]; M];
        words.copy_from_slice(&register.words[..M]);
        philox.draw(&words, &[register.units; M])
    }
}

impl<S: Lanes> Source<S, CACHED_DRAWS> for Store<'_> {
    const ALL: bool = true;

    #[inline(always)]
    fn draw<const M: usize>(
        &mut self,
        philox: &Philox<S>,
        register: &Register<'_, S::Counters, CACHED_DRAWS>,
    ) -> [Planes<S::V>; M] {
        let draws = philox.draw(register.words, &[register.units; CACHED_DRAWS]);
        let chunks = self.0[register.cached(S::LANES)].chunks_mut(S::LANES / 2);
        for (&plane, words) in draws.as_flattened().iter().zip(chunks) {
            philox.simd().store_words(plane, words);
        }
        let mut first = [draws[0]; M];
        first.copy_from_slice(&draws[..M]);
        first
    }
}

impl<S: Lanes> Source<S, CACHED_DRAWS> for Cached<'_> {
    #[inline(always)]
    fn draw<const M: usize>(
        &mut self,
        philox: &Philox<S>,
        register: &Register<'_, S::Counters, CACHED_DRAWS>,
    ) -> [Planes<S::V>; M] {
        let mut draws = [[philox.simd().zero(); 4]; M];
        let chunks = self.0[register.cached(S::LANES)].chunks(S::LANES / 2);
        for (plane, words) in draws.as_flattened_mut().iter_mut().zip(chunks) {
            *plane = philox.simd().load_words(words);
        }
        draws
    }
}

/// State of one job.
struct Encoding<'a, S: Encoder> {
    simd: S,
    job: Job<'a>,
    grid: Grid,
    philox: Philox<S>,
    undecided: Undecided,
}

/// Adjacent columns of the grid: the stream words in their lanes, and the word parts of their
/// draws.
struct Columns<V, C, const N: usize> {
    first: usize,
    len: usize,
    words: [V; COLUMNS],
    parts: [[WordPart<C>; N]; COLUMNS],
}

impl<'a, S: Encoder> Encoding<'a, S> {
    #[inline(always)]
    fn new(simd: S, job: Job<'a>) -> Self {
        let grid = Grid::new(S::LANES, job.thresholds.len(), job.length);
        Self {
            simd,
            grid,
            philox: Philox::new(simd, job.address),
            undecided: Undecided::new(),
            job,
        }
    }

    /// Encodes with the first `N` draws from a source.
    #[inline(always)]
    fn run<const N: usize, D: Source<S, N>>(mut self, mut source: D) {
        let (simd, grid) = (self.simd, self.grid);
        let mut lane_streams = [0; MAX_LANES];
        for (lane, stream) in lane_streams.iter_mut().enumerate() {
            *stream = (lane / (2 * grid.words)) as u32;
        }
        let lane_streams = simd.load(&lane_streams);
        for first_column in (0..grid.columns).step_by(COLUMNS) {
            let columns = self.columns::<N>(first_column);
            for (row, thresholds) in self.job.thresholds.chunks(grid.streams).enumerate() {
                let first_unit = self.job.address.unit.wrapping_add((row * grid.streams) as u32);
                let units = simd.add(simd.splat(first_unit), lane_streams);
                let compared = Compared::new::<N>(simd, thresholds, &grid);
                match compared.digits {
                    // Nothing to draw. Runs once for each group of columns; there is rarely more
                    // than one.
                    0 if !D::ALL => grid.output(row, self.job.out).fill(0),
                    0..=PLANES_PER_DRAW => {
                        self.fill::<N, 1>(row, units, &columns, &compared, &mut source)
                    }
                    _ => self.fill::<N, N>(row, units, &columns, &compared, &mut source),
                }
            }
        }
        simd.settle(&mut self.undecided, &self.philox, &mut self.job, N);
        self.job.finish();
    }

    #[inline(always)]
    fn columns<const N: usize>(&self, first: usize) -> Columns<S::V, S::Counters, N> {
        let (simd, grid) = (self.simd, &self.grid);
        let mut lane_words = [0; MAX_LANES];
        for (lane, word) in lane_words.iter_mut().enumerate() {
            *word = (lane % (2 * grid.words)) as u32;
        }
        let lane_words = simd.load(&lane_words);
        let len = COLUMNS.min(grid.columns - first);
        let mut words = [lane_words; COLUMNS];
        let mut parts = [[[simd.splat_counters(0); 4]; N]; COLUMNS];
        for i in 0..len {
            words[i] = simd.add(simd.splat((2 * (first + i) * grid.words) as u32), lane_words);
            for (part, draw) in parts[i].iter_mut().zip(0..) {
                *part = self.philox.word_part(words[i], draw);
            }
        }
        Columns { first, len, words, parts }
    }

    /// Compares a row with its first `M` draws, and appends undecided slots to the list.
    #[inline(always)]
    fn fill<const N: usize, const M: usize>(
        &mut self,
        row: usize,
        units: S::V,
        columns: &Columns<S::V, S::Counters, N>,
        compared: &Compared<S>,
        source: &mut impl Source<S, N>,
    ) {
        let (simd, grid) = (self.simd, self.grid);
        // Both halves of a word of output belong to one stream, so lanes have the same unit in
        // pairs.
        let unit_part = self.philox.unit_part(simd.pairs_to_counters(units));
        let is_whole = grid.is_whole(row);
        for i in 0..columns.len {
            let column = columns.first + i;
            let number = row * grid.columns + column;
            let register = Register { number, words: &columns.parts[i], units: unit_part };
            let draws = source.draw::<M>(&self.philox, &register);
            let (below, equal) = compare(simd, &draws, compared.first_digits);
            let out = grid.output(row, self.job.out);
            let filled = if is_whole {
                simd.store_words(below, &mut out[column * S::LANES / 2..]);
                u32::MAX
            } else {
                let mut words = [0; MAX_LANES / 2];
                simd.store_words(below, &mut words);
                grid.write(&words, row, column, out);
                grid.filled(row, column)
            };
            let open = simd.nonzero(equal) & filled;
            if (N == CACHED_DRAWS && open == 0) || compared.digits <= PLANES_PER_DRAW * M as u32 {
                continue;
            }
            // Values that are equal in all lanes need no selection.
            let [unit, threshold] = match grid.streams {
                1 => [units, compared.thresholds],
                _ => [simd.compress(open, units), simd.compress(open, compared.thresholds)],
            };
            let [word, equal] = [simd.compress(open, columns.words[i]), simd.compress(open, equal)];
            self.undecided.append(simd, [unit, word, threshold, equal], open.count_ones());
            if self.undecided.len > ROOM - S::LANES {
                simd.settle(&mut self.undecided, &self.philox, &mut self.job, N);
            }
        }
    }
}

/// The thresholds of the streams in a register.
struct Compared<S: Lanes> {
    thresholds: S::V,
    /// The number of digits up to the last digit that is not 0 in all of them.
    digits: u32,
    first_digits: [S::V; FIRST_DIGITS],
}

impl<S: Lanes> Compared<S> {
    #[inline(always)]
    fn new<const N: usize>(simd: S, thresholds: &[Threshold], grid: &Grid) -> Self {
        let n_digits = N * PLANES_PER_DRAW as usize;
        // The threshold of a stream of ones becomes 0, which is corrected at the end.
        if let [threshold] = thresholds {
            let threshold = threshold.get() as u32;
            let thresholds = simd.splat(threshold);
            let mut first_digits = [thresholds; FIRST_DIGITS];
            let [first, second, ..] = threshold.to_be_bytes().map(usize::from);
            for (digit, m) in first_digits.iter_mut().zip(0..n_digits) {
                *digit = simd.splat(if m < 8 { DIGITS[first][m] } else { DIGITS[second][m - 8] });
            }
            return Self { thresholds, digits: 32 - threshold.trailing_zeros(), first_digits };
        }
        let (mut lanes, mut any) = ([0; MAX_LANES], 0);
        for (threshold, lanes) in thresholds.iter().zip(lanes.chunks_mut(2 * grid.words)) {
            let threshold = threshold.get() as u32;
            any |= threshold;
            lanes.fill(threshold);
        }
        let thresholds = simd.load(&lanes);
        let mut first_digits = [thresholds; FIRST_DIGITS];
        for (digit, m) in first_digits.iter_mut().zip(0..n_digits) {
            *digit = simd.digit(thresholds, m as u32);
        }
        Self { thresholds, digits: 32 - any.trailing_zeros(), first_digits }
    }
}

/// The digits of each 8-bit number, first to last, each in all bits.
static DIGITS: [[u32; 8]; 256] = {
    let mut table = [[0; 8]; 256];
    let mut i = 0;
    while i < 256 * 8 {
        let (number, m) = (i / 8, i % 8);
        table[number][m] = if number >> (7 - m) & 1 == 1 { u32::MAX } else { 0 };
        i += 1;
    }
    table
};

/// Returns masks of the numbers below others, and of those equal to them, as far as `planes` go,
/// most significant first.
#[inline(always)]
fn compare<S: Lanes, const N: usize>(
    simd: S,
    planes: &[Planes<S::V>],
    digits: [S::V; N],
) -> (S::V, S::V) {
    let (mut below, mut equal) = (simd.zero(), simd.splat(u32::MAX));
    // From the last plane up: a number is below if this plane decides so, or if it is equal here
    // and below in a later plane.
    for (&plane, &digit) in planes.as_flattened().iter().zip(&digits).rev() {
        below = simd.less(plane, below, digit);
        equal = simd.same(equal, plane, digit);
    }
    (below, equal)
}

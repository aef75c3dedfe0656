//! Loops over slices, compiled for each width of vector registers.
//!
//! The loops are plain Rust, which the compiler turns into vector instructions; they fuse no
//! multiplications with additions, so every tier gives the same bits. Unsafe code: the calls of
//! functions that are compiled for instructions found at run time, and stores that bypass the
//! cache.
#![allow(unsafe_code)]

use aleatron_cpu::Tier;

/// The supported vector widths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Width {
    /// AVX-512.
    #[cfg(target_arch = "x86_64")]
    Bits512,
    /// AVX2.
    #[cfg(target_arch = "x86_64")]
    Bits256,
    /// The instructions of every processor of the architecture.
    Baseline,
}

impl Width {
    /// Returns the width of the tier in use, or the baseline for an unknown tier in the
    /// environment, which the first request for the tier reports.
    fn current() -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Ok(tier) = Tier::current() {
            if tier.has_avx512bw() {
                return Self::Bits512;
            }
            if tier.has_avx2() {
                return Self::Bits256;
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = Tier::current();
        Self::Baseline
    }
}

/// A function compiled once for each width, and the choice between them.
macro_rules! for_each_width {
    ($(#[$doc:meta])* $name:ident, <$($generic:ident: $bound:path),*>, ($($argument:ident: $type:ty),*) $(-> $result:ty)?, $body:block) => {
        $(#[$doc])*
        pub(crate) fn $name<$($generic: $bound),*>($($argument: $type),*) $(-> $result)? {
            #[inline(always)]
            fn body<$($generic: $bound),*>($($argument: $type),*) $(-> $result)? $body
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx2")]
            fn bits512<$($generic: $bound),*>($($argument: $type),*) $(-> $result)? {
                body($($argument),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2")]
            fn bits256<$($generic: $bound),*>($($argument: $type),*) $(-> $result)? {
                body($($argument),*)
            }
            match Width::current() {
                // SAFETY: the tier says that the machine has AVX-512F and AVX-512BW, and with them AVX2.
                #[cfg(target_arch = "x86_64")]
                Width::Bits512 => unsafe { bits512($($argument),*) },
                // SAFETY: the tier says that the machine has AVX2.
                #[cfg(target_arch = "x86_64")]
                Width::Bits256 => unsafe { bits256($($argument),*) },
                Width::Baseline => body($($argument),*),
            }
        }
    };
}

/// A function of one number; a trait, since macros take paths.
pub(crate) trait Map<A, B>: Fn(A) -> B + Copy {}
impl<A, B, F: Fn(A) -> B + Copy> Map<A, B> for F {}

/// A function of two numbers.
pub(crate) trait Map2<A, B>: Fn(A, A) -> B + Copy {}
impl<A, B, F: Fn(A, A) -> B + Copy> Map2<A, B> for F {}

for_each_width!(
    /// Applies a function to every element.
    map, <A: Copy, B: Copy, F: Map<A, B>>, (x: &[A], out: &mut [B], f: F), {
        for (out, &x) in out.iter_mut().zip(x) {
            *out = f(x);
        }
    }
);

for_each_width!(
    /// Applies a function to every pair of elements.
    map2, <A: Copy, B: Copy, F: Map2<A, B>>, (x: &[A], y: &[A], out: &mut [B], f: F), {
        for ((out, &x), &y) in out.iter_mut().zip(x).zip(y) {
            *out = f(x, y);
        }
    }
);

for_each_width!(
    /// Chooses between two elements by a condition, without branches.
    choose, <T: Copy>, (condition: &[u8], x: &[T], y: &[T], out: &mut [T]), {
        for (((out, &condition), &x), &y) in out.iter_mut().zip(condition).zip(x).zip(y) {
            *out = if condition != 0 { x } else { y };
        }
    }
);

/// Returns whether `x` is larger; NaN is larger than everything except NaN.
#[inline(always)]
fn is_larger(x: f32, most: f32) -> bool {
    (x > most) | (x.is_nan() & !most.is_nan())
}

/// Returns the larger number; the first NaN if there is one.
#[inline(always)]
fn larger(most: f32, x: f32) -> f32 {
    if is_larger(x, most) { x } else { most }
}

for_each_width!(
    /// Returns the largest elements of windows of 2 x 2 elements without overlap, over two lines of an image.
    largest_of_four, <>, (lines: [&[f32]; 2], out: &mut [f32]), {
        let [above, below] = lines.map(|line| line.chunks_exact(2));
        for ((out, a), b) in out.iter_mut().zip(above).zip(below) {
            *out = larger(larger(larger(a[0], a[1]), b[0]), b[1]);
        }
    }
);

for_each_width!(
    /// Writes the gradient of each window of 2 x 2 elements to its first largest element, and zeros to the others.
    spread_to_largest_of_four, <>, (lines: [&[f32]; 2], g: &[f32], above: &mut [f32], below: &mut [f32]), {
        let [first, second] = lines.map(|line| line.chunks_exact(2));
        let out = above.chunks_exact_mut(2).zip(below.chunks_exact_mut(2));
        for (((a, b), &g), (out_a, out_b)) in first.zip(second).zip(g).zip(out) {
            let (top, bottom) = (larger(a[0], a[1]), larger(b[0], b[1]));
            let [above, below] = if is_larger(bottom, top) { [0.0, g] } else { [g, 0.0] };
            [out_a[0], out_a[1]] = if is_larger(a[1], a[0]) { [0.0, above] } else { [above, 0.0] };
            [out_b[0], out_b[1]] = if is_larger(b[1], b[0]) { [0.0, below] } else { [below, 0.0] };
        }
    }
);

for_each_width!(
    /// Returns the means of windows of 2 x 2 elements without overlap, over two lines of an image.
    mean_of_four, <>, (lines: [&[f32]; 2], out: &mut [f32]), {
        let [above, below] = lines.map(|line| line.chunks_exact(2));
        for ((out, a), b) in out.iter_mut().zip(above).zip(below) {
            *out = (0.0 + a[0] + a[1] + b[0] + b[1]) / 4.0;
        }
    }
);

for_each_width!(
    /// Writes a quarter of the gradient of each window of 2 x 2 elements to its elements, of which
    /// two are in this line.
    spread_quarters, <>, (g: &[f32], line: &mut [f32]), {
        for (out, &g) in line.chunks_exact_mut(2).zip(g) {
            // Like a sum that begins with zero.
            let part = 0.0 + g / 4.0;
            out[0] = part;
            out[1] = part;
        }
    }
);

for_each_width!(
    /// Replaces each maximum by every `step`th element of a line that is larger.
    take_larger, <>, (most: &mut [f32], line: &[f32], step: usize), {
        for (most, &x) in most.iter_mut().zip(line.iter().step_by(step)) {
            *most = larger(*most, x);
        }
    }
);

for_each_width!(
    /// Like [`take_larger`], and sets the number of each element that is replaced.
    take_larger_index, <>, (most: &mut [f32], indices: &mut [u32], line: &[f32], step: usize, index: u32), {
        for ((most, at), &x) in most.iter_mut().zip(indices).zip(line.iter().step_by(step)) {
            let is_new = is_larger(x, *most);
            *most = if is_new { x } else { *most };
            *at = if is_new { index } else { *at };
        }
    }
);

/// The number of partial sums of a dot product.
const DOT_LANES: usize = 16;

for_each_width!(
    /// Adds the dot products of a row of `k` elements and several rows, which follow each other, to elements of the result.
    ///
    /// A dot product is summed in 16 lanes, which are added pairwise: it depends on its two rows alone.
    add_dots, <>, (k: usize, a: &[f32], rows: &[f32], out: &mut [f32]), {
        let whole = k / DOT_LANES * DOT_LANES;
        let (a, a_rest) = a[..k].split_at(whole);
        for (out, rows) in out.chunks_mut(4).zip(rows.chunks(4 * k.max(1))) {
            // The last rows may be fewer than four: the last one is repeated, and its other sums are dropped.
            let last = out.len() - 1;
            let rows = [0, 1, 2, 3].map(|row: usize| &rows[row.min(last) * k..][..k]);
            let mut sums = [[0f32; DOT_LANES]; 4];
            for (number, a) in a.chunks_exact(DOT_LANES).enumerate() {
                for (sums, row) in sums.iter_mut().zip(rows) {
                    let b = &row[number * DOT_LANES..][..DOT_LANES];
                    for lane in 0..DOT_LANES {
                        sums[lane] += a[lane] * b[lane];
                    }
                }
            }
            for ((out, sums), row) in out.iter_mut().zip(sums).zip(rows) {
                *out += lanes_and_rest(sums, a_rest, &row[whole..]);
            }
        }
    }
);

/// Returns the sum of the lanes of a dot product, and of the products that fill no lanes.
#[inline(always)]
fn lanes_and_rest(mut lanes: [f32; DOT_LANES], a: &[f32], b: &[f32]) -> f32 {
    for (lane, (&a, &b)) in lanes.iter_mut().zip(a.iter().zip(b)) {
        *lane += a * b;
    }
    let mut len = DOT_LANES;
    while len > 1 {
        len /= 2;
        for i in 0..len {
            lanes[i] += lanes[i + len];
        }
    }
    lanes[0]
}

/// The number of partial results.
const LANES: usize = 64;

for_each_width!(
    /// Folds elements with a function that may be taken in any order.
    fold, <T: Copy, F: Map2<T, T>>, (x: &[T], identity: T, f: F) -> T, {
        let mut lanes = [identity; LANES];
        let chunks = x.chunks_exact(LANES);
        let rest = chunks.remainder();
        for chunk in chunks {
            for (lane, &x) in lanes.iter_mut().zip(chunk) {
                *lane = f(*lane, x);
            }
        }
        for (lane, &x) in lanes.iter_mut().zip(rest) {
            *lane = f(*lane, x);
        }
        let mut len = LANES;
        while len > 1 {
            len /= 2;
            for i in 0..len {
                lanes[i] = f(lanes[i], lanes[i + len]);
            }
        }
        lanes[0]
    }
);

/// A key that elements are compared by; a trait, since macros take paths.
pub(crate) trait Key: Ord + Copy {}
impl<K: Ord + Copy> Key for K {}

for_each_width!(
    /// Returns the largest key of elements, or `least` if there are none.
    largest_key, <T: Copy, K: Key, F: Map<T, K>>, (x: &[T], least: K, key: F) -> K, {
        let mut lanes = [least; LANES];
        let chunks = x.chunks_exact(LANES);
        let rest = chunks.remainder();
        for chunk in chunks {
            for (lane, &x) in lanes.iter_mut().zip(chunk) {
                *lane = (*lane).max(key(x));
            }
        }
        for (lane, &x) in lanes.iter_mut().zip(rest) {
            *lane = (*lane).max(key(x));
        }
        lanes.into_iter().max().unwrap_or(least)
    }
);

for_each_width!(
    /// Folds elements into results of their own.
    fold_into, <T: Copy, F: Map2<T, T>>, (into: &mut [T], x: &[T], f: F), {
        for (into, &x) in into.iter_mut().zip(x) {
            *into = f(*into, x);
        }
    }
);

for_each_width!(
    /// Copies runs of elements, `step` apart, into some columns of lines of `width` elements, and
    /// sets the other columns to zero.
    copy_runs, <>, (
        from: &[f32], step: usize, lines: &mut [f32], width: usize, columns: std::ops::Range<usize>
    ), {
        // The number of vectors of a run is known to the compiler.
        match columns.len() {
            8 => copy_runs_of::<1>(from, step, lines, width, columns),
            9..=16 => copy_runs_of::<2>(from, step, lines, width, columns),
            17..=24 => copy_runs_of::<3>(from, step, lines, width, columns),
            25..=32 => copy_runs_of::<4>(from, step, lines, width, columns),
            _ => {
                for (run, line) in from.chunks(step).zip(lines.chunks_exact_mut(width)) {
                    line[..columns.start].fill(0.0);
                    line[columns.end..].fill(0.0);
                    line[columns.clone()].copy_from_slice(&run[..columns.len()]);
                }
            }
        }
    }
);

/// The elements of a vector that short runs are copied by.
const RUN: usize = 8;

/// Copies runs of more than `N - 1` and at most `N` vectors: the last vector may overlap the one
/// before it. A call of `memcpy` takes longer.
#[inline(always)]
fn copy_runs_of<const N: usize>(
    from: &[f32],
    step: usize,
    lines: &mut [f32],
    width: usize,
    columns: std::ops::Range<usize>,
) {
    let len = columns.len();
    assert!(RUN * (N - 1) < len && len <= RUN * N && columns.end <= width && len <= step);
    let has_zeros = len < width;
    for (run, line) in from.chunks(step).zip(lines.chunks_exact_mut(width)) {
        if has_zeros {
            // Vectors of zeros, which the run overwrites in part, unless there are many.
            if columns.start <= RUN && width - columns.end <= RUN {
                line[..RUN].copy_from_slice(&[0.0; RUN]);
                line[width - RUN..].copy_from_slice(&[0.0; RUN]);
            } else {
                line[..columns.start].fill(0.0);
                line[columns.end..].fill(0.0);
            }
        }
        let (run, line) = (&run[..len], &mut line[columns.clone()]);
        for k in 0..N - 1 {
            line[RUN * k..RUN * (k + 1)].copy_from_slice(&run[RUN * k..RUN * (k + 1)]);
        }
        line[len - RUN..].copy_from_slice(&run[len - RUN..]);
    }
}

for_each_width!(
    /// Adds some columns of lines of `width` elements to runs of elements, `step` apart.
    add_runs, <>, (
        lines: &[f32], width: usize, columns: std::ops::Range<usize>, into: &mut [f32], step: usize
    ), {
        for (line, run) in lines.chunks_exact(width).zip(into.chunks_mut(step)) {
            let line = &line[columns.clone()];
            let run = &mut run[..line.len()];
            // Vectors, then pairs: most runs are short.
            let (to, to_rest) = run.as_chunks_mut::<RUN>();
            let (from, from_rest) = line.as_chunks::<RUN>();
            for (to, from) in to.iter_mut().zip(from) {
                to.iter_mut().zip(from).for_each(|(sum, &x)| *sum += x);
            }
            let (to, to_rest) = to_rest.as_chunks_mut::<2>();
            let (from, from_rest) = from_rest.as_chunks::<2>();
            for (to, from) in to.iter_mut().zip(from) {
                to.iter_mut().zip(from).for_each(|(sum, &x)| *sum += x);
            }
            to_rest.iter_mut().zip(from_rest).for_each(|(sum, &x)| *sum += x);
        }
    }
);

/// Like [`map2`], for functions with branches, which are not vectorised.
pub(crate) fn map2_plain<A: Copy, B>(x: &[A], y: &[A], out: &mut [B], f: impl Fn(A, A) -> B) {
    for ((out, &x), &y) in out.iter_mut().zip(x).zip(y) {
        *out = f(x, y);
    }
}

/// The size in bytes from which on a result bypasses the caches: it would not stay in them.
const STREAM_FROM: usize = 8 << 20;

/// Returns whether a result of this size is written with a [`Stream`].
pub(crate) fn streams(bytes: usize) -> bool {
    cfg!(target_arch = "x86_64") && bytes >= STREAM_FROM
}

/// Copies elements to memory past the caches: lines that are written as a whole need not be read
/// before. Dropping the stream orders its stores before any signal to another thread; a fence after
/// each copy would wait for memory every time.
#[derive(Debug)]
pub(crate) struct Stream(());

/// The size of a cache line in bytes.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

impl Stream {
    pub(crate) fn new() -> Self {
        Self(())
    }

    /// Copies elements.
    pub(crate) fn copy<T: bytemuck::Pod>(&mut self, from: &[T], to: &mut [T]) {
        let len = from.len().min(to.len());
        let (from, to) = (&from[..len], &mut to[..len]);
        #[cfg(target_arch = "x86_64")]
        {
            let (source, target): (&[u8], &mut [u8]) =
                (bytemuck::cast_slice(from), bytemuck::cast_slice_mut(to));
            let head = target.as_ptr().align_offset(LINE).min(target.len());
            let rest = head + (target.len() - head) / LINE * LINE;
            target[..head].copy_from_slice(&source[..head]);
            let lines = (rest - head) / LINE;
            // SAFETY: the lines are in both slices, and the target is aligned to a line from `head`
            // on.
            unsafe { stream_lines(source[head..].as_ptr(), target[head..].as_mut_ptr(), lines) };
            target[rest..].copy_from_slice(&source[rest..]);
        }
        #[cfg(not(target_arch = "x86_64"))]
        to.copy_from_slice(from);
    }
}

/// # Safety
/// Both addresses must be valid for `lines` cache lines, and `to` must be aligned to a line.
#[cfg(target_arch = "x86_64")]
unsafe fn stream_lines(from: *const u8, to: *mut u8, lines: usize) {
    use std::arch::x86_64::{
        __m128i, _mm_loadu_si128, _mm_stream_si128, _mm512_loadu_si512, _mm512_stream_si512,
    };
    /// Writes whole lines: a processor may write a part of a line to memory before it has the rest.
    #[target_feature(enable = "avx512f")]
    unsafe fn bits512(from: *const u8, to: *mut u8, lines: usize) {
        for i in 0..lines {
            // SAFETY: guaranteed by the caller.
            unsafe {
                _mm512_stream_si512(
                    to.add(LINE * i).cast(),
                    _mm512_loadu_si512(from.add(LINE * i).cast()),
                )
            };
        }
    }
    if Width::current() == Width::Bits512 {
        // SAFETY: the tier says that the machine has AVX-512F; all else is guaranteed by the caller.
        return unsafe { bits512(from, to, lines) };
    }
    for i in 0..lines * (LINE / size_of::<__m128i>()) {
        // SAFETY: guaranteed by the caller; SSE2 is part of the architecture.
        unsafe {
            _mm_stream_si128(
                to.cast::<__m128i>().add(i),
                _mm_loadu_si128(from.cast::<__m128i>().add(i)),
            )
        };
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: SSE is part of the architecture.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::x86_64::_mm_sfence();
        }
    }
}

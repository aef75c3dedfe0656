//! Copies of parts of operands in the order in which tiles read them.

use super::blocks::Operand;

/// The side of the squares in which rows and columns are exchanged.
const SQUARE: usize = 4;

/// The number of floats copied at once.
const CHUNK: usize = 8;

/// The number of lines that are read together: more would evict each other from the first-level
/// cache if they are 4 KiB apart, and fewer would not fill cache lines.
const GROUP: usize = 16;

/// Interleaves lines of an operand: element i of each, then element i + 1, `width` after the one
/// before. Lanes past the lines are zeros.
///
/// # Safety
/// The operand must be valid for the lines and their length, and `to` for `width` times the length;
/// it has at least as many lanes as there are lines.
pub(super) unsafe fn pack([lines, len]: [usize; 2], from: Operand, to: *mut f32, width: usize) {
    // SAFETY: all addresses read are of the operand, all written below `width` times the length.
    unsafe {
        if lines < width {
            to.write_bytes(0, width * len);
        }
        if from.row_step == 1 {
            for i in 0..len {
                copy(from.at(0, i), to.add(i * width), lines);
            }
            return;
        }
        let mut squares = [0, 0];
        if from.column_step == 1 {
            squares = [lines, len].map(|size| size / SQUARE * SQUARE);
            for group in (0..squares[0]).step_by(GROUP) {
                let group = group..squares[0].min(group + GROUP);
                for chunk in (0..squares[1]).step_by(GROUP) {
                    let chunk = chunk..squares[1].min(chunk + GROUP);
                    for line in group.clone().step_by(SQUARE) {
                        for i in chunk.clone().step_by(SQUARE) {
                            transpose(from.from(line, i), to.add(i * width + line), width);
                        }
                    }
                }
            }
        }
        for line in 0..lines {
            let done = if line < squares[0] { squares[1] } else { 0 };
            for i in done..len {
                *to.add(i * width + line) = *from.at(line, i);
            }
        }
    }
}

/// Copies floats, without a call if they are whole chunks.
///
/// # Safety
/// Both addresses must be valid for `len` floats.
#[inline(always)]
unsafe fn copy(from: *const f32, to: *mut f32, len: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if !len.is_multiple_of(CHUNK) {
            return to.copy_from_nonoverlapping(from, len);
        }
        for i in (0..len).step_by(CHUNK) {
            let chunk = from.add(i).cast::<[f32; CHUNK]>().read_unaligned();
            to.add(i).cast::<[f32; CHUNK]>().write_unaligned(chunk);
        }
    }
}

/// Transposes a square whose rows are contiguous.
///
/// # Safety
/// The operand must be valid for the square, and `to` for as many rows, `step` apart.
#[inline(always)]
unsafe fn transpose(from: Operand, to: *mut f32, step: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: guaranteed by the caller; SSE is part of the architecture.
    unsafe {
        use std::arch::x86_64::{_MM_TRANSPOSE4_PS, _mm_loadu_ps, _mm_storeu_ps};
        let [mut a, mut b, mut c, mut d] = [0, 1, 2, 3].map(|row| _mm_loadu_ps(from.at(row, 0)));
        _MM_TRANSPOSE4_PS(&mut a, &mut b, &mut c, &mut d);
        for (row, values) in [a, b, c, d].into_iter().enumerate() {
            _mm_storeu_ps(to.add(row * step), values);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    for row in 0..SQUARE {
        for column in 0..SQUARE {
            // SAFETY: guaranteed by the caller.
            unsafe { *to.add(column * step + row) = *from.at(row, column) };
        }
    }
}

//! The patches of images as the right operand of a product: a convolution is the product of its
//! weights with them, and they are never stored.

use std::fmt::Write;

use super::tile::{Product, Tile, WORDS};

/// The constants of a convolution in its kernel; the others are parameters, so that few kernels
/// serve many convolutions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Patches {
    /// The height and width of the kernel.
    pub(crate) kernel: [u32; 2],
    /// The distance between elements of the image, with zeros in between.
    pub(crate) spread: [u32; 2],
}

/// Returns the number of elements that each thread loads, all of one column.
fn per_thread(tile: Tile) -> u32 {
    tile.depth * tile.columns / tile.threads()
}

pub(super) fn declare_registers(tile: Tile, out: &mut String) {
    for j in 0..per_thread(tile) {
        let _ = writeln!(out, "var pb{j} = 0.0;");
    }
}

/// Declares the function that loads an element: row `k` of the position whose first row and column in
/// the image are `y0` and `x0`.
pub(super) fn declare_load(product: &Product, patches: Patches, out: &mut String) {
    let first = WORDS + 3 * product.batch_rank;
    let word = |i: usize| product.params.word(first + i);
    let Patches { kernel: [height, width], spread: [sy, sx] } = patches;
    let spread = |name: &str, by: u32| {
        if by > 1 { format!(" && {name} % {by}u == 0u") } else { String::new() }
    };
    let _ = writeln!(
        out,
        "fn b_load(base: u32, y0: u32, x0: u32, k: u32) -> f32 {{
    let c = k / {area}u; let r = k % {area}u;
    // Positions before the image wrap around, past its end.
    let y = y0 + (r / {width}u) * {dy}; let x = x0 + (r % {width}u) * {dx};
    var v = 0.0;
    if (y < {rows} && x < {columns}{spread_y}{spread_x}) {{
        v = b_at(base + {offset} + c * {step_c} + (y / {sy}u) * {step_y} + (x / {sx}u) * {step_x});
    }}
    return v;
}}",
        area = height * width,
        dy = product.params.word(13),
        dx = product.params.word(14),
        rows = word(3),
        columns = word(4),
        spread_y = spread("y", sy),
        spread_x = spread("x", sx),
        offset = product.params.word(12),
        step_c = word(5),
        step_y = word(6),
        step_x = word(7),
    );
}

/// Writes the position of the column of a thread in the image.
pub(super) fn write_positions(product: &Product, out: &mut String) {
    let first = WORDS + 3 * product.batch_rank;
    let word = |i: usize| product.params.word(first + i);
    let _ = writeln!(
        out,
        "let position = col0 + t % {columns}u; let has_position = position < N; let t_k = t / {columns}u;
let y0 = (position / {width}) * {stride_y} - {pad_y}; let x0 = (position % {width}) * {stride_x} - {pad_x};",
        columns = product.tile.columns,
        width = word(0),
        pad_y = word(1),
        pad_x = word(2),
        stride_y = word(8),
        stride_x = word(9),
    );
}

pub(super) fn write_loads(tile: Tile, k0: &str, out: &mut String) {
    let rows_at_once = tile.threads() / tile.columns;
    for j in 0..per_thread(tile) {
        let k = format!("{k0} + t_k + {}u", j * rows_at_once);
        let _ = writeln!(
            out,
            "pb{j} = 0.0; if (has_position && {k} < k_end) {{ pb{j} = b_load(base_b, y0, x0, {k}); }}"
        );
    }
}

pub(super) fn write_stores(tile: Tile, out: &mut String) {
    let rows_at_once = tile.threads() / tile.columns;
    for j in 0..per_thread(tile) {
        let _ = writeln!(
            out,
            "sb[(t_k + {}u) * {columns}u + t % {columns}u] = pb{j};",
            j * rows_at_once,
            columns = tile.columns
        );
    }
}

//! The kernel of matrix products: a workgroup computes a tile of the result; each thread computes a
//! part of it in registers.
//!
//! # The order of sums
//!
//! The common axis is cut into slices of [`SLICE`] elements. Within a slice products are added one
//! after another by fused multiply-adds, and slices are added one after another. Every tile and
//! every division of slices keeps this order, so an element of a result depends on its row and its
//! column alone, not on the shape of the product.

use std::borrow::Cow;
use std::fmt::Write;

use aleatron_device::{AdapterInfo, Capabilities};

use super::patches::{self, Patches};
use crate::gpu::kernel::Describe;
use crate::gpu::wgsl::{Items, Operand, ParamsShape};

/// The number of elements of the common axis that are added in registers.
pub(crate) const SLICE: usize = 512;

/// The number of words of parameters before those of the batch.
pub(crate) const WORDS: usize = 16;

/// The part of the result that a workgroup computes, and its division among threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tile {
    /// The rows of the tile.
    pub rows: u32,
    /// The columns of the tile.
    pub columns: u32,
    /// The elements of the common axis that are in workgroup memory at a time.
    pub depth: u32,
    /// The rows of a thread.
    pub thread_rows: u32,
    /// The columns of a thread, a multiple of 4.
    pub thread_columns: u32,
}

impl Tile {
    /// For products whose operands are expensive to load.
    pub const LARGE: Self = Self::new(128, 128, 16, 8, 8);
    /// For large products.
    pub const WIDE: Self = Self::new(64, 128, 16, 8, 4);
    /// For products that have too few large tiles.
    pub const MEDIUM: Self = Self::new(64, 64, 16, 8, 4);
    /// For few rows.
    pub const LOW: Self = Self::new(16, 64, 32, 4, 4);
    /// For one row, or a few.
    pub const ROW: Self = Self::new(4, 128, 32, 1, 4);
    /// For few columns.
    pub const NARROW: Self = Self::new(64, 16, 32, 4, 4);
    /// All tiles.
    pub const ALL: [Self; 6] =
        [Self::LARGE, Self::WIDE, Self::MEDIUM, Self::LOW, Self::ROW, Self::NARROW];

    /// Creates a tile.
    #[must_use]
    pub const fn new(
        rows: u32,
        columns: u32,
        depth: u32,
        thread_rows: u32,
        thread_columns: u32,
    ) -> Self {
        Self { rows, columns, depth, thread_rows, thread_columns }
    }

    /// Returns the number of threads of a workgroup; 0 if the tile does not divide evenly.
    #[must_use]
    pub const fn threads(self) -> u32 {
        if self.is_shared_out() {
            self.rows / self.thread_rows * (self.columns / self.thread_columns)
        } else {
            0
        }
    }

    /// Returns whether the tile divides evenly among threads, in groups of four, and slices into
    /// whole tiles.
    const fn is_shared_out(self) -> bool {
        let Self { rows, columns, depth, thread_rows, thread_columns } = self;
        let has_sizes =
            rows > 0 && columns > 0 && depth > 0 && thread_rows > 0 && thread_columns > 0;
        let is_small = rows <= 1024 && columns <= 1024 && thread_rows <= 32 && thread_columns <= 32;
        has_sizes
            && is_small
            && rows.is_multiple_of(4)
            && rows.is_multiple_of(thread_rows)
            && (thread_rows < 4 || thread_rows.is_multiple_of(4))
            && thread_columns.is_multiple_of(4)
            && columns.is_multiple_of(thread_columns)
            && depth.is_multiple_of(4)
            && SLICE.is_multiple_of(depth as usize)
    }

    /// Returns whether a device can run the tile, for a matrix or for patches.
    pub(crate) fn fits(self, info: &AdapterInfo, right: Right) -> bool {
        let threads = self.threads();
        let bytes = 4 * self.depth.saturating_mul(self.rows + self.columns + 8);
        let suits = match right {
            Right::Matrix(_) => true,
            // Each thread loads elements of one column.
            Right::Patches(_) => threads > 0 && threads.is_multiple_of(self.columns),
        };
        threads > 0
            && threads <= info.max_workgroup_threads
            && bytes <= info.workgroup_bytes
            && suits
    }
}

/// The axis of an operand along which its elements are loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Along {
    /// The common axis.
    Depth,
    /// The other axis: rows of the left operand, columns of the right one.
    Side,
}

/// The loads of an operand, four elements at a time along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Load {
    pub(crate) along: Along,
    /// Vectors if four elements are contiguous and aligned to a vector of the buffer, otherwise
    /// singles.
    pub(crate) items: Items,
}

/// The source of the right operand. For patches, the words of strides are the distances between
/// elements under the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Right {
    /// A matrix.
    Matrix(Load),
    /// The patches of images in a convolution: a row for each element of its kernel, a column for
    /// each position.
    Patches(Patches),
}

/// Whether tiles may extend past the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Edges {
    /// All tiles are whole.
    Whole,
    /// Some tiles may be partial.
    Ragged,
}

/// The division of the slices of the common axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Slices {
    /// One workgroup computes all slices in order and adds each to the result.
    Sequential,
    /// A workgroup computes each slice; the slices are stored one after another.
    SplitK,
}

/// The kernel of a product.
///
/// In bounds: as `gpu/mod.rs` says. In ragged tiles, elements past the sizes are replaced by 0 and
/// not written; vectors are used only along axes that are whole vectors. Indices into workgroup
/// memory are below its size because of the numbering of items: item `i` of `count` is at `i /
/// width`, `i % width`, and items past `count` are skipped.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Product {
    pub(crate) tile: Tile,
    pub(crate) left: (Operand, Load),
    pub(crate) right: (Operand, Right),
    pub(crate) bias: Option<Operand>,
    pub(crate) out: Operand,
    pub(crate) edges: Edges,
    pub(crate) slices: Slices,
    /// The number of axes of the batch.
    pub(crate) batch_rank: usize,
    pub(crate) params: ParamsShape,
}

/// The items of an operand: their number, and the number of rounds in which each thread loads one.
struct Items4 {
    count: u32,
    per_thread: u32,
    /// Whether the last round has an item for each thread.
    is_even: bool,
}

impl Items4 {
    fn new(count: u32, threads: u32) -> Self {
        Self { count, per_thread: count.div_ceil(threads), is_even: count.is_multiple_of(threads) }
    }
}

/// The names of one side of the product in the source.
struct Side {
    /// The buffer.
    name: &'static str,
    /// The workgroup memory.
    shared: &'static str,
    /// The size of the side in the tile.
    size: u32,
    /// The index of the first word: offset, stride along the side, stride along the depth.
    words: usize,
    /// The number of elements along the side.
    limit: &'static str,
    /// The first element of the tile along the side.
    first: &'static str,
}

const LEFT: Side = Side { name: "a", shared: "sa", size: 0, words: 9, limit: "M", first: "row0" };
const RIGHT: Side = Side { name: "b", shared: "sb", size: 0, words: 12, limit: "N", first: "col0" };

impl Product {
    fn left_side(&self) -> Side {
        Side { size: self.tile.rows, ..LEFT }
    }

    fn right_side(&self) -> Side {
        Side { size: self.tile.columns, ..RIGHT }
    }

    fn is_ragged(&self) -> bool {
        self.edges == Edges::Ragged
    }

    /// Returns the pitch of rows of workgroup memory in floats. Stores along the depth write to
    /// several rows at once: padding reduces bank conflicts.
    fn pitch(size: u32, load: Option<Load>) -> u32 {
        match load {
            Some(Load { along: Along::Depth, .. }) => size + 4,
            _ => size,
        }
    }

    fn right_load(&self) -> Option<Load> {
        match self.right.1 {
            Right::Matrix(load) => Some(load),
            Right::Patches(_) => None,
        }
    }

    /// Declares workgroup memory: vectors if vectors are stored, otherwise floats.
    fn declare_shared(&self, side: &Side, load: Option<Load>, out: &mut String) {
        let floats = self.tile.depth * Self::pitch(side.size, load);
        let name = side.shared;
        let _ = match load {
            Some(Load { along: Along::Side, .. }) => {
                writeln!(out, "var<workgroup> {name}: array<vec4<f32>, {}>;", floats / 4)
            }
            _ => writeln!(out, "var<workgroup> {name}: array<f32, {floats}>;"),
        };
    }

    /// Declares the function that loads an item of an operand: four elements from `(x, k)` on.
    fn declare_load(&self, side: &Side, load: Load, out: &mut String) {
        let [offset, step_x, step_k] = [0, 1, 2].map(|i| self.params.word(side.words + i));
        let (name, limit) = (side.name, side.limit);
        let _ =
            writeln!(out, "fn {name}_load(base: u32, x: u32, k: u32, K_end: u32) -> vec4<f32> {{");
        let _ =
            writeln!(out, "    let M = {}; let N = {};", self.params.word(0), self.params.word(1));
        match (load.items, load.along) {
            (Items::Vectors, along) => {
                if self.is_ragged() {
                    let _ = writeln!(
                        out,
                        "    if (x >= {limit} || k >= K_end) {{ return vec4<f32>(0.0); }}"
                    );
                }
                let position = match along {
                    Along::Depth => format!("x * {step_x} + k / 4u"),
                    Along::Side => format!("x / 4u + k * {step_k}"),
                };
                let _ = writeln!(out, "    return {name}_vec(base + {offset} + {position});\n}}");
            }
            (_, along) => {
                let _ = writeln!(
                    out,
                    "    let at = base + {offset} + x * {step_x} + k * {step_k};\n    var v = vec4<f32>(0.0);"
                );
                let (step, size, from) = match along {
                    Along::Depth => (&step_k, "K_end", "k"),
                    Along::Side => (&step_x, limit, "x"),
                };
                let fixed = match along {
                    Along::Depth => format!("x < {limit}"),
                    Along::Side => "k < K_end".to_owned(),
                };
                for (i, c) in ["x", "y", "z", "w"].into_iter().enumerate() {
                    let element = format!("v.{c} = {name}_at(at + {i}u * {step});");
                    let _ = if self.is_ragged() {
                        writeln!(out, "    if ({fixed} && {from} + {i}u < {size}) {{ {element} }}")
                    } else {
                        writeln!(out, "    {element}")
                    };
                }
                let _ = writeln!(out, "    return v;\n}}");
            }
        }
    }

    /// Returns the item `i` of a thread: its position in the tile as `(x, k)`.
    fn item_position(&self, side: &Side, load: Load, i: &str) -> (String, String) {
        let depth = self.tile.depth / 4;
        match load.along {
            Along::Depth => (format!("{i} / {depth}u"), format!("({i} % {depth}u) * 4u")),
            Along::Side => {
                (format!("({i} % {}u) * 4u", side.size / 4), format!("{i} / {}u", side.size / 4))
            }
        }
    }

    /// Writes the loads of the next tile of a matrix into registers.
    fn write_loads(&self, side: &Side, load: Load, k0: &str, out: &mut String) {
        let (threads, name) = (self.tile.threads(), side.name);
        let items = Items4::new(side.size * self.tile.depth / 4, threads);
        for j in 0..items.per_thread {
            let i = format!("(t + {}u)", j * threads);
            let (x, k) = self.item_position(side, load, &i);
            let is_last = j + 1 == items.per_thread;
            let load = format!(
                "p{name}{j} = {name}_load(base_{name}, {} + {x}, {k0} + {k}, k_end);",
                side.first
            );
            let _ = if is_last && !items.is_even {
                writeln!(out, "if {i} < {}u {{ {load} }}", items.count)
            } else {
                writeln!(out, "{load}")
            };
        }
    }

    /// Writes the stores of the loaded elements into workgroup memory.
    fn write_stores(&self, side: &Side, load: Load, out: &mut String) {
        let (threads, name, shared) = (self.tile.threads(), side.name, side.shared);
        let pitch = Self::pitch(side.size, Some(load));
        let items = Items4::new(side.size * self.tile.depth / 4, threads);
        for j in 0..items.per_thread {
            let i = format!("(t + {}u)", j * threads);
            let (x, k) = self.item_position(side, load, &i);
            let store = match load.along {
                Along::Side => {
                    format!("{shared}[({k}) * {}u + ({x}) / 4u] = p{name}{j};", pitch / 4)
                }
                Along::Depth => {
                    let store = |(c, part): (u32, &str)| {
                        format!("{shared}[at + {}u] = p{name}{j}.{part};", c * pitch)
                    };
                    let stores: String = (0..).zip(["x", "y", "z", "w"]).map(store).collect();
                    format!("let at = ({k}) * {pitch}u + {x}; {stores}")
                }
            };
            let is_last = j + 1 == items.per_thread;
            let _ = if is_last && !items.is_even {
                writeln!(out, "if {i} < {}u {{ {store} }}", items.count)
            } else {
                writeln!(out, "{{ {store} }}")
            };
        }
    }

    /// Returns the expression of four floats of workgroup memory, from float `x`, a multiple of 4,
    /// of row `k` on.
    fn shared_vec(&self, side: &Side, load: Option<Load>, x: &str) -> String {
        let (shared, pitch) = (side.shared, Self::pitch(side.size, load));
        match load {
            Some(Load { along: Along::Side, .. }) => {
                format!("{shared}[k * {}u + ({x}) / 4u]", pitch / 4)
            }
            _ => format!(
                "vec4<f32>({shared}[k * {pitch}u + {x}], {shared}[k * {pitch}u + {x} + 1u], {shared}[k * {pitch}u + {x} + 2u], {shared}[k * {pitch}u + {x} + 3u])"
            ),
        }
    }

    /// Returns a row of a thread, of the tile.
    fn row_of(&self, row: u32) -> String {
        let Tile { rows, thread_rows, .. } = self.tile;
        if thread_rows < 4 {
            return format!("(tr * {thread_rows}u + {row}u)");
        }
        let (group, groups) = (row / 4, thread_rows / 4);
        format!("({}u + tr * 4u + {}u)", group * (rows / groups), row % 4)
    }

    /// Returns the first of four columns of a thread, of the tile.
    fn column_of(&self, group: u32) -> String {
        let Tile { columns, thread_columns, .. } = self.tile;
        format!("({}u + tc * 4u)", group * (columns / (thread_columns / 4)))
    }

    /// Writes the products of the elements in workgroup memory.
    fn write_products(&self, out: &mut String) {
        let Tile { depth, thread_rows, thread_columns, .. } = self.tile;
        let (left, right) = (self.left_side(), self.right_side());
        let _ = writeln!(out, "for (var k = 0u; k < {depth}u; k++) {{");
        for group in 0..thread_columns / 4 {
            let vec = self.shared_vec(&right, self.right_load(), &self.column_of(group));
            let _ = writeln!(out, "let y{group} = {vec};");
        }
        if thread_rows < 4 {
            for row in 0..thread_rows {
                let (pitch, x) = (Self::pitch(left.size, Some(self.left.1)), self.row_of(row));
                let value = match self.left.1.along {
                    Along::Depth => format!("sa[k * {pitch}u + {x}]"),
                    Along::Side => {
                        format!("sa[(k * {pitch}u + {x}) / 4u][(k * {pitch}u + {x}) % 4u]")
                    }
                };
                let _ = writeln!(out, "let x{row} = {value};");
            }
        } else {
            for group in 0..thread_rows / 4 {
                let vec = self.shared_vec(&left, Some(self.left.1), &self.row_of(4 * group));
                let _ = writeln!(out, "let xs{group} = {vec};");
                for (i, part) in (0..).zip(["x", "y", "z", "w"]) {
                    let _ = writeln!(out, "let x{} = xs{group}.{part};", 4 * group + i);
                }
            }
        }
        for row in 0..thread_rows {
            for group in 0..thread_columns / 4 {
                let _ = writeln!(
                    out,
                    "c{row}_{group} = fma(vec4<f32>(x{row}), y{group}, c{row}_{group});"
                );
            }
        }
        let _ = writeln!(out, "}}");
    }

    /// Writes the stores of the sums of a slice.
    fn write_results(&self, out: &mut String) {
        let Tile { thread_rows, thread_columns, .. } = self.tile;
        // Slices after the first are added to those before.
        let adds = self.slices == Slices::Sequential;
        let bias = self.bias.is_some() && adds;
        for row in 0..thread_rows {
            let _ = writeln!(out, "{{ let row = row0 + {};", self.row_of(row));
            if self.is_ragged() {
                let _ = writeln!(out, "if (row < M) {{");
            } else {
                let _ = writeln!(out, "{{");
            }
            if bias {
                let _ = writeln!(
                    out,
                    "let bias = select(0.0, bias_at(bias_first + row * {}), is_last);",
                    self.params.word(15)
                );
            }
            for group in 0..thread_columns / 4 {
                let value = format!("c{row}_{group}");
                let _ = writeln!(
                    out,
                    "{{ let col = col0 + {}; let at = out_base + row * N + col;",
                    self.column_of(group)
                );
                if self.out.items == Items::Vectors {
                    let check = if self.is_ragged() { "if (col < N) " } else { "" };
                    let _ = writeln!(out, "{check}{{ var v = {value};");
                    if adds {
                        let _ = writeln!(out, "if (s > 0u) {{ v = out_vec(at / 4u) + v; }}");
                    }
                    if bias {
                        let _ = writeln!(out, "if (is_last) {{ v = v + vec4<f32>(bias); }}");
                    }
                    let _ = writeln!(out, "out_put_vec(at / 4u, v); }}");
                } else {
                    for (i, part) in ["x", "y", "z", "w"].into_iter().enumerate() {
                        let check = if self.is_ragged() {
                            format!("if (col + {i}u < N) ")
                        } else {
                            String::new()
                        };
                        let _ = writeln!(out, "{check}{{ var v = {value}.{part};");
                        if adds {
                            let _ = writeln!(out, "if (s > 0u) {{ v = out_at(at + {i}u) + v; }}");
                        }
                        if bias {
                            let _ = writeln!(out, "if (is_last) {{ v = v + bias; }}");
                        }
                        let _ = writeln!(out, "out_put(at + {i}u, v); }}");
                    }
                }
                let _ = writeln!(out, "}}");
            }
            let _ = writeln!(out, "}} }}");
        }
    }

    /// Declares the accumulators and registers of a thread.
    fn declare_registers(&self, out: &mut String) {
        let (threads, depth) = (self.tile.threads(), self.tile.depth);
        let vectors = |size: u32| Items4::new(size * depth / 4, threads).per_thread;
        for j in 0..vectors(self.tile.rows) {
            let _ = writeln!(out, "var pa{j} = vec4<f32>(0.0);");
        }
        match self.right.1 {
            Right::Matrix(_) => {
                for j in 0..vectors(self.tile.columns) {
                    let _ = writeln!(out, "var pb{j} = vec4<f32>(0.0);");
                }
            }
            Right::Patches(_) => patches::declare_registers(self.tile, out),
        }
    }

    fn declare_sums(&self, out: &mut String) {
        for row in 0..self.tile.thread_rows {
            for group in 0..self.tile.thread_columns / 4 {
                let _ = writeln!(out, "var c{row}_{group} = vec4<f32>(0.0);");
            }
        }
    }

    /// Writes the index of the batch and the offsets of its matrices.
    fn write_batch(&self, out: &mut String) {
        let _ = writeln!(out, "var base_a = 0u; var base_b = 0u; var left = batch;");
        let rank = self.batch_rank;
        let word = |i: usize| self.params.word(WORDS + i);
        for axis in (0..rank).rev() {
            let (size, step_a, step_b) = (word(axis), word(rank + axis), word(2 * rank + axis));
            let _ = writeln!(
                out,
                "{{ let at = left % {size}; left = left / {size}; base_a += at * {step_a}; base_b += at * {step_b}; }}"
            );
        }
        if let Some(_bias) = self.bias {
            // The bias has a value for each row, and its own rows for each index of the batch's
            // last axis.
            let groups = if rank > 0 { word(rank - 1) } else { "1u".to_owned() };
            let _ = writeln!(
                out,
                "let bias_first = {} + (batch % {groups}) * M * {};",
                self.params.word(8),
                self.params.word(15)
            );
        }
    }
}

impl Describe for Product {
    fn name(&self) -> Cow<'static, str> {
        let Tile { rows, columns, .. } = self.tile;
        let what = match self.right.1 {
            Right::Matrix(_) => "matmul",
            Right::Patches(_) => "conv",
        };
        format!("{what} {rows}x{columns}").into()
    }

    fn operands(&self) -> Vec<(String, Operand)> {
        let mut operands = vec![("a".to_owned(), self.left.0), ("b".to_owned(), self.right.0)];
        operands.extend(self.bias.map(|bias| ("bias".to_owned(), bias)));
        operands.push(("out".to_owned(), self.out));
        operands
    }

    fn params(&self) -> ParamsShape {
        self.params
    }

    fn body(&self, _: Capabilities) -> String {
        let (threads, depth) = (self.tile.threads(), self.tile.depth);
        let (left, right) = (self.left_side(), self.right_side());
        let word = |i: usize| self.params.word(i);
        let mut text = String::new();
        self.declare_shared(&left, Some(self.left.1), &mut text);
        self.declare_shared(&right, self.right_load(), &mut text);
        self.declare_load(&left, self.left.1, &mut text);
        match self.right.1 {
            Right::Matrix(load) => self.declare_load(&right, load, &mut text),
            Right::Patches(own) => patches::declare_load(self, own, &mut text),
        }
        let _ = writeln!(
            text,
            "@compute @workgroup_size({threads}) fn main(
    @builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) t: u32,
) {{
let id = group.x + group.y * groups.x;
if (id >= {total}) {{ return; }}
let M = {m}; let N = {n}; let K = {k};
let tiles_n = {tiles_n}; let tiles_m = {tiles_m};
let tile_id = id % (tiles_n * tiles_m); let rest = id / (tiles_n * tiles_m);
// Neighbouring workgroups share rows and columns: eight rows of tiles are processed column by
// column.
let strip = tile_id / (8u * tiles_n); let in_strip = tile_id % (8u * tiles_n);
let strip_rows = min(tiles_m - strip * 8u, 8u);
let row0 = (strip * 8u + in_strip % strip_rows) * {rows}u;
let col0 = (in_strip / strip_rows) * {columns}u;
let tr = t / {per_row}u; let tc = t % {per_row}u;",
            total = word(5),
            m = word(0),
            n = word(1),
            k = word(2),
            tiles_n = word(3),
            tiles_m = word(4),
            rows = self.tile.rows,
            columns = self.tile.columns,
            per_row = self.tile.columns / self.tile.thread_columns,
        );
        let _ = match self.slices {
            Slices::Sequential => writeln!(
                text,
                "let batch = rest; let first_slice = {}; let last_slice = {}; let out_base = batch * M * N;",
                word(6),
                word(7)
            ),
            // The slice is the outermost index: a slice covers the whole batch.
            Slices::SplitK => writeln!(
                text,
                "let batch = rest / {count}; let first_slice = rest % {count}; let last_slice = first_slice + 1u;
let out_base = first_slice * {step} + batch * M * N;",
                count = word(7),
                step = word(8)
            ),
        };
        self.write_batch(&mut text);
        self.declare_registers(&mut text);
        if let Right::Patches(_) = self.right.1 {
            patches::write_positions(self, &mut text);
        }
        let _ = writeln!(
            text,
            "for (var s = first_slice; s < last_slice; s++) {{
let k_first = s * {SLICE}u; let k_end = min(K, k_first + {SLICE}u);"
        );
        self.declare_sums(&mut text);
        self.write_all_loads("k_first", &mut text);
        let _ = writeln!(text, "for (var k0 = k_first; k0 < k_end; k0 += {depth}u) {{");
        self.write_stores(&left, self.left.1, &mut text);
        match self.right.1 {
            Right::Matrix(load) => self.write_stores(&right, load, &mut text),
            Right::Patches(_) => patches::write_stores(self.tile, &mut text),
        }
        let _ = writeln!(
            text,
            "workgroupBarrier();\nif (k0 + {depth}u < k_end) {{\nlet k1 = k0 + {depth}u;"
        );
        self.write_all_loads("k1", &mut text);
        let _ = writeln!(text, "}}");
        self.write_products(&mut text);
        let _ = writeln!(text, "workgroupBarrier();\n}}\nlet is_last = s + 1u == last_slice;");
        self.write_results(&mut text);
        let _ = writeln!(text, "}}\n}}");
        text
    }
}

impl Product {
    fn write_all_loads(&self, k0: &str, out: &mut String) {
        self.write_loads(&self.left_side(), self.left.1, k0, out);
        match self.right.1 {
            Right::Matrix(load) => self.write_loads(&self.right_side(), load, k0, out),
            Right::Patches(_) => patches::write_loads(self.tile, k0, out),
        }
    }
}

/// Returns the items of the result: vectors if rows are whole vectors.
pub(crate) fn out_items(columns: usize) -> Items {
    if columns.is_multiple_of(4) { Items::Vectors } else { Items::Singles }
}

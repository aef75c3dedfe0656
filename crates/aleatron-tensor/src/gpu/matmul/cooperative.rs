//! Products of 16-bit floats through the matrix units of a GPU: the lanes of a subgroup multiply
//! squares of 16 x 16 together.
//!
//! Products are exact, sums have 32 bits and are rounded to 16 once. Squares are added up along the
//! common axis one after another, for any tile, so an element of a result depends on its row and
//! its column alone.

use std::borrow::Cow;
use std::fmt::Write;

use aleatron_device::{Capabilities, MatrixElement};

use super::tile::{Along, Edges, Load, WORDS};
use crate::gpu::device::GpuDevice;
use crate::gpu::kernel::Describe;
use crate::gpu::wgsl::{Items, Operand, ParamsShape};
use crate::math::Helper;

/// The number of lanes of a subgroup.
const LANES: u32 = 32;

/// The rows and columns of a square.
const SQUARE: u32 = 16;

/// The padding of rows of workgroup memory, in 16-bit floats: neighbouring rows begin in different
/// banks.
const GAP: u32 = 8;

/// The part of the result that a workgroup computes, and its division among subgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CooperativeTile {
    /// The rows of the tile.
    pub rows: u32,
    /// The columns of the tile.
    pub columns: u32,
    /// The elements of the common axis that are in workgroup memory at a time.
    pub depth: u32,
    /// The rows of a subgroup.
    pub subgroup_rows: u32,
    /// The columns of a subgroup.
    pub subgroup_columns: u32,
    /// The number of buffers in workgroup memory: with two, one is filled while the other is used.
    pub buffers: u32,
    /// The width of stores to workgroup memory.
    pub shared: Shared,
}

/// The width of stores to workgroup memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shared {
    /// Four elements at a time.
    Vectors,
    /// One element at a time, which is as fast with some drivers, and loads of squares are faster.
    Singles,
}

impl CooperativeTile {
    /// A tile for large products.
    pub const LARGE: Self = Self::new([128, 256, 32], [64, 64], 1).with_singles();
    /// A tile for products that have too few large tiles.
    pub const SMALL: Self = Self::new([64, 128, 64], [32, 32], 1);
    /// All tiles, including some for comparison.
    pub const ALL: [Self; 6] = [
        Self::LARGE,
        Self::SMALL,
        Self::new([128, 128, 64], [64, 32], 1),
        Self::new([128, 128, 32], [64, 32], 2).with_singles(),
        Self::new([256, 128, 32], [64, 64], 1).with_singles(),
        Self::new([64, 64, 32], [32, 32], 2),
    ];

    /// Writes workgroup memory one element at a time.
    #[must_use]
    pub const fn with_singles(self) -> Self {
        Self { shared: Shared::Singles, ..self }
    }

    /// Creates a tile of rows, columns and depth, with the rows and columns of each subgroup.
    #[must_use]
    pub const fn new(
        [rows, columns, depth]: [u32; 3],
        [subgroup_rows, subgroup_columns]: [u32; 2],
        buffers: u32,
    ) -> Self {
        Self {
            rows,
            columns,
            depth,
            subgroup_rows,
            subgroup_columns,
            buffers,
            shared: Shared::Vectors,
        }
    }

    /// Returns the number of subgroups of a workgroup.
    const fn subgroups(self) -> u32 {
        if self.subgroup_rows == 0 || self.subgroup_columns == 0 {
            return 0;
        }
        self.rows / self.subgroup_rows * (self.columns / self.subgroup_columns)
    }

    /// Returns the number of threads of a workgroup.
    #[must_use]
    pub const fn threads(self) -> u32 {
        self.subgroups() * LANES
    }

    /// Returns whether the tile divides evenly among subgroups and threads.
    fn is_shared_out(self) -> bool {
        let Self { rows, columns, depth, subgroup_rows, subgroup_columns, buffers, .. } = self;
        let is_squares = |size: u32| size > 0 && size <= 256 && size.is_multiple_of(SQUARE);
        [rows, columns, depth, subgroup_rows, subgroup_columns].into_iter().all(is_squares)
            && rows.is_multiple_of(subgroup_rows)
            && columns.is_multiple_of(subgroup_columns)
            && (rows * depth / 4).is_multiple_of(self.threads())
            && (columns * depth / 4).is_multiple_of(self.threads())
            && matches!(buffers, 1 | 2)
    }

    /// Returns the largest size of its workgroup memory in bytes, for any layout of the operands.
    fn shared_bytes(self) -> u32 {
        let halves = |size: u32| size * self.depth + GAP * size.max(self.depth);
        2 * self.buffers * (halves(self.rows) + halves(self.columns))
            + 4 * SQUARE * SQUARE * self.subgroups()
    }
}

/// Returns whether a device has squares of 16-bit floats with sums of 32 bits, and memory for a
/// tile.
pub(crate) fn is_supported(device: &GpuDevice, tile: CooperativeTile) -> bool {
    let (info, capabilities) = (device.info(), device.context().capabilities());
    let has_square = info.cooperative_matrices.iter().any(|matrix| {
        [matrix.m, matrix.n, matrix.k] == [SQUARE; 3]
            && matrix.operands == MatrixElement::F16
            && matrix.sums == MatrixElement::F32
    });
    capabilities.cooperative_matrices
        && capabilities.float16
        && info.subgroup_lanes == [LANES; 2]
        && has_square
        && tile.is_shared_out()
        && tile.threads() <= info.max_workgroup_threads
        && tile.shared_bytes() <= info.workgroup_bytes
}

/// The kernel.
///
/// In bounds: as `gpu/mod.rs` says. In ragged tiles, elements past the sizes are replaced by 0 and
/// not written. Squares lie inside workgroup memory: its rows are those of the tile, and subgroups
/// divide it evenly.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Squares {
    pub(crate) tile: CooperativeTile,
    pub(crate) left: (Operand, Load),
    pub(crate) right: (Operand, Load),
    pub(crate) out: Operand,
    pub(crate) edges: Edges,
    pub(crate) batch_rank: usize,
    pub(crate) params: ParamsShape,
}

/// One side of the product in the source.
struct Side {
    name: &'static str,
    shared: &'static str,
    /// The size of the side in the tile.
    size: u32,
    words: usize,
    limit: &'static str,
    first: &'static str,
    load: Load,
}

impl Squares {
    fn sides(&self) -> [Side; 2] {
        [
            Side {
                name: "a",
                shared: "sa",
                size: self.tile.rows,
                words: 9,
                limit: "M",
                first: "row0",
                load: self.left.1,
            },
            Side {
                name: "b",
                shared: "sb",
                size: self.tile.columns,
                words: 12,
                limit: "N",
                first: "col0",
                load: self.right.1,
            },
        ]
    }

    /// Returns the pitch of workgroup memory in vectors, and the number of rows. Operands keep the
    /// order of their buffers.
    fn shared_rows(&self, side: &Side) -> (u32, u32) {
        match side.load.along {
            Along::Depth => ((self.tile.depth + GAP) / 4, side.size),
            Along::Side => ((side.size + GAP) / 4, self.tile.depth),
        }
    }

    /// Returns the number of items of workgroup memory that hold four elements.
    fn items_of_vector(&self) -> u32 {
        match self.tile.shared {
            Shared::Vectors => 1,
            Shared::Singles => 4,
        }
    }

    fn items(&self, side: &Side) -> u32 {
        side.size * self.tile.depth / 4 / self.tile.threads()
    }

    /// Returns the item `i` of a tile as its row of workgroup memory, its vector in it, and its
    /// position `(x, k)`.
    fn item(&self, side: &Side, i: &str) -> [String; 4] {
        let width = match side.load.along {
            Along::Depth => self.tile.depth / 4,
            Along::Side => side.size / 4,
        };
        let (row, vector) = (format!("({i} / {width}u)"), format!("({i} % {width}u)"));
        match side.load.along {
            Along::Depth => [row.clone(), vector.clone(), row, format!("{vector} * 4u")],
            Along::Side => [row.clone(), vector.clone(), format!("{vector} * 4u"), row],
        }
    }

    fn declare_load(&self, side: &Side, out: &mut String) {
        let [offset, step_x, step_k] = [0, 1, 2].map(|i| self.params.word(side.words + i));
        let (name, limit, is_ragged) = (side.name, side.limit, self.edges == Edges::Ragged);
        let zero = "vec4<f16>(0.0h)";
        let _ = writeln!(
            out,
            "fn {name}_load(base: u32, x: u32, k: u32) -> vec4<f16> {{
    let M = {}; let N = {}; let K = {};",
            self.params.word(0),
            self.params.word(1),
            self.params.word(2)
        );
        if side.load.items == Items::Halves {
            if is_ragged {
                let _ = writeln!(out, "    if (x >= {limit} || k >= K) {{ return {zero}; }}");
            }
            let position = match side.load.along {
                Along::Depth => format!("x * {step_x} + k / 4u"),
                Along::Side => format!("x / 4u + k * {step_k}"),
            };
            let _ = writeln!(out, "    return {name}_item(base + {offset} + {position});\n}}");
            return;
        }
        let _ = writeln!(
            out,
            "    let at = base + {offset} + x * {step_x} + k * {step_k};\n    var v = {zero};"
        );
        for (i, c) in ["x", "y", "z", "w"].into_iter().enumerate() {
            let (step, check) = match side.load.along {
                Along::Depth => (&step_k, format!("x < {limit} && k + {i}u < K")),
                Along::Side => (&step_x, format!("x + {i}u < {limit} && k < K")),
            };
            let _ =
                writeln!(out, "    if ({check}) {{ v.{c} = {name}_item(at + {i}u * {step}); }}");
        }
        let _ = writeln!(out, "    return v;\n}}");
    }

    fn write_loads(&self, k0: &str, out: &mut String) {
        for side in self.sides() {
            for j in 0..self.items(&side) {
                let [_, _, x, k] = self.item(&side, &format!("(t + {}u)", j * self.tile.threads()));
                let (name, first) = (side.name, side.first);
                let _ = writeln!(
                    out,
                    "p{name}{j} = {name}_load(base_{name}, {first} + {x}, {k0} + {k});"
                );
            }
        }
    }

    fn write_stores(&self, buffer: &str, out: &mut String) {
        for side in self.sides() {
            let (pitch, rows) = self.shared_rows(&side);
            for j in 0..self.items(&side) {
                let [row, vector, ..] =
                    self.item(&side, &format!("(t + {}u)", j * self.tile.threads()));
                let (shared, name) = (side.shared, side.name);
                let position =
                    format!("{buffer} * {}u + {row} * {pitch}u + {vector}", pitch * rows);
                let _ = match self.tile.shared {
                    Shared::Vectors => writeln!(out, "{shared}[{position}] = p{name}{j};"),
                    Shared::Singles => writeln!(
                        out,
                        "{{ let at = ({position}) * 4u; let v = p{name}{j};
{shared}[at] = v.x; {shared}[at + 1u] = v.y; {shared}[at + 2u] = v.z; {shared}[at + 3u] = v.w; }}"
                    ),
                };
            }
        }
    }

    /// Writes the products of the elements in a buffer of workgroup memory.
    fn write_products(&self, buffer: &str, out: &mut String) {
        let CooperativeTile { depth, subgroup_rows, subgroup_columns, .. } = self.tile;
        for k in (0..depth).step_by(SQUARE as usize) {
            let _ = writeln!(out, "{{");
            for side in self.sides() {
                let (pitch, rows) = self.shared_rows(&side);
                let (count, first, role) = match side.name {
                    "a" => (subgroup_rows / SQUARE, "sg_row", "A"),
                    _ => (subgroup_columns / SQUARE, "sg_col", "B"),
                };
                for i in 0..count {
                    let x = format!("({first} + {}u)", i * SQUARE);
                    // The left operand is stored by rows if it is loaded along the common axis, the
                    // right one otherwise.
                    let (position, is_by_rows) = match side.load.along {
                        Along::Depth => (format!("{x} * {pitch}u + {}u", k / 4), side.name == "a"),
                        Along::Side => (format!("{k}u * {pitch}u + {x} / 4u"), side.name == "b"),
                    };
                    let function = if is_by_rows { "coopLoadT" } else { "coopLoad" };
                    let items = self.items_of_vector();
                    let _ = writeln!(
                        out,
                        "let {}{i} = {function}<coop_mat16x16<f16, {role}>>(&{}[({buffer} * {}u + {position}) * {items}u], {}u);",
                        side.name,
                        side.shared,
                        pitch * rows,
                        pitch * items
                    );
                }
            }
            for i in 0..subgroup_rows / SQUARE {
                for j in 0..subgroup_columns / SQUARE {
                    let _ = writeln!(out, "c{i}_{j} = coopMultiplyAdd(a{i}, b{j}, c{i}_{j});");
                }
            }
            let _ = writeln!(out, "}}");
        }
    }

    /// Writes the stores of the result: squares go through workgroup memory, where they are
    /// rounded.
    fn write_results(&self, out: &mut String) {
        let CooperativeTile { subgroup_rows, subgroup_columns, .. } = self.tile;
        for i in 0..subgroup_rows / SQUARE {
            for j in 0..subgroup_columns / SQUARE {
                let _ = writeln!(
                    out,
                    "coopStoreT(c{i}_{j}, &stage[subgroup * 256u], 16u);
workgroupBarrier();
{{
let row = row0 + sg_row + {}u + lane / 2u; let col = col0 + sg_col + {}u + (lane % 2u) * 8u;
let start = subgroup * 256u + lane * 8u; let at = out_base + row * N + col;",
                    i * SQUARE,
                    j * SQUARE
                );
                let is_ragged = self.edges == Edges::Ragged;
                for part in 0..2 {
                    let check = if is_ragged {
                        format!("if (row < M && col + {}u < N) ", 4 * part)
                    } else {
                        String::new()
                    };
                    let value = |i: u32| format!("stage[start + {}u]", 4 * part + i);
                    let _ = writeln!(
                        out,
                        "{check}{{ out_put_vec(at / 4u + {part}u, vec4<f32>({}, {}, {}, {})); }}",
                        value(0),
                        value(1),
                        value(2),
                        value(3)
                    );
                }
                let _ = writeln!(out, "}}\nworkgroupBarrier();");
            }
        }
    }

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
    }
}

impl Describe for Squares {
    fn name(&self) -> Cow<'static, str> {
        let CooperativeTile { rows, columns, depth, .. } = self.tile;
        format!("matmul {rows}x{columns}x{depth} of squares").into()
    }

    fn operands(&self) -> Vec<(String, Operand)> {
        vec![
            ("a".to_owned(), self.left.0),
            ("b".to_owned(), self.right.0),
            ("out".to_owned(), self.out),
        ]
    }

    fn params(&self) -> ParamsShape {
        self.params
    }

    fn helpers(&self) -> Vec<Helper> {
        vec![Helper::Half]
    }

    fn enable(&self) -> &'static str {
        "enable f16;\nenable wgpu_cooperative_matrix;\n"
    }

    fn body(&self, _: Capabilities) -> String {
        let CooperativeTile {
            rows, columns, depth, subgroup_rows, subgroup_columns, buffers, ..
        } = self.tile;
        let word = |i: usize| self.params.word(i);
        let mut text = String::new();
        for side in self.sides() {
            let (pitch, shared_rows) = self.shared_rows(&side);
            let item = match self.tile.shared {
                Shared::Vectors => "vec4<f16>",
                Shared::Singles => "f16",
            };
            let _ = writeln!(
                text,
                "var<workgroup> {}: array<{item}, {}>;",
                side.shared,
                buffers * pitch * shared_rows * self.items_of_vector()
            );
            self.declare_load(&side, &mut text);
        }
        let _ = writeln!(
            text,
            "var<workgroup> stage: array<f32, {stage}>;
@compute @workgroup_size({threads}) fn main(
    @builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) t: u32,
) {{
let id = group.x + group.y * groups.x;
if (id >= {total}) {{ return; }}
let M = {m}; let N = {n}; let K = {k};
let tiles_n = {tiles_n}; let tiles_m = {tiles_m};
let tile_id = id % (tiles_n * tiles_m); let batch = id / (tiles_n * tiles_m);
// Neighbouring workgroups share rows and columns: eight rows of tiles are processed column by
// column.
let strip = tile_id / (8u * tiles_n); let in_strip = tile_id % (8u * tiles_n);
let strip_rows = min(tiles_m - strip * 8u, 8u);
let row0 = (strip * 8u + in_strip % strip_rows) * {rows}u;
let col0 = (in_strip / strip_rows) * {columns}u;
let subgroup = t / {LANES}u; let lane = t % {LANES}u;
let sg_row = (subgroup / {per_row}u) * {subgroup_rows}u; let sg_col = (subgroup % {per_row}u) * {subgroup_columns}u;
let out_base = batch * M * N;",
            stage = self.tile.subgroups() * SQUARE * SQUARE,
            threads = self.tile.threads(),
            total = word(5),
            m = word(0),
            n = word(1),
            k = word(2),
            tiles_n = word(3),
            tiles_m = word(4),
            per_row = columns / subgroup_columns,
        );
        self.write_batch(&mut text);
        for side in self.sides() {
            for j in 0..self.items(&side) {
                let _ = writeln!(text, "var p{}{j} = vec4<f16>(0.0h);", side.name);
            }
        }
        for i in 0..subgroup_rows / SQUARE {
            for j in 0..subgroup_columns / SQUARE {
                let _ = writeln!(text, "var c{i}_{j} = coop_mat16x16<f32, C>();");
            }
        }
        self.write_loads("0u", &mut text);
        self.write_stores("0u", &mut text);
        // Buffers alternate within one iteration, so that their offsets are known when the shader
        // is compiled.
        let _ = writeln!(
            text,
            "workgroupBarrier();\nfor (var k0 = 0u; k0 < K; k0 += {}u) {{",
            depth * buffers
        );
        for buffer in 0..buffers {
            if buffer > 0 {
                let _ = writeln!(text, "if (k0 + {}u >= K) {{ break; }}", depth * buffer);
            }
            let _ = writeln!(text, "{{\nlet k1 = k0 + {}u;\nif (k1 < K) {{", depth * (buffer + 1));
            self.write_loads("k1", &mut text);
            let _ = writeln!(text, "}}");
            self.write_products(&format!("{buffer}u"), &mut text);
            if buffers == 1 {
                let _ = writeln!(text, "workgroupBarrier();");
            }
            let _ = writeln!(text, "if (k1 < K) {{");
            self.write_stores(&format!("{}u", (buffer + 1) % buffers), &mut text);
            let _ = writeln!(text, "}}\nworkgroupBarrier();\n}}");
        }
        let _ = writeln!(text, "}}");
        self.write_results(&mut text);
        text.push_str("}\n");
        text
    }
}

#[cfg(test)]
mod tests {
    use aleatron_device::Access;

    use super::*;
    use crate::dtype::DType;
    use crate::gpu::kernel::Described;
    use crate::gpu::wgsl::ParamsIn;

    /// Few devices run these kernels; the test checks that every tile is a valid shader.
    #[test]
    fn all_tiles_are_valid_shaders() {
        let operand = |items, access| Operand {
            dtype: DType::F16,
            items,
            access,
            windows: 1,
            window_log2: 0,
        };
        for tile in CooperativeTile::ALL {
            for items in [Items::Halves, Items::SingleHalves] {
                for along in [Along::Depth, Along::Side] {
                    for edges in [Edges::Whole, Edges::Ragged] {
                        let side = (operand(items, Access::Read), Load { along, items });
                        let squares = Squares {
                            tile,
                            left: side,
                            right: side,
                            out: operand(Items::Vectors, Access::ReadWrite),
                            edges,
                            batch_rank: 1,
                            params: ParamsShape { words: WORDS + 3, location: ParamsIn::Immediate },
                        };
                        let source =
                            aleatron_device::Kernel::source(&Described(squares), Capabilities::ALL);
                        let module = naga::front::wgsl::parse_str(&source)
                            .unwrap_or_else(|error| panic!("{}", error.emit_to_string(&source)));
                        let flags = naga::valid::ValidationFlags::all();
                        let mut validator =
                            naga::valid::Validator::new(flags, naga::valid::Capabilities::all());
                        if let Err(error) = validator.validate(&module) {
                            panic!("{}", error.emit_to_string(&source));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn tiles_fit_48_kib_and_divide_evenly_among_threads() {
        for tile in CooperativeTile::ALL {
            assert!(tile.shared_bytes() <= 48 << 10, "{tile:?}: {}", tile.shared_bytes());
            assert_eq!(tile.rows * tile.depth / 4 % tile.threads(), 0, "{tile:?}");
            assert_eq!(tile.columns * tile.depth / 4 % tile.threads(), 0, "{tile:?}");
            assert!(tile.threads() <= 256, "{tile:?}");
        }
    }
}

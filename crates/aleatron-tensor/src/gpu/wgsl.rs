//! Generation of shaders: types of elements, buffers and parameters.
//!
//! A buffer is an array of items: four elements at a time ([`Items::Vectors`]) or the smallest unit
//! that a device stores, which is one element, two 16-bit floats or four bytes
//! ([`Items::Singles`]). A buffer larger than the largest binding is bound in several windows, and
//! the generated functions select the window.

use std::fmt::Write;

use aleatron_device::Access;

use super::device::GpuDevice;
use crate::dtype::DType;
use crate::math::Helper;

/// The items of a buffer in a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Items {
    /// Four elements at a time.
    Vectors,
    /// One element, or the word that contains it.
    Singles,
    /// Four 16-bit floats at a time, as native 16-bit floats.
    Halves,
    /// One native 16-bit float.
    SingleHalves,
    /// Words for atomic operations.
    Atomics,
}

/// A buffer of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Operand {
    pub(crate) dtype: DType,
    pub(crate) items: Items,
    pub(crate) access: Access,
    /// The number of bindings, and the logarithm of the size of each in bytes.
    pub(crate) windows: usize,
    pub(crate) window_log2: u32,
}

/// Returns the type of an element in expressions.
pub(crate) fn value_type(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "bool",
        DType::U8 => "u32",
        DType::I32 => "i32",
        DType::I64 => "i64",
        DType::F16 | DType::F32 => "f32",
        // No tensor on a GPU has 64-bit floats.
        DType::F64 => "f64",
    }
}

/// Returns the expression of a 64-bit integer from two words. Words are widened without their sign
/// bit: naga 30 extends the sign of a `u32` that becomes an `i64`.
pub(crate) fn i64_of(high: &str, low: &str) -> String {
    format!("i64((u64({high}) << 32u) | u64({low}))")
}

impl Operand {
    /// Returns the type of an item.
    fn item_type(self) -> &'static str {
        match (self.items, self.dtype) {
            (Items::Halves, _) => "vec4<f16>",
            (Items::SingleHalves, _) => "f16",
            (Items::Atomics, _) => "atomic<u32>",
            (Items::Vectors, DType::F32) => "vec4<f32>",
            (Items::Vectors, DType::I32) => "vec4<i32>",
            (Items::Vectors, DType::F16) => "vec2<u32>",
            (Items::Singles, DType::F32) => "f32",
            (Items::Singles, DType::I32) => "i32",
            // Four 64-bit integers are four items.
            (_, DType::I64) => "i64",
            (_, DType::F64) => "f64",
            (Items::Singles, DType::F16) | (_, DType::Bool | DType::U8) => "u32",
        }
    }

    fn item_bytes_log2(self) -> u32 {
        match self.item_type() {
            "vec4<f32>" | "vec4<i32>" => 4,
            "vec2<u32>" | "vec4<f16>" | "i64" => 3,
            "f16" => 1,
            _ => 2,
        }
    }

    /// Returns the helper files that its functions call.
    pub(crate) fn helpers(self) -> &'static [Helper] {
        match self.dtype {
            DType::F16 => &[Helper::Half],
            _ => &[],
        }
    }

    /// Declares the bindings from `binding` on, and functions to read and write them:
    ///
    /// - `NAME_vec(i)` returns elements 4 i to 4 i + 3, of vectors;
    /// - `NAME_at(i)` returns element i, of singles;
    /// - `NAME_put_vec(i, v)` stores elements 4 i to 4 i + 3, of vectors, where it is written;
    /// - `NAME_put(i, v)` stores element i, of singles that are elements;
    /// - `NAME_raise(i, v)` makes word i at least v, of atomics.
    pub(crate) fn declare(self, name: &str, binding: usize, out: &mut String) {
        let access = match self.access {
            Access::Read => "read",
            Access::ReadWrite => "read_write",
        };
        let item = self.item_type();
        for window in 0..self.windows {
            let at = binding + window;
            let _ = writeln!(
                out,
                "@group(0) @binding({at}) var<storage, {access}> {name}_{window}: array<{item}>;"
            );
        }
        if self.items == Items::Atomics {
            let _ =
                writeln!(out, "fn {name}_raise(i: u32, v: u32) {{ atomicMax(&{name}_0[i], v); }}");
            return;
        }
        let shift = self.window_log2.saturating_sub(self.item_bytes_log2());
        let mask = (1u64 << shift) - 1;
        // The body for each window, or for the only one.
        let windowed = |out: &mut String, body: &dyn Fn(&str) -> String| {
            if self.windows == 1 {
                let _ = writeln!(out, "    {}", body(&format!("{name}_0[i]")));
                return;
            }
            let _ = writeln!(out, "    switch (i >> {shift}u) {{");
            for window in 0..self.windows {
                let case = if window + 1 == self.windows {
                    "default".into()
                } else {
                    format!("case {window}u")
                };
                let element = format!("{name}_{window}[i & {mask}u]");
                let _ = writeln!(out, "        {case}: {{ {} }}", body(&element));
            }
            let _ = writeln!(out, "    }}");
        };
        let _ = writeln!(out, "fn {name}_item(i: u32) -> {item} {{");
        windowed(out, &|element| format!("return {element};"));
        let _ = writeln!(out, "}}");
        if self.access == Access::ReadWrite {
            let _ = writeln!(out, "fn {name}_put_item(i: u32, v: {item}) {{");
            windowed(out, &|element| format!("{element} = v;"));
            let _ = writeln!(out, "}}");
        }
        match self.items {
            Items::Vectors => self.declare_vectors(name, out),
            Items::Singles => self.declare_singles(name, out),
            Items::Halves | Items::SingleHalves => {}
            Items::Atomics => {}
        }
    }

    fn declare_vectors(self, name: &str, out: &mut String) {
        let value = value_type(self.dtype);
        let load = match self.dtype {
            DType::F32 | DType::I32 | DType::F64 => format!("return {name}_item(i);"),
            DType::I64 => format!(
                "return vec4<i64>({name}_item(4u * i), {name}_item(4u * i + 1u), {name}_item(4u * i + 2u), {name}_item(4u * i + 3u));"
            ),
            DType::F16 => {
                format!(
                    "let w = {name}_item(i); return vec4<f32>(half_decode2(w.x), half_decode2(w.y));"
                )
            }
            DType::U8 => format!(
                "let w = {name}_item(i); return vec4<u32>(w, w >> 8u, w >> 16u, w >> 24u) & vec4<u32>(255u);"
            ),
            DType::Bool => format!(
                "let w = {name}_item(i); return (vec4<u32>(w, w >> 8u, w >> 16u, w >> 24u) & vec4<u32>(255u)) != vec4<u32>(0u);"
            ),
        };
        let _ = writeln!(out, "fn {name}_vec(i: u32) -> vec4<{value}> {{ {load} }}");
        if self.access == Access::Read {
            return;
        }
        let put = match self.dtype {
            DType::F32 | DType::I32 | DType::F64 => format!("{name}_put_item(i, v);"),
            DType::I64 => format!(
                "{name}_put_item(4u * i, v.x); {name}_put_item(4u * i + 1u, v.y); {name}_put_item(4u * i + 2u, v.z); {name}_put_item(4u * i + 3u, v.w);"
            ),
            DType::F16 => {
                format!(
                    "{name}_put_item(i, vec2<u32>(half_encode2(v.x, v.y), half_encode2(v.z, v.w)));"
                )
            }
            DType::U8 => {
                format!(
                    "let b = v & vec4<u32>(255u); {name}_put_item(i, b.x | (b.y << 8u) | (b.z << 16u) | (b.w << 24u));"
                )
            }
            DType::Bool => format!(
                "let b = select(vec4<u32>(0u), vec4<u32>(1u), v); {name}_put_item(i, b.x | (b.y << 8u) | (b.z << 16u) | (b.w << 24u));"
            ),
        };
        let _ = writeln!(out, "fn {name}_put_vec(i: u32, v: vec4<{value}>) {{ {put} }}");
    }

    fn declare_singles(self, name: &str, out: &mut String) {
        let value = value_type(self.dtype);
        let load = match self.dtype {
            DType::F32 | DType::I32 | DType::I64 | DType::F64 => format!("return {name}_item(i);"),
            DType::F16 => {
                format!("return half_decode(({name}_item(i >> 1u) >> ((i & 1u) * 16u)) & 0xffffu);")
            }
            DType::U8 => format!("return ({name}_item(i >> 2u) >> ((i & 3u) * 8u)) & 255u;"),
            DType::Bool => {
                format!("return (({name}_item(i >> 2u) >> ((i & 3u) * 8u)) & 255u) != 0u;")
            }
        };
        let _ = writeln!(out, "fn {name}_at(i: u32) -> {value} {{ {load} }}");
        if self.access == Access::ReadWrite && self.dtype.size() >= 4 {
            let _ = writeln!(out, "fn {name}_put(i: u32, v: {value}) {{ {name}_put_item(i, v); }}");
        }
    }
}

/// The location of the parameters of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ParamsIn {
    /// With the command itself.
    Immediate,
    /// In a buffer, since they are too many.
    Buffer,
}

/// The parameters of a kernel: 32-bit words, `word(i)` in its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ParamsShape {
    pub(crate) words: usize,
    pub(crate) location: ParamsIn,
}

impl ParamsShape {
    /// Returns the shape of parameters on a device.
    pub(crate) fn of(device: &GpuDevice, params: &[u32]) -> Self {
        Self { words: params.len(), location: device.params_in(params.len()) }
    }

    /// Declares the parameters, at `binding` if they are in a buffer.
    pub(crate) fn declare(self, binding: usize, out: &mut String) {
        match self.location {
            ParamsIn::Immediate if self.words == 0 => {}
            ParamsIn::Immediate => {
                let fields: String = (0..self.words).map(|i| format!("w{i}: u32, ")).collect();
                let _ =
                    writeln!(out, "struct Params {{ {fields}}}\nvar<immediate> params: Params;");
            }
            ParamsIn::Buffer => {
                let _ = writeln!(
                    out,
                    "@group(0) @binding({binding}) var<storage, read> params: array<u32>;"
                );
            }
        }
    }

    /// Returns the expression of a word of the parameters.
    pub(crate) fn word(self, i: usize) -> String {
        match self.location {
            ParamsIn::Immediate => format!("params.w{i}"),
            ParamsIn::Buffer => format!("params[{i}u]"),
        }
    }
}

/// Returns the functions of helper files and their dependencies, each once, dependencies first.
pub(crate) fn helpers(wanted: &[Helper], integers: &[DType]) -> String {
    fn add(helper: Helper, order: &mut Vec<Helper>) {
        if !order.contains(&helper) {
            helper.needs().iter().for_each(|&needed| add(needed, order));
            order.push(helper);
        }
    }
    let mut order = Vec::new();
    wanted.iter().for_each(|&helper| add(helper, &mut order));
    let mut text = String::new();
    for helper in order {
        if helper == Helper::Integer {
            for &dtype in integers {
                let width =
                    if dtype == DType::U8 { "8".into() } else { (8 * dtype.size()).to_string() };
                text +=
                    &helper.source().replace("TYPE", value_type(dtype)).replace("WIDTH", &width);
            }
        } else {
            text += helper.source();
        }
    }
    text
}

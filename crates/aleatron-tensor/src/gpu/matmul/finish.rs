//! The end of a product: slices that were computed separately are added in order, a bias is added,
//! and sums are converted to elements of the result.

use std::borrow::Cow;
use std::fmt::Write;

use aleatron_device::Capabilities;

use crate::gpu::elementwise::THREADS;
use crate::gpu::kernel::Describe;
use crate::gpu::wgsl::{Operand, ParamsShape};

/// The kernel. Its parameters: vectors, slices, vectors of a slice, elements of a row, rows, and
/// the offset and stride of the bias.
///
/// In bounds: as `gpu/mod.rs` says; slices are whole vectors, and indices of bias rows are taken
/// modulo their number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Finish {
    pub(crate) slices: Operand,
    pub(crate) bias: Option<Operand>,
    pub(crate) out: Operand,
    pub(crate) params: ParamsShape,
}

impl Describe for Finish {
    fn name(&self) -> Cow<'static, str> {
        "sum of slices".into()
    }

    fn operands(&self) -> Vec<(String, Operand)> {
        let mut operands = vec![("slices".to_owned(), self.slices)];
        operands.extend(self.bias.map(|bias| ("bias".to_owned(), bias)));
        operands.push(("out".to_owned(), self.out));
        operands
    }

    fn params(&self) -> ParamsShape {
        self.params
    }

    fn body(&self, _: Capabilities) -> String {
        let word = |i: usize| self.params.word(i);
        let mut text = format!(
            "@compute @workgroup_size({THREADS}) fn main(
    @builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {{
    let t = (group.x + group.y * groups.x) * {THREADS}u + local;
    if (t >= {vectors}) {{ return; }}
    var v = slices_vec(t);
    for (var s = 1u; s < {count}; s++) {{ v = v + slices_vec(t + s * {step}); }}
",
            vectors = word(0),
            count = word(1),
            step = word(2),
        );
        if self.bias.is_some() {
            for (i, part) in ["x", "y", "z", "w"].into_iter().enumerate() {
                let _ = writeln!(
                    text,
                    "    v.{part} = v.{part} + bias_at({first} + (((4u * t + {i}u) / {inner}) % {rows}) * {step});",
                    inner = word(3),
                    rows = word(4),
                    first = word(5),
                    step = word(6),
                );
            }
        }
        text += "    out_put_vec(t, v);\n}\n";
        text
    }
}

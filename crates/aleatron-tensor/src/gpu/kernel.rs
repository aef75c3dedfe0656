//! Kernels generated from descriptions.

use std::borrow::Cow;
use std::fmt::Debug;
use std::hash::Hash;

use aleatron_device::{Access, BoundsChecks, BoundsProof, Capabilities, Kernel};

use super::wgsl::{Operand, ParamsIn, ParamsShape, helpers};
use crate::dtype::DType;
use crate::math::Helper;

/// A description from which a kernel is generated. Equal descriptions share a kernel.
pub(crate) trait Describe: Clone + Eq + Hash + Debug + Send + Sync + 'static {
    /// Returns the name, for profiles and messages.
    fn name(&self) -> Cow<'static, str>;

    /// Returns the buffers with their names, in the order of their bindings.
    fn operands(&self) -> Vec<(String, Operand)>;

    /// Returns the shape of the parameters.
    fn params(&self) -> ParamsShape;

    /// Returns the helper files of the kernel, in addition to those of its buffers.
    fn helpers(&self) -> Vec<Helper> {
        Vec::new()
    }

    /// Returns the integer types whose functions the kernel calls.
    fn integers(&self) -> Vec<DType> {
        Vec::new()
    }

    /// Returns the directives that enable extensions.
    fn enable(&self) -> &'static str {
        ""
    }

    /// Returns the entry point, and the functions that it calls.
    fn body(&self, capabilities: Capabilities) -> String;

    /// Returns whether every index is known to be inside, for the reasons in `gpu/mod.rs` and
    /// beside the kernel, so that it is compiled without run-time checks.
    fn is_proven(&self) -> bool {
        true
    }
}

/// Declares the helper functions of a kernel, its bindings and its parameters.
fn declare(
    operands: &[(String, Operand)],
    own: Vec<Helper>,
    integers: &[DType],
    params: ParamsShape,
    text: &mut String,
) {
    let of_operands = operands.iter().flat_map(|(_, operand)| operand.helpers().iter().copied());
    *text += &helpers(&of_operands.chain(own).collect::<Vec<_>>(), integers);
    let mut binding = 0;
    for (name, operand) in operands {
        operand.declare(name, binding, text);
        binding += operand.windows;
    }
    params.declare(binding, text);
}

/// The kernel of a description, as the device compiles it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Described<D>(pub(crate) D);

impl<D: Describe> Kernel for Described<D> {
    fn name(&self) -> Cow<'static, str> {
        self.0.name()
    }

    fn source(&self, capabilities: Capabilities) -> Cow<'static, str> {
        let mut text = String::from(self.0.enable());
        let (operands, helpers) = (self.0.operands(), self.0.helpers());
        declare(&operands, helpers, &self.0.integers(), self.0.params(), &mut text);
        text += &self.0.body(capabilities);
        text.into()
    }

    fn bindings(&self) -> Cow<'static, [Access]> {
        let windows = |(_, operand): (String, Operand)| vec![operand.access; operand.windows];
        let mut bindings: Vec<Access> = self.0.operands().into_iter().flat_map(windows).collect();
        if self.0.params().location == ParamsIn::Buffer {
            bindings.push(Access::Read);
        }
        bindings.into()
    }

    fn immediate_bytes(&self) -> usize {
        let params = self.0.params();
        match params.location {
            ParamsIn::Immediate => 4 * params.words,
            ParamsIn::Buffer => 0,
        }
    }

    fn checks(&self) -> BoundsChecks {
        if !self.0.is_proven() {
            return BoundsChecks::Enabled;
        }
        // SAFETY: descriptions are private to this crate. Each is launched by the file that
        // declares it, with the sizes and views its argument rests on, which have passed
        // `size.rs` and `Layout`; `GpuDevice::launch_grid` compares the number of parameters. The
        // arguments are those of `gpu/mod.rs` and of the comments beside the kernels.
        #[allow(unsafe_code, reason = "the only proof of bounds of the kernels of this crate")]
        BoundsChecks::Removed(unsafe { BoundsProof::assume() })
    }
}

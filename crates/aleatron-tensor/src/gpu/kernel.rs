//! Kernels that are written from a description.

use std::borrow::Cow;
use std::fmt::Debug;
use std::hash::Hash;

use aleatron_device::{Access, BoundsChecks, Capabilities, Kernel};

use super::wgsl::{Operand, ParamsIn, ParamsShape, helpers};
use crate::dtype::DType;
use crate::math::Helper;

/// What a kernel is written from. Equal descriptions are one kernel.
pub(crate) trait Describe: Clone + Eq + Hash + Debug + Send + Sync + 'static {
    /// Its name, for profiles and messages.
    fn name(&self) -> Cow<'static, str>;

    /// Its buffers with their names, in order of their bindings.
    fn operands(&self) -> Vec<(String, Operand)>;

    /// Its parameters.
    fn params(&self) -> ParamsShape;

    /// The helper files it calls beyond those of its buffers.
    fn helpers(&self) -> Vec<Helper> {
        Vec::new()
    }

    /// The integer types whose functions it calls.
    fn integers(&self) -> Vec<DType> {
        Vec::new()
    }

    /// Extensions to enable, before everything else.
    fn enable(&self) -> &'static str {
        ""
    }

    /// The entry point, and functions of its own.
    fn body(&self, capabilities: Capabilities) -> String;

    /// Whether it is compiled with run-time checks.
    fn checks(&self) -> BoundsChecks;
}

/// The kernel of a description.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Described<D>(pub(crate) D);

impl<D: Describe> Kernel for Described<D> {
    fn name(&self) -> Cow<'static, str> {
        self.0.name()
    }

    fn source(&self, capabilities: Capabilities) -> Cow<'static, str> {
        let mut text = String::from(self.0.enable());
        let operands = self.0.operands();
        let own = operands.iter().flat_map(|(_, operand)| operand.helpers().iter().copied());
        text += &helpers(own.chain(self.0.helpers()), &self.0.integers());
        let mut binding = 0;
        for (name, operand) in &operands {
            operand.declare(name, binding, &mut text);
            binding += usize::from(operand.windows);
        }
        self.0.params().declare(binding, &mut text);
        text += &self.0.body(capabilities);
        text.into()
    }

    fn bindings(&self) -> Cow<'static, [Access]> {
        let windows = |(_, operand): (String, Operand)| vec![operand.access; operand.windows.into()];
        let mut bindings: Vec<Access> = self.0.operands().into_iter().flat_map(windows).collect();
        if self.0.params().place == ParamsIn::Buffer {
            bindings.push(Access::Read);
        }
        bindings.into()
    }

    fn immediate_bytes(&self) -> u32 {
        let params = self.0.params();
        match params.place {
            ParamsIn::Immediate => 4 * u32::from(params.words),
            ParamsIn::Buffer => 0,
        }
    }

    fn checks(&self) -> BoundsChecks {
        self.0.checks()
    }
}

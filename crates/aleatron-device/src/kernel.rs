//! Kernels: compute shaders, and the values of their override constants.
//!
//! A [`Kernel`] is a value: one of an enum, or one that holds what its source is generated from,
//! such as the expression of a fused elementwise operation. Equal kernels with equal constants
//! share one pipeline, which is compiled on first use.

use std::borrow::Cow;
use std::hash::{Hash, Hasher};

use crate::capability::Capabilities;

/// What a kernel does with a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Reads it.
    Read,
    /// Reads and writes it.
    ReadWrite,
}

/// Whether a kernel is compiled with wgpu's run-time checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BoundsChecks {
    /// Indices are clamped, loops counted and divisors tested at run time.
    #[default]
    Kept,
    /// Nothing is checked at run time, since the author of the kernel has promised that nothing
    /// needs to be.
    Removed(BoundsProof),
}

/// The promise that a kernel needs no run-time checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BoundsProof(());

impl BoundsProof {
    /// Makes the promise for a kernel. Write the argument beside the kernel, and let the host check
    /// the sizes it rests on before each launch.
    ///
    /// # Safety
    /// In every launch of the kernel that safe code can make, with any buffers and parameters it
    /// can pass:
    ///
    /// - every index is inside its binding, its workgroup array or its local array;
    /// - every loop ends;
    /// - no integer is divided by zero, and no smallest integer by -1.
    ///
    /// Anything else is undefined behaviour on the device. A kernel whose argument rests on checks
    /// of the host must therefore be a type that only its own crate can name: code that can
    /// name it can launch it with other sizes.
    #[allow(unsafe_code, reason = "the contract of kernels without checks")]
    #[must_use]
    pub const unsafe fn assume() -> Self {
        Self(())
    }
}

/// A compute shader with the entry point `main`, its buffers at `@group(0) @binding(0)`,
/// `@binding(1)`, … and its parameters in `var<immediate>`.
///
/// The value is the key under which pipelines are cached: equal kernels must have equal sources,
/// and kernels with different sources must not be equal. Workgroup memory is not zeroed when a
/// kernel starts.
///
/// ```
/// use std::borrow::Cow;
/// use aleatron_device::{Access, Capabilities, Kernel};
///
/// /// Applies an expression in `x` to every element: one kernel per expression.
/// #[derive(Debug, Clone, PartialEq, Eq, Hash)]
/// struct Elementwise {
///     expression: String,
/// }
///
/// impl Kernel for Elementwise {
///     fn name(&self) -> Cow<'static, str> {
///         format!("elementwise {}", self.expression).into()
///     }
///
///     fn source(&self, _: Capabilities) -> Cow<'static, str> {
///         format!(
///             "@group(0) @binding(0) var<storage, read_write> data: array<f32>;
///              @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
///                  if (id.x < arrayLength(&data)) {{ let x = data[id.x]; data[id.x] = {}; }}
///              }}",
///             self.expression
///         )
///         .into()
///     }
///
///     fn bindings(&self) -> Cow<'static, [Access]> {
///         Cow::Borrowed(&[Access::ReadWrite])
///     }
///
///     fn immediate_bytes(&self) -> usize {
///         0
///     }
/// }
/// ```
pub trait Kernel: Clone + Eq + Hash + Send + Sync + 'static {
    /// Its name, for profiles, labels and messages.
    fn name(&self) -> Cow<'static, str>;

    /// Its WGSL for a device with these abilities.
    fn source(&self, capabilities: Capabilities) -> Cow<'static, str>;

    /// What it does with its buffers, in order of their bindings.
    fn bindings(&self) -> Cow<'static, [Access]>;

    /// The bytes of its parameters, a multiple of 4.
    fn immediate_bytes(&self) -> usize;

    /// Whether it is compiled with run-time checks. Kernels that enable `wgpu_cooperative_matrix`,
    /// which wgpu calls experimental, must have [`BoundsChecks::Removed`], as their author
    /// answers for them.
    fn checks(&self) -> BoundsChecks {
        BoundsChecks::Kept
    }
}

/// The value of an override constant.
#[derive(Debug, Clone, Copy)]
pub enum ConstantValue {
    /// Of type `u32`.
    U32(u32),
    /// Of type `i32`.
    I32(i32),
    /// Of type `f32`, which must be finite.
    F32(f32),
    /// Of type `bool`.
    Bool(bool),
}

impl ConstantValue {
    /// As wgpu takes it; every value of these types is one of f64.
    pub(crate) fn as_f64(self) -> f64 {
        match self {
            Self::U32(value) => value.into(),
            Self::I32(value) => value.into(),
            Self::F32(value) => value.into(),
            Self::Bool(value) => f64::from(u8::from(value)),
        }
    }

    /// The type and the bits: what makes two values one key.
    fn key(self) -> (u8, u32) {
        match self {
            Self::U32(value) => (0, value),
            Self::I32(value) => (1, value.cast_unsigned()),
            Self::F32(value) => (2, value.to_bits()),
            Self::Bool(value) => (3, value.into()),
        }
    }
}

/// Equal where type and bits are: 0.0 is not -0.0, and a NaN is itself.
impl PartialEq for ConstantValue {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for ConstantValue {}

impl Hash for ConstantValue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl From<u32> for ConstantValue {
    fn from(value: u32) -> Self {
        Self::U32(value)
    }
}

impl From<i32> for ConstantValue {
    fn from(value: i32) -> Self {
        Self::I32(value)
    }
}

impl From<f32> for ConstantValue {
    fn from(value: f32) -> Self {
        Self::F32(value)
    }
}

impl From<bool> for ConstantValue {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

/// Values of override constants by name. Those not named have the value their shader gives them.
pub type Constants<'a> = &'a [(&'a str, ConstantValue)];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bandwidth::ProbeKernel;
    use crate::buffer::TransferKernel;
    use std::collections::HashSet;

    /// Checks a shader without a device, and that it has what its kernel declares.
    fn validate<K: Kernel>(kernel: &K) {
        use naga::valid::{Capabilities as Allowed, ValidationFlags, Validator};
        let (name, source) = (kernel.name(), kernel.source(Capabilities::NONE));
        let module =
            naga::front::wgsl::parse_str(&source).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut validator = Validator::new(ValidationFlags::all(), Allowed::IMMEDIATES);
        validator
            .validate(&module)
            .unwrap_or_else(|e| panic!("{name}: {}", e.emit_to_string(&source)));
        assert_eq!(module.entry_points[0].name, "main");
        let variables = || module.global_variables.iter().map(|(_, variable)| variable);
        let bindings = variables().filter(|variable| variable.binding.is_some()).count();
        assert_eq!(bindings, kernel.bindings().len(), "{name}");
        let immediates = variables().filter(|v| v.space == naga::AddressSpace::Immediate);
        let bytes: u32 = immediates.map(|v| module.types[v.ty].inner.size(module.to_ctx())).sum();
        assert_eq!(bytes as usize, kernel.immediate_bytes(), "{name}");
    }

    #[test]
    fn the_shaders_of_this_crate_are_valid() {
        validate(&ProbeKernel);
        validate(&TransferKernel);
    }

    #[test]
    fn constants_are_compared_by_type_and_bits() {
        let values: [ConstantValue; 8] = [
            1u32.into(),
            1i32.into(),
            1f32.into(),
            true.into(),
            0f32.into(),
            (-0f32).into(),
            f32::NAN.into(),
            (-1i32).into(),
        ];
        assert_eq!(values.iter().collect::<HashSet<_>>().len(), values.len());
        assert_eq!(ConstantValue::F32(f32::NAN), ConstantValue::F32(f32::NAN));
        assert_eq!(ConstantValue::U32(u32::MAX).as_f64(), 4_294_967_295.0);
        assert_eq!(ConstantValue::I32(i32::MIN).as_f64(), -2_147_483_648.0);
        assert_eq!(ConstantValue::F32(0.1).as_f64(), f64::from(0.1f32));
        assert_eq!(ConstantValue::Bool(true).as_f64(), 1.0);
    }
}

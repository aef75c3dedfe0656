//! Kernels: compute shaders, and the values of their override constants.
//!
//! A [`Kernel`] is a value: a variant of an enum, or a struct with the input of its source
//! generator, such as the expression of a fused elementwise operation. Equal kernels with equal
//! constants share one pipeline, which is compiled on first use.

use std::borrow::Cow;
use std::hash::{Hash, Hasher};

use crate::capability::Capabilities;

/// The access of a kernel to a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// The kernel reads the buffer.
    Read,
    /// The kernel reads and writes the buffer.
    ReadWrite,
}

/// Whether a kernel is compiled with wgpu's run-time checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BoundsChecks {
    /// Indices are clamped, loops bounded and divisors tested at run time.
    #[default]
    Enabled,
    /// Nothing is checked at run time: the author of the kernel has promised that no check is
    /// needed.
    Removed(BoundsProof),
}

/// The promise that a kernel needs no run-time checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BoundsProof(());

impl BoundsProof {
    /// Makes the promise for a kernel. Document the argument next to the kernel, and let the host
    /// check the sizes it relies on before each launch.
    ///
    /// # Safety
    /// In every launch of the kernel that safe code can make, with any buffers and parameters it
    /// can pass:
    ///
    /// - every index is inside its binding, its workgroup array or its local array;
    /// - every loop ends;
    /// - no integer is divided by zero, and no smallest integer by -1.
    ///
    /// Anything else is undefined behaviour on the device. If the argument relies on checks of the
    /// host, the kernel must be a type that is private to its crate: code with access to the type
    /// can launch it with other sizes.
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
    /// Returns the name, for profiles, labels and messages.
    fn name(&self) -> Cow<'static, str>;

    /// Returns the WGSL source for a device with these capabilities.
    fn source(&self, capabilities: Capabilities) -> Cow<'static, str>;

    /// Returns the access to its buffers, in order of their bindings.
    fn bindings(&self) -> Cow<'static, [Access]>;

    /// Returns the size of its parameters in bytes, a multiple of 4.
    fn immediate_bytes(&self) -> usize;

    /// Returns whether it is compiled with run-time checks. Kernels that enable
    /// `wgpu_cooperative_matrix`, which wgpu calls experimental, must have
    /// [`BoundsChecks::Removed`], since their author is responsible for them.
    fn checks(&self) -> BoundsChecks {
        BoundsChecks::Enabled
    }
}

/// The value of an override constant.
#[derive(Debug, Clone, Copy)]
pub enum ConstantValue {
    /// A `u32`.
    U32(u32),
    /// An `i32`.
    I32(i32),
    /// An `f32`, which must be finite.
    F32(f32),
    /// A `bool`.
    Bool(bool),
}

impl ConstantValue {
    /// Converts to the form of wgpu; every value of these types is representable in f64.
    pub(crate) fn as_f64(self) -> f64 {
        match self {
            Self::U32(value) => value.into(),
            Self::I32(value) => value.into(),
            Self::F32(value) => value.into(),
            Self::Bool(value) => f64::from(u8::from(value)),
        }
    }

    /// Returns the type and the bits, which identify a value.
    fn key(self) -> (u8, u32) {
        match self {
            Self::U32(value) => (0, value),
            Self::I32(value) => (1, value.cast_unsigned()),
            Self::F32(value) => (2, value.to_bits()),
            Self::Bool(value) => (3, value.into()),
        }
    }
}

/// Equal if type and bits are: 0.0 is not -0.0, and a NaN equals itself.
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

/// Values of override constants by name. Other constants have their default from the shader.
pub type Constants<'a> = &'a [(&'a str, ConstantValue)];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bandwidth::ProbeKernel;
    use crate::buffer::TransferKernel;
    use std::collections::HashSet;

    /// Checks a shader without a device, including the declarations of its kernel.
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
    fn shaders_of_this_crate_are_valid() {
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

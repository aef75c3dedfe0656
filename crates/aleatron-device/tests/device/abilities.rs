//! Kernels that need an optional capability work on devices with it, and are errors on others.

use std::borrow::Cow;
use std::sync::Arc;

use crate::common::{context, own_context};
use aleatron_device::{
    Access, BoundsChecks, BoundsProof, Capabilities, ContextOptions, CooperativeMatrix, Error,
    GpuContext, Kernel, MatrixElement,
};
use half::f16;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Needs {
    Int64,
    Subgroups,
    Float16,
    CooperativeMatrices,
}

impl Needs {
    const ALL: [Self; 4] = [Self::Int64, Self::Subgroups, Self::Float16, Self::CooperativeMatrices];

    fn is_met(self, capabilities: Capabilities) -> bool {
        match self {
            Self::Int64 => capabilities.int64,
            Self::Subgroups => capabilities.subgroups,
            Self::Float16 => capabilities.float16,
            Self::CooperativeMatrices => capabilities.cooperative_matrices && capabilities.float16,
        }
    }
}

impl Kernel for Needs {
    fn name(&self) -> Cow<'static, str> {
        format!("{self:?}").into()
    }

    fn source(&self, _: Capabilities) -> Cow<'static, str> {
        match self {
            Self::Int64 => {
                "@group(0) @binding(0) var<storage, read> a: array<u32>;
                 @group(0) @binding(1) var<storage, read_write> b: array<u32>;
                 @compute @workgroup_size(1) fn main() { b[0] = u32((u64(a[0]) * u64(a[1])) >> 32u); }"
            }
            Self::Subgroups => {
                "@group(0) @binding(0) var<storage, read> a: array<u32>;
                 @group(0) @binding(1) var<storage, read_write> b: array<u32>;
                 @compute @workgroup_size(64) fn main(
                     @builtin(local_invocation_index) i: u32,
                     @builtin(subgroup_size) lanes: u32,
                 ) {
                     let sum = subgroupAdd(1u);
                     if (i == 0u) { b[0] = sum + a[0] - lanes; }
                 }"
            }
            Self::Float16 => {
                "enable f16;
                 @group(0) @binding(0) var<storage, read> a: array<f16>;
                 @group(0) @binding(1) var<storage, read_write> b: array<f16>;
                 @compute @workgroup_size(1) fn main() { b[0] = a[0] * a[1]; }"
            }
            // C = A B of 16 x 16, by one subgroup.
            Self::CooperativeMatrices => {
                "enable f16;
                 enable wgpu_cooperative_matrix;
                 @group(0) @binding(0) var<storage, read_write> a: array<f16>;
                 @group(0) @binding(1) var<storage, read_write> b: array<f32>;
                 @compute @workgroup_size(32) fn main() {
                     let left = coopLoadT<coop_mat16x16<f16, A>>(&a[0], 16u);
                     let right = coopLoadT<coop_mat16x16<f16, B>>(&a[256], 16u);
                     coopStoreT(coopMultiplyAdd(left, right, coop_mat16x16<f32, C>()), &b[0], 16u);
                 }"
            }
        }
        .into()
    }

    fn bindings(&self) -> Cow<'static, [Access]> {
        match self {
            Self::CooperativeMatrices => Cow::Borrowed(&[Access::ReadWrite, Access::ReadWrite]),
            _ => Cow::Borrowed(&[Access::Read, Access::ReadWrite]),
        }
    }

    fn immediate_bytes(&self) -> usize {
        0
    }

    fn checks(&self) -> BoundsChecks {
        match self {
            // SAFETY: it is launched with the 512 and 256 elements whose squares it loads and
            // stores.
            Self::CooperativeMatrices => BoundsChecks::Removed(unsafe { BoundsProof::assume() }),
            _ => BoundsChecks::Enabled,
        }
    }
}

/// A kernel without the promise of its author.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Unpromised;

impl Kernel for Unpromised {
    fn name(&self) -> Cow<'static, str> {
        "unpromised".into()
    }

    fn source(&self, capabilities: Capabilities) -> Cow<'static, str> {
        Needs::CooperativeMatrices.source(capabilities)
    }

    fn bindings(&self) -> Cow<'static, [Access]> {
        Needs::CooperativeMatrices.bindings()
    }

    fn immediate_bytes(&self) -> usize {
        0
    }
}

#[test]
fn experimental_extension_without_promise_is_an_error() {
    let refused = context().pipeline(&Unpromised, &[]);
    assert!(matches!(refused, Err(Error::Unsupported { .. })), "{refused:?}");
}

fn run<T: bytemuck::Pod, U: bytemuck::Pod>(
    context: &Arc<GpuContext>,
    kernel: Needs,
    input: &[T],
    len: usize,
) -> Result<Vec<U>, Error> {
    let (a, b) = (context.upload(input)?, context.buffer::<U>(len)?);
    let bound = context.bind(&context.pipeline(&kernel, &[])?, &[a.view(), b.view()])?;
    let mut recorder = context.recorder(None)?;
    recorder.dispatch(&bound, &(), [1, 1, 1], 0)?;
    let read = recorder.read(b.view())?;
    recorder.submit()?;
    read.wait()
}

/// Validates also shaders for which this device lacks the capability.
#[test]
fn shaders_of_these_tests_are_valid() {
    use naga::valid::{Capabilities as Allowed, ValidationFlags, Validator};
    for kernel in Needs::ALL {
        let source = kernel.source(Capabilities::ALL);
        let module =
            naga::front::wgsl::parse_str(&source).unwrap_or_else(|e| panic!("{kernel:?}: {e}"));
        let validated = Validator::new(ValidationFlags::all(), Allowed::all()).validate(&module);
        assert!(validated.is_ok(), "{kernel:?}: {validated:?}");
    }
}

#[test]
fn kernels_run_if_capability_is_present() {
    let context = context();
    let has = context.capabilities();
    if Needs::Int64.is_met(has) {
        assert_eq!(run(&context, Needs::Int64, &[u32::MAX, 16], 1), Ok(vec![15u32]));
    }
    if Needs::Subgroups.is_met(has) {
        assert_eq!(run(&context, Needs::Subgroups, &[7u32], 1), Ok(vec![7u32]));
    }
    if Needs::Float16.is_met(has) {
        let halves = [1.5, -0.25].map(f16::from_f32);
        assert_eq!(run(&context, Needs::Float16, &halves, 1), Ok(vec![f16::from_f32(-0.375)]));
    }
    let square = |shape: &CooperativeMatrix| {
        let CooperativeMatrix { m, n, k, operands, sums, .. } = shape;
        [m, n, k] == [&16; 3] && [*operands, *sums] == [MatrixElement::F16, MatrixElement::F32]
    };
    if Needs::CooperativeMatrices.is_met(has)
        && context.info().cooperative_matrices.iter().any(square)
    {
        // Small integers, so that every sum is exact.
        let value = |i: usize| f16::from_f32((i * 7 % 11) as f32 - 5.0);
        let input: Vec<f16> = (0..512).map(value).collect();
        let product = |row: usize, column: usize| -> f32 {
            (0..16)
                .map(|k| input[16 * row + k].to_f32() * input[256 + 16 * k + column].to_f32())
                .sum()
        };
        let expected: Vec<f32> = (0..256).map(|i| product(i / 16, i % 16)).collect();
        assert_eq!(run(&context, Needs::CooperativeMatrices, &input, 256), Ok(expected));
    }
}

#[test]
fn kernels_are_errors_if_capability_is_missing() {
    let plain = crate::common::plain_context();
    let all = own_context(&ContextOptions::default());
    for kernel in Needs::ALL {
        for context in [&plain, &all] {
            let compiled = context.pipeline(&kernel, &[]);
            if kernel.is_met(context.capabilities()) {
                assert!(compiled.is_ok(), "{kernel:?}: {compiled:?}");
            } else {
                assert!(
                    matches!(compiled, Err(Error::Validation { .. })),
                    "{kernel:?}: {compiled:?}"
                );
            }
        }
    }
}

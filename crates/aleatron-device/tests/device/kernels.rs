//! Kernels with typed constants, kernels generated at run time, and kernels without run-time
//! checks.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{Float, own_context};
use aleatron_device::{
    Access, BoundsChecks, BoundsProof, Capabilities, Checks, Constants, ContextOptions, GpuContext,
    Kernel,
};

fn run<K: Kernel>(context: &Arc<GpuContext>, kernel: &K, constants: Constants<'_>, x: f32) -> f32 {
    let (a, b) = (context.upload(&[x]).unwrap(), context.buffer::<f32>(1).unwrap());
    let pipeline = context.pipeline(kernel, constants).unwrap();
    let bound = context.bind(&pipeline, &[a.view(), b.view()]).unwrap();
    let mut recorder = context.recorder(None).unwrap();
    recorder.dispatch(&bound, &2f32, [1, 1, 1], 0).unwrap();
    recorder.submit().unwrap();
    b.read().unwrap()[0]
}

#[test]
fn constants_are_typed() {
    let context = own_context(&ContextOptions::default());
    let plus = |value: f32| ("PLUS", value.into());
    assert_eq!(run(&context, &Float::Scale, &[plus(0.375)], 3.0), 6.375);
    assert_eq!(run(&context, &Float::Scale, &[plus(-1e30)], 0.0), -1e30);
    assert_eq!(run(&context, &Float::Scale, &[("NEGATE", true.into())], 3.0), -6.0);
    assert_eq!(run(&context, &Float::Scale, &[("TIMES", (-5i32).into())], 3.0), -30.0);
    assert_eq!(run(&context, &Float::Scale, &[("TIMES", 2i32.into()), plus(1.0)], 3.0), 13.0);
    assert_eq!(context.created().pipelines, 5);
    // Repeating it creates none, and a constant with other bits is another pipeline.
    assert_eq!(run(&context, &Float::Scale, &[plus(0.375)], 1.0), 2.375);
    assert_eq!(context.created().pipelines, 5);
    run(&context, &Float::Scale, &[plus(0.0)], 1.0);
    run(&context, &Float::Scale, &[plus(-0.0)], 1.0);
    assert_eq!(context.created().pipelines, 7);
}

/// An expression in `x`, compiled to a kernel on first use.
#[derive(Debug, Clone)]
struct Fused {
    expression: String,
    compiled: Arc<AtomicUsize>,
}

impl PartialEq for Fused {
    fn eq(&self, other: &Self) -> bool {
        self.expression == other.expression
    }
}

impl Eq for Fused {}

impl std::hash::Hash for Fused {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.expression.hash(state);
    }
}

impl Kernel for Fused {
    fn name(&self) -> Cow<'static, str> {
        format!("fused {}", self.expression).into()
    }

    fn source(&self, _: Capabilities) -> Cow<'static, str> {
        self.compiled.fetch_add(1, Ordering::Relaxed);
        format!(
            "var<immediate> factor: f32;
             @group(0) @binding(0) var<storage, read> a: array<f32>;
             @group(0) @binding(1) var<storage, read_write> b: array<f32>;
             @compute @workgroup_size(1) fn main() {{ let x = a[0] * factor; b[0] = {}; }}",
            self.expression
        )
        .into()
    }

    fn bindings(&self) -> Cow<'static, [Access]> {
        vec![Access::Read, Access::ReadWrite].into()
    }

    fn immediate_bytes(&self) -> usize {
        4
    }
}

#[test]
fn generated_kernels_are_compiled_once() {
    let context = own_context(&ContextOptions::default());
    let compiled = Arc::new(AtomicUsize::new(0));
    let fused = |expression: String| Fused { expression, compiled: Arc::clone(&compiled) };
    for round in 0..3 {
        for plus in 0..5 {
            let kernel = fused(format!("x * x + {plus}.0"));
            assert_eq!(run(&context, &kernel, &[], 1.5), 9.0 + plus as f32, "round {round}");
        }
    }
    assert_eq!(compiled.load(Ordering::Relaxed), 5);
    assert_eq!(context.created().pipelines, 5);
    let wrong = context.pipeline(&fused("x +".to_owned()), &[]).unwrap_err().to_string();
    assert!(wrong.contains("fused x +"), "{wrong}");
    let name = context.pipeline(&fused("x * x + 1.0".to_owned()), &[]).unwrap();
    assert_eq!(name.name(), "fused x * x + 1.0");
}

/// Divides by its parameter. The argument for `Removed` would be that no launch passes zero; with
/// forced checks, it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Divide(BoundsChecks);

impl Kernel for Divide {
    fn name(&self) -> Cow<'static, str> {
        format!("divide {:?}", self.0).into()
    }

    fn source(&self, _: Capabilities) -> Cow<'static, str> {
        "var<immediate> divisor: u32;
         @group(0) @binding(0) var<storage, read_write> a: array<u32>;
         @compute @workgroup_size(1) fn main() { a[0] = a[0] / divisor; }"
            .into()
    }

    fn bindings(&self) -> Cow<'static, [Access]> {
        Cow::Borrowed(&[Access::ReadWrite])
    }

    fn immediate_bytes(&self) -> usize {
        4
    }

    fn checks(&self) -> BoundsChecks {
        self.0
    }
}

#[test]
fn checks_are_removed_if_declared_and_can_be_forced() {
    let declared = own_context(&ContextOptions::default());
    let forced =
        own_context(&ContextOptions { checks: Checks::Always, ..ContextOptions::default() });
    assert_eq!((declared.checks(), forced.checks()), (Checks::AsDeclared, Checks::Always));
    let divide = |context: &Arc<GpuContext>, checks, divisor: u32| {
        let buffer = context.upload(&[91u32]).unwrap();
        let pipeline = context.pipeline(&Divide(checks), &[]).unwrap();
        let bound = context.bind(&pipeline, &[buffer.view()]).unwrap();
        let mut recorder = context.recorder(None).unwrap();
        recorder.dispatch(&bound, &divisor, [1, 1, 1], 0).unwrap();
        recorder.submit().unwrap();
        (buffer.read().unwrap()[0], pipeline.checks())
    };
    use BoundsChecks::Enabled;
    // SAFETY: the kernel has one element and no loop, and the launches below divide by 7 unless the
    // checks are forced on.
    let removed = BoundsChecks::Removed(unsafe { BoundsProof::assume() });
    for context in [&declared, &forced] {
        assert_eq!(divide(context, Enabled, 7), (13, Enabled));
        // WGSL defines x / 0 as x, which the checks implement.
        assert_eq!(divide(context, Enabled, 0), (91, Enabled));
    }
    assert_eq!(divide(&declared, removed, 7), (13, removed));
    assert_eq!(divide(&forced, removed, 7), (13, Enabled));
    assert_eq!(divide(&forced, removed, 0), (91, Enabled));
}

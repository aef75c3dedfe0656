//! Command batches, with a kernel of another crate's kind.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::borrow::Cow;

use aleatron_gpu::{Access, Capabilities, ContextOptions, Error, GpuCommandBatch, Kernel, Profiler};
use common::{context, own_context};

#[derive(Clone, Copy)]
enum Float {
    Scale,
}

impl Kernel for Float {
    fn name(self) -> &'static str {
        "scale"
    }

    fn source(self, _: Capabilities) -> Cow<'static, str> {
        "override PLUS: u32 = 0u;
         var<immediate> factor: f32;
         @group(0) @binding(0) var<storage, read> a: array<f32>;
         @group(0) @binding(1) var<storage, read_write> b: array<f32>;
         @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
             if (id.x < arrayLength(&b)) { b[id.x] = a[id.x] * factor + f32(PLUS); }
         }"
        .into()
    }

    fn bindings(self) -> &'static [Access] {
        &[Access::Read, Access::ReadWrite]
    }

    fn immediate_bytes(self) -> u32 {
        4
    }
}

#[test]
fn many_operations_run_in_order_in_one_submission() {
    let context = context();
    let kept = context.upload(&[5.0f32; 100]).unwrap();
    let mut batch = GpuCommandBatch::new(&context);
    let a = batch.upload(&(0..100u8).map(f32::from).collect::<Vec<_>>()).unwrap();
    let b = batch.allocate::<f32>(100).unwrap();
    let c = batch.allocate::<f32>(100).unwrap();
    let d = batch.import(&kept).unwrap();
    assert_eq!((a.len(), b.is_empty()), (100, false));
    batch.dispatch(Float::Scale, &[], &[a.id(), b.id()], &2.0f32, [2, 1, 1]).unwrap();
    batch.dispatch(Float::Scale, &[("PLUS", 1)], &[b.id(), c.id()], &3.0f32, [2, 1, 1]).unwrap();
    batch.clear(b).unwrap();
    batch.copy(c, d).unwrap();
    let reads = [batch.read(a).unwrap(), batch.read(b).unwrap(), batch.read(c).unwrap()];
    let mut results = batch.submit().unwrap();
    let [a, b, c] = reads.map(|read| results.take(read).unwrap());
    assert_eq!(a, (0..100u8).map(f32::from).collect::<Vec<_>>());
    assert_eq!(b, vec![0.0; 100]);
    assert_eq!(c, (0..100u8).map(|x| f32::from(x) * 6.0 + 1.0).collect::<Vec<_>>());
    assert_eq!(kept.read().unwrap(), c);
}

#[test]
fn strangers_are_refused() {
    let (context, other) = (context(), own_context(&ContextOptions::default()));
    let foreign = other.upload(&[1.0f32]).unwrap();
    let (mut one, mut two) = (GpuCommandBatch::new(&context), GpuCommandBatch::new(&context));
    let (a, b) = (one.upload(&[1.0f32]).unwrap(), two.upload(&[1.0f32]).unwrap());
    let refused = |error: Error| assert!(matches!(error, Error::ForeignBuffer { .. }), "{error}");
    refused(one.copy(a, b).unwrap_err());
    refused(one.copy(b, a).unwrap_err());
    refused(one.clear(b).unwrap_err());
    refused(one.read(b).unwrap_err());
    refused(one.import(&foreign).map(|_| ()).unwrap_err());
    refused(one.dispatch(Float::Scale, &[], &[a.id(), b.id()], &1.0f32, [1, 1, 1]).unwrap_err());
    let (read_one, read_two) = (one.read(a).unwrap(), two.read(b).unwrap());
    let mut results = one.submit().unwrap();
    refused(results.take(read_two).unwrap_err());
    assert_eq!(results.take(read_one).unwrap(), [1.0]);
}

#[test]
fn wrong_arguments_are_refused() {
    let context = context();
    let mut batch = GpuCommandBatch::new(&context);
    let (a, b) = (batch.upload(&[1.0f32; 2]).unwrap(), batch.allocate::<f32>(1).unwrap());
    let wrong = |error: Error| assert!(matches!(error, Error::Arguments { .. }), "{error}");
    wrong(batch.dispatch(Float::Scale, &[], &[a.id()], &1.0f32, [1, 1, 1]).unwrap_err());
    wrong(batch.dispatch(Float::Scale, &[], &[a.id(), b.id()], &1.0f64, [1, 1, 1]).unwrap_err());
    assert!(matches!(batch.copy(a, b), Err(Error::OutOfBounds { end: 2, len: 1, .. })));
    let read = batch.read(a).unwrap();
    assert_eq!(batch.submit().unwrap().take(read).unwrap(), [1.0; 2]);
}

#[test]
fn repeated_batches_create_nothing_and_can_be_timed() {
    let context = own_context(&ContextOptions::default());
    let mut profiler = Profiler::new(&context).unwrap();
    let mut created = None;
    for _ in 0..4 {
        let mut batch = GpuCommandBatch::new(&context);
        let a = batch.upload(&[3.0f32; 50]).unwrap();
        let b = batch.allocate::<f32>(50).unwrap();
        batch.dispatch(Float::Scale, &[], &[a.id(), b.id()], &2.0f32, [1, 1, 1]).unwrap();
        let read = batch.read(b).unwrap();
        let mut results = batch.submit_profiled(Some(&mut profiler)).unwrap();
        assert_eq!(results.take(read).unwrap(), [6.0; 50]);
        profiler.collect().unwrap();
        let now = context.created();
        assert_eq!(*created.get_or_insert(now), now);
    }
    let [row] = profiler.rows() else { panic!("{:?}", profiler.rows()) };
    assert_eq!((row.kernel, row.calls), ("scale", 4));
    assert!(!row.time.is_zero());
}

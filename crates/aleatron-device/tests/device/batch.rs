//! Command batches over typed handles.

use crate::common::{Float, context, own_context};
use aleatron_device::{ContextOptions, Error, GpuCommandBatch, Profiler};

#[test]
fn operations_of_a_batch_run_in_order_in_one_submission() {
    let context = context();
    let retained = context.upload(&[5.0f32; 100]).unwrap();
    let mut batch = GpuCommandBatch::new(&context).unwrap();
    let a = batch.upload(&(0..100u8).map(f32::from).collect::<Vec<_>>()).unwrap();
    let b = batch.allocate::<f32>(100).unwrap();
    let c = batch.allocate::<f32>(100).unwrap();
    let d = batch.import(&retained).unwrap();
    assert_eq!((a.len(), b.is_empty()), (100, false));
    batch.dispatch(&Float::Scale, &[], &[a.id(), b.id()], &2.0f32, [2, 1, 1]).unwrap();
    let between = batch.read(b).unwrap();
    batch
        .dispatch(&Float::Scale, &[("PLUS", 1f32.into())], &[b.id(), c.id()], &3.0f32, [2, 1, 1])
        .unwrap();
    batch.clear(b).unwrap();
    batch.copy(c, d).unwrap();
    let reads = [batch.read(a).unwrap(), batch.read(b).unwrap(), batch.read(c).unwrap()];
    batch.submit().unwrap();
    let [a, b, c] = reads.map(|read| read.wait().unwrap());
    assert_eq!(a, (0..100u8).map(f32::from).collect::<Vec<_>>());
    assert_eq!(between.wait().unwrap(), (0..100u8).map(|x| f32::from(x) * 2.0).collect::<Vec<_>>());
    assert_eq!(b, vec![0.0; 100]);
    assert_eq!(c, (0..100u8).map(|x| f32::from(x) * 6.0 + 1.0).collect::<Vec<_>>());
    assert_eq!(retained.read().unwrap(), c);
}

#[test]
fn handles_of_other_batches_and_devices_are_rejected() {
    let (context, other) = (context(), own_context(&ContextOptions::default()));
    let foreign = other.upload(&[1.0f32]).unwrap();
    let mut one = GpuCommandBatch::new(&context).unwrap();
    let mut two = GpuCommandBatch::new(&context).unwrap();
    let (a, b) = (one.upload(&[1.0f32]).unwrap(), two.upload(&[1.0f32]).unwrap());
    let refused = |error: Error| assert!(matches!(error, Error::Foreign { .. }), "{error}");
    refused(one.copy(a, b).unwrap_err());
    refused(one.copy(b, a).unwrap_err());
    refused(one.clear(b).unwrap_err());
    refused(one.read(b).map(drop).unwrap_err());
    refused(one.import(&foreign).map(drop).unwrap_err());
    refused(one.dispatch(&Float::Scale, &[], &[a.id(), b.id()], &1.0f32, [1, 1, 1]).unwrap_err());
    let read = one.read(a).unwrap();
    one.submit().unwrap();
    assert_eq!(read.wait().unwrap(), [1.0]);
    refused(
        GpuCommandBatch::profiled(&context, &mut Profiler::new(&other).unwrap())
            .map(drop)
            .unwrap_err(),
    );
}

#[test]
fn handle_of_submitted_batch_is_rejected() {
    let context = context();
    let mut first = GpuCommandBatch::new(&context).unwrap();
    let stale = first.upload(&[1.0f32]).unwrap();
    first.submit().unwrap();
    let mut second = GpuCommandBatch::new(&context).unwrap();
    // As many buffers as the first batch had, so that the index alone would be valid.
    let own = second.upload(&[2.0f32]).unwrap();
    for error in [
        second.clear(stale).unwrap_err(),
        second.copy(stale, own).unwrap_err(),
        second.read(stale).map(drop).unwrap_err(),
        second.dispatch(&Float::Scale, &[], &[own.id(), stale.id()], &1f32, [1, 1, 1]).unwrap_err(),
    ] {
        assert!(matches!(error, Error::Foreign { what: "handle", .. }), "{error}");
    }
    let read = second.read(own).unwrap();
    second.submit().unwrap();
    assert_eq!(read.wait().unwrap(), [2.0]);
}

#[test]
fn dropped_batch_does_nothing() {
    let context = context();
    let retained = context.upload(&[5.0f32; 3]).unwrap();
    let mut batch = GpuCommandBatch::new(&context).unwrap();
    let handle = batch.import(&retained).unwrap();
    batch.clear(handle).unwrap();
    let read = batch.read(handle).unwrap();
    drop(batch);
    assert_eq!(read.wait().unwrap_err(), Error::NotSubmitted);
    assert_eq!(retained.read().unwrap(), [5.0; 3]);
}

#[test]
fn wrong_arguments_are_errors() {
    let context = context();
    let mut batch = GpuCommandBatch::new(&context).unwrap();
    let (a, b) = (batch.upload(&[1.0f32; 2]).unwrap(), batch.allocate::<f32>(1).unwrap());
    let wrong = |error: Error| assert!(matches!(error, Error::Arguments { .. }), "{error}");
    wrong(batch.dispatch(&Float::Scale, &[], &[a.id()], &1.0f32, [1, 1, 1]).unwrap_err());
    wrong(batch.dispatch(&Float::Scale, &[], &[a.id(), b.id()], &1.0f64, [1, 1, 1]).unwrap_err());
    assert!(matches!(batch.copy(a, b), Err(Error::OutOfBounds { end: 2, len: 1, .. })));
    let read = batch.read(a).unwrap();
    batch.submit().unwrap();
    assert_eq!(read.wait().unwrap(), [1.0; 2]);
}

#[test]
fn repeated_batches_allocate_nothing_and_can_be_timed() {
    let context = own_context(&ContextOptions::default());
    let mut profiler = Profiler::new(&context).unwrap();
    let mut created = None;
    for _ in 0..4 {
        let mut batch = GpuCommandBatch::profiled(&context, &mut profiler).unwrap();
        let a = batch.upload(&[3.0f32; 50]).unwrap();
        let b = batch.allocate::<f32>(50).unwrap();
        batch.dispatch(&Float::Scale, &[], &[a.id(), b.id()], &2.0f32, [1, 1, 1]).unwrap();
        let read = batch.read(b).unwrap();
        batch.submit().unwrap();
        assert_eq!(read.wait().unwrap(), [6.0; 50]);
        profiler.collect().unwrap();
        let now = context.created();
        assert_eq!(*created.get_or_insert(now), now);
    }
    let [row] = profiler.rows() else { panic!("{:?}", profiler.rows()) };
    assert_eq!((&*row.kernel, row.calls, row.bytes), ("scale", 4, 4 * 400));
    assert!(!row.time.is_zero());
}

//! Kernels over parts of buffers, and errors for views that cannot be bound.

use crate::common::{Float, context, own_context};
use aleatron_device::{ContextOptions, Error, Limit};

#[test]
fn any_range_can_be_bound_through_an_aligned_view() {
    let context = context();
    let alignment = context.binding_alignment();
    assert_eq!(alignment, u64::from(context.info().binding_alignment).max(4));
    let data: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    let source = context.upload(&data).unwrap();
    let target = context.buffer::<f32>(10).unwrap();
    for start in [0usize, 1, 5, 63, 64, 65, 100, 256, 990] {
        let (view, first) = source.view_of(start, 10).unwrap().aligned(alignment);
        assert_eq!(view.len(), first + 10);
        assert!(view.offset().is_multiple_of(alignment) && (first as u64) < alignment / 4);
        let constants = [("FIRST", (first as u32).into())];
        let pipeline = context.pipeline(&Float::Scale, &constants).unwrap();
        let bound = context.bind(&pipeline, &[view, target.view()]).unwrap();
        let mut recorder = context.recorder(None).unwrap();
        recorder.dispatch(&bound, &1f32, [1, 1, 1], 0).unwrap();
        recorder.submit().unwrap();
        assert_eq!(target.read().unwrap(), data[start..start + 10], "from {start}");
    }
}

#[test]
fn alignment_preserves_whole_elements() {
    let context = context();
    let bytes = context.buffer::<u8>(1000).unwrap();
    assert_eq!(bytes.view_of(300, 1).unwrap().aligned(256).1, 44);
    assert_eq!(bytes.view_of(256, 1).unwrap().aligned(256).1, 0);
    // Twelve bytes each: 256 divides no multiple of 12 below 768.
    let triples = context.buffer::<[u32; 3]>(200).unwrap();
    for (start, first) in [(0, 0), (22, 22), (63, 63), (64, 0), (70, 6), (129, 1)] {
        let (view, found) = triples.view_of(start, 3).unwrap().aligned(256);
        assert_eq!(found, first, "{start}");
        assert_eq!(view.offset(), 12 * (start - first) as u64);
        assert_eq!(view.len(), first + 3);
    }
    assert_eq!(triples.view_of(5, 1).unwrap().aligned(0).1, 0);
}

#[test]
fn unbindable_views_are_errors() {
    let context =
        own_context(&ContextOptions { max_binding_bytes: Some(400), ..ContextOptions::default() });
    let (a, b) = (context.upload(&[1f32; 200]).unwrap(), context.upload(&[2f32; 200]).unwrap());
    let pipeline = context.pipeline(&Float::Scale, &[]).unwrap();
    let whole = b.view_of(0, 10).unwrap();
    let alignment = context.binding_alignment();
    let odd = a.view_of(1, 10).unwrap();
    let bind = |views: &[_]| context.bind(&pipeline, views).unwrap_err();
    assert_eq!(bind(&[odd, whole]), Error::Unaligned { offset: 4, alignment });
    let none = a.view_of(64, 0).unwrap();
    assert!(matches!(bind(&[none, whole]), Error::EmptyBinding { binding: 0, .. }));
    let error = bind(&[a.view(), whole]);
    assert_eq!(error, Error::TooLarge { what: Limit::BindingBytes, actual: 800, limit: 400 });
    // One buffer read and written by one kernel, even if its parts do not overlap.
    let (view, _) = b.view_of(100, 10).unwrap().aligned(alignment);
    assert!(matches!(bind(&[view, whole]), Error::Aliased { bindings: [0, 1], .. }));
    // After all of that the device works.
    let bound = context.bind(&pipeline, &[a.view_of(0, 10).unwrap(), whole]).unwrap();
    let mut recorder = context.recorder(None).unwrap();
    recorder.dispatch(&bound, &3f32, [1, 1, 1], 0).unwrap();
    assert!(matches!(recorder.dispatch(&bound, &3f64, [1, 1, 1], 0), Err(Error::Arguments { .. })));
    recorder.submit().unwrap();
    assert_eq!(b.read_of(8, 4).unwrap(), [3.0, 3.0, 2.0, 2.0]);
}

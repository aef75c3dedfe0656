//! Failures of devices, drivers and callers are errors, and the next operation works.

use std::borrow::Cow;
use std::sync::Arc;

use crate::common::{Float, choice, own_context};
use aleatron_device::{
    Access, AdapterChoice, Capabilities, ContextOptions, Error, GpuContext, HostBuffer, Kernel,
    Limit, Profiler, adapters, grid,
};

fn fresh() -> Arc<GpuContext> {
    own_context(&ContextOptions::default())
}

/// Runs an operation that needs the whole path and has a known result.
fn works(context: &Arc<GpuContext>) {
    let (a, b) = (context.upload(&[1f32, 3.0]).unwrap(), context.buffer::<f32>(2).unwrap());
    let bound = context
        .bind(&context.pipeline(&Float::Scale, &[]).unwrap(), &[a.view(), b.view()])
        .unwrap();
    let mut recorder = context.recorder(None).unwrap();
    recorder.dispatch(&bound, &4f32, [1, 1, 1], 0).unwrap();
    recorder.submit().unwrap();
    assert_eq!(b.read().unwrap(), [4.0, 12.0]);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Odd {
    Unparsable,
    Invalid,
    WrongBinding,
    TooManyParameters,
}

impl Kernel for Odd {
    fn name(&self) -> Cow<'static, str> {
        format!("{self:?}").into()
    }

    fn source(&self, _: Capabilities) -> Cow<'static, str> {
        match self {
            Self::Unparsable => "fn main( {",
            Self::Invalid => "@compute @workgroup_size(1) fn main() { let x: u32 = 1.5; }",
            Self::WrongBinding => {
                "@group(0) @binding(0) var<storage, read_write> a: array<u32>;
                 @compute @workgroup_size(1) fn main() { a[0] = 1u; }"
            }
            Self::TooManyParameters => "@compute @workgroup_size(1) fn main() { }",
        }
        .into()
    }

    fn bindings(&self) -> Cow<'static, [Access]> {
        Cow::Borrowed(&[Access::Read])
    }

    fn immediate_bytes(&self) -> usize {
        if matches!(self, Self::TooManyParameters) { 1 << 20 } else { 0 }
    }
}

#[test]
fn invalid_shaders_are_errors() {
    let context = fresh();
    for odd in [Odd::Unparsable, Odd::Invalid, Odd::WrongBinding] {
        let error = context.pipeline(&odd, &[]).unwrap_err();
        assert!(matches!(error, Error::Validation { .. }), "{odd:?}: {error}");
        assert!(std::error::Error::source(&error).is_some_and(|source| source.source().is_some()));
        works(&context);
    }
    let error = context.pipeline(&Odd::TooManyParameters, &[]).unwrap_err();
    assert!(matches!(error, Error::TooLarge { what: Limit::ImmediateBytes, .. }), "{error}");
    // A constant that the shader does not have, and one that is not a number.
    for constant in [("UNKNOWN", 1u32.into()), ("PLUS", f32::NAN.into())] {
        let error = context.pipeline(&Float::Scale, &[constant]).unwrap_err();
        assert!(matches!(error, Error::Validation { .. }), "{error}");
    }
    works(&context);
}

#[test]
fn oversized_buffers_are_errors_before_allocation() {
    let context = fresh();
    let before = context.created();
    let most = context.info().max_buffer_bytes;
    for len in [usize::MAX, usize::MAX / 4, most as usize / 4 + 1] {
        let error = context.buffer::<u32>(len).unwrap_err();
        assert!(matches!(error, Error::TooLarge { what: Limit::BufferBytes, .. }), "{error}");
        assert!(context.buffer::<[u32; 4]>(len).is_err());
        assert!(HostBuffer::<u32>::readback(&context, len).is_err());
    }
    assert!(context.buffer::<u8>(most as usize + 1).is_err());
    assert_eq!(context.created(), before);
    works(&context);
}

#[test]
fn oversized_grids_are_errors() {
    let context = fresh();
    let (a, b) = (context.upload(&[1f32]).unwrap(), context.buffer::<f32>(1).unwrap());
    let bound = context
        .bind(&context.pipeline(&Float::Scale, &[]).unwrap(), &[a.view(), b.view()])
        .unwrap();
    let mut recorder = context.recorder(None).unwrap();
    let limit = context.info().max_workgroups;
    for sides in [[limit + 1, 1, 1], [1, limit + 1, 1], [1, 1, u32::MAX]] {
        let error = recorder.dispatch(&bound, &1f32, sides, 0).unwrap_err();
        assert!(matches!(error, Error::TooLarge { what: Limit::Workgroups, .. }), "{error}");
    }
    assert!(grid(u64::MAX, limit).is_err());
    recorder.dispatch(&bound, &3f32, [0, 1, 1], 0).unwrap();
    recorder.dispatch(&bound, &5f32, [1, 1, 1], 0).unwrap();
    recorder.submit().unwrap();
    assert_eq!(b.read().unwrap(), [5.0]);
}

#[test]
fn objects_of_another_device_are_rejected() {
    let (one, other) = (fresh(), fresh());
    let (a, b) = (one.upload(&[1f32; 8]).unwrap(), other.upload(&[2f32; 8]).unwrap());
    let spare = other.upload(&[2f32; 8]).unwrap();
    let pipeline = one.pipeline(&Float::Scale, &[]).unwrap();
    let foreign = |error: Error| assert!(matches!(error, Error::Foreign { .. }), "{error}");
    foreign(one.bind(&pipeline, &[a.view(), b.view()]).unwrap_err());
    foreign(other.bind(&pipeline, &[b.view(), spare.view()]).unwrap_err());
    foreign(one.recorder(None).unwrap().copy(b.view(), a.view()).unwrap_err());
    foreign(one.recorder(None).unwrap().copy(a.view(), b.view()).unwrap_err());
    foreign(one.recorder(None).unwrap().clear(b.view()).unwrap_err());
    foreign(one.recorder(None).unwrap().read::<f32>(b.view()).unwrap_err());
    let theirs = other.pipeline(&Float::Scale, &[]).unwrap();
    let bound = other.bind(&theirs, &[b.view(), spare.view()]).unwrap();
    foreign(one.recorder(None).unwrap().dispatch(&bound, &1f32, [1, 1, 1], 0).unwrap_err());
    foreign(one.recorder(Some(&mut Profiler::new(&other).unwrap())).unwrap_err());
    let error = one.bind(&pipeline, &[a.view()]).unwrap_err();
    assert!(matches!(error, Error::Arguments { expected: 2, actual: 1, .. }), "{error}");
    works(&one);
    works(&other);
}

#[test]
fn lost_device_is_an_error_for_its_users() {
    let context = fresh();
    let buffer = context.upload(&[1u32]).unwrap();
    let submission = context.recorder(None).unwrap().submit().unwrap();
    let read = buffer.start_read(0, 1).unwrap();
    context.finish().unwrap();
    context.destroy();
    let lost = |error: Error| assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
    assert!(context.is_lost());
    lost(buffer.read().unwrap_err());
    lost(buffer.write(0, &[2]).unwrap_err());
    lost(context.upload(&[1u32]).unwrap_err());
    lost(context.pipeline(&Float::Scale, &[]).unwrap_err());
    lost(context.recorder(None).unwrap_err());
    lost(context.poll().unwrap_err());
    lost(context.finish().unwrap_err());
    lost(context.check().unwrap_err());
    lost(submission.wait().unwrap_err());
    lost(submission.is_done().unwrap_err());
    lost(pollster::block_on(submission.done()).unwrap_err());
    // It may or may not have arrived before, but it must not hang.
    assert!(read.is_ready());
    match read.wait() {
        Ok(elements) => assert_eq!(elements, [1]),
        Err(error) => {
            assert!(matches!(error, Error::DeviceLost { .. } | Error::Map { .. }), "{error}")
        }
    }
    works(&fresh());
}

#[test]
fn unknown_adapters_are_errors_that_list_available_ones() {
    let info = aleatron_device::adapter::find(&choice()).unwrap();
    for wanted in [AdapterChoice::named("no such adapter"), AdapterChoice::Index(adapters().len())]
    {
        let error = GpuContext::get(&wanted).unwrap_err();
        assert!(error.to_string().contains(&info.name), "{error}");
        assert!(matches!(error, Error::NoAdapter { wanted: w, .. } if w == wanted));
    }
    assert!(info.max_binding_bytes >= 1 << 27 && info.max_workgroups >= 65_535, "{info:?}");
    assert!(info.binding_alignment.is_power_of_two() && info.max_bindings >= 8, "{info:?}");
    assert!(info.max_immediate_bytes >= 64 && info.max_workgroup_threads >= 256, "{info:?}");
    assert!(!info.driver.is_empty() && !info.backend.is_empty());
    let shapes = info.cooperative_matrices.is_empty();
    assert_eq!(shapes, !info.capabilities.cooperative_matrices, "{info:?}");
}

#[test]
fn adapter_is_selected_by_its_index() {
    let all = adapters();
    for (index, info) in all.iter().enumerate() {
        assert_eq!(info.index, index);
        assert_eq!(aleatron_device::adapter::find(&AdapterChoice::Index(index)).unwrap(), *info);
    }
    let index = aleatron_device::adapter::find(&choice()).unwrap().index;
    let by_index = GpuContext::get(&AdapterChoice::Index(index)).unwrap();
    assert!(Arc::ptr_eq(&by_index, &crate::common::context()));
    assert_eq!(by_index.info().index, index);
}

#[test]
fn context_of_an_adapter_is_shared() {
    let (a, b) = (crate::common::context(), crate::common::context());
    assert!(Arc::ptr_eq(&a, &b));
    assert_ne!(a.id(), fresh().id());
}

#[test]
fn device_has_the_requested_capabilities() {
    let only = Capabilities { int64: true, ..Capabilities::NONE };
    let context = own_context(&ContextOptions {
        capabilities: only,
        max_workgroups: Some(3),
        ..ContextOptions::default()
    });
    let has = aleatron_device::adapter::find(&choice()).unwrap().capabilities;
    assert_eq!(context.capabilities(), has.and(only));
    assert_eq!(context.info().max_workgroups, 3);
    assert!(context.info().cooperative_matrices.is_empty());
    works(&context);
}

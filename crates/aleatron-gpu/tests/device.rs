//! Failures of devices, drivers and callers become errors, and the next call works.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::borrow::Cow;
use std::sync::Arc;

use aleatron_core::{DenseShape, Polarity, StreamAddress, Threshold};
use aleatron_gpu::{
    Access, AdapterChoice, Capabilities, ContextOptions, Error, GpuContext, GpuDense, Kernel, Limit, Memory,
    StreamKernel, adapters,
};
use common::{choice, length, own_context};

fn fresh() -> Arc<GpuContext> {
    own_context(&ContextOptions::default())
}

/// Something that needs the whole path and has a known answer.
fn works(context: &Arc<GpuContext>) {
    let shape = DenseShape::new(2, 2, length(64), Polarity::Unipolar).unwrap();
    let layer = GpuDense::from_words(context, shape, 4, &[1, 3, 7, 15]).unwrap();
    let counts = layer.counts(&[Threshold::ONE; 2], StreamAddress::input(0, 0, 0)).unwrap();
    assert_eq!(counts, [3, 7]);
}

#[derive(Clone, Copy)]
enum Odd {
    Unparsable,
    Invalid,
    WrongBinding,
    TooManyParameters,
}

impl Kernel for Odd {
    fn name(self) -> &'static str {
        match self {
            Self::Unparsable => "unparsable",
            Self::Invalid => "invalid",
            Self::WrongBinding => "wrong binding",
            Self::TooManyParameters => "too many parameters",
        }
    }

    fn source(self, _: Capabilities) -> Cow<'static, str> {
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

    fn bindings(self) -> &'static [Access] {
        &[Access::Read]
    }

    fn immediate_bytes(self) -> u32 {
        if matches!(self, Self::TooManyParameters) { 1 << 20 } else { 0 }
    }
}

#[test]
fn bad_shaders_are_errors() {
    let context = fresh();
    for odd in [Odd::Unparsable, Odd::Invalid, Odd::WrongBinding] {
        let error = context.pipeline(odd, &[]).unwrap_err();
        assert!(matches!(error, Error::Validation { .. }), "{}: {error}", odd.name());
        works(&context);
    }
    let error = context.pipeline(Odd::TooManyParameters, &[]).unwrap_err();
    assert!(matches!(error, Error::TooLarge { what: Limit::ImmediateBytes, .. }), "{error}");
    // A constant the shader does not have.
    let error = context.pipeline(StreamKernel::Probe, &[("NOT_THERE", 1)]).unwrap_err();
    assert!(matches!(error, Error::Validation { .. }), "{error}");
    works(&context);
}

#[test]
fn validation_errors_inside_and_outside_of_scopes_are_reported() {
    let context = fresh();
    let too_large = |device: &wgpu::Device| {
        let (size, usage) = (1 << 60, wgpu::BufferUsages::STORAGE);
        device.create_buffer(&wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false })
    };
    let error = context.scoped(too_large).map(drop).unwrap_err();
    assert!(matches!(error, Error::Validation { .. } | Error::OutOfMemory { .. }), "{error}");
    works(&context);
    // Unscoped: the handler keeps it for the next check, instead of panicking.
    drop(too_large(context.device()));
    let error = context.check().unwrap_err();
    assert!(matches!(error, Error::Validation { .. } | Error::OutOfMemory { .. }), "{error}");
    assert_eq!(context.check(), Ok(()));
    works(&context);
}

#[test]
fn absurd_sizes_are_errors_before_anything_is_allocated() {
    let context = fresh();
    let before = context.created();
    let error = context.buffer::<u32>(usize::MAX, Memory::Device).unwrap_err();
    assert!(matches!(error, Error::TooLarge { what: Limit::BufferBytes, .. }), "{error}");
    let shape = DenseShape::new(1 << 20, 1 << 12, length(1 << 30), Polarity::Unipolar).unwrap();
    let error = GpuDense::from_words(&context, shape, 1, &[]).unwrap_err();
    assert!(matches!(error, Error::TooLarge { what: Limit::RowWords, .. }), "{error}");
    assert_eq!(context.created(), before);
    works(&context);
}

#[test]
fn buffers_of_other_devices_are_refused() {
    let (one, other) = (fresh(), fresh());
    let (a, b) = (one.upload(&[1u32; 8]).unwrap(), other.upload(&[2u32; 8]).unwrap());
    let pipeline = one.pipeline(StreamKernel::Probe, &[("WRITE", 1)]).unwrap();
    let foreign = |error: Error| assert!(matches!(error, Error::ForeignBuffer { .. }), "{error}");
    foreign(one.bind(&pipeline, &[a.view().unwrap(), b.view().unwrap()]).unwrap_err());
    foreign(other.bind(&pipeline, &[b.view().unwrap(), b.view().unwrap()]).unwrap_err());
    foreign(one.recorder(None).unwrap().copy(b.view().unwrap(), a.view().unwrap()).unwrap_err());
    foreign(one.recorder(None).unwrap().clear(b.view().unwrap()).unwrap_err());
    let error = one.bind(&pipeline, &[a.view().unwrap()]).unwrap_err();
    assert!(matches!(error, Error::Arguments { expected: 2, actual: 1, .. }), "{error}");
    assert!(matches!(a.view_of(4, 5), Err(Error::OutOfBounds { start: 4, end: 9, len: 8 })));
    assert!(matches!(a.view_of(usize::MAX, 5), Err(Error::OutOfBounds { .. })));
    assert!(matches!(a.write(1, &[0; 8]), Err(Error::OutOfBounds { .. })));
    works(&one);
    works(&other);
}

#[test]
fn a_lost_device_is_an_error_for_its_users() {
    let context = fresh();
    let shape = DenseShape::new(2, 2, length(64), Polarity::Unipolar).unwrap();
    let mut layer = GpuDense::from_words(&context, shape, 4, &[1, 3, 7, 15]).unwrap();
    let buffer = context.upload(&[1u32]).unwrap();
    context.destroy();
    let lost = |error: Error| assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
    assert!(context.is_lost());
    lost(layer.counts(&[Threshold::ONE; 2], StreamAddress::input(0, 0, 0)).unwrap_err());
    lost(layer.counts_of_streams(&[0; 2]).unwrap_err());
    lost(layer.set_words(&[0; 4]).unwrap_err());
    lost(layer.words().unwrap_err());
    lost(buffer.read().unwrap_err());
    lost(context.upload(&[1u32]).unwrap_err());
    lost(context.pipeline(StreamKernel::Sparse, &[]).unwrap_err());
    lost(context.check().unwrap_err());
    works(&fresh());
}

#[test]
fn unknown_adapters_are_errors_that_list_those_there_are() {
    let error = GpuContext::get(&AdapterChoice::named("no such adapter")).unwrap_err().to_string();
    let name = aleatron_gpu::adapter::find(&choice()).unwrap().name;
    assert!(error.contains("no such adapter") && error.contains(&name), "{error}");
    let info = adapters().into_iter().find(|info| info.name == name).unwrap();
    assert!(info.max_binding_bytes >= 1 << 27 && info.max_workgroups >= 65_535, "{info:?}");
    assert!(!info.driver.is_empty() && !info.backend.is_empty());
}

#[test]
fn buffers_come_back_from_the_pool() {
    let context = fresh();
    let first = context.upload(&[1u32, 2, 3]).unwrap();
    assert_eq!(first.read().unwrap(), [1, 2, 3]);
    drop(first);
    let before = context.created();
    for n in 1..60u32 {
        let data: Vec<u32> = (0..n).collect();
        let buffer = context.upload(&data).unwrap();
        assert_eq!(buffer.read().unwrap(), data);
        assert_eq!(buffer.read_of(0, 0).unwrap(), []);
        assert_eq!(buffer.read_of(n as usize - 1, 1).unwrap(), [n - 1]);
    }
    assert_eq!(context.created(), before, "all of one size class");
}

#[test]
fn the_context_of_an_adapter_is_shared() {
    let (a, b) = (common::context(), common::context());
    assert!(Arc::ptr_eq(&a, &b));
    assert_ne!(a.id(), fresh().id());
}

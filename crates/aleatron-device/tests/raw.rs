//! A device shared with an application that uses wgpu itself.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;

use aleatron_device::raw::{self, wgpu};
use aleatron_device::{ContextOptions, Error, GpuContext};
use common::{Float, choice, context, own_context};

/// Opens a device as an application does: with its own instance.
fn open(features: wgpu::Features) -> (wgpu::Adapter, wgpu::Device, wgpu::Queue) {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let adapters = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::PRIMARY));
    let name = aleatron_device::adapter::find(&choice()).unwrap().name;
    let adapter = adapters.into_iter().find(|adapter| adapter.get_info().name == name).unwrap();
    let request = adapter.request_device(&wgpu::DeviceDescriptor {
        required_features: features,
        required_limits: adapter.limits(),
        ..wgpu::DeviceDescriptor::default()
    });
    let (device, queue) = pollster::block_on(request).unwrap();
    (adapter, device, queue)
}

fn doubled(context: &Arc<GpuContext>, data: &[f32]) -> Vec<f32> {
    let (a, b) = (context.upload(data).unwrap(), context.buffer::<f32>(data.len()).unwrap());
    let pipeline = context.pipeline(&Float::Scale, &[]).unwrap();
    let bound = context.bind(&pipeline, &[a.view(), b.view()]).unwrap();
    let mut recorder = context.recorder(None).unwrap();
    recorder.dispatch(&bound, &2f32, [1, 1, 1], 0).unwrap();
    recorder.submit().unwrap();
    b.read().unwrap()
}

#[test]
fn application_shares_its_device() {
    let (adapter, device, queue) = open(wgpu::Features::IMMEDIATES);
    let context =
        raw::import(&adapter, device.clone(), queue.clone(), &ContextOptions::default()).unwrap();
    assert_eq!(doubled(&context, &[1.0, 2.5]), [2.0, 5.0]);
    // Features that were not requested when the device was opened are not used, whatever the
    // adapter has.
    assert!(!context.capabilities().timestamps && !context.capabilities().subgroups);
    assert_eq!(context.info().index, aleatron_device::adapter::find(&choice()).unwrap().index);

    // Commands of the application and of this crate on one buffer, in order.
    let ours = context.upload(&[7u32, 8, 9]).unwrap();
    let theirs = device.create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size: 12,
        usage: wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    queue.write_buffer(&theirs, 0, &[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]);
    let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    // SAFETY: `ours` lives to the end of the test.
    encoder.copy_buffer_to_buffer(&theirs, 0, unsafe { raw::buffer(&ours) }, 4, 8);
    queue.submit([encoder.finish()]);
    assert_eq!(ours.read().unwrap(), [7, 1, 2]);

    // Losing it is an error, not the end of the process.
    device.destroy();
    context.finish().unwrap_err();
    assert!(matches!(context.upload(&[1u32]), Err(Error::DeviceLost { .. })));
}

#[test]
fn device_without_parameters_is_an_error() {
    let (adapter, device, queue) = open(wgpu::Features::empty());
    let refused = raw::import(&adapter, device, queue, &ContextOptions::default());
    assert!(matches!(refused, Err(Error::Unsupported { .. })), "{refused:?}");
}

#[test]
fn raw_handles_are_returned() {
    let context = context();
    assert_eq!(raw::adapter(&context).get_info().name, context.name());
    let submission = context.recorder(None).unwrap().submit().unwrap();
    let submission_index = Some(raw::submission_index(&submission).clone());
    let wait = wgpu::PollType::Wait { submission_index, timeout: None };
    raw::device(&context).poll(wait).unwrap();
    assert!(submission.is_done().unwrap());
    raw::queue(&context).submit([]);
}

#[test]
fn errors_outside_of_scopes_are_returned_by_the_next_check() {
    let context = own_context(&ContextOptions::default());
    // The handler stores it for the next check, instead of panicking.
    let (size, usage) = (1 << 60, wgpu::BufferUsages::STORAGE);
    let descriptor = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
    drop(raw::device(&context).create_buffer(&descriptor));
    let error = context.check().unwrap_err();
    assert!(matches!(error, Error::Validation { .. } | Error::OutOfMemory { .. }), "{error}");
    assert!(std::error::Error::source(&error).is_some());
    assert_eq!(context.check(), Ok(()));
    assert_eq!(doubled(&context, &[4.0]), [8.0]);
}

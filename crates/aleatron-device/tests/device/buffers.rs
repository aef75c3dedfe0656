//! Buffers of elements of every size: writes, reads, copies and clears of any range leave
//! neighbours unchanged.

use std::fmt::Debug;
use std::sync::Arc;

use crate::common::{context, own_context, plain_context};
use aleatron_device::{ContextOptions, Error, GpuBuffer, GpuContext, HostBuffer};
use bytemuck::Pod;
use half::f16;
use proptest::prelude::*;

/// Returns elements 1, 2, 3, … of distinct bytes.
fn elements<T: Pod>(n: usize, seed: usize) -> Vec<T> {
    let bytes: Vec<u8> = (0..n * size_of::<T>()).map(|i| (i * 7 + seed * 31 + 1) as u8).collect();
    bytemuck::pod_collect_to_vec(&bytes)
}

/// Writes, reads and clears every range of a small buffer, and compares the whole with a host copy
/// each time.
fn every_range<T: Pod + PartialEq + Debug>(context: &Arc<GpuContext>, len: usize) {
    let mut expected = elements::<T>(len, 0);
    let buffer = context.upload(&expected).unwrap();
    for start in 0..=len {
        for n in 0..=len - start {
            let data = elements::<T>(n, start + n + 1);
            buffer.write(start, &data).unwrap();
            expected[start..start + n].copy_from_slice(&data);
            assert_eq!(buffer.read().unwrap(), expected, "wrote {n} at {start}");
            assert_eq!(buffer.read_of(start, n).unwrap(), data, "read {n} at {start}");
        }
    }
    for start in 0..=len {
        for n in 0..=len - start {
            buffer.write(0, &expected).unwrap();
            let mut recorder = context.recorder(None).unwrap();
            recorder.clear(buffer.view_of(start, n).unwrap()).unwrap();
            recorder.submit().unwrap();
            let mut cleared = expected.clone();
            cleared[start..start + n].fill(T::zeroed());
            assert_eq!(buffer.read().unwrap(), cleared, "cleared {n} at {start}");
        }
    }
}

#[test]
fn odd_ranges_of_bytes_and_halves_are_exact() {
    for context in [context(), plain_context()] {
        every_range::<u8>(&context, 11);
        every_range::<u8>(&context, 12);
        every_range::<u16>(&context, 7);
        every_range::<u16>(&context, 8);
    }
}

#[test]
fn buffers_hold_elements_of_every_size() {
    let context = context();
    every_range::<f32>(&context, 3);
    every_range::<i32>(&context, 3);
    every_range::<u64>(&context, 3);
    every_range::<[u32; 3]>(&context, 3);
    every_range::<[u32; 4]>(&context, 3);
    every_range::<[u8; 3]>(&context, 5);
    let halves = [1.5, -0.25, 65_504.0, 0.0, -0.0].map(f16::from_f32);
    let buffer = context.upload(&halves).unwrap();
    buffer.write(1, &[f16::from_f32(7.0)]).unwrap();
    let bits = |halves: &[f16]| halves.iter().map(|half| half.to_bits()).collect::<Vec<_>>();
    let expected = [1.5, 7.0, 65_504.0, 0.0, -0.0].map(f16::from_f32);
    assert_eq!(bits(&buffer.read().unwrap()), bits(&expected));
}

/// Copies between every pair of odd offsets, also within one buffer.
#[test]
fn copies_at_odd_offsets_are_exact() {
    let context = context();
    let (source, target) = (elements::<u8>(9, 1), elements::<u8>(9, 2));
    let a = context.upload(&source).unwrap();
    let b = context.buffer::<u8>(9).unwrap();
    for from in 0..9 {
        for to in 0..9 {
            for n in 0..=9 - from.max(to) {
                b.write(0, &target).unwrap();
                let mut recorder = context.recorder(None).unwrap();
                recorder.copy(a.view_of(from, n).unwrap(), b.view_of(to, n).unwrap()).unwrap();
                recorder.submit().unwrap();
                let mut expected = target.clone();
                expected[to..to + n].copy_from_slice(&source[from..from + n]);
                assert_eq!(b.read().unwrap(), expected, "{n} from {from} to {to}");

                let mut recorder = context.recorder(None).unwrap();
                recorder.copy(b.view_of(from, n).unwrap(), b.view_of(to, n).unwrap()).unwrap();
                recorder.submit().unwrap();
                expected.copy_within(from..from + n, to);
                assert_eq!(b.read().unwrap(), expected, "{n} within, from {from} to {to}");
            }
        }
    }
}

#[test]
fn copies_larger_than_one_binding_are_split() {
    // Bindings of 1 KiB: the kernel needs several dispatches.
    let context =
        own_context(&ContextOptions { max_binding_bytes: Some(1024), ..ContextOptions::default() });
    let source = elements::<u8>(5001, 3);
    let a = context.upload(&source).unwrap();
    let b = context.upload(&vec![9u8; 5003]).unwrap();
    let mut recorder = context.recorder(None).unwrap();
    recorder.copy(a.view_of(1, 4999).unwrap(), b.view_of(2, 4999).unwrap()).unwrap();
    recorder.clear(b.view_of(2003, 1999).unwrap()).unwrap();
    recorder.submit().unwrap();
    let mut expected = vec![9; 5003];
    expected[2..5001].copy_from_slice(&source[1..5000]);
    expected[2003..4002].fill(0);
    assert_eq!(b.read().unwrap(), expected);
}

#[derive(Debug, Clone)]
enum Step {
    Write { start: usize, data: Vec<u8> },
    Copy { from: usize, to: usize, n: usize },
    Clear { start: usize, n: usize },
    Read { start: usize, n: usize },
}

const LEN: usize = 301;

fn step() -> impl Strategy<Value = Step> {
    let range = (0..LEN).prop_flat_map(|start| (Just(start), 0..=LEN - start));
    prop_oneof![
        (0..LEN)
            .prop_flat_map(|start| (
                Just(start),
                prop::collection::vec(any::<u8>(), 0..=LEN - start)
            ))
            .prop_map(|(start, data)| Step::Write { start, data }),
        (0..LEN, 0..LEN)
            .prop_flat_map(|(from, to)| (Just(from), Just(to), 0..=LEN - from.max(to)))
            .prop_map(|(from, to, n)| Step::Copy { from, to, n }),
        range.clone().prop_map(|(start, n)| Step::Clear { start, n }),
        range.prop_map(|(start, n)| Step::Read { start, n }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Any sequence of operations equals the same operations on a slice of bytes.
    #[test]
    fn buffer_operations_equal_slice_operations(steps in prop::collection::vec(step(), 1..20)) {
        let context = context();
        let mut expected = elements::<u8>(LEN, 5);
        let buffer = context.upload(&expected).unwrap();
        for step in steps {
            let mut recorder = context.recorder(None).unwrap();
            match &step {
                Step::Write { start, data } => {
                    buffer.write(*start, data).unwrap();
                    expected[*start..start + data.len()].copy_from_slice(data);
                }
                Step::Copy { from, to, n } => {
                    let (from_view, to_view) = (buffer.view_of(*from, *n).unwrap(), buffer.view_of(*to, *n).unwrap());
                    recorder.copy(from_view, to_view).unwrap();
                    expected.copy_within(*from..from + n, *to);
                }
                Step::Clear { start, n } => {
                    recorder.clear(buffer.view_of(*start, *n).unwrap()).unwrap();
                    expected[*start..start + n].fill(0);
                }
                Step::Read { start, n } => {
                    prop_assert_eq!(&buffer.read_of(*start, *n).unwrap(), &expected[*start..start + n]);
                }
            }
            recorder.submit().unwrap();
            prop_assert_eq!(&buffer.read().unwrap(), &expected, "{:?}", step);
        }
    }
}

#[test]
fn ranges_past_the_end_are_errors() {
    let context = context();
    let a = context.upload(&[1u16; 8]).unwrap();
    assert_eq!(a.view_of(4, 5).unwrap_err(), Error::OutOfBounds { start: 4, end: 9, len: 8 });
    assert!(matches!(a.view_of(usize::MAX, 5), Err(Error::OutOfBounds { .. })));
    assert!(matches!(a.write(1, &[0; 8]), Err(Error::OutOfBounds { .. })));
    assert!(matches!(a.read_of(8, 1), Err(Error::OutOfBounds { .. })));
    assert!(a.read_of(8, 0).unwrap().is_empty());
    let part = a.view_of(2, 3).unwrap();
    assert_eq!((part.offset(), part.bytes(), part.len(), part.is_empty()), (4, 6, 3, false));
    assert_eq!(part.part(1, 2).unwrap().offset(), 6);
    assert_eq!(part.part(1, 3).unwrap_err(), Error::OutOfBounds { start: 1, end: 4, len: 3 });
    let small = context.buffer::<u16>(2).unwrap();
    let copied = context.recorder(None).unwrap().copy(part, small.view());
    assert_eq!(copied, Err(Error::OutOfBounds { start: 0, end: 6, len: 4 }));
    let read = context.recorder(None).unwrap().read::<u32>(part).unwrap_err();
    assert_eq!(read, Error::ElementSize { bytes: 6, element: 4 });
    let none: GpuBuffer<u8> = context.upload(&[]).unwrap();
    assert!(none.is_empty() && none.read().unwrap().is_empty());
}

#[test]
fn host_buffers_support_odd_elements() {
    for context in [context(), plain_context()] {
        let mut up = HostBuffer::<u8>::upload(&context, 13).unwrap();
        let mut down = HostBuffer::<u8>::readback(&context, 13).unwrap();
        let device = context.buffer::<u8>(13).unwrap();
        let data = elements::<u8>(13, 4);
        assert!(matches!(up.write(0, &data), Err(Error::Map { .. })), "not mapped yet");
        up.map().unwrap();
        assert!(up.is_mapped());
        for (start, part) in [(0, &data[..3]), (3, &data[3..12]), (12, &data[12..])] {
            up.write(start, part).unwrap();
        }
        assert!(matches!(up.write(12, &data[..2]), Err(Error::OutOfBounds { .. })));
        up.unmap();
        let mut recorder = context.recorder(None).unwrap();
        // An odd part of an upload buffer is copied to an odd offset; the rest of the target does
        // not change.
        recorder.clear(device.view()).unwrap();
        recorder.copy(up.view_of(1, 6).unwrap(), device.view_of(3, 6).unwrap()).unwrap();
        recorder.copy(device.view(), down.view()).unwrap();
        let odd = recorder.copy(device.view_of(0, 2).unwrap(), down.view_of(1, 2).unwrap());
        assert_eq!(odd, Err(Error::Unaligned { offset: 1, alignment: 4 }));
        let submission = recorder.submit().unwrap();
        down.map_after(&submission);
        up.map_after(&submission);
        down.map().unwrap();
        let mut expected = vec![0; 13];
        expected[3..9].copy_from_slice(&data[1..7]);
        assert_eq!(down.read(13).unwrap(), expected);
        assert_eq!(down.with(5, <[u8]>::to_vec).unwrap(), &expected[..5]);
        assert!(matches!(down.read(14), Err(Error::OutOfBounds { .. })));
    }
}

#[test]
fn mapped_buffer_cannot_be_submitted() {
    let context = own_context(&ContextOptions::default());
    let mut up = HostBuffer::<u32>::upload(&context, 4).unwrap();
    let device = context.upload(&[5u32; 4]).unwrap();
    up.map().unwrap();
    let mut recorder = context.recorder(None).unwrap();
    recorder.copy(up.view(), device.view()).unwrap();
    assert!(matches!(recorder.submit(), Err(Error::Validation { .. })));
    assert_eq!(device.read().unwrap(), [5; 4]);
}

#[test]
fn dropped_buffers_are_reused_from_the_pool() {
    let context = own_context(&ContextOptions::default());
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
fn memory_is_not_reused_before_its_commands_are_submitted() {
    let context = own_context(&ContextOptions::default());
    let result = context.buffer::<u32>(4).unwrap();
    let mut recorder = context.recorder(None).unwrap();
    let source = context.upload(&[1u32, 2, 3, 4]).unwrap();
    recorder.copy(source.view(), result.view()).unwrap();
    // The recorder still needs this memory, so the next write goes elsewhere.
    drop(source);
    let other = context.upload(&[9u32; 4]).unwrap();
    recorder.submit().unwrap();
    assert_eq!(result.read().unwrap(), [1, 2, 3, 4]);
    assert_eq!(other.read().unwrap(), [9; 4]);
}

#[test]
fn pool_is_limited_in_size() {
    let context =
        own_context(&ContextOptions { pool_bytes: Some(1 << 20), ..ContextOptions::default() });
    let sizes = [100_000usize, 300_000, 200_000, 500_000, 90_000];
    let buffers: Vec<_> = sizes.iter().map(|&n| context.upload(&vec![1u8; n]).unwrap()).collect();
    assert_eq!(context.pooled_bytes(), 0);
    drop(buffers);
    assert!(context.pooled_bytes() <= 1 << 20 && context.pooled_bytes() >= 590_000);
    // The buffer returned last is retained, a buffer that never fits is not.
    let before = context.created().buffers;
    drop(context.buffer::<u8>(90_000).unwrap());
    assert_eq!(context.created().buffers, before);
    drop(context.buffer::<u8>(2 << 20).unwrap());
    assert!(context.pooled_bytes() <= 1 << 20);
    context.trim();
    assert_eq!(context.pooled_bytes(), 0);
}

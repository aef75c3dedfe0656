//! Submissions that are waited for, polled and awaited.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{Float, context, own_context, plain_context};
use aleatron_device::{ContextOptions, Error, GpuContext, Recorder, Submission};

/// Submits work that takes the device a while: many passes over a buffer.
fn busy(context: &Arc<GpuContext>, passes: usize) -> Submission {
    record_busy(context, passes).submit().unwrap()
}

/// Records work that takes the device a while.
fn record_busy(context: &Arc<GpuContext>, passes: usize) -> Recorder<'static> {
    let n = 1 << 18;
    let (a, b) = (context.upload(&vec![1f32; n]).unwrap(), context.buffer::<f32>(n).unwrap());
    let pipeline = context.pipeline(&Float::Scale, &[]).unwrap();
    let bound = context.bind(&pipeline, &[a.view(), b.view()]).unwrap();
    let mut recorder = context.recorder(None).unwrap();
    for _ in 0..passes {
        recorder.dispatch(&bound, &2f32, [n as u32 / 64, 1, 1], 0).unwrap();
    }
    recorder
}

/// The number of passes that keep a device busy if the host is not delayed.
const PASSES: usize = 100;

/// Returns true if `unfinished` holds for some number of passes. A busy host may be delayed for
/// longer than the device works, so each attempt doubles the work of the device.
fn unfinished_once(mut unfinished: impl FnMut(usize) -> bool) -> bool {
    (0..10).any(|attempt| unfinished(PASSES << attempt))
}

#[test]
fn submit_does_not_wait() {
    let context = own_context(&ContextOptions::default());
    assert!(unfinished_once(|passes| {
        let submission = busy(&context, passes);
        let unfinished = !submission.is_done().unwrap() && !context.poll().unwrap();
        submission.wait().unwrap();
        assert!(submission.is_done().unwrap());
        unfinished
    }));
    assert!(context.poll().unwrap(), "nothing is left to do");
}

#[test]
fn polled_reads_complete_while_the_host_works() {
    let context = own_context(&ContextOptions::default());
    let buffer = context.upload(&(0..1000u32).collect::<Vec<_>>()).unwrap();
    assert!(unfinished_once(|passes| {
        // One submission: the software driver may hold a second one until the first is done.
        let mut recorder = record_busy(&context, passes);
        let read = recorder.read::<u32>(buffer.view_of(990, 10).unwrap()).unwrap();
        recorder.submit().unwrap();
        assert_eq!((read.len(), read.is_empty()), (10, false));
        let unfinished = !read.is_ready();
        let patience = Instant::now();
        while !read.is_ready() {
            assert!(
                patience.elapsed() < Duration::from_secs(120),
                "polling must complete the read"
            );
        }
        assert_eq!(read.wait().unwrap(), (990..1000).collect::<Vec<u32>>());
        unfinished
    }));
    assert!(buffer.start_read(5, 0).unwrap().is_ready());
}

#[test]
fn futures_are_woken_without_explicit_polling() {
    for context in [own_context(&ContextOptions::default()), plain_context()] {
        let buffer = context.upload(&[1.5f32, 2.5, 3.5]).unwrap();
        let all = pollster::block_on(async {
            let submission = busy(&context, PASSES);
            let read = buffer.start_read(1, 2)?;
            submission.done().await?;
            let halves = read.await?;
            let empty = buffer.start_read(0, 0)?.await?;
            assert!(empty.is_empty());
            Ok::<_, Error>(halves)
        });
        assert_eq!(all.unwrap(), [2.5, 3.5]);
    }
}

#[test]
fn many_futures_complete_together() {
    let context = context();
    std::thread::scope(|scope| {
        for thread in 0..8u32 {
            let context = &context;
            scope.spawn(move || {
                for n in 0..50u32 {
                    let buffer = context.upload(&[thread, n]).unwrap();
                    let read = buffer.start_read(0, 2).unwrap();
                    assert_eq!(pollster::block_on(read).unwrap(), [thread, n]);
                }
            });
        }
    });
}

#[test]
fn read_can_be_awaited_before_submission() {
    let context = context();
    let buffer = context.upload(&[7u8; 5]).unwrap();
    let mut recorder = context.recorder(None).unwrap();
    let read = recorder.read::<u8>(buffer.view()).unwrap();
    assert!(!read.is_ready());
    let waiting = std::thread::spawn(|| pollster::block_on(read));
    std::thread::sleep(Duration::from_millis(20));
    recorder.submit().unwrap();
    assert_eq!(waiting.join().unwrap().unwrap(), [7; 5]);
}

#[test]
fn read_of_dropped_commands_is_an_error() {
    let context = context();
    let buffer = context.upload(&[7u32; 5]).unwrap();
    let mut recorder = context.recorder(None).unwrap();
    let early = recorder.read::<u32>(buffer.view()).unwrap();
    assert_eq!(early.wait().unwrap_err(), Error::NotSubmitted);
    let [asked, awaited] = [0, 1].map(|_| recorder.read::<u32>(buffer.view()).unwrap());
    let waiting = std::thread::spawn(|| pollster::block_on(awaited));
    drop(recorder);
    assert!(asked.is_ready());
    assert_eq!(asked.wait().unwrap_err(), Error::NotSubmitted);
    assert_eq!(waiting.join().unwrap().unwrap_err(), Error::NotSubmitted);
}

#[test]
fn unawaited_read_releases_its_memory() {
    let context = own_context(&ContextOptions::default());
    let buffer = context.upload(&[7u32; 500]).unwrap();
    drop(buffer.start_read(0, 500).unwrap());
    let before = context.created();
    for _ in 0..10 {
        drop(buffer.start_read(0, 500).unwrap());
        assert_eq!(buffer.read().unwrap(), [7; 500]);
    }
    assert_eq!(context.created(), before);
}

#[test]
fn future_of_a_lost_device_is_an_error() {
    let context = own_context(&ContextOptions::default());
    let buffer = context.upload(&[7u32; 5]).unwrap();
    let submission = busy(&context, PASSES);
    let read = buffer.start_read(0, 5).unwrap();
    let waiting = std::thread::spawn(|| pollster::block_on(read));
    context.destroy();
    assert!(matches!(pollster::block_on(submission.done()), Err(Error::DeviceLost { .. })));
    // It arrived before the loss or never will, but it must not hang.
    if let Err(error) = waiting.join().unwrap() {
        assert!(matches!(error, Error::DeviceLost { .. } | Error::Map { .. }), "{error}");
    }
}

//! Pools: any number of threads, changed at any time, from any thread, gives the same bits.
#![allow(clippy::unwrap_used)]

use aleatron_core::lif::{LifDrive, LifParams, LifTrace};
use aleatron_core::{
    DenseShape, Error as CoreError, Length, Polarity, Quantity, StreamAddress, Threshold,
};
use aleatron_cpu::{Cpu, Pool, Tier, get_num_threads, set_num_threads, threads};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::time::Duration;

/// The number of threads is process-wide, so tests that change it run one at a time.
static PROCESS: Mutex<()> = Mutex::new(());

/// Enough work of every kind to use several threads.
struct Work {
    shape: DenseShape,
    weights: Vec<Threshold>,
    inputs: Vec<Threshold>,
}

#[derive(Debug, PartialEq)]
struct Answers {
    counts: Vec<u64>,
    ones: u64,
    trace: LifTrace,
}

impl Work {
    fn new(n_inputs: usize, n_neurons: usize, n_samples: usize, bits: usize) -> Self {
        let shape =
            DenseShape::new(n_inputs, n_neurons, Length::new(bits).unwrap(), Polarity::Bipolar)
                .unwrap();
        let threshold =
            |k: usize| Threshold::from_probability((k * 7919 % 1009) as f64 / 1008.0).unwrap();
        let weights = (0..shape.n_weights()).map(threshold).collect();
        let inputs = (0..n_inputs * n_samples).map(|k| threshold(k + 500)).collect();
        Self { shape, weights, inputs }
    }

    fn run(&self, cpu: &Cpu) -> Answers {
        let (n, length) = (self.shape.n_inputs(), self.shape.length());
        let weights =
            cpu.encode_rows(&self.weights, n, length, StreamAddress::weight(1, 0, 0)).unwrap();
        let inputs =
            cpu.encode_rows(&self.inputs, n, length, StreamAddress::input(2, 0, 0)).unwrap();
        let ones = cpu.row_ones(weights.words(), self.shape.row_words());
        let counts = cpu.dense_counts(&self.shape, weights.words(), &ones, inputs.words()).unwrap();
        let currents: Vec<i16> = (0..self.shape.n_inputs() as i16).collect();
        let drive = LifDrive { leak_k: 20, gain_k: 256, current: 0, noise: 1 };
        let trace = cpu.lif_run_multi(LifParams::default(), drive, &currents, 100).unwrap();
        Answers { counts, ones: cpu.popcount(weights.words()), trace }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let work = Work::new(200, 60, 9, 1000);
    let tier = Tier::best();
    let expected = work.run(&Cpu::new(tier, Arc::new(Pool::new(1).unwrap())));
    for threads in [0, 2, 3, 5, 8, 16] {
        for pool in [Pool::new(threads), Pool::eager(threads)] {
            let cpu = Cpu::new(tier, Arc::new(pool.unwrap()));
            assert_eq!(work.run(&cpu), expected, "{threads} threads");
        }
    }
}

#[test]
fn pools_have_the_requested_threads() {
    let cores = std::thread::available_parallelism().unwrap().get();
    assert_eq!(Pool::new(0).unwrap().threads(), cores);
    for threads in [1, 2, 7] {
        assert_eq!(Pool::new(threads).unwrap().threads(), threads);
        assert_eq!(Pool::eager(threads).unwrap().threads(), threads);
        assert_eq!(
            Cpu::new(Tier::best(), Arc::new(Pool::new(threads).unwrap())).threads(),
            threads
        );
    }
}

#[test]
fn too_many_threads_are_an_error() {
    let _turn = PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    let cores = std::thread::available_parallelism().unwrap().get();
    let limit = threads::max_threads();
    assert_eq!(limit, (8 * cores).max(64));
    set_num_threads(2).unwrap();
    for threads in [limit + 1, 1 << 40, usize::MAX] {
        let (actual, limit) = (threads as u128, limit as u128);
        let refused = CoreError::TooLarge { what: Quantity::Threads, actual, limit };
        assert_eq!(set_num_threads(threads), Err(refused.clone().into()));
        assert_eq!(Pool::eager(threads).map(|_| ()), Err(refused.into()));
        assert_eq!(get_num_threads(), Ok(2));
    }
    set_num_threads(0).unwrap();
}

/// One pool with many callers: each gets its own results.
#[test]
fn pool_is_shared_by_many_callers() {
    let cpu = Cpu::new(Tier::best(), Arc::new(Pool::eager(3).unwrap()));
    std::thread::scope(|scope| {
        for n in 1..6 {
            let cpu = &cpu;
            scope.spawn(move || {
                let work = Work::new(10 * n, 7 * n, n, 100 * n);
                let alone = work.run(&Cpu::new(Tier::best(), Arc::new(Pool::new(1).unwrap())));
                for _ in 0..10 {
                    assert_eq!(work.run(cpu), alone);
                }
            });
        }
    });
}

#[test]
fn process_uses_the_last_number_of_threads() {
    let _turn = PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    for threads in [1, 3, 2] {
        set_num_threads(threads).unwrap();
        assert_eq!(get_num_threads().unwrap(), threads);
        assert_eq!(Cpu::current().unwrap().threads(), threads);
    }
    set_num_threads(0).unwrap();
    assert_eq!(get_num_threads().unwrap(), std::thread::available_parallelism().unwrap().get());
}

/// A call in flight retains its pool when the current pool is replaced.
#[test]
fn replaced_pool_still_works() {
    let _turn = PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    let work = Work::new(50, 20, 3, 500);
    set_num_threads(3).unwrap();
    let (cpu, pool) = (Cpu::current().unwrap(), threads::current().unwrap());
    let before = work.run(&cpu);
    set_num_threads(2).unwrap();
    assert_eq!((cpu.threads(), pool.threads(), get_num_threads().unwrap()), (3, 3, 2));
    drop(pool);
    assert_eq!(work.run(&cpu), before);
    assert_eq!(work.run(&Cpu::current().unwrap()), before);
    set_num_threads(0).unwrap();
}

/// Threads compute while others change the number of threads as fast as they can.
#[test]
fn number_of_threads_may_change_during_calls() {
    let _turn = PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    let work = Work::new(100, 40, 5, 700);
    let expected = work.run(&Cpu::new(Tier::best(), Arc::new(Pool::new(1).unwrap())));
    let (stop, start) = (AtomicBool::new(false), Barrier::new(5));
    std::thread::scope(|scope| {
        for first in [1, 3] {
            let (stop, start) = (&stop, &start);
            scope.spawn(move || {
                start.wait();
                for n in (0..4).cycle() {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    set_num_threads(first + n).unwrap();
                    assert!((1..=7).contains(&get_num_threads().unwrap()));
                }
            });
        }
        let computing: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    (0..20).all(|_| work.run(&Cpu::current().unwrap()) == expected)
                })
            })
            .collect();
        let equal: Vec<bool> =
            computing.into_iter().map(|thread| thread.join().unwrap_or(false)).collect();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(equal, [true; 3]);
    });
    set_num_threads(0).unwrap();
}

#[test]
fn workers_may_sleep_and_wake_at_any_time() {
    let words: Vec<u64> =
        (0..1 << 17).map(|i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let expected = words.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
    let cpu = Cpu::new(Tier::best(), Arc::new(Pool::eager(4).unwrap()));
    // Workers stay awake for 200 microseconds.
    for pause in (0..400).step_by(7).cycle().take(600) {
        std::thread::sleep(std::time::Duration::from_micros(pause));
        assert_eq!(cpu.popcount(&words), expected);
    }
}

#[test]
fn first_error_of_tasks_is_returned_after_all_tasks() {
    for threads in [1, 3] {
        let pool = Pool::eager(threads).unwrap();
        let done = AtomicUsize::new(0);
        let run = |bad: &'static [usize]| {
            pool.try_for_each(0..1000usize, Duration::from_millis(10), |item| {
                done.fetch_add(1, Ordering::Relaxed);
                if bad.contains(&item) { Err(item) } else { Ok(()) }
            })
        };
        assert_eq!(run(&[]), Ok(()));
        assert_eq!(run(&[400]), Err(400));
        assert!(matches!(run(&[3, 999]), Err(3 | 999)));
        assert_eq!(done.load(Ordering::Relaxed), 3000);
    }
}

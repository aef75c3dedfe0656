//! Children of a process whose threads compute, change the pool and fill the caches while it forks.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use aleatron_core::{Length, StreamAddress, Threshold};
use aleatron_cpu::threads::forget_after_fork;
use aleatron_cpu::{Cpu, Pool, Tier, get_num_threads, set_draw_memory, set_num_threads};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

/// Seconds after which a child that hangs is killed.
const LIMIT: libc::c_uint = 30;

/// Locked while pools start and end threads. Workers of a child that is forked at that moment were
/// seen to hang on a static mutex, probably that of the standard library's list of threads, which
/// this crate cannot reset.
static STARTING: RwLock<()> = RwLock::new(());

/// The time after which a spawned or ended thread has released that list.
const SETTLED: Duration = Duration::from_millis(2);

/// Counts the ones of enough streams for several threads.
fn work(cpu: &Cpu, seed: u64) -> u64 {
    let thresholds = vec![Threshold::from_probability(0.3).unwrap(); 200];
    let address = StreamAddress::input(seed, 0, 0);
    cpu.popcount(cpu.encode(&thresholds, Length::new(1000).unwrap(), address).unwrap().words())
}

/// Runs `task` in a child, and returns its result.
fn in_child(task: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child runs only `task`, and exits without returning from here. Allocating memory
    // there is more than POSIX allows for children of multithreaded processes, but today's C
    // libraries support it.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "cannot fork");
    if child == 0 {
        // SAFETY: no pointers are passed, and nothing of this process is needed after `_exit`.
        unsafe {
            libc::alarm(LIMIT);
            libc::_exit(i32::from(!task()));
        }
    }
    let mut status = 0;
    // SAFETY: the status is written to a variable that outlives the call.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

#[test]
fn forked_children_compute_with_new_threads() {
    let expected: Vec<u64> = {
        let one = Cpu::new(Tier::best(), Arc::new(Pool::new(1).unwrap()));
        (0..3).map(|seed| work(&one, seed)).collect()
    };
    let compute = |cpu: &Cpu| (0..9).all(|k| work(cpu, k % 3) == expected[k as usize % 3]);
    let own = Cpu::new(Tier::best(), Arc::new(Pool::eager(3).unwrap()));
    assert!(compute(&own));
    set_num_threads(3).unwrap();
    let stop = AtomicBool::new(false);
    let failed = std::thread::scope(|scope| {
        for n in 0..2 {
            let stop = &stop;
            scope.spawn(move || {
                for k in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    // Every lock of the crate is held at times.
                    work(&Cpu::current().unwrap(), k % 3);
                    set_draw_memory(1 << (16 + k % 8));
                    if n == 1 {
                        let _starting = STARTING.read().unwrap();
                        set_num_threads(3).unwrap();
                        work(&Cpu::current().unwrap(), k % 3);
                        std::thread::sleep(SETTLED);
                    }
                }
            });
        }
        let failed = (0..30).find(|_| {
            let _forking = STARTING.write().unwrap();
            let other = Cpu::new(Tier::best(), Arc::new(Pool::eager(2).unwrap()));
            std::thread::sleep(SETTLED);
            !in_child(|| {
                forget_after_fork();
                // The parent's pools still work, without its threads, and can be dropped.
                let by_old_pools = compute(&own) && compute(&other);
                drop(other);
                set_draw_memory(1 << 20);
                let by_new_pool =
                    get_num_threads().unwrap() == 3 && compute(&Cpu::current().unwrap());
                set_num_threads(2).unwrap();
                by_old_pools
                    && by_new_pool
                    // A child may fork, too.
                    && in_child(|| {
                        forget_after_fork();
                        get_num_threads().unwrap() == 2 && compute(&Cpu::current().unwrap())
                    })
            })
        });
        stop.store(true, Ordering::Relaxed);
        failed
    });
    assert_eq!(failed, None, "the number of a child that failed");
}

//! Vectors that are used again: memory that an allocator returns to the system costs more to fill
//! for the first time than to compute what it holds.
//!
//! Each thread has vectors of its own, a few of them and up to a limit of bytes, so that nothing
//! waits for a lock.

use aleatron_core::{Quantity, Result, memory};
use std::cell::RefCell;
use std::thread::LocalKey;

/// Vectors of a kind that a thread holds at most.
const MAX_VECTORS: usize = 16;

/// Elements that the vectors of a kind hold at most on a thread: 32 MiB.
const MAX_ELEMENTS: usize = 4 << 20;

/// The fewest elements of a vector that is used again; an allocator has smaller ones at hand.
const MIN_ELEMENTS: usize = 1 << 12;

/// Elements of eight bytes.
pub(crate) trait Element: Copy + Default + 'static {
    /// The spare vectors of the thread, the oldest first.
    const SPARE: &'static LocalKey<RefCell<Vec<Vec<Self>>>>;
}

thread_local! {
    static WORDS: RefCell<Vec<Vec<u64>>> = const { RefCell::new(Vec::new()) };
    static NUMBERS: RefCell<Vec<Vec<f64>>> = const { RefCell::new(Vec::new()) };
}

impl Element for u64 {
    const SPARE: &'static LocalKey<RefCell<Vec<Vec<Self>>>> = &WORDS;
}

impl Element for f64 {
    const SPARE: &'static LocalKey<RefCell<Vec<Vec<Self>>>> = &NUMBERS;
}

/// Returns a vector of `len` elements that hold anything: zeros, or what an earlier user left
/// there.
pub(crate) fn take<T: Element>(len: u128, what: Quantity) -> Result<Vec<T>> {
    match spare(len) {
        Some(mut vector) => {
            vector.resize(len as usize, T::default());
            Ok(vector)
        }
        None => memory::zeros(len, what),
    }
}

/// Removes the smallest spare vector that is large enough, and not much too large.
fn spare<T: Element>(len: u128) -> Option<Vec<T>> {
    let len = usize::try_from(len).ok().filter(|&len| len >= MIN_ELEMENTS)?;
    T::SPARE.with_borrow_mut(|spare| {
        let fits = |vector: &Vec<T>| vector.capacity() >= len && vector.capacity() / 4 <= len;
        let found = spare.iter().enumerate().filter(|(_, vector)| fits(vector));
        let (at, _) = found.min_by_key(|(_, vector)| vector.capacity())?;
        Some(spare.remove(at))
    })
}

/// Holds the memory of a vector for a later call of [`take`] on this thread, instead of older ones
/// if there is no room.
pub(crate) fn release<T: Element>(vector: Vec<T>) {
    if !(MIN_ELEMENTS..=MAX_ELEMENTS).contains(&vector.capacity()) {
        return;
    }
    T::SPARE.with_borrow_mut(|spare| {
        spare.push(vector);
        let mut held: usize = spare.iter().map(Vec::capacity).sum();
        while spare.len() > MAX_VECTORS || held > MAX_ELEMENTS {
            held -= spare.remove(0).capacity();
        }
    });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn released_vector_is_taken_again_unless_it_is_too_small_or_too_large() {
        let vector: Vec<u64> = take(3 * MIN_ELEMENTS as u128, Quantity::Words).unwrap();
        let address = vector.as_ptr();
        release(vector);
        for other in [3 * MIN_ELEMENTS + 1, MIN_ELEMENTS / 2] {
            let vector: Vec<u64> = take(other as u128, Quantity::Words).unwrap();
            assert_eq!((vector.len(), vector.as_ptr() == address), (other, false));
        }
        let vector: Vec<u64> = take(2 * MIN_ELEMENTS as u128, Quantity::Words).unwrap();
        assert_eq!((vector.len(), vector.as_ptr()), (2 * MIN_ELEMENTS, address));
    }

    #[test]
    fn released_vectors_stay_within_the_limits() {
        for len in [MIN_ELEMENTS; 2 * MAX_VECTORS].into_iter().chain([MAX_ELEMENTS / 2 + 1; 3]) {
            release(vec![1.0_f64; len]);
            NUMBERS.with_borrow(|spare| {
                assert!(spare.len() <= MAX_VECTORS);
                assert!(spare.iter().map(Vec::capacity).sum::<usize>() <= MAX_ELEMENTS);
                assert_eq!(spare.last().map(Vec::len), Some(len));
            });
        }
        release(vec![0.0_f64; MAX_ELEMENTS + 1]);
        assert!(
            NUMBERS.with_borrow(|spare| spare.iter().all(|vector| vector.len() <= MAX_ELEMENTS))
        );
    }
}

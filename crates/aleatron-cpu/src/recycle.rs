//! Recycled vectors: memory that an allocator returns to the system costs more to fill for the
//! first time than its contents cost to compute.
//!
//! Each thread has its own vectors, up to a limit, so that no lock is needed.

use aleatron_core::{Quantity, Result, memory};
use std::cell::RefCell;
use std::thread::LocalKey;

/// The largest number of spare vectors of a kind per thread.
const MAX_VECTORS: usize = 16;

/// The largest number of elements of the spare vectors of a kind per thread: 32 MiB.
const MAX_ELEMENTS: usize = 4 << 20;

/// The least number of elements of a recycled vector; allocators serve smaller ones fast.
const MIN_ELEMENTS: usize = 1 << 12;

/// Elements of eight bytes.
pub(crate) trait Element: Copy + Default + 'static {
    /// The spare vectors of the thread, oldest first.
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

/// Returns a vector of `len` elements of unspecified contents: zeros, or the elements of an earlier
/// user.
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

/// Retains the memory of a vector for a later call of [`take`] on this thread, evicting older
/// vectors if there is no room.
pub(crate) fn release<T: Element>(vector: Vec<T>) {
    if !(MIN_ELEMENTS..=MAX_ELEMENTS).contains(&vector.capacity()) {
        return;
    }
    T::SPARE.with_borrow_mut(|spare| {
        spare.push(vector);
        let mut retained: usize = spare.iter().map(Vec::capacity).sum();
        while spare.len() > MAX_VECTORS || retained > MAX_ELEMENTS {
            retained -= spare.remove(0).capacity();
        }
    });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn released_vector_is_reused_if_its_size_is_similar() {
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
    fn released_vectors_are_limited_in_number_and_size() {
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

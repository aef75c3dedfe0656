//! How the vector encoders walk over their output.
//!
//! The words of all streams, seen as 32-bit *slots*, are filled `N` at a time. A register may hold slots of several
//! streams, so short streams fill it as well as long ones. Eight planes (two draws) decide all but one slot in eight;
//! those are put on a list and, `N` of them at a time from anywhere, drawn further, so a few slow bits never hold up a
//! whole register.

use aleatron_core::philox::{KEY_INCREMENTS, ROUNDS};
use aleatron_core::{Length, StreamAddress, Threshold};

/// Draws that every slot gets before the undecided ones are set aside.
pub(super) const FIRST_DRAWS: usize = 2;

/// What `N` neighbouring slots are.
pub(super) enum Slots<const N: usize> {
    /// Slots `word`, `word + 1`, … of one stream.
    OneStream { word: u32, unit: u32, threshold: u32 },
    /// Slots of several streams.
    Mixed { words: [u32; N], units: [u32; N], thresholds: [u32; N] },
}

/// The place of the next slot.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    thresholds: &'a [Threshold],
    slots_per_stream: u32,
    first_unit: u32,
    stream: usize,
    word: u32,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(thresholds: &'a [Threshold], length: Length, address: StreamAddress) -> Self {
        let slots_per_stream = 2 * length.words() as u32;
        Self { thresholds, slots_per_stream, first_unit: address.unit, stream: 0, word: 0 }
    }

    /// The next `N` slots; past the end of the last stream they are of no meaning.
    #[inline]
    pub(super) fn next<const N: usize>(&mut self) -> Slots<N> {
        if self.word + N as u32 <= self.slots_per_stream {
            let (word, unit, threshold) = self.here();
            self.advance(N as u32);
            return Slots::OneStream { word, unit, threshold };
        }
        let (mut words, mut units, mut thresholds) = ([0; N], [0; N], [0; N]);
        for i in 0..N {
            (words[i], units[i], thresholds[i]) = self.here();
            self.advance(1);
        }
        Slots::Mixed { words, units, thresholds }
    }

    /// Word, unit and threshold of the slot it is at.
    #[inline]
    pub(super) fn here(&self) -> (u32, u32, u32) {
        (self.word, self.first_unit.wrapping_add(self.stream as u32), self.threshold())
    }

    /// Goes `slots` further.
    #[inline]
    pub(super) fn advance(&mut self, slots: u32) {
        self.word += slots;
        while self.word >= self.slots_per_stream {
            self.word -= self.slots_per_stream;
            self.stream += 1;
        }
    }

    /// The threshold modulo 2^32. That of a stream of ones becomes 0, which [`finish`] puts right.
    fn threshold(&self) -> u32 {
        self.thresholds.get(self.stream).map_or(0, |threshold| threshold.get() as u32)
    }
}

/// The key words of every round, one per 64-bit lane.
pub(super) fn round_keys(address: StreamAddress) -> [[u64; 2]; ROUNDS] {
    let key = address.key();
    std::array::from_fn(|round| {
        [0, 1].map(|i| key[i].wrapping_add(KEY_INCREMENTS[i].wrapping_mul(round as u32)).into())
    })
}

/// Puts the bits of a slot into its word.
#[inline]
pub(super) fn add_bits(out: &mut [u64], slot: u32, bits: u32) {
    if let Some(word) = out.get_mut(slot as usize / 2) {
        *word |= u64::from(bits) << (slot % 2 * 32);
    }
}

/// Streams of ones, and clean tails.
pub(super) fn finish(thresholds: &[Threshold], length: Length, out: &mut [u64]) {
    let mask = length.tail_mask();
    if mask == u64::MAX && !thresholds.contains(&Threshold::ONE) {
        return;
    }
    for (stream, &threshold) in out.chunks_exact_mut(length.words()).zip(thresholds) {
        if threshold == Threshold::ONE {
            stream.fill(u64::MAX);
        }
        if let Some(last) = stream.last_mut() {
            *last &= mask;
        }
    }
}

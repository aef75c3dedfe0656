//! Philox 4x32-10, the counter-based generator of Salmon et al. (SC '11), exactly as published with
//! Random123.
//!
//! A counter-based generator has no state: the words of a counter are a pure function of (counter,
//! key), so any thread, device or rank can draw any word in any order and gets the same word.

/// Multipliers of the two products of a round.
pub const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];

/// Weyl increments of the two key words between rounds.
pub const KEY_INCREMENTS: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// The number of rounds.
pub const ROUNDS: usize = 10;

/// Returns the key of a 64-bit seed: low word first.
#[inline]
#[must_use]
pub const fn key(seed: u64) -> [u32; 2] {
    [seed as u32, (seed >> 32) as u32]
}

/// Returns the four words of a counter under a key.
///
/// ```
/// use aleatron_core::philox::philox4x32;
/// assert_eq!(philox4x32([0; 4], [0; 2]), [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
/// ```
#[inline]
#[must_use]
pub const fn philox4x32(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let [mut c0, mut c1, mut c2, mut c3] = counter;
    let [mut k0, mut k1] = key;
    let mut round = 0;
    while round < ROUNDS {
        let p0 = c0 as u64 * MULTIPLIERS[0] as u64;
        let p1 = c2 as u64 * MULTIPLIERS[1] as u64;
        c0 = (p1 >> 32) as u32 ^ c1 ^ k0;
        c2 = (p0 >> 32) as u32 ^ c3 ^ k1;
        c1 = p1 as u32;
        c3 = p0 as u32;
        k0 = k0.wrapping_add(KEY_INCREMENTS[0]);
        k1 = k1.wrapping_add(KEY_INCREMENTS[1]);
        round += 1;
    }
    [c0, c1, c2, c3]
}

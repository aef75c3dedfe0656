//! Transposition of squares of bytes and of 16-bit words in 128-bit registers.
#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "every AArch64 processor that this crate is compiled for has NEON"
)]

use crate::arch::aarch64::memory::{load_i16, load_u8, store_i16, store_u8};
use crate::arch::vector::transpose::Square;
use std::arch::aarch64::{int16x8_t, uint8x16_t, vzip1q_s16, vzip1q_u8, vzip2q_s16, vzip2q_u8};

/// Transposes with 128-bit registers.
pub(super) struct Registers;

impl Square<u8, 16> for Registers {
    type Row = uint8x16_t;

    #[inline(always)]
    fn load(row: &[u8; 16]) -> uint8x16_t {
        unsafe { load_u8(row) }
    }

    #[inline(always)]
    fn store(row: uint8x16_t) -> [u8; 16] {
        let mut bytes = [0; 16];
        unsafe { store_u8(&mut bytes, row) };
        bytes
    }

    #[inline(always)]
    fn interleave(a: uint8x16_t, b: uint8x16_t) -> [uint8x16_t; 2] {
        unsafe { [vzip1q_u8(a, b), vzip2q_u8(a, b)] }
    }
}

impl Square<i16, 8> for Registers {
    type Row = int16x8_t;

    #[inline(always)]
    fn load(row: &[i16; 8]) -> int16x8_t {
        unsafe { load_i16(row) }
    }

    #[inline(always)]
    fn store(row: int16x8_t) -> [i16; 8] {
        let mut words = [0; 8];
        unsafe { store_i16(&mut words, row) };
        words
    }

    #[inline(always)]
    fn interleave(a: int16x8_t, b: int16x8_t) -> [int16x8_t; 2] {
        unsafe { [vzip1q_s16(a, b), vzip2q_s16(a, b)] }
    }
}

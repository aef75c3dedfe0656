//! Loads and stores, which convert pointers for intrinsics. Each takes a reference to exactly the
//! memory it accesses, so each is safe to call wherever its instructions exist.

use std::arch::aarch64::{
    int16x8_t, uint8x16_t, uint8x16x4_t, uint16x8_t, uint32x4_t, uint64x2_t, vld1q_s16, vld1q_u8,
    vld1q_u8_x4, vld1q_u16, vld1q_u32, vld1q_u64, vst1q_s16, vst1q_u8, vst1q_u16, vst1q_u32,
    vst1q_u64,
};

/// Defines a load and a store for arrays that fill a register.
macro_rules! block {
    ($load:ident, $store:ident, $block:ty, $register:ty, $vld1:ident, $vst1:ident) => {
        const _: () = assert!(size_of::<$block>() == size_of::<$register>());

        /// Reads a block.
        #[inline]
        #[target_feature(enable = "neon")]
        pub(super) fn $load(block: &$block) -> $register {
            // SAFETY: the block is as many readable elements as the register has lanes.
            unsafe { $vld1(block.as_ptr()) }
        }

        /// Writes a block.
        #[inline]
        #[target_feature(enable = "neon")]
        pub(super) fn $store(block: &mut $block, value: $register) {
            // SAFETY: the block is as many writable elements as the register has lanes.
            unsafe { $vst1(block.as_mut_ptr(), value) }
        }
    };
}

block!(load_u8, store_u8, [u8; 16], uint8x16_t, vld1q_u8, vst1q_u8);
block!(load_u16, store_u16, [u16; 8], uint16x8_t, vld1q_u16, vst1q_u16);
block!(load_i16, store_i16, [i16; 8], int16x8_t, vld1q_s16, vst1q_s16);
block!(load_u32, store_u32, [u32; 4], uint32x4_t, vld1q_u32, vst1q_u32);
block!(load_u64, store_u64, [u64; 2], uint64x2_t, vld1q_u64, vst1q_u64);

/// Reads four registers of bytes.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn load_u8_x4(block: &[u8; 64]) -> uint8x16x4_t {
    // SAFETY: the block is 64 readable bytes.
    unsafe { vld1q_u8_x4(block.as_ptr()) }
}

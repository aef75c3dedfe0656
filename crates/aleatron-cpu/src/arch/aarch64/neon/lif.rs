//! Many neurons in lanes of 16 bits, which stay in registers from step to step.
//!
//! A potential has 16 bits, and so has every term that is added to it: only the product of the leak
//! needs 32 bits before it is shifted.

use super::transpose::Registers;
use crate::arch::aarch64::memory::{load_i16, store_i16, store_u8};
use crate::arch::portable::lif::{self as portable, BLOCK, LANES, Narrow};
use aleatron_core::lif::{LifDrive, LifParams};
use std::arch::aarch64::{
    int16x8_t, int32x4_t, uint16x8_t, vaddq_s16, vandq_u8, vbicq_u16, vbslq_s16, vbslq_u16,
    vcgeq_s16, vdupq_n_s16, vdupq_n_s32, vdupq_n_u8, vdupq_n_u16, vget_low_s16, vmlsl_high_s16,
    vmlsl_s16, vqsubq_u16, vreinterpretq_s16_s32, vreinterpretq_u8_u16, vshlq_s16, vshlq_s32,
    vtstq_u16, vuzp1q_s16, vuzp1q_u8,
};

/// Registers of lanes.
const REGISTERS: usize = LANES / 8;

/// Runs [`portable::run_lanes`] in registers.
#[target_feature(enable = "neon")]
pub(crate) fn run_lanes(
    params: &LifParams,
    drive: LifDrive,
    currents: &[i16],
    n_steps: usize,
    spikes: &mut [u8],
    voltages: &mut [i16],
) {
    let period = u16::try_from(params.refractory_period());
    let (true, Ok(period)) = (portable::is_narrow(params), period) else {
        return portable::run_lanes::<Registers>(
            params, drive, currents, n_steps, spikes, voltages,
        );
    };
    let step = Step::new(params, drive, period);
    let inputs = portable::inputs::<Narrow>(params, drive, currents).map(|input| input as i16);
    let mut lanes = Lanes {
        inputs: [step.rest; REGISTERS],
        v: [step.rest; REGISTERS],
        counters: [vdupq_n_u16(0); REGISTERS],
    };
    for (register, inputs) in lanes.inputs.iter_mut().zip(inputs.as_chunks::<8>().0) {
        *register = load_i16(inputs);
    }
    for first in (0..n_steps).step_by(BLOCK) {
        let mut block_spikes = [[0; LANES]; BLOCK];
        let mut block_v = [[0; LANES]; BLOCK];
        let steps = BLOCK.min(n_steps - first);
        for (spikes, v) in block_spikes.iter_mut().zip(&mut block_v).take(steps) {
            step.run(&mut lanes, spikes, v);
        }
        portable::write_block::<Registers>(
            &block_spikes,
            &block_v,
            first,
            n_steps,
            spikes,
            voltages,
        );
    }
}

/// Neurons in lanes.
struct Lanes {
    inputs: [int16x8_t; REGISTERS],
    v: [int16x8_t; REGISTERS],
    counters: [uint16x8_t; REGISTERS],
}

/// The constants of a step.
struct Step {
    rest: int16x8_t,
    reset: int16x8_t,
    threshold: int16x8_t,
    period: uint16x8_t,
    leak_k: int16x8_t,
    /// The leak of a potential of 0, before the shift.
    rest_leak: int32x4_t,
    /// Shifts to the left; negative counts shift to the right.
    fraction: int32x4_t,
    unused: [int16x8_t; 2],
}

impl Step {
    #[inline]
    #[target_feature(enable = "neon")]
    fn new(params: &LifParams, drive: LifDrive, period: u16) -> Self {
        let unused = 16 - params.data_width() as i16;
        Self {
            rest: vdupq_n_s16(params.v_rest()),
            reset: vdupq_n_s16(params.v_reset()),
            threshold: vdupq_n_s16(params.v_threshold()),
            period: vdupq_n_u16(period),
            leak_k: vdupq_n_s16(drive.leak_k),
            rest_leak: vdupq_n_s32(i32::from(params.v_rest()) * i32::from(drive.leak_k)),
            fraction: vdupq_n_s32(-(params.fraction() as i32)),
            unused: [vdupq_n_s16(unused), vdupq_n_s16(-unused)],
        }
    }

    /// Advances every lane by one step.
    #[inline]
    #[target_feature(enable = "neon")]
    fn run(&self, lanes: &mut Lanes, spikes: &mut [u8; LANES], voltages: &mut [i16; LANES]) {
        let mut spiked = [self.period; REGISTERS];
        let (outs, _) = voltages.as_chunks_mut::<8>();
        for i in 0..REGISTERS {
            let (v, counters) = (lanes.v[i], lanes.counters[i]);
            let silent = vtstq_u16(counters, counters);
            // (rest - v) * leak_k, shifted; only the low halves of the result matter.
            let low = vmlsl_s16(self.rest_leak, vget_low_s16(v), vget_low_s16(self.leak_k));
            let high = vmlsl_high_s16(self.rest_leak, v, self.leak_k);
            let [low, high] = [vshlq_s32(low, self.fraction), vshlq_s32(high, self.fraction)];
            let leak = vuzp1q_s16(vreinterpretq_s16_s32(low), vreinterpretq_s16_s32(high));
            let sum = vaddq_s16(vaddq_s16(v, lanes.inputs[i]), leak);
            let sum = vshlq_s16(vshlq_s16(sum, self.unused[0]), self.unused[1]);
            let spike = vbicq_u16(vcgeq_s16(sum, self.threshold), silent);
            lanes.v[i] = vbslq_s16(silent, self.rest, vbslq_s16(spike, self.reset, sum));
            lanes.counters[i] = vbslq_u16(spike, self.period, vqsubq_u16(counters, vdupq_n_u16(1)));
            spiked[i] = spike;
            store_i16(&mut outs[i], lanes.v[i]);
        }
        let outs = spikes.as_chunks_mut::<16>().0.iter_mut();
        for (out, [a, b]) in outs.zip(spiked.as_chunks::<2>().0) {
            let bytes = vuzp1q_u8(vreinterpretq_u8_u16(*a), vreinterpretq_u8_u16(*b));
            store_u8(out, vandq_u8(bytes, vdupq_n_u8(1)));
        }
    }
}

//! Stepping fixed-point neurons: one along time, or many side by side in lanes the compiler vectorises.
//!
//! Two identities make a step short. Wrapping is a ring homomorphism, so only the sum needs wrapping, not its terms. And the
//! low `w` bits of `product >> f` depend on the low `f + w` bits of the product alone, so 32-bit wrapping products are exact
//! wherever `f + w <= 32`; [`Narrow`] and [`Wide`] are the two arithmetics.

use aleatron_core::lif::{LifDrive, LifParams};

/// Neurons stepped together.
pub(crate) const LANES: usize = 32;

/// Steps between transposing lanes to rows: the block of results stays in the first-level cache.
const BLOCK: usize = 64;

/// How products are shifted.
trait Arithmetic {
    /// `(a * b) >> fraction`, right in its low `data_width` bits.
    fn scaled(a: i32, b: i32, fraction: u32) -> i32;
}

/// 32-bit products: exact where `fraction + data_width <= 32`.
struct Narrow;

impl Arithmetic for Narrow {
    #[inline(always)]
    fn scaled(a: i32, b: i32, fraction: u32) -> i32 {
        a.wrapping_mul(b) >> fraction
    }
}

/// 64-bit products: exact always.
struct Wide;

impl Arithmetic for Wide {
    #[inline(always)]
    fn scaled(a: i32, b: i32, fraction: u32) -> i32 {
        ((i64::from(a) * i64::from(b)) >> fraction) as i32
    }
}

#[inline(always)]
fn is_narrow(params: &LifParams) -> bool {
    params.fraction() + params.data_width() <= 32
}

/// One neuron from rest through the steps of `drives`; each result goes to `emit(spike, v)` in order.
#[inline]
pub(crate) fn run(params: &LifParams, drives: impl Iterator<Item = LifDrive>, emit: impl FnMut(u8, i16)) {
    if is_narrow(params) {
        run_with::<Narrow>(params, drives, emit);
    } else {
        run_with::<Wide>(params, drives, emit);
    }
}

#[inline(always)]
fn run_with<A: Arithmetic>(
    params: &LifParams,
    drives: impl Iterator<Item = LifDrive>,
    mut emit: impl FnMut(u8, i16),
) {
    let (rest, reset, threshold) = constants(params);
    let unused = 32 - params.data_width();
    let fraction = params.fraction();
    let (mut v, mut counter) = (rest, 0);
    for drive in drives {
        if counter > 0 {
            counter -= 1;
            v = rest;
            emit(0, v as i16);
            continue;
        }
        let input = A::scaled(drive.current.into(), drive.gain_k.into(), fraction);
        let leak = A::scaled(rest - v, drive.leak_k.into(), fraction);
        let sum = v.wrapping_add(leak).wrapping_add(input.wrapping_add(drive.noise.into()));
        v = sum << unused >> unused;
        let spike = v >= threshold;
        if spike {
            v = reset;
            counter = params.refractory_period();
        }
        emit(spike.into(), v as i16);
    }
}

fn constants(params: &LifParams) -> (i32, i32, i32) {
    (params.v_rest().into(), params.v_reset().into(), params.v_threshold().into())
}

/// Up to [`LANES`] neurons from rest, each with a constant current, for `n_steps`; `spikes` and `voltages` hold a row of
/// steps per neuron.
#[inline(always)]
pub(crate) fn run_lanes(
    params: &LifParams,
    drive: LifDrive,
    currents: &[i16],
    n_steps: usize,
    spikes: &mut [u8],
    voltages: &mut [i16],
) {
    if is_narrow(params) {
        run_lanes_with::<Narrow>(params, drive, currents, n_steps, spikes, voltages);
    } else {
        run_lanes_with::<Wide>(params, drive, currents, n_steps, spikes, voltages);
    }
}

#[inline(always)]
fn run_lanes_with<A: Arithmetic>(
    params: &LifParams,
    drive: LifDrive,
    currents: &[i16],
    n_steps: usize,
    spikes: &mut [u8],
    voltages: &mut [i16],
) {
    let (rest, reset, threshold) = constants(params);
    let unused = 32 - params.data_width();
    let (fraction, period) = (params.fraction(), params.refractory_period());
    let mut inputs = [0; LANES];
    for (input, &current) in inputs.iter_mut().zip(currents) {
        *input = A::scaled(current.into(), drive.gain_k.into(), fraction).wrapping_add(drive.noise.into());
    }
    let leak_k = i32::from(drive.leak_k);
    let mut v = [rest; LANES];
    let mut counters = [0u32; LANES];
    let mut block_spikes = [[0u8; LANES]; BLOCK];
    let mut block_v = [[0i16; LANES]; BLOCK];
    for first in (0..n_steps).step_by(BLOCK) {
        let steps = BLOCK.min(n_steps - first);
        for (out_spikes, out_v) in block_spikes.iter_mut().zip(&mut block_v).take(steps) {
            for lane in 0..LANES {
                let silent = counters[lane] > 0;
                let leak = A::scaled(rest - v[lane], leak_k, fraction);
                let sum = v[lane].wrapping_add(leak).wrapping_add(inputs[lane]) << unused >> unused;
                let spike = !silent & (sum >= threshold);
                let next = if spike { reset } else { sum };
                v[lane] = if silent { rest } else { next };
                let running = counters[lane].saturating_sub(1);
                counters[lane] = if spike { period } else { running };
                out_spikes[lane] = spike.into();
                out_v[lane] = v[lane] as i16;
            }
        }
        for lane in 0..currents.len() {
            let row = lane * n_steps + first;
            let spikes = &mut spikes[row..row + steps];
            let voltages = &mut voltages[row..row + steps];
            for (step, (spike, voltage)) in spikes.iter_mut().zip(voltages).enumerate() {
                *spike = block_spikes[step][lane];
                *voltage = block_v[step][lane];
            }
        }
    }
}

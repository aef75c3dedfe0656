//! Fixed-point neurons: one neuron over time, or many in lanes that the compiler vectorizes.
//!
//! Two identities make a step short. Wrapping is a ring homomorphism, so only the sum needs
//! wrapping, not its terms. And the low `w` bits of `product >> f` depend on the low `f + w` bits
//! of the product alone, so 32-bit wrapping products are exact if `f + w <= 32`; [`Narrow`] and
//! [`Wide`] are the two arithmetics.

use super::transpose::Transpose;
use aleatron_core::lif::{LifDrive, LifParams};

/// Number of neurons stepped together.
pub(crate) const LANES: usize = 32;

/// Number of steps between transpositions of lanes to rows.
pub(crate) const BLOCK: usize = 16;

/// The arithmetic of shifted products.
pub(crate) trait Arithmetic {
    /// Returns `(a * b) >> fraction`, exact in its low `data_width` bits.
    fn scaled(a: i32, b: i32, fraction: u32) -> i32;
}

/// 32-bit products: exact if `fraction + data_width <= 32`.
pub(crate) struct Narrow;

impl Arithmetic for Narrow {
    #[inline(always)]
    fn scaled(a: i32, b: i32, fraction: u32) -> i32 {
        a.wrapping_mul(b) >> fraction
    }
}

/// 64-bit products: always exact.
struct Wide;

impl Arithmetic for Wide {
    #[inline(always)]
    fn scaled(a: i32, b: i32, fraction: u32) -> i32 {
        ((i64::from(a) * i64::from(b)) >> fraction) as i32
    }
}

/// Returns whether 32-bit products are sufficient.
#[inline(always)]
pub(crate) fn is_narrow(params: &LifParams) -> bool {
    params.fraction() + params.data_width() <= 32
}

/// Runs one neuron from rest through the steps of `drives`; each result goes to `emit(spike, v)` in
/// order.
#[inline]
pub(crate) fn run(
    params: &LifParams,
    drives: impl Iterator<Item = LifDrive>,
    emit: impl FnMut(u8, i16),
) {
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

/// Runs up to [`LANES`] neurons from rest, each with a constant current, for `n_steps`; `spikes`
/// and `voltages` hold a row of steps per neuron.
#[inline(always)]
pub(crate) fn run_lanes<T: Transpose>(
    params: &LifParams,
    drive: LifDrive,
    currents: &[i16],
    n_steps: usize,
    spikes: &mut [u8],
    voltages: &mut [i16],
) {
    if is_narrow(params) {
        Lanes::new::<Narrow>(params, drive, currents).run::<Narrow, T>(n_steps, spikes, voltages);
    } else {
        Lanes::new::<Wide>(params, drive, currents).run::<Wide, T>(n_steps, spikes, voltages);
    }
}

/// Neurons in lanes.
struct Lanes<'a> {
    params: &'a LifParams,
    leak_k: i32,
    inputs: [i32; LANES],
    v: [i32; LANES],
    counters: [u32; LANES],
}

impl<'a> Lanes<'a> {
    #[inline(always)]
    fn new<A: Arithmetic>(params: &'a LifParams, drive: LifDrive, currents: &[i16]) -> Self {
        let inputs = inputs::<A>(params, drive, currents);
        let (v, counters) = ([params.v_rest().into(); LANES], [0; LANES]);
        Self { params, leak_k: drive.leak_k.into(), inputs, v, counters }
    }

    /// Steps in blocks, lanes by steps, and transposes each block into segments of rows.
    #[inline(always)]
    fn run<A: Arithmetic, T: Transpose>(
        &mut self,
        n_steps: usize,
        spikes: &mut [u8],
        voltages: &mut [i16],
    ) {
        for first in (0..n_steps).step_by(BLOCK) {
            let mut block_spikes = [[0; LANES]; BLOCK];
            let mut block_v = [[0; LANES]; BLOCK];
            let steps = BLOCK.min(n_steps - first);
            for (spikes, v) in block_spikes.iter_mut().zip(&mut block_v).take(steps) {
                self.step::<A>(spikes, v);
            }
            write_block::<T>(&block_spikes, &block_v, first, n_steps, spikes, voltages);
        }
    }

    /// Advances every lane by one step.
    #[inline(always)]
    fn step<A: Arithmetic>(&mut self, spikes: &mut [u8; LANES], voltages: &mut [i16; LANES]) {
        let (rest, reset, threshold) = constants(self.params);
        let unused = 32 - self.params.data_width();
        let (fraction, period) = (self.params.fraction(), self.params.refractory_period());
        for lane in 0..LANES {
            let silent = self.counters[lane] > 0;
            let leak = A::scaled(rest - self.v[lane], self.leak_k, fraction);
            let sum =
                self.v[lane].wrapping_add(leak).wrapping_add(self.inputs[lane]) << unused >> unused;
            let spike = !silent & (sum >= threshold);
            let next = if spike { reset } else { sum };
            self.v[lane] = if silent { rest } else { next };
            let running = self.counters[lane].saturating_sub(1);
            self.counters[lane] = if spike { period } else { running };
            spikes[lane] = spike.into();
            voltages[lane] = self.v[lane] as i16;
        }
    }
}

/// Returns the contribution of each neuron's current and of the noise to its potential in a step.
#[inline(always)]
pub(crate) fn inputs<A: Arithmetic>(
    params: &LifParams,
    drive: LifDrive,
    currents: &[i16],
) -> [i32; LANES] {
    let mut inputs = [0; LANES];
    for (input, &current) in inputs.iter_mut().zip(currents) {
        let scaled = A::scaled(current.into(), drive.gain_k.into(), params.fraction());
        *input = scaled.wrapping_add(drive.noise.into());
    }
    inputs
}

/// Writes a block of lanes by steps, which begins with step `first`, to the rows of the neurons.
#[inline(always)]
pub(crate) fn write_block<T: Transpose>(
    block_spikes: &[[u8; LANES]; BLOCK],
    block_v: &[[i16; LANES]; BLOCK],
    first: usize,
    n_steps: usize,
    spikes: &mut [u8],
    voltages: &mut [i16],
) {
    for group in 0..LANES / 16 {
        T::bytes(block_spikes, group, |i, column| {
            copy(column, spikes, 16 * group + i, n_steps, first);
        });
    }
    for group in 0..LANES / 8 {
        for (octet, block) in block_v.as_chunks::<8>().0.iter().enumerate() {
            T::words(block, group, |i, column| {
                copy(column, voltages, 8 * group + i, n_steps, first + 8 * octet);
            });
        }
    }
}

/// Copies the elements of `from` that fit to row `row` of `to`, from `start` on. Nearly all blocks
/// are whole and copied as arrays: a call to copy sixteen bytes would cost more than computing
/// them.
#[inline(always)]
fn copy<E: Copy, const N: usize>(
    from: [E; N],
    to: &mut [E],
    row: usize,
    row_len: usize,
    start: usize,
) {
    let Some(to) = to.get_mut(row * row_len + start..(row + 1) * row_len) else { return };
    match to.first_chunk_mut::<N>() {
        Some(whole) => *whole = from,
        None => to.copy_from_slice(&from[..to.len()]),
    }
}

//! Many neurons in lanes: the portable code, compiled for wider registers.

use crate::arch::portable::lif as portable;
use crate::arch::x86_64::sse2::transpose::Registers;
use aleatron_core::lif::{LifDrive, LifParams};

/// Runs [`portable::run_lanes`].
#[target_feature(enable = "avx2")]
pub(crate) fn run_lanes(
    params: &LifParams,
    drive: LifDrive,
    currents: &[i16],
    n_steps: usize,
    spikes: &mut [u8],
    voltages: &mut [i16],
) {
    portable::run_lanes::<Registers>(params, drive, currents, n_steps, spikes, voltages);
}

//! Runs of fixed-point neurons.

use crate::{Cpu, dispatch};
use aleatron_core::lif::{LifDrive, LifParams, LifTrace};
use aleatron_core::{Cancel, Error, Quantity, Result, memory};
use std::time::Duration;

/// An upper bound of the nanoseconds that a neuron takes for a step in lanes, to decide whether
/// threads pay off.
const LANE_STEP: f64 = 0.3;

/// Number of steps between two checks for cancellation: well below a millisecond.
const STEPS_PER_CHECK: usize = 1 << 16;

impl Cpu {
    /// Runs one neuron from rest for `n_steps` under a constant drive.
    ///
    /// ```
    /// use aleatron_core::lif::{LifDrive, LifParams};
    /// use aleatron_cpu::Cpu;
    /// let drive = LifDrive { leak_k: 20, gain_k: 256, current: 100, noise: 0 };
    /// let trace = Cpu::current()?.lif_run(LifParams::default(), drive, 4)?;
    /// assert_eq!(trace.spikes, [0, 0, 1, 0]);
    /// assert_eq!(trace.voltages, [100, 192, 0, 0]);
    /// # Ok::<(), aleatron_cpu::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Memory`] if the trace does not fit.
    pub fn lif_run(&self, params: LifParams, drive: LifDrive, n_steps: usize) -> Result<LifTrace> {
        self.lif_run_with(params, drive, n_steps, Cancel::NEVER)
    }

    /// Runs like [`Self::lif_run`], with cancellation.
    ///
    /// ```
    /// use aleatron_core::lif::{LifDrive, LifParams};
    /// use aleatron_core::{Cancel, Error};
    /// let drive = LifDrive { leak_k: 20, gain_k: 256, current: 100, noise: 0 };
    /// let cpu = aleatron_cpu::Cpu::current()?;
    /// let cancelled = cpu.lif_run_with(LifParams::default(), drive, 1 << 20, Cancel::when(&|| true));
    /// assert_eq!(cancelled, Err(Error::Cancelled));
    /// # Ok::<(), aleatron_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Self::lif_run`], and [`Error::Cancelled`].
    pub fn lif_run_with(
        &self,
        params: LifParams,
        drive: LifDrive,
        n_steps: usize,
        cancel: Cancel<'_>,
    ) -> Result<LifTrace> {
        run(&params, std::iter::repeat_n(drive, n_steps), cancel)
    }

    /// Runs one neuron from rest, with a current and a noise for each step; `drive` gives leak and
    /// gain, its current is ignored, and its noise applies if `noises` is `None`.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] unless there is one noise per current, [`Error::Memory`] if the
    /// trace does not fit.
    pub fn lif_run_varying(
        &self,
        params: LifParams,
        drive: LifDrive,
        currents: &[i16],
        noises: Option<&[i16]>,
    ) -> Result<LifTrace> {
        self.lif_run_varying_with(params, drive, currents, noises, Cancel::NEVER)
    }

    /// Runs like [`Self::lif_run_varying`], with cancellation.
    ///
    /// # Errors
    /// As for [`Self::lif_run_varying`], and [`Error::Cancelled`].
    pub fn lif_run_varying_with(
        &self,
        params: LifParams,
        drive: LifDrive,
        currents: &[i16],
        noises: Option<&[i16]>,
        cancel: Cancel<'_>,
    ) -> Result<LifTrace> {
        let currents = currents.iter().map(|&current| LifDrive { current, ..drive });
        let Some(noises) = noises else { return run(&params, currents, cancel) };
        let (expected, actual) = (currents.len(), noises.len());
        if expected != actual {
            return Err(Error::Mismatch { what: Quantity::Noise, expected, actual });
        }
        run(
            &params,
            currents.zip(noises).map(|(drive, &noise)| LifDrive { noise, ..drive }),
            cancel,
        )
    }

    /// Runs one neuron from rest for each current, all for `n_steps`; `drive` gives leak, gain and
    /// noise, and its current is ignored. The trace is row-major of neurons by steps.
    ///
    /// # Errors
    /// Returns [`Error::Memory`] if the trace does not fit.
    pub fn lif_run_multi(
        &self,
        params: LifParams,
        drive: LifDrive,
        currents: &[i16],
        n_steps: usize,
    ) -> Result<LifTrace> {
        self.lif_run_multi_with(params, drive, currents, n_steps, Cancel::NEVER)
    }

    /// Runs like [`Self::lif_run_multi`], with cancellation between groups of neurons.
    ///
    /// # Errors
    /// As for [`Self::lif_run_multi`], and [`Error::Cancelled`].
    pub fn lif_run_multi_with(
        &self,
        params: LifParams,
        drive: LifDrive,
        currents: &[i16],
        n_steps: usize,
        cancel: Cancel<'_>,
    ) -> Result<LifTrace> {
        let mut trace = empty_trace(currents.len(), n_steps)?;
        if trace.spikes.is_empty() {
            return Ok(trace);
        }
        let cost = Duration::from_nanos((LANE_STEP * trace.spikes.len() as f64) as u64);
        let rows = dispatch::LIF_LANES * n_steps;
        let items = currents
            .chunks(dispatch::LIF_LANES)
            .zip(trace.spikes.chunks_mut(rows))
            .zip(trace.voltages.chunks_mut(rows));
        self.pool.try_for_each(items, cost, |((currents, spikes), voltages)| {
            cancel.check()?;
            dispatch::lif_lanes(self.tier, &params, drive, currents, n_steps, spikes, voltages);
            Ok::<(), Error>(())
        })?;
        Ok(trace)
    }
}

fn run(
    params: &LifParams,
    drives: impl ExactSizeIterator<Item = LifDrive>,
    cancel: Cancel<'_>,
) -> Result<LifTrace> {
    let mut trace = empty_trace(1, drives.len())?;
    let mut out = trace.spikes.iter_mut().zip(&mut trace.voltages);
    let mut checked = Ok(());
    // Steps end at the first check that fails.
    let drives = drives.enumerate().map_while(|(step, drive)| {
        if step % STEPS_PER_CHECK == 0 {
            checked = cancel.check();
        }
        checked.is_ok().then_some(drive)
    });
    dispatch::lif_run(params, drives, |spike, v| {
        if let Some((spike_out, v_out)) = out.next() {
            (*spike_out, *v_out) = (spike, v);
        }
    });
    checked.map(|()| trace)
}

/// Creates a trace of zeros for `n_neurons` by `n_steps`.
fn empty_trace(n_neurons: usize, n_steps: usize) -> Result<LifTrace> {
    let (len, what) = (n_neurons as u128 * n_steps as u128, Quantity::Trace);
    memory::check(len.saturating_mul(3), what)?;
    Ok(LifTrace { spikes: memory::zeros(len, what)?, voltages: memory::zeros(len, what)? })
}

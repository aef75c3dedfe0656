//! The provenance of the results of a run.

use super::Failure;
use super::data::DataOptions;
use super::source::NetworkOptions;
use crate::invocation::Invocation;
use aleatron::backend::devices;
use aleatron::eval::{Provenance, Source};
use aleatron::{Device, get_num_threads, simd_tier};
use std::path::Path;

/// Returns the provenance of a run that computes nothing.
pub(crate) fn of_command(invocation: &Invocation) -> Result<Provenance, Failure> {
    let mut run = Provenance::new(simd_tier()?, get_num_threads()?);
    run.command = Some(invocation.command());
    Ok(run)
}

/// Returns the provenance of a run on a device.
pub(crate) fn of_run(invocation: &Invocation, device: &Device) -> Result<Provenance, Failure> {
    let mut run = of_command(invocation)?;
    run.device = Some(match device {
        Device::Cpu => device.to_string(),
        device => {
            let found: Vec<String> =
                devices().iter().map(|info| format!("{} ({})", info.device, info.name)).collect();
            match found.is_empty() {
                true => format!("{device}; available: cpu"),
                false => format!("{device}; available: cpu, {}", found.join(", ")),
            }
        }
    });
    Ok(run)
}

/// Returns the provenance of a run of a network on data.
pub(crate) fn of_network(
    invocation: &Invocation,
    device: &Device,
    network: &NetworkOptions,
    data: &DataOptions,
    calibration: &str,
) -> Result<Provenance, Failure> {
    let mut run = of_run(invocation, device)?;
    run.sources.push(network.provenance()?);
    run.sources.extend(data.provenance()?);
    run.sources.push(match &network.calibrate {
        Some(path) => Source::read("calibration", path)?,
        None => Source::described("calibration", calibration),
    });
    Ok(run)
}

/// Returns a file with settings of layers.
pub(crate) fn of_layers(path: Option<&Path>) -> Result<Option<Source>, Failure> {
    Ok(path.map(|path| Source::read("layers", path)).transpose()?)
}

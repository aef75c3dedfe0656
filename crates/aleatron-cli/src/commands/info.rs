//! `aleatron info`: the version of the program, and the processor and devices in use.

use super::Outcome;
use crate::{Host, Verdict, hint, output};
use aleatron::backend::{DeviceInfo, cuda_absence, devices};
use aleatron::{Tier, VERSION, get_num_threads, simd_tier};
use serde::Serialize;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    aleatron info\n  \
    ALEATRON_TIER=portable aleatron info --json")]
pub(crate) struct Arguments {
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Info<'a> {
    version: &'static str,
    processor: String,
    tier: &'static str,
    tiers: Vec<&'static str>,
    threads: usize,
    devices: Vec<Device>,
    /// Why no card of CUDA is among the devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    cuda_absence: Option<String>,
    #[serde(skip_serializing_if = "Host::is_empty")]
    host: &'a Host,
}

/// The description of a device.
#[derive(Debug, Serialize)]
struct Device {
    device: String,
    name: String,
    kind: String,
    interface: String,
    driver: String,
    max_buffer_bytes: u64,
    max_binding_bytes: u64,
    /// Whether `gpu` without an index selects this device.
    is_default: bool,
}

impl From<&DeviceInfo> for Device {
    fn from(info: &DeviceInfo) -> Self {
        Self {
            device: info.device.to_string(),
            name: info.name.clone(),
            kind: info.kind.clone(),
            interface: info.interface.clone(),
            driver: info.driver.clone(),
            max_buffer_bytes: info.max_buffer_bytes,
            max_binding_bytes: info.max_binding_bytes,
            is_default: info.is_default,
        }
    }
}

pub(crate) fn run(arguments: &Arguments, host: &Host) -> Outcome {
    let found = devices();
    let info = Info {
        version: VERSION,
        processor: processor(),
        tier: simd_tier()?,
        tiers: Tier::available().into_iter().map(Tier::name).collect(),
        threads: get_num_threads()?,
        devices: found.iter().map(Device::from).collect(),
        cuda_absence: cuda_absence(),
        host,
    };
    if arguments.json {
        output::json(&info)?;
        return Ok(Verdict::Good);
    }
    output::line(format!("aleatron {}", info.version))?;
    output::line(format!("Processor: {}", info.processor))?;
    output::line(format!("SIMD tier: {} (available: {})", info.tier, info.tiers.join(", ")))?;
    output::line(format!("Threads:   {}", info.threads))?;
    for device in &info.devices {
        let Device { device, name, kind, interface, driver, max_binding_bytes, is_default, .. } =
            device;
        let (mib, default) = (max_binding_bytes >> 20, if *is_default { " (default)" } else { "" });
        let device = format!("{device}:");
        output::line(format!(
            "{device:<10} {name}, {kind}, {interface}, {driver}, bindings of {mib} MiB{default}"
        ))?;
    }
    if let Some(hint) = hint::hint(&found) {
        output::line(hint)?;
    }
    if let Some(why) = &info.cuda_absence {
        output::line(format!("CUDA:      none: {why}"))?;
    }
    for (name, version) in host {
        output::line(format!("{:<10} {version}", format!("{name}:")))?;
    }
    Ok(Verdict::Good)
}

/// Returns the name of the processor if the system reports it, otherwise its architecture.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name"));
    let name = name.map(|rest| rest.trim_start_matches([' ', '\t', ':']).trim());
    name.filter(|name| !name.is_empty()).unwrap_or(std::env::consts::ARCH).to_owned()
}

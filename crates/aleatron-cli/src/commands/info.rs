//! `aleatron info`: what this is and what it runs on.

use super::Outcome;
use crate::{Host, Verdict, gpus, output};
use aleatron::{Tier, VERSION, get_num_threads, simd_tier};
use serde::Serialize;

#[derive(Debug, clap::Args)]
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
    gpus: Vec<gpus::Gpu>,
    #[serde(skip_serializing_if = "Host::is_empty")]
    host: &'a Host,
}

pub(crate) fn run(arguments: &Arguments, host: &Host) -> Outcome {
    let info = Info {
        version: VERSION,
        processor: processor(),
        tier: simd_tier()?,
        tiers: Tier::available().into_iter().map(Tier::name).collect(),
        threads: get_num_threads()?,
        gpus: gpus::list(),
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
    for gpu in &info.gpus {
        output::line(format!("GPU:       {gpu}"))?;
    }
    if let Some(hint) = gpus::hint(&info.gpus) {
        output::line(hint)?;
    }
    for (name, version) in host {
        output::line(format!("{:<10} {version}", format!("{name}:")))?;
    }
    Ok(Verdict::Good)
}

/// The processor's own name where the system tells it, else its architecture.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name"));
    let name = name.map(|rest| rest.trim_start_matches([' ', '\t', ':']).trim());
    name.filter(|name| !name.is_empty()).unwrap_or(std::env::consts::ARCH).to_owned()
}

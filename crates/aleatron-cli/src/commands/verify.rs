//! `aleatron verify`: every backend of this machine against the plain reference.
//!
//! All answer the same fixed cases; a backend is right when each answer equals the reference's. The hash is that of
//! all its answers, so two machines that print the same hash have computed the same bits. A GPU has kernels for some of
//! the operations and its hash is of those.

use super::Outcome;
use crate::{Verdict, output};
use aleatron::core::conformance::{Backend, Case, Operation, Reference, digest, suite};
use aleatron::{Cpu, Pool, Tier};
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// What one backend answered.
#[derive(Debug, Serialize)]
struct Report {
    backend: String,
    cases: usize,
    operations: Vec<&'static str>,
    hash: String,
    equal: bool,
    /// What went wrong first, where something did.
    fault: Option<String>,
}

#[cfg(feature = "gpu")]
impl Report {
    /// A backend that is there and cannot be run, which is a fault: it was not verified.
    fn unopened(backend: String, fault: String) -> Self {
        let (operations, hash) = (Vec::new(), "-".repeat(16));
        Self { backend, cases: 0, operations, hash, equal: false, fault: Some(fault) }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let cases = suite::fixed()?;
    let expected: Vec<Vec<u64>> = cases.iter().map(|case| Reference.answer(case)).collect();
    let mut reports = vec![check("reference", &Reference, &cases, &expected)];
    // Two threads at least, and eager ones: sharing the work out is part of what is verified.
    let all = Arc::new(Pool::eager(aleatron::get_num_threads()?.max(2))?);
    let one = Arc::new(Pool::new(1)?);
    for tier in Tier::available() {
        for pool in [&one, &all] {
            let name = format!(
                "cpu {tier}, {} thread{}",
                pool.threads(),
                if pool.threads() == 1 { "" } else { "s" }
            );
            reports.push(check(&name, &Cpu::new(tier, Arc::clone(pool)), &cases, &expected));
        }
    }
    #[cfg(feature = "gpu")]
    for adapter in aleatron::gpu::adapters() {
        use aleatron::gpu::{AdapterChoice, GpuBackend, GpuContext};
        let name = format!("gpu {} ({})", adapter.name, adapter.backend);
        match GpuContext::get(&AdapterChoice::Index(adapter.index)) {
            Ok(context) => reports.push(check(&name, &GpuBackend(context), &cases, &expected)),
            Err(error) => reports.push(Report::unopened(name, error.to_string())),
        }
    }
    if arguments.json {
        output::json(&reports)?;
    } else {
        print(&reports)?;
    }
    Ok(if reports.iter().all(|report| report.equal) { Verdict::Good } else { Verdict::Bad })
}

fn check<B: Backend>(name: &str, backend: &B, cases: &[Case], expected: &[Vec<u64>]) -> Report {
    let mut answers = Vec::new();
    let mut operations = BTreeSet::new();
    let mut fault = None;
    for (case, expected) in cases.iter().zip(expected) {
        let Some(result) = backend.run(case) else { continue };
        operations.insert(case.operation());
        let answer = result.unwrap_or_else(|error| {
            fault.get_or_insert(format!("{}: {error}", case.operation().name()));
            Vec::new()
        });
        if answer != *expected {
            fault.get_or_insert(format!("{}: differs from the reference", case.operation().name()));
        }
        answers.push(answer);
    }
    if answers.is_empty() {
        fault.get_or_insert("no case was run".to_owned());
    }
    Report {
        backend: name.to_owned(),
        cases: answers.len(),
        operations: operations.into_iter().map(Operation::name).collect(),
        hash: format!("{:016x}", digest(answers.iter().map(Vec::as_slice))),
        equal: fault.is_none(),
        fault,
    }
}

fn print(reports: &[Report]) -> std::io::Result<()> {
    let width = reports.iter().map(|report| report.backend.len()).max().unwrap_or(0);
    for report in reports {
        let Report { backend, cases, hash, fault, operations, .. } = report;
        let verdict = fault.as_deref().unwrap_or("equal");
        let part = if operations.len() == Operation::ALL.len() {
            String::new()
        } else {
            format!(" ({})", operations.join(", "))
        };
        output::line(format!("{backend:width$}  {cases:4} cases  {hash}  {verdict}{part}"))?;
    }
    Ok(())
}

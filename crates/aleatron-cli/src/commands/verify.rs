//! `aleatron verify`: every backend of this machine against the plain reference.
//!
//! All backends compute the same fixed cases; a backend conforms if each result equals the
//! reference. There is one hash per operation, so that two machines, and backends that support
//! different operations, can be compared: if both support an operation, both must print its hash.
//! "first" is the hash of all cases of the first version together.

use super::Outcome;
use crate::{Verdict, output};
use aleatron::backend::{Backend, Batch, FaultBackend, PrepareOptions, devices, open, subject};
use aleatron::conformance::{Case, Operation, Reference, Subject, digest, suite};
use aleatron::{Cancel, Cpu, CpuBackend, Pool, Tier, golden};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    aleatron verify\n  \
    SC_GPU_ADAPTER=llvmpipe aleatron verify --json")]
pub(crate) struct Arguments {
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// The results of one backend.
#[derive(Debug, Serialize)]
struct Report {
    backend: String,
    cases: usize,
    /// The hash of the answers of each operation the backend has.
    hashes: BTreeMap<&'static str, String>,
    /// The hash of all cases of the first version together, if the backend supports all its
    /// operations.
    first: Option<String>,
    equal: bool,
    /// The known layers with faults that the backend counted; none for the reference.
    fault_layers: usize,
    /// The first failure, if any.
    fault: Option<String>,
}

impl Report {
    /// Returns the report of an existing backend that cannot be opened, which is a fault: it was
    /// not verified.
    fn unopened(backend: String, fault: String) -> Self {
        let (cases, hashes, first, fault_layers) = (0, BTreeMap::new(), None, 0);
        Self { backend, cases, hashes, first, equal: false, fault_layers, fault: Some(fault) }
    }

    /// Counts the known layers with faults on a backend.
    fn with_faults(mut self, backend: &Arc<dyn Backend>) -> Self {
        let failure = match fault_layers(backend) {
            Ok(n) => {
                self.fault_layers = n;
                None
            }
            Err(failure) => Some(failure),
        };
        self.fault = self.fault.or(failure);
        self.equal = self.fault.is_none();
        self
    }
}

/// Compares the known layers with faults on a backend and returns their number, or the first that
/// differs.
fn fault_layers(backend: &Arc<dyn Backend>) -> Result<usize, String> {
    let layers = golden::fault_layers().map_err(|line| format!("faults: {line}"))?;
    for (faults, answer) in &layers {
        let case = &answer.case;
        let counts = || {
            let faulty = FaultBackend::wrap(Arc::clone(backend), faults);
            let options = PrepareOptions { method: case.method, ..PrepareOptions::default() };
            let layer = faulty.prepare(&case.spec, &case.weight_values()?, &options)?;
            layer.counts(&Batch::thresholds(&case.inputs, case.seed), Cancel::NEVER)
        };
        match counts() {
            Ok(counts) if counts == answer.counts => {}
            Ok(_) => return Err(format!("faults {faults}: differs from the known answer")),
            Err(error) => return Err(format!("faults {faults}: {error}")),
        }
    }
    Ok(layers.len())
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let cases = suite::fixed()?;
    let expected: Vec<Vec<u64>> = cases.iter().map(|case| Reference.answer(case)).collect();
    let mut reports = vec![check("reference", &Reference, &cases, &expected)];
    // At least two threads, and eager ones: the division of work is verified as well.
    let all = Arc::new(Pool::eager(aleatron::get_num_threads()?.max(2))?);
    let one = Arc::new(Pool::new(1)?);
    for tier in Tier::available() {
        for pool in [&one, &all] {
            let name = format!("cpu {tier}, {}", aleatron::eval::plural(pool.threads(), "thread"));
            let cpu = Cpu::new(tier, Arc::clone(pool));
            let backend: Arc<dyn Backend> = Arc::new(CpuBackend::new(cpu.clone()));
            reports.push(check(&name, &cpu, &cases, &expected).with_faults(&backend));
        }
    }
    for info in devices() {
        let name = format!("{} {} ({})", info.device, info.name, info.interface);
        match subject(&info.device) {
            Ok(subject) => {
                let report = check(&name, &*subject, &cases, &expected);
                reports.push(match open(&info.device) {
                    Ok(backend) => report.with_faults(&backend),
                    Err(error) => Report { equal: false, fault: Some(error.to_string()), ..report },
                });
            }
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

fn check(name: &str, subject: &dyn Subject, cases: &[Case], expected: &[Vec<u64>]) -> Report {
    let mut answers: BTreeMap<Operation, Vec<Vec<u64>>> = BTreeMap::new();
    let mut first = Some(Vec::new());
    let mut fault = None;
    for (k, (case, expected)) in cases.iter().zip(expected).enumerate() {
        let Some(result) = subject.run(case) else {
            first = first.filter(|_| k >= suite::FIRST_CASES);
            continue;
        };
        let operation = case.operation();
        let answer = result.unwrap_or_else(|error| {
            fault.get_or_insert(format!("{}: {error}", operation.name()));
            Vec::new()
        });
        if answer != *expected {
            fault.get_or_insert(format!("{}: differs from the reference", operation.name()));
        }
        if let Some(first) = first.as_mut().filter(|_| k < suite::FIRST_CASES) {
            first.push(answer.clone());
        }
        answers.entry(operation).or_default().push(answer);
    }
    // An operation whose cases were run in part has no hash to compare.
    let all =
        |operation: &Operation| cases.iter().filter(|case| case.operation() == *operation).count();
    let whole = answers.iter().filter(|(operation, answers)| answers.len() == all(operation));
    let hash = |answers: &[Vec<u64>]| format!("{:016x}", digest(answers.iter().map(Vec::as_slice)));
    let hashes: BTreeMap<_, _> =
        whole.map(|(operation, answers)| (operation.name(), hash(answers))).collect();
    if hashes.is_empty() {
        fault.get_or_insert("no operation was run".to_owned());
    }
    Report {
        backend: name.to_owned(),
        cases: answers.values().map(Vec::len).sum(),
        first: first.map(|first| hash(&first)),
        hashes,
        equal: fault.is_none(),
        fault_layers: 0,
        fault,
    }
}

fn print(reports: &[Report]) -> std::io::Result<()> {
    let Some(reference) = reports.first() else { return Ok(()) };
    output::line("Hashes of the reference's answers:")?;
    if let Some(first) = &reference.first {
        output::line(format!("  {:<10} {first}", "first"))?;
    }
    for operation in Operation::ALL {
        let hash = reference.hashes.get(operation.name()).map_or("-", String::as_str);
        output::line(format!("  {:<10} {hash}", operation.name()))?;
    }
    output::line("")?;
    let width = reports.iter().map(|report| report.backend.chars().count()).max().unwrap_or(0);
    for report in &reports[1..] {
        let Report { backend, cases, fault, hashes, fault_layers, .. } = report;
        let same =
            hashes.iter().filter(|(name, hash)| reference.hashes.get(*name) == Some(hash)).count();
        let verdict = match fault {
            Some(fault) => fault.clone(),
            None => {
                let operations = aleatron::eval::plural(same, "operation");
                format!("equal in {operations} and {fault_layers} layers with faults")
            }
        };
        let missing: Vec<&str> =
            reference.hashes.keys().filter(|name| !hashes.contains_key(*name)).copied().collect();
        let without = if missing.is_empty() {
            String::new()
        } else {
            format!(" (it has no {})", missing.join(", "))
        };
        output::line(format!("{backend:width$}  {cases:4} cases  {verdict}{without}"))?;
    }
    Ok(())
}

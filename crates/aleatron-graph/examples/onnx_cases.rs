//! Runs cases of ONNX's own tests, and compares what fails with a list of exceptions.
//!
//! `onnx_cases FOLDER LIST [--device NAME] [--write]`: FOLDER has a folder for each case, as
//! `tests/onnx/export.py` writes them. LIST names the cases that are refused, each with its reason.
//! A case that fails and is not listed, one that is listed and passes, and one with a wrong answer
//! are failures, and so is one that computes something else after it was written and read;
//! `--write` writes the list instead.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use aleatron_graph::{Graph, Runner, onnx};
use aleatron_tensor::{DType, Device, Tensor};

type Failure = Box<dyn std::error::Error>;

/// The result of a case.
enum Verdict {
    Right,
    Refused(String),
    Wrong(String),
}

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("onnx_cases: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<ExitCode, Failure> {
    let mut arguments = std::env::args().skip(1);
    let (mut paths, mut device, mut write) = (Vec::new(), Device::Cpu, false);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--device" => device = Device::named(&arguments.next().unwrap_or_default())?,
            "--write" => write = true,
            _ => paths.push(argument),
        }
    }
    let [folder, list] = paths.as_slice() else {
        return Err("use onnx_cases FOLDER LIST [--device NAME] [--write]".into());
    };
    let mut cases: Vec<_> = std::fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    cases.sort_by_key(std::fs::DirEntry::file_name);
    let (mut right, mut wrong, mut refused) = (0, BTreeMap::new(), BTreeMap::new());
    for case in &cases {
        let name = case.file_name().to_string_lossy().into_owned();
        match run_case(&case.path(), &device) {
            Verdict::Right => right += 1,
            Verdict::Refused(reason) => drop(refused.insert(name, reason)),
            Verdict::Wrong(reason) => drop(wrong.insert(name, reason)),
        }
    }
    println!(
        "{} cases: {right} right, {} refused, {} wrong",
        cases.len(),
        refused.len(),
        wrong.len()
    );
    for (name, reason) in &wrong {
        println!("wrong    {name}: {reason}");
    }
    if write {
        let text: String =
            refused.iter().map(|(name, reason)| format!("{name}: {reason}\n")).collect();
        std::fs::write(list, text)?;
        return Ok(if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let text = std::fs::read_to_string(list)?;
    let listed: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.split_once(": ")).collect();
    let mut differences = 0;
    for (name, reason) in &refused {
        match listed.get(name.as_str()) {
            Some(known) if known == reason => {}
            Some(known) => {
                println!("changed  {name}: {reason}, listed with {known}");
                differences += 1;
            }
            None => {
                println!("new      {name}: {reason}");
                differences += 1;
            }
        }
    }
    for name in listed.keys().filter(|name| !refused.contains_key(**name)) {
        println!("gone     {name}: it is listed and not refused");
        differences += 1;
    }
    Ok(if wrong.is_empty() && differences == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_case(case: &Path, device: &Device) -> Verdict {
    let read = |name: String| std::fs::read(case.join(name));
    let graph = match Graph::read_onnx(case.join("model.onnx")) {
        Ok(graph) => graph,
        Err(error) => return Verdict::Refused(error.to_string()),
    };
    let tensors = |kind: &str| -> Result<Vec<Tensor>, Failure> {
        let mut tensors = Vec::new();
        while let Ok(bytes) = read(format!("{kind}_{}.pb", tensors.len())) {
            tensors.push(onnx::read_tensor(&bytes)?);
        }
        Ok(tensors)
    };
    let (inputs, expected) = match (tensors("input"), tensors("output")) {
        (Ok(inputs), Ok(outputs)) => (inputs, outputs),
        (Err(error), _) | (_, Err(error)) => return Verdict::Refused(error.to_string()),
    };
    let tolerance: BTreeMap<String, f64> = read("tolerance.json".to_owned())
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default();
    let outputs =
        match Runner::new(graph.clone(), device).and_then(|runner| runner.run(inputs.clone())) {
            Ok(outputs) => outputs,
            Err(error) => return Verdict::Refused(error.to_string()),
        };
    if let Err(reason) = check_written(&graph, inputs, &outputs, device) {
        return Verdict::Wrong(reason);
    }
    let [rtol, atol] = ["rtol", "atol"].map(|name| tolerance.get(name).copied().unwrap_or(1e-7));
    for (k, (output, expected)) in outputs.iter().zip(&expected).enumerate() {
        // A bound for each element, if there is one.
        let bound =
            read(format!("bound_{k}.pb")).ok().and_then(|bytes| onnx::read_tensor(&bytes).ok());
        let bounds = match bound.map(|bound| bound.to_vec::<f32>()) {
            Some(Ok(bounds)) => Bounds::Each(bounds),
            Some(Err(error)) => return Verdict::Wrong(error.to_string()),
            None => Bounds::Tolerance { rtol, atol },
        };
        if let Err(reason) = compare(output, expected, &bounds) {
            return Verdict::Wrong(format!("output {k}: {reason}"));
        }
    }
    if outputs.len() < expected.len() {
        return Verdict::Wrong(format!("{} outputs instead of {}", outputs.len(), expected.len()));
    }
    Verdict::Right
}

/// Writes the graph as a file: the graph read from it must compute the same, and be written as the
/// same file.
fn check_written(
    graph: &Graph,
    inputs: Vec<Tensor>,
    outputs: &[Tensor],
    device: &Device,
) -> Result<(), String> {
    let fault = |error: aleatron_graph::Error| format!("written: {error}");
    let bytes = graph.to_onnx().map_err(fault)?;
    let read = Graph::from_onnx(&bytes).map_err(fault)?;
    if read.to_onnx().map_err(fault)? != bytes {
        return Err("written twice, it is not the same file".to_owned());
    }
    let again = Runner::new(read, device).and_then(|runner| runner.run(inputs)).map_err(fault)?;
    for (output, again) in outputs.iter().zip(&again) {
        compare(again, output, &Bounds::Tolerance { rtol: 0.0, atol: 0.0 })
            .map_err(|reason| format!("written: {reason}"))?;
    }
    Ok(())
}

/// The permitted error of outputs.
enum Bounds {
    /// A relative and an absolute tolerance.
    Tolerance { rtol: f64, atol: f64 },
    /// A bound for each element.
    Each(Vec<f32>),
}

fn compare(actual: &Tensor, expected: &Tensor, bounds: &Bounds) -> Result<(), String> {
    if actual.shape() != expected.shape() || actual.dtype() != expected.dtype() {
        let (a, b) = (actual.dtype(), expected.dtype());
        return Err(format!("{a} {:?} instead of {b} {:?}", actual.shape(), expected.shape()));
    }
    let values = |tensor: &Tensor| -> Result<Vec<f64>, aleatron_tensor::Error> {
        let tensor = tensor.to_device(&Device::Cpu)?;
        Ok(match tensor.dtype() {
            DType::I64 => tensor.to_vec::<i64>()?.into_iter().map(|value| value as f64).collect(),
            DType::I32 => tensor.to_vec::<i32>()?.into_iter().map(f64::from).collect(),
            DType::Bool => tensor
                .to_vec::<bool>()?
                .into_iter()
                .map(|value| f64::from(u8::from(value)))
                .collect(),
            _ => tensor.cast(DType::F32)?.to_vec::<f32>()?.into_iter().map(f64::from).collect(),
        })
    };
    let (a, b) =
        (values(actual).map_err(|e| e.to_string())?, values(expected).map_err(|e| e.to_string())?);
    for (index, (a, b)) in a.iter().zip(&b).enumerate() {
        let bound = match bounds {
            Bounds::Tolerance { rtol, atol } => atol + rtol * b.abs(),
            Bounds::Each(bounds) => bounds.get(index).copied().unwrap_or(0.0).into(),
        };
        let is_close = a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= bound;
        if !is_close {
            return Err(format!("{a} instead of {b} at index {index}"));
        }
    }
    Ok(())
}

//! `eval` and `tables` as a user runs them.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking, too")]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn aleatron(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_aleatron")).args(arguments).env_remove("ALEATRON_TIER").output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn fault(output: &Output) -> String {
    assert!(!output.status.success());
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A folder of its own for a test, gone when the test is over.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("aleatron-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn join(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn eval_needs_nothing() {
    let output = aleatron(&["eval"]);
    assert!(output.status.success());
    let text = text(&output);
    assert!(text.starts_with(
        "Network noise_aware (64-64-10) on digits (test), 360 samples; floating point: 97.50 % right"
    ));
    let lines = |name: &str| text.lines().filter(|line| line.split_whitespace().next() == Some(name)).count();
    assert_eq!(["bernoulli", "sobol", "lfsr"].map(lines), [8, 8, 8], "{text}");
    assert!(text.contains("sobol: within one point of floating point from 16 bits on"), "{text}");
    assert!(text.contains("56 cells in"));
}

#[test]
fn eval_is_json_for_machines() {
    let output =
        aleatron(&["eval", "plain", "--lengths", "16,64", "--generators", "halton,sobol:3+lfsr:9", "--json"]);
    let evaluation: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(evaluation["network"]["name"], "plain");
    assert_eq!(evaluation["plan"]["generators"], serde_json::json!(["halton", "sobol:3+lfsr:9"]));
    let cells = evaluation["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 4);
    for cell in cells {
        for field in ["accuracy", "agreement", "samples_per_second", "bit_macs_per_second"] {
            assert!(cell[field].as_f64().unwrap() > 0.0, "{field}");
        }
        assert_eq!(cell["confusion"].as_array().unwrap().len(), 10);
    }
}

#[test]
fn a_report_is_one_page_and_can_be_resumed() {
    let folder = Folder::new("report");
    let report = folder.join("r");
    let arguments = |lengths| {
        ["eval", "--lengths", lengths, "--generators", "sobol", "--report", &report].map(String::from)
    };
    let run = |lengths, more: &[&str]| {
        let arguments = arguments(lengths);
        aleatron(&arguments.iter().map(String::as_str).chain(more.iter().copied()).collect::<Vec<_>>())
    };
    assert!(run("8,16", &[]).status.success());
    let result = |name: &str| std::fs::read_to_string(Path::new(&report).join(name)).unwrap();
    let first: Value = serde_json::from_str(&result("evaluation.json")).unwrap();
    assert!(run("8,16,32", &["--resume"]).status.success());
    let second: Value = serde_json::from_str(&result("evaluation.json")).unwrap();
    // The time a cell took shows that it was not run again.
    assert_eq!(first["cells"].as_array().unwrap()[..], second["cells"].as_array().unwrap()[..2]);
    assert_eq!(second["cells"].as_array().unwrap().len(), 3);
    let page = result("index.html");
    for part in [
        "Accuracy against length",
        "Stopping early",
        "Confusion",
        "Error of the layers",
        "<svg",
        "prefers-color-scheme",
    ] {
        assert!(page.contains(part), "{part}");
    }
    for outside in ["<script", "http://", "https://", "<link", "@import", "NaN", "inf"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(fault(&run("8", &["--resume", "--width", "10"])).contains("differs in its settings"));
    assert!(fault(&aleatron(&["eval", "--resume"])).contains("--report"));
}

#[test]
fn eval_reads_networks_and_data_from_files() {
    let folder = Folder::new("files");
    // One layer that copies its two inputs to two classes.
    let network = r#"{"format": "aleatron-network", "version": 1, "name": "copy", "layers": [{"name": "a",
        "polarity": "bipolar", "input_scale": 1.0, "weight_scale": 1.0, "activation": "identity"}]}"#;
    std::fs::write(folder.join("net.json"), network).unwrap();
    let header = br#"{"a.weight":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}"#;
    let weights = [1.0_f32, 0.0, 0.0, 1.0].iter().flat_map(|w| w.to_le_bytes());
    let bytes = (header.len() as u64).to_le_bytes().into_iter().chain(*header).chain(weights);
    std::fs::write(folder.join("net.safetensors"), bytes.collect::<Vec<u8>>()).unwrap();
    std::fs::write(folder.join("data.csv"), "x,y,class\n0.9,-0.9,0\n-0.5,0.5,1\n0.2,0.8,1\n").unwrap();
    let (net, data) = (folder.join("net.json"), folder.join("data.csv"));
    let output =
        aleatron(&["eval", &net, "--data", &data, "--generators", "sobol", "--lengths", "64", "--json"]);
    let evaluation: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(evaluation["cells"][0]["accuracy"], 1.0);
    assert_eq!(evaluation["network"]["sizes"], serde_json::json!([2, 2]));

    assert!(fault(&aleatron(&["eval", &net])).contains("the samples have 64 features, the network takes 2"));
    assert!(fault(&aleatron(&["eval", "nowhere"])).contains("nowhere.json"));
    std::fs::write(folder.join("bad.csv"), "0.9,-0.9,0\n0.1,oops,1\n").unwrap();
    let bad = fault(&aleatron(&["eval", &net, "--data", &folder.join("bad.csv")]));
    assert!(bad.contains("bad.csv, line 2: \"oops\" is not a number"), "{bad}");
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    assert_eq!(aleatron(&["eval", "--generators", "sobl"]).status.code(), Some(2));
    assert!(fault(&aleatron(&["eval", "--lengths", "0"])).contains("stream length must be at least 1"));
    assert!(fault(&aleatron(&["eval", "--width", "40"])).contains("generator width is 40, the most is 32"));
    assert!(fault(&aleatron(&["eval", "--seeds", "0"])).contains("seeds: at least one is needed"));
    assert!(fault(&aleatron(&["tables", "sobol:1"])).contains("is not a pair"));
    assert!(fault(&aleatron(&["tables", "sobol:0+ramp"])).contains("Sobol dimension must be at least 1"));
}

#[test]
fn tables_hold_the_known_values() {
    let output = aleatron(&["tables", "sobol:1+sobol:2", "lfsr:1+lfsr:113", "--json"]);
    let errors: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let mae: Vec<String> = errors.iter().map(|e| format!("{:.5}", e["mae"].as_f64().unwrap())).collect();
    assert_eq!(mae[..5], ["0.03735", "0.01843", "0.00921", "0.00451", "0.00190"]);
    assert_eq!(mae[5..], ["0.15810", "0.15658", "0.08034", "0.01848", "0.00304"]);
    let csv = text(&aleatron(&["tables", "sobol:1+sobol:2", "--lengths", "256", "--csv"]));
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines[0], "x,y,length,mae,rmse,bias,worst,mean_abs_scc,mean_abs_zce");
    assert!(lines[1].starts_with("sobol:1,sobol:2,256,0.0019") && lines.len() == 2, "{csv}");
    let table = text(&aleatron(&["tables", "lfsr:1+lfsr:113", "--lengths", "16"]));
    assert!(table.contains("0.15810") && table.contains("warning: lfsr:1, lfsr:113"), "{table}");

    let folder = Folder::new("tables");
    assert!(
        aleatron(&["tables", "ramp+vdc", "--lengths", "64", "--report", &folder.join("t")]).status.success()
    );
    for name in ["index.html", "tables.csv", "ramp_vdc_64.svg"] {
        assert!(!std::fs::read(folder.0.join("t").join(name)).unwrap().is_empty(), "{name}");
    }
}

/// The same cells on a GPU, times aside; the software one of Mesa if no other is named.
#[cfg(feature = "gpu")]
#[test]
fn a_gpu_finds_the_same() {
    let cells = |device: &str| {
        let arguments = [
            "eval",
            "--lengths",
            "8,40",
            "--generators",
            "bernoulli,sobol",
            "--seeds",
            "1",
            "--json",
            "--device",
        ];
        let mut command = Command::new(env!("CARGO_BIN_EXE_aleatron"));
        if std::env::var_os("SC_GPU_ADAPTER").is_none() {
            command.env("SC_GPU_ADAPTER", "llvmpipe");
        }
        let output = command.args(arguments).arg(device).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut evaluation: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(evaluation["plan"]["device"], device);
        let cells = evaluation["cells"].as_array_mut().unwrap();
        for cell in cells.iter_mut() {
            for time in ["seconds", "samples_per_second", "bit_macs_per_second"] {
                assert!(cell.as_object_mut().unwrap().remove(time).is_some());
            }
        }
        cells.clone()
    };
    assert_eq!(cells("gpu"), cells("cpu"));
    assert!(fault(&aleatron(&["eval", "--device", "tpu"])).contains("there is no device"));
}

/// Ctrl-C leaves what was finished, as a table and as a file.
#[cfg(unix)]
#[test]
fn an_interrupt_leaves_what_was_finished() {
    let folder = Folder::new("interrupt");
    let report = folder.join("r");
    // Long enough that it would run for minutes.
    let lengths: Vec<String> = (1..400).map(|k| (64 * k).to_string()).collect();
    let child = Command::new(env!("CARGO_BIN_EXE_aleatron"))
        .args([
            "eval",
            "--generators",
            "bernoulli",
            "--seeds",
            "50",
            "--report",
            &report,
            "--lengths",
            &lengths.join(","),
        ])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_secs(2));
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("unfinished: "), "{}", text(&output));
    let result = std::fs::read_to_string(Path::new(&report).join("evaluation.json")).unwrap();
    let result: Value = serde_json::from_str(&result).unwrap();
    let (done, all) = (result["cells"].as_array().unwrap().len(), result["plan"]["cells"].as_u64().unwrap());
    assert!(done > 0 && (done as u64) < all, "{done} of {all}");
}

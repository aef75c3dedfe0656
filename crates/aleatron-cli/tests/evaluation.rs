//! `eval` and `tables` as a user runs them.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking, too")]

mod common;

use aleatron::Polarity;
use aleatron::network::NetworkBuilder;
use common::{Folder, aleatron, fault, text};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

#[test]
fn eval_runs_without_arguments() {
    let output = aleatron(&["eval"]);
    assert!(output.status.success());
    let text = text(&output);
    assert!(text.starts_with(
        "Network noise_aware (64-64-10) on digits (test), 360 samples; floating point: 97.50 % right"
    ));
    let lines = |name: &str| {
        text.lines().filter(|line| line.split_whitespace().next() == Some(name)).count()
    };
    assert_eq!(["bernoulli", "sobol", "lfsr"].map(lines), [8, 8, 8], "{text}");
    assert!(text.contains("sobol: within one point of floating point from 16 bits on"), "{text}");
    assert!(text.contains("56 cells in"));
}

#[test]
fn eval_prints_json() {
    let generators = "halton,sobol:3+lfsr:9,bernoulli+sobol:2,vdc+bernoulli";
    let output = aleatron(&[
        "eval",
        "plain",
        "--lengths",
        "16,64",
        "--generators",
        generators,
        "--seeds",
        "2",
        "--json",
    ]);
    let evaluation: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(evaluation["network"]["name"], "plain");
    assert_eq!(
        evaluation["plan"]["generators"],
        serde_json::json!(generators.split(',').collect::<Vec<_>>())
    );
    let cells = evaluation["cells"].as_array().unwrap();
    // Both seeds where an operand has random bits.
    assert_eq!(cells.len(), 2 + 2 + 4 + 4);
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
    let arguments = |lengths| ["eval", "--lengths", lengths, "--report", &report].map(String::from);
    let run = |lengths, more: &[&str]| {
        let arguments = arguments(lengths);
        let generators: &[&str] =
            if more.contains(&"--generators") { &[] } else { &["--generators", "sobol"] };
        let all = arguments.iter().map(String::as_str).chain(generators.iter().copied());
        aleatron(&all.chain(more.iter().copied()).collect::<Vec<_>>())
    };
    assert!(run("8,16", &[]).status.success());
    let result = |name: &str| std::fs::read_to_string(Path::new(&report).join(name)).unwrap();
    let first: Value = serde_json::from_str(&result("evaluation.json")).unwrap();
    assert!(run("8,16,32", &["--resume"]).status.success());
    let second: Value = serde_json::from_str(&result("evaluation.json")).unwrap();
    // The time a cell took shows that it was not run again.
    assert_eq!(first["cells"].as_array().unwrap()[..], second["cells"].as_array().unwrap()[..2]);
    assert_eq!(second["cells"].as_array().unwrap().len(), 3);
    // Plans with fewer or other settings lose no finished cell.
    let third = run("8", &["--resume", "--generators", "bernoulli", "--seeds", "2"]);
    assert!(third.status.success(), "{}", String::from_utf8_lossy(&third.stderr));
    let third: Value = serde_json::from_str(&result("evaluation.json")).unwrap();
    assert_eq!(third["cells"].as_array().unwrap().len(), 5);
    assert!(result("evaluation.csv").lines().count() == 6, "{}", result("evaluation.csv"));
    let page = result("index.html");
    for part in [
        "Accuracy against length",
        "Stopping early",
        "Confusion",
        "Error of the layers",
        "layer hidden error",
        "From 87 to 100 %",
        "until certain",
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
    // An inconsistent file is an error and stays unchanged.
    let file = Path::new(&report).join("evaluation.json");
    let broken = result("evaluation.json").replacen("\"accuracy\": 0.", "\"accuracy\": 17.", 1);
    std::fs::write(&file, &broken).unwrap();
    let refused = fault(&run("8", &["--resume"]));
    assert!(refused.contains("evaluation.json") && refused.contains("not in [0, 1]"), "{refused}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), broken);
}

/// A destination that cannot be written is found out before the work, not after it.
#[test]
fn unwritable_destination_is_an_error_before_the_run() {
    let folder = Folder::new("unwritable");
    std::fs::write(folder.join("file"), "").unwrap();
    let start = std::time::Instant::now();
    let arguments =
        ["eval", "--lengths", "1048576", "--seeds", "100", "--report", &folder.join("file")];
    assert!(fault(&aleatron(&arguments)).contains("file: "));
    assert!(fault(&aleatron(&["tables", "--report", &folder.join("file/t")])).contains("file/t: "));
    assert!(start.elapsed().as_secs() < 60, "the evaluation itself takes hours");
}

#[test]
fn eval_reads_networks_and_data_from_files() {
    let folder = Folder::new("files");
    let net = copying(&folder, Polarity::Bipolar);
    std::fs::write(folder.join("data.csv"), "x,y,class\n0.9,-0.9,0\n-0.5,0.5,1\n0.2,0.8,1\n")
        .unwrap();
    let data = folder.join("data.csv");
    let output = aleatron(&[
        "eval",
        &net,
        "--data",
        &data,
        "--generators",
        "sobol",
        "--lengths",
        "64",
        "--json",
    ]);
    let evaluation: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(evaluation["cells"][0]["accuracy"], 1.0);
    assert_eq!(evaluation["network"]["sizes"], serde_json::json!([2, 2]));

    let digits = fault(&aleatron(&["eval", &net]));
    assert!(digits.contains("the samples have 64 features, the network takes 2"), "{digits}");
    assert!(digits.contains("--data"), "{digits}");
    let missing = fault(&aleatron(&["eval", "nowhere"]));
    assert!(
        missing.contains("nowhere: ") && missing.contains("noise_aware, plain or cnn"),
        "{missing}"
    );
    // A name with another ending is not the network of the same stem.
    assert!(fault(&aleatron(&["eval", &folder.join("net.v2")])).contains("net.v2: "));
    for (name, part) in [
        ("model.pt", "torch.onnx.export"),
        ("model.PTH", "torch.onnx.export"),
        ("model.h5", "tf2onnx"),
        ("model.keras", "tf2onnx"),
        ("model.tflite", "--tflite"),
        ("model.pkl", "skl2onnx"),
        ("model.joblib", "skl2onnx"),
    ] {
        let output = aleatron(&["eval", name]);
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert!(fault(&output).contains(part), "{name}: {}", fault(&output));
    }
    // Columns by name, other separators, and values that do not fit.
    std::fs::write(folder.join("named.csv"), "class;x;y\n0;0.9;-0.9\n1;-0.5;0.5\n").unwrap();
    let named =
        ["eval", &net, "--data", &folder.join("named.csv"), "--label", "class", "--lengths", "64"];
    assert!(aleatron(&named).status.success());
    std::fs::write(folder.join("large.csv"), "2.5,0,0\n0,1,1\n").unwrap();
    let (large, clip) =
        (folder.join("large.csv"), ["--generators", "sobol", "--lengths", "64", "--clip"]);
    let arguments = ["eval", &net, "--data", &large].map(str::to_owned);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let refused = fault(&aleatron(&arguments));
    assert!(
        refused.contains("sample 0, feature 0 is 2.5, not in [-1, 1]")
            && refused.contains("--clip"),
        "{refused}"
    );
    let clipped = aleatron(&[&arguments[..], &clip].concat());
    assert!(text(&clipped).contains("clipped: 1 feature outside"), "{}", text(&clipped));
    std::fs::write(folder.join("bad.csv"), "0.9,-0.9,0\n0.1,oops,1\n").unwrap();
    let bad = fault(&aleatron(&["eval", &net, "--data", &folder.join("bad.csv")]));
    assert!(bad.contains("bad.csv, line 2: \"oops\" is not a number"), "{bad}");
}

/// Returns a network that copies its two inputs to two outputs, with scales of 1.
fn copying(folder: &Folder, polarity: Polarity) -> String {
    let network = NetworkBuilder::new("copy", &[2])
        .dense("a", 2, &[1.0, 0.0, 0.0, 1.0], &[])
        .build()
        .unwrap();
    let path = folder.join("net.onnx");
    network.with_polarity(polarity).unwrap().save(&path).unwrap();
    path
}

#[test]
fn eval_reads_arrays_in_chunks_and_evaluates_regression() {
    let folder = Folder::new("arrays");
    let net = copying(&folder, Polarity::Signed);
    let x = folder.npy("x.npy", "|u1", "(3, 2)", &[255, 0, 51, 102, 0, 255]);
    let c = folder.npy("c.npy", "|u1", "(3,)", &[0, 1, 1]);
    let t = folder.floats("t.npy", "(3, 2)", &[1.0, 0.5, 0.2, 0.4, 0.0, 1.0]);
    let run = |more: &[&str]| {
        let common = ["eval", &net, "--data", &x, "--generators", "sobol", "--lengths", "256"];
        aleatron(&[&common[..], more].concat())
    };
    let classes = run(&["--labels", &c, "--divide", "255", "--json"]);
    let found: Value = serde_json::from_slice(&classes.stdout).unwrap();
    assert_eq!(found["cells"][0]["accuracy"], 1.0);
    let raw = fault(&run(&["--labels", &c]));
    assert!(
        raw.contains("sample 0, feature 0 is 255, not in [-1, 1]") && raw.contains("--divide 255"),
        "{raw}"
    );
    assert!(fault(&run(&[])).contains("labels"));
    assert_eq!(run(&["--labels", &c, "--divide", "0"]).status.code(), Some(2));

    let regression = ["--labels", &t, "--divide", "255", "--task", "regression"];
    let found: Value =
        serde_json::from_slice(&run(&[&regression[..], &["--json"]].concat()).stdout).unwrap();
    // All targets but one of six are met, that one is half off; what single precision rounds is
    // left.
    let float = found["float"]["mean_absolute"].as_f64().unwrap();
    assert!((float - 0.5 / 6.0).abs() < 1e-7, "{float}");
    assert_eq!(
        found["cells"][0]["to_targets"]["root_mean_square"].as_f64().map(|e| e < 0.3),
        Some(true)
    );
    let shown = text(&run(&regression));
    assert!(
        shown.contains("rms to float") && shown.contains("floating point: mean error 0.0833"),
        "{shown}"
    );
    let csv = text(&run(&[&regression[..], &["--csv"]].concat()));
    assert_eq!(csv.lines().count(), 2);
    let report = folder.join("r");
    assert!(run(&[&regression[..], &["--report", &report]].concat()).status.success());
    assert!(run(&[&regression[..], &["--report", &report, "--resume"]].concat()).status.success());
    assert!(
        std::fs::read_to_string(folder.join("r/index.html"))
            .unwrap()
            .contains("Error against length")
    );
    // Shards and searches are those of classes.
    let without_times = |output: &Output| {
        let found = std::str::from_utf8(&output.stdout).unwrap();
        aleatron::eval::Evaluation::from_json(found).unwrap().without_times()
    };
    let shards = folder.join("shards");
    for shard in ["1/2", "2/2"] {
        let output = run(&[&regression[..], &["--shard", shard, "--report", &shards]].concat());
        assert!(output.status.success(), "{}", fault(&output));
    }
    let whole = run(&[&regression[..], &["--json"]].concat());
    assert_eq!(without_times(&aleatron(&["merge", &shards, "--json"])), without_times(&whole));
    let search =
        run(&[&regression[..], &["--find", "1", "--lengths", "16,256", "--json"]].concat());
    let search: Value = serde_json::from_slice(&search.stdout).unwrap();
    assert_eq!(search["measure"], "r_squared");
    assert!(search["score"].as_f64() >= search["bar"].as_f64(), "{search}");
    assert!(
        fault(&run(&["--labels", &t, "--divide", "255"]))
            .contains("has shape [3, 2], expected (samples)")
    );
    for (arguments, part) in [
        (&["eval", "--task", "regression"][..], "needs --data"),
        (&["eval", "--task", "guessing"], "invalid value"),
        (&["eval", "--labels", &c], "--data"),
    ] {
        let output = aleatron(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(fault(&output).contains(part), "{arguments:?}: {}", fault(&output));
    }
}

#[test]
fn invalid_arguments_are_exit_code_two() {
    for (arguments, part) in [
        (&["eval", "--generators", "sobl"][..], "is not a generator"),
        (&["eval", "--generators", "bernoulli:3+sobol"], "bernoulli takes no parameter"),
        (&["eval", "--lengths", "0"], "a length is a whole number of bits from 1 to 17179869184"),
        (&["eval", "--lengths", "-5"], "a length is a whole number of bits"),
        (&["eval", "--lengths", "99999999999"], "a length is a whole number of bits"),
        (&["eval", "--width", "99"], "generator width is 99, the maximum is 32"),
        (&["eval", "--seeds", "0"], "a whole number from 1 on is needed"),
        (
            &["eval", "--seeds", "1000000000000"],
            "number of seeds is 1000000000000, the maximum is 1048576",
        ),
        (&["eval", "--sharing", "each"], "use all, input or stream"),
        (&["eval", "--device", "tpu"], "there is no device \"tpu\""),
        (&["eval", "--arithmetic", "fixed"], "use float or integer"),
        (&["eval", "--layer", "output"], "use NAME:length=64"),
        (&["eval", "--layer", "output:length=0"], "stream length must be at least 1"),
        (&["eval", "--layer", "last:length=3"], "the layers are hidden, output"),
        (
            &["eval", "--layer", "output:length=3", "--layer", "output:length=4"],
            "\"output\" is given twice",
        ),
        (&["eval", "--generators", "sobol:1+sobol:5000"], "Sobol dimension is 5000"),
        (&["eval", "--generators", "sobol", "--sharing", "stream"], "Sobol dimension"),
        (&["eval", "--json", "--csv"], "cannot be used with"),
        (&["eval", "--layer", "output:length=3,length=4"], "length is given twice"),
        (&["eval", "--layer", "output:width=3,length=4,width=3"], "width is given twice"),
        (&["eval", "--budget", "3"], "--find"),
        (&["eval", "--find", "1", "--shard", "1/2", "--report", "nowhere"], "cannot be used with"),
        (&["eval", "--find", "1"], "give one generator"),
        (&["eval", "--generators", "sobol", "--find", "nan"], "percentage points"),
        (
            &["eval", "--generators", "sobol", "--find", "1", "--layer", "hidden:length=8"],
            "layer \"hidden\" has the length 8",
        ),
        (&["eval", "--shape", "n=0"], "use NAME=SIZE"),
        (&["eval", "--input", "mask"], "use NAME=NUMBER or NAME=FILE.npy"),
        (&["eval", "--input", "mask=one.txt"], "use a number or an .npy file"),
        (&["eval", "--weight-scale", "column"], "use row or tensor"),
        (&["eval", "--layout", "hwc"], "use nchw (channels first) or nhwc"),
        (&["eval", "--layout", "nhwc"], "--layout is for .npz and .npy files"),
        (&["eval", "--x", "images"], "--x and --y are for .npz files"),
        (&["eval", "--classes", "a,b"], "--classes needs --data"),
        (&["eval", "--resume", "--force", "--report", "r"], "cannot be used with"),
        (&["eval", "--force"], "--report"),
        (&["eval", "--label", "0"], "--header and --label are for .csv files"),
        (&["eval", "--header", "no", "--data", "x.npz"], "--header and --label are for .csv files"),
        (&["tables", "foo"], "use X+Y"),
        (&["tables", "sobol:1"], "use X+Y"),
        (&["tables", "sobol:0+ramp"], "Sobol dimension must be at least 1"),
        (&["tables", "--lengths", "4294967297"], "past the 268435456 bits"),
        (&["bench", "cpu", "--length", "0"], "a length is a whole number of bits"),
        (&["bench", "gpu", "--device", "cpu"], "cpu is not a GPU"),
    ] {
        let output = aleatron(arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(part), "{arguments:?}: {error}");
    }
}

#[test]
fn help_shows_defaults() {
    let help = text(&aleatron(&["eval", "--help"]));
    // Wrapped to the terminal.
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for default in [
        "[default: 8 16 32 64 128 256 512 1024]",
        "[default: bernoulli sobol lfsr]",
        "[default: 3]",
        "[default: auto]",
    ] {
        assert!(help.contains(default), "{default} is missing:\n{help}");
    }
}

#[test]
fn layers_and_arithmetic_can_be_set() {
    let run = |more: &[&str]| {
        let output = aleatron(
            &[&["eval", "--lengths", "32", "--generators", "sobol", "--json"], more].concat(),
        );
        let mut evaluation: Value = serde_json::from_slice(&output.stdout).unwrap();
        evaluation["cells"][0]["layers"].take()
    };
    let plain = run(&[]);
    assert_ne!(run(&["--arithmetic", "integer"]), plain);
    assert_ne!(run(&["--layer", "output:length=64,generator=halton"]), plain);
    let mixed = run(&["--layer", "output:generator=bernoulli+sobol:2", "--seeds", "1"]);
    assert_ne!(mixed, plain);
    assert_ne!(run(&["--layer", "output:generator=sobol:1+bernoulli", "--seeds", "1"]), mixed);
    assert_eq!(run(&["--layer", "output:length=32", "--layer", "hidden:generator=sobol"]), plain);
}

#[test]
fn tables_fit_the_terminal() {
    let output = Command::new(env!("CARGO_BIN_EXE_aleatron"))
        .args(["eval", "--lengths", "8,16", "--generators", "sobol"])
        .env("COLUMNS", "44")
        .output()
        .unwrap();
    let text = text(&output);
    let widest = text.lines().skip(2).take(4).map(|line| line.chars().count()).max().unwrap();
    assert!(widest <= 44 && text.contains("accuracy %") && !text.contains("bit-MAC/s"), "{text}");
    assert!(text.contains("2 cells in"), "{text}");
}

#[test]
fn tables_hold_the_known_values() {
    let output = aleatron(&["tables", "sobol:1+sobol:2", "lfsr:1+lfsr:113", "--json"]);
    let errors: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let mae: Vec<String> =
        errors.iter().map(|e| format!("{:.5}", e["mae"].as_f64().unwrap())).collect();
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
        aleatron(&["tables", "ramp+vdc", "--lengths", "64", "--report", &folder.join("t")])
            .status
            .success()
    );
    for name in ["index.html", "tables.csv", "ramp_vdc_64.svg"] {
        assert!(!std::fs::read(folder.0.join("t").join(name)).unwrap().is_empty(), "{name}");
    }
}

/// The same cells on a GPU, times aside; the software one of Mesa if no other is named.
#[cfg(feature = "gpu")]
#[test]
fn eval_on_a_gpu_equals_eval_on_the_cpu() {
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
    assert_eq!(cells("gpu,cpu"), cells("cpu"));
}

/// Ctrl-C saves finished cells as a table and as a file.
#[cfg(unix)]
#[test]
fn interrupted_eval_saves_finished_cells() {
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
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_secs(2));
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("unfinished: "), "{}", text(&output));
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    let command = said.lines().find_map(|line| line.split_once("go on with: ")).unwrap().1;
    assert!(
        command.contains("aleatron eval --generators bernoulli") && command.ends_with(" --resume"),
        "{command}"
    );
    let result = std::fs::read_to_string(Path::new(&report).join("evaluation.json")).unwrap();
    let result: Value = serde_json::from_str(&result).unwrap();
    let (done, left) =
        (result["cells"].as_array().unwrap().len(), result["unfinished"].as_u64().unwrap());
    assert!(done > 0 && left > 0 && done as u64 + left == 399 * 50, "{done} and {left}");
}

/// A fault during the run, here exhausted memory, loses no finished cell.
#[cfg(target_os = "linux")]
#[test]
fn failed_eval_saves_finished_cells() {
    let folder = Folder::new("fault");
    let limited = |lengths: &str| {
        let mut command = Command::new("prlimit");
        command.args([
            "--as=400000000",
            env!("CARGO_BIN_EXE_aleatron"),
            "eval",
            "--seeds",
            "1",
            "--resume",
        ]);
        command.args([
            "--generators",
            "bernoulli",
            "--device",
            "cpu",
            "--lengths",
            lengths,
            "--report",
        ]);
        command.arg(&folder.0).output().unwrap()
    };
    let fresh = Command::new(env!("CARGO_BIN_EXE_aleatron"))
        .args(["eval", "--seeds", "1", "--generators", "bernoulli", "--lengths", "8", "--report"])
        .arg(&folder.0)
        .output()
        .unwrap();
    assert!(fresh.status.success());
    // The weights of this length alone take more.
    let output = limited("16,1048576");
    assert_eq!(output.status.code(), Some(1));
    let message = fault(&output);
    assert!(
        message.contains("weights would take") && message.contains("go on with: "),
        "{message}"
    );
    let text = std::fs::read_to_string(folder.join("evaluation.json")).unwrap();
    let kept: Value = serde_json::from_str(&text).unwrap();
    let lengths: Vec<&Value> =
        kept["cells"].as_array().unwrap().iter().map(|cell| &cell["length"]).collect();
    assert_eq!(lengths, [8, 16]);
    assert_eq!(kept["unfinished"], 1);
}

const SMALL: [&str; 6] = ["eval", "plain", "--lengths", "8", "--generators", "sobol"];

#[test]
fn reports_of_other_evaluations_are_not_replaced() {
    let folder = Folder::new("replace");
    let report = folder.join("r");
    let run = |arguments: &[&str], more: &[&str]| {
        aleatron(&[arguments, &["--report", &report], more].concat())
    };
    // A folder that is missing or empty has nothing to resume, and the run starts.
    assert!(run(&SMALL, &["--resume"]).status.success());
    // A finished report of the same is replaced.
    assert!(run(&SMALL, &[]).status.success());
    let other = ["eval", "cnn", "--lengths", "8", "--generators", "sobol"];
    let refused = fault(&run(&other, &[]));
    assert!(
        refused.contains("it holds a report of network plain") && refused.contains("--force"),
        "{refused}"
    );
    let file = Path::new(&report).join("evaluation.json");
    let whole = std::fs::read_to_string(&file).unwrap();
    let mut unfinished: Value = serde_json::from_str(&whole).unwrap();
    unfinished["unfinished"] = 1.into();
    std::fs::write(&file, unfinished.to_string()).unwrap();
    let refused = fault(&run(&SMALL, &[]));
    assert!(
        refused.contains("unfinished report: go on with --resume, or replace it with --force"),
        "{refused}"
    );
    assert!(run(&SMALL, &["--resume"]).status.success());
    std::fs::write(&file, "{}").unwrap();
    assert!(fault(&run(&SMALL, &[])).contains("a report of something else"));
    assert!(run(&other, &["--force"]).status.success());
    // A page that no report wrote.
    std::fs::create_dir_all(folder.join("site")).unwrap();
    std::fs::write(folder.join("site/index.html"), "mine").unwrap();
    let refused = fault(&aleatron(&[&SMALL[..], &["--report", &folder.join("site")]].concat()));
    assert!(refused.contains("a page of something else"), "{refused}");
    assert_eq!(std::fs::read_to_string(folder.join("site/index.html")).unwrap(), "mine");
}

#[test]
fn second_process_cannot_write_a_report() {
    let folder = Folder::new("lock");
    let lock = std::fs::File::create(folder.join(".aleatron.lock")).unwrap();
    lock.lock().unwrap();
    let refused =
        fault(&aleatron(&[&SMALL[..], &["--report", &folder.0.display().to_string()]].concat()));
    assert!(refused.contains("is writing this report"), "{refused}");
    drop(lock);
    assert!(
        aleatron(&[&SMALL[..], &["--report", &folder.0.display().to_string()]].concat())
            .status
            .success()
    );
}

/// A process that is killed leaves the cells that were finished.
#[cfg(unix)]
#[test]
fn killed_process_leaves_finished_cells() {
    let folder = Folder::new("killed");
    let report = folder.join("r");
    let lengths: Vec<String> = (1..400).map(|k| (64 * k).to_string()).collect();
    let mut child = Command::new(env!("CARGO_BIN_EXE_aleatron"))
        .args(["eval", "--generators", "bernoulli", "--seeds", "50", "--report", &report])
        .args(["--lengths", &lengths.join(",")])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let file = Path::new(&report).join("evaluation.json");
    let start = std::time::Instant::now();
    while !file.exists() && start.elapsed().as_secs() < 60 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let found: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert!(!found["cells"].as_array().unwrap().is_empty());
}

#[test]
fn names_are_read_in_any_case() {
    let run = |arguments: &[&str]| {
        let output = aleatron(arguments);
        assert!(output.status.success(), "{}", fault(&output));
        let mut found: Value = serde_json::from_slice(&output.stdout).unwrap();
        found["cells"][0]["confusion"].take()
    };
    let lower = [
        "eval",
        "cnn",
        "--lengths",
        "8",
        "--generators",
        "sobol",
        "--polarity",
        "bipolar",
        "--device",
        "cpu",
    ];
    let upper = [
        "eval",
        "CNN",
        "--lengths",
        "8",
        "--generators",
        "SOBOL",
        "--polarity",
        "Bipolar",
        "--device",
        "CPU",
    ];
    let rest =
        ["--task", "Classification", "--arithmetic", "INTEGER", "--sharing", "ALL", "--json"];
    assert_eq!(
        run(&[&upper[..], &rest].concat()),
        run(&[&lower[..], &["--arithmetic", "integer", "--json"]].concat())
    );
}

#[test]
fn eval_with_faults_has_a_row_for_each_site_and_rate() {
    let folder = Folder::new("faults");
    let report = folder.join("r");
    let plan = ["eval", "--lengths", "32", "--generators", "sobol", "--seeds", "2"];
    let run = |more: &[&str]| aleatron(&[&plan[..], more].concat());
    let faults = ["--faults", "0,1e-3,0.2", "--fault-site", "streams,memory", "--device", "cpu"];
    let output = run(&[&faults[..], &["--report", &report]].concat());
    assert!(output.status.success(), "{}", fault(&output));
    let shown = text(&output);
    assert!(shown.contains("fault site") && shown.contains("fault rate"), "{shown}");
    let lines = |site: &str| shown.lines().filter(|line| line.contains(site)).count();
    assert_eq!(["inputs+weights", "memory"].map(lines), [2, 2], "{shown}");
    let page = std::fs::read_to_string(Path::new(&report).join("index.html")).unwrap();
    assert!(page.contains("Accuracy against fault rate"));
    // Resumed with another rate, finished cells stay.
    let more = [
        "--faults",
        "0,1e-3,0.1,0.2",
        "--fault-site",
        "streams,memory",
        "--device",
        "cpu",
        "--json",
    ];
    let output = run(&[&more[..], &["--report", &report, "--resume"]].concat());
    let whole: Value = serde_json::from_slice(&output.stdout).unwrap();
    let cells = whole["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 1 + 2 * 3 * 2);
    assert_eq!(cells[1]["faults"], serde_json::json!({"sites": "inputs+weights", "rate": 0.001}));
    assert!(cells[0].get("faults").is_none());
}

#[test]
fn impossible_faults_are_usage_errors() {
    for (arguments, part) in [
        (&["--faults", "0.6"][..], "use 0 or a number from 1e-9 to 0.5"),
        (&["--faults", "-0.1"], "use 0 or a number from 1e-9 to 0.5"),
        (&["--faults", "nan"], "use 0 or a number from 1e-9 to 0.5"),
        (&["--faults", "0.1,0.1"], "the fault rate 0.1 is given twice"),
        (
            &["--faults", "0.1", "--fault-site", "wires"],
            "use streams (inputs and weights), inputs, weights",
        ),
        (
            &["--faults", "0.1", "--fault-site", "memory", "--fault-kind", "transient"],
            "use permanent",
        ),
        (&["--faults", "0.1", "--fault-kind", "burst"], "burst=CYCLES"),
        (&["--faults", "0.1", "--fault-site", "accumulators"], "use integer arithmetic"),
        (&["--faults", "0.1", "--fault-layer", "none"], "none"),
        (&["--fault-site", "memory"], "--faults"),
        (
            &["--faults", "0.1", "--find", "1", "--generators", "sobol"],
            "--find cannot be combined with --faults",
        ),
    ] {
        let output = aleatron(&[&["eval"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", fault(&output));
        assert!(fault(&output).contains(part), "{arguments:?}: {}", fault(&output));
    }
}

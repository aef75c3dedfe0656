//! `eval MODEL_DIR --text FILE` and `generate --length BITS` as a user runs them.
#![cfg(feature = "transformer")]
#![allow(clippy::unwrap_used)]

mod common;

use common::{Folder, aleatron, command, fault, good, json, text};
use serde_json::Value;

/// A model with a tokenizer.
const MODEL: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../aleatron-transformer/tests/golden/qwen2");
/// A model without one, and an adapter of it.
const BARE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../aleatron-transformer/tests/golden/llama");
const ADAPTER: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../aleatron-transformer/tests/golden/llama-lora");
const TEXT: &str =
    "the cat and the hat: 5 € for the naïve, and then the cat sat on the mat with a hat. ";

/// Returns the message of a failure with this exit code.
fn fault_code(output: std::process::Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    fault(&output)
}

fn with_text(name: &str) -> (Folder, String) {
    let folder = Folder::new(name);
    let path = folder.join("cats.txt");
    std::fs::write(&path, TEXT.repeat(3)).unwrap();
    (folder, path)
}

#[test]
fn eval_of_a_model_prints_losses() {
    let (_folder, path) = with_text("language-table");
    let base =
        ["eval", MODEL, "--text", &path, "--lengths", "64,32", "--seeds", "2", "--context", "32"];
    let output = text(&good(aleatron(&base)));
    for part in
        ["Model qwen2 (f32)", "float", "bernoulli", "sobol", "bits/byte", "not evaluated", "7 runs"]
    {
        assert!(output.contains(part), "{part}: {output}");
    }
    let found = json(&[&base[..], &["--json"]].concat());
    let rows = found["rows"].as_array().unwrap();
    let names: Vec<_> =
        rows.iter().map(|row| (row["generator"].as_str().unwrap(), &row["length"])).collect();
    let expected = [("bernoulli", 32), ("bernoulli", 64), ("sobol", 32), ("sobol", 64)];
    assert!(names.iter().zip(expected).all(|(a, b)| a.0 == b.0 && *a.1 == b.1), "{names:?}");
    assert_eq!(
        (&found["context"], &found["unfinished"], &found["model"]),
        (&32.into(), &0.into(), &"qwen2".into())
    );
    let csv = text(&good(aleatron(&[&base[..], &["--csv"]].concat())));
    assert_eq!((csv.lines().count(), csv.lines().nth(1).unwrap().split(',').count()), (6, 13));
}

#[test]
fn embedded_model_needs_no_files() {
    let few = ["--lengths", "64", "--generators", "sobol", "--max-tokens", "300"];
    let found = json(&[&["eval", "bytes", "--json"], &few[..]].concat());
    assert_eq!((&found["model"], &found["predicted_tokens"]), (&"bytes".into(), &300.into()));
    // A model that knew nothing would need ln 256 = 5.5 nats for a byte, and the frequencies of
    // letters give about 3.
    assert!(found["float"]["loss"].as_f64().unwrap() < 1.8, "{found}");
    assert!(found["rows"][0]["added_loss"].as_f64().unwrap() < 0.5, "{found}");
    assert_eq!(found["rows"][0]["width"], 5);
    let output = text(&good(aleatron(&[
        "generate",
        "bytes",
        "Anne was",
        "--max-tokens",
        "20",
        "--device",
        "cpu",
    ])));
    assert!(output.trim_end().len() > 10, "{output}");
    let streams = [
        "generate",
        "bytes",
        "Anne was",
        "--max-tokens",
        "8",
        "--length",
        "1024",
        "--generator",
        "sobol",
    ];
    let output = good(aleatron(&streams));
    // Input scales come from the embedded text.
    assert!(!String::from_utf8_lossy(&output.stderr).contains("warning"), "{output:?}");
    let other = fault_code(aleatron(&["eval", "./bytes", "--max-tokens", "3"]), 2);
    assert!(other.contains("--max-tokens is for language models"), "{other}");
}

/// Shards, merged, have the losses of one run; a shard that is resumed runs nothing again.
#[test]
fn shards_of_a_model_merge_to_the_whole() {
    let folder = Folder::new("language-shards");
    let (shards, report) = (folder.join("shards"), folder.join("report"));
    let base = [
        "eval",
        "bytes",
        "--lengths",
        "16,32",
        "--seeds",
        "2",
        "--max-tokens",
        "200",
        "--context",
        "32",
    ];
    for shard in ["1/3", "3/3", "2/3"] {
        let own = ["--shard", shard, "--report", &shards];
        good(aleatron(&[&base[..], &own].concat()));
        let again = text(&good(aleatron(&[&base[..], &own, &["--resume"]].concat())));
        assert!(again.contains("0 tasks"), "{again}");
    }
    let timeless = |mut found: Value| {
        // The runs of the shards and their merge are others than the one run.
        let runs = found.as_object_mut().unwrap().remove("provenance").unwrap();
        assert!([1, 7].contains(&runs.as_array().unwrap().len()), "{runs}");
        for row in found["rows"].as_array_mut().unwrap() {
            row["tokens_per_second"] = 0.into();
            row["seeds"]
                .as_array_mut()
                .unwrap()
                .iter_mut()
                .for_each(|run| run["seconds"] = 0.into());
        }
        found
    };
    let whole = timeless(json(&[&base[..], &["--json"]].concat()));
    assert_eq!(timeless(json(&["merge", &shards, "--report", &report, "--json"])), whole);
    assert!(std::path::Path::new(&report).join("index.html").exists());
    // A shard of another plan is an error, and a missing one is named.
    let other = [
        "eval",
        "bytes",
        "--lengths",
        "16",
        "--max-tokens",
        "200",
        "--shard",
        "1/3",
        "--report",
        &shards,
    ];
    assert!(fault_code(aleatron(&other), 1).contains("something else"));
    std::fs::remove_file(std::path::Path::new(&shards).join("shard-1-of-3.jsonl")).unwrap();
    let missing = fault_code(aleatron(&["merge", &shards]), 1);
    assert!(missing.contains("missing shards: 1/3"), "{missing}");
}

#[test]
fn search_for_lengths_of_products_writes_them() {
    let folder = Folder::new("language-find");
    let report = folder.join("found");
    let base =
        ["eval", "bytes", "--lengths", "64,128", "--generators", "sobol", "--max-tokens", "100"];
    let output =
        text(&good(aleatron(&[&base[..], &["--find", "0.3", "--report", &report]].concat())));
    assert!(
        output.contains("Model bytes, sobol") && output.contains("nats/token wanted"),
        "{output}"
    );
    let layers = std::path::Path::new(&report).join("layers.json");
    let own =
        ["eval", "bytes", "--layers", layers.to_str().unwrap(), "--generators", "sobol", "--json"];
    let found = json(&[&own[..], &["--max-tokens", "100"]].concat());
    assert!(found["rows"][0]["added_loss"].as_f64().unwrap() <= 0.3 + 1e-9, "{found}");
    for (arguments, part) in [
        (&["--find=-1", "--generators", "sobol"][..], "--find: -1"),
        (&["--find", "0.1", "--generators", "sobol,bernoulli"], "one generator"),
        (&["--find", "0.1", "--sensitivity"], "--sensitivity"),
    ] {
        let error =
            fault_code(aleatron(&[&["eval", "bytes", "--lengths", "64"], arguments].concat()), 2);
        assert!(error.contains(part), "{error}");
    }
}

/// The options reach the evaluation, and results are the same on any device.
#[test]
fn eval_of_a_model_follows_its_options() {
    let (_folder, path) = with_text("language-options");
    let run = |more: &[&str]| {
        let base = [
            "eval",
            MODEL,
            "--text",
            &path,
            "--lengths",
            "64",
            "--generators",
            "sobol",
            "--json",
            "--device",
            "cpu",
        ];
        json(&[&base[..], more].concat())
    };
    let plain = run(&[]);
    let loss = |found: &Value| found["rows"][0]["loss"]["mean"].as_f64().unwrap();
    assert_eq!(loss(&run(&[])), loss(&plain));
    assert_ne!(loss(&run(&["--width", "7"])), loss(&plain));
    assert_ne!(loss(&run(&["--percentile", "0.9"])), loss(&plain));
    assert_ne!(loss(&run(&["--layer", "head:length=16"])), loss(&plain));
    assert_ne!(run(&["--precision", "int8"])["float"]["loss"], plain["float"]["loss"]);
    let few = run(&["--max-tokens", "9", "--calibration-tokens", "20"]);
    assert_eq!((&few["predicted_tokens"], &few["calibration_tokens"]), (&9.into(), &20.into()));
    assert_eq!(run(&["--sensitivity"])["sensitivity"].as_array().unwrap().len(), 9);
}

#[cfg(feature = "gpu")]
#[test]
fn eval_of_a_model_has_the_same_losses_on_a_gpu() {
    let (_folder, path) = with_text("language-gpu");
    let rows = |device: &str| {
        let arguments = [
            "eval",
            MODEL,
            "--text",
            &path,
            "--lengths",
            "48",
            "--seeds",
            "1",
            "--json",
            "--device",
            device,
        ];
        let mut command = command(&arguments);
        if std::env::var_os("SC_GPU_ADAPTER").is_none() {
            command.env("SC_GPU_ADAPTER", "llvmpipe");
        }
        let found: Value = serde_json::from_slice(&good(command.output().unwrap()).stdout).unwrap();
        assert_eq!(found["device"], device);
        let rows = found["rows"].as_array().unwrap().clone();
        rows.into_iter()
            .map(|row| (row["loss"].clone(), row["agreement"].clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(rows("gpu"), rows("cpu"));
}

#[test]
fn reports_of_models_are_not_replaced_by_accident() {
    let (folder, path) = with_text("language-report");
    let report = folder.join("report");
    let run = |more: &[&str]| {
        let base = [
            "eval",
            MODEL,
            "--text",
            &path,
            "--lengths",
            "32",
            "--generators",
            "sobol",
            "--report",
            &report,
        ];
        aleatron(&[&base[..], more].concat())
    };
    good(run(&["--sensitivity"]));
    let page = std::fs::read_to_string(folder.join("report/index.html")).unwrap();
    for part in ["qwen2 as streams", "<svg", "One linear product as streams", "layers.1.down"] {
        assert!(page.contains(part), "{part}");
    }
    good(run(&[]));
    let file = folder.join("report/evaluation.json");
    let unfinished =
        std::fs::read_to_string(&file).unwrap().replace("\"unfinished\": 0", "\"unfinished\": 2");
    std::fs::write(&file, unfinished).unwrap();
    assert!(fault(&run(&[])).contains("unfinished report"));
    std::fs::write(&file, "{}").unwrap();
    assert!(fault(&run(&[])).contains("something else"));
    good(run(&["--force"]));
}

#[test]
fn resumed_evaluation_of_a_model_retains_finished_runs() {
    let (folder, path) = with_text("language-resume");
    let report = folder.join("report");
    let run = |more: &[&str]| {
        let base = [
            "eval",
            MODEL,
            "--text",
            &path,
            "--generators",
            "bernoulli",
            "--report",
            &report,
            "--json",
        ];
        aleatron(&[&base[..], more].concat())
    };
    let read = |output| -> Value { serde_json::from_slice(&good(output).stdout).unwrap() };
    let first = read(run(&["--lengths", "64", "--seeds", "2"]));
    let resumed = read(run(&["--lengths", "32,64", "--seeds", "3", "--resume"]));
    let seeds = |found: &Value, row: usize| found["rows"][row]["seeds"].as_array().unwrap().clone();
    // Times included: these runs were not repeated.
    assert_eq!(seeds(&resumed, 1)[..2], seeds(&first, 0));
    assert_eq!((seeds(&resumed, 0).len(), seeds(&resumed, 1).len()), (3, 3));
    let fresh = read(run(&["--lengths", "32,64", "--seeds", "3"]));
    for row in 0..2 {
        for name in ["length", "loss", "agreement", "perplexity"] {
            assert_eq!(fresh["rows"][row][name], resumed["rows"][row][name], "{name}");
        }
    }
    // Fewer lengths lose nothing; other settings and texts are errors.
    assert_eq!(seeds(&read(run(&["--lengths", "64", "--seeds", "1", "--resume"])), 0).len(), 3);
    assert!(fault(&run(&["--resume", "--percentile", "0.9"])).contains("differs in its quantile"));
    std::fs::write(&path, TEXT.repeat(3).replace("mat", "rat")).unwrap();
    let message = fault(&run(&["--resume"]));
    assert!(
        message.contains("differs in the model or the text") && message.contains("--force"),
        "{message}"
    );
}

/// Ctrl-C saves finished runs as a table and as a file.
#[cfg(unix)]
#[test]
fn interrupted_evaluation_of_a_model_leaves_its_finished_runs() {
    let (folder, path) = with_text("language-interrupt");
    let report = folder.join("report");
    // Long enough that it would run for minutes.
    let arguments =
        ["eval", MODEL, "--text", &path, "--lengths", "64,4096", "--generators", "bernoulli"];
    let child = command(
        &[&arguments[..], &["--seeds", "9000", "--report", &report, "--device", "cpu"]].concat(),
    )
    .stdout(std::process::Stdio::piped())
    .stderr(std::process::Stdio::piped())
    .spawn()
    .unwrap();
    std::thread::sleep(std::time::Duration::from_secs(2));
    let kill = std::process::Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(kill.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("unfinished: "), "{}", text(&output));
    assert!(fault(&output).contains("--resume"), "{output:?}");
    let found = std::fs::read_to_string(folder.join("report/evaluation.json")).unwrap();
    let found: Value = serde_json::from_str(&found).unwrap();
    let rows = found["rows"].as_array().unwrap();
    let done: usize = rows.iter().map(|row| row["seeds"].as_array().unwrap().len()).sum();
    assert!(done > 0 && done as u64 + found["unfinished"].as_u64().unwrap() == 18_000, "{done}");
}

#[test]
fn faults_of_language_models_are_named_with_their_remedy() {
    let (folder, path) = with_text("language-faults");
    let (empty, one, bytes) =
        (folder.join("empty.txt"), folder.join("one.txt"), folder.join("bytes.txt"));
    std::fs::write(&empty, "").unwrap();
    std::fs::write(&one, "a").unwrap();
    std::fs::write(&bytes, b"ab\xff").unwrap();
    let cases: [(&[&str], i32, &str); 15] = [
        (&["eval", MODEL], 2, "--text FILE"),
        (&["eval", MODEL, "--text", &path, "--data", "x.npz"], 2, "--data"),
        (&["eval", MODEL, "--text", &path, "--resume"], 2, "--report"),
        (&["eval", MODEL, "--text", &path, "--shard", "1/2"], 2, "--report"),
        (&["eval", "--text", &path], 2, "--text is for language models"),
        (&["eval", "--context", "3"], 2, "--context is for language models"),
        (&["eval", MODEL, "--text", &path, "--context", "257"], 2, "1 to 256"),
        (&["eval", MODEL, "--text", &path, "--layer", "lm:length=3"], 2, "\"lm\" is unknown"),
        (&["eval", MODEL, "--text", &path, "--sharing", "stream"], 2, "the maximum is 1111"),
        (&["eval", MODEL, "--text", &empty], 1, "empty"),
        (&["eval", MODEL, "--text", &one], 1, "longer text"),
        (&["eval", MODEL, "--text", &bytes], 1, "UTF-8"),
        (&["eval", BARE, "--text", &path], 1, "tokenizer.json"),
        (&["generate", MODEL, "the", "--generator", "sobol"], 2, "--length"),
        (&["generate", MODEL, "the", "--length", "64", "--device", "gpu"], 2, "--stream-device"),
    ];
    for (arguments, code, part) in cases {
        let output = aleatron(arguments);
        let message = fault(&output);
        assert!(
            output.status.code() == Some(code) && message.contains(part),
            "{arguments:?}: {message}"
        );
    }
}

#[test]
fn generate_writes_text_through_streams() {
    let (_folder, path) = with_text("language-generate");
    let run = |more: &[&str]| {
        let base = [
            "generate",
            MODEL,
            "the cat",
            "--max-tokens",
            "20",
            "--json",
            "--device",
            "cpu",
            "--temperature",
            "0",
        ];
        json(&[&base[..], more].concat())
    };
    let float = run(&["--precision", "f32"]);
    assert!(float["streams"].is_null());
    let short = run(&["--length", "32", "--text", &path]);
    assert_ne!(short["tokens"], float["tokens"]);
    assert_eq!(run(&["--length", "32", "--text", &path])["tokens"], short["tokens"]);
    assert_ne!(
        run(&["--length", "32", "--text", &path, "--stream-seed", "1"])["tokens"],
        short["tokens"]
    );
    assert_eq!(
        (&short["streams"]["length"], &short["streams"]["generator"]),
        (&32.into(), &"bernoulli".into())
    );
    let long = run(&[
        "--length",
        "4096",
        "--generator",
        "sobol",
        "--width",
        "12",
        "--text",
        &path,
        "--percentile",
        "1",
    ]);
    let same = |a: &Value| {
        a["tokens"]
            .as_array()
            .unwrap()
            .iter()
            .zip(float["tokens"].as_array().unwrap())
            .take_while(|(a, b)| a == b)
            .count()
    };
    assert!(same(&long) > same(&short), "{long} {float}");
}

/// An adapter is part of the weights that are encoded.
#[test]
fn generate_adds_adapters_to_the_weights() {
    let run = |more: &[&str]| {
        let base = [
            "generate",
            BARE,
            "--tokens",
            "5,6,7",
            "--max-tokens",
            "12",
            "--json",
            "--length",
            "64",
            "--generator",
            "sobol",
        ];
        json(&[&base[..], more].concat())["tokens"].clone()
    };
    assert_ne!(run(&["--lora", ADAPTER]), run(&[]));
}

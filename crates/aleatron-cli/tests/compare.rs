//! `compare` as a user runs it, and the provenance of results.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking, too")]

mod common;

use common::{Folder, aleatron, fault, good, json, text};
use serde_json::Value;
use std::path::Path;

/// Evaluates the embedded digits into a folder of reports.
fn evaluated(folder: &Folder, name: &str, more: &[&str]) -> String {
    let path = folder.join(name);
    let fixed = ["eval", "--generators", "sobol,bernoulli", "--seeds", "2", "--report", &path];
    good(aleatron(&[&fixed[..], more].concat()));
    path
}

fn result(folder: &str) -> Value {
    let path = Path::new(folder).join("evaluation.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn compare_shows_settings_rows_and_intervals() {
    let folder = Folder::new("compare");
    let a = evaluated(&folder, "a", &["--lengths", "8,16"]);
    let b = evaluated(&folder, "b", &["--lengths", "8,32", "--width", "4"]);
    // Folders and their result files are the same.
    let file = folder.join("b/evaluation.json");
    for second in [&b, &file] {
        let shown = text(&good(aleatron(&["compare", &a, second])));
        for part in ["width", "sobol", "95 % interval", "only in A: sobol: 16 bits"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }
    let found = json(&["compare", &a, &b, "--json"]);
    let rows = found["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    let accuracy = |file: &str, generator: &str| -> f64 {
        let cells = result(file)["cells"].as_array().unwrap().clone();
        let own: Vec<f64> = cells
            .iter()
            .filter(|cell| cell["generator"] == generator && cell["length"] == 8)
            .map(|cell| cell["accuracy"].as_f64().unwrap())
            .collect();
        own.iter().sum::<f64>() / own.len() as f64
    };
    for row in rows {
        let generator = row["generator"].as_str().unwrap();
        let difference = accuracy(&b, generator) - accuracy(&a, generator);
        assert!((row["score"]["difference"].as_f64().unwrap() - difference).abs() < 1e-12);
    }
    assert_eq!(rows[1]["score"]["method"], "paired_seeds");
    // The report is a page and the same JSON.
    let report = folder.join("changes");
    good(aleatron(&["compare", &a, &b, "--report", &report]));
    let page = std::fs::read_to_string(folder.join("changes/comparison.html")).unwrap();
    assert!(page.contains("Settings that differ") && page.contains("<svg"));
    let written = std::fs::read_to_string(folder.join("changes/comparison.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), found);
}

#[test]
fn compare_needs_the_same_network_unless_told_otherwise() {
    let folder = Folder::new("compare-networks");
    let a = evaluated(&folder, "a", &["--lengths", "8"]);
    let b = evaluated(&folder, "b", &["--lengths", "8", "--network", "plain"]);
    let output = aleatron(&["compare", &a, &b]);
    assert_eq!(output.status.code(), Some(1));
    let message = fault(&output);
    for part in [&*a, &*b, "noise_aware", "plain", "--across network"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let shown = text(&good(aleatron(&["compare", &a, &b, "--across", "network"])));
    assert!(shown.contains("Floating point: accuracy % 97.50 in A"), "{shown}");
}

#[test]
fn compare_names_files_without_results() {
    let folder = Folder::new("compare-hostile");
    let good_one = evaluated(&folder, "a", &["--lengths", "8"]);
    let whole = std::fs::read_to_string(folder.join("a/evaluation.json")).unwrap();
    std::fs::create_dir(folder.join("empty")).unwrap();
    std::fs::create_dir_all(folder.join("nested/evaluation.json")).unwrap();
    std::fs::write(folder.join("truncated.json"), &whole[..whole.len() / 2]).unwrap();
    std::fs::write(folder.join("page.html"), "<html>").unwrap();
    std::fs::write(folder.join("bytes"), [0xff, 0xfe, 0x00]).unwrap();
    let accuracy = whole.replacen("\"accuracy\": 0.", "\"accuracy\": 17.", 1);
    std::fs::write(folder.join("wrong.json"), accuracy).unwrap();
    for (name, part) in [
        ("missing", "No such file"),
        ("empty", "no evaluation.json"),
        ("nested", "not a regular file"),
        ("truncated.json", "not the result of an evaluation"),
        ("page.html", "not the result of an evaluation"),
        ("bytes", "UTF-8"),
        ("wrong.json", "not in [0, 1]"),
    ] {
        let bad = folder.join(name);
        for arguments in [["compare", &good_one, &bad], ["compare", &bad, &good_one]] {
            let output = aleatron(&arguments);
            assert_eq!(output.status.code(), Some(1), "{name}");
            let message = fault(&output);
            assert!(message.contains(&bad) && message.contains(part), "{name}: {message}");
            assert!(!message.contains("panicked"), "{name}: {message}");
        }
    }
    for arguments in
        [&["compare", &good_one][..], &["compare", &good_one, &good_one, "--across", "x"]]
    {
        assert_eq!(aleatron(arguments).status.code(), Some(2));
    }
}

/// A named pipe without a writer would block the reader.
#[cfg(unix)]
#[test]
fn compare_does_not_read_pipes() {
    let folder = Folder::new("compare-pipe");
    let a = evaluated(&folder, "a", &["--lengths", "8"]);
    let pipe = folder.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let message = fault(&aleatron(&["compare", &a, &pipe]));
    assert!(message.contains(&pipe) && message.contains("not a regular file"), "{message}");
}

#[cfg(feature = "transformer")]
#[test]
fn compare_takes_language_models() {
    let folder = Folder::new("compare-language");
    let run = |name: &str, more: &[&str]| {
        let path = folder.join(name);
        let fixed =
            ["eval", "bytes", "--lengths", "16", "--generators", "sobol", "--report", &path];
        let few = ["--max-tokens", "32", "--context", "32", "--calibration-tokens", "32"];
        good(aleatron(&[&fixed[..], &few, more].concat()));
        path
    };
    let (a, b) = (run("a", &[]), run("b", &["--width", "4"]));
    let found = json(&["compare", &a, &b, "--json"]);
    assert_eq!(
        (&found["score"], &found["settings"][0]["setting"]),
        (&"nats_per_token".into(), &"width".into())
    );
    let loss = |folder: &str| result(folder)["rows"][0]["loss"]["mean"].as_f64().unwrap();
    assert_eq!(found["rows"][0]["score"]["difference"].as_f64().unwrap(), loss(&b) - loss(&a));
    assert_eq!(found["rows"][0]["score"]["verdict"], "unknown");
    let digits = evaluated(&folder, "digits", &["--lengths", "8"]);
    let message = fault(&aleatron(&["compare", &a, &digits]));
    assert!(message.contains("the task differs") && message.contains(&digits), "{message}");
    let sources = &result(&a)["provenance"][0]["sources"];
    assert_eq!(sources[0]["name"], "embedded bytes");
    let shown = text(&good(aleatron(&["compare", &a, &b])));
    assert!(shown.contains(", 32 predicted tokens, aleatron"), "{shown}");
    // Streams of one product depend on the seed, of which there is one.
    let c = run("c", &["--layer", "head:generator=bernoulli", "--seeds", "1"]);
    assert_eq!(found["rows"][0]["score"]["method"], "exact");
    assert_eq!(json(&["compare", &a, &c, "--json"])["rows"][0]["score"]["method"], "one_seed");
}

/// Another model can have the same name: its loss differs, or its files do.
#[cfg(feature = "transformer")]
#[test]
fn compare_tells_language_models_with_the_same_name_apart() {
    let folder = Folder::new("compare-language-files");
    let path = folder.join("a");
    let fixed = ["eval", "bytes", "--lengths", "16", "--generators", "sobol", "--report", &path];
    let few = ["--max-tokens", "32", "--context", "32", "--calibration-tokens", "32"];
    good(aleatron(&[&fixed[..], &few].concat()));
    let whole = result(&path);
    let source = |role: &str, hash: &str| serde_json::json!({"role": role, "name": role, "bytes": 1, "sha256": hash.repeat(64)});
    let changed = |name: &str, change: &dyn Fn(&mut Value)| {
        let mut copy = whole.clone();
        change(&mut copy);
        std::fs::write(folder.join(name), copy.to_string()).unwrap();
        folder.join(name)
    };
    let add = |copy: &mut Value, added: Value| {
        copy["provenance"][0]["sources"].as_array_mut().unwrap().push(added);
    };
    let loss = changed("loss.json", &|copy| copy["float"]["loss"] = 1.5.into());
    let scales = changed("scales.json", &|copy| copy["input_scales"][0] = 1.5.into());
    let adapter = changed("adapter.json", &|copy| {
        copy["float"]["loss"] = 1.5.into();
        add(copy, source("adapter", "a"));
    });
    // Another context leads to another loss: only the hashes tell the models apart.
    let model = |name: &str, context: u32, hash: &str| {
        changed(name, &|copy| {
            copy["context"] = context.into();
            copy["provenance"][0]["sources"][0] = source("model", hash);
        })
    };
    let (first, second) = (model("first.json", 32, "a"), model("second.json", 16, "b"));
    let same = model("same.json", 16, "a");
    for [a, b] in [[&path, &loss], [&path, &scales], [&path, &adapter], [&first, &second]] {
        let output = aleatron(&["compare", a, b]);
        assert_eq!(output.status.code(), Some(1), "{b}");
        let message = fault(&output);
        assert!(message.contains("the network differs"), "{message}");
        assert!(message.contains("--across network"), "{message}");
        good(aleatron(&["compare", a, b, "--across", "network"]));
    }
    good(aleatron(&["compare", &first, &same]));
    let found = json(&["compare", &path, &adapter, "--across", "network", "--json"]);
    let expected = serde_json::json!([
        {"setting": "adapter", "a": "-", "b": "adapter (aaaaaaaaaaaaaaaa)"}
    ]);
    assert_eq!(found["settings"], expected);
    // Another text with the same name.
    let text = |name: &str, loss: f64, hash: &str| {
        changed(name, &|copy| {
            copy["float"]["loss"] = loss.into();
            copy["provenance"][0]["sources"][1] = source("text", hash);
        })
    };
    let (first, second) = (text("text-a.json", 1.5, "a"), text("text-b.json", 1.25, "b"));
    let message = fault(&aleatron(&["compare", &first, &second]));
    assert!(message.contains("the data differs") && message.contains("--across data"), "{message}");
    good(aleatron(&["compare", &first, &second, "--across", "data"]));
}

/// SHA-256 of the text "x,y,class\n0.9,-0.9,0\n", as `sha256sum` prints it.
const CSV_HASH: &str = "bcc310ea8e92391a21448a78077b2a82f4d0498880cf8d08e21f0fa26a64baba";

#[test]
fn results_have_the_provenance_of_every_run() {
    let folder = Folder::new("provenance");
    let a = evaluated(&folder, "a", &["--lengths", "8", "--device", "cpu"]);
    let first = result(&a)["provenance"].as_array().unwrap().clone();
    assert_eq!(first.len(), 1);
    let command = first[0]["command"].as_str().unwrap();
    assert!(command.ends_with(&format!("--report {a} --lengths 8 --device cpu")), "{command}");
    let date = first[0]["date"].as_str().unwrap();
    assert!(date.len() == 20 && date.starts_with("20") && date.ends_with('Z'), "{date}");
    assert_eq!(
        (&first[0]["version"], &first[0]["device"]),
        (&env!("CARGO_PKG_VERSION").into(), &"cpu".into())
    );
    let info = json(&["info", "--json"]);
    assert_eq!((&first[0]["simd_tier"], &first[0]["threads"]), (&info["tier"], &info["threads"]));
    let page = std::fs::read_to_string(folder.join("a/index.html")).unwrap();
    assert!(page.contains("<h2>Provenance</h2>") && page.contains(date), "{page}");
    // A run that resumes is a further one, and the cells of the first are retained.
    evaluated(&folder, "a", &["--lengths", "8,16", "--device", "cpu", "--resume"]);
    let resumed = result(&a);
    let runs = resumed["provenance"].as_array().unwrap();
    assert_eq!((runs.len(), &runs[0]), (2, &first[0]));
    assert!(runs[1]["command"].as_str().unwrap().ends_with("--resume"));
    assert_eq!(resumed["cells"].as_array().unwrap().len(), 6);
    assert!(std::fs::read_to_string(folder.join("a/index.html")).unwrap().contains("Run 2 of 2"));
}

#[test]
fn provenance_has_the_hashes_of_files() {
    let folder = Folder::new("provenance-files");
    let network = folder.join("net.onnx");
    aleatron::network::NetworkBuilder::new("n", &[2])
        .dense("a", 2, &[0.5, -0.25, 1.0, 0.125], &[])
        .build()
        .unwrap()
        .save(&network)
        .unwrap();
    let data = folder.join("data.csv");
    std::fs::write(&data, "x,y,class\n0.9,-0.9,0\n").unwrap();
    let found = json(&[
        "eval",
        &network,
        "--data",
        &data,
        "--calibrate",
        &data,
        "--lengths",
        "8",
        "--generators",
        "sobol",
        "--json",
    ]);
    let sources = found["provenance"][0]["sources"].as_array().unwrap();
    let of = |role: &str| sources.iter().find(|source| source["role"] == role).unwrap();
    for role in ["data", "calibration"] {
        assert_eq!(
            (&of(role)["name"], &of(role)["sha256"]),
            (&data.as_str().into(), &CSV_HASH.into())
        );
        assert_eq!(of(role)["bytes"], 21);
    }
    let size = std::fs::metadata(&network).unwrap().len();
    assert_eq!(
        (&of("network")["name"], &of("network")["bytes"]),
        (&network.as_str().into(), &size.into())
    );
    assert_eq!(of("network")["sha256"].as_str().unwrap().len(), 64);
}

/// Searches, explorations, trainings and tables have provenance, too.
#[test]
fn other_reports_have_provenance() {
    let folder = Folder::new("provenance-others");
    let streams = ["--generators", "sobol", "--lengths", "8,16"];
    let runs = |name: &str, file: &str, field: &str| -> usize {
        let path = Path::new(&folder.join(name)).join(file);
        let found: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let runs = found[field].as_array().unwrap();
        assert!(runs.iter().all(|run| run["command"].as_str().unwrap().contains(name)));
        runs.len()
    };
    let page = |name: &str, file: &str| {
        let text = std::fs::read_to_string(Path::new(&folder.join(name)).join(file)).unwrap();
        assert!(text.contains("<h2>Provenance</h2>") && text.contains(name), "{name}: {text}");
    };
    for (name, more, number) in [("found", &[][..], 1), ("found", &["--resume"], 2)] {
        let report = folder.join(name);
        let fixed = ["eval", "--find", "5", "--budget", "9", "--report", &report];
        good(aleatron(&[&fixed[..], &streams, more].concat()));
        assert_eq!(runs(name, "find.json", "provenance"), number);
        page(name, "find.html");
    }
    let report = folder.join("explored");
    good(aleatron(&[&["explore", "--budget", "1", "--report", &report], &streams[..]].concat()));
    assert_eq!(runs("explored", "explore.json", "provenance"), 1);
    page("explored", "explore.html");
    let report = folder.join("tabulated");
    good(aleatron(&["tables", "sobol:1+sobol:2", "--lengths", "16", "--report", &report]));
    page("tabulated", "index.html");
    let report = folder.join("trained");
    let fixed = ["train", "plain", "--lengths", "8", "--eval-lengths", "8", "--epochs", "1"];
    good(aleatron(&[&fixed[..], &["--report", &report]].concat()));
    assert_eq!(runs("trained", "before.json", "provenance"), 1);
    assert_eq!(runs("trained", "after.json", "provenance"), 1);
    page("trained", "training.html");
    let before = std::fs::read_to_string(folder.join("trained/before.json")).unwrap();
    let before: Value = serde_json::from_str(&before).unwrap();
    let sources = before["provenance"][0]["sources"].as_array().unwrap();
    let calibration = sources.iter().find(|source| source["role"] == "calibration").unwrap();
    assert_eq!(calibration["name"], "scales of the network file");
    // The network before and after the training is compared as two networks.
    let [before, after] = ["before.json", "after.json"]
        .map(|file| Path::new(&report).join(file).to_str().unwrap().to_owned());
    assert!(fault(&aleatron(&["compare", &before, &after])).contains("--across network"));
    good(aleatron(&["compare", &before, &after, "--across", "network"]));
}

/// Shards of different commands are still shards of one evaluation, and the merged result has the
/// cells of a whole run and the provenance of all.
#[test]
fn merged_shards_have_the_provenance_of_each() {
    let folder = Folder::new("provenance-shards");
    let shards = folder.join("shards");
    let fixed = ["eval", "--lengths", "8,16", "--generators", "sobol", "--report", &shards];
    let run = |more: &[&str]| good(aleatron(&[&fixed[..], more].concat()));
    run(&["--shard", "1/2"]);
    run(&["--shard", "2/2"]);
    // Resuming a finished shard adds a run and loses nothing.
    run(&["--shard", "2/2", "--resume"]);
    let merged = folder.join("merged");
    good(aleatron(&["merge", &shards, "--report", &merged]));
    let whole = folder.join("whole");
    good(aleatron(&["eval", "--lengths", "8,16", "--generators", "sobol", "--report", &whole]));
    let commands: Vec<String> = result(&merged)["provenance"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["command"].as_str().unwrap().split(" --report").next().unwrap().to_owned())
        .collect();
    assert_eq!(commands.len(), 4, "{commands:?}");
    assert!(commands[3].contains(" merge "), "{commands:?}");
    let sources = result(&merged)["provenance"][3]["sources"].as_array().unwrap().len();
    assert_eq!(sources, 2);
    let timeless = |folder: &str| -> Vec<Value> {
        let mut cells = result(folder)["cells"].as_array().unwrap().clone();
        for cell in &mut cells {
            for name in ["seconds", "samples_per_second", "bit_macs_per_second"] {
                cell[name] = Value::Null;
            }
        }
        cells
    };
    assert_eq!(timeless(&merged), timeless(&whole));
    let compared = json(&["compare", &merged, &whole, "--json"]);
    assert!(
        compared["rows"].as_array().unwrap().iter().all(|row| row["score"]["difference"] == 0.0)
    );
}

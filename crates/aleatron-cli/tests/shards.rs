//! `eval --shard` and `merge` as a user runs them.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking, too")]

mod common;

use aleatron::eval::Evaluation;
use common::{Folder, aleatron, fault, good};
use std::path::Path;
use std::process::{Command, Output};

const PLAN: [&str; 8] =
    ["eval", "plain", "--lengths", "8,24", "--generators", "bernoulli,sobol,lfsr", "--seeds", "2"];

fn eval(more: &[&str]) -> Output {
    aleatron(&[&PLAN, more].concat())
}

fn evaluation(output: &Output) -> Evaluation {
    Evaluation::from_json(std::str::from_utf8(&output.stdout).unwrap()).unwrap().without_times()
}

#[test]
fn merged_shards_equal_the_whole_evaluation() {
    let whole = evaluation(&good(eval(&["--json"])));
    for n in [1, 3, 40] {
        let folder = Folder::new(&format!("shards-{n}"));
        let shards = folder.join("shards");
        for shard in (1..=n).rev() {
            let said = good(eval(&["--shard", &format!("{shard}/{n}"), "--report", &shards]));
            let said = String::from_utf8(said.stdout).unwrap();
            assert!(said.contains(&format!("Shard {shard}/{n}: ")), "{said}");
        }
        let report = folder.join("report");
        let merged = good(aleatron(&["merge", &shards, "--json", "--report", &report]));
        assert_eq!(evaluation(&merged), whole, "{n}");
        let written = std::fs::read_to_string(Path::new(&report).join("evaluation.json")).unwrap();
        assert_eq!(Evaluation::from_json(&written).unwrap().without_times(), whole);
        assert!(Path::new(&report).join("index.html").exists());
    }
}

#[test]
fn killed_shard_resumes_and_missing_shard_is_reported() {
    let folder = Folder::new("shard-killed");
    let shards = folder.join("shards");
    let shard = |shard: &str, more: &[&str]| {
        eval(&[&["--shard", shard, "--report", &shards], more].concat())
    };
    good(shard("1/2", &[]));
    good(shard("2/2", &[]));
    let path = Path::new(&shards).join("shard-2-of-2.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    // Killed in the middle of its third line.
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() > 4);
    std::fs::write(
        &path,
        [lines[0], "\n", lines[1], "\n", &lines[2][..lines[2].len() / 2]].concat(),
    )
    .unwrap();
    let partial = aleatron(&["merge", &shards, "--json"]);
    assert_eq!(partial.status.code(), Some(1));
    let partial = evaluation(&partial);
    assert!(!partial.is_complete() && partial.cells.len() + partial.unfinished == 10);
    let said = String::from_utf8(aleatron(&["merge", &shards]).stdout).unwrap();
    assert!(said.contains("unfinished: "), "{said}");
    let refused = fault(&shard("2/2", &[]));
    assert!(
        refused.contains("shard-2-of-2.jsonl: it is unfinished: go on with --resume"),
        "{refused}"
    );
    let again = String::from_utf8(good(shard("2/2", &["--resume"])).stdout).unwrap();
    assert!(again.contains(&format!("Shard 2/2: {} tasks", lines.len() - 2)), "{again}");
    let whole = evaluation(&good(eval(&["--json"])));
    assert_eq!(evaluation(&good(aleatron(&["merge", &shards, "--json"]))), whole);
}

/// Two processes cannot write one shard, but two shards of one folder.
#[test]
fn second_process_cannot_write_a_shard() {
    let folder = Folder::new("shard-lock");
    let shards = folder.join("shards");
    let lengths: Vec<String> = (1..400).map(|k| (64 * k).to_string()).collect();
    let lengths = lengths.join(",");
    let shard = |of: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aleatron"));
        command.args(["eval", "--generators", "bernoulli", "--seeds", "50", "--lengths", &lengths]);
        command.args(["--shard", of, "--report", &shards]).stdout(std::process::Stdio::null());
        command
    };
    let mut first = shard("1/2").spawn().unwrap();
    let file = Path::new(&shards).join("shard-1-of-2.jsonl");
    let start = std::time::Instant::now();
    while !file.exists() && start.elapsed().as_secs() < 60 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let refused = fault(&shard("1/2").output().unwrap());
    assert!(
        refused.contains(&format!("process {} is writing this report", first.id())),
        "{refused}"
    );
    let refused = fault(&shard("1/2").arg("--resume").output().unwrap());
    assert!(refused.contains("is writing this report"), "{refused}");
    let mut second = shard("2/2").spawn().unwrap();
    let other = Path::new(&shards).join("shard-2-of-2.jsonl");
    while !other.exists() && start.elapsed().as_secs() < 120 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(file.exists() && other.exists());
    for child in [&mut first, &mut second] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // A lock ends with its process. The only remaining fault is the unfinished shard.
    let refused = fault(&shard("1/2").output().unwrap());
    assert!(refused.contains("it is unfinished: go on with --resume"), "{refused}");
}

#[test]
fn shards_of_different_evaluations_are_not_merged() {
    let folder = Folder::new("shard-faults");
    let (a, b) = (folder.join("a"), folder.join("b"));
    good(eval(&["--shard", "1/2", "--report", &a]));
    good(eval(&["--shard", "2/2", "--report", &b, "--width", "6"]));
    let refused = fault(&aleatron(&["merge", &a, &b]));
    assert!(
        refused.contains("shard-2-of-2.jsonl: its network, data, plan or version is not that of"),
        "{refused}"
    );
    let resumed = fault(&eval(&["--shard", "1/2", "--report", &a, "--resume", "--width", "6"]));
    assert!(resumed.contains("of another network, data set, plan or version"), "{resumed}");
    assert!(fault(&aleatron(&["merge", &folder.join("none")])).contains("none: "));
    std::fs::create_dir_all(folder.join("empty")).unwrap();
    assert!(fault(&aleatron(&["merge", &folder.join("empty")])).contains("no shard"));
    std::fs::write(folder.join("shard-x.jsonl"), "{}\n").unwrap();
    assert!(fault(&aleatron(&["merge", &folder.join("shard-x.jsonl")])).contains("line 1"));
    // The second of two shards alone lacks the classes in floating point, which the first one has.
    let alone = fault(&aleatron(&["merge", &b]));
    assert!(alone.contains("floating point") && alone.contains("missing shards: 1/2"), "{alone}");
    let replaced = fault(&eval(&["--shard", "1/2", "--report", &a, "--width", "6"]));
    assert!(replaced.contains("of something else") && replaced.contains("--force"), "{replaced}");
    for wrong in ["0/2", "3/2", "1", "a/b", "1/0", "-1/2"] {
        let output = eval(&[&format!("--shard={wrong}"), "--report", &a]);
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        assert!(fault(&output).contains("use I/N"), "{wrong}");
    }
    assert!(fault(&eval(&["--shard", "1/2"])).contains("--report"));
    assert!(fault(&eval(&["--shard", "1/2", "--report", &a, "--json"])).contains("--json"));
}

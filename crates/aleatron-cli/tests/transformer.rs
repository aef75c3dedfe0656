//! `generate`, `finetune` and `bench transformer` as a user runs them.
#![cfg(feature = "transformer")]
#![allow(clippy::unwrap_used)]

mod common;

use common::{Folder, aleatron, json};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const MODEL: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../aleatron-transformer/tests/golden/llama");
/// A model with a tokenizer.
const TEXT_MODEL: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../aleatron-transformer/tests/golden/qwen2");
const ADAPTER: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../aleatron-transformer/tests/golden/llama-lora");

fn tokens(arguments: &[&str]) -> Vec<u64> {
    let mut all = vec![
        "generate",
        MODEL,
        "--tokens",
        "5,6,7",
        "--device",
        "cpu",
        "--max-tokens",
        "12",
        "--json",
    ];
    all.extend(arguments);
    let output = aleatron(&all);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["device"], "cpu");
    assert_eq!(report["prompt_tokens"], 3);
    report["tokens"].as_array().unwrap().iter().map(|token| token.as_u64().unwrap()).collect()
}

#[test]
fn generate_repeats_and_follows_its_options() {
    let plain = tokens(&[]);
    assert!(!plain.is_empty() && plain.len() <= 12);
    assert_eq!(tokens(&[]), plain);
    assert_eq!(tokens(&["--temperature", "3", "--top-k", "1"]), plain);
    assert_ne!(
        tokens(&["--temperature", "3", "--seed", "1"]),
        tokens(&["--temperature", "3", "--seed", "2"])
    );
    assert_ne!(tokens(&["--lora", ADAPTER]), plain);
}

/// A model that samples by default, with a penalty and an option that is not supported.
#[test]
fn generate_uses_the_generation_config_of_the_model() {
    let folder = std::env::temp_dir().join(format!("aleatron-generation-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(Path::new(MODEL).join(file), folder.join(file)).unwrap();
    }
    let config = r#"{"do_sample": true, "temperature": 1.5, "top_k": 20, "top_p": 0.5, "repetition_penalty": 1.25, "num_beams": 3}"#;
    std::fs::write(folder.join("generation_config.json"), config).unwrap();
    let run = |more: &[&str]| {
        let model = folder.to_str().unwrap();
        let common = [
            "generate",
            model,
            "--tokens",
            "5,6,7",
            "--device",
            "cpu",
            "--max-tokens",
            "12",
            "--json",
        ];
        let output = aleatron(&[&common[..], more].concat());
        let warning = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{warning}");
        assert!(
            warning.contains("generation_config.json: num_beams: 3 is not supported"),
            "{warning}"
        );
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let options = |report: &Value| {
        ["temperature", "top_k", "top_p", "repetition_penalty"]
            .map(|name| report[name].as_f64().unwrap())
    };
    let drawn = run(&[]);
    assert_eq!(options(&drawn), [1.5, 20.0, 0.5, 1.25]);
    let seed = drawn["seed"].as_u64().unwrap().to_string();
    assert_eq!(run(&["--seed", &seed])["tokens"], drawn["tokens"]);
    assert_ne!(run(&[])["seed"], drawn["seed"]);
    let given = run(&["--temperature", "0", "--repetition-penalty", "1"]);
    assert_eq!(options(&given), [0.0, 20.0, 0.5, 1.0]);
    // The end token of the other file does not apply, so its text may be longer.
    let greedy = tokens(&["--temperature", "0"]);
    let given: Vec<u64> =
        given["tokens"].as_array().unwrap().iter().map(|token| token.as_u64().unwrap()).collect();
    assert_eq!(given[..greedy.len()], greedy);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn generate_shows_tokens_as_text_and_its_speed_apart() {
    let output =
        aleatron(&["generate", MODEL, "--tokens", "5,6", "--device", "cpu", "--max-tokens", "3"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.split_whitespace().all(|token| token.parse::<u32>().is_ok()), "{text}");
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("tokens/s") && error.contains("on cpu"), "{error}");
}

#[test]
fn generate_continues_a_text() {
    let arguments = |more: &[&'static str]| -> Vec<&'static str> {
        let all = ["generate", TEXT_MODEL, "the café", "--device", "cpu", "--max-tokens", "60"];
        all.iter().chain(more).copied().collect()
    };
    let output = aleatron(&arguments(&["--json"]));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    // The beginning of a text, "the", " c", "af" and the two bytes of the last letter.
    assert_eq!(report["prompt_tokens"], 6);
    let text = report["text"].as_str().unwrap();
    assert!(!text.is_empty());
    let plain = aleatron(&arguments(&[]));
    assert_eq!(String::from_utf8(plain.stdout).unwrap(), format!("{text}\n"));
}

/// A closed pipe is not a failure; a full disk is.
#[test]
#[cfg(target_os = "linux")]
fn text_that_cannot_be_written_is_a_failure() {
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    let command = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aleatron"));
        command.args(["generate", TEXT_MODEL, "the", "--device", "cpu", "--max-tokens", "3"]);
        command
    };
    let output = command().stdout(full()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("No space left"));
    // An unwritable standard error changes nothing.
    let output = command().stderr(full()).output().unwrap();
    assert!(output.status.success() && !output.stdout.is_empty());
    let output = Command::new(env!("CARGO_BIN_EXE_aleatron"))
        .args(["eval", "--data", "nowhere"])
        .stderr(full())
        .output();
    assert_eq!(output.unwrap().status.code(), Some(1));
}

#[test]
fn invalid_generate_usage_is_explained() {
    for (arguments, code, expected) in [
        (vec!["generate", "nowhere", "text"], 1, "config.json"),
        (vec!["generate", MODEL, "text", "--device", "cpu"], 1, "tokenizer.json"),
        (vec!["generate", MODEL, "--tokens", "500", "--device", "cpu"], 1, "token 0 is 500"),
        (vec!["generate", MODEL, "--tokens", "5", "--top-p", "2"], 2, "top_p"),
        (vec!["generate", MODEL, "--tokens", "5", "--precision", "f8"], 2, "f8"),
        (vec!["bench", "transformer", "--size", "vast"], 2, "tinyllama"),
    ] {
        let output = aleatron(&arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
}

#[test]
fn bench_transformer_reports_prompt_and_steps() {
    let arguments = [
        "bench",
        "transformer",
        "--device",
        "cpu",
        "--prompt",
        "20",
        "--steps",
        "4",
        "--batch",
        "1,3",
        "--json",
    ];
    let output = aleatron(&arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["decoding"].as_array().unwrap().len(), 2);
    assert_eq!(report["decoding"][1]["sequences"], 3);
    assert!(report["read_gb_per_second"].as_f64().unwrap() > 0.0);
    // On the CPU both ways give the same bits.
    assert_eq!(report["difference"], 0.0);
}

#[test]
fn finetune_writes_an_adapter_that_generate_reads() {
    let folder = Folder::new("finetune");
    let (out, report, text) =
        (folder.join("adapter"), folder.join("report"), folder.join("text.txt"));
    std::fs::write(&text, "the cat sat on the mat. ".repeat(20)).unwrap();
    let arguments = ["finetune", TEXT_MODEL, "--data", &text, "--out", &out, "--report", &report];
    let more = [
        "--length",
        "16",
        "--steps",
        "30",
        "--learning-rate",
        "0.01",
        "--targets",
        "all",
        "--json",
    ];
    let found = json(&[&arguments[..], &more].concat());
    let steps = found["steps"].as_array().unwrap();
    let loss = |step: &Value| step["loss"].as_f64().unwrap();
    assert_eq!(steps.len(), 30);
    assert!(loss(&steps[29]) < 0.5 * loss(&steps[0]), "{} {}", loss(&steps[0]), loss(&steps[29]));
    let page = std::fs::read_to_string(folder.join("report/finetuning.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("30 steps of 4 sequences"));
    let generate = |more: &[&str]| {
        let common = [
            "generate",
            TEXT_MODEL,
            "the cat",
            "--device",
            "cpu",
            "--max-tokens",
            "8",
            "--temperature",
            "0",
            "--json",
        ];
        json(&[&common[..], more].concat())["tokens"].clone()
    };
    assert_ne!(generate(&["--lora", &out]), generate(&[]));

    // The adapter is where another training starts, with its settings.
    let second = folder.join("second");
    let again = json(&[
        "finetune",
        TEXT_MODEL,
        "--data",
        &text,
        "--out",
        &second,
        "--adapter",
        &out,
        "--length",
        "16",
        "--steps",
        "1",
        "--json",
    ]);
    assert!(loss(&again["steps"][0]) < 0.5 * loss(&steps[0]));
    let read = |folder: &str| {
        std::fs::read_to_string(Path::new(folder).join("adapter_config.json")).unwrap()
    };
    assert_eq!(read(&out), read(&second));
    // The same command gives the same losses.
    let repeated = json(&[&arguments[..], &more].concat());
    assert_eq!(repeated["steps"], found["steps"]);
}

/// All weights become another model, which every command reads, as long as it is another folder.
#[test]
fn finetune_of_weights_writes_a_model_that_generate_reads() {
    let folder = Folder::new("finetune-weights");
    let (out, text) = (folder.join("model"), folder.join("text.txt"));
    std::fs::write(&text, "the cat sat on the mat. ".repeat(20)).unwrap();
    let train = |model: &str, out: &str| {
        let arguments = ["finetune", model, "--train", "weights", "--data", &text, "--out", out];
        let more = ["--length", "16", "--steps", "30", "--learning-rate", "0.003", "--json"];
        [&arguments[..], &more].concat().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let run =
        |arguments: &[String]| json(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let found = run(&train(TEXT_MODEL, &out));
    let loss = |found: &Value, step: usize| found["steps"][step]["loss"].as_f64().unwrap();
    assert!(loss(&found, 29) < 0.5 * loss(&found, 0));
    assert_eq!((found["trained_model"].as_str(), found.get("adapter")), (Some(&*out), None));
    let generate = |model: &str| {
        let arguments = ["generate", model, "the cat", "--max-tokens", "8", "--temperature", "0"];
        json(&[&arguments[..], &["--device", "cpu", "--json"]].concat())["tokens"].clone()
    };
    assert_ne!(generate(&out), generate(TEXT_MODEL));
    // The next training goes on from it, into another folder only.
    let second = folder.join("second");
    assert!(loss(&run(&train(&out, &second)), 0) < 0.5 * loss(&found, 0));
    let same = train(&out, &out);
    let refused = aleatron(&same.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(common::fault(&refused).contains("folder of the model itself"));
}

/// Hashes are those of the files that a run read, even if it writes into their folders.
#[test]
fn finetune_reports_the_files_from_before_the_training() {
    let folder = Folder::new("finetune-provenance");
    let (model, text) = (folder.join("model"), folder.join("text.txt"));
    std::fs::create_dir(&model).unwrap();
    for name in ["config.json", "model.safetensors", "tokenizer.json"] {
        std::fs::copy(Path::new(TEXT_MODEL).join(name), Path::new(&model).join(name)).unwrap();
    }
    std::fs::write(&text, "the cat sat on the mat. ".repeat(20)).unwrap();
    let hashes = |out: &str, more: &[&str]| {
        let report = format!("{out}-report");
        let arguments = ["finetune", &model, "--data", &text, "--out", out, "--report", &report];
        let common = ["--length", "16", "--steps", "1", "--device", "CPU"];
        common::good(aleatron(&[&arguments[..], &common, more].concat()));
        let page = std::fs::read_to_string(Path::new(&report).join("finetuning.html")).unwrap();
        assert!(page.contains("<dt>device</dt><dd>cpu</dd>"), "{page}");
        let words = page.split(|c: char| !c.is_ascii_hexdigit());
        words.filter(|word| word.len() == 64).map(str::to_owned).collect::<Vec<_>>()
    };
    let first = folder.join("first");
    let [before, data] = &hashes(&first, &[])[..] else { unreachable!() };
    let inside = folder.join("model/adapter");
    let [model, adapter, again] = &hashes(&inside, &["--adapter", &first])[..] else {
        unreachable!()
    };
    assert_eq!((model, again), (before, data));
    assert!(adapter != model && adapter != data);
}

/// A checkpoint is a file, and no part of the result: others are refused before the training.
#[test]
fn finetune_refuses_checkpoints_in_the_folder_of_the_result_and_pipes() {
    let folder = Folder::new("finetune-checkpoint");
    let text = folder.join("text.txt");
    std::fs::write(&text, "the cat sat on the mat. ".repeat(20)).unwrap();
    for part in ["weights", "adapter"] {
        let out = folder.join(part);
        let run = |checkpoint: &str| {
            let arguments = ["finetune", TEXT_MODEL, "--train", part, "--data", &text];
            let more =
                ["--out", &out, "--checkpoint", checkpoint, "--length", "16", "--steps", "2"];
            aleatron(&[&arguments[..], &more].concat())
        };
        let refused = run(&format!("{out}/../{part}/state.safetensors"));
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(common::fault(&refused).contains("is in the folder of --out"));
        assert_eq!(std::fs::read_dir(&out).unwrap().count(), 0);
        common::good(run(&folder.join(&format!("{part}.safetensors"))));
        #[cfg(unix)]
        {
            let pipe = folder.join(&format!("{part}-pipe"));
            assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
            let refused = run(&pipe);
            assert_eq!(refused.status.code(), Some(2), "{refused:?}");
            assert!(common::fault(&refused).contains("is not a regular file"));
        }
    }
}

#[test]
fn finetune_rejects_invalid_usage_and_other_families() {
    let folder = Folder::new("finetune-usage");
    let (out, text, lines) =
        (folder.join("adapter"), folder.join("text.txt"), folder.join("data.jsonl"));
    std::fs::write(&text, "the cat sat on the mat").unwrap();
    std::fs::write(&lines, "{\"tokens\": [5, 6, 7]}").unwrap();
    let cases: [(&[&str], &str); 21] = [
        (&["--train", "weights", "--rank", "4"], "--rank cannot be combined"),
        (&["--train", "weights", "--targets", "all"], "--targets cannot be combined"),
        (&["--learning-rate", "0"], "--learning-rate: 0 is not a positive number"),
        (&["--learning-rate", "-1"], "--learning-rate: -1 is not a positive number"),
        (&["--rank", "5000"], "5000 is not from 1 to 4096"),
        (&["--rank", "-1"], "'--rank <R>'"),
        (&["--alpha", "-inf"], "alpha"),
        (&["--dropout", "1"], "dropout"),
        (&["--dropout", "-0.5"], "dropout"),
        (&["--dropout", "0.5", "--stream-length", "64"], "lora_dropout is 0.5"),
        (&["--targets", "c_attn"], "c_attn"),
        (&["--length", "1"], "length of sequences is 1"),
        (&["--steps", "-5"], "'--steps <N>'"),
        (&["--steps", "5", "--warmup", "5"], "--warmup: 5 is not less than the 5 steps"),
        (&["--clip-norm", "-1"], "limit of the gradient norm is -1"),
        (&["--clip-norm", "0"], "limit of the gradient norm is 0"),
        (&["--weight-decay", "-1"], "weight decay is -1"),
        (&["--weight-decay", "nan"], "weight decay is NaN"),
        (&["--seed", "-1"], "'--seed <SEED>'"),
        (&["--device", "abacus"], "abacus"),
        (&["--adapter", ADAPTER, "--rank", "4"], "'--rank <R>'"),
    ];
    // A model without weights: options are checked before they are read.
    let model = folder.join("model");
    std::fs::create_dir(&model).unwrap();
    for name in ["config.json", "tokenizer.json"] {
        std::fs::copy(Path::new(TEXT_MODEL).join(name), Path::new(&model).join(name)).unwrap();
    }
    for (case, expected) in cases {
        let refused =
            aleatron(&[&["finetune", &model, "--data", &text, "--out", &out], case].concat());
        let error = common::fault(&refused);
        assert_eq!(refused.status.code(), Some(2), "{case:?}: {error}");
        assert!(error.contains(expected), "{case:?}: {error}");
    }
    let unread = aleatron(&["finetune", &model, "--data", &text, "--out", &out]);
    assert!(common::fault(&unread).contains("no .safetensors file"));
    let gpt2 = concat!(env!("CARGO_MANIFEST_DIR"), "/../aleatron-transformer/tests/golden/gpt2");
    let other = aleatron(&["finetune", gpt2, "--data", &lines, "--out", &out, "--targets", "all"]);
    assert_eq!(other.status.code(), Some(1));
    assert!(common::fault(&other).contains("cannot be fine-tuned"));
    let missing =
        aleatron(&["finetune", TEXT_MODEL, "--data", &folder.join("missing.txt"), "--out", &out]);
    assert!(common::fault(&missing).contains("missing.txt"));
}

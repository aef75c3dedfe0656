//! The help of the program: its layout, its examples, completions, manual pages and the reference
//! page.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Folder, aleatron, command, fault, good, text};
use std::fmt::Write;
use std::path::Path;

/// The columns of the page.
#[cfg(all(feature = "cuda", feature = "gpu", feature = "transformer"))]
const PAGE_COLUMNS: usize = 80;

/// The commands that every build has.
const COMMANDS: [&str; 13] = [
    "bench",
    "compare",
    "completions",
    "eval",
    "explore",
    "info",
    "man",
    "merge",
    "inspect",
    "rtl",
    "tables",
    "train",
    "verify",
];

/// Returns the help of a command in a terminal of this many columns.
fn help(name: &str, columns: usize) -> String {
    let columns = columns.to_string();
    text(&good(command(&[name, "--help"]).env("COLUMNS", columns).output().unwrap()))
}

#[test]
fn help_is_wrapped_to_the_terminal() {
    for columns in [70, 90] {
        let text = help("eval", columns);
        let longest = text.lines().max_by_key(|line| line.chars().count()).unwrap();
        assert!(longest.chars().count() <= columns, "{columns} columns: {longest}");
        // Text that was not wrapped would have fewer and longer lines.
        assert!(text.lines().count() > 100, "{text}");
    }
    assert!(help("eval", 70).lines().count() > help("eval", 90).lines().count());
}

#[test]
fn help_is_at_most_100_columns_wide() {
    assert_eq!(help("eval", 250), help("eval", 100));
}

#[test]
fn every_command_has_examples_that_name_it() {
    for name in COMMANDS {
        let text = help(name, 100);
        let examples =
            text.split("Examples:\n").nth(1).unwrap_or_else(|| panic!("{name}: no examples"));
        assert!(examples.contains(&format!("aleatron {name}")), "{name}: {examples}");
        // Wrapped by hand: 80 columns hold every line.
        assert!(help(name, 80).ends_with(examples), "{name}: {examples}");
    }
}

#[test]
fn options_are_grouped() {
    let text = help("eval", 100);
    let headings =
        ["Network:", "Samples:", "Streams:", "Faults:", "Execution:", "Search:", "Output:"];
    for heading in headings {
        assert_eq!(text.lines().filter(|line| *line == heading).count(), 1, "{heading} {text}");
    }
    let section = |heading: &str| -> String {
        let rest = text.split(&format!("\n{heading}\n")).nth(1).unwrap();
        rest.lines().take_while(|line| line.is_empty() || line.starts_with(' ')).collect()
    };
    assert!(section("Streams:").contains("--lengths") && !section("Streams:").contains("--report"));
    assert!(section("Output:").contains("--report") && section("Output:").contains("--json"));
    // The network is the one argument without a name; help is the one option of no group.
    assert!(section("Arguments:").contains("[NETWORK]"), "{text}");
    assert!(section("Options:").matches(" --").count() <= 2, "{text}");
}

#[test]
fn mistyped_command_suggests_the_similar_one() {
    let output = aleatron(&["evall"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(fault(&output).contains("a similar subcommand exists: 'eval'"), "{output:?}");
}

#[test]
fn mistyped_option_suggests_the_similar_one() {
    let output = aleatron(&["eval", "--lenghts", "16"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(fault(&output).contains("a similar argument exists: '--lengths'"), "{output:?}");
}

#[test]
fn mistyped_value_suggests_the_similar_one() {
    let output = aleatron(&["eval", "--task", "regresion"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(fault(&output).contains("a similar value exists: 'regression'"), "{output:?}");
}

#[test]
fn completions_have_every_command_and_option() {
    for (shell, option) in [
        ("bash", "--lengths"),
        ("zsh", "--lengths"),
        ("fish", "-l lengths"),
        ("powershell", "--lengths"),
        ("elvish", "--lengths"),
    ] {
        let script = text(&good(aleatron(&["completions", shell])));
        for word in COMMANDS.iter().chain([&option]) {
            assert!(script.contains(word), "{shell} lacks {word}");
        }
    }
}

#[test]
fn completions_of_an_unknown_shell_are_invalid_usage() {
    let output = aleatron(&["completions", "tcsh"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(fault(&output).contains("bash"), "{output:?}");
}

#[test]
fn bash_accepts_its_completions() {
    let folder = Folder::new("completions");
    let script = folder.join("aleatron.bash");
    std::fs::write(&script, good(aleatron(&["completions", "bash"])).stdout).unwrap();
    // The function is that of `aleatron ev<TAB>`.
    let words = format!(
        "source {script}; COMP_WORDS=(aleatron ev); COMP_CWORD=1; _aleatron aleatron ev aleatron; echo ${{COMPREPLY[@]}}"
    );
    match std::process::Command::new("bash").args(["--norc", "-c", &words]).output() {
        Ok(output) => assert_eq!(text(&output), "eval\n", "{output:?}"),
        // Windows has no bash.
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound),
    }
}

#[test]
fn manual_has_a_page_for_each_command() {
    let folder = Folder::new("man");
    let pages = folder.join("new/man1");
    good(aleatron(&["man", &pages]));
    for name in COMMANDS {
        let page =
            std::fs::read_to_string(Path::new(&pages).join(format!("aleatron-{name}.1"))).unwrap();
        assert!(page.contains(".TH") && page.contains("Examples:"), "{name}: {page}");
    }
    let page = std::fs::read_to_string(Path::new(&pages).join("aleatron-eval.1")).unwrap();
    assert!(page.contains("\\-\\-lengths"), "{page}");
}

#[test]
fn manual_in_a_file_is_a_failure_that_names_it() {
    let folder = Folder::new("man-file");
    let file = folder.join("file");
    std::fs::write(&file, "").unwrap();
    let output = aleatron(&["man", &file]);
    assert_eq!(output.status.code(), Some(1));
    assert!(fault(&output).contains(&file), "{output:?}");
}

/// The guide of each command.
#[cfg(all(feature = "cuda", feature = "gpu", feature = "transformer"))]
const REFERENCE: [(&str, &str); 15] = [
    (
        "eval",
        "[Evaluating a network](evaluation.md), [faults](faults.md), [ONNX networks](onnx.md), [language models](language-models.md)",
    ),
    ("compare", "[Comparing evaluations](evaluation.md#comparing-evaluations)"),
    ("merge", "[Clusters](cluster.md)"),
    ("inspect", "[ONNX networks](onnx.md)"),
    ("train", "[Training](training.md)"),
    ("explore", "[Exploring designs](exploration.md)"),
    ("rtl", "[Circuits](hardware.md)"),
    ("generate", "[Transformers](transformer.md), [language models](language-models.md)"),
    ("finetune", "[Transformers](transformer.md#fine-tuning)"),
    ("tables", "[Multipliers](evaluation.md#multipliers)"),
    ("verify", "[The specification](streams.md#known-answers)"),
    ("bench", "[Performance](performance.md)"),
    ("info", "[CUDA](cuda.md)"),
    ("completions", "Shells complete commands, options and their values"),
    ("man", "`man aleatron-eval` shows the page of a command"),
];

/// Returns the page of the documentation: the help of every command as it is printed.
#[cfg(all(feature = "cuda", feature = "gpu", feature = "transformer"))]
fn reference() -> String {
    let mut page = String::from(
        "# Command line\n\n\
         Exit codes: 0 for success, 1 for a failure or a difference that was found, 2 for invalid usage. This\n\
         page is the help that the program prints; `cargo test -p aleatron-cli --test help` compares both, and\n\
         writes the page with `ALEATRON_UPDATE=1`.\n",
    );
    for (name, guide) in REFERENCE {
        let text = help(name, PAGE_COLUMNS);
        write!(page, "\n## aleatron {name}\n\n{guide}.\n\n```text\n{}\n```\n", text.trim_end())
            .unwrap();
    }
    page
}

#[cfg(all(feature = "cuda", feature = "gpu", feature = "transformer"))]
#[test]
fn reference_page_is_the_help_of_the_program() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let page = reference();
    if std::env::var_os("ALEATRON_UPDATE").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    assert!(
        std::fs::read_to_string(&file).unwrap() == page,
        "docs/cli.md is not current: run ALEATRON_UPDATE=1 cargo test -p aleatron-cli --test help"
    );
}

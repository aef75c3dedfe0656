//! The tutorial of the documentation: its commands run, and print what the page shows.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Folder, command, good, text};
use std::path::Path;

/// Returns a fenced block: its language and its lines.
fn blocks(page: &str) -> Vec<(&str, Vec<&str>)> {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        match line.strip_prefix("```") {
            Some(language) => {
                inside = !inside;
                if inside {
                    found.push((language, Vec::new()));
                }
            }
            None if inside => found.last_mut().unwrap().1.push(line),
            None => {}
        }
    }
    found
}

/// Returns the words of a line with single spaces between them.
fn words(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The words of a shown line that must be equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compare {
    /// All of them.
    Words,
    /// Words without digits: training in floating point rounds differently on some processors.
    Names,
}

impl Compare {
    /// Returns the comparison for weights trained on this machine: the page was written on x86-64
    /// with FMA.
    fn trained() -> Self {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("fma") {
            return Self::Words;
        }
        Self::Names
    }

    /// Returns the line with its numbers as far as they are compared.
    fn of(self, line: &str) -> String {
        match self {
            Self::Words => line.to_owned(),
            Self::Names => {
                line.chars().filter(|c| !(c.is_ascii_digit() || "+-.".contains(*c))).collect()
            }
        }
    }
}

/// Returns whether a shown line is one of the output; `…` matches the rest of a line.
fn is_printed(shown: &str, output: &str, compare: Compare) -> bool {
    let shown = words(&compare.of(shown));
    output.lines().map(|line| words(&compare.of(line))).any(|line| match shown.strip_suffix(" …")
    {
        Some(start) => line.starts_with(start),
        None => line == shown,
    })
}

#[test]
fn tutorial_runs_as_it_stands() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tutorial.md");
    let page = std::fs::read_to_string(page).unwrap();
    let folder = Folder::new("tutorial");
    let (mut commands, mut shown, mut output) = (0, 0, String::new());
    let mut compare = Compare::Words;
    for (language, lines) in blocks(&page) {
        for line in lines {
            match language {
                "sh" => {
                    let arguments: Vec<&str> = line.split_whitespace().collect();
                    assert_eq!(arguments[0], "aleatron", "{line}");
                    let run = command(&arguments[1..])
                        .current_dir(&folder.0)
                        .env_remove("COLUMNS")
                        .output();
                    output = text(&good(run.unwrap()));
                    commands += 1;
                    if arguments[1] == "train" {
                        compare = Compare::trained();
                    }
                }
                "text" => {
                    assert!(
                        is_printed(line, &output, compare),
                        "the tutorial shows\n{line}\nbut the output is\n{output}"
                    );
                    shown += 1;
                }
                other => panic!("a block of {other:?}: blocks are sh or text"),
            }
        }
    }
    assert_eq!(commands, 9);
    assert!(shown > 20, "{shown} lines of output");
    if compare == Compare::Names {
        return;
    }
    // The numbers that the text takes from files.
    let synthesis = std::fs::read_to_string(folder.0.join("circuit/synthesis.json")).unwrap();
    let synthesis: serde_json::Value = serde_json::from_str(&synthesis).unwrap();
    let area = synthesis["area"]["gate_equivalents"].as_f64().unwrap();
    // Another version of Yosys may find a somewhat smaller or larger circuit.
    assert!((area / 27_474.0 - 1.0).abs() < 0.05, "{area}");
}

#[test]
fn shown_lines_match_by_words_and_prefixes() {
    let all = Compare::Words;
    assert!(is_printed("a  b …", "x\n a b c", all));
    assert!(is_printed("a b", "a   b", all));
    assert!(!is_printed("a b", "a b c", all));
    assert!(!is_printed("b c …", "a b c", all));
    assert!(!is_printed("a 1 b", "a 2 b", all));
    assert!(is_printed("a 1 b", "a 2 b", Compare::Names));
    assert!(!is_printed("a 1 b", "a 2 c", Compare::Names));
}

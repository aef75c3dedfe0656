//! Mutation tests: cargo-mutants changes one thing at a time, and a test of the same crate must
//! fail.
//!
//! Surviving mutants are listed in `mutants-accepted.txt` with the reason why no test can or should
//! catch them. Any other survivor is a failure. `.cargo/mutants.toml` configures what is mutated,
//! and how long tests may take.

use crate::step::{Step, cargo};
use crate::system;
use std::path::Path;
use std::process::Command;

/// A crate whose tests must catch every mutant.
#[derive(Debug, Clone, Copy)]
struct Package {
    name: &'static str,
    /// The cargo features that compile all of its code.
    features: &'static str,
}

const PACKAGES: [Package; 10] = [
    Package { name: "aleatron-core", features: "" },
    Package { name: "aleatron-data", features: "" },
    Package { name: "aleatron-tensor", features: "linalg" },
    Package { name: "aleatron-graph", features: "" },
    Package { name: "aleatron-device", features: "raw" },
    Package { name: "aleatron-engine", features: "" },
    Package { name: "aleatron-eval", features: "" },
    Package { name: "aleatron-transformer", features: "gpu" },
    Package { name: "aleatron-gpu", features: "" },
    Package { name: "aleatron-cuda", features: "" },
];

const ACCEPTED: &str = include_str!("../../mutants-accepted.txt");

/// The exit status of a run in which mutants survived.
const SURVIVORS: i32 = 2;

/// The exit status of a run in which tests of mutants timed out, which counts as failing.
const TIMEOUTS: i32 = 3;

/// Runs the mutants of all crates, or of the one that follows `-p`. All other arguments, such as
/// `--shard 0/12`, are passed to cargo-mutants.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let (packages, others) = match arguments {
        [flag, name, others @ ..] if flag == "-p" || flag == "--package" => {
            let known = PACKAGES.into_iter().find(|known| known.name == name);
            let names = || PACKAGES.map(|package| package.name).join(", ");
            (vec![known.ok_or_else(|| format!("the crates are {}", names()))?], others)
        }
        others => (PACKAGES.to_vec(), others),
    };
    if !system::has_program("cargo-mutants") {
        let install =
            Step::new("install cargo-mutants", cargo(&["install", "--locked", "cargo-mutants"]));
        crate::step::run_all(&[install])?;
    }
    // Tests of GPU and CUDA kernels run on a software adapter and with a C++ compiler.
    system::install_software_vulkan()?;
    system::install_accelerator_tools()?;
    let accepted = accepted(ACCEPTED)?;
    let mut unlisted = 0;
    for package in packages {
        unlisted += run_package(package, others, &accepted)?;
    }
    match unlisted {
        0 => Ok(()),
        n => Err(format!(
            "{n} survived that mutants-accepted.txt does not list: kill them with a test"
        )),
    }
}

/// Returns how many mutants of a package survived without being listed.
fn run_package(
    package: Package,
    arguments: &[String],
    accepted: &[String],
) -> Result<usize, String> {
    let Package { name, features } = package;
    let output = system::target_folder()?.join("mutants").join(name);
    std::fs::create_dir_all(&output)
        .map_err(|error| format!("cannot make {}: {error}", output.display()))?;
    let mut words = vec!["mutants", "--no-shuffle", "--package", name, "--features", features];
    words.extend(["--test-package", name, "--output"]);
    let words = cargo(&words);
    let (program, first) = words.split_first().ok_or("an empty command")?;
    println!("=== mutants of {name}");
    let mut command = Command::new(program);
    command.args(first).arg(&output).args(arguments).env("SC_GPU_ADAPTER", "llvmpipe");
    let status = command.status().map_err(|error| format!("cannot run {program}: {error}"))?;
    if !status.success() && !matches!(status.code(), Some(SURVIVORS | TIMEOUTS)) {
        return Err(format!("cargo mutants failed: {status}"));
    }
    let folder = output.join("mutants.out");
    // With options that only list or check, it leaves no results.
    if !folder.join("missed.txt").is_file() {
        return Ok(0);
    }
    let survivors = lines(&folder.join("missed.txt"))?;
    let seen = lines(&folder.join("caught.txt"))?.len() + lines(&folder.join("timeout.txt"))?.len();
    let unlisted = unlisted(&survivors, accepted);
    let all = seen + survivors.len();
    println!(
        "=== {name}: {} of {all} survived, {} of them listed",
        survivors.len(),
        survivors.len() - unlisted.len()
    );
    unlisted.iter().for_each(|survivor| println!("not listed: {survivor}"));
    Ok(unlisted.len())
}

fn lines(path: &Path) -> Result<Vec<String>, String> {
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Returns the mutants of the list: lines that are not empty and no comment. Each has a comment
/// before it, which is its reason.
fn accepted(text: &str) -> Result<Vec<String>, String> {
    let (mut mutants, mut has_reason) = (Vec::new(), false);
    for (number, line) in text.lines().enumerate() {
        match line.trim() {
            "" => has_reason = false,
            comment if comment.starts_with('#') => has_reason = true,
            _ if !has_reason => {
                return Err(format!(
                    "mutants-accepted.txt, line {}: there is no reason above it",
                    number + 1
                ));
            }
            mutant => mutants.push(mutant.to_owned()),
        }
    }
    Ok(mutants)
}

/// Returns the survivors that are not on the list. A line of the list matches one survivor.
fn unlisted<'a>(survivors: &'a [String], accepted: &[String]) -> Vec<&'a String> {
    let mut left: Vec<&String> = accepted.iter().collect();
    let mut is_unlisted = |survivor: &str| {
        let name = without_place(survivor);
        let place = left.iter().position(|listed| **listed == name);
        place.map(|place| left.swap_remove(place)).is_none()
    };
    survivors.iter().filter(|survivor| is_unlisted(survivor)).collect()
}

/// Returns a mutant without its line and column, which change with everything above it: `FILE:
/// WHAT` of `FILE:LINE:COLUMN: WHAT`.
fn without_place(mutant: &str) -> String {
    let mut parts = mutant.splitn(4, ':');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(file), Some(_), Some(_), Some(what)) => format!("{file}:{what}"),
        _ => mutant.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn accepted_mutants_have_reasons() {
        assert!(accepted(ACCEPTED).is_ok());
        assert_eq!(
            accepted("# why\na.rs: x\n\n# why not\nb.rs: y\nb.rs: y\n"),
            Ok(strings(&["a.rs: x", "b.rs: y", "b.rs: y"]))
        );
        assert!(accepted("# why\na.rs: x\n\nb.rs: y\n").is_err());
        assert!(accepted("a.rs: x\n").is_err());
    }

    #[test]
    fn listed_line_matches_one_survivor_at_any_position() {
        let survivors = strings(&[
            "a.rs:3:7: replace f -> T::new with x",
            "a.rs:9:1: replace f -> T::new with x",
            "b.rs:1:1: y",
        ]);
        let listed = strings(&["a.rs: replace f -> T::new with x"]);
        assert_eq!(unlisted(&survivors, &listed), [&survivors[1], &survivors[2]]);
        let listed = strings(&[
            "a.rs: replace f -> T::new with x",
            "b.rs: y",
            "a.rs: replace f -> T::new with x",
        ]);
        assert!(unlisted(&survivors, &listed).is_empty());
    }
}

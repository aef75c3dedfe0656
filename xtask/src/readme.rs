//! The commands of the README, which must work as printed.

use crate::step::{Step, command};
use std::path::Path;

/// The command that runs this program, which is not run again.
const THIS: &str = "cargo xtask test";

/// Returns a step for every line of the README's `sh` blocks.
pub(crate) fn steps() -> Result<Vec<Step>, String> {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask has no parent folder")?;
    let file = root.join("README.md");
    let text =
        std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let commands = commands(&text);
    if !commands.contains(&THIS) || commands.len() < 2 {
        return Err("the README no longer shows its commands in `sh` blocks".to_owned());
    }
    let run = commands.into_iter().filter(|line| *line != THIS);
    Ok(run
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            Step::new("README", command(words[0], &words[1..])).with("SC_GPU_ADAPTER", "llvmpipe")
        })
        .collect())
}

/// Returns the lines inside blocks fenced with ```sh, indented or not.
fn commands(text: &str) -> Vec<&str> {
    let mut inside = false;
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        match line {
            "```sh" => inside = true,
            "```" => inside = false,
            line if inside && !line.is_empty() => found.push(line),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::commands;

    #[test]
    fn only_shell_blocks_are_commands() {
        let text = "a\n```sh\nx y\n```\n  ```sh\n  z\n  ```\n```rust\nno\n```\n";
        assert_eq!(commands(text), ["x y", "z"]);
    }
}

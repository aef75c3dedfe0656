//! Release notes: the section of a version in the changelog.

use std::path::Path;

/// Prints the notes of the release with a tag such as `v0.1.0`.
pub(crate) fn print(tag: Option<&str>) -> Result<(), String> {
    let tag = tag.ok_or("name the tag of the release, as in cargo xtask notes v0.1.0")?;
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask has no parent folder")?;
    let read = |name: &str| {
        std::fs::read_to_string(root.join(name)).map_err(|error| format!("{name}: {error}"))
    };
    let version = workspace_version(&read("Cargo.toml")?)?.to_owned();
    if tag.strip_prefix('v') != Some(&version) {
        return Err(format!(
            "the tag {tag} is not that of version {version} in Cargo.toml: name it v{version}"
        ));
    }
    println!("{}", section(&read("CHANGELOG.md")?, &version)?);
    Ok(())
}

/// Returns the version in the manifest of the workspace.
fn workspace_version(manifest: &str) -> Result<&str, String> {
    let package = manifest.split("[workspace.package]").nth(1).unwrap_or_default();
    package
        .lines()
        .take_while(|line| !line.starts_with('['))
        .find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'))
        .ok_or_else(|| "Cargo.toml has no version under [workspace.package]".to_owned())
}

/// Returns the text below the heading of a version.
fn section(changelog: &str, version: &str) -> Result<String, String> {
    let heading = format!("## [{version}]");
    let mut lines = changelog.lines().skip_while(|line| !line.starts_with(&heading)).skip(1);
    let text: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with("## ")).collect();
    match text.join("\n").trim() {
        "" => Err(format!(
            "CHANGELOG.md has no section \"{heading} - DATE\" with text: rename the section of unreleased changes"
        )),
        text => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{section, workspace_version};

    const LOG: &str = "# Changelog\n\n## [Unreleased]\n\nnew\n\n## [0.2.0] - 2026-01-02\n\n### Added\n\n- a\n\n## [0.1.0]\n\n- b\n";

    #[test]
    fn section_ends_at_the_next_version() {
        assert_eq!(section(LOG, "0.2.0"), Ok("### Added\n\n- a".to_owned()));
        assert_eq!(section(LOG, "0.1.0"), Ok("- b".to_owned()));
    }

    #[test]
    fn missing_and_empty_sections_are_errors() {
        assert!(section(LOG, "0.3.0").is_err());
        assert!(section("## [0.3.0]\n\n## [0.2.0]\ntext\n", "0.3.0").is_err());
    }

    #[test]
    fn version_is_that_of_the_workspace() {
        let manifest = "[package]\nversion = \"9.0.0\"\n[workspace.package]\nversion = \"0.1.0\"\n[workspace.dependencies]\n";
        assert_eq!(workspace_version(manifest), Ok("0.1.0"));
        assert!(workspace_version("[workspace.package]\n[other]\nversion = \"1.0.0\"\n").is_err());
    }
}

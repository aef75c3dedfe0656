//! The crates as a registry would have them: packaged, unpacked in one workspace, and compiled from
//! their own files only.
//!
//! Cargo's own verification compiles what lies under its home folder for packages of these names
//! and this version. It may have come from an older tree, and is not replaced.

use crate::step::{Step, cargo, command};
use std::fs;
use std::path::{Path, PathBuf};

/// The crates that are never published.
const PRIVATE: [&str; 3] = ["aleatron-python", "aleatron-shared-features", "xtask"];

/// Packages all crates and compiles the packages.
pub(crate) fn check() -> Result<(), String> {
    let packages = crate::system::target_folder()?.join("package");
    remove(&packages)?;
    let mut pack = vec!["package", "--workspace", "--no-verify", "--allow-dirty", "--quiet"];
    for name in PRIVATE {
        pack.extend(["--exclude", name]);
    }
    crate::step::run_all(&[Step::new("packages", cargo(&pack))])?;

    let unpacked = packages.join("unpacked");
    fs::create_dir(&unpacked).map_err(|error| failure(&unpacked, &error))?;
    let archives = archives(&packages)?;
    // Archives have one time for all files; with the time of unpacking, a second check compiles
    // changed files.
    let unpack = archives.iter().map(|archive| {
        Step::new("unpack", command("tar", &["-xzmf", &text(archive), "-C", &text(&unpacked)]))
    });
    crate::step::run_all(&unpack.collect::<Vec<_>>())?;
    write_workspace(&unpacked, &archives)?;
    let manifest = text(&unpacked.join("Cargo.toml"));
    let check = ["check", "--workspace", "--all-features", "--manifest-path", &manifest];
    // Reuses the dependencies that the lints have compiled.
    let target = text(&crate::system::target_folder()?);
    crate::step::run_all(&[
        Step::new("packages compile", cargo(&check)).with("CARGO_TARGET_DIR", target)
    ])
}

/// Creates a workspace of unpacked crates, which replace those of a registry.
fn write_workspace(unpacked: &Path, archives: &[PathBuf]) -> Result<(), String> {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask has no parent folder")?;
    let read = |path: PathBuf| fs::read_to_string(&path).map_err(|error| failure(&path, &error));
    let mut manifest =
        "[workspace]\nresolver = \"3\"\nmembers = [\"*\"]\n\n[patch.crates-io]\n".to_owned();
    for archive in archives {
        let folder = archive.file_stem().unwrap_or_default().to_string_lossy();
        let (name, _version) = folder.rsplit_once('-').ok_or("a package without a version")?;
        manifest += &format!("{name} = {{ path = \"{folder}\" }}\n");
    }
    // The same profiles, so that dependencies are not compiled again.
    let own = read(root.join("Cargo.toml"))?;
    manifest += own.find("[profile.").map_or("", |start| &own[start..]);
    let write = |name: &str, text: String| {
        let path = unpacked.join(name);
        fs::write(&path, text).map_err(|error| failure(&path, &error))
    };
    write("Cargo.toml", manifest)?;
    write("Cargo.lock", read(root.join("Cargo.lock"))?)
}

/// Returns the packed crates.
fn archives(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let files = fs::read_dir(folder).map_err(|error| failure(folder, &error))?;
    let files =
        files.map(|file| file.map(|file| file.path()).map_err(|error| failure(folder, &error)));
    let mut files: Vec<PathBuf> = files.collect::<Result<_, _>>()?;
    files.retain(|path| path.extension().is_some_and(|ending| ending == "crate"));
    files.sort();
    if files.is_empty() { Err("no crate was packed".to_owned()) } else { Ok(files) }
}

fn remove(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failure(folder, &error)),
        _ => Ok(()),
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn failure(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

//! Exists so that Cargo compiles the build dependencies.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}

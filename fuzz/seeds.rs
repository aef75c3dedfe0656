//! Writes files to begin with into `corpus/`, a folder for each target: what is nearly right gets furthest.
//!
//! `cargo xtask fuzz` runs it first.

use aleatron_fuzz::{network, npy, npz, stopped_after};
use std::path::Path;
use zip::CompressionMethod::{Deflated, Stored};

fn main() -> std::io::Result<()> {
    write("npz", &archives())?;
    write("csv", &texts())?;
    write("evaluation", &[0, 1, 3, 6].map(|cells| stopped_after(cells).to_json().unwrap().into_bytes()))?;
    let (description, tensors) = network().to_parts().unwrap();
    let both = [description.as_bytes(), b"\0", &tensors].concat();
    write("network_file", &[description.into_bytes(), tensors, both])?;
    // Every kind of case, with little and with much behind it.
    let cases: Vec<Vec<u8>> = (0u32..14)
        .flat_map(|kind| [1u32, 64, 599].map(|length| [kind.to_le_bytes(), length.to_le_bytes()].concat()))
        .collect();
    write("conformance", &cases)
}

fn archives() -> Vec<Vec<u8>> {
    let x = npy("<f8", "False", "(2, 2)", &[0.5f64, 1.5, -2.0, 4.0].map(f64::to_le_bytes).concat());
    let by_columns = npy("<f4", "True", "(2, 2)", &[0.5f32, 1.5, -2.0, 4.0].map(f32::to_le_bytes).concat());
    let half = npy(">f2", "False", "(2, 1)", &[0x3e, 0x00, 0xc0, 0x00]);
    let y = npy("|u1", "False", "(2,)", &[1, 0]);
    let mut archives = Vec::new();
    for x in [&x, &by_columns, &half] {
        archives.extend([npz(x, &y, Stored), npz(x, &y, Deflated)]);
        // As two arrays behind a length.
        archives.push([&(x.len() as u16).to_le_bytes(), &x[..], &y[..]].concat());
    }
    archives
}

fn texts() -> Vec<Vec<u8>> {
    let texts = ["1,2.5,0\n-3,4,2\n", "a,b,class\n1,2,0\n", "\u{feff}1;2;0\r\n", "0\t1\t2\n\n5\t6\t1e0\n", "\"1\",\"2\"\n"];
    (0..18u8).flat_map(|choice| texts.map(|text| [&[choice], text.as_bytes()].concat())).collect()
}

fn write(target: &str, files: &[Vec<u8>]) -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    std::fs::create_dir_all(&folder)?;
    for (k, file) in files.iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{k}")), file)?;
    }
    Ok(())
}

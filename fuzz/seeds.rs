//! Writes seed files into `corpus/`, a folder for each target.
//!
//! `cargo xtask fuzz` runs it first.

use aleatron_fuzz::{
    CONFIGS, Image, convolutional, network, npy, npz, onnx, safetensors, stopped_after,
};
use aleatron_graph::onnx::proto::{GraphProto, NodeProto};
use std::path::Path;
use zip::CompressionMethod::{Deflated, Stored};

fn main() -> std::io::Result<()> {
    write("npz", &archives())?;
    write("csv", &texts())?;
    write(
        "evaluation",
        &[0, 1, 3, 6].map(|cells| stopped_after(cells).to_json().unwrap().into_bytes()),
    )?;
    // The sizes of networks: with one axis and two, with a pool and without, with a dense layer and without.
    let sequence = [0, 2, 5, 3, 4, 3, 1, 1, 2, 0, 0, 0, 0, 1, 1, 0, 0, 4, 1, 2, 1, 4, 3];
    let image = [1, 2, 4, 5, 2, 3, 3, 3, 4, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0];
    let files = [convolutional().to_onnx().unwrap(), network().to_onnx().unwrap(), vec![]];
    write(
        "network",
        &[&files[..], &[sequence.to_vec(), image.to_vec(), [1; 64].to_vec()]].concat(),
    )?;
    write("safetensors", &[safetensors(), vec![]])?;
    write("transformer_config", &CONFIGS.map(|config| config.as_bytes().to_vec()))?;
    let images: Vec<Vec<u8>> = Image::kinds().iter().map(Image::bytes).collect();
    let edits = (0..images.len()).map(|kind| vec![kind as u8]).collect::<Vec<_>>();
    write("png", &[images, edits].concat())?;
    write("npy", &arrays())?;
    write("onnx_file", &models())?;
    // The number of an operator, and bytes that choose inputs and attributes.
    let chosen: [&[u8]; 3] =
        [&[0, 2, 0, 2, 1, 1, 0], &[1, 3, 1, 3, 2, 1, 1, 2], &[2, 1, 0, 4, 0, 0, 1, 1, 2]];
    let nodes = (0..onnx::operators().len() as u16)
        .flat_map(|k| chosen.map(|bytes| [&k.to_le_bytes(), bytes, &[77; 96]].concat()));
    write("onnx_node", &nodes.collect::<Vec<_>>())?;
    let settings = [
        r#"{"a": {"length": 64, "generator": "sobol:1+lfsr:7"}, "b": {"width": "auto", "sharing": "input"}}"#,
        "length=64,width=6",
    ];
    write("layer_settings", &settings.map(|text| text.as_bytes().to_vec()))?;
    // Every kind of case, with little and with much behind it.
    let cases: Vec<Vec<u8>> = (0u32..14)
        .flat_map(|kind| {
            [1u32, 64, 599].map(|length| [kind.to_le_bytes(), length.to_le_bytes()].concat())
        })
        .collect();
    write("conformance", &cases)
}

fn arrays() -> Vec<Vec<u8>> {
    let y = npy("<i8", "False", "(2,)", &[1i64, 0].map(i64::to_le_bytes).concat());
    let images = npy("|u1", "False", "(2, 2, 2)", &[0, 1, 2, 3, 4, 5, 6, 7]);
    let by_columns = npy(">f4", "True", "(2, 3)", &[0.5f32; 6].map(f32::to_be_bytes).concat());
    [images, by_columns].map(|x| [&(x.len() as u16).to_le_bytes(), &x[..], &y[..]].concat()).into()
}

/// Returns a network, and a model of each operator.
fn models() -> Vec<Vec<u8>> {
    let operators = onnx::operators();
    let single = operators.iter().map(|operator| {
        let node = NodeProto {
            input: ["a", "b", "c"].map(str::to_owned).to_vec(),
            output: vec!["y".to_owned()],
            op_type: Some((*operator).to_owned()),
            ..NodeProto::default()
        };
        let initializer = vec![
            onnx::constant("a", &[1, 2, 3, 3]),
            onnx::constant("b", &[2, 2, 1, 1]),
            onnx::constant("c", &[2]),
        ];
        onnx::model(
            GraphProto {
                node: vec![node],
                initializer,
                output: vec![onnx::value("y")],
                ..GraphProto::default()
            },
            21,
        )
    });
    let network = convolutional().to_onnx().unwrap();
    single.chain([network]).collect()
}

fn archives() -> Vec<Vec<u8>> {
    let x = npy("<f8", "False", "(2, 2)", &[0.5f64, 1.5, -2.0, 4.0].map(f64::to_le_bytes).concat());
    let by_columns =
        npy("<f4", "True", "(2, 2)", &[0.5f32, 1.5, -2.0, 4.0].map(f32::to_le_bytes).concat());
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
    let texts = [
        "1,2.5,0\n-3,4,2\n",
        "a,b,class\n1,2,0\n",
        "\u{feff}1;2;0\r\n",
        "0\t1\t2\n\n5\t6\t1e0\n",
        "\"1\",\"2\"\n",
    ];
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

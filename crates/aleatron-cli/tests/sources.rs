//! The networks and the data of `eval` and `inspect`: constants, symbolic sizes, shapes, classes
//! and calibration.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking, too")]

mod common;

use aleatron::network::{Calibration, Graph, Network, NetworkBuilder, Op};
use aleatron_graph::{Binary, Dim, Value as GraphValue};
use aleatron_tensor::{DType, Device, Tensor};
use common::{Folder, aleatron, fault};
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::Command;

/// Returns the JSON that the program prints with `--json`.
fn json(arguments: &[&str]) -> Value {
    common::json(&[arguments, &["--json"]].concat())
}

/// `(x + offset) * W` with a symbolic width, which W fixes to 2, and an offset that is an input. A
/// second output is the sum alone.
fn two_inputs(folder: &Folder) -> String {
    let mut graph = Graph::new("offset");
    let dims =
        |names: &[&str]| Some(names.iter().map(|name| Dim::Named((*name).to_owned())).collect());
    let input =
        |name: &str, shape| GraphValue { name: name.to_owned(), dtype: Some(DType::F32), shape };
    let x = graph.add_input(input("x", dims(&["n", "width"])));
    let offset = graph.add_input(input("offset", Some(vec![Dim::Fixed(2)])));
    let sum = graph.add_node("sum", Op::Binary(Binary::Add), &[x, offset]);
    let weights = Tensor::from_slice(&[1.0_f32, 0.0, 0.0, 1.0], &[2, 2], &Device::Cpu).unwrap();
    let weights = graph.add_constant("weights", weights);
    let scores = graph.add_node("fc", Op::MatMul, &[sum, weights]);
    graph.add_output(scores);
    graph.add_output(sum);
    let path = folder.join("offset.onnx");
    std::fs::write(&path, graph.to_onnx().unwrap()).unwrap();
    path
}

#[test]
fn constants_and_sizes_are_given_by_name() {
    let folder = Folder::new("sources-bindings");
    let model = two_inputs(&folder);
    std::fs::write(folder.join("d.csv"), "0.5,0.25,0\n0.25,0.5,1\n").unwrap();
    let data = folder.join("d.csv");
    let common = ["eval", &model, "--data", &data, "--lengths", "256", "--generators", "sobol"];
    let run = |more: &[&str]| aleatron(&[&common[..], more].concat());
    let unbound = fault(&run(&[]));
    assert!(
        unbound.contains("--shape width=SIZE") || unbound.contains("--input offset=VALUE"),
        "{unbound}"
    );
    let accuracy =
        |more: &[&str]| json(&[&common[..], more].concat())["float"]["accuracy"].as_f64().unwrap();
    assert_eq!(accuracy(&["--shape", "width=2", "--input", "offset=0"]), 1.0);
    // An offset that turns the order of the scores of the second sample around.
    let array = folder.floats("offset.npy", "(2,)", &[0.5, 0.0]);
    assert_eq!(accuracy(&["--shape", "width=2", "--input", &format!("offset={array}")]), 0.5);
    let twice = fault(&run(&["--input", "offset=0", "--input", "offset=1"]));
    assert!(twice.contains("\"offset\" is given twice"), "{twice}");
    assert!(fault(&run(&["--shape", "height=2"])).contains("the symbolic sizes are n, width"));
}

/// Writes arrays of f32 into an .npz file: name, shape and values.
fn npz(path: &str, arrays: &[(&str, &str, &[f32])]) {
    let mut archive = zip::ZipWriter::new(std::fs::File::create(path).unwrap());
    for (name, shape, values) in arrays {
        archive
            .start_file(format!("{name}.npy"), zip::write::SimpleFileOptions::default())
            .unwrap();
        archive.write_all(&common::npy("<f4", shape, &common::bytes(values))).unwrap();
    }
    archive.finish().unwrap();
}

#[test]
fn constants_are_fed_from_an_archive_by_the_names_of_inputs() {
    let folder = Folder::new("sources-feed");
    let model = two_inputs(&folder);
    std::fs::write(folder.join("d.csv"), "0.5,0.25,0\n0.25,0.5,1\n").unwrap();
    let data = folder.join("d.csv");
    let common = [
        "eval",
        &model,
        "--data",
        &data,
        "--lengths",
        "256",
        "--generators",
        "sobol",
        "--shape",
        "width=2",
    ];
    let run =
        |feed: &str, more: &[&str]| aleatron(&[&common[..], &["--feed", feed], more].concat());
    let accuracy = |feed: &str| {
        json(&[&common[..], &["--feed", feed]].concat())["float"]["accuracy"].as_f64().unwrap()
    };
    let (zero, shifted) = (folder.join("zero.npz"), folder.join("shifted.npz"));
    npz(&zero, &[("offset", "(2,)", &[0.0, 0.0])]);
    npz(&shifted, &[("offset", "(2,)", &[0.5, 0.0])]);
    // The offset of the second archive reverses the scores of the second sample.
    assert_eq!(accuracy(&zero), 1.0);
    assert_eq!(accuracy(&shifted), 0.5);
    let twice = fault(&run(&zero, &["--input", "offset=0"]));
    assert!(twice.contains("\"offset\" is given twice"), "{twice}");
    let unknown = folder.join("unknown.npz");
    npz(&unknown, &[("offset", "(2,)", &[0.0, 0.0]), ("bias", "(1,)", &[0.0])]);
    let refused = fault(&run(&unknown, &[]));
    assert!(refused.contains("bias"), "{refused}");
    let wide = folder.join("wide.npz");
    npz(&wide, &[("offset", "(3,)", &[0.0, 0.0, 0.0])]);
    let refused = fault(&run(&wide, &[]));
    assert!(refused.contains("offset"), "{refused}");
    assert!(fault(&run(&folder.join("none.npz"), &[])).contains("none.npz"));
    let broken = folder.join("broken.npz");
    std::fs::write(&broken, "PK").unwrap();
    assert!(fault(&run(&broken, &[])).contains("broken.npz"));
}

#[test]
fn inspect_shows_symbolic_sizes_and_stages() {
    let folder = Folder::new("sources-inspect");
    let model = two_inputs(&folder);
    let shown = json(&["inspect", &model, "--shape", "width=2"]);
    assert_eq!(shown["input_dims"]["x"], serde_json::json!(["n", "width"]));
    assert_eq!(shown["inputs"][0]["shape"], serde_json::json!([1, 2]));
    let text =
        String::from_utf8(aleatron(&["inspect", &model, "--shape", "width=2"]).stdout).unwrap();
    assert!(text.contains("input x has the shape n x width in the file"), "{text}");
    let open = String::from_utf8(aleatron(&["inspect", &model]).stdout).unwrap();
    assert!(open.contains("open sizes, shown as 1: width (give them with --shape)"), "{open}");
    let bound = ["--shape", "width=2", "--input", "offset=0"];
    let stages = json(&[&["inspect", &model, "--stages", "--length", "64"], &bound[..]].concat());
    let layers = &stages["stages"][0]["layers"];
    assert_eq!((&layers[0]["name"], &layers[0]["length"]), (&"fc".into(), &64.into()), "{stages}");
    let all = json(&[&["inspect", &model, "--output", "sum_output"], &bound[..]].concat());
    assert_eq!(all["outputs"][0]["name"], "sum_output");
    let text = String::from_utf8(aleatron(&["inspect", "cnn", "--stages"]).stdout).unwrap();
    assert!(
        text.contains("layer conv1: conv, 64 -> 512") && text.contains("step product of dense1"),
        "{text}"
    );
}

/// Returns a network over images of three channels of 1 x 2 pixels, which adds the pixels of a
/// channel.
fn images(folder: &Folder) -> String {
    let weights =
        [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0];
    let network = NetworkBuilder::new("channels", &[3, 1, 2]).dense("fc", 6, &weights, &[]);
    let network = network.build().unwrap();
    let network = network.calibrated(&[1.0; 6], &Calibration::default()).unwrap();
    network.save(folder.join("images.onnx")).unwrap();
    folder.join("images.onnx")
}

#[test]
fn images_of_another_layout_are_errors_or_transposed() {
    let folder = Folder::new("sources-layout");
    let model = images(&folder);
    // Channels last: the first image has its largest channel first, the second one last.
    let values = [0.9, 0.1, 0.2, 0.8, 0.3, 0.1, 0.1, 0.2, 0.9, 0.2, 0.1, 0.8];
    let y = folder.floats("y.npy", "(2,)", &[0.0, 2.0]);
    let x = folder.floats("x.npy", "(2, 1, 2, 3)", &values);
    let common = ["eval", &model, "--labels", &y, "--lengths", "256", "--generators", "sobol"];
    let refused = fault(&aleatron(&[&common[..], &["--data", &x]].concat()));
    assert!(
        refused.contains("samples have shape [1, 2, 3], the network takes [3, 1, 2]"),
        "{refused}"
    );
    assert!(refused.contains("the axes [0, 3, 1, 2]; --layout nhwc does that"), "{refused}");
    let accuracy =
        |more: &[&str]| json(&[&common[..], more].concat())["float"]["accuracy"].as_f64().unwrap();
    assert_eq!(accuracy(&["--data", &x, "--layout", "NHWC"]), 1.0);
    let flat = folder.floats(
        "flat.npy",
        "(2, 6)",
        &[0.9, 0.8, 0.1, 0.3, 0.2, 0.1, 0.1, 0.2, 0.2, 0.1, 0.9, 0.8],
    );
    assert_eq!(accuracy(&["--data", &flat]), 1.0);
}

#[test]
fn names_of_classes_are_stated_and_counted() {
    let folder = Folder::new("sources-classes");
    let model = images(&folder);
    let line = |values: &str, label: &str| format!("{values},{label}\n");
    let (red, blue) = ("0.9,0.8,0,0,0,0", "0,0,0,0,0.9,0.8");
    let data = folder.join("d.csv");
    std::fs::write(&data, line(red, "red") + &line(blue, "blue")).unwrap();
    let common = ["eval", &model, "--data", &data, "--lengths", "64", "--generators", "sobol"];
    // Two names are not the three classes of the network: their order would be a guess.
    let refused = fault(&aleatron(&common));
    assert!(refused.contains("its classes are 2 (blue, red), the network has 3"), "{refused}");
    let output = aleatron(&[&common[..], &["--classes", "red,green,blue"]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("floating point: 100.00 % right"), "{text}");
    assert!(text.contains("classes: 0 = red, 1 = green, 2 = blue"), "{text}");
    std::fs::write(&data, line(red, "0.5")).unwrap();
    let refused = fault(&aleatron(&common));
    assert!(
        refused.contains("line 1: \"0.5\" is not a class") && refused.contains("--task regression"),
        "{refused}"
    );
}

/// Returns an ONNX file without scales over two features.
fn uncalibrated(folder: &Folder) -> String {
    let network = NetworkBuilder::new("plain", &[2])
        .dense("fc", 2, &[1.0, 0.0, 0.0, 0.25], &[])
        .build()
        .unwrap();
    let path = folder.join("plain.onnx");
    std::fs::write(&path, network.graph().to_onnx().unwrap()).unwrap();
    path
}

#[test]
fn calibration_with_test_samples_is_stated() {
    let folder = Folder::new("sources-calibration");
    let model = uncalibrated(&folder);
    let data = folder.join("d.csv");
    std::fs::write(&data, "3,0,0\n0,2,1\n").unwrap();
    let report = folder.join("r");
    let common = ["eval", &model, "--data", &data, "--lengths", "64", "--generators", "sobol"];
    let output = aleatron(&[&common[..], &["--report", &report]].concat());
    let note = "found with the first 2 samples of the test data";
    for text in [
        &output.stdout,
        &output.stderr,
        &std::fs::read(Path::new(&report).join("index.html")).unwrap(),
    ] {
        assert!(String::from_utf8_lossy(text).contains(note), "{}", String::from_utf8_lossy(text));
    }
    // Samples of training, or scales of the file, need no warning.
    let training = folder.join("t.csv");
    std::fs::write(&training, "4,0,0\n").unwrap();
    let found = json(&[&common[..], &["--calibrate", &training]].concat());
    assert_eq!(found["warnings"], serde_json::json!([]));
    let saved =
        Network::load(&model).unwrap().calibrated(&[4.0, 4.0], &Calibration::default()).unwrap();
    saved.save(folder.join("saved.onnx")).unwrap();
    let found = json(&[
        "eval",
        &folder.join("saved.onnx"),
        "--data",
        &data,
        "--lengths",
        "64",
        "--generators",
        "sobol",
    ]);
    assert_eq!(found["warnings"], serde_json::json!([]));
    let digits = json(&[
        "eval",
        "cnn",
        "--calibrate",
        &folder.floats("c.npy", "(1, 64)", &[8.0; 64]),
        "--lengths",
        "8",
        "--generators",
        "sobol",
    ]);
    assert_eq!(digits["plan"]["range"], "saturate");
}

/// Returns a dense layer for as many samples as the file fixes, or for any number.
fn samples_of(folder: &Folder, n: Dim, name: &str) -> String {
    let mut graph = Graph::new("fixed");
    let shape = Some(vec![n, Dim::Fixed(2)]);
    let x = graph.add_input(GraphValue { name: "x".to_owned(), dtype: Some(DType::F32), shape });
    let weights = Tensor::from_slice(&[1.0_f32, 0.5, -0.5, 1.0], &[2, 2], &Device::Cpu).unwrap();
    let weights = graph.add_constant("weights", weights);
    let scores = graph.add_node("fc", Op::MatMul, &[x, weights]);
    graph.add_output(scores);
    let path = folder.join(name);
    std::fs::write(&path, graph.to_onnx().unwrap()).unwrap();
    path
}

/// Numbers of samples that are not multiples of the fixed one: in the calibration, with a maximum
/// or a percentile, and in the test.
#[test]
fn fixed_batch_size_changes_neither_scales_nor_figures() {
    let folder = Folder::new("sources-fixed-batch");
    std::fs::write(folder.join("d.csv"), "0.5,0.25,0\n0.25,0.5,1\n-0.5,0.1,1\n").unwrap();
    std::fs::write(
        folder.join("c.csv"),
        "0.9,0.8,0\n0.7,0.6,1\n0.5,0.4,1\n0.3,0.2,0\n0.1,0.05,0\n",
    )
    .unwrap();
    let (data, samples) = (folder.join("d.csv"), folder.join("c.csv"));
    let models = [
        samples_of(&folder, Dim::Named("n".to_owned()), "free.onnx"),
        samples_of(&folder, Dim::Fixed(1), "one.onnx"),
        samples_of(&folder, Dim::Fixed(4), "four.onnx"),
    ];
    for percentile in [&[][..], &["--percentile", "60"]] {
        let found = models.each_ref().map(|model| {
            let common =
                ["eval", model, "--data", &data, "--calibrate", &samples, "--lengths", "16"];
            let mut found = json(&[&common[..], &["--generators", "sobol"], percentile].concat());
            for cell in found["cells"].as_array_mut().unwrap() {
                // The bits of a sample, counted once: 4 products of 16 bits.
                let [macs, samples] = ["bit_macs_per_second", "samples_per_second"]
                    .map(|name| cell[name].take().as_f64().unwrap());
                assert!((macs / samples - 64.0).abs() < 1e-6, "{macs} {samples}");
                cell["seconds"].take();
            }
            [found["cells"].take(), found["graph"].take(), found["float"]["accuracy"].take()]
        });
        assert!(!found[0][0].as_array().unwrap().is_empty());
        assert_eq!(found[1], found[0], "{percentile:?}");
        assert_eq!(found[2], found[0], "{percentile:?}");
    }
}

#[test]
fn weight_scales_are_those_of_rows_or_tensors() {
    let folder = Folder::new("sources-scales");
    let model = uncalibrated(&folder);
    let data = folder.join("d.csv");
    std::fs::write(&data, "3,0,0\n0,2,1\n").unwrap();
    let layers = |scale: &str| {
        let all = [
            "eval",
            &model,
            "--data",
            &data,
            "--lengths",
            "64",
            "--generators",
            "bernoulli",
            "--seeds",
            "1",
        ];
        json(&[&all[..], &["--weight-scale", scale]].concat())["cells"][0]["layers"].take()
    };
    // A row of small weights has streams of few ones if the scale is that of the whole layer.
    assert_ne!(layers("row"), layers("Tensor"));
}

#[test]
fn bytes_of_images_are_warned_about() {
    let folder = Folder::new("sources-bytes");
    let model = uncalibrated(&folder);
    let data = folder.join("d.csv");
    std::fs::write(&data, "255,0,0\n0,128,1\n").unwrap();
    let common = ["eval", &model, "--data", &data, "--lengths", "64", "--generators", "sobol"];
    let said =
        |more: &[&str]| String::from_utf8(aleatron(&[&common[..], more].concat()).stderr).unwrap();
    assert!(said(&[]).contains("give --divide 255"), "{}", said(&[]));
    assert!(!said(&["--divide", "255"]).contains("--divide"), "{}", said(&["--divide", "255"]));
}

#[test]
fn searches_write_a_page_and_name_their_files() {
    let folder = Folder::new("sources-find");
    let report = folder.join("f");
    let common = [
        "eval",
        "plain",
        "--lengths",
        "16,64",
        "--generators",
        "sobol",
        "--find",
        "2",
        "--report",
        &report,
    ];
    let output = aleatron(&common);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    for name in ["find.html", "find.json", "layers.json"] {
        let path = Path::new(&report).join(name);
        assert!(text.contains(&format!("Written: {}", path.display())) && path.exists(), "{text}");
    }
    let page = std::fs::read_to_string(Path::new(&report).join("find.html")).unwrap();
    assert!(page.contains("Shortest streams of plain") && !page.contains("NaN"), "{page}");
    // An unfinished search is not replaced.
    let mut found: Value = serde_json::from_str(
        &std::fs::read_to_string(Path::new(&report).join("find.json")).unwrap(),
    )
    .unwrap();
    found["is_finished"] = false.into();
    std::fs::write(Path::new(&report).join("find.json"), found.to_string()).unwrap();
    assert!(fault(&aleatron(&common)).contains("unfinished search: go on with --resume"));
    assert!(aleatron(&[&common[..], &["--resume"]].concat()).status.success());
    let other = [
        "eval",
        "cnn",
        "--lengths",
        "16,64",
        "--generators",
        "sobol",
        "--find",
        "2",
        "--report",
        &report,
    ];
    assert!(fault(&aleatron(&other)).contains("a search of another network"));
}

/// Opening a pipe would block forever.
#[cfg(unix)]
#[test]
fn networks_that_are_not_regular_files_are_errors() {
    let folder = Folder::new("sources-fifo");
    let path = folder.join("net.onnx");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    assert!(fault(&aleatron(&["eval", &path])).contains("not a regular file"));
    assert!(fault(&aleatron(&["inspect", &path])).contains("not a regular file"));
}

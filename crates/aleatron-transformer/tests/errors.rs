//! Faults of files and calls are errors that name them.
#![allow(clippy::unwrap_used)]

mod common;

use aleatron_transformer::weights::random::sized;
use aleatron_transformer::{
    Adapter, Config, DeviceChoice, Error, GenerateOptions, LoadOptions, Logits, Precision,
    Sampling, Segment, Transformer,
};
use common::{Copy, devices, edit, folder, load};
use safetensors::tensor::{Dtype, TensorView, serialize};
use serde_json::{Value, json};
use std::path::Path;

/// Rewrites the tensors of a file.
fn tensors(path: &Path, change: impl FnOnce(&mut Vec<(String, Dtype, Vec<usize>, Vec<u8>)>)) {
    let bytes = std::fs::read(path).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let mut all: Vec<_> = file
        .tensors()
        .into_iter()
        .map(|(name, view)| (name, view.dtype(), view.shape().to_vec(), view.data().to_vec()))
        .collect();
    change(&mut all);
    let views = all.iter().map(|(name, dtype, shape, data)| {
        (name, TensorView::new(*dtype, shape.clone(), data).unwrap())
    });
    std::fs::write(path, serialize(views, None).unwrap()).unwrap();
}

#[test]
fn missing_extra_and_misshaped_tensors_are_named() {
    let copy = Copy::of("llama", "tensors");
    let path = copy.0.join("model.safetensors");
    tensors(&path, |all| all.retain(|(name, ..)| name != "model.layers.1.mlp.up_proj.weight"));
    assert!(
        matches!(copy.load(), Err(Error::MissingTensor { name }) if name == "model.layers.1.mlp.up_proj.weight")
    );

    let copy = Copy::of("llama", "extra");
    let path = copy.0.join("model.safetensors");
    tensors(&path, |all| {
        all.push(("model.layers.2.x".to_owned(), Dtype::F32, vec![1], vec![0; 4]))
    });
    assert!(matches!(copy.load(), Err(Error::ExtraTensor { name }) if name == "model.layers.2.x"));

    let copy = Copy::of("gpt2", "shape");
    copy.config(|config| config["n_inner"] = json!(128));
    let error = copy.load();
    assert!(
        matches!(&error, Err(Error::TensorShape { name, expected, actual })
            if name.ends_with("h.0.mlp.c_fc.weight") && expected[..] == [64, 128] && actual[..] == [64, 256]),
        "{error:?}"
    );

    let copy = Copy::of("llama", "type");
    tensors(&copy.0.join("model.safetensors"), |all| {
        for (name, dtype, ..) in all.iter_mut() {
            if name == "model.norm.weight" {
                *dtype = Dtype::I32;
            }
        }
    });
    assert!(
        matches!(copy.load(), Err(Error::TensorType { name, element }) if name == "model.norm.weight" && element == "I32")
    );
}

#[test]
fn unknown_options_are_named() {
    let cases: [(&str, &str, Value, &str); 6] = [
        ("llama", "model_type", json!("mamba"), "model_type"),
        ("llama", "hidden_act", json!("relu"), "hidden_act"),
        ("llama", "final_logit_softcapping", json!(30.0), "final_logit_softcapping"),
        (
            "llama-yarn",
            "rope_parameters",
            json!({"rope_type": "longrope"}),
            "rope_parameters.rope_type",
        ),
        (
            "llama-linear",
            "rope_parameters",
            json!({"rope_type": "linear", "factor": 2.0, "twist": 1}),
            "rope_parameters.twist",
        ),
        ("gpt2", "scale_attn_by_inverse_layer_idx", json!(true), "scale_attn_by_inverse_layer_idx"),
    ];
    for (model, option, value, named) in cases {
        let copy = Copy::of(model, option);
        copy.config(|config| config[option] = value);
        let error = copy.load();
        assert!(
            matches!(&error, Err(Error::UnknownOption { option, .. }) if option == named),
            "{named}: {error:?}"
        );
    }
    let copy = Copy::of("llama", "missing-option");
    copy.config(|config| drop(config.as_object_mut().unwrap().remove("vocab_size")));
    assert!(matches!(copy.load(), Err(Error::MissingOption { option }) if option == "vocab_size"));
    let copy = Copy::of("llama", "heads");
    copy.config(|config| config["num_key_value_heads"] = json!(3));
    assert!(matches!(copy.load(), Err(Error::BadOption { value, .. }) if value == "4"));
    for zero in ["num_hidden_layers", "vocab_size", "num_attention_heads", "hidden_size"] {
        copy.config(|config| config[zero] = json!(0));
        assert!(matches!(copy.load(), Err(Error::BadOption { .. })), "{zero}");
    }
}

#[test]
fn rotary_positions_are_described_once() {
    for (option, value) in [
        ("rope_scaling", json!({"rope_type": "yarn", "factor": 4.0})),
        ("rope_theta", json!(500.0)),
    ] {
        let copy = Copy::of("llama", option);
        copy.config(|config| config[option] = value);
        let error = copy.load();
        assert!(
            matches!(&error, Err(Error::BadOption { option: named, .. }) if named == option),
            "{error:?}"
        );
    }
    let copy = Copy::of("llama", "equal-theta");
    copy.config(|config| {
        config["rope_theta"] = config["rope_parameters"]["rope_theta"].clone();
        config["rope_scaling"] = Value::Null;
    });
    copy.load().unwrap();
}

#[test]
fn adapters_are_checked() {
    let config = Config::read(&folder("llama").join("config.json")).unwrap();
    let copy = Copy::of("llama-lora", "adapter");
    edit(&copy.0.join("adapter_config.json"), |options| options["use_dora"] = json!(true));
    assert!(
        matches!(Adapter::read(&copy.0, &config), Err(Error::UnknownOption { option, .. }) if option == "use_dora")
    );
    edit(&copy.0.join("adapter_config.json"), |options| {
        options["use_dora"] = json!(false);
        options["r"] = json!(5);
    });
    assert!(
        matches!(Adapter::read(&copy.0, &config), Err(Error::TensorShape { expected, .. }) if expected[0] == 5)
    );
    edit(&copy.0.join("adapter_config.json"), |options| options["r"] = json!(4));
    tensors(&copy.0.join("adapter_model.safetensors"), |all| {
        all.retain(|(name, ..)| !name.ends_with("layers.0.mlp.up_proj.lora_B.weight"));
    });
    assert!(matches!(Adapter::read(&copy.0, &config), Err(Error::MissingTensor { .. })));
    let gpt2 = Config::read(&folder("gpt2").join("config.json")).unwrap();
    assert!(matches!(Adapter::read(&folder("llama-lora"), &gpt2), Err(Error::ExtraTensor { .. })));
}

#[test]
fn broken_files_and_folders_are_errors() {
    let nowhere = Path::new("/nonexistent/model");
    assert!(matches!(
        Transformer::from_pretrained(nowhere, &LoadOptions::default()),
        Err(Error::File { .. })
    ));
    let copy = Copy::of("llama", "broken");
    std::fs::write(copy.0.join("model.safetensors"), b"\xff\xff\xff\xff\xff\xff\xff\xff{}")
        .unwrap();
    assert!(matches!(copy.load(), Err(Error::Format { .. })));
    std::fs::write(copy.0.join("model.safetensors"), b"").unwrap();
    assert!(matches!(copy.load(), Err(Error::Format { .. })));
    std::fs::remove_file(copy.0.join("model.safetensors")).unwrap();
    assert!(matches!(copy.load(), Err(Error::NoWeights { .. })));
    std::fs::write(copy.0.join("config.json"), "[1]").unwrap();
    assert!(matches!(copy.load(), Err(Error::Format { .. })));
}

/// Opening a pipe that has no writer blocks without end.
#[test]
#[cfg(unix)]
fn pipes_instead_of_files_are_errors() {
    let pipe = |path: &Path| {
        let _ = std::fs::remove_file(path);
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    for name in ["config.json", "tokenizer.json", "generation_config.json"] {
        let copy = Copy::of("qwen2", &format!("pipe-{name}"));
        pipe(&copy.0.join(name));
        let error = copy.load().unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("not a regular file"), "{error}");
    }
    // Weights are found by the end of their names.
    let copy = Copy::of("llama", "pipe-weights");
    std::fs::remove_file(copy.0.join("model.safetensors")).unwrap();
    pipe(&copy.0.join("other.safetensors"));
    let error = copy.load().unwrap_err().to_string();
    assert!(error.contains("other.safetensors") && error.contains("regular"), "{error}");
    let config = Config::read(&folder("llama").join("config.json")).unwrap();
    for name in ["adapter_config.json", "adapter_model.safetensors"] {
        let copy = Copy::of("llama-lora", &format!("pipe-{name}"));
        pipe(&copy.0.join(name));
        let error = Adapter::read(&copy.0, &config).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("not a regular file"), "{error}");
    }
}

#[test]
fn weights_out_of_range_of_a_precision_are_named() {
    let copy = Copy::of("llama", "values");
    tensors(&copy.0.join("model.safetensors"), |all| {
        for (name, _, _, data) in all.iter_mut() {
            if name == "model.layers.0.self_attn.o_proj.weight" {
                data[..4].copy_from_slice(&1e6_f32.to_le_bytes());
            }
        }
    });
    assert!(copy.load().is_ok());
    let options = LoadOptions { device: DeviceChoice::Cpu, precision: Precision::F16, merge: None };
    let error = Transformer::from_pretrained(&copy.0, &options);
    assert!(matches!(error, Err(Error::TensorValue { value, .. }) if value == 1e6));
}

#[test]
fn calls_are_checked_before_anything_changes() {
    for device in devices() {
        let mut model = load("llama", device, Precision::F32);
        assert!(matches!(model.forward(&[], None), Err(Error::NoTokens)));
        assert!(matches!(
            model.forward(&[3, 131], None),
            Err(Error::Token { index: 1, value: 131, vocabulary: 131 })
        ));
        assert!(matches!(
            model.forward(&[3; 257], None),
            Err(Error::TooLong { positions: 257, limit: 256 })
        ));
        for (sampling, named) in [
            (Sampling { temperature: f32::NAN, ..Sampling::GREEDY }, "temperature"),
            (Sampling { temperature: -1.0, ..Sampling::GREEDY }, "temperature"),
            (Sampling { top_p: 0.0, ..Sampling::GREEDY }, "top_p"),
        ] {
            let options = GenerateOptions { sampling, ..GenerateOptions::default() };
            let error = model.generate(&[3], &options).map(drop);
            assert!(matches!(error, Err(Error::Sampling { option, .. }) if option == named));
        }
        let pass = model.pass();
        let sequence = pass.open().unwrap();
        let twice = [Segment { sequence, tokens: &[3] }; 2];
        assert!(matches!(pass.forward(&twice, Logits::Last), Err(Error::RepeatedSequence { .. })));
        assert_eq!(pass.len(sequence).unwrap(), 0);
        assert!(matches!(pass.submit_step(), Err(Error::NoStep)));
        assert!(matches!(pass.take_step(), Err(Error::NoStep)));
        pass.close(sequence);
        let closed = [Segment { sequence, tokens: &[3] }];
        assert!(matches!(pass.forward(&closed, Logits::Last), Err(Error::NoSequence { .. })));
    }
}

#[test]
fn unknown_names_are_errors() {
    assert!(
        matches!(sized("enormous"), Err(Error::UnknownSize { known, .. }) if known.contains("tinyllama"))
    );
    assert!(matches!("f64".parse::<Precision>(), Err(Error::UnknownPrecision { .. })));
    assert!(matches!("tpu".parse::<DeviceChoice>(), Err(Error::UnknownOption { .. })));
    assert_eq!("gpu:3".parse::<DeviceChoice>().unwrap(), DeviceChoice::Gpu(Some(3)));
}

#[test]
fn logits_that_are_not_finite_choose_no_token() {
    for device in devices() {
        let copy = Copy::of("llama", &format!("nan-{}", device.to_string().replace(':', "-")));
        tensors(&copy.0.join("model.safetensors"), |all| {
            for (name, _, _, data) in all.iter_mut() {
                if name == "model.norm.weight" {
                    data[..4].copy_from_slice(&f32::NAN.to_le_bytes());
                }
            }
        });
        let options = LoadOptions { device, precision: Precision::F32, merge: None };
        let mut model = Transformer::from_pretrained(&copy.0, &options).unwrap();
        let error = model.generate(&[3, 4], &GenerateOptions::default()).map(drop);
        assert!(matches!(error, Err(Error::NotFinite { .. })), "{device}: {error:?}");
    }
}

//! Models that are written as Hugging Face files, and the folders that may hold them.
#![allow(clippy::unwrap_used)]

mod common;

use aleatron_transformer::ModelSource;
use aleatron_transformer::weights::files::TensorFiles;
use aleatron_transformer::weights::save::{NamedTensor, check_destination, save};
use aleatron_transformer::weights::{TensorSource, tensors};
use common::{Copy, edit, folder};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// An empty folder for a test, removed when the test is over.
struct Out(PathBuf);

impl Out {
    /// Creates a folder; the name must be unique among all tests.
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("aleatron-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Returns the content of each file.
    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap());
        let file = |entry: fs::DirEntry| {
            (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
        };
        entries.map(file).collect()
    }

    fn refusal(&self, source: &ModelSource) -> String {
        let checked = check_destination(&self.0, source).unwrap_err().to_string();
        let before = self.files();
        assert_eq!(save(&self.0, source, &weights(source)).unwrap_err().to_string(), checked);
        assert_eq!(self.files(), before);
        checked
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn golden(name: &str) -> ModelSource {
    ModelSource::Folder(folder(name))
}

/// Returns the weights of a model.
fn weights(source: &ModelSource) -> Vec<NamedTensor> {
    let config = source.config().unwrap();
    let files = TensorFiles::open_model(source, &config).unwrap();
    let tensors = tensors(&config).into_iter();
    tensors
        .map(|(name, shape)| {
            let values = files.tensor(&name, &shape).unwrap();
            NamedTensor { name, shape, values }
        })
        .collect()
}

fn write(source: &ModelSource, out: &Path) {
    save(out, source, &weights(source)).unwrap();
}

#[test]
fn models_of_other_programs_are_not_replaced() {
    for (name, is_weights) in [
        ("model.safetensors", true),
        ("model-00001-of-00002.safetensors", true),
        ("model.safetensors.index.json", true),
        ("adapter_model.safetensors", true),
        ("pytorch_model.bin", true),
        ("pytorch_model.bin.index.json", true),
        ("model.gguf", true),
        ("config.json", false),
        ("generation_config.json", false),
        ("tokenizer.json", false),
        ("tokenizer.model", false),
        ("vocab.json", false),
        ("merges.txt", false),
        ("chat_template.jinja", false),
    ] {
        let out = Out::new("saving-other");
        fs::write(out.0.join("notes.txt"), "kept").unwrap();
        let source = golden("llama");
        check_destination(&out.0, &source).unwrap();
        let path = out.0.join(name);
        match name {
            // A model of one file without the mark.
            "model.safetensors" => drop(fs::copy(folder("qwen2").join(name), &path).unwrap()),
            _ => fs::write(&path, "other").unwrap(),
        }
        let refusal = out.refusal(&source);
        assert!(refusal.contains(name) && refusal.contains("choose another folder"), "{refusal}");
        fs::remove_file(&path).unwrap();
        // Beside a model that was written here, descriptions belong to it; weights do not.
        write(&source, &out.0);
        fs::write(&path, "other").unwrap();
        assert_eq!(check_destination(&out.0, &source).is_err(), is_weights, "{name}");
    }
}

#[test]
fn a_written_model_replaces_every_file_of_the_one_before() {
    let first = Copy::of("qwen2", "saving-first");
    for name in ["generation_config.json", "chat_template.jinja", "added_tokens.json"] {
        fs::write(first.0.join(name), "{\"eos_token_id\": 5}").unwrap();
    }
    for name in ["vocab.json", "merges.txt", "tokenizer.model"] {
        fs::write(first.0.join(name), name).unwrap();
    }
    let out = Out::new("saving-replaced");
    fs::write(out.0.join("notes.txt"), "kept").unwrap();
    write(&ModelSource::Folder(first.0.clone()), &out.0);
    let names = |out: &Out| out.files().into_keys().collect::<Vec<_>>();
    assert_eq!(
        names(&out),
        [
            "added_tokens.json",
            "chat_template.jinja",
            "config.json",
            "generation_config.json",
            "merges.txt",
            "model.safetensors",
            "notes.txt",
            "tokenizer.json",
            "tokenizer.model",
            "vocab.json",
        ]
    );
    write(&ModelSource::Embedded, &out.0);
    assert_eq!(names(&out), ["config.json", "model.safetensors", "notes.txt", "tokenizer.json"]);
    let saved = ModelSource::Folder(out.0.clone());
    assert_eq!(saved.config().unwrap(), ModelSource::Embedded.config().unwrap());
    assert_eq!(weights(&saved), weights(&ModelSource::Embedded));
}

/// The configuration cannot be written where a folder has its name.
/// Entries of metadata have no order of their own: each of 16 files would have another one with a
/// probability of a half.
#[test]
fn the_same_model_is_written_with_the_same_bytes() {
    let source = golden("llama");
    let (out, again) = (Out::new("same-bytes"), Out::new("same-bytes-again"));
    write(&source, &out.0);
    for _ in 0..16 {
        write(&source, &again.0);
        assert_eq!(again.files(), out.files());
    }
}

#[test]
fn a_model_that_cannot_be_written_leaves_the_one_before() {
    let out = Out::new("saving-fault");
    write(&golden("llama"), &out.0);
    fs::remove_file(out.0.join("config.json")).unwrap();
    fs::create_dir_all(out.0.join("config.json/inside")).unwrap();
    let before = fs::read(out.0.join("model.safetensors")).unwrap();
    let error = save(&out.0, &golden("qwen2"), &weights(&golden("qwen2"))).unwrap_err();
    assert!(error.to_string().contains("config.json"), "{error}");
    assert_eq!(fs::read(out.0.join("model.safetensors")).unwrap(), before);
    let entries = fs::read_dir(&out.0).unwrap();
    assert_eq!(entries.count(), 2, "no temporary file is left");
}

/// Weights are written in 32 bits, whatever type those of the source have.
#[test]
fn the_configuration_names_the_type_of_the_weights() {
    for (given, expected) in [
        (json!({"dtype": "bfloat16"}), json!({"dtype": "float32"})),
        (json!({"torch_dtype": "float16"}), json!({"torch_dtype": "float32"})),
        (json!({}), json!({"dtype": "float32"})),
    ] {
        let model = Copy::of("qwen2", "saving-type");
        model.config(|config| {
            let options = config.as_object_mut().unwrap();
            options.remove("dtype");
            options.extend(given.as_object().unwrap().clone());
        });
        let (out, source) = (Out::new("saving-type"), ModelSource::Folder(model.0.clone()));
        write(&source, &out.0);
        let read = |folder: &Path| -> Value {
            serde_json::from_slice(&fs::read(folder.join("config.json")).unwrap()).unwrap()
        };
        // Everything else stays.
        edit(&model.0.join("config.json"), |config| {
            config.as_object_mut().unwrap().extend(expected.as_object().unwrap().clone());
        });
        assert_eq!(read(&out.0), read(&model.0));
        let saved = ModelSource::Folder(out.0.clone());
        assert_eq!(saved.config().unwrap(), source.config().unwrap());
    }
}

//! Shared helpers of the tests: the golden files and the devices under test.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, clippy::panic)]

pub mod reference;
pub mod rounding;

use aleatron_transformer::weights::TensorSource;
use aleatron_transformer::weights::files::TensorFiles;
use aleatron_transformer::{
    Config, DeviceChoice, Error, ForwardPass, LoadOptions, Precision, Sampling, Segment,
    Transformer,
};
use rounding::Rounding;
use serde_json::Value;
use std::path::{Path, PathBuf};

pub const MODELS: [&str; 6] =
    ["llama", "llama-scaled", "llama-yarn", "llama-linear", "qwen2", "gpt2"];

/// Adapters and the models they are for.
pub const ADAPTERS: [(&str, &str); 3] =
    [("llama-lora", "llama"), ("llama-lora-qkv", "llama"), ("gpt2-lora", "gpt2")];

pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// Returns the CPU and, if it is built in, the GPU. A missing adapter is a failure: these tests
/// must run.
pub fn devices() -> Vec<DeviceChoice> {
    #[cfg(feature = "gpu")]
    return vec![DeviceChoice::Cpu, gpu()];
    #[cfg(not(feature = "gpu"))]
    vec![DeviceChoice::Cpu]
}

/// Returns the adapter that the environment names, otherwise Mesa's software one.
#[cfg(feature = "gpu")]
pub fn adapter() -> aleatron_device::AdapterChoice {
    use aleatron_device::AdapterChoice;
    match AdapterChoice::from_env() {
        AdapterChoice::Strongest => AdapterChoice::named("llvmpipe"),
        named => named,
    }
}

#[cfg(feature = "gpu")]
fn context() -> std::sync::Arc<aleatron_device::GpuContext> {
    aleatron_device::GpuContext::get(&adapter()).unwrap_or_else(|error| {
        panic!("{error}\nGPU tests need an adapter: apt-get install mesa-vulkan-drivers libvulkan1")
    })
}

#[cfg(feature = "gpu")]
pub fn gpu() -> DeviceChoice {
    DeviceChoice::Gpu(Some(context().info().index))
}

/// Returns the rounding of a device in calls of this many rows.
pub fn rounding(device: DeviceChoice, precision: Precision, rows: usize) -> Rounding {
    match device {
        DeviceChoice::Cpu => Rounding::CPU,
        #[cfg(feature = "gpu")]
        _ => Rounding::gpu(precision, rows, !context().info().cooperative_matrices.is_empty()),
        #[cfg(not(feature = "gpu"))]
        _ => Rounding::CPU,
    }
}

/// Returns the files of a model, as its passes read them.
pub fn files(name: &str) -> (Config, TensorFiles) {
    let config = Config::read(&folder(name).join("config.json")).unwrap();
    let files = TensorFiles::open_folder(&folder(name)).unwrap();
    (config, files)
}

pub fn load(name: &str, device: DeviceChoice, precision: Precision) -> Transformer {
    let options = LoadOptions { device, precision, ..LoadOptions::default() };
    Transformer::from_pretrained(&folder(name), &options).unwrap()
}

/// The results of Hugging Face transformers; see `golden/make.py`.
pub struct Golden {
    pub tokens: Vec<u32>,
    pub logits: Vec<f32>,
    pub greedy: Vec<u32>,
}

impl Golden {
    pub fn read(name: &str) -> Self {
        let path = folder(name).join("golden.safetensors");
        let files = TensorFiles::open(std::slice::from_ref(&path)).unwrap();
        let logits = files.tensor("logits", files.shape("logits").unwrap()).unwrap();
        let bytes = std::fs::read(path).unwrap();
        let all = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let integers = |name: &str| -> Vec<u32> {
            let (chunks, _) = all.tensor(name).unwrap().data().as_chunks::<8>();
            chunks.iter().map(|bytes| i64::from_le_bytes(*bytes) as u32).collect()
        };
        Self { tokens: integers("tokens"), greedy: integers("greedy"), logits }
    }
}

/// Tokens chosen by their logits alone, ends of texts or not.
pub fn greedy(pass: &mut dyn ForwardPass, prompt: &[u32], steps: usize) -> Vec<u32> {
    let sequence = pass.open().unwrap();
    let mut text =
        pass.prefill(&[Segment { sequence, tokens: prompt }], &Sampling::GREEDY).unwrap();
    while text.len() < steps {
        pass.submit_step().unwrap();
        text.extend(pass.take_step().unwrap());
    }
    pass.close(sequence);
    text
}

/// A copy of a golden folder that can be spoilt.
pub struct Copy(pub PathBuf);

impl Copy {
    pub fn of(name: &str, test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("aleatron-{}-{test}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        for entry in std::fs::read_dir(folder(name)).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name() != "golden.safetensors" {
                std::fs::copy(entry.path(), path.join(entry.file_name())).unwrap();
            }
        }
        Self(path)
    }

    pub fn config(&self, change: impl FnOnce(&mut Value)) {
        edit(&self.0.join("config.json"), change);
    }

    pub fn load(&self) -> Result<Transformer, Error> {
        let options =
            LoadOptions { device: DeviceChoice::Cpu, precision: Precision::F32, merge: None };
        Transformer::from_pretrained(&self.0, &options)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Changes a JSON file.
pub fn edit(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut value: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    change(&mut value);
    std::fs::write(path, value.to_string()).unwrap();
}

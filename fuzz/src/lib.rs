//! Valid files for fuzz targets, and edits of them.

pub mod onnx;

use aleatron::Cancel;
use aleatron::data::Dataset;
use aleatron::eval::{Evaluation, Plan, evaluate};
use aleatron::network::{Activation, Network, NetworkBuilder};
use aleatron::{Convolution, Polarity};
use aleatron_core::arithmetic::{Pool, PoolKind};
use png::{BitDepth, ColorType};
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// Returns a file with bytes replaced; three bytes of an edit are an offset and a value.
pub fn edited(mut file: Vec<u8>, edits: &[u8]) -> Vec<u8> {
    for &[low, high, byte] in edits.as_chunks().0 {
        let at = usize::from(u16::from_le_bytes([low, high])) % file.len();
        file[at] = byte;
    }
    file
}

/// Returns an array as NumPy writes it.
pub fn npy(descr: &str, is_fortran: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header =
        format!("{{'descr': '{descr}', 'fortran_order': {is_fortran}, 'shape': {shape}, }}\n");
    [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), data]
        .concat()
}

/// Returns an archive of two arrays with right checksums, which a fuzzer does not guess.
pub fn npz(x: &[u8], y: &[u8], method: CompressionMethod) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in [("x.npy", x), ("y.npy", y)] {
        archive.start_file(name, SimpleFileOptions::default().compression_method(method)).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

/// An image, for the writer of PNG files.
pub struct Image {
    /// Columns and rows.
    pub size: [u32; 2],
    /// Colours, and the bits of each.
    pub kind: (ColorType, BitDepth),
    /// Rows of pixels, packed as the format has them.
    pub pixels: Vec<u8>,
}

impl Image {
    /// Returns a small image of each supported kind, and of some unsupported ones.
    pub fn kinds() -> Vec<Self> {
        let kinds = [
            (ColorType::Grayscale, BitDepth::Eight, 15),
            (ColorType::Grayscale, BitDepth::One, 3),
            (ColorType::Grayscale, BitDepth::Four, 9),
            (ColorType::Grayscale, BitDepth::Sixteen, 30),
            (ColorType::Rgb, BitDepth::Eight, 45),
            (ColorType::Rgb, BitDepth::Sixteen, 90),
            (ColorType::Indexed, BitDepth::Two, 6),
            (ColorType::Rgba, BitDepth::Eight, 60),
        ];
        kinds
            .map(|(colour, depth, bytes)| Self {
                size: [5, 3],
                kind: (colour, depth),
                pixels: (0..bytes).map(|k| (k * 89 % 256) as u8).collect(),
            })
            .into()
    }

    /// Returns the image as a PNG file.
    pub fn bytes(&self) -> Vec<u8> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, self.size[0], self.size[1]);
        encoder.set_color(self.kind.0);
        encoder.set_depth(self.kind.1);
        if self.kind.0 == ColorType::Indexed {
            encoder.set_palette([0, 0, 0, 255, 0, 0, 0, 255, 0, 0, 0, 255].as_slice());
        }
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(&self.pixels).unwrap();
        writer.finish().unwrap();
        file
    }
}

/// A temporary folder of this process, for readers of files by path.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Returns an empty folder for a target.
    pub fn new(target: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("aleatron-fuzz-{target}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Returns the path of a file or folder.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file.
    pub fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        if std::fs::write(&path, bytes).is_err() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, bytes).unwrap();
        }
    }
}

/// Returns a network of two layers that runs in no time.
pub fn network() -> Network {
    NetworkBuilder::new("n", &[2])
        .dense("a", 2, &[0.5, -0.25, 1.0, 0.125], &[])
        .polarity(Polarity::Bipolar)
        .dense("b", 2, &[0.75, -1.0, 0.5, 0.25, 0.0, -0.5], &[])
        .polarity(Polarity::Bipolar)
        .build()
        .unwrap()
}

/// Returns a network of a convolution with a pool and a dense layer.
pub fn convolutional() -> Network {
    let convolution = Convolution::conv2d([1, 4, 4], 2, [2, 2]).with_padding([0, 1]);
    let weights = [0.5, -0.25, 1.0, 0.125, -1.0, 0.75, 0.5, -0.5];
    let dense: Vec<f64> = (0..24).map(|k| f64::from(k % 5) / 4.0 - 0.5).collect();
    NetworkBuilder::new("n", &[1, 4, 4])
        .convolution("a", convolution, &weights, &[0.25, -0.125])
        .activation(Activation::Relu)
        .pool(Pool::new(PoolKind::Max, [1, 2]))
        .dense("b", 12, &dense, &[])
        .build()
        .unwrap()
}

/// Returns a file of weights with two tensors.
pub fn safetensors() -> Vec<u8> {
    let header = br#"{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"b":{"dtype":"BF16","shape":[3],"data_offsets":[16,22]}}"#;
    [&(header.len() as u64).to_le_bytes(), &header[..], &[0x3f; 22]].concat()
}

/// Valid files `config.json` of each architecture.
pub const CONFIGS: [&str; 4] = [
    r#"{"model_type": "llama", "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "eos_token_id": [1, 2], "hidden_act": "silu", "tie_word_embeddings": true}"#,
    r#"{"model_type": "mistral", "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 48, "sliding_window": 8, "head_dim": 8}"#,
    r#"{"model_type": "qwen2", "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 4, "intermediate_size": 48, "use_sliding_window": true, "sliding_window": 8, "max_window_layers": 1}"#,
    r#"{"model_type": "gpt2", "vocab_size": 64, "n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 16,
    "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5}"#,
];

/// Returns samples for the network of two layers.
pub fn samples() -> Dataset {
    Dataset::new("d", 2, vec![0.5, -0.5, 1.0, 0.0, -1.0, 0.25], vec![0, 1, 2]).unwrap()
}

/// Returns a plan of two lengths and two generators.
pub fn plan() -> Plan {
    Plan {
        lengths: vec![8, 16],
        generators: vec!["sobol".parse().unwrap(), "bernoulli".parse().unwrap()],
        seeds: 2,
        margins: vec![1.0, 2.0],
        device: aleatron::Device::Cpu,
        ..Plan::default()
    }
}

/// Returns an evaluation that was cancelled after `cells` cells.
pub fn stopped_after(cells: usize) -> Evaluation {
    // Negative until the first report: an evaluation that is cancelled before that has no state.
    let done = std::sync::atomic::AtomicI64::new(-1);
    let order = std::sync::atomic::Ordering::Relaxed;
    let is_over = || done.load(order) >= cells as i64;
    let note = |progress: aleatron::eval::Progress<'_>| done.store(progress.done as i64, order);
    evaluate(&network(), &samples(), &plan(), None, Cancel::when(&is_over), note).unwrap()
}

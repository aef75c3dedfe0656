//! What fuzz targets and their seeds share: good files to begin with, and how bytes change them.

use aleatron::Cancel;
use aleatron::data::Dataset;
use aleatron::eval::{Evaluation, Plan, evaluate};
use aleatron::network::{FeatureMap, Layer, Network};
use std::io::{Cursor, Write};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// A file with bytes replaced: three bytes say where, and by what.
pub fn edited(mut file: Vec<u8>, edits: &[u8]) -> Vec<u8> {
    for &[low, high, byte] in edits.as_chunks().0 {
        let at = usize::from(u16::from_le_bytes([low, high])) % file.len();
        file[at] = byte;
    }
    file
}

/// An array as NumPy writes it.
pub fn npy(descr: &str, is_fortran: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': {is_fortran}, 'shape': {shape}, }}\n");
    [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), data].concat()
}

/// An archive of two arrays with right checksums, which a fuzzer does not guess.
pub fn npz(x: &[u8], y: &[u8], method: CompressionMethod) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in [("x.npy", x), ("y.npy", y)] {
        archive.start_file(name, SimpleFileOptions::default().compression_method(method)).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

/// A network of two layers that runs in no time.
pub fn network() -> Network {
    let layers = vec![
        Layer::new("a", 2, vec![0.5, -0.25, 1.0, 0.125]),
        Layer::new("b", 2, vec![0.75, -1.0, 0.5, 0.25, 0.0, -0.5]),
    ];
    Network::new("n", FeatureMap::IDENTITY, layers).unwrap()
}

/// Samples for it.
pub fn samples() -> Dataset {
    Dataset::new("d", 2, vec![0.5, -0.5, 1.0, 0.0, -1.0, 0.25], vec![0, 1, 2]).unwrap()
}

/// What is asked of it.
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

/// An evaluation that was stopped after `cells` cells.
pub fn stopped_after(cells: usize) -> Evaluation {
    let done = std::sync::atomic::AtomicUsize::new(0);
    let order = std::sync::atomic::Ordering::Relaxed;
    let is_over = || done.load(order) >= cells;
    let note = |progress: aleatron::eval::Progress<'_>| done.store(progress.done, order);
    evaluate(&network(), &samples(), &plan(), None, Cancel::when(&is_over), note).unwrap()
}

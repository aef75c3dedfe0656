//! Bytes as the PNG images of a folder: samples or an error, never a panic and never more memory than the files can fill.
//!
//! The bytes are an image, edits of a valid image of each kind, and the data after a valid header,
//! whose numbers they choose. Fuzzed programs ignore checksums of chunks. Samples survive being
//! written and read.
#![no_main]

use aleatron::data::Dataset;
use aleatron_fuzz::{Image, Scratch, edited};
use libfuzzer_sys::fuzz_target;
use png::{BitDepth, ColorType};
use std::sync::LazyLock;

static FOLDER: LazyLock<Scratch> = LazyLock::new(|| Scratch::new("png"));
static GOOD: LazyLock<Vec<Image>> = LazyLock::new(Image::kinds);

fuzz_target!(|bytes: &[u8]| {
    check(bytes, &GOOD[0].bytes());
    if let Some((&kind, edits)) = bytes.split_first() {
        let good = &GOOD[usize::from(kind) % GOOD.len()].bytes();
        check(&edited(good.clone(), edits), good);
    }
    if let Some((&[width, height, depth, colour, interlace], rest)) = bytes.split_first_chunk() {
        check(&with_header([width, height], [depth, colour, interlace], rest), bytes);
    }
});

/// Returns an image whose header says this, with `rest` as its compressed pixels.
fn with_header(size: [u8; 2], [depth, colour, interlace]: [u8; 3], rest: &[u8]) -> Vec<u8> {
    // Sizes up to 2^31, most of them small.
    let [width, height] =
        size.map(|byte| if byte < 224 { u32::from(byte % 32) } else { 1 << (byte - 224) });
    let depth = [1, 2, 4, 8, 16][usize::from(depth) % 5];
    let colour = [0, 2, 3, 4, 6][usize::from(colour) % 5];
    let header =
        [&width.to_be_bytes()[..], &height.to_be_bytes(), &[depth, colour, 0, 0, interlace & 1]]
            .concat();
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    for (kind, data) in
        [(b"IHDR", &header[..]), (b"PLTE", &[9, 8, 7, 6, 5, 4]), (b"IDAT", rest), (b"IEND", &[])]
    {
        file.extend([&(data.len() as u32).to_be_bytes(), &kind[..], data, &[0; 4]].concat());
    }
    file
}

/// Reads a folder of two classes with an image each.
fn check(first: &[u8], second: &[u8]) {
    FOLDER.write("read/a/0.png", first);
    FOLDER.write("read/b/0.png", second);
    let Ok(data) = Dataset::read(FOLDER.path("read")) else { return };
    assert_eq!(data.labels(), [0, 1]);
    assert_eq!(data.features().len(), 2 * data.n_features());
    assert!(data.features().iter().all(|feature| (0.0..=1.0).contains(feature)));
    // Bytes and halves of words alike are whole numbers of 16 bits: written as such in one long row, they are read again.
    for (sample, class) in data.features().chunks_exact(data.n_features()).zip(["a", "b"]) {
        let words = sample.iter().map(|feature| (feature * 65_535.0).round() as u16);
        let image = Image {
            size: [data.n_features() as u32, 1],
            kind: (ColorType::Grayscale, BitDepth::Sixteen),
            pixels: words.flat_map(u16::to_be_bytes).collect(),
        };
        FOLDER.write(&format!("again/{class}/0.png"), &image.bytes());
    }
    assert_eq!(Dataset::read(FOLDER.path("again")).unwrap().features(), data.features());
}

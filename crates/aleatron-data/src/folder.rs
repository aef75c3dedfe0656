//! Data sets as folders of images: a folder for each class, and in it the PNG files of that class.

use super::labels::{ClassNames, LabelData};
use super::npz::MAX_DEFLATION;
use super::{Dataset, ReadOptions};
use crate::{Error, Features, Result};
use aleatron_core::{Quantity, memory};
use png::{BitDepth, ColorType, Decoder, Limits, Transformations};
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// The most bytes the decoder may take beside the image, for chunks that are not pixels.
const OTHER_CHUNKS: usize = 8 << 20;

/// Reads all images. A folder whose name is a number is the class of that number, if all names are
/// numbers; otherwise the names are those of classes.
pub(super) fn read(path: &Path, name: String, options: &ReadOptions) -> Result<Dataset> {
    let mut folders = Vec::new();
    for folder in entries(path)? {
        if !folder.is_dir() {
            return Err(fault(
                &folder,
                "a folder of images holds a folder for each class, and nothing else",
            ));
        }
        let label = folder.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        folders.push((label.ok_or_else(|| fault(&folder, "its name is not text"))?, folder));
    }
    let labels: Vec<String> = folders.iter().map(|(label, _)| label.clone()).collect();
    // Larger numbers would not be classes.
    let numbers: Option<Vec<u32>> = labels.iter().map(|label| label.parse().ok()).collect();
    let (names, classes) = match (&options.classes, numbers) {
        (None, Some(numbers)) => {
            (ClassNames::Numbers, numbers.iter().map(|&class| class as usize).collect())
        }
        (listed, _) => ClassNames::number(&labels, listed.as_deref(), &name)?,
    };
    let mut classes: Vec<(usize, PathBuf)> =
        classes.into_iter().zip(folders.into_iter().map(|(_, folder)| folder)).collect();
    classes.sort();
    let mut files: Vec<(PathBuf, usize)> = Vec::new();
    for (class, folder) in classes {
        for file in entries(&folder)? {
            let is_png = file.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("png"));
            if !is_png || file.is_dir() {
                return Err(fault(&file, "this is not a .png file"));
            }
            files.push((file, class));
        }
    }
    let mut features = Vec::new();
    let mut labels = memory::with_capacity(files.len() as u128, Quantity::Samples)?;
    let mut expected: Option<[usize; 3]> = None;
    for (file, class) in &files {
        let image = Image::open(file)?;
        match expected {
            None => {
                let sizes = image.shape.into_iter().chain([files.len()]).map(|size| size as u128);
                features = memory::with_capacity(sizes.product(), Quantity::Samples)?;
                expected = Some(image.shape);
            }
            Some(expected) if expected != image.shape => {
                let [a, b] = [expected, image.shape].map(shape_text);
                return Err(fault(file, &format!("{b}, but the images before it have {a}")));
            }
            Some(_) => {}
        }
        image.read(file, &mut features)?;
        labels.push(*class);
    }
    let shape = expected.map_or_else(Vec::new, |shape| shape.to_vec());
    Dataset::with_answers(
        name,
        shape,
        Features::Held(features),
        LabelData::Classes { classes: labels, names },
    )
}

/// Returns the entries of a folder in the order of their names; names that begin with a dot are
/// skipped.
fn entries(path: &Path) -> Result<Vec<PathBuf>> {
    let file = |error| Error::file(path, error);
    let mut found = Vec::new();
    for entry in fs::read_dir(path).map_err(file)? {
        let entry = entry.map_err(file)?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

fn shape_text([channels, rows, columns]: [usize; 3]) -> String {
    let plural = if channels == 1 { "" } else { "s" };
    format!("{channels} channel{plural} of {rows} x {columns} pixels")
}

fn fault(path: &Path, reason: &str) -> Error {
    Error::Format { file: path.display().to_string(), reason: reason.to_owned() }
}

/// An image whose header was read.
struct Image {
    reader: png::Reader<BufReader<File>>,
    /// Channels, rows and columns.
    shape: [usize; 3],
    depth: BitDepth,
    bytes: usize,
}

impl Image {
    fn open(path: &Path) -> Result<Self> {
        let broken = |error: png::DecodingError| fault(path, &error.to_string());
        let file = crate::file::open(path)?;
        let file_bytes = file.metadata().map_err(|e| Error::file(path, e))?.len();
        let mut decoder =
            Decoder::new_with_limits(BufReader::new(file), Limits { bytes: OTHER_CHUNKS });
        // Palettes become colours, and few bits eight.
        decoder.set_transformations(Transformations::EXPAND);
        let info = decoder.read_header_info().map_err(broken)?;
        let (width, height) = (info.width, info.height);
        // The size that a header gives is compared with the size that the file can hold before
        // memory is allocated.
        let packed = u128::from(height) * info.raw_row_length() as u128;
        let most = u128::from(file_bytes) * MAX_DEFLATION;
        if packed > most {
            let reason = format!(
                "{width} x {height} pixels take {packed} bytes, the file holds at most {most}"
            );
            return Err(fault(path, &reason));
        }
        memory::check(packed.saturating_mul(16), Quantity::Samples)?;
        decoder.set_limits(Limits {
            bytes: usize::try_from(packed).unwrap_or(usize::MAX).saturating_add(OTHER_CHUNKS),
        });
        let reader = decoder.read_info().map_err(broken)?;
        let (colour, depth) = reader.output_color_type();
        let channels = match colour {
            ColorType::Grayscale => 1,
            ColorType::Rgb => 3,
            _ => return Err(fault(path, "it has an alpha channel; grey and RGB images are read")),
        };
        let bytes = reader.output_buffer_size().ok_or_else(|| fault(path, "it is too large"))?;
        Ok(Self { reader, shape: [channels, height as usize, width as usize], depth, bytes })
    }

    /// Appends the pixels, in [0, 1], by channel, row and column.
    fn read(mut self, path: &Path, features: &mut Vec<f64>) -> Result<()> {
        let mut pixels = memory::zeros(self.bytes as u128, Quantity::Samples)?;
        let info =
            self.reader.next_frame(&mut pixels).map_err(|error| fault(path, &error.to_string()))?;
        let [channels, rows, columns] = self.shape;
        let (size, most) = match self.depth {
            BitDepth::Sixteen => (2, f64::from(u16::MAX)),
            _ => (1, f64::from(u8::MAX)),
        };
        for channel in 0..channels {
            for row in pixels.chunks_exact(info.line_size).take(rows) {
                // Samples of 16 bits have their high byte first.
                features.extend(row.chunks_exact(channels * size).take(columns).map(|pixel| {
                    let bytes = &pixel[channel * size..][..size];
                    bytes.iter().fold(0.0, |value, &byte| 256.0 * value + f64::from(byte)) / most
                }));
            }
        }
        Ok(())
    }
}

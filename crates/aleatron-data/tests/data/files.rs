//! Data sets from `.npy` files, which are read in chunks, and from folders of images.

use aleatron_data::{Dataset, Error as DataError, Header, LabelKind, ReadOptions};
use std::path::{Path, PathBuf};

/// A temporary folder of a test, removed when the test ends.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("aleatron-data-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }

    pub(crate) fn npy(
        &self,
        name: &str,
        descr: &str,
        order: &str,
        shape: &str,
        bytes: &[u8],
    ) -> PathBuf {
        self.write(name, &npy(descr, order, shape, bytes))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns an array as NumPy writes it.
pub(crate) fn npy(descr: &str, fortran_order: &str, shape: &str, bytes: &[u8]) -> Vec<u8> {
    let mut header =
        format!("{{'descr': '{descr}', 'fortran_order': {fortran_order}, 'shape': {shape}, }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), bytes]
        .concat()
}

fn read(x: &Path, y: &Path) -> Result<Dataset, String> {
    let options = ReadOptions { labels: Some(y.to_owned()), ..ReadOptions::default() };
    Dataset::read_with(x, &options).map_err(|error| error.to_string())
}

pub(crate) fn all(data: &Dataset) -> Vec<f64> {
    data.samples(0..data.len()).unwrap().into_owned()
}

#[test]
fn arrays_of_every_type_and_order_are_read() {
    let folder = Folder::new("types");
    let y = folder.npy("y.npy", "<i8", "False", "(2,)", &[1_i64, 0].map(i64::to_le_bytes).concat());
    let x: [f64; 6] = [3.0, 1.0, 2.0, 0.0, 7.0, 5.0];
    let floats: Vec<u8> = x.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect();
    let big: Vec<u8> = x.iter().flat_map(|v| v.to_be_bytes()).collect();
    let bytes: Vec<u8> = x.iter().map(|v| *v as u8).collect();
    let columns: Vec<u8> =
        [x[0], x[3], x[1], x[4], x[2], x[5]].iter().flat_map(|v| v.to_le_bytes()).collect();
    for (descr, order, shape, bytes) in [
        ("<f4", "False", "(2, 3)", &floats),
        (">f8", "False", "(2, 3)", &big),
        ("|u1", "False", "(2, 1, 3)", &bytes),
        ("<f8", "True", "(2, 3)", &columns),
    ] {
        let data = read(&folder.npy("x.npy", descr, order, shape, bytes), &y).unwrap();
        assert_eq!(all(&data), x, "{descr} {order}");
        assert_eq!(*data.samples(1..2).unwrap(), x[3..], "{descr} {order}");
        assert_eq!((data.labels(), data.n_features(), data.len()), (&[1, 0][..], 3, 2));
        // Nothing of it is held.
        assert!(data.features().is_empty());
        assert!(data.samples(1..3).is_err());
    }
    let path = folder.npy("x.npy", "|u1", "False", "(2, 3)", &bytes);
    let options = ReadOptions { labels: Some(y), divisor: 4.0, ..ReadOptions::default() };
    assert_eq!(all(&Dataset::read_with(&path, &options).unwrap()), x.map(|v| v / 4.0));
    for divisor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(Dataset::read_with(&path, &ReadOptions { divisor, ..options.clone() }).is_err());
    }
}

#[test]
fn faults_of_arrays_name_the_file() {
    let folder = Folder::new("faults");
    let y = folder.npy("y.npy", "|u1", "False", "(2,)", &[1, 0]);
    for (order, shape, bytes, part) in [
        ("False", "(2, 2)", &[1, 2, 3][..], "x.npy: the array is truncated"),
        ("False", "(2, 2)", &[1, 2, 3, 4, 5], "x.npy: 1 bytes past the end"),
        ("False", "(3, 1)", &[1, 2, 3], "x.npy: 3 values are not 2 samples of 1 features"),
        ("True", "(2, 1, 2)", &[1, 2, 3, 4], "row-major order"),
        ("False", "(4,)", &[1, 2, 3, 4], "(samples, features)"),
        ("False", "(0, 4)", &[], "there are no samples"),
        ("False", "(2, 99999999999, 99999999999)", &[1], "the array is truncated"),
    ] {
        let error = read(&folder.npy("x.npy", "|u1", order, shape, bytes), &y).unwrap_err();
        assert!(error.contains("x.npy") && error.contains(part), "{error}");
    }
    let x = folder.npy("x.npy", "|u1", "False", "(2, 1)", &[1, 2]);
    for (descr, shape, bytes, part) in [
        ("|i1", "(2,)", &[0, 255][..], "y.npy: the label of sample 1 is -1"),
        ("|u1", "(2, 1)", &[0, 1], "y.npy: array \"y\" has shape [2, 1]"),
    ] {
        let error = read(&x, &folder.npy("y.npy", descr, "False", shape, bytes)).unwrap_err();
        assert!(error.contains(part), "{error}");
    }
    let alone = Dataset::read(&x).unwrap_err().to_string();
    assert!(alone.contains("x.npy") && alone.contains("labels"), "{alone}");
    // Values that are not finite are errors when they are read.
    let y = folder.npy("y.npy", "|u1", "False", "(2,)", &[1, 0]);
    let bytes: Vec<u8> = [1.0, f64::NAN].iter().flat_map(|v: &f64| v.to_le_bytes()).collect();
    let data = read(&folder.npy("x.npy", "<f8", "False", "(2, 1)", &bytes), &y).unwrap();
    assert!(data.samples(0..1).is_ok());
    let error = data.samples(1..2).unwrap_err().to_string();
    assert!(error.contains("sample 1, feature 0 is NaN"), "{error}");
    // One that is cut off after it was opened is an error, too.
    let x = folder.npy("x.npy", "|u1", "False", "(2, 1)", &[1, 2]);
    let data = read(&x, &y).unwrap();
    std::fs::OpenOptions::new().write(true).open(&x).unwrap().set_len(129).unwrap();
    assert!(data.samples(0..2).is_err());
}

#[test]
fn inputs_are_read_without_labels() {
    let folder = Folder::new("features");
    let x = folder.npy("x.npy", "|u1", "False", "(2, 3)", &[1, 2, 3, 4, 5, 6]);
    let halves = ReadOptions { divisor: 2.0, ..ReadOptions::default() };
    let (n, features) = Dataset::read_features(&x, &halves).unwrap();
    assert_eq!((n, features), (3, vec![0.5, 1.0, 1.5, 2.0, 2.5, 3.0]));
    let wrong = ReadOptions { divisor: 0.0, ..ReadOptions::default() };
    assert!(Dataset::read_features(&x, &wrong).is_err());
    assert!(Dataset::read_features(folder.0.join("none.npy"), &halves).is_err());
}

#[test]
fn labels_may_be_numbers_for_each_output() {
    let folder = Folder::new("targets");
    let x = folder.npy("x.npy", "|u1", "False", "(2, 1)", &[1, 2]);
    let bytes: Vec<u8> = [0.5_f32, 1.0, -2.0, 4.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    let y = folder.npy("y.npy", "<f4", "True", "(2, 2)", &bytes);
    let options =
        ReadOptions { labels: Some(y), kind: LabelKind::Numbers, ..ReadOptions::default() };
    let data = Dataset::read_with(&x, &options).unwrap();
    // By columns in the file, by samples here.
    assert_eq!((data.targets(), data.n_targets()), (&[0.5, -2.0, 1.0, 4.0][..], 2));
    assert!(data.labels().is_empty());
}

/// Returns a PNG file.
pub(crate) fn image(
    colour: png::ColorType,
    depth: png::BitDepth,
    size: [u32; 2],
    pixels: &[u8],
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, size[0], size[1]);
    encoder.set_color(colour);
    encoder.set_depth(depth);
    encoder.write_header().unwrap().write_image_data(pixels).unwrap();
    bytes
}

use png::BitDepth::{Eight, One, Sixteen};
use png::ColorType::{Grayscale, GrayscaleAlpha, Rgb};

#[test]
fn a_folder_of_images_has_a_class_for_each_folder() {
    let folder = Folder::new("grey");
    folder.write("b/2.png", &image(Grayscale, Eight, [2, 1], &[0, 255]));
    folder.write("b/1.PNG", &image(Grayscale, Sixteen, [2, 1], &[0xff, 0xff, 0x80, 0x00]));
    folder.write("a/x.png", &image(Grayscale, One, [2, 1], &[0b0100_0000]));
    folder.write("b/.hidden", b"");
    let data = Dataset::read(&folder.0).unwrap();
    // By class, then by name.
    assert_eq!(data.features(), [0.0, 1.0, 1.0, 32768.0 / 65535.0, 0.0, 1.0]);
    assert_eq!((data.labels(), data.n_features()), (&[0, 1, 1][..], 2));

    // Numbers are in the order of their values.
    let folder = Folder::new("numbers");
    for (name, pixel) in [("2", 2), ("10", 3), ("9", 2), ("01", 1)] {
        folder.write(&format!("{name}/a.png"), &image(Grayscale, Eight, [1, 1], &[pixel]));
    }
    let pixels =
        Dataset::read(&folder.0).unwrap().features().iter().map(|x| x * 255.0).collect::<Vec<_>>();
    assert_eq!(pixels.iter().map(|x| x.round() as u8).collect::<Vec<_>>(), [1, 2, 2, 3]);
    // If one name is not a number, all are names.
    folder.write("x/a.png", &image(Grayscale, Eight, [1, 1], &[9]));
    let pixels =
        Dataset::read(&folder.0).unwrap().features().iter().map(|x| x * 255.0).collect::<Vec<_>>();
    assert_eq!(pixels.iter().map(|x| x.round() as u8).collect::<Vec<_>>(), [1, 3, 2, 2, 9]);
    let folder = Folder::new("rgb");
    // Two rows of one pixel each: channels come first.
    folder.write("0/a.png", &image(Rgb, Eight, [1, 2], &[51, 102, 153, 204, 255, 0]));
    let data = Dataset::read(&folder.0).unwrap();
    assert_eq!(data.features(), [51.0, 204.0, 102.0, 255.0, 153.0, 0.0].map(|v| v / 255.0));
}

#[test]
fn faults_of_images_name_the_file() {
    let grey = image(Grayscale, Eight, [2, 1], &[0, 255]);
    let mut cut = grey.clone();
    cut.truncate(cut.len() - 20);
    let mut flipped = grey.clone();
    flipped[45] ^= 0xff;
    // A header that tells of 2^32 pixels, with the checksum of one.
    let mut huge = image(Grayscale, Eight, [1, 1], &[0]);
    huge[16..24].copy_from_slice(&[0, 1, 0, 0, 0, 1, 0, 0]);
    let crc = crc32(&huge[12..29]).to_be_bytes();
    huge[29..33].copy_from_slice(&crc);
    for (name, bytes, part) in [
        ("1/bad.png", &cut[..], "1/bad.png: "),
        ("1/bad.png", &flipped, "1/bad.png: "),
        ("1/bad.png", b"no image", "1/bad.png: "),
        ("1/bad.png", &huge, "65536 x 65536 pixels take 4295032832 bytes"),
        ("1/bad.png", &image(GrayscaleAlpha, Eight, [1, 1], &[0, 0]), "alpha channel"),
        (
            "1/bad.png",
            &image(Grayscale, Eight, [1, 2], &[0, 0]),
            "1 channel of 2 x 1 pixels, but the images before",
        ),
        ("1/bad.png", &image(Rgb, Eight, [2, 1], &[0; 6]), "3 channels of 1 x 2 pixels, but"),
        ("1/bad.jpg", b"", "1/bad.jpg: this is not a .png file"),
        ("bad.png", &grey, "bad.png: a folder of images holds a folder for each class"),
    ] {
        let folder = Folder::new("images");
        folder.write("0/good.png", &grey);
        folder.write(name, bytes);
        let error = Dataset::read(&folder.0).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains(part), "{name}: {error}");
    }
    let folder = Folder::new("empty");
    assert!(Dataset::read(&folder.0).unwrap_err().to_string().ends_with("there are no samples"));
    let options = ReadOptions { kind: LabelKind::Numbers, ..ReadOptions::default() };
    assert!(Dataset::read_with(&folder.0, &options).is_err());
}

/// Images may have more than pixels in them.
#[test]
fn chunks_without_pixels_are_skipped() {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, 1, 1);
    encoder.add_text_chunk("Comment".to_owned(), "x".repeat(1 << 16)).unwrap();
    encoder.write_header().unwrap().write_image_data(&[51]).unwrap();
    let folder = Folder::new("text");
    folder.write("0/a.png", &bytes);
    assert_eq!(Dataset::read(&folder.0).unwrap().features(), [0.2]);
}

/// A byte of a file expands to at most 1032 bytes of pixels: an image within this limit is read.
#[test]
fn pixels_take_at_most_what_a_file_can_hold() {
    let folder = Folder::new("black");
    folder.write("0/a.png", &image(Grayscale, Eight, [200, 100], &[0; 20_000]));
    assert!(std::fs::metadata(folder.0.join("0/a.png")).unwrap().len() < 1000);
    assert_eq!(all(&Dataset::read(&folder.0).unwrap()), [0.0; 20_000]);

    // Rows of 1031 pixels and the byte before them: as many rows as the file has bytes.
    let mut full = image(Grayscale, Eight, [1031, 1], &[0; 1031]);
    for (more, part) in [(0, ""), (1, " bytes, the file holds at most ")] {
        let rows = full.len() as u32 + more;
        full[20..24].copy_from_slice(&rows.to_be_bytes());
        let crc = crc32(&full[12..29]).to_be_bytes();
        full[29..33].copy_from_slice(&crc);
        let folder = Folder::new("full");
        folder.write("0/a.png", &full);
        let error = Dataset::read(&folder.0).unwrap_err().to_string();
        assert!(
            error.contains(part) && error.contains("holds at most") != part.is_empty(),
            "{error}"
        );
    }
}

/// Returns the checksum of a chunk.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(
            crc ^ u32::from(*byte),
            |c, _| if c & 1 == 1 { c >> 1 ^ 0xedb8_8320 } else { c >> 1 },
        )
    };
    !bytes.iter().fold(u32::MAX, step)
}

#[test]
fn text_files_are_read_and_divided() {
    let folder = Folder::new("text");
    let path = folder.write("x.CSV", b"a,b,c\n2,4,1\n6,8,0\n");
    let data =
        Dataset::read_with(&path, &ReadOptions { divisor: 2.0, ..ReadOptions::default() }).unwrap();
    assert_eq!((all(&data), data.labels()), (vec![1.0, 2.0, 3.0, 4.0], &[1, 0][..]));
    for (text, header) in [("auto", Header::Auto), ("yes", Header::Yes), ("no", Header::No)] {
        assert_eq!(text.parse::<Header>().unwrap(), header);
    }
    assert!("maybe".parse::<Header>().is_err());
    // Dividing by a number that is too small is found out.
    let tiny = ReadOptions { divisor: 1e-308, ..ReadOptions::default() };
    assert!(Dataset::read_with(folder.write("y.csv", b"1e10,0\n"), &tiny).is_err());
}

#[test]
fn single_target_needs_no_axis() {
    let folder = Folder::new("one-target");
    let x = folder.npy("x.npy", "|u1", "False", "(2, 1)", &[1, 2]);
    let y = folder.npy(
        "y.npy",
        "<f4",
        "False",
        "(2,)",
        &[0.5_f32, -1.5].map(f32::to_le_bytes).concat(),
    );
    let options =
        ReadOptions { labels: Some(y), kind: LabelKind::Numbers, ..ReadOptions::default() };
    let data = Dataset::read_with(&x, &options).unwrap();
    assert_eq!((data.n_targets(), data.targets()), (1, &[0.5, -1.5][..]));
}

#[test]
fn mapped_data_are_equal_if_file_and_divisor_are() {
    let folder = Folder::new("equal");
    let x = folder.npy("a/x.npy", "|u1", "False", "(2, 1)", &[1, 2]);
    let other = folder.npy("b/x.npy", "|u1", "False", "(2, 1)", &[1, 3]);
    let y = folder.npy("y.npy", "|u1", "False", "(2,)", &[1, 0]);
    let read = |x: &Path, divisor: f64| {
        let options = ReadOptions { labels: Some(y.clone()), divisor, ..ReadOptions::default() };
        Dataset::read_with(x, &options).unwrap()
    };
    assert_eq!(read(&x, 2.0), read(&x, 2.0));
    assert_ne!(read(&x, 2.0), read(&x, 4.0));
    assert_ne!(read(&x, 2.0), read(&other, 2.0));
}

#[test]
fn sample_range_out_of_bounds_is_an_error() {
    let data = Dataset::new("three", 2, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0], vec![0; 3]).unwrap();
    assert_eq!(data.samples(1..3).unwrap()[..], [3.0, 4.0, 5.0, 6.0]);
    assert!(data.samples(3..3).unwrap().is_empty() && data.samples(0..0).unwrap().is_empty());
    #[expect(clippy::reversed_empty_ranges, reason = "what is refused")]
    for range in [2..1, 0..4, 4..4, 3..usize::MAX] {
        assert!(
            matches!(data.samples(range.clone()), Err(DataError::SampleRange { .. })),
            "{range:?}"
        );
    }
    let error =
        Dataset::new("bad", 2, vec![1.0, 2.0, 3.0, f64::NAN], vec![0; 2]).unwrap_err().to_string();
    assert_eq!(error, "bad: sample 1, feature 1 is NaN");
}

/// Pixels of 16 bits in three colours: each channel has its own two bytes, the high one first.
#[test]
fn deep_colours_are_read_by_channel() {
    let folder = Folder::new("deep");
    let [dark, bright, red, green, blue] = [0_u16, 65_535, 13_107, 26_214, 39_321];
    let pixels = [red, green, blue, dark, bright, dark].map(u16::to_be_bytes).concat();
    folder.write("0/a.png", &image(Rgb, Sixteen, [2, 1], &pixels));
    let data = Dataset::read_with(&folder.0, &ReadOptions::default()).unwrap();
    // Fifths of the largest value, by channel.
    assert_eq!(all(&data), [0.2, 0.0, 0.4, 1.0, 0.6, 0.0]);
    let numbers = ReadOptions { kind: LabelKind::Numbers, ..ReadOptions::default() };
    let error = Dataset::read_with(&folder.0, &numbers).unwrap_err().to_string();
    assert!(error.contains("a folder of images has classes"), "{error}");
}

/// Data sets of the same file are equal, and empty target rows are errors.
#[test]
fn files_have_distinct_identities() {
    let folder = Folder::new("apart");
    let bytes = |values: [f64; 4]| values.map(f64::to_le_bytes).concat();
    let x = folder.npy("x.npy", "<f8", "False", "(2, 2)", &bytes([1.0, 2.0, 3.0, 4.0]));
    let y = folder.npy("y.npy", "<i8", "False", "(2,)", &[1_i64, 0].map(i64::to_le_bytes).concat());
    let whole = read(&x, &y).unwrap();
    assert_eq!(read(&x, &y).unwrap(), whole);
    // The same file, when it has become one of another type.
    folder.npy("x.npy", "<i8", "False", "(2, 2)", &[1_i64, 2, 3, 4].map(i64::to_le_bytes).concat());
    assert_ne!(read(&x, &y).unwrap(), whole);
    // Another file of the same name and shape.
    let other = folder.npy("other/x.npy", "<f8", "False", "(2, 2)", &bytes([1.0, 2.0, 3.0, 5.0]));
    assert_ne!(read(&other, &y).unwrap(), whole);
    let none = folder.npy("none.npy", "<f8", "False", "(2, 0)", &[]);
    let options =
        ReadOptions { labels: Some(none), kind: LabelKind::Numbers, ..ReadOptions::default() };
    assert!(
        matches!(Dataset::read_with(&x, &options), Err(DataError::ArrayShape { array, .. }) if array == "y")
    );
}

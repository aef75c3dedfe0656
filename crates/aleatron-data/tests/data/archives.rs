//! Data sets from files that NumPy wrote (`numpy.savez` and `numpy.savez_compressed`, 2.4).

use aleatron_data::Dataset;
use std::io::Write;
use std::path::PathBuf;

fn path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "fixtures", name].iter().collect()
}

#[test]
fn archives_are_read_whatever_their_layout() {
    // Stored doubles; deflated floats by columns; doubles and shorts of the other byte order.
    for name in ["stored.npz", "deflated.npz", "big_endian.npz"] {
        let data = Dataset::read(path(name)).unwrap();
        assert_eq!(data.features(), [0.0, 1.5, -2.0, 3.0, 4.25, 5.0], "{name}");
        assert_eq!((data.labels(), data.n_features(), data.len()), (&[1, 0][..], 3, 2), "{name}");
    }
}

#[test]
fn faults_of_archives_are_named() {
    let message = |name: &str| {
        let text = Dataset::read(path(name)).unwrap_err().to_string();
        text.rsplit_once("npz: ").unwrap().1.to_owned()
    };
    assert_eq!(
        message("no_labels.npz"),
        "there is no array of labels (y, y_test, labels, targets, target); the arrays are x: choose with --y NAME"
    );
    assert_eq!(
        message("half_classes.npz"),
        "the label of sample 0 is 0.5, not a class counted from 0"
    );
    assert_eq!(
        message("flat.npz"),
        "array \"x\" has shape [6], expected (samples, features), or with more axes in row-major order"
    );
    assert_eq!(
        message("text.npz"),
        "array \"x\": type <U1 is not read; floats, integers and booleans are"
    );
    assert_eq!(message("short.npz"), "6 values are not 3 samples of 3 features");
    assert!(message("missing.npz").contains("No such file"));
    let error = Dataset::read("data.txt").unwrap_err().to_string();
    assert_eq!(
        error,
        "data.txt: data are read from .npz, .npy and .csv files and from folders of images"
    );
}

/// Reading any bytes ends with data or an error.
#[test]
fn broken_archives_are_errors() {
    let folder = std::env::temp_dir().join(format!("aleatron-data-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("broken.npz");
    let features = [0.0, 1.5, -2.0, 3.0, 4.25, 5.0];
    for name in ["stored.npz", "deflated.npz"] {
        let whole = std::fs::read(path(name)).unwrap();
        let read = |bytes: &[u8]| {
            std::fs::write(&file, bytes).unwrap();
            Dataset::read(&file)
        };
        for len in 0..whole.len() {
            assert!(read(&whole[..len]).is_err(), "the first {len} bytes of {name}");
        }
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0xff;
            // A changed byte is seen, or it was of no importance: a date, say.
            if let Ok(data) = read(&bytes) {
                assert_eq!(
                    (data.features(), data.labels()),
                    (&features[..], &[1, 0][..]),
                    "byte {at} of {name}"
                );
            }
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// Returns an archive of arrays: name, type, shape and bytes.
pub(crate) fn npz(arrays: &[(&str, &str, &str, &[u8])]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, descr, shape, bytes) in arrays {
        archive
            .start_file(format!("{name}.npy"), zip::write::SimpleFileOptions::default())
            .unwrap();
        let mut header =
            format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
        while (10 + header.len() + 1) % 64 != 0 {
            header.push(' ');
        }
        header.push('\n');
        archive.write_all(b"\x93NUMPY\x01\x00").unwrap();
        archive.write_all(&(header.len() as u16).to_le_bytes()).unwrap();
        archive.write_all(header.as_bytes()).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

fn read(arrays: &[(&str, &str, &str, &[u8])]) -> Result<Dataset, String> {
    Dataset::from_npz(&npz(arrays), "t").map_err(|error| error.to_string())
}

#[test]
fn labels_and_features_of_every_type() {
    // 1.5 and -2 as half precision; classes as half precision, single precision and booleans.
    let x: (&str, &str, &str, &[u8]) = ("x", "<f2", "(2, 1)", &[0x00, 0x3e, 0x00, 0xc0]);
    for y in [
        ("y", "<f2", "(2,)", &[0x00, 0x3c, 0x00, 0x00][..]),
        ("y", "<f4", "(2,)", &[0, 0, 0x80, 0x3f, 0, 0, 0, 0]),
        ("y", "|b1", "(2,)", &[1, 0]),
        ("y", "|i1", "(2,)", &[1, 0]),
        ("y", ">u2", "(2,)", &[0, 1, 0, 0]),
    ] {
        let data = read(&[x, y]).unwrap();
        assert_eq!((data.features(), data.labels()), (&[1.5, -2.0][..], &[1, 0][..]), "{y:?}");
    }
    let error = read(&[x, ("y", "|i1", "(2,)", &[1, 255])]).unwrap_err();
    assert_eq!(error, "t: the label of sample 1 is -1, not a class counted from 0");
}

/// An array larger than memory is an error by its header, before anything of its size is unpacked.
#[test]
fn arrays_larger_than_memory_are_errors_by_their_header() {
    let y: (&str, &str, &str, &[u8]) = ("y", "|u1", "(2,)", &[0, 1]);
    let error = read(&[("x", "|u1", "(3, 1)", &[0, 1, 2]), y]).unwrap_err();
    assert_eq!(error, "t: 3 values are not 2 samples of 1 features");
    let error = read(&[("x", "|u1", "(2, 100)", &[0; 10]), y]).unwrap_err();
    assert!(error.contains("array \"x\": the array is truncated"), "{error}");
    let error = read(&[("x", "|u1", "(2, 1)", &[0; 10]), y]).unwrap_err();
    assert!(error.contains("8 bytes past the end of the array"), "{error}");
    let huge = 1u64 << 50;
    let error = read(&[("x", "|u1", &format!("(2, {huge})"), &[0; 10]), y]).unwrap_err();
    assert!(error.contains("number of samples would take"), "{error}");
    let error = read(&[("x", "|u1", "(2, 18446744073709551616)", &[0; 10]), y]).unwrap_err();
    assert!(error.contains("its header is broken"), "{error}");
    let error = read(&[
        ("x", "|u1", &format!("({0}, {0})", u64::MAX), &[]),
        ("y", "|u1", &format!("({},)", u64::MAX), &[]),
    ]);
    assert!(error.unwrap_err().contains("would take"));
    // Labels take as much as a feature of each sample.
    for features in [0, 1] {
        let error = read(&[
            ("x", "|u1", &format!("({huge}, {features})"), &[]),
            ("y", "|u1", &format!("({huge},)"), &[]),
        ]);
        let error = error.unwrap_err();
        assert!(error.contains("number of samples would take"), "{features}: {error}");
    }
}

#[test]
fn sample_range_out_of_bounds_is_an_error_in_memory() {
    let data = crate::samples();
    let of = |start: usize, end: usize| data.samples(std::ops::Range { start, end });
    assert_eq!(&*of(1, 3).unwrap(), &data.features()[2..6]);
    for empty in [0, 2, 3] {
        assert!(of(empty, empty).unwrap().is_empty(), "{empty}");
    }
    for (start, end) in [(2, 1), (0, 4), (4, 4), (3, 2)] {
        assert!(
            matches!(of(start, end), Err(aleatron_data::Error::SampleRange { .. })),
            "{start}..{end}"
        );
    }
    let fault = of(2, 9).unwrap_err().to_string();
    assert_eq!(fault, "d: sample range 2..9 is out of bounds: the data set has 3 samples");
}

#[test]
fn chunks_have_all_samples_for_any_size() {
    let data = crate::samples();
    for (size, firsts) in
        [(0, &[0, 1, 2][..]), (1, &[0, 1, 2]), (2, &[0, 2]), (3, &[0]), (usize::MAX, &[0])]
    {
        let pieces: Vec<_> =
            data.chunks(size).map(|(first, piece)| (first, piece.unwrap())).collect();
        assert_eq!(pieces.iter().map(|piece| piece.0).collect::<Vec<_>>(), firsts, "{size}");
        assert_eq!(
            pieces.iter().flat_map(|piece| piece.1.iter().copied()).collect::<Vec<_>>(),
            data.features()
        );
    }
}

#[test]
fn targets_are_whole_rows() {
    let of = |n_targets: usize, targets: usize| {
        Dataset::with_targets("t", 2, vec![0.0; 6], n_targets, vec![0.0; targets]).is_ok()
    };
    assert!(of(1, 3) && of(2, 6));
    // Among others, three whole rows and a half.
    assert!(!of(2, 7) && !of(2, 5) && !of(2, 3) && !of(0, 0) && !of(0, 3) && !of(4, 6));
}

#[test]
fn embedded_digits_are_complete_and_balanced() {
    let (train, test) = (Dataset::digits_train(), Dataset::digits_test());
    assert_eq!((train.len(), test.len()), (1437, 360));
    for data in [&train, &test] {
        assert_eq!(data.features().len(), 64 * data.len());
        assert!(data.features().iter().all(|pixel| (0.0..=16.0).contains(pixel)));
        for class in 0..10 {
            let n = data.labels().iter().filter(|&&label| label == class).count();
            let fraction = n as f64 / data.len() as f64;
            assert!((fraction - 0.1).abs() < 0.005, "class {class} is {fraction} of the samples");
        }
    }
}

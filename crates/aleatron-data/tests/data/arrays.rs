//! Arrays of every type, and headers and columns that are broken.

use aleatron_data::{CsvOptions, Dataset, Header, LabelColumn};
use std::io::Write;

/// Returns an archive of two arrays: type, order, shape and bytes of each.
fn npz(arrays: [(&str, &str, &str, &[u8]); 2]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, (descr, order, shape, bytes)) in ["x.npy", "y.npy"].into_iter().zip(arrays) {
        archive.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        let header =
            format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n");
        let start = [
            &b"\x93NUMPY\x01\x00"[..],
            &(header.len() as u16).to_le_bytes(),
            header.as_bytes(),
            bytes,
        ];
        archive.write_all(&start.concat()).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

const LABELS: (&str, &str, &str, &[u8]) = ("|u1", "False", "(2,)", &[1, 0]);

#[test]
fn arrays_of_every_type_are_read() {
    let integers: [(&str, Vec<u8>); 8] = [
        ("|i1", vec![3, 0xfe]),
        ("<i2", vec![3, 0, 0xfe, 0xff]),
        (">i2", vec![0, 3, 0xff, 0xfe]),
        ("<i4", [3i32.to_le_bytes(), (-2i32).to_le_bytes()].concat()),
        (">i4", [3i32.to_be_bytes(), (-2i32).to_be_bytes()].concat()),
        ("<i8", [3i64.to_le_bytes(), (-2i64).to_le_bytes()].concat()),
        ("<f4", [3f32.to_le_bytes(), (-2f32).to_le_bytes()].concat()),
        (">f8", [3f64.to_be_bytes(), (-2f64).to_be_bytes()].concat()),
    ];
    for (descr, bytes) in &integers {
        let data =
            Dataset::from_npz(&npz([(descr, "False", "(2, 1)", bytes), LABELS]), "t").unwrap();
        assert_eq!((data.features(), data.labels()), (&[3.0, -2.0][..], &[1, 0][..]), "{descr}");
    }
    let unsigned: [(&str, Vec<u8>); 4] = [
        ("|u1", vec![3, 0xfe]),
        ("<u2", vec![3, 0, 0xfe, 0]),
        ("=u4", [3u32.to_le_bytes(), 254u32.to_le_bytes()].concat()),
        ("<u8", [3u64.to_le_bytes(), 254u64.to_le_bytes()].concat()),
    ];
    for (descr, bytes) in &unsigned {
        let data =
            Dataset::from_npz(&npz([(descr, "False", "(2, 1)", bytes), LABELS]), "t").unwrap();
        assert_eq!(data.features(), [3.0, 254.0], "{descr}");
    }
    let data = Dataset::from_npz(&npz([("|b1", "False", "(2, 1)", &[0, 7]), LABELS]), "t").unwrap();
    assert_eq!(data.features(), [0.0, 1.0]);
    // By columns: the first of both rows, then the second.
    let by_columns = npz([("|u1", "True", "(2, 3)", &[1, 4, 2, 5, 3, 6]), LABELS]);
    assert_eq!(
        Dataset::from_npz(&by_columns, "t").unwrap().features(),
        [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    );
}

/// An array of more than one chunk.
#[test]
fn large_arrays_are_read_in_chunks() {
    let n = (1 << 16) + 3;
    let bytes: Vec<u8> = (0..n).map(|k| (k % 251) as u8).collect();
    let labels = vec![1; n];
    let (x, y) = (format!("({n}, 1)"), format!("({n},)"));
    let file = npz([("|u1", "False", &x, &bytes), ("|u1", "False", &y, &labels)]);
    let data = Dataset::from_npz(&file, "t").unwrap();
    assert!(data.features().iter().zip(&bytes).all(|(feature, byte)| *feature == f64::from(*byte)));
    assert_eq!((data.len(), data.labels().len()), (n, n));
}

/// An archive of a few bytes reserves no more memory than it can fill, even if its headers claim
/// more.
#[test]
fn archives_reserve_no_more_memory_than_they_can_fill() {
    let n = 1 << 24;
    let (x, y) = (format!("({n}, 1)"), format!("({n},)"));
    for claim in [u32::MAX, 1 << 25] {
        let mut file = npz([("|u1", "False", &x, &[0; 9]), ("|u1", "False", &y, &[0; 9])]);
        let message = Dataset::from_npz(&file, "t").unwrap_err().to_string();
        assert!(message.contains("array \"y\": the array is truncated: it takes "), "{message}");
        // The sizes of the second entry of the directory, and those before its data, say otherwise.
        let entry = file.windows(4).rposition(|window| window == b"PK\x01\x02").unwrap();
        file[entry + 24..entry + 28].copy_from_slice(&claim.to_le_bytes());
        let message = Dataset::from_npz(&file, "t").unwrap_err().to_string();
        assert!(message.contains("truncated") || message.contains("array \"y\""), "{message}");
    }
}

#[test]
fn broken_headers_are_errors() {
    let message = |x: &[u8]| {
        let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        for (name, bytes) in [("x.npy", x), ("y.npy", b"")] {
            archive.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
            archive.write_all(bytes).unwrap();
        }
        let message = Dataset::from_npz(&archive.finish().unwrap().into_inner(), "t")
            .unwrap_err()
            .to_string();
        message.strip_prefix("t: array \"x\": ").unwrap_or(&message).to_owned()
    };
    let header = |version: u8, len: &[u8], text: &str| {
        [b"\x93NUMPY", &[version, 0][..], len, text.as_bytes()].concat()
    };
    assert_eq!(message(b"\x93NUMP"), "the array is broken");
    assert_eq!(message(b"\x94NUMPY\x01\x00\x00\x00"), "this is not an array");
    assert_eq!(message(&header(1, &[9, 0], "short")), "the array is broken");
    // Versions 2 and 3 have four bytes for the length.
    assert_eq!(message(&header(2, &[2, 0, 0, 0], "{}")), "its header is broken");
    assert_eq!(message(&header(2, &[1, 0, 1, 0], "")), "its header is too long");
    assert_eq!(message(&header(2, &[0, 0, 1, 0], "")), "the array is broken");
    assert_eq!(message(&[&header(1, &[1, 0], "")[..], &[0xff]].concat()), "its header is not text");
    for text in [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1, x)}",
        "{'descr': '<f8', 'shape': (1, 1)}",
    ] {
        assert_eq!(message(&header(1, &[text.len() as u8, 0], text)), "its header is broken");
    }
}

#[test]
fn columns_of_labels_have_names() {
    for (text, column) in [
        ("-1", LabelColumn::Last),
        ("2", LabelColumn::Index(2)),
        ("class", LabelColumn::Name("class".to_owned())),
    ] {
        assert_eq!(text.parse::<LabelColumn>().unwrap(), column);
        assert_eq!(column.to_string(), text);
    }
    assert_eq!(LabelColumn::Last.to_string(), "-1");
    let options = CsvOptions { label: LabelColumn::Index(i64::MIN), ..CsvOptions::default() };
    assert!(Dataset::from_csv(b"1,2\n", "t", &options).is_err());
    // The separator that the first line has most of, and a comma among equals.
    let read = |text: &str| Dataset::from_csv(text.as_bytes(), "t", &CsvOptions::default());
    assert_eq!(read("\n1;2;3,0\n").unwrap_err().to_string(), "t: there are no samples");
    assert_eq!(read("1;2\t5;0\n9;8;1\n").map(|data| data.len()).map_err(|_| ()), Ok(1));
    assert_eq!(read("a,b;c\n1,0\n").unwrap().labels(), [0]);
    let shown = read("1,2\n1,4294967296\n").unwrap_err().to_string();
    assert_eq!(shown, "t, line 2: \"4294967296\" is not a class counted from 0");
    assert_eq!(read("1,4294967295\n").unwrap().labels(), [4_294_967_295]);
    assert!(!read("1,2\n").unwrap().is_empty());
    // Extra fields in later lines are errors of those lines.
    let no_heading = CsvOptions { header: Header::No, ..CsvOptions::default() };
    let shown = Dataset::from_csv(b"1,0\n1;2;0\n", "t", &no_heading).unwrap_err().to_string();
    assert!(shown.starts_with("t, line 2: "), "{shown}");
}

//! Shapes of samples: arrays and images keep their axes, and layouts transpose them.

use crate::archives::npz;
use crate::files::{Folder, all, image};
use aleatron_data::{Array, Dataset, Error, Layout, ReadOptions};

/// Two images of 1 x 2 pixels and three channels, channels last.
const IMAGES: [u8; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];

/// The same images, channels first.
const CHANNELS_FIRST: [f64; 12] = [0.0, 3.0, 1.0, 4.0, 2.0, 5.0, 6.0, 9.0, 7.0, 10.0, 8.0, 11.0];

#[test]
fn samples_keep_their_shape() {
    let folder = Folder::new("shape");
    let x = folder.npy("x.npy", "|u1", "False", "(2, 1, 2, 3)", &IMAGES);
    let y = folder.npy("y.npy", "|u1", "False", "(2,)", &[1, 0]);
    let options = ReadOptions { labels: Some(y), ..ReadOptions::default() };
    let data = Dataset::read_with(&x, &options).unwrap();
    assert_eq!((data.sample_shape(), data.n_features()), (&[1, 2, 3][..], 6));
    let error = data.check_shape(&[3, 1, 2]).unwrap_err();
    assert!(
        matches!(&error, Error::SampleShape { axes: Some(axes), .. } if *axes == [2, 0, 1]),
        "{error}"
    );
    assert!(data.check_shape(&[6]).is_ok() && data.check_shape(&[1, 2, 3]).is_ok());
    // Images are channels first, lines of text have no axes.
    folder.write(
        "images/0/a.png",
        &image(png::ColorType::Rgb, png::BitDepth::Eight, [2, 1], &[0; 6]),
    );
    assert_eq!(Dataset::read(folder.0.join("images")).unwrap().sample_shape(), [3, 1, 2]);
    let text = folder.write("x.csv", b"1,2,3,4,5,6,0\n");
    let text = Dataset::read(text).unwrap();
    assert_eq!(text.sample_shape(), [6]);
    assert!(text.check_shape(&[3, 1, 2]).is_ok() && text.check_shape(&[7]).is_err());
    assert_eq!(text.clone().with_sample_shape(&[2, 3]).unwrap().sample_shape(), [2, 3]);
    assert!(text.with_sample_shape(&[4, 2]).is_err());
}

#[test]
fn channels_last_is_transposed_from_files_and_archives() {
    let folder = Folder::new("layout");
    let x = folder.npy("x.npy", "|u1", "False", "(2, 1, 2, 3)", &IMAGES);
    let y = folder.npy("y.npy", "|u1", "False", "(2,)", &[1, 0]);
    let layout = Layout::ChannelsLast;
    let options = ReadOptions { labels: Some(y), layout, ..ReadOptions::default() };
    let data = Dataset::read_with(&x, &options).unwrap();
    assert_eq!((data.sample_shape(), all(&data)), (&[3, 1, 2][..], CHANNELS_FIRST.to_vec()));
    assert_eq!(data.samples(1..2).unwrap()[..], CHANNELS_FIRST[6..]);
    let archive = npz(&[("x", "|u1", "(2, 1, 2, 3)", &IMAGES), ("y", "|u1", "(2,)", &[1, 0])]);
    let archive = folder.write("d.npz", &archive);
    let options = ReadOptions { layout, ..ReadOptions::default() };
    let data = Dataset::read_with(&archive, &options).unwrap();
    assert_eq!((data.sample_shape(), data.features()), (&[3, 1, 2][..], &CHANNELS_FIRST[..]));
    let flat = npz(&[("x", "|u1", "(2, 6)", &IMAGES), ("y", "|u1", "(2,)", &[1, 0])]);
    let error = Dataset::read_with(folder.write("f.npz", &flat), &options).unwrap_err().to_string();
    assert!(error.contains("samples of shape [6] have no axis of channels"), "{error}");
}

#[test]
fn arrays_are_read_with_their_shape() {
    let folder = Folder::new("array");
    let values = [1.5_f32, -2.0].map(f32::to_le_bytes).concat();
    let read = Array::read_npy(folder.npy("a.npy", "<f4", "False", "(1, 2)", &values)).unwrap();
    assert_eq!(read, Array { shape: vec![1, 2], values: vec![1.5, -2.0], is_integer: false });
    let archive = npz(&[("a", "|u1", "(2,)", &[7, 8]), ("b", "<f4", "()", &values[..4])]);
    let read = Array::read_npz(folder.write("a.npz", &archive)).unwrap();
    assert_eq!(read["a"], Array { shape: vec![2], values: vec![7.0, 8.0], is_integer: true });
    assert_eq!(read["b"], Array { shape: vec![], values: vec![1.5], is_integer: false });
    // Columns of more than two axes would be in the wrong order.
    assert!(Array::read_npy(folder.npy("c.npy", "|u1", "True", "(1, 1, 2)", &[1, 2])).is_err());
}

/// A pipe would block, and a device has no end.
#[cfg(unix)]
#[test]
fn irregular_files_are_errors() {
    let folder = Folder::new("fifo");
    for name in ["x.npy", "x.npz", "x.csv", "images/0/a.png"] {
        let path = folder.write(name, b"");
        std::fs::remove_file(&path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let path = if name.ends_with("png") { folder.0.join("images") } else { path };
        let options = ReadOptions {
            labels: name.ends_with("npy").then(|| path.clone()),
            ..ReadOptions::default()
        };
        let error = Dataset::read_with(&path, &options).unwrap_err().to_string();
        assert!(error.ends_with("it is not a regular file"), "{error}");
    }
}

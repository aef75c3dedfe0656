//! Classes: numbers, names that are listed or sorted, and the names of arrays and folders.

use crate::archives::npz;
use crate::files::{Folder, image};
use aleatron_data::{ClassNames, Dataset, Error, LabelKind, ReadOptions};

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Texts of four code points each.
fn code_points(texts: &[&str]) -> Vec<u8> {
    let padded = |text: &&str| {
        let codes: Vec<u32> =
            text.chars().map(u32::from).chain(std::iter::repeat(0)).take(4).collect();
        codes.iter().flat_map(|code| code.to_le_bytes()).collect::<Vec<u8>>()
    };
    texts.iter().flat_map(padded).collect()
}

#[test]
fn arrays_of_texts_are_classes() {
    let x: (&str, &str, &str, &[u8]) = ("x", "|u1", "(3, 1)", &[1, 2, 3]);
    for y in [
        ("y", "<U4", "(3,)", &code_points(&["süß", "bad", "süß"])[..]),
        ("y", "|S4", "(3,)", "sub\0bad\0sub\0".as_bytes()),
    ] {
        let data = Dataset::from_npz(&npz(&[x, y]), "t").unwrap();
        assert_eq!(data.labels(), [1, 0, 1], "{y:?}");
        assert!(
            matches!(data.class_names(), ClassNames::Sorted(names) if names[0] == "bad"),
            "{y:?}"
        );
        assert!(data.check_classes(2).is_ok());
        let error = data.check_classes(3).unwrap_err();
        assert!(matches!(&error, Error::ClassCount { n_classes: 3, .. }), "{error}");
        assert!(error.to_string().contains("--classes NAME"), "{error}");
    }
    let folder = Folder::new("texts");
    let x = folder.npy("x.npy", "|u1", "False", "(3, 1)", &[1, 2, 3]);
    let y = folder.npy("y.npy", "<U4", "False", "(3,)", &code_points(&["c", "a", "c"]));
    let classes = Some(names(&["c", "b", "a"]));
    let options = ReadOptions { labels: Some(y), classes, ..ReadOptions::default() };
    let data = Dataset::read_with(&x, &options).unwrap();
    assert_eq!(
        (data.labels(), data.class_names().names()),
        (&[0, 2, 0][..], &names(&["c", "b", "a"])[..])
    );
    let numbers = ReadOptions { kind: LabelKind::Numbers, classes: None, ..options };
    let error = Dataset::read_with(&x, &numbers).unwrap_err().to_string();
    assert!(error.contains("the target of sample 0 is \"c\", not a number"), "{error}");
}

#[test]
fn arrays_are_found_by_usual_names_and_by_given_ones() {
    let folder = Folder::new("names");
    let read = |arrays: &[&str], x: Option<&str>, y: Option<&str>| {
        let bytes: Vec<(&str, &str, &str, &[u8])> = arrays
            .iter()
            .map(|name| {
                let is_label = name.to_lowercase().starts_with(['y', 'l', 't']);
                let shape = if is_label { "(2,)" } else { "(2, 1)" };
                // The values tell which array was read.
                let bytes: &[u8] = if name.contains("train") { &[1, 1] } else { &[0, 1] };
                (*name, "|u1", shape, bytes)
            })
            .collect();
        let path = folder.write("a.npz", &npz(&bytes));
        let options = ReadOptions {
            x: x.map(str::to_owned),
            y: y.map(str::to_owned),
            ..ReadOptions::default()
        };
        let text = |error: Error| error.to_string().rsplit_once("npz: ").unwrap().1.to_owned();
        Dataset::read_with(&path, &options).map(|data| data.labels().to_vec()).map_err(text)
    };
    for arrays in [
        &["X", "Y"][..],
        &["x_train", "y_train", "x_test", "y_test"],
        &["images", "labels"],
        &["features", "targets"],
        &["data", "target"],
        &["x", "y", "data", "labels"],
    ] {
        assert_eq!(read(arrays, None, None), Ok(vec![0, 1]), "{arrays:?}");
    }
    assert_eq!(read(&["x_train", "y_train"], Some("x_train"), Some("y_train")), Ok(vec![1, 1]));
    assert_eq!(
        read(&["a", "y"], None, None).unwrap_err(),
        "there is no array of features (x, x_test, images, features, data); the arrays are a, y: choose with --x NAME"
    );
    assert_eq!(
        read(&["images", "features", "y"], None, None).unwrap_err(),
        "several arrays may be the features: images, features; the arrays are images, features, y: choose with --x NAME"
    );
    assert_eq!(
        read(&["x", "y"], None, Some("z")).unwrap_err(),
        "there is no array \"z\"; the arrays are x, y: choose with --y NAME"
    );
}

#[test]
fn inputs_need_no_labels_and_prefer_those_of_training() {
    let folder = Folder::new("inputs");
    let archive =
        npz(&[("x_test", "|u1", "(1, 2)", &[1, 2]), ("x_train", "|u1", "(1, 2)", &[3, 4])]);
    let path = folder.write("a.npz", &archive);
    let data = Dataset::read_inputs(&path, &ReadOptions::default()).unwrap();
    assert_eq!((data.features(), data.len()), (&[3.0, 4.0][..], 1));
    assert!(Dataset::read(&path).is_err());
}

#[test]
fn folders_are_identified_by_number_or_by_name() {
    let pixel = |folder: &Folder, name: &str, value: u8| {
        let bytes = image(png::ColorType::Grayscale, png::BitDepth::Eight, [1, 1], &[value]);
        folder.write(&format!("{name}/a.png"), &bytes);
    };
    // Classes 1 and 2 have no samples, and 3 stays 3.
    let folder = Folder::new("missing");
    pixel(&folder, "0", 0);
    pixel(&folder, "3", 255);
    let data = Dataset::read(&folder.0).unwrap();
    assert_eq!((data.labels(), data.class_names()), (&[0, 3][..], &ClassNames::Numbers));
    assert!(data.check_classes(10).is_ok());
    let folder = Folder::new("named");
    pixel(&folder, "cat", 0);
    pixel(&folder, "emu", 255);
    let data = Dataset::read(&folder.0).unwrap();
    assert_eq!(
        (data.labels(), data.class_names()),
        (&[0, 1][..], &ClassNames::Sorted(names(&["cat", "emu"])))
    );
    assert!(data.check_classes(2).is_ok());
    assert!(
        data.check_classes(3)
            .unwrap_err()
            .to_string()
            .contains("its classes are 2 (cat, emu), the network has 3")
    );
    let read = |listed: &[&str]| {
        Dataset::read_with(
            &folder.0,
            &ReadOptions { classes: Some(names(listed)), ..ReadOptions::default() },
        )
    };
    let data = read(&["emu", "dog", "cat"]).unwrap();
    assert_eq!((data.labels(), data.features()), (&[0, 2][..], &[1.0, 0.0][..]));
    assert!(data.check_classes(3).is_ok());
    let error = read(&["dog", "cat"]).unwrap_err().to_string();
    assert!(error.ends_with("\"emu\" is not one of the classes dog, cat"), "{error}");
}

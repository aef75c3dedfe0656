//! The embedded digits; `assets/digits/README.md` describes the records and gives their source and
//! licence.

use super::labels::LabelData;
use super::{Dataset, Features};

const RECORDS: &[u8] = include_bytes!("../assets/digits/digits.bin");
const PIXELS: usize = 64;

impl Dataset {
    /// Returns the 360 embedded digits for testing: 8 x 8 pixels from 0 to 16, ten classes.
    #[must_use]
    pub fn digits_test() -> Self {
        digits("digits (test)", 1)
    }

    /// Returns the 1,437 embedded digits for training.
    #[must_use]
    pub fn digits_train() -> Self {
        digits("digits (training)", 0)
    }
}

fn digits(name: &str, part: u8) -> Dataset {
    let (mut features, mut labels) = (Vec::new(), Vec::new());
    for record in RECORDS.chunks_exact(PIXELS + 2).filter(|record| record[0] == part) {
        labels.push(record[1].into());
        features.extend(record[2..].iter().map(|&pixel| f64::from(pixel)));
    }
    let (name, features, answers) =
        (name.to_owned(), Features::Held(features), LabelData::classes(labels));
    Dataset { name, shape: vec![PIXELS], n_features: PIXELS, features, answers }
}

//! The embedded digits; `assets/digits/README.md` describes the records and gives their source and licence.

use super::{Answers, Dataset};

const RECORDS: &[u8] = include_bytes!("../assets/digits/digits.bin");
const PIXELS: usize = 64;

impl Dataset {
    /// The 360 embedded digits for testing: 8 x 8 pixels from 0 to 16, ten classes.
    #[must_use]
    pub fn digits_test() -> Self {
        digits("digits (test)", 1)
    }

    /// The 1,437 embedded digits for training.
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
    let answers = Answers::Classes(labels);
    Dataset { name: name.to_owned(), n_features: PIXELS, features: super::Features::Held(features), answers }
}

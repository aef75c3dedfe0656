//! Bytes as a `.csv` file, whose first byte chooses the options: samples or an error, never a panic, and samples survive being
//! written and read.
#![no_main]

use aleatron::data::{CsvOptions, Dataset, Header, LabelColumn};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, text)) = bytes.split_first() else { return };
    let header = [Header::Auto, Header::Yes, Header::No][usize::from(choice % 3)];
    let label = match choice / 3 % 6 {
        0 => LabelColumn::Last,
        1 => LabelColumn::Name("class".to_owned()),
        2 => LabelColumn::Index(i64::MIN),
        3 => LabelColumn::Index(i64::MAX),
        4 => LabelColumn::Index(0),
        _ => LabelColumn::Index(-2),
    };
    let Ok(data) = Dataset::from_csv(text, "t", &CsvOptions { header, label }) else { return };
    assert!(!data.is_empty() && data.n_features() > 0);
    assert!(data.features().iter().all(|feature| feature.is_finite()));
    let mut lines = String::new();
    for (features, label) in data.features().chunks_exact(data.n_features()).zip(data.labels()) {
        features.iter().for_each(|feature| lines.push_str(&format!("{feature},")));
        lines.push_str(&format!("{label}\n"));
    }
    let options = CsvOptions { header: Header::No, label: LabelColumn::Last };
    assert_eq!(Dataset::from_csv(lines.as_bytes(), "t", &options).unwrap(), data);
});

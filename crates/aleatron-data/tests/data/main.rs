//! Data sets: archives, arrays, text files and folders of images.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking, too")]

mod archives;
mod arrays;
mod files;
mod labels;
mod shapes;

use aleatron_data::Dataset;

/// Returns three samples of two features.
fn samples() -> Dataset {
    Dataset::new("d", 2, vec![0.5, -0.5, 1.0, 0.0, -1.0, 0.25], vec![0, 1, 2]).unwrap()
}

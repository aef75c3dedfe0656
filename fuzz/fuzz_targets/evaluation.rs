//! Bytes as the file of an evaluation: an evaluation that can be printed and resumed, or an error,
//! never a panic.
//!
//! The bytes are the file, and edits of a valid one. A readable evaluation retains its cells when
//! it is resumed.
#![no_main]

use aleatron::Cancel;
use aleatron::data::Dataset;
use aleatron::eval::{Evaluation, Plan, evaluate, report};
use aleatron::network::Network;
use aleatron_fuzz::{edited, network, plan, samples, stopped_after};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

struct Good {
    file: Vec<u8>,
    network: Network,
    samples: Dataset,
    plan: Plan,
}

static GOOD: LazyLock<Good> = LazyLock::new(|| Good {
    file: stopped_after(3).to_json().unwrap().into_bytes(),
    network: network(),
    samples: samples(),
    plan: plan(),
});

fuzz_target!(|bytes: &[u8]| {
    check(&String::from_utf8_lossy(bytes));
    check(&String::from_utf8_lossy(&edited(GOOD.file.clone(), bytes)));
});

fn check(text: &str) {
    let Ok(evaluation) = Evaluation::from_json(text) else { return };
    let again = Evaluation::from_json(&evaluation.to_json().unwrap()).unwrap();
    assert_eq!(again, evaluation);
    let rows = evaluation.rows();
    let cells: usize = rows.iter().map(|row| row.accuracies.len()).sum();
    assert_eq!(cells, evaluation.cells.len(), "a cell is in no row");
    for width in [0, 80, usize::MAX] {
        assert!(!evaluation.text(width).is_empty());
    }
    assert!(evaluation.to_csv().lines().count() > evaluation.cells.len());
    assert!(report::evaluation(&evaluation).ends_with("</html>\n"));
    let stop = || true;
    let resumed = evaluate(
        &GOOD.network,
        &GOOD.samples,
        &GOOD.plan,
        Some(evaluation.clone()),
        Cancel::when(&stop),
        |_| (),
    );
    if let Ok(resumed) = resumed {
        assert!(evaluation.cells.iter().all(|cell| resumed.cells.contains(cell)));
    }
}

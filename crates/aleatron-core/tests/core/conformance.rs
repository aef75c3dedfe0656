//! The fixed suite: its cases are valid, no answer is empty, and the answers of the reference have
//! the known hashes.

use aleatron_core::arithmetic::Accumulator;
use aleatron_core::backend::CountMethod;
use aleatron_core::conformance::{Case, Operation, Reference, digest, suite};
use aleatron_core::{Encoding, Topology};
use std::collections::BTreeSet;
use std::sync::OnceLock;

const TEXT: &str = include_str!("../../golden/verify.kat");

/// Returns every case with the answer of the reference.
fn answers() -> &'static [(Case, Vec<u64>)] {
    static ANSWERS: OnceLock<Vec<(Case, Vec<u64>)>> = OnceLock::new();
    ANSWERS.get_or_init(|| {
        let cases = suite::fixed().unwrap().into_iter();
        cases
            .map(|case| (Reference.answer(&case), case))
            .map(|(answer, case)| (case, answer))
            .collect()
    })
}

fn line(name: &str, answers: &[&[u64]]) -> String {
    format!("{name} {} = {:016x}", answers.len(), digest(answers.iter().copied()))
}

#[test]
fn answers_have_the_known_hashes() {
    let answers = answers();
    let of = |operation: Operation| -> Vec<&[u64]> {
        let matching = answers.iter().filter(|(case, _)| case.operation() == operation);
        matching.map(|(_, answer)| answer.as_slice()).collect()
    };
    let first: Vec<&[u64]> =
        answers.iter().take(suite::FIRST_CASES).map(|(_, answer)| &answer[..]).collect();
    let mut computed = vec![line("first", &first)];
    computed.extend(Operation::ALL.map(|operation| line(operation.name(), &of(operation))));
    let known: Vec<&str> = TEXT.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(computed, known);
}

#[test]
fn answers_are_neither_empty_nor_constant() {
    for (case, answer) in answers() {
        assert!(!answer.is_empty(), "{case:?}");
    }
    // A suite whose answers are all alike would also have a hash.
    for operation in Operation::ALL {
        let of = || answers().iter().filter(|(case, _)| case.operation() == operation);
        let distinct: BTreeSet<&Vec<u64>> = of().map(|(_, answer)| answer).collect();
        assert!(
            2 * distinct.len() > of().count(),
            "{operation:?}: {} of {}",
            distinct.len(),
            of().count()
        );
    }
}

/// Checks properties that no answer shows: both count methods occur for convolutions, and networks
/// have wide and narrow accumulators.
#[test]
fn suite_covers_methods_and_saturating_accumulators() {
    let (mut methods, mut accumulators) = ([0; 2], [0; 2]);
    for case in suite::fixed().unwrap() {
        match case {
            Case::Layer(layer) => {
                let is_conv = matches!(layer.spec.topology(), Topology::Conv(_));
                if is_conv && matches!(layer.spec.encoding(), Encoding::Sequences(_)) {
                    assert_ne!(layer.method, CountMethod::Best);
                    methods[usize::from(layer.method == CountMethod::Tables)] += 1;
                }
            }
            Case::Network(network) => {
                for layer in &network.layers {
                    let is_wide = Accumulator::calibrated(&layer.spec, &layer.stage, 0).unwrap()
                        == layer.accumulator;
                    accumulators[usize::from(is_wide)] += 1;
                }
            }
            _ => {}
        }
    }
    assert!(methods.iter().chain(&accumulators).all(|&n| n >= 10), "{methods:?} {accumulators:?}");
}

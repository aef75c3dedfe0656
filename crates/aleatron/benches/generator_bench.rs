//! Layers with shared sequences: count tables against the bits they stand for, on the same layers.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use aleatron::core::generator::{Pairing, Sequence, Sharing, Sobol, Width};
use aleatron::layer::{Counting, SequenceLayer};
use aleatron::{DenseShape, Length, Polarity, Tier, get_num_threads};
use support::{Table, keep, rate};

fn main() {
    let mut table = Table::from_arguments();
    let mut ratios = Vec::new();
    for (sharing, name) in
        [(Sharing::OneForAll, "one pair for all"), (Sharing::OnePerInput, "a pair per input")]
    {
        // One Sobol pair per input takes two of the 1,111 dimensions for each.
        let n_inputs = if sharing == Sharing::OneForAll { 1024 } else { 512 };
        for (length, n_samples) in [(256, 1), (1024, 1), (1024, 16)] {
            let case = Case { n_inputs, n_neurons: 512, length, n_samples, sharing };
            ratios.extend(case.run(&mut table, name));
        }
    }
    let tier = Tier::current().unwrap();
    table.print(&format!("Bipolar Sobol layers on {tier}, {} threads", get_num_threads().unwrap()));
    println!();
    for (name, ratio) in ratios {
        println!("{name}: tables are {ratio:.1} times as fast as bits, with equal counts");
    }
}

struct Case {
    n_inputs: usize,
    n_neurons: usize,
    length: usize,
    n_samples: usize,
    sharing: Sharing,
}

impl Case {
    /// Times both ways of counting, after making sure that they agree, and gives the ratio.
    fn run(&self, table: &mut Table, sharing: &str) -> Option<(String, f64)> {
        let &Self { n_inputs, n_neurons, length, n_samples, .. } = self;
        let name = format!("{n_inputs}->{n_neurons} x {n_samples}, L = {length}, {sharing}");
        if !table.wants(&name) {
            return None;
        }
        let sobol = |dimension| Sequence::Sobol(Sobol::new(dimension, Width::EIGHT).unwrap());
        let pairing = Pairing { inputs: sobol(1), weights: sobol(2), sharing: self.sharing };
        let shape =
            DenseShape::new(n_inputs, n_neurons, Length::new(length).unwrap(), Polarity::Bipolar).unwrap();
        let values = |n: usize| (0..n).map(|k| (k * 7919 % 1999) as f64 / 999.0 - 1.0).collect::<Vec<_>>();
        let (weights, inputs) = (values(n_inputs * n_neurons), values(n_inputs * n_samples));
        let [tables, bits] = [Counting::Tables, Counting::Bits]
            .map(|counting| SequenceLayer::with_counting(shape, pairing, &weights, counting).unwrap());
        assert_eq!(tables.counts(&inputs).unwrap(), bits.counts(&inputs).unwrap());

        let macs = || rate((n_inputs * n_neurons * length * n_samples) as f64, "bit-MAC/s");
        let by_tables =
            table.case(&format!("{name}, tables"), macs(), || keep(tables.counts(&inputs).unwrap()), None);
        let by_bits =
            table.case(&format!("{name}, bits"), macs(), || keep(bits.counts(&inputs).unwrap()), None);
        if self.n_samples == 1 {
            let build = || keep(SequenceLayer::new(shape, pairing, &weights).unwrap());
            table.case(&format!("{name}, building the tables"), None, build, None);
        }
        Some((name, by_bits.as_secs_f64() / by_tables.as_secs_f64()))
    }
}

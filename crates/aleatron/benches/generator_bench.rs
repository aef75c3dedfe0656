//! Layers with shared sequences: count tables compared with bits, on the same layers.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use aleatron::backend::CountMethod;
use aleatron::generator::{GeneratorName, Sharing};
use aleatron::{StreamLayer, Tier, get_num_threads};
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
    /// Checks that both methods of counting agree, times them and returns the ratio.
    fn run(&self, table: &mut Table, sharing: &str) -> Option<(String, f64)> {
        let &Self { n_inputs, n_neurons, length, n_samples, .. } = self;
        let name = format!("{n_inputs}->{n_neurons} x {n_samples}, L = {length}, {sharing}");
        if !table.wants(&name) {
            return None;
        }
        let values =
            |n: usize| (0..n).map(|k| (k * 7919 % 1999) as f64 / 999.0 - 1.0).collect::<Vec<_>>();
        let (weights, inputs) = (values(n_inputs * n_neurons), values(n_inputs * n_samples));
        let builder =
            StreamLayer::dense(n_inputs, n_neurons).bipolar().length(length).weights(&weights);
        let builder = builder.generator(GeneratorName::SOBOL).sharing(self.sharing);
        let [tables, bits] = [CountMethod::Tables, CountMethod::Bits]
            .map(|method| builder.clone().method(method).build().unwrap());
        let counts = |layer: &StreamLayer| layer.counts_batch(&inputs, 0).unwrap();
        assert_eq!(counts(&tables), counts(&bits));

        let macs = || rate((n_inputs * n_neurons * length * n_samples) as f64, "bit-MAC/s");
        let by_tables =
            table.case(&format!("{name}, tables"), macs(), || keep(counts(&tables)), None);
        let by_bits = table.case(&format!("{name}, bits"), macs(), || keep(counts(&bits)), None);
        if self.n_samples == 1 {
            let build = || keep(builder.clone().build().unwrap());
            table.case(&format!("{name}, building the tables"), None, build, None);
        }
        Some((name, by_bits.as_secs_f64() / by_tables.as_secs_f64()))
    }
}

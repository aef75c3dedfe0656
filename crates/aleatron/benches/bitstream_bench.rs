//! Streams and neurons: packing, counting, encoding, leaky integrate-and-fire.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use aleatron::conformance::trace_words;
use aleatron::{
    Cpu, Length, LifDrive, LifParams, Polarity, Pool, Quantity, StreamAddress, Tier, reference,
    threshold,
};
use aleatron_cpu::ceiling::needed_draws;
use std::sync::Arc;
use support::{Table, ceiling, keep, rate};

const BITS: usize = 1 << 20;
const WORDS: usize = 1 << 20;

fn main() {
    let mut table = Table::from_arguments();
    let tier = Tier::current().unwrap();
    let one = Cpu::new(tier, Arc::new(Pool::new(1).unwrap()));
    let all = Cpu::current().unwrap();

    // Packing reads a byte per bit, unpacking writes one: both are compared with only touching
    // those bytes.
    let bits: Vec<u8> = (0..BITS).map(|k| (k * k >> 3) as u8 & 1).collect();
    let packed = one.pack(&bits);
    assert_eq!(one.unpack(&packed, BITS).unwrap(), bits);
    let mut out = packed.clone();
    let as_words: Vec<u64> = vec![1; BITS / 8];
    table.case(
        "pack 1 Mi bits",
        rate(BITS as f64, "bit/s"),
        || one.pack_into(&bits, &mut out).unwrap(),
        ceiling("reading the bytes", &mut || keep(one.ceiling_read(&as_words))),
    );
    let mut unpacked = bits.clone();
    let mut filled = bits.clone();
    table.case(
        "unpack 1 Mi bits",
        rate(BITS as f64, "bit/s"),
        || one.unpack_into(&packed, &mut unpacked).unwrap(),
        ceiling("filling the bytes", &mut || {
            filled.fill(1);
            keep(&mut filled);
        }),
    );

    let words: Vec<u64> =
        (0..WORDS as u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    assert_eq!(all.popcount(&words), words.iter().map(|w| u64::from(w.count_ones())).sum::<u64>());
    table.case(
        "popcount 1 Mi words, 1 thread",
        rate(8.0 * WORDS as f64, "B/s"),
        || keep(one.popcount(&words)),
        ceiling("reading the words", &mut || keep(one.ceiling_read(&words))),
    );
    table.case(
        &format!("popcount 1 Mi words, {} threads", all.threads()),
        rate(8.0 * WORDS as f64, "B/s"),
        || keep(all.popcount(&words)),
        ceiling("reading the words", &mut || keep(all.ceiling_read(&words))),
    );

    // Encoding, compared with computing only the necessary Philox words.
    let length = Length::new(1024).unwrap();
    let address = StreamAddress::input(44257, 0, 0);
    let values: Vec<f64> =
        (0..1000).map(|i| f64::from(i * 7919 % 1000) / 1000.0 + 0.0003).collect();
    let inputs = threshold::thresholds(&values, Polarity::Unipolar, Quantity::Value).unwrap();
    let streams = one.encode(&inputs, length, address).unwrap();
    for i in [0, 1, 500, 999] {
        let expected = reference::encode(inputs[i], length, address.at_unit(i as u32));
        assert_eq!(streams.stream(i).unwrap(), expected);
    }
    let draws = needed_draws(&inputs, length, address);
    let mut out = streams.into_words();
    for cpu in [&one, &all] {
        let threads = cpu.threads();
        let mut fresh = address;
        let mut philox = || keep(one.ceiling_philox(draws));
        table.case(
            &format!("encode 1000 x 1024 bits, {threads} thread(s)"),
            rate(1_024_000.0, "bit/s"),
            || {
                // A new seed each time: cached draws cannot be reused.
                fresh.seed += 1;
                cpu.encode_rows_into(&inputs, 1000, length, fresh, &mut out).unwrap();
            },
            if threads == 1 { ceiling("the Philox words it needs", &mut philox) } else { None },
        );
        table.case(
            &format!("encode, {threads} thread(s), seed used before"),
            rate(1_024_000.0, "bit/s"),
            || cpu.encode_rows_into(&inputs, 1000, length, address, &mut out).unwrap(),
            None,
        );
    }

    // Thresholds of few digits need few planes, those of zeros and ones none.
    let few: Vec<f64> = (0..1000).map(|i| f64::from(i * 7919 % 17) / 16.0).collect();
    let few = threshold::thresholds(&few, Polarity::Unipolar, Quantity::Value).unwrap();
    let mut fresh = address;
    let streams = one.encode(&few, length, address).unwrap();
    assert_eq!(streams.stream(1).unwrap(), reference::encode(few[1], length, address.at_unit(1)));
    table.case(
        "encode, 1 thread(s), 4-bit probabilities",
        rate(1_024_000.0, "bit/s"),
        || {
            fresh.seed += 1;
            one.encode_rows_into(&few, 1000, length, fresh, &mut out).unwrap();
        },
        None,
    );

    let params = LifParams::default();
    let drive = LifDrive { leak_k: 20, gain_k: 256, current: 100, noise: 0 };
    let alone = one.lif_run(params, drive, 1000).unwrap();
    assert_eq!(alone, reference::lif_run(params, std::iter::repeat_n(drive, 1000)));
    let currents: Vec<i16> = (0..1024).map(|i| i % 300).collect();
    let together = one.lif_run_multi(params, drive, &currents, 100).unwrap();
    let same = one.lif_run(params, LifDrive { current: currents[100], ..drive }, 100).unwrap();
    assert_eq!(trace_words(&same)[100..], trace_words(&together)[1024 * 100..][100 * 100..][..100]);
    table.case(
        "LIF 100 K steps, one neuron",
        rate(1e5, "step/s"),
        || keep(one.lif_run(params, drive, 100_000).unwrap()),
        None,
    );
    let varying: Vec<i16> = (0..100_000).map(|i| (i * 31 % 200) as i16).collect();
    table.case(
        "LIF 100 K steps, varying current",
        rate(1e5, "step/s"),
        || keep(one.lif_run_varying(params, drive, &varying, None).unwrap()),
        None,
    );
    table.case(
        "LIF 256 neurons x 400 steps, 1 thread",
        rate(102_400.0, "step/s"),
        || keep(one.lif_run_multi(params, drive, &currents[..256], 400).unwrap()),
        None,
    );
    table.print(&format!("Streams and neurons on {tier}"));
}

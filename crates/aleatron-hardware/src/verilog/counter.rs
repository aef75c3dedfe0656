//! Parallel counters: trees of full adders, side by side in vectors.

use super::text::range;
use std::fmt::Write as _;

/// Returns the name of the counter of so many bits.
pub(crate) fn name(n: usize) -> String {
    format!("al_count_{n}")
}

/// Returns the bits of the number of ones among `n` bits.
pub(crate) fn ones_bits(n: usize) -> usize {
    n.checked_ilog2().map_or(1, |log| log as usize + 1)
}

/// A bit of a named vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bit {
    /// The number of the adders whose vector it is, 0 for the input.
    adders: usize,
    is_carry: bool,
    index: usize,
}

/// Returns a module that counts the ones of `n` bits with `n` less the ones of `n` full adders at most. Three bits of one weight become
/// one bit of it and one of twice the weight, those that wait longest first.
pub(crate) fn counter(n: usize) -> String {
    let mut columns: Vec<Vec<Bit>> =
        vec![(0..n).map(|index| Bit { adders: 0, is_carry: false, index }).collect()];
    let (mut body, mut made, mut ones) = (String::new(), 0, Vec::new());
    let mut weight = 0;
    while weight < columns.len() {
        let mut column = std::mem::take(&mut columns[weight]);
        let mut carries = Vec::new();
        while column.len() > 1 {
            made += 1;
            let width = (column.len() / 3).max(1);
            let taken: Vec<Bit> = column.drain(..column.len().min(3 * width)).collect();
            let parts: Vec<String> = taken.chunks(width).map(concatenated).collect();
            let range = range(width);
            let _ = writeln!(body, "    wire {range} s{made}, k{made};");
            let third = parts.get(2).map_or_else(|| format!("{width}'d0"), Clone::clone);
            let [a, b] = [0, 1].map(|k| parts.get(k).map_or("", String::as_str));
            let _ = writeln!(
                body,
                "    al_adders #(.N({width})) adders{made} (.a({a}), .b({b}), .c({third}), .sum(s{made}), .carry(k{made}));"
            );
            column.extend((0..width).map(|index| Bit { adders: made, is_carry: false, index }));
            carries.extend((0..width).map(|index| Bit { adders: made, is_carry: true, index }));
        }
        ones.extend(column);
        if !carries.is_empty() {
            columns.push(carries);
        }
        weight += 1;
    }
    let bits = ones_bits(n);
    // A half adder of the highest weight may have a carry that is never 1.
    let dropped: Vec<Bit> = ones.drain(bits.min(ones.len())..).collect();
    let unused = match dropped.is_empty() {
        true => String::new(),
        false => super::text::unused(&[&concatenated(&dropped)]),
    };
    format!(
        "// Counts the ones of {n} bits.\n`default_nettype none\n\nmodule {} (\n    input  wire {} bits,\n    output wire {} ones\n);\n{body}{unused}    assign ones = {};\nendmodule\n\n`default_nettype wire\n",
        name(n),
        range(n),
        range(bits),
        concatenated(&ones),
    )
}

/// Returns bits, given from the lowest on, as one expression; neighbours in one vector are a slice.
fn concatenated(bits: &[Bit]) -> String {
    let mut runs: Vec<(Bit, usize)> = Vec::new();
    for bit in bits {
        match runs.last_mut() {
            Some((first, len))
                if first.adders == bit.adders
                    && first.is_carry == bit.is_carry
                    && first.index + *len == bit.index =>
            {
                *len += 1;
            }
            _ => runs.push((*bit, 1)),
        }
    }
    let slice = |(bit, len): &(Bit, usize)| {
        let vector = match (bit.adders, bit.is_carry) {
            (0, _) => "bits".to_owned(),
            (n, false) => format!("s{n}"),
            (n, true) => format!("k{n}"),
        };
        format!("{vector}[{}:{}]", bit.index + len - 1, bit.index)
    };
    super::text::concatenation(&runs.iter().map(slice).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_no_more_adders_than_needed() {
        for n in 1..200 {
            let text = counter(n);
            let adders: usize = text
                .match_indices("#(.N(")
                .filter_map(|(at, found)| text[at + found.len()..].split(')').next()?.parse::<usize>().ok())
                .sum();
            // Half adders of two bits come on top of the full adders, at most one for each bit of the result.
            assert!(adders <= n - n.count_ones() as usize + ones_bits(n), "{n}: {adders}");
        }
    }
}

//! Accumulative parallel counters: trees of full adders, in vectors, that also take the count so
//! far.

use super::text::range;
use std::fmt::Write as _;

/// The adders of an accumulative parallel counter: its counted bits, and those of the count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Counter {
    pub(crate) inputs: usize,
    pub(crate) count: u32,
}

/// A bit of a named vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bit {
    vector: Vector,
    index: usize,
}

/// A vector of the module of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Vector {
    Bits,
    Count,
    /// The sums of the adders with this number.
    Sum(usize),
    /// Their carries.
    Carry(usize),
}

/// The number of gates of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CounterSize {
    /// The full adders.
    pub(crate) full: usize,
    /// The half adders.
    pub(crate) half: usize,
    /// The XOR gates of the highest bit.
    pub(crate) xor: usize,
}

impl Counter {
    /// Returns the number of gates in [`Self::text`].
    pub(crate) fn size(self) -> CounterSize {
        let (mut size, mut carries) = (CounterSize::default(), self.inputs);
        for weight in 0..self.count {
            // A column has its carries and a bit of the count.
            let bits = carries + 1;
            if weight + 1 == self.count {
                size.xor = bits - 1;
            } else {
                size.full += (bits - 1) / 2;
                size.half += usize::from(bits.is_multiple_of(2));
            }
            carries = bits / 2;
        }
        size
    }

    /// Returns the name of the module.
    pub(crate) fn name(self) -> String {
        format!("al_count_{}_{}", self.inputs, self.count)
    }

    /// Returns the module that adds the ones of its bits to a count, modulo 2^count. Each bit of
    /// the count is an additional bit of its weight, so that the module needs a full adder for each
    /// input, and half adders only for the high bits of the count.
    pub(crate) fn text(self) -> String {
        let width = self.count as usize;
        let mut columns: Vec<Vec<Bit>> = vec![Vec::new(); width];
        if let Some(first) = columns.first_mut() {
            first.extend((0..self.inputs).map(|index| Bit { vector: Vector::Bits, index }));
        }
        for (index, column) in columns.iter_mut().enumerate() {
            column.push(Bit { vector: Vector::Count, index });
        }
        let (mut body, mut n_vectors, mut sums) = (String::new(), 0, Vec::new());
        for weight in 0..width {
            let mut column = std::mem::take(&mut columns[weight]);
            let Some(carries) = columns.get_mut(weight + 1) else {
                // Carries of the highest bit are never 1.
                n_vectors += 1;
                let _ = writeln!(body, "    wire [0:0] s{n_vectors} = ^{};", braced(&column));
                sums.push(Bit { vector: Vector::Sum(n_vectors), index: 0 });
                break;
            };
            while column.len() > 1 {
                n_vectors += 1;
                let width = (column.len() / 3).max(1);
                let taken: Vec<Bit> = column.drain(..column.len().min(3 * width)).collect();
                let parts: Vec<String> = taken.chunks(width).map(concatenated).collect();
                let _ = writeln!(body, "    wire {} s{n_vectors}, k{n_vectors};", range(width));
                let outputs = format!(".sum(s{n_vectors}), .carry(k{n_vectors}));");
                let _ = match &parts[..] {
                    [a, b, c] => writeln!(
                        body,
                        "    al_adders #(.N({width})) adders{n_vectors} (.a({a}), .b({b}), .c({c}), {outputs}"
                    ),
                    parts => writeln!(
                        body,
                        "    al_half_adders #(.N({width})) adders{n_vectors} (.a({}), .b({}), {outputs}",
                        parts.first().map_or("", String::as_str),
                        parts.get(1).map_or("", String::as_str),
                    ),
                };
                column
                    .extend((0..width).map(|index| Bit { vector: Vector::Sum(n_vectors), index }));
                carries.extend(
                    (0..width).map(|index| Bit { vector: Vector::Carry(n_vectors), index }),
                );
            }
            sums.extend(column);
        }
        format!(
            "// Adds the ones of {} bits to a count.\n`default_nettype none\n\nmodule {} (\n    input  wire {} bits,\n    input  wire {count} \
             count,\n    output wire {count} sum\n);\n{body}    assign sum = {};\nendmodule\n\n`default_nettype wire\n",
            self.inputs,
            self.name(),
            range(self.inputs),
            concatenated(&sums),
            count = range(width),
        )
    }
}

fn braced(bits: &[Bit]) -> String {
    let text = concatenated(bits);
    if text.starts_with('{') { text } else { format!("{{{text}}}") }
}

/// Returns bits, given from the lowest on, as one expression; neighbours in one vector are a slice.
fn concatenated(bits: &[Bit]) -> String {
    let name = |bit: &Bit| match bit.vector {
        Vector::Bits => "bits".to_owned(),
        Vector::Count => "count".to_owned(),
        Vector::Sum(n) => format!("s{n}"),
        Vector::Carry(n) => format!("k{n}"),
    };
    let mut parts = Vec::new();
    for run in bits.chunk_by(|a, b| a.vector == b.vector && a.index + 1 == b.index) {
        if let [first, ..] = run {
            parts.push(format!("{}[{}:{}]", name(first), first.index + run.len() - 1, first.index));
        }
    }
    super::text::concatenation(&parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adders(text: &str, module: &str) -> usize {
        let begin = format!("    {module} #(.N(");
        let size = |line: &str| line.strip_prefix(&begin)?.split(')').next()?.parse::<usize>().ok();
        text.lines().filter_map(size).sum()
    }

    #[test]
    fn counters_have_a_full_adder_for_each_input() {
        for inputs in 1..200_usize {
            let count = (inputs * 64).ilog2() + 1;
            let text = Counter { inputs, count }.text();
            // Half adders carry into the bits above those of the number of inputs, and where a
            // column has an even number of bits.
            assert!(adders(&text, "al_adders") <= inputs, "{inputs}");
            let size = Counter { inputs, count }.size();
            assert_eq!(
                (adders(&text, "al_adders"), adders(&text, "al_half_adders")),
                (size.full, size.half)
            );
            assert!(adders(&text, "al_half_adders") <= count as usize, "{inputs}");
        }
        let text = Counter { inputs: 64, count: 13 }.text();
        assert_eq!((adders(&text, "al_adders"), adders(&text, "al_half_adders")), (63, 6));
    }
}

//! Fragments of Verilog text.

use std::fmt::Write as _;

/// Returns an unsigned constant.
pub(crate) fn unsigned(value: u128, bits: u32) -> String {
    format!("{bits}'h{value:x}")
}

/// Returns a signed constant in two's complement.
pub(crate) fn signed(value: i128, bits: u32) -> String {
    format!("{bits}'sh{:x}", masked(value, bits))
}

/// Returns the bits of an integer in two's complement.
pub(crate) fn masked(value: i128, bits: u32) -> u128 {
    let mask = if bits >= 128 { u128::MAX } else { (1 << bits) - 1 };
    value as u128 & mask
}

/// Returns the range of a vector, `[bits-1:0]`.
pub(crate) fn range(bits: usize) -> String {
    format!("[{}:0]", bits.saturating_sub(1))
}

/// Returns a function that maps an index to a constant; indices without an entry have the last one.
pub(crate) fn table(name: &str, kind: &str, index_bits: u32, entries: &[String]) -> String {
    let mut text = format!(
        "    function {kind} {name}(input {} at);\n        case (at)\n",
        range(index_bits as usize)
    );
    let last = entries.len().saturating_sub(1);
    for (k, entry) in entries.iter().enumerate() {
        let label = if k == last { "default".to_owned() } else { format!("{index_bits}'d{k}") };
        let _ = writeln!(text, "            {label}: {name} = {entry};");
    }
    text.push_str("        endcase\n    endfunction\n");
    text
}

/// Returns a concatenation of parts, given from the lowest on, with a few parts in a line.
pub(crate) fn concatenation(parts: &[String]) -> String {
    const PER_LINE: usize = 12;
    if let [part] = parts {
        return part.clone();
    }
    let mut text = "{".to_owned();
    for (k, part) in parts.iter().rev().enumerate() {
        if k > 0 {
            text.push_str(if k % PER_LINE == 0 { ",\n        " } else { ", " });
        }
        text.push_str(part);
    }
    text.push('}');
    text
}

/// Returns a wide constant given by bits, the lowest first.
pub(crate) fn bit_vector(
    bits: impl DoubleEndedIterator<Item = bool> + ExactSizeIterator,
) -> String {
    let n = bits.len();
    let bits: Vec<bool> = bits.collect();
    let digit = |nibble: &[bool]| {
        nibble.iter().enumerate().fold(0_u32, |d, (k, &bit)| d | u32::from(bit) << k)
    };
    let digits: String =
        bits.chunks(4).rev().filter_map(|nibble| char::from_digit(digit(nibble), 16)).collect();
    format!("{n}'h{digits}")
}

/// Returns a signal list that keeps linters from reporting signals that a configuration does not
/// need.
pub(crate) fn unused(signals: &[&str]) -> String {
    match signals {
        [] => String::new(),
        _ => format!(
            "    /* verilator lint_off UNUSEDSIGNAL */\n    wire unused = &{{1'b0, {}}};\n    /* verilator lint_on UNUSEDSIGNAL */\n",
            signals.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_in_twos_complement() {
        assert_eq!(signed(-1, 4), "4'shf");
        assert_eq!(signed(-8, 4), "4'sh8");
        assert_eq!(unsigned(256, 9), "9'h100");
        assert_eq!(bit_vector([true, false, false, false, true].into_iter()), "5'h11");
    }

    #[test]
    fn last_entry_of_a_table_is_the_default() {
        let text = table("f", "[1:0]", 2, &["2'd1".to_owned(), "2'd3".to_owned()]);
        assert!(text.contains("2'd0: f = 2'd1;") && text.contains("default: f = 2'd3;"), "{text}");
    }
}

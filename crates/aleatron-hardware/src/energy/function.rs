//! Boolean functions of cells.

use super::liberty::Cell;

/// A Boolean expression over named pins, in reverse Polish notation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Function(Vec<Token>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Pin(String),
    Constant(bool),
    Not,
    And,
    Xor,
    Or,
}

/// An operator that waits for its operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pending {
    Open,
    Not,
    Binary(u8),
}

impl Function {
    /// Parses the syntax of Liberty: `!`, a quote after an operand, `&`, `*` or a space, `^`, `|`
    /// or `+`, and parentheses.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (mut output, mut stack): (Vec<Token>, Vec<Pending>) = (Vec::new(), Vec::new());
        let mut chars = text.chars().peekable();
        let mut is_behind_operand = false;
        while let Some(&c) = chars.peek() {
            let begins_operand = c.is_alphanumeric() || "_([!".contains(c);
            if is_behind_operand && begins_operand {
                // Two adjacent operands are an AND.
                binary(2, &mut output, &mut stack);
                is_behind_operand = false;
            }
            match c {
                _ if c.is_alphanumeric() || c == '_' => {
                    let mut name = String::new();
                    while let Some(c) = chars.next_if(|c| c.is_alphanumeric() || "_[]".contains(*c))
                    {
                        name.push(c);
                    }
                    output.push(match name.as_str() {
                        "0" => Token::Constant(false),
                        "1" => Token::Constant(true),
                        _ => Token::Pin(name),
                    });
                    is_behind_operand = true;
                    negate(&mut output, &mut stack);
                    continue;
                }
                '(' => stack.push(Pending::Open),
                '!' => stack.push(Pending::Not),
                '\'' if is_behind_operand => output.push(Token::Not),
                ')' if is_behind_operand => {
                    while let Some(Pending::Binary(rank)) = stack.last().copied() {
                        stack.pop();
                        output.push(operator(rank));
                    }
                    if stack.pop() != Some(Pending::Open) {
                        return None;
                    }
                    negate(&mut output, &mut stack);
                }
                '&' | '*' if is_behind_operand => {
                    is_behind_operand = !binary(2, &mut output, &mut stack)
                }
                '^' if is_behind_operand => is_behind_operand = !binary(1, &mut output, &mut stack),
                '|' | '+' if is_behind_operand => {
                    is_behind_operand = !binary(0, &mut output, &mut stack)
                }
                ' ' | '\t' | '"' => {}
                _ => return None,
            }
            chars.next();
        }
        while let Some(pending) = stack.pop() {
            let Pending::Binary(rank) = pending else { return None };
            output.push(operator(rank));
        }
        is_behind_operand.then_some(Self(output))
    }

    /// Returns the truth table over the inputs of a cell, the first of which is the lowest bit of
    /// the index; `None` for more than six inputs or for names that are not inputs.
    pub(crate) fn table(&self, cell: &Cell) -> Option<u64> {
        const COLUMNS: [u64; 6] = [
            0xaaaa_aaaa_aaaa_aaaa,
            0xcccc_cccc_cccc_cccc,
            0xf0f0_f0f0_f0f0_f0f0,
            0xff00_ff00_ff00_ff00,
            0xffff_0000_ffff_0000,
            0xffff_ffff_0000_0000,
        ];
        let mut stack: Vec<u64> = Vec::new();
        for token in &self.0 {
            let value = match token {
                Token::Pin(name) => {
                    *COLUMNS.get(cell.inputs.iter().position(|(pin, _)| pin == name)?)?
                }
                Token::Constant(value) => 0_u64.wrapping_sub(u64::from(*value)),
                Token::Not => !stack.pop()?,
                Token::And => stack.pop()? & stack.pop()?,
                Token::Xor => stack.pop()? ^ stack.pop()?,
                Token::Or => stack.pop()? | stack.pop()?,
            };
            stack.push(value);
        }
        let rows = 1_u32.checked_shl(cell.inputs.len() as u32).filter(|rows| *rows <= 64)?;
        let [table] = stack[..] else { return None };
        Some(if rows == 64 { table } else { table & ((1 << rows) - 1) })
    }
}

fn operator(rank: u8) -> Token {
    match rank {
        0 => Token::Or,
        1 => Token::Xor,
        _ => Token::And,
    }
}

/// Applies the negations in front of an operand.
fn negate(output: &mut Vec<Token>, stack: &mut Vec<Pending>) {
    while stack.last() == Some(&Pending::Not) {
        stack.pop();
        output.push(Token::Not);
    }
}

/// Pushes a binary operator; operators of equal precedence come first.
fn binary(rank: u8, output: &mut Vec<Token>, stack: &mut Vec<Pending>) -> bool {
    while let Some(Pending::Binary(other)) = stack.last().copied() {
        if other < rank {
            break;
        }
        stack.pop();
        output.push(operator(other));
    }
    stack.push(Pending::Binary(rank));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str, pins: &[&str]) -> Option<u64> {
        let inputs = pins.iter().map(|&pin| (pin.to_owned(), 0.0)).collect();
        Function::parse(text)?.table(&Cell { inputs, ..Cell::default() })
    }

    #[test]
    fn library_expressions_have_their_truth_tables() {
        assert_eq!(table("!(A & B)", &["A", "B"]), Some(0b0111));
        assert_eq!(table("(!A) | (!B)", &["A", "B"]), Some(0b0111));
        assert_eq!(table("A' + B'", &["A", "B"]), Some(0b0111));
        assert_eq!(table("A B'", &["A", "B"]), Some(0b0010));
        assert_eq!(table("A ^ B ^ C", &["A", "B", "C"]), Some(0b1001_0110));
        assert_eq!(table("A + B*C", &["A", "B", "C"]), Some(0b1110_1010));
        assert_eq!(table("!!A", &["A"]), Some(0b10));
        assert_eq!(table("1", &[]), Some(1));
    }

    #[test]
    fn malformed_expressions_have_no_truth_table() {
        for text in ["", "A &", "(A", "A)", "& A", "A ? B", "!"] {
            assert_eq!(Function::parse(text), None, "{text}");
        }
        assert_eq!(table("A & IQ", &["A"]), None);
    }
}

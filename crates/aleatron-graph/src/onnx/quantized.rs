//! Operators of quantized networks.

use super::attribute::Attributes;
use super::tensor::ElementType;
use super::window;
use crate::error::{Error, Result};
use crate::op::{Op, Quantized};

/// Reads an operator of quantized networks; `None` for any other. Types that depend on zero points
/// are determined later.
pub(super) fn read(name: &str, a: &Attributes<'_>) -> Result<Option<Op>> {
    // The type of a zero point overrides this one.
    let to = Quantized::UInt8;
    Ok(Some(match name {
        "QuantizeLinear" => {
            check_output_type(
                a,
                &[ElementType::U8, ElementType::I8, ElementType::U16, ElementType::I16],
            )?;
            a.ignore(&["saturate"]);
            check_precision(a)?;
            Op::QuantizeLinear { axis: a.int("axis", 1)?, block_size: a.int("block_size", 0)?, to }
        }
        "DequantizeLinear" => {
            check_output_type(a, &[])?;
            Op::DequantizeLinear { axis: a.int("axis", 1)?, block_size: a.int("block_size", 0)? }
        }
        "DynamicQuantizeLinear" => Op::DynamicQuantizeLinear,
        "MatMulInteger" => Op::MatMulInteger,
        "ConvInteger" => Op::ConvInteger { groups: a.int("group", 1)?, window: window::read(a)? },
        "QLinearMatMul" => Op::QLinearMatMul { to },
        "QLinearConv" => {
            Op::QLinearConv { groups: a.int("group", 1)?, window: window::read(a)?, to }
        }
        _ => return Ok(None),
    }))
}

/// Checks that the type of results is one of these; without the attribute, it depends on the
/// inputs.
fn check_output_type(a: &Attributes<'_>, possible: &[ElementType]) -> Result<()> {
    let code = a.int("output_dtype", 0)?;
    let element = i32::try_from(code).ok().and_then(ElementType::from_code);
    match element {
        _ if code == 0 => Ok(()),
        Some(element) if possible.contains(&element) => Ok(()),
        _ => {
            let names: Vec<&str> = possible.iter().map(|element| element.name()).collect();
            let expected = match names.is_empty() {
                true => "it cannot be given".to_owned(),
                false => format!("{} are possible", names.join(", ")),
            };
            Err(Error::attribute("output_dtype", code, expected))
        }
    }
}

fn check_precision(a: &Attributes<'_>) -> Result<()> {
    match a.int("precision", 0)? {
        0 | 1 => Ok(()),
        other => {
            Err(Error::attribute("precision", other, "1 is possible: quotients are 32-bit floats"))
        }
    }
}

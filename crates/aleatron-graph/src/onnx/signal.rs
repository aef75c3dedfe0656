//! Operators of signals and of boxes in images.

use super::attribute::Attributes;
use super::operator::dtype_attribute;
use crate::error::{Error, Result};
use crate::op::{BoxFormat, Op, SignalWindow};

/// Reads an operator of signals or boxes; `None` for any other.
pub(super) fn read(name: &str, version: i64, a: &Attributes<'_>) -> Result<Option<Op>> {
    let window = |function: SignalWindow| -> Result<Option<Op>> {
        let dtype = dtype_attribute("output_datatype", a)?.unwrap_or(aleatron_tensor::DType::F32);
        if !dtype.is_float() {
            return Err(Error::attribute(
                "output_datatype",
                dtype,
                "float and float16 are possible",
            ));
        }
        Ok(Some(Op::SignalWindow { function, periodic: a.flag("periodic", true)?, dtype }))
    };
    Ok(Some(match name {
        "HannWindow" => return window(SignalWindow::Hann),
        "HammingWindow" => return window(SignalWindow::Hamming),
        "BlackmanWindow" => return window(SignalWindow::Blackman),
        "DFT" => {
            // Since operator set 20 the axis is an input.
            let axis = if version < 20 { Some(a.int("axis", 1)?) } else { None };
            Op::Dft {
                axis,
                inverse: a.flag("inverse", false)?,
                onesided: a.flag("onesided", false)?,
            }
        }
        "STFT" => Op::Stft { onesided: a.flag("onesided", true)? },
        "NonMaxSuppression" => {
            let format = match a.flag("center_point_box", false)? {
                true => BoxFormat::Center,
                false => BoxFormat::Corners,
            };
            Op::NonMaxSuppression { format }
        }
        _ => return Ok(None),
    }))
}

//! Attributes of windows that move over spatial axes.

use super::attribute::Attributes;
use crate::error::{Error, Result};
use crate::op::{Padding, Window};

/// Reads the attributes that convolutions and pools share.
pub(super) fn read(attributes: &Attributes<'_>) -> Result<Window> {
    let pads = attributes.ints("pads");
    let padding = match attributes.text("auto_pad", "NOTSET")?.as_str() {
        "NOTSET" => Padding::Explicit(pads),
        "SAME_UPPER" => Padding::SameUpper,
        "SAME_LOWER" => Padding::SameLower,
        "VALID" => Padding::Valid,
        other => {
            return Err(Error::attribute(
                "auto_pad",
                other,
                "NOTSET, SAME_UPPER, SAME_LOWER or VALID is possible",
            ));
        }
    };
    let window = Window {
        kernel: attributes.ints("kernel_shape"),
        strides: attributes.ints("strides"),
        dilations: attributes.ints("dilations"),
        padding,
    };
    for (name, values) in [
        ("kernel_shape", &window.kernel),
        ("strides", &window.strides),
        ("dilations", &window.dilations),
    ] {
        if values.iter().any(|value| !(1..=i64::from(i32::MAX)).contains(value)) {
            return Err(Error::attribute(name, values, "positive numbers are needed"));
        }
    }
    if let Padding::Explicit(pads) = &window.padding
        && pads.iter().any(|pad| !(0..=i64::from(i32::MAX)).contains(pad))
    {
        return Err(Error::attribute("pads", pads, "numbers from 0 on are needed"));
    }
    Ok(window)
}

//! Names of settings, in any case.

use std::str::FromStr;

/// Reads a name in any case.
pub(crate) fn read_name<T: FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, String> {
    let text = text.trim();
    // Errors show the text as it was given.
    text.to_ascii_lowercase()
        .parse()
        .or_else(|_| text.parse().map_err(|error: T::Err| error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use aleatron::network::Arithmetic;
    use aleatron::{Device, Polarity};

    #[test]
    fn names_are_read_in_any_case() {
        assert_eq!(read_name::<Polarity>("Bipolar"), Ok(Polarity::Bipolar));
        assert_eq!(read_name::<Arithmetic>(" INTEGER"), Ok(Arithmetic::Integer));
        assert_eq!(read_name::<Device>("GPU:1"), Ok(Device::Gpu(Some(1))));
        assert!(read_name::<Device>("TPU").unwrap_err().contains("\"TPU\""));
    }
}

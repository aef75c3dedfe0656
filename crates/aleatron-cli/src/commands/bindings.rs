//! Options for the inputs and outputs of a network: constants, symbolic sizes, and the output.

use super::Failure;
use aleatron::data::Array;
use aleatron::network::{Bindings, InputValue};
use aleatron_tensor::{Device, Tensor};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Whole numbers up to this one are exact in f64.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Network")]
pub(crate) struct BindingOptions {
    /// A constant for an input: NAME=NUMBER for all of its elements, or NAME=FILE.npy. May be
    /// given several times.
    #[arg(long = "input", value_name = "NAME=VALUE", value_parser = read_input)]
    inputs: Vec<(String, String)>,
    /// Constants for several inputs: an .npz file with an array for each, by the name of the
    /// input.
    #[arg(long, value_name = "FILE")]
    feed: Option<PathBuf>,
    /// Sizes of inputs that the file leaves open, by name: batch=1,height=640, or INPUT.AXIS=SIZE
    /// for sizes without a name.
    #[arg(long = "shape", value_name = "NAME=SIZE,...", value_delimiter = ',', value_parser = read_size)]
    sizes: Vec<(String, usize)>,
    /// The output that holds the scores, or any other value of the graph; the first output if not
    /// given.
    #[arg(long, value_name = "NAME")]
    output: Option<String>,
}

fn read_input(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err("use NAME=NUMBER or NAME=FILE.npy".to_owned()),
    }
}

fn read_size(text: &str) -> Result<(String, usize), String> {
    let fault = || "use NAME=SIZE with a whole number from 1 on".to_owned();
    let (name, size) = text.rsplit_once('=').ok_or_else(fault)?;
    let size = size.trim().parse().ok().filter(|&size| size > 0).ok_or_else(fault)?;
    Ok((name.trim().to_owned(), size))
}

impl BindingOptions {
    /// Returns whether none of the options is given.
    pub(crate) fn is_empty(&self) -> bool {
        self.inputs.is_empty()
            && self.feed.is_none()
            && self.sizes.is_empty()
            && self.output.is_none()
    }

    /// Reads the constants and returns the choices.
    pub(crate) fn read(&self) -> Result<Bindings, Failure> {
        let mut bindings = Bindings { output: self.output.clone(), ..Bindings::default() };
        for (name, size) in &self.sizes {
            if bindings.sizes.insert(name.clone(), *size).is_some() {
                return Err(Failure::Usage(format!("--shape: \"{name}\" is given twice")));
            }
        }
        let mut constants: BTreeMap<String, InputValue> = BTreeMap::new();
        if let Some(path) = &self.feed {
            for (name, array) in Array::read_npz(path)? {
                constants.insert(name, tensor(&array, path)?);
            }
        }
        for (name, value) in &self.inputs {
            let value = match value.parse::<f64>() {
                Ok(number) => InputValue::Fill(number),
                Err(_) => constant_file(name, value)?,
            };
            if constants.insert(name.clone(), value).is_some() {
                return Err(Failure::Usage(format!("--input: \"{name}\" is given twice")));
            }
        }
        bindings.constants = constants;
        Ok(bindings)
    }
}

fn constant_file(name: &str, value: &str) -> Result<InputValue, Failure> {
    let path = Path::new(value);
    if !path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("npy")) {
        return Err(Failure::Usage(format!(
            "--input {name}={value}: use a number or an .npy file"
        )));
    }
    tensor(&Array::read_npy(path)?, path)
}

/// Returns an array as a tensor: whole numbers as 64-bit integers, others in single precision.
fn tensor(array: &Array, path: &Path) -> Result<InputValue, Failure> {
    if !array.is_integer {
        let values: Vec<f32> = array.values.iter().map(|&value| value as f32).collect();
        return Ok(InputValue::Tensor(Tensor::from_slice(&values, &array.shape, &Device::Cpu)?));
    }
    if let Some(value) = array.values.iter().find(|value| value.abs() > MAX_EXACT) {
        let text = format!(
            "{}: {value} is beyond 2^53, the largest constant that is exact",
            path.display()
        );
        return Err(Failure::Work(text));
    }
    let values: Vec<i64> = array.values.iter().map(|&value| value as i64).collect();
    Ok(InputValue::Tensor(Tensor::from_slice(&values, &array.shape, &Device::Cpu)?))
}

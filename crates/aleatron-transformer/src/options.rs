//! Options of a JSON file. An option that was not read is an error.

use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::BTreeSet;

use crate::error::{Error, Result};

/// The options of one JSON object, with the names that were read.
#[derive(Debug)]
pub(crate) struct Options<'a> {
    map: &'a Map<String, Value>,
    prefix: &'static str,
    asked: RefCell<BTreeSet<String>>,
}

impl<'a> Options<'a> {
    pub(crate) fn new(map: &'a Map<String, Value>, prefix: &'static str) -> Self {
        Self { map, prefix, asked: RefCell::default() }
    }

    /// Returns the value of an option; null counts as missing.
    pub(crate) fn get(&self, name: &str) -> Option<&'a Value> {
        self.asked.borrow_mut().insert(name.to_owned());
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// Returns whether the option is present, even if it is null.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.map.contains_key(name)
    }

    pub(crate) fn fault(&self, name: &str, value: &Value) -> Error {
        Error::UnknownOption { option: format!("{}{name}", self.prefix), value: value.to_string() }
    }

    pub(crate) fn missing(&self, name: &str) -> Error {
        Error::MissingOption { option: format!("{}{name}", self.prefix) }
    }

    fn read<T>(&self, name: &str, convert: impl Fn(&'a Value) -> Option<T>) -> Result<Option<T>> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => convert(value).map(Some).ok_or_else(|| self.fault(name, value)),
        }
    }

    pub(crate) fn size(&self, name: &str) -> Result<Option<usize>> {
        self.read(name, |value| value.as_u64().and_then(|n| usize::try_from(n).ok()))
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<f64>> {
        self.read(name, |value| value.as_f64().filter(|x| x.is_finite()))
    }

    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>> {
        self.read(name, Value::as_bool)
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<&'a str>> {
        self.read(name, Value::as_str)
    }

    pub(crate) fn object(&self, name: &str) -> Result<Option<&'a Map<String, Value>>> {
        self.read(name, Value::as_object)
    }

    pub(crate) fn required_size(&self, name: &str) -> Result<usize> {
        self.size(name)?.ok_or_else(|| self.missing(name))
    }

    pub(crate) fn required_number(&self, name: &str) -> Result<f64> {
        self.number(name)?.ok_or_else(|| self.missing(name))
    }

    /// Checks that an option has a value without effect.
    pub(crate) fn only(&self, name: &str, is_neutral: impl Fn(&Value) -> bool) -> Result<()> {
        match self.get(name) {
            Some(value) if !is_neutral(value) => Err(self.fault(name, value)),
            _ => Ok(()),
        }
    }

    /// Marks options as read that have no effect here.
    pub(crate) fn ignore(&self, names: &[&str]) {
        self.asked.borrow_mut().extend(names.iter().map(|&name| name.to_owned()));
    }

    /// Returns an error for options that were never read. Null and false request nothing.
    pub(crate) fn finish(&self) -> Result<()> {
        match self.unread().next() {
            Some((name, value)) => Err(self.fault(name, value)),
            None => Ok(()),
        }
    }

    /// Returns the options that were never read, without those that are null or false, which
    /// request nothing.
    pub(crate) fn unread(&self) -> impl Iterator<Item = (&'a String, &'a Value)> {
        let asked = self.asked.borrow().clone();
        let inert = |value: &Value| matches!(value, Value::Null | Value::Bool(false));
        self.map.iter().filter(move |(name, value)| !asked.contains(*name) && !inert(value))
    }
}

/// Reads a JSON file that holds an object.
pub(crate) fn read_object(path: &std::path::Path) -> Result<Map<String, Value>> {
    parse_object(&read_text(path)?, path)
}

/// Reads a file of text.
pub(crate) fn read_text(path: &std::path::Path) -> Result<String> {
    aleatron_core::file::read_to_string(path)
        .map_err(|source| Error::File { path: path.to_owned(), source })
}

/// Reads JSON text that holds an object; the path is for messages.
pub(crate) fn parse_object(text: &str, path: &std::path::Path) -> Result<Map<String, Value>> {
    serde_json::from_str(text).map_err(|error| Error::format(path, error))
}

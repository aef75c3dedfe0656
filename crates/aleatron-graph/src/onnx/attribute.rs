//! The attributes of a node of ONNX, by name and type; all of them must be used.

use std::cell::RefCell;
use std::collections::BTreeMap;

use aleatron_tensor::Tensor;
use std::path::Path;

use super::proto::{AttributeProto, GraphProto, NodeProto};
use crate::error::{Error, Result};

/// The attributes of a node.
pub(crate) struct Attributes<'a> {
    all: RefCell<BTreeMap<&'a str, &'a AttributeProto>>,
    /// The first list attribute with another type than requested.
    wrong: RefCell<Option<Error>>,
    folder: Option<&'a Path>,
}

impl<'a> Attributes<'a> {
    pub(crate) fn new(node: &'a NodeProto, folder: Option<&'a Path>) -> Result<Self> {
        let mut all = BTreeMap::new();
        for attribute in &node.attribute {
            let name = attribute.name.as_deref().unwrap_or_default();
            if attribute.ref_attr_name.as_deref().is_some_and(|name| !name.is_empty()) {
                return Err(Error::attribute(
                    name,
                    "a reference",
                    "outside a function it must have a value",
                ));
            }
            if all.insert(name, attribute).is_some() {
                return Err(Error::attribute(name, "given twice", "once is enough"));
            }
        }
        Ok(Self { all: RefCell::new(all), wrong: RefCell::new(None), folder })
    }

    fn take(&self, name: &str) -> Option<&'a AttributeProto> {
        self.all.borrow_mut().remove(name)
    }

    /// Takes a list. A list of another type is recorded, and [`Self::finish`] returns an error: it
    /// would look empty.
    fn take_list(&self, name: &str, code: i32, expected: &str) -> Option<&'a AttributeProto> {
        let attribute = self.take(name)?;
        // Old files do not tell the types of attributes.
        if attribute.r#type.is_some_and(|found| found != code && found != 0) {
            self.wrong.borrow_mut().get_or_insert_with(|| wrong(name, expected));
        }
        Some(attribute)
    }

    /// Marks attributes as used that have no effect here.
    pub(crate) fn ignore(&self, names: &[&str]) {
        for name in names {
            self.take(name);
        }
    }

    /// Checks that all attributes were used: an unused attribute could change the result.
    pub(crate) fn finish(&self) -> Result<()> {
        if let Some(wrong) = self.wrong.borrow_mut().take() {
            return Err(wrong);
        }
        match self.all.borrow().keys().next() {
            Some(name) => Err(Error::attribute(*name, "given", "which the operator does not have")),
            None => Ok(()),
        }
    }

    pub(crate) fn int_or_none(&self, name: &str) -> Result<Option<i64>> {
        self.take(name).map(|a| a.i.ok_or_else(|| wrong(name, "an integer"))).transpose()
    }

    pub(crate) fn int(&self, name: &str, default: i64) -> Result<i64> {
        Ok(self.int_or_none(name)?.unwrap_or(default))
    }

    pub(crate) fn flag(&self, name: &str, default: bool) -> Result<bool> {
        match self.int(name, default.into())? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Error::attribute(name, other, "0 or 1 is possible")),
        }
    }

    pub(crate) fn float_or_none(&self, name: &str) -> Result<Option<f32>> {
        self.take(name).map(|a| a.f.ok_or_else(|| wrong(name, "a float"))).transpose()
    }

    pub(crate) fn float(&self, name: &str, default: f32) -> Result<f32> {
        Ok(self.float_or_none(name)?.unwrap_or(default))
    }

    pub(crate) fn text(&self, name: &str, default: &str) -> Result<String> {
        match self.take(name) {
            None => Ok(default.to_owned()),
            Some(attribute) => {
                let bytes = attribute.s.as_deref().ok_or_else(|| wrong(name, "a text"))?;
                Ok(String::from_utf8_lossy(bytes).into_owned())
            }
        }
    }

    pub(crate) fn texts(&self, name: &str) -> Vec<String> {
        let texts =
            self.take_list(name, 8, "a list of texts").map_or(&[][..], |a| a.strings.as_slice());
        texts.iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect()
    }

    pub(crate) fn ints_or_none(&self, name: &str) -> Option<Vec<i64>> {
        self.take_list(name, 7, "a list of integers").map(|a| a.ints.clone())
    }

    pub(crate) fn ints(&self, name: &str) -> Vec<i64> {
        self.ints_or_none(name).unwrap_or_default()
    }

    pub(crate) fn floats_or_none(&self, name: &str) -> Option<Vec<f32>> {
        self.take_list(name, 6, "a list of floats").map(|a| a.floats.clone())
    }

    pub(crate) fn tensor_or_none(&self, name: &str) -> Result<Option<Tensor>> {
        let Some(attribute) = self.take(name) else { return Ok(None) };
        let proto = attribute.t.as_ref().ok_or_else(|| wrong(name, "a tensor"))?;
        super::tensor::read(proto, self.folder).map(Some)
    }

    pub(crate) fn graph(&self, name: &str) -> Result<&'a GraphProto> {
        self.take(name).and_then(|a| a.g.as_ref()).ok_or_else(|| wrong(name, "a graph"))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.all.borrow().contains_key(name)
    }
}

fn wrong(name: &str, expected: &str) -> Error {
    Error::attribute(name, "of another type", format!("{expected} is needed"))
}

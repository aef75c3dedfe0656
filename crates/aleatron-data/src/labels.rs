//! Labels: classes, identified by numbers or names, and the targets of regression.

use crate::npy::Header;
use crate::{Error, Result};
use std::collections::BTreeSet;

/// The kind of the labels of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum LabelKind {
    /// Classes: numbers counted from 0, or names.
    #[default]
    Classes,
    /// Numbers, one or several for each sample.
    Numbers,
}

impl LabelKind {
    /// Returns the samples of an array of labels, and the labels of each.
    pub(crate) fn size(self, y: &Header, array: &str, name: &str) -> Result<[usize; 2]> {
        let expected = match (self, y.shape.as_slice()) {
            (_, &[n]) => return Ok([n, 1]),
            (Self::Numbers, &[n, width]) if width > 0 => return Ok([n, width]),
            (Self::Classes, _) => "(samples)",
            (Self::Numbers, _) => "(samples) or (samples, outputs)",
        };
        let (name, array, actual) = (name.to_owned(), array.to_owned(), y.shape.clone());
        Err(Error::ArrayShape { name, array, expected, actual })
    }
}

/// The numbering of the classes of a data set.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum ClassNames {
    /// The labels or the names of the folders are the numbers.
    #[default]
    Numbers,
    /// A list of the caller has all classes in the order of their numbers.
    Listed(Vec<String>),
    /// The labels or the folders are names; sorted, the index of a name is its number. The names of
    /// classes without samples are unknown, so the numbers mean something only if the names are
    /// as many as the classes of the network.
    Sorted(Vec<String>),
}

impl ClassNames {
    /// Returns the names in the order of the numbers; none if the labels are numbers.
    #[must_use]
    pub fn names(&self) -> &[String] {
        match self {
            Self::Numbers => &[],
            Self::Listed(names) | Self::Sorted(names) => names,
        }
    }

    /// Returns the class of each label. `listed` are all classes in the order of their numbers, if
    /// they are known.
    pub(crate) fn number(
        labels: &[String],
        listed: Option<&[String]>,
        name: &str,
    ) -> Result<(Self, Vec<usize>)> {
        if let Some(listed) = listed {
            let class = |label: &String| {
                listed.iter().position(|known| known == label).ok_or_else(|| Error::ClassName {
                    name: name.to_owned(),
                    label: label.clone(),
                    known: listed.to_vec(),
                })
            };
            let classes = labels.iter().map(class).collect::<Result<Vec<_>>>()?;
            return Ok((Self::Listed(listed.to_vec()), classes));
        }
        let names: Vec<String> =
            labels.iter().collect::<BTreeSet<_>>().into_iter().cloned().collect();
        // Every label is among the sorted names.
        let classes =
            labels.iter().map(|label| names.partition_point(|known| known < label)).collect();
        Ok((Self::Sorted(names), classes))
    }
}

/// Labels as a file has them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RawLabels {
    Numbers(Vec<f64>),
    Names(Vec<String>),
}

/// The labels of a data set.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum LabelData {
    Classes { classes: Vec<usize>, names: ClassNames },
    Numbers { width: usize, values: Vec<f64> },
}

/// Targets: sums of the squares of their errors are finite.
const TARGETS: std::ops::RangeInclusive<f64> = -1e100..=1e100;

impl LabelData {
    pub(crate) fn classes(classes: Vec<usize>) -> Self {
        Self::Classes { classes, names: ClassNames::Numbers }
    }

    /// Checks labels, `width` for each sample. `listed` are the names of all classes, if they are
    /// known.
    pub(crate) fn new(
        kind: LabelKind,
        width: usize,
        labels: RawLabels,
        listed: Option<&[String]>,
        name: &str,
    ) -> Result<Self> {
        let target =
            |sample: usize, value: String| Error::Target { name: name.to_owned(), sample, value };
        match (kind, labels) {
            (LabelKind::Classes, RawLabels::Names(labels)) => {
                let (names, classes) = ClassNames::number(&labels, listed, name)?;
                Ok(Self::Classes { classes, names })
            }
            (LabelKind::Classes, RawLabels::Numbers(values)) => {
                if listed.is_some() {
                    let reason =
                        "its labels are numbers; a list of classes is for labels that are names";
                    return Err(Error::Format { file: name.to_owned(), reason: reason.to_owned() });
                }
                let fault = |sample: usize, value: f64| {
                    let (name, value) = (name.to_owned(), value.to_string());
                    Error::Label { name, sample, value }
                };
                let classes = values.iter().enumerate();
                let classes =
                    classes.map(|(k, &value)| class(value).ok_or_else(|| fault(k, value)));
                Ok(Self::classes(classes.collect::<Result<_>>()?))
            }
            (LabelKind::Numbers, RawLabels::Names(labels)) => Err(target(
                0,
                labels.first().map_or_else(String::new, |label| format!("\"{label}\"")),
            )),
            (LabelKind::Numbers, RawLabels::Numbers(values)) => {
                match values.iter().position(|value| !TARGETS.contains(value)) {
                    Some(index) => Err(target(index / width.max(1), values[index].to_string())),
                    None => Ok(Self::Numbers { width, values }),
                }
            }
        }
    }

    /// Returns the number of samples.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Classes { classes, .. } => classes.len(),
            Self::Numbers { width, values } => values.len() / (*width).max(1),
        }
    }
}

/// Converts a number to a class, if it is a small non-negative integer.
pub(crate) fn class(value: f64) -> Option<usize> {
    // Past 2^32 the number is not a class, and the cast could round.
    let is_class = (0.0..4_294_967_296.0).contains(&value) && value.fract() == 0.0;
    is_class.then_some(value as usize)
}

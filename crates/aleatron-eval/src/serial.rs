//! Values that have a text form, as text in JSON files.

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::Serializer;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

/// Reads text of a value.
fn parse<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(text: &str) -> Result<T, D::Error> {
    text.parse().map_err(D::Error::custom)
}

/// One value.
pub(super) mod text {
    use super::*;

    pub(crate) fn serialize<T: Display, S: Serializer>(
        value: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(crate) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        parse::<T, D>(&String::deserialize(deserializer)?)
    }
}

/// A value that may be missing.
pub(super) mod optional {
    use super::*;

    pub(crate) fn serialize<T: Display, S: Serializer>(
        value: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serializer.collect_str(value),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<T>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| parse::<T, D>(&text)).transpose()
    }
}

/// A list of values.
pub(super) mod list {
    use super::*;

    pub(crate) fn serialize<T: Display, S: Serializer>(
        values: &[T],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(values.iter().map(ToString::to_string))
    }

    pub(crate) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<T>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        texts.iter().map(|text| parse::<T, D>(text)).collect()
    }
}

/// Values by name.
pub(super) mod map {
    use super::*;

    pub(crate) fn serialize<T: Display, S: Serializer>(
        values: &BTreeMap<String, T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(values.iter().map(|(name, value)| (name, value.to_string())))
    }

    pub(crate) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<String, T>, D::Error> {
        let texts = BTreeMap::<String, String>::deserialize(deserializer)?;
        texts.into_iter().map(|(name, text)| Ok((name, parse::<T, D>(&text)?))).collect()
    }
}

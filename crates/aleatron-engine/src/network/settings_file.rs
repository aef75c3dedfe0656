//! Settings of layers in a file.

use super::LayerOverride;
use crate::{Error, Result};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// The entries of a JSON object in the order of the file, including repeated names.
struct Entries<T>(Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Reader<T> {
            type Value = Entries<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<T>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Reader(std::marker::PhantomData))
    }
}

/// Parses the settings of layers by name from JSON: `{"conv1": {"length": 64, "generator":
/// "sobol"}, "output": {"length": 256}}`. The keys and values are those of the text of a
/// [`LayerOverride`]; `name` is that of the file, for errors.
///
/// ```
/// let layers = aleatron_engine::network::layers_from_json(r#"{"output": {"length": 64, "width": 6}}"#, "layers.json")?;
/// assert_eq!(layers["output"].to_string(), "length=64,width=6");
/// # Ok::<(), aleatron_engine::Error>(())
/// ```
///
/// # Errors
/// Returns [`Error::Format`] with the file, the layer and the key at fault.
pub fn layers_from_json(text: &str, name: &str) -> Result<BTreeMap<String, LayerOverride>> {
    let fault = |reason: String| Error::Format { file: name.to_owned(), reason };
    let read: Entries<Entries<serde_json::Value>> =
        serde_json::from_str(text).map_err(|error| {
            fault(format!("layers are written as {{\"NAME\": {{\"length\": 64}}}}: {error}"))
        })?;
    let mut layers = BTreeMap::new();
    for (layer, entries) in read.0 {
        let mut settings = LayerOverride::default();
        let mut seen: Vec<String> = Vec::new();
        for (key, value) in entries.0 {
            let at_key = |reason: String| fault(format!("layer \"{layer}\", \"{key}\": {reason}"));
            if seen.contains(&key) {
                return Err(at_key("it is given twice".to_owned()));
            }
            let text = match &value {
                serde_json::Value::String(text) => text.clone(),
                serde_json::Value::Number(number) => number.to_string(),
                other => return Err(at_key(format!("{other} is neither a number nor a text"))),
            };
            settings.set(&key, &text).map_err(|error| at_key(error.to_string()))?;
            seen.push(key);
        }
        if layers.insert(layer.clone(), settings).is_some() {
            return Err(fault(format!("layer \"{layer}\" is given twice")));
        }
    }
    Ok(layers)
}

/// Reads a file of [`layers_from_json`].
///
/// # Errors
/// Returns [`Error::File`] if it cannot be read, and errors as for [`layers_from_json`].
pub fn read_layers(path: impl AsRef<Path>) -> Result<BTreeMap<String, LayerOverride>> {
    let path = path.as_ref();
    let read = || -> std::io::Result<String> {
        // A pipe would block.
        match std::fs::metadata(path)?.is_file() {
            true => std::fs::read_to_string(path),
            false => Err(std::io::Error::other("not a regular file")),
        }
    };
    let text = read().map_err(|error| Error::file(path, error))?;
    layers_from_json(&text, &path.display().to_string())
}

/// Returns the text that [`layers_from_json`] reads.
///
/// # Errors
/// Returns an error of the JSON writer; never for settings that were read.
pub fn layers_to_json(layers: &BTreeMap<String, LayerOverride>) -> Result<String> {
    let entries: BTreeMap<&String, BTreeMap<&str, serde_json::Value>> = layers
        .iter()
        .map(|(name, layer)| {
            let mut settings: BTreeMap<&str, serde_json::Value> = BTreeMap::new();
            settings.extend(layer.length.map(|length| ("length", length.into())));
            settings.extend(
                layer.generator.map(|generator| ("generator", generator.to_string().into())),
            );
            settings.extend(layer.width.map(|width| ("width", width.to_string().into())));
            settings.extend(layer.sharing.map(|sharing| ("sharing", sharing.to_string().into())));
            (name, settings)
        })
        .collect();
    serde_json::to_string_pretty(&entries)
        .map_err(|error| Error::Format { file: "layers".to_owned(), reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_the_grammar_of_options() {
        let text = r#"{"a:b": {"length": 64, "generator": "sobol:1+lfsr:7"}, "c": {"width": "auto", "sharing": "input"}, "d": {}}"#;
        let layers = layers_from_json(text, "f").unwrap();
        assert_eq!(layers["a:b"], "length=64,generator=sobol:1+lfsr:7".parse().unwrap());
        assert_eq!(layers["c"], "width=auto,sharing=input".parse().unwrap());
        assert_eq!(layers["d"], LayerOverride::default());
        assert_eq!(layers_from_json(&layers_to_json(&layers).unwrap(), "f").unwrap(), layers);
    }

    #[test]
    fn errors_state_the_file_and_the_key() {
        for (text, part) in [
            ("", "layers are written as"),
            (
                "[1]",
                "layers are written as {\"NAME\": {\"length\": 64}}: invalid type: sequence, expected an object",
            ),
            (r#"{"a": 3}"#, "invalid type: integer `3`, expected an object"),
            (r#"{"a": {"length": true}}"#, "layer \"a\", \"length\": true is neither"),
            (
                r#"{"a": {"length": 1.5}}"#,
                "layer \"a\", \"length\": \"length=1.5\" is not a setting",
            ),
            (r#"{"a": {"length": "64,width=3"}}"#, "layer \"a\", \"length\""),
            (r#"{"a": {"bits": 3}}"#, "layer \"a\", \"bits\""),
            (r#"{"a": {"generator": "sobl"}}"#, "layer \"a\", \"generator\": \"sobl\""),
            (r#"{"a": {"length": 3, "length": 4}}"#, "layer \"a\", \"length\": it is given twice"),
            (r#"{"a": {}, "a": {}}"#, "layer \"a\" is given twice"),
        ] {
            let error = layers_from_json(text, "f.json").unwrap_err().to_string();
            assert!(error.starts_with("f.json: ") && error.contains(part), "{text}: {error}");
        }
    }
}

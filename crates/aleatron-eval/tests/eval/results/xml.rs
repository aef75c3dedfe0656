//! A minimal XML reader for the pages: elements with their attributes and contents.

use std::collections::BTreeMap;

#[derive(Debug, Clone)]
pub(crate) struct Element {
    pub(crate) name: String,
    pub(crate) attributes: BTreeMap<String, String>,
    /// Everything between the opening and the closing tag.
    pub(crate) inside: String,
    /// The number of drawings around it.
    pub(crate) depth_of_svg: usize,
}

impl Element {
    pub(crate) fn text(&self, attribute: &str) -> &str {
        self.attributes
            .get(attribute)
            .unwrap_or_else(|| panic!("{} has no {attribute}: {self:?}", self.name))
    }

    pub(crate) fn number(&self, attribute: &str) -> f64 {
        let text = self.text(attribute);
        text.parse().unwrap_or_else(|_| panic!("{attribute} is {text}"))
    }

    pub(crate) fn has(&self, attribute: &str, value: &str) -> bool {
        self.attributes.get(attribute).is_some_and(|text| text == value)
    }

    /// Returns every element inside with this name.
    pub(crate) fn all(&self, name: &str) -> Vec<Element> {
        elements(&self.inside).into_iter().filter(|element| element.name == name).collect()
    }

    /// Returns the text of its title.
    pub(crate) fn title(&self) -> String {
        self.all("title").first().map(|title| title.inside.clone()).unwrap_or_default()
    }
}

/// Returns every element of a text, at any depth, in order. Tags must match.
pub(crate) fn elements(text: &str) -> Vec<Element> {
    let mut found: Vec<Element> = Vec::new();
    let mut open: Vec<(usize, usize)> = Vec::new();
    let mut rest = 0;
    while let Some(start) = text[rest..].find('<').map(|at| rest + at) {
        let end = start + text[start..].find('>').unwrap_or_else(|| panic!("a tag without an end"));
        let tag = &text[start + 1..end];
        rest = end + 1;
        if let Some(name) = tag.strip_prefix('/') {
            let (element, inside) =
                open.pop().unwrap_or_else(|| panic!("</{name}> closes nothing"));
            assert_eq!(found[element].name, name, "tags do not match");
            found[element].inside = text[inside..start].to_owned();
            continue;
        }
        let is_empty = tag.ends_with('/');
        let tag = tag.trim_end_matches('/');
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        let depth_of_svg = open.iter().filter(|(element, _)| found[*element].name == "svg").count();
        let attributes = read_attributes(attributes);
        found.push(Element {
            name: name.to_owned(),
            attributes,
            inside: String::new(),
            depth_of_svg,
        });
        if !is_empty {
            open.push((found.len() - 1, rest));
        }
    }
    assert!(open.is_empty(), "{} tags are not closed", open.len());
    found
}

fn read_attributes(mut text: &str) -> BTreeMap<String, String> {
    let mut attributes = BTreeMap::new();
    while let Some((name, rest)) = text.split_once("=\"") {
        let (value, rest) = rest.split_once('"').unwrap_or_else(|| panic!("{text}"));
        attributes.insert(name.trim().to_owned(), value.to_owned());
        text = rest;
    }
    assert!(text.trim().is_empty(), "{text}");
    attributes
}

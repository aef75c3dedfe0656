//! Tables: text is aligned left, numbers right.

use super::escape;

/// The kind of the cells of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Words, aligned left.
    Text,
    /// Numbers, aligned right.
    Number,
    /// Commands to copy, aligned left.
    Code,
}

/// A table in a panel. Headings and cells are plain text; they are escaped here.
pub(super) struct Table {
    kinds: Vec<Kind>,
    html: String,
}

impl Table {
    /// Creates a table with the kinds and headings of its columns.
    pub(super) fn new<S: AsRef<str>>(columns: impl IntoIterator<Item = (Kind, S)>) -> Self {
        let mut table = Self { kinds: Vec::new(), html: "<table>\n<tr>".to_owned() };
        for (kind, heading) in columns {
            let class = if kind == Kind::Number { "" } else { " class=\"text\"" };
            table.html.push_str(&format!("<th{class}>{}</th>", escape(heading.as_ref())));
            table.kinds.push(kind);
        }
        table.html.push_str("</tr>\n");
        table
    }

    /// Adds a row with a class of the style sheet, which may be empty.
    pub(super) fn row<S: AsRef<str>>(&mut self, class: &str, cells: impl IntoIterator<Item = S>) {
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        self.html.push_str(&format!("<tr{class}>"));
        for (kind, cell) in self.kinds.iter().zip(cells) {
            let cell = escape(cell.as_ref());
            self.html.push_str(&match kind {
                Kind::Number => format!("<td>{cell}</td>"),
                Kind::Text => format!("<td class=\"text\">{cell}</td>"),
                Kind::Code => format!("<td class=\"text\"><code>{cell}</code></td>"),
            });
        }
        self.html.push_str("</tr>\n");
    }

    /// Returns the table without a panel around it.
    pub(super) fn bare(self) -> String {
        self.html + "</table>"
    }

    /// Returns the table in a panel that scrolls if it is too wide.
    pub(super) fn panel(self) -> String {
        format!("<div class=\"panel\">{}</div>\n", self.bare())
    }
}

//! The section of a page that shows where its results come from.

use super::escape;
use super::table::{Kind, Table};
use crate::Provenance;

/// The beginning of the end of every page.
const FOOTER: &str = "<footer>";

/// Returns a page with the provenance of its results, before its footer.
#[must_use]
pub fn with_provenance(page: &str, runs: &[Provenance]) -> String {
    match page.rfind(FOOTER) {
        Some(end) => format!("{}{}{}", &page[..end], provenance(runs), &page[end..]),
        None => page.to_owned(),
    }
}

/// Returns the section with the provenance of all runs; nothing if there are none.
pub(super) fn provenance(runs: &[Provenance]) -> String {
    if runs.is_empty() {
        return String::new();
    }
    let mut out = String::from("<h2>Provenance</h2>\n");
    for (k, run) in runs.iter().enumerate() {
        let heading = match runs.len() {
            1 => String::new(),
            n => format!("<h3>Run {} of {n}</h3>\n", k + 1),
        };
        out.push_str(&format!("<div class=\"panel\">{heading}{}", of_run(run)));
        out.push_str(&files(run));
        out.push_str("</div>\n");
    }
    out
}

/// Returns the command, the date and the machine of a run.
fn of_run(run: &Provenance) -> String {
    let processor = format!("{} threads, SIMD tier {}", run.threads, run.simd_tier);
    let mut list = String::from("<dl>");
    let mut entry = |name: &str, value: &str| {
        list.push_str(&format!("<dt>{name}</dt><dd>{}</dd>", escape(value)));
    };
    if let Some(command) = &run.command {
        entry("command", command);
    }
    entry("date (UTC)", &run.date);
    entry("version", &format!("aleatron {}", run.version));
    if let Some(device) = &run.device {
        entry("device", device);
    }
    entry("processor", &processor);
    list + "</dl>\n"
}

/// Returns the table of the files that a run read.
fn files(run: &Provenance) -> String {
    if run.sources.is_empty() {
        return String::new();
    }
    let mut table = Table::new([
        (Kind::Text, "read"),
        (Kind::Text, "file"),
        (Kind::Number, "bytes"),
        (Kind::Code, "SHA-256"),
    ]);
    for source in &run.sources {
        let bytes = source.bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string());
        let hash = source.sha256.as_deref().unwrap_or("-").to_owned();
        table.row("", [source.role.clone(), source.name.clone(), bytes, hash]);
    }
    table.bare() + "\n"
}

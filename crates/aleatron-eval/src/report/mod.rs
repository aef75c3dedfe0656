//! Reports as single HTML pages: everything is inside, styles and drawings included, nothing is
//! fetched and nothing runs.
//!
//! [`evaluation`] returns the page of an evaluation, [`search`] that of a search for short streams,
//! [`trained_search`] that of one with retraining, [`exploration`] that of designs, [`training`] that of a training, [`multiplier`] that of
//! multiplier tables. `chart.rs` draws curves and `heat.rs` maps, both as SVG in the colours of
//! `page.css`, which has a light and a dark set.

mod chart;
mod comparison;
mod drawing;
mod evaluation;
mod exploration;
mod faults;
mod graph;
mod heat;
#[cfg(feature = "transformer")]
mod language;
mod layers;
mod layout;
mod multiplier;
mod provenance;
mod rows;
mod score;
mod search;
mod table;
mod training;

pub use comparison::comparison;
pub use evaluation::evaluation;
pub use exploration::exploration;
#[cfg(feature = "transformer")]
pub use language::language;
pub use multiplier::{heat_map, multiplier};
pub use provenance::with_provenance;
pub use search::{LengthsRow, search, trained_search};
pub use training::{TrainingEpoch, finetuning, training};

const STYLE: &str = include_str!("page.css");

/// A whole page.
fn page(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}\
         <footer>Made by aleatron {}.</footer>\n</main>\n</body>\n</html>\n",
        aleatron_engine::VERSION
    )
}

/// Text as HTML.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

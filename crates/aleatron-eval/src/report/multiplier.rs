//! The page of multiplier tables.

use super::table::{Kind, Table};
use super::{escape, heat, page};
use crate::multiplier::{MAP_SIDE, MultiplierStats};

/// Multiplier tables as an HTML page that needs nothing else.
#[must_use]
pub fn multiplier(errors: &[MultiplierStats]) -> String {
    let title = "Multiplier errors";
    let mut body = format!(
        "<h1>{title}</h1>\n<p>Every product of two values from 0 to 255, as the AND of two streams against XY / 65536.</p>\n"
    );
    let mut table = Table::new([
        (Kind::Text, "X, Y"),
        (Kind::Number, "bits"),
        (Kind::Number, "mean |error|"),
        (Kind::Number, "RMSE"),
        (Kind::Number, "bias"),
        (Kind::Number, "worst"),
        (Kind::Number, "mean |SCC|"),
        (Kind::Number, "mean |ZCE|"),
    ]);
    let mut before = None;
    for error in errors {
        let pair = (&error.x, &error.y);
        let class = if before == Some(pair) { "" } else { "first" };
        before = Some(pair);
        let cells = [
            format!("{}, {}", error.x, error.y),
            error.length.to_string(),
            format!("{:.5}", error.mae),
            format!("{:.5}", error.rmse),
            format!("{:+.5}", error.bias),
            format!("{:.5}", error.worst),
            format!("{:.4}", error.mean_scc),
            format!("{:.5}", error.mean_zce),
        ];
        table.row(class, cells);
    }
    body.push_str(&table.panel());
    body.push_str(
        "<h2>Where the errors are</h2>\n<p>The mean |error| of blocks of 4 by 4 pairs. The darkest (in dark mode the \
         brightest) shade of each map is its own greatest, given above it.</p>\n<div class=\"row\">\n",
    );
    for error in errors {
        body.push_str(&format!(
            "<div class=\"panel\"><h3>{}, {}<small>{} bits, up to {:.4}</small></h3>\n{}</div>\n",
            escape(&error.x),
            escape(&error.y),
            error.length,
            greatest(error),
            heat_map(error)
        ));
    }
    body.push_str("</div>\n");
    page(title, &body)
}

fn greatest(error: &MultiplierStats) -> f64 {
    error.map.iter().copied().fold(0.0, f64::max)
}

/// The errors of one pair and length as an SVG drawing, in a page or by itself.
#[must_use]
pub fn heat_map(error: &MultiplierStats) -> String {
    let axis = [format!("Y ({})", error.y), format!("X ({})", error.x)];
    heat::map(&error.map, MAP_SIDE, greatest(error), 248.0, [&axis[0], &axis[1]])
}

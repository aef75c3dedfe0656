//! The page of multiplier tables.

use super::{escape, heat, page};
use crate::multiplier::{MAP_SIDE, MultiplierStats};

/// Multiplier tables as an HTML page that needs nothing else.
#[must_use]
pub fn multiplier(errors: &[MultiplierStats]) -> String {
    let title = "Multiplier errors";
    let mut body = format!(
        "<h1>{title}</h1>\n<p>Every product of two values from 0 to 255, as the AND of two streams against XY / 65536.</p>\n\
         <div class=\"panel\"><table>\n<tr><th>X, Y</th><th>bits</th><th>mean |error|</th><th>RMSE</th><th>bias</th><th>worst</th>\
         <th>mean |SCC|</th><th>mean |ZCE|</th></tr>\n"
    );
    let mut before = None;
    for error in errors {
        let pair = (&error.x, &error.y);
        let class = if before == Some(pair) { "" } else { " class=\"first\"" };
        before = Some(pair);
        body.push_str(&format!(
            "<tr{class}><td>{}, {}</td><td>{}</td><td>{:.5}</td><td>{:.5}</td><td>{:+.5}</td><td>{:.5}</td><td>{:.4}</td><td>{:.5}</td></tr>\n",
            escape(&error.x),
            escape(&error.y),
            error.length,
            error.mae,
            error.rmse,
            error.bias,
            error.worst,
            error.mean_scc,
            error.mean_zce
        ));
    }
    body.push_str(
        "</table></div>\n<h2>Where the errors are</h2>\n<p>The mean |error| of blocks of 4 by 4 pairs. The darkest (in dark mode the \
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

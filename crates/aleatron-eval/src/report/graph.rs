//! The section of a page that shows a graph: its drawing, its nodes and their losses.

use super::drawing::{self, shape};
use super::escape;
use super::table::{Kind, Table};
use crate::text::{plural, short, si};
use crate::{FloatFigures, GraphSummary, Losses, Measure};

/// Returns the drawings of a graph, and the tables of its nodes and of their losses with each
/// generator.
pub(super) fn graph(graph: &GraphSummary, float: &FloatFigures) -> String {
    let mut out = String::from("<h2>The graph</h2>\n");
    out.push_str(&drawings(graph));
    out.push_str(&nodes(graph));
    if graph.losses.is_empty() {
        return out;
    }
    out.push_str(
        "<h2>Where accuracy is lost</h2>\n<p>At the longest of the lengths that lose more than a point, or otherwise at the shortest, with one seed. \
         The error is the root mean square difference from floating point, relative to the output of the node there, with the errors of the nodes \
         before it; a dash marks outputs that are 0 in floating point. Alone is the score if no other layer runs as streams.</p>\n<div class=\"row\">\n",
    );
    for losses in &graph.losses {
        out.push_str(&of_generator(graph, losses, float));
    }
    out.push_str("</div>\n");
    out
}

/// Draws the graph with the errors of each generator, the first of them unfolded.
fn drawings(graph: &GraphSummary) -> String {
    let too_large = || {
        let nodes = plural(graph.nodes.len(), "node");
        format!("<p>A graph of {nodes} is not drawn.</p>\n")
    };
    if graph.losses.is_empty() {
        return match drawing::drawing(graph, None) {
            Some(svg) => format!("<div class=\"panel\">{svg}</div>\n"),
            None => too_large(),
        };
    }
    let mut out = String::from(
        "<p>Shades are the error of the output of each node against floating point (root mean square), relative to that output.</p>\n",
    );
    out.push_str(&drawing::legend());
    for (k, losses) in graph.losses.iter().enumerate() {
        let Some(svg) = drawing::drawing(graph, Some(losses)) else { return too_large() };
        let open = if k == 0 { " open=\"\"" } else { "" };
        out.push_str(&format!(
            "<details class=\"panel\"{open}><summary>{}, {}</summary>\n{svg}</details>\n",
            escape(&losses.generator.to_string()),
            plural(losses.length, "bit"),
        ));
    }
    out
}

fn nodes(graph: &GraphSummary) -> String {
    let mut table = Table::new([
        (Kind::Text, "node"),
        (Kind::Text, "operator"),
        (Kind::Text, "makes"),
        (Kind::Text, "takes"),
        (Kind::Text, "runs as"),
    ]);
    for node in &graph.nodes {
        let nodes = node.inputs.iter().filter_map(|&k| graph.nodes.get(k)).map(|node| &node.name);
        let takes: Vec<&str> = node.graph_inputs.iter().chain(nodes).map(String::as_str).collect();
        let takes = if takes.is_empty() { "-".to_owned() } else { takes.join(", ") };
        let runs = match node.stream_products {
            Some(products) => format!("streams, {} products", si(products as f64)),
            None => "binary".to_owned(),
        };
        table.row("", [node.name.clone(), node.operator.clone(), shape(node, " x "), takes, runs]);
    }
    table.panel()
}

fn of_generator(graph: &GraphSummary, losses: &Losses, float: &FloatFigures) -> String {
    let measure = match float.classification() {
        Some(_) => Measure::Accuracy,
        None => Measure::RSquared,
    };
    let mut table = Table::new([
        (Kind::Text, "node"),
        (Kind::Number, "error %"),
        (Kind::Number, "alone"),
        (Kind::Number, "points lost"),
    ]);
    for ((node, error), alone) in graph.nodes.iter().zip(&losses.node_errors).zip(&losses.alone) {
        let [alone, lost] = match alone {
            // Adding 0 removes the minus sign of a loss of 0.
            Some(score) => {
                [measure.show(*score), format!("{:.2}", 100.0 * (float.score() - score) + 0.0)]
            }
            None => ["-".to_owned(), "-".to_owned()],
        };
        let error = error.map_or_else(|| "-".to_owned(), |error| short(100.0 * error));
        table.row("", [node.name.clone(), error, alone, lost]);
    }
    format!(
        "<div class=\"panel\"><h3>{}, {}<small>{}, {} in floating point</small></h3>\n{}</div>\n",
        escape(&losses.generator.to_string()),
        plural(losses.length, "bit"),
        measure.show(losses.score),
        measure.show(float.score()),
        table.bare(),
    )
}

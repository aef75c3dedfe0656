//! The section of a page that shows a graph: its nodes and their losses.

use super::escape;
use crate::text::{plural, short, si};
use crate::{FloatFigures, GraphNode, GraphSummary, Losses, Measure};

/// Returns the tables of the nodes and of their losses with each generator.
pub(super) fn graph(graph: &GraphSummary, float: &FloatFigures) -> String {
    let mut out = nodes(graph);
    if graph.losses.is_empty() {
        return out;
    }
    out.push_str(
        "<h2>Where accuracy is lost</h2>\n<p>At the longest of the lengths that lose more than a point, or otherwise at the shortest, with one seed. \
         The error is the root mean square difference from floating point, relative to the output of the node there, with the errors of the nodes \
         before it. Alone is the score if no other layer runs as streams.</p>\n<div class=\"row\">\n",
    );
    for losses in &graph.losses {
        out.push_str(&of_generator(graph, losses, float));
    }
    out.push_str("</div>\n");
    out
}

fn nodes(graph: &GraphSummary) -> String {
    let mut out = String::from(
        "<h2>The graph</h2>\n<div class=\"panel\"><table>\n<tr><th>node</th><th>operator</th><th>makes</th><th>takes</th><th>runs as</th></tr>\n",
    );
    for node in &graph.nodes {
        let takes: Vec<String> =
            node.inputs.iter().filter_map(|&k| graph.nodes.get(k)).map(name).collect();
        let takes = if takes.is_empty() { "input".to_owned() } else { takes.join(", ") };
        let runs = match node.stream_products {
            Some(products) => format!("streams, {} products", si(products as f64)),
            None => "binary".to_owned(),
        };
        out.push_str(&format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{takes}</td><td>{runs}</td></tr>\n",
            name(node),
            escape(&node.operator),
            shape(node)
        ));
    }
    out.push_str("</table></div>\n");
    out
}

fn name(node: &GraphNode) -> String {
    escape(&node.name)
}

/// The shape without the axis of samples.
fn shape(node: &GraphNode) -> String {
    let sizes: Vec<String> = node.shape.iter().skip(1).map(ToString::to_string).collect();
    if sizes.is_empty() { "1".to_owned() } else { sizes.join(" x ") }
}

fn of_generator(graph: &GraphSummary, losses: &Losses, float: &FloatFigures) -> String {
    let measure = match float.classification() {
        Some(_) => Measure::Accuracy,
        None => Measure::RSquared,
    };
    let mut out = format!(
        "<div class=\"panel\"><h3>{}, {}<small>{}, {} in floating point</small></h3>\n<table>\n\
         <tr><th>node</th><th>error %</th><th>alone</th><th>points lost</th></tr>\n",
        escape(&losses.generator.to_string()),
        plural(losses.length, "bit"),
        measure.show(losses.score),
        measure.show(float.score()),
    );
    for ((node, error), alone) in graph.nodes.iter().zip(&losses.node_errors).zip(&losses.alone) {
        let [alone, lost] = match alone {
            // Adding 0 removes the minus sign of a loss of 0.
            Some(score) => {
                [measure.show(*score), format!("{:.2}", 100.0 * (float.score() - score) + 0.0)]
            }
            None => ["-".to_owned(), "-".to_owned()],
        };
        out.push_str(&format!(
            "<tr><td>{}</td><td>{}</td><td>{alone}</td><td>{lost}</td></tr>\n",
            name(node),
            short(100.0 * error)
        ));
    }
    out.push_str("</table></div>\n");
    out
}

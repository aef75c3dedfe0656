//! The drawing of a graph: its nodes in layers, with the error of each as a shade.

use super::escape;
use super::heat::shade;
use super::layout::{BOX, layout};
use crate::text::{short, si};
use crate::{GraphNode, GraphSummary, Losses};

/// The relative errors between which shades differ, in decades: 0.1 % to 100 %.
const DECADES: f64 = 3.0;

/// The characters of a name and of an operator with its shape that fit into a box.
const NAME_CHARACTERS: usize = 22;
const SHAPE_CHARACTERS: usize = 16;

/// The half width and the height of the head of an arrow.
const HEAD: [f64; 2] = [3.5, 6.0];

/// A vertex of the drawing.
enum Vertex<'a> {
    /// An input of the graph.
    Input(&'a str),
    Node(usize, &'a GraphNode),
}

/// Returns the drawing of a graph, with the errors of its nodes if there are any; `None` if it is
/// too large.
pub(super) fn drawing(graph: &GraphSummary, losses: Option<&Losses>) -> Option<String> {
    let (vertices, takes) = vertices(graph);
    let layout = layout(&takes)?;
    let [width, height] = layout.size;
    let mut out = format!(
        "<svg class=\"network\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\" \
         aria-label=\"The graph of the network\">\n"
    );
    for (path, [x, y]) in &layout.edges {
        let [half, head] = HEAD;
        out.push_str(&format!(
            "<path class=\"edge\" d=\"{path}\"/><path class=\"head\" d=\"M{x:.1} {y:.1}l-{half} -{head}h{}z\"/>\n",
            2.0 * half
        ));
    }
    for (vertex, [x, y]) in vertices.iter().zip(&layout.centres) {
        let corner = [x - BOX[0] / 2.0, y - BOX[1] / 2.0];
        out.push_str(&match vertex {
            Vertex::Input(name) => input(name, corner),
            Vertex::Node(index, node) => {
                let error = losses.map(|losses| losses.node_errors.get(*index).copied().flatten());
                boxed(node, error, corner)
            }
        });
    }
    out.push_str("</svg>\n");
    Some(out)
}

/// Returns the inputs of the graph and its nodes, and the vertices that each takes.
fn vertices(graph: &GraphSummary) -> (Vec<Vertex<'_>>, Vec<Vec<usize>>) {
    let mut names: Vec<&str> = Vec::new();
    for name in graph.nodes.iter().flat_map(|node| &node.graph_inputs) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let mut takes = vec![Vec::new(); names.len()];
    for node in &graph.nodes {
        let inputs = node.graph_inputs.iter();
        let inputs = inputs.filter_map(|name| names.iter().position(|known| known == name));
        takes.push(inputs.chain(node.inputs.iter().map(|&k| names.len() + k)).collect());
    }
    let nodes = graph.nodes.iter().enumerate().map(|(k, node)| Vertex::Node(k, node));
    (names.into_iter().map(Vertex::Input).chain(nodes).collect(), takes)
}

/// Draws an input of the graph.
fn input(name: &str, [x, y]: [f64; 2]) -> String {
    let [width, height] = BOX;
    format!(
        "<g class=\"input\"><title>input {}</title><rect x=\"{:.1}\" y=\"{:.1}\" width=\"{}\" height=\"{}\" rx=\"{}\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text></g>\n",
        escape(name),
        x + 30.0,
        y + 14.0,
        width - 60.0,
        height - 14.0,
        height / 2.0 - 7.0,
        x + width / 2.0,
        y + height / 2.0 + 11.0,
        escape(&tail(name, NAME_CHARACTERS - 8))
    )
}

/// Draws a node. `error` is `None` if errors were not measured, and `Some(None)` if this node has
/// none.
fn boxed(node: &GraphNode, error: Option<Option<f64>>, [x, y]: [f64; 2]) -> String {
    let [width, height] = BOX;
    let class = match (node.stream_products, error) {
        (Some(_), Some(Some(error))) if error >= 1.0 => "streams lost",
        (None, Some(Some(error))) if error >= 1.0 => "binary lost",
        (Some(_), _) => "streams",
        (None, _) => "binary",
    };
    let (fill, shown) = match error {
        Some(Some(error)) => (shade(share(error)), format!("{} %", short(100.0 * error))),
        Some(None) => ("var(--panel)".to_owned(), "-".to_owned()),
        None => ("var(--panel)".to_owned(), String::new()),
    };
    let runs = match node.stream_products {
        Some(products) => format!("streams, {} products", si(products as f64)),
        None => "binary".to_owned(),
    };
    let told = match error {
        Some(Some(_)) => format!("; error {shown} of the signal"),
        Some(None) => {
            "; no relative error: the output is 0 in floating point, or not of floats".to_owned()
        }
        None => String::new(),
    };
    let what = format!("{} {}", node.operator, shape(node, "×"));
    format!(
        "<g class=\"{class}\"><title>{}: {}; {runs}{told}</title>\
         <rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width}\" height=\"{height}\" rx=\"5\" style=\"fill:{fill}\"/>\
         <text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{}</text><text x=\"{:.1}\" y=\"{:.1}\">{}</text>\
         <text class=\"error\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{shown}</text></g>\n",
        escape(&node.name),
        escape(&what),
        x + 8.0,
        y + 16.5,
        escape(&tail(&node.name, NAME_CHARACTERS)),
        x + 8.0,
        y + 32.5,
        escape(&beginning(&what, SHAPE_CHARACTERS)),
        x + width - 8.0,
        y + 32.5,
    )
}

/// Returns the shape of the output of a node without the axis of samples.
pub(super) fn shape(node: &GraphNode, times: &str) -> String {
    let sizes: Vec<String> = node.shape.iter().skip(1).map(ToString::to_string).collect();
    if sizes.is_empty() { "1".to_owned() } else { sizes.join(times) }
}

/// Returns the share of the full shade of a relative error: logarithmic, from 0.1 % to 100 %.
fn share(error: f64) -> f64 {
    if error > 0.0 { 1.0 + error.log10() / DECADES } else { 0.0 }
}

/// Returns the end of a name that is too long: names of exporters differ there.
fn tail(text: &str, characters: usize) -> String {
    let n = text.chars().count();
    if n <= characters {
        return text.to_owned();
    }
    "…".chars().chain(text.chars().skip(n - (characters - 1))).collect()
}

/// Returns the beginning of a text that is too long.
fn beginning(text: &str, characters: usize) -> String {
    if text.chars().count() <= characters {
        return text.to_owned();
    }
    text.chars().take(characters - 1).chain("…".chars()).collect()
}

/// Returns the legend of drawings with errors.
pub(super) fn legend() -> String {
    let mut out = String::from("<ul class=\"legend\"><li>error of the output, of the signal:</li>");
    for (error, label) in
        [(0.001, "up to 0.1 %"), (0.01, "1 %"), (0.1, "10 %"), (1.0, "100 % and more")]
    {
        let class = if error >= 1.0 { "swatch lost" } else { "swatch" };
        let fill = shade(share(error));
        out.push_str(&format!(
            "<li><i class=\"{class}\" style=\"background:{fill}\"></i>{label}</li>"
        ));
    }
    out.push_str(
        "<li><i class=\"swatch streams\"></i>runs as streams</li><li><i class=\"swatch binary\"></i>binary</li></ul>\n",
    );
    out
}

//! The page of an exploration of designs.

use super::chart::{Axis, Chart};
use super::provenance::provenance;
use super::table::{Kind, Table};
use super::{escape, page};
use crate::find::Measure;
use crate::text::{plural, short, si};
use crate::{Design, EarlyTermination, Exploration};

/// The colours of the style.
const COLOURS: usize = 8;

/// A respect in which designs are compared.
struct Respect {
    title: &'static str,
    value: fn(&Design) -> f64,
}

const ENERGY: Respect =
    Respect { title: "energy of a sample in nJ, by a model", value: |design| design.cost.energy };
const AREA: Respect =
    Respect { title: "area in gate equivalents, by a model", value: |design| design.cost.area };
const LATENCY: Respect =
    Respect { title: "latency in cycles", value: |design| design.cost.latency as f64 };

/// Returns an exploration as an HTML page that needs nothing else. `command` returns the command
/// that generates the circuit of a design.
#[must_use]
pub fn exploration(found: &Exploration, command: impl Fn(&Design) -> String) -> String {
    let name = found.networks.first().map_or("", String::as_str);
    let title = format!("Designs of {name}");
    let shown: Vec<&Design> = found.optimal().collect();
    let state = if found.is_finished {
        "The search has finished."
    } else {
        "The search has not finished: more designs may follow."
    };
    let mut body = format!(
        "<h1>{}</h1>\n<p>{} on {}, {}. Floating point: {}. {} from {}; {} of them are optimal and lose at most {} points: no other design is at \
         least as good in score, energy, area and latency and better in one of them. {state}</p>\n",
        escape(&title),
        escape(&found.networks.join(", ")),
        escape(&found.data),
        plural(found.samples, "sample"),
        found.measure.show(found.float_score()),
        plural(found.designs.len(), "design"),
        plural(found.trials.len(), "trial"),
        shown.len(),
        short(found.loss),
    );
    body.push_str(
        "<p>Designs are chosen and scored on the same samples: the best of many looks better than it is on others. Evaluate the design that \
         you choose on samples that were not explored.</p>\n",
    );
    if let Some(faults) = found.faults {
        body.push_str(&format!(
            "<p>Scores are measured with faults: {}.</p>\n",
            escape(&faults.to_string())
        ));
    }
    body.push_str(&format!("<style>\n{}</style>\n", linked(shown.len())));
    body.push_str(&legend(found));
    for respect in [ENERGY, AREA, LATENCY] {
        body.push_str(&format!(
            "<div class=\"panel\"><h3>Score against {}</h3>\n{}</div>\n",
            respect.title.split(" in ").next().unwrap_or_default(),
            score_chart(found, &shown, &respect)
        ));
    }
    body.push_str(&table(found, &shown, command));
    if !found.missing.is_empty() {
        body.push_str("<h2>Streams without a circuit</h2>\n");
        let mut reasons: Vec<&str> =
            found.missing.iter().map(|missing| missing.reason.as_str()).collect();
        reasons.dedup();
        reasons.iter().for_each(|reason| body.push_str(&format!("<p>{}</p>\n", escape(reason))));
    }
    body.push_str(&provenance(&found.provenance));
    page(&title, &body)
}

/// Returns rules of style that highlight a design in every chart and in the table when it is
/// pointed at in one of them.
fn linked(n: usize) -> String {
    let rule = |k: usize| {
        format!(
            "main:has(.d{k}:hover) circle.d{k} {{ stroke: var(--ink); stroke-width: 3; r: 8px; }}\n\
             main:has(.d{k}:hover) tr.d{k} td {{ background: var(--line); }}\n"
        )
    };
    (0..n).map(rule).collect()
}

/// Returns the generators in the order of their colours.
fn generators(found: &Exploration) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for design in &found.designs {
        let name = design.streams.generator.to_string();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.sort();
    names
}

fn colour(found: &Exploration, design: &Design) -> usize {
    let name = design.streams.generator.to_string();
    generators(found).iter().position(|other| *other == name).unwrap_or(0) % COLOURS
}

fn legend(found: &Exploration) -> String {
    let mut out = String::from("<ul class=\"legend\">");
    for (k, name) in generators(found).iter().enumerate() {
        out.push_str(&format!(
            "<li><svg width=\"14\" height=\"14\" style=\"color:var(--c{})\"><circle cx=\"7\" cy=\"7\" r=\"5\" fill=\"currentColor\"/></svg>{}</li>",
            k % COLOURS,
            escape(name)
        ));
    }
    out.push_str("<li>large: optimal, numbered as in the table; middle: other binary circuits; small: other designs</li></ul>\n");
    out
}

/// Returns a chart of scores; designs far below the shown ones leave it at its lower edge.
fn score_chart(found: &Exploration, shown: &[&Design], respect: &Respect) -> String {
    let Some(x) = Axis::decades(respect.title, found.designs.iter().map(respect.value)) else {
        return "<p>No design.</p>\n".to_owned();
    };
    let float = 100.0 * found.float_score();
    let least = shown.iter().map(|design| 100.0 * design.score).fold(float - found.loss, f64::min);
    let greatest = found.designs.iter().map(|design| 100.0 * design.score).fold(float, f64::max);
    let y = Axis::percent("", [least - 0.5, (greatest + 0.5).min(100.0).max(least)]);
    let low = y.range[0];
    let label = format!("Score of designs against {}", respect.title);
    let chart = Chart { curves: &[], x, y, level: Some(float), label: &label };
    let mut drawing = String::new();
    let mut dot = |design: &Design, number: Option<usize>| {
        if 100.0 * design.score < low {
            return;
        }
        let (x, y) = (chart.place_x((respect.value)(design)), chart.place_y(100.0 * design.score));
        let (class, r, opacity) = match (number, design.streams.generator.integer_bits()) {
            (Some(k), _) => (format!("d{k}"), 6.0, 1.0),
            // Binary circuits are the comparison, optimal or not.
            (None, Some(_)) => (String::new(), 4.5, 0.9),
            (None, None) => (String::new(), 2.5, 0.5),
        };
        drawing.push_str(&format!(
            "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r}\" opacity=\"{opacity}\" fill=\"var(--c{})\" stroke=\"var(--panel)\">\
             <title>{}</title></circle>\n",
            colour(found, design),
            escape(&describe(found.measure, design, number)),
        ));
    };
    found.designs.iter().filter(|design| !design.is_optimal).for_each(|design| dot(design, None));
    shown.iter().enumerate().for_each(|(k, design)| dot(design, Some(k)));
    chart.frame(&drawing)
}

/// Returns a design in one line.
fn describe(measure: Measure, design: &Design, number: Option<usize>) -> String {
    let number = number.map_or_else(String::new, |k| format!("{}: ", k + 1));
    format!(
        "{number}{}{}{}, lanes {}: {}, {} nJ, {} gate equivalents, {} cycles",
        design.streams.generator,
        match design.streams.generator.integer_bits() {
            Some(_) => String::new(),
            None => format!(", {} bits", design.streams.bits()),
        },
        match design.streams.early {
            EarlyTermination::Disabled => String::new(),
            early => format!(", margin {early}"),
        },
        design.lanes,
        measure.show(design.score),
        short(design.cost.energy),
        si(design.cost.area),
        design.cost.latency
    )
}

fn table(found: &Exploration, shown: &[&Design], command: impl Fn(&Design) -> String) -> String {
    let mut designs = Table::new([
        (Kind::Number, "design"),
        (Kind::Text, "network"),
        (Kind::Text, "generator"),
        (Kind::Number, "bits"),
        (Kind::Text, "sharing"),
        (Kind::Number, "width"),
        (Kind::Number, "margin"),
        (Kind::Number, "lanes"),
        (Kind::Number, "score"),
        (Kind::Number, "worst seed"),
        (Kind::Number, "energy nJ"),
        (Kind::Number, "area"),
        (Kind::Number, "latency"),
        (Kind::Number, "cycles"),
    ]);
    let mut circuits = Table::new([(Kind::Number, "design"), (Kind::Code, "command")]);
    for (k, design) in shown.iter().enumerate() {
        let (streams, class) = (&design.streams, format!("d{k}"));
        designs.row(
            &class,
            [
                (k + 1).to_string(),
                found.networks.get(streams.network).cloned().unwrap_or_default(),
                streams.generator.to_string(),
                streams.bits(),
                streams.sharing.to_string(),
                streams.width.to_string(),
                streams.early.to_string(),
                design.lanes.to_string(),
                found.measure.show(design.score),
                found.measure.show(design.worst_score),
                short(design.cost.energy),
                si(design.cost.area),
                design.cost.latency.to_string(),
                design.cost.cycles.to_string(),
            ],
        );
        circuits.row(&class, [(k + 1).to_string(), command(design)]);
    }
    format!(
        "<h2>Optimal designs</h2>\n{}<h2>Circuits</h2>\n<p>Each command generates the circuit of a design in Verilog; --check compares it with the engine.</p>\n{}",
        designs.panel(),
        circuits.panel()
    )
}

//! The page of an evaluation.

use super::chart::{self, Axis, Chart, Curve, Point};
use super::heat::Grid;
use super::provenance::provenance;
use super::score::Scores;
use super::table::{Kind, Table};
use super::{escape, page};
use crate::text::{plural, short};
use crate::{
    CostFigures, ErrorEstimate, Errors, Estimate, Evaluation, Figures, Plan, RegressionRow, Row,
};
use aleatron_core::arithmetic::Arithmetic;
use aleatron_core::generator::{GeneratorName, Sharing, WidthChoice};

/// Seeds up to which each has a point of its own.
const FEW_SEEDS: usize = 10;

/// Classes up to which a confusion matrix has room for numbers.
const FEW_CLASSES: usize = 16;

/// The side of a confusion matrix with more, in pixels.
const CONFUSION_SIDE: f64 = 360.0;

/// Returns an evaluation as an HTML page that needs no other file.
#[must_use]
pub fn evaluation(evaluation: &Evaluation) -> String {
    let rows = evaluation.rows();
    let title = format!("{} as streams", evaluation.network.name);
    let mut body = heading(evaluation, &title);
    // Everything but the table and the curves over fault rates is about rows without faults.
    let without: Vec<Row> = rows.iter().filter(|row| row.faults.is_none()).cloned().collect();
    match &evaluation.float {
        _ if without.is_empty() && !rows.is_empty() => {}
        Figures::Classification(float) => body.push_str(&accuracy(evaluation, float.accuracy)),
        Figures::Regression(errors) => body.push_str(&regression(evaluation, errors)),
    }
    body.push_str(&super::faults::faults(evaluation, &rows));
    body.push_str(&super::rows::rows(evaluation, &rows));
    if without.is_empty() && !rows.is_empty() {
        body.push_str(&provenance(&evaluation.provenance));
        return page(&title, &body);
    }
    body.push_str(&cost(evaluation));
    if let Some(graph) = &evaluation.graph {
        body.push_str(&super::graph::graph(graph, &evaluation.float));
    }
    if let (Some(float), false) =
        (evaluation.float.classification(), evaluation.plan.margins.is_empty())
    {
        body.push_str(&early(evaluation, float.accuracy));
    }
    body.push_str(&super::layers::layers(evaluation, &without));
    if evaluation.float.classification().is_some() {
        body.push_str(&confusion(evaluation));
    }
    body.push_str(&provenance(&evaluation.provenance));
    page(&title, &body)
}

fn heading(evaluation: &Evaluation, title: &str) -> String {
    let sizes: Vec<String> = evaluation.network.sizes.iter().map(ToString::to_string).collect();
    let (plan, settings) = (&evaluation.plan, settings(&evaluation.plan));
    let mut out = format!(
        "<h1>{}</h1>\n<p>A network {} run as bit streams on {}, {}. {settings}.</p>\n<div class=\"cards\">\n",
        escape(title),
        sizes.join("-"),
        escape(&evaluation.data.name),
        plural(evaluation.data.samples, "sample"),
    );
    let mut card = |value: String, label: &str| {
        out.push_str(&format!(
            "<div class=\"card\"><b>{}</b><span>{}</span></div>\n",
            escape(&value),
            escape(label)
        ));
    };
    let close = match &evaluation.float {
        Figures::Classification(float) => {
            card(format!("{:.2} %", 100.0 * float.accuracy), "right in floating point");
            "within one point"
        }
        Figures::Regression(errors) => {
            card(short(errors.mean_absolute), "mean error in floating point");
            card(short(errors.root_mean_square), "rms error in floating point");
            card(format!("{:.4}", errors.r_squared), "R² in floating point");
            "within 0.01 of the R²"
        }
    };
    for generator in plan.generators.iter().filter(|_| plan.fault_points().contains(&None)) {
        let value = match evaluation.shortest_within(&generator.to_string(), 1.0) {
            Ok(Some(length)) => plural(length, "bit"),
            _ => "none".to_owned(),
        };
        card(value, &format!("{close}, {generator}"));
    }
    out.push_str("</div>\n");
    let stopped =
        format!("This evaluation was stopped: {} to go.", plural(evaluation.unfinished, "cell"));
    let warnings =
        evaluation.warnings.iter().chain((evaluation.unfinished > 0).then_some(&stopped));
    warnings
        .for_each(|text| out.push_str(&format!("<div class=\"warn\">{}</div>\n", escape(text))));
    out
}

/// Returns the settings of streams as a sentence without its full stop.
fn settings(plan: &Plan) -> String {
    let mut settings = format!(
        "Sequences have {} and are shared by {}; numbers between layers are kept in {}",
        match plan.width {
            WidthChoice::Auto => "a width that fits the length".to_owned(),
            width => format!("{width} bits"),
        },
        match plan.sharing {
            Sharing::OneForAll => "all streams",
            Sharing::OnePerInput => "the streams of an input",
            Sharing::OnePerStream => "none",
        },
        match plan.arithmetic {
            Arithmetic::Integer => "integers",
            Arithmetic::Float => "floating point",
        },
    );
    if !plan.fault_layers.is_empty() {
        settings
            .push_str(&format!("; faults are in {} only", escape(&plan.fault_layers.join(", "))));
    }
    for (name, layer) in &plan.layers {
        settings.push_str(&format!("; layer {} has {}", escape(name), escape(&layer.to_string())));
    }
    settings
}

/// Returns one curve for each generator, so that generators have the same colours in all charts;
/// curves without points are not drawn.
pub(super) fn curves(evaluation: &Evaluation, points: impl Fn(&[Row]) -> Vec<Point>) -> Vec<Curve> {
    let curve = |generator: &GeneratorName| {
        let name = generator.to_string();
        let mut points = points(&evaluation.rows_of(&name));
        // Integers have no length: a horizontal line.
        if let (Some(_), [point]) = (generator.integer_bits(), &points[..]) {
            let ends = [evaluation.plan.lengths.first(), evaluation.plan.lengths.last()];
            let at = |&length: &usize| Point { x: length as f64, ..point.clone() };
            points = ends.into_iter().flatten().map(at).collect();
        }
        Curve { name, points }
    };
    evaluation.plan.generators.iter().map(curve).collect()
}

/// Returns the stream lengths of a row behind its generator; nothing for integers.
pub(super) fn bits(row: &Row) -> String {
    match row.generator.integer_bits() {
        Some(_) => String::new(),
        None => format!(", {} bits", row.bits()),
    }
}

pub(super) fn lengths(evaluation: &Evaluation) -> Axis {
    let lengths: Vec<f64> = evaluation.plan.lengths.iter().map(|&length| length as f64).collect();
    Axis::logarithmic("bits per stream", &lengths)
}

fn accuracy(evaluation: &Evaluation, float: f64) -> String {
    let point = |row: &Row| {
        let figures = row.figures.classification()?;
        let [mean, low, high] =
            [figures.accuracy.mean, figures.accuracy.low, figures.accuracy.high]
                .map(|share| 100.0 * share);
        Some(Point {
            x: row.length as f64,
            y: mean,
            band: (figures.accuracy.n > 1).then_some([low, high]),
            values: match row.scores.len() {
                2..=FEW_SEEDS => row.scores.iter().map(|accuracy| 100.0 * accuracy).collect(),
                _ => Vec::new(),
            },
            text: format!("{}{}: {mean:.2} % [{low:.2}, {high:.2}]", row.generator, bits(row)),
        })
    };
    let curves = curves(evaluation, |rows| rows.iter().filter_map(point).collect());
    let float = 100.0 * float;
    let least =
        curves.iter().flat_map(|curve| &curve.points).map(|point| point.y).fold(float, f64::min);
    let whole = [((least - 5.0) / 10.0).floor().max(0.0) * 10.0, 100.0];
    let close = [(float - 10.0).floor().max(0.0), 100.0];
    let legend = chart::legend(&curves, Some(&format!("floating point, {float:.2} %")));
    let mut out = String::from(
        "<h2>Accuracy against length</h2>\n<p>The share of samples whose best score is that of their class. Bands are intervals of 95 % over \
         seeds, small dots the seeds; sequences without a seed have neither.</p>\n",
    );
    let mut panel = |title: &str, range: [f64; 2]| {
        let y = Axis::percent("accuracy", range);
        let chart = Chart {
            curves: &curves,
            x: lengths(evaluation),
            y,
            level: Some(float),
            label: "Accuracy against length",
        };
        out.push_str(&format!("<div class=\"panel\">\n{title}{legend}{}</div>\n", chart.svg()));
    };
    panel("", whole);
    if whole[0] < close[0] {
        panel(&format!("<h3>From {} to {} %</h3>\n", close[0], close[1]), close);
    }
    out
}

/// Draws the errors of a regression against the targets and against floating point.
fn regression(evaluation: &Evaluation, float: &Errors) -> String {
    let mut out = String::from(
        "<h2>Error against length</h2>\n<p>The root mean square error of all outputs. Bands are intervals of 95 % over seeds.</p>\n",
    );
    type Of = fn(&RegressionRow) -> &ErrorEstimate;
    let drawings: [(&str, Of, Option<f64>); 2] = [
        ("Against the targets", |row| &row.to_targets, Some(float.root_mean_square)),
        ("Against floating point", |row| &row.to_float, None),
    ];
    for (title, errors, level) in drawings {
        let point = |row: &Row| {
            let Estimate { mean, low, high, n } =
                errors(row.figures.regression()?).root_mean_square;
            Some(Point {
                x: row.length as f64,
                y: mean,
                band: (n > 1).then_some([low, high]),
                values: Vec::new(),
                text: format!("{}{}: {}", row.generator, bits(row), short(mean)),
            })
        };
        let curves = curves(evaluation, |rows| rows.iter().filter_map(point).collect());
        if curves.iter().all(|curve| curve.points.is_empty()) {
            continue;
        }
        let points = curves.iter().flat_map(|curve| &curve.points);
        let most = points.map(|point| point.y).chain(level).fold(0.0, f64::max);
        // Errors that are all 0 still need an interval.
        let y = Axis::linear("rms error", [0.0, if most > 0.0 { 1.05 * most } else { 1.0 }]);
        let line = level.map(|level| format!("floating point, {}", short(level)));
        let legend = chart::legend(&curves, line.as_deref());
        let x = lengths(evaluation);
        let chart = Chart { curves: &curves, x, y, level, label: "Error against length" };
        out.push_str(&format!(
            "<div class=\"panel\">\n<h3>{title}</h3>\n{legend}{}</div>\n",
            chart.svg()
        ));
    }
    out
}

/// Draws the score against the energy and against the area of circuits.
fn cost(evaluation: &Evaluation) -> String {
    if evaluation.costs.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "<h2>Cost of the circuit</h2>\n<p>Cycles, area in gate equivalents and energy of a sample, by a model fitted to synthesized circuits, \
         for circuits with integers between layers and all neurons in parallel. Generic gates; no wires, no clock tree.</p>\n",
    );
    let reasons = evaluation.cost_reasons().into_iter();
    reasons.for_each(|reason| out.push_str(&format!("<p>No circuit: {}.</p>\n", escape(&reason))));
    out.extend(
        evaluation.cost_note().map(|note| format!("<div class=\"warn\">{}</div>\n", escape(&note))),
    );
    type Of = fn(&CostFigures) -> f64;
    let scores = Scores::of(evaluation);
    let axes: [(&'static str, Of); 2] = [
        ("energy of a sample in nJ", |cost| cost.energy),
        ("area in gate equivalents", |cost| cost.area),
    ];
    for (title, value) in axes {
        let point = |row: &Row| {
            let x = value(row.cost.as_ref()?.figures()?);
            let (y, shown) = (scores.value(row.score()), scores.text(row.score()));
            let text = format!("{}, {} bits: {shown}, {}", row.generator, row.bits(), short(x));
            (x > 0.0).then(|| Point { x, y, band: None, values: Vec::new(), text })
        };
        let curves = curves(evaluation, |rows| rows.iter().filter_map(point).collect());
        let all = || curves.iter().flat_map(|curve| &curve.points);
        let Some(x) = Axis::decades(title, all().map(|point| point.x)) else { continue };
        let y = scores.axis(all().map(|point| point.y), 5.0);
        let legend = chart::legend(&curves, Some(&scores.legend()));
        let level = Some(scores.float());
        let chart = Chart { curves: &curves, x, y, level, label: "Score against cost" };
        out.push_str(&format!("<div class=\"panel\">\n{legend}{}</div>\n", chart.svg()));
    }
    out
}

fn early(evaluation: &Evaluation, float: f64) -> String {
    let float = 100.0 * float;
    let mut out = String::from(
        "<h2>Stopping early</h2>\n<p>By margin: a sample stops when the best score exceeds the second by some standard deviations of counting \
         noise, compared after 8 cycles and whenever they have doubled. The curve of a generator goes through all margins at its longest \
         streams. By certainty: the last layer stops when no remaining cycle can change the best score, which never loses anything. Rows far \
         from floating point are left out: there is nothing to lose by stopping at chance level.</p>\n",
    );
    let point = |stop: &crate::EarlyStop, row: &Row| Point {
        x: stop.mean_cycles,
        y: 100.0 * stop.accuracy,
        band: None,
        values: Vec::new(),
        text: format!(
            "{}, {} bits, margin {}: {:.2} % after {:.1} cycles",
            row.generator,
            row.bits(),
            stop.margin,
            100.0 * stop.accuracy,
            stop.mean_cycles
        ),
    };
    let curves = curves(evaluation, |rows| match rows.last() {
        Some(row) if evaluation.has_early(row) => {
            let early = row.figures.classification().map_or(&[][..], |figures| &figures.early);
            early.iter().map(|stop| point(stop, row)).collect()
        }
        _ => Vec::new(),
    });
    let all = || curves.iter().flat_map(|curve| &curve.points);
    if let Some(x) = Axis::decades("mean cycles of a sample and layer", all().map(|point| point.x))
    {
        let least = all().map(|point| point.y).fold(float, f64::min);
        let y = Axis::percent("accuracy", [((least - 2.0) / 5.0).floor().max(0.0) * 5.0, 100.0]);
        let legend = chart::legend(&curves, Some(&format!("floating point, {float:.2} %")));
        let chart = Chart {
            curves: &curves,
            x,
            y,
            level: Some(float),
            label: "Accuracy against mean cycles",
        };
        out.push_str(&format!("<div class=\"panel\">\n{legend}{}</div>\n", chart.svg()));
    }
    out.push_str(
        "<p>For each length: the fewest mean cycles, restarts of later layers included, that lose at most half a point on these samples, and \
         the margin that does it; and the mean cycles of the last layer until it is certain.</p>\n",
    );
    let mut table = Table::new([
        (Kind::Text, "generator"),
        (Kind::Number, "bits"),
        (Kind::Number, "mean cycles"),
        (Kind::Number, "share of the full run"),
        (Kind::Number, "points lost"),
        (Kind::Number, "stopped early"),
        (Kind::Number, "margin"),
        (Kind::Number, "until certain"),
    ]);
    for name in evaluation.plan.generators.iter().map(ToString::to_string) {
        for (k, row) in evaluation.rows_of(&name).iter().enumerate() {
            let stop = if evaluation.has_early(row) { row.early_within(0.5) } else { None };
            let figures = match stop {
                Some(stop) => [
                    format!("{:.1}", stop.mean_cycles),
                    format!("{:.0} %", 100.0 * stop.mean_cycles / row.mean_length()),
                    // No minus sign for nothing lost.
                    format!("{:.2}", 100.0 * stop.accuracy_lost + 0.0),
                    format!("{:.0} %", 100.0 * stop.stopped),
                    stop.margin.to_string(),
                ],
                None => [(); 5].map(|()| "-".to_owned()),
            };
            let certain = row.figures.classification().and_then(|figures| figures.certain);
            let certain =
                certain.map_or_else(|| "-".to_owned(), |stop| format!("{:.1}", stop.mean_cycles));
            let cells = [name.clone(), row.bits()].into_iter().chain(figures).chain([certain]);
            table.row(if k == 0 { "first" } else { "" }, cells);
        }
    }
    out + &table.panel()
}

fn confusion(evaluation: &Evaluation) -> String {
    let mut out = String::from(
        "<h2>Confusion</h2>\n<p>Samples by class (down) and by the best score (across), over all seeds, at the shortest length within \
         one point of floating point, or else at the longest.</p>\n<div class=\"row\">\n",
    );
    for generator in evaluation.plan.generators.iter().map(ToString::to_string) {
        let rows = evaluation.rows_of(&generator);
        let shortest = evaluation.shortest_within(&generator, 1.0).ok().flatten();
        let Some(row) = rows.iter().find(|row| Some(row.length) == shortest).or(rows.last()) else {
            continue;
        };
        let Some(figures) = row.figures.classification() else { continue };
        let n = figures.confusion.len();
        let has_numbers = n <= FEW_CLASSES;
        // Where classes are many, every fifth or tenth has a label.
        let every = [1, 5, 10, 50, 100]
            .into_iter()
            .find(|every| has_numbers || n / every <= 12)
            .unwrap_or(500);
        let name = |class: usize| {
            if class.is_multiple_of(every) { class.to_string() } else { String::new() }
        };
        let names: Vec<String> = (0..n).map(name).collect();
        let cells: Vec<Vec<(String, f64)>> = figures
            .confusion
            .iter()
            .map(|counts| {
                let all = counts.iter().sum::<u64>().max(1);
                // The root makes single mistakes visible beside hundreds of hits.
                let cell = |&n: &u64| {
                    let text = if n == 0 || !has_numbers { String::new() } else { n.to_string() };
                    (text, (n as f64 / all as f64).sqrt())
                };
                counts.iter().map(cell).collect()
            })
            .collect();
        let side = CONFUSION_SIDE / n as f64;
        let grid = Grid {
            rows: &names,
            columns: &names,
            cells: &cells,
            size: if has_numbers { [24.0, 22.0] } else { [side, side] },
            x_label: "best score",
            y_label: "class",
        };
        out.push_str(&format!(
            "<div class=\"panel\"><h3>{}, {}</h3>\n{}</div>\n",
            escape(&generator),
            if row.has_one_length() {
                plural(row.length, "bit")
            } else {
                format!("{} bits", row.bits())
            },
            grid.svg()
        ));
    }
    out.push_str("</div>\n");
    out
}

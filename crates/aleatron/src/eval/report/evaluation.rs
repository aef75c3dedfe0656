//! The page of an evaluation.

use super::chart::{self, Curve, Point};
use super::heat::Grid;
use super::{escape, page};
use crate::eval::text::{short, si};
use crate::eval::{Evaluation, Row};

/// An evaluation as an HTML page that needs nothing else.
#[must_use]
pub fn evaluation(evaluation: &Evaluation) -> String {
    let rows = evaluation.rows();
    let title = format!("{} as streams", evaluation.network.name);
    let mut body = heading(evaluation, &title);
    body.push_str(&accuracy(evaluation));
    body.push_str(&table(evaluation, &rows));
    body.push_str(&early(evaluation));
    body.push_str(&confusion(evaluation));
    body.push_str(&errors(evaluation, &rows));
    page(&title, &body)
}

fn heading(evaluation: &Evaluation, title: &str) -> String {
    let sizes: Vec<String> = evaluation.network.sizes.iter().map(ToString::to_string).collect();
    let plan = &evaluation.plan;
    let mut out = format!(
        "<h1>{}</h1>\n<p>A network {} run as bit streams on {}, {} samples. Shared sequences have {} bits, {}; intervals are of \
         95 % over {} seeds.</p>\n<div class=\"cards\">\n",
        escape(title),
        sizes.join("-"),
        escape(&evaluation.data.name),
        evaluation.data.samples,
        plan.width,
        escape(&plan.sharing),
        plan.seeds
    );
    let mut card = |value: String, label: &str| {
        out.push_str(&format!(
            "<div class=\"card\"><b>{}</b><span>{}</span></div>\n",
            escape(&value),
            escape(label)
        ));
    };
    card(format!("{:.2} %", 100.0 * evaluation.float_accuracy), "right in floating point");
    for generator in &plan.generators {
        let value = match evaluation.shortest_within(generator, 1.0) {
            Some(length) => format!("{length} bits"),
            None => "none".to_owned(),
        };
        card(value, &format!("within one point, {generator}"));
    }
    out.push_str("</div>\n");
    for warning in &evaluation.warnings {
        out.push_str(&format!("<div class=\"warn\">{}</div>\n", escape(warning)));
    }
    if !evaluation.is_complete() {
        let (done, all) = (evaluation.cells.len(), plan.cells);
        out.push_str(&format!(
            "<div class=\"warn\">This evaluation was stopped: {done} of {all} cells are done.</div>\n"
        ));
    }
    out
}

fn accuracy(evaluation: &Evaluation) -> String {
    let curves: Vec<Curve> = evaluation
        .plan
        .generators
        .iter()
        .map(|generator| {
            let point = |row: &Row| Point {
                length: row.length,
                value: 100.0 * row.accuracy.mean,
                low: 100.0 * row.accuracy.low,
                high: 100.0 * row.accuracy.high,
            };
            Curve {
                name: generator.clone(),
                points: evaluation.rows_of(generator).iter().map(point).collect(),
            }
        })
        .filter(|curve| !curve.points.is_empty())
        .collect();
    let float = 100.0 * evaluation.float_accuracy;
    let least = curves.iter().flat_map(|curve| &curve.points).map(|point| point.value).fold(float, f64::min);
    let whole = [((least - 5.0) / 10.0).floor().max(0.0) * 10.0, 100.0];
    let close = [(float - 10.0).floor().max(0.0), 100.0];
    let mut out = String::from(
        "<h2>Accuracy against length</h2>\n<p>The share of samples whose best score is that of their class. Bands are the confidence \
         intervals over seeds; sequences without a seed have none.</p>\n<div class=\"panel\">\n",
    );
    out.push_str(&chart::legend(&curves, &format!("floating point, {float:.2} %")));
    out.push_str(&chart::curves(&curves, float, whole, "Accuracy against length"));
    out.push_str("</div>\n");
    if whole[0] < close[0] {
        out.push_str("<div class=\"panel\">\n<h3>The last ten points, closer</h3>\n");
        out.push_str(&chart::curves(&curves, float, close, "Accuracy against length, close-up"));
        out.push_str("</div>\n");
    }
    out
}

fn table(evaluation: &Evaluation, rows: &[Row]) -> String {
    let layers: String =
        evaluation.network.layers.iter().map(|name| format!("<th>{} error</th>", escape(name))).collect();
    let mut out = format!(
        "<h2>All figures</h2>\n<p>Errors are of a neuron's sum of products, mean and worst; the worst in counts is in the JSON \
         file.</p>\n<div class=\"panel\"><table>\n<tr><th>generator</th><th>bits</th><th>accuracy %</th><th>interval</th>\
         <th>agrees with float %</th>{layers}<th>samples/s</th><th>bit-MAC/s</th></tr>\n"
    );
    let mut before = None;
    for row in rows {
        let first = before != Some(&row.generator);
        before = Some(&row.generator);
        let interval = match row.accuracy.n {
            1 => "-".to_owned(),
            _ => format!("{:.2} to {:.2}", 100.0 * row.accuracy.low, 100.0 * row.accuracy.high),
        };
        let errors: String = row
            .layers
            .iter()
            .map(|layer| format!("<td>{} ({})</td>", short(layer.mean_value), short(layer.worst_value)))
            .collect();
        out.push_str(&format!(
            "<tr{}><td>{}</td><td>{}</td><td>{:.2}</td><td>{interval}</td><td>{:.2}</td>{errors}<td>{}</td><td>{}</td></tr>\n",
            if first { " class=\"first\"" } else { "" },
            escape(&row.generator),
            row.length,
            100.0 * row.accuracy.mean,
            100.0 * row.agreement,
            si(row.samples_per_second),
            si(row.bit_macs_per_second)
        ));
    }
    out.push_str("</table></div>\n");
    out
}

fn early(evaluation: &Evaluation) -> String {
    let mut out = String::from(
        "<h2>Stopping early</h2>\n<p>A sample stops when the best score leads the second by some standard deviations of counting \
         noise, looked at after 8 cycles and whenever they have doubled. For each length: the fewest mean cycles, restarts of later \
         layers included, that lose at most half a point on these samples, and the margin that does it.</p>\n\
         <div class=\"panel\"><table>\n<tr><th>generator</th><th>bits</th><th>mean cycles</th><th>share of the full run</th>\
         <th>points lost</th><th>stopped early</th><th>margin</th></tr>\n",
    );
    for generator in &evaluation.plan.generators {
        for (k, row) in evaluation.rows_of(generator).iter().enumerate() {
            let class = if k == 0 { " class=\"first\"" } else { "" };
            let name = escape(generator);
            let figures = match row.early_within(0.5) {
                Some(stop) => format!(
                    "<td>{:.1}</td><td>{:.0} %</td><td>{:.2}</td><td>{:.0} %</td><td>{}</td>",
                    stop.mean_cycles,
                    100.0 * stop.mean_cycles / row.length as f64,
                    // No minus sign for nothing lost.
                    100.0 * stop.accuracy_lost + 0.0,
                    100.0 * stop.stopped,
                    stop.margin
                ),
                None => "<td>-</td><td>-</td><td>-</td><td>-</td><td>-</td>".to_owned(),
            };
            out.push_str(&format!("<tr{class}><td>{name}</td><td>{}</td>{figures}</tr>\n", row.length));
        }
    }
    out.push_str("</table></div>\n");
    out
}

fn confusion(evaluation: &Evaluation) -> String {
    let mut out = String::from(
        "<h2>Confusion</h2>\n<p>Samples by class (down) and by the best score (across), over all seeds, at the shortest length within \
         one point of floating point, or else at the longest.</p>\n<div class=\"row\">\n",
    );
    for generator in &evaluation.plan.generators {
        let rows = evaluation.rows_of(generator);
        let shortest = evaluation.shortest_within(generator, 1.0);
        let Some(row) = rows.iter().find(|row| Some(row.length) == shortest).or(rows.last()) else {
            continue;
        };
        let names: Vec<String> = (0..row.confusion.len()).map(|class| class.to_string()).collect();
        let cells: Vec<Vec<(String, f64)>> = row
            .confusion
            .iter()
            .map(|counts| {
                let all = counts.iter().sum::<u32>().max(1);
                // The root makes single mistakes visible beside hundreds of hits.
                let cell = |&n: &u32| {
                    let text = if n == 0 { String::new() } else { n.to_string() };
                    (text, (f64::from(n) / f64::from(all)).sqrt())
                };
                counts.iter().map(cell).collect()
            })
            .collect();
        let grid = Grid {
            rows: &names,
            columns: &names,
            cells: &cells,
            size: [24.0, 22.0],
            x_label: "best score",
            y_label: "class",
        };
        out.push_str(&format!(
            "<div class=\"panel\"><h3>{}, {} bits</h3>\n{}</div>\n",
            escape(generator),
            row.length,
            grid.svg()
        ));
    }
    out.push_str("</div>\n");
    out
}

fn errors(evaluation: &Evaluation, rows: &[Row]) -> String {
    let lengths = &evaluation.plan.lengths;
    let columns: Vec<String> = lengths.iter().map(ToString::to_string).collect();
    let means = rows.iter().flat_map(|row| &row.layers).map(|layer| layer.mean_value);
    let positive: Vec<f64> = means.filter(|mean| *mean > 0.0).collect();
    let least = positive.iter().copied().fold(f64::MAX, f64::min);
    let most = positive.iter().copied().fold(0.0, f64::max);
    let share = |mean: f64| {
        if mean > 0.0 && most > least { (mean / least).ln() / (most / least).ln() } else { 0.0 }
    };
    let (mut names, mut cells) = (Vec::new(), Vec::new());
    for generator in &evaluation.plan.generators {
        let of_generator = evaluation.rows_of(generator);
        for (k, layer) in evaluation.network.layers.iter().enumerate() {
            let cell = |length: &usize| {
                let row = of_generator.iter().find(|row| row.length == *length);
                match row.and_then(|row| row.layers.get(k)) {
                    Some(layer) => (short(layer.mean_value), share(layer.mean_value)),
                    None => (String::new(), 0.0),
                }
            };
            names.push(format!("{generator}, {layer}"));
            cells.push(lengths.iter().map(cell).collect());
        }
    }
    let grid = Grid {
        rows: &names,
        columns: &columns,
        cells: &cells,
        size: [84.0, 30.0],
        x_label: "bits per stream",
        y_label: "",
    };
    format!(
        "<h2>Error of the layers</h2>\n<p>The mean error of a neuron's sum of products against the exact sum of the same inputs and \
         weights. Shades follow the logarithm.</p>\n<div class=\"panel\">\n{}</div>\n",
        grid.svg()
    )
}

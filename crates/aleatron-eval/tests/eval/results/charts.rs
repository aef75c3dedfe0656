//! Curves: marks are at the coordinates of their axes, inside the frame, and curves have distinct
//! styles.

use super::xml::Element;
use super::{cell, drawings, evaluation, example, page, section};
use crate::support::float_accuracy;
use std::collections::BTreeSet;

/// Coordinates are written with one digit.
const ROUNDING: f64 = 0.051;

/// The frame that charts draw in: left, top, right and bottom.
const FRAME: [f64; 4] = [66.0, 14.0, 760.0 - 16.0, 380.0 - 58.0];

/// A label of an axis: its coordinate and its text.
type Label = (f64, String);

/// Returns the labels of both axes: those of x are below the frame, those of y end left of it.
fn labels(chart: &Element) -> (Vec<Label>, Vec<Label>) {
    let texts = chart.all("text");
    let of = |anchor: &str, y: Option<f64>, place: &str| -> Vec<Label> {
        let fits = |text: &&Element| {
            text.has("text-anchor", anchor)
                && y.is_none_or(|y| (text.number("y") - y).abs() < ROUNDING)
        };
        texts.iter().filter(fits).map(|text| (text.number(place), text.inside.clone())).collect()
    };
    let below = of("middle", Some(FRAME[3] + 22.0), "x");
    // The text's base line is 5 below the line of the grid.
    let beside = of("end", None, "y").into_iter().map(|(y, text)| (y - 5.0, text)).collect();
    (below, beside)
}

/// Returns the points of a curve's line.
fn line(curve: &Element) -> Vec<[f64; 2]> {
    points(curve.all("polyline")[0].text("points"))
}

fn points(text: &str) -> Vec<[f64; 2]> {
    let point = |pair: &str| {
        let (x, y) = pair.split_once(',').unwrap();
        [x.parse().unwrap(), y.parse().unwrap()]
    };
    text.split(' ').map(point).collect()
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < ROUNDING
}

/// Returns the coordinate of a value between two labels of an axis that is linear, or linear in the
/// logarithm.
fn between([low, high]: [(f64, f64); 2], value: f64, scale: fn(f64) -> f64) -> f64 {
    let share = (scale(value) - scale(low.0)) / (scale(high.0) - scale(low.0));
    low.1 + share * (high.1 - low.1)
}

fn texts(labels: &[Label]) -> Vec<&str> {
    labels.iter().map(|(_, text)| text.as_str()).collect()
}

#[test]
fn points_are_at_the_coordinates_of_their_axes() {
    let page = page(&example());
    let charts = drawings(section(&page, "Accuracy against length"));
    let charts: Vec<&Element> = charts.iter().filter(|svg| svg.has("class", "chart")).collect();
    // The least accuracy is 52 %: all from 40 on, and a close-up from ten points below floating
    // point on.
    assert_eq!(charts.len(), 2);
    assert!(page.contains("<h3>From 80 to 100 %</h3>"));
    for (chart, low, step) in [(charts[0], 40.0, 10.0), (charts[1], 80.0, 5.0)] {
        assert_eq!(
            [chart.text("viewBox"), chart.text("width"), chart.text("height")],
            ["0 0 760 380", "760", "380"]
        );
        assert_eq!(chart.text("aria-label"), "Accuracy against length");
        let (below, beside) = labels(chart);
        assert_eq!(texts(&below), ["8", "16", "64"]);
        let expected: Vec<String> = (0..)
            .map(|k| low + step * f64::from(k))
            .take_while(|&v| v <= 100.0)
            .map(|v| format!("{v} %"))
            .collect();
        assert_eq!(texts(&beside), expected);
        // The ends of the axes are those of the frame, or just inside it.
        assert!(near(beside[0].0, FRAME[3]) && near(beside[beside.len() - 1].0, FRAME[1]));
        assert!(near(below[0].0, FRAME[0] + 14.0) && near(below[2].0, FRAME[2] - 14.0));
        assert!(near(below[1].0, between([(8.0, below[0].0), (64.0, below[2].0)], 16.0, f64::ln)));
        let place = |value: f64| between([(low, FRAME[3]), (100.0, FRAME[1])], value, |v| v);
        for (label, line) in
            beside.iter().zip(chart.all("line").iter().filter(|line| line.has("class", "grid")))
        {
            assert!(near(label.0, line.number("y1")) && near(label.0, line.number("y2")));
            assert_eq!([line.number("x1"), line.number("x2")], [FRAME[0], FRAME[2]]);
        }
        let float = chart.all("line").into_iter().find(|line| line.has("class", "float")).unwrap();
        assert!(near(float.number("y1"), place(90.0)) && near(float.number("y2"), place(90.0)));
        assert_eq!([float.number("x1"), float.number("x2")], [FRAME[0], FRAME[2]]);
        let title =
            chart.all("text").into_iter().find(|text| text.inside == "bits per stream").unwrap();
        assert!(
            near(title.number("x"), (FRAME[0] + FRAME[2]) / 2.0) && near(title.number("y"), 370.0)
        );

        let curves = chart.all("g");
        let means = [[70.0, 88.0, 90.0], [52.0, 70.0, 87.0]];
        assert_eq!(curves.len(), 2);
        for (curve, means) in curves.iter().zip(means) {
            for ((point, mean), (x, _)) in line(curve).into_iter().zip(means).zip(&below) {
                assert!(near(point[0], *x) && near(point[1], place(mean)), "{point:?} {mean}");
            }
            // Marks are on the line, and only where they are inside.
            let inside: Vec<[f64; 2]> = line(curve)
                .into_iter()
                .zip(means)
                .filter(|(_, mean)| *mean >= low)
                .map(|(point, _)| point)
                .collect();
            let marks: Vec<Element> =
                curve.all("circle").into_iter().filter(|circle| circle.has("r", "4.5")).collect();
            let places: Vec<[f64; 2]> =
                marks.iter().map(|m| [m.number("cx"), m.number("cy")]).collect();
            assert_eq!(places, inside);
        }
    }
    let marks = charts[0].all("g")[1].all("circle");
    let titles: Vec<String> =
        marks.iter().map(Element::title).filter(|title| !title.is_empty()).collect();
    // Two values 50 and 54: Student's t of one degree of freedom is 12.706, the deviation of the
    // mean 2.
    assert_eq!(titles[0], "bernoulli, 8 bits: 52.00 % [26.59, 77.41]");
}

#[test]
fn seeds_have_bands_and_dots() {
    let page = page(&example());
    let charts = drawings(section(&page, "Accuracy against length"));
    let chart = charts.iter().find(|svg| svg.has("class", "chart")).unwrap();
    let curves = chart.all("g");
    assert!(curves[0].all("polygon").is_empty(), "there is one seed");
    let band = points(curves[1].all("polygon")[0].text("points"));
    let place = |value: f64| between([(40.0, FRAME[3]), (100.0, FRAME[1])], value, |v| v);
    assert_eq!(band.len(), 6);
    // Forward along the upper ends, back along the lower ones; an interval ends at 100 %.
    let half = 12.706 * 2.0;
    assert!(
        near(band[0][1], place(52.0 + half)) && near(band[5][1], place(52.0 - half)),
        "{band:?}"
    );
    assert!(
        near(band[2][1], place((87.0 + 12.706_f64).min(100.0)))
            && near(band[3][1], place(87.0 - 12.706))
    );
    assert!((0..3).all(|k| band[k][0] == band[5 - k][0]) && band[0][0] < band[1][0]);
    let dots = |curve: &Element| -> Vec<f64> {
        let circles = curve.all("circle").into_iter().filter(|circle| circle.has("r", "2"));
        circles.map(|circle| circle.number("cy")).collect()
    };
    assert!(dots(&curves[0]).is_empty());
    let values = [50.0, 54.0, 66.0, 74.0, 86.0, 88.0];
    assert!(dots(&curves[1]).iter().zip(values).all(|(y, value)| near(*y, place(value))));
    assert_eq!(dots(&curves[1]).len(), 6);

    // Up to ten seeds have dots. A single length has no band, since a band is between two.
    for (seeds, expected) in [(10, 10), (11, 0)] {
        let cells =
            (0..seeds).map(|seed| cell("bernoulli", 8, seed, 80 + seed as u32 % 2)).collect();
        let page = super::page(&evaluation(cells));
        let charts = drawings(section(&page, "Accuracy against length"));
        let chart = charts.iter().find(|svg| svg.has("class", "chart")).unwrap();
        assert_eq!(dots(&chart.all("g")[0]).len(), expected, "{seeds}");
        assert!(chart.all("polygon").is_empty());
        // One label in the middle.
        assert!(near(labels(chart).0[0].0, (FRAME[0] + FRAME[2]) / 2.0));
    }
}

#[test]
fn close_up_is_drawn_if_its_range_is_smaller() {
    let charts = |right: u32, float: f64| {
        let mut evaluation = evaluation(vec![cell("sobol", 8, 0, right), cell("sobol", 16, 0, 90)]);
        evaluation.float = float_accuracy(float);
        let page = page(&evaluation);
        let charts = drawings(section(&page, "Accuracy against length"));
        let charts = charts.into_iter().filter(|svg| svg.has("class", "chart"));
        charts.map(|chart| labels(&chart).1[0].1.clone()).collect::<Vec<_>>()
    };
    // 88 - 5 is in the eighties, which is where the close-up would begin.
    assert_eq!(charts(88, 0.9), ["80 %"]);
    assert_eq!(charts(84, 0.9), ["70 %", "80 %"]);
    assert_eq!(charts(2, 0.9), ["0 %", "80 %"]);
    // From 89 on the first whole step is 90.
    assert_eq!(charts(84, 0.9999), ["70 %", "90 %"]);
    assert_eq!(charts(4, 0.05), ["0 %"]);
}

#[test]
fn overlapping_labels_are_omitted() {
    let cells = [1000, 1010, 1020, 1100, 4000].map(|length| cell("sobol", length, 0, 90)).to_vec();
    let page = page(&evaluation(cells));
    let charts = drawings(section(&page, "Accuracy against length"));
    let chart = charts.iter().find(|svg| svg.has("class", "chart")).unwrap();
    let (below, _) = labels(chart);
    // A label of four characters takes 48 and a gap of 6: the fourth length is ln(1.1) / ln(4) *
    // 650 = 45 away.
    assert_eq!(texts(&below), ["1000", "4000"]);
    let cells = [1000, 1010, 1130, 4000].map(|length| cell("sobol", length, 0, 90)).to_vec();
    let page = super::page(&evaluation(cells));
    let charts = drawings(section(&page, "Accuracy against length"));
    // And ln(1.13) / ln(4) * 650 = 57.
    let (below, _) = labels(charts.iter().find(|svg| svg.has("class", "chart")).unwrap());
    assert_eq!(texts(&below), ["1000", "1130", "4000"]);
}

#[test]
fn legend_entries_are_distinct_and_match_their_curves() {
    let names: Vec<String> = (1..=33).map(|k| format!("lfsr:{k}+bernoulli")).collect();
    let cells =
        names.iter().flat_map(|name| [cell(name, 8, 0, 80), cell(name, 16, 0, 90)]).collect();
    let page = page(&evaluation(cells));
    let all = section(&page, "Accuracy against length");
    let list = super::xml::elements(all)
        .into_iter()
        .find(|element| element.has("class", "legend"))
        .unwrap();
    let entries = list.all("li");
    assert_eq!(entries.len(), 34);
    let style = |entry: &Element| {
        let (svg, line) = (&entry.all("svg")[0], &entry.all("line")[0]);
        let marks = svg.all("circle").into_iter().chain(svg.all("rect")).chain(svg.all("path"));
        let mark: Vec<String> =
            marks.map(|mark| format!("{} {:?}", mark.name, mark.attributes.get("d"))).collect();
        assert_eq!(mark.len(), 1);
        [svg.text("style").to_owned(), line.text("stroke-dasharray").to_owned(), mark[0].clone()]
    };
    let styles: Vec<[String; 3]> = entries[..33].iter().map(style).collect();
    assert_eq!(styles[..32].iter().collect::<BTreeSet<_>>().len(), 32);
    assert_eq!(styles[32], styles[0]);
    for (k, style) in styles.iter().enumerate() {
        assert_eq!(style[0], format!("color:var(--c{})", k % 8));
        assert!(entries[k].inside.ends_with(&names[k]));
    }
    let strokes: BTreeSet<&String> = styles.iter().map(|style| &style[1]).collect();
    assert_eq!(strokes.len(), 4);
    assert!(entries[33].inside.ends_with("floating point, 90.00 %"));
    // Curves have the style of their legend entry, and marks of every shape are centred on their
    // point.
    let charts = drawings(all);
    let chart = charts.iter().find(|svg| svg.has("class", "chart")).unwrap();
    for (k, curve) in chart.all("g").iter().enumerate() {
        assert_eq!(curve.text("style"), styles[k][0]);
        assert_eq!(curve.all("polyline")[0].text("stroke-dasharray"), styles[k][1]);
        let at = line(curve)[0];
        let marks =
            curve.all("circle").into_iter().chain(curve.all("rect")).chain(curve.all("path"));
        let mark = marks.into_iter().next().unwrap();
        let [x, y] = match (mark.name.as_str(), k / 8 % 4) {
            ("circle", 0) => [mark.number("cx"), mark.number("cy")],
            ("rect", 1) => ["x", "y"].map(|side| mark.number(side) + 4.0),
            // From the top: 5.5 down for the diamond and the triangle.
            ("path", 2 | 3) => {
                let start = mark.text("d").strip_prefix('M').unwrap().split('l').next().unwrap();
                let (x, y) = start.split_once(' ').unwrap();
                [x.parse::<f64>().unwrap(), y.parse::<f64>().unwrap() + 5.5]
            }
            other => panic!("{other:?}"),
        };
        assert!(near(x, at[0]) && near(y, at[1]), "{k}: {x} {y} {at:?}");
        assert!(mark.title().starts_with(&format!("{}, 8 bits: 80.00 %", names[k])));
    }
}

#[test]
fn errors_are_drawn_by_decades() {
    let mut evaluation = example();
    for cell in &mut evaluation.cells {
        cell.layers[0].mean_value = if cell.length == 8 { 3.0 } else { 0.02 };
    }
    let page_of = page(&evaluation);
    let charts = drawings(section(&page_of, "Error of the layers"));
    let chart = charts.iter().find(|svg| svg.has("class", "chart")).unwrap();
    assert!(section(&page_of, "Error of the layers").contains("<h3>layer only</h3>"));
    let (below, beside) = labels(chart);
    assert_eq!(
        (texts(&below), texts(&beside)),
        (vec!["8", "16", "64"], vec!["1 %", "10 %", "100 %", "1000 %"])
    );
    let curve = line(&chart.all("g")[0]);
    // Errors of 3 and 0.02 of a signal of 2.
    let place = |value: f64| between([(1.0, FRAME[3]), (1000.0, FRAME[1])], value, f64::ln);
    assert!(near(curve[0][1], place(150.0)) && near(curve[1][1], place(1.0)), "{curve:?}");
    assert!(near(beside[1].0, place(10.0)));
    let all = chart.all("line").into_iter().find(|line| line.has("class", "float")).unwrap();
    assert!(near(all.number("y1"), place(100.0)));
    let title = chart.all("g")[0].all("circle")[0].title();
    assert_eq!(title, "sobol, 8 bits: 150 % of the signal (in values: mean 3.00, worst 0.50)");

    // Very small errors have exponents; a power of ten is an end of the axis; errors of zero are
    // not drawn.
    for cell in &mut evaluation.cells {
        cell.layers[0].mean_value = 2e-7;
    }
    let page_of = page(&evaluation);
    let charts = drawings(section(&page_of, "Error of the layers"));
    let (_, beside) = labels(charts.iter().find(|svg| svg.has("class", "chart")).unwrap());
    let decades = ["1e-5 %", "1e-4 %", "0.001 %", "0.01 %", "0.1 %", "1 %", "10 %", "100 %"];
    assert_eq!(texts(&beside), decades);
    // A length without errors has no point.
    for cell in evaluation.cells.iter_mut().filter(|cell| cell.length == 64) {
        cell.layers[0].mean_value = 0.0;
    }
    let page_of = page(&evaluation);
    let charts = drawings(section(&page_of, "Error of the layers"));
    let chart = charts.iter().find(|svg| svg.has("class", "chart")).unwrap();
    assert_eq!(texts(&labels(chart).1), decades);
    assert!(chart.all("g").iter().all(|curve| line(curve).len() == 2));
    for cell in &mut evaluation.cells {
        cell.layers[0].mean_value = 0.0;
    }
    assert!(drawings(section(&page(&evaluation), "Error of the layers")).is_empty());
}

/// A generator without a curve in a chart does not change the colours of the others.
#[test]
fn generators_have_the_same_colour_in_every_chart() {
    // The first generator is far from floating point, so that it has no curve over cycles.
    let far = vec![cell("sobol", 8, 0, 70), cell("ramp", 8, 0, 90)];
    let page_of = page(&evaluation(far));
    let style = |heading: &str| -> Vec<String> {
        let charts = drawings(section(&page_of, heading));
        let chart = charts.into_iter().find(|svg| svg.has("class", "chart")).unwrap();
        chart.all("g").iter().map(|curve| curve.text("style").to_owned()).collect()
    };
    assert_eq!(style("Accuracy against length"), ["color:var(--c0)", "color:var(--c1)"]);
    assert_eq!(style("Stopping early"), ["color:var(--c1)"]);
}

/// A layer whose streams are all zeros has an error as large as its signal, however small both are;
/// errors without a signal are named.
#[test]
fn dead_layers_have_errors_of_the_whole_signal() {
    let mut evaluation = evaluation(vec![cell("sobol", 8, 0, 50), cell("sobol", 16, 0, 50)]);
    for cell in &mut evaluation.cells {
        (cell.layers[0].mean_value, cell.layers[0].mean_signal) = (1e-4, 1e-4);
    }
    let page_of = page(&evaluation);
    let part = section(&page_of, "Error of the layers");
    assert!(part.contains("sobol, 8 bits: 100 % of the signal"), "{part}");
    assert!(!part.contains("Errors without a signal"));
    assert!(page_of.contains("<td>100</td>"));
    evaluation.cells[0].layers[0].mean_signal = 0.0;
    let page_of = page(&evaluation);
    let part = section(&page_of, "Error of the layers");
    assert!(
        part.contains("Errors without a signal, which have no point: sobol, 8 bits."),
        "{part}"
    );
    assert!(part.contains("sobol, 16 bits: 100 %") && !part.contains("sobol, 8 bits: "));
}

#[test]
fn early_termination_is_drawn_over_cycles() {
    let page_of = page(&example());
    let part = section(&page_of, "Stopping early");
    let charts = drawings(part);
    let chart = charts.iter().find(|svg| svg.has("class", "chart")).unwrap();
    assert_eq!(chart.text("aria-label"), "Accuracy against mean cycles");
    // At 64 bits margins of 1 and 2 take 16 and 32 cycles, of 90 and of 87 %.
    let (below, beside) = labels(chart);
    assert_eq!(texts(&below), ["10", "100"]);
    assert_eq!(beside[0].1, "80 %");
    let x = |cycles: f64| between([(10.0, below[0].0), (100.0, below[1].0)], cycles, f64::ln);
    let y = |value: f64| between([(80.0, FRAME[3]), (100.0, FRAME[1])], value, |v| v);
    for (curve, accuracy) in chart.all("g").iter().zip([90.0, 87.0]) {
        let line = line(curve);
        assert!(near(line[0][0], x(16.0)) && near(line[1][0], x(32.0)));
        assert!(near(line[0][1], y(accuracy - 0.2)) && near(line[1][1], y(accuracy)), "{line:?}");
    }
    let float = chart.all("line").into_iter().find(|line| line.has("class", "float")).unwrap();
    assert!(near(float.number("y1"), y(90.0)));
    assert!(part.contains("floating point, 90.00 %"));
    let title = chart.all("g")[1].all("circle")[0].title();
    assert_eq!(title, "bernoulli, 64 bits, margin 1: 86.80 % after 16.0 cycles");
    // A generator whose longest streams are far from floating point has no curve.
    let far = vec![cell("sobol", 8, 0, 90), cell("ramp", 8, 0, 84)];
    let page_of = page(&evaluation(far));
    let charts = drawings(section(&page_of, "Stopping early"));
    assert_eq!(charts.iter().find(|svg| svg.has("class", "chart")).unwrap().all("g").len(), 1);
    let page_of = page(&evaluation(vec![cell("ramp", 8, 0, 84)]));
    assert!(drawings(section(&page_of, "Stopping early")).is_empty());
}

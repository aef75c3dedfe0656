//! Confusion matrices: small ones show counts, large ones have a fixed size.

use super::xml::Element;
use super::{cell, drawings, evaluation, example, page, section};
use crate::support::Classes;
use aleatron_eval::Evaluation;

/// The largest height of a drawing of a confusion matrix with many classes, in pixels: a square of
/// 360, and labels above and below it.
const LARGEST: f64 = 360.0 + 50.0;

fn matrices(evaluation: &Evaluation) -> Vec<Element> {
    drawings(section(&page(evaluation), "Confusion"))
}

/// Returns an evaluation of one cell with `n` classes, all samples of each in the class after it
/// but one.
fn many(n: usize) -> Evaluation {
    let mut evaluation = evaluation(vec![cell("sobol", 8, 0, 90)]);
    evaluation.network.sizes = vec![3, n];
    let row = |label: usize| {
        (0..n)
            .map(|class| if class == (label + 1) % n { 7 } else { u32::from(class == label) })
            .collect()
    };
    evaluation.cells[0].classes_mut().confusion = (0..n).map(row).collect();
    evaluation
}

#[test]
fn matrices_are_of_the_shortest_accurate_length() {
    let page = page(&example());
    let part = section(&page, "Confusion");
    // Within a point of 90 % from 64 bits on; Bernoulli never is, so its longest.
    assert!(
        part.contains("<h3>sobol, 64 bits</h3>") && part.contains("<h3>bernoulli, 64 bits</h3>")
    );
    let good = evaluation(vec![cell("sobol", 8, 0, 90), cell("sobol", 16, 0, 90)]);
    assert!(super::page(&good).contains("<h3>sobol, 8 bits</h3>"));
}

#[test]
fn matrix_cells_show_their_counts() {
    let matrices = matrices(&example());
    assert_eq!(matrices.len(), 2);
    // Over both seeds: 14 and 12 wrong of 100 each.
    let rects = matrices[1].all("rect");
    let titles: Vec<String> = rects.iter().map(Element::title).collect();
    assert_eq!(titles, ["0 / 0: 87", "0 / 1: 13", "1 / 0: 13", "1 / 1: 87"]);
    // Shades are of the root of the share of a row, 72 % at most.
    let shade = |share: f64| {
        format!("fill:color-mix(in srgb, var(--heat) {:.0}%, var(--panel))", 72.0 * share.sqrt())
    };
    let shades: Vec<&str> = rects.iter().map(|rect| rect.text("style")).collect();
    assert_eq!(shades, [shade(0.87), shade(0.13), shade(0.13), shade(0.87)]);
    // Cells of 24 by 22 with a gap of 1 around them, right of the labels and below them.
    let [left, top] = [12.0 + 7.0 + 18.0, 24.0];
    for (k, rect) in rects.iter().enumerate() {
        let (row, column) = ((k / 2) as f64, (k % 2) as f64);
        assert_eq!(
            [rect.number("x"), rect.number("y")],
            [left + 24.0 * column + 1.0, top + 22.0 * row + 1.0]
        );
        assert_eq!([rect.number("width"), rect.number("height")], [22.0, 20.0]);
    }
    let texts = matrices[1].all("text");
    let value = &texts.iter().filter(|text| text.has("class", "value")).collect::<Vec<_>>()[1];
    assert_eq!(
        (value.inside.as_str(), value.number("x"), value.number("y")),
        ("13", left + 36.0, top + 15.0)
    );
    let [width, height] = [left + 48.0 + 4.0, top + 44.0 + 26.0];
    let svg = &matrices[1];
    assert_eq!([svg.number("width"), svg.number("height")], [width, height]);
    assert_eq!(svg.text("viewBox"), format!("0 0 {width} {height}"));
    // Labels: columns above, rows beside, and the names of both.
    let place = |anchor: &str, inside: &str| {
        let text = texts.iter().find(|text| {
            text.has("text-anchor", anchor)
                && text.inside == inside
                && !text.attributes.contains_key("class")
        });
        let text = text.unwrap_or_else(|| panic!("{inside} is missing"));
        [text.number("x"), text.number("y")]
    };
    assert_eq!(place("middle", "1"), [left + 36.0, top - 8.0]);
    assert_eq!(place("end", "1"), [left - 8.0, top + 33.0 + 4.0]);
    assert_eq!(place("middle", "best score"), [left + 24.0, height - 8.0]);
    let down = texts.iter().find(|text| text.inside == "class").unwrap();
    assert_eq!(down.text("transform"), format!("translate(12 {:.1}) rotate(-90)", top + 22.0));
}

/// Up to sixteen classes show counts; more share a square of one size, with sparse labels.
#[test]
fn matrices_of_many_classes_have_a_fixed_size() {
    let few = &matrices(&many(16))[0];
    assert_eq!(few.all("text").iter().filter(|text| text.has("class", "value")).count(), 32);
    for (n, every) in [(17, 5), (22, 5), (23, 5), (40, 5), (60, 5), (65, 10), (120, 10), (130, 50)]
    {
        let all = matrices(&many(n));
        assert_eq!(all.len(), 1);
        let svg = &all[0];
        assert_eq!(svg.all("rect").len(), n * n);
        assert!(
            svg.number("height") <= LARGEST && svg.number("width") <= LARGEST + 50.0,
            "{n}: {}",
            svg.number("height")
        );
        let texts = svg.all("text");
        assert!(texts.iter().all(|text| !text.has("class", "value")), "counts do not fit");
        let labels: Vec<String> = texts
            .iter()
            .filter(|t| t.has("text-anchor", "end") && !t.inside.is_empty())
            .map(|t| t.inside.clone())
            .collect();
        let expected: Vec<String> = (0..n).step_by(every).map(|class| class.to_string()).collect();
        assert_eq!(labels, expected);
        let last = svg.all("rect").pop().unwrap();
        let side = 360.0 / n as f64;
        // Cells below 16 pixels have no room for gaps.
        let gap = if n <= 22 { 1.0 } else { 0.0 };
        for size in ["width", "height"] {
            assert!((last.number(size) - (side - 2.0 * gap)).abs() < 1e-9, "{n}");
        }
        assert!((last.number("y") - (24.0 + 360.0 - side + gap)).abs() < 0.051);
    }
}

/// Labels of very many classes, without reading half a million cells.
#[test]
fn labels_of_very_many_classes_are_sparse() {
    let text = page(&many(700));
    let labels = text
        .lines()
        .filter_map(|line| line.split_once("text-anchor=\"end\">")?.1.strip_suffix("</text>"));
    let labels: Vec<&str> = labels
        .filter(|label| label.starts_with(|c: char| c.is_ascii_digit()) && !label.contains('%'))
        .collect();
    let rows: Vec<&str> = labels.into_iter().rev().take_while(|label| *label != "10").collect();
    assert_eq!(rows[..7], ["600", "500", "400", "300", "200", "100", "0"]);
}

#[test]
fn page_height_does_not_grow_with_the_classes() {
    let heights = |evaluation: &Evaluation| -> f64 {
        let page = page(evaluation);
        let body = &page[page.find("<h2>").unwrap()..page.find("<footer>").unwrap()];
        let charts = drawings(body).into_iter().filter(|svg| svg.attributes.contains_key("height"));
        charts.map(|svg| svg.number("height")).sum()
    };
    let (ten, forty) = (heights(&many(10)), heights(&many(40)));
    assert!(forty - ten <= LARGEST, "{ten} {forty}");
    assert!(forty < 2500.0, "{forty}");
}

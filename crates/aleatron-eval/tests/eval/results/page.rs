//! The frame of a page and its heading.

use super::{cell, evaluation, example, page};
use aleatron_eval::report;

#[test]
fn page_is_self_contained_and_names_its_subject() {
    let page = page(&example());
    assert!(
        page.starts_with("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">")
    );
    assert!(
        page.contains("<title>net as streams</title>") && page.contains("<h1>net as streams</h1>")
    );
    assert!(page.contains("A network 3-2 run as bit streams on data, 100 samples. "));
    let made = format!(
        "<footer>Made by aleatron {}.</footer>\n</main>\n</body>\n</html>\n",
        aleatron_engine::VERSION
    );
    assert!(page.ends_with(&made), "{}", &page[page.len() - 200..]);
    // The sections are in this order.
    let order = [
        "<style>",
        "<h1>",
        "<h2>Accuracy against length</h2>",
        "<h2>All figures</h2>",
        "<h2>Stopping early</h2>",
        "<h2>Error of the layers</h2>",
        "<h2>Confusion</h2>",
        "<footer>",
    ];
    let positions =
        order.map(|text| page.find(text).unwrap_or_else(|| panic!("{text} is missing")));
    assert!(positions.is_sorted(), "{positions:?}");
    for outside in ["http://", "https://", "<script", "<link", "<img", "@import"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(report::multiplier(&[]).contains("<title>Multiplier errors</title>"));
}

#[test]
fn settings_are_described_in_words() {
    let mut evaluation = example();
    let text = page(&evaluation);
    assert!(text.contains(
        "Sequences have a width that fits the length and are shared by all streams; \
         numbers between layers are kept in floating point.</p>"
    ));
    evaluation.plan.width = "6".parse().unwrap();
    evaluation.plan.sharing = "input".parse().unwrap();
    evaluation.plan.arithmetic = "integer".parse().unwrap();
    evaluation.plan.layers.insert("only".to_owned(), "length=4".parse().unwrap());
    let text = page(&evaluation);
    assert!(text.contains(
        "Sequences have 6 bits and are shared by the streams of an input; \
         numbers between layers are kept in integers; layer only has length=4.</p>"
    ));
    evaluation.plan.sharing = "stream".parse().unwrap();
    assert!(page(&evaluation).contains("and are shared by none;"));
}

#[test]
fn cards_show_accuracy_and_shortest_lengths() {
    let card = |value: &str, label: &str| {
        format!("<div class=\"card\"><b>{value}</b><span>{label}</span></div>\n")
    };
    let text = page(&example());
    assert!(text.contains(&card("90.00 %", "right in floating point")));
    // 90 % less one point: Sobol has 88 and then 90, Bernoulli 87 at most.
    assert!(text.contains(&card("64 bits", "within one point, sobol")));
    assert!(text.contains(&card("none", "within one point, bernoulli")));
    assert!(!text.contains("class=\"warn\""));
}

#[test]
fn warnings_and_unfinished_cells_are_shown() {
    let mut evaluation = example();
    evaluation.warnings = vec!["a < b & \"c\"".to_owned()];
    evaluation.unfinished = 1;
    let text = page(&evaluation);
    assert!(text.contains("<div class=\"warn\">a &lt; b &amp; &quot;c&quot;</div>\n"));
    assert!(
        text.contains("<div class=\"warn\">This evaluation was stopped: 1 cell to go.</div>\n")
    );
}

#[test]
fn names_from_files_are_escaped() {
    let bad = "<b>&\">";
    let mut evaluation = evaluation(vec![cell("sobol", 8, 0, 90), cell("sobol", 16, 0, 90)]);
    evaluation.network.name = bad.to_owned();
    evaluation.network.layers = vec![bad.to_owned()];
    evaluation.data.name = bad.to_owned();
    evaluation.plan.layers.insert(bad.to_owned(), "length=4".parse().unwrap());
    let text = page(&evaluation);
    assert!(!text.contains(bad) && !text.contains("<b>&"), "{text}");
    let good = "&lt;b&gt;&amp;&quot;&gt;";
    assert!(text.contains(&format!("<title>{good} as streams</title>")));
    assert!(text.contains(&format!("<th>layer {good} error %</th>")));
}

//! The page of multiplier tables.

use super::xml::{Element, elements};
use super::{drawings, section};
use aleatron_eval::multiplier::{MAP_SIDE, MultiplierStats};
use aleatron_eval::report;

/// Errors of zero except for two blocks.
fn stats(x: &str, length: usize) -> MultiplierStats {
    let mut map = vec![0.0; MAP_SIDE * MAP_SIDE];
    (map[3 * MAP_SIDE + 5], map[MAP_SIDE * MAP_SIDE - 1]) = (0.5, 0.25);
    MultiplierStats {
        x: x.to_owned(),
        y: "b<".to_owned(),
        length,
        mae: 0.125,
        rmse: 0.25,
        bias: -0.0625,
        worst: 0.75,
        mean_scc: 0.5,
        mean_zce: 0.03125,
        map,
    }
}

#[test]
fn table_rows_have_all_figures() {
    let page = report::multiplier(&[stats("a", 16), stats("a", 32), stats("c", 16)]);
    let rows: Vec<&str> =
        page.lines().filter(|line| line.starts_with("<tr") && line.contains("<td")).collect();
    let figures = "<td>0.12500</td><td>0.25000</td><td>-0.06250</td><td>0.75000</td><td>0.5000</td><td>0.03125</td></tr>";
    assert_eq!(
        rows,
        [
            format!("<tr class=\"first\"><td class=\"text\">a, b&lt;</td><td>16</td>{figures}"),
            format!("<tr><td class=\"text\">a, b&lt;</td><td>32</td>{figures}"),
            format!("<tr class=\"first\"><td class=\"text\">c, b&lt;</td><td>16</td>{figures}"),
        ]
    );
    let maps = section(&page, "Where the errors are");
    assert_eq!(drawings(maps).len(), 3);
    assert!(maps.contains("<h3>a, b&lt;<small>32 bits, up to 0.5000</small></h3>"));
    assert!(page.contains("<h1>Multiplier errors</h1>") && page.ends_with("</html>\n"));
}

#[test]
fn error_map_has_every_block_once_at_its_coordinates() {
    let all = elements(&report::heat_map(&stats("a", 16)));
    let svg = &all[0];
    assert_eq!(
        [svg.text("width"), svg.text("height"), svg.text("viewBox")],
        ["294", "290", "0 0 294 290"]
    );
    assert_eq!(svg.text("xmlns"), "http://www.w3.org/2000/svg");
    assert_eq!(svg.all("g")[0].text("transform"), "translate(40 6) scale(3.875)");
    let share = |percent: u32| {
        let fill = format!(
            "fill:color-mix(in srgb, var(--heat, #2a78d6) {percent}%, var(--surface, #fcfcfb))"
        );
        let path = svg.all("path").into_iter().find(|path| path.text("style") == fill);
        path.unwrap_or_else(|| panic!("nothing has {percent} %")).text("d").to_owned()
    };
    assert_eq!(svg.all("path").len(), 3);
    // X = 3 blocks up from the bottom, Y = 5 to the right; and the top right corner.
    assert_eq!(share(100), "M5 60h1v1h-1z");
    assert_eq!(share(50), "M63 0h1v1h-1z");
    let rest = share(0);
    assert_eq!(rest.matches('M').count(), MAP_SIDE * MAP_SIDE - 2);
    assert!(rest.starts_with("M0 63h1v1h-1zM1 63h1v1h-1z") && rest.ends_with("M62 0h1v1h-1z"));
    // A frame, both ends of both axes, and the names of the axes.
    let frame = &svg.all("rect")[0];
    assert_eq!(
        ["x", "y", "width", "height"].map(|side| frame.number(side)),
        [40.0, 6.0, 248.0, 248.0]
    );
    let texts: Vec<(String, String)> =
        svg.all("text").iter().map(|text| (text.inside.clone(), position(text))).collect();
    let expected = [
        ("0", "40 272"),
        ("255", "288 272"),
        ("Y (b&lt;)", "164 272"),
        ("0", "34 254"),
        ("255", "34 18"),
        ("X (a)", "translate(18 130) rotate(-90)"),
    ];
    assert_eq!(texts, expected.map(|(inside, position)| (inside.to_owned(), position.to_owned())));
    // A map without errors has no shades.
    let exact = MultiplierStats { map: vec![0.0; MAP_SIDE * MAP_SIDE], ..stats("a", 16) };
    assert_eq!(elements(&report::heat_map(&exact))[0].all("path").len(), 1);
}

fn position(text: &Element) -> String {
    match text.attributes.get("transform") {
        Some(transform) => transform.clone(),
        None => format!("{} {}", text.number("x"), text.number("y")),
    }
}

#[test]
fn csv_line_has_the_columns_of_its_heading() {
    let line = stats("a", 16).csv();
    assert_eq!(line, "a,b<,16,0.125,0.25,-0.0625,0.75,0.5,0.03125");
    assert_eq!(MultiplierStats::CSV_HEADING.split(',').count(), line.split(',').count());
}

//! Tables: one row per generator and length, with the figures of its cells.

use super::{cell, evaluation, example, page, section};
use crate::support::Classes;

/// Returns the rows of a part's table but the heading.
fn rows(part: &str) -> Vec<&str> {
    part.lines().filter(|line| line.starts_with("<tr") && line.contains("<td")).collect()
}

#[test]
fn table_figures_are_those_of_the_cells() {
    let page = page(&example());
    let part = section(&page, "All figures");
    assert!(part.contains(
        "<th class=\"text\">generator</th><th>bits</th><th>accuracy %</th><th>interval</th>"
    ));
    assert!(part.contains(
        "<th>agrees with float %</th><th>layer only error %</th><th>samples/s</th><th>bit-MAC/s</th></tr>"
    ));
    let rows = rows(part);
    assert_eq!(rows.len(), 6);
    assert_eq!(
        rows[0],
        "<tr class=\"first\"><td class=\"text\">sobol</td><td>8</td><td>70.00</td><td>-</td><td>69.00</td><td>6.25</td>\
         <td>1.50 k</td><td>2.50 G</td></tr>"
    );
    // 66 and 74: 70, give or take 12.706 times 4.
    assert_eq!(
        rows[4],
        "<tr><td class=\"text\">bernoulli</td><td>16</td><td>70.00</td><td>19.18 to 100.00</td><td>69.00</td>\
         <td>3.12</td><td>1.50 k</td><td>2.50 G</td></tr>"
    );
    let firsts: Vec<bool> =
        rows.iter().map(|row| row.starts_with("<tr class=\"first\">")).collect();
    assert_eq!(firsts, [true, false, false, true, false, false]);
}

#[test]
fn early_termination_table_has_its_figures() {
    let page = page(&example());
    let part = section(&page, "Stopping early");
    let rows = rows(part);
    assert_eq!(rows.len(), 6);
    // Far from floating point: no figures, except for certain stops.
    assert_eq!(
        rows[0],
        "<tr class=\"first\"><td class=\"text\">sobol</td><td>8</td><td>-</td><td>-</td><td>-</td><td>-</td><td>-</td><td>4.0</td></tr>"
    );
    // A margin of 1 loses a fifth of a point and takes a quarter of the cycles.
    assert_eq!(
        rows[2],
        "<tr><td class=\"text\">sobol</td><td>64</td><td>16.0</td><td>25 %</td><td>0.20</td><td>75 %</td><td>1</td><td>32.0</td></tr>"
    );
    assert!(rows[3].starts_with("<tr class=\"first\"><td class=\"text\">bernoulli</td><td>8</td>"));
    assert!(rows[4].starts_with("<tr><td class=\"text\">bernoulli</td><td>16</td>"));

    let mut lossy = evaluation(vec![cell("sobol", 64, 0, 90)]);
    lossy.cells[0].classes_mut().early[0].accuracy_lost = 0.02;
    lossy.cells[0].classes_mut().early[1].accuracy_lost = -0.0;
    lossy.cells[0].classes_mut().certain = None;
    let page = super::page(&lossy);
    assert_eq!(
        self::rows(section(&page, "Stopping early")),
        [
            "<tr class=\"first\"><td class=\"text\">sobol</td><td>64</td><td>32.0</td><td>50 %</td><td>0.00</td><td>38 %</td><td>2</td><td>-</td></tr>"
        ]
    );
}

//! Maps: numbers as shades of one colour.

use super::escape;

/// A shade between nothing and the full colour. It stays light enough for the text on it.
pub(super) fn shade(share: f64) -> String {
    format!("color-mix(in srgb, var(--heat) {:.0}%, var(--panel))", 72.0 * share.clamp(0.0, 1.0))
}

/// A table of numbers, each on a shade of its size.
pub(super) struct Grid<'a> {
    pub(super) rows: &'a [String],
    pub(super) columns: &'a [String],
    /// The text of each cell, which may be empty, and the share of its shade.
    pub(super) cells: &'a [Vec<(String, f64)>],
    /// The size of a cell.
    pub(super) size: [f64; 2],
    pub(super) x_label: &'a str,
    pub(super) y_label: &'a str,
}

impl Grid<'_> {
    pub(super) fn svg(&self) -> String {
        let [w, h] = self.size;
        // Small cells have no room for gaps.
        let gap = if w < 16.0 { 0.0 } else { 1.0 };
        let longest = self.rows.iter().map(|row| row.chars().count()).max().unwrap_or(0) as f64;
        let left = 12.0 + longest * 7.0 + if self.y_label.is_empty() { 0.0 } else { 18.0 };
        let (top, bottom) = (24.0, if self.x_label.is_empty() { 4.0 } else { 26.0 });
        let (width, height) =
            (left + w * self.columns.len() as f64 + 4.0, top + h * self.rows.len() as f64 + bottom);
        let mut out = format!(
            "<svg viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\">\n"
        );
        let text = |x: f64, y: f64, anchor: &str, class: &str, text: &str| {
            format!(
                "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\"{class}>{}</text>\n",
                escape(text)
            )
        };
        for (k, column) in self.columns.iter().enumerate() {
            out.push_str(&text(left + w * (k as f64 + 0.5), top - 8.0, "middle", "", column));
        }
        for (r, (row, cells)) in self.rows.iter().zip(self.cells).enumerate() {
            let y = top + h * r as f64;
            out.push_str(&text(left - 8.0, y + h / 2.0 + 4.0, "end", "", row));
            for (c, (value, share)) in cells.iter().enumerate() {
                let x = left + w * c as f64;
                out.push_str(&format!(
                    "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{}\" height=\"{}\" rx=\"2\" style=\"fill:{}\">\
                     <title>{} / {}: {}</title></rect>\n",
                    x + gap,
                    y + gap,
                    w - 2.0 * gap,
                    h - 2.0 * gap,
                    shade(*share),
                    escape(row),
                    escape(self.columns.get(c).map_or("", String::as_str)),
                    escape(value)
                ));
                if !value.is_empty() {
                    out.push_str(&text(
                        x + w / 2.0,
                        y + h / 2.0 + 4.0,
                        "middle",
                        " class=\"value\"",
                        value,
                    ));
                }
            }
        }
        if !self.x_label.is_empty() {
            out.push_str(&text(
                left + w * self.columns.len() as f64 / 2.0,
                height - 8.0,
                "middle",
                "",
                self.x_label,
            ));
        }
        if !self.y_label.is_empty() {
            let y = top + h * self.rows.len() as f64 / 2.0;
            out.push_str(&format!(
                "<text transform=\"translate(12 {y:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
                escape(self.y_label)
            ));
        }
        out.push_str("</svg>\n");
        out
    }
}

/// Shades told apart in a fine map.
const LEVELS: usize = 24;

/// A square map of many values, `side` rows of as many, drawn as one path per shade; row 0 is at
/// the bottom.
pub(super) fn map(
    values: &[f64],
    side: usize,
    greatest: f64,
    size: f64,
    axis: [&str; 2],
) -> String {
    let (left, bottom, top) = (40.0, 36.0, 6.0);
    let (width, height) = (left + size + 6.0, top + size + bottom);
    let mut paths = vec![String::new(); LEVELS + 1];
    for (k, value) in values.iter().enumerate() {
        let share = if greatest > 0.0 { (value / greatest).clamp(0.0, 1.0) } else { 0.0 };
        let level = (share * LEVELS as f64).round() as usize;
        paths[level].push_str(&format!("M{} {}h1v1h-1z", k % side, side - 1 - k / side));
    }
    let scale = size / side as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" shape-rendering=\"crispEdges\">\n\
         <g transform=\"translate({left} {top}) scale({scale})\">\n"
    );
    for (level, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
        let percent = 100.0 * level as f64 / LEVELS as f64;
        out.push_str(&format!(
            "<path d=\"{path}\" style=\"fill:color-mix(in srgb, var(--heat, #2a78d6) {percent:.0}%, var(--surface, #fcfcfb))\"/>\n"
        ));
    }
    let [x_axis, y_axis] = axis.map(escape);
    let (base, middle) = (top + size, left + size / 2.0);
    out.push_str(&format!(
        "</g>\n<rect x=\"{left}\" y=\"{top}\" width=\"{size}\" height=\"{size}\" fill=\"none\" class=\"grid\"/>\n\
         <text x=\"{left}\" y=\"{0}\">0</text><text x=\"{1}\" y=\"{0}\" text-anchor=\"end\">255</text>\
         <text x=\"{middle}\" y=\"{0}\" text-anchor=\"middle\">{x_axis}</text>\n\
         <text x=\"{2}\" y=\"{base}\" text-anchor=\"end\">0</text><text x=\"{2}\" y=\"{3}\" text-anchor=\"end\">255</text>\
         <text transform=\"translate({4} {5}) rotate(-90)\" text-anchor=\"middle\">{y_axis}</text>\n</svg>\n",
        base + 18.0,
        left + size,
        left - 6.0,
        top + 12.0,
        left - 22.0,
        top + size / 2.0,
    ));
    out
}

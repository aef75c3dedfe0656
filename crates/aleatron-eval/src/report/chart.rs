//! Curves, as SVG.

use super::escape;
use crate::text::short;

/// A curve.
pub(super) struct Curve {
    pub(super) name: String,
    pub(super) points: Vec<Point>,
}

/// A point of a curve.
#[derive(Clone)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    /// The ends of its band, where it has one.
    pub(super) band: Option<[f64; 2]>,
    /// The values it is the mean of, where they are few enough to be shown.
    pub(super) values: Vec<f64>,
    /// What it says when it is pointed at.
    pub(super) text: String,
}

/// How numbers are laid out along an axis.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    Linear,
    Logarithmic,
}

/// One of the two axes.
pub(super) struct Axis {
    pub(super) title: &'static str,
    pub(super) scale: Scale,
    pub(super) range: [f64; 2],
    /// Where its labels are, and what they say.
    pub(super) ticks: Vec<(f64, String)>,
}

impl Axis {
    /// Percentages between two bounds.
    pub(super) fn percent(title: &'static str, [low, high]: [f64; 2]) -> Self {
        let steps = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0];
        let step = steps.into_iter().find(|step| (high - low) / step <= 7.0).unwrap_or(20.0);
        let (first, last) = ((low / step).ceil() as i64, (high / step + 1e-9).floor() as i64);
        let value = |k: i64| (k as f64 * step * 10.0).round() / 10.0;
        let ticks = (first..=last).map(value).map(|value| (value, format!("{value} %"))).collect();
        Self { title, scale: Scale::Linear, range: [low, high], ticks }
    }

    /// Returns a linear axis with about six labels.
    pub(super) fn linear(title: &'static str, [low, high]: [f64; 2]) -> Self {
        let span = (high - low).max(f64::MIN_POSITIVE);
        let raw = span / 6.0;
        let decade = 10f64.powf(raw.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|m| m * decade);
        let step = steps.into_iter().find(|&s| s >= raw).unwrap_or(raw);
        let first = (low / step).ceil() as i64;
        let ticks =
            (first..).map(|k| k as f64 * step).take_while(|&value| value <= high + 1e-9 * span);
        let ticks = ticks.map(|value| (value, short(value))).collect();
        Self { title, scale: Scale::Linear, range: [low, high], ticks }
    }

    /// Positive numbers by their logarithm, labelled at the given places.
    pub(super) fn logarithmic(title: &'static str, places: &[f64]) -> Self {
        let low = places.iter().copied().fold(f64::MAX, f64::min);
        let high = places.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let ticks = places.iter().map(|&place| (place, format!("{place}"))).collect();
        Self { title, scale: Scale::Logarithmic, range: [low, high], ticks }
    }

    /// Powers of ten around all of some positive numbers.
    pub(super) fn decades(title: &'static str, values: impl Iterator<Item = f64>) -> Option<Self> {
        let (low, high) = values
            .filter(|value| *value > 0.0)
            .fold((f64::MAX, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        if high == 0.0 {
            return None;
        }
        let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        let last = last.max(first + 1);
        let label = |k: i32| {
            (
                10f64.powi(k),
                if (-3..=4).contains(&k) { format!("{}", 10f64.powi(k)) } else { format!("1e{k}") },
            )
        };
        let range = [10f64.powi(first), 10f64.powi(last)];
        Some(Self {
            title,
            scale: Scale::Logarithmic,
            range,
            ticks: (first..=last).map(label).collect(),
        })
    }

    /// The share of the way from one end to the other.
    fn share(&self, value: f64) -> f64 {
        let place = |value: f64| match self.scale {
            Scale::Linear => value,
            Scale::Logarithmic => value.max(f64::MIN_POSITIVE).ln(),
        };
        let [low, high] = self.range.map(place);
        if high > low { (place(value) - low) / (high - low) } else { 0.5 }
    }
}

/// Some curves between two axes.
pub(super) struct Chart<'a> {
    pub(super) curves: &'a [Curve],
    pub(super) x: Axis,
    pub(super) y: Axis,
    /// A dashed line across.
    pub(super) level: Option<f64>,
    pub(super) label: &'a str,
}

// Text is readable down to half this size.
const SIZE: [f64; 2] = [760.0, 380.0];
const LEFT: f64 = 66.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 58.0;

/// Colours, strokes and marks: as many curves as their product can be told apart.
const COLOURS: usize = 8;
const STROKES: [&str; 4] = ["", "7 4", "2 4", "9 4 2 4"];

fn stroke(k: usize) -> &'static str {
    STROKES[k / COLOURS % STROKES.len()]
}

/// The mark of a curve at a place.
fn mark(k: usize, x: f64, y: f64, text: &str) -> String {
    let style = "fill=\"currentColor\" stroke=\"var(--panel)\" stroke-width=\"1.5\"";
    let title =
        if text.is_empty() { String::new() } else { format!("<title>{}</title>", escape(text)) };
    match k / COLOURS % STROKES.len() {
        0 => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\" {style}>{title}</circle>"),
        1 => format!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"8\" height=\"8\" {style}>{title}</rect>",
            x - 4.0,
            y - 4.0
        ),
        2 => {
            let path = format!("M{x:.1} {:.1}l5.5 5.5 -5.5 5.5 -5.5 -5.5z", y - 5.5);
            format!("<path d=\"{path}\" {style}>{title}</path>")
        }
        _ => {
            let path = format!("M{x:.1} {:.1}l5.5 9.5h-11z", y - 5.5);
            format!("<path d=\"{path}\" {style}>{title}</path>")
        }
    }
}

/// The legend of some curves and of the dashed line.
pub(super) fn legend(curves: &[Curve], line: Option<&str>) -> String {
    let mut out = String::from("<ul class=\"legend\">");
    for (k, curve) in curves.iter().enumerate().filter(|(_, curve)| !curve.points.is_empty()) {
        out.push_str(&format!(
            "<li><svg width=\"34\" height=\"14\" viewBox=\"0 0 34 14\" style=\"color:var(--c{})\"><line x1=\"1\" x2=\"33\" y1=\"7\" y2=\"7\" \
             stroke=\"currentColor\" stroke-width=\"2\" stroke-dasharray=\"{}\"/>{}</svg>{}</li>",
            k % COLOURS,
            stroke(k),
            mark(k, 17.0, 7.0, ""),
            escape(&curve.name)
        ));
    }
    if let Some(line) = line {
        out.push_str(&format!("<li><i class=\"dash\"></i>{}</li>", escape(line)));
    }
    out.push_str("</ul>\n");
    out
}

impl Chart<'_> {
    /// Draws the curves.
    pub(super) fn svg(&self) -> String {
        let drawn = self.curves.iter().enumerate().filter(|(_, curve)| !curve.points.is_empty());
        let curves: String = drawn.map(|(k, curve)| self.draw(k, curve)).collect();
        self.frame(&curves)
    }

    /// Returns a drawing with the axes around it.
    pub(super) fn frame(&self, drawing: &str) -> String {
        let [width, height] = SIZE;
        let mut out = format!(
            "<svg class=\"chart\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"{}\">\n",
            escape(self.label)
        );
        for (value, text) in &self.y.ticks {
            let y = self.place_y(*value);
            out.push_str(&format!(
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
                width - RIGHT,
                LEFT - 8.0,
                y + 5.0,
                escape(text)
            ));
        }
        let mut free_from = f64::MIN;
        for (value, text) in &self.x.ticks {
            let (x, half) = (self.place_x(*value), 6.0 * text.chars().count() as f64);
            // Labels that would run into the one before are left out.
            if x - half >= free_from {
                let y = height - BOTTOM + 22.0;
                out.push_str(&format!(
                    "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{}</text>\n",
                    escape(text)
                ));
                free_from = x + half + 6.0;
            }
        }
        out.push_str(&format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
            LEFT + (width - LEFT - RIGHT) / 2.0,
            height - 10.0,
            escape(self.x.title)
        ));
        if let Some(level) = self.level {
            let y = self.place_y(level);
            out.push_str(&format!(
                "<line class=\"float\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\n",
                width - RIGHT
            ));
        }
        // In a close-up, curves leave the frame: a nested drawing cuts them off at its edge.
        let inner = height - BOTTOM + 7.0;
        out.push_str(&format!(
            "<svg width=\"{width}\" height=\"{inner}\" viewBox=\"0 0 {width} {inner}\">\n{drawing}</svg>\n</svg>\n"
        ));
        out
    }

    pub(super) fn place_x(&self, value: f64) -> f64 {
        LEFT + 14.0 + self.x.share(value) * (SIZE[0] - LEFT - RIGHT - 28.0)
    }

    pub(super) fn place_y(&self, value: f64) -> f64 {
        SIZE[1] - BOTTOM - self.y.share(value) * (SIZE[1] - TOP - BOTTOM)
    }

    fn draw(&self, k: usize, curve: &Curve) -> String {
        let at =
            |point: &Point, y: f64| format!("{:.1},{:.1}", self.place_x(point.x), self.place_y(y));
        let mut out = format!("<g style=\"color:var(--c{})\">", k % COLOURS);
        let banded: Vec<(&Point, [f64; 2])> =
            curve.points.iter().filter_map(|point| Some((point, point.band?))).collect();
        if banded.len() > 1 {
            let upper = banded.iter().map(|(point, [_, high])| at(point, *high));
            let lower = banded.iter().rev().map(|(point, [low, _])| at(point, *low));
            let band: Vec<String> = upper.chain(lower).collect();
            out.push_str(&format!(
                "<polygon points=\"{}\" fill=\"currentColor\" opacity=\"0.12\"/>",
                band.join(" ")
            ));
        }
        let line: Vec<String> = curve.points.iter().map(|point| at(point, point.y)).collect();
        out.push_str(&format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"2\" stroke-linejoin=\"round\" \
             stroke-dasharray=\"{}\"/>\n",
            line.join(" "),
            stroke(k)
        ));
        for point in &curve.points {
            for &value in &point.values {
                let (x, y) = (self.place_x(point.x), self.place_y(value));
                out.push_str(&format!(
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2\" fill=\"currentColor\" opacity=\"0.6\"/>\n"
                ));
            }
        }
        let [low, high] = self.y.range;
        for point in curve.points.iter().filter(|point| (low..=high).contains(&point.y)) {
            out.push_str(&mark(k, self.place_x(point.x), self.place_y(point.y), &point.text));
            out.push('\n');
        }
        out.push_str("</g>\n");
        out
    }
}

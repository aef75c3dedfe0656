//! Curves over the length of streams.

use super::{COLOURS, escape};

/// A curve with a band.
pub(super) struct Curve {
    pub(super) name: String,
    pub(super) points: Vec<Point>,
}

/// A value at a length, with the ends of its band.
pub(super) struct Point {
    pub(super) length: usize,
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

const SIZE: [f64; 2] = [980.0, 340.0];
const LEFT: f64 = 52.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 44.0;

/// Where things are: lengths by their logarithm, percentages straight.
struct Frame {
    lengths: [f64; 2],
    range: [f64; 2],
}

impl Frame {
    fn x(&self, length: usize) -> f64 {
        let [first, last] = self.lengths;
        let share = if last > first { ((length as f64).log2() - first) / (last - first) } else { 0.5 };
        LEFT + 12.0 + share * (SIZE[0] - LEFT - RIGHT - 24.0)
    }

    fn y(&self, value: f64) -> f64 {
        let [low, high] = self.range;
        let share = (value - low) / (high - low);
        SIZE[1] - BOTTOM - share * (SIZE[1] - TOP - BOTTOM)
    }
}

/// The legend of some curves and the dashed line.
pub(super) fn legend(curves: &[Curve], line: &str) -> String {
    let mut out = String::from("<ul class=\"legend\">");
    for (k, curve) in curves.iter().enumerate() {
        let (name, colour) = (escape(&curve.name), k % COLOURS);
        out.push_str(&format!("<li><i style=\"background:var(--c{colour})\"></i>{name}</li>"));
    }
    out.push_str(&format!("<li><i class=\"dash\"></i>{}</li></ul>\n", escape(line)));
    out
}

/// Curves of percentages between `range`, with a dashed line at `level`.
pub(super) fn curves(curves: &[Curve], level: f64, range: [f64; 2], label: &str) -> String {
    let mut lengths: Vec<usize> =
        curves.iter().flat_map(|curve| &curve.points).map(|point| point.length).collect();
    lengths.sort_unstable();
    lengths.dedup();
    let (Some(&first), Some(&last)) = (lengths.first(), lengths.last()) else { return String::new() };
    let frame = Frame { lengths: [(first as f64).log2(), (last as f64).log2()], range };
    let [width, height] = SIZE;
    let mut out = format!(
        "<svg class=\"chart\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"{}\">\n",
        escape(label)
    );
    for value in ticks(range) {
        let y = frame.y(value);
        out.push_str(&format!(
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{value} %</text>\n",
            width - RIGHT,
            LEFT - 8.0,
            y + 4.0
        ));
    }
    let mut free_from = f64::MIN;
    for &length in &lengths {
        let x = frame.x(length);
        // Labels that would run into the one before are left out.
        if x >= free_from {
            let y = height - BOTTOM + 20.0;
            out.push_str(&format!(
                "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{length}</text>\n"
            ));
            free_from = x + 9.0 * length.to_string().len() as f64 + 8.0;
        }
    }
    out.push_str(&format!(
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">bits per stream</text>\n",
        LEFT + (width - LEFT - RIGHT) / 2.0,
        height - 6.0
    ));
    let y = frame.y(level);
    out.push_str(&format!(
        "<line class=\"float\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\n",
        width - RIGHT
    ));
    // In a close-up, curves leave the frame: a nested drawing cuts them off at its edge.
    let inner = height - BOTTOM + 6.0;
    out.push_str(&format!("<svg width=\"{width}\" height=\"{inner}\" viewBox=\"0 0 {width} {inner}\">\n"));
    for (k, curve) in curves.iter().enumerate() {
        out.push_str(&draw(curve, &frame, k % COLOURS));
    }
    out.push_str("</svg>\n</svg>\n");
    out
}

fn draw(curve: &Curve, frame: &Frame, colour: usize) -> String {
    let at = |point: &Point, value: f64| format!("{:.1},{:.1}", frame.x(point.length), frame.y(value));
    let join = |points: Vec<String>| points.join(" ");
    let upper = curve.points.iter().map(|point| at(point, point.high));
    let lower = curve.points.iter().rev().map(|point| at(point, point.low));
    let band = join(upper.chain(lower).collect());
    let line = join(curve.points.iter().map(|point| at(point, point.value)).collect());
    let mut out = format!(
        "<g style=\"color:var(--c{colour})\"><polygon points=\"{band}\" fill=\"currentColor\" opacity=\"0.13\"/>\
         <polyline points=\"{line}\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"2\" stroke-linejoin=\"round\"/>\n"
    );
    for point in curve.points.iter().filter(|point| point.value >= frame.range[0]) {
        out.push_str(&format!(
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"currentColor\" stroke=\"var(--panel)\" stroke-width=\"1.5\">\
             <title>{}, {} bits: {:.2} % [{:.2}, {:.2}]</title></circle>\n",
            frame.x(point.length),
            frame.y(point.value),
            escape(&curve.name),
            point.length,
            point.value,
            point.low,
            point.high
        ));
    }
    out.push_str("</g>\n");
    out
}

/// Round numbers in a range, four to eight of them.
fn ticks([low, high]: [f64; 2]) -> Vec<f64> {
    let step = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0].into_iter().find(|step| (high - low) / step <= 7.0);
    let step = step.unwrap_or(20.0);
    let (first, last) = ((low / step).ceil() as i64, (high / step + 1e-9).floor() as i64);
    (first..=last).map(|k| (k as f64 * step * 10.0).round() / 10.0).collect()
}

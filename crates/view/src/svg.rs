//! Charts as SVG. Colours are classes, so that light mode, dark mode and exported files share them.

use std::fmt::Write as _;

use crate::html::Html;
use crate::number::{count, short};
use crate::put;

/// A curve chart.
#[derive(Debug, Clone, Default)]
pub struct Chart {
    pub title: String,
    /// Description of the plot, for the reader of the chart.
    pub about: String,
    pub lines: Vec<Line>,
    pub dots: Vec<Dot>,
    pub marks: Vec<Mark>,
    /// Steps to show; all of them without.
    pub range: Option<[u64; 2]>,
    /// Weight of the past in the smoothed curve, 0 to 1.
    pub smooth: f64,
    /// The names of the metrics, for a link to the numbers.
    pub wide: bool,
    /// Quantity along the axis if it is not the step: the chart then has no zoom and no clicks.
    pub along: Option<&'static str>,
}

/// One curve.
#[derive(Debug, Clone, Default)]
pub struct Line {
    pub label: String,
    /// The run it belongs to; a click on it opens that run's step.
    pub run: usize,
    pub colour: usize,
    pub points: Vec<(u64, f64)>,
}

/// A measurement beside the curves, with its interval.
#[derive(Debug, Clone, Default)]
pub struct Dot {
    pub label: String,
    pub colour: usize,
    pub step: u64,
    pub value: f64,
    pub interval: Option<[f64; 2]>,
    pub href: Option<String>,
}

/// A moment of the run: an evaluation, a checkpoint, a finding.
#[derive(Debug, Clone, Default)]
pub struct Mark {
    pub kind: &'static str,
    pub step: u64,
    pub label: String,
}

const LEFT: f64 = 46.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 20.0;
/// Maximum points of a curve: more than the pixels can show are averaged.
const POINTS: usize = 320;

struct Frame {
    width: f64,
    height: f64,
    x: [f64; 2],
    y: [f64; 2],
}

impl Frame {
    fn x(&self, step: u64) -> f64 {
        let [low, high] = self.x;
        LEFT + (step as f64 - low) / (high - low).max(1e-9) * (self.width - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        let [low, high] = self.y;
        self.height - BOTTOM - (value - low) / (high - low).max(1e-300) * (self.height - TOP - BOTTOM)
    }
}

impl Chart {
    pub fn is_empty(&self) -> bool {
        self.lines.iter().all(|line| line.points.is_empty()) && self.dots.is_empty()
    }

    fn within(&self, step: u64) -> bool {
        self.range.is_none_or(|[from, to]| (from..=to).contains(&step))
    }

    pub fn svg(&self) -> Html {
        let (width, height) = if self.wide { (860.0, 260.0) } else { (420.0, 176.0) };
        let lines: Vec<Drawn> = self.lines.iter().map(|line| self.drawn(line)).collect();
        let steps = lines
            .iter()
            .flat_map(|line| &line.raw)
            .map(|point| point.0)
            .chain(self.dots.iter().map(|dot| dot.step).filter(|step| self.within(*step)));
        let [first, last] = steps.fold([u64::MAX, 0], |[low, high], step| [low.min(step), high.max(step)]);
        let [first, last] = self.range.unwrap_or(if first > last { [0, 1] } else { [first, last] });
        let values = lines.iter().flat_map(|line| line.raw.iter().map(|point| point.1));
        let dots = || self.dots.iter().filter(|dot| self.within(dot.step));
        let values = values.chain(dots().flat_map(|dot| dot.interval.unwrap_or([dot.value; 2])));
        let frame = Frame { width, height, x: [first as f64, last.max(first + 1) as f64], y: bounds(values) };
        let mut out = Html::new();
        put!(
            out,
            "<svg class=\"chart\" viewBox=\"0 0 ",
            width,
            " ",
            height,
            "\" role=\"img\" aria-label=\"",
            self.summary(),
            "\" data-x0=\"",
            first,
            "\" data-x1=\"",
            last.max(first + 1),
            "\" data-y0=\"",
            short_exact(frame.y[0]),
            "\" data-y1=\"",
            short_exact(frame.y[1]),
            "\""
        );
        if let Some(along) = self.along {
            put!(out, " data-along=\"", along, "\"");
        }
        put!(out, ">");
        axes(&frame, &mut out);
        for mark in self.marks.iter().filter(|mark| self.within(mark.step) && (first..=last).contains(&mark.step)) {
            let x = frame.x(mark.step);
            put!(
                out,
                "<g class=\"mark ",
                mark.kind,
                "\"><line x1=\"",
                x,
                "\" x2=\"",
                x,
                "\" y1=\"",
                TOP,
                "\" y2=\"",
                height - BOTTOM,
                "\"/><path d=\"M",
                x - 3.0,
                " ",
                height - BOTTOM,
                "h6l-3 -5z\"/><title>",
                mark.label,
                "</title></g>"
            );
        }
        for line in &lines {
            line.draw(&frame, self.smooth > 0.0, &mut out);
        }
        for dot in dots() {
            draw_dot(dot, &frame, &mut out);
        }
        put!(out, "<line class=\"rule\" y1=\"", TOP, "\" y2=\"", height - BOTTOM, "\" x1=\"-9\" x2=\"-9\"/></svg>");
        out
    }

    fn drawn(&self, line: &Line) -> Drawn {
        let within: Vec<(u64, f64)> =
            line.points.iter().copied().filter(|(step, value)| self.within(*step) && value.is_finite()).collect();
        let smooth = smoothed(&within, self.smooth);
        Drawn {
            label: line.label.clone(),
            run: line.run,
            colour: line.colour,
            raw: thinned(&within),
            smooth: thinned(&smooth),
        }
    }

    /// The chart in words, for screen readers.
    fn summary(&self) -> String {
        let part = |line: &Line| {
            let (first, last) = (line.points.first()?, line.points.last()?);
            let along = self.along.unwrap_or("step");
            Some(format!(
                "{} from {} at {along} {} to {} at {along} {}",
                line.label,
                short(first.1),
                first.0,
                short(last.1),
                last.0
            ))
        };
        let parts: Vec<String> = self.lines.iter().filter_map(part).collect();
        format!("{}: {}", self.title, parts.join("; "))
    }
}

struct Drawn {
    label: String,
    run: usize,
    colour: usize,
    raw: Vec<(u64, f64)>,
    smooth: Vec<(u64, f64)>,
}

impl Drawn {
    fn draw(&self, frame: &Frame, is_smooth: bool, out: &mut Html) {
        if self.raw.is_empty() {
            return;
        }
        let shown = if is_smooth { &self.smooth } else { &self.raw };
        let mut data = String::new();
        for (step, value) in shown {
            let _ = write!(data, "{step}:{} ", short_exact(*value));
        }
        put!(
            out,
            "<g class=\"line s",
            self.colour,
            "\" data-run=\"",
            self.run,
            "\" data-label=\"",
            self.label,
            "\" data-points=\"",
            data.trim_end(),
            "\">"
        );
        if is_smooth {
            put!(out, "<path class=\"raw\" d=\"", path(&self.raw, frame), "\"/>");
        }
        put!(out, "<path d=\"", path(shown, frame), "\"/>");
        if let [(step, value)] = shown[..] {
            put!(out, "<circle cx=\"", frame.x(step), "\" cy=\"", frame.y(value), "\" r=\"2.5\"/>");
        }
        put!(out, "</g>");
    }
}

fn draw_dot(dot: &Dot, frame: &Frame, out: &mut Html) {
    let (x, y) = (frame.x(dot.step), frame.y(dot.value));
    let interval = dot.interval.map_or_else(String::new, |[low, high]| format!(" [{}, {}]", short(low), short(high)));
    let title = format!("{} at step {}: {}{interval}", dot.label, dot.step, short(dot.value));
    if let Some(href) = &dot.href {
        put!(out, "<a href=\"", href, "\" aria-label=\"", title, "\">");
    }
    put!(out, "<g class=\"dot s", dot.colour, "\">");
    if let Some([low, high]) = dot.interval {
        put!(out, "<line x1=\"", x, "\" x2=\"", x, "\" y1=\"", frame.y(low), "\" y2=\"", frame.y(high), "\"/>");
    }
    put!(out, "<circle cx=\"", x, "\" cy=\"", y, "\" r=\"3\"/><title>", title, "</title></g>");
    if dot.href.is_some() {
        put!(out, "</a>");
    }
}

fn path(points: &[(u64, f64)], frame: &Frame) -> String {
    let mut path = String::with_capacity(points.len() * 12);
    for (at, (step, value)) in points.iter().enumerate() {
        path.push(if at == 0 { 'M' } else { 'L' });
        let _ = write!(path, "{:.1} {:.1}", frame.x(*step), frame.y(*value));
    }
    path
}

fn axes(frame: &Frame, out: &mut Html) {
    let values = ticks(frame.y, 4);
    for (value, label) in values.iter().zip(labels(&values)) {
        let y = frame.y(*value);
        put!(
            out,
            "<line class=\"grid\" x1=\"",
            LEFT,
            "\" x2=\"",
            frame.width - RIGHT,
            "\" y1=\"",
            y,
            "\" y2=\"",
            y,
            "\"/><text class=\"tick\" text-anchor=\"end\" x=\"",
            LEFT - 5.0,
            "\" y=\"",
            y + 3.5,
            "\">",
            label,
            "</text>"
        );
    }
    for value in ticks(frame.x, 5).into_iter().filter(|value| value.fract() == 0.0) {
        let x = frame.x(value as u64);
        put!(
            out,
            "<text class=\"tick\" text-anchor=\"middle\" x=\"",
            x,
            "\" y=\"",
            frame.height - 5.0,
            "\">",
            tick(value),
            "</text>"
        );
    }
}

/// Tick labels, with enough digits to distinguish them.
fn labels(values: &[f64]) -> Vec<String> {
    let labels: Vec<String> = values.iter().map(|value| tick(*value)).collect();
    match values {
        [first, second, ..] if labels.windows(2).any(|pair| pair[0] == pair[1]) => {
            let digits = (-(second - first).abs().log10()).ceil().clamp(0.0, 12.0) as usize;
            values.iter().map(|value| format!("{value:.digits$}")).collect()
        }
        _ => labels,
    }
}

fn tick(value: f64) -> String {
    let text = short(value);
    if text.contains('.') && !text.contains('e') && !text.ends_with(['k', 'M']) {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// Round numbers inside the bounds.
fn ticks([low, high]: [f64; 2], about: u32) -> Vec<f64> {
    let raw = (high - low) / f64::from(about);
    if raw.is_nan() || raw <= 0.0 {
        return vec![low];
    }
    let size = 10_f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * size).into_iter().find(|step| *step >= raw).unwrap_or(size);
    let first = (low / step).ceil() as i64;
    (first..first + 20).map(|at| at as f64 * step).take_while(|value| *value <= high + step * 1e-6).collect()
}

/// A little room above and below; a flat curve is in the middle.
fn bounds(values: impl Iterator<Item = f64>) -> [f64; 2] {
    let found = values.filter(|value| value.is_finite()).fold(None, |span: Option<[f64; 2]>, value| {
        let [low, high] = span.unwrap_or([value, value]);
        Some([low.min(value), high.max(value)])
    });
    let [low, high] = found.filter(|span| *span != [0.0, 0.0]).unwrap_or([0.0, 1.0]);
    let least = low.abs().max(high.abs()) * if low == high { 1.0 } else { 1e-3 };
    let size = (high - low).max(least).max(1e-6);
    let floor = if low >= 0.0 && low < size * 0.35 { 0.0 } else { low - size * 0.06 };
    [floor, high + size * 0.06]
}

/// Averages of equal runs of points, if there are too many.
fn thinned(points: &[(u64, f64)]) -> Vec<(u64, f64)> {
    if points.len() <= POINTS {
        return points.to_vec();
    }
    let part = |at: usize| {
        let part = &points[at * points.len() / POINTS..(at + 1) * points.len() / POINTS];
        let mean = part.iter().map(|point| point.1).sum::<f64>() / part.len() as f64;
        (part[part.len() / 2].0, mean)
    };
    (0..POINTS).map(part).collect()
}

/// Exponential moving average, corrected for its start.
fn smoothed(points: &[(u64, f64)], weight: f64) -> Vec<(u64, f64)> {
    let (mut mean, mut share) = (0.0, 0.0);
    let each = points.iter().map(|(step, value)| {
        mean = weight * mean + (1.0 - weight) * value;
        share = weight * share + (1.0 - weight);
        (*step, mean / share)
    });
    each.collect()
}

fn short_exact(value: f64) -> String {
    let text = format!("{value:.4}");
    if value != 0.0 && value.abs() < 1e-3 { format!("{value:.3e}") } else { text }
}

/// Strip of dots, one per rollout, at its position on the scale. Each may be a link.
pub fn strip(dots: &[(f64, String, Option<String>, &'static str)], [low, high]: [f64; 2]) -> Html {
    const WIDTH: f64 = 220.0;
    let mut out = Html::new();
    let size = (high - low).max(1e-12);
    let place = |value: f64| 8.0 + (value - low) / size * (WIDTH - 16.0);
    put!(
        out,
        "<svg class=\"strip\" viewBox=\"0 0 220 22\" role=\"img\" aria-label=\"",
        format!("{} rollouts from {} to {}", dots.len(), short(low), short(high)),
        "\"><line class=\"axis\" x1=\"4\" x2=\"216\" y1=\"11\" y2=\"11\"/>"
    );
    if low < 0.0 && high > 0.0 {
        put!(out, "<line class=\"zero\" x1=\"", place(0.0), "\" x2=\"", place(0.0), "\" y1=\"4\" y2=\"18\"/>");
    }
    let mut taken: Vec<i64> = Vec::new();
    for (value, title, href, kind) in dots {
        let x = place(*value);
        let bin = (x / 7.0).round() as i64;
        let depth = taken.iter().filter(|other| **other == bin).count();
        taken.push(bin);
        // Overlapping dots are placed in columns of three, towards the middle.
        let shift = [0.0, -6.3, 6.3][depth % 3];
        let aside = (depth / 3) as f64 * if x > WIDTH / 2.0 { -6.3 } else { 6.3 };
        if let Some(href) = href {
            put!(out, "<a href=\"", href, "\">");
        }
        put!(
            out,
            "<circle class=\"",
            *kind,
            "\" cx=\"",
            x + aside,
            "\" cy=\"",
            11.0 + shift,
            "\" r=\"3\"><title>",
            title,
            "</title></circle>"
        );
        if href.is_some() {
            put!(out, "</a>");
        }
    }
    put!(out, "</svg>");
    out
}

/// A flow from one whole to its parts: name, amount, class.
pub fn flow(whole: (&str, f64), parts: &[(&'static str, f64, &'static str)]) -> Html {
    let mut out = Html::new();
    let parts: Vec<_> = parts.iter().filter(|part| part.1 > 0.0).collect();
    let gap = 20.0;
    let height = 150.0_f64.max(parts.len() as f64 * 26.0);
    let room = height - gap * parts.len() as f64;
    let total = whole.1.max(1e-9);
    put!(
        out,
        "<svg class=\"flow\" viewBox=\"0 0 560 ",
        height + 8.0,
        "\" role=\"img\" aria-label=\"",
        format!("{} {}", count(whole.1), whole.0),
        "\">"
    );
    let top = (height - room) / 2.0;
    put!(
        out,
        "<rect class=\"whole\" x=\"110\" y=\"",
        top,
        "\" width=\"10\" height=\"",
        room,
        "\"/><text class=\"name\" text-anchor=\"end\" x=\"102\" y=\"",
        height / 2.0,
        "\">",
        whole.0,
        "</text><text class=\"amount\" text-anchor=\"end\" x=\"102\" y=\"",
        height / 2.0 + 15.0,
        "\">",
        count(whole.1),
        "</text>"
    );
    let (mut from, mut to) = (top, gap / 2.0);
    for (name, amount, class) in parts {
        let size = amount / total * room;
        let thick = size.max(1.0);
        put!(
            out,
            "<path class=\"band ",
            *class,
            "\" d=\"M120 ",
            from,
            "C220 ",
            from,
            " 240 ",
            to,
            " 340 ",
            to,
            "v",
            thick,
            "C240 ",
            to + thick,
            " 220 ",
            from + thick,
            " 120 ",
            from + thick,
            "z\"/><rect class=\"part ",
            *class,
            "\" x=\"340\" y=\"",
            to,
            "\" width=\"8\" height=\"",
            thick,
            "\"/>"
        );
        let middle = to + thick / 2.0 + 4.0;
        put!(
            out,
            "<text class=\"name\" x=\"356\" y=\"",
            middle,
            "\">",
            *name,
            "</text><text class=\"amount\" text-anchor=\"end\" x=\"556\" y=\"",
            middle,
            "\">",
            format!("{}  {:.1} %", count(*amount), 100.0 * amount / total),
            "</text>"
        );
        from += size;
        to += thick + gap;
    }
    put!(out, "</svg>");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(ticks([0.0, 1.0], 4), [0.0, 0.5, 1.0]);
        assert_eq!(ticks([0.0, 2000.0], 5), [0.0, 500.0, 1000.0, 1500.0, 2000.0]);
        assert_eq!(ticks([3.0, 3.0], 4), [3.0]);
        let of = |values: &[f64]| labels(&ticks(bounds(values.iter().copied()), 4));
        assert_eq!(of(&[128.0, 128.0]), ["125", "130", "135"]);
        assert_eq!(of(&[128.001, 128.0013]), ["127.995", "128.000", "128.005"]);
        assert_eq!(of(&[0.0, 0.9]), ["0", "0.5"]);
    }

    #[test]
    fn a_smoothed_constant_is_that_constant() {
        let points: Vec<(u64, f64)> = (0..50).map(|step| (step, 0.25)).collect();
        assert!(smoothed(&points, 0.95).iter().all(|(_, value)| (value - 0.25).abs() < 1e-12));
        assert_eq!(smoothed(&points[..3], 0.0), points[..3]);
    }

    #[test]
    fn a_long_curve_is_thinned_to_its_means() {
        let points: Vec<(u64, f64)> = (0..5000).map(|step| (step, f64::from(step as u32 % 2))).collect();
        let thin = thinned(&points);
        assert_eq!(thin.len(), POINTS);
        assert!(thin.iter().all(|(_, value)| (value - 0.5).abs() < 0.1));
    }

    #[test]
    fn labels_of_a_run_stay_text() {
        let line = Line { label: "\"><script>".into(), points: vec![(1, 0.5), (2, 0.7)], ..Line::default() };
        let chart = Chart { title: "<b>".into(), lines: vec![line], ..Chart::default() };
        let svg = chart.svg();
        assert!(!svg.as_str().contains("<script>") && !svg.as_str().contains("<b>"), "{}", svg.as_str());
    }
}

//! Chart of curves over steps, with measurements and moments.

use std::fmt::Write as _;

use super::axes::{Frame, TOP, axes, bounds};
use crate::html::Html;
use crate::number::short;
use crate::put;

/// A curve chart.
#[derive(Debug, Clone, Default)]
pub(crate) struct Chart {
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
pub(crate) struct Line {
    pub label: String,
    /// The run it belongs to; a click on it opens that run's step.
    pub run: usize,
    pub colour: usize,
    pub points: Vec<(u64, f64)>,
}

/// A measurement beside the curves, with its interval.
#[derive(Debug, Clone, Default)]
pub(crate) struct Dot {
    pub label: String,
    pub colour: usize,
    pub step: u64,
    pub value: f64,
    pub interval: Option<[f64; 2]>,
    pub href: Option<String>,
}

/// A moment of the run: an evaluation, a checkpoint, a finding.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mark {
    pub kind: &'static str,
    pub step: u64,
    pub label: String,
}

/// Maximum points of a curve: more than the pixels can show are averaged.
const POINTS: usize = 320;

impl Chart {
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.iter().all(|line| line.points.is_empty()) && self.dots.is_empty()
    }

    fn within(&self, step: u64) -> bool {
        self.range.is_none_or(|[from, to]| (from..=to).contains(&step))
    }

    fn dots(&self) -> impl Iterator<Item = &Dot> {
        self.dots.iter().filter(|dot| self.within(dot.step))
    }

    pub(crate) fn svg(&self) -> Html {
        let lines: Vec<Drawn> = self.lines.iter().map(|line| self.drawn(line)).collect();
        let steps = self.steps(&lines);
        let frame = self.frame(steps, &lines);
        let mut out = Html::new();
        put!(out, self.head(steps, &frame));
        axes(&frame, &mut out);
        let [first, last] = steps;
        for mark in self.marks.iter().filter(|mark| self.within(mark.step) && (first..=last).contains(&mark.step)) {
            mark.draw(&frame, &mut out);
        }
        for line in &lines {
            line.draw(&frame, self.smooth > 0.0, &mut out);
        }
        for dot in self.dots() {
            dot.draw(&frame, &mut out);
        }
        put!(out, "<line class=\"rule\" y1=\"", TOP, "\" y2=\"", frame.floor(), "\" x1=\"-9\" x2=\"-9\"/></svg>");
        out
    }

    /// First and last step shown.
    fn steps(&self, lines: &[Drawn]) -> [u64; 2] {
        let steps = lines.iter().flat_map(|line| &line.raw).map(|point| point.0);
        let steps = steps.chain(self.dots().map(|dot| dot.step));
        let [first, last] = steps.fold([u64::MAX, 0], |[low, high], step| [low.min(step), high.max(step)]);
        self.range.unwrap_or(if first > last { [0, 1] } else { [first, last] })
    }

    fn frame(&self, [first, last]: [u64; 2], lines: &[Drawn]) -> Frame {
        let (width, height) = if self.wide { (860.0, 260.0) } else { (420.0, 176.0) };
        let values = lines.iter().flat_map(|line| line.raw.iter().map(|point| point.1));
        let values = values.chain(self.dots().flat_map(|dot| dot.interval.unwrap_or([dot.value; 2])));
        Frame { width, height, x: [first as f64, last.max(first + 1) as f64], y: bounds(values) }
    }

    /// The opening tag, with the ranges for the script.
    fn head(&self, [first, last]: [u64; 2], frame: &Frame) -> Html {
        let mut out = Html::new();
        put!(
            out,
            "<svg class=\"chart\" viewBox=\"0 0 ",
            frame.width,
            " ",
            frame.height,
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

impl Mark {
    fn draw(&self, frame: &Frame, out: &mut Html) {
        let (x, floor) = (frame.x(self.step), frame.floor());
        put!(
            out,
            "<g class=\"mark ",
            self.kind,
            "\"><line x1=\"",
            x,
            "\" x2=\"",
            x,
            "\" y1=\"",
            TOP,
            "\" y2=\"",
            floor,
            "\"/><path d=\"M",
            x - 3.0,
            " ",
            floor,
            "h6l-3 -5z\"/><title>",
            self.label,
            "</title></g>"
        );
    }
}

impl Dot {
    fn draw(&self, frame: &Frame, out: &mut Html) {
        let (x, y) = (frame.x(self.step), frame.y(self.value));
        let interval =
            self.interval.map_or_else(String::new, |[low, high]| format!(" [{}, {}]", short(low), short(high)));
        let title = format!("{} at step {}: {}{interval}", self.label, self.step, short(self.value));
        if let Some(href) = &self.href {
            put!(out, "<a href=\"", href, "\" aria-label=\"", title, "\">");
        }
        put!(out, "<g class=\"dot s", self.colour, "\">");
        if let Some([low, high]) = self.interval {
            put!(out, "<line x1=\"", x, "\" x2=\"", x, "\" y1=\"", frame.y(low), "\" y2=\"", frame.y(high), "\"/>");
        }
        put!(out, "<circle cx=\"", x, "\" cy=\"", y, "\" r=\"3\"/><title>", title, "</title></g>");
        if self.href.is_some() {
            put!(out, "</a>");
        }
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

fn path(points: &[(u64, f64)], frame: &Frame) -> String {
    let mut path = String::with_capacity(points.len() * 12);
    for (at, (step, value)) in points.iter().enumerate() {
        path.push(if at == 0 { 'M' } else { 'L' });
        let _ = write!(path, "{:.1} {:.1}", frame.x(*step), frame.y(*value));
    }
    path
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

#[cfg(test)]
mod tests {
    use super::*;

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

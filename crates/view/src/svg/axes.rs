//! Axes of a chart: its frame, round ticks, labels.

use crate::html::Html;
use crate::number::{short, span};
use crate::put;

const LEFT: f64 = 46.0;
const RIGHT: f64 = 10.0;
pub(super) const TOP: f64 = 8.0;
const BOTTOM: f64 = 20.0;

/// Size of a chart, and the values at its edges.
pub(super) struct Frame {
    pub width: f64,
    pub height: f64,
    pub x: [f64; 2],
    pub y: [f64; 2],
}

impl Frame {
    pub(super) fn x(&self, step: u64) -> f64 {
        let [low, high] = self.x;
        LEFT + (step as f64 - low) / (high - low).max(1e-9) * (self.width - LEFT - RIGHT)
    }

    pub(super) fn y(&self, value: f64) -> f64 {
        let [low, high] = self.y;
        self.floor() - (value - low) / (high - low).max(1e-300) * (self.height - TOP - BOTTOM)
    }

    /// Place of the horizontal axis.
    pub(super) fn floor(&self) -> f64 {
        self.height - BOTTOM
    }
}

/// Grid and labels.
pub(super) fn axes(frame: &Frame, out: &mut Html) {
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
pub(super) fn bounds(values: impl Iterator<Item = f64>) -> [f64; 2] {
    let found = span(values.filter(|value| value.is_finite()));
    let [low, high] = found.filter(|span| *span != [0.0, 0.0]).unwrap_or([0.0, 1.0]);
    let least = low.abs().max(high.abs()) * if low == high { 1.0 } else { 1e-3 };
    let size = (high - low).max(least).max(1e-6);
    let floor = if low >= 0.0 && low < size * 0.35 { 0.0 } else { low - size * 0.06 };
    [floor, high + size * 0.06]
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
}

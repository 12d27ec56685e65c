//! Strip of dots on a scale.

use crate::html::Html;
use crate::number::short;
use crate::put;

/// Strip of dots, one per rollout, at its position on the scale. Each may be a link.
pub(crate) fn strip(dots: &[(f64, String, Option<String>, &'static str)], [low, high]: [f64; 2]) -> Html {
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

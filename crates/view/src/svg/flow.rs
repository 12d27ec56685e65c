//! Flow from a whole to its parts.

use crate::html::Html;
use crate::number::count;
use crate::put;

/// A part: name, amount, class.
type Part = (&'static str, f64, &'static str);

/// Space between two parts.
const GAP: f64 = 20.0;

/// A flow from one whole to its parts.
pub(crate) fn flow(whole: (&str, f64), parts: &[Part]) -> Html {
    let mut out = Html::new();
    let parts: Vec<_> = parts.iter().filter(|part| part.1 > 0.0).collect();
    let height = 150.0_f64.max(parts.len() as f64 * 26.0);
    let room = height - GAP * parts.len() as f64;
    let total = whole.1.max(1e-9);
    let top = (height - room) / 2.0;
    put!(
        out,
        "<svg class=\"flow\" viewBox=\"0 0 560 ",
        height + 8.0,
        "\" role=\"img\" aria-label=\"",
        format!("{} {}", count(whole.1), whole.0),
        "\">"
    );
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
    let (mut from, mut to) = (top, GAP / 2.0);
    for part in parts {
        let size = part.1 / total * room;
        let band = Band { from, to, thick: size.max(1.0) };
        put!(out, band.path(part.2), band.label(part, 100.0 * part.1 / total));
        from += size;
        to += band.thick + GAP;
    }
    put!(out, "</svg>");
    out
}

/// Band of a part: its top edge at the whole and at the part, and its thickness.
struct Band {
    from: f64,
    to: f64,
    thick: f64,
}

impl Band {
    fn path(&self, class: &'static str) -> Html {
        let &Self { from, to, thick } = self;
        let mut out = Html::new();
        put!(
            out,
            "<path class=\"band ",
            class,
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
            class,
            "\" x=\"340\" y=\"",
            to,
            "\" width=\"8\" height=\"",
            thick,
            "\"/>"
        );
        out
    }

    fn label(&self, (name, amount, _): &Part, percent: f64) -> Html {
        let middle = self.to + self.thick / 2.0 + 4.0;
        let mut out = Html::new();
        put!(
            out,
            "<text class=\"name\" x=\"356\" y=\"",
            middle,
            "\">",
            *name,
            "</text><text class=\"amount\" text-anchor=\"end\" x=\"556\" y=\"",
            middle,
            "\">",
            format!("{}  {percent:.1} %", count(*amount)),
            "</text>"
        );
        out
    }
}

//! Reward curve as a separate file.

use hone_train::ledger::names;

use crate::html::Html;
use crate::put;
use crate::run::Run;
use crate::svg::{Chart, Line};

/// Colours of the file, for a viewer without our style sheet.
const COLOURS: &str = "<style>svg{background:#fff;font:11px system-ui,sans-serif}\
    .grid{stroke:#e4e4e2}.tick{fill:#6b6b68}\
    .line path{fill:none;stroke-width:1.6}.s0 path{stroke:#2b6cb0}.s1 path{stroke:#c2570c}\
    .s2 path{stroke:#2f855a}.s3 path{stroke:#805ad5}.s4 path{stroke:#b7791f}.s5 path{stroke:#c53030}\
    .s6 path{stroke:#0f7c8a}.s7 path{stroke:#6b6b68}.rule{display:none}</style>";

/// The reward curve as a separate file, with its colours inside.
pub fn reward_curve(run: &Run) -> Option<String> {
    let components = run.metrics.components();
    let lines = components.iter().rev().enumerate().map(|(colour, name)| Line {
        label: (*name).to_owned(),
        run: 0,
        colour,
        points: run.metrics.points(names::BATCH_REWARD_COMPONENT.of([name]).as_str()),
    });
    let chart = Chart {
        title: format!("Reward of {}", run.name),
        lines: lines.take(8).collect(),
        wide: true,
        ..Chart::default()
    };
    if chart.is_empty() {
        return None;
    }
    let mut key = Html::new();
    for (at, line) in chart.lines.iter().enumerate() {
        let x = 60.0 + at as f64 * 150.0;
        put!(
            key,
            "<g class=\"line s",
            line.colour,
            "\"><path d=\"M",
            x,
            " 14h18\"/></g><text class=\"tick\" x=\"",
            x + 24.0,
            "\" y=\"18\">",
            line.label,
            "</text>"
        );
    }
    let svg = chart.svg().into_string().replacen(
        "<svg ",
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"860\" height=\"260\" ",
        1,
    );
    let (head, rest) = svg.split_once('>')?;
    Some(format!("{head}>{COLOURS}{}{rest}\n", key.as_str()))
}

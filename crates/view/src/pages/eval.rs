//! Evaluations: held-out success by checkpoint with intervals, beside controls and baselines.

use super::{Place, crumbs, frame};
use crate::html::{Html, clipped};
use crate::number::{cell, short};
use crate::put;
use crate::run::{Part, Run, ViewError};
use crate::site::Site;

pub(super) fn page(site: &Site, number: usize) -> Result<Html, ViewError> {
    let run = site.run(number)?;
    let mut body = Html::new();
    put!(body, "<section class=\"head\"><h1>Evaluations</h1></section>", evaluations(site, number, &run));
    let crumbs = crumbs(site, number, &[("evaluations".to_owned(), String::new())])?;
    Ok(frame(site, &Place { run: Some(number), tab: "Evaluations", crumbs }, &body))
}

/// Every evaluation, control and baseline in one table.
pub(crate) fn evaluations(site: &Site, number: usize, run: &Run) -> Html {
    let mut out = Html::new();
    if run.events.played.is_empty() && run.events.baselines.is_empty() {
        put!(out, "<p class=\"dim\">This run has no evaluations.</p>");
        return out;
    }
    put!(
        out,
        "<div class=\"scroll\"><table class=\"evals\"><thead><tr><th class=\"text\">what was played</th><th>step</th><th>temperature</th><th>success</th><th class=\"text wide\">95 % interval</th><th>entropy</th><th>parse failures</th><th>tasks</th></tr></thead><tbody>"
    );
    for played in &run.events.played {
        let name = played.name();
        put!(
            out,
            "<tr data-item><td class=\"text\">",
            site.link(
                played.traces.is_some().then(|| site.part_url(number, &Part::Played(name.clone()))).flatten(),
                &name
            ),
            "</td><td>",
            played.step,
            "</td><td>",
            cell(played.temperature),
            "</td><td>",
            cell(played.success),
            "</td><td class=\"text\">",
            bar(played.success, played.interval),
            "</td><td>",
            cell(played.entropy),
            "</td><td>",
            cell(played.parse_failures),
            "</td><td>",
            played.tasks,
            "</td></tr>"
        );
    }
    for baseline in &run.events.baselines {
        put!(
            out,
            "<tr class=\"dim\"><td class=\"text\">scripted: ",
            clipped(&baseline.name, 80),
            "</td><td></td><td></td><td>",
            cell(baseline.success),
            "</td><td class=\"text\">",
            bar(baseline.success, baseline.interval),
            "</td><td></td><td></td><td></td></tr>"
        );
    }
    put!(out, "</tbody></table></div>");
    if !site.is_file() {
        let evals: Vec<String> = run
            .events
            .played
            .iter()
            .filter(|played| played.event == "eval" && played.traces.is_some())
            .map(crate::run::Played::name)
            .collect();
        if let (Some(first), Some(last)) = (
            evals.first(),
            evals
                .iter()
                .rev()
                .find(|last| evals.first().is_some_and(|first| first != *last && kind(first) == kind(last))),
        ) {
            put!(
                out,
                "<p class=\"bar\"><a class=\"pick\" href=\"",
                format!("/compare?a={number}:{first}&b={number}:{last}"),
                "\">compare ",
                first,
                " with ",
                last,
                ", task by task</a></p>"
            );
        }
    }
    out
}

fn kind(name: &str) -> &str {
    name.rsplit('-').next().unwrap_or_default()
}

/// A share with its interval on a scale from 0 to 1.
fn bar(value: Option<f64>, interval: Option<[f64; 2]>) -> Html {
    let mut out = Html::new();
    let place = |value: f64| 4.0 + value.clamp(0.0, 1.0) * 212.0;
    let Some(value) = value else { return out };
    let words = interval.map_or_else(String::new, |[low, high]| format!("[{}, {}]", short(low), short(high)));
    put!(
        out,
        "<svg class=\"strip\" viewBox=\"0 0 220 22\" role=\"img\" aria-label=\"",
        words,
        "\"><line class=\"axis\" x1=\"4\" x2=\"216\" y1=\"11\" y2=\"11\"/>"
    );
    if let Some([low, high]) = interval {
        put!(out, "<line class=\"interval\" x1=\"", place(low), "\" x2=\"", place(high), "\" y1=\"11\" y2=\"11\"/>");
    }
    put!(
        out,
        "<circle class=\"good\" cx=\"",
        place(value),
        "\" cy=\"11\" r=\"3\"><title>",
        short(value),
        " ",
        words,
        "</title></circle></svg><span class=\"ends\">",
        words,
        "</span>"
    );
    out
}

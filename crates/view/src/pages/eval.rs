//! Evaluations: held-out success by checkpoint with intervals, beside controls and baselines.

use std::collections::BTreeSet;

use hone_eval::table::Row;
use hone_train::evaluate::Kind;
use hone_train::events::ControlPart;

use super::{Place, crumbs, frame, measured};
use crate::beside::Answer;
use crate::html::{Html, clipped};
use crate::number::{cell, short};
use crate::put;
use crate::run::{Baseline, Lenient, Part, Played, Run, Set, ViewError};
use crate::site::Site;

pub(super) fn page(site: &Site, number: usize) -> Result<Html, ViewError> {
    let run = site.run(number)?;
    let mut body = Html::new();
    put!(
        body,
        "<section class=\"head\"><h1>Evaluations</h1></section>",
        evaluations(site, number, &run),
        environments(site, number, &run)?,
        measured(&run)
    );
    let crumbs = crumbs(site, number, &[("evaluations".to_owned(), String::new())])?;
    Ok(frame(site, &Place { run: Some(number), tab: "Evaluations", crumbs }, &body))
}

/// Description of an evaluation or control.
fn about(played: &Played) -> &'static str {
    match &played.set {
        Set::Eval(Lenient::Known(kind)) => match kind {
            Kind::Greedy => "the policy of this step, its likeliest token each time",
            Kind::Sampled => "the policy of this step, sampled",
        },
        Set::Control(Lenient::Known(part)) => match part {
            ControlPart::Again => "the start with another seed: what luck alone changes",
            ControlPart::Probe => "the start at another temperature, in search of the end's entropy",
            ControlPart::Sharpened => "the start as sure of itself as the end: a gain over it is more than sureness",
            ControlPart::OrderReversed => "the end, greedily, with its tools in reverse order",
            ControlPart::NamesExchanged => "the end, greedily, with its tools' names exchanged",
        },
        Set::Eval(Lenient::Unknown(_)) | Set::Control(Lenient::Unknown(_)) => "",
    }
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
        "<div class=\"scroll\"><table class=\"evals\"><thead><tr><th class=\"text\">what was played</th><th>step\
         </th><th>temperature</th><th>success</th><th class=\"text wide\">95 % interval</th><th>entropy</th>\
         <th>parse failures</th><th>tasks</th></tr></thead><tbody>"
    );
    for played in &run.events.played {
        put!(out, played_row(site, number, played));
    }
    for baseline in &run.events.baselines {
        put!(out, baseline_row(baseline));
    }
    put!(out, "</tbody></table></div>");
    if !site.is_file() {
        put!(out, compare_link(number, run));
    }
    out
}

fn played_row(site: &Site, number: usize, played: &Played) -> Html {
    let mut out = Html::new();
    let name = played.name();
    let url = played.traces.as_ref().and_then(|_| site.part_url(number, &Part::Played(name.clone())));
    put!(
        out,
        "<tr data-item><td class=\"text\">",
        site.link(url, &name),
        "<p class=\"about\">",
        about(played),
        "</p></td><td>",
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
    out
}

fn baseline_row(baseline: &Baseline) -> Html {
    let mut out = Html::new();
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
    out
}

/// Link to the comparison of the first evaluation with the last of its kind.
fn compare_link(number: usize, run: &Run) -> Html {
    let mut out = Html::new();
    let mut evaluated = run.events.evaluations().filter(|played| played.traces.is_some());
    let Some(first) = evaluated.next() else { return out };
    let mut later = evaluated.filter(|last| last.set == first.set && last.name() != first.name());
    if let Some(last) = later.next_back() {
        let (first, last) = (first.name(), last.name());
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
    out
}

/// Results by environment, if the recipe has several.
fn environments(site: &Site, number: usize, run: &Run) -> Result<Html, ViewError> {
    let mut out = Html::new();
    if run.recipe.get("env").and_then(toml::Value::as_array).is_none_or(|envs| envs.len() < 2) {
        return Ok(out);
    }
    let evaluated = run.events.evaluations().filter(|played| played.traces.is_some());
    let parts: Vec<Part> = evaluated.map(|played| Part::Played(played.name())).collect();
    put!(out, "<h2>By environment</h2>");
    let rows = match site.by_environment(number, parts)? {
        Answer::Made(rows) => rows,
        Answer::Waiting => {
            put!(out, "<p data-wait>The rollouts are being read; this table is shown when that is done.</p>");
            return Ok(out);
        }
        Answer::Failed(why) => {
            put!(out, "<p class=\"bad\">", clipped(&why, 1000), "</p>");
            return Ok(out);
        }
    };
    let names: BTreeSet<&String> = rows.iter().flat_map(|(_, envs)| envs.keys()).collect();
    put!(
        out,
        "<div class=\"scroll\"><table class=\"evals\"><thead><tr><th class=\"text\">success with 95 % interval</th>"
    );
    for name in &names {
        put!(out, "<th class=\"text\">", clipped(name, 60), "</th>");
    }
    put!(out, "</tr></thead><tbody>");
    for (part, envs) in rows.iter() {
        put!(out, "<tr data-item><td class=\"text\">", site.link(site.part_url(number, part), &part.to_string()));
        for name in &names {
            let pass = envs.get(*name).and_then(Row::pass);
            put!(out, "</td><td class=\"text\"><b>", cell(pass.map(|pass| pass.mean)), "</b> ");
            put!(out, bar(pass.map(|pass| pass.mean), pass.map(|pass| pass.ci)));
        }
        put!(out, "</td></tr>");
    }
    put!(out, "</tbody></table></div>");
    Ok(out)
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

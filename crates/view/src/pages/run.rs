//! Run page: curves, token accounting, steps.

use std::ops::Deref;

use hone_train::evaluate::Kind;
use hone_train::ledger::names::{self, Metric};

use super::curves::{charts, controls};
use super::steps::steps;
use super::{Place, Query, frame, ledger, measured, notes, rejected};
use crate::html::Html;
use crate::number::{cell, count, short, thousands};
use crate::put;
use crate::run::{Lenient, Run, Set, ViewError};
use crate::site::{Doctor, Site};

/// The runs of a page with their numbers.
pub(crate) type Shown<R> = [(usize, R)];

pub(super) fn page(site: &Site, only: Option<usize>, query: &Query) -> Result<Html, ViewError> {
    let runs: Vec<_> = match only {
        Some(number) => vec![(number, site.run(number)?)],
        None => site.all().into_iter().enumerate().collect(),
    };
    let mut body = Html::new();
    head(site, &runs, only, &mut body);
    for (_, run) in &runs {
        notes(&run.notes(), &mut body);
    }
    let begun = |run: &Run| !run.metrics.steps().is_empty();
    if runs.iter().any(|(_, run)| begun(run)) {
        controls(query, &mut body);
        put!(body, "<section class=\"charts\">", charts(site, &runs, query), "</section>");
    } else if runs.iter().any(|(_, run)| run.trains()) {
        put!(body, "<p class=\"dim\">No step is recorded.</p>");
    }
    // Directories of evaluations and validations have no curves: their results come first.
    for (number, run) in &runs {
        if !begun(run) {
            put!(body, measured(run));
        }
        put!(body, rejected(site, *number, run));
    }
    for (number, run) in runs.iter().filter(|(_, run)| begun(run)) {
        put!(
            body,
            "<section class=\"two\">",
            ledger(run, query, runs.len() > 1),
            steps(site, *number, run, query),
            "</section>"
        );
    }
    let crumbs = match (&runs[..], only) {
        ([(number, run)], _) => vec![(run.name.clone(), format!("/r/{number}"))],
        _ => vec![(format!("{} runs", runs.len()), "/".to_owned())],
    };
    Ok(frame(site, &Place { run: only, tab: "Run", crumbs }, &body))
}

pub(crate) fn head(site: &Site, runs: &Shown<impl Deref<Target = Run>>, only: Option<usize>, body: &mut Html) {
    put!(body, "<div class=\"heads\">");
    for (number, run) in runs {
        put!(body, "<section class=\"head\"><h1><i class=\"key s", number % 8, "\"></i>");
        put!(
            *body,
            site.link((only.is_none() && !site.is_file()).then(|| format!("/r/{number}")), &run.name),
            "</h1><dl class=\"facts\">"
        );
        for (name, value) in facts(run) {
            put!(body, "<div><dt>", name, "</dt><dd>", value, "</dd></div>");
        }
        if let Doctor::Said(said, _) = site.doctor(*number) {
            let count = said.get("findings").and_then(|findings| findings.as_array()).map_or(0, Vec::len);
            let url = (!site.is_file()).then(|| format!("/r/{number}/doctor"));
            put!(body, "<div><dt>doctor</dt><dd>", site.link(url, &format!("{count} findings")), "</dd></div>");
        }
        put!(body, "</dl></section>");
    }
    put!(body, "</div>");
}

/// The run in a line of numbers.
fn facts(run: &Run) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    let planned = run.planned().map_or_else(String::new, |planned| format!(" of {planned}"));
    if run.trains() {
        facts.push(("steps", format!("{}{planned}", run.done())));
    }
    for (kind, name) in [(Kind::Greedy, "held-out, greedy"), (Kind::Sampled, "held-out, sampled")] {
        let set = Set::Eval(Lenient::Known(kind));
        let of_kind: Vec<_> = run.events.played.iter().filter(|played| played.set == set).collect();
        if let (Some(first), Some(last)) = (of_kind.first(), of_kind.last()) {
            let interval =
                last.interval.map_or_else(String::new, |[low, high]| format!(" [{}, {}]", short(low), short(high)));
            let before = if of_kind.len() > 1 { format!("{} → ", cell(first.success)) } else { String::new() };
            facts.push((name, format!("{before}{}{interval}", cell(last.success))));
        }
    }
    let ends = |metric: Metric| {
        let points = run.metrics.points(metric.name);
        Some(format!("{} → {}", short(points.first()?.1), short(points.last()?.1)))
    };
    facts.extend(ends(names::BATCH_REWARD_TOTAL).map(|text| ("reward", text)));
    facts.extend(ends(names::REWARD_SIGNAL_RATIO).map(|text| ("groups with signal", text)));
    let tokens = |metric: Metric| run.metrics.sum(metric.name);
    if let (Some(sampled), Some(trained)) = (tokens(names::TOKENS_SAMPLED), tokens(names::TOKENS_TRAINED)) {
        facts.push(("tokens trained", format!("{} of {}", count(trained), count(sampled))));
    }
    if let Ok(traces) = run.traces() {
        facts.push(("traces", thousands(traces.len())));
    }
    facts
}

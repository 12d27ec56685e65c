//! Run page: curves, token accounting, steps.

use std::ops::Deref;

use super::{Place, Query, frame, ledger, measured, notes, rejected};
use crate::html::Html;
use crate::number::{cell, count, short, thousands};
use crate::put;
use crate::run::{Part, Run, ViewError};
use crate::site::{Doctor, Site};
use crate::svg::{Chart, Dot, Line, Mark};

const STEPS_A_PAGE: usize = 100;

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
    for kind in ["greedy", "sampled"] {
        let of_kind: Vec<_> =
            run.events.played.iter().filter(|played| played.event == "eval" && played.kind == kind).collect();
        if let (Some(first), Some(last)) = (of_kind.first(), of_kind.last()) {
            let interval =
                last.interval.map_or_else(String::new, |[low, high]| format!(" [{}, {}]", short(low), short(high)));
            let name = if kind == "greedy" { "held-out, greedy" } else { "held-out, sampled" };
            let before = if of_kind.len() > 1 { format!("{} → ", cell(first.success)) } else { String::new() };
            facts.push((name, format!("{before}{}{interval}", cell(last.success))));
        }
    }
    let ends = |metric: &str| {
        let points = run.metrics.points(metric);
        Some(format!("{} → {}", short(points.first()?.1), short(points.last()?.1)))
    };
    facts.extend(ends("batch_reward/total").map(|text| ("reward", text)));
    facts.extend(ends("reward/signal_ratio").map(|text| ("groups with signal", text)));
    if let (Some(sampled), Some(trained)) = (run.metrics.sum("tokens/sampled"), run.metrics.sum("tokens/trained")) {
        facts.push(("tokens trained", format!("{} of {}", count(trained), count(sampled))));
    }
    if let Ok(traces) = run.traces() {
        facts.push(("traces", thousands(traces.len())));
    }
    facts
}

fn controls(query: &Query, body: &mut Html) {
    put!(body, "<form class=\"bar\" method=\"get\" aria-label=\"how the curves are shown\"><span>smoothing</span>");
    let now = query.get("smooth").unwrap_or("");
    for (value, name) in [("", "none"), ("0.6", "0.6"), ("0.9", "0.9"), ("0.97", "0.97")] {
        let class = if now == value { "on" } else { "" };
        put!(body, "<a class=\"pick ", class, "\" href=\"", query.with("smooth", value), "\">", name, "</a>");
    }
    put!(
        *body,
        "<span>steps</span><input name=\"from\" inputmode=\"numeric\" size=\"6\" aria-label=\"first step\" placeholder=\"first\" value=\"",
        query.get("from").unwrap_or(""),
        "\"><input name=\"to\" inputmode=\"numeric\" size=\"6\" aria-label=\"last step\" placeholder=\"last\" value=\"",
        query.get("to").unwrap_or(""),
        "\">"
    );
    if let Some(smooth) = query.get("smooth") {
        put!(body, "<input type=\"hidden\" name=\"smooth\" value=\"", smooth, "\">");
    }
    put!(body, "<button>show</button>");
    if query.get("from").is_some() || query.get("to").is_some() {
        put!(
            *body,
            "<a class=\"pick\" id=\"whole\" href=\"",
            Query::parse(&query.with("from", "")[1..]).with("to", ""),
            "\">whole run</a>"
        );
    }
    put!(
        *body,
        "<span class=\"hint\">drag over a curve to zoom, click a point to open its step</span><span>▲ evaluation <b class=\"good\">▲</b> best checkpoint <b class=\"warn\">▲</b> finding</span></form>"
    );
}

/// A chart: name, explanation, metrics with their labels.
type Plan = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const CHARTS: [Plan; 10] = [
    (
        "Success",
        "share of episodes whose success component is 1; dots: held-out evaluations with 95 % intervals",
        &[("training", "reward/success_rate")],
    ),
    (
        "Groups with signal",
        "share of groups whose rollouts did not all earn the same",
        &[("signal", "reward/signal_ratio")],
    ),
    (
        "Entropy",
        "mean entropy of the distributions the trained tokens were drawn from",
        &[("entropy", "policy/policy_entropy")],
    ),
    (
        "KL",
        "divergence from the reference, and from the start where it is measured",
        &[("reference", "policy/policy_kl"), ("start", "policy/kl_to_start")],
    ),
    (
        "Mismatch",
        "|learner − sampler| of the logprobs of sampled tokens",
        &[
            ("mean", "policy/rollout_train_logprobs_abs_diff_mean"),
            ("max", "policy/rollout_train_logprobs_abs_diff_max"),
        ],
    ),
    ("Gradient norm", "before clipping, averaged over the step's optimizer steps", &[("norm", "policy/grad_norm")]),
    (
        "Clipped",
        "share of trained tokens whose gradient the clip set to zero",
        &[("clipped", "policy/loss_metrics/clip_ratio")],
    ),
    ("Throughput", "sampled tokens a second", &[("tokens/s", "timing/sampled_tokens_per_second")]),
    ("Sampled tokens an episode", "mean", &[("tokens", "generate/avg_num_tokens")]),
    (
        "Tool errors",
        "share of executed calls that the environment answered with an error",
        &[("errors", "environment/tool_error_rate")],
    ),
];

/// All charts of some runs.
pub(crate) fn charts(site: &Site, runs: &Shown<impl Deref<Target = Run>>, query: &Query) -> Html {
    let several = runs.len() > 1;
    let marks: Vec<Mark> = runs.iter().flat_map(|(number, run)| marks(site, *number, run)).collect();
    let shown = View::of(query);
    let mut out = Html::new();
    let mut put_chart = |title: &str, about: &str, metrics: &[(String, String)], dots: Vec<Dot>| {
        let skipped = if several { telling(runs, metrics) } else { 0 };
        let title = match metrics.get(skipped) {
            Some((label, _)) if skipped > 0 => format!("{title}, {label}"),
            _ => title.to_owned(),
        };
        let lines = lines(runs, metrics.get(skipped..).unwrap_or_default());
        let chart = Chart { title, about: about.into(), lines, dots, marks: marks.clone(), ..shown.chart() };
        if !chart.is_empty() {
            put!(out, figure(&chart));
        }
    };
    let (_, first) = &runs[0];
    let rewards: Vec<(String, String)> = first
        .metrics
        .components()
        .iter()
        .rev()
        .map(|name| ((*name).to_owned(), format!("batch_reward/{name}")))
        .collect();
    put_chart(
        if several { "Reward, total" } else { "Reward by component" },
        "mean over the step's episodes",
        &rewards,
        Vec::new(),
    );
    let failures: Vec<(String, String)> = std::iter::once(("all".to_owned(), "reward/parse_failure_rate".to_owned()))
        .chain(first.metrics.names().filter_map(|name| {
            let kind = name.strip_prefix("reward/parse_failure_rate/")?;
            first.metrics.sum(name).filter(|sum| *sum > 0.0).map(|_| (kind.replace('_', " "), name.to_owned()))
        }))
        .collect();
    for (title, about, metrics) in CHARTS {
        let metrics: Vec<(String, String)> =
            metrics.iter().map(|(label, metric)| ((*label).to_owned(), (*metric).to_owned())).collect();
        let dots = if title == "Success" {
            runs.iter().flat_map(|(number, run)| dots(site, *number, run, several)).collect()
        } else {
            Vec::new()
        };
        put_chart(title, about, &metrics, dots);
        if title == "Groups with signal" {
            put_chart("Parse failures", "share of replies that could not be read, by kind", &failures, Vec::new());
        }
    }
    out
}

/// The first metric with values in any run: overlaid runs have one curve each.
fn telling(runs: &Shown<impl Deref<Target = Run>>, metrics: &[(String, String)]) -> usize {
    let told = |metric: &str| runs.iter().any(|(_, run)| run.metrics.points(metric).iter().any(|at| at.1 != 0.0));
    metrics.iter().position(|(_, metric)| told(metric)).unwrap_or(0)
}

/// Curves of one run, by metric, or of several, one each.
fn lines(runs: &Shown<impl Deref<Target = Run>>, metrics: &[(String, String)]) -> Vec<Line> {
    let several = runs.len() > 1;
    let mut lines = Vec::new();
    for (number, run) in runs {
        for (at, (label, metric)) in metrics.iter().enumerate().take(if several { 1 } else { 8 }) {
            let points = run.metrics.points(metric);
            if points.is_empty() {
                continue;
            }
            let label = if several { run.name.clone() } else { label.clone() };
            lines.push(Line { label, run: *number, colour: if several { number % 8 } else { at }, points });
        }
    }
    lines
}

/// Display settings of curves.
pub(super) struct View {
    range: Option<[u64; 2]>,
    smooth: f64,
}

impl View {
    pub(super) fn of(query: &Query) -> Self {
        let (from, to) = (query.number("from"), query.number("to"));
        let range = (from.is_some() || to.is_some()).then(|| [from.unwrap_or(0), to.unwrap_or(u64::from(u32::MAX))]);
        Self {
            range: range.filter(|[from, to]| from < to),
            smooth: query.number("smooth").unwrap_or(0.0_f64).clamp(0.0, 0.999),
        }
    }

    pub(super) fn chart(&self) -> Chart {
        Chart { range: self.range, smooth: self.smooth, ..Chart::default() }
    }
}

/// A chart with its title and legend.
pub(super) fn figure(chart: &Chart) -> Html {
    let mut out = Html::new();
    put!(out, "<figure data-item><figcaption><b>", chart.title, "</b><span class=\"legend\">");
    for line in &chart.lines {
        let last = line.points.last().map(|point| short(point.1)).unwrap_or_default();
        put!(out, "<span><i class=\"key s", line.colour, "\"></i>", line.label, " <em>", last, "</em></span>");
    }
    // Overlaid runs use the colour of their curve for all their evaluations.
    let mut dots: Vec<(usize, &str)> = chart.dots.iter().map(|dot| (dot.colour, dot.label.as_str())).collect();
    dots.sort_unstable();
    dots.dedup();
    dots.retain(|(colour, _)| chart.lines.iter().all(|line| line.colour != *colour));
    for (colour, label) in dots {
        put!(out, "<span><i class=\"key round s", colour, "\"></i>", label, "</span>");
    }
    put!(out, "</span>");
    if !chart.about.is_empty() {
        put!(out, "<span class=\"about\">", chart.about, "</span>");
    }
    put!(out, "</figcaption>", chart.svg(), "</figure>");
    out
}

/// Held-out evaluations as dots.
fn dots(site: &Site, number: usize, run: &Run, several: bool) -> Vec<Dot> {
    let evaluations = run.events.played.iter().filter(|played| played.event == "eval");
    let dot = |played: &crate::run::Played| {
        let colour = match (several, played.kind.as_str()) {
            (true, _) => number % 8,
            (false, "greedy") => 1,
            (false, _) => 2,
        };
        let label = if several {
            format!("{} held-out, {}", run.name, played.kind)
        } else {
            format!("held-out, {}", played.kind)
        };
        let href = site.part_url(number, &Part::Played(played.name()));
        Some(Dot { label, colour, step: played.step, value: played.success?, interval: played.interval, href })
    };
    evaluations.filter_map(dot).collect()
}

/// Evaluations, kept checkpoints and findings, by step.
fn marks(site: &Site, number: usize, run: &Run) -> Vec<Mark> {
    let mut marks: Vec<Mark> = Vec::new();
    let best = run.events.best.iter().map(|step| Mark {
        kind: "checkpoint",
        step: *step,
        label: format!("best checkpoint, step {step}"),
    });
    marks.extend(best);
    let mut evaluated: Vec<u64> =
        run.events.played.iter().filter(|played| played.event == "eval").map(|played| played.step).collect();
    evaluated.dedup();
    marks.extend(evaluated.into_iter().map(|step| Mark {
        kind: "eval",
        step,
        label: format!("evaluation at step {step}"),
    }));
    if let Doctor::Said(said, _) = site.doctor(number) {
        for finding in said.get("findings").and_then(|findings| findings.as_array()).into_iter().flatten() {
            let traces = finding.get("traces").and_then(|traces| traces.as_array()).into_iter().flatten();
            let step = traces.filter_map(serde_json::Value::as_u64).find_map(|trace| match run.part_of(trace)? {
                Part::Step(step) => Some(step),
                Part::Played(_) => None,
            });
            let check = finding.get("check").and_then(|check| check.as_str()).unwrap_or_default();
            marks.extend(step.map(|step| Mark {
                kind: "finding",
                step,
                label: format!("{check}, shown by a trace of step {step}"),
            }));
        }
    }
    marks
}

const COLUMNS: [(&str, &str); 6] = [
    ("reward", "batch_reward/total"),
    ("success", "reward/success_rate"),
    ("signal", "reward/signal_ratio"),
    ("parse fail", "reward/parse_failure_rate"),
    ("entropy", "policy/policy_entropy"),
    ("grad", "policy/grad_norm"),
];

fn steps(site: &Site, number: usize, run: &Run, query: &Query) -> Html {
    let mut out = Html::new();
    let steps = run.metrics.steps();
    let pages = steps.len().div_ceil(STEPS_A_PAGE).max(1);
    let page = query.number::<usize>("page").unwrap_or(pages).clamp(1, pages);
    put!(out, "<section class=\"panel\"><h2>Steps</h2>");
    if pages > 1 {
        put!(out, "<p class=\"bar\">");
        if page > 1 {
            put!(out, "<a class=\"pick\" href=\"", query.with("page", &(page - 1).to_string()), "\">earlier</a>");
        }
        put!(out, "<span>page ", page, " of ", pages, "</span>");
        if page < pages {
            put!(out, "<a class=\"pick\" href=\"", query.with("page", &(page + 1).to_string()), "\">later</a>");
        }
        put!(out, "</p>");
    }
    put!(out, "<div class=\"scroll\"><table class=\"steps\"><thead><tr><th>step</th>");
    for (name, _) in COLUMNS {
        put!(out, "<th>", name, "</th>");
    }
    put!(out, "<th class=\"text\">held-out</th></tr></thead><tbody>");
    for step in steps.iter().skip((page - 1) * STEPS_A_PAGE).take(STEPS_A_PAGE).rev() {
        put!(
            out,
            "<tr data-item><td>",
            site.link(site.part_url(number, &Part::Step(*step)), &step.to_string()),
            "</td>"
        );
        for (_, metric) in COLUMNS {
            put!(out, "<td>", cell(run.metrics.at(*step, metric)), "</td>");
        }
        put!(out, "<td class=\"text\">");
        for played in run.events.played.iter().filter(|played| played.step == *step && played.event == "eval") {
            put!(
                out,
                site.link(
                    site.part_url(number, &Part::Played(played.name())),
                    &format!("{} {}", played.kind, cell(played.success))
                ),
                " "
            );
        }
        if run.events.faults.contains_key(step) {
            put!(out, "<b class=\"bad\">faults</b>");
        }
        put!(out, "</td></tr>");
    }
    put!(out, "</tbody></table></div></section>");
    out
}

/// The reward curve as a separate file, with its colours inside.
pub fn reward_curve(run: &Run) -> Option<String> {
    let names = run.metrics.components();
    let lines = names.iter().rev().enumerate().map(|(colour, name)| Line {
        label: (*name).to_owned(),
        run: 0,
        colour,
        points: run.metrics.points(&format!("batch_reward/{name}")),
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
    let style = "<style>svg{background:#fff;font:11px system-ui,sans-serif}.grid{stroke:#e4e4e2}.tick{fill:#6b6b68}.line path{fill:none;stroke-width:1.6}.s0 path{stroke:#2b6cb0}.s1 path{stroke:#c2570c}.s2 path{stroke:#2f855a}.s3 path{stroke:#805ad5}.s4 path{stroke:#b7791f}.s5 path{stroke:#c53030}.s6 path{stroke:#0f7c8a}.s7 path{stroke:#6b6b68}.rule{display:none}</style>";
    let (head, rest) = svg.split_once('>')?;
    Some(format!("{head}>{style}{}{rest}\n", key.as_str()))
}

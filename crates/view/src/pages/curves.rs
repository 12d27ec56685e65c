//! Curves of a run, and of several runs overlaid.

use std::ops::Deref;

use hone_train::evaluate::Kind;
use hone_train::ledger::names::{self, Metric};

use super::Query;
use super::run::Shown;
use crate::html::Html;
use crate::number::short;
use crate::put;
use crate::run::{Lenient, Part, Played, Run, Set};
use crate::site::{Doctor, Site};
use crate::svg::{Chart, Dot, Line, Mark};

/// Controls of the curves: smoothing and range.
pub(super) fn controls(query: &Query, body: &mut Html) {
    put!(body, "<form class=\"bar\" method=\"get\" aria-label=\"how the curves are shown\"><span>smoothing</span>");
    let now = query.get("smooth").unwrap_or("");
    for (value, name) in [("", "none"), ("0.6", "0.6"), ("0.9", "0.9"), ("0.97", "0.97")] {
        let class = if now == value { "on" } else { "" };
        put!(body, "<a class=\"pick ", class, "\" href=\"", query.with("smooth", value), "\">", name, "</a>");
    }
    put!(
        *body,
        "<span>steps</span><input name=\"from\" inputmode=\"numeric\" size=\"6\" aria-label=\"first step\" \
         placeholder=\"first\" value=\"",
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
        "<span class=\"hint\">drag over a curve to zoom, click a point to open its step</span><span>▲ evaluation <b \
         class=\"good\">▲</b> best checkpoint <b class=\"warn\">▲</b> finding</span></form>"
    );
}

/// A chart to draw if a run has its metrics.
struct Plan {
    title: &'static str,
    about: &'static str,
    curves: Curves,
    /// Held-out evaluations are dots beside the curves.
    evaluations: bool,
}

/// Curves of a chart, each with its label.
enum Curves {
    Of(&'static [(&'static str, Metric)]),
    /// The reward components, the total first.
    Rewards,
    /// The rate of parse failures, then that of each kind that occurred.
    ParseFailures,
}

impl Plan {
    const fn of(title: &'static str, about: &'static str, curves: &'static [(&'static str, Metric)]) -> Self {
        Self { title, about, curves: Curves::Of(curves), evaluations: false }
    }
}

static PLANS: [Plan; 12] = [
    Plan {
        title: "Reward by component",
        about: "mean over the step's episodes",
        curves: Curves::Rewards,
        evaluations: false,
    },
    Plan {
        title: "Success",
        about: "share of episodes whose success component is 1; dots: held-out evaluations with 95 % intervals",
        curves: Curves::Of(&[("training", names::REWARD_SUCCESS_RATE)]),
        evaluations: true,
    },
    Plan::of(
        "Groups with signal",
        "share of groups whose rollouts did not all earn the same",
        &[("signal", names::REWARD_SIGNAL_RATIO)],
    ),
    Plan {
        title: "Parse failures",
        about: "share of replies that could not be read, by kind",
        curves: Curves::ParseFailures,
        evaluations: false,
    },
    Plan::of(
        "Entropy",
        "mean entropy of the distributions the trained tokens were drawn from",
        &[("entropy", names::POLICY_POLICY_ENTROPY)],
    ),
    Plan::of(
        "KL",
        "divergence from the reference, and from the start where it is measured",
        &[("reference", names::POLICY_POLICY_KL), ("start", names::POLICY_KL_TO_START)],
    ),
    Plan::of(
        "Mismatch",
        "|learner − sampler| of the logprobs of sampled tokens",
        &[
            ("mean", names::POLICY_ROLLOUT_TRAIN_LOGPROBS_ABS_DIFF_MEAN),
            ("max", names::POLICY_ROLLOUT_TRAIN_LOGPROBS_ABS_DIFF_MAX),
        ],
    ),
    Plan::of(
        "Gradient norm",
        "before clipping, averaged over the step's optimizer steps",
        &[("norm", names::POLICY_GRAD_NORM)],
    ),
    Plan::of(
        "Clipped",
        "share of trained tokens whose gradient the clip set to zero",
        &[("clipped", names::POLICY_LOSS_METRICS_CLIP_RATIO)],
    ),
    Plan::of("Throughput", "sampled tokens a second", &[("tokens/s", names::TIMING_SAMPLED_TOKENS_PER_SECOND)]),
    Plan::of("Sampled tokens an episode", "mean", &[("tokens", names::GENERATE_AVG_NUM_TOKENS)]),
    Plan::of(
        "Tool errors",
        "share of executed calls that the environment answered with an error",
        &[("errors", names::ENVIRONMENT_TOOL_ERROR_RATE)],
    ),
];

/// All charts of some runs.
pub(crate) fn charts(site: &Site, runs: &Shown<impl Deref<Target = Run>>, query: &Query) -> Html {
    let several = runs.len() > 1;
    let marks: Vec<Mark> = runs.iter().flat_map(|(number, run)| marks(site, *number, run)).collect();
    let shown = View::of(query);
    let mut out = Html::new();
    for plan in &PLANS {
        let metrics = plan.curves.metrics(&runs[0].1);
        let skipped = if several { telling(runs, &metrics) } else { 0 };
        let evaluated = if plan.evaluations { runs } else { &[] };
        let chart = Chart {
            title: plan.title(several, metrics.get(skipped).filter(|_| skipped > 0)),
            about: plan.about.into(),
            lines: lines(runs, metrics.get(skipped..).unwrap_or_default()),
            dots: evaluated.iter().flat_map(|(number, run)| dots_of(site, *number, run, several)).collect(),
            marks: marks.clone(),
            ..shown.chart()
        };
        if !chart.is_empty() {
            put!(out, figure(&chart));
        }
    }
    out
}

impl Plan {
    /// The title; overlaid runs have one curve each, which is named if it is not the first.
    fn title(&self, several: bool, curve: Option<&(String, String)>) -> String {
        let title = match self.curves {
            Curves::Rewards if several => "Reward, total",
            _ => self.title,
        };
        curve.map_or_else(|| title.to_owned(), |(label, _)| format!("{title}, {label}"))
    }
}

impl Curves {
    /// Labels and names of the metrics; families as the run has them.
    fn metrics(&self, run: &Run) -> Vec<(String, String)> {
        match self {
            Self::Of(metrics) => {
                metrics.iter().map(|(label, metric)| ((*label).to_owned(), metric.name.to_owned())).collect()
            }
            Self::Rewards => {
                let components = run.metrics.components().into_iter().rev();
                components.map(|name| (name.to_owned(), component(name))).collect()
            }
            Self::ParseFailures => {
                let all = ("all".to_owned(), names::REWARD_PARSE_FAILURE_RATE.name.to_owned());
                let kinds = run.metrics.names().filter_map(|name| {
                    let kind = names::REWARD_PARSE_FAILURE_RATE_KIND.part(name)?;
                    run.metrics.sum(name).filter(|sum| *sum > 0.0)?;
                    Some((kind.replace('_', " "), name.to_owned()))
                });
                std::iter::once(all).chain(kinds).collect()
            }
        }
    }
}

/// The metric of a reward component.
fn component(name: &str) -> String {
    names::BATCH_REWARD_COMPONENT.of([&name]).to_string()
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
fn dots_of(site: &Site, number: usize, run: &Run, several: bool) -> Vec<Dot> {
    let evaluations = run.events.evaluations();
    let dot = |played: &Played| {
        let colour = match &played.set {
            _ if several => number % 8,
            Set::Eval(Lenient::Known(Kind::Greedy)) => 1,
            _ => 2,
        };
        let label = format!("held-out, {}", played.set.kind());
        let label = if several { format!("{} {label}", run.name) } else { label };
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
    let mut evaluated: Vec<u64> = run.events.evaluations().map(|played| played.step).collect();
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

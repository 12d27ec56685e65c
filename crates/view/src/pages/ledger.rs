//! Token accounting of a run: which sampled tokens were trained.

use std::fmt::Write as _;

use super::Query;
use crate::html::Html;
use crate::number::count;
use crate::put;
use crate::run::Run;
use crate::svg::flow;

/// The ledger of sampled tokens: trained, or not trained and why.
pub(crate) fn ledger(run: &Run, query: &Query, named: bool) -> Html {
    let (from, to) = (query.number("from").unwrap_or(0_u64), query.number("to").unwrap_or(u64::MAX));
    let sum = |place: &str| -> f64 {
        let points = run.metrics.points(&format!("tokens/{place}"));
        points.iter().filter(|(step, _)| (from..=to).contains(step)).map(|(_, tokens)| tokens).sum()
    };
    let mut out = Html::new();
    if sum("sampled") <= 0.0 {
        return out;
    }
    put!(out, "<section class=\"panel\"><h2>Fate of the sampled tokens</h2>");
    if named {
        put!(out, "<p class=\"dim\">", run.name, "</p>");
    }
    let parts = [
        ("trained", sum("trained"), "good"),
        ("zero advantage", sum("zero_advantage"), "flat"),
        ("clipped", sum("clipped"), "warn"),
        ("masked", sum("masked"), "warn"),
        ("skipped", sum("skipped"), "warn"),
        ("unscored", sum("unscored"), "bad"),
        ("truncated", sum("truncated"), "bad"),
        ("faulted", sum("faulted"), "bad"),
    ];
    put!(out, flow(("sampled", sum("sampled")), &parts), "<dl class=\"fates\">");
    for (name, _, class) in parts.iter().filter(|(_, tokens, _)| *tokens > 0.0) {
        put!(out, "<div><dt class=\"", *class, "\">", *name, "</dt><dd>", fate(name), "</dd></div>");
    }
    put!(out, "</dl>");
    let total = |metric: &str| run.metrics.sum(metric);
    if let Some(episodes) = total("rollouts/total") {
        let mut line = format!("{} episodes", count(episodes));
        for (metric, name) in [
            ("rollouts/malformed", "ended malformed"),
            ("rollouts/truncated_overlong", "cut by a limit"),
            ("rollouts/faulted", "broken and excluded"),
        ] {
            if let Some(episodes) = total(metric) {
                let _ = write!(line, " · {} {name}", count(episodes));
            }
        }
        put!(out, "<p class=\"dim\">", line, "</p>");
    }
    put!(out, "</section>");
    out
}

/// Fates of sampled tokens, in words.
fn fate(place: &str) -> &'static str {
    match place {
        "trained" => "the advantage reached the gradient",
        "zero advantage" => {
            "all rollouts of the group earned the same, or there was no other: there is no preference to learn"
        }
        "clipped" => "the clip set the gradient to zero",
        "masked" => "a mask or an off-policy correction took them out",
        "skipped" => "the optimizer step was not taken, or was taken back",
        "unscored" => "the rollout has no reward",
        "truncated" => "a length limit cut the rollout short, and the recipe does not train on such",
        "faulted" => "something outside the policy broke the rollout: it is in no statistics",
        _ => "",
    }
}

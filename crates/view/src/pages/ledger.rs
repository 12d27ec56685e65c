//! Token accounting of a run: which sampled tokens were trained.

use std::fmt::Write as _;

use hone_train::ledger::names::{self, Metric};

use super::Query;
use crate::fates::{FATES, Fate};
use crate::html::Html;
use crate::number::count;
use crate::put;
use crate::run::Run;
use crate::svg::flow;

/// The ledger of sampled tokens: trained, or not trained and why.
pub(crate) fn ledger(run: &Run, query: &Query, named: bool) -> Html {
    let (from, to) = (query.number("from").unwrap_or(0_u64), query.number("to").unwrap_or(u64::MAX));
    let sum = |tokens: Metric| -> f64 {
        let points = run.metrics.points(tokens.name);
        points.iter().filter(|(step, _)| (from..=to).contains(step)).map(|(_, tokens)| tokens).sum()
    };
    let mut out = Html::new();
    let sampled = sum(names::TOKENS_SAMPLED);
    if sampled <= 0.0 {
        return out;
    }
    put!(out, "<section class=\"panel\"><h2>Fate of the sampled tokens</h2>");
    if named {
        put!(out, "<p class=\"dim\">", run.name, "</p>");
    }
    let parts: Vec<_> = FATES.iter().map(|fate| (fate.name, sum(fate.tokens), fate.class)).collect();
    put!(out, flow(("sampled", sampled), &parts), "<dl class=\"fates\">");
    for Fate { name, class, means, .. } in FATES.iter().filter(|fate| sum(fate.tokens) > 0.0) {
        put!(out, "<div><dt class=\"", *class, "\">", *name, "</dt><dd>", *means, "</dd></div>");
    }
    put!(out, "</dl>");
    let total = |metric: Metric| run.metrics.sum(metric.name);
    if let Some(episodes) = total(names::ROLLOUTS_TOTAL) {
        let mut line = format!("{} episodes", count(episodes));
        for (metric, name) in [
            (names::ROLLOUTS_MALFORMED, "ended malformed"),
            (names::ROLLOUTS_TRUNCATED_OVERLONG, "cut by a limit"),
            (names::ROLLOUTS_FAULTED, "broken and excluded"),
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

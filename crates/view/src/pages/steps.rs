//! Table of a run's steps: main metrics, evaluations, faults.

use hone_train::ledger::names::{self, Metric};

use super::Query;
use crate::html::Html;
use crate::number::cell;
use crate::put;
use crate::run::{Part, Run};
use crate::site::Site;

const STEPS_A_PAGE: usize = 100;

const COLUMNS: [(&str, Metric); 6] = [
    ("reward", names::BATCH_REWARD_TOTAL),
    ("success", names::REWARD_SUCCESS_RATE),
    ("signal", names::REWARD_SIGNAL_RATIO),
    ("parse fail", names::REWARD_PARSE_FAILURE_RATE),
    ("entropy", names::POLICY_POLICY_ENTROPY),
    ("grad", names::POLICY_GRAD_NORM),
];

/// The steps of a page, the last first.
pub(super) fn steps(site: &Site, number: usize, run: &Run, query: &Query) -> Html {
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
            put!(out, "<td>", cell(run.metrics.at(*step, metric.name)), "</td>");
        }
        put!(out, "<td class=\"text\">");
        for played in run.events.evaluations().filter(|played| played.step == *step) {
            put!(
                out,
                site.link(
                    site.part_url(number, &Part::Played(played.name())),
                    &format!("{} {}", played.set.kind(), cell(played.success))
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

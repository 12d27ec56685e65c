//! Tasks that a validation rejected, each with its reason and traces.

use std::collections::BTreeMap;

use super::notes;
use crate::html::{Html, clipped};
use crate::number::thousands;
use crate::put;
use crate::run::Run;
use crate::site::Site;

/// Rows of the table in a file; rejected.jsonl has the rest.
const MOST: usize = 1000;
/// Rows of the table beside the curves; the Data page has the rest.
const FEW: usize = 20;

/// A panel, or nothing if the run is not a validation or rejected nothing.
pub(crate) fn rejected(site: &Site, number: usize, run: &Run) -> Html {
    let mut out = Html::new();
    let (tasks, skipped) = run.rejected();
    notes(&skipped, &mut out);
    if tasks.is_empty() {
        return out;
    }
    let mut counts = BTreeMap::<&str, usize>::new();
    tasks.iter().for_each(|task| *counts.entry(&task.reason).or_default() += 1);
    let counts: Vec<String> = counts.iter().map(|(reason, count)| format!("{reason}: {count}")).collect();
    put!(
        out,
        "<section class=\"panel\"><h2>Rejected tasks</h2><p class=\"dim\">",
        format!("{} in all. {}", thousands(tasks.len() as u64), counts.join(", ")),
        "</p><div class=\"scroll\"><table><thead><tr><th class=\"text\">task</th><th class=\"text\">environment</th>\
         <th class=\"text\">reason</th><th class=\"text\">what was seen</th><th class=\"text\">traces</th></tr>\
         </thead><tbody>"
    );
    let most = if site.is_file() { MOST } else { FEW };
    for task in tasks.iter().take(most) {
        put!(out, "<tr data-item><td class=\"text\">", clipped(&task.task, 120), "</td><td class=\"text\">");
        put!(out, clipped(&task.env, 60), "</td><td class=\"text\">", task.reason, "</td><td class=\"text\">");
        put!(out, clipped(&task.detail, 400), "</td><td class=\"text\">");
        for trace in &task.traces {
            put!(out, site.link(site.trace_url(number, *trace), &trace.to_string()), " ");
        }
        put!(out, "</td></tr>");
    }
    put!(out, "</tbody></table></div>");
    if tasks.len() > most {
        let url = (!site.is_file()).then(|| format!("/r/{number}/data"));
        let rest = format!("{} more", thousands((tasks.len() - most) as u64));
        put!(out, "<p class=\"dim\">and ", site.link(url, &rest), " in rejected.jsonl</p>");
    }
    put!(out, "</section>");
    out
}

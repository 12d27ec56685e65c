//! Data page: kept and rejected tasks by environment and reason, and the rejected tasks with their traces.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Place, Query, crumbs, frame, left, list, text};
use crate::html::{Html, clipped};
use crate::number::{cell, thousands};
use crate::put;
use crate::run::{Run, ViewError};
use crate::site::Site;

/// Rejected tasks on a page.
const ROWS: usize = 200;

pub(super) fn page(site: &Site, number: usize, query: &Query) -> Result<Html, ViewError> {
    let run = site.run(number)?;
    let mut body = Html::new();
    put!(body, "<section class=\"head\"><h1>Data</h1></section>");
    let mut found = false;
    for directory in directories(&run) {
        let own = directory == run.path;
        match left(&directory, "report.json") {
            Ok(Some(report)) if report.get("environments").is_some() && report.get("rejected").is_some() => {
                found = true;
                put!(body, "<p class=\"dim\">", directory.display().to_string(), "</p>", tallies(&report));
                put!(body, rejected(site, own.then_some(number), &report, query));
            }
            // A training run's report.json is a different file.
            Ok(_) => {}
            Err(why) => {
                found = true;
                put!(body, "<p class=\"bad\">", clipped(&why, 1000), "</p>");
            }
        }
    }
    if !found {
        put!(
            body,
            "<p>The tasks of this run were not validated. <code>hone data validate --recipe RECIPE --out checked\
             </code> plays each of them, and <code>hone view checked</code> shows here which were rejected, why, \
             and the traces. A run that trains on <code>checked/tasks.jsonl</code> shows it as well.</p>"
        );
    }
    let crumbs = crumbs(site, number, &[("data".to_owned(), String::new())])?;
    Ok(frame(site, &Place { run: Some(number), tab: "Data", crumbs }, &body))
}

/// The run's own directory, and those that its tasks come from.
fn directories(run: &Run) -> Vec<PathBuf> {
    let tables = match run.recipe.get("env") {
        Some(toml::Value::Array(tables)) => tables.iter().collect(),
        Some(table) => vec![table],
        None => Vec::new(),
    };
    let parent = |table: &toml::Value| Some(Path::new(table.get("task_file")?.as_str()?).parent()?.to_owned());
    let mut found = vec![run.path.clone()];
    for directory in tables.into_iter().filter_map(parent) {
        if !found.contains(&directory) {
            found.push(directory);
        }
    }
    found
}

fn tallies(report: &Value) -> Html {
    let mut out = Html::new();
    put!(
        out,
        "<div class=\"scroll\"><table class=\"evals\"><thead><tr><th class=\"text\">environment</th><th>tasks</th>\
         <th>kept</th><th>no-op</th><th>rejected</th><th class=\"text\">reasons</th></tr></thead><tbody>"
    );
    let environments = report.get("environments").and_then(Value::as_object).into_iter().flatten();
    let none = Value::Null;
    for (name, tally) in
        environments.map(|(name, tally)| (name.as_str(), tally)).chain([("all", report.get("all").unwrap_or(&none))])
    {
        let count = |key: &str| tally.get(key).and_then(Value::as_u64).map_or_else(|| "–".to_owned(), thousands);
        let reasons = tally.get("rejected").and_then(Value::as_object).into_iter().flatten();
        let reasons: Vec<(String, u64)> =
            reasons.filter_map(|(reason, count)| Some((words(reason), count.as_u64()?))).collect();
        let listed: Vec<String> =
            reasons.iter().map(|(reason, count)| format!("{} {reason}", thousands(*count))).collect();
        put!(
            out,
            "<tr><td class=\"text\">",
            clipped(name, 80),
            "</td><td>",
            count("tasks"),
            "</td><td>",
            count("kept"),
            "</td><td>",
            count("no_op"),
            "</td><td>",
            thousands(reasons.iter().map(|(_, count)| count).sum()),
            "</td><td class=\"text why\">",
            listed.join(", "),
            "</td></tr>"
        );
    }
    put!(out, "</tbody></table></div>");
    out
}

/// Rejected tasks; their traces are links if the set's directory is the run being shown.
fn rejected(site: &Site, own: Option<usize>, report: &Value, query: &Query) -> Html {
    let mut out = Html::new();
    let all = list(report, "rejected");
    if all.is_empty() {
        put!(out, "<p>No task was rejected.</p>");
        return out;
    }
    put!(out, "<h2>Rejected tasks</h2>", picks(all, query));
    put!(
        out,
        "<div class=\"scroll\"><table class=\"evals\"><thead><tr><th class=\"text\">task</th><th \
         class=\"text\">reason</th><th class=\"text\">what exactly</th><th>before</th><th>after</th><th \
         class=\"text\">traces</th></tr></thead><tbody>"
    );
    let wanted = query.get("reason");
    let fits = |finding: &&Value| wanted.is_none_or(|wanted| text(finding, "rejected") == wanted);
    for finding in all.iter().filter(fits).take(ROWS) {
        let value = |key: &str| cell(finding.get(key).and_then(Value::as_f64));
        put!(
            out,
            "<tr data-item><td class=\"text\">",
            clipped(&text(finding, "key"), 120),
            "</td><td class=\"text\">",
            words(&text(finding, "rejected")),
            "</td><td class=\"text why\">",
            clipped(&text(finding, "detail"), 600),
            "</td><td>",
            value("before"),
            "</td><td>",
            value("after"),
            "</td><td class=\"text\">"
        );
        for trace in list(finding, "traces").iter().filter_map(Value::as_u64) {
            put!(out, site.link(own.and_then(|run| site.trace_url(run, trace)), &trace.to_string()), " ");
        }
        put!(out, "</td></tr>");
    }
    put!(out, "</tbody></table></div>");
    let more = all.iter().filter(fits).count().saturating_sub(ROWS);
    if more > 0 {
        put!(out, "<p class=\"dim\">and ", thousands(more as u64), " more in rejected.jsonl</p>");
    }
    out
}

/// Links to the rejected tasks of every reason, and of one.
fn picks(all: &[Value], query: &Query) -> Html {
    let mut out = Html::new();
    let wanted = query.get("reason").unwrap_or("");
    put!(out, "<p class=\"bar\">");
    let mut reasons: Vec<String> = all.iter().map(|finding| text(finding, "rejected")).collect();
    reasons.sort();
    reasons.dedup();
    for reason in std::iter::once("").chain(reasons.iter().map(String::as_str)) {
        let label = if reason.is_empty() { "every reason".to_owned() } else { words(reason) };
        if wanted == reason {
            put!(
                out,
                "<a class=\"pick on\" aria-current=\"true\" href=\"",
                query.with("reason", reason),
                "\">",
                label,
                "</a> "
            );
        } else {
            put!(out, "<a class=\"pick\" href=\"", query.with("reason", reason), "\">", label, "</a> ");
        }
    }
    put!(out, "</p>");
    out
}

fn words(reason: &str) -> String {
    reason.replace('_', " ")
}

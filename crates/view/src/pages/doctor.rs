//! Findings with their arithmetic, and the traces they cite.

use hone_doctor::CHECKS;
use serde_json::Value;

use super::{Place, crumbs, frame, text};
use crate::html::{Html, clipped};
use crate::put;
use crate::run::ViewError;
use crate::site::{Doctor, Site};

pub(super) fn page(site: &Site, number: usize) -> Result<Html, ViewError> {
    let mut body = Html::new();
    put!(body, "<section class=\"head\"><h1>Doctor</h1></section>", findings(site, number));
    let crumbs = crumbs(site, number, &[("doctor".to_owned(), String::new())])?;
    Ok(frame(site, &Place { run: Some(number), tab: "Doctor", crumbs }, &body))
}

/// The doctor's findings.
pub(crate) fn findings(site: &Site, number: usize) -> Html {
    let mut out = Html::new();
    let said = match site.doctor(number) {
        Doctor::NotAsked | Doctor::Asked => {
            put!(out, "<p data-wait>The doctor reads the run; this page shows what it found when it is done.</p>");
            return out;
        }
        Doctor::Failed(why) => {
            put!(out, "<p class=\"bad\">The doctor cannot read this run: ", clipped(&why, 2000), "</p>");
            return out;
        }
        Doctor::Said(said, _) => said,
    };
    let list = |key: &str| said.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let found = list("findings");
    if found.is_empty() {
        put!(out, "<p>Nothing wrong was found.</p>");
    }
    for finding in &found {
        put!(out, one(site, number, finding, true));
    }
    let healthy: Vec<String> = list("healthy").iter().filter_map(|name| name.as_str().map(str::to_owned)).collect();
    put!(
        out,
        "<section class=\"panel\"><details class=\"fold\"><summary>",
        healthy.len(),
        " checks found nothing wrong</summary><p>",
        healthy.join(", "),
        "</p></details>"
    );
    let skipped = list("skipped");
    if !skipped.is_empty() {
        put!(out, "<details class=\"fold\"><summary>", skipped.len(), " checks could not be made</summary><ul>");
        for each in &skipped {
            put!(out, "<li><b>", text(each, "check"), "</b> needs ", text(each, "needs"), "</li>");
        }
        put!(out, "</ul></details>");
    }
    put!(out, "</section>");
    out
}

fn one(site: &Site, number: usize, finding: &Value, is_cause: bool) -> Html {
    let mut out = Html::new();
    let severity = text(finding, "severity");
    let class = match severity.as_str() {
        "error" => "bad",
        "warning" => "warn",
        _ => "flat",
    };
    let check = text(finding, "check");
    put!(
        out,
        "<article class=\"finding ",
        class,
        "\" data-item tabindex=\"-1\" id=\"",
        check,
        "\"><h3><b class=\"",
        class,
        "\">",
        severity,
        "</b> ",
        clipped(&text(finding, "says"), 1000),
        " <span class=\"dim\">",
        check,
        "</span></h3>"
    );
    let lines: Vec<String> = strings(finding, "lines");
    if !lines.is_empty() {
        put!(out, "<pre>", clipped(&lines.join("\n"), 8000), "</pre>");
    }
    let traces: Vec<u64> =
        finding.get("traces").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_u64).collect();
    if !traces.is_empty() {
        put!(out, "<p>traces that show it: ");
        for trace in traces {
            put!(out, site.link(site.trace_url(number, trace), &trace.to_string()), " ");
        }
        put!(out, "</p>");
    }
    if is_cause {
        let general = CHECKS.iter().find(|other| other.name == check).map_or("", |check| check.fix);
        let fix = Some(text(finding, "fix")).filter(|fix| !fix.is_empty()).unwrap_or_else(|| general.to_owned());
        put!(out, "<p><b>fix</b> ", clipped(&fix, 2000), "</p>");
    }
    for other in finding.get("consequences").and_then(Value::as_array).into_iter().flatten() {
        put!(
            out,
            "<div class=\"follows\"><span class=\"dim\">from it follows</span>",
            one(site, number, other, false),
            "</div>"
        );
    }
    put!(out, "</article>");
    out
}

fn strings(value: &Value, key: &str) -> Vec<String> {
    let list = value.get(key).and_then(Value::as_array).into_iter().flatten();
    list.map(|line| line.as_str().map_or_else(|| line.to_string(), str::to_owned)).collect()
}

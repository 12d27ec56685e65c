//! Pages: a URL in, HTML out. One file each.

mod audit;
mod behaviour;
mod compare;
mod curves;
mod data;
mod doctor;
mod eval;
mod filter;
mod group;
mod groups;
mod ledger;
mod measured;
mod metrics;
mod part;
mod picture;
mod rejected;
mod run;
mod steps;
mod tokens;
mod trace;

use std::path::Path;

use serde_json::Value;

use crate::html::{Html, decoded, encoded};
use crate::put;
use crate::run::{Part, ViewError};
use crate::site::Site;

pub(crate) use curves::charts;
pub(crate) use doctor::findings;
pub(crate) use eval::evaluations;
pub(crate) use ledger::ledger;
pub(crate) use measured::measured;
pub use picture::reward_curve;
pub(crate) use rejected::rejected;
pub(crate) use run::head;
pub(crate) use trace::whole as whole_trace;

pub const STYLE: &str = include_str!("style.css");
pub const SCRIPT: &str = include_str!("script.js");

/// The query of a URL.
#[derive(Debug, Clone, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    pub fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|part| !part.is_empty());
        let pair = |part: &str| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            (decoded(name), decoded(value))
        };
        Self(pairs.map(pair).collect())
    }

    /// A value that is not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, value)| other == name && !value.is_empty()).map(|(_, value)| value.as_str())
    }

    pub fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.get(name)?.parse().ok()
    }

    /// The same with one value changed; an empty one is omitted.
    pub fn with(&self, name: &str, value: &str) -> String {
        let kept =
            self.0.iter().filter(|(other, _)| other != name).map(|(name, value)| (name.as_str(), value.as_str()));
        let pairs = kept.chain([(name, value)]).filter(|(_, value)| !value.is_empty());
        let parts: Vec<String> = pairs.map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
        format!("?{}", parts.join("&"))
    }
}

/// A page by its address.
pub fn page(site: &Site, path: &str, query: &Query) -> Result<Html, ViewError> {
    let parts: Vec<String> = path.split('/').filter(|part| !part.is_empty()).map(decoded).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let missing = || ViewError::Missing(format!("there is no page {path}"));
    let number = |text: &str| text.parse::<usize>().map_err(|_| missing());
    match parts[..] {
        [] => run::page(site, None, query),
        ["compare"] => compare::page(site, query),
        ["r", run] => run::page(site, Some(number(run)?), query),
        ["r", run, "audit"] => audit::page(site, number(run)?),
        ["r", run, "data"] => data::page(site, number(run)?, query),
        ["r", run, "doctor"] => doctor::page(site, number(run)?),
        ["r", run, "eval"] => eval::page(site, number(run)?),
        ["r", run, "metrics"] => metrics::page(site, number(run)?, query),
        ["r", run, "trace", trace] => trace::page(site, number(run)?, trace.parse().map_err(|_| missing())?, query),
        ["r", run, part] => part::page(site, number(run)?, &Part::parse(part), query),
        ["r", run, part, group] => group::page(site, number(run)?, &Part::parse(part), number(group)?),
        _ => Err(missing()),
    }
}

/// Location of a page: its run and the way up from it.
pub(crate) struct Place<'a> {
    pub run: Option<usize>,
    /// Name of the tab.
    pub tab: &'a str,
    /// Links up, the page's own name last.
    pub crumbs: Vec<(String, String)>,
}

/// The frame around a page.
pub(crate) fn frame(site: &Site, place: &Place<'_>, body: &Html) -> Html {
    let mut out = Html::new();
    let title = place.crumbs.iter().rev().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" · ");
    put!(
        out,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\"><title>",
        title,
        " · hone</title><link rel=\"stylesheet\" href=\"/style.css\"><link rel=\"icon\" href=\"data:,\"></head><body>"
    );
    put!(out, "<header><a class=\"brand\" href=\"/\">hone</a><nav aria-label=\"where you are\" class=\"crumbs\">");
    let last = place.crumbs.len().saturating_sub(1);
    for (at, (name, url)) in place.crumbs.iter().enumerate() {
        if at == last {
            put!(out, "<span aria-current=\"page\">", name, "</span>");
        } else {
            put!(out, "<a href=\"", url, "\">", name, "</a><i>/</i>");
        }
    }
    put!(out, "</nav><nav aria-label=\"pages of the run\" class=\"tabs\">");
    let run = place.run.unwrap_or(0);
    for (tab, url) in [
        ("Run", if place.run.is_none() { "/".to_owned() } else { format!("/r/{run}") }),
        ("Evaluations", format!("/r/{run}/eval")),
        ("Doctor", format!("/r/{run}/doctor")),
        ("Compare", format!("/compare?run={run}")),
        ("Data", format!("/r/{run}/data")),
        ("Audit", format!("/r/{run}/audit")),
        ("Metrics", format!("/r/{run}/metrics")),
    ] {
        if tab == place.tab {
            put!(out, "<a class=\"on\" aria-current=\"true\" href=\"", url, "\">", tab, "</a>");
        } else {
            put!(out, "<a href=\"", url, "\">", tab, "</a>");
        }
    }
    put!(
        out,
        "</nav><span id=\"live\" role=\"status\" title=\"the page follows the run\"></span></header><main>",
        *body,
        "</main>"
    );
    put!(
        out,
        "<footer><kbd>j</kbd><kbd>k</kbd> next, previous <kbd>Enter</kbd> open <kbd>u</kbd> up <kbd>/</kbd> search\
         </footer><div id=\"tip\" role=\"tooltip\" hidden></div><script src=\"/script.js\"></script></body></html>"
    );
    let _ = site;
    out
}

/// Breadcrumbs of a run and the levels below it.
pub(crate) fn crumbs(site: &Site, run: usize, more: &[(String, String)]) -> Result<Vec<(String, String)>, ViewError> {
    let name = site.run(run)?.name.clone();
    let mut crumbs = vec![(name, format!("/r/{run}"))];
    crumbs.extend_from_slice(more);
    Ok(crumbs)
}

/// Notes on skipped records.
pub(crate) fn notes(notes: &[String], out: &mut Html) {
    if notes.is_empty() {
        return;
    }
    put!(out, "<aside class=\"notes\" aria-label=\"what was skipped\">");
    for note in notes.iter().take(20) {
        put!(out, "<p>", crate::html::clipped(note, 400), "</p>");
    }
    if notes.len() > 20 {
        put!(out, "<p>and ", notes.len() - 20, " more</p>");
    }
    put!(out, "</aside>");
}

/// A JSON file that another command wrote into a directory; `None` if there is none.
pub(crate) fn left(directory: &Path, name: &str) -> Result<Option<Value>, String> {
    let text = match std::fs::read_to_string(directory.join(name)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{name} cannot be read: {error}")),
        Ok(text) => text,
    };
    serde_json::from_str(&text).map(Some).map_err(|error| format!("{name} is not JSON: {error}"))
}

/// A text of an object; empty if absent.
pub(crate) fn text(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// A list of an object; empty if absent.
pub(crate) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The class of a value by its sign.
pub(crate) fn sign(value: Option<f64>) -> &'static str {
    match value {
        Some(value) if value > 0.0 => "good",
        Some(value) if value < 0.0 => "bad",
        _ => "flat",
    }
}

/// Display name of a step or evaluation.
pub(crate) fn called(part: &Part) -> String {
    match part {
        Part::Step(step) => format!("step {step}"),
        Part::Played(name) => name.clone(),
    }
}

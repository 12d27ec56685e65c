//! Audit page: findings, components, probes, and rewards along a sweep.

use std::collections::BTreeMap;

use hone_arena::rewards::TOTAL;
use serde_json::Value;

use super::curves::figure;
use super::{Place, crumbs, frame, left, list, text};
use crate::html::{Html, clipped};
use crate::number::{cell, signed};
use crate::put;
use crate::run::ViewError;
use crate::site::Site;
use crate::svg::{Chart, Line};

/// Sweeps of `hone audit`, as they are drawn: name, title, quantity along the axis, and the factor that makes it an
/// integer.
const SWEEPS: &[(&str, &str, &str, f64)] = &[
    ("filler_words", "Film trivia", "words", 1.0),
    ("padding_words", "The solution with trivia after it", "words", 1.0),
    ("confidence_right", "The solution, by stated confidence", "confidence in %", 100.0),
    ("confidence_wrong", "A wrong answer, by stated confidence", "confidence in %", 100.0),
    ("right_citations", "Right citations given", "citations", 1.0),
    ("wrong_citations", "Wrong citations beside the right ones", "citations", 1.0),
    ("repeated_citations", "Right citations, repeated", "times", 1.0),
];

pub(super) fn page(site: &Site, number: usize) -> Result<Html, ViewError> {
    let run = site.run(number)?;
    let mut body = Html::new();
    put!(body, "<section class=\"head\"><h1>Audit</h1>");
    match left(&run.path, "audit.json") {
        Ok(Some(audit)) => {
            let honest = audit.get("honest").unwrap_or(&Value::Null);
            put!(body, "<p class=\"dim\">", tried(&audit), "; honest work: ", clipped(&text(honest, "who"), 300));
            put!(body, ", total ", cell(honest.get("total").and_then(Value::as_f64)), "</p></section>");
            put!(body, findings(&audit), curves(&audit), components(&audit), probes(&audit));
        }
        Ok(None) => {
            put!(
                body,
                "</section><p>The rewards of this run were not attacked. <code>hone audit --run RUN</code> plays \
                 junk, sweeps and broken forms against them, and what they earn is shown here.</p>"
            );
        }
        Err(why) => {
            put!(body, "</section><p class=\"bad\">", clipped(&why, 1000), "</p>");
        }
    }
    let crumbs = crumbs(site, number, &[("audit".to_owned(), String::new())])?;
    Ok(frame(site, &Place { run: Some(number), tab: "Audit", crumbs }, &body))
}

fn tried(audit: &Value) -> String {
    let count =
        |key: &str| audit.get(key).and_then(Value::as_u64).map_or_else(|| "–".to_owned(), |count| count.to_string());
    format!("{} episodes of {} tasks", count("episodes"), count("tasks"))
}

/// Broken laws, worst first, and how many hold.
fn findings(audit: &Value) -> Html {
    let mut out = Html::new();
    for finding in list(audit, "findings") {
        let severity = text(finding, "severity");
        let class = match severity.as_str() {
            "error" => "bad",
            "warning" => "warn",
            _ => "flat",
        };
        put!(
            out,
            "<article class=\"finding ",
            class,
            "\" data-item tabindex=\"-1\"><h3><b class=\"",
            class,
            "\">",
            severity
        );
        put!(
            out,
            "</b> ",
            clipped(&text(finding, "says"), 1000),
            " <span class=\"dim\">",
            text(finding, "law"),
            "</span></h3>"
        );
        let lines: Vec<&str> = list(finding, "lines").iter().filter_map(Value::as_str).collect();
        if !lines.is_empty() {
            put!(out, "<pre>", clipped(&lines.join("\n"), 8000), "</pre>");
        }
        put!(out, "<p><b>repair</b> ", clipped(&text(finding, "repair"), 2000), "</p>");
        for follows in list(finding, "consequences").iter().filter_map(Value::as_str) {
            put!(out, "<p class=\"follows dim\">from it follows: ", clipped(follows, 1000), "</p>");
        }
        put!(out, "</article>");
    }
    let held: Vec<&str> = list(audit, "held").iter().filter_map(Value::as_str).collect();
    put!(
        out,
        "<section class=\"panel\"><details class=\"fold\"><summary>laws that hold: ",
        held.len(),
        "</summary><p>"
    );
    put!(out, held.join(", "), "</p></details>");
    let skipped = list(audit, "skipped");
    if !skipped.is_empty() {
        put!(out, "<details class=\"fold\"><summary>laws that could not be checked: ", skipped.len(), "</summary><ul>");
        for each in skipped {
            put!(out, "<li><b>", text(each, "law"), "</b> needs ", clipped(&text(each, "needs"), 300), "</li>");
        }
        put!(out, "</ul></details>");
    }
    put!(out, "</section>");
    out
}

/// A chart for every sweep with at least two points: one curve per component.
fn curves(audit: &Value) -> Html {
    let mut out = Html::new();
    put!(out, "<section class=\"charts\">");
    for (sweep, title, along, times) in SWEEPS {
        let mut found: BTreeMap<&str, Vec<(u64, f64)>> = BTreeMap::new();
        for line in list(audit, "lines") {
            let point = list(line, "point");
            let at = point.get(1).and_then(Value::as_f64).filter(|_| point[0].as_str() == Some(sweep));
            let (Some(at), Some(means)) = (at, line.get("means").and_then(Value::as_object)) else { continue };
            for (name, value) in means.iter().filter_map(|(name, value)| Some((name.as_str(), value.as_f64()?))) {
                found.entry(name).or_default().push(((at * times).round() as u64, value));
            }
        }
        found.values_mut().for_each(|points| points.sort_by_key(|point| point.0));
        if found.values().all(|points| points.len() < 2) {
            continue;
        }
        let curves = found.into_iter().enumerate();
        let lines = curves
            .map(|(colour, (name, points))| Line { label: name.to_owned(), run: 0, colour: colour % 8, points })
            .collect();
        let about = format!("mean of each component over the tasks, by {along}");
        put!(out, figure(&Chart { title: (*title).to_owned(), about, lines, along: Some(along), ..Chart::default() }));
    }
    put!(out, "</section>");
    out
}

fn components(audit: &Value) -> Html {
    let mut out = Html::new();
    put!(
        out,
        "<h2>Components</h2><p class=\"dim\">Mean values. Worst junk: the junk with the highest total; most junk: \
         the most that any junk earns of the component. Advantage share: of the variance of honest rollouts' \
         advantages.</p><div class=\"scroll\"><table class=\"evals\"><thead><tr><th class=\"text\">component</th>\
         <th>weight</th><th>solution</th><th>worst junk</th><th>most junk</th><th>advantage share</th></tr></thead>\
         <tbody>"
    );
    for component in list(audit, "components") {
        put!(out, "<tr><td class=\"text\">", clipped(&text(component, "name"), 80), "</td>");
        for key in ["weight", "oracle", "junk", "most", "advantage_share"] {
            put!(out, "<td>", cell(component.get(key).and_then(Value::as_f64)), "</td>");
        }
        put!(out, "</tr>");
    }
    put!(out, "</tbody></table></div>");
    if let Some(worst) = audit.get("worst").filter(|worst| worst.is_object()) {
        put!(
            out,
            "<details class=\"fold\"><summary>the junk that earns the most: ",
            clipped(&text(worst, "label"), 200)
        );
        put!(out, "</summary><pre class=\"json\">", clipped(&text(worst, "text"), 8000), "</pre></details>");
    }
    out
}

fn probes(audit: &Value) -> Html {
    let mut out = Html::new();
    put!(
        out,
        "<h2>Probes</h2><p class=\"dim\">Each plays the tasks instead of a policy and takes the place of one honest \
         rollout in each group. Advantage: its mean over the groups that give one. Reinforced: the share of groups \
         in which it is above 0, so that training would make it more likely.</p><div class=\"scroll\"><table \
         class=\"evals\"><thead><tr><th class=\"text\">probe</th><th class=\"text\">what it does</th><th \
         class=\"text\">kind</th><th>total</th><th>right</th><th>advantage</th><th>reinforced</th></tr></thead>\
         <tbody>"
    );
    for line in list(audit, "lines") {
        let value = |key: &str| line.get(key).and_then(Value::as_f64);
        let total = line.get("means").and_then(|means| means.get(TOTAL)?.as_f64());
        put!(out, "<tr data-item><td class=\"text\">", text(line, "probe"), "</td><td class=\"text why\">");
        put!(out, clipped(&text(line, "label"), 300), "</td><td class=\"text\">", text(line, "role"), "</td><td>");
        put!(
            out,
            cell(total),
            "</td><td>",
            cell(value("solved")),
            "</td><td class=\"",
            super::sign(value("advantage")),
            "\">"
        );
        put!(
            out,
            value("advantage").map_or_else(|| "–".to_owned(), signed),
            "</td><td>",
            cell(value("positive")),
            "</td></tr>"
        );
    }
    put!(out, "</tbody></table></div>");
    out
}

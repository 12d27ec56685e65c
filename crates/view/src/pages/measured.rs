//! Tables written by `hone eval`: of the directory itself, and of the evaluations below a run.

use std::path::{Path, PathBuf};

use hone_eval::Table;
use hone_eval::checkpoints::{self, Line};
use hone_eval::table::Results;
use serde::Deserialize;

use crate::html::{Html, clipped};
use crate::put;
use crate::run::Run;

/// Parts of `eval.json` that the page shows.
#[derive(Deserialize)]
struct Measured {
    results: Results,
    #[serde(default)]
    checkpoints: Vec<Line>,
}

/// A panel for every evaluation; empty if there is none.
pub(crate) fn measured(run: &Run) -> Html {
    let mut out = Html::new();
    for path in places(&run.path) {
        let name = path.strip_prefix(&run.path).unwrap_or(&path).display().to_string();
        put!(out, "<section class=\"panel\"><h2>Measured by hone eval</h2>");
        if !name.is_empty() {
            put!(out, "<p class=\"dim\">", clipped(&name, 200), "</p>");
        }
        match read(&path.join("eval.json")) {
            Ok(measured) => one(&measured, &mut out),
            Err(why) => {
                put!(out, "<p class=\"bad\">eval.json cannot be shown: ", clipped(&why, 400), "</p>");
            }
        }
        put!(out, "</section>");
    }
    out
}

/// Directories with an `eval.json`, the run's own first, those below it by number.
fn places(run: &Path) -> Vec<PathBuf> {
    let below = std::fs::read_dir(run.join("evals")).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut below: Vec<PathBuf> = below.collect();
    let number = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()?.parse::<u64>().ok());
    below.sort_by_key(|path| (number(path).unwrap_or(u64::MAX), path.clone()));
    std::iter::once(run.to_owned()).chain(below).filter(|path| path.join("eval.json").is_file()).collect()
}

fn read(path: &Path) -> Result<Measured, String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    serde_json::from_slice(&bytes).map_err(|error| error.to_string())
}

fn one(measured: &Measured, out: &mut Html) {
    let passing = &measured.results.passing;
    put!(
        *out,
        "<p class=\"dim\">",
        format!(
            "An episode passes where {} is at least {}. Means over tasks with 95 % intervals; faults and unscored episodes are in no \
             denominator.",
            passing.component, passing.at_least
        ),
        measured.results.effect().map(|effect| format!(" The {effect}.")).unwrap_or_default(),
        "</p>",
        html(&measured.results.table(true), 2)
    );
    if !measured.checkpoints.is_empty() {
        put!(
            *out,
            "<h2>Checkpoints</h2><p class=\"dim\">best: the highest of those evaluated, biased upwards; p: \
             sign-flip test of the last against the first</p>",
            html(&checkpoints::table(&measured.checkpoints), 1)
        );
    }
}

/// A table whose first columns are text.
fn html(table: &Table, texts: usize) -> Html {
    let mut out = Html::new();
    let class = |at: usize| if at < texts { "text" } else { "" };
    put!(out, "<div class=\"scroll\"><table class=\"measured\"><thead><tr>");
    for (at, name) in table.head().iter().enumerate() {
        put!(out, "<th class=\"", class(at), "\">", name, "</th>");
    }
    put!(out, "</tr></thead><tbody>");
    for row in table.rows() {
        put!(out, "<tr data-item>");
        for (at, cell) in row.iter().enumerate() {
            put!(out, "<td class=\"", class(at), "\">", clipped(cell, 120), "</td>");
        }
        put!(out, "</tr>");
    }
    put!(out, "</tbody></table></div>");
    out
}

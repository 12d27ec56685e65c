//! A report as one file that opens from disk: charts, findings, evaluations and some traces.

use std::collections::BTreeSet;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::html::Html;
use crate::pages::{self, Query, SCRIPT, STYLE, charts, evaluations, findings, head, ledger, measured, rejected};
use crate::put;
use crate::run::{Brief, Filter, Part, Run, ViewError};
use crate::site::{Doctor, Site};

/// The report of the site's runs with about this many traces of each: those that findings cite, those of rejected
/// tasks, then the best, the worst and some in between of the last step, or of the last evaluation if the directory has
/// no steps.
pub fn report(site: Site, traces: usize) -> Result<Html, ViewError> {
    let mut held = BTreeSet::new();
    for number in 0..site.len() {
        site.doctor_now(number);
        let run = site.run(number)?;
        held.extend(chosen(&site, number, &run, traces).into_iter().map(|trace| (number, trace)));
    }
    let site = site.in_a_file(held.clone());
    let mut out = Html::new();
    let names: Vec<String> = site.all().iter().map(|run| run.name.clone()).collect();
    put!(
        out,
        "<!doctype html><html lang=\"en\" data-file><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\"><meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-",
        base64(&Sha256::digest(SCRIPT)),
        "'\"><title>",
        names.join(", "),
        " · hone</title><style>"
    );
    out.raw(STYLE);
    put!(
        out,
        "</style></head><body><header><span class=\"brand\">hone</span><span class=\"crumbs\">",
        names.join(", "),
        "</span></header><main>"
    );
    put!(out, overview(&site));
    if !held.is_empty() {
        put!(out, "<h2>Traces</h2>");
    }
    for (number, trace) in &held {
        put!(out, pages::whole_trace(&site, *number, *trace)?);
    }
    put!(out, "</main><div id=\"tip\" role=\"tooltip\" hidden></div><script>");
    out.raw(SCRIPT);
    put!(out, "</script></body></html>\n");
    Ok(out)
}

/// The runs without their traces: curves together, the rest one after the other.
fn overview(site: &Site) -> Html {
    let mut out = Html::new();
    let runs: Vec<_> = site.all().into_iter().enumerate().collect();
    head(site, &runs, None, &mut out);
    for (_, run) in &runs {
        pages::notes(&run.notes(), &mut out);
    }
    put!(out, "<section class=\"charts\">", charts(site, &runs, &Query::default()), "</section>");
    for (number, run) in &runs {
        put!(
            out,
            "<h1>",
            run.name,
            "</h1>",
            rejected(site, *number, run),
            ledger(run, &Query::default(), false),
            "<section class=\"panel\"><h2>Evaluations</h2>",
            evaluations(site, *number, run),
            "</section>",
            measured(run),
            "<h2>Findings</h2>",
            findings(site, *number)
        );
    }
    out
}

fn chosen(site: &Site, number: usize, run: &Run, most: usize) -> Vec<u64> {
    let mut chosen: Vec<u64> = Vec::new();
    if let Doctor::Said(said, _) = site.doctor(number) {
        let findings = said.get("findings").and_then(Value::as_array).into_iter().flatten();
        let cited = findings.flat_map(|finding| finding.get("traces").and_then(Value::as_array).into_iter().flatten());
        chosen.extend(cited.filter_map(Value::as_u64));
    }
    // The last trace of each task that a validation rejected: the reference's, if it was played.
    chosen.extend(run.rejected().0.iter().filter_map(|task| task.traces.last()));
    let evaluated = || run.events.played.iter().rfind(|played| played.traces.is_some());
    let last = run.events.steps.keys().next_back().map(|step| Part::Step(*step));
    let last = last.or_else(|| evaluated().map(|played| Part::Played(played.name())));
    if let Some((groups, _)) = last.and_then(|part| run.groups(&part, &Filter::default()).ok()) {
        let mut rollouts: Vec<&Brief> = groups.iter().flat_map(|group| &group.rollouts).collect();
        rollouts
            .sort_by(|a, b| b.total().unwrap_or(f64::NEG_INFINITY).total_cmp(&a.total().unwrap_or(f64::NEG_INFINITY)));
        let wanted = most.saturating_sub(chosen.len());
        if wanted > 0 && !rollouts.is_empty() {
            let step = (rollouts.len() - 1) as f64 / (wanted.max(2) - 1) as f64;
            chosen.extend(
                (0..wanted)
                    .filter_map(|at| rollouts.get((at as f64 * step).round() as usize))
                    .map(|rollout| rollout.trace),
            );
        }
    }
    let known = run.traces().map_or(0, |traces| traces.len());
    chosen.retain(|trace| *trace < known);
    chosen.dedup();
    chosen.truncate(most);
    chosen
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for part in bytes.chunks(3) {
        let word = part.iter().enumerate().fold(0_u32, |word, (at, byte)| word | u32::from(*byte) << (16 - 8 * at));
        for at in 0..4 {
            out.push(if at <= part.len() { char::from(LETTERS[(word >> (18 - 6 * at)) as usize & 63]) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn base64_is_the_standard_one() {
        let words = ["", "f", "fo", "foo", "foob"].map(|text| super::base64(text.as_bytes()));
        assert_eq!(words, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]);
    }
}

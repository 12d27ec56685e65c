use std::collections::BTreeMap;

use hone_arena::rollout::CRASH;
use hone_trace::rundir::RunDirError;
use hone_trace::{Limit, Outcome, Trace};

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::checks::truncated::key;
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "truncated",
    what: "Episodes of the start policy are cut short by a limit before they can end.",
    measure: "Truncated episodes, by limit. Warning from 25 %, error from 90 %.",
    fix: "Raise the named limit, or shorten the prompt and the tools' output.",
    explains: &["no_signal", "unscored", "no_calls", "identical_rollouts", "constant_component"],
    look,
};

const CRASHES: &str =
    "Correct the environment: answer a call that cannot be served with an error message, and raise nothing.";

/// Message of the first crash.
fn crash<'a>(mut traces: impl Iterator<Item = &'a Trace>) -> Option<String> {
    traces.find_map(|trace| Some(trace.facts.get(CRASH)?.as_str()?.to_owned()))
}

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(played) = probe.played.known() else { return probe.played.skipped("episodes of the start policy") };
    let all = played.episodes().count();
    if all == 0 {
        return Looked::skipped("episodes of the start policy");
    }
    let mut limits: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for (number, trace) in played.episodes() {
        if let Outcome::Truncated { limit } = trace.outcome {
            limits.entry(key(limit)).or_default().push(number);
        }
    }
    let cut: usize = limits.values().map(Vec::len).sum();
    let rate = cut as f64 / all as f64;
    if rate < 0.25 {
        return Ok(Looked::Healthy);
    }
    let severity = if rate < 0.9 { Severity::Warning } else { Severity::Error };
    let mut finding = Finding::new(severity, format!("{} episodes are cut short", share(cut, all)))
        .traces(limits.values().flatten().copied());
    for (limit, numbers) in &limits {
        finding = finding.line(format!("{} by {limit}", share(numbers.len(), all)));
    }
    let crash = crash(played.episodes().map(|(_, trace)| trace));
    if let Some(words) = crash.filter(|_| limits.keys().all(|limit| *limit == key(Limit::CrashingCall))) {
        finding = finding.line(format!("the first crash: {words}")).fix(CRASHES);
    }
    finding.likely().into()
}

use std::collections::BTreeMap;

use hone_trace::rundir::RunDirError;
use hone_trace::{Limit, Outcome};

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "truncated",
    what: "Episodes are cut short by a limit before they can end.",
    measure: "Truncated episodes of the probed steps. Warning from 10 %, error from 60 %.",
    fix: "Raise the named limit, or shorten the prompt and the tools' output.",
    explains: &["no_signal", "nothing_trained"],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let episodes = run.probed()?;
    if episodes.is_empty() {
        return Looked::skipped("recorded episodes");
    }
    let mut limits: BTreeMap<&'static str, Vec<u64>> = BTreeMap::new();
    for (number, trace) in &episodes {
        if let Outcome::Truncated { limit } = trace.outcome {
            limits.entry(key(limit)).or_default().push(*number);
        }
    }
    let cut: usize = limits.values().map(Vec::len).sum();
    let rate = cut as f64 / episodes.len() as f64;
    if rate < 0.1 {
        return Ok(Looked::Healthy);
    }
    let severity = if rate < 0.6 { Severity::Warning } else { Severity::Error };
    let mut finding = Finding::new(severity, format!("{} probed episodes were cut short", share(cut, episodes.len())))
        .traces(limits.values().flatten().copied());
    for (limit, numbers) in &limits {
        finding = finding.line(format!("{} by {limit}", share(numbers.len(), episodes.len())));
    }
    finding.into()
}

/// The limit as users set it.
pub(crate) fn key(limit: Limit) -> &'static str {
    match limit {
        Limit::Turns => "rollout.max_turns",
        Limit::Context => "rollout.window",
        Limit::ReplyTokens => "sampling.max_new_tokens",
        Limit::WallTime => "the episode's wall time",
        Limit::ToolOutput => "the size of tool output",
        Limit::CrashingCall => "calls that break the environment every time",
    }
}

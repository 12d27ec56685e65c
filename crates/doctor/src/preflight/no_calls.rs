use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "no_calls",
    what: "The start policy hardly ever calls a tool, so that nothing it is paid for can happen.",
    measure: "Episodes of the start policy in which a tool ran. Warning under 5 %.",
    fix: "Start from a policy that calls tools (`hone sft` imitates the references), or say in the system prompt \
          that it must.",
    explains: &["no_signal", "truncated", "unscored", "identical_rollouts"],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(played) = probe.played.known() else { return probe.played.skipped("episodes of the start policy") };
    let whole: Vec<_> = played.episodes().filter(|(_, trace)| trace.outcome.is_scorable()).collect();
    if whole.is_empty() || whole.iter().all(|(_, trace)| trace.tools().is_empty()) {
        return Looked::skipped("whole episodes with tools");
    }
    let idle: Vec<u64> = whole
        .iter()
        .filter(|(_, trace)| trace.turns.iter().all(|turn| turn.executed == 0))
        .map(|(number, _)| *number)
        .collect();
    if (whole.len() - idle.len()) as f64 >= 0.05 * whole.len() as f64 {
        return Ok(Looked::Healthy);
    }
    Finding::new(Severity::Warning, format!("no tool ran in {} episodes", share(idle.len(), whole.len())))
        .traces(idle)
        .likely()
        .into()
}

use hone_trace::rundir::RunDirError;
use hone_train::evaluate::Kind;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "do_nothing",
    what: "Success without action: the policy is rewarded for leaving things as they are.",
    measure: "Solved held-out episodes, at least 5, in which no tool was run, while tools are offered. Warning from 30 %, \
              error from 80 %.",
    fix: "Leave out the tasks whose solution is to do nothing, or report them separately.",
    explains: &["scripted_shortcut"],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let mut episodes = run.evaluated(Kind::Greedy)?;
    if episodes.is_empty() {
        episodes = run.evaluated(Kind::Sampled)?;
    }
    let offered = episodes.iter().filter(|(_, trace)| !trace.tools().is_empty());
    let solved: Vec<_> = offered.filter(|(_, trace)| run.solved(trace) == Some(true)).collect();
    if solved.len() < 5 {
        return Looked::skipped("five solved held-out episodes with tools");
    }
    let idle: Vec<u64> = solved
        .iter()
        .filter(|(_, trace)| trace.turns.iter().all(|turn| turn.executed == 0))
        .map(|(number, _)| *number)
        .collect();
    let rate = idle.len() as f64 / solved.len() as f64;
    if rate < 0.3 {
        return Ok(Looked::Healthy);
    }
    let severity = if rate < 0.8 { Severity::Warning } else { Severity::Error };
    Finding::new(severity, format!("{} solved held-out episodes ran no tool", share(idle.len(), solved.len())))
        .traces(idle)
        .into()
}

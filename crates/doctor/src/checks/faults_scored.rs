use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "faults_scored",
    what: "Episodes that broke outside the policy are scored: a dead tool server counts as a failure of the policy.",
    measure: "Probed episodes with a fault and a reward. Error.",
    fix: "Leave faulted episodes out of their groups: 1, 1, 1 and a fault scored 0 gives the three healthy ones an \
          advantage they did not earn.",
    explains: &["faulted", "no_signal"],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let episodes = run.probed()?;
    let broken: Vec<_> = episodes.iter().filter(|(_, trace)| !trace.outcome.is_scorable()).collect();
    if episodes.is_empty() {
        return Looked::skipped("recorded episodes");
    }
    let scored: Vec<u64> = broken
        .iter()
        .filter(|(_, trace)| trace.rewards.iter().any(|reward| reward.value().is_some()))
        .map(|(number, _)| *number)
        .collect();
    if scored.is_empty() {
        return Ok(Looked::Healthy);
    }
    Finding::new(Severity::Error, format!("{} episodes that broke have a reward", share(scored.len(), broken.len())))
        .traces(scored)
        .into()
}

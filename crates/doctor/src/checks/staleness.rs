use hone_trace::rundir::RunDirError;
use hone_train::ledger::names::ASYNC_STALENESS_MEAN;

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "staleness",
    what: "Tokens are trained long after the policy that sampled them.",
    measure: "`async/staleness_mean`. Warning from 4 steps.",
    fix: "Lower async.staleness, or correct for it with a loss that has a `correction`.",
    explains: &["kl_runaway"],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let Some(mean) = run.mean(ASYNC_STALENESS_MEAN) else { return Looked::skipped("a recorded step") };
    if mean < 4.0 {
        return Ok(Looked::Healthy);
    }
    Finding::new(Severity::Warning, format!("tokens are {mean:.1} steps old on average when they are trained")).into()
}

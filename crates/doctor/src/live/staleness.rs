use hone_trace::rundir::RunDirError;
use hone_train::ledger::names;

use super::Live;
use crate::check::{Check, Finding, Looked, Severity};

pub(super) const CHECK: Check<Live> = Check {
    name: "staleness",
    what: "Tokens are trained long after the policy that sampled them.",
    measure: "`async/staleness_mean`, the mean of the last 8 steps. Warning from 4 steps.",
    fix: "Lower async.staleness, or correct for it with a loss that has a `correction`.",
    explains: &[],
    look,
};

fn look(live: &Live) -> Result<Looked, RunDirError> {
    match live.late(names::ASYNC_STALENESS_MEAN) {
        None => Looked::skipped("`async/staleness_mean`"),
        Some(mean) if mean >= 4.0 => {
            Finding::new(Severity::Warning, format!("tokens are {mean:.1} steps old when they are trained")).into()
        }
        Some(_) => Ok(Looked::Healthy),
    }
}

use hone_trace::rundir::RunDirError;
use hone_train::ledger::names;

use super::Live;
use crate::check::{Check, Finding, Looked, Severity};

pub(super) const CHECK: Check<Live> = Check {
    name: "faulted",
    what: "Episodes break outside the policy: the environment, the user simulator, the judge or the sampler fails.",
    measure: "`rollouts/faulted` over `rollouts/total` of the last 8 steps. Warning from 20 %.",
    fix: "Read the step's `faults` event: it has the first fault's message.",
    explains: &[],
    look,
};

fn look(live: &Live) -> Result<Looked, RunDirError> {
    let (Some(broken), Some(all)) = (live.late(names::ROLLOUTS_FAULTED), live.late(names::ROLLOUTS_TOTAL)) else {
        return Looked::skipped("a step");
    };
    if broken < 0.2 * all.max(1.0) {
        return Ok(Looked::Healthy);
    }
    Finding::new(Severity::Warning, format!("{broken:.0} of {all:.0} episodes a step break outside the policy")).into()
}

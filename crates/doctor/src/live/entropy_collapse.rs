use hone_trace::rundir::RunDirError;
use hone_train::ledger::names;

use super::Live;
use crate::check::{Check, Finding, Looked, Severity};

pub(super) const CHECK: Check<Live> = Check {
    name: "entropy_collapse",
    what: "The policy stops exploring before it has learned the task.",
    measure: "`policy/policy_entropy`, the mean of the last 8 steps under a tenth of the first 8, while success is \
              under 60 % and rose by less than 10 points. Warning.",
    fix: "Lower the learning rate, sample larger groups, or add a KL penalty against the start policy.",
    explains: &[],
    look,
};

fn look(live: &Live) -> Result<Looked, RunDirError> {
    let Some((early, late)) = live.ends(names::POLICY_POLICY_ENTROPY) else {
        return Looked::skipped("`policy/policy_entropy` of 16 steps");
    };
    let Some((before, success)) = live.ends(names::REWARD_SUCCESS_RATE) else {
        return Looked::skipped("`reward/success_rate` of 16 steps");
    };
    if late >= 0.1 * early || success >= 0.6 || success - before >= 0.1 {
        return Ok(Looked::Healthy);
    }
    let says = format!("entropy fell from {early:.4} to {late:.4} while success stays at {success:.2}");
    Finding::new(Severity::Warning, says).into()
}

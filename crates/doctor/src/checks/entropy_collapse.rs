use hone_trace::rundir::RunDirError;
use hone_train::ledger::names::{POLICY_POLICY_ENTROPY, REWARD_SUCCESS_RATE};

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "entropy_collapse",
    what: "The policy stops exploring before it has learned the task.",
    measure: "`policy/policy_entropy` late under a tenth of early, while training success is under 60 % and rose by less \
              than 10 points. Warning.",
    fix: "Lower the learning rate, sample larger groups, or add a KL penalty against the start policy.",
    explains: &["too_few_tasks"],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let Some(entropy) = run.windows(POLICY_POLICY_ENTROPY) else {
        return Looked::skipped("`policy/policy_entropy`");
    };
    let Some(success) = run.windows(REWARD_SUCCESS_RATE) else { return Looked::skipped("`reward/success_rate`") };
    if entropy.last >= 0.1 * entropy.first || success.last >= 0.6 || success.difference >= 0.1 {
        return Ok(Looked::Healthy);
    }
    let says = format!(
        "entropy fell from {:.4} to {:.4} while success stays at {:.2}",
        entropy.first, entropy.last, success.last
    );
    Finding::new(Severity::Warning, says).into()
}

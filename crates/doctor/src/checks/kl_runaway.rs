use hone_trace::rundir::RunDirError;
use hone_train::ledger::names::POLICY_POLICY_KL;

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "kl_runaway",
    what: "The policy drifts far from its reference.",
    measure: "`policy/policy_kl`, per token, where the loss has a KL. Warning where a step is over 0.2.",
    fix: "Lower the learning rate, raise the KL's coefficient, or take fewer optimizer steps per batch.",
    explains: &[],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let values = run.series(POLICY_POLICY_KL);
    let Some((step, most)) = values.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)) else {
        return Looked::skipped("`policy/policy_kl`");
    };
    if most < 0.2 {
        return Ok(Looked::Healthy);
    }
    Finding::new(Severity::Warning, format!("the KL per token is {most:.3} in step {step}")).into()
}

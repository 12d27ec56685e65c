use hone_trace::rundir::RunDirError;
use hone_train::ledger::names::POLICY_POLICY_LR;

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "learning_rate",
    what: "The learning rate is 0, or implausibly large.",
    measure: "`policy/policy_lr`: error where it is 0 at every step or over 0.1.",
    fix: "Set train.learning_rate: 1e-6 to 1e-5 for billions of parameters, 1e-4 to 1e-3 for a million.",
    explains: &["reward_without_success", "sharpening", "too_few_tasks", "gradients"],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let rates = run.series(POLICY_POLICY_LR);
    let Some(most) = rates.iter().map(|(_, rate)| *rate).reduce(f64::max) else {
        return Looked::skipped("a recorded step");
    };
    if most == 0.0 {
        let says = format!("the learning rate was 0 at all {} steps: nothing can change", rates.len());
        return Finding::new(Severity::Error, says).into();
    }
    if most > 0.1 {
        return Finding::new(Severity::Error, format!("the learning rate reached {most}")).into();
    }
    Ok(Looked::Healthy)
}

use hone_trace::rundir::RunDirError;
use hone_train::ledger::names::REWARD_SUCCESS_RATE;

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "success_cliff",
    what: "Success collapsed and did not recover: the run destroyed what it had learned.",
    measure: "`reward/success_rate`: the mean of the last quarter under half of the best quarter, which was over 20 \
              %. Error.",
    fix: "Resume from the best checkpoint with a lower learning rate or a KL penalty against the start policy.",
    explains: &["reward_without_success", "entropy_collapse", "too_few_tasks"],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let rates: Vec<f64> = run.series(REWARD_SUCCESS_RATE).into_iter().map(|(_, rate)| rate).collect();
    if rates.len() < 8 {
        return Looked::skipped("`reward/success_rate` of 8 steps");
    }
    let quarter = rates.len() / 4;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let best = rates.windows(quarter).map(mean).fold(0.0, f64::max);
    let end = mean(&rates[rates.len() - quarter..]);
    if best <= 0.2 || end >= 0.5 * best {
        return Ok(Looked::Healthy);
    }
    Finding::new(Severity::Error, format!("training success was {best:.2} at its best and ends at {end:.2}")).into()
}

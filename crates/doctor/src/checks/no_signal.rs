use hone_trace::rundir::RunDirError;
use hone_train::ledger::names::{REWARD_SIGNAL_RATIO, REWARD_SUCCESS_RATE};

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "no_signal",
    what: "Groups without variance: all episodes of a task earn the same, so there is nothing to learn from.",
    measure: "Mean `reward/signal_ratio`. Warning under 15 %, error under 3 %.",
    fix: "Mix in easier tasks or a component that pays for partial progress; sample larger groups.",
    explains: &["nothing_trained", "gradients", "too_few_tasks"],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let Some(ratio) = run.mean(REWARD_SIGNAL_RATIO) else { return Looked::skipped("a recorded step") };
    if ratio >= 0.15 {
        return Ok(Looked::Healthy);
    }
    let severity = if ratio < 0.03 { Severity::Error } else { Severity::Warning };
    let success = run.mean(REWARD_SUCCESS_RATE);
    let finding = Finding::new(severity, format!("{:.1} % of the groups have any variance in reward", 100.0 * ratio));
    // One group in this many has signal: the expected wait for the first.
    let groups = run.recipe.train.groups.max(1) as f64;
    let finding = match ratio {
        0.0 => finding,
        _ => {
            finding.line(format!("one group with signal every {:.1} steps of {groups} groups", 1.0 / (ratio * groups)))
        }
    };
    match success {
        Some(success) if success > 0.9 => finding
            .line(format!("{:.1} % of the episodes succeed: the tasks are too easy", 100.0 * success))
            .fix("Train on harder tasks: this policy solves these.")
            .into(),
        Some(success) => finding
            .line(format!(
                "{:.2} % of the episodes succeed: at this rate a group of {} has a success in {:.1} % of cases",
                100.0 * success,
                run.recipe.train.group_size,
                100.0 * (1.0 - (1.0 - success).powi(run.recipe.train.group_size as i32))
            ))
            .into(),
        None => finding.into(),
    }
}

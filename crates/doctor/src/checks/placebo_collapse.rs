use hone_trace::rundir::RunDirError;
use hone_train::evaluate::ControlKind;
use hone_train::placebo::Placebo;

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "placebo_collapse",
    what: "The placebo run collapsed: a gain over a destroyed policy is meaningless.",
    measure: "The placebo's sampled success under half of the start's, where the start's is at least 5 %. Warning.",
    fix: "Use `--placebo permute`, which stays within the trained run's distance from the start; quote the gain \
          over the start.",
    explains: &[],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let held_out = &run.report.held_out;
    let placebo = held_out.controls.iter().find(|control| control.kind == ControlKind::Placebo);
    let Some((placebo, success)) = placebo.and_then(|control| Some((control, control.result.success?))) else {
        return Looked::skipped("a placebo run");
    };
    let Some(start) = held_out.sampled.before.as_ref().and_then(|found| found.result.success) else {
        return Looked::skipped("an evaluation before training");
    };
    if start < 0.05 || success >= 0.5 * start {
        return Ok(Looked::Healthy);
    }
    let finding =
        Finding::new(Severity::Warning, format!("the placebo ends at {success:.3} where the start has {start:.3}"));
    match placebo.placebo {
        Some(Placebo::Permute) => {
            finding.fix("Quote the gain over the start: this control is already bound to the run's KL.")
        }
        _ => finding,
    }
    .into()
}

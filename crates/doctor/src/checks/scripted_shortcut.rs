use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "scripted_shortcut",
    what: "A script without a model does as well as the trained policy: the tasks do not need what was to be learned.",
    measure: "The best scripted policy's success on the same held-out tasks. Error where it is at least the trained \
              policy's, over 5 %, and the policy's is known to 10 points either way; warning where it is over two thirds of it.",
    fix: "Make tasks that the script cannot solve: `hone env show` names the environment's scripts.",
    explains: &[],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let Some((after, ci)) = run.after().and_then(|evaluation| Some((evaluation.success?, evaluation.ci))) else {
        return Looked::skipped("an evaluation after training");
    };
    let Some((name, success)) = run.report.held_out.best_baseline().and_then(|best| Some((&best.name, best.success?)))
    else {
        return Looked::skipped("a scripted policy of the environment");
    };
    if success <= 0.05 || success * 3.0 < after * 2.0 {
        return Ok(Looked::Healthy);
    }
    let known = ci.is_none_or(|[low, high]| high - low <= 0.2);
    let severity = if success >= after && known { Severity::Error } else { Severity::Warning };
    let says =
        format!("the script \"{name}\" solves {success:.3} of the held-out tasks, the trained policy {after:.3}");
    Finding::new(severity, says).into()
}

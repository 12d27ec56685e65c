use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "no_op_tasks",
    what: "Tasks whose reference does nothing: their reward teaches not to act.",
    measure: "Training tasks with an empty `reference` and nothing under `says`. Warning from 5 %, error from 50 %.",
    fix: "Leave them out of training, and report them separately in evaluation.",
    explains: &["no_signal"],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(world) = probe.world.known() else { return probe.world.skipped("an environment that opens") };
    if world.references == 0 {
        return Looked::skipped("tasks with a `reference`");
    }
    let rate = world.no_op.len() as f64 / world.references as f64;
    if rate < 0.05 {
        return Ok(Looked::Healthy);
    }
    let severity = if rate < 0.5 { Severity::Warning } else { Severity::Error };
    let keys: Vec<&str> = world.no_op.iter().take(5).map(String::as_str).collect();
    Finding::new(
        severity,
        format!("the references of {} tasks make no call", share(world.no_op.len(), world.references)),
    )
    .line(format!("tasks {}", keys.join(", ")))
    .into()
}

use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "repeated_tasks",
    what: "Training tasks repeat each other, so that some count several times.",
    measure: "Training tasks with the same content as another one. Warning from 10 %.",
    fix: "Leave the repetitions out, or raise env.tasks no further than there are distinct tasks.",
    explains: &[],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(world) = probe.world.known() else { return probe.world.skipped("an environment that opens") };
    if (world.repeated.len() as f64) < 0.1 * world.tasks.max(1) as f64 || world.repeated.is_empty() {
        return Ok(Looked::Healthy);
    }
    let keys: Vec<&str> = world.repeated.iter().take(5).map(String::as_str).collect();
    Finding::new(
        Severity::Warning,
        format!("{} training tasks repeat another", share(world.repeated.len(), world.tasks)),
    )
    .line(format!("tasks {}", keys.join(", ")))
    .into()
}

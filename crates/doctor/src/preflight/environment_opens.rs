use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "environment_opens",
    what: "An environment does not open an episode.",
    measure: "One task of every environment, opened as a rollout opens it, with the same deadline and retries. Error, \
              in the environment's words.",
    fix: "Run the environment by itself with `hone env show` and fix what it reports.",
    explains: &["opens", "tool_schemas", "context"],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(world) = probe.world.known() else { return probe.world.skipped("an environment") };
    let broken: Vec<_> = world.openings.iter().filter_map(|o| Some((o, o.fault.as_ref()?))).collect();
    let Some((opening, words)) = broken.first() else {
        return if world.openings.is_empty() { Looked::skipped("a task to open") } else { Ok(Looked::Healthy) };
    };
    let says = format!("{} does not open: {} of {} tasks", opening.env, broken.len(), world.openings.len());
    Finding::new(Severity::Error, says).line(format!("task {}: {words}", opening.task)).into()
}

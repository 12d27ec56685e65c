use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "held_out_overlap",
    what: "Held-out tasks occur in training, so their success does not show generalisation.",
    measure: "Held-out tasks that equal a training task in everything but key and origin. Warning from 1 %, error from \
              20 %.",
    fix: "Split by content: by customer, product or template, not by number.",
    explains: &[],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(world) = probe.world.known() else { return probe.world.skipped("an environment that opens") };
    let Some(shared) = world.shared_content else {
        return Looked::skipped("held-out tasks with a content of their own");
    };
    if shared < 0.01 {
        return Ok(Looked::Healthy);
    }
    let severity = if shared >= 0.2 { Severity::Error } else { Severity::Warning };
    let says = format!("{:.1} % of the {} held-out tasks are training tasks", 100.0 * shared, world.held_out);
    Finding::new(severity, says).into()
}

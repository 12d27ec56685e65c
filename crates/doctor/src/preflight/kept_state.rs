use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::{Probe, Transcript};

pub(super) const CHECK: Check<Probe> = Check {
    name: "kept_state",
    what: "State leaks between episodes: a fresh episode does not start from the task's own state.",
    measure: "A task that doing nothing solves only after its reference has solved it; a reference that earned success \
              and, once the start policy has played, no longer does. Error.",
    fix: "Build the state anew from the task and the seed at every `open`; share nothing that is written to.",
    explains: &["determinism", "isolation", "do_nothing", "reference_fails", "constant_component", "no_signal"],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(scripts) = probe.world.known().and_then(|world| world.scripts.known()) else {
        return Looked::skipped("an environment that scripts can play: `hone check` plays some, `hone train` does not");
    };
    if scripts.references.is_empty() {
        return Looked::skipped("tasks with a `reference`");
    }
    // Verdicts that change by themselves say nothing of a state.
    let repeats = |(one, other): (&Transcript, &Transcript)| one.rewards == other.rewards;
    let mut twice = scripts.again.iter().map(|(one, other)| (one, other));
    if !scripts.idle.iter().zip(&scripts.idle_again).all(repeats)
        || !twice.all(repeats) && scripts.kept_state.is_empty()
    {
        return Looked::skipped("an environment that repeats itself by seed");
    }
    if let Some(first) = scripts.spoiled.first().filter(|_| scripts.kept_state.is_empty()) {
        let says = format!("after the start policy's episodes the reference of task {first} no longer earns success");
        return Finding::new(Severity::Error, says).line(format!("seen in {} tasks", scripts.spoiled.len())).into();
    }
    let Some(first) = scripts.kept_state.first() else { return Ok(Looked::Healthy) };
    let says = format!("after another episode solved task {first}, doing nothing solves it too");
    Finding::new(Severity::Error, says).line(format!("seen in {} tasks", scripts.kept_state.len())).into()
}

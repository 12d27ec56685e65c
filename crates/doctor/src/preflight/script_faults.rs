use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "script_faults",
    what: "The environment breaks under actions that it should answer.",
    measure: "Scripts without a model: references, valid random calls, and doing nothing. Error from half of them, \
              warning below.",
    fix: "Play it by hand with `hone env play` and put right what it says.",
    explains: &["reference_fails", "determinism", "isolation", "faulted", "unscored", "never_done"],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(scripts) = probe.world.known().and_then(|world| world.scripts.known()) else {
        return Looked::skipped("an environment that scripts can play: `hone check` plays some, `hone train` does not");
    };
    let all: Vec<_> = scripts.again.iter().map(|(first, _)| first).chain(&scripts.idle).collect();
    let broken: Vec<_> = all.iter().filter_map(|script| Some((script, script.fault.as_ref()?))).collect();
    let Some((script, words)) = broken.first() else { return Ok(Looked::Healthy) };
    let severity = if 2 * broken.len() >= all.len() { Severity::Error } else { Severity::Warning };
    let last =
        script.turns.last().map_or_else(|| "at its first action".into(), |(action, _)| format!("after {action}"));
    Finding::new(severity, format!("{} scripted episodes break", share(broken.len(), all.len())))
        .line(format!("task {}, {last}: {words}", script.task))
        .into()
}

use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "isolation",
    what: "Episodes played at the same time affect each other.",
    measure: "Four scripts, opened together and played one after the other, against the same scripts played alone. \
              Error.",
    fix: "Keep the state of every episode apart, under its own id; share nothing that is written to.",
    explains: &["faulted", "reference_fails"],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(scripts) = probe.world.known().and_then(|world| world.scripts.known()) else {
        return Looked::skipped("an environment that scripts can play: `hone check` plays some, `hone train` does not");
    };
    if scripts.beside.is_empty() {
        return Looked::skipped("scripts that were played side by side");
    }
    // An environment that never repeats itself says nothing about its neighbours.
    let idle = scripts.idle.iter().zip(&scripts.idle_again);
    if scripts.again.iter().map(|(a, b)| (a, b)).chain(idle).any(|(first, again)| first.parts_from(again).is_some()) {
        return Looked::skipped("an environment that repeats itself by seed");
    }
    let differ: Vec<_> =
        scripts.beside.iter().filter_map(|(alone, beside)| Some((alone, alone.parts_from(beside)?))).collect();
    let Some((script, how)) = differ.first() else { return Ok(Looked::Healthy) };
    Finding::new(
        Severity::Error,
        format!("{} episodes come out otherwise beside others", share(differ.len(), scripts.beside.len())),
    )
    .line(format!("task {}: {how}", script.task))
    .into()
}

use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "never_done",
    what: "No episode ends: the environment never answers `done`, whatever the agent does.",
    measure: "Scripts (references, random calls and a last word, nothing at all): none of at least three is \
              answered with `done`. Error.",
    fix: "Answer the step that ends the task, or the agent's last word, with \"done\": true.",
    explains: &["context", "truncated", "unscored", "no_signal", "latency"],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(scripts) = probe.world.known().and_then(|world| world.scripts.known()) else {
        return Looked::skipped("an environment that scripts can play: `hone check` plays some, `hone train` does not");
    };
    let all: Vec<_> = scripts.again.iter().map(|(first, _)| first).chain(&scripts.idle).collect();
    let whole: Vec<_> = all.iter().filter(|script| script.fault.is_none()).collect();
    if whole.len() < 3 {
        return Looked::skipped("three scripted episodes that do not break");
    }
    // Without references it is unknown what ends an episode: random calls may not.
    if scripts.references.is_empty() || whole.iter().any(|script| script.done) {
        return Ok(Looked::Healthy);
    }
    let turns = whole.iter().map(|script| script.turns.len()).max().unwrap_or(0);
    Finding::new(
        Severity::Error,
        format!("{} scripted episodes of up to {turns} turns, none of them ended", whole.len()),
    )
    .into()
}

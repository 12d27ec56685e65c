use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::{AfterDone, Probe};

pub(super) const CHECK: Check<Probe> = Check {
    name: "after_done",
    what: "The environment does not honour its own `done`.",
    measure: "One more step after an episode that ended, then a new episode. Error where none opens afterwards; note \
        where the ended one continues.",
    fix: "Answer a step after `done` with an error, or with `done` again.",
    explains: &[],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(scripts) = probe.world.known().and_then(|world| world.scripts.known()) else {
        return Looked::skipped("an environment that scripts can play: `hone check` plays some, `hone train` does not");
    };
    match &scripts.after_done {
        None => Looked::skipped("a scripted episode that ends"),
        Some(AfterDone::Holds) => Ok(Looked::Healthy),
        Some(AfterDone::GoesOn) => {
            Finding::new(Severity::Note, "a finished episode continues when it is stepped").into()
        }
        Some(AfterDone::Breaks(words)) => {
            Finding::new(Severity::Error, "a step after the end breaks the environment for later episodes")
                .line(words.clone())
                .into()
        }
    }
}

use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "opens",
    what: "The recipe cannot be opened: an engine, a model, an environment or a reward refuses it.",
    measure: "Everything the recipe names is opened as a run opens it. Error, with the original message.",
    fix: "Do what the message says.",
    explains: &["budget"],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    match &probe.refused {
        Some(words) => Finding::new(Severity::Error, first_line(words)).lines(more(words)).into(),
        None => Ok(Looked::Healthy),
    }
}

fn first_line(words: &str) -> String {
    words.lines().next().unwrap_or_default().to_owned()
}

fn more(words: &str) -> impl Iterator<Item = String> {
    words.lines().skip(1).map(str::to_owned)
}

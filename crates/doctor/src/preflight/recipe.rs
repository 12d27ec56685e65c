use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "recipe",
    what: "The recipe cannot be read, or contradicts itself: an unknown key, a value out of range, a temperature of 0, groups of \
           one.",
    measure: "The recipe parsed as `hone train` parses it. Error, in the parser's words.",
    fix: "Do what the message says.",
    explains: &[],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(words) = &probe.unreadable else { return Ok(Looked::Healthy) };
    let mut lines = words.lines().map(str::to_owned);
    let says = lines.next().unwrap_or_default();
    Finding::new(Severity::Error, says).lines(lines).into()
}

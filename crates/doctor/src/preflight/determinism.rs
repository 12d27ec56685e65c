use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "determinism",
    what: "The same task, seed and actions give different answers: episodes of a group do not start alike, and nothing \
           can be replayed.",
    measure: "References (or random calls) and doing nothing, on up to 12 tasks, each played twice. Error where prompts, tools or rewards differ, warning where answers do.",
    fix: "Draw everything random from the seed that `open` gives, take the time from the task's CURRENT_DATE, and keep nothing \
          of an earlier episode.",
    explains: &["isolation", "reference_fails", "do_nothing"],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(scripts) = probe.world.known().and_then(|world| world.scripts.known()) else {
        return Looked::skipped("an environment that scripts can play: `hone check` plays some, `hone train` does not");
    };
    if scripts.again.is_empty() {
        return Looked::skipped("a script that was played twice");
    }
    let idle = scripts.idle.iter().zip(&scripts.idle_again);
    let pairs: Vec<_> = scripts.again.iter().map(|(a, b)| (a, b)).chain(idle).collect();
    let differ: Vec<_> = pairs.iter().filter_map(|(a, b)| Some((*a, *b, a.parts_from(b)?))).collect();
    let Some((first, again, how)) = differ.first() else { return Ok(Looked::Healthy) };
    let unlike = differ.iter().any(|(a, b, _)| a.opened != b.opened || a.rewards != b.rewards);
    let severity = if unlike { Severity::Error } else { Severity::Warning };
    let mut finding = Finding::new(
        severity,
        format!("{} scripts come out otherwise the second time", share(differ.len(), pairs.len())),
    )
    .line(format!("task {}: {how}", first.task));
    if let (Some((_, one)), Some((_, two))) = (first.rewards.last(), again.rewards.last()) {
        finding = finding.line(format!("total {one} and {two}"));
    }
    finding.into()
}

use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::probe::{Probe, Transcript};

pub(super) const CHECK: Check<Probe> = Check {
    name: "script_faults",
    what: "The environment breaks on actions that it should answer.",
    measure: "Scripts without a model: references, valid random calls, and doing nothing. Error from half of them or \
              of those that act, and where no episode opens afterwards; warning below. At the start of a run: one \
              solution and, where that breaks, those of three other tasks; error if all break.",
    fix: "Play it by hand with `hone env play` and fix what it reports.",
    explains: &["reference_fails", "determinism", "isolation", "latency", "faulted", "unscored", "never_done"],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let world = probe.world.known();
    let Some(scripts) = world.and_then(|world| world.scripts.known()) else {
        let tries = world.map_or(&[][..], |world| &world.first);
        return first_episodes(tries);
    };
    let all: Vec<_> = scripts.again.iter().map(|(first, _)| first).chain(&scripts.idle).collect();
    let broken: Vec<_> = all.iter().filter_map(|script| Some((script, script.fault.as_ref()?))).collect();
    let Some((script, words)) = broken.first() else { return Ok(Looked::Healthy) };
    // Doing nothing reaches no tool: half of those that act are enough.
    let acted = scripts.again.iter().filter(|(first, _)| first.fault.is_some()).count();
    let half = 2 * broken.len() >= all.len() || (acted > 0 && 2 * acted >= scripts.again.len());
    let severity = if half || scripts.gone.is_some() { Severity::Error } else { Severity::Warning };
    let last =
        script.turns.last().map_or_else(|| "at its first action".into(), |(action, _)| format!("after {action}"));
    let finding = Finding::new(severity, format!("{} scripted episodes break", share(broken.len(), all.len())));
    let late = script.late && scripts.gone.is_none();
    let finding = if late { finding.fix("Answer in time, or raise the deadline: env.deadline_s.") } else { finding };
    finding
        .line(format!("task {}, {last}: {words}", script.task))
        .lines(scripts.gone.iter().map(|words| format!("afterwards no episode opens: {words}")))
        .into()
}

/// Scripted episodes until one held: all there is where no scripts were played.
fn first_episodes(tries: &[Transcript]) -> Result<Looked, RunDirError> {
    let Some(last) = tries.last() else { return Looked::skipped("an environment whose episodes open") };
    let Some((first, words)) = tries.iter().find_map(|tried| Some((tried, tried.fault.as_ref()?))) else {
        return Ok(Looked::Healthy);
    };
    let broke = tries.iter().filter(|tried| tried.fault.is_some()).count();
    let severity = if last.fault.is_some() { Severity::Error } else { Severity::Warning };
    let at = if first.turns.is_empty() { "the first step" } else { "a later step" };
    Finding::new(severity, format!("{at} of an episode breaks: {words}"))
        .line(format!("task {}; {broke} of {} episodes that were tried broke", first.task, tries.len()))
        .into()
}

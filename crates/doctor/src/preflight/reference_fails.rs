use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "reference_fails",
    what: "Broken tasks: their own reference does not earn success.",
    measure: "The references of up to 12 tasks, replayed action by action and scored by the rubric. Error from half \
              of them, warning below.",
    fix: "Correct or leave out the named tasks; where all fail, the verifier or eval.success is wrong.",
    explains: &["no_signal", "do_nothing", "constant_component"],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(scripts) = probe.world.known().and_then(|world| world.scripts.known()) else {
        return Looked::skipped("an environment that scripts can play: `hone check` plays some, `hone train` does not");
    };
    if scripts.references.is_empty() {
        return Looked::skipped("tasks with a `reference`");
    }
    let scored: Vec<_> =
        scripts.references.iter().filter_map(|script| Some((script, script.reward(&scripts.success)?))).collect();
    let bad: Vec<_> = scored.iter().filter(|(_, value)| *value != 1.0).collect();
    let Some((script, value)) = bad.first() else {
        return if scored.is_empty() { Looked::skipped("a scored reference") } else { Ok(Looked::Healthy) };
    };
    let severity = if 2 * bad.len() >= scored.len() { Severity::Error } else { Severity::Warning };
    let keys: Vec<&str> = bad.iter().take(5).map(|(script, _)| script.task.as_str()).collect();
    let mut finding = Finding::new(
        severity,
        format!("the references of {} tasks earn less than 1 of `{}`", share(bad.len(), scored.len()), scripts.success),
    )
    .line(format!("tasks {}", keys.join(", ")))
    .line(format!(
        "task {}: {value} after {} actions, {} of them answered with an error",
        script.task,
        script.turns.len(),
        script.failed
    ));
    if script.left > 0 {
        finding = finding.line(format!("the environment ended it with {} of its actions left", script.left));
    }
    if let Some((action, answer)) = script.turns.last() {
        let answer: String = answer.chars().take(160).collect();
        finding = finding.line(format!("its last action, {action}, was answered {answer}"));
    }
    finding.into()
}

use hone_arena::rewards::TOTAL;
use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::probe::{Probe, Transcript};

pub(super) const CHECK: Check<Probe> = Check {
    name: "do_nothing",
    what: "Tasks that are solved by doing nothing: a policy is paid for leaving things as they are.",
    measure: "Episodes of up to 12 tasks that only say \"Done.\". Warning from 20 % solved, error from 60 %; error \
              too where doing nothing earns as much as the reference does.",
    fix: "Leave out tasks whose solution is to do nothing, or let the verifier require more than an unchanged state.",
    explains: &["no_op_tasks", "no_signal"],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(scripts) = probe.world.known().and_then(|world| world.scripts.known()) else {
        return Looked::skipped("an environment that scripts can play: `hone check` plays some, `hone train` does not");
    };
    let scored: Vec<_> = scripts.idle.iter().filter_map(|s| Some((s, s.reward(&scripts.success)?))).collect();
    if scored.is_empty() {
        return Looked::skipped("a scored episode that does nothing");
    }
    let solved: Vec<_> = scored.iter().filter(|(_, value)| *value == 1.0).collect();
    let total = |script: &Transcript| script.reward(TOTAL);
    let mean = |scripts: &[Transcript]| {
        let values: Vec<f64> = scripts.iter().filter_map(total).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let (idle, reference) = (mean(&scripts.idle), mean(&scripts.references));
    if let (Some(idle), Some(reference)) = (idle, reference)
        && idle >= reference
        && reference > 0.0
    {
        let says = format!("doing nothing earns {idle:.3} on average, the references {reference:.3}");
        return Finding::new(Severity::Error, says).into();
    }
    let rate = solved.len() as f64 / scored.len() as f64;
    if rate < 0.2 {
        return Ok(Looked::Healthy);
    }
    let severity = if rate < 0.6 { Severity::Warning } else { Severity::Error };
    let keys: Vec<&str> = solved.iter().take(5).map(|(script, _)| script.task.as_str()).collect();
    Finding::new(severity, format!("{} tasks are solved by doing nothing", share(solved.len(), scored.len())))
        .line(format!("tasks {}", keys.join(", ")))
        .likely()
        .into()
}

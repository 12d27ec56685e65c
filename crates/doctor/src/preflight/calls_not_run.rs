use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "calls_not_run",
    what: "The start policy calls tools and the calls are not run, or all are answered with an error.",
    measure: "Calls read and calls run (error under half), and calls answered with an error (warning from 80 %).",
    fix: "Read one of the traces: `hone check --traces DIR` keeps them.",
    explains: &["no_signal"],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(played) = probe.played.known() else { return probe.played.skipped("episodes of the start policy") };
    let (mut made, mut ran, mut failed) = (0usize, 0usize, 0usize);
    let mut shown = Vec::new();
    for (number, trace) in played.episodes() {
        for turn in &trace.turns {
            made += turn.calls.len();
            ran += turn.executed as usize;
            failed += turn.failed as usize;
            if turn.calls.len() > turn.executed as usize || turn.failed > 0 {
                shown.push(number);
            }
        }
    }
    shown.dedup();
    if made == 0 {
        return Looked::skipped("a call of the start policy");
    }
    if 2 * ran < made {
        let says = format!("of {made} calls, {ran} were run");
        return Finding::new(Severity::Error, says).traces(shown).into();
    }
    if failed as f64 >= 0.8 * ran as f64 && ran >= 10 {
        let says = format!("{} calls were answered with an error", share(failed, ran));
        return Finding::new(Severity::Warning, says).traces(shown).likely().into();
    }
    Ok(Looked::Healthy)
}

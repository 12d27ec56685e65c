use hone_trace::rundir::RunDirError;
use hone_trace::{Fault, Outcome};

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "faulted",
    what: "Episodes break outside the policy: the environment, the user simulator, the judge or the sampler fails.",
    measure: "Episodes of the start policy that end in a fault. Warning from 2 %, error from 30 %.",
    fix: "Fix the first reported fault; a faulted episode leaves its group and teaches nothing.",
    explains: &["unscored", "no_signal", "logprob_mismatch", "truncated", "calls_not_run", "script_faults", "latency"],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(played) = probe.played.known() else { return probe.played.skipped("episodes of the start policy") };
    let all = played.episodes().count();
    let broken: Vec<(u64, &Fault)> = played
        .episodes()
        .filter_map(|(number, trace)| match &trace.outcome {
            Outcome::Fault { fault } => Some((number, fault)),
            _ => None,
        })
        .collect();
    let rate = broken.len() as f64 / all.max(1) as f64;
    let Some((_, fault)) = broken.first().filter(|_| rate >= 0.02) else { return Ok(Looked::Healthy) };
    let severity = if rate < 0.3 { Severity::Warning } else { Severity::Error };
    Finding::new(severity, format!("{} episodes of the start policy break", share(broken.len(), all)))
        .line(format!("the first one's words: {fault}"))
        .traces(broken.iter().map(|(number, _)| *number))
        .into()
}

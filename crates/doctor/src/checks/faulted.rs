use hone_trace::Outcome;
use hone_trace::rundir::RunDirError;
use hone_train::ledger::names::{ROLLOUTS_FAULTED, ROLLOUTS_TOTAL};

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "faulted",
    what: "Episodes break outside the policy: the environment, the user simulator, the judge or the sampler fails.",
    measure: "`rollouts/faulted` over `rollouts/total`, all steps. Warning from 2 %, error from 50 %.",
    fix: "Run the environment by itself with `hone env show` and fix what it reports.",
    explains: &["unscored", "no_signal", "nothing_trained", "too_few_tasks", "reward_without_success"],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let (Some(faulted), Some(total)) = (run.sum(ROLLOUTS_FAULTED), run.sum(ROLLOUTS_TOTAL)) else {
        return Looked::skipped("a recorded step");
    };
    let share = faulted / total.max(1.0);
    if share < 0.02 {
        return Ok(Looked::Healthy);
    }
    let severity = if share < 0.5 { Severity::Warning } else { Severity::Error };
    let says =
        format!("{faulted:.0} of {total:.0} training episodes ({:.1} %) broke outside the policy", 100.0 * share);
    let broken: Vec<(u64, String)> = run
        .probed()?
        .into_iter()
        .filter_map(|(number, trace)| match trace.outcome {
            Outcome::Fault { fault } => Some((number, fault.to_string())),
            _ => None,
        })
        .collect();
    let finding = Finding::new(severity, says).traces(broken.iter().map(|(number, _)| *number));
    match broken.into_iter().next() {
        Some((_, words)) => finding.line(format!("the first one's words: {words}")).into(),
        None => finding.into(),
    }
}

use hone_trace::rundir::RunDirError;
use hone_train::evaluate::Kind;

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "no_recovery",
    what: "No recovery from error answers: an episode in which a call fails is lost.",
    measure: "Held-out episodes after training with a failed call, at least 20: under 5 % of them succeed, while over 20 % \
              of the others do. Warning.",
    fix: "Include tasks with errors along the way, and warm up on demonstrations that carry on after one.",
    explains: &[],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let (mut failed, mut smooth): (Vec<(u64, bool)>, Vec<bool>) = Default::default();
    for (number, trace) in run.evaluated(Kind::Sampled)? {
        let Some(solved) = run.solved(&trace) else { continue };
        if trace.turns.iter().any(|turn| turn.failed > 0) {
            failed.push((number, solved));
        } else {
            smooth.push(solved);
        }
    }
    if failed.len() < 20 || smooth.is_empty() {
        return Looked::skipped("20 held-out episodes with a failed call");
    }
    let rate = |solved: usize, of: usize| solved as f64 / of as f64;
    let recovered = failed.iter().filter(|(_, solved)| *solved).count();
    let others = smooth.iter().filter(|solved| **solved).count();
    if rate(recovered, failed.len()) >= 0.05 || rate(others, smooth.len()) <= 0.2 {
        return Ok(Looked::Healthy);
    }
    let says = format!(
        "of {} held-out episodes with a failed call {recovered} succeed, of {} without one {others}",
        failed.len(),
        smooth.len()
    );
    Finding::new(Severity::Warning, says).traces(failed.into_iter().map(|(number, _)| number)).into()
}

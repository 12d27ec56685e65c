use hone_trace::rundir::RunDirError;
use hone_train::ledger::names::{TOKENS_SAMPLED, TOKENS_TRAINED};

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "nothing_trained",
    what: "No sampled token was trained on.",
    measure: "The sum of `tokens/trained` is 0.",
    fix: "Follow where the tokens went: zero advantage means no signal, faulted a broken environment, unscored a \
          failing scorer.",
    explains: &["gradients", "sharpening", "too_few_tasks", "reward_without_success"],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let (Some(trained), Some(sampled)) = (run.sum(TOKENS_TRAINED), run.sum(TOKENS_SAMPLED)) else {
        return Looked::skipped("a recorded step");
    };
    if trained > 0.0 {
        return Ok(Looked::Healthy);
    }
    let mut finding = Finding::new(Severity::Error, format!("of {sampled:.0} sampled tokens none was trained on"));
    for (fate, count) in run.report.tokens.fates.iter().filter(|(_, count)| **count > 0.0) {
        finding = finding.line(format!("{fate}: {count:.0} tokens; {}", fate.sentence()));
    }
    finding.into()
}

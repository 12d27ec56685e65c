use hone_trace::rundir::RunDirError;
use hone_train::ledger::names::LOSS_AVG_RAW_ADVANTAGES;

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "rejection_weighted",
    what: "Failures count for less than successes: that is rejection-weighted imitation, not GRPO.",
    measure: "`credit.negative` under 0.5. Note.",
    fix: "Remove credit.negative, or state its effect where you keep it.",
    explains: &[],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    match run.recipe.credit.negative {
        Some(negative) if negative < 0.5 => {
            let mean = run.mean(LOSS_AVG_RAW_ADVANTAGES);
            let finding = Finding::new(Severity::Note, format!("advantages under 0 count {negative}"));
            match mean {
                Some(mean) => finding.line(format!("the mean advantage is {mean:+.2} where GRPO's is 0")).into(),
                None => finding.into(),
            }
        }
        _ => Ok(Looked::Healthy),
    }
}

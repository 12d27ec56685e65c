use hone_arena::rewards::TOTAL;
use hone_trace::rundir::RunDirError;
use hone_train::ledger::names::BATCH_REWARD_COMPONENT;

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "reward_without_success",
    what: "The reward rises and held-out success does not: something else is paid for, or training tasks are \
           memorised.",
    measure: "The total rose by more than three standard errors and a tenth of its early value, while no held-out gain is \
              shown. Warning; error where held-out success fell.",
    fix: "Compare the components' windows in report.md: the one that rises is the one that is paid.",
    explains: &[],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let Some(total) = run.windows(BATCH_REWARD_COMPONENT.of([&TOTAL])) else {
        return Looked::skipped("a recorded step");
    };
    let Some(judgement) = &run.report.held_out.judgement else {
        return Looked::skipped("an evaluation before and one after training");
    };
    let rose = total.standard_error.is_some_and(|error| total.difference > 3.0 * error)
        && total.difference > 0.1 * total.first.abs();
    if !rose || judgement.sampled.is_gain() || judgement.greedy.is_gain() {
        return Ok(Looked::Healthy);
    }
    let fell = judgement.sampled.ci[1] < 0.0 || judgement.greedy.ci[1] < 0.0;
    let severity = if fell { Severity::Error } else { Severity::Warning };
    let says = format!(
        "the reward rose from {:.3} to {:.3} and held-out success changed by {:+.3}",
        total.first, total.last, judgement.sampled.mean
    );
    let mut finding = Finding::new(severity, says);
    for row in run.report.components.iter().filter(|row| row.name != TOTAL) {
        finding = finding.line(format!("`{}` {:.3} early, {:.3} late", row.name, row.first, row.last));
    }
    finding.into()
}

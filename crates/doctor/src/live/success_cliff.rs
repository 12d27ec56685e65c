use hone_trace::rundir::RunDirError;
use hone_train::ledger::names;

use super::Live;
use crate::check::{Check, Finding, Looked, Severity};

pub(super) const CHECK: Check<Live> = Check {
    name: "success_cliff",
    what: "Success drops sharply: the policy is degrading.",
    measure: "`reward/success_rate`, the mean of the last 4 steps under half of the best 8 in a row, which were \
              over 20 %. Error.",
    fix: "Stop, and resume from the best checkpoint with a lower learning rate or a KL penalty against the start \
          policy.",
    explains: &[],
    look,
};

fn look(live: &Live) -> Result<Looked, RunDirError> {
    let Some((best, now)) = live.peak(names::REWARD_SUCCESS_RATE) else {
        return Looked::skipped("`reward/success_rate` of 16 steps");
    };
    if !live.collapsed(now) {
        return Ok(Looked::Healthy);
    }
    Finding::new(Severity::Error, format!("training success fell from {best:.2} to {now:.2}")).into()
}

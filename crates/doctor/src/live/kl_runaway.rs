use hone_trace::rundir::RunDirError;
use hone_train::ledger::names;

use super::Live;
use crate::check::{Check, Finding, Looked, Severity};

pub(super) const CHECK: Check<Live> = Check {
    name: "kl_runaway",
    what: "The policy drifts far from its reference.",
    measure: "`policy/policy_kl` and `policy/kl_to_start`, per token, of the last step. Warning over 0.2 and over 1, \
              respectively.",
    fix: "Lower the learning rate, raise the KL's coefficient, or take fewer optimizer steps per batch.",
    explains: &[],
    look,
};

fn look(live: &Live) -> Result<Looked, RunDirError> {
    let metrics = [(names::POLICY_POLICY_KL, 0.2), (names::POLICY_KL_TO_START, 1.0)];
    for (metric, most) in metrics {
        if let Some(kl) = live.last(metric).filter(|kl| *kl > most) {
            return Finding::new(Severity::Warning, format!("`{}` is {kl:.3} per token", metric.name)).into();
        }
    }
    if metrics.iter().all(|(metric, _)| live.last(*metric).is_none()) {
        return Looked::skipped("`policy/policy_kl` or `policy/kl_to_start`");
    }
    Ok(Looked::Healthy)
}

use hone_trace::rundir::RunDirError;
use hone_train::ledger::names;

use super::Live;
use crate::check::{Check, Finding, Looked, Severity};

pub(super) const CHECK: Check<Live> = Check {
    name: "logprob_mismatch",
    what: "Sampler and learner disagree on the same tokens, or drift apart.",
    measure: "`policy/rollout_train_logprobs_abs_diff_mean` of the last step: warning from 0.02, error from 0.2; \
              the correlation: warning under 0.99, error under 0.9.",
    fix: "Compare the served weights and the prompt's tools with the trained ones; turn penalties and filters off.",
    explains: &[],
    look,
};

fn look(live: &Live) -> Result<Looked, RunDirError> {
    let Some(gap) = live.last(names::POLICY_ROLLOUT_TRAIN_LOGPROBS_ABS_DIFF_MEAN) else {
        return Looked::skipped("sampler logprobs beside the learner's");
    };
    let correlation = live.last(names::POLICY_ROLLOUT_TRAIN_LOGPROBS_CORR).unwrap_or(1.0);
    // Tokens that are trained late were sampled by an older policy: they differ by right.
    let stale = live.last(names::ASYNC_STALENESS_MEAN).unwrap_or(0.0) > 0.0;
    if stale || (gap < 0.02 && correlation >= 0.99) {
        return Ok(Looked::Healthy);
    }
    let severity = if gap >= 0.2 || correlation < 0.9 { Severity::Error } else { Severity::Warning };
    let first = live.early(names::POLICY_ROLLOUT_TRAIN_LOGPROBS_ABS_DIFF_MEAN).unwrap_or(gap);
    Finding::new(
        severity,
        format!("logprobs of sampler and learner differ by {gap:.3} per token, correlation {correlation:.3}"),
    )
    .line(format!("{first:.4} on average in the first steps"))
    .into()
}

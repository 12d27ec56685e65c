use hone_trace::rundir::RunDirError;
use hone_train::ledger::names::{POLICY_ROLLOUT_TRAIN_LOGPROBS_ABS_DIFF_MEAN, POLICY_ROLLOUT_TRAIN_LOGPROBS_CORR};

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "logprob_mismatch",
    what: "Sampler and learner disagree on the same tokens: another policy, prompt or distribution is served than \
           trained.",
    measure: "`policy/rollout_train_logprobs_abs_diff_mean` and `_corr`. Warning from a difference of 0.02 or a correlation \
              under 0.99, error from 0.2 or under 0.9.",
    fix: "Compare the served policy's version and the prompt's tools with the trained ones; turn penalties and \
          filters off.",
    explains: &["kl_runaway", "gradients", "reward_without_success"],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let Some(difference) = run.windows(POLICY_ROLLOUT_TRAIN_LOGPROBS_ABS_DIFF_MEAN) else {
        return Looked::skipped("sampler logprobs beside the learner's");
    };
    let correlation = run.windows(POLICY_ROLLOUT_TRAIN_LOGPROBS_CORR);
    let worst = difference.first.max(difference.last);
    let least = correlation.as_ref().map_or(1.0, |found| found.first.min(found.last));
    if worst < 0.02 && least >= 0.99 {
        return Ok(Looked::Healthy);
    }
    let severity = if worst >= 0.2 || least < 0.9 { Severity::Error } else { Severity::Warning };
    let says = format!("logprobs of sampler and learner differ by {worst:.3} per token on average");
    let mut finding =
        Finding::new(severity, says).line(format!("{:.4} early, {:.4} late", difference.first, difference.last));
    if let Some(found) = correlation {
        finding = finding.line(format!("correlation {:.4} early, {:.4} late", found.first, found.last));
    }
    if difference.last > 5.0 * difference.first.max(1e-4) {
        finding = finding.line("it grows: the sampler does not follow the learner's updates");
    }
    finding.into()
}

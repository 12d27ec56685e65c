use hone_trace::Trace;
use hone_trace::rundir::RunDirError;
use hone_train::first_update;
use hone_train::ledger::names::{POLICY_ROLLOUT_TRAIN_LOGPROBS_ABS_DIFF_MEAN, POLICY_ROLLOUT_TRAIN_LOGPROBS_CORR};

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "logprob_mismatch",
    what: "Sampler and learner disagree on the same tokens: the policy, prompt or distribution that is served is not \
           the trained one.",
    measure: "`policy/rollout_train_logprobs_abs_diff_mean` and `_corr`, and the same over the recorded logprobs of probed \
              episodes in the first optimizer step of their batch. Warning from a difference of 0.02 or a correlation under \
              0.99, error from 0.2 or under 0.9. Where episodes are sampled ahead (`async.staleness`), error from a \
              difference of 1 or a correlation under 0.5 alone.",
    fix: "Compare the served policy's version and the prompt's tools with the trained ones; turn penalties and \
          filters off.",
    explains: &["kl_runaway", "gradients", "reward_without_success"],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let difference = run.windows(POLICY_ROLLOUT_TRAIN_LOGPROBS_ABS_DIFF_MEAN);
    let correlation = run.windows(POLICY_ROLLOUT_TRAIN_LOGPROBS_CORR);
    let recorded = recorded(run)?;
    if difference.is_none() && recorded.is_none() {
        return Looked::skipped("sampler logprobs beside the learner's");
    }
    let counted = difference.as_ref().map_or(0.0, |found| found.first.max(found.last));
    let worst = recorded.as_ref().map_or(counted, |recorded| counted.max(recorded.difference));
    let counted = correlation.as_ref().map_or(1.0, |found| found.first.min(found.last));
    let found = recorded.as_ref().and_then(|recorded| recorded.correlation);
    let least = found.map_or(counted, |found| counted.min(found));
    // An older policy sampled these episodes: they differ by right, but not beyond recognition.
    let stale = run.recipe.overlap.staleness > 0;
    let (error, warning) = if stale { ((1.0, 0.5), (1.0, 0.5)) } else { ((0.2, 0.9), (0.02, 0.99)) };
    let severity = if worst >= error.0 || least < error.1 {
        Severity::Error
    } else if worst >= warning.0 || least < warning.1 {
        Severity::Warning
    } else {
        return Ok(Looked::Healthy);
    };
    let says = format!("logprobs of sampler and learner differ by {worst:.3} per token on average");
    let mut finding = Finding::new(severity, says);
    if let Some(found) = &difference {
        finding = finding.line(format!("{:.4} early, {:.4} late", found.first, found.last));
    }
    if let Some(found) = correlation {
        finding = finding.line(format!("correlation {:.4} early, {:.4} late", found.first, found.last));
    }
    if let Some(Recorded { tokens, difference, correlation, worst }) = recorded {
        let correlation = correlation.map_or_else(String::new, |found| format!(", correlation {found:.4}"));
        finding = finding.line(format!("{difference:.4}{correlation} over {tokens} recorded tokens")).traces(worst);
    }
    if difference.is_some_and(|found| found.last > 5.0 * found.first.max(1e-4)) {
        finding = finding.line("it grows: the sampler does not follow the learner's updates");
    }
    finding.into()
}

/// Logprobs of the sampler beside the learner's, over the tokens of probed episodes in the first optimizer step of their
/// batch: later ones meet a policy that earlier ones moved.
struct Recorded {
    tokens: usize,
    /// Mean of the absolute difference.
    difference: f64,
    /// `None` where one of the two hardly varies.
    correlation: Option<f64>,
    /// Episodes that differ most, first.
    worst: Vec<u64>,
}

fn recorded(run: &Run) -> Result<Option<Recorded>, RunDirError> {
    let (mut pairs, mut episodes) = (Vec::new(), Vec::new());
    for (step, range) in run.probed_steps() {
        let mut learned = run.step_episodes(&range)?;
        learned.retain(|(_, trace)| trace.lesson.as_ref().is_some_and(|lesson| !lesson.logprobs.is_empty()));
        for at in first_update(&run.recipe, step, learned.len()) {
            let (number, trace) = &learned[at];
            let both = both(trace);
            if !both.is_empty() {
                let apart = both.iter().map(|(a, b)| (a - b).abs()).sum::<f64>() / both.len() as f64;
                episodes.push((apart, *number));
            }
            pairs.extend(both);
        }
    }
    if pairs.is_empty() {
        return Ok(None);
    }
    episodes.sort_by(|a, b| b.0.total_cmp(&a.0));
    let tokens = pairs.len();
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / tokens as f64;
    let (a, b) = (mean(&|pair| pair.0), mean(&|pair| pair.1));
    let spread = (mean(&|pair| (pair.0 - a).powi(2)) * mean(&|pair| (pair.1 - b).powi(2))).sqrt();
    let together = mean(&|pair| (pair.0 - a) * (pair.1 - b));
    Ok(Some(Recorded {
        tokens,
        difference: mean(&|pair| (pair.0 - pair.1).abs()),
        correlation: (spread > 1e-4).then(|| together / spread),
        worst: episodes.iter().map(|(_, number)| *number).take(3).collect(),
    }))
}

/// The sampler's logprob and the learner's, by token.
fn both(trace: &Trace) -> Vec<(f64, f64)> {
    let sampled = trace.nodes().iter().filter_map(|node| node.as_sampled()).flat_map(|sampled| &sampled.logprobs);
    let learned = trace.lesson.iter().flat_map(|lesson| &lesson.logprobs);
    sampled.zip(learned).map(|(a, b)| (f64::from(*a), f64::from(*b))).collect()
}

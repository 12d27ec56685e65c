use hone_trace::rundir::RunDirError;
use hone_train::evaluate::Kind;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "scorer_errors",
    what: "A scorer's own failure is counted as the policy's: the reward is 0 and its reason is an error.",
    measure: "Success rewards of 0 in probed episodes and the last evaluation whose reason mentions a timeout, a \
              refused connection or an exception. Warning from 2 % of the scored episodes, error from 20 %.",
    fix: "Let the scorer report that it could not score (`unscored`, or an error) instead of 0.",
    explains: &["no_signal", "reward_without_success", "too_few_tasks"],
    look,
};

/// Words of programs that fail, not of answers that are wrong.
const WORDS: [&str; 12] = [
    "timed out",
    "timeout",
    "connection",
    "unavailable",
    "traceback",
    "exception",
    "http 5",
    "status 5",
    "rate limit",
    "refused",
    "judge is down",
    "could not be reached",
];

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let success = &run.recipe.eval.success;
    let mut episodes = run.probed()?;
    episodes.extend(run.evaluated(Kind::Sampled)?);
    let scored: Vec<_> = episodes
        .iter()
        .filter_map(|(number, trace)| {
            let reward = trace.rewards.iter().find(|reward| reward.component == *success)?;
            Some((*number, reward.value()?, reward.why().to_lowercase()))
        })
        .collect();
    if scored.is_empty() {
        return Looked::skipped("scored episodes");
    }
    let failed: Vec<_> =
        scored.iter().filter(|(_, value, why)| *value <= 0.0 && WORDS.iter().any(|word| why.contains(word))).collect();
    let rate = failed.len() as f64 / scored.len() as f64;
    let Some((_, _, why)) = failed.first().filter(|_| rate >= 0.02) else { return Ok(Looked::Healthy) };
    let severity = if rate < 0.2 { Severity::Warning } else { Severity::Error };
    Finding::new(
        severity,
        format!("{} scored episodes failed because their scorer did", share(failed.len(), scored.len())),
    )
    .line(format!("the first one's reason: {why}"))
    .traces(failed.iter().map(|(number, ..)| *number))
    .likely()
    .into()
}

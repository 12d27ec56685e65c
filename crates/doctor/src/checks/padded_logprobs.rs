use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "padded_logprobs",
    what: "Logprobs are missing and were filled in with 0: the learner treats every token as certain.",
    measure: "Sampled replies of at least 4 tokens at a temperature over 0 whose logprobs are all exactly 0. \
              Warning from 20 % of the probed ones, error from 80 %.",
    fix: "Ask the sampler for the logprobs of the tokens it sampled; a reply without them cannot be trained on.",
    explains: &["logprob_mismatch", "kl_runaway", "entropy_collapse"],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let (mut all, mut padded) = (0, Vec::new());
    for (number, trace) in run.probed()?.iter().filter(|(_, trace)| trace.sampling.temperature > 0.0) {
        for sampled in trace.nodes().iter().filter_map(|node| node.as_sampled()).filter(|s| s.logprobs.len() >= 4) {
            all += 1;
            if sampled.logprobs.iter().all(|logprob| *logprob == 0.0) {
                padded.push(*number);
            }
        }
    }
    if all == 0 {
        return Looked::skipped("sampled replies of at least 4 tokens");
    }
    let rate = padded.len() as f64 / f64::from(all);
    if rate < 0.2 {
        return Ok(Looked::Healthy);
    }
    let severity = if rate < 0.8 { Severity::Warning } else { Severity::Error };
    Finding::new(severity, format!("{} replies have a logprob of 0 for every token", share(padded.len(), all as usize)))
        .traces(padded)
        .into()
}

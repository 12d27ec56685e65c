use std::collections::HashMap;

use hone_trace::Trace;
use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "repeated_episodes",
    what: "Episodes are trained on twice: a later step repeats those of an earlier one instead of sampling new ones.",
    measure: "Episodes of the probed steps whose task, seed, sampled tokens and logprobs are those of an episode of an \
              earlier step: bits that no policy gives twice. Warning, error from 20 % of the episodes.",
    fix: "Sample anew for every step; look for a rollout cache, a buffer that is not emptied, or steps that were copied.",
    explains: &["records", "policy_frozen", "served_name", "staleness", "no_signal", "reward_without_success"],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let mut seen: HashMap<Vec<u32>, (u64, u64)> = HashMap::new();
    let (mut all, mut again) = (0usize, Vec::new());
    for (step, range) in run.probed_steps() {
        for (number, trace) in run.step_episodes(&range)? {
            let Some(print) = print(&trace) else { continue };
            all += 1;
            match seen.get(&print) {
                Some((first, of)) if *first != step => again.push((number, step, *of, *first)),
                Some(_) => {}
                None => _ = seen.insert(print, (step, number)),
            }
        }
    }
    if all == 0 {
        return Looked::skipped("episodes with sampled tokens");
    }
    let Some((number, step, of, first)) = again.first() else { return Ok(Looked::Healthy) };
    let severity = if 5 * again.len() < all { Severity::Warning } else { Severity::Error };
    Finding::new(severity, format!("{} probed episodes are those of an earlier step", share(again.len(), all)))
        .line(format!(
            "episode {number} of step {step} is episode {of} of step {first}: same seed, tokens and logprobs"
        ))
        .traces([*of].into_iter().chain(again.iter().map(|(number, ..)| *number)))
        .into()
}

/// Task, seed, tokens and logprobs of an episode; `None` where no token was sampled.
fn print(trace: &Trace) -> Option<Vec<u32>> {
    let mut print = vec![trace.seed as u32, (trace.seed >> 32) as u32];
    for (_, node) in trace.sampled() {
        print.extend(node.tokens());
        print.extend(node.as_sampled()?.logprobs.iter().map(|logprob| logprob.to_bits()));
    }
    let sampled = print.len() > 2;
    print.extend(trace.task.bytes().map(u32::from));
    sampled.then_some(print)
}

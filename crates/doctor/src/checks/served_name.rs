use std::collections::BTreeMap;

use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "served_name",
    what: "The sampler serves a different policy from the one being trained: its tokens carry another name.",
    measure: "The run that the sampled tokens' versions name, against the recipe's name, over probed episodes. Error.",
    fix: "Ask the server for the policy under training: a base model under its own name never changes.",
    explains: &["policy_frozen", "logprob_mismatch", "staleness", "no_signal", "reward_without_success"],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let name = run.recipe.name.as_str();
    let (mut all, mut others): (usize, BTreeMap<String, Vec<u64>>) = Default::default();
    for (number, trace) in run.probed()? {
        let sampled = trace.nodes().iter().filter_map(|node| node.as_sampled());
        let mut versions = sampled.flat_map(|sampled| &sampled.versions).map(|(version, _)| version).peekable();
        all += usize::from(versions.peek().is_some());
        if let Some(other) = versions.find(|version| *version.run != *name) {
            others.entry(other.run.to_string()).or_default().push(number);
        }
    }
    if all == 0 {
        return Looked::skipped("episodes with sampled tokens");
    }
    let Some((other, numbers)) = others.into_iter().max_by_key(|(_, numbers)| numbers.len()) else {
        return Ok(Looked::Healthy);
    };
    let says = format!("{} episodes were sampled by {other:?}, and {name:?} is trained", share(numbers.len(), all));
    Finding::new(Severity::Error, says).traces(numbers).into()
}

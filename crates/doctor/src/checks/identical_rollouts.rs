use std::collections::BTreeMap;

use hone_trace::Trace;
use hone_trace::rundir::RunDirError;
use hone_train::ledger::names::POLICY_POLICY_ENTROPY;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "identical_rollouts",
    what: "No exploration: the episodes of a group are the same, token for token, so that none is better than another.",
    measure: "Groups of the probed steps, those solved by every episode aside, whose episodes all sampled the same ids. \
              Warning from 30 %, error from 80 %.",
    fix: "Sample at temperature 1 without top_k; look for a fixed seed where the temperature is right.",
    explains: &["no_signal", "nothing_trained", "entropy_collapse", "sampling_mismatch"],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let mut groups: BTreeMap<(u64, String), Vec<(u64, Trace)>> = BTreeMap::new();
    // Episodes of a group stand together: a task that comes again in a later step starts a new one.
    let mut place = 0;
    let mut last: Option<(String, u32)> = None;
    for (number, trace) in run.probed()? {
        let again = last.as_ref().is_some_and(|(task, replica)| *task == trace.task && *replica < trace.replica);
        place += u64::from(!again);
        last = Some((trace.task.clone(), trace.replica));
        groups.entry((place, trace.task.clone())).or_default().push((number, trace));
    }
    let groups: Vec<_> = groups.into_values().filter(|group| group.len() > 1).collect();
    if groups.is_empty() {
        return Looked::skipped("groups of at least two recorded episodes");
    }
    // A task that is solved every time needs no exploration, and of one that nobody scored it is not known.
    let failed = |group: &Vec<(u64, Trace)>| group.iter().any(|(_, trace)| run.solved(trace) == Some(false));
    let groups: Vec<_> = groups.into_iter().filter(failed).collect();
    let sampled =
        |trace: &Trace| -> Vec<u32> { trace.sampled().flat_map(|(_, node)| node.tokens().iter().copied()).collect() };
    let alike = |group: &&Vec<(u64, Trace)>| {
        let first = sampled(&group[0].1);
        group.iter().all(|(_, trace)| sampled(trace) == first)
    };
    let same: Vec<&Vec<(u64, Trace)>> = groups.iter().filter(alike).collect();
    let rate = same.len() as f64 / groups.len().max(1) as f64;
    let Some(example) = same.first().filter(|_| rate >= 0.3) else { return Ok(Looked::Healthy) };
    let severity = if rate < 0.8 { Severity::Warning } else { Severity::Error };
    let sampling = &example[0].1.sampling;
    let one_seed = example.iter().all(|(_, trace)| trace.seed == example[0].1.seed);
    let (why, fix) = if sampling.temperature == 0.0 {
        ("the temperature is 0".to_owned(), "Set sampling.temperature to 1.")
    } else if sampling.top_k == 1 {
        ("top_k is 1".to_owned(), "Set sampling.top_k to 0.")
    } else if one_seed {
        ("the episodes of a group have one seed".to_owned(), "Give every episode a seed of its own.")
    } else {
        let entropy = run.mean(POLICY_POLICY_ENTROPY);
        let entropy = entropy.map_or_else(|| "unknown".into(), |entropy| format!("{entropy:.4}"));
        (
            format!("the policy is sure of every token: entropy {entropy} at temperature {}", sampling.temperature),
            "Start from a policy that is less sure, or raise sampling.temperature.",
        )
    };
    Finding::new(
        severity,
        format!("{} groups with a failure have one episode over and over", share(same.len(), groups.len())),
    )
    .line(why)
    .traces(example.iter().map(|(number, _)| *number))
    .fix(fix)
    .into()
}

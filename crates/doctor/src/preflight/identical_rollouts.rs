use hone_trace::Trace;
use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "identical_rollouts",
    what: "No exploration: the episodes of a group are the same, token for token, so that none is better than another.",
    measure: "Groups of the start policy, those solved by every episode aside, whose episodes all sampled the same \
              ids. Warning from 30 %, error from 80 %.",
    fix: "Sample at temperature 1 without top_k; look for a fixed seed where the temperature is right.",
    explains: &["no_signal"],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(played) = probe.played.known() else { return probe.played.skipped("episodes of the start policy") };
    let success = &probe.recipe.eval.success;
    let open = |group: &&Vec<Trace>| group.len() > 1 && !group.iter().all(|t| t.reward(success) == Some(1.0));
    let groups: Vec<&Vec<Trace>> = played.groups.iter().filter(open).collect();
    if groups.is_empty() {
        return Looked::skipped("a group with a failure");
    }
    let ids =
        |trace: &Trace| -> Vec<u32> { trace.sampled().flat_map(|(_, node)| node.tokens().iter().copied()).collect() };
    let alike =
        |group: &&&Vec<Trace>| !ids(&group[0]).is_empty() && group.iter().all(|trace| ids(trace) == ids(&group[0]));
    let same: Vec<_> = groups.iter().filter(alike).collect();
    let rate = same.len() as f64 / groups.len() as f64;
    let Some(example) = same.first().filter(|_| rate >= 0.3) else { return Ok(Looked::Healthy) };
    let severity = if rate < 0.8 { Severity::Warning } else { Severity::Error };
    let sampling = &example[0].sampling;
    let entropy = played.entropy.unwrap_or(0.0);
    let (why, fix) = if sampling.temperature < 0.05 {
        (format!("the temperature is {}", sampling.temperature), "Set sampling.temperature to 1.")
    } else if sampling.top_k == 1 {
        ("sampling.top_k is 1".to_owned(), "Set sampling.top_k to 0.")
    } else if sampling.top_p < 0.05 || sampling.min_p > 0.9 {
        (
            format!("top_p {} and min_p {} leave one token", sampling.top_p, sampling.min_p),
            "Leave sampling.top_p and sampling.min_p out.",
        )
    } else if example.iter().all(|trace| trace.seed == example[0].seed) {
        ("the episodes of a group have one seed".to_owned(), "Give every episode a seed of its own.")
    } else {
        (
            format!("the policy is sure of every token: entropy {entropy:.4} at temperature {}", sampling.temperature),
            "Start from a policy that is less sure, or raise sampling.temperature.",
        )
    };
    let numbered = played.episodes().filter(|(_, trace)| trace.task == example[0].task).map(|(number, _)| number);
    Finding::new(
        severity,
        format!("{} groups with a failure are one episode over and over", share(same.len(), groups.len())),
    )
    .line(why)
    .traces(numbered)
    .fix(fix)
    .into()
}

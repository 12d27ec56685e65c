use std::collections::BTreeMap;

use hone_arena::rewards::TOTAL;
use hone_trace::rundir::RunDirError;
use hone_train::ledger::names::BATCH_REWARD_COMPONENT;

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "dead_component",
    what: "A reward component carries weight and no gradient: within groups it does not vary.",
    measure: "A component with at least 10 % of the weights whose mean share of the advantages' variance is under 1 %, \
              by the metrics or by the recorded rewards of probed episodes, while others have one. Warning.",
    fix: "Drop it, or set its weight to 0 to keep monitoring it; a component that should tell episodes apart is \
          broken.",
    explains: &[],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let weights = run.weights();
    let sum: f64 = weights.iter().map(|(_, weight)| weight.abs()).sum();
    let mut shares = run.report.advantage_shares.clone();
    if shares.is_empty() || sum == 0.0 {
        return Looked::skipped("a step with signal");
    }
    for (name, share) in recorded(run, &weights)? {
        let counted = shares.entry(name).or_insert(share);
        if share.abs() < counted.abs() {
            *counted = share;
        }
    }
    let dead: Vec<_> = weights
        .iter()
        .filter(|(name, weight)| weight.abs() >= 0.1 * sum && shares.get(name).is_some_and(|share| share.abs() < 0.01))
        .collect();
    let Some((name, weight)) = dead.first() else { return Ok(Looked::Healthy) };
    let says = format!(
        "`{name}` has {:.0} % of the weight and {:.1} % of the advantages' variance",
        100.0 * weight.abs() / sum,
        100.0 * shares[name].abs()
    );
    let mut finding = Finding::new(Severity::Warning, says);
    for (name, _) in &dead {
        if let Some(row) = run.windows(BATCH_REWARD_COMPONENT.of([name])) {
            finding = finding.line(format!("`{name}` means {:.3} early and {:.3} late", row.first, row.last));
        }
    }
    finding.into()
}

/// Groups that differ in their totals, of which a share is told.
const GROUPS: usize = 8;

/// The components' covariance with the total within groups, over the total's variance, in probed episodes. Empty where
/// too few groups vary.
fn recorded(run: &Run, weights: &[(String, f64)]) -> Result<BTreeMap<String, f64>, RunDirError> {
    let (mut varied, mut variance, mut shares) = (0, 0.0, BTreeMap::<String, f64>::new());
    for (_, range) in run.probed_steps() {
        let mut groups: BTreeMap<String, Vec<Vec<f64>>> = BTreeMap::new();
        for (_, trace) in run.step_episodes(&range)? {
            // A component without a value would need to be shared out again: such an episode tells nothing here.
            let values: Option<Vec<f64>> = [TOTAL]
                .into_iter()
                .chain(weights.iter().map(|(name, _)| &**name))
                .map(|name| trace.reward(name))
                .collect();
            groups.entry(trace.task.clone()).or_default().extend(values);
        }
        for group in groups.values().filter(|group| group.iter().any(|values| values[0] != group[0][0])) {
            varied += 1;
            let n = group.len() as f64;
            let mean = |at: usize| group.iter().map(|values| values[at]).sum::<f64>() / n;
            let with_total =
                |at: usize| group.iter().map(|values| (values[at] - mean(at)) * (values[0] - mean(0))).sum::<f64>();
            variance += with_total(0);
            for (at, (name, weight)) in weights.iter().enumerate() {
                *shares.entry(name.clone()).or_default() += weight * with_total(at + 1);
            }
        }
    }
    if varied < GROUPS || variance <= 0.0 {
        return Ok(BTreeMap::new());
    }
    Ok(shares.into_iter().map(|(name, share)| (name, share / variance)).collect())
}

use hone_trace::rundir::RunDirError;
use hone_train::ledger::names::BATCH_REWARD_COMPONENT;

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "dead_component",
    what: "A reward component carries weight and no gradient: within groups it does not vary.",
    measure: "A component with at least 10 % of the weights whose mean share of the advantages' variance is under 1 %, \
              while others have one. Warning.",
    fix: "Drop it, or set its weight to 0 to go on watching it; a component that should tell episodes apart is broken.",
    explains: &[],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let weights = run.weights();
    let sum: f64 = weights.iter().map(|(_, weight)| weight.abs()).sum();
    let shares = &run.report.advantage_shares;
    if shares.is_empty() || sum == 0.0 {
        return Looked::skipped("a step with signal");
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

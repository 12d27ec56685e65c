use hone_trace::rundir::RunDirError;
use hone_train::ledger::names;

use super::Live;
use crate::check::{Check, Finding, Looked, Severity};

pub(super) const CHECK: Check<Live> = Check {
    name: "dead_component",
    what: "A reward component carries weight and no gradient: within groups it does not vary.",
    measure: "Components with at least 10 % of the weights whose share of the advantages' variance stayed under 1 % \
              in the last 8 steps, while others have one. Note.",
    fix: "Drop it, or set its weight to 0 to keep monitoring it; a component that should tell episodes apart is \
          broken.",
    explains: &[],
    look,
};

fn look(live: &Live) -> Result<Looked, RunDirError> {
    if live.seen() < 2 * super::WINDOW {
        return Looked::skipped("16 steps");
    }
    let sum: f64 = live.weights().iter().map(|(_, weight)| weight.abs()).sum();
    let share = |name: &str| live.late(names::BATCH_REWARD_COMPONENT_ADVANTAGE_SHARE.of([&name]));
    let heavy = live.weights().iter().filter(|(_, weight)| weight.abs() >= 0.1 * sum);
    let dead =
        heavy.filter_map(|(name, weight)| Some((name, weight, share(name)?))).find(|(.., share)| share.abs() < 0.01);
    match dead {
        Some((name, weight, share)) => {
            let says = format!(
                "`{name}` has {:.0} % of the weight and {:.1} % of the advantages' variance",
                100.0 * weight.abs() / sum,
                100.0 * share.abs()
            );
            Finding::new(Severity::Note, says).into()
        }
        None => Ok(Looked::Healthy),
    }
}

use hone_trace::rundir::RunDirError;
use hone_train::ledger::names;

use super::Live;
use crate::check::{Check, Finding, Looked, Severity};

pub(super) const CHECK: Check<Live> = Check {
    name: "no_signal",
    what: "Groups without variance: there is nothing to learn from.",
    measure: "`reward/signal_ratio`, the mean of the last 8 steps. Warning under 5 %, unless over 90 % of the \
              episodes succeed.",
    fix: "Mix in easier tasks or a shaped component, or sample larger groups; plan.zero_variance = \"replace\" \
          samples other tasks.",
    explains: &[],
    look,
};

const COLLAPSED: &str = "The policy has lost what it could do: go back to a checkpoint from before the drop, with a lower \
                         train.learning_rate or larger groups.";

fn look(live: &Live) -> Result<Looked, RunDirError> {
    if live.seen() < super::WINDOW {
        return Looked::skipped("8 steps");
    }
    let Some(ratio) = live.late(names::REWARD_SIGNAL_RATIO) else { return Looked::skipped("`reward/signal_ratio`") };
    let solved = live.late(names::REWARD_SUCCESS_RATE).unwrap_or(0.0);
    if ratio >= 0.05 {
        return Ok(Looked::Healthy);
    }
    if solved > 0.9 {
        return Finding::new(
            Severity::Note,
            format!("{:.0} % of the episodes succeed: little is left to learn here", 100.0 * solved),
        )
        .into();
    }
    let says = format!("{:.1} % of the groups have any variance in reward", 100.0 * ratio);
    let finding = Finding::new(Severity::Warning, says);
    // Tasks that the policy could do have not become harder.
    if live.collapsed(solved) { finding.fix(COLLAPSED).into() } else { finding.into() }
}

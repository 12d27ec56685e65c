//! Overlong filtering: episodes a length limit cut short are not trained, but their rewards were counted.

use hone_trace::{Advantage, Group, Limit, NoSignal, Outcome};

/// Removes the advantage of every overlong trace. Applied after credit, so that the statistics still include them.
pub fn mask_overlong(groups: &[Group], advantages: &mut [Vec<Advantage>]) {
    for (group, advantages) in groups.iter().zip(advantages) {
        for (trace, advantage) in group.traces().iter().zip(advantages) {
            let overlong = matches!(trace.outcome, Outcome::Truncated { limit: Limit::Context | Limit::ReplyTokens });
            if overlong && !matches!(advantage, Advantage::None { .. }) {
                *advantage = Advantage::None { why: NoSignal::Overlong };
            }
        }
    }
}

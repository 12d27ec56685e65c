use std::collections::BTreeMap;

use hone_arena::rewards::TOTAL;
use hone_trace::Trace;
use hone_trace::rundir::RunDirError;
use hone_train::ledger::names::{GENERATE_AVG_NUM_TOKENS, REWARD_SUCCESS_RATE};

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "length_paid",
    what: "Replies grow and the reward pays for it, while success does not rise.",
    measure: "`generate/avg_num_tokens` late at least 1.5 times early, the correlation of an episode's tokens and total \
              within groups over 0.2, and training success up by less than 5 points. Warning.",
    fix: "Find the component that pays for length; bound it, or make the total a product with success.",
    explains: &["truncated"],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let (Some(tokens), Some(success)) = (run.windows(GENERATE_AVG_NUM_TOKENS), run.windows(REWARD_SUCCESS_RATE)) else {
        return Looked::skipped("a recorded step");
    };
    if tokens.last < 1.5 * tokens.first || success.difference >= 0.05 {
        return Ok(Looked::Healthy);
    }
    let Some(correlation) = within_groups(&run.probed()?) else { return Ok(Looked::Healthy) };
    if correlation < 0.2 {
        return Ok(Looked::Healthy);
    }
    let says = format!(
        "episodes grew from {:.0} to {:.0} sampled tokens and longer ones earn more, while success went from {:.2} to {:.2}",
        tokens.first, tokens.last, success.first, success.last
    );
    Finding::new(Severity::Warning, says)
        .line(format!("correlation of tokens and total within groups: {correlation:.2}"))
        .into()
}

/// Pearson's correlation of length and total, each less its group's mean.
fn within_groups(episodes: &[(u64, Trace)]) -> Option<f64> {
    let mut groups: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for (_, trace) in episodes {
        let length: usize = trace.sampled().map(|(_, node)| node.tokens().len()).sum();
        if let Some(total) = trace.reward(TOTAL) {
            groups.entry(&trace.task).or_default().push((length as f64, total));
        }
    }
    let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
    for group in groups.values() {
        let n = group.len() as f64;
        let (mx, my) = (group.iter().map(|p| p.0).sum::<f64>() / n, group.iter().map(|p| p.1).sum::<f64>() / n);
        for (x, y) in group {
            xy += (x - mx) * (y - my);
            xx += (x - mx) * (x - mx);
            yy += (y - my) * (y - my);
        }
    }
    (xx > 0.0 && yy > 0.0).then(|| xy / (xx * yy).sqrt())
}
